/* SPDX-License-Identifier: Apache-2.0
 *
 * Command R7B and Command A: Command R whose layers see a window and rotate, but for each fourth,
 * which sees everything and does not rotate. Source: transformers,
 * models/cohere2/modeling_cohere2.py. */
#include "model/family.h"

#define PERIOD 4

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_cohere_spec_init(config, spec, err));
    tdm_window_layers(config, config->sliding_period > 0 ? config->sliding_period : PERIOD, spec);
    for (int32_t i = 0; i < config->n_layers; i++) {
        spec->layers[i].has_rope = spec->layers[i].window > 0;
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_COHERE2 = {"cohere2", NULL, "cohere2", describe};
