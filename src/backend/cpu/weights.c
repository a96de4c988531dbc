/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights at load: which memory of its own a weight gets, and filling it. A weight that needs none
 * is read where its file is mapped; what was lent for the time of weight_init is copied unless the
 * panels hold it anyway. */
#include "backend/cpu/cpu_priv.h"
#include "base/arith.h"
#include "tensor/half.h"

#include <string.h>

typedef enum packing {
    PACKING_NONE,
    PACKING_PANELS, /* by kernels.pack */
    PACKING_WIDEN,  /* mxfp8 as BF16 */
    PACKING_COPY    /* lent tensors, in their own layout */
} packing;

static packing packing_of(const tdm_cpu *cpu, const tdm_weight *w) {
    bool is_mapped = cpu->is_mapped && !w->is_transient; /* what is lent cannot stay where it is */
    if (!is_mapped && tdm_cpu_is_int8(cpu, w) && cpu->kernels.layout != NULL) {
        return PACKING_PANELS;
    }
    if (w->is_transient) {
        return PACKING_COPY;
    }
    return w->mode == TDM_WEIGHT_MXFP8 && !is_mapped && cpu->base.tier != TDM_TIER_REFERENCE
               ? PACKING_WIDEN
               : PACKING_NONE;
}

/* Codes, scales and biases of a weight behind each other. */
static size_t copy_bytes(const tdm_weight *w) {
    size_t rows = w->row_bytes + w->scales_row_bytes * (w->biases != NULL ? 2 : 1);
    size_t bytes = 0;
    return tdm_mul_size(rows, (size_t)w->n_out, &bytes) ? bytes : SIZE_MAX;
}

/* What the weight will be in this backend, its packed bytes included but not allocated. */
static tdm_weight lay_out(const tdm_cpu *cpu, const tdm_weight *described) {
    tdm_weight w = *described;
    switch (packing_of(cpu, &w)) {
    case PACKING_PANELS:
        cpu->kernels.layout(&w, false);
        break;
    case PACKING_WIDEN:
        w.packed_bytes = (size_t)w.n_out * (size_t)w.n_in * sizeof(uint16_t);
        break;
    case PACKING_COPY:
        w.packed_bytes = copy_bytes(&w);
        break;
    case PACKING_NONE:
    default:
        if (tdm_cpu_is_int8(cpu, &w) && cpu->kernels.layout != NULL) {
            cpu->kernels.layout(&w, true);
        }
        break;
    }
    return w;
}

size_t tdm_cpu_weight_plan(const tdm_backend *be, const tdm_weight *weight) {
    return lay_out((const tdm_cpu *)be, weight).packed_bytes;
}

typedef struct pack_run {
    const tdm_cpu *cpu;
    const tdm_weight *weight;
} pack_run;

static void pack_member(void *arg, int32_t idx, int32_t n_members) {
    const pack_run *run = arg;
    int64_t begin = 0;
    int64_t end = 0;
    int64_t n = (run->weight->n_out + TDM_CPU_PANEL_ROWS - 1) / TDM_CPU_PANEL_ROWS;
    tdm_cpu_share(n, idx, n_members, &begin, &end);
    if (begin < end) {
        run->cpu->kernels.pack(run->weight, begin, end);
    }
}

/* Rows [begin, end) of an mxfp8 weight as BF16: four significant bits and a power of two fit, and
 * what is below BF16's least number is below 2^-133 (no sum of products in f32 can show it). */
static void widen_member(void *arg, int32_t idx, int32_t n_members) {
    const pack_run *run = arg;
    const tdm_weight *w = run->weight;
    uint16_t *rows = w->packed;
    int64_t begin = 0;
    int64_t end = 0;
    tdm_cpu_share(w->n_out, idx, n_members, &begin, &end);
    for (int64_t row = begin; row < end; ++row) {
        const uint8_t *codes = w->data + (size_t)row * w->row_bytes;
        const uint8_t *scales = w->scales + (size_t)row * w->scales_row_bytes;
        for (int64_t i = 0; i < w->n_in; ++i) {
            float value = tdm_e4m3_to_f32(codes[i]) * tdm_e8m0_to_f32(scales[i / w->group]);
            rows[row * w->n_in + i] = tdm_bf16_from_f32(value);
        }
    }
}

/* From now on a plain matrix of its own. */
static void become_brain_halves(tdm_weight *w) {
    w->mode = TDM_WEIGHT_PLAIN;
    w->dtype = TDM_DTYPE_BF16;
    w->data = w->packed;
    w->row_bytes = (size_t)w->n_in * sizeof(uint16_t);
}

static void copy_lent(tdm_weight *w) {
    uint8_t *out = w->packed;
    size_t data_bytes = (size_t)w->n_out * w->row_bytes;
    size_t scales_bytes = (size_t)w->n_out * w->scales_row_bytes;
    memcpy(out, w->data, data_bytes);
    memcpy(out + data_bytes, w->scales, scales_bytes);
    w->data = out;
    w->scales = out + data_bytes;
    if (w->biases != NULL) {
        memcpy(out + data_bytes + scales_bytes, w->biases, scales_bytes);
        w->biases = w->scales + scales_bytes;
    }
}

/* Nothing of what was lent is kept; data stays a place, since that is what a live weight has. */
static void forget_lent(tdm_weight *w) {
    w->data = w->packed;
    w->scales = NULL;
    w->biases = NULL;
}

/* Room for activations in the order of a weight's columns. */
static tdm_status note_columns(tdm_cpu *cpu, tdm_error *err) {
    bool had = cpu->has_columns;
    cpu->has_columns = true;
    tdm_status status = tdm_cpu_reserve(&cpu->base, cpu->n_max, cpu->width_max, err);
    cpu->has_columns = had || status == TDM_OK;
    return status;
}

tdm_status tdm_cpu_weight_init(tdm_backend *be, tdm_weight *weight, tdm_error *err) {
    tdm_cpu *cpu = tdm_cpu_of(be);
    tdm_weight w = lay_out(cpu, weight);
    packing how = packing_of(cpu, &w);
    if (w.columns != NULL) {
        TDM_TRY(note_columns(cpu, err));
    }
    if (w.packed_bytes > 0) {
        w.packed = tdm_mem_alloc_aligned(cpu->alloc, w.packed_bytes, 64);
        if (w.packed == NULL) {
            return tdm_fail_nomem(err, "a packed weight");
        }
    }
    pack_run run = {.cpu = cpu, .weight = &w};
    if (how == PACKING_PANELS) {
        tdm_team_run(be->team, pack_member, &run);
        if (w.is_transient) {
            forget_lent(&w);
        }
    } else if (how == PACKING_WIDEN) {
        tdm_team_run(be->team, widen_member, &run);
        become_brain_halves(&w);
    } else if (how == PACKING_COPY) {
        copy_lent(&w);
    }
    *weight = w;
    return TDM_OK;
}

void tdm_cpu_weight_deinit(tdm_backend *be, tdm_weight *weight) {
    tdm_mem_free_aligned(tdm_cpu_of(be)->alloc, weight->packed, weight->packed_bytes, 64);
    *weight = (tdm_weight){0};
}
