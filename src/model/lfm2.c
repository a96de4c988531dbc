/* SPDX-License-Identifier: Apache-2.0
 *
 * LFM2: gated short convolutions, with attention (norms on each head of q and k) in a few layers
 * only; names of its own throughout. The width of its MLP is written before an adjustment that
 * block_auto_adjust_ff_dim asks for; GGUF writes it after. Source: transformers,
 * models/lfm2/modeling_lfm2.py; spec/gguf.md section 2. */
#include "model/family.h"

/* As the reference computes it, each step cut to a whole number. */
static int64_t adjusted_width(const tdm_model_config *config) {
    int64_t multiple = config->ff_multiple_of > 0 ? config->ff_multiple_of : 256;
    double factor = config->ff_multiplier > 0.0 ? config->ff_multiplier : 1.0;
    int64_t width = (int64_t)(2.0 * config->intermediate / 3.0);
    width = (int64_t)(factor * (double)width);
    return (width + multiple - 1) / multiple * multiple;
}

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    spec->naming = TDM_NAMING_LFM2;
    spec->qk_norm = TDM_QK_NORM_HEAD;
    spec->conv_taps = config->conv_taps > 0 ? config->conv_taps : 3;
    if (spec->conv_taps > TDM_CONV_TAPS_MAX) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "a convolution of %d taps", (int)spec->conv_taps);
        tdm_err_where(err, "%s",
                      is_gguf ? "metadata: shortconv.l_cache" : "config.json: conv_L_cache");
        tdm_err_limit(err, "at most %d", TDM_CONV_TAPS_MAX);
        tdm_err_remedy(err, "no kernel of this build takes such a layer");
        return TDM_E_UNSUPPORTED;
    }
    spec->conv_bias = config->has_conv_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    if (!is_gguf && config->is_ff_adjusted) {
        int64_t width = adjusted_width(config);
        if (width > INT32_MAX) {
            return tdm_fail(err, TDM_E_UNSUPPORTED, "an MLP of %lld values", (long long)width);
        }
        spec->intermediate = (int32_t)width;
    }
    for (int32_t i = 0; i < config->n_layers; i++) {
        spec->layers[i].mixer = config->is_conv[i] != 0 ? TDM_MIXER_CONV : TDM_MIXER_ATTENTION;
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_LFM2 = {"lfm2", NULL, "lfm2", describe};
