#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tokenize, detokenize and template: their plain and batch forms, over tokenizer files alone."""
import json
import os
import sys
import tempfile

import tiny
from command import ROOT, SHARED, CommandCase, main, tandem

DATA = os.path.join(ROOT, "tests", "data", "tokenizers")
BYTE_LEVEL = ("deepseek", "gpt2-bytelevel", "llama3", "o200k", "qwen2-added-flags", "qwen2-nfc",
              "qwen35-nfc", "smollm-digits")


def json_lines(values):
    return "".join(json.dumps(v, ensure_ascii=False) + "\n" for v in values).encode()


class Text(CommandCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = cls.folder.name
        tiny.write_tokenizer(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def write(self, name, text):
        path = os.path.join(self.path, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def test_goldens_through_the_batch_forms(self):
        for kind in BYTE_LEVEL:
            with self.subTest(kind=kind):
                folder = os.path.join(DATA, kind)
                with open(os.path.join(folder, "golden.json"), encoding="utf-8") as f:
                    cases = json.load(f)["cases"]
                texts = json_lines(c["text"] for c in cases)
                with_special = self.ok("tokenize", folder, "--json-lines", stdin=texts).lines
                self.assertEqual([x["ids"] for x in with_special],
                                 [c["ids_with_special"] for c in cases])
                plain = self.ok("tokenize", folder, "--no-special", "--json-lines",
                                stdin=texts).lines
                self.assertEqual([x["ids"] for x in plain], [c["ids"] for c in cases])
                back = self.ok("detokenize", folder, "--json-lines",
                               stdin=json_lines(c["ids"] for c in cases)).lines
                self.assertEqual([x["text"] for x in back], [c["decoded"] for c in cases])

    def test_tokenize(self):
        found = self.ok("tokenize", self.path, "--json", "--offsets", stdin="é<|im_end|>".encode())
        self.assertEqual(found.json["ids"][-1], 257)
        self.assertEqual(found.json["offsets"][-1], [2, 12])
        plain = self.ok("tokenize", self.path, stdin=b"ab")
        self.assertEqual(plain.out, b"97 98\n")
        text = self.ok("tokenize", self.path, "--no-parse-special", stdin=b"<|im_end|>")
        self.assertEqual(len(text.text.split()), 10)

    def test_bytes_that_are_no_text(self):
        error = self.error(6, "tokenize", self.path, stdin=b"abc\xffd")
        self.assertIn("offset 3", error["where"])
        self.assertEqual(error["code"], "corrupt")

    def test_detokenize(self):
        found = self.ok("detokenize", self.path, "--json", stdin=b"[97, 256, 98]").json
        self.assertEqual(found, {"text": "a<|im_start|>b"})
        self.assertEqual(self.ok("detokenize", self.path, stdin=b"[195, 169, 255]").out,
                         b"\xc3\xa9\xff")
        found = self.ok("detokenize", self.path, "--json", stdin=b"[97, 195, 98, 240, 159]").json
        self.assertEqual(found, {"text": "a\ufffdb\ufffd", "bytes_hex": "61c362f09f"})
        self.error(2, "detokenize", self.path, stdin=b"[320]")
        self.error(2, "detokenize", self.path, stdin=b"{}")
        self.error(6, "detokenize", self.path, stdin=b"[1")

    def test_a_line_that_cannot_be_answered_is_answered(self):
        result = self.ok("tokenize", self.path, "--json-lines",
                         stdin=b'"a\\u0000b"\n5\nbroken\n"\xff"\n\n"z"')
        self.assertEqual(len(result.lines), 6)
        self.assertEqual(result.lines[0], {"ids": [97, 0, 98]})
        for line in result.lines[1:5]:
            self.assertIs(line["ok"], False)
            self.assertTrue(line["error"])
        self.assertEqual(result.lines[5], {"ids": [122]})
        back = self.ok("detokenize", self.path, "--json-lines", stdin=b"[97,0]\n[999]\n[98]\n")
        self.assertEqual(back.lines[0], {"text": "a\0"})
        self.assertIs(back.lines[1]["ok"], False)
        self.assertEqual(back.lines[2], {"text": "b"})
        self.assertEqual(back.out.count(b"\r"), 0)

    def test_template_forms(self):
        talk = [{"role": "user", "content": "Hi <|im_end|>"}]
        wanted = "<|im_start|>user\nHi <|im_end|><|im_end|>\n"
        opening = "<|im_start|>assistant\n"
        messages = self.write("messages.json", json.dumps(talk))
        whole = self.write("object.json", json.dumps({"messages": talk}))
        for path in (messages, whole):
            self.assertEqual(self.ok("template", self.path, path).text, wanted + opening)
        self.assertEqual(self.ok("template", self.path, messages, "--no-generation-prompt").text,
                         wanted)
        self.assertEqual(
            self.ok("template", self.path, "-", stdin=json.dumps(talk).encode()).text,
            wanted + opening)
        found = self.ok("template", self.path, messages, "--json").json
        self.assertEqual(found["text"], wanted + opening)
        self.assertEqual("".join(s["text"] for s in found["segments"]), found["text"])
        self.assertIn("Hi <|im_end|>",
                      [s["text"] for s in found["segments"] if not s["trusted"]][0] + "".join(
                          s["text"] for s in found["segments"] if not s["trusted"]))

    def test_template_from_a_file(self):
        path = self.write("mine.jinja", "{{ bos_token }}{{ messages|length }} {{ a }} {{ b }}")
        talk = self.write("talk.json", "[]")
        found = self.ok("template", "--template", path, talk, "--var", "a=[1, 2]", "--var", "b=x=y",
                        "--var", "bos_token=<s>")
        self.assertEqual(found.text, "<s>0 [1, 2] x=y")
        self.fails(2, "template", "--template", path, "model", talk)
        self.fails(2, "template", self.path)
        self.fails(2, "template", "--template", path, talk, "--var", "novalue")
        self.fails(3, "template", "--template", path, "/nowhere/talk.json")

    def test_template_that_refuses(self):
        path = self.write("no.jinja", "{% if messages|length > 1 %}"
                                      "{{ raise_exception('one at a time') }}{% endif %}ok")
        one = {"messages": [{"role": "user", "content": "a"}]}
        two = {"messages": one["messages"] * 2}
        lines = self.ok("template", "--template", path, "--json-lines",
                        stdin=json_lines([one, two, 3, {"messages": 5}])).lines
        self.assertEqual(lines[0]["text"], "ok")
        self.assertEqual((lines[1]["ok"], lines[1]["error"], lines[1]["raised"]),
                         (False, "one at a time", True))
        for line in lines[2:]:
            self.assertEqual((line["ok"], line["raised"]), (False, False))
        # a template that cannot be compiled is no answer at all
        self.fails(6, "template", "--template", self.write("bad.jinja", "{% if %}"), "--json-lines",
                   stdin=json_lines([one]))

    def test_continue_final_message(self):
        talk = {"messages": [{"role": "user", "content": "a"},
                             {"role": "assistant", "content": "The answer"}],
                "continue_final_message": True, "add_generation_prompt": False}
        found = self.ok("template", self.path, "--json-lines", stdin=json_lines([talk])).lines[0]
        self.assertTrue(found["text"].endswith("The answer<|im_end|>\n"))
        self.assertTrue(found["continue_text"].endswith("The answer"))
        path = self.write("hidden.jinja", "nothing of it")
        found = self.ok("template", "--template", path, "--json-lines",
                        stdin=json_lines([talk])).lines[0]
        self.assertTrue(found["ok"])
        self.assertIsNone(found["continue_text"])

    def test_no_template(self):
        with tempfile.TemporaryDirectory() as folder:
            tiny.write_tokenizer(folder, with_template=False)
            error = self.error(1, "template", folder, "--json-lines", stdin=b"")
            self.assertIn("--template", error["remedy"])

    def test_reader_that_went_away(self):
        self.assertEqual(
            tandem("tokenize", self.path, "--json-lines", stdin=json_lines(["a"] * 10)).code, 0)

    def test_shared_templates(self):
        path = os.path.join(SHARED, "templates")
        if not os.path.isdir(path):
            self.skipTest("shared data absent: templates")
        with open(os.path.join(path, "conversations.json"), encoding="utf-8") as f:
            talks = {c["name"]: c for c in json.load(f)["cases"]}
        with open(os.path.join(path, "variables.json"), encoding="utf-8") as f:
            variables = json.load(f)
        for name in ("smollm2-135m-instruct", "qwen3-0.6b", "llama-3.1-8b-instruct"):
            with open(os.path.join(path, "golden", name + ".json"), encoding="utf-8") as f:
                runs = json.load(f)
            asked = []
            for run in runs:
                value = {**variables[name], **run["kwargs"], "now": "2026-11-29T12:00:00"}
                tools = value.pop("tools_if_none", None)
                talk = talks[run["conversation"]]
                value.update(messages=talk["messages"], tools=talk.get("tools", tools),
                             documents=talk.get("documents"))
                asked.append(value)
            found = self.ok("template", "--template", os.path.join(path, name + ".jinja"),
                            "--json-lines", stdin=json_lines(asked)).lines
            self.assertEqual([x.get("text") for x in found], [r.get("text") for r in runs])


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
