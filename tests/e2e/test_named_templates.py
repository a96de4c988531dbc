#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chat templates by name: from a list, from files, chosen by what the request has or by its name,
through `template`, `explain` and `generate`."""
import json
import os
import sys
import tempfile

import tiny
from command import CommandCase, main, tandem

USER = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
SOURCES = {"default": "D:{{ messages[0].content }}", "tool_use": "T:{{ (tools or [])|length }}<tool_call>",
           "rag": "R:{{ (documents or [])|length }}", "broken": "{% if %}"}


class NamedTemplates(CommandCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name
        tiny.make(self.path, with_template=False)

    def set_config(self, template):
        path = os.path.join(self.path, "tokenizer_config.json")
        with open(path, encoding="utf-8") as f:
            config = json.load(f)
        config["chat_template"] = template
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)

    def set_list(self, names):
        self.set_config([{"name": n, "template": SOURCES[n]} for n in names])

    def set_files(self, names):
        for name in names:
            path = os.path.join(self.path, "chat_template.jinja")
            if name != "default":
                os.makedirs(os.path.join(self.path, "additional_chat_templates"), exist_ok=True)
                path = os.path.join(self.path, "additional_chat_templates", name + ".jinja")
            with open(path, "w", encoding="utf-8") as f:
                f.write(SOURCES[name])

    def render(self, *options, **members):
        request = json.dumps({"messages": USER, **members}).encode()
        return self.ok("template", self.path, "-", *options, stdin=request).text

    def check_choice(self):
        self.assertEqual(self.render(), "D:Hi")
        self.assertEqual(self.render(tools=None, documents=None), "D:Hi")
        self.assertEqual(self.render(tools=TOOLS), "T:1<tool_call>")
        self.assertEqual(self.render(tools=[]), "T:0<tool_call>")
        self.assertEqual(self.render(documents=[{"text": "x"}]), "R:1")
        self.assertEqual(self.render(tools=TOOLS, documents=[{"text": "x"}]), "T:1<tool_call>")
        self.assertEqual(self.render(tools=TOOLS, chat_template="default"), "D:Hi")
        self.assertEqual(self.render("--template-name", "rag", documents=[1, 2]), "R:2")

    def test_a_list(self):
        self.set_list(["tool_use", "default", "rag"])
        self.check_choice()

    def test_files(self):
        self.set_files(["tool_use", "default", "rag"])
        self.check_choice()

    def test_files_put_the_list_aside(self):
        self.set_list(["default", "tool_use"])
        self.set_files(["default"])
        self.assertEqual(self.render(tools=TOOLS), "D:Hi")

    def test_default_alone_serves_everything(self):
        self.set_list(["default"])
        self.assertEqual(self.render(tools=TOOLS, documents=[1]), "D:Hi")

    def test_a_name_that_is_none(self):
        self.set_list(["default", "tool_use"])
        for name in ("tool", "", "Default", "default\0x", 5, ["default"]):
            error = self.error(2, "template", self.path, "-",
                               stdin=json.dumps({"messages": USER, "chat_template": name}).encode())
            self.assertIn("default, tool_use", error["remedy"])
            self.assertEqual(error["where"], "$.chat_template")

    def test_no_default(self):
        self.set_list(["tool_use", "rag"])
        self.assertEqual(self.render(tools=TOOLS), "T:1<tool_call>")
        self.error(2, "template", self.path, "-", stdin=json.dumps(USER).encode())
        self.set_list(["rag"])  # the only one is meant
        self.assertEqual(self.render(), "R:0")

    def test_one_that_cannot_be_compiled_harms_no_other(self):
        self.set_list(["default", "broken"])
        self.assertEqual(self.render(), "D:Hi")
        error = self.error(6, "template", self.path, "-", "--template-name", "broken",
                           stdin=json.dumps(USER).encode())
        self.assertIn("chat_template[1]: line 1", error["where"])

    def test_lists_that_are_odd(self):
        for odd in ([], [5], [{"name": "default"}], [{"template": "x"}], [{"name": 1, "template": 2}],
                    {"default": "x"}, 5):
            self.set_config(odd)
            self.error(1, "template", self.path, "-", stdin=json.dumps(USER).encode())
        self.set_config([{"name": "default", "template": "first"},
                         {"name": "default", "template": "second"}])
        self.assertEqual(self.render(), "first")

    def test_too_many(self):
        self.set_config([{"name": "t%d" % i, "template": "x"} for i in range(65)])
        error = self.error(1, "template", self.path, "-", stdin=json.dumps(USER).encode())
        self.assertIn("64", error["limit"])

    def test_dialect_is_that_of_the_template(self):
        self.set_list(["default", "tool_use"])
        for members, name, dialect in (({}, "default", "plain"),
                                       ({"tools": TOOLS}, "tool_use", "hermes")):
            found = self.ok("explain", self.path, "-", "--json",
                            stdin=json.dumps({"messages": USER, **members}).encode()).json
            self.assertEqual((found["template"], found["dialect"]), (name, dialect))

    def test_chat(self):
        """A chat's first answer is generate's to the same message by the same template."""
        self.set_list(["default", "tool_use"])
        answers = set()
        for options in ((), ("--template-name", "default"), ("--template-name", "tool_use")):
            drawn = ("-n", 40, "--temp", 1, "--top-p", 1, "--seed", 5, "--json", *options)
            chat = self.ok("chat", self.path, *drawn, stdin=b"Hi\n").lines[0]
            alone = self.ok("generate", self.path, "-p", "Hi", *drawn).json
            self.assertEqual(chat["text"], alone["text"])
            answers.add(chat["text"])
        self.assertEqual(len(answers), 2)
        said = tandem("chat", self.path, "--template-name", "no", stdin=b"Hi\n").err
        self.assertIn(b"there is no chat template", said)

    def test_generate(self):
        self.set_list(["default", "tool_use"])
        tools = os.path.join(self.path, "tools.json")
        with open(tools, "w", encoding="utf-8") as f:
            json.dump(TOOLS, f)

        def prompt_of(*options):
            found = self.ok("generate", self.path, "-p", "Hi", "-n", 1, "--json", *options).json
            return self.ok("detokenize", self.path,
                           stdin=json.dumps(found["prompt_ids"]).encode()).text

        self.assertEqual(prompt_of(), "D:Hi")
        self.assertEqual(prompt_of("--template-name", "tool_use"), "T:0<tool_call>")
        self.assertEqual(prompt_of("--tools", tools), "T:1<tool_call>")
        self.assertEqual(prompt_of("--tools", tools, "--template-name", "default"), "D:Hi")
        self.error(2, "generate", self.path, "-p", "Hi", "--raw", "--tools", tools)
        self.error(2, "generate", self.path, "-p", "Hi", "--template-name", "no")
        self.error(3, "generate", self.path, "-p", "Hi", "--tools", tools + "x")
        with open(tools, "w", encoding="utf-8") as f:
            f.write("{}")
        self.error(2, "generate", self.path, "-p", "Hi", "--tools", tools)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
