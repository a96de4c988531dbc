/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetching experts. Files lay them out in five ways, and a layer's own tensors say which:
 *
 *   EACH    one matrix a tensor                      the hub's usual files
 *   STACK   gate, up and down, each [E, out, in]     MLX, GGUF
 *   FUSED   gate_up [E, 2 inner, in], gate first     transformers 5, some GGUF files
 *   TURNED  gate_up [E, in, 2 inner], gate and up in turn; down [E, inner, out]     gpt-oss
 *   BLOCKS  the same two, each row in MXFP4 blocks: gate_up_proj_blocks, _scales    gpt-oss
 *
 * Source of the names: spec/models.md 3.5 and 8; spec/gguf.md 2; spec/quantized-formats.md 1 and 3;
 * transformers, models/mixtral, models/gpt_oss, models/gemma4. */
#include "model/blocks/experts.h"
#include "model/blocks/names.h"
#include "model/blocks/parts.h"

#include "tensor/ops.h"

#include <stdio.h>

#define NAME_MAX_BYTES 160

typedef enum expert_matrix { MATRIX_GATE, MATRIX_UP, MATRIX_DOWN, MATRIX_COUNT } expert_matrix;

typedef enum expert_layout {
    LAYOUT_EACH,
    LAYOUT_STACK,
    LAYOUT_FUSED,
    LAYOUT_TURNED,
    LAYOUT_BLOCKS
} expert_layout;

typedef struct expert_names {
    tdm_role router;
    const char *each; /* before E, after "layers.N."; NULL: the family has no such layout */
    const char *tails[MATRIX_COUNT]; /* behind E */
    const char *stack;               /* of MLX: before ".gate_proj" */
    const char *fused;               /* before ".gate_up_proj"; NULL: none */
    bool is_turned;                  /* what is fused is TURNED */
} expert_names;

static const expert_names NAMES[TDM_EXPERTS_COUNT] = {
    [TDM_EXPERTS_MLP] = {TDM_ROLE_ROUTER,
                         "mlp.experts.",
                         {".gate_proj", ".up_proj", ".down_proj"},
                         "mlp.switch_mlp",
                         "mlp.experts",
                         false},
    [TDM_EXPERTS_BLOCK_SPARSE] = {TDM_ROLE_SPARSE_ROUTER,
                                  "block_sparse_moe.experts.",
                                  {".w1", ".w3", ".w2"},
                                  "block_sparse_moe.switch_mlp",
                                  NULL,
                                  false},
    [TDM_EXPERTS_GEMMA4] =
        {TDM_ROLE_GEMMA4_ROUTER, NULL, {NULL}, "experts.switch_glu", "experts", false},
    [TDM_EXPERTS_GPT_OSS] =
        {TDM_ROLE_GPT_OSS_ROUTER, NULL, {NULL}, "mlp.experts", "mlp.experts", true},
};

/* Where the experts of one layer lie. */
typedef struct experts_place {
    tdm_loader *loader;
    const tdm_experts_spec *spec;
    const expert_names *names;
    int32_t layer;
    int64_t hidden;
    expert_layout layout;
    bool is_gguf;
} experts_place;

/* A name of this layer in the container's own spelling. */
static void spell(const experts_place *place, char out[NAME_MAX_BYTES], const char *head,
                  const char *tail) {
    if (place->is_gguf) {
        (void)snprintf(out, NAME_MAX_BYTES, "blk.%d.%s%s", (int)place->layer, head, tail);
    } else {
        (void)snprintf(out, NAME_MAX_BYTES, "%slayers.%d.%s%s", place->loader->prefix,
                       (int)place->layer, head, tail);
    }
}

static bool has(const experts_place *place, const char *head, const char *tail) {
    char name[NAME_MAX_BYTES];
    spell(place, name, head, tail);
    return tdm_checkpoint_find(place->loader->checkpoint, name) != NULL;
}

/* A stack wins where there is one. Where nothing is found, the last layout's names are missed. */
static expert_layout find_layout(const experts_place *place) {
    const expert_names *names = place->names;
    if (place->is_gguf) {
        return has(place, "ffn_gate_up_exps", ".weight") ? LAYOUT_FUSED : LAYOUT_STACK;
    }
    if (has(place, names->stack, ".gate_proj.weight")) {
        return LAYOUT_STACK;
    }
    if (names->fused != NULL && has(place, names->fused, ".gate_up_proj_blocks")) {
        return LAYOUT_BLOCKS;
    }
    if (names->fused != NULL &&
        (names->each == NULL || has(place, names->fused, ".gate_up_proj"))) {
        return names->is_turned ? LAYOUT_TURNED : LAYOUT_FUSED;
    }
    return LAYOUT_EACH;
}

/* The name of the tensor that holds a matrix of all experts, without its ending. */
static void spell_stack(const experts_place *place, char out[NAME_MAX_BYTES],
                        expert_matrix matrix) {
    static const char *const APART[] = {".gate_proj", ".up_proj", ".down_proj"};
    static const char *const GGUF[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
    bool is_fused = place->layout != LAYOUT_STACK && matrix != MATRIX_DOWN;
    if (place->is_gguf) {
        spell(place, out, is_fused ? "ffn_gate_up_exps" : GGUF[matrix], "");
    } else if (place->layout == LAYOUT_STACK) {
        spell(place, out, place->names->stack, APART[matrix]);
    } else {
        spell(place, out, place->names->fused, is_fused ? ".gate_up_proj" : ".down_proj");
    }
}

/* Which rows of its stack a matrix is. */
static tdm_part_stack rows_of(const experts_place *place, int32_t expert, expert_matrix matrix) {
    int64_t inner = place->spec->intermediate;
    bool is_in_turn = place->layout == LAYOUT_TURNED || place->layout == LAYOUT_BLOCKS;
    tdm_part_stack rows = {.n_experts = place->spec->n, .expert = expert, .row_step = 1};
    rows.n_rows = matrix == MATRIX_DOWN ? place->hidden : inner;
    rows.n_in = matrix == MATRIX_DOWN ? inner : place->hidden;
    if (matrix != MATRIX_DOWN && place->layout != LAYOUT_STACK) {
        rows.n_rows = 2 * inner;
        rows.n_taken = inner;
        rows.row_step = is_in_turn ? 2 : 1;
        rows.row_first = matrix == MATRIX_GATE ? 0 : (is_in_turn ? 1 : inner);
    }
    return rows;
}

static tdm_status load_bias(const experts_place *place, const char *stack,
                            const tdm_part_stack *rows, tdm_linear *out, tdm_error *err) {
    bool is_named_apart = place->is_gguf || place->layout == LAYOUT_STACK;
    char name[NAME_MAX_BYTES + 8];
    if (place->spec->bias == TDM_BIAS_NONE) {
        return TDM_OK;
    }
    (void)snprintf(name, sizeof name, "%s%s", stack, is_named_apart ? ".bias" : "_bias");
    if (place->spec->bias == TDM_BIAS_IF_PRESENT &&
        tdm_checkpoint_find(place->loader->checkpoint, name) == NULL) {
        return TDM_OK;
    }
    return tdm_part_stack_vector(place->loader, name, rows, &out->bias, err);
}

static tdm_status load_stacked(const experts_place *place, int32_t expert, expert_matrix matrix,
                               tdm_linear *out, tdm_error *err) {
    const tdm_part_stack rows = rows_of(place, expert, matrix);
    char stack[NAME_MAX_BYTES];
    char name[NAME_MAX_BYTES + 8];
    spell_stack(place, stack, matrix);
    TDM_TRY(load_bias(place, stack, &rows, out, err));
    if (place->layout == LAYOUT_BLOCKS) {
        return tdm_part_blocks(place->loader, stack, &rows, &out->weight, err);
    }
    if (place->layout == LAYOUT_TURNED) {
        return tdm_part_turned(place->loader, stack, &rows, &out->weight, err);
    }
    (void)snprintf(name, sizeof name, "%s%s", stack,
                   place->is_gguf || place->layout == LAYOUT_STACK ? ".weight" : "");
    return tdm_part_stacked(place->loader, name, &rows, &out->weight, err);
}

static tdm_status load_matrix(const experts_place *place, int32_t expert, expert_matrix matrix,
                              tdm_linear *out, tdm_error *err) {
    int64_t inner = place->spec->intermediate;
    bool is_down = matrix == MATRIX_DOWN;
    char name[NAME_MAX_BYTES];
    char own[64];
    if (place->layout != LAYOUT_EACH) {
        return load_stacked(place, expert, matrix, out, err);
    }
    (void)snprintf(own, sizeof own, "%d%s", (int)expert, place->names->tails[matrix]);
    spell(place, name, place->names->each, own);
    return tdm_part_matrix(place->loader, name, is_down ? place->hidden : inner,
                           is_down ? inner : place->hidden, &out->weight, err);
}

static tdm_status load_expert(const experts_place *place, int32_t expert, tdm_mlp_block *block,
                              tdm_error *err) {
    block->inner = place->spec->intermediate;
    TDM_TRY(load_matrix(place, expert, MATRIX_GATE, &block->gate, err));
    TDM_TRY(load_matrix(place, expert, MATRIX_UP, &block->up, err));
    return load_matrix(place, expert, MATRIX_DOWN, &block->down, err);
}

static tdm_status load_shared(tdm_experts_block *block, tdm_loader *loader, const tdm_dims *dims,
                              const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    const tdm_mlp_roles roles = {tdm_role_of(spec, TDM_ROLE_SHARED_GATE),
                                 tdm_role_of(spec, TDM_ROLE_SHARED_UP),
                                 tdm_role_of(spec, TDM_ROLE_SHARED_DOWN)};
    if (spec->experts.shared_intermediate == 0) {
        return TDM_OK;
    }
    block->has_shared = true;
    TDM_TRY(tdm_mlp_load(&block->shared, loader, &roles, dims->hidden,
                         spec->experts.shared_intermediate, TDM_BIAS_NONE, layer, err));
    if (spec->experts.is_shared_plain) {
        return TDM_OK;
    }
    return tdm_loader_linear(loader, TDM_ROLE_SHARED_MIX, layer, 1, dims->hidden, TDM_BIAS_NONE,
                             &block->shared_gate, err);
}

static tdm_status load_router(const experts_place *place, tdm_router *router, tdm_error *err) {
    const tdm_experts_spec *spec = place->spec;
    char name[NAME_MAX_BYTES];
    router->n = spec->n;
    router->n_used = spec->n_used;
    router->n_groups = spec->n_groups;
    router->n_groups_used = spec->n_groups_used;
    router->kind = spec->router;
    router->is_renormalized = spec->is_renormalized;
    router->scale = spec->routed_scale;
    if (spec->has_correction) {
        spell(place, name, place->is_gguf ? "exp_probs_b.bias" : "mlp.gate.e_score_correction_bias",
              "");
        TDM_TRY(tdm_part_vector(place->loader, name, spec->n, &router->correction, err));
    }
    return tdm_loader_linear(place->loader, place->names->router, place->layer, spec->n,
                             place->hidden, spec->router_bias, &router->linear, err);
}

tdm_status tdm_experts_load(tdm_experts_block *block, tdm_loader *loader, const tdm_dims *dims,
                            const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    experts_place place = {.loader = loader,
                           .spec = &spec->experts,
                           .names = &NAMES[spec->experts.names],
                           .layer = layer,
                           .hidden = dims->hidden};
    place.is_gguf = tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF;
    place.layout = find_layout(&place);
    block->experts =
        tdm_arena_calloc(loader->arena, (size_t)spec->experts.n, sizeof *block->experts);
    if (block->experts == NULL) {
        return tdm_fail_nomem(err, "a layer's experts");
    }
    TDM_TRY(load_router(&place, &block->router, err));
    tdm_section outer = tdm_loader_enter(loader, TDM_SECTION_EXPERTS);
    for (int32_t e = 0; e < block->router.n; e++) {
        TDM_TRY(load_expert(&place, e, &block->experts[e], err));
    }
    (void)tdm_loader_enter(loader, outer);
    return load_shared(block, loader, dims, spec, layer, err);
}

void tdm_experts_unload(tdm_experts_block *block, tdm_backend *backend) {
    for (int32_t e = 0; block->experts != NULL && e < block->router.n; e++) {
        tdm_mlp_unload(&block->experts[e], backend);
    }
    tdm_mlp_unload(&block->shared, backend);
    tdm_weight_deinit(backend, &block->shared_gate.weight);
    tdm_weight_deinit(backend, &block->router.linear.weight);
}
