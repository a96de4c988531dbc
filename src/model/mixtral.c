/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixtral: mistral's attention, and experts in every layer, whose weights are a softmax over the
 * chosen ones. GGUF files of it are written as `llama` with an expert_count. Source:
 * shared/spec/models.md 2.6; transformers, models/mixtral/modeling_mixtral.py. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    TDM_TRY(tdm_experts_spec_init(config, spec, err));
    spec->experts.names = TDM_EXPERTS_BLOCK_SPARSE;
    spec->experts.is_renormalized = true;
    spec->experts.shared_intermediate = 0;
    for (int32_t i = 0; config->n_layer_types == 0 && i < config->n_layers; i++) {
        spec->layers[i].window = config->sliding_window;
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_MIXTRAL = {"mixtral", NULL, NULL, describe};
