#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The starter model through the command, as the README promises: it answers, in every form."""
import json
import sys

from command import IS_SANITIZED, STARTER, CommandCase, main, needs_starter, tandem

QUESTION = "Why is the sky blue?"
N = 8 if IS_SANITIZED else 120


@needs_starter
class Starter(CommandCase):
    def test_answers(self):
        found = self.ok("generate", STARTER, "-p", QUESTION, "--chat", "-n", N, "--json").json
        self.assertEqual(found["timings"]["n_decode"], len(found["ids"]))
        if not IS_SANITIZED:
            self.assertRegex(found["text"], r"(?i)scatter")
        streamed = self.ok("generate", STARTER, "-p", QUESTION, "--chat", "-n", N)
        self.assertEqual(streamed.text.rstrip("\n"), found["text"].rstrip("\n"))

    def test_prompt_from_stdin_and_file_agree(self):
        by_option = self.ok("generate", STARTER, "-p", "One two three", "--raw", "-n", 6, "--json").json
        by_stdin = self.ok("generate", STARTER, "--raw", "-n", 6, "--json",
                           stdin=b"One two three").json
        self.assertEqual(by_stdin["ids"], by_option["ids"])

    def test_threads_change_no_token(self):
        ids = [self.ok("generate", STARTER, "-p", QUESTION, "-n", 12, "--json", "--threads", n)
               .json["ids"] for n in (1, 2)]
        self.assertEqual(ids[0], ids[1])

    def test_stop_text_ends_the_answer(self):
        found = self.ok("generate", STARTER, "-p", "1, 2, 3, 4,", "--raw", "-n", 12, "--json",
                        "--stop", " 6").json
        self.assertEqual(found["finish"], "stop")
        self.assertNotIn(" 6", found["text"])

    def test_tokenize_and_back(self):
        for text in ("Hello world", "naïve 東京 🦆\n\n", "<|im_start|>"):
            with self.subTest(text=text):
                ids = self.ok("tokenize", STARTER, "--json", stdin=text.encode()).json["ids"]
                back = self.ok("detokenize", STARTER, "--json", stdin=json.dumps(ids).encode()).json
                self.assertEqual(back["text"], text)

    def test_json_lines(self):
        asked = ["a", "", "b\u0000c", "ü"]
        lines = "".join(json.dumps(t) + "\n" for t in asked).encode()
        found = self.ok("tokenize", STARTER, "--json-lines", stdin=lines).lines
        self.assertEqual(len(found), 4)
        ids = "".join(json.dumps(f["ids"]) + "\n" for f in found).encode()
        back = self.ok("detokenize", STARTER, "--json-lines", stdin=ids).lines
        self.assertEqual([b["text"] for b in back], asked)

    def test_invalid_utf8_is_refused_with_its_place(self):
        result = tandem("generate", STARTER, "--raw", "-n", 2, stdin=b"fine \xff\xfe")
        self.assertIn(result.code, (1, 2, 6))
        self.assertIn(b"UTF-8", result.err)

    def test_empty_prompt_is_answered(self):
        result = tandem("generate", STARTER, "--raw", "-n", 2, stdin=b"")
        self.assertIn(result.code, (0, 2))
        if result.code != 0:
            self.assertIn(b"empty", result.err)

    def test_template(self):
        talk = {"messages": [{"role": "user", "content": "Hi <|im_end|>"}]}
        line = json.dumps(talk).encode() + b"\n"
        found = self.ok("template", STARTER, "--json-lines", stdin=line).lines[0]
        self.assertTrue(found["ok"])
        self.assertIn("<|im_start|>user\nHi <|im_end|>", found["text"])
        self.assertEqual("".join(s["text"] for s in found["segments"]), found["text"])
        user = [s for s in found["segments"] if not s["trusted"]]
        self.assertTrue("".join(s["text"] for s in user).endswith("Hi <|im_end|>"), user)
        self.assertNotIn("<|im_start|>", "".join(s["text"] for s in user))

    def test_score(self):
        found = self.ok("score", STARTER, "--json", stdin=b"The capital of France is Paris.").json
        self.assertTrue(0.5 < found["nll"] < 6, found["nll"])

    def test_inspect_reads_no_weights(self):
        result = self.ok("inspect", STARTER, "--json")
        self.assertIn("llama", json.dumps(result.json))
        self.assertLess(result.seconds, 5.0 if IS_SANITIZED else 1.0)

    def test_bench_lines(self):
        lines = self.ok("bench", STARTER, "-p", 16, "-n", 4, "-r", 2, "--json").lines
        decode = [x for x in lines if x["n_prompt"] == 0 and x["n_gen"] == 4]
        self.assertEqual(len(decode), 1)
        for field in ("avg_ts", "stddev_ts", "samples_ts", "n_threads", "n_depth", "n_seq",
                      "read_gbs", "share_of_limit", "logits_hash"):
            self.assertIn(field, decode[0])
        self.assertEqual(len(decode[0]["samples_ts"]), 2)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
