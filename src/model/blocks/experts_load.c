/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetching experts. safetensors of the hub name each expert's matrices apart; MLX and GGUF stack
 * them, [n, out, in]. A stack wins where there is one. Source of the names: spec/models.md 3.5 and
 * 8; transformers, models/mixtral. */
#include "model/blocks/experts.h"
#include "model/blocks/parts.h"

#include "tensor/ops.h"

#include <stdio.h>

#define NAME_MAX_BYTES 128
#define N_MATRICES 3 /* gate, up, down */

typedef struct expert_names {
    tdm_role router;
    tdm_role stacks[N_MATRICES];
    const char
        *head; /* of an expert's own name, after "layers.N."; E stands between head and tail */
    const char *tails[N_MATRICES];
} expert_names;

static const expert_names NAMES[TDM_EXPERTS_COUNT] = {
    [TDM_EXPERTS_MLP] = {TDM_ROLE_ROUTER,
                         {TDM_ROLE_STACK_GATE, TDM_ROLE_STACK_UP, TDM_ROLE_STACK_DOWN},
                         "mlp.experts.",
                         {".gate_proj", ".up_proj", ".down_proj"}},
    [TDM_EXPERTS_BLOCK_SPARSE] = {TDM_ROLE_SPARSE_ROUTER,
                                  {TDM_ROLE_SPARSE_STACK_GATE, TDM_ROLE_SPARSE_STACK_UP,
                                   TDM_ROLE_SPARSE_STACK_DOWN},
                                  "block_sparse_moe.experts.",
                                  {".w1", ".w3", ".w2"}},
};

static tdm_status load_matrix(tdm_weight *out, tdm_loader *loader, const tdm_experts_spec *spec,
                              int32_t layer, int32_t expert, int32_t matrix, int64_t n_out,
                              int64_t n_in, tdm_error *err) {
    const expert_names *names = &NAMES[spec->names];
    char name[NAME_MAX_BYTES];
    if (tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF ||
        tdm_loader_has(loader, names->stacks[matrix], layer)) {
        return tdm_loader_expert(loader, names->stacks[matrix], layer, spec->n, expert, n_out, n_in,
                                 out, err);
    }
    (void)snprintf(name, sizeof name, "%slayers.%d.%s%d%s", loader->prefix, (int)layer, names->head,
                   (int)expert, names->tails[matrix]);
    return tdm_part_matrix(loader, name, n_out, n_in, out, err);
}

static tdm_status load_expert(tdm_mlp_block *block, tdm_loader *loader, const tdm_dims *dims,
                              const tdm_experts_spec *spec, int32_t layer, int32_t expert,
                              tdm_error *err) {
    int64_t hidden = dims->hidden;
    int64_t inner = spec->intermediate;
    block->inner = spec->intermediate;
    TDM_TRY(load_matrix(&block->gate.weight, loader, spec, layer, expert, 0, inner, hidden, err));
    TDM_TRY(load_matrix(&block->up.weight, loader, spec, layer, expert, 1, inner, hidden, err));
    return load_matrix(&block->down.weight, loader, spec, layer, expert, 2, hidden, inner, err);
}

static tdm_status load_shared(tdm_experts_block *block, tdm_loader *loader, const tdm_dims *dims,
                              const tdm_experts_spec *spec, int32_t layer, tdm_error *err) {
    const tdm_mlp_roles roles = {TDM_ROLE_SHARED_GATE, TDM_ROLE_SHARED_UP, TDM_ROLE_SHARED_DOWN};
    if (spec->shared_intermediate == 0) {
        return TDM_OK;
    }
    block->has_shared = true;
    TDM_TRY(tdm_mlp_load(&block->shared, loader, &roles, dims->hidden, spec->shared_intermediate,
                         TDM_BIAS_NONE, layer, err));
    return tdm_loader_linear(loader, TDM_ROLE_SHARED_MIX, layer, 1, dims->hidden, TDM_BIAS_NONE,
                             &block->shared_gate, err);
}

tdm_status tdm_experts_load(tdm_experts_block *block, tdm_loader *loader, const tdm_dims *dims,
                            const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    const tdm_experts_spec *experts = &spec->experts;
    block->experts = tdm_arena_calloc(loader->arena, (size_t)experts->n, sizeof *block->experts);
    if (block->experts == NULL) {
        return tdm_fail_nomem(err, "a layer's experts");
    }
    block->n = experts->n;
    block->n_used = experts->n_used;
    block->is_renormalized = experts->is_renormalized;
    TDM_TRY(tdm_loader_linear(loader, NAMES[experts->names].router, layer, experts->n, dims->hidden,
                              TDM_BIAS_NONE, &block->router, err));
    tdm_section outer = tdm_loader_enter(loader, TDM_SECTION_EXPERTS);
    for (int32_t e = 0; e < experts->n; e++) {
        TDM_TRY(load_expert(&block->experts[e], loader, dims, experts, layer, e, err));
    }
    (void)tdm_loader_enter(loader, outer);
    return load_shared(block, loader, dims, experts, layer, err);
}

void tdm_experts_unload(tdm_experts_block *block, tdm_backend *backend) {
    for (int32_t e = 0; block->experts != NULL && e < block->n; e++) {
        tdm_mlp_unload(&block->experts[e], backend);
    }
    tdm_mlp_unload(&block->shared, backend);
    tdm_weight_deinit(backend, &block->shared_gate.weight);
    tdm_weight_deinit(backend, &block->router.weight);
}
