/* SPDX-License-Identifier: Apache-2.0
 *
 * Phi-3 and Phi-4 mini: a llama layer whose q, k, v lie in one tensor and gate, up in another; rope
 * over a part of each head; a window in every layer where the config has one. Longrope is refused by
 * the config's reader: its factors change with the length, which no cache survives. Source:
 * shared/spec/models.md 3.2; transformers, models/phi3/modeling_phi3.py. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    spec->rotary_dim = config->rotary_dim;
    spec->is_qkv_fused = true;
    spec->mlp = TDM_MLP_GATED_FUSED;
    for (int32_t i = 0; i < config->n_layers; i++) {
        spec->layers[i].window = config->sliding_window;
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_PHI3 = {"phi3", NULL, "phi3", describe};
