/* SPDX-License-Identifier: Apache-2.0
 *
 * Command R: attention and MLP side by side behind one layer norm without bias, rope by neighbours,
 * logits multiplied by logit_scale. The variant with norms on q and k (use_qk_norm) has weights for
 * each head and is refused. Source: transformers, models/cohere/modeling_cohere.py. GGUF is not read:
 * no golden shows what its files mean. */
#include "model/family.h"

#define LOGIT_SCALE 0.0625 /* the class's default */

tdm_status tdm_cohere_spec_init(const tdm_model_config *config, tdm_decoder_spec *spec,
                                tdm_error *err) {
    double scale = config->logit_scale > 0.0 ? config->logit_scale : LOGIT_SCALE;
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_NEIGHBOURS, spec, err));
    spec->block = TDM_BLOCK_PARALLEL;
    spec->norm = TDM_NORM_LAYER_NO_BIAS;
    spec->pairing = TDM_ROPE_NEIGHBOURS;
    spec->logit_divisor = (float)(1.0 / scale);
    spec->qkv_bias = config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    spec->o_bias = spec->qkv_bias;
    return TDM_OK;
}

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    return tdm_cohere_spec_init(config, spec, err);
}

const tdm_family TDM_FAMILY_COHERE = {"cohere", NULL, "command-r", describe};
