#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`score`: perplexity in rows as mlx_lm reckons it, and documents a line of JSON each."""
import json
import os
import sys
import tempfile

import tiny
from command import GOLDENS, CommandCase, main, tandem

LLAMA = os.path.join(GOLDENS, "llama")
IDS = [(i * i * 37 + 11 * i) % 300 + 3 for i in range(217)]
END = 2  # eos_token_id of the golden's config.json


class Score(CommandCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def score(self, model, *options, tier="exact"):
        return self.ok("score", model, "--json", "--tier", tier, *options).json

    def test_rows_as_mlx_lm(self):
        """eval_ppl of mlx_lm 0.32.2 on the same ids, weights and sums in float32. Its logits and ours
        differ by some 1e-6 of the largest; a mean of 195 of them moves by less."""
        ids = self.write("ids.json", json.dumps(IDS))
        for rows, n, ppl, stderr in ((40, 200, 57108.22757829125, 13537.617477579752),
                                     (217, 217, 41252.89999495556, 8899.074759977388)):
            found = self.score(LLAMA, "--ids", ids, "--rows", rows)
            self.assertEqual((found["n"], found["rows"], len(found["ids"])), (n, n // rows, n))
            self.assertLess(abs(found["ppl"] / ppl - 1), 1e-5)
            self.assertLess(abs(found["ppl_stderr"] / stderr - 1), 1e-5)

    def test_a_row_is_read_alone(self):
        whole = self.score(LLAMA, "--ids", self.write("ids.json", json.dumps(IDS)), "--rows", 40, "--top", 2)
        for row in range(5):
            one = self.score(LLAMA, "--ids",
                             self.write("row.json", json.dumps(IDS[40 * row:40 * row + 40])), "--top", 2)
            self.assertEqual(whole["logprobs"][40 * row:40 * row + 40], one["logprobs"])
            self.assertEqual(whole["top"][40 * row:40 * row + 40], one["top"])
        self.assertIsNone(whole["logprobs"][80])
        self.assertEqual(whole["top"][80], [])

    def test_documents(self):
        tiny.make(self.folder)
        lines = ['{"text": "abc"}', "", '{"text": "d<|im_end|>", "other": 1}', '  {"text": "\u00e9"} ']
        found = self.score(self.folder, "--text", self.write("d.jsonl", "\n".join(lines)))
        # A literal <|im_end|> is text in a document, not the token.
        text = list(b"abc") + [END] + list(b"d<|im_end|>") + [END] + list("\u00e9".encode()) + [END]
        self.assertEqual(found["ids"], text)
        plain = self.score(self.folder, "--text", self.write("d.txt", "abc"))
        self.assertEqual(plain["ids"], list(b"abc"))

    def test_documents_that_are_none(self):
        tiny.make(self.folder)
        for bad, word in (('{"text": 1}', "text"), ("[]", "text"), ('{"text": "a"', "line 2"), ("\x00", "line 2"),
                          ('{"text": "a", "text": "b"}', "line 2")):
            path = self.write("bad.jsonl", '{"text": "a"}\n' + bad)
            with self.subTest(bad=bad):
                result = self.fails_somehow("score", self.folder, "--text", path)
                self.assertIn("line 2", result)
                self.assertIn(word, result)

    def fails_somehow(self, *arguments):
        result = tandem(*arguments)
        self.assertGreater(result.code, 0)
        self.assertNotIn(b"Sanitizer", result.err)
        return result.err.decode()

    def test_no_row_is_full(self):
        ids = self.write("ids.json", json.dumps(IDS))
        self.assertIn("--rows", json.dumps(self.error(2, "score", LLAMA, "--ids", ids, "--rows", 218)))


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
