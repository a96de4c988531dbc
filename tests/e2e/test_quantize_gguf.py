#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem quantize --gguf bf16` beside llama.cpp's converter: of the same checkpoint both make the same
tensors, and every key that the converter writes for the architecture. Mixtures of experts, whose
checkpoints lie here only as the converter's files, are taken apart into Hugging Face's names first,
by the rules below, which are not the command's."""
import json
import os
import re
import shutil
import sys
import tempfile

import gguf_file
from command import GOLDENS, ROOT, SHARED, CommandCase, main

FILES = os.path.join(ROOT, "tests", "data", "goldens-gguf")
# Case by both names, and keys that the converter writes without need.
ALIKE = {"granite": (), "minicpm": (), "olmo": (), "olmo2": (), "glm4": (), "cohere": (), "cohere2": (),
         "phi3": ("phi3.rope.scaling.original_context_length",)}
LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
         "ffn_up_shexp": "mlp.shared_expert.up_proj", "ffn_down_shexp": "mlp.shared_expert.down_proj",
         "ffn_gate_inp_shexp": "mlp.shared_expert_gate"}
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
# Where the experts of a family are, and what its layers call other things.
QWEN = ("mlp.experts.%d.%s", ("gate_proj", "up_proj", "down_proj"), {"ffn_gate_inp": "mlp.gate"})
MIXTRAL = ("block_sparse_moe.experts.%d.%s", ("w1", "w3", "w2"), {"ffn_gate_inp": "block_sparse_moe.gate"})
STARCODER2 = (None, None, {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"})


def unpermuted(entry, head_dim):
    """Rows of each head: 0, 2, 4, ... then 1, 3, 5, ...; the converter's own order undone."""
    label, dims, data = entry
    row = len(data) // dims[0]
    rows = [data[i * row:(i + 1) * row] for i in range(dims[0])]
    out = []
    for head in range(0, dims[0], head_dim):
        out += rows[head:head + head_dim:2] + rows[head + 1:head + head_dim:2]
    return label, dims, b"".join(out)


def taken_apart(tensors, rules, head_dim):
    pattern, names, own = rules
    out = {}
    for name, entry in tensors.items():
        found = re.match(r"(?:blk\.(\d+)\.)?([a-z_]+)\.(weight|bias)$", name)
        layer, stem, suffix = found.groups()
        if layer is None:
            out["%s.%s" % (OUTER[stem], suffix)] = entry
            continue
        prefix = "model.layers.%s." % layer
        experts = re.match(r"ffn_(gate|up|down)_exps$", stem)
        if experts:
            label, dims, data = entry
            size = len(data) // dims[0]
            which = names[("gate", "up", "down").index(experts[1])]
            for e in range(dims[0]):
                out[prefix + pattern % (e, which) + ".weight"] = (label, dims[1:],
                                                                 data[e * size:(e + 1) * size])
            continue
        if stem in ("attn_q", "attn_k") and head_dim:
            entry = unpermuted(entry, head_dim)
        out["%s%s.%s" % (prefix, own.get(stem) or LAYER[stem], suffix)] = entry
    return out


class QuantizeGguf(CommandCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tandem-gguf-")
        self.addCleanup(shutil.rmtree, self.dir)

    def compare(self, source, file, without=()):
        out = os.path.join(self.dir, "out.gguf")
        self.ok("quantize", source, out, "--gguf", "bf16", "--no-kl")
        keys, tensors = gguf_file.read(out)
        want_keys, want = gguf_file.read(file)
        arch = want_keys["general.architecture"] + "."
        self.assertEqual(keys["general.architecture"] + ".", arch)
        for key, value in want_keys.items():
            if key.startswith(arch) and key not in without:
                self.assertIn(key, keys)
                self.assertEqual(keys[key], value, key)
        self.assertEqual(sorted(tensors), sorted(want))
        for name, entry in want.items():
            self.assertEqual(tensors[name][:2], entry[:2], name)
            self.assertTrue(tensors[name][2] == entry[2], name + ": bytes")
        os.remove(out)

    def rebuilt(self, file, config, rules, head_dim=0):
        """A folder with the tensors of a GGUF file under their Hugging Face names."""
        folder = os.path.join(self.dir, config["model_type"])
        os.mkdir(folder)
        _, tensors = gguf_file.read(file)
        gguf_file.write_safetensors(os.path.join(folder, "model.safetensors"),
                                    taken_apart(tensors, rules, head_dim))
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        return folder

    def config_of(self, case, **changes):
        with open(os.path.join(GOLDENS, case, "config.json"), encoding="utf-8") as f:
            return {**json.load(f), **changes}

    def test_families_of_one_mlp(self):
        for case, without in ALIKE.items():
            with self.subTest(case=case):
                self.compare(os.path.join(GOLDENS, case), os.path.join(FILES, case, "model.gguf"), without)

    def test_starcoder2(self):
        file = os.path.join(FILES, "starcoder2-full", "model.gguf")
        config = self.config_of("starcoder2", sliding_window=None)
        self.compare(self.rebuilt(file, config, STARCODER2), file)

    def test_experts(self):
        mixtral = os.path.join(FILES, "mixtral-full", "model.gguf")
        qwen2 = os.path.join(FILES, "qwen2-moe-full", "model.gguf")
        folders = (
            (mixtral, self.rebuilt(mixtral, self.config_of("mixtral", sliding_window=None), MIXTRAL, 16)),
            (qwen2, self.rebuilt(qwen2, self.config_of("qwen2-moe", decoder_sparse_step=1), QWEN)))
        for file, folder in folders:
            with self.subTest(file=file):
                self.compare(folder, file)
                self.check_quantized(folder)

    def check_quantized(self, folder):
        """Blocks of a stack, and what MLX's layout of the same folder becomes."""
        out, mlx, again = (os.path.join(self.dir, name) for name in ("q8.gguf", "mlx", "again.gguf"))
        found = self.ok("quantize", folder, out, "--gguf", "Q8_0", "--json").json
        self.assertLess(found["kl"], 0.05)  # a token of random weights changes its expert now and then
        self.ok("quantize", folder, mlx, "--bits", "8", "--group", "32", "--no-kl")
        found = self.ok("quantize", mlx, again, "--gguf", "f32", "--json").json
        self.assertLess(found["kl"], 1e-9)
        for name in (out, again):
            os.remove(name)
        shutil.rmtree(mlx)

    def test_shared_qwen3_experts(self):
        file = os.path.join(SHARED, "goldens-gguf", "qwen3-moe", "model.gguf")
        if not os.path.exists(file):
            self.skipTest("no shared goldens")
        config = self.config_of("qwen3-moe", mlp_only_layers=[])
        self.compare(self.rebuilt(file, config, QWEN), file)

    def test_experts_that_a_file_cannot_say(self):
        for case, field in (("qwen2-moe", "mlp_only_layers"), ("qwen3-moe", "mlp_only_layers"),
                            ("mixtral", "sliding_window")):
            with self.subTest(case=case):
                found = self.error(1, "quantize", os.path.join(GOLDENS, case),
                                   os.path.join(self.dir, "no.gguf"), "--gguf", "Q8_0")
                self.assertEqual(found["code"], "unsupported")
                self.assertIn(field, found["where"])
        file = os.path.join(FILES, "qwen2-moe-full", "model.gguf")
        config = self.config_of("qwen2-moe", decoder_sparse_step=1, norm_topk_prob=True)
        found = self.error(1, "quantize", self.rebuilt(file, config, QWEN),
                           os.path.join(self.dir, "no.gguf"), "--gguf", "Q8_0")
        self.assertIn("norm_topk_prob", found["where"])

    def test_lost_experts(self):
        """An expert that is missing, or one more than the configuration counts."""
        file = os.path.join(FILES, "qwen2-moe-full", "model.gguf")
        _, tensors = gguf_file.read(file)
        parts = taken_apart(tensors, QWEN, 0)
        del parts["model.layers.1.mlp.experts.3.up_proj.weight"]
        folder = self.rebuilt(file, self.config_of("qwen2-moe", decoder_sparse_step=1), QWEN)
        gguf_file.write_safetensors(os.path.join(folder, "model.safetensors"), parts)
        found = self.error(6, "quantize", folder, os.path.join(self.dir, "no.gguf"), "--gguf", "Q8_0")
        self.assertEqual((found["code"], found["message"][:9]), ("corrupt", "3 experts"))


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
