# SPDX-License-Identifier: Apache-2.0
"""Sampling goldens: an oracle in numpy, written from the specification and from mlx-lm's documented
semantics (top-p, min-p, XTC, penalties, their order), llama.cpp's (DRY, Mirostat, top-n-sigma) and
the Philox paper, without looking at Tandem's C. Everything is f64 on f32 logits, and everything that
can be sorted is sorted.

    python make_goldens.py        writes rows.f32 and goldens.json beside itself

Needs numpy only. A case whose cut lies within 1e-6 of a boundary is refused, so that f32 and f64
implementations have to agree."""
import json
import math
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
V = 997
MASK = 0xFFFFFFFF
NEAR = 1e-6


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


assert philox([0, 0, 0, 0], [0, 0]) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([MASK] * 4, [MASK] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def u64(seed, choice, token, draw):
    """Draw number `draw`: a block of the generator serves two draws, low word first."""
    word = philox([draw >> 1, token, choice, 0], [seed & MASK, seed >> 32])
    half = 2 * (draw & 1)
    return word[half + 1] << 32 | word[half]


def gumbel(seed, choice, token, draw):
    u = ((u64(seed, choice, token, draw) >> 12) + 0.5) * 2.0**-52
    return -math.log(-math.log(u))


def processed(logits, o, history):
    x = logits.astype(np.float32).copy()
    for i, b in o.get("bias", []):
        x[i] += np.float32(b)

    def tail(name):
        w = o.get(name, 20)
        return history[-w:] if w else history

    rep = np.float32(o.get("repetition_penalty", 1.0))
    if rep != 1:
        for i in sorted(set(tail("repetition_window"))):
            x[i] = x[i] * rep if x[i] < 0 else x[i] / rep
    if o.get("presence_penalty", 0):
        for i in sorted(set(tail("presence_window"))):
            x[i] -= np.float32(o["presence_penalty"])
    if o.get("frequency_penalty", 0):
        for i in tail("frequency_window"):
            x[i] -= np.float32(o["frequency_penalty"])
    if o.get("dry_multiplier", 0):
        w = o.get("dry_window", 0)
        x = dry(x, o, history[-w:] if w else history)
    return x


def dry(x, o, h):
    allowed, base = o.get("dry_allowed_length", 2), np.float64(np.float32(o.get("dry_base", 1.75)))
    breakers, best = set(o.get("dry_breakers", [])), {}
    for at in range(1, len(h)):  # h[at] is the token that a repeat ending before `at` would foretell
        n = 0
        while n < at and h[at - 1 - n] == h[-1 - n] and h[-1 - n] not in breakers:
            n += 1
        if n >= allowed:
            best[h[at]] = max(best.get(h[at], 0), n)
    most = math.floor(math.log(float(np.finfo(np.float32).max)) / math.log(base)) if base > 1.000001 else len(h)
    for t, n in best.items():
        if t not in breakers:
            x[t] = np.float32(np.float64(x[t]) - np.float64(np.float32(o["dry_multiplier"])) * base ** min(n - allowed, most))
    return x


def order(x, ids):
    """Best first; the lower id wins a tie."""
    return sorted(ids, key=lambda i: (-float(x[i]), i))


def probs(x, ids):
    e = np.exp(np.array([float(x[i]) for i in ids]) - max(float(x[i]) for i in ids))
    return e / e.sum()


def clear(a, b):
    assert abs(a - b) > NEAR, "too near a boundary: change the case"


def cut(x, o, key):
    ids = order(x, [i for i in range(len(x)) if x[i] > -np.inf])
    top = float(x[ids[0]])
    if o.get("top_n_sigma", 0):
        live = np.array([float(x[i]) for i in ids])
        bar = top - float(np.float32(o["top_n_sigma"])) * live.std()
        [clear(v, bar) for v in live]
        ids = [i for i in ids if float(x[i]) >= bar]
    p = float(np.float32(o.get("top_p", 0)))
    if 0 < p < 1:
        before, keep = 0.0, 0
        for q in probs(x, ids):
            clear(before, p)
            keep += 1 if before < p else 0
            before += q
        ids = ids[:keep]
    if o.get("min_p", 0):
        bar = top + math.log(float(np.float32(o["min_p"])))
        [clear(float(x[i]), bar) for i in ids]
        ids = ids[: max(o.get("min_keep", 1), sum(float(x[i]) >= bar for i in ids))]
    if o.get("xtc_probability", 0):
        coin = (u64(*key, MASK) >> 11) * 2.0**-53
        clear(coin, o["xtc_probability"])
        if coin < float(np.float32(o["xtc_probability"])):
            bar = float(np.float32(o.get("xtc_threshold", 0.1)))
            q = probs(x, ids)
            [clear(v, bar) for v in q]
            over = [float(x[i]) for i, v in zip(ids, q) if v > bar]
            if over:
                ids = [i for i in ids if float(x[i]) <= min(over) or i in o.get("xtc_exempt_ids", [])]
    if o.get("top_k", 0):
        ids = ids[: o["top_k"]]
    return ids


def draw(x, ids, t, key):
    score = {i: float(x[i]) / t + gumbel(*key, i) for i in ids}
    best = sorted(score.values())
    if len(best) > 1:
        clear(best[-1], best[-2])
    return max(ids, key=lambda i: score[i])


def mirostat(x, o, t, key, mu):
    ids = order(x, [i for i in range(len(x)) if x[i] > -np.inf])
    scaled = np.array([float(v) / t for v in x])
    if o["mirostat"] == 2:
        q = probs(scaled, ids)
        surprise = -np.log2(q)
        [clear(v, mu) for v in surprise]
        ids = ids[: max(1, int((surprise <= mu).sum()))]
    else:
        first = ids[:100]
        ti = np.log([(i + 2) / (i + 1) for i in range(len(first) - 1)])
        bi = np.array([scaled[a] - scaled[b] for a, b in zip(first, first[1:])])
        s = (ti * bi).sum() / (ti * ti).sum()
        eps = s - 1
        k = ((eps * 2**mu) / (1 - len(x) ** (-eps))) ** (1 / s)
        clear(k, round(k))
        ids = ids[: max(1, min(int(k), len(x)))]
    i = draw(x, ids, t, key)
    q = probs(scaled, ids)[ids.index(i)]
    return i, mu - float(np.float32(o.get("mirostat_eta", 0.1))) * (-math.log2(q) - float(np.float32(o.get("mirostat_tau", 5.0))))


def logprobs(x):
    live = x.astype(np.float64)
    top = live.max()
    return live - top - math.log(np.exp(live - top).sum())


def run(case, rows):
    o, history = case["options"], list(case.get("history", []))
    t = float(np.float32(o.get("temperature", 0)))
    mu = 2 * float(np.float32(o.get("mirostat_tau", 5.0)))
    ids, chosen, tops = [], [], []
    for token in range(case["n"]):
        row = rows[case["rows"][token % len(case["rows"])]]
        x = processed(row, o, history)
        key = (o.get("seed", 0), o.get("choice", 0), token)
        lp = logprobs(row if o.get("logprobs_is_raw") else x)
        if t == 0:
            i = order(x, range(len(x)))[0]
        elif o.get("mirostat"):
            i, mu = mirostat(x, o, t, key, mu)
        else:
            i = draw(x, cut(x, o, key), t, key)
        best = order(lp, range(len(lp)))[: max(0, o.get("n_logprobs", -1))]
        ids.append(i)
        chosen.append(float(lp[i]))
        tops.append([[j, float(lp[j])] for j in best if lp[j] > -np.inf])
        history.append(i)
    return dict(case, ids=ids, logprobs=chosen, top=tops[:4])


def main():
    rng = np.random.default_rng(20240229)
    rows = [
        rng.normal(0, 2.5, V),  # 0 like a language model's
        rng.normal(0, 0.3, V),  # 1 flat
        np.round(rng.normal(0, 2, V) * 2) / 2,  # 2 full of ties
        rng.normal(-40, 6, V),  # 3 negative and steep
        np.where(rng.random(V) < 0.9, -np.inf, rng.normal(0, 1, V)),  # 4 mostly masked
        rng.normal(0, 2.5, V) + 12 * (np.arange(V) == 700),  # 5 nearly certain
        rng.normal(0, 1, V) * np.linspace(0, 4, V),  # 6 heavier tail at high ids
    ]
    rows = np.array(rows, dtype="<f4")
    hist = rng.integers(0, 40, 60).tolist()
    loop = [5, 6, 7, 8, 9, 10, 5, 6, 7, 8, 9, 11, 5, 6, 7, 8]
    mix = [0, 1, 3, 5, 6]
    big = 0xFEDCBA9876543210
    cases = []

    def case(name, options, n=40, rows=mix, **more):
        cases.append(dict(name=name, n=n, rows=rows, options=dict(options, n_logprobs=options.get("n_logprobs", 5)), **more))

    case("greedy", {}, rows=[0, 1, 2, 3, 4, 5, 6])
    case("plain", {"temperature": 1.0, "seed": 1}, rows=[0, 1, 2, 3, 4, 5, 6], n=70)
    case("hot", {"temperature": 5.0, "seed": 2})
    case("cold", {"temperature": 0.05, "seed": 3})
    case("choice", {"temperature": 1.0, "seed": big, "choice": 7})
    case("top_p", {"temperature": 0.8, "top_p": 0.9, "seed": 4}, n=80)
    case("top_p_small", {"temperature": 1.5, "top_p": 0.05, "seed": 5})
    case("top_p_ties", {"temperature": 1.0, "top_p": 0.7, "seed": 6}, rows=[2])
    case("top_k", {"temperature": 1.0, "top_k": 40, "seed": 7}, rows=[0, 1, 2, 3, 4, 5, 6], n=70)
    case("top_k_one", {"temperature": 2.0, "top_k": 1, "seed": 8}, rows=[0, 1, 2, 3, 4, 5, 6])
    case("top_k_ties", {"temperature": 3.0, "top_k": 17, "seed": 9}, rows=[2])
    case("min_p", {"temperature": 1.0, "min_p": 0.05, "seed": 10}, n=80)
    case("min_p_keep", {"temperature": 4.0, "min_p": 0.9, "min_keep": 9, "seed": 11}, rows=[0, 1, 3, 5, 6, 4])
    case("sigma", {"temperature": 2.0, "top_n_sigma": 1.0, "seed": 12}, rows=[0, 1, 3, 4, 5, 6], n=60)
    case("xtc", {"temperature": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.02, "seed": 13}, n=100)
    case("xtc_exempt", {"temperature": 1.0, "xtc_probability": 1.0, "xtc_threshold": 0.01, "xtc_exempt_ids": [700, 13], "seed": 14}, rows=[5, 0, 3], n=60)
    case("chain", {"temperature": 0.9, "top_n_sigma": 4.0, "top_p": 0.95, "min_p": 0.02, "xtc_probability": 0.5, "xtc_threshold": 0.08, "top_k": 12, "seed": 15}, n=150)
    case("penalties", {"repetition_penalty": 1.3, "presence_penalty": 0.4, "frequency_penalty": 0.2, "repetition_window": 30, "presence_window": 0, "frequency_window": 10, "bias": [[3, 4.5], [900, -2.0], [3, 0.25]]}, history=hist, rows=[0, 6])
    case("penalties_raw", {"temperature": 0.7, "repetition_penalty": 1.3, "bias": [[3, 4.5]], "logprobs_is_raw": True, "seed": 16}, history=hist, rows=[0, 6])
    case("dry", {"dry_multiplier": 0.8, "dry_base": 1.75, "bias": [[9, 9.0], [10, 9.5], [11, 9.25]]}, history=loop, rows=[1], n=60)
    case("dry_breaker", {"dry_multiplier": 2.0, "dry_breakers": [7], "dry_window": 12, "dry_allowed_length": 1, "bias": [[9, 9.0], [10, 9.5], [7, 9.25]]}, history=loop, rows=[1], n=60)
    case("mirostat_1", {"temperature": 1.0, "mirostat": 1, "mirostat_tau": 3.0, "seed": 17}, rows=[0, 6, 3], n=90)
    case("mirostat_2", {"temperature": 1.2, "mirostat": 2, "mirostat_tau": 2.5, "mirostat_eta": 0.2, "seed": 18}, n=90)
    done = [run(c, rows) for c in cases]
    rows.tofile(os.path.join(HERE, "rows.f32"))
    with open(os.path.join(HERE, "goldens.json"), "w", encoding="utf-8") as f:
        f.write('{"n_vocab":%d,"n_rows":%d,"cases":[\n' % (V, len(rows)))
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in done))
        f.write("\n]}\n")


if __name__ == "__main__":
    main()
