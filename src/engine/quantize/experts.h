/* SPDX-License-Identifier: Apache-2.0
 *
 * Experts that a safetensors checkpoint holds one by one, and the stack that outputs hold instead.
 * Floor 7, private to engine/quantize. */
#ifndef TDM_ENGINE_QUANTIZE_EXPERTS_H
#define TDM_ENGINE_QUANTIZE_EXPERTS_H

#include "engine/quantize/plan.h"

typedef struct tdm_expert_names {
    const char *before;  /* ".E.NAME.weight", after "layers.N."; NULL: the family has none */
    const char *name[3]; /* gate, up and down */
} tdm_expert_names;

#define TDM_EXPERTS_QWEN                                                                           \
    {                                                                                              \
        "mlp.experts", {                                                                           \
            "gate_proj", "up_proj", "down_proj"                                                    \
        }                                                                                          \
    }
#define TDM_EXPERTS_MIXTRAL                                                                        \
    {                                                                                              \
        "block_sparse_moe.experts", {                                                              \
            "w1", "w3", "w2"                                                                       \
        }                                                                                          \
    }

typedef struct tdm_expert_at {
    size_t stem; /* bytes of the tensor's name in front of names->before */
    long expert;
    int which; /* index into names->name */
} tdm_expert_at;

/* False: the tensor is no expert's matrix. */
bool tdm_experts_parse(const tdm_expert_names *names, const char *name, tdm_expert_at *out);
/* An item whose parts are all experts of one matrix of one layer, E from 0 without a gap, of one shape;
 * out[] and kind are the caller's to fill. first: the tensor of expert 0, at what was parsed of it.
 * Valid until the next item. */
TDM_NODISCARD tdm_status tdm_experts_stack(tdm_quantize_job *job, const tdm_quant_config *quant,
                                           const tdm_expert_names *names, const char *first,
                                           const tdm_expert_at *at, tdm_item **out, tdm_error *err);
/* TDM_E_FORMAT where the expert before is missing: it and the rest would be lost without a word. */
TDM_NODISCARD tdm_status tdm_experts_check(const tdm_quantize_job *job,
                                           const tdm_expert_names *names, const char *name,
                                           const tdm_expert_at *at, tdm_error *err);

#endif
