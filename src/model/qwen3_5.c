/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3.5's text, dense: qwen3_next's layers with a projection for each of q k v, z, b and a. GGUF
 * has put the value heads of one key head apart (tiled). The three streams of positions that
 * pictures would need are equal in text, where plain rope over a part of each head is exact.
 * Source: transformers 5.17, models/qwen3_5; shared/spec/models.md 3.9; shared/spec/gguf.md 2, 3. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_qwen_linear_spec_init(config, spec, err));
    spec->delta.is_tiled = config->container == TDM_CONTAINER_GGUF;
    return TDM_OK;
}

const tdm_family TDM_FAMILY_QWEN3_5 = {"qwen3_5", "qwen3_5_text", "qwen35", describe};
