/* SPDX-License-Identifier: Apache-2.0
 *
 * What an indexer chooses, over more positions than it scores at once, against all scores and one
 * cut; and which tokens get no list. Rows of several sequences in one step choose as alone. */
#include "model/blocks/indexer.h"

#include "backend/cpu/cpu.h"
#include "base/random.h"
#include "cache/cache.h"
#include "model/blocks/topk.h"
#include "support/support.h"
#include "tensor/ops.h"

#define DIM 12
#define HEADS 3
#define TOP_K 40
#define POSITIONS (2 * TDM_CHOICE_PIECE + 77)
#define TOKENS 5

static float noise(uint64_t seed, uint32_t i) {
    return (float)(int32_t)(uint32_t)tdm_random_u64(seed, 0, i, 0) / 2147483648.0F;
}

/* A cache of n positions with noise for keys; the last TOKENS are begun, not committed. */
static tdm_cache *filled(tdm_backend *backend, int64_t n, uint64_t seed,
                         const tdm_kv_pages **out_pages) {
    const tdm_kv_geometry geometry = {.dtype = TDM_DTYPE_F32,
                                      .n_kv_heads = 1,
                                      .head_dim = 8,
                                      .value_dim = 8,
                                      .append_max = POSITIONS,
                                      .is_latent = true,
                                      .index_dim = DIM};
    tdm_cache *cache = NULL;
    float *keys = calloc((size_t)n * DIM, sizeof *keys);
    float *rows = calloc((size_t)n * 8, sizeof *rows);
    assert_non_null(keys);
    assert_non_null(rows);
    for (uint32_t i = 0; i < (uint32_t)n * DIM; i++) {
        keys[i] = noise(seed, i / 7); /* runs of equal values: equal scores too */
    }
    assert_int_equal(tdm_cache_create(NULL, &geometry, &cache, NULL), TDM_OK);
    assert_int_equal(cache->ops->reserve(cache, n, NULL), TDM_OK);
    *out_pages = cache->ops->begin(cache, n);
    const tdm_kv_write_span span = {
        .pages = *out_pages, .k = rows, .index = keys, .ld_k = 8, .ld_index = DIM, .n = (int32_t)n};
    tdm_op_kv_write(backend, &span, 1);
    free(rows);
    free(keys);
    return cache;
}

/* All scores of token at pos at once, and one cut. */
static void expect_list(tdm_backend *backend, const tdm_kv_pages *pages, const float *q,
                        const float *weights, int64_t pos, const int32_t *list) {
    static float scores[POSITIONS];
    static int32_t ids[POSITIONS];
    const tdm_index_span ask = {.pages = pages,
                                .q = q,
                                .weights = weights,
                                .out = scores,
                                .n = (int32_t)pos + 1,
                                .n_heads = HEADS};
    tdm_op_index_scores(backend, &ask, 1);
    for (int32_t i = 0; i <= pos; i++) {
        ids[i] = i;
    }
    assert_int_equal(tdm_topk_keep(scores, ids, pos + 1, TOP_K), TOP_K);
    assert_memory_equal(list, ids, TOP_K * sizeof *ids);
}

static void chooses_as_all_at_once(void **state) {
    static const int64_t ENDS[] = {POSITIONS, TOP_K + 2, TDM_CHOICE_PIECE + 3};
    enum { N_ROWS = SUPPORT_LEN(ENDS), N = N_ROWS * TOKENS };
    const tdm_cpu_options cpu = {.tier = TDM_TIER_EXACT, .n_threads = 2};
    const tdm_indexer_block block = {.n_heads = HEADS, .dim = DIM};
    static float q[N * HEADS * DIM];
    static float weights[N * HEADS];
    static float scores[TOP_K + TDM_CHOICE_PIECE];
    static int32_t ids[TOP_K + TDM_CHOICE_PIECE];
    static int32_t lists[N * TOP_K];
    tdm_kv_write_span spans[N_ROWS];
    tdm_cache *caches[N_ROWS];
    tdm_backend *backend = NULL;
    tdm_scratch scratch = {
        .write_spans = spans,
        .choice = {.top_k = TOP_K, .lists = lists, .scores = scores, .ids = ids}};
    (void)state;
    assert_int_equal(tdm_cpu_backend_create(&backend, NULL, &cpu, NULL), TDM_OK);
    assert_int_equal(backend->ops->reserve(backend, N, 64, NULL), TDM_OK);
    const tdm_step_ctx ctx = {
        .backend = backend, .scratch = &scratch, .n_rows = N_ROWS, .n_tokens = N};
    const tdm_indexer_planes planes = {.q = q, .weights = weights};
    for (uint32_t i = 0; i < SUPPORT_LEN(q); i++) {
        q[i] = noise(1, i);
    }
    for (uint32_t i = 0; i < SUPPORT_LEN(weights); i++) {
        weights[i] = noise(2, i);
    }
    memset(lists, 0xff, sizeof lists);
    for (int r = 0; r < N_ROWS; r++) {
        const tdm_kv_pages *pages = NULL;
        caches[r] = filled(backend, ENDS[r], (uint64_t)r + 3, &pages);
        spans[r] = (tdm_kv_write_span){.pages = pages, .pos0 = ENDS[r] - TOKENS, .n = TOKENS};
    }
    tdm_indexer_choose(&block, &ctx, &planes);
    for (int t = 0; t < N; t++) {
        const tdm_kv_write_span *row = &spans[t / TOKENS];
        int64_t pos = row->pos0 + t % TOKENS;
        if (pos < TOP_K) {
            assert_int_equal(lists[t * TOP_K], -1); /* it sees everything: nobody wrote a list */
        } else {
            expect_list(backend, row->pages, q + t * HEADS * DIM, weights + t * HEADS, pos,
                        lists + t * TOP_K);
        }
    }
    assert_int_equal(lists[(TOKENS + 1) * TOP_K], -1); /* both kinds were there */
    assert_true(lists[(2 * TOKENS - 1) * TOP_K] >= 0);
    for (int r = 0; r < N_ROWS; r++) {
        caches[r]->ops->destroy(caches[r]);
    }
    backend->ops->destroy(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_as_all_at_once),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
