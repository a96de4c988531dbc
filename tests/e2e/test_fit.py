#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fit and inspect: sizes before anything is loaded."""
import os
import shutil
import sys
import tempfile

from command import GOLDENS, ROOT, CommandCase, main, tandem

LLAMA = GOLDENS + "/llama"
GGUF = os.path.join(ROOT, "tests", "data", "goldens-gguf", "olmo2", "model.gguf")
SECTIONS = {"embedding", "attention", "mlp", "experts", "head", "norms"}


class Fit(CommandCase):
    def test_fields_of_folder_and_file(self):
        for model in (LLAMA, GGUF):
            with self.subTest(model=model):
                found = self.ok("fit", model, "--json").json
                self.assertEqual(found["total"], found["weights"] + found["kv"] + found["work"])
                self.assertEqual(found["verdict"], "fits")
                self.assertGreater(found["available"], found["total"])
                self.assertEqual(found["kv"], found["state"]["bytes"])
                self.assertIn("fits", self.ok("fit", model).text)

    def test_what_does_not_fit_is_4(self):
        result = self.fails(4, "fit", LLAMA, "--memory", "3M", "--ctx", 512, "--parallel", 8, "--json")
        found = result.json
        self.assertEqual(result.error["code"], "does_not_fit")
        self.assertEqual(found["verdict"], "does not fit")
        self.assertEqual(found["available"], 3 << 20)
        self.assertEqual(found["parallel"], 8)
        self.assertLess(found["ctx_fitting"], 512)
        self.assertGreater(found["total"], found["available"])
        self.assertIn(b"does not fit", self.fails(4, "fit", LLAMA, "--memory", "1").out)

    def test_storage_and_parallel_multiply(self):
        one = self.ok("fit", LLAMA, "--kv", "f32", "--json").json
        two = self.ok("fit", LLAMA, "--kv", "f32", "--parallel", 2, "--json").json
        half = self.ok("fit", LLAMA, "--kv", "bf16", "--json").json
        self.assertEqual(two["kv"], 2 * one["kv"])
        self.assertEqual(one["kv"], 2 * half["kv"])
        self.assertEqual((one["kv_type"], half["kv_type"]), ("f32", "bf16"))

    def test_sizes_are_read(self):
        for text, size in (("64M", 64 << 20), ("1.5GiB", 3 << 29), ("2KB", 2048), ("1G", 1 << 30),
                           ("123456789", 123456789)):
            found = tandem("fit", LLAMA, "--memory", text, "--json").json
            self.assertEqual(found["available"], size)
        for text in ("", "many", "0", "-1G", "1X", "1GX", "nan", "inf", "1e30"):
            with self.subTest(text=text):
                self.assertIn(b"--memory", self.fails(2, "fit", LLAMA, "--memory", text).err)
        self.fails(2, "fit", LLAMA, "--ctx", 1 << 20)  # more than the model was made for


class Inspect(CommandCase):
    def test_parts_and_state_of_every_golden_that_runs(self):
        n_run = 0
        for name in sorted(os.listdir(GOLDENS)):
            if not os.path.exists(os.path.join(GOLDENS, name, "config.json")):
                continue
            with self.subTest(name=name):
                found = self.ok("inspect", os.path.join(GOLDENS, name), "--json").json
                if not found["supported"]:
                    self.assertTrue(found["unsupported_why"])
                    continue
                n_run += 1
                self.assertLessEqual({p["part"] for p in found["parts"]}, SECTIONS)
                self.assertEqual(sum(p["params_active"] for p in found["parts"]),
                                 found["params_active"])
                self.assertEqual(sum(p["stored_bytes"] for p in found["parts"]) +
                                 found["unused_bytes"], found["bytes"])
                has_experts = any(p["part"] == "experts" for p in found["parts"])
                self.assertEqual(found["params_active"] < sum(p["params"] for p in found["parts"]),
                                 has_experts)
                for at in found["state"]:
                    for kind in ("f32", "bf16"):
                        groups = at[kind]["kinds"]
                        self.assertEqual(sum(g["bytes"] for g in groups), at[kind]["bytes"])
                        self.assertEqual(sum(g["layers"] for g in groups) +
                                         at[kind]["shared_layers"], found["layers"])
        self.assertGreaterEqual(n_run, 24)

    def test_packed_weights_are_counted_as_weights(self):
        folder = os.path.join(os.path.dirname(GOLDENS), "goldens-foreign")
        n = 0
        for name in sorted(os.listdir(folder)):
            if os.path.exists(os.path.join(folder, name, "config.json")):
                with self.subTest(name=name):
                    found = self.ok("inspect", os.path.join(folder, name), "--json").json
                    self.assertTrue(found["supported"])
                    self.assertTrue(all(t["runs"] for t in found["tensors"]))
                    inner, experts = (32, 4) if "moe" in name else (128, 1)
                    weights = 2 * (64 * 64 * 3 + 3 * 64 * inner * experts) + 128 * 64
                    self.assertAlmostEqual(found["params"] / weights, 1, delta=0.02)
                    n += 1
        self.assertEqual(n, 20)

    def test_for_a_person(self):
        text = self.ok("inspect", LLAMA).text
        self.assertIn("parts", text)
        self.assertIn("of 512 positions", text)

    def test_a_missing_tensor_is_told(self):
        """Loading would fail; inspect says so, and fit does not count what is not there."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(LLAMA + "/config.json", folder)
            with open(LLAMA + "/model.safetensors", "rb") as file:
                whole = file.read()
            name = b"model.layers.1.mlp.up_proj.weight"
            self.assertIn(name, whole)
            with open(os.path.join(folder, "model.safetensors"), "wb") as file:
                file.write(whole.replace(name, name.replace(b"up_", b"no_")))
            found = self.ok("inspect", folder, "--json").json
            self.assertFalse(found["supported"])
            self.assertIn("model.layers.1.mlp.up_proj.weight", found["unsupported_why"])
            self.assertNotIn("parts", found)
            self.assertIn(b"up_proj", self.fails(6, "fit", folder).err)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
