/* SPDX-License-Identifier: Apache-2.0
 *
 * The observer: every operation of the table is told once, with its sizes and bytes and its time on
 * the caller's clock; afterwards the backend has its own table again. */
#include "support/support.h"

#include "base/thread.h"
#include "tensor/observe.h"

#define SEEN_MAX 64

typedef struct fake {
    tdm_backend base;
    tdm_clock_sim clock;
    int n_calls;
} fake;

typedef struct seen {
    tdm_op_record records[SEEN_MAX];
    int n;
} seen;

static void note(void *arg, const tdm_op_record *record) {
    seen *s = arg;
    assert_true(s->n < SEEN_MAX);
    s->records[s->n++] = *record;
}

static void nothing(void *arg, int32_t idx, int32_t n) {
    (void)arg;
    (void)idx;
    (void)n;
}

/* What every operation of the fake does: 7 ns, and the team is sent twice. */
static void work(tdm_backend *be) {
    fake *f = (fake *)(void *)be;
    f->n_calls++;
    tdm_clock_sim_advance(&f->clock, 7);
    tdm_team_run(be->team, nothing, NULL);
    tdm_team_run(be->team, nothing, NULL);
}

static void fake_linear(tdm_backend *be, const float *x, int64_t ld_x, int64_t n,
                        const tdm_linear_part *parts, int32_t n_parts) {
    (void)x, (void)ld_x, (void)n, (void)parts, (void)n_parts;
    work(be);
}
static void fake_groups(tdm_backend *be, const float *x, int64_t ld_x,
                        const tdm_linear_group *groups, int32_t n_groups) {
    (void)x, (void)ld_x, (void)groups, (void)n_groups;
    work(be);
}
static void fake_embed(tdm_backend *be, float *out, int64_t ld_out, const tdm_weight *table,
                       const int32_t *ids, int64_t n, float scale) {
    (void)out, (void)ld_out, (void)table, (void)ids, (void)n, (void)scale;
    work(be);
}
static void fake_rms(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                     const float *w, int64_t n, int64_t dim, float eps) {
    (void)out, (void)ld_out, (void)x, (void)ld_x, (void)w, (void)n, (void)dim, (void)eps;
    work(be);
}
static void fake_layer_norm(tdm_backend *be, float *out, int64_t ld_out, const float *x,
                            int64_t ld_x, const float *w, const float *bias, int64_t n, int64_t dim,
                            float eps) {
    (void)bias;
    fake_rms(be, out, ld_out, x, ld_x, w, n, dim, eps);
}
static void fake_rope_table(tdm_backend *be, float *table, const int64_t *positions, int64_t n,
                            const float *inv_freq, int32_t n_freq, float magnitude) {
    (void)table, (void)positions, (void)n, (void)inv_freq, (void)n_freq, (void)magnitude;
    work(be);
}
static void fake_rope(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                      int32_t head_dim, const float *table, int32_t n_freq,
                      tdm_rope_pairing pairing) {
    (void)x, (void)ld_x, (void)n, (void)n_heads, (void)head_dim, (void)table, (void)n_freq;
    (void)pairing;
    work(be);
}
static void fake_kv_write(tdm_backend *be, const tdm_kv_write_span *spans, int32_t n_spans) {
    (void)spans, (void)n_spans;
    work(be);
}
static void fake_attention(tdm_backend *be, const tdm_attention_span *spans, int32_t n_spans) {
    (void)spans, (void)n_spans;
    work(be);
}
static void fake_index(tdm_backend *be, const tdm_index_span *spans, int32_t n_spans) {
    (void)spans, (void)n_spans;
    work(be);
}
static void fake_glu(tdm_backend *be, const tdm_activation *act, float *out, int64_t ld_out,
                     const float *gate, int64_t ld_gate, const float *up, int64_t ld_up, int64_t n,
                     int64_t dim) {
    (void)act, (void)out, (void)ld_out, (void)gate, (void)ld_gate, (void)up, (void)ld_up, (void)n;
    (void)dim;
    work(be);
}
static void fake_activate(tdm_backend *be, const tdm_activation *act, float *x, int64_t ld_x,
                          int64_t n, int64_t dim) {
    (void)act, (void)x, (void)ld_x, (void)n, (void)dim;
    work(be);
}
static void fake_l2(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                    int32_t dim, float eps, float scale) {
    (void)x, (void)ld_x, (void)n, (void)n_heads, (void)dim, (void)eps, (void)scale;
    work(be);
}
static void fake_regroup(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                         int64_t n, const tdm_groups *groups) {
    (void)out, (void)ld_out, (void)x, (void)ld_x, (void)n, (void)groups;
    work(be);
}
static void fake_conv(tdm_backend *be, const tdm_conv *conv, const tdm_conv_span *spans,
                      int32_t n_spans) {
    (void)conv, (void)spans, (void)n_spans;
    work(be);
}
static void fake_delta(tdm_backend *be, const tdm_delta *delta, const tdm_delta_span *spans,
                       int32_t n_spans) {
    (void)delta, (void)spans, (void)n_spans;
    work(be);
}
static void fake_softcap(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int64_t dim,
                         float cap) {
    (void)x, (void)ld_x, (void)n, (void)dim, (void)cap;
    work(be);
}
static void fake_add(tdm_backend *be, float *x, int64_t ld_x, const float *y, int64_t ld_y,
                     int64_t n, int64_t dim) {
    (void)x, (void)ld_x, (void)y, (void)ld_y, (void)n, (void)dim;
    work(be);
}
static void fake_argmax(tdm_backend *be, int32_t *ids, const float *x, int64_t ld_x, int64_t n,
                        int64_t dim) {
    (void)ids, (void)x, (void)ld_x, (void)n, (void)dim;
    work(be);
}

static const tdm_backend_ops OPS = {
    .linear = fake_linear,
    .linear_groups = fake_groups,
    .embed = fake_embed,
    .rms_norm = fake_rms,
    .layer_norm = fake_layer_norm,
    .rope_table = fake_rope_table,
    .rope = fake_rope,
    .kv_write = fake_kv_write,
    .attention = fake_attention,
    .index_scores = fake_index,
    .glu_mul = fake_glu,
    .activate = fake_activate,
    .l2_norm = fake_l2,
    .regroup = fake_regroup,
    .conv = fake_conv,
    .delta_scan = fake_delta,
    .softcap = fake_softcap,
    .add = fake_add,
    .argmax = fake_argmax,
};

static void fake_init(fake *f) {
    tdm_error err;
    *f = (fake){.base = {.ops = &OPS}};
    tdm_clock_sim_init(&f->clock, 0);
    assert_int_equal(tdm_team_create(&f->base.team, NULL, 2, &err), TDM_OK);
}

static float plane[64];
static uint8_t stored[64];

/* Each operation once, in the order of tdm_op_kind. */
static void call_all(tdm_backend *be) {
    const tdm_weight packed = {.n_out = 5, .n_in = 8, .packed = stored, .packed_bytes = 1000};
    const tdm_weight plain = {.n_out = 3, .n_in = 8, .data = stored, .row_bytes = 10};
    const tdm_weight affine = {.n_out = 2,
                               .n_in = 8,
                               .data = stored,
                               .row_bytes = 4,
                               .scales = stored,
                               .biases = stored,
                               .scales_row_bytes = 2};
    const tdm_linear_part parts[3] = {{.weight = &packed}, {.weight = &plain}, {.weight = &affine}};
    const tdm_linear_group groups[2] = {{.n = 4, .n_parts = 2, .parts = {parts[1], parts[1]}},
                                        {.n = 1, .n_parts = 2, .parts = {parts[1], parts[1]}}};
    const tdm_kv_pages pages = {
        .dtype = TDM_DTYPE_BF16, .n_kv_heads = 2, .head_dim = 4, .value_dim = 3, .index_dim = 6};
    const tdm_kv_write_span written[2] = {{.pages = &pages, .n = 2}, {.pages = &pages, .n = 1}};
    const int32_t n_chosen[2] = {5, 6};
    const tdm_attention_span read[3] = {
        {.pages = &pages, .pos0 = 10, .n = 2, .n_heads = 4},
        {.pages = &pages, .pos0 = 10, .n = 2, .n_heads = 4, .window = 4},
        {.pages = &pages,
         .pos0 = 10,
         .n = 2,
         .n_heads = 4,
         .chosen = n_chosen,
         .n_chosen = n_chosen}};
    const tdm_index_span index = {.pages = &pages, .n = 9, .n_heads = 2};
    const tdm_activation act = {.kind = TDM_GLU_SILU};
    const tdm_groups regroup = {2, 3, 3, 6};
    const tdm_conv conv = {.dim = 4, .width = 5, .n_taps = 3};
    const tdm_conv_span conv_span = {.n = 2};
    const tdm_delta delta = {.n_key_heads = 1, .n_value_heads = 2, .key_dim = 3, .value_dim = 4};
    const tdm_delta_span delta_span = {.n = 2};
    int32_t ids[2] = {0};
    int64_t positions[2] = {0};
    be->ops->linear(be, plane, 8, 6, parts, 3);
    be->ops->linear_groups(be, plane, 8, groups, 2);
    be->ops->embed(be, plane, 8, &plain, ids, 2, 1.0f);
    be->ops->rms_norm(be, plane, 8, plane, 8, NULL, 2, 8, 1.0f);
    be->ops->layer_norm(be, plane, 8, plane, 8, NULL, NULL, 2, 8, 1.0f);
    be->ops->rope_table(be, plane, positions, 2, plane, 3, 1.0f);
    be->ops->rope(be, plane, 8, 2, 2, 4, plane, 1, TDM_ROPE_HALVES);
    be->ops->kv_write(be, written, 2);
    be->ops->attention(be, read, 3);
    be->ops->index_scores(be, &index, 1);
    be->ops->glu_mul(be, &act, plane, 8, plane, 8, plane, 8, 2, 8);
    be->ops->activate(be, &act, plane, 8, 2, 8);
    be->ops->l2_norm(be, plane, 8, 2, 2, 4, 1.0f, 1.0f);
    be->ops->regroup(be, plane, 8, plane, 8, 2, &regroup);
    be->ops->conv(be, &conv, &conv_span, 1);
    be->ops->delta_scan(be, &delta, &delta_span, 1);
    be->ops->softcap(be, plane, 8, 2, 8, 1.0f);
    be->ops->add(be, plane, 8, plane, 8, 2, 8);
    be->ops->argmax(be, ids, plane, 8, 2, 8);
}

static void every_operation_is_told(void **state) {
    static const struct {
        int64_t n, width_in, width_out;
        int32_t n_parts;
        uint64_t read_bytes;
    } WANT[TDM_OP_COUNT] = {
        [TDM_OP_LINEAR] = {6, 8, 10, 3, 1000 + 30 + 2 * (4 + 4) + 6 * 8 * 4},
        [TDM_OP_LINEAR_GROUPS] = {5, 8, 6, 2, 4 * 30 + 5 * 8 * 4},
        [TDM_OP_EMBED] = {2, 8, 8, 1, 20},
        [TDM_OP_RMS_NORM] = {2, 8, 8, 1, 64},
        [TDM_OP_LAYER_NORM] = {2, 8, 8, 1, 64},
        [TDM_OP_ROPE_TABLE] = {2, 6, 6, 1, 16},
        [TDM_OP_ROPE] = {2, 8, 8, 1, 2 * (8 + 2) * 4},
        [TDM_OP_KV_WRITE] = {3, 14, 14, 2, 3 * 14 * 4},
        [TDM_OP_ATTENTION] = {6, 16, 12, 3, (12 + 5 + 11) * 14 * 2 + 6 * 16 * 4},
        [TDM_OP_INDEX_SCORES] = {1, 12, 9, 1, (9 * 6 + 12) * 4},
        [TDM_OP_GLU_MUL] = {2, 8, 8, 1, 128},
        [TDM_OP_ACTIVATE] = {2, 8, 8, 1, 64},
        [TDM_OP_L2_NORM] = {2, 8, 8, 1, 64},
        [TDM_OP_REGROUP] = {2, 6, 6, 1, 48},
        [TDM_OP_CONV] = {2, 5, 5, 1, (4 * 5 + 3 * 4) * 4},
        [TDM_OP_DELTA_SCAN] = {2, 18, 8, 1, (2 * 18 + 8 * 3) * 4},
        [TDM_OP_SOFTCAP] = {2, 8, 8, 1, 64},
        [TDM_OP_ADD] = {2, 8, 8, 1, 128},
        [TDM_OP_ARGMAX] = {2, 8, 1, 1, 64},
    };
    fake f;
    seen s = {.n = 0};
    tdm_op_observer observer;
    (void)state;
    fake_init(&f);
    tdm_op_observe(&observer, &f.base, &f.clock.clock, note, &s);
    call_all(&f.base);
    assert_int_equal(f.n_calls, TDM_OP_COUNT);
    assert_int_equal(s.n, TDM_OP_COUNT);
    for (int i = 0; i < TDM_OP_COUNT; ++i) {
        const tdm_op_record *r = &s.records[i];
        assert_int_equal(r->kind, i);
        assert_non_null(TDM_OP_NAMES[i]);
        assert_int_equal(r->n, WANT[i].n);
        assert_int_equal(r->width_in, WANT[i].width_in);
        assert_int_equal(r->width_out, WANT[i].width_out);
        assert_int_equal(r->n_parts, WANT[i].n_parts);
        assert_int_equal(r->read_bytes, WANT[i].read_bytes);
        assert_int_equal(r->ns, 7);
        assert_int_equal(r->n_runs, 2);
    }
    tdm_op_observe_end(&observer, &f.base);
    assert_ptr_equal(f.base.ops, &OPS);
    call_all(&f.base); /* nobody looks any more */
    assert_int_equal(f.n_calls, 2 * TDM_OP_COUNT);
    assert_int_equal(s.n, TDM_OP_COUNT);
    tdm_team_destroy(f.base.team);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_operation_is_told)};
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
