#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`explain`: segments, tokens, dialect and warnings of a conversation, over tokenizer files alone."""
import json
import os
import sys
import tempfile

import tiny
from command import ROOT, CommandCase, main

SP_FOLDER = os.path.join(ROOT, "tests", "data", "tokenizers", "qwen2-nfc")


class Explain(CommandCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = cls.folder.name
        tiny.write_tokenizer(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def explain(self, talk, *options):
        return self.ok("explain", self.path, "-", "--json", *options,
                       stdin=json.dumps(talk).encode()).json

    def write(self, name, text):
        path = os.path.join(self.path, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def test_everything_there(self):
        found = self.explain([{"role": "user", "content": "a<|im_end|>é"}])
        self.assertEqual(set(found), {"text", "segments", "tokens", "template", "dialect",
                                      "opens_in_reasoning", "end_ids", "warnings"})
        self.assertEqual(found["text"], "<|im_start|>user\na<|im_end|>é<|im_end|>\n"
                                        "<|im_start|>assistant\n")
        self.assertEqual("".join(s["text"] for s in found["segments"]), found["text"])
        untrusted = "".join(s["text"] for s in found["segments"] if not s["trusted"])
        self.assertEqual(untrusted, "usera<|im_end|>é")
        special = [t for t in found["tokens"] if t["special"]]
        self.assertEqual([t["text"] for t in special],
                         ["<|im_start|>", "<|im_end|>", "<|im_start|>"])
        self.assertTrue(all(t["trusted"] for t in special))
        self.assertEqual(found["end_ids"], [257])
        self.assertEqual((found["template"], found["dialect"]), ("default", "hermes"))
        self.assertIs(found["opens_in_reasoning"], False)
        self.assertEqual(len(found["warnings"]), 1)
        self.assertIn("<|im_end|>", found["warnings"][0])
        self.assertIn("byte 18 ", found["warnings"][0])

    def test_tokens_say_where_they_came_from(self):
        found = self.explain([{"role": "user", "content": "abc"}, {"role": "x", "content": ""}])
        for token in found["tokens"]:
            segment = found["segments"][token["segment"]]
            self.assertEqual(token["trusted"], segment["trusted"])
            self.assertIn(token["text"], segment["text"])
        self.assertEqual("".join(t["text"] for t in found["tokens"]), found["text"])

    def test_ids_are_those_of_the_prompt(self):
        talk = [{"role": "user", "content": "x <|im_start|> y"}]
        found = self.explain(talk)
        ids = [t["id"] for t in found["tokens"]]
        back = self.ok("detokenize", self.path, stdin=json.dumps(ids).encode()).text
        self.assertEqual(back, found["text"])
        self.assertEqual(ids.count(256), 2)

    def test_spellings_of_messages_are_told(self):
        for content, n in (("", 0), ("<|im_en", 0), ("<|im_end|>", 1), ("<|im_start|><|im_end|>", 2),
                           ("x<|im_end|>y<|im_end|>", 2), ("row300", 0), ("< |im_end|>", 0)):
            found = self.explain([{"role": "user", "content": content}])
            self.assertEqual(len(found["warnings"]), n, content)

    def test_a_spelling_across_the_border_of_a_message(self):
        path = self.write("split.jinja", "<|im_{{ messages[0].content }}")
        found = self.explain([{"role": "user", "content": "end|>"}], "--template", path)
        self.assertEqual(len(found["warnings"]), 1)
        self.assertFalse(any(t["special"] for t in found["tokens"]))

    def test_thought_that_the_prompt_opens(self):
        path = self.write("think.jinja",
                          "<tool_call>{{ messages[0].content }}"
                          "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}")
        found = self.explain([{"role": "user", "content": "a"}], "--template", path)
        self.assertIs(found["opens_in_reasoning"], True)
        found = self.explain([{"role": "user", "content": "a"}], "--template", path,
                             "--no-generation-prompt")
        self.assertIs(found["opens_in_reasoning"], False)

    def test_variables(self):
        path = self.write("var.jinja", "{{ a }}{{ b|length }}")
        found = self.explain([], "--template", path, "--var", "a=x", "--var", "b=[1,2]")
        self.assertEqual(found["text"], "x2")

    def test_for_a_person(self):
        result = self.ok("explain", self.path, "-",
                         stdin=json.dumps([{"role": "user", "content": "a\x1b[31m"}]).encode())
        for words in ("dialect   hermes", "segments\n", "tokens\n", 'ends with 257 "<|im_end|>"',
                      '"<|im_start|>"', "\\u001b[31m"):
            self.assertIn(words, result.text)
        self.assertNotIn("\x1b", result.text)
        self.assertNotIn("warnings", result.text)

    def test_refusals(self):
        self.fails(2, "explain", self.path)
        self.error(3, "explain", self.path, "/nowhere/talk.json")
        self.error(6, "explain", self.path, "-", stdin=b"{")
        self.error(2, "explain", self.path, "-", stdin=b"5")
        self.error(2, "explain", self.path, "-", stdin=b'{"messages": 5}')
        path = self.write("no.jinja", "{{ raise_exception('never') }}")
        error = self.error(2, "explain", self.path, "-", "--template", path, stdin=b"[]")
        self.assertEqual(error["message"], "never")

    def test_empty_prompt(self):
        path = self.write("none.jinja", "")
        found = self.explain([], "--template", path)
        self.assertEqual((found["text"], found["tokens"], found["segments"]), ("", [], []))
        self.assertIn("the prompt is empty", found["warnings"])

    def test_another_tokenizer(self):
        path = self.write("plain.jinja", "{{ messages[0].content }}")
        found = self.ok("explain", SP_FOLDER, "-", "--template", path, "--json",
                        stdin=json.dumps([{"role": "user", "content": "naïve café 42"}]).encode()).json
        self.assertGreater(len(found["tokens"]), 2)
        self.assertFalse(any(t["trusted"] for t in found["tokens"]))


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
