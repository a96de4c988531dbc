#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed: from text to vectors, as a script sees it. Qwen3-Embedding's conventions: its tokenizer
appends the end of text, prompts stand before the text, the last token is pooled."""
import json
import math
import os
import sys
import tempfile

import tiny
from command import ROOT, CommandCase, main, tandem

EMBEDDING = os.path.join(ROOT, "tests", "data", "embeddings", "qwen3-embedding")
END = 257  # <|im_end|> of the tiny tokenizer


def make(folder):
    """The golden's weights with the tiny byte-level tokenizer, whose post-processor appends END."""
    for name in os.listdir(EMBEDDING):
        if not name.startswith("golden"):
            os.symlink(os.path.join(EMBEDDING, name), os.path.join(folder, name))
    tiny.write_tokenizer(folder, with_template=False)
    path = os.path.join(folder, "tokenizer.json")
    with open(path, encoding="utf-8") as file:
        tokenizer = json.load(file)
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|im_end|>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|im_end|>": {"id": "<|im_end|>", "ids": [END], "tokens": ["<|im_end|>"]}}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)
    return folder


class Embed(CommandCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = make(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ids(self, text, *options):
        return self.ok("embed", self.model, "-p", text, "--json", *options).json["ids"]

    def test_the_tokenizer_ends_the_text(self):
        found = self.ok("embed", self.model, "-p", "ab", "--json").json
        self.assertEqual(found["ids"][-1], END)
        self.assertEqual(found["n_tokens"], 3)
        self.assertEqual((found["pooling"], found["normalized"], found["dimensions"]), ("last", True, 64))
        self.assertAlmostEqual(sum(x * x for x in found["embedding"]), 1.0, places=5)

    def test_prompts_stand_before_the_text(self):
        plain = self.ids("ab")
        query = self.ids("ab", "--prompt-name", "query")
        whole = self.ids("Instruct: Given a question, find what answers it\nQuery:ab")
        self.assertEqual(query, whole)
        self.assertEqual(self.ids("ab", "--prompt-name", "document"), plain)
        self.assertEqual(self.ids("ab", "--instruct", "Find"), self.ids("Instruct: Find\nQuery:ab"))
        error = self.error(3, "embed", self.model, "-p", "x", "--prompt-name", "poem")
        self.assertIn("query", error["remedy"])

    def test_text_from_everywhere(self):
        with tempfile.NamedTemporaryFile(suffix=".txt") as file:
            file.write(b"some text")
            file.flush()
            want = self.ok("embed", self.model, "-p", "some text").out
            self.assertEqual(self.ok("embed", self.model, "-f", file.name).out, want)
        self.assertEqual(self.ok("embed", self.model, stdin=b"some text").out, want)
        ids = self.ids("some text")
        self.assertEqual(self.ok("embed", self.model, "--ids", "/dev/stdin",
                                 stdin=json.dumps(ids).encode()).out, want)
        self.assertEqual(len(want.split()), 64)
        self.fails(2, "embed", self.model, "-p", "x", "-f", "/dev/null")

    def test_dimensions_are_cut_and_scaled(self):
        whole = self.ok("embed", self.model, "-p", "ab", "--json", "--no-normalize").json
        self.assertFalse(whole["normalized"])
        short = self.ok("embed", self.model, "-p", "ab", "--json", "--dimensions", 8).json["embedding"]
        head = whole["embedding"][:8]
        length = math.sqrt(sum(x * x for x in head))
        for got, want in zip(short, head):
            self.assertAlmostEqual(got, want / length, places=6)
        self.fails(2, "embed", self.model, "-p", "ab", "--dimensions", 65)

    def test_lines_are_answered_in_order(self):
        texts = ["text %d %s" % (i, "x" * (i % 40)) for i in range(150)]
        lines = [json.dumps(t) for t in texts]
        lines[3:3] = ["[]", "{", "[1, 9999]", json.dumps("y" * 600)]
        found = self.ok("embed", self.model, "--json-lines", stdin="\n".join(lines).encode()).lines
        self.assertEqual([a["ok"] for a in found[:8]], [True] * 3 + [False] * 4 + [True])
        self.assertIn("9999", found[5]["error"])
        self.assertIn("600" if "600" in found[6]["error"] else "601", found[6]["error"])
        good = [a for a in found if a["ok"]]
        self.assertEqual(len(good), 150)
        for i in (0, 4, 77, 149):
            alone = self.ok("embed", self.model, "-p", texts[i], "--json").json
            self.assertEqual(alone["embedding"], good[i]["embedding"])

    def test_a_model_without_a_head_says_so(self):
        for verb in (("generate", "-p", "x", "--raw"), ("score", "--text", "/dev/null"),
                     ("bench", "-p", "4", "-n", "1", "-r", "1")):
            result = tandem(verb[0], self.model, *verb[1:], stdin=b"x")
            self.assertNotEqual(result.code, 0)
            self.assertNotIn(b"Sanitizer", result.err)
        self.assertIn(b"no head", tandem("generate", self.model, "-p", "x", "--raw").err)
        self.assertTrue(self.ok("inspect", self.model, "--json").json["supported"])
        self.ok("fit", self.model)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
