/* SPDX-License-Identifier: Apache-2.0
 *
 * Between hf.c, hf_families.c and hf_meta.c: a GGUF file from safetensors. */
#ifndef TDM_ENGINE_QUANTIZE_HF_PRIV_H
#define TDM_ENGINE_QUANTIZE_HF_PRIV_H

#include "engine/quantize/experts.h"
#include "engine/quantize/gguf.h"

/* "HEAD." in safetensors and in GGUF; "weight" or "bias" follows. */
typedef struct tdm_hf_name {
    const char *hf;
    const char *gguf;
} tdm_hf_name;

/* Which layers slide, where the checkpoint has a window: what readers of the architecture know. */
typedef enum tdm_hf_window {
    TDM_HF_WINDOW_NONE,
    TDM_HF_WINDOW_ALL,
    TDM_HF_WINDOW_EVERY_SECOND, /* the first of two */
    TDM_HF_WINDOW_THREE_OF_FOUR,
    TDM_HF_WINDOW_STATED /* five of six, or a key says which */
} tdm_hf_window;

typedef struct tdm_hf_plan tdm_hf_plan;

typedef struct tdm_hf_family {
    const char *model_type;
    const char *arch;
    bool has_neighbours; /* q and k rows are interleaved */
    bool has_plus_one;   /* norms are stored with 1 added */
    bool has_layer_norm; /* norms with a mean: the key of their epsilon */
    bool may_turn_part;  /* heads may rotate in part */
    bool has_own_rope;   /* frequencies may be scaled; else only the plain ones */
    tdm_hf_window window;
    const tdm_hf_name *names; /* of layers, looked at before the common ones; ends with a NULL */
    tdm_expert_names experts;
    /* What else a file of this architecture cannot say, and keys of its own; NULL: nothing. */
    tdm_status (*check)(const tdm_hf_plan *plan, tdm_error *err);
    void (*put)(tdm_hf_plan *plan);
} tdm_hf_family;

struct tdm_hf_plan {
    tdm_quantize_job *job;
    tdm_gguf_writer *writer;
    const tdm_hf_family *family;
    tdm_model_config config;
    tdm_quant_config quant;
    tdm_gguf_mix mix;
};

/* hf_families.c: TDM_E_UNSUPPORTED with the families there are. */
TDM_NODISCARD tdm_status tdm_hf_find_family(tdm_hf_plan *plan, tdm_error *err);

/* hf.c: TDM_E_UNSUPPORTED: a file of this architecture cannot say `what`, which field asks for. */
TDM_NODISCARD tdm_status tdm_hf_refuse(const tdm_hf_plan *plan, const char *field, const char *what,
                                       tdm_error *err);

/* hf_meta.c: keys "ARCH.key". */
void tdm_hf_put_count(tdm_hf_plan *plan, const char *key, int64_t value);
void tdm_hf_put_real(tdm_hf_plan *plan, const char *key, double value);
void tdm_hf_put_text(tdm_hf_plan *plan, const char *key, const char *text);
/* general.*, sizes, attention, rope, and what the family adds. */
void tdm_hf_put_metadata(tdm_hf_plan *plan);

#endif
