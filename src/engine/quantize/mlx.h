/* SPDX-License-Identifier: Apache-2.0
 *
 * The small files of an MLX folder: config.json with what was quantized, the index, and what is
 * copied. Floor 7, private to engine/quantize. */
#ifndef TDM_ENGINE_QUANTIZE_MLX_H
#define TDM_ENGINE_QUANTIZE_MLX_H

#include "engine/quantize/plan.h"

/* Members of the "quantization" object besides the default, as text. */
typedef struct tdm_mlx_config {
    tdm_buf members;
    tdm_json_writer writer;
} tdm_mlx_config;

void tdm_mlx_config_init(tdm_mlx_config *config, const tdm_alloc *alloc);
void tdm_mlx_config_deinit(tdm_mlx_config *config);
/* module became quant, NULL: stayed. Says so where it differs from base. */
TDM_NODISCARD tdm_status tdm_mlx_config_note(tdm_mlx_config *config, const char *module,
                                             const tdm_quant *quant, const tdm_quant *base,
                                             tdm_error *err);
/* config.json, model.safetensors.index.json and copies of tokenizer and template files into
 * job->small; the items' files must be known. */
TDM_NODISCARD tdm_status tdm_mlx_write_small(tdm_quantize_job *job, const tdm_mlx_config *config,
                                             tdm_error *err);

#endif
