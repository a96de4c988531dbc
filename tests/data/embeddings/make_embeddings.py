#!/usr/bin/env python3
"""Writes tiny embedding models and the vectors that transformers computes for some inputs.

Usage: make_embeddings.py OUT
Each case is a folder as sentence-transformers stores one: config.json, model.safetensors (bf16), modules.json, 1_Pooling/config.json,
config_sentence_transformers.json where the case has prompts, and golden.safetensors (f32):
  ids        [sum of lengths]  i32  the inputs, one after the other
  lengths    [N]               i32
  hidden_last, hidden_mean, hidden_first [N, H]  pooled outputs of the final norm, not normalised: of the last token, the mean, the first
  embedding  [N, H]            as the case's own pooling says, divided by its length
  short      [N, D]            the first D values of hidden, by the case's pooling, divided by their length (Matryoshka)
Each input runs alone, without padding. All arithmetic is float32 on bf16-rounded weights.
"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "goldens"))
from make_goldens import randomise  # noqa: E402

LENGTHS = [1, 2, 9, 33, 17, 70, 5, 24]
DIMENSIONS = 24
BASE = dict(vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2)
PROMPTS = {"query": "Instruct: Given a question, find what answers it\nQuery:", "document": ""}


def write_json(folder, name, value):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def sentence_files(folder, pooling, prompts):
    kind = "sentence_transformers.models."
    write_json(folder, "modules.json", [
        {"idx": 0, "name": "0", "path": "", "type": kind + "Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": kind + "Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": kind + "Normalize"}])
    write_json(folder, "1_Pooling/config.json", {
        "word_embedding_dimension": BASE["hidden_size"],
        **{"pooling_mode_" + m: m == pooling for m in
           ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")},
        "include_prompt": True})
    write_json(folder, "config_sentence_transformers.json", {
        "prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"})


def unit(x):
    return torch.nn.functional.normalize(x, dim=-1)


def case(out, name, model, pooling, prompts, seed):
    folder = os.path.join(out, name)
    model = model.eval().float()
    randomise(model, seed)
    g = torch.Generator().manual_seed(seed + 1)
    inputs = [torch.randint(3, BASE["vocab_size"], (1, n), generator=g) for n in LENGTHS]
    hidden = [model(input_ids=ids, use_cache=False).last_hidden_state[0].float() for ids in inputs]
    last = torch.stack([h[-1] for h in hidden])
    mean = torch.stack([h.mean(0) for h in hidden])
    first = torch.stack([h[0] for h in hidden])
    pooled = {"lasttoken": last, "mean_tokens": mean}[pooling]
    os.makedirs(folder, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    sentence_files(folder, pooling, prompts)
    save_file({"ids": torch.cat(inputs, 1)[0].to(torch.int32).contiguous(),
               "lengths": torch.tensor(LENGTHS, dtype=torch.int32), "hidden_last": last.contiguous(),
               "hidden_mean": mean.contiguous(), "hidden_first": first.contiguous(), "embedding": unit(pooled).contiguous(),
               "short": unit(pooled[:, :DIMENSIONS]).contiguous()}, os.path.join(folder, "golden.safetensors"))
    write_json(folder, "golden.json", {"class": type(model).__name__, "transformers": transformers.__version__,
                                       "torch": torch.__version__, "seed": seed, "pooling": pooling,
                                       "dtype": "weights bf16, arithmetic f32"})
    print(name, "ok")


def main():
    torch.set_grad_enabled(False)
    eager = dict(attn_implementation="eager")
    # As Qwen3-Embedding is stored: the base class, names without "model.", no head though none is tied.
    case(sys.argv[1], "qwen3-embedding",
         transformers.Qwen3Model(transformers.Qwen3Config(**BASE, head_dim=16, tie_word_embeddings=False, **eager)), "lasttoken", PROMPTS, 71)
    # Another family, mean pooling, no prompts.
    case(sys.argv[1], "mistral-mean", transformers.MistralModel(transformers.MistralConfig(**BASE, head_dim=16, sliding_window=8, **eager)),
         "mean_tokens", {}, 72)


if __name__ == "__main__":
    main()
