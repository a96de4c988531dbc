/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file from safetensors: names and layouts. Rows of q and k are interleaved where llama.cpp
 * rotates neighbours, gemma's norms are stored with their +1, llama 3's scaling of rope becomes a
 * tensor, experts become stacks. What a file cannot say and its readers would guess otherwise is
 * refused by name, and so are families that are not in the table (hf_families.c).
 * Source: shared/spec/models.md section 8, gguf.md sections 2 and 3. */
#include "engine/quantize/hf_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846
#define NAME_BYTES 64

static const tdm_hf_name OUTER[] = {{"embed_tokens.", "token_embd."},
                                    {"norm.", "output_norm."},
                                    {"lm_head.", "output."},
                                    {NULL, NULL}};
static const tdm_hf_name INNER[] = {
    {"input_layernorm.", "attn_norm."},    {"post_attention_layernorm.", "ffn_norm."},
    {"self_attn.q_proj.", "attn_q."},      {"self_attn.k_proj.", "attn_k."},
    {"self_attn.v_proj.", "attn_v."},      {"self_attn.o_proj.", "attn_output."},
    {"self_attn.q_norm.", "attn_q_norm."}, {"self_attn.k_norm.", "attn_k_norm."},
    {"mlp.gate_proj.", "ffn_gate."},       {"mlp.up_proj.", "ffn_up."},
    {"mlp.down_proj.", "ffn_down."},       {NULL, NULL}};

/* ---- what cannot be said ---- */

tdm_status tdm_hf_refuse(const tdm_hf_plan *plan, const char *field, const char *what,
                         tdm_error *err) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "a GGUF file of \"%s\" cannot say: %s",
                   plan->family->arch, what);
    tdm_err_where(err, "%s: config.json: %s", plan->job->src, field);
    tdm_err_remedy(err, "readers of the file would compute something else");
    return TDM_E_UNSUPPORTED;
}

static bool is_arch(const tdm_hf_plan *plan, const char *arch) {
    return strcmp(plan->family->arch, arch) == 0;
}

/* Readers take head_dim^-1/2, but for the largest of gemma 2 and 3. */
static tdm_status check_scale(const tdm_hf_plan *plan, tdm_error *err) {
    const tdm_model_config *config = &plan->config;
    const bool is_largest = (is_arch(plan, "gemma2") && config->n_layers == 46) ||
                            (is_arch(plan, "gemma3") && config->n_layers == 62);
    const double wanted =
        is_largest ? (double)config->hidden / (double)config->n_heads : (double)config->head_dim;
    if (config->query_scalar != 0.0 && config->query_scalar != wanted) {
        return tdm_hf_refuse(plan, "query_pre_attn_scalar", "another scale of scores", err);
    }
    return TDM_OK;
}

/* Whether readers of the architecture let layer i slide; a stated pattern is as the file says. */
static bool would_slide(tdm_hf_window window, int32_t i, bool slides) {
    switch (window) {
    case TDM_HF_WINDOW_ALL:
        return true;
    case TDM_HF_WINDOW_EVERY_SECOND:
        return i % 2 == 0;
    case TDM_HF_WINDOW_THREE_OF_FOUR:
        return i % 4 != 3;
    case TDM_HF_WINDOW_STATED:
        return slides;
    case TDM_HF_WINDOW_NONE:
    default:
        return false;
    }
}

static tdm_status check_window(const tdm_hf_plan *plan, tdm_error *err) {
    const tdm_model_config *config = &plan->config;
    const tdm_hf_window window = plan->family->window;
    if (config->sliding_window == 0) {
        return TDM_OK;
    }
    if (window == TDM_HF_WINDOW_NONE && config->n_layer_types == 0) {
        return tdm_hf_refuse(plan, "sliding_window", "a window", err);
    }
    if (config->n_layer_types == 0 && config->sliding_period != 0 &&
        config->sliding_period != (window == TDM_HF_WINDOW_THREE_OF_FOUR ? 4 : 6)) {
        return tdm_hf_refuse(plan, "sliding_window_pattern", "another pattern of windows", err);
    }
    for (int32_t i = 0; config->n_layer_types > 0 && i < config->n_layers; i++) {
        const bool slides = config->is_sliding[i] != 0;
        if (slides != would_slide(window, i, slides)) {
            return tdm_hf_refuse(plan, "layer_types",
                                 window == TDM_HF_WINDOW_NONE ? "layers that slide"
                                                              : "another pattern of windows",
                                 err);
        }
    }
    return TDM_OK;
}

static tdm_status check_layers(const tdm_hf_plan *plan, tdm_error *err) {
    const tdm_model_config *config = &plan->config;
    for (int32_t i = 0; config->n_no_rope > 0 && i < config->n_layers; i++) {
        if ((config->has_rope[i] != 0) != ((i + 1) % 4 != 0)) {
            return tdm_hf_refuse(plan, "no_rope_layers", "another pattern than each fourth layer",
                                 err);
        }
    }
    return check_window(plan, err);
}

static tdm_status check_rope(const tdm_hf_plan *plan, tdm_error *err) {
    const tdm_rope_config *rope = &plan->config.rope;
    if (rope->kind != TDM_ROPE_DEFAULT && !plan->family->has_own_rope) {
        return tdm_hf_refuse(plan, "rope_parameters", "scaled frequencies", err);
    }
    if (rope->kind == TDM_ROPE_YARN &&
        (rope->beta_fast != 32.0 || rope->beta_slow != 1.0 || rope->attention_factor != 0.0 ||
         rope->mscale != 0.0 || rope->mscale_all_dim != 0.0 || !rope->is_truncated)) {
        return tdm_hf_refuse(plan, "rope_parameters", "yarn with settings of its own", err);
    }
    if (rope->kind == TDM_ROPE_LLAMA3 && !is_arch(plan, "llama")) {
        return tdm_hf_refuse(plan, "rope_parameters", "llama3 scaling in another family", err);
    }
    return TDM_OK;
}

static tdm_status check_config(const tdm_hf_plan *plan, tdm_error *err) {
    const tdm_model_config *config = &plan->config;
    const bool turns_part = config->rotary_dim != config->head_dim;
    if ((turns_part && !plan->family->may_turn_part) || config->value_dim != config->head_dim) {
        return tdm_hf_refuse(plan, "head_dim",
                             "heads that rotate in part, or values of another width", err);
    }
    TDM_TRY(check_rope(plan, err));
    if (config->is_bidirectional || config->clip_qkv != 0.0 || config->has_qk_norm_flag) {
        return tdm_hf_refuse(plan, "use_bidirectional_attention", "attention of another kind", err);
    }
    TDM_TRY(check_scale(plan, err));
    TDM_TRY(check_layers(plan, err));
    return plan->family->check != NULL ? plan->family->check(plan, err) : TDM_OK;
}

/* ---- names ---- */

/* The GGUF name of "HEAD.suffix", where HEAD is one of names. */
static bool rename_by(const tdm_hf_name *names, const char *prefix, const char *rest,
                      char out[NAME_BYTES]) {
    for (; names != NULL && names->hf != NULL; names++) {
        const size_t len = strlen(names->hf);
        if (strncmp(rest, names->hf, len) == 0) {
            const char *suffix = rest + len;
            if (strcmp(suffix, "weight") != 0 && strcmp(suffix, "bias") != 0) {
                return false;
            }
            (void)snprintf(out, NAME_BYTES, "%s%s%s", prefix, names->gguf, suffix);
            return true;
        }
    }
    return false;
}

/* "blk.N." and what follows "layers.N."; false: the name is of no layer. */
static bool layer_prefix(const tdm_hf_plan *plan, const char *name, char out[32],
                         const char **out_rest) {
    const char *rest = strncmp(name, "model.", 6) == 0 ? name + 6 : name;
    char *end = NULL;
    if (strncmp(rest, "layers.", 7) != 0) {
        return false;
    }
    const long layer = strtol(rest + 7, &end, 10);
    if (end == rest + 7 || *end != '.' || layer < 0 || layer >= plan->config.n_layers) {
        return false;
    }
    (void)snprintf(out, 32, "blk.%ld.", layer);
    *out_rest = end + 1;
    return true;
}

static bool find_name(const tdm_hf_plan *plan, const char *name, char out[NAME_BYTES]) {
    char prefix[32];
    const char *rest = NULL;
    if (layer_prefix(plan, name, prefix, &rest)) {
        return rename_by(plan->family->names, prefix, rest, out) ||
               rename_by(INNER, prefix, rest, out);
    }
    return rename_by(OUTER, "", strncmp(name, "model.", 6) == 0 ? name + 6 : name, out);
}

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text);
    const size_t tail = strlen(end);
    return len >= tail && strcmp(text + len - tail, end) == 0;
}

/* ---- tensors ---- */

static tdm_status fail_nomem(tdm_error *err) {
    return tdm_fail_nomem(err, "the plan of a conversion");
}

static tdm_status fail_name(const tdm_hf_plan *plan, const char *name, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "tensor \"%.150s\" has no name in a GGUF file", name);
    tdm_err_where(err, "%s", plan->job->src);
    return TDM_E_UNSUPPORTED;
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

static int32_t heads_to_interleave(const tdm_hf_plan *plan, const char *name) {
    const bool is_q_or_k = strstr(name, ".attn_q.") != NULL || strstr(name, ".attn_k.") != NULL;
    return plan->family->has_neighbours && is_q_or_k ? plan->config.head_dim : 0;
}

/* Type, name and shape of an item whose parts are known. */
static tdm_status finish(tdm_hf_plan *plan, tdm_item *item, const char *name, int32_t rank,
                         const int64_t *dims, tdm_error *err) {
    tdm_quantize_job *job = plan->job;
    tdm_dtype dtype = TDM_DTYPE_F32;
    char *copy = tdm_quantize_text(job, name, strlen(name));
    if (copy == NULL) {
        return fail_nomem(err);
    }
    item->out[0].name = copy;
    item->out[0].rank = rank;
    memcpy(item->out[0].dims, dims, (size_t)rank * sizeof *dims);
    TDM_TRY(tdm_gguf_choose(&job->recipe, &plan->mix, name, rank == 1 ? 1 : item->n_rows,
                            item->n_in, TDM_DTYPE_F32, &dtype, err));
    return tdm_gguf_finish_item(item, dtype, err);
}

static tdm_status add_tensor(tdm_hf_plan *plan, const tdm_checkpoint_tensor *tensor,
                             const char *name, tdm_error *err) {
    tdm_quantize_job *job = plan->job;
    const int32_t rank = tensor->view.rank;
    const bool is_stack = rank == 3 && ends_with(name, "_exps.weight");
    int64_t dims[3] = {0, 0, 0};
    tdm_weight *weight = tdm_arena_calloc(&job->arena, 1, sizeof *weight);
    tdm_item *item = tdm_quantize_add_item(job);
    if (weight == NULL || item == NULL) {
        return fail_nomem(err);
    }
    if (rank != 1 && rank != 2 && !is_stack) {
        return tdm_fail(err, TDM_E_SHAPE, "tensor \"%.100s\" is no matrix and no vector",
                        tensor->name);
    }
    TDM_TRY(tdm_quantize_describe(job, &plan->quant, tensor, weight, err));
    item->head_dim = heads_to_interleave(plan, name);
    dims[0] = is_stack ? tensor->view.dims[0] : rank == 2 ? weight->n_out : weight->n_in;
    dims[1] = is_stack ? tensor->view.dims[1] : weight->n_in;
    dims[2] = weight->n_in;
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
    return finish(plan, item, name, rank, dims, err);
}

/* All experts of one matrix of one layer. */
static tdm_status add_stack(tdm_hf_plan *plan, const char *first, const tdm_expert_at *at,
                            tdm_error *err) {
    static const char *const NAMES[] = {"gate", "up", "down"};
    char prefix[32];
    char name[NAME_BYTES];
    const char *rest = NULL;
    tdm_item *item = NULL;
    if (!layer_prefix(plan, first, prefix, &rest)) {
        return fail_name(plan, first, err);
    }
    TDM_TRY(
        tdm_experts_stack(plan->job, &plan->quant, &plan->family->experts, first, at, &item, err));
    const int64_t n = (int64_t)item->n_parts;
    const int64_t dims[3] = {n, item->n_rows / n, item->n_in};
    if (n != plan->config.experts.n) {
        (void)tdm_fail(err, TDM_E_FORMAT, "%lld experts from \"%.100s\" on, not %d", (long long)n,
                       first, (int)plan->config.experts.n);
        tdm_err_where(err, "%s", plan->job->src);
        tdm_err_remedy(err, "the checkpoint is incomplete; fetch it again");
        return TDM_E_FORMAT;
    }
    (void)snprintf(name, sizeof name, "%sffn_%s_exps.weight", prefix, NAMES[at->which]);
    return finish(plan, item, name, 3, dims, err);
}

/* Divisors of the frequencies: what llama3 scaling does to each. */
static tdm_status add_rope_factors(tdm_hf_plan *plan, tdm_error *err) {
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

static bool is_dropped(const tdm_hf_plan *plan, const char *name) {
    return tdm_quantize_is_beside(plan->job->checkpoint, name) ||
           ends_with(name, "rotary_emb.inv_freq") ||
           (plan->config.is_tied && strncmp(name, "lm_head.", 8) == 0);
}

static tdm_status add_one(tdm_hf_plan *plan, const tdm_checkpoint_tensor *tensor, tdm_error *err) {
    const tdm_expert_names *experts = &plan->family->experts;
    tdm_expert_at at = {0};
    char name[NAME_BYTES];
    if (tdm_experts_parse(experts, tensor->name, &at)) {
        return at.expert == 0 ? add_stack(plan, tensor->name, &at, err)
                              : tdm_experts_check(plan->job, experts, tensor->name, &at, err);
    }
    return find_name(plan, tensor->name, name) ? add_tensor(plan, tensor, name, err)
                                               : fail_name(plan, tensor->name, err);
}

static tdm_status add_tensors(tdm_hf_plan *plan, tdm_error *err) {
    const tdm_checkpoint *checkpoint = plan->job->checkpoint;
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, i);
        if (!is_dropped(plan, tensor->name)) {
            TDM_TRY(add_one(plan, tensor, err));
        }
    }
    return plan->config.rope.kind == TDM_ROPE_LLAMA3 ? add_rope_factors(plan, err) : TDM_OK;
}

static tdm_status plan_all(tdm_hf_plan *plan, tdm_error *err) {
    const tdm_json *config = tdm_checkpoint_config(plan->job->checkpoint);
    TDM_TRY(tdm_model_config_read(&plan->config, plan->job->checkpoint, err));
    TDM_TRY(tdm_quant_config_read(&plan->quant, config, plan->job->src, err));
    TDM_TRY(tdm_hf_find_family(plan, err));
    TDM_TRY(check_config(plan, err));
    plan->mix.n_layers = plan->config.n_layers;
    plan->mix.n_experts = plan->config.experts.n;
    plan->mix.is_tied = plan->config.is_tied;
    tdm_hf_put_metadata(plan);
    TDM_TRY(tdm_gguf_put_tokenizer(plan->job, plan->writer, &plan->config, err));
    return add_tensors(plan, err);
}

tdm_status tdm_gguf_from_hf(tdm_quantize_job *job, tdm_gguf_writer *writer, tdm_error *err) {
    /* The configuration has an entry for each of a thousand layers: too large for the stack. */
    tdm_hf_plan *plan = tdm_mem_calloc(job->alloc, 1, sizeof *plan);
    if (plan == NULL) {
        return fail_nomem(err);
    }
    plan->job = job;
    plan->writer = writer;
    const tdm_status status = plan_all(plan, err);
    tdm_mem_free(job->alloc, plan, sizeof *plan);
    return status;
}
