/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotation frequencies. Floor 5. */
#ifndef TDM_MODEL_BLOCKS_ROPE_H
#define TDM_MODEL_BLOCKS_ROPE_H

#include "formats/config.h"

/* Fills inv_freq [dim / 2] for rotation over dim values and the magnitude that multiplies cos and
 * sin. factors [dim / 2] divide the frequencies (GGUF's rope_freqs), or NULL. Source: transformers,
 * modeling_rope_utils.py (default, linear, llama3, yarn,
 * proportional); Peng et al. 2023 (yarn). */
void tdm_rope_frequencies(const tdm_rope_config *config, int32_t dim, const float *factors,
                          float *inv_freq, float *out_magnitude);

#endif
