#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`generate --json` tells reasoning, calls and text apart. The answers are forced: rows of the tiny
vocabulary get long spellings, and a bias on one row makes the model say it again and again."""
import json
import os
import sys
import tempfile

import tiny
from command import CommandCase, main

CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "x"}}\n</tool_call>'
THOUGHT = "<think>\nlet me see\n</think>\n\n"
ROW = 300  # a row of the embedding whose spelling is ours to choose
TOOLS = [{"type": "function",
          "function": {"name": "add", "parameters": {
              "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}}}]
XML_TEMPLATE = "{{ messages[0].content }}<tool_call><function=<parameter="
XML_CALL = ("<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n"
            "</parameter>\n</function>\n</tool_call>")


class Answer(CommandCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name
        tiny.make(self.path)

    def change(self, name, fn):
        path = os.path.join(self.path, name)
        with open(path, encoding="utf-8") as f:
            value = json.load(f)
        fn(value)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(value, f)

    def spell(self, row, text):
        """Makes a token of the vocabulary stand for text."""
        letters = tiny.byte_letters()
        spelling = "".join(letters[b] for b in text.encode())

        def change(tokenizer):
            vocabulary = tokenizer["model"]["vocab"]
            old = [t for t, i in vocabulary.items() if i == row][0]
            del vocabulary[old]
            vocabulary[spelling] = row
        self.change("tokenizer.json", change)

    def set_template(self, text):
        self.change("tokenizer_config.json", lambda config: config.update(chat_template=text))

    def say(self, text, n, *options):
        self.spell(ROW, text)
        return self.ok("generate", self.path, "-p", "Hi", "--json", "-n", n, "--temp", 0,
                       "--logit-bias", "%d=1000" % ROW, *options).json

    def test_calls(self):
        found = self.say(CALL, 2)
        call = {"name": "add", "arguments": '{"a": 1, "b": "x"}', "id": None}
        self.assertEqual(found["calls"], [call, call])
        self.assertEqual((found["text"], found["reasoning"]), ("", None))
        self.assertEqual(found["ids"], [ROW, ROW])
        self.assertEqual(found["finish"], "length")

    def test_a_thought_comes_first_only(self):
        found = self.say(THOUGHT + "So: 4. ", 2)
        self.assertEqual(found["reasoning"], "let me see")
        self.assertEqual(found["text"], "So: 4. " + THOUGHT + "So: 4. ")
        self.assertEqual(found["calls"], [])

    def test_a_thought_that_the_prompt_opened(self):
        self.set_template(tiny.TEMPLATE.replace("assistant\n{% endif", "assistant\n<think>\n{% endif"))
        found = self.say("hm ", 3)
        self.assertEqual((found["reasoning"], found["text"]), ("hm hm hm ", ""))
        self.set_template(tiny.TEMPLATE)
        found = self.ok("generate", self.path, "-p", "Hi", "--json", "-n", 3, "--temp", 0,
                        "--logit-bias", "%d=1000" % ROW).json
        self.assertEqual((found["reasoning"], found["text"]), (None, "hm hm hm "))

    def test_what_is_no_call_stays_text(self):
        broken = CALL.replace('"a": 1', '"a": one')
        self.assertEqual(self.say(broken, 2)["text"], broken * 2)
        cut = self.ok("generate", self.path, "-p", "Hi", "--json", "-n", 1, "--temp", 0,
                      "--logit-bias", "%d=1000" % ROW).json
        self.assertEqual((cut["text"], cut["calls"]), (broken, []))

    def test_raw_never_splits(self):
        found = self.say(CALL, 1, "--raw")
        self.assertNotIn("calls", found)
        self.assertEqual(found["text"], CALL)

    def test_for_a_person_nothing_changes(self):
        self.spell(ROW, CALL)
        plain = self.ok("generate", self.path, "-p", "Hi", "-n", 2, "--temp", 0, "--logit-bias",
                        "%d=1000" % ROW)
        self.assertEqual(plain.text, CALL * 2 + "\n")

    def test_a_plain_dialect_has_no_such_fields(self):
        self.set_template("{{ messages[0].content }}")
        found = self.say(CALL, 1)
        self.assertNotIn("calls", found)
        self.assertNotIn("reasoning", found)
        self.assertEqual(found["text"], CALL)

    def test_stop_texts_count_in_text_alone(self):
        found = self.say(THOUGHT + "see me. ", 2, "--stop", "see")
        self.assertEqual((found["reasoning"], found["text"], found["finish"]),
                         ("let me see", "", "stop"))
        found = self.ok("generate", self.path, "-p", "Hi", "--json", "-n", 2, "--temp", 0,
                        "--logit-bias", "%d=1000" % ROW, "--stop", "me.").json
        self.assertEqual((found["text"], found["finish"]), ("see ", "stop"))

    def test_tools_type_arguments(self):
        tools = os.path.join(self.path, "tools.json")
        with open(tools, "w", encoding="utf-8") as f:
            json.dump(TOOLS, f)
        self.set_template(XML_TEMPLATE)
        found = self.say(XML_CALL, 1, "--tools", tools)
        self.assertEqual(json.loads(found["calls"][0]["arguments"]), {"a": 1, "b": "2"})
        self.assertEqual(found["calls"][0]["name"], "add")
        without = self.ok("generate", self.path, "-p", "Hi", "--json", "-n", 1, "--temp", 0,
                          "--logit-bias", "%d=1000" % ROW).json
        self.assertEqual(json.loads(without["calls"][0]["arguments"]), {"a": 1, "b": 2})

    def test_noise_is_the_same_split_or_not(self):
        for seed in range(12):
            options = ("-p", "Tell me", "-n", 40, "--temp", 1.2, "--seed", seed, "--ignore-eos")
            split = self.ok("generate", self.path, *options, "--json").json
            plain = self.ok("generate", self.path, *options).text
            self.assertEqual(split["text"].rstrip("\n"), plain.rstrip("\n"), seed)
            self.assertEqual((split["reasoning"], split["calls"]), (None, []))


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
