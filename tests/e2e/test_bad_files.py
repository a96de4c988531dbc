#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Broken and lying checkpoints through the command: one typed error with file and place, within a
second, and no crash."""
import json
import os
import shutil
import struct
import sys
import tempfile

from command import GOLDENS, IS_SANITIZED, CommandCase, main, tandem

LLAMA = os.path.join(GOLDENS, "llama")
SECONDS = 5.0 if IS_SANITIZED else 1.0


class BadFiles(CommandCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.model = os.path.join(self.folder.name, "model")
        shutil.copytree(LLAMA, self.model)

    def path(self, name):
        return os.path.join(self.model, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def config(self, **changes):
        config = json.loads(self.read("config.json"))
        config.update(changes)
        self.write("config.json", json.dumps(config).encode())

    def refused(self, codes=(6,), words=(), verb="bench"):
        """The error of loading the model; where or message carries the words."""
        for code in codes:
            try:
                error = self.error(code, verb, self.model, "-p", "4", "-n", "1", "-r", "1")
                break
            except AssertionError:
                if code == codes[-1]:
                    raise
        told = json.dumps(error)
        for word in words:
            self.assertIn(word, told)
        return error

    def test_it_loads_when_whole(self):
        result = self.ok("bench", self.model, "-p", "4", "-n", "1", "-r", "1", "--json")
        self.assertGreater(len(result.lines), 0)

    def test_truncated_weights(self):
        whole = self.read("model.safetensors")
        for n in (0, 4, 8, 100, len(whole) // 2, len(whole) - 1):
            with self.subTest(bytes=n):
                self.write("model.safetensors", whole[:n])
                result = self.fails(6, "inspect", self.model)
                self.assertIn(b"model.safetensors", result.err)
                self.assertLess(result.seconds, SECONDS)

    def test_header_that_lies_about_its_length(self):
        whole = self.read("model.safetensors")
        for n in (0, 1, 2 ** 31, 2 ** 63, 2 ** 64 - 1, 2 ** 64 - 8):
            with self.subTest(length=n):
                self.write("model.safetensors", struct.pack("<Q", n) + whole[8:])
                result = self.fails(6, "inspect", self.model)
                self.assertLess(result.seconds, SECONDS)

    def test_header_that_lies_about_a_tensor(self):
        whole = self.read("model.safetensors")
        n = struct.unpack("<Q", whole[:8])[0]
        header = json.loads(whole[8:8 + n])
        name = next(k for k in header if k != "__metadata__")
        for change in ({"shape": [2 ** 62, 4]}, {"shape": [-1, 4]}, {"dtype": "BF17"},
                       {"data_offsets": [0, 2 ** 63]}, {"data_offsets": [8, 0]}, {"shape": "all"}):
            with self.subTest(change=change):
                lying = {**header, name: {**header[name], **change}}
                text = json.dumps(lying).encode()
                self.write("model.safetensors", struct.pack("<Q", len(text)) + text + whole[8 + n:])
                self.fails(6, "inspect", self.model)

    def test_missing_extra_and_misshapen_tensors_are_named(self):
        whole = self.read("model.safetensors")
        n = struct.unpack("<Q", whole[:8])[0]
        name = "model.layers.0.mlp.up_proj.weight"
        text = whole[8:8 + n]
        self.assertIn(name.encode(), text)
        renamed = text.replace(name.encode(), b"model.layers.0.mlp.no_proj.weight")
        self.write("model.safetensors", whole[:8] + renamed + whole[8 + n:])
        self.refused(words=("up_proj",))
        header = json.loads(text)
        header[name]["shape"] = header[name]["shape"][::-1]
        text = json.dumps(header).encode()
        self.write("model.safetensors", struct.pack("<Q", len(text)) + text + whole[8 + n:])
        if header[name]["shape"][0] != header[name]["shape"][1]:
            self.refused(words=(name,))

    def test_config_that_is_no_config(self):
        for text in (b"", b"{", b"[]", b"{} {}", b'{"a": 1, "a": 2}', b"\xff\xfe", b"[" * 100000):
            with self.subTest(text=text[:20]):
                self.write("config.json", text)
                result = self.fails_with((1, 6), "inspect", self.model)
                self.assertIn(b"config.json", result.err)
                self.assertLess(result.seconds, SECONDS)

    def fails_with(self, codes, *arguments):
        result = tandem(*arguments)
        self.assertIn(result.code, codes, result.err[-500:])
        self.assertNotIn(b"Sanitizer", result.err)
        self.assertNotIn(b"runtime error", result.err)
        return result

    def test_inspect_tells_what_keeps_a_model_from_running(self):
        for text in (b"{}", b'{"model_type": 3}'):
            with self.subTest(text=text):
                self.write("config.json", text)
                self.assertIn("model_type", self.ok("inspect", self.model).text)
                self.fails_with((6,), "bench", self.model, "-p", "4", "-n", "1", "-r", "1")

    def test_config_out_of_range(self):
        for key, value in (("num_hidden_layers", 10 ** 9), ("hidden_size", 0), ("hidden_size", -64),
                           ("num_attention_heads", 0), ("vocab_size", 2 ** 40),
                           ("rms_norm_eps", "small"), ("num_key_value_heads", 3)):
            with self.subTest(key=key, value=value):
                shutil.copy(os.path.join(LLAMA, "config.json"), self.path("config.json"))
                self.config(**{key: value})
                self.fails_with((1, 6), "bench", self.model, "-p", "4", "-n", "1", "-r", "1")

    def test_unknown_architecture_says_which_are_known(self):
        self.config(model_type="frobnicator", architectures=["FrobnicatorForCausalLM"])
        error = self.refused(codes=(1,), words=("frobnicator",))
        self.assertIn("docs/models.md", error["remedy"])
        self.config(model_type="qwen9", architectures=["Qwen9ForCausalLM"])
        self.assertIn("qwen3", self.refused(codes=(1,), words=("qwen9",))["remedy"])

    def test_no_weights_and_no_config(self):
        os.remove(self.path("model.safetensors"))
        self.fails_with((3, 6), "bench", self.model, "-p", "4")
        os.remove(self.path("config.json"))
        self.fails_with((3, 6), "inspect", self.model)

    def test_garbage_gguf(self):
        gguf = os.path.join(self.folder.name, "x.gguf")
        for data in (b"", b"GGUF", b"GGUF" + struct.pack("<I", 3), b"GGUF" + b"\xff" * 40,
                     b"GGUF" + struct.pack("<IQQ", 3, 2 ** 60, 2 ** 60), b"not a gguf at all" * 9,
                     b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2 ** 63)):
            with self.subTest(data=data[:24]):
                with open(gguf, "wb") as f:
                    f.write(data)
                result = self.fails_with((6, 1), "inspect", gguf)
                self.assertIn(b"x.gguf", result.err)
                self.assertLess(result.seconds, SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
