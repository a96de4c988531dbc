#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem quantize` from outside: outputs run and stay near their source, GGUF files made from
safetensors give the reference framework's logits, and a killed run goes on to the same bytes."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from command import GOLDENS, IS_SANITIZED, TANDEM, CommandCase, main
from tiny import write_tokenizer

GGUF_CASES = ("llama", "llama3-rope", "qwen2", "qwen3", "yarn")
REFUSED = {"mistral-sliding": "window", "smollm3": "fourth", "gpt-oss": "gpt_oss",
           "gemma2": "scale", "lfm2": "lfm2"}


def digest(path):
    """Names and contents of a file or of a folder's files."""
    found = hashlib.sha256()
    names = sorted(os.listdir(path)) if os.path.isdir(path) else [""]
    for name in names:
        found.update(name.encode())
        with open(os.path.join(path, name) if name else path, "rb") as f:
            found.update(f.read())
    return found.hexdigest()


class Quantize(CommandCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tandem-quantize-")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def quantize(self, case, out, *arguments):
        return self.ok("quantize", os.path.join(GOLDENS, case), self.path(out), "--json",
                       *arguments).json

    def test_more_bits_are_nearer(self):
        last = 0.0
        for bits in (8, 6, 5, 4, 3, 2):
            found = self.quantize("llama", "b%d" % bits, "--bits", bits, "--group", 32)
            with self.subTest(bits=bits):
                self.assertGreater(found["kl"], last)
                self.assertEqual(found["positions"], 128)
                self.assertAlmostEqual(found["bpw"], 8 * found["bytes"] / found["weights"], 3)
                self.assertLess(found["bpw"], bits + 1.2)
            last = found["kl"]

    def test_nothing_changed_is_no_distance(self):
        with open(self.path("none.json"), "w", encoding="utf-8") as f:
            json.dump({"*": False}, f)
        found = self.quantize("llama", "same", "--recipe", self.path("none.json"))
        self.assertEqual(found["kl"], 0)
        self.assertEqual(found["top1_agreement"], 1)
        self.assertEqual(found["quantized"], 0)

    def test_gguf_has_the_framework_logits(self):
        for case in GGUF_CASES:
            with self.subTest(case=case):
                found = self.quantize(case, case + ".gguf", "--gguf", "f32")
                self.assertLess(found["kl"], 1e-9)
                golden = self.ok("golden", os.path.join(GOLDENS, case), "--model",
                                 self.path(case + ".gguf"), "--tier", "exact", "--json").json
                self.assertLessEqual(golden["max_rel"], 1e-4)
                self.assertEqual((golden["argmax_agree"], golden["gen_agree"]), (1, 1))

    def test_gguf_of_changed_configs(self):
        """Families whose tiny goldens say what a file cannot: with the values that readers know, both
        containers compute the same."""
        cases = {"smollm3": {"no_rope_layers": [1, 1, 1, 0], "no_rope_layer_interval": 4},
                 "gemma": {}, "gemma2": {"query_pre_attn_scalar": 16},
                 "gemma3": {"query_pre_attn_scalar": 16}}
        for case, changes in cases.items():
            source = self.path(case)
            shutil.copytree(os.path.join(GOLDENS, case), source)
            with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
                config = {**json.load(f), **changes}
            with open(os.path.join(source, "config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)
            with self.subTest(case=case):
                found = self.ok("quantize", source, self.path(case + ".gguf"), "--gguf", "f32",
                                "--json").json
                self.assertLess(found["kl"], 1e-9)
                self.assertGreater(found["positions"], 100)

    def test_gguf_of_gguf_is_gguf_of_the_source(self):
        self.quantize("llama", "a.gguf", "--gguf", "f32", "--no-kl")
        for kind in ("Q4_0", "Q8_0"):
            self.ok("quantize", self.path("a.gguf"), self.path(kind + "1"), "--gguf", kind,
                    "--no-kl")
            self.quantize("llama", kind + "2", "--gguf", kind, "--no-kl")
            self.assertEqual(digest(self.path(kind + "1")), digest(self.path(kind + "2")))

    def test_tokenizer_comes_along(self):
        source = self.path("source")
        shutil.copytree(os.path.join(GOLDENS, "llama"), source)
        write_tokenizer(source)
        self.ok("quantize", source, self.path("t.gguf"), "--gguf", "Q8_0", "--no-kl")
        self.ok("quantize", source, self.path("mlx"), "--no-kl")
        text = "a  b\n\n 12 h\u00e9llo <|im_start|>x".encode()
        want = self.ok("tokenize", source, "--json", stdin=text).json["ids"]
        for out in ("t.gguf", "mlx"):
            self.assertEqual(self.ok("tokenize", self.path(out), "--json", stdin=text).json["ids"],
                             want)
        talk = b'[{"role": "user", "content": "hi"}]'
        self.assertEqual(self.ok("template", self.path("t.gguf"), "-", stdin=talk).out,
                         self.ok("template", source, "-", stdin=talk).out)

    def test_what_gguf_cannot_say_is_refused(self):
        for case, word in REFUSED.items():
            with self.subTest(case=case):
                found = self.error(1, "quantize", os.path.join(GOLDENS, case),
                                   self.path("no.gguf"), "--gguf", "Q8_0")
                self.assertEqual(found["code"], "unsupported")
                self.assertIn(word, found["message"])
                self.assertEqual(os.listdir(self.dir), [])

    def test_slash_at_the_end(self):
        self.quantize("llama", "slash//", "--no-kl")
        self.quantize("llama", "plain", "--no-kl")
        self.assertEqual(digest(self.path("slash")), digest(self.path("plain")))
        self.error(2, "quantize", os.path.join(GOLDENS, "llama"), "")

    def test_output_is_never_overwritten(self):
        self.quantize("llama", "out", "--no-kl")
        before = digest(self.path("out"))
        self.error(1, "quantize", os.path.join(GOLDENS, "qwen2"), self.path("out"))
        self.assertEqual(digest(self.path("out")), before)

    def test_killed_runs_go_on(self):
        """SIGKILL at any moment: the output is absent or whole, and comes in the end."""
        self.quantize("gemma3", "calm", "--no-kl")
        want = digest(self.path("calm"))
        out = self.path("out")
        arguments = [TANDEM, "quantize", os.path.join(GOLDENS, "gemma3"), out, "--no-kl"]
        for i in range(5 if IS_SANITIZED else 40):
            with subprocess.Popen(arguments, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as child:
                time.sleep(0.0007 * (i % 20))
                child.send_signal(signal.SIGKILL)
            if os.path.exists(out):
                self.assertEqual(digest(out), want)
                shutil.rmtree(out)
        if not os.path.exists(out):
            subprocess.run(arguments, check=True, capture_output=True)
        self.assertEqual(digest(out), want)
        self.assertEqual(sorted(os.listdir(self.dir)), ["calm", "out"])


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
