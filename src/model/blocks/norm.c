/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading of norms. A family that stores the difference from 1 gets it added here, once, in f32, so
 * that no kernel and no block knows. */
#include "model/blocks/norm.h"

#include "model/blocks/names.h"
#include "tensor/ops.h"

#define NONE TDM_ROLE_COUNT

/* Roles of the norms of a template: before and after attention, before and after the MLP. */
static const struct {
    tdm_role attention_pre, attention_post, mlp_pre, mlp_post;
} TEMPLATES[TDM_BLOCK_COUNT] = {
    [TDM_BLOCK_PRE] = {TDM_ROLE_ATTENTION_NORM, NONE, TDM_ROLE_MLP_NORM, NONE},
    [TDM_BLOCK_POST] = {NONE, TDM_ROLE_ATTENTION_POST_NORM, NONE, TDM_ROLE_MLP_POST_NORM},
    [TDM_BLOCK_PARALLEL] = {TDM_ROLE_ATTENTION_NORM, NONE, NONE, NONE},
    [TDM_BLOCK_SANDWICH] = {TDM_ROLE_ATTENTION_NORM, TDM_ROLE_ATTENTION_POST_NORM,
                            TDM_ROLE_MLP_PRE_NORM, TDM_ROLE_MLP_POST_NORM},
};

/* Weights of a norm that has none. */
static tdm_status load_ones(tdm_norm *norm, tdm_loader *loader, int64_t dim, tdm_error *err) {
    float *ones = tdm_arena_calloc(loader->arena, (size_t)dim, sizeof *ones);
    if (ones == NULL) {
        return tdm_fail_nomem(err, "a norm's weights");
    }
    for (int64_t i = 0; i < dim; i++) {
        ones[i] = 1.0F;
    }
    norm->weight = ones;
    return TDM_OK;
}

static tdm_status load(tdm_norm *norm, tdm_loader *loader, const tdm_decoder_spec *spec,
                       tdm_role role, int32_t layer, int64_t dim, tdm_error *err) {
    const float *stored = NULL;
    float *moved = NULL;
    norm->kind = spec->norm;
    if (norm->kind == TDM_NORM_LAYER_BARE) {
        return load_ones(norm, loader, dim, err);
    }
    TDM_TRY(tdm_loader_vector(loader, tdm_role_of(spec, role), layer, dim, &stored, err));
    norm->weight = stored;
    if (norm->kind == TDM_NORM_LAYER) {
        TDM_TRY(tdm_loader_bias(loader, tdm_role_of(spec, role), layer, dim, TDM_BIAS_REQUIRED,
                                &norm->bias, err));
    }
    if (spec->norm_offset == 0.0F || loader->has_whole_norms) {
        return TDM_OK;
    }
    moved = tdm_arena_calloc(loader->arena, (size_t)dim, sizeof *moved);
    if (moved == NULL) {
        return tdm_fail_nomem(err, "a norm's weights");
    }
    for (int64_t i = 0; i < dim; i++) {
        moved[i] = stored[i] + spec->norm_offset;
    }
    norm->weight = moved;
    return TDM_OK;
}

tdm_status tdm_norm_load(tdm_norm *norm, tdm_loader *loader, const tdm_decoder_spec *spec,
                         tdm_role role, int32_t layer, int64_t dim, tdm_error *err) {
    tdm_section outer = tdm_loader_enter(loader, TDM_SECTION_NORMS);
    tdm_status status = load(norm, loader, spec, role, layer, dim, err);
    (void)tdm_loader_enter(loader, outer);
    return status;
}

tdm_status tdm_norm_pairs_load(tdm_norm_pair *attention, tdm_norm_pair *mlp, tdm_loader *loader,
                               const tdm_decoder_spec *spec, int32_t layer, int64_t hidden,
                               tdm_error *err) {
    const struct {
        tdm_role role;
        tdm_norm *norm;
    } wanted[] = {{TEMPLATES[spec->block].attention_pre, &attention->pre},
                  {TEMPLATES[spec->block].attention_post, &attention->post},
                  {TEMPLATES[spec->block].mlp_pre, &mlp->pre},
                  {TEMPLATES[spec->block].mlp_post, &mlp->post}};
    mlp->is_shared = spec->block == TDM_BLOCK_PARALLEL;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (wanted[i].role != NONE) {
            TDM_TRY(
                tdm_norm_load(wanted[i].norm, loader, spec, wanted[i].role, layer, hidden, err));
        }
    }
    return TDM_OK;
}

void tdm_norm_forward(const tdm_norm *norm, tdm_backend *backend, float *out, const float *x,
                      int64_t n, int64_t dim, float eps) {
    if (norm->kind != TDM_NORM_RMS) {
        tdm_op_layer_norm(backend, out, dim, x, dim, norm->weight, norm->bias, n, dim, eps);
    } else {
        tdm_op_rms_norm(backend, out, dim, x, dim, norm->weight, n, dim, eps);
    }
}
