/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says about quantized weights: `quantization` or `quantization_config`, a default
 * and exceptions by module (spec/quantized-formats.md section 1), and its comparison with the
 * shapes of the tensors. Floor 3. Borrows the JSON tree.
 *
 * Other tool chains name themselves in quant_method. Their settings that change results are honoured
 * or refused by name. Rounding of activations while a model runs (fp8's activation_scheme, the
 * input_activations of compressed-tensors) is the running engine's arithmetic and here the tier's
 * choice; scales for it that are stored in the file are refused. */
#ifndef TDM_FORMATS_QUANT_CONFIG_H
#define TDM_FORMATS_QUANT_CONFIG_H

#include "base/json.h"
#include "contract/backend.h"

#include <stdbool.h>

/* A quantization as far as it is stated; 0: not stated. */
typedef struct tdm_quant {
    tdm_weight_mode mode; /* AFFINE where the text is silent: a missing mode is never inherited */
    int32_t bits;
    int32_t group;
} tdm_quant;

typedef enum tdm_quant_answer {
    TDM_QUANT_SILENT, /* neither a default nor an entry */
    TDM_QUANT_OFF,    /* the module's entry is false */
    TDM_QUANT_DEFAULT,
    TDM_QUANT_NAMED
} tdm_quant_answer;

/* Who stored the weights. */
typedef enum tdm_quant_method {
    TDM_QUANT_METHOD_MLX, /* quant_method absent, or nothing is quantized */
    TDM_QUANT_METHOD_FP8,
    TDM_QUANT_METHOD_MXFP4, /* gpt-oss */
    TDM_QUANT_METHOD_AWQ,
    TDM_QUANT_METHOD_GPTQ,
    TDM_QUANT_METHOD_COMPRESSED_TENSORS
} tdm_quant_method;

typedef struct tdm_quant_config {
    const tdm_json *object; /* NULL: the config has none */
    const char *key;        /* which of the two names object has */
    bool has_default;
    tdm_quant default_quant;
    tdm_quant_method method;
    /* Of other tool chains, as far as the text states one value for all modules; 0: it does not. A
     * group of -1 is a whole row. */
    int32_t bits;
    int32_t group;
    bool has_columns;   /* compressed-tensors: groups are of columns in another order */
    int32_t zero_add;   /* gptq: what stored zero points lack */
    int32_t block_rows; /* fp8: rows and columns of a block; 128 unless the text says else */
    int32_t block_columns;
} tdm_quant_config;

/* config NULL: nothing quantized. Checks the default and every entry. Errors: TDM_E_FORMAT (kinds;
 * the two objects differ), TDM_E_UNSUPPORTED (mode, bits, group, or a method that needs a reader
 * of its own). where names the JSON path in file. */
TDM_NODISCARD tdm_status tdm_quant_config_read(tdm_quant_config *out, const tdm_json *config,
                                               const char *file, tdm_error *err);
/* What is said about module ("model.layers.0.mlp.up_proj"). */
tdm_quant_answer tdm_quant_config_ask(const tdm_quant_config *config, const char *module,
                                      tdm_quant *out);

/* Whether the text lists module among those that were left as they are (modules_to_not_convert,
 * ignore): its whole name, or the beginning or end of it up to a dot. Patterns ("re:", "*") are not
 * read: which modules are quantized, their tensors say. */
bool tdm_quant_config_leaves_out(const tdm_quant_config *config, const char *module);

/* The quantization that shapes give: codes [.., words], scales [.., groups] of scales_dtype for rows
 * of n_in. Errors: TDM_E_SHAPE when no bits and group fit. */
TDM_NODISCARD tdm_status tdm_quant_from_shapes(tdm_quant *out, int64_t n_in, int64_t words,
                                               int64_t groups, tdm_dtype scales_dtype,
                                               tdm_error *err);
/* TDM_E_FORMAT naming both values when said (where it is stated) and found differ. */
TDM_NODISCARD tdm_status tdm_quant_agree(const tdm_quant *said, const tdm_quant *found,
                                         tdm_error *err);

#endif
