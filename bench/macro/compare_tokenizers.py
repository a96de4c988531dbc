# SPDX-License-Identifier: Apache-2.0
"""Compares the tokenizer with Hugging Face tokenizers (its Rust core) and, for byte-level
vocabularies, with tiktoken: same text, one thread, alternating A B A B in one run.

    compare_tokenizers.py BENCH_TOKENIZER TEXT TOKENIZER.json... [--rounds N] [--mb N]

Prints, for each tokenizer, whether ids and the decoded text are equal, medians in MB/s and the
ratios of the medians. Exits 1 when anything differs. The text goes in pieces of 64 KiB cut at line
ends for the timing (the reference is quadratic in places on one huge text, so this flatters it) and
is compared piece by piece."""
import argparse
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import tok_client  # noqa: E402


def pieces_of(text, size):
    out, pos = [], 0
    while pos < len(text):
        end = text.rfind("\n", pos, pos + size) + 1
        if end <= pos or len(text) - pos <= size:
            end = min(len(text), pos + size)
        out.append(text[pos:end])
        pos = end
    return out


def byte_alphabet():
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, n = {chr(b): b for b in keep}, 0
    for b in range(256):
        if b not in keep:
            table[chr(256 + n)] = b
            n += 1
    return table


def make_tiktoken(root):
    """An Encoding of the same vocabulary, where the pipeline is one split and byte-level BPE. Ranks are
    the ids of a vocabulary in the order of its merges."""
    try:
        import tiktoken
    except ImportError:
        return None
    pre = root.get("pre_tokenizer") or {}
    parts = pre.get("pretokenizers", [pre])
    splits = [p for p in parts if p.get("type") == "Split"]
    if root["model"]["type"] != "BPE" or root.get("normalizer") or not any(p.get("type") == "ByteLevel" for p in parts):
        return None
    if len(splits) == 1:
        pattern = splits[0]["pattern"].get("Regex")
    elif not splits and parts[-1].get("use_regex", True):
        pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    else:
        return None
    table = byte_alphabet()
    raw = lambda s: bytes(table[c] for c in s)
    ranks = {bytes([b]): b for b in range(256)}
    for merge in root["model"]["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        ranks.setdefault(raw(left) + raw(right), len(ranks))
    return tiktoken.Encoding("same", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def main():
    args = argparse.ArgumentParser()
    args.add_argument("bench")
    args.add_argument("text")
    args.add_argument("tokenizers", nargs="+")
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--mb", type=float, default=2.0, help="how much of the text the timing uses")
    args.add_argument("--whole", action="store_true", help="compare ids of all of the text")
    a = args.parse_args()
    import tokenizers

    text = open(a.text, encoding="utf-8", newline="").read()
    pieces = pieces_of(text, 65536)
    timed, n_bytes = [], 0
    step = max(1, int(len(text.encode()) / (a.mb * 1e6)))
    for p in pieces[::step]:
        timed.append(p)
        n_bytes += len(p.encode())
    failed = False
    print("tokenizer,equal,ours_mb_s,hf_mb_s,hf_fast_mb_s,tiktoken_mb_s,vs_hf,vs_hf_fast,vs_tiktoken")
    for path in a.tokenizers:
        ref = tokenizers.Tokenizer.from_file(path)
        ref.no_truncation()
        ref.no_padding()
        root = json.load(open(path, encoding="utf-8"))
        tik = make_tiktoken(root)
        ours = tok_client.Client(a.bench, path)
        is_equal = True
        for p in pieces if a.whole else timed:
            ids, _ = ours.encode(p)
            want = ref.encode(p, add_special_tokens=False).ids
            if ids != want:
                at = next((i for i, (x, y) in enumerate(zip(ids, want)) if x != y), min(len(ids), len(want)))
                print("# %s: ids differ at %d of %d: %r" % (path, at, len(want), ref.decode(want[max(0, at - 3):at + 3])))
                print("#   ours %r reference %r" % ([ref.id_to_token(i) for i in ids[at - 2:at + 6]], [ref.id_to_token(i) for i in want[at - 2:at + 6]]))
                is_equal = False
                break
            if ours.decode(ids)[0] != ref.decode(want, skip_special_tokens=False):
                print("# %s: decoded text differs" % path)
                is_equal = False
                break
        times = {"ours": [], "hf": [], "fast": [], "tik": []}
        for _ in range(a.rounds):
            times["ours"].append(sum(ours.encode(p)[1] for p in timed) / 1e9)
            begin = time.perf_counter()
            for p in timed:
                ref.encode(p, add_special_tokens=False)
            times["hf"].append(time.perf_counter() - begin)
            begin = time.perf_counter()
            for p in timed:
                ref.encode_batch_fast([p], add_special_tokens=False)
            times["fast"].append(time.perf_counter() - begin)
            if tik is not None:
                begin = time.perf_counter()
                for p in timed:
                    tik.encode_ordinary(p)
                times["tik"].append(time.perf_counter() - begin)
        speed = {k: n_bytes / 1e6 / statistics.median(v) if v else 0.0 for k, v in times.items()}
        ratio = lambda k: "%.1f" % (speed["ours"] / speed[k]) if speed[k] else "-"
        print("%s,%s,%.1f,%.2f,%.2f,%.2f,%s,%s,%s" % (path.split("/")[-2], "yes" if is_equal else "NO", speed["ours"],
              speed["hf"], speed["fast"], speed["tik"], ratio("hf"), ratio("fast"), ratio("tik")), flush=True)
        ours.close()
        failed = failed or not is_equal
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
