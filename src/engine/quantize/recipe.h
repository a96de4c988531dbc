/* SPDX-License-Identifier: Apache-2.0
 *
 * Who becomes what: defaults, the mixed recipes by name, and lists of patterns from a file. Floor 7,
 * private to engine/quantize.
 *
 *   {"bits": 4, "group_size": 64, "mode": "affine",      the default; any may be missing
 *    "lm_head": {"bits": 6},                             a module of the MLX layout
 *    "model.layers.*.mlp.down_proj": {"bits": 5, "group_size": 32},
 *    "model.layers.0.*": false}                          not quantized
 *
 * For GGUF values are types, and names are those of the file's tensors without ".weight":
 *
 *   {"type": "Q4_K", "blk.*.ffn_down": "Q6_K", "output": false}
 *
 * "*" stands for any bytes, dots too, "?" for one. The first entry that matches decides; an entry
 * that matches nothing is an error. Limits: 1 MiB of text, 4,096 entries. */
#ifndef TDM_ENGINE_QUANTIZE_RECIPE_H
#define TDM_ENGINE_QUANTIZE_RECIPE_H

#include "base/json.h"
#include "engine/quantize.h"
#include "formats/quant_config.h"

typedef struct tdm_recipe {
    const tdm_alloc *alloc;
    bool is_gguf;
    tdm_quant base;       /* MLX */
    tdm_dtype base_dtype; /* GGUF */
    bool is_k_m;          /* GGUF: some tensors get more, as Q4_K_M and Q5_K_M have it */
    const char *gguf_name;
    int32_t low_bits, high_bits; /* of a mixed recipe; 0: none */
    tdm_json_doc *doc;           /* NULL: no list */
    const char *file;
    uint8_t *is_used; /* [entries of doc] */
    size_t n_used;
} tdm_recipe;

/* What a recipe says of one module. */
typedef enum tdm_recipe_answer {
    TDM_RECIPE_DEFAULT,
    TDM_RECIPE_OFF,
    TDM_RECIPE_OWN
} tdm_recipe_answer;

/* Reads and checks the options. Owns: deinit, also after failure. */
TDM_NODISCARD tdm_status tdm_recipe_init(tdm_recipe *recipe, const tdm_alloc *alloc,
                                         const tdm_quantize_options *options, tdm_error *err);
void tdm_recipe_deinit(tdm_recipe *recipe);
/* For module of the model's layers. *quant is filled for OWN and DEFAULT. */
tdm_recipe_answer tdm_recipe_ask_mlx(tdm_recipe *recipe, const char *module, int32_t n_layers,
                                     tdm_quant *out);
/* What the list says of a GGUF tensor. */
tdm_recipe_answer tdm_recipe_ask_gguf(tdm_recipe *recipe, const char *name, tdm_dtype *out);
/* TDM_E_ARG that names an entry which matched nothing. */
TDM_NODISCARD tdm_status tdm_recipe_check_used(const tdm_recipe *recipe, tdm_error *err);
/* The type of that name among those that can be written; false when there is none. */
bool tdm_recipe_type_find(const char *name, tdm_dtype *out);

#endif
