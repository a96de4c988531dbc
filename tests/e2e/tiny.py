# SPDX-License-Identifier: Apache-2.0
"""A tiny model that talks: a golden's weights with a byte-level tokenizer and a chat template made
here. What it says is noise; how it is said is what the tests look at."""
import json
import os

from command import GOLDENS

SPECIAL = ["<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n<tools>\n{% for t in tools %}{{ t|tojson }}\n{% endfor %}"
    "</tools>\n<tool_call>\n{\"name\": NAME, \"arguments\": OBJECT}\n</tool_call><|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def byte_letters():
    """The byte-level alphabet: a printable letter for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    for n, b in enumerate(b for b in range(256) if b not in letters):
        letters[b] = chr(256 + n)
    return [letters[b] for b in range(256)]


def write_tokenizer(folder, with_template=True):
    # The weights have 320 rows: the last ones get names that no text is cut into.
    tokens = byte_letters() + SPECIAL + ["row%d" % i for i in range(258, 320)]
    added = [{"id": 256 + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, s in enumerate(SPECIAL)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)}, "merges": []}}
    config = {"eos_token": "<|im_end|>"}
    if with_template:
        config["chat_template"] = TEMPLATE
    for name, value in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(value, f)


def make(folder, case="llama", with_template=True, context=None):
    """A whole checkpoint folder; context: positions to claim instead of the golden's own."""
    os.symlink(os.path.join(GOLDENS, case, "model.safetensors"),
               os.path.join(folder, "model.safetensors"))
    with open(os.path.join(GOLDENS, case, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    if context:
        config["max_position_embeddings"] = context
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    write_tokenizer(folder, with_template)
    return folder
