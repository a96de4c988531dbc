#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bugs that other engines had in their text side, each with at least twenty relatives, through the
command: BL05, BL06, BL09, BL28 of the reliability specification's bug log.

A model cannot be told what to say; a row of the tiny model's vocabulary can be told what it stands
for, and a bias makes the model choose it. So an answer is one token here; the same answers cut into
tokens in every way are in tests/unit/engine/test_answer_stream.c."""
import json
import os
import sys
import tempfile
import time
import unicodedata

import tiny
from command import ROOT, CommandCase, main

ROW = 300
DATA = os.path.join(ROOT, "tests", "data", "tokenizers")
RELATIVES_MIN = 20


def change(folder, name, fn):
    path = os.path.join(folder, name)
    with open(path, encoding="utf-8") as f:
        value = json.load(f)
    fn(value)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f)


class BugCase(CommandCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name

    def spell(self, row, text):
        letters = tiny.byte_letters()

        def respell(tokenizer):
            vocabulary = tokenizer["model"]["vocab"]
            del vocabulary[[t for t, i in vocabulary.items() if i == row][0]]
            vocabulary["".join(letters[b] for b in text.encode())] = row
        change(self.path, "tokenizer.json", respell)

    def say(self, n, *options):
        return self.ok("generate", self.path, "-p", "Hi", "-n", n, "--temp", 0, "--logit-bias",
                       "%d=1000" % ROW, *options)

    def collected_and_streamed(self, *arguments):
        """The text with --json, after a look that the stream for a person gave the same bytes."""
        collected = self.ok(*arguments, "--json").json
        streamed = self.ok(*arguments).text
        text = collected["text"]
        self.assertEqual(streamed, text if text.endswith("\n") else text + "\n", arguments)
        return collected


class BL05(BugCase):
    """A thought mentions its own closing tag; the rest of the thought must not become text."""

    MENTIONS = ("`</think>`", "``</think>``", '"</think>"', "'</think>'",
                "\n```\n</think>\n```\n", "`<think>x</think>`", "`</think>` or `</think>`",
                "\n````\n```\n</think>\n```\n````\n")
    THOUGHTS = ("%s ends it.", "The tag %s ends it.", "It ends with %s")

    def test_the_thought_ends_at_its_own_tag(self):
        tiny.make(self.path)
        change(self.path, "tokenizer_config.json", lambda c: c.update(
            chat_template="<tool_call>{% for m in messages %}{% if m.reasoning_content %}<think>\n"
                          "{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}"
                          "{% endfor %}"))
        n = 0
        for mention in self.MENTIONS:
            for shape in self.THOUGHTS:
                thought = (shape % mention).strip()
                answer = "<think>\n%s\n</think>\n\nFour." % thought
                self.spell(ROW, answer)
                found = self.say(1, "--json").json
                self.assertEqual((found["reasoning"], found["text"]), (thought, "Four."), answer)
                # The next turn shows the model what it had said.
                turn = [{"role": "assistant", "content": found["text"],
                         "reasoning_content": found["reasoning"]}]
                again = self.ok("template", self.path, "-", stdin=json.dumps(turn).encode()).text
                self.assertEqual(again, "<tool_call>" + answer)
                n += 1
        self.assertGreaterEqual(n, RELATIVES_MIN)

    def test_letters_close_nothing_where_the_tag_is_a_token(self):
        tiny.make(self.path)

        def add(tokenizer):
            for i, tag in enumerate(("<think>", "</think>")):
                row = 310 + i
                vocabulary = tokenizer["model"]["vocab"]
                del vocabulary["row%d" % row]
                vocabulary[tag] = row
                tokenizer["added_tokens"].append(
                    {"id": row, "content": tag, "single_word": False, "lstrip": False,
                     "rstrip": False, "normalized": False, "special": True})
        change(self.path, "tokenizer.json", add)
        change(self.path, "tokenizer_config.json", lambda c: c.update(
            chat_template="<tool_call>{{ messages[0].content }}<|im_start|>assistant\n<think>"))
        self.spell(ROW, "so </think> it is. ")
        found = self.say(2, "--json").json
        self.assertEqual((found["reasoning"], found["text"]), ("so </think> it is. " * 2, ""))


class BL06(BugCase):
    """With stop texts, streaming must give the very bytes that collecting gives."""

    def test_tokens_that_hold_or_touch_a_stop_text(self):
        tiny.make(self.path)
        n = 0
        for token in ("?\n", "ab?\ncd", "\n?", "né\n"):
            self.spell(ROW, token)
            whole = token * 3
            stops = {whole[a:b] for a in range(len(token)) for b in range(a + 1, a + 5)}
            for stop in sorted(stops)[:6]:
                found = self.collected_and_streamed(
                    "generate", self.path, "-p", "Hi", "-n", 3, "--temp", 0, "--logit-bias",
                    "%d=1000" % ROW, "--stop", stop)
                self.assertEqual(found["text"], whole[:whole.index(stop)], (token, stop))
                self.assertEqual(found["finish"], "stop")
                n += 1
        self.assertGreaterEqual(n, RELATIVES_MIN)

    def test_stop_texts_out_of_noise(self):
        tiny.make(self.path)
        n = 0
        for seed in range(7):
            say = ("generate", self.path, "-p", "Tell me %d" % seed, "-n", 40, "--temp", 1.2,
                   "--seed", seed, "--ignore-eos")
            whole = self.collected_and_streamed(*say)["text"]
            for at in (1, len(whole) // 2, len(whole) - 2):
                stop = whole[at:at + 1 + seed % 3]
                if "\0" in stop:
                    continue  # no argument of a command can hold it
                found = self.collected_and_streamed(*say, "--stop", stop, "--stop", "never there")
                self.assertEqual(found["text"], whole[:whole.index(stop)], (seed, stop))
                n += 1
            found = self.collected_and_streamed(*say, "--stop", whole[-3:] + "and more")
            self.assertEqual(found["text"], whole)
        self.assertGreaterEqual(n, RELATIVES_MIN)


class BL09(CommandCase):
    """Long runs of one thing: no crash, no quadratic time, and the text comes back."""

    RUNS = ("\n", " ", "\t", "\r\n", " \n", "a", "ab ", "Z", "0", "1.", "!", "-", "'s", "é",
            "e\u0301", "\u0301", "漢", "\U0001F600", "\u00A0", "\u200B", "\u0600", "क्", "<|", "\x00")
    KINDS = ("gpt2-bytelevel", "llama3", "o200k", "qwen2-nfc")
    BYTES = 100_000  # linear: well under a second; quadratic: minutes
    SECONDS_MAX = 60

    def check(self, kind, run, n_bytes):
        text = run * (n_bytes // len(run.encode()))
        start = time.monotonic()
        ids = self.ok("tokenize", os.path.join(DATA, kind), "--no-special", "--json",
                      stdin=text.encode()).json["ids"]
        self.assertLess(time.monotonic() - start, self.SECONDS_MAX, (kind, run))
        back = self.ok("detokenize", os.path.join(DATA, kind), stdin=json.dumps(ids).encode())
        if kind == "qwen2-nfc":
            text = unicodedata.normalize("NFC", text)
        self.assertTrue(back.out == text.encode(), (kind, run))

    def test_runs(self):
        self.assertGreaterEqual(len(self.RUNS), RELATIVES_MIN)
        for i, run in enumerate(self.RUNS):
            self.check(self.KINDS[i % len(self.KINDS)], run, self.BYTES)
            self.check(self.KINDS[(i + 1) % len(self.KINDS)], run, 1000)

    def test_the_reported_ones_longer(self):
        for run in ("\n", " ", "a", "\u0301"):
            self.check("llama3", run, 10 * self.BYTES)


class BL28(BugCase):
    """Added tokens that hold letters of the byte-level alphabet decode to themselves."""

    SHAPES = ("[%s]", "<|%s|>", "x%s", "%sx", "%s%s", " %s", "%s ", "é%s", "%sé", "\U0001F600%s",
              "%s\U0001F600", "<%s", "%s>", "%s_%s", "#%s#", "\n%s", "%s\n", "漢%s漢", "%s%s%s",
              "tok:%s", "Ġ%s", "%sĊ")
    AROUND = "一"

    def write(self, shape, is_special, is_normalized):
        contents = [shape.replace("%s", letter) for letter in tiny.byte_letters()]
        tiny.write_tokenizer(self.path)

        def add(tokenizer):
            for i, content in enumerate(contents):
                tokenizer["added_tokens"].append(
                    {"id": 320 + i, "content": content, "single_word": False, "lstrip": False,
                     "rstrip": False, "normalized": is_normalized, "special": is_special})
        change(self.path, "tokenizer.json", add)
        return contents

    def test_every_letter_in_every_shape(self):
        self.assertGreaterEqual(len(self.SHAPES), RELATIVES_MIN)
        around = list(self.AROUND.encode())
        for i, shape in enumerate(self.SHAPES):
            contents = self.write(shape, i % 2 == 0, i % 3 == 0)
            texts = [self.AROUND + c + self.AROUND for c in contents] + [self.AROUND.join(contents)]
            lines = "".join(json.dumps(t) + "\n" for t in texts).encode()
            ids = [x["ids"] for x in
                   self.ok("tokenize", self.path, "--json-lines", stdin=lines).lines]
            for k in range(256):
                self.assertEqual(ids[k], around + [320 + k] + around, contents[k])
            back = self.ok("detokenize", self.path, "--json-lines",
                           stdin="".join(json.dumps(x) + "\n" for x in ids).encode()).lines
            self.assertEqual([x["text"] for x in back], texts, shape)

    def test_in_a_stream(self):
        for content in ("Ö", "ÖÖ", "<Ä>", "Ġx", "xĊ", "äöü"):
            with tempfile.TemporaryDirectory() as folder:
                self.path = tiny.make(folder)

                def add(tokenizer, text=content):
                    vocabulary = tokenizer["model"]["vocab"]
                    del vocabulary["row%d" % ROW]
                    old = vocabulary.pop(text, None)
                    if old is not None:  # the letter of a byte: that byte goes without
                        vocabulary["free"] = old
                    vocabulary[text] = ROW
                    tokenizer["added_tokens"].append(
                        {"id": ROW, "content": text, "single_word": False, "lstrip": False,
                         "rstrip": False, "normalized": False, "special": False})
                change(self.path, "tokenizer.json", add)
                found = self.collected_and_streamed(
                    "generate", self.path, "-p", "Hi", "-n", 3, "--temp", 0, "--logit-bias",
                    "%d=1000" % ROW)
                self.assertEqual(found["text"], content * 3)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
