#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chat, by a pipe and at a terminal; Ctrl-C in a stream; models found by name."""
import json
import os
import pty
import select
import signal
import sys
import tempfile
import time

import tiny
from command import TANDEM, CommandCase, main, tandem, tandem_interrupted


class Terminal:
    """The command at a pseudo terminal."""

    def __init__(self, *arguments, env):
        self.rest = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(env)
            os.execv(TANDEM, [TANDEM, *arguments])

    def read_until(self, wanted, seconds=60):
        """What comes up to wanted; what comes behind it stays for the next call."""
        end = time.monotonic() + seconds
        while wanted not in self.rest and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    piece = os.read(self.fd, 4096)
                except OSError:
                    break
                if not piece:
                    break
                self.rest += piece
        if wanted not in self.rest:
            raise AssertionError("no %r in %r" % (wanted, self.rest))
        found, _, self.rest = self.rest.partition(wanted)
        return found + wanted

    def write(self, data):
        os.write(self.fd, data)

    def wait(self):
        try:
            while os.read(self.fd, 4096):
                pass
        except OSError:
            pass
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


class Chat(CommandCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, "tandem", "models", "tiny")
        os.makedirs(cls.model)
        tiny.make(cls.model)
        cls.env = {"XDG_CACHE_HOME": cls.folder.name, "XDG_STATE_HOME": cls.folder.name + "/state",
                   "TERM": "xterm"}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def chat(self, lines, *arguments):
        return tandem("chat", self.model, "-n", 6, "--temp", 0, *arguments,
                      stdin=lines.encode(), env=self.env)

    def test_a_pipe(self):
        saved = os.path.join(self.folder.name, "talk.json")
        result = self.chat("Hello.\nAnd \\\nagain.\n/save %s\n/nonsense\n" % saved, "--system", "Be.")
        self.assertEqual(result.code, 0, result.err)
        with open(saved, encoding="utf-8") as f:
            talk = json.load(f)["messages"]
        self.assertEqual([m["role"] for m in talk],
                         ["system", "user", "assistant", "user", "assistant"])
        self.assertEqual(talk[3]["content"], "And \nagain.")
        self.assertIn(b"unknown command", result.err)
        self.assertEqual(self.ok("template", self.model, saved, env=self.env).code, 0)

    def test_json_lines(self):
        result = self.chat("Hello.\nMore.\n", "--json")
        self.assertEqual(len(result.lines), 2)
        for line in result.lines:
            self.assertIn(line["finish"], ("stop", "length"))
        alone = tandem("generate", self.model, "-p", "Hello.", "-n", 6, "--json").json
        self.assertEqual(alone["text"], result.lines[0]["text"])

    def test_a_second_turn_is_the_whole_conversation(self):
        # What the caches kept must not show: the same answer from the rendered conversation.
        result = self.chat("Hello.\nMore.\n", "--json").lines
        talk = [{"role": "user", "content": "Hello."},
                {"role": "assistant", "content": result[0]["text"]},
                {"role": "user", "content": "More."}]
        text = self.ok("template", self.model, "-", stdin=json.dumps(talk).encode()).out
        alone = tandem("generate", self.model, "--raw", "-n", 6, "--json", stdin=text).json
        self.assertEqual(alone["text"], result[1]["text"])

    def test_a_turn_that_does_not_fit_is_told_and_taken_back(self):
        result = self.chat("%s\nHi.\n" % ("long " * 200), "--json")
        self.assertEqual(result.code, 0)
        self.assertEqual(result.error["code"], "does_not_fit")
        self.assertEqual(len(result.lines), 1)

    def test_reset_and_system_start_over(self):
        first, _, again = self.chat("Hello.\nMore.\n/reset\nHello.\n", "--json").lines
        self.assertEqual(first, again)

    def test_a_terminal(self):
        terminal = Terminal("chat", self.model, "-n", "400", "--temp", "0", "--ignore-eos",
                            "--tier", "reference", env=self.env)
        terminal.read_until(b"> ")
        time.sleep(0.3)  # the prompt comes before the terminal is made raw
        terminal.write(b"Hexx\x7f\x7fllo\n")
        terminal.read_until(b"llo\r\n")
        terminal.write(b"\x03")  # stops the answer, wherever it stands
        terminal.read_until(b"> ")
        time.sleep(0.3)
        terminal.write(b"half a line\x03")
        terminal.read_until(b"Ctrl-D")
        terminal.read_until(b"> ")
        time.sleep(0.3)
        terminal.write(b"/help\n")
        terminal.read_until(b"/reset")
        terminal.read_until(b"> ")
        terminal.write(b"\x04")
        self.assertEqual(terminal.wait(), 0)
        history = os.path.join(self.folder.name, "state", "tandem", "chat_history")
        with open(history, "rb") as f:
            self.assertIn(b"Hello", f.read())
        self.assertEqual(os.stat(history).st_mode & 0o77, 0)

    def test_control_characters_do_not_reach_a_terminal(self):
        terminal = Terminal("detokenize", self.model, env=self.env)
        terminal.write(b"[27, 93, 48, 59, 120, 7]\n\x04")
        self.assertIn(b"\\x1b]0;x\\x07", terminal.read_until(b"\\x07"))
        self.assertEqual(terminal.wait(), 0)

    def test_ctrl_c_ends_an_answer(self):
        long_model = os.path.join(self.folder.name, "long")
        os.makedirs(long_model)
        tiny.make(long_model, context=65536)
        full = self.ok("generate", long_model, "-p", "a", "-n", 400, "--ignore-eos").out
        result = tandem_interrupted("generate", long_model, "-p", "a", "-n", 60000, "--ignore-eos")
        self.assertEqual(result.code, 130, result.err)
        said = result.out.rstrip(b"\n")[:-3]  # a half character at the end is replaced
        common = min(len(said), len(full) - 4)
        self.assertEqual(said[:common], full[:common])
        self.assertNotIn(b"Error", result.err)

    def test_ctrl_c_while_waiting_for_input(self):
        terminal = Terminal("tokenize", self.model, env=self.env)
        time.sleep(0.5)
        os.kill(terminal.pid, signal.SIGINT)
        self.assertEqual(terminal.wait(), 130)

    def test_models_by_name(self):
        for name in ("tiny", self.model):
            self.assertEqual(self.ok("inspect", name, "--json", env=self.env).json["architecture"],
                             "llama")
        listed = self.ok("ls", "--json", env=self.env).json["models"]
        self.assertEqual([m["name"] for m in listed if m["source"] == "tandem"], ["tiny"])
        self.assertEqual(self.ok("ls", "--names", env=self.env).text.split()[:1], ["tiny"])
        error = self.error(3, "inspect", "tyni", env=self.env)
        self.assertIn("tiny", error["remedy"])

    def test_no_template_no_chat(self):
        with tempfile.TemporaryDirectory() as folder:
            tiny.make(folder, with_template=False)
            self.error(1, "chat", folder)
            self.error(2, "generate", folder, "-p", "x", "--system", "y")
            found = self.ok("generate", folder, "-p", "ab", "-n", 2, "--json").json
            self.assertEqual(found["prompt_ids"], [97, 98])


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
