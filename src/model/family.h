/* SPDX-License-Identifier: Apache-2.0
 *
 * What a family file says about its models: data for the blocks, not code around them. Floor 5. */
#ifndef TDM_MODEL_FAMILY_H
#define TDM_MODEL_FAMILY_H

#include "contract/backend.h"
#include "formats/config.h"

typedef struct tdm_layer_spec {
    bool has_rope;
    int32_t window; /* 0: full */
} tdm_layer_spec;

/* How many biases a linear has: by config, by habit of the family, or by what the file holds (GGUF
 * says nothing). */
typedef enum tdm_bias_rule { TDM_BIAS_NONE, TDM_BIAS_REQUIRED, TDM_BIAS_IF_PRESENT } tdm_bias_rule;

/* One pre-norm decoder: x += o(attention(n1 x)); x += down(silu(gate(n2 x)) * up(n2 x)). */
typedef struct tdm_decoder_spec {
    float attention_scale;
    tdm_bias_rule qkv_bias;
    tdm_bias_rule o_bias;
    tdm_bias_rule mlp_bias;
    bool has_qk_norm; /* RMS over head_dim on q and k, before rope */
    tdm_rope_pairing pairing;
    tdm_layer_spec layers[TDM_CONFIG_LAYERS_MAX];
} tdm_decoder_spec;

typedef struct tdm_family {
    const char *model_type; /* config.json */
    const char *gguf_arch;  /* general.architecture; NULL: the family has none of its own */
    /* Fills spec, or refuses what the config asks for and the family cannot do (TDM_E_UNSUPPORTED).
     */
    tdm_status (*describe)(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err);
} tdm_family;

extern const tdm_family TDM_FAMILY_LLAMA;
extern const tdm_family TDM_FAMILY_MISTRAL;
extern const tdm_family TDM_FAMILY_QWEN2;
extern const tdm_family TDM_FAMILY_QWEN3;
extern const tdm_family TDM_FAMILY_SMOLLM3;

/* Common first words of a describe: scale head_dim^-1/2, every layer with rope, windows as
 * layer_types say (else none), rope pairs by container (GGUF's llama and smollm3 permute q and k
 * for neighbours: pass gguf_pairing). Refuses an activation other than silu. */
TDM_NODISCARD tdm_status tdm_decoder_spec_init(const tdm_model_config *config,
                                               tdm_rope_pairing gguf_pairing,
                                               tdm_decoder_spec *spec, tdm_error *err);

/* Finds config's family among the known ones and lets it fill spec. TDM_E_UNSUPPORTED names the
 * known families. */
TDM_NODISCARD tdm_status tdm_graph_describe(const tdm_model_config *config, tdm_decoder_spec *spec,
                                            tdm_error *err);

#endif
