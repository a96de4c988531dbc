# SPDX-License-Identifier: Apache-2.0
"""Random texts against the reference library (Hugging Face tokenizers).

    make_random.py golden OUT                    writes random.bin (20,000 texts, all kinds of this folder)
    make_random.py runs OUT                      writes runs.json (long runs of one thing, all kinds)
    make_random.py run BENCH KIND-OR-FILE N [SEED]  N texts through `bench_tokenizer serve` and the
                                                 reference; prints the first differences, exits 1 on any

Texts are made of pieces: characters of all scripts, runs of combining marks, controls, every kind of
white space, digits, words, punctuation, emoji sequences, and the vocabulary's added tokens glued to
whatever stands beside them.

random.bin: "TDMR1\\n", u32 n, n times (u16 bytes, text); u32 kinds, for each: u8 length, name, n times u32
FNV-1a over the ids (special tokens parsed, none added; 32-bit little-endian), the ids with special
tokens added, and the decoded text."""
import array
import json
import os
import random
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(ROOT, "bench", "macro"))

SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\r", "\u00a0", "\u2003", "\u3000", "\u0085", "\u2028", "\u200b",
          "\u1680", "\x0b", "\x0c", " \n", "\n ", "\ufeff", "\u202f", "\u2009"]
PUNCT = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["...", "--", "'s", "'LL", "'t", "\u2019s", "'\u017f", "\u2026", "\u3002", "\uff0c", "\u00bf", "\u2581", "##", "</w>"]
WORDS = ["the", "Hello", "WORLD", "don't", "naïve", "Straße", "İstanbul", "ΣΊΣΥΦΟΣ", "ǅ", "ﬁne", "Привет", "мир", "你好", "世界", "こんにちは",
         "カタカナ", "한국어", "각", "ㅎㅏㄴ", "مرحبا", "שלום", "नमस्ते", "สวัสดี", "ภาษา", "தமிழ்", "ქართული", "Հայերեն", "አማርኛ", "ᏣᎳᎩ",
         "camelCase", "HTTPServer", "snake_case", "x86_64", "e\u0301", "A\u030a", "\u1e9b\u0323", "ﷺ", "㌔", "Ⅷ", "½", "②", "１２３", "٣٤٥", "१२", "㎏"]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧", "🇩🇪", "❤️", "☕", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣"]
RANGES = [(0x20, 0x7e), (0x20, 0x7e), (0xa0, 0x17f), (0x180, 0x24f), (0x370, 0x3ff), (0x400, 0x52f), (0x530, 0x5ff), (0x600, 0x6ff),
          (0x900, 0xdff), (0xe00, 0xfff), (0x1000, 0x139f), (0x1780, 0x18af), (0x1e00, 0x1fff), (0x2000, 0x2bff), (0x3040, 0x30ff),
          (0x3130, 0x318f), (0x1100, 0x11ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xf900, 0xfaff), (0xfb00, 0xfdff), (0xfe00, 0xffff),
          (0x10000, 0x10fff), (0x11000, 0x11fff), (0x1d400, 0x1d7ff), (0x1f000, 0x1faff), (0x20000, 0x2a6df), (0xe0000, 0xe01ff), (1, 0x10ffff)]
MARKS = [(0x300, 0x36f), (0x483, 0x487), (0x591, 0x5bd), (0x610, 0x61a), (0x64b, 0x65f), (0x93a, 0x94f), (0xe31, 0xe4e), (0x1ab0, 0x1ac0), (0x1dc0, 0x1dff), (0x20d0, 0x20f0), (0xfe20, 0xfe2f), (0x3099, 0x309a)]


def known(cp):
    """Unicode 15 and not a surrogate: what every table in play agrees on is assigned. Unassigned ones
    stay in: they must go through as they are."""
    return not 0xd800 <= cp <= 0xdfff


def char(rng, ranges):
    while True:
        low, high = rng.choice(ranges)
        cp = rng.randint(low, high)
        if known(cp):
            return chr(cp)


def make_text(rng, added):
    out = []
    for _ in range(rng.choice((1, 2, 3, 4, 6, 9))):
        kind = rng.randrange(12)
        if kind == 0:
            out.append("".join(char(rng, RANGES) for _ in range(rng.randint(1, 4))))
        elif kind == 1:
            low, high = rng.choice(RANGES)
            out.append("".join(char(rng, [(low, high)]) for _ in range(rng.randint(1, 6))))
        elif kind == 2:
            out.append(rng.choice(WORDS) + "".join(char(rng, MARKS) for _ in range(rng.randint(0, 3))))
        elif kind == 3:
            out.append(rng.choice(SPACES) * rng.choice((1, 1, 1, 2, 5)))
        elif kind == 4:
            out.append(str(rng.randrange(10 ** rng.randint(1, 9))))
        elif kind == 5 and added:
            out.append(rng.choice(added))
        elif kind == 6:
            out.append(rng.choice(PUNCT) * rng.choice((1, 1, 2, 3)))
        elif kind == 7:
            out.append(rng.choice(EMOJI))
        elif kind == 8:
            out.append(chr(rng.choice((0, 1, 7, 8, 0x1b, 0x7f, 0x80, 0x9f, 0xad, 0x200c, 0x200d, 0x200e, 0x202e, 0xfffd, 0xfffe, 0xffff))))
        else:
            out.append(rng.choice(WORDS) + rng.choice(("", " ", " ", "")))
    return "".join(out)


def added_of(path):
    return [t["content"] for t in json.load(open(path, encoding="utf-8")).get("added_tokens", [])]


def fnv(data, h=0x811c9dc5):
    for b in data:
        h = (h ^ b) * 0x01000193 & 0xffffffff
    return h


def golden(out_path):
    import tokenizers
    rng = random.Random(20261129)
    kinds = sorted(k for k in os.listdir(HERE) if os.path.isdir(os.path.join(HERE, k)) and os.path.exists(os.path.join(HERE, k, "tokenizer.json")))
    added = sorted({t for k in kinds for t in added_of(os.path.join(HERE, k, "tokenizer.json"))})
    texts, size = [], 0
    while len(texts) < 20000:
        text = make_text(rng, added)
        if len(text.encode()) <= 96:
            texts.append(text)
    blob = b"TDMR1\n" + struct.pack("<I", len(texts))
    blob += b"".join(struct.pack("<H", len(t.encode())) + t.encode() for t in texts)
    blob += struct.pack("<I", len(kinds))
    for kind in kinds:
        ref = tokenizers.Tokenizer.from_file(os.path.join(HERE, kind, "tokenizer.json"))
        plain = [e.ids for e in ref.encode_batch(texts, add_special_tokens=False)]
        special = [e.ids for e in ref.encode_batch(texts, add_special_tokens=True)]
        decoded = ref.decode_batch(plain, skip_special_tokens=False)
        blob += struct.pack("<B", len(kind)) + kind.encode()
        for ids, more, text in zip(plain, special, decoded):
            blob += struct.pack("<I", fnv(array.array("i", ids).tobytes() + array.array("i", more).tobytes() + text.encode()))
    open(out_path, "wb").write(blob)
    print("%d texts, %d kinds, %d bytes, tokenizers %s" % (len(texts), len(kinds), len(blob), tokenizers.__version__))
    return 0


UNITS = ["\n", " ", "a", "\u0301", "e\u0301", "\t", "\r\n", "ab", "0", "9a", "!", "-", "=", "\u00e9", "\u4e2d", "\u3042", "\ud55c",
         "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u200d", "  \n", "a ", "\u2581", "_", "\x00", "\ufdfa"]
SIZES = [1000, 3001, 50000]


def runs(out_path):
    """ids of unit * (size // bytes of unit), as their number and FNV-1a"""
    import tokenizers
    kinds = sorted(k for k in os.listdir(HERE) if os.path.exists(os.path.join(HERE, k, "tokenizer.json")))
    out = {"tokenizers": tokenizers.__version__, "sizes": SIZES, "units": UNITS, "kinds": {}}
    for kind in kinds:
        ref = tokenizers.Tokenizer.from_file(os.path.join(HERE, kind, "tokenizer.json"))
        rows = []
        for unit in UNITS:
            for size in SIZES:
                ids = ref.encode(unit * (size // len(unit.encode())), add_special_tokens=False).ids
                rows.append([len(ids), fnv(array.array("i", ids).tobytes())])
        out["kinds"][kind] = rows
    with open(out_path, "w") as f:
        json.dump(out, f)
    return 0


def run(bench, path, n, seed):
    import tokenizers
    import tok_client
    if not os.path.exists(path):
        path = os.path.join(HERE, path, "tokenizer.json")
    ref = tokenizers.Tokenizer.from_file(path)
    ours = tok_client.Client(bench, path)
    added = added_of(path)
    rng = random.Random(seed)
    differences, done = 0, 0
    while done < n:
        texts = [make_text(rng, added) for _ in range(min(1000, n - done))]
        wants = [e.ids for e in ref.encode_batch(texts, add_special_tokens=False)]
        decoded = ref.decode_batch(wants, skip_special_tokens=True)
        for text, want, back in zip(texts, wants, decoded):
            ids, _ = ours.encode(text)
            got = ours.decode(want, tok_client.DECODE_SKIP)[0]
            if ids != want or got != back:
                differences += 1
                if differences <= 20:
                    print("%r\n  ours      %r\n  reference %r" % (text, [ref.id_to_token(i) for i in ids], [ref.id_to_token(i) for i in want]))
                    if got != back:
                        print("  decoded   %r\n  reference %r" % (got, back))
        done += len(texts)
    ours.close()
    print("%s: %d texts, %d differences" % (path, done, differences), flush=True)
    return 1 if differences else 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "golden":
        sys.exit(golden(sys.argv[2]))
    if len(sys.argv) == 3 and sys.argv[1] == "runs":
        sys.exit(runs(sys.argv[2]))
    if len(sys.argv) >= 5 and sys.argv[1] == "run":
        sys.exit(run(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) > 5 else 1))
    sys.exit(__doc__)
