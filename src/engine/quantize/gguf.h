/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of the plan of a GGUF file. Floor 7, private to engine/quantize. */
#ifndef TDM_ENGINE_QUANTIZE_GGUF_H
#define TDM_ENGINE_QUANTIZE_GGUF_H

#include "engine/quantize/plan.h"
#include "formats/gguf_write.h"

/* What the choice of types looks at. */
typedef struct tdm_gguf_mix {
    int32_t n_layers;
    int32_t n_experts;
    bool is_tied; /* the table of embeddings is the head too */
} tdm_gguf_mix;

/* The type of a matrix by its name in the file; TDM_E_ARG when a recipe names one that its width does
 * not allow. n_rows: 1 for a vector. current: what it is now, for tensors that are never quantized. */
TDM_NODISCARD tdm_status tdm_gguf_choose(tdm_recipe *recipe, const tdm_gguf_mix *mix,
                                         const char *name, int64_t n_rows, int64_t n_in,
                                         tdm_dtype current, tdm_dtype *out, tdm_error *err);
/* Completes an item whose parts, rows, name and out[0].name, rank and dims are known: its kind and
 * out[0]'s type and bytes. */
TDM_NODISCARD tdm_status tdm_gguf_finish_item(tdm_item *item, tdm_dtype dtype, tdm_error *err);
/* general.file_type of the base type. */
uint32_t tdm_gguf_file_type(const tdm_recipe *recipe);

/* hf.c: a safetensors source: items and keys. */
TDM_NODISCARD tdm_status tdm_gguf_from_hf(tdm_quantize_job *job, tdm_gguf_writer *writer,
                                          tdm_error *err);
/* hf_tokenizer.c: tokenizer.* keys. */
TDM_NODISCARD tdm_status tdm_gguf_put_tokenizer(tdm_quantize_job *job, tdm_gguf_writer *writer,
                                                const tdm_model_config *config, tdm_error *err);

#endif
