#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`generate` and `score` on a tiny model by ids, and the ends of the pipe: nobody reading, a full
disk, Ctrl-C."""
import json
import os
import subprocess
import sys
import tempfile

from command import GOLDENS, TANDEM, CommandCase, main, tandem, tandem_interrupted

LLAMA = os.path.join(GOLDENS, "llama")


class Generate(CommandCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.ids = self.write("ids.json", json.dumps(list(range(3, 19))))

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def test_greedy_by_ids(self):
        first = self.ok("generate", LLAMA, "--ids", self.ids, "-n", 8, "--json").json
        self.assertEqual(first["prompt_ids"], list(range(3, 19)))
        self.assertTrue(1 <= len(first["ids"]) <= 8)
        self.assertIn(first["finish"], ("stop", "length"))
        for field in ("load_ms", "ttft_ms", "prefill_tok_s", "decode_tok_s", "n_prompt", "n_decode"):
            self.assertIn(field, first["timings"])
        self.assertEqual(first["timings"]["n_prompt"], 16)
        again = self.ok("generate", LLAMA, "--ids", self.ids, "-n", 8, "--json", "--threads", 1).json
        self.assertEqual(again["ids"], first["ids"])

    def test_seed_decides(self):
        def draw(seed):
            return self.ok("generate", LLAMA, "--ids", self.ids, "-n", 12, "--json", "--temp", 1.5,
                           "--seed", seed, "--ignore-eos").json["ids"]

        draws = [draw(seed) for seed in (1, 1, 2, 3)]
        self.assertEqual(draws[0], draws[1])
        self.assertNotEqual(draws[0], draws[2])
        self.assertNotEqual(draws[2], draws[3])

    def test_logprobs(self):
        found = self.ok("generate", LLAMA, "--ids", self.ids, "-n", 4, "--json", "--ignore-eos",
                        "--logprobs", 3).json
        self.assertEqual(len(found["logprobs"]), 4)

    def test_score(self):
        found = self.ok("score", LLAMA, "--ids", self.ids, "--json").json
        self.assertGreater(found["nll"], 0)
        self.assertEqual(self.ok("score", LLAMA, "--ids", self.ids, "--json", "--chunk", 3).json["nll"],
                         found["nll"])

    def test_ids_outside_the_vocabulary(self):
        bad = self.write("bad.json", "[3, 99999999]")
        self.assertIn("99999999", json.dumps(self.error(2, "generate", LLAMA, "--ids", bad)))

    def test_ids_that_are_none(self):
        for text in ("", "[]", "[1.5]", "{}", "[1, ", "[-1]", '["a"]', "[1e99]", "[" * 9999):
            with self.subTest(text=text[:12]):
                result = self.fails_somehow("generate", LLAMA, "--ids", self.write("x.json", text))
                self.assertIn(result.code, (1, 2, 6))

    def fails_somehow(self, *arguments):
        result = tandem(*arguments)
        self.assertGreater(result.code, 0)
        self.assertNotIn(b"Sanitizer", result.err)
        return result

    def test_prompt_past_the_context(self):
        long = self.write("long.json", json.dumps([5] * 100_000))
        self.assertEqual(self.fails_somehow("generate", LLAMA, "--ids", long).code, 4)

    def test_text_without_a_tokenizer(self):
        result = self.fails_somehow("generate", LLAMA, "-p", "hello")
        self.assertIn(b"tokenizer", result.err)

    def test_nobody_reads(self):
        with subprocess.Popen(
                [TANDEM, "generate", LLAMA, "--ids", self.ids, "-n", "100", "--ignore-eos", "--json"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            child.stdout.close()
            err = child.stderr.read()
            child.wait(timeout=60)
        self.assertNotIn(b"Sanitizer", err)
        self.assertIn(child.returncode, (0, 1, -13))

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [TANDEM, "generate", LLAMA, "--ids", self.ids, "-n", "4", "--json"], check=False,
                stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertGreater(len(done.stderr), 0)


class Interrupt(CommandCase):
    def test_ctrl_c_ends_a_bench_with_130(self):
        result = tandem_interrupted("bench", LLAMA, "-p", "16,16", "-n", "100", "-r", "1000", "--json",
                                    after_seconds=1)
        self.assertEqual(result.code, 130, result.err[-500:])
        self.assertLess(result.seconds, 10)
        self.assertNotIn(b"Sanitizer", result.err)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
