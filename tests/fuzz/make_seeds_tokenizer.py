#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seed corpora of fuzz_tokenizer_json and fuzz_tokenize: small files, each with a feature of its own.

Standard library only. Writes tests/fuzz/corpus/{fuzz_tokenizer_json,fuzz_tokenize}/; running it twice gives
the same bytes. Inputs that a fuzzer found are kept beside them under other names.
"""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120a": 4, "c": 5, "<s>": 6, "\u2581": 7, "<0x41>": 8}
ADDED = [{"id": 6, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False,
          "normalized": False, "special": True}]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}


def tokenizer(**changes):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": False, "vocab": VOCAB, "merges": [["a", "b"], ["\u0120", "a"]]}
    model.update(changes.pop("model", {}))
    out = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": ADDED, "normalizer": None,
           "pre_tokenizer": BYTE_LEVEL, "post_processor": None, "decoder": {"type": "ByteLevel"}, "model": model}
    out.update(changes)
    return json.dumps(out, ensure_ascii=False).encode()


def sequence(member, *parts):
    return {"type": "Sequence", member: list(parts)}


def split(expr, behavior="Isolated"):
    return {"type": "Split", "pattern": {"Regex": expr}, "behavior": behavior, "invert": False}


TEMPLATE = {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [6], "tokens": ["<s>"]}}}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
FILES = {
    "plain": tokenizer(),
    "string-merges": tokenizer(model={"merges": ["a b", "\u0120 a"]}),
    "whole-words": tokenizer(model={"ignore_merges": True}),
    "nfc": tokenizer(normalizer={"type": "NFC"}),
    "nfkd-lower": tokenizer(normalizer=sequence("normalizers", {"type": "NFKD"}, {"type": "Lowercase"})),
    "expr": tokenizer(pre_tokenizer=sequence("pretokenizers", split("(?=b)|c+", "MergedWithNext"), BYTE_LEVEL)),
    "digits": tokenizer(pre_tokenizer=sequence("pretokenizers", {"type": "Digits", "individual_digits": True},
                                               BYTE_LEVEL)),
    "template": tokenizer(post_processor=TEMPLATE),
    "fallback": tokenizer(normalizer=sequence("normalizers", {"type": "Prepend", "prepend": "\u2581"}, REPLACE),
                          pre_tokenizer=None,
                          decoder=sequence("decoders", {"type": "Replace", "pattern": {"String": "\u2581"},
                                                        "content": " "}, {"type": "ByteFallback"},
                                           {"type": "Fuse"},
                                           {"type": "Strip", "content": " ", "start": 1, "stop": 0}),
                          model={"byte_fallback": True, "unk_token": "c", "fuse_unk": True}),
    "metaspace": tokenizer(pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first",
                                          "split": True},
                           decoder={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}),
    "flags": tokenizer(added_tokens=ADDED + [{"id": 9, "content": "tag", "single_word": True, "lstrip": True,
                                              "rstrip": True, "normalized": True, "special": False}]),
    "panic-stride": tokenizer(truncation={"max_length": 8, "stride": 8, "strategy": "LongestFirst",
                                          "direction": "Right"}),
    "panic-template": tokenizer(post_processor=dict(TEMPLATE, special_tokens={})),
    "panic-merge": tokenizer(model={"merges": [["ab", "<s>"]]}),
    "panic-strip": tokenizer(decoder={"type": "Strip", "content": "a", "start": 5, "stop": 5}),
    "panic-length": tokenizer(pre_tokenizer={"type": "FixedLength", "length": 0}),
    "panic-charsmap": tokenizer(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
    "unigram": tokenizer(model={"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": 0}),
    "hole": tokenizer(model={"vocab": dict(VOCAB, far=60000)}),
    "cut": tokenizer()[:200],
}
TEXTS = ["Hello, world!", "don't  we'LL 123456 \n\n x", "aaaaaaaaaaaaaaa", "e\u0301\u0323 \uac00\u11a8 \ufb01",
         "<|s|>a tag<|s|> tag ", "\u4f60\u597d\u3002 \U0001f44d\U0001f3fd", "HTTPResponse2Go/\r\n", "\x00\x01 \x7f",
         "\u01c5 \u2167\u00bd", "    leading"]


def write(folder, name, data):
    path = os.path.join(HERE, "corpus", folder)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, name), "wb") as out:
        out.write(data)


def main():
    for name, data in FILES.items():
        write("fuzz_tokenizer_json", name + ".json", data)
    n = 0
    for pipeline in range(7):
        for i, text in enumerate(TEXTS):
            if (i + pipeline) % 3 == 0:
                write("fuzz_tokenize", "text-%02d.bin" % n, bytes([pipeline, (i + pipeline) % 4, 3 + i]) + text.encode())
                n += 1
        write("fuzz_tokenize", "broken-%d.bin" % pipeline, bytes([pipeline, 3, 2]) + b"a\xff\xe2\x82 \xc3\xed\xa0\x80<|s|>")


main()
