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
    PACKING_WIDEN,  /* mxfp8 as BF16, where a set is slow with its codes */
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
    bool is_slow = cpu->base.tier != TDM_TIER_REFERENCE && !cpu->kernels.has_e4m3;
    return w->mode == TDM_WEIGHT_MXFP8 && !is_mapped && is_slow ? PACKING_WIDEN : PACKING_NONE;
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

static int64_t panels_of(const tdm_weight *w) {
    return (w->n_out + TDM_CPU_PANEL_ROWS - 1) / TDM_CPU_PANEL_ROWS;
}

typedef struct pack_run {
    const tdm_cpu *cpu;
    const tdm_weight *weight;
} pack_run;

static void pack_member(void *arg, int32_t idx, int32_t n_members) {
    const pack_run *run = arg;
    int64_t begin = 0;
    int64_t end = 0;
    tdm_cpu_share(panels_of(run->weight), idx, n_members, &begin, &end);
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

/* ---- panels of a store ---- */

const tdm_panel_layout *tdm_cpu_panel_layout(const tdm_backend *be) {
    const tdm_cpu *cpu = (const tdm_cpu *)be;
    return be->tier == TDM_TIER_FAST ? cpu->kernels.panels : NULL;
}

static tdm_panel_record record_of(const tdm_weight *w) {
    return (tdm_panel_record){
        .n_out = (uint64_t)w->n_out,
        .n_in = (uint64_t)w->n_in,
        .source = (uint64_t)w->mode | (uint64_t)w->dtype << 8 | (uint64_t)w->scales_dtype << 16 |
                  (uint64_t)(uint32_t)w->bits << 24 | (uint64_t)(uint32_t)w->group << 32,
        .bytes = w->packed_bytes,
        .layout = (uint32_t)w->layout,
        .period = (uint32_t)w->period,
    };
}

/* Panel idx of w alone, as the only one of another weight. */
static tdm_weight one_panel(const tdm_weight *w, int64_t idx, void *packed, size_t bytes) {
    const int64_t row0 = idx * TDM_CPU_PANEL_ROWS;
    tdm_weight one = *w;
    one.n_out = tdm_cpu_min(TDM_CPU_PANEL_ROWS, w->n_out - row0);
    one.data += (size_t)row0 * w->row_bytes;
    one.scales = w->scales != NULL ? w->scales + (size_t)row0 * w->scales_row_bytes : NULL;
    one.biases = w->biases != NULL ? w->biases + (size_t)row0 * w->scales_row_bytes : NULL;
    one.packed = packed;
    one.packed_bytes = bytes;
    return one;
}

/* Whether a panel in the middle, packed again, is what was taken. It notices a file that was
 * exchanged under the same name, size and time, and a loader that now reads it otherwise. */
static tdm_status compare_panel(const tdm_cpu *cpu, const tdm_weight *w, const uint8_t *taken,
                                bool *out_is_same, tdm_error *err) {
    const int64_t n = panels_of(w);
    const int64_t idx = n / 2;
    const size_t bytes = w->packed_bytes / (size_t)n;
    uint8_t *packed = tdm_mem_alloc_aligned(cpu->alloc, bytes, 64);
    if (packed == NULL) {
        return tdm_fail_nomem(err, "a packed weight");
    }
    const tdm_weight one = one_panel(w, idx, packed, bytes);
    cpu->kernels.pack(&one, 0, 1);
    *out_is_same = memcmp(packed, taken + (size_t)idx * bytes, bytes) == 0;
    tdm_mem_free_aligned(cpu->alloc, packed, bytes, 64);
    return TDM_OK;
}

/* Panels of the store into w, where it has them. */
static tdm_status take_panels(const tdm_cpu *cpu, tdm_weight *w, tdm_error *err) {
    tdm_panels *panels = cpu->base.panels;
    const tdm_panel_record record = record_of(w);
    const uint8_t *taken = panels != NULL ? panels->ops->take(panels, &record) : NULL;
    bool is_same = false;
    if (taken == NULL) {
        return TDM_OK;
    }
    TDM_TRY(compare_panel(cpu, w, taken, &is_same, err));
    if (!is_same) {
        panels->ops->refuse(panels);
        return TDM_OK;
    }
    w->packed = (void *)(uintptr_t)taken; /* kernels read it only; nobody frees what is lent */
    w->is_packed_lent = true;
    return TDM_OK;
}

static void put_panels(const tdm_cpu *cpu, const tdm_weight *w) {
    tdm_panels *panels = cpu->base.panels;
    if (panels != NULL) {
        const tdm_panel_record record = record_of(w);
        panels->ops->put(panels, &record, w->packed);
    }
}

/* ---- filling ---- */

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
    if (how == PACKING_PANELS) {
        TDM_TRY(take_panels(cpu, &w, err));
    }
    if (w.packed_bytes > 0 && w.packed == NULL) {
        w.packed = tdm_mem_alloc_aligned(cpu->alloc, w.packed_bytes, 64);
        if (w.packed == NULL) {
            return tdm_fail_nomem(err, "a packed weight");
        }
    }
    pack_run run = {.cpu = cpu, .weight = &w};
    if (how == PACKING_PANELS) {
        if (!w.is_packed_lent) {
            tdm_team_run(be->team, pack_member, &run);
            put_panels(cpu, &w);
        }
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
    if (!weight->is_packed_lent) {
        tdm_mem_free_aligned(tdm_cpu_of(be)->alloc, weight->packed, weight->packed_bytes, 64);
    }
    *weight = (tdm_weight){0};
}
