#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""score on real models: the text of the shared data has the golden's ids, and the mean negative
log-probability of its beginning is the golden's. A beginning, because the whole takes a minute;
docs/models.md has the figures of the whole."""
import json
import os
import struct
import sys

from command import IS_SANITIZED, SHARED, STARTER, CommandCase, main

MODELS = os.path.dirname(STARTER)
TEXT = os.path.join(SHARED, "goldens-real", "text.txt")
CASES = ("gemma3-270m-q4_k_m", "smollm2-135m-q4_1")
N = 64 if IS_SANITIZED else 384  # tokens that are scored
EXACT = 1e-5  # relative; the golden's own chunks differ by 1e-6
# The bound for the whole text is 0.003 (measured 0.0003 and 0.0015); a ninth of it averages
# three times less of each position's rounding away.
FAST = 0.009 if IS_SANITIZED else 0.006


def tensors(path):
    """The F32 and I32 tensors of a safetensors file."""
    with open(path, "rb") as file:
        whole = file.read()
    n = struct.unpack("<Q", whole[:8])[0]
    out = {}
    for name, facts in json.loads(whole[8:8 + n]).items():
        if name != "__metadata__" and facts["dtype"] in ("F32", "I32"):
            begin, end = (8 + n + o for o in facts["data_offsets"])
            kind = "f" if facts["dtype"] == "F32" else "i"
            out[name] = struct.unpack("<%d%s" % ((end - begin) // 4, kind), whole[begin:end])
    return out


class RealScore(CommandCase):
    def cases(self):
        n = 0
        for case in CASES:
            folder = os.path.join(SHARED, "goldens-real", case)
            if not os.path.exists(os.path.join(folder, "golden.json")):
                continue
            with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
                model = os.path.join(MODELS, json.load(file)["file"])
            if os.path.exists(model):
                n += 1
                yield case, model, tensors(os.path.join(folder, "golden.safetensors"))
        if n < len(CASES):
            self.skipTest("%d of %d real models or their goldens are not here" % (len(CASES) - n, len(CASES)))

    def test_the_text_is_cut_as_the_reference_cuts_it(self):
        for case, model, golden in self.cases():
            with self.subTest(case=case), open(TEXT, "rb") as file:
                found = self.ok("tokenize", model, "--json", stdin=file.read()).json
                self.assertEqual(found["ids"], list(golden["text_ids"]))

    def test_mean_log_probability(self):
        for case, model, golden in self.cases():
            ids = list(golden["text_ids"])[:N]
            want = -sum(golden["next_logprob"][:N - 1]) / (N - 1)
            for tier, bound in (("exact", EXACT), ("fast", FAST)):
                with self.subTest(case=case, tier=tier):
                    found = self.ok("score", model, "--ids", "/dev/stdin", "--json", "--tier", tier,
                                    stdin=json.dumps(ids).encode()).json
                    self.assertEqual(found["n"], N)
                    rel = abs(found["nll"] - want) / want
                    print("%s %s: nll %.6f, golden %.6f, relative %.1e" % (case, tier, found["nll"], want, rel))
                    self.assertLessEqual(rel, bound)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
