#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seed corpora of fuzz_tokenizer_json, fuzz_tokenizer_image and fuzz_tokenize: small files, each with a feature of its own.

Standard library only. Writes tests/fuzz/corpus/{fuzz_tokenizer_json,fuzz_tokenizer_image,fuzz_tokenize}/; running it twice gives
the same bytes. Inputs that a fuzzer found are kept beside them under other names.
"""
import base64
import json
import os
import struct

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
WORDPIECE = {"type": "WordPiece", "unk_token": "[U]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9,
             "vocab": {"[U]": 0, "a": 1, "##b": 2, "hello": 3, ".": 4, "##": 5}}
UNIGRAM = {"type": "Unigram", "unk_id": 0, "byte_fallback": True,
           "vocab": [["<unk>", 0.0], ["a", -1.5], ["\u2581a", -2.0], ["ab", -2.25], ["ab", -2.5], ["<0xFF>", -9.0]]}


def without_merges(model):
    root = json.loads(tokenizer())
    root["model"] = model
    return root


def wordpiece():
    root = without_merges(WORDPIECE)
    root.update(normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                            "strip_accents": None, "lowercase": True},
                pre_tokenizer={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True})
    return json.dumps(root).encode()


def unigram():
    root = without_merges(UNIGRAM)
    blob = bytearray(struct.pack("<I", 2048)) + bytearray(2048) + b"b\0"
    struct.pack_into("<I", blob, 4, 256 << 10)
    struct.pack_into("<I", blob, 4 + 4 * (256 ^ 66), (256 ^ 66 ^ 400) << 10 | 0x100 | 66)
    struct.pack_into("<I", blob, 4 + 4 * 400, 0x80000000)
    root.update(normalizer=sequence("normalizers", {"type": "Nmt"}, {"type": "StripAccents"},
                                    {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bytes(blob)).decode()}),
                pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
                decoder={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"})
    return json.dumps(root).encode()


def field(number, wire, payload):
    head = bytes([number << 3 & 127 | wire]) if number < 16 else bytes([number << 3 & 127 | wire | 128, number >> 4])
    return head + (bytes([len(payload)]) + payload if wire == 2 else payload)


def sentencepiece(model_type):
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("a", -1.0, 1), ("\u2581a", -0.5, 1), ("ab", -2.0, 1),
              ("b", -3.0, 1), ("<0xFF>", 0.0, 6), ("tag", 0.0, 4)]
    out = b""
    for text, score, kind in pieces:
        out += field(1, 2, field(1, 2, text.encode()) + field(2, 5, struct.pack("<f", score)) + field(3, 0, bytes([kind])))
    out += field(2, 2, field(3, 0, bytes([model_type])) + field(35, 0, b"\1"))
    return b"s" + out + field(3, 2, field(1, 2, b"identity") + field(3, 0, b"\1") + field(4, 0, b"\1"))


def ranks():
    tokens = [bytes([b]) for b in range(256)] + [b"ab", b"aa", b"abab", b" a"]
    return b"t" + b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens))


def tekken():
    tokens = [b"a", b"b", b"ab", b" ", b" a"]
    return b"k" + json.dumps({"config": {"pattern": "\\w+| ", "default_vocab_size": 8, "default_num_special_tokens": 3},
                              "vocab": [{"rank": i, "token_bytes": base64.b64encode(t).decode()} for i, t in enumerate(tokens)],
                              "special_tokens": [{"rank": 1, "token_str": "<s>", "is_control": True}]}).encode()


FILES["wordpiece"] = wordpiece()
FILES["unigram-full"] = unigram()
OTHERS = {"sentencepiece-unigram": sentencepiece(1), "sentencepiece-bpe": sentencepiece(2), "tiktoken": ranks(), "tekken": tekken(),
          "vocab": b"v" + json.dumps(VOCAB).encode() + b"\0#version: 0.2\na b\n\xc4\xa0 a\n"}
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
    for name, data in OTHERS.items():
        write("fuzz_tokenizer_json", name + ".bin", data)
    n = 0
    for pipeline in range(9):
        for i, text in enumerate(TEXTS):
            if (i + pipeline) % 3 == 0:
                write("fuzz_tokenize", "text-%02d.bin" % n, bytes([pipeline, (i + pipeline) % 4, 3 + i]) + text.encode())
                n += 1
        write("fuzz_tokenize", "broken-%d.bin" % pipeline, bytes([pipeline, 3, 2]) + b"a\xff\xe2\x82 \xc3\xed\xa0\x80<|s|>")
    for kind in range(4):
        write("fuzz_tokenizer_image", "whole-%d.bin" % kind, bytes([kind]))
        write("fuzz_tokenizer_image", "cut-%d.bin" % kind, bytes([kind]) + struct.pack("<I", 70000 + kind * 4000)[:3])
        for i, (place, how, value) in enumerate(((0, 2, 1), (44, 2, 0xFFFF), (66112, 4 | 2, 1), (66200, 3, 300),
                                                 (900, 8 | 3, 0xFFFF), (1800, 8 | 4 | 2, 0))):
            write("fuzz_tokenizer_image", "change-%d-%d.bin" % (kind, i),
                  bytes([kind]) + struct.pack("<IBH", place, how, value))


main()
