/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetching a model's tensors by role, and the audit: every tensor that a model needs is there with
 * the right shape, and every tensor of the file was asked for (spec/models.md 1.4). Floor 5. */
#ifndef TDM_MODEL_BLOCKS_LOADER_H
#define TDM_MODEL_BLOCKS_LOADER_H

#include "base/alloc.h"
#include "contract/backend.h"
#include "formats/checkpoint.h"
#include "formats/quant_config.h"
#include "model/blocks/tally.h"
#include "model/family.h"

typedef enum tdm_role {
    TDM_ROLE_EMBED,
    TDM_ROLE_FINAL_NORM,
    TDM_ROLE_HEAD,
    TDM_ROLE_ATTENTION_NORM,
    TDM_ROLE_Q,
    TDM_ROLE_K,
    TDM_ROLE_V,
    TDM_ROLE_O,
    TDM_ROLE_Q_NORM,
    TDM_ROLE_K_NORM,
    TDM_ROLE_MLP_NORM,
    TDM_ROLE_GATE,
    TDM_ROLE_UP,
    TDM_ROLE_DOWN,
    TDM_ROLE_ROPE_FACTORS,
    TDM_ROLE_ATTENTION_POST_NORM, /* sandwiches: gemma 2, gemma 3 */
    TDM_ROLE_MLP_PRE_NORM,
    TDM_ROLE_MLP_POST_NORM,
    TDM_ROLE_ROUTER,
    TDM_ROLE_SPARSE_ROUTER, /* mixtral's name of it */
    TDM_ROLE_GPT_OSS_ROUTER,
    TDM_ROLE_SHARED_GATE, /* of the expert that every token takes */
    TDM_ROLE_SHARED_UP,
    TDM_ROLE_SHARED_DOWN,
    TDM_ROLE_SHARED_MIX, /* the gate of its whole result */
    TDM_ROLE_GEMMA4_ROUTER,
    TDM_ROLE_BESIDE_MLP_POST_NORM, /* of a mixture beside an MLP */
    TDM_ROLE_BESIDE_PRE_NORM,
    TDM_ROLE_BESIDE_POST_NORM,
    TDM_ROLE_PLE_TABLE, /* per-layer embeddings: of a model */
    TDM_ROLE_PLE_CONTEXT,
    TDM_ROLE_PLE_CONTEXT_NORM,
    TDM_ROLE_PLE_GATE, /* of a layer */
    TDM_ROLE_PLE_PROJECT,
    TDM_ROLE_PLE_NORM,
    TDM_ROLE_CONV_IN, /* of a short convolution */
    TDM_ROLE_CONV_OUT,
    TDM_ROLE_LATENT_Q_A, /* latent attention */
    TDM_ROLE_LATENT_Q_NORM,
    TDM_ROLE_LATENT_Q_B,
    TDM_ROLE_LATENT_KV_A,
    TDM_ROLE_LATENT_KV_NORM,
    TDM_ROLE_LATENT_KV_B, /* keys and values of each head in turn, or the next two */
    TDM_ROLE_LATENT_K_B,
    TDM_ROLE_LATENT_V_B,
    TDM_ROLE_INDEX_Q, /* its indexer */
    TDM_ROLE_INDEX_K,
    TDM_ROLE_INDEX_K_NORM,
    TDM_ROLE_INDEX_WEIGHTS,
    /* Other spellings of roles above; blocks/names.h. */
    TDM_ROLE_DEEPSEEK_SHARED_GATE,
    TDM_ROLE_DEEPSEEK_SHARED_UP,
    TDM_ROLE_DEEPSEEK_SHARED_DOWN,
    TDM_ROLE_GLM4_ATTENTION_POST_NORM,
    TDM_ROLE_GLM4_MLP_POST_NORM,
    TDM_ROLE_STARCODER2_UP,
    TDM_ROLE_STARCODER2_DOWN,
    TDM_ROLE_LFM2_FINAL_NORM,
    TDM_ROLE_LFM2_OPERATOR_NORM,
    TDM_ROLE_LFM2_FFN_NORM,
    TDM_ROLE_LFM2_Q_NORM,
    TDM_ROLE_LFM2_K_NORM,
    TDM_ROLE_LFM2_O,
    TDM_ROLE_LFM2_GATE,
    TDM_ROLE_LFM2_UP,
    TDM_ROLE_LFM2_DOWN,
    TDM_ROLE_COUNT
} tdm_role;

typedef struct tdm_linear {
    tdm_weight weight;
    const float *bias; /* NULL: none */
} tdm_linear;

typedef struct tdm_loader {
    const tdm_checkpoint *checkpoint;
    tdm_backend *backend;
    tdm_arena *arena;  /* owns converted vectors */
    uint8_t *consumed; /* [n tensors] */
    size_t n_tensors;
    const char *prefix;   /* of Hugging Face names: "model." or "" */
    const char *root;     /* of those that prefix does not stand before: "" or "language_model." */
    bool has_whole_norms; /* stored as they multiply, whatever the family's habit: MLX adds the 1 */
    tdm_tally own;        /* what tally points to, unless a plan counts */
    tdm_tally *tally;
    bool
        is_plan; /* no byte of a tensor may be read: vectors are zeros, the backend packs nothing */
    tdm_quant_config quant; /* what config.json says about quantized weights */
    void *block;            /* owned: the last weight that had to be stored in another layout */
    size_t block_bytes;
    const int32_t *columns; /* the last order of columns, [n_columns], in the arena */
    int64_t n_columns;
} tdm_loader;

TDM_NODISCARD tdm_status tdm_loader_init(tdm_loader *loader, const tdm_checkpoint *checkpoint,
                                         tdm_backend *backend, tdm_arena *arena, tdm_error *err);
/* Gives back what the loader itself owns; what it loaded stays. NULL-safe for a loader of zeros. */
void tdm_loader_release(tdm_loader *loader);
/* The weight [n_out, n_in] of role in layer (layer is ignored for roles outside layers), and its
 * bias by rule. Errors: TDM_E_FORMAT (missing), TDM_E_SHAPE, TDM_E_UNSUPPORTED (storage type),
 * TDM_E_NOMEM. The weight is the caller's to deinit through the backend; the bias lives in the
 * arena or in the checkpoint. */
TDM_NODISCARD tdm_status tdm_loader_linear(tdm_loader *loader, tdm_role role, int32_t layer,
                                           int64_t n_out, int64_t n_in, tdm_bias_rule bias,
                                           tdm_linear *out, tdm_error *err);
/* A vector of n values as f32. */
TDM_NODISCARD tdm_status tdm_loader_vector(tdm_loader *loader, tdm_role role, int32_t layer,
                                           int64_t n, const float **out, tdm_error *err);
/* The bias of role's tensor by rule; NULL: none. */
TDM_NODISCARD tdm_status tdm_loader_bias(tdm_loader *loader, tdm_role role, int32_t layer,
                                         int64_t n, tdm_bias_rule rule, const float **out,
                                         tdm_error *err);
/* What is fetched from now on is counted as section's; returns what it was before. */
static inline tdm_section tdm_loader_enter(tdm_loader *loader, tdm_section section) {
    tdm_section outer = loader->tally->section;
    loader->tally->section = section;
    return outer;
}
/* Whether the checkpoint holds the tensor of role. */
bool tdm_loader_has(const tdm_loader *loader, tdm_role role, int32_t layer);
/* Marks a tensor as known but unused, when it is there (a tied head). */
void tdm_loader_drop(tdm_loader *loader, tdm_role role, int32_t layer);
/* TDM_E_FORMAT naming the first tensor that nobody asked for. */
TDM_NODISCARD tdm_status tdm_loader_finish(const tdm_loader *loader, tdm_error *err);

#endif
