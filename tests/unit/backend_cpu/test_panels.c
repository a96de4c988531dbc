/* SPDX-License-Identifier: Apache-2.0
 *
 * Panels out of a store: the bits of packing, no memory of the backend's own, and bytes that are not
 * the weight's are noticed. And the bytes of a layout stay the same under one version. */
#include "support/support.h"

#include "backend/cpu/cpu.h"
#include "base/hash.h"
#include "base/random.h"
#include "tensor/ops.h"

#define N_OUT 43
#define N_IN 512
#define STORE_MAX 32

/* A store in memory. */
typedef struct shelf {
    tdm_panels panels;
    tdm_panel_record records[STORE_MAX];
    uint8_t *data[STORE_MAX]; /* aligned */
    size_t n, n_taken;
    bool is_full; /* take gives */
    bool is_refused;
} shelf;

static const uint8_t *shelf_take(tdm_panels *panels, const tdm_panel_record *record) {
    shelf *s = (shelf *)(void *)panels;
    if (!s->is_full || s->is_refused) {
        return NULL;
    }
    assert_true(s->n_taken < s->n);
    assert_memory_equal(record, &s->records[s->n_taken], sizeof *record);
    return s->data[s->n_taken++];
}

static void shelf_put(tdm_panels *panels, const tdm_panel_record *record, const uint8_t *data) {
    shelf *s = (shelf *)(void *)panels;
    assert_true(s->n < STORE_MAX);
    s->records[s->n] = *record;
    s->data[s->n] = tdm_mem_alloc_aligned(NULL, record->bytes, 64);
    assert_non_null(s->data[s->n]);
    memcpy(s->data[s->n++], data, record->bytes);
}

static void shelf_refuse(tdm_panels *panels) {
    ((shelf *)(void *)panels)->is_refused = true;
}

static const tdm_panels_ops SHELF = {shelf_take, shelf_put, shelf_refuse};

static void shelf_empty(shelf *s) {
    for (size_t i = 0; i < s->n; i++) {
        tdm_mem_free_aligned(NULL, s->data[i], s->records[i].bytes, 64);
    }
    *s = (shelf){.panels = {&SHELF}};
}

static const tdm_dtype TYPES[] = {
    TDM_DTYPE_Q4_0,   TDM_DTYPE_Q4_1,   TDM_DTYPE_Q5_0,    TDM_DTYPE_Q5_1,  TDM_DTYPE_Q8_0,
    TDM_DTYPE_Q2_K,   TDM_DTYPE_Q3_K,   TDM_DTYPE_Q4_K,    TDM_DTYPE_Q5_K,  TDM_DTYPE_Q6_K,
    TDM_DTYPE_IQ4_NL, TDM_DTYPE_IQ4_XS, TDM_DTYPE_IQ2_XXS, TDM_DTYPE_IQ2_S, TDM_DTYPE_IQ3_S,
    TDM_DTYPE_IQ1_S,  TDM_DTYPE_TQ1_0,  TDM_DTYPE_MXFP4};

typedef struct rig {
    tdm_backend *be;
    tdm_alloc_tracker tracker;
    uint8_t *bytes; /* of the weight of each type */
    float x[N_IN];
} rig;

static void rig_open(rig *r, const char *isa, tdm_tier tier) {
    const tdm_cpu_options options = {.tier = tier, .isa = isa, .n_threads = 2};
    memset(r, 0, sizeof *r);
    tdm_alloc_tracker_init(&r->tracker, NULL);
    assert_int_equal(tdm_cpu_backend_create(&r->be, &r->tracker.alloc, &options, NULL), TDM_OK);
    assert_int_equal(r->be->ops->reserve(r->be, 1, N_IN, NULL), TDM_OK);
    r->bytes = malloc((size_t)N_OUT * N_IN * 2);
    assert_non_null(r->bytes);
    for (size_t i = 0; i < N_IN; i++) {
        r->x[i] = (float)tdm_random_f64(3, 0, 0, (uint32_t)i) - 0.5f;
    }
}

static void rig_close(rig *r) {
    free(r->bytes);
    r->be->ops->destroy(r->be);
    assert_int_equal(r->tracker.n_live, 0);
}

/* Any bits are integers of a block; scales come out finite because no half has all exponent bits. */
static tdm_tensor_view view_of(rig *r, tdm_dtype dtype) {
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    const size_t bytes = (size_t)N_OUT * (N_IN / info->block_weights * info->block_bytes);
    for (size_t i = 0; i < bytes; i++) {
        r->bytes[i] = (uint8_t)(tdm_random_u64(9, (uint32_t)dtype, 0, (uint32_t)i) & 0x3b);
    }
    return (tdm_tensor_view){
        .dtype = dtype, .rank = 2, .dims = {N_OUT, N_IN}, .data = r->bytes, .bytes = bytes};
}

static void multiply(rig *r, const tdm_weight *w, float out[N_OUT]) {
    const tdm_linear_part part = {.weight = w, .out = out, .ld_out = N_OUT};
    memset(out, 0, N_OUT * sizeof *out);
    tdm_op_linear(r->be, r->x, N_IN, 1, &part, 1);
}

static void panels_of_a_store_have_the_same_bits(void **state) {
    shelf s = {.panels = {&SHELF}};
    rig r;
    (void)state;
    if (!tdm_cpu_isa_is_present(TDM_CPU_ISA_AVX2)) {
        SUPPORT_SKIP(SUPPORT_REASON_NO_ISA);
    }
    rig_open(&r, NULL, TDM_TIER_FAST);
    assert_non_null(r.be->ops->panel_layout(r.be));
    r.be->panels = &s.panels;
    for (size_t i = 0; i < SUPPORT_LEN(TYPES); i++) {
        const tdm_tensor_view view = view_of(&r, TYPES[i]);
        tdm_weight packed;
        tdm_weight taken;
        float want[N_OUT];
        float have[N_OUT];
        assert_int_equal(tdm_weight_init(r.be, &view, &packed, NULL), TDM_OK);
        assert_int_equal(s.n, 1);
        assert_int_equal(s.records[0].bytes, packed.packed_bytes);
        s.is_full = true;
        const size_t live = r.tracker.live_bytes;
        assert_int_equal(tdm_weight_init(r.be, &view, &taken, NULL), TDM_OK);
        assert_int_equal(r.tracker.live_bytes, live);
        assert_ptr_equal(taken.packed, s.data[0]);
        assert_int_equal(s.n, 1);
        multiply(&r, &packed, want);
        multiply(&r, &taken, have);
        assert_memory_equal(have, want, sizeof want);
        tdm_weight_deinit(r.be, &taken);
        tdm_weight_deinit(r.be, &packed);
        shelf_empty(&s);
    }
    rig_close(&r);
}

static void bytes_of_another_weight_are_noticed(void **state) {
    shelf s = {.panels = {&SHELF}};
    rig r;
    tdm_weight w;
    float want[N_OUT];
    float have[N_OUT];
    (void)state;
    if (!tdm_cpu_isa_is_present(TDM_CPU_ISA_AVX2)) {
        SUPPORT_SKIP(SUPPORT_REASON_NO_ISA);
    }
    rig_open(&r, NULL, TDM_TIER_FAST);
    const tdm_tensor_view view = view_of(&r, TDM_DTYPE_Q4_K);
    r.be->panels = &s.panels;
    assert_int_equal(tdm_weight_init(r.be, &view, &w, NULL), TDM_OK);
    multiply(&r, &w, want);
    tdm_weight_deinit(r.be, &w);
    s.is_full = true;
    s.data[0][s.records[0].bytes / 2] ^= 1; /* in the panel that is looked at */
    assert_int_equal(tdm_weight_init(r.be, &view, &w, NULL), TDM_OK);
    assert_true(s.is_refused);
    assert_ptr_not_equal(w.packed, s.data[0]);
    multiply(&r, &w, have);
    assert_memory_equal(have, want, sizeof want);
    tdm_weight_deinit(r.be, &w);
    shelf_empty(&s);
    rig_close(&r);
}

static void tiers_without_panels_ask_no_store(void **state) {
    rig r;
    (void)state;
    rig_open(&r, "scalar", TDM_TIER_FAST);
    assert_null(r.be->ops->panel_layout(r.be));
    rig_close(&r);
    rig_open(&r, NULL, TDM_TIER_EXACT);
    assert_null(r.be->ops->panel_layout(r.be));
    rig_close(&r);
}

/* 4 bits, and a scale and a min for each 64: in as many bytes as the file where 16 bits hold them. Rows
 * that a panel of sixteen lacks are paid for. */
static void numbers_take_no_more_than_they_need(void **state) {
    static const tdm_dtype SCALES[] = {TDM_DTYPE_BF16, TDM_DTYPE_F16, TDM_DTYPE_F32};
    const int64_t n_in = 256;
    rig r;
    (void)state;
    if (!tdm_cpu_isa_is_present(TDM_CPU_ISA_AVX2)) {
        SUPPORT_SKIP(SUPPORT_REASON_NO_ISA);
    }
    rig_open(&r, NULL, TDM_TIER_FAST);
    for (size_t i = 0; i < SUPPORT_LEN(SCALES); i++) {
        const size_t number = SCALES[i] == TDM_DTYPE_F32 ? 4 : 2;
        const tdm_weight_source source = {
            .mode = TDM_WEIGHT_AFFINE,
            .bits = 4,
            .group = 64,
            .view = {TDM_DTYPE_U32, 2, {17, n_in / 8}, r.bytes, (size_t)(17 * n_in / 2)},
            .scales = {SCALES[i], 2, {17, n_in / 64}, r.bytes, 17 * 4 * number},
            .biases = {SCALES[i], 2, {17, n_in / 64}, r.bytes, 17 * 4 * number}};
        tdm_weight w;
        memset(r.bytes, 0, (size_t)N_OUT * N_IN);
        assert_int_equal(tdm_weight_init_source(r.be, &source, &w, NULL), TDM_OK);
        assert_int_equal(w.packed_bytes, 32 * (256 / 2 + 4 * 2 * number));
        tdm_weight_deinit(r.be, &w);
    }
    rig_close(&r);
}

/* Another sum under the same version would let an older file stand for panels that it is not. When
 * this fails, raise TDM_AVX2_PANELS's version, and put both numbers here. */
static void a_version_has_its_bytes(void **state) {
    static const struct {
        uint32_t version;
        uint64_t hash;
    } KNOWN = {4, UINT64_C(0xa8b46f31afaa6b45)};
    shelf s = {.panels = {&SHELF}};
    rig r;
    uint64_t hash = 0;
    (void)state;
    if (!tdm_cpu_isa_is_present(TDM_CPU_ISA_AVX2)) {
        SUPPORT_SKIP(SUPPORT_REASON_NO_ISA);
    }
    rig_open(&r, "avx2", TDM_TIER_FAST);
    r.be->panels = &s.panels;
    for (size_t i = 0; i < SUPPORT_LEN(TYPES); i++) {
        const tdm_tensor_view view = view_of(&r, TYPES[i]);
        tdm_weight w;
        assert_int_equal(tdm_weight_init(r.be, &view, &w, NULL), TDM_OK);
        tdm_weight_deinit(r.be, &w);
        hash = tdm_hash64_seeded(&s.records[i], sizeof s.records[i], hash);
        hash = tdm_hash64_seeded(s.data[i], s.records[i].bytes, hash);
    }
    assert_int_equal(hash, KNOWN.hash);
    assert_int_equal(r.be->ops->panel_layout(r.be)->version, KNOWN.version);
    shelf_empty(&s);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_of_a_store_have_the_same_bits),
        cmocka_unit_test(bytes_of_another_weight_are_noticed),
        cmocka_unit_test(tiers_without_panels_ask_no_store),
        cmocka_unit_test(numbers_take_no_more_than_they_need),
        cmocka_unit_test(a_version_has_its_bytes),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
