/* SPDX-License-Identifier: Apache-2.0
 *
 * What a family file says about its models: data for the blocks, not code around them. Floor 5. */
#ifndef TDM_MODEL_FAMILY_H
#define TDM_MODEL_FAMILY_H

#include "contract/backend.h"
#include "formats/config.h"

#define TDM_SPEC_ROPES_MAX 2

/* What mixes positions. */
typedef enum tdm_mixer {
    TDM_MIXER_ATTENTION,
    TDM_MIXER_CONV,
    TDM_MIXER_DELTA,
    TDM_MIXER_LATENT,
    TDM_MIXER_COUNT
} tdm_mixer;

/* Of one layer's attention. */
typedef struct tdm_heads_spec {
    int32_t n, n_kv;
    int32_t dim;       /* of a query's and a key's head */
    int32_t value_dim; /* of a value's */
} tdm_heads_spec;

typedef struct tdm_layer_spec {
    tdm_mixer mixer;
    tdm_heads_spec heads;
    bool is_k_eq_v; /* values are keys before their norm and rope: no V */
    bool has_donor; /* reads the keys and values of layer donor, which comes before, and has none */
    int32_t donor;
    bool has_rope;
    uint8_t rope_idx;     /* of the spec's ropes; read where has_rope */
    int32_t window;       /* 0: full */
    int32_t intermediate; /* of this layer's MLP; 0: the spec's */
    bool has_experts;     /* in place of the MLP */
    bool shares_choice;   /* sees the positions that the last indexer before chose */
} tdm_layer_spec;

/* How many biases a linear has: by config, by habit of the family, or by what the file holds (GGUF
 * says nothing). */
typedef enum tdm_bias_rule { TDM_BIAS_NONE, TDM_BIAS_REQUIRED, TDM_BIAS_IF_PRESENT } tdm_bias_rule;

/* Where the norms of a layer stand; f is attention, then the MLP. What the tensors are called
 * follows from it: blocks/norm.c has the table. */
typedef enum tdm_block_template {
    TDM_BLOCK_PRE,      /* x += f(norm x) */
    TDM_BLOCK_POST,     /* x += norm f(x) */
    TDM_BLOCK_SANDWICH, /* x += norm f(norm x) */
    TDM_BLOCK_PARALLEL, /* x += attention(norm x) + mlp(the same norm x) */
    TDM_BLOCK_COUNT
} tdm_block_template;

/* Families whose files spell some roles in their own way: blocks/names.c has the rows. */
typedef enum tdm_naming {
    TDM_NAMING_USUAL,
    TDM_NAMING_DEEPSEEK,
    TDM_NAMING_GLM4,
    TDM_NAMING_GPT_OSS,
    TDM_NAMING_LFM2,
    TDM_NAMING_QWEN_LINEAR,
    TDM_NAMING_STARCODER2
} tdm_naming;

typedef enum tdm_norm_kind {
    TDM_NORM_RMS,
    TDM_NORM_LAYER,         /* mean taken off too, and a bias */
    TDM_NORM_LAYER_NO_BIAS, /* the same without */
    TDM_NORM_LAYER_BARE     /* without weights too: no tensors */
} tdm_norm_kind;

typedef enum tdm_mlp_kind {
    TDM_MLP_GATED,       /* down(act(gate h) * up h) */
    TDM_MLP_GATED_FUSED, /* the same, gate's and up's rows in one tensor, gate first */
    TDM_MLP_PLAIN        /* down(act(up h)) */
} tdm_mlp_kind;

typedef enum tdm_qk_norm {
    TDM_QK_NORM_NONE,
    TDM_QK_NORM_HEAD, /* over head_dim of q and of k, before rope */
    TDM_QK_NORM_FULL  /* over all heads of q, and of k, before rope */
} tdm_qk_norm;

/* How safetensors name an expert's matrices and the router: blocks/experts_load.c has the table. */
typedef enum tdm_expert_names {
    TDM_EXPERTS_MLP,          /* mlp.experts.E.gate_proj, mlp.gate */
    TDM_EXPERTS_BLOCK_SPARSE, /* block_sparse_moe.experts.E.w1, block_sparse_moe.gate */
    TDM_EXPERTS_GPT_OSS,      /* mlp.experts.gate_up_proj, turned or in blocks; mlp.router */
    TDM_EXPERTS_GEMMA4,       /* experts.gate_up_proj, router.proj */
    TDM_EXPERTS_COUNT
} tdm_expert_names;

/* What a router makes of its logits. */
typedef enum tdm_router_kind {
    TDM_ROUTER_SOFTMAX, /* over all experts; where renormalized that is one over the chosen */
    TDM_ROUTER_SIGMOID  /* of each by itself */
} tdm_router_kind;

/* A mixture: each token takes the n_used experts with the largest scores, and sums their results by
 * weight. */
typedef struct tdm_experts_spec {
    int32_t n, n_used;
    int32_t intermediate;
    int32_t shared_intermediate; /* of the expert that every token takes; 0: none */
    bool is_shared_plain; /* its result is added as it is; else a gate of its own weighs it */
    int32_t n_groups, n_groups_used; /* the choice is from the best groups; 0, 1: one group */
    tdm_router_kind router;
    tdm_bias_rule router_bias;
    bool is_beside;       /* an MLP, with norms of their own; the router reads the residual */
    bool is_renormalized; /* the weights of the chosen are divided by their sum */
    bool has_correction;  /* a file has numbers that the choice adds to the scores */
    float routed_scale;   /* multiplies the weights at last; 1: none */
    tdm_bias_rule bias;   /* of the experts' three matrices */
    tdm_expert_names names;
} tdm_experts_spec;

/* Layers of the gated delta rule; heads as in formats/config.h. */
typedef struct tdm_delta_spec {
    int32_t n_key_heads, n_value_heads; /* 0: none */
    int32_t key_dim, value_dim;
    int32_t n_taps;
    bool is_qkvz_woven; /* q, k, v, z in one tensor, those of each key head side by side */
    bool is_ba_woven;   /* b and a likewise */
    bool is_tiled;      /* value head h reads key head h modulo their number; else runs share one */
} tdm_delta_spec;

/* Embeddings that each layer has for itself; dim 0: none. */
typedef struct tdm_ple_spec {
    int32_t dim;
    int32_t n_vocab;
} tdm_ple_spec;

/* Latent attention, of all layers that have it; heads are the layers'. */
typedef struct tdm_latent_spec {
    int32_t q_rank; /* 0: queries come straight from the hidden state */
    int32_t kv_rank;
    int32_t nope_dim, rope_dim; /* of a head, in this order */
    float norm_eps;             /* of the norms in the low ranks */
    tdm_bias_rule bias;         /* of the projections into low ranks and out of all heads */
    int32_t index_heads, index_dim, index_top_k; /* 0: no indexer */
} tdm_latent_spec;

/* One decoder. Layer: the template with f = o(attention(q, k, v)), then with f = down(act(gate h) *
 * up h). Fields that tdm_decoder_spec_init leaves at zero mean "none". */
typedef struct tdm_decoder_spec {
    float embed_scale;       /* multiplies embeddings; 1: none */
    float attention_scale;   /* multiplies q.k */
    float attention_softcap; /* of scaled scores, before the mask; 0: none */
    bool has_sinks;          /* one more score for each head, in the softmax's sum alone */
    float final_softcap;     /* of logits; 0: none */
    float residual_scale;    /* multiplies what a block adds; 1: none */
    float logit_divisor;     /* 1: none */
    float norm_offset;       /* added to each norm's weights when they are loaded */
    tdm_naming naming;
    tdm_norm_kind norm;
    tdm_block_template block;
    tdm_mlp_kind mlp;
    bool is_qkv_fused; /* rows of q, k, v in one tensor, in that order */
    bool is_by_layer;  /* the family has read what a config says of single layers */
    tdm_qk_norm qk_norm;
    bool has_output_gate; /* what attention read is multiplied by the sigmoid of a gate: the second
                             half of each head of q's product */
    bool has_mtp_tensors; /* "mtp." names blocks that predict further tokens: known, not run */
    bool has_value_norm;  /* over each head of v, without weights */
    bool has_layer_scale; /* a factor on the residual after each layer */
    tdm_ple_spec ple;
    tdm_activation activation;
    tdm_bias_rule qkv_bias;
    tdm_bias_rule o_bias;
    tdm_bias_rule mlp_bias;
    tdm_rope_pairing pairing;
    tdm_experts_spec experts; /* n 0: none */
    tdm_delta_spec delta;
    int32_t intermediate; /* of a dense MLP */
    int32_t conv_taps;    /* positions that a convolution sees, this one included */
    tdm_bias_rule conv_bias;
    tdm_latent_spec latent;
    int32_t n_mtp_layers; /* in the file behind the layers: known and not run */
    int32_t rotary_dim;   /* leading values of a head that rotate */
    int32_t n_ropes;
    tdm_rope_config ropes[TDM_SPEC_ROPES_MAX];
    int32_t rope_dims[TDM_SPEC_ROPES_MAX]; /* of each rope; 0: rotary_dim */
    tdm_layer_spec layers[TDM_CONFIG_LAYERS_MAX];
} tdm_decoder_spec;

typedef struct tdm_family {
    const char *model_type; /* of config.json */
    const char *alias;      /* another model_type that means the same, or NULL */
    const char *gguf_arch;  /* general.architecture; NULL: the family has none of its own */
    /* Fills spec, or refuses what the config asks for and the family cannot do (TDM_E_UNSUPPORTED).
     * What it leaves out of spec although the config has it is refused by the caller. */
    tdm_status (*describe)(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err);
} tdm_family;

extern const tdm_family TDM_FAMILY_COHERE;
extern const tdm_family TDM_FAMILY_COHERE2;
extern const tdm_family TDM_FAMILY_DEEPSEEK_V3;
extern const tdm_family TDM_FAMILY_GEMMA;
extern const tdm_family TDM_FAMILY_GEMMA2;
extern const tdm_family TDM_FAMILY_GEMMA3;
extern const tdm_family TDM_FAMILY_GEMMA4;
extern const tdm_family TDM_FAMILY_GEMMA4_UNIFIED;
extern const tdm_family TDM_FAMILY_GLM4;
extern const tdm_family TDM_FAMILY_GLM4_MOE_LITE;
extern const tdm_family TDM_FAMILY_GLM_MOE_DSA;
extern const tdm_family TDM_FAMILY_GPT_OSS;
extern const tdm_family TDM_FAMILY_GRANITE;
extern const tdm_family TDM_FAMILY_LFM2;
extern const tdm_family TDM_FAMILY_LLAMA;
extern const tdm_family TDM_FAMILY_MINICPM;
extern const tdm_family TDM_FAMILY_MINISTRAL;
extern const tdm_family TDM_FAMILY_MISTRAL;
extern const tdm_family TDM_FAMILY_MIXTRAL;
extern const tdm_family TDM_FAMILY_OLMO;
extern const tdm_family TDM_FAMILY_OLMO2;
extern const tdm_family TDM_FAMILY_OLMO3;
extern const tdm_family TDM_FAMILY_PHI3;
extern const tdm_family TDM_FAMILY_QWEN2;
extern const tdm_family TDM_FAMILY_QWEN2_MOE;
extern const tdm_family TDM_FAMILY_QWEN3;
extern const tdm_family TDM_FAMILY_QWEN3_5;
extern const tdm_family TDM_FAMILY_QWEN3_5_MOE;
extern const tdm_family TDM_FAMILY_QWEN3_MOE;
extern const tdm_family TDM_FAMILY_QWEN3_NEXT;
extern const tdm_family TDM_FAMILY_SMOLLM3;
extern const tdm_family TDM_FAMILY_STARCODER2;

/* Common first words of a describe: scale head_dim^-1/2, every layer with the one rope, windows as
 * layer_types say (else none), rope pairs by container (GGUF's llama and smollm3 permute q and k
 * for neighbours: pass gguf_pairing), the activation that the config names, else silu. */
TDM_NODISCARD tdm_status tdm_decoder_spec_init(const tdm_model_config *config,
                                               tdm_rope_pairing gguf_pairing,
                                               tdm_decoder_spec *spec, tdm_error *err);

/* The config's experts in every layer: n, n_used, widths. The family says the rest. */
TDM_NODISCARD tdm_status tdm_experts_spec_init(const tdm_model_config *config,
                                               tdm_decoder_spec *spec, tdm_error *err);

/* Which layers of a qwen with experts have them. */
void tdm_qwen_moe_layers(const tdm_model_config *config, tdm_decoder_spec *spec);

/* Of qwen3_next and qwen3_5: layers of the gated delta rule, gated attention over a part of each
 * head between them. */
TDM_NODISCARD tdm_status tdm_qwen_linear_spec_init(const tdm_model_config *config,
                                                   tdm_decoder_spec *spec, tdm_error *err);

/* Windows by layer_types where the config has them, else in all layers but each period-th (period 0:
 * in all), and none without a sliding_window. */
void tdm_window_layers(const tdm_model_config *config, int32_t period, tdm_decoder_spec *spec);

/* Of cohere and cohere2: all but windows. */
TDM_NODISCARD tdm_status tdm_cohere_spec_init(const tdm_model_config *config,
                                              tdm_decoder_spec *spec, tdm_error *err);

/* Of deepseek_v3, glm4_moe_lite and glm_moe_dsa: all of it but an indexer. */
TDM_NODISCARD tdm_status tdm_deepseek_spec_init(const tdm_model_config *config,
                                                tdm_decoder_spec *spec, tdm_error *err);

/* Of gemma 1 to 3: everything that the three have in common, GELU and the scaled embedding
 * included. */
TDM_NODISCARD tdm_status tdm_gemma_spec_init(const tdm_model_config *config, tdm_decoder_spec *spec,
                                             tdm_error *err);

/* Finds config's family among the known ones and lets it fill spec. TDM_E_UNSUPPORTED names near
 * families, or the field that the family does not honour. */
TDM_NODISCARD tdm_status tdm_graph_describe(const tdm_model_config *config, tdm_decoder_spec *spec,
                                            tdm_error *err);

#endif
