/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetching experts. safetensors name each expert's matrices apart, in one of two spellings; GGUF
 * stacks them, [n, out, in], and each plane is a weight. Source of the names: spec/models.md 3.5 and
 * 8; transformers, models/mixtral. */
#include "model/blocks/experts.h"
#include "model/blocks/parts.h"

#include "tensor/ops.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 160
#define N_MATRICES 3

/* After "layers.N." and before ".weight"; E stands between head and tail. */
typedef struct expert_names {
    const char *head;
    const char *tails[N_MATRICES]; /* gate, up, down */
    tdm_role router;
} expert_names;

static const expert_names NAMES[TDM_EXPERTS_COUNT] = {
    [TDM_EXPERTS_MLP] = {"mlp.experts.", {".gate_proj", ".up_proj", ".down_proj"}, TDM_ROLE_ROUTER},
    [TDM_EXPERTS_BLOCK_SPARSE] = {"block_sparse_moe.experts.",
                                  {".w1", ".w3", ".w2"},
                                  TDM_ROLE_ROUTER_BLOCK_SPARSE},
};
static const char *const STACKS[N_MATRICES] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};

/* Where the plane of one expert's matrix lies. */
static tdm_status find_matrix(tdm_loader *loader, const tdm_experts_spec *spec, int32_t layer,
                              int32_t expert, int32_t matrix, const int64_t dims[3],
                              const tdm_checkpoint_tensor **out, int64_t *out_plane,
                              tdm_error *err) {
    const expert_names *names = &NAMES[spec->names];
    char name[NAME_MAX_BYTES];
    if (tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF) {
        (void)snprintf(name, sizeof name, "blk.%d.%s.weight", (int)layer, STACKS[matrix]);
        *out_plane = expert;
        return tdm_part_find(loader, name, 3, dims, out, err);
    }
    (void)snprintf(name, sizeof name, "%slayers.%d.%s%d%s.weight", loader->prefix, (int)layer,
                   names->head, (int)expert, names->tails[matrix]);
    *out_plane = 0;
    return tdm_part_find(loader, name, 2, dims + 1, out, err);
}

static tdm_status load_expert(tdm_mlp_block *block, tdm_loader *loader, const tdm_dims *dims,
                              const tdm_experts_spec *spec, int32_t layer, int32_t expert,
                              tdm_error *err) {
    tdm_linear *const linears[N_MATRICES] = {&block->gate, &block->up, &block->down};
    block->inner = spec->intermediate;
    for (int32_t m = 0; m < N_MATRICES; m++) {
        bool is_down = linears[m] == &block->down;
        const int64_t shape[3] = {spec->n, is_down ? dims->hidden : spec->intermediate,
                                  is_down ? spec->intermediate : dims->hidden};
        const tdm_checkpoint_tensor *tensor = NULL;
        int64_t plane = 0;
        TDM_TRY(find_matrix(loader, spec, layer, expert, m, shape, &tensor, &plane, err));
        TDM_TRY(tdm_part_weight(loader, tensor, plane, 0, shape[1], &linears[m]->weight, err));
    }
    return TDM_OK;
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
    for (int32_t e = 0; e < experts->n; e++) {
        TDM_TRY(load_expert(&block->experts[e], loader, dims, experts, layer, e, err));
    }
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
