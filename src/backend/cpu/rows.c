/* SPDX-License-Identifier: Apache-2.0
 *
 * Table entries that are a loop over rows: each row goes to one kernel call, rows are split over
 * the team when there is enough to do. */
#include "backend/cpu/cpu_priv.h"

#include <math.h>
#include <string.h>

/* Values below which a call stays on the calling thread. */
#define VALUES_INLINE 8192

/* One description serves all row loops; a row function reads what it needs. */
typedef struct rows_run {
    tdm_cpu *cpu;
    void (*row)(const struct rows_run *r, int64_t i); /* does row i */
    float *out;
    const float *a;
    const float *b;
    const float *bias;
    int64_t ld_out;
    int64_t ld_a;
    int64_t ld_b;
    int64_t n;
    int64_t dim;
    float factor;
    float scale;
    tdm_activation act;
    int32_t n_heads;
    int32_t head_dim;
    tdm_rope_pairing pairing;
    const int32_t *ids;
    int32_t *out_ids;
    const int64_t *positions;
    const tdm_weight *table;
    const tdm_groups *groups;
} rows_run;

static void rows_member(void *arg, int32_t idx, int32_t n_members) {
    const rows_run *r = arg;
    int64_t begin = 0;
    int64_t end = 0;
    tdm_cpu_share(r->n, idx, n_members, &begin, &end);
    for (int64_t i = begin; i < end; ++i) {
        r->row(r, i);
    }
}

static void run_rows(rows_run *run, void (*row)(const rows_run *r, int64_t i)) {
    run->row = row;
    if (run->n == 1 || run->n * run->dim < VALUES_INLINE) {
        rows_member(run, 0, 1);
    } else {
        tdm_team_run(run->cpu->base.team, rows_member, run);
    }
}

static void embed_row(const rows_run *r, int64_t i) {
    float *out = r->out + i * r->ld_out;
    tdm_weight_row(r->table, r->ids[i], out);
    if (r->factor != 1.0f) {
        r->cpu->kernels.scale(out, r->factor, r->dim);
    }
}

void tdm_cpu_embed(tdm_backend *be, float *out, int64_t ld_out, const tdm_weight *table,
                   const int32_t *ids, int64_t n, float scale) {
    rows_run run = {.cpu = tdm_cpu_of(be),
                    .out = out,
                    .ld_out = ld_out,
                    .table = table,
                    .ids = ids,
                    .n = n,
                    .dim = table->n_in,
                    .factor = scale};
    run_rows(&run, embed_row);
}

static void rms_norm_row(const rows_run *r, int64_t i) {
    r->cpu->kernels.rms_norm(r->out + i * r->ld_out, r->a + i * r->ld_a, r->b, r->dim, r->factor);
}

void tdm_cpu_rms_norm(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                      const float *w, int64_t n, int64_t dim, float eps) {
    rows_run run = {.cpu = tdm_cpu_of(be),
                    .out = out,
                    .ld_out = ld_out,
                    .a = x,
                    .ld_a = ld_x,
                    .b = w,
                    .n = n,
                    .dim = dim,
                    .factor = eps};
    run_rows(&run, rms_norm_row);
}

static void layer_norm_row(const rows_run *r, int64_t i) {
    r->cpu->kernels.layer_norm(r->out + i * r->ld_out, r->a + i * r->ld_a, r->b, r->bias, r->dim,
                               r->factor);
}

void tdm_cpu_layer_norm(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                        const float *w, const float *bias, int64_t n, int64_t dim, float eps) {
    rows_run run = {.cpu = tdm_cpu_of(be),
                    .out = out,
                    .ld_out = ld_out,
                    .a = x,
                    .ld_a = ld_x,
                    .b = w,
                    .bias = bias,
                    .n = n,
                    .dim = dim,
                    .factor = eps};
    run_rows(&run, layer_norm_row);
}

static void rope_table_row(const rows_run *r, int64_t i) {
    float position = (float)r->positions[i];
    float *row = r->out + i * r->ld_out;
    for (int64_t j = 0; j < r->dim; ++j) {
        float angle = position * r->a[j];
        row[2 * j] = cosf(angle) * r->factor;
        row[2 * j + 1] = sinf(angle) * r->factor;
    }
}

/* The same libm for every set: few values, and their accuracy matters at large positions. */
void tdm_cpu_rope_table(tdm_backend *be, float *table, const int64_t *positions, int64_t n,
                        const float *inv_freq, int32_t n_freq, float magnitude) {
    rows_run run = {.cpu = tdm_cpu_of(be),
                    .out = table,
                    .ld_out = 2 * (int64_t)n_freq,
                    .a = inv_freq,
                    .positions = positions,
                    .n = n,
                    .dim = n_freq,
                    .factor = magnitude};
    run_rows(&run, rope_table_row);
}

static void rope_row(const rows_run *r, int64_t i) {
    int32_t n_freq = (int32_t)(r->ld_a / 2);
    r->cpu->kernels.rope(r->out + i * r->ld_out, r->n_heads, r->head_dim, r->a + i * r->ld_a,
                         n_freq, r->pairing);
}

void tdm_cpu_rope(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                  int32_t head_dim, const float *table, int32_t n_freq, tdm_rope_pairing pairing) {
    rows_run run = {.cpu = tdm_cpu_of(be),
                    .out = x,
                    .ld_out = ld_x,
                    .a = table,
                    .ld_a = 2 * (int64_t)n_freq,
                    .n = n,
                    .dim = (int64_t)n_heads * head_dim,
                    .n_heads = n_heads,
                    .head_dim = head_dim,
                    .pairing = pairing};
    run_rows(&run, rope_row);
}

static void glu_row(const rows_run *r, int64_t i) {
    r->cpu->kernels.glu(&r->act, r->out + i * r->ld_out, r->a + i * r->ld_a,
                        r->b != NULL ? r->b + i * r->ld_b : NULL, r->dim);
}

void tdm_cpu_glu_mul(tdm_backend *be, const tdm_activation *act, float *out, int64_t ld_out,
                     const float *gate, int64_t ld_gate, const float *up, int64_t ld_up, int64_t n,
                     int64_t dim) {
    rows_run run = {.cpu = tdm_cpu_of(be),
                    .act = *act,
                    .out = out,
                    .ld_out = ld_out,
                    .a = gate,
                    .ld_a = ld_gate,
                    .b = up,
                    .ld_b = ld_up,
                    .n = n,
                    .dim = dim};
    run_rows(&run, glu_row);
}

void tdm_cpu_activate(tdm_backend *be, const tdm_activation *act, float *x, int64_t ld_x, int64_t n,
                      int64_t dim) {
    rows_run run = {.cpu = tdm_cpu_of(be),
                    .act = *act,
                    .out = x,
                    .ld_out = ld_x,
                    .a = x,
                    .ld_a = ld_x,
                    .n = n,
                    .dim = dim};
    run_rows(&run, glu_row);
}

/* The norm by the mean of squares is that of their sum but for the root of dim. */
static void l2_norm_row(const rows_run *r, int64_t i) {
    float root = sqrtf((float)r->head_dim);
    float eps = r->factor / (float)r->head_dim;
    for (int32_t h = 0; h < r->n_heads; ++h) {
        float *head = r->out + i * r->ld_out + (int64_t)h * r->head_dim;
        r->cpu->kernels.rms_norm(head, head, NULL, r->head_dim, eps);
        r->cpu->kernels.scale(head, r->scale / root, r->head_dim);
    }
}

void tdm_cpu_l2_norm(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                     int32_t dim, float eps, float scale) {
    rows_run run = {.cpu = tdm_cpu_of(be),
                    .out = x,
                    .ld_out = ld_x,
                    .n = n,
                    .dim = (int64_t)n_heads * dim,
                    .n_heads = n_heads,
                    .head_dim = dim,
                    .factor = eps,
                    .scale = scale};
    run_rows(&run, l2_norm_row);
}

static void regroup_row(const rows_run *r, int64_t i) {
    float *out = r->out + i * r->ld_out;
    const float *x = r->a + i * r->ld_a;
    for (int64_t g = 0; g < r->groups->n; ++g) {
        memcpy(out + g * r->groups->step_out, x + g * r->groups->step_x,
               (size_t)r->groups->dim * sizeof *out);
    }
}

void tdm_cpu_regroup(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                     int64_t n, const tdm_groups *groups) {
    rows_run run = {.cpu = tdm_cpu_of(be),
                    .out = out,
                    .ld_out = ld_out,
                    .a = x,
                    .ld_a = ld_x,
                    .n = n,
                    .dim = groups->n * groups->dim,
                    .groups = groups};
    run_rows(&run, regroup_row);
}

static void softcap_row(const rows_run *r, int64_t i) {
    r->cpu->kernels.softcap(r->out + i * r->ld_out, r->factor, r->dim);
}

void tdm_cpu_softcap(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int64_t dim, float cap) {
    rows_run run = {
        .cpu = tdm_cpu_of(be), .out = x, .ld_out = ld_x, .n = n, .dim = dim, .factor = cap};
    run_rows(&run, softcap_row);
}

static void add_row(const rows_run *r, int64_t i) {
    r->cpu->kernels.add(r->out + i * r->ld_out, r->a + i * r->ld_a, r->dim);
}

void tdm_cpu_add(tdm_backend *be, float *x, int64_t ld_x, const float *y, int64_t ld_y, int64_t n,
                 int64_t dim) {
    rows_run run = {
        .cpu = tdm_cpu_of(be), .out = x, .ld_out = ld_x, .a = y, .ld_a = ld_y, .n = n, .dim = dim};
    run_rows(&run, add_row);
}

static void argmax_row(const rows_run *r, int64_t i) {
    r->out_ids[i] = r->cpu->kernels.argmax(r->a + i * r->ld_a, r->dim);
}

void tdm_cpu_argmax(tdm_backend *be, int32_t *ids, const float *x, int64_t ld_x, int64_t n,
                    int64_t dim) {
    rows_run run = {
        .cpu = tdm_cpu_of(be), .out_ids = ids, .a = x, .ld_a = ld_x, .n = n, .dim = dim};
    run_rows(&run, argmax_row);
}
