#!/usr/bin/env python3
"""Writes the case minicpm: transformers 5 has no class for it, so its numbers come from two others that must agree.

Usage: make_minicpm.py OUT [--seed N]
MiniCPM is a llama layer with three factors (openbmb/MiniCPM-2B, modeling_minicpm.py: MiniCPMModel.forward, MiniCPMDecoderLayer.forward,
MiniCPMForCausalLM.forward): embeddings times scale_emb, what a block adds times scale_depth / sqrt(num_hidden_layers), and the last hidden
state divided by hidden_size / dim_model_base before the head. transformers' Granite has the same factors under other names and divides
logits where MiniCPM divides the head's input, which is the same function. The golden is Granite's; `forward` below is written from the
definition alone, in torch, and the case is refused when the two differ by more than 1e-5 of the largest logit.
"""
import argparse
import json
import math
import os

import torch
import transformers
from safetensors.torch import load_file

from make_goldens import causal

SCALE_EMB, SCALE_DEPTH, DIM_MODEL_BASE = 6.0, 1.4, 16
B = dict(vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
         num_key_value_heads=2, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def rms(x, w, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def rotate(x, theta):
    d = x.shape[-1]
    freq = 1.0 / theta ** (torch.arange(0, d, 2, dtype=torch.float32) / d)
    angle = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] * freq[None]
    angle = torch.cat([angle, angle], -1)
    half = torch.cat([-x[..., d // 2:], x[..., :d // 2]], -1)
    return x * angle.cos() + half * angle.sin()


def forward(w, c, ids):
    n, heads, kv = len(ids), c["num_attention_heads"], c["num_key_value_heads"]
    dim = c["hidden_size"] // heads
    mask = torch.full((n, n), float("-inf")).triu(1)
    x = w["model.embed_tokens.weight"][ids] * c["scale_emb"]
    add = c["scale_depth"] / math.sqrt(c["num_hidden_layers"])
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        h = rms(x, w[p + "input_layernorm.weight"], c["rms_norm_eps"])
        q, k, v = (h @ w[p + f"self_attn.{s}_proj.weight"].T for s in "qkv")
        q = rotate(q.view(n, heads, dim).transpose(0, 1), c["rope_theta"])
        k = rotate(k.view(n, kv, dim).transpose(0, 1), c["rope_theta"]).repeat_interleave(heads // kv, 0)
        v = v.view(n, kv, dim).transpose(0, 1).repeat_interleave(heads // kv, 0)
        a = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(dim) + mask, -1) @ v
        x = x + a.transpose(0, 1).reshape(n, -1) @ w[p + "self_attn.o_proj.weight"].T * add
        h = rms(x, w[p + "post_attention_layernorm.weight"], c["rms_norm_eps"])
        m = torch.nn.functional.silu(h @ w[p + "mlp.gate_proj.weight"].T) * (h @ w[p + "mlp.up_proj.weight"].T)
        x = x + m @ w[p + "mlp.down_proj.weight"].T * add
    x = rms(x, w["model.norm.weight"], c["rms_norm_eps"])
    return x / (c["hidden_size"] / c["dim_model_base"]) @ w["lm_head.weight"].T


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    cfg = transformers.GraniteConfig(**B, embedding_multiplier=SCALE_EMB, attention_multiplier=(64 // 4) ** -0.5,
                                     residual_multiplier=SCALE_DEPTH / math.sqrt(B["num_hidden_layers"]),
                                     logits_scaling=B["hidden_size"] / DIM_MODEL_BASE, tie_word_embeddings=False)
    causal("minicpm", transformers.GraniteForCausalLM, cfg, a.out, a.seed)
    d = os.path.join(a.out, "minicpm")
    config = {"architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm", **B, "hidden_act": "silu", "rms_norm_eps": cfg.rms_norm_eps,
              "rope_theta": 10000.0, "rope_scaling": None, "scale_emb": SCALE_EMB, "scale_depth": SCALE_DEPTH,
              "dim_model_base": DIM_MODEL_BASE, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    with open(os.path.join(d, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    w = {k: v.float() for k, v in load_file(os.path.join(d, "model.safetensors")).items()}
    golden = load_file(os.path.join(d, "golden.safetensors"))
    ours = forward(w, config, golden["input_ids"].long())
    rel = ((ours - golden["logits"]).abs().max() / golden["logits"].abs().max()).item()
    assert rel < 1e-5, rel
    path = os.path.join(d, "golden.json")
    info = json.load(open(path))
    info["independent_forward_max_rel"] = rel
    json.dump(info, open(path, "w"), indent=1)
    print("independent forward", rel)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
