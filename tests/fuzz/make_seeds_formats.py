#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seed corpora of fuzz_gguf and fuzz_safetensors: small files, each with a feature of its own.

Standard library only. Writes tests/fuzz/corpus/{fuzz_gguf,fuzz_safetensors}/*.bin; running it twice
gives the same bytes. Inputs that a fuzzer found are kept beside them under other names.
"""
import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
PACK = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B",
        U64: "<Q", I64: "<q", F64: "<d"}


def text(s):
    s = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(s)) + s


def value(kind, v):
    if kind == STRING:
        return text(v)
    if kind == ARRAY:
        item, items = v
        return struct.pack("<IQ", item, len(items)) + b"".join(value(item, x) for x in items)
    return struct.pack(PACK[kind], v)


def gguf(kvs, tensors, version=3, align=32, tail=b""):
    """tensors: (name, dims fastest first, type id, bytes of data)."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(kvs))
    for key, kind, v in kvs:
        out += text(key) + struct.pack("<I", kind) + value(kind, v)
    data = b""
    for name, dims, kind, size in tensors:
        out += text(name) + struct.pack("<I", len(dims))
        out += b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", kind, len(data))
        data += bytes(size) + bytes(-size % align)
    return out + bytes(-len(out) % align) + data + tail


LLAMA = [
    ("general.architecture", STRING, "llama"), ("llama.block_count", U32, 2),
    ("llama.context_length", U32, 128), ("llama.embedding_length", U32, 64),
    ("llama.feed_forward_length", U32, 96), ("llama.attention.head_count", U32, 4),
    ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5), ("llama.vocab_size", U32, 11),
]
GEMMA4 = [(k.replace("llama", "gemma4"), t, "gemma4" if v == "llama" else v) for k, t, v in LLAMA] + [
    ("gemma4." + k, t, v) for k, t, v in (
        ("feed_forward_length", ARRAY, (I32, [96, 192])), ("attention.head_count_kv", ARRAY, (I32, [2, 1])),
        ("attention.sliding_window_pattern", ARRAY, (BOOL, [1, 0])), ("attention.sliding_window", U32, 8),
        ("attention.key_length", U32, 32), ("attention.value_length", U32, 32),
        ("attention.key_length_swa", U32, 16), ("attention.value_length_swa", U32, 16),
        ("rope.dimension_count", U32, 32), ("rope.dimension_count_swa", U32, 16),
        ("rope.freq_base", F32, 1e6), ("rope.freq_base_swa", F32, 1e4), ("expert_count", U32, 4),
        ("expert_used_count", U32, 2), ("expert_feed_forward_length", U32, 32),
        ("attention.shared_kv_layers", U32, 0), ("embedding_length_per_layer_input", U32, 4))]
GEMMA4 = [(k, t, v) for k, t, v in GEMMA4 if (k, t) != ("gemma4.feed_forward_length", U32)]
ONE = [("token_embd.weight", [64, 11], 0, 64 * 11 * 4)]


def gguf_seeds():
    split = [("split.no", U16, 0), ("split.count", U16, 2), ("split.tensors.count", I32, 2)]
    scalars = [(f"k{t}", t, 1.5 if t in (F32, F64) else 1) for t in PACK]
    yield "empty", gguf([], [])
    yield "llama", gguf(LLAMA, ONE)
    yield "version2", gguf(LLAMA, ONE, version=2)
    yield "version1", gguf(LLAMA, ONE, version=1)
    yield "big_endian", gguf(LLAMA, ONE, version=0x03000000)
    yield "scalars", gguf(scalars + [("s", STRING, "text")], [])
    yield "arrays", gguf([(f"a{t}", ARRAY, (t, [1, 2])) for t in PACK], [])
    yield "texts", gguf([("tokens", ARRAY, (STRING, ["a", "", "bcd"]))], [])
    nest = (U8, [1])
    for depth in range(2, 6):
        nest = (ARRAY, [nest])
        yield f"nested{depth}", gguf([("n", ARRAY, nest)], [])
    yield "align8", gguf([("general.alignment", U32, 8)], [("a", [3], 0, 12), ("b", [1], 0, 4)], align=8)
    yield "align48", gguf([("general.alignment", U32, 48)], [("a", [3], 0, 12)])
    yield "types", gguf([], [(f"t{i}", [256], i, n) for i, n in
                             ((1, 512), (2, 144), (8, 272), (12, 144), (14, 210), (30, 512), (39, 136))])
    yield "split", gguf(LLAMA + split, ONE)
    yield "later_part", gguf([("split.no", U16, 1)] + split[1:], ONE)
    yield "joined", gguf([], ONE[:0] + [("a", [1], 0, 4)], tail=gguf([], []))
    yield "trailing", gguf(LLAMA, [("a", [1], 0, 4)], tail=bytes(40))
    yield "rope", gguf(LLAMA + [("llama.rope.scaling.type", STRING, "yarn"),
                                ("llama.rope.scaling.factor", F32, 4.0),
                                ("llama.rope.scaling.original_context_length", U32, 32)], [("a", [1], 0, 4)])
    yield "rope_freqs", gguf(LLAMA, [("rope_freqs.weight", [8], 0, 32), ("output.weight", [1], 0, 4)])
    yield "twins", gguf([("k", U8, 1), ("k", U8, 2)], [("a", [1], 0, 4), ("a", [1], 0, 4)])
    yield "truncated", gguf(LLAMA, ONE)[:-100]
    yield "short", gguf(LLAMA, ONE)[:200]
    yield "pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    yield "old_magic", b"tjgg" + struct.pack("<I", 3) + bytes(40)
    yield "ids", gguf(LLAMA + [("tokenizer.ggml.eos_token_id", U32, 2), ("tokenizer.ggml.bos_token_id", U32, 1),
                               ("llama.attention.head_count_kv", ARRAY, (I32, [2, 2])),
                               ("general.sampling.temp", F32, 0.7)], [("a", [1], 0, 4)])
    yield "gemma4", gguf(GEMMA4, ONE + [("blk.1.attn_k.weight", [1], 0, 4), ("rope_freqs.weight", [16], 0, 64)])


def safetensors(header, data=0):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + bytes(data)


def entry(dtype, shape, begin, end, **more):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end], **more}


def folder(config, index, shard):
    config, index = (x if isinstance(x, bytes) else json.dumps(x).encode() for x in (config, index))
    return b"\x01" + struct.pack("<H", len(config)) + config + struct.pack("<H", len(index)) + index + shard


CONFIG = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
          "intermediate_size": 128, "vocab_size": 320, "max_position_embeddings": 512}


def safetensors_seeds():
    two = {"a": entry("F32", [2, 2], 0, 16), "b": entry("BF16", [3], 16, 22)}
    good = safetensors(two, 22)
    index = {"metadata": {"total_size": 22}, "weight_map": {"a": "a.safetensors", "b": "a.safetensors"}}
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 32, "rope_theta": 5e5}
    zero = b"\x00"
    yield "empty", zero + safetensors({})
    yield "two", zero + good
    yield "metadata", zero + safetensors({"__metadata__": {"format": "pt"}, **two}, 22)
    yield "padded", zero + safetensors(json.dumps(two).encode() + b"    ", 22)
    yield "scalar", zero + safetensors({"s": entry("F64", [], 0, 8), "e": entry("I8", [0, 4], 8, 8)}, 8)
    yield "types", zero + safetensors({t: entry(t, [1], 8 * i, 8 * i + n) for i, (t, n) in enumerate(
        [("F8_E4M3", 1), ("F8_E5M2", 1), ("F8_E8M0", 1), ("BOOL", 1), ("U64", 8), ("I16", 2), ("F4", 1)])}, 64)
    yield "hole", zero + safetensors({"a": entry("U8", [2], 3, 5)}, 9)
    yield "overlap", zero + safetensors({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, 3)
    yield "swapped", zero + safetensors({"a": entry("U8", [2], 2, 0)}, 2)
    yield "twins", zero + safetensors(b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{}}', 1)
    yield "unknown_field", zero + safetensors({"a": entry("U8", [], 0, 1, more=1)}, 1)
    yield "escapes", zero + safetensors(b'{"\\u00e4\\n":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}', 1)
    yield "deep", zero + safetensors(b'{"a":' + b"[" * 64)
    yield "overflow", zero + safetensors({"a": entry("F64", [2**62, 8], 0, 0)})
    yield "truncated", zero + good[:-3]
    yield "huge_length", zero + struct.pack("<Q", 2**63) + b"{}"
    yield "folder", folder(CONFIG, index, good)
    yield "folder_missing", folder(CONFIG, {"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}, good)
    yield "folder_unlisted", folder(CONFIG, {"weight_map": {"a": "a.safetensors"}}, good)
    yield "folder_empty_first", folder({"model_type": "llama"}, b'{"metadata":[]}', good)
    yield "folder_escape", folder(CONFIG, {"weight_map": {"a": "../a.safetensors"}}, good)
    yield "folder_llama3", folder({**CONFIG, "rope_parameters": llama3, "eos_token_id": [1, 2]}, index, good)
    yield "folder_smollm3", folder({**CONFIG, "model_type": "smollm3", "no_rope_layers": [1, 1, 1, 0]}, index, good)
    yield "folder_qwen", folder({**CONFIG, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8,
                                 "max_window_layers": 2, "rope_theta": 1e6,
                                 "rope_scaling": {"type": "yarn", "factor": 4.0}}, index, good)
    yield "folder_nested", folder({"model_type": "x", "text_config": CONFIG, "tie_word_embeddings": False}, index, good)
    yield "folder_layers", folder({**CONFIG, "sliding_window": 8, "layer_types":
                                   ["sliding_attention", "full_attention", "conv", "full_attention"],
                                   "temperature": 0.6, "top_k": 20, "do_sample": True}, index, good)
    turn = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    yield "folder_gemma4", folder({**CONFIG, "model_type": "gemma4_text", "head_dim": 16, "global_head_dim": 32,
                                   "num_global_key_value_heads": 1, "attention_k_eq_v": True, "rope_parameters": turn,
                                   "num_kv_shared_layers": 1, "hidden_size_per_layer_input": 4, "sliding_window": 8,
                                   "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2,
                                   "moe_intermediate_size": 32, "use_double_wide_mlp": True}, index, good)
    yield "folder_by_layer", folder({**CONFIG, "model_type": "gemma4_text", "per_layer_config":
                                     {"1": {"head_dim": 32, "num_key_value_heads": 1}, "3": {}}}, index, good)


def main():
    for name, seeds in (("fuzz_gguf", gguf_seeds()), ("fuzz_safetensors", safetensors_seeds())):
        where = os.path.join(HERE, "corpus", name)
        os.makedirs(where, exist_ok=True)
        total = n = 0
        for seed, data in seeds:
            with open(os.path.join(where, seed + ".bin"), "wb") as f:
                f.write(data)
            total += len(data)
            n += 1
        print(f"{name}: {n} seeds, {total} bytes")


if __name__ == "__main__":
    main()
