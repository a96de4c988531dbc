/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of operations that tells each call and passes it on. It owns no arithmetic and changes no
 * argument: with it a step computes the same bits. The observer is found as the table itself, whose
 * first member it is, so that a backend needs no room for it. */
#include "tensor/observe.h"

#include "base/thread.h"

const char *const TDM_OP_NAMES[TDM_OP_COUNT] = {
    [TDM_OP_LINEAR] = "linear",
    [TDM_OP_LINEAR_GROUPS] = "linear_groups",
    [TDM_OP_EMBED] = "embed",
    [TDM_OP_RMS_NORM] = "rms_norm",
    [TDM_OP_LAYER_NORM] = "layer_norm",
    [TDM_OP_ROPE_TABLE] = "rope_table",
    [TDM_OP_ROPE] = "rope",
    [TDM_OP_KV_WRITE] = "kv_write",
    [TDM_OP_ATTENTION] = "attention",
    [TDM_OP_INDEX_SCORES] = "index_scores",
    [TDM_OP_GLU_MUL] = "glu_mul",
    [TDM_OP_ACTIVATE] = "activate",
    [TDM_OP_L2_NORM] = "l2_norm",
    [TDM_OP_REGROUP] = "regroup",
    [TDM_OP_CONV] = "conv",
    [TDM_OP_DELTA_SCAN] = "delta_scan",
    [TDM_OP_SOFTCAP] = "softcap",
    [TDM_OP_ADD] = "add",
    [TDM_OP_ARGMAX] = "argmax",
};

/* A call under way. */
typedef struct watch {
    tdm_op_observer *observer;
    tdm_team *team; /* NULL: a backend without one */
    uint64_t runs;
    int64_t start;
} watch;

static watch begin(tdm_backend *be) {
    tdm_op_observer *o = (tdm_op_observer *)(uintptr_t)be->ops; /* its first member */
    watch w = {.observer = o, .team = be->team};
    w.runs = be->team != NULL ? tdm_team_n_runs(be->team) : 0;
    w.start = o->clock->monotonic_ns(o->clock->ctx);
    return w;
}

static void end(const watch *w, tdm_op_record record) {
    const tdm_op_observer *o = w->observer;
    record.ns = o->clock->monotonic_ns(o->clock->ctx) - w->start;
    record.n_runs = w->team != NULL ? tdm_team_n_runs(w->team) - w->runs : 0;
    o->seen(o->arg, &record);
}

/* Of an operation on rows of f32: n_read values of each row are read. */
static tdm_op_record row_record(tdm_op_kind kind, int64_t n, int64_t width, int64_t n_read) {
    return (tdm_op_record){.kind = kind,
                           .n_parts = 1,
                           .n = n,
                           .width_in = width,
                           .width_out = width,
                           .read_bytes = (uint64_t)(n * n_read) * sizeof(float)};
}

uint64_t tdm_op_weight_bytes(const tdm_weight *weight) {
    if (weight->packed != NULL) {
        return weight->packed_bytes;
    }
    uint64_t scales = (uint64_t)weight->scales_row_bytes * (weight->biases != NULL ? 2 : 1);
    return (uint64_t)weight->n_out * (weight->row_bytes + (weight->scales != NULL ? scales : 0));
}

static void add_part(tdm_op_record *record, const tdm_linear_part *part) {
    record->width_out += part->weight->n_out;
    record->read_bytes += tdm_op_weight_bytes(part->weight);
}

static void see_linear(tdm_backend *be, const float *x, int64_t ld_x, int64_t n,
                       const tdm_linear_part *parts, int32_t n_parts) {
    tdm_op_record r = row_record(TDM_OP_LINEAR, n, parts[0].weight->n_in, parts[0].weight->n_in);
    watch w = begin(be);
    w.observer->inner->linear(be, x, ld_x, n, parts, n_parts);
    r.n_parts = n_parts;
    r.width_out = 0;
    for (int32_t i = 0; i < n_parts; ++i) {
        add_part(&r, &parts[i]);
    }
    end(&w, r);
}

static void see_linear_groups(tdm_backend *be, const float *x, int64_t ld_x,
                              const tdm_linear_group *groups, int32_t n_groups) {
    tdm_op_record r = {.kind = TDM_OP_LINEAR_GROUPS, .n_parts = n_groups};
    watch w = begin(be);
    w.observer->inner->linear_groups(be, x, ld_x, groups, n_groups);
    r.width_in = groups[0].parts[0].weight->n_in;
    for (int32_t i = 0; i < n_groups; ++i) {
        r.n += groups[i].n;
        r.width_out = 0; /* of one group: all are alike */
        for (int32_t p = 0; p < groups[i].n_parts; ++p) {
            add_part(&r, &groups[i].parts[p]);
        }
    }
    r.read_bytes += (uint64_t)(r.n * r.width_in) * sizeof(float);
    end(&w, r);
}

static void see_embed(tdm_backend *be, float *out, int64_t ld_out, const tdm_weight *table,
                      const int32_t *ids, int64_t n, float scale) {
    tdm_op_record r = row_record(TDM_OP_EMBED, n, table->n_in, 0);
    watch w = begin(be);
    w.observer->inner->embed(be, out, ld_out, table, ids, n, scale);
    r.read_bytes = (uint64_t)n * table->row_bytes;
    end(&w, r);
}

static void see_rms_norm(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                         const float *weight, int64_t n, int64_t dim, float eps) {
    watch w = begin(be);
    w.observer->inner->rms_norm(be, out, ld_out, x, ld_x, weight, n, dim, eps);
    end(&w, row_record(TDM_OP_RMS_NORM, n, dim, dim));
}

static void see_layer_norm(tdm_backend *be, float *out, int64_t ld_out, const float *x,
                           int64_t ld_x, const float *weight, const float *bias, int64_t n,
                           int64_t dim, float eps) {
    watch w = begin(be);
    w.observer->inner->layer_norm(be, out, ld_out, x, ld_x, weight, bias, n, dim, eps);
    end(&w, row_record(TDM_OP_LAYER_NORM, n, dim, dim));
}

static void see_rope_table(tdm_backend *be, float *table, const int64_t *positions, int64_t n,
                           const float *inv_freq, int32_t n_freq, float magnitude) {
    watch w = begin(be);
    w.observer->inner->rope_table(be, table, positions, n, inv_freq, n_freq, magnitude);
    end(&w, row_record(TDM_OP_ROPE_TABLE, n, 2 * (int64_t)n_freq, 2));
}

static void see_rope(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                     int32_t head_dim, const float *table, int32_t n_freq,
                     tdm_rope_pairing pairing) {
    int64_t width = (int64_t)n_heads * head_dim;
    watch w = begin(be);
    w.observer->inner->rope(be, x, ld_x, n, n_heads, head_dim, table, n_freq, pairing);
    end(&w, row_record(TDM_OP_ROPE, n, width, width + 2 * (int64_t)n_freq));
}

static void see_kv_write(tdm_backend *be, const tdm_kv_write_span *spans, int32_t n_spans) {
    tdm_op_record r = {.kind = TDM_OP_KV_WRITE, .n_parts = n_spans};
    watch w = begin(be);
    w.observer->inner->kv_write(be, spans, n_spans);
    for (int32_t i = 0; i < n_spans; ++i) {
        const tdm_kv_pages *p = spans[i].pages;
        r.n += spans[i].n;
        r.width_in = (int64_t)p->n_kv_heads * (p->head_dim + (p->is_latent ? 0 : p->value_dim));
    }
    r.width_out = r.width_in;
    r.read_bytes = (uint64_t)(r.n * r.width_in) * sizeof(float);
    end(&w, r);
}

/* Positions that any query of the span sees: what is read of the cache at least. */
static uint64_t positions_seen(const tdm_attention_span *s) {
    int64_t seen = s->pos0 + s->n;
    if (s->chosen != NULL) {
        seen = 0;
        for (int32_t i = 0; i < s->n; ++i) {
            seen += s->n_chosen[i];
        }
    } else if (s->window > 0 && seen > (int64_t)s->window - 1 + s->n) {
        seen = (int64_t)s->window - 1 + s->n;
    }
    return (uint64_t)seen;
}

static void see_attention(tdm_backend *be, const tdm_attention_span *spans, int32_t n_spans) {
    tdm_op_record r = {.kind = TDM_OP_ATTENTION, .n_parts = n_spans};
    watch w = begin(be);
    w.observer->inner->attention(be, spans, n_spans);
    for (int32_t i = 0; i < n_spans; ++i) {
        const tdm_kv_pages *p = spans[i].pages;
        int64_t values = (int64_t)p->n_kv_heads * (p->head_dim + (p->is_latent ? 0 : p->value_dim));
        r.n += spans[i].n;
        r.width_in = (int64_t)spans[i].n_heads * p->head_dim;
        r.width_out = (int64_t)spans[i].n_heads * p->value_dim;
        r.read_bytes +=
            positions_seen(&spans[i]) * (uint64_t)values * (p->dtype == TDM_DTYPE_F32 ? 4 : 2);
        r.read_bytes += (uint64_t)(spans[i].n * r.width_in) * sizeof(float);
    }
    end(&w, r);
}

static void see_index_scores(tdm_backend *be, const tdm_index_span *spans, int32_t n_spans) {
    tdm_op_record r = {.kind = TDM_OP_INDEX_SCORES, .n_parts = n_spans};
    watch w = begin(be);
    w.observer->inner->index_scores(be, spans, n_spans);
    for (int32_t i = 0; i < n_spans; ++i) {
        r.n += 1; /* a span is one query */
        r.width_in = (int64_t)spans[i].n_heads * spans[i].pages->index_dim;
        r.width_out = spans[i].n;
        r.read_bytes += (uint64_t)((int64_t)spans[i].n * spans[i].pages->index_dim + r.width_in) *
                        sizeof(float);
    }
    end(&w, r);
}

static void see_glu_mul(tdm_backend *be, const tdm_activation *act, float *out, int64_t ld_out,
                        const float *gate, int64_t ld_gate, const float *up, int64_t ld_up,
                        int64_t n, int64_t dim) {
    watch w = begin(be);
    w.observer->inner->glu_mul(be, act, out, ld_out, gate, ld_gate, up, ld_up, n, dim);
    end(&w, row_record(TDM_OP_GLU_MUL, n, dim, 2 * dim));
}

static void see_activate(tdm_backend *be, const tdm_activation *act, float *x, int64_t ld_x,
                         int64_t n, int64_t dim) {
    watch w = begin(be);
    w.observer->inner->activate(be, act, x, ld_x, n, dim);
    end(&w, row_record(TDM_OP_ACTIVATE, n, dim, dim));
}

static void see_l2_norm(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                        int32_t dim, float eps, float scale) {
    watch w = begin(be);
    w.observer->inner->l2_norm(be, x, ld_x, n, n_heads, dim, eps, scale);
    end(&w, row_record(TDM_OP_L2_NORM, n, (int64_t)n_heads * dim, (int64_t)n_heads * dim));
}

static void see_regroup(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                        int64_t n, const tdm_groups *groups) {
    watch w = begin(be);
    w.observer->inner->regroup(be, out, ld_out, x, ld_x, n, groups);
    end(&w, row_record(TDM_OP_REGROUP, n, groups->n * groups->dim, groups->n * groups->dim));
}

static void see_conv(tdm_backend *be, const tdm_conv *conv, const tdm_conv_span *spans,
                     int32_t n_spans) {
    tdm_op_record r = row_record(TDM_OP_CONV, 0, conv->width, 0);
    watch w = begin(be);
    w.observer->inner->conv(be, conv, spans, n_spans);
    r.n_parts = n_spans;
    for (int32_t i = 0; i < n_spans; ++i) {
        r.n += spans[i].n;
        r.read_bytes += (uint64_t)((spans[i].n + conv->n_taps - 1) * conv->width) * sizeof(float);
    }
    r.read_bytes += (uint64_t)(conv->n_taps * conv->dim) * sizeof(float);
    end(&w, r);
}

static void see_delta_scan(tdm_backend *be, const tdm_delta *delta, const tdm_delta_span *spans,
                           int32_t n_spans) {
    int64_t values = (int64_t)delta->n_value_heads * delta->value_dim;
    int64_t width = 2 * (int64_t)delta->n_key_heads * delta->key_dim + values +
                    2 * (int64_t)delta->n_value_heads;
    tdm_op_record r = {
        .kind = TDM_OP_DELTA_SCAN, .n_parts = n_spans, .width_in = width, .width_out = values};
    watch w = begin(be);
    w.observer->inner->delta_scan(be, delta, spans, n_spans);
    for (int32_t i = 0; i < n_spans; ++i) {
        r.n += spans[i].n;
        r.read_bytes += (uint64_t)(spans[i].n * width + values * delta->key_dim) * sizeof(float);
    }
    end(&w, r);
}

static void see_softcap(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int64_t dim,
                        float cap) {
    watch w = begin(be);
    w.observer->inner->softcap(be, x, ld_x, n, dim, cap);
    end(&w, row_record(TDM_OP_SOFTCAP, n, dim, dim));
}

static void see_add(tdm_backend *be, float *x, int64_t ld_x, const float *y, int64_t ld_y,
                    int64_t n, int64_t dim) {
    watch w = begin(be);
    w.observer->inner->add(be, x, ld_x, y, ld_y, n, dim);
    end(&w, row_record(TDM_OP_ADD, n, dim, 2 * dim));
}

static void see_argmax(tdm_backend *be, int32_t *ids, const float *x, int64_t ld_x, int64_t n,
                       int64_t dim) {
    watch w = begin(be);
    w.observer->inner->argmax(be, ids, x, ld_x, n, dim);
    tdm_op_record r = row_record(TDM_OP_ARGMAX, n, dim, dim);
    r.width_out = 1;
    end(&w, r);
}

void tdm_op_observe(tdm_op_observer *observer, tdm_backend *be, const tdm_clock *clock,
                    tdm_op_seen_fn seen, void *arg) {
    TDM_CHECK(observer != NULL && be != NULL && clock != NULL && seen != NULL);
    *observer = (tdm_op_observer){
        .ops = *be->ops, .inner = be->ops, .clock = clock, .seen = seen, .arg = arg};
    tdm_backend_ops *ops = &observer->ops;
    ops->linear = see_linear;
    ops->linear_groups = see_linear_groups;
    ops->embed = see_embed;
    ops->rms_norm = see_rms_norm;
    ops->layer_norm = see_layer_norm;
    ops->rope_table = see_rope_table;
    ops->rope = see_rope;
    ops->kv_write = see_kv_write;
    ops->attention = see_attention;
    ops->index_scores = see_index_scores;
    ops->glu_mul = see_glu_mul;
    ops->activate = see_activate;
    ops->l2_norm = see_l2_norm;
    ops->regroup = see_regroup;
    ops->conv = see_conv;
    ops->delta_scan = see_delta_scan;
    ops->softcap = see_softcap;
    ops->add = see_add;
    ops->argmax = see_argmax;
    be->ops = ops;
}

void tdm_op_observe_end(tdm_op_observer *observer, tdm_backend *be) {
    TDM_CHECK(be->ops == &observer->ops);
    be->ops = observer->inner;
}
