/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistral: a llama layer in which every layer sees a window of sliding_window positions, where the
 * config has one. No biases. GGUF files of it are written as `llama` and have lost the window
 * (spec/gguf.md section 3). Source: transformers, models/mistral/modeling_mistral.py. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    if (config->n_layer_types == 0) {
        for (int32_t i = 0; i < config->n_layers; i++) {
            spec->layers[i].window = config->sliding_window;
        }
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_MISTRAL = {"mistral", NULL, NULL, describe};
