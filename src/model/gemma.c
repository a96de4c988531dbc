/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 1: a pre-norm decoder with a gated GELU, norms stored as the difference from 1, and
 * embeddings multiplied by sqrt(hidden). What gemma 2 and 3 share with it lives here too. Source:
 * shared/spec/models.md 3.7; transformers, models/gemma/modeling_gemma.py. GGUF files have the 1
 * added to the norms already (spec/gguf.md section 2). The factor stays f32 (spec/errata.md,
 * decision 7). */
#include "model/family.h"

#include <math.h>

tdm_status tdm_gemma_spec_init(const tdm_model_config *config, tdm_decoder_spec *spec,
                               tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    if (config->hidden_act == NULL) {
        spec->activation.kind = TDM_GLU_GELU_TANH;
    }
    spec->embed_scale = sqrtf((float)config->hidden);
    spec->norm_offset = config->container == TDM_CONTAINER_GGUF ? 0.0F : 1.0F;
    spec->qkv_bias = config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    spec->o_bias = spec->qkv_bias;
    return TDM_OK;
}

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    return tdm_gemma_spec_init(config, spec, err);
}

const tdm_family TDM_FAMILY_GEMMA = {"gemma", NULL, "gemma", describe};
