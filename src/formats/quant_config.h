/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says about quantized weights: `quantization` or `quantization_config`, a default
 * and exceptions by module (spec/quantized-formats.md section 1), and its comparison with the
 * shapes of the tensors. Floor 3. Borrows the JSON tree. */
#ifndef TDM_FORMATS_QUANT_CONFIG_H
#define TDM_FORMATS_QUANT_CONFIG_H

#include "base/json.h"
#include "contract/backend.h"

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

typedef struct tdm_quant_config {
    const tdm_json *object; /* NULL: the config has none */
    const char *key;        /* which of the two names object has */
    bool has_default;
    tdm_quant default_quant;
    const char *method; /* quant_method of other tool chains ("fp8", "awq" ...); NULL: none */
} tdm_quant_config;

/* config NULL: nothing quantized. Checks the default and every entry. Errors: TDM_E_FORMAT (kinds;
 * the two objects differ), TDM_E_UNSUPPORTED (mode, bits, group, or a method that needs a reader
 * of its own). where names the JSON path in file. */
TDM_NODISCARD tdm_status tdm_quant_config_read(tdm_quant_config *out, const tdm_json *config,
                                               const char *file, tdm_error *err);
/* What is said about module ("model.layers.0.mlp.up_proj"). */
tdm_quant_answer tdm_quant_config_ask(const tdm_quant_config *config, const char *module,
                                      tdm_quant *out);

/* The quantization that shapes give: codes [.., words], scales [.., groups] of scales_dtype for rows
 * of n_in. Errors: TDM_E_SHAPE when no bits and group fit. */
TDM_NODISCARD tdm_status tdm_quant_from_shapes(tdm_quant *out, int64_t n_in, int64_t words,
                                               int64_t groups, tdm_dtype scales_dtype,
                                               tdm_error *err);
/* TDM_E_FORMAT naming both values when said (where it is stated) and found differ. */
TDM_NODISCARD tdm_status tdm_quant_agree(const tdm_quant *said, const tdm_quant *found,
                                         tdm_error *err);

#endif
