/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 3, text: gemma 2's layer with norms on each head of q and k and without its softcaps. All
 * layers but each sixth see a window and rotate by a base of their own, which no scaling touches.
 * Source: shared/spec/models.md 3.8; transformers, models/gemma3/modeling_gemma3.py. In checkpoints
 * that see pictures the text lies under text_config; only the text runs here. A GGUF file names no
 * scale (spec/gguf.md section 3). */
#include "model/family.h"

#include <math.h>

#define PERIOD 6
#define GGUF_LAYERS_27B 62 /* scales by (hidden / heads)^-1/2 */
#define GLOBAL 0           /* of the spec's ropes */
#define LOCAL 1

static bool slides(const tdm_model_config *config, int32_t layer) {
    int32_t period = config->sliding_period > 0 ? config->sliding_period : PERIOD;
    if (config->n_layer_types > 0) {
        return config->is_sliding[layer] != 0;
    }
    return (layer + 1) % period != 0;
}

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_gemma_spec_init(config, spec, err));
    spec->block = TDM_BLOCK_SANDWICH;
    spec->qk_norm = TDM_QK_NORM_HEAD;
    spec->attention_softcap = (float)config->attention_softcap;
    spec->final_softcap = (float)config->final_softcap;
    if (config->query_scalar > 0.0) {
        spec->attention_scale = (float)(1.0 / sqrt(config->query_scalar));
    } else if (config->n_layers == GGUF_LAYERS_27B) {
        spec->attention_scale =
            (float)(1.0 / sqrt((double)config->hidden / (double)config->n_heads));
    }
    spec->n_ropes = 2;
    spec->ropes[LOCAL] = config->rope_local;
    for (int32_t i = 0; i < config->n_layers; i++) {
        bool is_sliding = slides(config, i) && config->sliding_window > 0;
        spec->layers[i].window = is_sliding ? config->sliding_window : 0;
        spec->layers[i].rope_idx = is_sliding ? LOCAL : GLOBAL;
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_GEMMA3 = {"gemma3_text", "gemma3", "gemma3", describe};
