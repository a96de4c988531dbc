/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kind of cache through the kit; then what only a sliding one does, against a full one with a
 * mask. */
#include "contract/recurrent_kit.h"

#include "cache/cache.h"

static tdm_kv_geometry geometry_of(tdm_dtype dtype, int32_t window, int32_t append_max) {
    return (tdm_kv_geometry){.dtype = dtype,
                             .n_kv_heads = 2,
                             .head_dim = 6,
                             .value_dim = 4,
                             .window = window,
                             .append_max = append_max};
}

/* A row of 12 of which 8 are the value, and perhaps an indexer's key of 5. */
static tdm_kv_geometry latent_of(tdm_dtype dtype, int32_t index_dim) {
    return (tdm_kv_geometry){.dtype = dtype,
                             .n_kv_heads = 1,
                             .head_dim = 12,
                             .value_dim = 8,
                             .append_max = 13,
                             .is_latent = true,
                             .index_dim = index_dim};
}

static void test_full(void **state) {
    const tdm_dtype dtypes[] = {TDM_DTYPE_F32, TDM_DTYPE_BF16};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(dtypes); i++) {
        const tdm_kv_geometry geometry = geometry_of(dtypes[i], 0, 13);
        cache_kit_run(tdm_cache_full_create, &geometry);
    }
}

static void test_latent(void **state) {
    (void)state;
    for (int32_t index_dim = 0; index_dim <= 5; index_dim += 5) {
        const tdm_kv_geometry f32 = latent_of(TDM_DTYPE_F32, index_dim);
        const tdm_kv_geometry bf16 = latent_of(TDM_DTYPE_BF16, index_dim);
        cache_kit_run(tdm_cache_create, &f32);
        cache_kit_run(tdm_cache_create, &bf16);
        /* One row, not a key and a value; whole pages of 256. */
        assert_int_equal(tdm_cache_plan(&f32, 257), 512 * (12 + index_dim) * 4);
        assert_int_equal(tdm_cache_plan(&bf16, 1), 256 * (12 * 2 + index_dim * 4));
    }
}

static void test_sliding(void **state) {
    const int32_t windows[] = {1, 8, 64, 65, 200};
    const int32_t appends[] = {1, 13, 64};
    (void)state;
    for (size_t w = 0; w < SUPPORT_LEN(windows); w++) {
        for (size_t a = 0; a < SUPPORT_LEN(appends); a++) {
            const tdm_dtype dtype = (w + a) % 2 == 0 ? TDM_DTYPE_F32 : TDM_DTYPE_BF16;
            const tdm_kv_geometry geometry = geometry_of(dtype, windows[w], appends[a]);
            cache_kit_run(tdm_cache_sliding_create, &geometry);
        }
    }
}

static void test_recurrent(void **state) {
    const int32_t appends[] = {1, 13, 16, 64};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(appends); i++) {
        const tdm_kv_geometry geometry = {.append_max = appends[i],
                                          .state_values = 21 * (int64_t)i, /* first: rows alone */
                                          .row_values = 3 + (int64_t)i,
                                          .n_tail = i == 0 ? 2 : (int32_t)i - 1};
        tdm_cache *cache = NULL;
        tdm_error err;
        recurrent_kit_run(tdm_cache_create, &geometry, TDM_CACHE_RECURRENT_UNDO);
        assert_int_equal(tdm_cache_create(NULL, &geometry, &cache, &err), TDM_OK);
        assert_string_equal(cache->ops->signature, "recurrent/f32");
        assert_string_equal(tdm_cache_kind(&geometry), "recurrent");
        assert_int_equal(tdm_cache_plan(&geometry, 1), tdm_cache_plan(&geometry, 100000));
        cache->ops->destroy(cache);
    }
}

static const struct {
    const char *name;
    int32_t window;
    bool is_latent;
    int32_t index_dim;
} KINDS[] = {{"full", 0, false, 0},
             {"sliding", 8, false, 0},
             {"latent", 0, true, 0},
             {"latent+index", 0, true, 5}};

static tdm_kv_geometry geometry_at(size_t kind, tdm_dtype dtype) {
    return KINDS[kind].is_latent ? latent_of(dtype, KINDS[kind].index_dim)
                                 : geometry_of(dtype, KINDS[kind].window, 13);
}

/* tdm_cache_create picks the kind by the geometry. */
static void test_either(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(KINDS); i++) {
        const tdm_kv_geometry geometry = geometry_at(i, TDM_DTYPE_F32);
        tdm_cache *cache = NULL;
        tdm_error err;
        cache_kit_run(tdm_cache_create, &geometry);
        assert_int_equal(tdm_cache_create(NULL, &geometry, &cache, &err), TDM_OK);
        const char *kind = tdm_cache_kind(&geometry);
        assert_string_equal(kind, KINDS[i].name);
        assert_memory_equal(cache->ops->signature, kind, strlen(kind));
        assert_string_equal(cache->ops->signature + strlen(kind), "/f32");
        for (int64_t n = 0; n < 1000; n += 37) {
            assert_int_equal(tdm_cache_plan(&geometry, n), cache->ops->plan(&geometry, n));
        }
        cache->ops->destroy(cache);
    }
}

/* C5: two kinds never share a signature, and it is the same text every time. */
static void test_signatures(void **state) {
    const char *seen[2 * SUPPORT_LEN(KINDS)];
    size_t n = 0;
    (void)state;
    for (size_t kind = 0; kind < 2 * SUPPORT_LEN(KINDS); kind++) {
        const tdm_kv_geometry geometry =
            geometry_at(kind / 2, kind % 2 == 0 ? TDM_DTYPE_F32 : TDM_DTYPE_BF16);
        tdm_cache *a = NULL;
        tdm_cache *b = NULL;
        tdm_error err;
        assert_int_equal(tdm_cache_create(NULL, &geometry, &a, &err), TDM_OK);
        assert_int_equal(tdm_cache_create(NULL, &geometry, &b, &err), TDM_OK);
        assert_ptr_equal(a->ops->signature, b->ops->signature);
        for (size_t i = 0; i < n; i++) {
            assert_string_not_equal(seen[i], a->ops->signature);
        }
        seen[n++] = a->ops->signature;
        a->ops->destroy(a);
        b->ops->destroy(b);
    }
}

/* Window 8, 50 tokens in chunks: at each query a sliding cache shows what a full one shows under
 * the mask, for every chunk size. */
static void test_sliding_against_full(void **state) {
    const tdm_kv_geometry sliding = geometry_of(TDM_DTYPE_F32, 8, 13);
    const tdm_kv_geometry full = geometry_of(TDM_DTYPE_F32, 0, 13);
    (void)state;
    for (int64_t chunk = 1; chunk <= 13; chunk++) {
        tdm_cache *a = NULL;
        tdm_cache *b = NULL;
        tdm_error err;
        assert_int_equal(tdm_cache_create(NULL, &sliding, &a, &err), TDM_OK);
        assert_int_equal(tdm_cache_create(NULL, &full, &b, &err), TDM_OK);
        for (int64_t at = 0; at < 50; at += chunk) {
            const int64_t n = 50 - at < chunk ? 50 - at : chunk;
            assert_int_equal(a->ops->reserve(a, n, &err), TDM_OK);
            assert_int_equal(b->ops->reserve(b, n, &err), TDM_OK);
            const tdm_kv_pages *pa = a->ops->begin(a, n);
            const tdm_kv_pages *pb = b->ops->begin(b, n);
            for (int64_t p = at; p < at + n; p++) {
                (void)cache_kit_row(pa, p, (uint32_t)p + 1, true);
                (void)cache_kit_row(pb, p, (uint32_t)p + 1, true);
            }
            for (int64_t q = at; q < at + n; q++) {
                for (int64_t p = q - 7 > 0 ? q - 7 : 0; p <= q; p++) {
                    assert_true(cache_kit_row(pa, p, (uint32_t)p + 1, false));
                    assert_true(cache_kit_row(pb, p, (uint32_t)p + 1, false));
                }
            }
            a->ops->commit(a, n);
            b->ops->commit(b, n);
        }
        assert_int_equal(a->ops->length(a), 50);
        a->ops->destroy(a);
        b->ops->destroy(b);
    }
}

/* A sliding cache stops growing, and keeps the slack that a verify round may undo. */
static void test_sliding_is_bounded(void **state) {
    const tdm_kv_geometry geometry = geometry_of(TDM_DTYPE_F32, 100, 13);
    size_t bytes_at_1000 = 0;
    tdm_cache *cache = NULL;
    tdm_error err;
    (void)state;
    assert_int_equal(tdm_cache_create(NULL, &geometry, &cache, &err), TDM_OK);
    for (int64_t length = 0; length < 4000; length += 13) {
        assert_int_equal(cache->ops->reserve(cache, 13, &err), TDM_OK);
        (void)cache->ops->begin(cache, 13);
        cache->ops->commit(cache, 13);
        bytes_at_1000 = length < 1000 ? cache->ops->bytes(cache) : bytes_at_1000;
        assert_true(cache->ops->can_trim(cache, length < 64 ? length : 64));
    }
    assert_int_equal(cache->ops->bytes(cache), bytes_at_1000);
    assert_false(cache->ops->can_trim(cache, 1000)); /* long overwritten */
    assert_int_equal(cache->ops->trim(cache, 1000, &err), TDM_E_STATE);
    cache->ops->destroy(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_latent),
        cmocka_unit_test(test_sliding),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_either),
        cmocka_unit_test(test_signatures),
        cmocka_unit_test(test_sliding_against_full),
        cmocka_unit_test(test_sliding_is_bounded),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
