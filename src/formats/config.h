/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model's configuration says, read from config.json or from GGUF metadata into one record,
 * every field checked against a range table. Floor 3. No family knowledge lives here beyond key
 * names: a family file in src/model asks for the fields that it needs and refuses what it cannot
 * honour. */
#ifndef TDM_FORMATS_CONFIG_H
#define TDM_FORMATS_CONFIG_H

#include "formats/checkpoint.h"

#define TDM_CONFIG_LAYERS_MAX 1024
#define TDM_CONFIG_EOS_MAX 16

typedef enum tdm_rope_kind {
    TDM_ROPE_DEFAULT,
    TDM_ROPE_LINEAR,
    TDM_ROPE_LLAMA3,
    TDM_ROPE_YARN,
    TDM_ROPE_PROPORTIONAL,
    TDM_ROPE_FREQ_FACTORS /* GGUF: divide each frequency by rope_freqs.weight */
} tdm_rope_kind;

typedef struct tdm_rope_config {
    tdm_rope_kind kind;
    double theta;
    double factor;               /* 1 for default */
    double low_freq_factor;      /* llama3 */
    double high_freq_factor;     /* llama3 */
    int64_t original_context;    /* llama3, yarn */
    double beta_fast, beta_slow; /* yarn: 32, 1 */
    double attention_factor; /* yarn: magnitude on cos and sin; 0: to be computed from mscale and
                                mscale_all_dim */
    double mscale, mscale_all_dim; /* yarn; 0: absent */
    bool is_truncated;             /* yarn: correction range rounded outward (default true) */
    double fraction; /* proportional: how much of a head turns, by the frequencies of all of it; the
                        rest has frequency 0 */
} tdm_rope_config;

typedef struct tdm_experts_config {
    int32_t n;                   /* 0: none */
    int32_t n_used;              /* for each token */
    int32_t intermediate;        /* 0: absent */
    int32_t shared_intermediate; /* 0: no shared expert */
    int32_t sparse_step;         /* layers whose number from 1 it divides have experts; 0: absent */
    bool is_renormalized;        /* norm_topk_prob */
    uint8_t is_dense[TDM_CONFIG_LAYERS_MAX]; /* mlp_only_layers, or the leading ones */
    /* Of the families with latent attention; 0 elsewhere. */
    int32_t n_groups, n_groups_used; /* experts are chosen from the best groups; 1: one group */
    int32_t n_shared;                /* experts that every token takes, as one MLP */
    int32_t n_leading_dense;
    double routed_scale; /* multiplies the weights of the chosen */
} tdm_experts_config;

/* Latent attention (MLA) and its indexer (DSA). Heads have head_dim = nope_dim + rope_dim values in
 * queries and keys, value_dim in values. */
typedef struct tdm_latent_config {
    int32_t q_rank;                             /* 0: queries come straight from the hidden state */
    int32_t kv_rank;                            /* 0: no latent attention */
    int32_t nope_dim, rope_dim;                 /* of a head, in this order */
    bool is_rope_halved;                        /* rope pairs halves and not neighbours */
    int32_t index_heads, index_dim, index_topk; /* 0: no indexer */
    uint8_t is_index_shared[TDM_CONFIG_LAYERS_MAX]; /* takes the choice of the last layer that made
                                                       one */
} tdm_latent_config;

/* Layers of the gated delta rule. Value heads are a multiple of key heads. */
typedef struct tdm_linear_config {
    int32_t n_key_heads, n_value_heads; /* 0: the family has no such layers */
    int32_t key_dim, value_dim;         /* of a head */
    int32_t n_taps;                     /* of the convolution before it, this position included */
    uint8_t is_linear[TDM_CONFIG_LAYERS_MAX];
} tdm_linear_config;

typedef struct tdm_model_config {
    const char *family; /* "llama", ...: config.json's model_type or GGUF's general.architecture;
                           borrowed */
    const char *text_family; /* model_type of text_config; family where there is none; borrowed */
    tdm_container container;
    int32_t hidden, n_layers, n_heads, n_kv_heads, head_dim, n_vocab;
    int32_t intermediate;      /* 0: absent, where experts have a size of their own */
    int32_t value_dim;         /* of a value head; head_dim unless the file says otherwise */
    int32_t rotary_dim;        /* leading dims of a head that rotate; head_dim unless partial */
    int32_t global_head_dim;   /* of layers that do not slide, keys and values; 0: head_dim_of */
    int32_t global_rotary_dim; /* of those; 0 where global_head_dim is */
    int32_t n_global_kv_heads; /* of layers that do not slide, where is_k_eq_v; 0: kv_heads_of */
    /* By layer: the numbers above unless the file has its own; 0 of the last two: none. */
    int32_t head_dim_of[TDM_CONFIG_LAYERS_MAX];
    int32_t kv_heads_of[TDM_CONFIG_LAYERS_MAX];
    int32_t intermediate_of[TDM_CONFIG_LAYERS_MAX];
    bool is_k_eq_v; /* attention_k_eq_v: layers that do not slide have keys for values; GGUF: no
                            attn_v in the first such layer */
    int32_t n_kv_shared; /* so many last layers read keys and values of an earlier one */
    bool is_double_wide; /* use_double_wide_mlp: MLPs of those layers are twice as wide */
    int32_t ple_dim;     /* of a layer's own embedding of each token; 0: none */
    int32_t n_ple_vocab; /* tokens that have one; 0: absent */
    int64_t context_max;
    double norm_eps;          /* 0: the file has none under any of the usual names */
    bool has_attention_bias;  /* attention_bias */
    bool has_qkv_bias;        /* qkv_bias, true where absent (qwen2_moe) */
    bool has_bias;            /* use_bias, true where absent (starcoder2) */
    bool has_mlp_bias;        /* mlp_bias */
    bool is_tied;             /* tie_word_embeddings; for GGUF: no output.weight */
    double swiglu_limit;      /* bound of an MLP's gate; 0: absent */
    const char *hidden_act;   /* "silu"; borrowed; NULL in GGUF, or where the class has its own */
    double query_scalar;      /* scores are divided by its root; 0: absent */
    double attention_softcap; /* 0: none */
    double final_softcap;     /* of logits; 0: none */
    double embedding_multiplier, attention_multiplier, residual_multiplier; /* 0: absent */
    double logits_scaling;  /* divides logits; 0: absent */
    double logit_scale;     /* multiplies logits; 0: absent */
    double scale_depth;     /* minicpm: of residual additions, before its root of the layers */
    double dim_model_base;  /* minicpm: logits are divided by hidden over it */
    bool has_sparse_config; /* minicpm 4: sparse_config */
    double clip_qkv;        /* 0: none */
    bool has_qk_norm_flag;  /* use_qk_norm */
    bool is_bidirectional;  /* use_bidirectional_attention */
    tdm_experts_config experts;
    tdm_latent_config latent;
    tdm_linear_config linear;
    bool has_output_gate; /* queries bring a gate for what attention read */
    int32_t n_mtp_layers; /* in the file behind n_layers: they predict further tokens */
    tdm_rope_config rope;
    bool has_local_rope;        /* sliding layers rotate by rope_local */
    tdm_rope_config rope_local; /* else equal to rope */
    int32_t sliding_window;     /* 0: none (null, absent, or use_sliding_window false). With
                                    n_layer_types 0 the family decides which layers slide */
    int32_t sliding_period;     /* each such layer is full; 0: absent */
    int32_t n_layer_types;      /* 0: absent; else n_layers */
    uint8_t is_sliding[TDM_CONFIG_LAYERS_MAX]; /* from layer_types; or derived from
                                                  max_window_layers, or GGUF's pattern */
    uint8_t
        is_conv[TDM_CONFIG_LAYERS_MAX]; /* layers of a short convolution: layer_types "conv", all
                                               but full_attn_idxs, or no key heads in GGUF */
    int32_t conv_taps;                  /* conv_L_cache; 0: absent */
    bool has_conv_bias;
    bool is_ff_adjusted; /* block_auto_adjust_ff_dim, true where absent (lfm2) */
    int32_t ff_multiple_of;
    double ff_multiplier;
    bool has_other_layer_types; /* layer_types names others than attention and "conv" */
    int32_t n_no_rope;          /* 0: absent; else n_layers */
    uint8_t has_rope[TDM_CONFIG_LAYERS_MAX]; /* smollm3 no_rope_layers: 1 = rope; filled from the
                                                interval too (GGUF: always each 4th) */
    int32_t n_eos;
    int32_t eos_ids[TDM_CONFIG_EOS_MAX]; /* config.json's, then generation_config.json's wins where
                                            present */
    int32_t bos_id;                      /* -1: none */
} tdm_model_config;

/* Sampling defaults of generation_config.json; NaN / -1 mean "not said". */
typedef struct tdm_generation_config {
    double temperature, top_p, min_p, repetition_penalty;
    int32_t top_k;
    bool has_do_sample, is_sampled;
} tdm_generation_config;

/* Errors: TDM_E_FORMAT (missing or out-of-range field, JSON path or GGUF key in where, the range in
 * limit), TDM_E_UNSUPPORTED (a rope kind we do not know). */
TDM_NODISCARD tdm_status tdm_model_config_read(tdm_model_config *out,
                                               const tdm_checkpoint *checkpoint, tdm_error *err);
TDM_NODISCARD tdm_status tdm_generation_config_read(tdm_generation_config *out,
                                                    const tdm_checkpoint *checkpoint,
                                                    tdm_error *err);

#endif
