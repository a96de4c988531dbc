/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors by role. One table says how each role is spelled in Hugging Face checkpoints and in GGUF
 * files; everything else is the same for both. Source of the names: spec/models.md sections 3.1
 * and 8. */
#include "model/blocks/loader_priv.h"

#include "base/arith.h"
#include "tensor/dequant.h"
#include "tensor/ops.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES TDM_LOADER_NAME_MAX

typedef struct role_names {
    const char *hf; /* after the prefix; %d is the layer */
    const char *gguf;
    bool is_in_layer;
    bool is_prefixed; /* "model." stands before hf */
} role_names;

static const role_names ROLES[TDM_ROLE_COUNT] = {
    [TDM_ROLE_EMBED] = {"embed_tokens", "token_embd", false, true},
    [TDM_ROLE_FINAL_NORM] = {"norm", "output_norm", false, true},
    [TDM_ROLE_HEAD] = {"lm_head", "output", false, false},
    [TDM_ROLE_ATTENTION_NORM] = {"layers.%d.input_layernorm", "blk.%d.attn_norm", true, true},
    [TDM_ROLE_Q] = {"layers.%d.self_attn.q_proj", "blk.%d.attn_q", true, true},
    [TDM_ROLE_K] = {"layers.%d.self_attn.k_proj", "blk.%d.attn_k", true, true},
    [TDM_ROLE_V] = {"layers.%d.self_attn.v_proj", "blk.%d.attn_v", true, true},
    [TDM_ROLE_O] = {"layers.%d.self_attn.o_proj", "blk.%d.attn_output", true, true},
    [TDM_ROLE_Q_NORM] = {"layers.%d.self_attn.q_norm", "blk.%d.attn_q_norm", true, true},
    [TDM_ROLE_K_NORM] = {"layers.%d.self_attn.k_norm", "blk.%d.attn_k_norm", true, true},
    [TDM_ROLE_MLP_NORM] = {"layers.%d.post_attention_layernorm", "blk.%d.ffn_norm", true, true},
    [TDM_ROLE_GATE] = {"layers.%d.mlp.gate_proj", "blk.%d.ffn_gate", true, true},
    [TDM_ROLE_UP] = {"layers.%d.mlp.up_proj", "blk.%d.ffn_up", true, true},
    [TDM_ROLE_DOWN] = {"layers.%d.mlp.down_proj", "blk.%d.ffn_down", true, true},
    [TDM_ROLE_ROPE_FACTORS] = {NULL, "rope_freqs", false, false},
    [TDM_ROLE_ATTENTION_POST_NORM] = {"layers.%d.post_attention_layernorm",
                                      "blk.%d.post_attention_norm", true, true},
    [TDM_ROLE_MLP_PRE_NORM] = {"layers.%d.pre_feedforward_layernorm", "blk.%d.ffn_norm", true,
                               true},
    [TDM_ROLE_ROUTER] = {"layers.%d.mlp.gate", "blk.%d.ffn_gate_inp", true, true},
    [TDM_ROLE_SPARSE_ROUTER] = {"layers.%d.block_sparse_moe.gate", "blk.%d.ffn_gate_inp", true,
                                true},
    [TDM_ROLE_GPT_OSS_ROUTER] = {"layers.%d.mlp.router", "blk.%d.ffn_gate_inp", true, true},
    [TDM_ROLE_GEMMA4_ROUTER] = {"layers.%d.router.proj", "blk.%d.ffn_gate_inp", true, true},
    [TDM_ROLE_BESIDE_MLP_POST_NORM] = {"layers.%d.post_feedforward_layernorm_1",
                                       "blk.%d.post_ffw_norm_1", true, true},
    [TDM_ROLE_BESIDE_PRE_NORM] = {"layers.%d.pre_feedforward_layernorm_2", "blk.%d.pre_ffw_norm_2",
                                  true, true},
    [TDM_ROLE_BESIDE_POST_NORM] = {"layers.%d.post_feedforward_layernorm_2",
                                   "blk.%d.post_ffw_norm_2", true, true},
    [TDM_ROLE_PLE_TABLE] = {"embed_tokens_per_layer", "per_layer_token_embd", false, true},
    [TDM_ROLE_PLE_CONTEXT] = {"per_layer_model_projection", "per_layer_model_proj", false, true},
    [TDM_ROLE_PLE_CONTEXT_NORM] = {"per_layer_projection_norm", "per_layer_proj_norm", false, true},
    [TDM_ROLE_PLE_GATE] = {"layers.%d.per_layer_input_gate", "blk.%d.inp_gate", true, true},
    [TDM_ROLE_PLE_PROJECT] = {"layers.%d.per_layer_projection", "blk.%d.proj", true, true},
    [TDM_ROLE_PLE_NORM] = {"layers.%d.post_per_layer_input_norm", "blk.%d.post_norm", true, true},
    [TDM_ROLE_CONV_IN] = {"layers.%d.conv.in_proj", "blk.%d.shortconv.in_proj", true, true},
    [TDM_ROLE_CONV_OUT] = {"layers.%d.conv.out_proj", "blk.%d.shortconv.out_proj", true, true},
    [TDM_ROLE_DEEPSEEK_SHARED_GATE] = {"layers.%d.mlp.shared_experts.gate_proj",
                                       "blk.%d.ffn_gate_shexp", true, true},
    [TDM_ROLE_DEEPSEEK_SHARED_UP] = {"layers.%d.mlp.shared_experts.up_proj", "blk.%d.ffn_up_shexp",
                                     true, true},
    [TDM_ROLE_DEEPSEEK_SHARED_DOWN] = {"layers.%d.mlp.shared_experts.down_proj",
                                       "blk.%d.ffn_down_shexp", true, true},
    [TDM_ROLE_GLM4_ATTENTION_POST_NORM] = {"layers.%d.post_self_attn_layernorm",
                                           "blk.%d.post_attention_norm", true, true},
    [TDM_ROLE_GLM4_MLP_POST_NORM] = {"layers.%d.post_mlp_layernorm", "blk.%d.post_ffw_norm", true,
                                     true},
    [TDM_ROLE_STARCODER2_UP] = {"layers.%d.mlp.c_fc", "blk.%d.ffn_up", true, true},
    [TDM_ROLE_STARCODER2_DOWN] = {"layers.%d.mlp.c_proj", "blk.%d.ffn_down", true, true},
    [TDM_ROLE_LFM2_FINAL_NORM] = {"embedding_norm", "token_embd_norm", false, true},
    [TDM_ROLE_LFM2_OPERATOR_NORM] = {"layers.%d.operator_norm", "blk.%d.attn_norm", true, true},
    [TDM_ROLE_LFM2_FFN_NORM] = {"layers.%d.ffn_norm", "blk.%d.ffn_norm", true, true},
    [TDM_ROLE_LFM2_Q_NORM] = {"layers.%d.self_attn.q_layernorm", "blk.%d.attn_q_norm", true, true},
    [TDM_ROLE_LFM2_K_NORM] = {"layers.%d.self_attn.k_layernorm", "blk.%d.attn_k_norm", true, true},
    [TDM_ROLE_LFM2_O] = {"layers.%d.self_attn.out_proj", "blk.%d.attn_output", true, true},
    [TDM_ROLE_LFM2_GATE] = {"layers.%d.feed_forward.w1", "blk.%d.ffn_gate", true, true},
    [TDM_ROLE_LFM2_UP] = {"layers.%d.feed_forward.w3", "blk.%d.ffn_up", true, true},
    [TDM_ROLE_LFM2_DOWN] = {"layers.%d.feed_forward.w2", "blk.%d.ffn_down", true, true},
    [TDM_ROLE_SHARED_GATE] = {"layers.%d.mlp.shared_expert.gate_proj", "blk.%d.ffn_gate_shexp",
                              true, true},
    [TDM_ROLE_SHARED_UP] = {"layers.%d.mlp.shared_expert.up_proj", "blk.%d.ffn_up_shexp", true,
                            true},
    [TDM_ROLE_SHARED_DOWN] = {"layers.%d.mlp.shared_expert.down_proj", "blk.%d.ffn_down_shexp",
                              true, true},
    [TDM_ROLE_SHARED_MIX] = {"layers.%d.mlp.shared_expert_gate", "blk.%d.ffn_gate_inp_shexp", true,
                             true},
    [TDM_ROLE_LATENT_Q_A] = {"layers.%d.self_attn.q_a_proj", "blk.%d.attn_q_a", true, true},
    [TDM_ROLE_LATENT_Q_NORM] = {"layers.%d.self_attn.q_a_layernorm", "blk.%d.attn_q_a_norm", true,
                                true},
    [TDM_ROLE_LATENT_Q_B] = {"layers.%d.self_attn.q_b_proj", "blk.%d.attn_q_b", true, true},
    [TDM_ROLE_LATENT_KV_A] = {"layers.%d.self_attn.kv_a_proj_with_mqa", "blk.%d.attn_kv_a_mqa",
                              true, true},
    [TDM_ROLE_LATENT_KV_NORM] = {"layers.%d.self_attn.kv_a_layernorm", "blk.%d.attn_kv_a_norm",
                                 true, true},
    [TDM_ROLE_LATENT_KV_B] = {"layers.%d.self_attn.kv_b_proj", "blk.%d.attn_kv_b", true, true},
    [TDM_ROLE_LATENT_K_B] = {"layers.%d.self_attn.embed_q", "blk.%d.attn_k_b", true, true},
    [TDM_ROLE_LATENT_V_B] = {"layers.%d.self_attn.unembed_out", "blk.%d.attn_v_b", true, true},
    [TDM_ROLE_INDEX_Q] = {"layers.%d.self_attn.indexer.wq_b", "blk.%d.indexer.attn_q_b", true,
                          true},
    [TDM_ROLE_INDEX_K] = {"layers.%d.self_attn.indexer.wk", "blk.%d.indexer.attn_k", true, true},
    [TDM_ROLE_INDEX_K_NORM] = {"layers.%d.self_attn.indexer.k_norm", "blk.%d.indexer.k_norm", true,
                               true},
    [TDM_ROLE_INDEX_WEIGHTS] = {"layers.%d.self_attn.indexer.weights_proj", "blk.%d.indexer.proj",
                                true, true},
    [TDM_ROLE_MLP_POST_NORM] = {"layers.%d.post_feedforward_layernorm", "blk.%d.post_ffw_norm",
                                true, true},
};

/* Writes the layer's number where the pattern has %d; patterns are our own constants, not formats
 * from outside. */
static void expand_layer(char *out, size_t cap, const char *pattern, int32_t layer) {
    const char *mark = strstr(pattern, "%d");
    if (mark == NULL) {
        (void)snprintf(out, cap, "%s", pattern);
    } else {
        (void)snprintf(out, cap, "%.*s%d%s", (int)(mark - pattern), pattern, (int)layer, mark + 2);
    }
}

/* Spells role; false when the container has no such tensor. */
static bool spell(const tdm_loader *loader, tdm_role role, int32_t layer, const char *suffix,
                  char out[NAME_MAX_BYTES]) {
    const role_names *names = &ROLES[role];
    bool is_gguf = tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF;
    const char *pattern = is_gguf ? names->gguf : names->hf;
    char middle[NAME_MAX_BYTES / 2];
    if (pattern == NULL) {
        return false;
    }
    expand_layer(middle, sizeof middle, pattern, layer);
    (void)snprintf(out, NAME_MAX_BYTES, "%s%s.%s",
                   is_gguf              ? ""
                   : names->is_prefixed ? loader->prefix
                                        : loader->root,
                   middle, suffix);
    return true;
}

static const tdm_checkpoint_tensor *find(const tdm_loader *loader, tdm_role role, int32_t layer,
                                         const char *suffix, char name[NAME_MAX_BYTES]) {
    return !spell(loader, role, layer, suffix, name) ? NULL
           : strcmp(suffix, "weight") == 0           ? tdm_loader_find_weight(loader, name)
                                           : tdm_checkpoint_find(loader->checkpoint, name);
}

void tdm_loader_consume(tdm_loader *loader, const tdm_checkpoint_tensor *tensor, int64_t n_params) {
    /* The checkpoint keeps its tensors in one array. */
    size_t idx = (size_t)(tensor - tdm_checkpoint_tensor_at(loader->checkpoint, 0));
    TDM_CHECK(idx < loader->n_tensors);
    if (loader->consumed[idx] == 0) {
        loader->consumed[idx] = 1;
        loader->tally->stored_bytes[loader->tally->section] += (int64_t)tensor->view.bytes;
        loader->tally->n_params[loader->tally->section] += n_params;
    }
}

tdm_status tdm_loader_init(tdm_loader *loader, const tdm_checkpoint *checkpoint,
                           tdm_backend *backend, tdm_arena *arena, tdm_error *err) {
    memset(loader, 0, sizeof *loader);
    loader->checkpoint = checkpoint;
    loader->backend = backend;
    loader->arena = arena;
    loader->tally = &loader->own;
    loader->n_tensors = tdm_checkpoint_n_tensors(checkpoint);
    loader->consumed = tdm_arena_calloc(arena, loader->n_tensors, 1);
    if (loader->consumed == NULL) {
        return tdm_fail_nomem(err, "the weight audit");
    }
    /* A base model saved without its head class has names without the prefix. */
    loader->root = "";
    loader->prefix = tdm_checkpoint_find(checkpoint, "embed_tokens.weight") != NULL ? "" : "model.";
    return tdm_quant_config_read(&loader->quant, tdm_checkpoint_config(checkpoint),
                                 tdm_checkpoint_path(checkpoint), err);
}

bool tdm_loader_has(const tdm_loader *loader, tdm_role role, int32_t layer) {
    char name[NAME_MAX_BYTES];
    return find(loader, role, layer, "weight", name) != NULL;
}

void tdm_loader_drop(tdm_loader *loader, tdm_role role, int32_t layer) {
    static const char *const SUFFIXES[] = {
        "weight",       "scales",           "biases",
        "global_scale", "weight_scale_inv", "qzeros",
        "g_idx",        "weight_scale",     "weight_zero_point",
        "weight_shape", "weight_g_idx",     "weight_global_scale"};
    char name[NAME_MAX_BYTES];
    for (size_t i = 0; i < sizeof SUFFIXES / sizeof SUFFIXES[0]; i++) {
        const tdm_checkpoint_tensor *tensor = find(loader, role, layer, SUFFIXES[i], name);
        if (tensor != NULL) {
            tdm_loader_consume(loader, tensor, 0);
        }
    }
}

static tdm_status fail_missing(const tdm_loader *loader, const char *name, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_FORMAT, "tensor \"%s\" is missing", name);
    tdm_err_where(err, "%s", tdm_checkpoint_path(loader->checkpoint));
    tdm_err_remedy(err,
                   "the checkpoint is incomplete or its config is another model's; fetch it again");
    return TDM_E_FORMAT;
}

tdm_status tdm_loader_require(const tdm_loader *loader, tdm_role role, int32_t layer,
                              const tdm_checkpoint_tensor **out, tdm_error *err) {
    char name[NAME_MAX_BYTES];
    *out = find(loader, role, layer, "weight", name);
    return *out != NULL ? TDM_OK : fail_missing(loader, name, err);
}

static void format_dims(char *out, size_t cap, const int64_t *dims, int32_t rank) {
    size_t used = 0;
    for (int32_t i = 0; i < rank && used < cap; i++) {
        int n = snprintf(out + used, cap - used, "%s%lld", i == 0 ? "[" : ", ", (long long)dims[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used < cap) {
        (void)snprintf(out + used, cap - used, "%s", rank == 0 ? "[]" : "]");
    }
}

tdm_status tdm_loader_fail_at(const tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                              tdm_status status, tdm_error *err) {
    tdm_err_where(err, "%s: offset %llu",
                  tdm_checkpoint_file_name(loader->checkpoint, tensor->file_idx),
                  (unsigned long long)tensor->offset);
    return status;
}

tdm_status tdm_loader_check_shape(const tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                                  int32_t rank, const int64_t *dims, tdm_error *err) {
    char have[64];
    char want[64];
    if (tensor->view.rank == rank &&
        memcmp(tensor->view.dims, dims, (size_t)rank * sizeof *dims) == 0) {
        return TDM_OK;
    }
    format_dims(have, sizeof have, tensor->view.dims, tensor->view.rank);
    format_dims(want, sizeof want, dims, rank);
    (void)tdm_fail(err, TDM_E_SHAPE, "tensor \"%.100s\" has shape %s, the config needs %s",
                   tensor->name, have, want);
    tdm_err_remedy(err, "config and weights are of different models; fetch both again");
    return tdm_loader_fail_at(loader, tensor, TDM_E_SHAPE, err);
}

static tdm_status fail_dtype(const tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                             tdm_error *err) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED,
                   "tensor \"%.100s\" is stored as %s, which this build cannot compute with",
                   tensor->name, TDM_DTYPES[tensor->view.dtype].name);
    tdm_err_remedy(err, "use a file in F32, F16 or BF16, a GGUF quantization, or MLX's");
    return tdm_loader_fail_at(loader, tensor, TDM_E_UNSUPPORTED, err);
}

tdm_status tdm_loader_floats(tdm_loader *loader, const tdm_checkpoint_tensor *tensor, int64_t n,
                             const float **out, tdm_error *err) {
    tdm_dtype dtype = tensor->view.dtype;
    bool is_borrowed = dtype == TDM_DTYPE_F32 && (uintptr_t)tensor->view.data % sizeof(float) == 0;
    float *values = NULL;
    if (dtype != TDM_DTYPE_F32 && dtype != TDM_DTYPE_F16 && dtype != TDM_DTYPE_BF16) {
        return fail_dtype(loader, tensor, err);
    }
    tdm_loader_consume(loader, tensor, n);
    if (is_borrowed && !loader->is_plan) {
        *out = tensor->view.data;
        return TDM_OK;
    }
    values = tdm_arena_calloc(loader->arena, (size_t)n, sizeof *values);
    if (values == NULL) {
        return tdm_fail_nomem(err, "a weight vector");
    }
    if (!loader->is_plan) {
        tdm_dequant_row(dtype, tensor->view.data, n, values);
    }
    if (!is_borrowed) {
        tdm_tally *tally = loader->tally;
        tally->converted_bytes[tally->section] += n * (int64_t)sizeof *values;
        tally->replaced_bytes[tally->section] += (int64_t)tensor->view.bytes;
    }
    *out = values;
    return TDM_OK;
}

/* The values of a one-dimensional tensor as f32. */
static tdm_status load_vector(tdm_loader *loader, const tdm_checkpoint_tensor *tensor, int64_t n,
                              const float **out, tdm_error *err) {
    TDM_TRY(tdm_loader_check_shape(loader, tensor, 1, &n, err));
    return tdm_loader_floats(loader, tensor, n, out, err);
}

tdm_status tdm_loader_vector(tdm_loader *loader, tdm_role role, int32_t layer, int64_t n,
                             const float **out, tdm_error *err) {
    char name[NAME_MAX_BYTES];
    const tdm_checkpoint_tensor *tensor = find(loader, role, layer, "weight", name);
    return tensor != NULL ? load_vector(loader, tensor, n, out, err)
                          : fail_missing(loader, name, err);
}

tdm_status tdm_loader_bias(tdm_loader *loader, tdm_role role, int32_t layer, int64_t n,
                           tdm_bias_rule rule, const float **out, tdm_error *err) {
    char name[NAME_MAX_BYTES];
    const tdm_checkpoint_tensor *tensor = NULL;
    *out = NULL;
    if (rule == TDM_BIAS_NONE) {
        return TDM_OK;
    }
    tensor = find(loader, role, layer, "bias", name);
    if (tensor == NULL) {
        return rule == TDM_BIAS_REQUIRED ? fail_missing(loader, name, err) : TDM_OK;
    }
    return load_vector(loader, tensor, n, out, err);
}

/* Routers and indexers are small, and a rounding of their input sends tokens to other experts, or
 * shows them other positions. */
static bool is_chooser(tdm_role role) {
    return role == TDM_ROLE_ROUTER || role == TDM_ROLE_SPARSE_ROUTER ||
           role == TDM_ROLE_GPT_OSS_ROUTER || role == TDM_ROLE_GEMMA4_ROUTER ||
           role == TDM_ROLE_INDEX_Q || role == TDM_ROLE_INDEX_K || role == TDM_ROLE_INDEX_WEIGHTS;
}

/* One matrix of tensor, which may be missing, becomes *out. */
static tdm_status load_weight(tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                              const char *name, const tdm_loader_part *part, tdm_role role,
                              tdm_weight *out, tdm_error *err) {
    tdm_weight_source source;
    if (tensor == NULL) {
        return fail_missing(loader, name, err);
    }
    TDM_TRY(tdm_loader_source(loader, tensor, part, &source, err));
    if ((role == TDM_ROLE_EMBED || role == TDM_ROLE_PLE_TABLE) && source.is_transient) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "tensor \"%.100s\": an embedding in this layout",
                       tensor->name);
        return tdm_loader_fail_at(loader, tensor, TDM_E_UNSUPPORTED, err);
    }
    source.is_exact =
        is_chooser(role) || role == TDM_ROLE_PLE_TABLE; /* gathered only: no layout of its own */
    if (source.mode == TDM_WEIGHT_PLAIN &&
        !loader->backend->ops->can_read(loader->backend, tensor->view.dtype)) {
        return fail_dtype(loader, tensor, err);
    }
    tdm_status status = tdm_weight_init_source(loader->backend, &source, out, err);
    if (status != TDM_OK) {
        tdm_err_note(err, "tensor \"%.100s\"", tensor->name);
        return tdm_loader_fail_at(loader, tensor, status, err);
    }
    return TDM_OK;
}

tdm_status tdm_loader_linear(tdm_loader *loader, tdm_role role, int32_t layer, int64_t n_out,
                             int64_t n_in, tdm_bias_rule bias, tdm_linear *out, tdm_error *err) {
    char name[NAME_MAX_BYTES];
    const tdm_loader_part part = {.n_out = n_out, .n_in = n_in};
    const tdm_checkpoint_tensor *tensor = find(loader, role, layer, "weight", name);
    memset(out, 0, sizeof *out);
    if (tensor != NULL) {
        TDM_TRY(tdm_loader_bias(loader, role, layer, n_out, bias, &out->bias, err));
    }
    return load_weight(loader, tensor, name, &part, role, &out->weight, err);
}

/* Tensors that old exporters wrote and every engine ignores. */
static bool is_ignorable(const char *name) {
    size_t len = strlen(name);
    static const char TAIL[] = "rotary_emb.inv_freq";
    return len >= sizeof TAIL - 1 && strcmp(name + len - (sizeof TAIL - 1), TAIL) == 0;
}

tdm_status tdm_loader_finish(const tdm_loader *loader, tdm_error *err) {
    for (size_t i = 0; i < loader->n_tensors; i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(loader->checkpoint, i);
        if (loader->consumed[i] == 0 && !is_ignorable(tensor->name)) {
            (void)tdm_fail(err, TDM_E_FORMAT, "tensor \"%.120s\" has no place in this architecture",
                           tensor->name);
            tdm_err_where(err, "%s: offset %llu",
                          tdm_checkpoint_file_name(loader->checkpoint, tensor->file_idx),
                          (unsigned long long)tensor->offset);
            tdm_err_remedy(
                err,
                "running without it would give wrong results; the config may be another model's");
            return TDM_E_FORMAT;
        }
    }
    return TDM_OK;
}
