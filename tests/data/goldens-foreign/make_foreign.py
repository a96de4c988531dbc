#!/usr/bin/env python3
"""Writes tiny checkpoints in the layouts of other tool chains, and the logits of their exact values.

Usage: make_foreign.py OUT [--only NAME,...] [--awq FILE] [--gptq FOLDER]
Each case is a folder as ../goldens has it: config.json, model.safetensors, golden.safetensors, golden.json.

The weights of a random model are rounded here, packed here, and read back from the packed tensors by
a reader that knows nothing of the packing code; those f32 values go into the reference framework,
whose f32 forward gives the logits. Where a tool chain's own code is at hand it reads the tensors too
and must give the same values:
  compressed-tensors  import compressed_tensors (0.20.1)
  AWQ                 --awq  autoawq-0.2.9/awq/utils/packing_utils.py
  GPTQ                --gptq auto_gptq-0.7.1, unpacked
"""
import argparse, importlib.util, json, os, sys, types, zlib
import numpy as np, torch, transformers
from safetensors.torch import save_file

torch.set_grad_enabled(False)
SEED = 5
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


# ---- packing: integers to words ----

def words_from_bits(codes, bits):
    """A little-endian stream of codes along the last axis, as u32 words."""
    b = ((codes[..., None].astype(np.uint32) >> np.arange(bits)) & 1).astype(np.uint8)
    b = b.reshape(*codes.shape[:-1], -1)
    return np.packbits(b, axis=-1, bitorder="little").view("<u4")


def pack_gptq(q, bits):  # q [out, in] -> [in * bits / 32, out]
    return words_from_bits(q, bits).T.copy()


def pack_awq(q):  # [rows, columns] -> [rows, columns / 8]
    q = q.reshape(q.shape[0], -1, 8).astype(np.uint32)
    out = np.zeros(q.shape[:2], np.uint32)
    for i, column in enumerate(AWQ_ORDER):
        out |= q[:, :, column] << np.uint32(4 * i)
    return out


# ---- reading back: bit by bit, from the words alone ----

def bit(words, i):  # bit i of a row of u32 words
    return int(words[i // 32]) >> (i % 32) & 1


def read_stream(words, bits, n):
    return np.array([sum(bit(words, i * bits + k) << k for k in range(bits)) for i in range(n)])


def read_gptq(t, bits, n_in, zero_add):
    qw, qz, s = (t[k] for k in ("qweight", "qzeros", "scales"))
    n_out = qw.shape[1]
    codes = np.stack([read_stream(qw[:, o], bits, n_in) for o in range(n_out)])
    zeros = np.stack([read_stream(qz[g], bits, n_out) for g in range(qz.shape[0])]) + zero_add
    g = t["g_idx"].astype(np.int64)
    return (codes - zeros[g].T).astype(np.float32) * s.astype(np.float32)[g].T


def read_awq(t):
    qw, qz, s = (t[k] for k in ("qweight", "qzeros", "scales"))
    n_in, n_out = qw.shape[0], qw.shape[1] * 8
    place = {column: i for i, column in enumerate(AWQ_ORDER)}
    get = lambda words, o: int(words[o // 8]) >> (4 * place[o % 8]) & 15
    codes = np.array([[get(qw[i], o) for i in range(n_in)] for o in range(n_out)])
    zeros = np.array([[get(qz[g], o) for g in range(qz.shape[0])] for o in range(n_out)])
    group = n_in // qz.shape[0]
    z, sc = np.repeat(zeros, group, 1), np.repeat(s.astype(np.float32).T, group, 1)
    return (codes - z).astype(np.float32) * sc


# ---- rounding: f32 weights to integers ----

def round_groups(w, bits, group, symmetric, order=None):
    """codes [out, in], zeros and scales [out, groups]; order [in]: the group of each column."""
    n_out, n_in = w.shape
    n_groups = n_in // group
    order = np.repeat(np.arange(n_groups), group) if order is None else order
    codes = np.zeros(w.shape, np.int64)
    zeros = np.zeros((n_out, n_groups), np.int64)
    scales = np.zeros((n_out, n_groups), np.float16)
    top = 2**bits - 1
    for g in range(n_groups):
        part = w[:, order == g]
        low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
        if symmetric:
            high = np.maximum(np.abs(low), high)
            low = -high
        s = (np.maximum((high - low) / top, 1e-4)).astype(np.float16)
        z = np.full(n_out, 2 ** (bits - 1)) if symmetric else np.clip(np.rint(-low / s.astype(np.float32)), 1, top)
        scales[:, g], zeros[:, g] = s, z
        codes[:, order == g] = np.clip(np.rint(part / s.astype(np.float32)[:, None]) + z[:, None], 0, top)
    return codes, zeros, scales


# ---- the tool chains ----

def as_i32(a):
    return torch.from_numpy(np.ascontiguousarray(a).view(np.int32))


def awq(case, name, w):
    codes, zeros, scales = round_groups(w, 4, case["group"], False)
    t = {"qweight": pack_awq(codes.T.copy()), "qzeros": pack_awq(zeros.T.copy()), "scales": scales.T.copy()}
    value = read_awq(t)
    if case["oracle"].awq is not None:
        theirs = case["oracle"].awq.dequantize_gemm(as_i32(t["qweight"]), as_i32(t["qzeros"]),
                                                    torch.from_numpy(t["scales"]).float(), 4, case["group"])
        assert np.array_equal(theirs.numpy().T, value), name
        case["crossed"].add("autoawq 0.2.9")
    return {"qweight": as_i32(t["qweight"]), "qzeros": as_i32(t["qzeros"]), "scales": torch.from_numpy(t["scales"])}, value


def gptq(case, name, w):
    bits, n_in = case["bits"], w.shape[1]
    group = n_in if case["group"] < 0 else case["group"]
    order = np.repeat(np.arange(n_in // group), group)
    if case.get("act_order"):
        rng = np.random.default_rng(zlib.crc32((case["name"] + name.replace("k_proj", "q_proj")).encode()))
        rng.shuffle(order)
    codes, zeros, scales = round_groups(w, bits, group, case.get("symmetric", False), order)
    add = 0 if case.get("v2") else 1
    t = {"qweight": pack_gptq(codes, bits), "qzeros": words_from_bits((zeros - add).T, bits),
         "scales": scales.T.copy(), "g_idx": order.astype(np.int32)}
    value = read_gptq(t, bits, n_in, add)
    if case["oracle"].gptq is not None and add == 1:
        m = case["oracle"].gptq(bits, group, n_in, w.shape[0], False)
        m.qweight, m.qzeros, m.g_idx = as_i32(t["qweight"]), as_i32(t["qzeros"]), torch.from_numpy(t["g_idx"])
        m.scales = torch.from_numpy(t["scales"]).float()
        theirs = m(torch.eye(n_in)).numpy().T
        assert np.array_equal(theirs, value), name
        case["crossed"].add("auto_gptq 0.7.1")
    out = {"qweight": as_i32(t["qweight"]), "qzeros": as_i32(t["qzeros"]), "scales": torch.from_numpy(t["scales"]),
           "g_idx": torch.from_numpy(t["g_idx"])}
    if case.get("zero_bias"):
        out["bias"] = torch.zeros(w.shape[0], dtype=torch.float16)
    return out, value


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def nearest_e2m1(x):
    return np.abs(x[..., None] - E2M1).argmin(-1).astype(np.uint8)


def read_e4m3(raw):
    s, e, m = raw >> 7, raw >> 3 & 15, raw & 7
    v = np.where(e == 0, m / 512.0, (8 + m) * 2.0 ** (e.astype(np.float64) - 10))
    return np.where(s == 1, -v, v).astype(np.float32)


def raw_of(tensor):
    return tensor.view(torch.uint8).numpy()


def compressed(case, name, w):
    kind, n_out, n_in = case["kind"], *w.shape
    weights = case["weights"]
    t = {}
    if kind in ("pack", "int"):
        bits = weights["num_bits"]
        group = {"group": weights.get("group_size"), "channel": n_in, "tensor": n_in}[weights["strategy"]]
        order = None
        if weights.get("actorder") == "group":
            order = np.repeat(np.arange(n_in // group), group)
            np.random.default_rng(zlib.crc32((case["name"] + name).encode())).shuffle(order)
        codes, zeros, scales = round_groups(w, bits, group, weights["symmetric"], order)
        middle = 2 ** (bits - 1)
        # the file holds signed integers plus the middle; zero points are signed too
        t["weight_scale"] = torch.from_numpy(scales).to(torch.bfloat16 if case.get("bf16") else torch.float16)
        sc = t["weight_scale"].float().numpy()
        if kind == "pack":
            t["weight_packed"] = as_i32(words_from_bits(codes, bits))
            t["weight_shape"] = torch.tensor([n_out, n_in])
            if not weights["symmetric"]:
                t["weight_zero_point"] = as_i32(words_from_bits(zeros.T, bits).T)
            read = np.stack([read_stream(row, bits, n_in) for row in t["weight_packed"].numpy().view("<u4")]) - middle
            z = np.zeros_like(zeros)
            if not weights["symmetric"]:
                words = t["weight_zero_point"].numpy().view("<u4")
                z = np.stack([read_stream(words[:, g], bits, n_out) for g in range(words.shape[1])], 1) - middle
        else:
            t["weight"] = torch.from_numpy((codes - middle).astype(np.int8))
            if not weights["symmetric"]:
                t["weight_zero_point"] = torch.from_numpy((zeros - middle).astype(np.int8))
            read = t["weight"].numpy().astype(np.int64)
            z = t["weight_zero_point"].numpy().astype(np.int64) if "weight_zero_point" in t else np.zeros_like(zeros)
        column_group = np.repeat(np.arange(n_in // group), group) if order is None else order
        if order is not None:
            t["weight_g_idx"] = torch.from_numpy(order.astype(np.int32))
        value = (read - z[:, column_group]).astype(np.float32) * sc[:, column_group]
    elif kind == "fp8":
        rows, columns = {"tensor": (n_out, n_in), "channel": (1, n_in), "block": tuple(weights.get("block_structure") or (0, 0))}[weights["strategy"]]
        scale = np.zeros((-(-n_out // rows), -(-n_in // columns)), np.float32)
        spread = lambda s: np.repeat(np.repeat(s, rows, 0)[:n_out], columns, 1)[:, :n_in]
        for i in range(scale.shape[0]):
            for j in range(scale.shape[1]):
                scale[i, j] = np.abs(w[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns]).max() / 448
        s = torch.from_numpy(scale).to(torch.bfloat16 if case.get("bf16") else torch.float32)
        t["weight"] = torch.from_numpy(w / spread(s.float().numpy())).clamp(-448, 448).to(torch.float8_e4m3fn)
        t[case.get("scale_name", "weight_scale")] = s.reshape(1) if weights["strategy"] == "tensor" else s
        value = read_e4m3(raw_of(t["weight"])) * spread(s.float().numpy())
    else:  # nvfp4, mxfp4
        group = 16 if kind == "nvfp4" else 32
        top = np.abs(w.reshape(n_out, -1, group)).max(-1)
        if kind == "nvfp4":
            t["weight_global_scale"] = torch.tensor([448 * 6 / np.abs(w).max()], dtype=torch.float32)
            s8 = torch.from_numpy(top / 6 * t["weight_global_scale"].item()).float().to(torch.float8_e4m3fn)
            t["weight_scale"] = s8
            sc = read_e4m3(raw_of(s8)) / np.float32(t["weight_global_scale"].item())
        else:
            e = np.clip(np.floor(np.log2(top)) - 2 + 127, 0, 254).astype(np.uint8)
            t["weight_scale"] = torch.from_numpy(e)
            sc = (2.0 ** (e.astype(np.float64) - 127)).astype(np.float32)
        sc = np.repeat(sc.astype(np.float32), group, 1)
        codes = nearest_e2m1(w / np.maximum(sc, 1e-20))
        t["weight_packed"] = torch.from_numpy(codes[:, 0::2] | codes[:, 1::2] << 4)
        raw = t["weight_packed"].numpy()
        value = E2M1[np.stack([raw & 15, raw >> 4], -1).reshape(n_out, n_in)] * sc
    cross_compressed(case, name, t, value)
    return t, value


def cross_compressed(case, name, t, value):
    """The package's own decompression; it rounds to the scale's type, so it is given f32 scales."""
    package = case["oracle"].compressed
    if package is None or "weight_g_idx" in t or case["kind"] == "hf-fp8" or "weight_scale" not in t:
        return
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**case["weights"]))
    f32 = dict(t)
    if t["weight_scale"].dtype in (torch.bfloat16, torch.float16):
        f32["weight_scale"] = t["weight_scale"].float()
    theirs = BaseCompressor.get_value_from_registry(case["format"]).decompress(f32, scheme)["weight"].float().numpy()
    bound = 0 if case["kind"] in ("pack", "int", "fp8") else 0.005 * np.abs(value).max()
    assert np.abs(theirs - value).max() <= bound, (name, np.abs(theirs - value).max())
    case["crossed"].add("compressed-tensors 0.20.1")


# ---- models ----

def randomise(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        std = 0.4 if "embed" in name else 1.0 / max(p.shape[-1], 1) ** 0.5 if p.ndim >= 2 else 0.1
        noise = torch.randn(p.shape, generator=g) * std
        p.copy_((noise if p.ndim >= 2 or name.endswith("bias") else p + noise).to(torch.bfloat16).float())


def run(model, n_vocab, seed, T=24, N=12):
    ids = torch.randint(3, n_vocab, (1, T), generator=torch.Generator().manual_seed(seed + 1))
    r = model(input_ids=ids, use_cache=False, output_hidden_states=True)
    past, cur, gen, gl = None, ids, [], []
    for _ in range(N):
        r2 = model(input_ids=cur, past_key_values=past, use_cache=True)
        past = r2.past_key_values
        gl.append(r2.logits[0, -1].float())
        gen.append(int(gl[-1].argmax()))
        cur = torch.tensor([[gen[-1]]])
    return {"input_ids": ids[0].to(torch.int32).contiguous(), "logits": r.logits[0].float().contiguous(),
            "hidden": torch.stack([h[0].float() for h in r.hidden_states]).contiguous(),
            "gen_ids": torch.tensor(gen, dtype=torch.int32), "gen_logits": torch.stack(gl).contiguous()}


def is_quantized(case, name, p):
    return (p.ndim == 2 and name.endswith(".weight") and "embed" not in name and "lm_head" not in name
            and not name.endswith("mlp.gate.weight") and not any(s in name for s in case.get("left_out", [])))


def make(case, out):
    seed = (SEED * 1000003 + zlib.crc32(case["name"].encode())) % 2**31
    cls, cfg = case["model"]
    cfg._attn_implementation = "eager"
    while True:  # a greedy choice that hangs on the last bit is no golden
        torch.manual_seed(seed)
        model = cls(cfg).eval().float()
        randomise(model, seed)
        tensors, case["crossed"] = {}, set()
        state = model.state_dict()
        fill(model, case, state, tensors)
        golden = run(model, cfg.vocab_size, seed)
        top2 = golden["gen_logits"].topk(2, -1).values
        gap = (top2[:, 0] - top2[:, 1]).min().item()
        if gap >= 0.01:
            break
        seed += 1
    d = os.path.join(out, case["name"])
    os.makedirs(d, exist_ok=True)
    config = json.loads(cfg.to_json_string(use_diff=False))
    config = {k: v for k, v in config.items() if k in KEPT and v is not None}
    config["architectures"] = [cls.__name__]
    config["dtype"] = "bfloat16"
    config["quantization_config"] = case["config"]
    json.dump(config, open(os.path.join(d, "config.json"), "w"), indent=1)
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(d, "model.safetensors"), metadata={"format": "pt"})
    save_file(golden, os.path.join(d, "golden.safetensors"))
    info = {"class": cls.__name__, "transformers": transformers.__version__, "torch": torch.__version__, "seed": seed,
            "smallest_top1_top2_gap": gap, "same_values_by": sorted(case["crossed"]),
            "dtype": "packed weights as read back, f32; the rest bf16; arithmetic f32"}
    json.dump(info, open(os.path.join(d, "golden.json"), "w"), indent=1)
    print(f"{case['name']:24s} gap {gap:.3f} same values by {sorted(case['crossed'])}", flush=True)


def fill(model, case, state, tensors):
    """The packed tensors, and their values into the model."""
    n_experts = getattr(model.config, "num_experts", 0)
    for name, p in state.items():
        if n_experts and name.endswith("mlp.experts.gate_up_proj"):
            inner = p.shape[1] // 2
            for e in range(n_experts):
                base = name[: -len("gate_up_proj")] + f"{e}."
                p[e, :inner] = put(case, base + "gate_proj", p[e, :inner].clone(), tensors)
                p[e, inner:] = put(case, base + "up_proj", p[e, inner:].clone(), tensors)
        elif n_experts and name.endswith("mlp.experts.down_proj"):
            for e in range(n_experts):
                base = name[: -len("down_proj")] + f"{e}."
                p[e] = put(case, base + "down_proj", p[e].clone(), tensors)
        elif is_quantized(case, name, p):
            p.copy_(put(case, name[: -len(".weight")], p.clone(), tensors))
        elif not (name == "lm_head.weight" and model.config.tie_word_embeddings):
            tensors[name] = p.to(torch.bfloat16)


def put(case, module, w, tensors):
    packed, value = case["pack"](case, module, w.numpy())
    for k, v in packed.items():
        tensors[f"{module}.{k}"] = v
    return torch.from_numpy(value)


KEPT = ["model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "rope_parameters", "hidden_act",
        "tie_word_embeddings", "attention_bias", "mlp_bias", "pad_token_id", "bos_token_id", "eos_token_id", "num_local_experts", "num_experts",
        "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers",
        "use_sliding_window", "sliding_window", "max_window_layers", "layer_types"]


def cases():
    T = transformers
    b = dict(vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    llama = lambda **k: (T.LlamaForCausalLM, T.LlamaConfig(**{**b, "tie_word_embeddings": True, **k}))
    qwen2 = lambda **k: (T.Qwen2ForCausalLM, T.Qwen2Config(**{**b, "tie_word_embeddings": True, **k}))
    moe = lambda: (T.Qwen3MoeForCausalLM, T.Qwen3MoeConfig(**b, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                                                          norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], tie_word_embeddings=True))
    out = []

    def add(name, model, pack, config, **k):
        out.append(dict(name=name, model=model, pack=pack, config=config, **k))

    a = dict(quant_method="awq", bits=4, version="gemm", zero_point=True, modules_to_not_convert=None)
    add("awq-llama-g32", llama(), awq, {**a, "group_size": 32}, group=32)
    add("awq-qwen2-g64", qwen2(), awq, {**a, "version": "GEMM", "group_size": 64, "modules_to_not_convert": ["model.layers.1.self_attn"]},
        group=64, left_out=["layers.1.self_attn"])
    add("awq-qwen3-moe-g32", moe(), awq, {**a, "group_size": 32, "modules_to_not_convert": ["mlp.gate"]}, group=32)
    g = dict(quant_method="gptq", bits=4, damp_percent=0.1, true_sequential=True, static_groups=False)
    add("gptq-llama-g32", llama(), gptq, {**g, "group_size": 32, "desc_act": False, "sym": False}, bits=4, group=32, zero_bias=True)
    add("gptq-llama-act-order", llama(), gptq, {**g, "group_size": 32, "desc_act": True, "sym": False, "checkpoint_format": "gptq"}, bits=4,
        group=32, act_order=True)
    add("gptq-llama-v2-channel", llama(), gptq, {**g, "group_size": -1, "desc_act": False, "sym": True, "checkpoint_format": "gptq_v2"}, bits=4,
        group=-1, symmetric=True, v2=True)
    add("gptq-qwen2-8bit", qwen2(), gptq, {**g, "bits": 8, "group_size": 64, "desc_act": False, "sym": True}, bits=8, group=64, symmetric=True)
    add("gptq-llama-3bit", llama(), gptq, {**g, "bits": 3, "group_size": 32, "desc_act": False, "sym": False}, bits=3, group=32)
    add("gptq-llama-2bit", llama(), gptq, {**g, "bits": 2, "group_size": 32, "desc_act": True, "sym": False}, bits=2, group=32, act_order=True)

    def ct(name, model, kind, form, weights, acts=None, ignore=("lm_head",), **k):
        w = dict(num_bits=4, type="int", symmetric=True, strategy="group", group_size=32, dynamic=False, observer="minmax")
        w.update(weights)
        w = {key: v for key, v in w.items() if v is not None}
        config = {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed", "kv_cache_scheme": None,
                  "global_compression_ratio": None, "ignore": list(ignore), "sparsity_config": {}, "transform_config": {},
                  "config_groups": {"group_0": {"targets": ["Linear"], "weights": w, "input_activations": acts, "output_activations": None}}}
        add(name, model, compressed, config, kind=kind, format=form, weights=w, **k)

    p = "pack-quantized"
    ct("ct-int4-sym-g32", llama(), "pack", p, {}, bf16=True)
    ct("ct-int4-asym-g64", qwen2(), "pack", p, {"symmetric": False, "group_size": 64}, ignore=("lm_head", "re:.*layers.1.mlp.*"), left_out=["layers.1.mlp"])
    ct("ct-int4-act-order", llama(), "pack", p, {"actorder": "group"})
    ct("ct-int8-channel", llama(), "pack", p, {"num_bits": 8, "strategy": "channel", "group_size": None})
    dynamic = dict(num_bits=8, type="int", symmetric=True, strategy="token", dynamic=True)
    ct("ct-w8a8-int", llama(), "int", "int-quantized", {"num_bits": 8, "strategy": "channel", "group_size": None}, acts=dynamic)
    f = dict(num_bits=8, type="float", group_size=None)
    dynamic = dict(num_bits=8, type="float", symmetric=True, strategy="token", dynamic=True)
    ct("ct-fp8-channel", llama(), "fp8", "float-quantized", {**f, "strategy": "channel"}, acts=dynamic, bf16=True)
    ct("ct-fp8-tensor", llama(), "fp8", "float-quantized", {**f, "strategy": "tensor"})
    ct("ct-fp8-block", llama(), "fp8", "float-quantized", {**f, "strategy": "block", "block_structure": [32, 64]})
    ct("ct-nvfp4", llama(), "nvfp4", "nvfp4-pack-quantized", {"type": "float", "strategy": "tensor_group", "group_size": 16})
    ct("ct-mxfp4", llama(), "mxfp4", "mxfp4-pack-quantized", {"type": "float", "strategy": "group", "group_size": 32})
    add("fp8-llama-block", llama(), compressed, {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 64], "modules_to_not_convert": ["lm_head"]},
        kind="fp8", format="", weights={"strategy": "block", "block_structure": [32, 64]}, scale_name="weight_scale_inv")
    return out


def load_file(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def oracles(a):
    o = types.SimpleNamespace(awq=None, gptq=None, compressed=None)
    if a.awq:
        o.awq = load_file("packing_utils", a.awq)
    if a.gptq:  # its packages import much that is not needed: empty ones stand in for them
        for name in ("auto_gptq", "auto_gptq.nn_modules", "auto_gptq.nn_modules.qlinear"):
            m = types.ModuleType(name)
            m.__path__ = [os.path.join(a.gptq, *name.split("."))]
            sys.modules[name] = m
        import importlib
        o.gptq = importlib.import_module("auto_gptq.nn_modules.qlinear.qlinear_cuda").QuantLinear
    try:
        import compressed_tensors
        o.compressed = compressed_tensors
    except ImportError:
        pass
    return o


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("out")
    a.add_argument("--only", default="")
    a.add_argument("--awq", default="")
    a.add_argument("--gptq", default="")
    a = a.parse_args()
    oracle = oracles(a)
    wanted = set(filter(None, a.only.split(",")))
    for case in cases():
        if not wanted or case["name"] in wanted:
            case["oracle"] = oracle
            make(case, a.out)
