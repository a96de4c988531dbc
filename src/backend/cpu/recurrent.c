/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of recurrent layers: the causal convolution, split over channels, and the scan of the
 * gated delta rule, split over value heads. A share runs every span in the order of the list, so
 * that spans of one sequence follow each other without a barrier, and no number of threads or cut of
 * a sequence moves a sum. */
#include "backend/cpu/cpu_priv.h"

#include <math.h>
#include <string.h>

/* Channels that stay in the first cache together with their taps while positions pass. */
#define CONV_TILE 256
/* Values below which a call stays on the calling thread. */
#define VALUES_INLINE 8192

/* ---- convolution ---- */

typedef struct conv_run {
    const tdm_cpu *cpu;
    const tdm_conv *conv;
    const tdm_conv_span *spans;
    int32_t n_spans;
} conv_run;

/* Row i of tail, then x. */
static const float *row_at(const tdm_conv *conv, const tdm_conv_span *s, int64_t i) {
    int64_t n_tail = conv->n_taps - 1;
    return i < n_tail ? s->tail + i * conv->width : s->x + (i - n_tail) * s->ld_x;
}

/* Values [from, to) of the rows to keep, and of those that pass unconvolved. */
static void keep_range(const tdm_conv *conv, const tdm_conv_span *s, int64_t from, int64_t to) {
    int64_t first = (int64_t)conv->n_taps - 1 + s->n - s->n_keep;
    for (int64_t i = 0; i < s->n_keep; ++i) {
        memcpy(s->keep + i * conv->width + from, row_at(conv, s, first + i) + from,
               (size_t)(to - from) * sizeof(float));
    }
    int64_t past = tdm_cpu_max(from, conv->dim);
    for (int64_t t = 0; s->out != s->x && past < to && t < s->n; ++t) {
        memcpy(s->out + t * s->ld_out + past, s->x + t * s->ld_x + past,
               (size_t)(to - past) * sizeof(float));
    }
}

/* Channels [from, to): the last position first, so that out may be x. */
static void convolve_range(const conv_run *run, const tdm_conv_span *s, int64_t from, int64_t to) {
    static const tdm_activation SILU = {.kind = TDM_GLU_SILU};
    const tdm_conv *conv = run->conv;
    const float *in[TDM_CONV_TAPS_MAX];
    for (int64_t t = (int64_t)s->n - 1; t >= 0; --t) {
        float *out = s->out + t * s->ld_out + from;
        for (int32_t j = 0; j < conv->n_taps; ++j) {
            in[j] = row_at(conv, s, t + j) + from;
        }
        run->cpu->kernels.conv_row(out, in, conv->taps + from, conv->dim,
                                   conv->bias != NULL ? conv->bias + from : NULL, conv->n_taps,
                                   to - from);
        if (conv->is_silu) {
            run->cpu->kernels.glu(&SILU, out, out, NULL, to - from);
        }
    }
}

static void conv_member(void *arg, int32_t idx, int32_t n_members) {
    const conv_run *run = arg;
    int64_t width = run->conv->width;
    int64_t begin = 0;
    int64_t end = 0;
    tdm_cpu_share((width + CONV_TILE - 1) / CONV_TILE, idx, n_members, &begin, &end);
    for (int64_t tile = begin; tile < end; ++tile) {
        int64_t from = tile * CONV_TILE;
        int64_t to = tdm_cpu_min(from + CONV_TILE, width);
        for (int32_t i = 0; i < run->n_spans; ++i) {
            keep_range(run->conv, &run->spans[i], from, to);
            if (from < run->conv->dim) {
                convolve_range(run, &run->spans[i], from, tdm_cpu_min(to, run->conv->dim));
            }
        }
    }
}

void tdm_cpu_conv(tdm_backend *be, const tdm_conv *conv, const tdm_conv_span *spans,
                  int32_t n_spans) {
    conv_run run = {.cpu = tdm_cpu_of(be), .conv = conv, .spans = spans, .n_spans = n_spans};
    int64_t work = 0;
    for (int32_t i = 0; i < n_spans; ++i) {
        work += spans[i].n * conv->width;
    }
    if (work < VALUES_INLINE) {
        conv_member(&run, 0, 1);
    } else {
        tdm_team_run(be->team, conv_member, &run);
    }
}

/* ---- the gated delta rule ---- */

typedef struct delta_run {
    const tdm_cpu *cpu;
    const tdm_delta *delta;
    const tdm_delta_span *spans;
    int32_t n_spans;
} delta_run;

tdm_cpu_delta_head tdm_cpu_delta_locate(const tdm_delta *delta, int32_t head) {
    int64_t group = delta->n_value_heads / delta->n_key_heads;
    int64_t key_head = delta->is_tiled ? head % delta->n_key_heads : head / group;
    int64_t keys = (int64_t)delta->n_key_heads * delta->key_dim;
    int64_t values = (int64_t)delta->n_value_heads * delta->value_dim;
    return (tdm_cpu_delta_head){
        .q_at = key_head * delta->key_dim,
        .k_at = keys + key_head * delta->key_dim,
        .v_at = 2 * keys + (int64_t)head * delta->value_dim,
        .a_at = 2 * keys + values + head,
        .b_at = 2 * keys + values + delta->n_value_heads + head,
        .out_at = (int64_t)head * delta->value_dim,
        .state_at = (int64_t)head * delta->key_dim * delta->value_dim,
    };
}

/* softplus(x) is x itself from 20 on, as the reference framework has it. */
void tdm_cpu_delta_gates(const tdm_delta *delta, int32_t head, float a, float b, float *out_keep,
                         float *out_write) {
    float x = a + delta->dt_bias[head];
    float softplus = x > 20.0f ? x : log1pf(expf(x));
    *out_keep = expf(delta->decay[head] * softplus);
    *out_write = 1.0f / (1.0f + expf(-b));
}

static void delta_member(void *arg, int32_t idx, int32_t n_members) {
    const delta_run *run = arg;
    int64_t begin = 0;
    int64_t end = 0;
    tdm_cpu_share(run->delta->n_value_heads, idx, n_members, &begin, &end);
    for (int64_t head = begin; head < end; ++head) {
        for (int32_t i = 0; i < run->n_spans; ++i) {
            run->cpu->kernels.delta_head(run->delta, &run->spans[i], (int32_t)head);
        }
    }
}

void tdm_cpu_delta_scan(tdm_backend *be, const tdm_delta *delta, const tdm_delta_span *spans,
                        int32_t n_spans) {
    delta_run run = {.cpu = tdm_cpu_of(be), .delta = delta, .spans = spans, .n_spans = n_spans};
    int64_t work = 0;
    for (int32_t i = 0; i < n_spans; ++i) {
        work += (int64_t)spans[i].n * delta->n_value_heads * delta->key_dim * delta->value_dim;
    }
    if (work < VALUES_INLINE) {
        delta_member(&run, 0, 1);
    } else {
        tdm_team_run(be->team, delta_member, &run);
    }
}
