/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen2 and Qwen2.5, dense: a llama layer with biases on q, k and v only; yarn by config for long
 * context. Sliding layers only where the config switches them on: from layer max_window_layers, or
 * as layer_types says. Source: shared/spec/models.md 3.3; transformers,
 * models/qwen2/modeling_qwen2.py. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    spec->qkv_bias =
        config->container == TDM_CONTAINER_GGUF ? TDM_BIAS_IF_PRESENT : TDM_BIAS_REQUIRED;
    return TDM_OK;
}

const tdm_family TDM_FAMILY_QWEN2 = {"qwen2", NULL, "qwen2", describe};
