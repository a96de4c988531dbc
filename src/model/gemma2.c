/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 2: gemma with norms on both sides of each block, softcaps on scores and logits, a scale of
 * its own, and a window in every second layer, the first included. Source: shared/spec/models.md
 * 3.7; transformers, models/gemma2/modeling_gemma2.py. A GGUF file names neither scale nor layers,
 * and may leave window and softcaps to the defaults (spec/gguf.md section 3). */
#include "model/family.h"

#include <math.h>

#define GGUF_WINDOW 4096
#define GGUF_ATTENTION_SOFTCAP 50.0F
#define GGUF_FINAL_SOFTCAP 30.0F
#define GGUF_LAYERS_27B 46 /* scales by (hidden / heads)^-1/2 */

static void fill_gguf(const tdm_model_config *config, tdm_decoder_spec *spec) {
    if (config->n_layers == GGUF_LAYERS_27B) {
        spec->attention_scale =
            (float)(1.0 / sqrt((double)config->hidden / (double)config->n_heads));
    }
    if (config->attention_softcap == 0.0) {
        spec->attention_softcap = GGUF_ATTENTION_SOFTCAP;
    }
    if (config->final_softcap == 0.0) {
        spec->final_softcap = GGUF_FINAL_SOFTCAP;
    }
}

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    int32_t window = is_gguf && config->sliding_window == 0 ? GGUF_WINDOW : config->sliding_window;
    TDM_TRY(tdm_gemma_spec_init(config, spec, err));
    spec->block = TDM_BLOCK_SANDWICH;
    spec->attention_softcap = (float)config->attention_softcap;
    spec->final_softcap = (float)config->final_softcap;
    if (config->query_scalar > 0.0) {
        spec->attention_scale = (float)(1.0 / sqrt(config->query_scalar));
    }
    for (int32_t i = 0; config->n_layer_types == 0 && i < config->n_layers; i += 2) {
        spec->layers[i].window = window;
    }
    if (is_gguf) {
        fill_gguf(config, spec);
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_GEMMA2 = {"gemma2", NULL, "gemma2", describe};
