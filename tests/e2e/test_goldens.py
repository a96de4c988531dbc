#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem golden` over the committed goldens: the reference framework's logits, and the same bits
whatever the threads, the chunks and the batch mates."""
import os
import sys

from command import GOLDENS, IS_SANITIZED, CommandCase, main

CASES = ("llama", "llama3-rope", "mistral-sliding", "qwen2", "yarn", "qwen3", "smollm3",
         "qwen3-next", "qwen3_5", "qwen3_5-moe")
CUTS = (("--chunk", 1), ("--chunk", 3), ("--chunk", 16), ("--mates", 7), ("--threads", 1),
        ("--threads", 2))


class Goldens(CommandCase):
    def golden(self, case, tier, *arguments):
        return self.ok("golden", os.path.join(GOLDENS, case), "--tier", tier, "--json",
                       *arguments).json

    def test_exact_matches_the_framework(self):
        for case in CASES:
            with self.subTest(case=case):
                found = self.golden(case, "exact")
                self.assertEqual(found["positions"], 40 + 24)  # prompt and continuation
                self.assertLessEqual(found["max_rel"], 1e-4)
                self.assertGreater(found["max_rel"], 0)
                self.assertEqual((found["argmax_agree"], found["gen_agree"]), (1, 1))

    def test_reference_matches_the_framework(self):
        for case in CASES:
            with self.subTest(case=case):
                self.assertLessEqual(self.golden(case, "reference")["max_rel"], 1e-4)

    def test_same_bits_however_it_is_cut(self):
        for case in CASES[:3] if IS_SANITIZED else CASES:
            for tier in ("exact", "fast"):
                plain = self.golden(case, tier)["logits_hash"]
                self.assertRegex(plain, r"^[0-9a-f]{16}$")
                for cut in CUTS:
                    with self.subTest(case=case, tier=tier, cut=cut):
                        self.assertEqual(self.golden(case, tier, *cut)["logits_hash"], plain)

    def test_other_weights_are_found_out(self):
        found = self.ok("golden", os.path.join(GOLDENS, "llama"), "--model",
                        os.path.join(GOLDENS, "llama3-rope"), "--tier", "exact", "--json").json
        self.assertGreater(found["max_rel"], 1e-2)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
