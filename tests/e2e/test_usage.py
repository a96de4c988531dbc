#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Help, usage errors and exit codes: what a person meets first."""
import sys

from command import GOLDENS, CommandCase, main, tandem

VERBS = ("generate", "chat", "tokenize", "detokenize", "template", "score", "embed", "golden", "bench",
         "inspect", "fit", "ls")
LLAMA = GOLDENS + "/llama"


class Usage(CommandCase):
    def test_help_names_every_verb(self):
        result = self.ok("--help")
        for verb in VERBS:
            self.assertIn(verb, result.text)
        self.assertEqual(result.err, b"")

    def test_help_of_every_verb(self):
        for verb in VERBS:
            with self.subTest(verb=verb):
                result = self.ok(verb, "--help")
                self.assertIn("--json", result.text)
                self.assertTrue(all(len(line) <= 100 for line in result.text.split("\n")))

    def test_version(self):
        self.assertRegex(self.ok("--version").text, r"\d+\.\d+\.\d+")

    def test_nothing_is_usage(self):
        result = self.fails(2)
        self.assertIn(b"--help", result.err)
        self.assertEqual(result.out, b"")

    def test_unknown_verb_is_named(self):
        self.assertIn(b"genrate", self.fails(2, "genrate", LLAMA).err)

    def test_unknown_option_is_named(self):
        for verb in ("generate", "bench", "golden", "inspect"):
            with self.subTest(verb=verb):
                self.assertIn(b"--frobnicate", self.fails(2, verb, LLAMA, "--frobnicate").err)

    def test_option_without_its_value(self):
        self.assertIn(b"--threads", self.fails(2, "golden", LLAMA, "--threads").err)

    def test_values_out_of_range_are_named(self):
        for option, value in (("--threads", "0x"), ("--threads", "-1"), ("--threads", "99999999"),
                              ("--max-tokens", "many"), ("--temp", "nan"), ("--top-p", "1.5"),
                              ("--tier", "quick"), ("--isa", "sse9")):
            with self.subTest(option=option, value=value):
                result = self.fails(2, "generate", LLAMA, "-p", "x", option, value)
                self.assertIn(option.encode(), result.err)

    def test_missing_model(self):
        self.fails(2, "generate")
        for verb in ("generate", "inspect", "golden", "bench", "tokenize"):
            with self.subTest(verb=verb):
                error = self.error(3, verb, "/nowhere/at/all.gguf")
                self.assertIn("/nowhere/at/all.gguf", error["message"] + error["where"])

    def test_errors_show_no_escape_codes_in_a_pipe(self):
        self.assertNotIn(b"\x1b", tandem("inspect", "/nowhere/at/all.gguf").err)
        self.assertNotIn(b"\x1b", tandem("--help").out)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
