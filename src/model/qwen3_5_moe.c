/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3.5's text with experts in every layer, beside one that every token takes; the weights of the
 * chosen are always divided by their sum. The rest is qwen3_5's.
 * Source: transformers 5.17, models/qwen3_5_moe; shared/spec/models.md 2.6, 3.9. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_qwen_linear_spec_init(config, spec, err));
    TDM_TRY(tdm_experts_spec_init(config, spec, err));
    spec->experts.names = TDM_EXPERTS_MLP;
    spec->experts.is_renormalized = true;
    spec->delta.is_tiled = config->container == TDM_CONTAINER_GGUF;
    return TDM_OK;
}

const tdm_family TDM_FAMILY_QWEN3_5_MOE = {"qwen3_5_moe", "qwen3_5_moe_text", "qwen35moe",
                                           describe};
