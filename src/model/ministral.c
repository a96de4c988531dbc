/* SPDX-License-Identifier: Apache-2.0
 *
 * Ministral: mistral whose layers see a window or everything by layer_types; without them every
 * layer has the window. Source: transformers, models/ministral/modeling_ministral.py. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    tdm_window_layers(config, 0, spec);
    return TDM_OK;
}

const tdm_family TDM_FAMILY_MINISTRAL = {"ministral", NULL, NULL, describe};
