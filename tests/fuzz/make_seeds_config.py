#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seed corpus of fuzz_config: the config.json of every golden, and of families and features that no
golden shows, each as small as it stays meaningful.

Standard library only. Writes tests/fuzz/corpus/fuzz_config/*.json; running it twice gives the same
bytes. Inputs that a fuzzer found are kept beside them under other names.
"""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDENS = os.path.join(HERE, "..", "data", "goldens")
OUT = os.path.join(HERE, "corpus", "fuzz_config")
LLAMA = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 16, "vocab_size": 32, "max_position_embeddings": 64,
         "rms_norm_eps": 1e-5}
# What writers add and readers leave alone.
NOISE = ("transformers_version", "architectures", "torch_dtype", "dtype", "initializer_range",
         "use_cache", "attention_dropout", "pad_token_id", "_name_or_path")


def seeds():
    for name in sorted(os.listdir(GOLDENS)):
        path = os.path.join(GOLDENS, name, "config.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                config = json.load(file)
            yield name, {k: v for k, v in config.items() if k not in NOISE}
    yield "plain", LLAMA
    yield "linear", {**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.0}}
    yield "eos_list", {**LLAMA, "eos_token_id": [1, 2, 3], "bos_token_id": 0}
    yield "mlx", {**LLAMA, "quantization": {"group_size": 64, "bits": 4, "model.layers.0.mlp.up_proj":
                                            {"group_size": 32, "bits": 8}, "lm_head": False}}
    yield "fp8", {**LLAMA, "quantization_config": {"quant_method": "fp8",
                                                   "weight_block_size": [128, 128]}}
    yield "nested", {"model_type": "gemma3", "text_config": {**LLAMA, "model_type": "gemma3_text"}}
    yield "billion", {**LLAMA, "num_hidden_layers": 10 ** 9}
    yield "negative", {**LLAMA, "num_attention_heads": -2}


def main():
    os.makedirs(OUT, exist_ok=True)
    for name, config in seeds():
        with open(os.path.join(OUT, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(config, file, separators=(",", ":"), sort_keys=True)


if __name__ == "__main__":
    main()
