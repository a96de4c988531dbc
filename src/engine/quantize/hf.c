/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file from safetensors: names, layouts and metadata of each family. Rows of q and k are
 * interleaved where llama.cpp rotates neighbours, gemma's norms are stored with their +1, llama 3's
 * scaling of rope becomes a tensor. What a file cannot say and its readers would guess otherwise is
 * refused by name, and so are families that are not in the table.
 * Source: shared/spec/models.md section 8, gguf.md sections 2 and 3. */
#include "engine/quantize/gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

typedef struct hf_family {
    const char *model_type;
    const char *arch;
    bool has_neighbours; /* q and k rows are interleaved */
    bool has_plus_one;   /* norms are stored with 1 added */
    bool is_sandwich;    /* norms before and after each block */
} hf_family;

static const hf_family FAMILIES[] = {
    {"llama", "llama", true, false, false},     {"mistral", "llama", true, false, false},
    {"qwen2", "qwen2", false, false, false},    {"qwen3", "qwen3", false, false, false},
    {"smollm3", "smollm3", true, false, false}, {"gemma", "gemma", false, true, false},
    {"gemma2", "gemma2", false, true, true},    {"gemma3_text", "gemma3", false, true, true},
};
#define N_FAMILIES (sizeof FAMILIES / sizeof FAMILIES[0])

typedef struct hf_name {
    const char *hf;
    const char *gguf;
} hf_name;

static const hf_name OUTER[] = {
    {"embed_tokens.", "token_embd."}, {"norm.", "output_norm."}, {"lm_head.", "output."}};

static const hf_name INNER[] = {
    {"input_layernorm.", "attn_norm."},    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.k_proj.", "attn_k."},      {"self_attn.v_proj.", "attn_v."},
    {"self_attn.o_proj.", "attn_output."}, {"self_attn.q_norm.", "attn_q_norm."},
    {"self_attn.k_norm.", "attn_k_norm."}, {"mlp.gate_proj.", "ffn_gate."},
    {"mlp.up_proj.", "ffn_up."},           {"mlp.down_proj.", "ffn_down."},
};
static const hf_name PLAIN_NORMS[] = {{"post_attention_layernorm.", "ffn_norm."}};
static const hf_name SANDWICH_NORMS[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
    {"pre_feedforward_layernorm.", "ffn_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
};

typedef struct hf_plan {
    tdm_quantize_job *job;
    tdm_gguf_writer *writer;
    const hf_family *family;
    tdm_model_config config;
    tdm_quant_config quant;
    tdm_gguf_mix mix;
} hf_plan;

#define LEN(array) (sizeof(array) / sizeof((array)[0]))

/* ---- what cannot be said ---- */

static tdm_status refuse(const hf_plan *plan, const char *field, const char *what, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "a GGUF file of \"%s\" cannot say: %s",
                   plan->family->arch, what);
    tdm_err_where(err, "%s: config.json: %s", plan->job->src, field);
    tdm_err_remedy(err, "readers of the file would compute something else");
    return TDM_E_UNSUPPORTED;
}

static tdm_status find_family(hf_plan *plan, tdm_error *err) {
    char known[200] = "";
    size_t used = 0;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (strcmp(plan->config.family, FAMILIES[i].model_type) == 0) {
            plan->family = &FAMILIES[i];
            return TDM_OK;
        }
        const int n = snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
                               FAMILIES[i].model_type);
        used += n > 0 && (size_t)n < sizeof known - used ? (size_t)n : 0;
    }
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "family \"%.60s\" does not become a GGUF file",
                   plan->config.family);
    tdm_err_where(err, "%s: config.json: model_type", plan->job->src);
    tdm_err_limit(err, "%s", known);
    return TDM_E_UNSUPPORTED;
}

static bool is_arch(const hf_plan *plan, const char *arch) {
    return strcmp(plan->family->arch, arch) == 0;
}

/* Readers take head_dim^-1/2, but for the largest of gemma 2 and 3. */
static tdm_status check_scale(const hf_plan *plan, tdm_error *err) {
    const tdm_model_config *config = &plan->config;
    const bool is_largest = (is_arch(plan, "gemma2") && config->n_layers == 46) ||
                            (is_arch(plan, "gemma3") && config->n_layers == 62);
    const double wanted =
        is_largest ? (double)config->hidden / (double)config->n_heads : (double)config->head_dim;
    if (config->query_scalar != 0.0 && config->query_scalar != wanted) {
        return refuse(plan, "query_pre_attn_scalar", "another scale of scores", err);
    }
    return TDM_OK;
}

static tdm_status check_layers(const hf_plan *plan, tdm_error *err) {
    const tdm_model_config *config = &plan->config;
    const bool is_gemma2 = is_arch(plan, "gemma2");
    const bool may_slide = is_gemma2 || is_arch(plan, "gemma3");
    for (int32_t i = 0; i < config->n_layers; i++) {
        const bool slides =
            config->sliding_window > 0 && config->n_layer_types > 0 && config->is_sliding[i] != 0;
        if (!may_slide && slides) {
            return refuse(plan, "layer_types", "layers that slide", err);
        }
        if (is_gemma2 && config->n_layer_types > 0 && slides != (i % 2 == 0)) {
            return refuse(plan, "layer_types", "another pattern than every second layer", err);
        }
        if (config->n_no_rope > 0 && (config->has_rope[i] != 0) != ((i + 1) % 4 != 0)) {
            return refuse(plan, "no_rope_layers", "another pattern than each fourth layer", err);
        }
    }
    if (!may_slide && config->sliding_window > 0 && config->n_layer_types == 0) {
        return refuse(plan, "sliding_window", "a window", err);
    }
    return TDM_OK;
}

static tdm_status check_config(const hf_plan *plan, tdm_error *err) {
    const tdm_model_config *config = &plan->config;
    const tdm_rope_config *rope = &config->rope;
    if (config->rotary_dim != config->head_dim || config->value_dim != config->head_dim) {
        return refuse(plan, "head_dim", "heads that rotate in part, or values of another width",
                      err);
    }
    if (rope->kind == TDM_ROPE_YARN &&
        (rope->beta_fast != 32.0 || rope->beta_slow != 1.0 || rope->attention_factor != 0.0 ||
         rope->mscale != 0.0 || rope->mscale_all_dim != 0.0 || !rope->is_truncated)) {
        return refuse(plan, "rope_parameters", "yarn with settings of its own", err);
    }
    if (rope->kind == TDM_ROPE_LLAMA3 && !is_arch(plan, "llama")) {
        return refuse(plan, "rope_parameters", "llama3 scaling in another family", err);
    }
    if (config->is_bidirectional || config->clip_qkv != 0.0 || config->has_qk_norm_flag) {
        return refuse(plan, "use_bidirectional_attention", "attention of another kind", err);
    }
    TDM_TRY(check_scale(plan, err));
    return check_layers(plan, err);
}

/* ---- names ---- */

/* The GGUF name of "HEAD.suffix", where HEAD is one of n. */
static bool rename_by(const hf_name *names, size_t n, const char *prefix, const char *rest,
                      char out[64]) {
    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(names[i].hf);
        if (strncmp(rest, names[i].hf, len) == 0) {
            const char *suffix = rest + len;
            if (strcmp(suffix, "weight") != 0 && strcmp(suffix, "bias") != 0) {
                return false;
            }
            (void)snprintf(out, 64, "%s%s%s", prefix, names[i].gguf, suffix);
            return true;
        }
    }
    return false;
}

static bool find_name(const hf_plan *plan, const char *name, char out[64]) {
    const char *rest = strncmp(name, "model.", 6) == 0 ? name + 6 : name;
    char prefix[32];
    char *end = NULL;
    if (strncmp(rest, "layers.", 7) != 0) {
        return rename_by(OUTER, LEN(OUTER), "", rest, out);
    }
    const long layer = strtol(rest + 7, &end, 10);
    if (end == rest + 7 || *end != '.' || layer < 0 || layer >= plan->config.n_layers) {
        return false;
    }
    (void)snprintf(prefix, sizeof prefix, "blk.%ld.", layer);
    rest = end + 1;
    return rename_by(INNER, LEN(INNER), prefix, rest, out) ||
           (plan->family->is_sandwich
                ? rename_by(SANDWICH_NORMS, LEN(SANDWICH_NORMS), prefix, rest, out)
                : rename_by(PLAIN_NORMS, LEN(PLAIN_NORMS), prefix, rest, out));
}

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text);
    const size_t tail = strlen(end);
    return len >= tail && strcmp(text + len - tail, end) == 0;
}

static bool is_beside_weight(const tdm_checkpoint *checkpoint, const char *name) {
    static const char *const ENDS[] = {".scales", ".biases", ".global_scale", ".weight_scale_inv"};
    char weight[1200];
    for (size_t i = 0; i < LEN(ENDS); i++) {
        if (ends_with(name, ENDS[i])) {
            const int n = snprintf(weight, sizeof weight, "%.*s.weight",
                                   (int)(strlen(name) - strlen(ENDS[i])), name);
            return n > 0 && (size_t)n < sizeof weight &&
                   tdm_checkpoint_find(checkpoint, weight) != NULL;
        }
    }
    return false;
}

/* ---- tensors ---- */

static tdm_status fail_nomem(tdm_error *err) {
    return tdm_fail_nomem(err, "the plan of a conversion");
}

/* A vector's values are rows of one where rows are interleaved, else one row. */
static void as_vector(tdm_item *item, tdm_weight *weight) {
    const size_t bytes = TDM_DTYPES[weight->dtype].block_bytes;
    if (item->head_dim > 0) {
        weight->n_out = weight->n_in;
        weight->n_in = 1;
        weight->row_bytes = bytes;
    }
}

static int32_t heads_to_interleave(const hf_plan *plan, const char *name) {
    const bool is_q_or_k = strstr(name, ".attn_q.") != NULL || strstr(name, ".attn_k.") != NULL;
    return plan->family->has_neighbours && is_q_or_k ? plan->config.head_dim : 0;
}

static tdm_status add_tensor(hf_plan *plan, const tdm_checkpoint_tensor *tensor, const char *name,
                             tdm_error *err) {
    tdm_quantize_job *job = plan->job;
    const int32_t rank = tensor->view.rank;
    tdm_dtype dtype = TDM_DTYPE_F32;
    tdm_weight *weight = tdm_arena_calloc(&job->arena, 1, sizeof *weight);
    tdm_item *item = tdm_quantize_add_item(job);
    char *copy = tdm_quantize_text(job, name, strlen(name));
    if (weight == NULL || item == NULL || copy == NULL) {
        return fail_nomem(err);
    }
    if (rank != 1 && rank != 2) {
        return tdm_fail(err, TDM_E_SHAPE, "tensor \"%.100s\" is no matrix and no vector",
                        tensor->name);
    }
    TDM_TRY(tdm_quantize_describe(job, &plan->quant, tensor, weight, err));
    item->head_dim = heads_to_interleave(plan, name);
    if (rank == 1) {
        as_vector(item, weight);
    }
    if (item->head_dim > 0 && weight->n_out % item->head_dim != 0) {
        return tdm_fail(err, TDM_E_SHAPE, "tensor \"%.100s\" has no whole heads of %d rows",
                        tensor->name, (int)item->head_dim);
    }
    item->name = tensor->name;
    item->parts = weight;
    item->n_parts = 1;
    item->n_rows = weight->n_out;
    item->n_in = weight->n_in;
    item->offset = plan->family->has_plus_one && ends_with(name, "norm.weight") ? 1.0f : 0.0f;
    item->out[0].name = copy;
    item->out[0].rank = rank;
    item->out[0].dims[0] = rank == 2 ? weight->n_out : weight->n_out * weight->n_in;
    item->out[0].dims[1] = weight->n_in;
    TDM_TRY(tdm_gguf_choose(&job->recipe, &plan->mix, name, rank, weight->n_in, TDM_DTYPE_F32,
                            &dtype, err));
    return tdm_gguf_finish_item(item, dtype, err);
}

/* Divisors of the frequencies: what llama3 scaling does to each. */
static tdm_status add_rope_factors(hf_plan *plan, tdm_error *err) {
    tdm_quantize_job *job = plan->job;
    const tdm_rope_config *rope = &plan->config.rope;
    const int32_t n = plan->config.head_dim / 2;
    float *factors = tdm_arena_calloc(&job->arena, (size_t)n, sizeof *factors);
    tdm_weight *weight = tdm_arena_calloc(&job->arena, 1, sizeof *weight);
    tdm_item *item = tdm_quantize_add_item(job);
    if (factors == NULL || weight == NULL || item == NULL) {
        return fail_nomem(err);
    }
    for (int32_t i = 0; i < n; i++) {
        const double frequency = pow(rope->theta, -2.0 * (double)i / (double)(2 * n));
        const double turns = (double)rope->original_context * frequency / (2.0 * PI);
        const double smooth =
            (turns - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
        const double bounded = smooth < 0.0 ? 0.0 : smooth > 1.0 ? 1.0 : smooth;
        factors[i] = (float)(1.0 / ((1.0 - bounded) / rope->factor + bounded));
    }
    *weight = (tdm_weight){.dtype = TDM_DTYPE_F32,
                           .n_out = 1,
                           .n_in = n,
                           .data = (const uint8_t *)factors,
                           .row_bytes = (size_t)n * sizeof *factors};
    item->name = "rope_freqs.weight";
    item->parts = weight;
    item->n_parts = 1;
    item->n_rows = 1;
    item->n_in = n;
    item->out[0] = (tdm_write_tensor){.name = item->name, .rank = 1, .dims = {n}};
    return tdm_gguf_finish_item(item, TDM_DTYPE_F32, err);
}

static tdm_status add_tensors(hf_plan *plan, tdm_error *err) {
    const tdm_checkpoint *checkpoint = plan->job->checkpoint;
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, i);
        char name[64];
        if (is_beside_weight(checkpoint, tensor->name) ||
            ends_with(tensor->name, "rotary_emb.inv_freq") ||
            (plan->config.is_tied && strncmp(tensor->name, "lm_head.", 8) == 0)) {
            continue;
        }
        if (!find_name(plan, tensor->name, name)) {
            (void)tdm_fail(err, TDM_E_UNSUPPORTED, "tensor \"%.150s\" has no name in a GGUF file",
                           tensor->name);
            tdm_err_where(err, "%s", plan->job->src);
            return TDM_E_UNSUPPORTED;
        }
        TDM_TRY(add_tensor(plan, tensor, name, err));
    }
    return plan->config.rope.kind == TDM_ROPE_LLAMA3 ? add_rope_factors(plan, err) : TDM_OK;
}

/* ---- metadata ---- */

static const char *key_of(const hf_plan *plan, const char *key, char out[96]) {
    (void)snprintf(out, 96, "%s.%s", plan->family->arch, key);
    return out;
}

static void put_count(hf_plan *plan, const char *key, int64_t value) {
    char full[96];
    tdm_gguf_put_u32(plan->writer, key_of(plan, key, full), (uint32_t)value);
}

static void put_real(hf_plan *plan, const char *key, double value) {
    char full[96];
    tdm_gguf_put_f32(plan->writer, key_of(plan, key, full), (float)value);
}

static void put_rope(hf_plan *plan) {
    const tdm_rope_config *rope = &plan->config.rope;
    char full[96];
    put_count(plan, "rope.dimension_count", plan->config.rotary_dim);
    put_real(plan, "rope.freq_base", rope->theta);
    if (plan->config.has_local_rope) {
        put_real(plan, "rope.freq_base_swa", plan->config.rope_local.theta);
    }
    if (rope->kind == TDM_ROPE_LINEAR || rope->kind == TDM_ROPE_YARN) {
        const char *kind = rope->kind == TDM_ROPE_YARN ? "yarn" : "linear";
        tdm_gguf_put_text(plan->writer, key_of(plan, "rope.scaling.type", full), kind,
                          strlen(kind));
        put_real(plan, "rope.scaling.factor", rope->factor);
    }
    if (rope->kind == TDM_ROPE_YARN) {
        put_count(plan, "rope.scaling.original_context_length", rope->original_context);
    }
}

/* Only where it is not what readers know: each sixth layer is full. */
static void put_pattern(hf_plan *plan) {
    const tdm_model_config *config = &plan->config;
    char full[96];
    bool is_usual = true;
    for (int32_t i = 0; i < config->n_layers; i++) {
        is_usual = is_usual && (config->is_sliding[i] != 0) == ((i + 1) % 6 != 0);
    }
    if (!is_arch(plan, "gemma3") || config->n_layer_types == 0 || is_usual) {
        return;
    }
    tdm_gguf_put_array(plan->writer, key_of(plan, "attention.sliding_window_pattern", full),
                       TDM_GGUF_BOOL, (uint64_t)config->n_layers);
    for (int32_t i = 0; i < config->n_layers; i++) {
        tdm_gguf_item_bool(plan->writer, config->is_sliding[i] != 0);
    }
}

/* The folder's name, where it has one. */
static void put_name(hf_plan *plan) {
    const char *path = tdm_checkpoint_path(plan->job->checkpoint);
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/') {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    if (begin < end && path[begin] != '.') {
        tdm_gguf_put_text(plan->writer, "general.name", path + begin, end - begin);
    }
}

static void put_metadata(hf_plan *plan) {
    const tdm_model_config *config = &plan->config;
    const char *arch = plan->family->arch;
    tdm_gguf_put_text(plan->writer, "general.architecture", arch, strlen(arch));
    tdm_gguf_put_text(plan->writer, "general.type", "model", 5);
    put_name(plan);
    put_count(plan, "block_count", config->n_layers);
    put_count(plan, "context_length",
              config->context_max < UINT32_MAX ? config->context_max : (int64_t)UINT32_MAX);
    put_count(plan, "embedding_length", config->hidden);
    put_count(plan, "feed_forward_length", config->intermediate);
    put_count(plan, "vocab_size", config->n_vocab);
    put_count(plan, "attention.head_count", config->n_heads);
    put_count(plan, "attention.head_count_kv", config->n_kv_heads);
    put_count(plan, "attention.key_length", config->head_dim);
    put_count(plan, "attention.value_length", config->head_dim);
    put_real(plan, "attention.layer_norm_rms_epsilon", config->norm_eps);
    put_rope(plan);
    if (plan->family->is_sandwich) {
        put_count(plan, "attention.sliding_window", config->sliding_window);
    }
    if (config->attention_softcap > 0.0) {
        put_real(plan, "attn_logit_softcapping", config->attention_softcap);
    }
    if (config->final_softcap > 0.0) {
        put_real(plan, "final_logit_softcapping", config->final_softcap);
    }
    put_pattern(plan);
}

static tdm_status plan_all(hf_plan *plan, tdm_error *err) {
    const tdm_json *config = tdm_checkpoint_config(plan->job->checkpoint);
    TDM_TRY(tdm_model_config_read(&plan->config, plan->job->checkpoint, err));
    TDM_TRY(tdm_quant_config_read(&plan->quant, config, plan->job->src, err));
    TDM_TRY(find_family(plan, err));
    TDM_TRY(check_config(plan, err));
    plan->mix.n_layers = plan->config.n_layers;
    plan->mix.is_tied = plan->config.is_tied;
    put_metadata(plan);
    TDM_TRY(tdm_gguf_put_tokenizer(plan->job, plan->writer, &plan->config, err));
    return add_tensors(plan, err);
}

tdm_status tdm_gguf_from_hf(tdm_quantize_job *job, tdm_gguf_writer *writer, tdm_error *err) {
    /* The configuration has an entry for each of a thousand layers: too large for the stack. */
    hf_plan *plan = tdm_mem_calloc(job->alloc, 1, sizeof *plan);
    if (plan == NULL) {
        return fail_nomem(err);
    }
    plan->job = job;
    plan->writer = writer;
    const tdm_status status = plan_all(plan, err);
    tdm_mem_free(job->alloc, plan, sizeof *plan);
    return status;
}
