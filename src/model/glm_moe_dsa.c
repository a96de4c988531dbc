/* SPDX-License-Identifier: Apache-2.0
 *
 * GLM-5: DeepSeek V3's parts, and an indexer that chooses the positions a query sees; from 5.2 on
 * some layers make no choice of their own and take the one before. Source: transformers 5.17,
 * models/glm_moe_dsa; spec/models.md 3.11. */
#include "model/family.h"

#include "tensor/ops.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    const tdm_latent_config *latent = &config->latent;
    TDM_TRY(tdm_deepseek_spec_init(config, spec, err));
    if (latent->index_dim > TDM_HEAD_DIM_MAX) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "an indexer's heads of %d values",
                       (int)latent->index_dim);
        tdm_err_where(err, "%s", "index_head_dim");
        tdm_err_limit(err, "%d", TDM_HEAD_DIM_MAX);
        return TDM_E_UNSUPPORTED;
    }
    if (latent->index_topk > 0 && latent->q_rank == 0) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "an indexer without low-rank queries to read");
        tdm_err_where(err, "%s", "q_lora_rank");
        return TDM_E_UNSUPPORTED;
    }
    spec->latent.index_heads = latent->index_heads;
    spec->latent.index_dim = latent->index_dim;
    spec->latent.index_top_k = latent->index_topk;
    for (int32_t i = 0; i < config->n_layers; i++) {
        spec->layers[i].shares_choice = latent->index_topk > 0 && latent->is_index_shared[i] != 0;
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_GLM_MOE_DSA = {"glm_moe_dsa", NULL, "glm-dsa", describe};
