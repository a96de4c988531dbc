/* SPDX-License-Identifier: Apache-2.0
 *
 * The recurrent cache: a state of one size, whatever the length of the sequence. A state cannot be
 * run backwards, and a copy of it for each position that a verify round may take back would cost
 * more than the model's keys and values (3 MiB a layer in Qwen3.5 27B). So the cache keeps one older
 * state and the inputs since then, which are some eighty times smaller, and has the positions that
 * are left after a trim computed again.
 *
 *   states   base (at n_base)   now (at length, when whole)   spare
 *   window   |<- n_tail ->|<- up to TDM_CACHE_RECURRENT_UNDO rows since n_base ->|
 *
 * An append that fits the window goes into now. One that does not moves the base: now runs up to
 * what can be taken back, becomes the base, and the rest goes into spare, rows into the other
 * window. Either way base and window stay as they are until commit, so that an append which is
 * dropped leaves a replay and no damage. */
#include "cache/cache.h"

#include <string.h>

#define N_STATES 3
#define N_WINDOWS 2

typedef struct recurrent_cache {
    tdm_cache base;
    const tdm_alloc *alloc;
    float *memory; /* states, then windows; NULL before the first reserve */
    size_t memory_bytes;
    int32_t base_idx; /* of states; now is the next one around, spare the third */
    int32_t window_idx;
    int64_t n_base; /* positions that the base holds */
    int64_t length;
    bool is_now_whole; /* now holds the state at length */
    bool is_moving;    /* the append that was begun will move the base */
    tdm_recurrent_view view;
} recurrent_cache;

/* Floats of one state or of one window, each on lines of its own. */
static int64_t padded(int64_t n_values) {
    const int64_t line = TDM_ALIGN_CACHE_LINE / (int64_t)sizeof(float);
    return (n_values + line - 1) / line * line;
}

static int64_t window_values(const tdm_kv_geometry *geometry) {
    return ((int64_t)geometry->n_tail + TDM_CACHE_RECURRENT_UNDO) * geometry->row_values;
}

static size_t memory_bytes(const tdm_kv_geometry *geometry) {
    return (size_t)(N_STATES * padded(geometry->state_values) +
                    N_WINDOWS * padded(window_values(geometry))) *
           sizeof(float);
}

size_t tdm_cache_recurrent_plan(const tdm_kv_geometry *geometry, int64_t n_positions) {
    return n_positions > 0 ? memory_bytes(geometry) : 0;
}

static float *state_at(const recurrent_cache *r, int32_t idx) {
    return r->memory + idx % N_STATES * padded(r->base.geometry.state_values);
}

static float *window_at(const recurrent_cache *r, int32_t idx) {
    return r->memory + N_STATES * padded(r->base.geometry.state_values) +
           idx % N_WINDOWS * padded(window_values(&r->base.geometry));
}

static tdm_status recurrent_reserve(tdm_cache *cache, int64_t n, tdm_error *err) {
    recurrent_cache *r = (recurrent_cache *)cache;
    const size_t bytes = memory_bytes(&cache->geometry);
    if (n == 0 || r->memory != NULL) {
        return TDM_OK;
    }
    r->memory = tdm_mem_alloc_aligned(r->alloc, bytes, TDM_ALIGN_CACHE_LINE);
    if (r->memory == NULL) {
        return tdm_fail_nomem(err, "a recurrent layer's state");
    }
    memset(r->memory, 0, bytes);
    r->memory_bytes = bytes;
    return TDM_OK;
}

static const tdm_recurrent_view *recurrent_begin(tdm_cache *cache, int64_t n) {
    recurrent_cache *r = (recurrent_cache *)cache;
    const tdm_kv_geometry *geometry = &cache->geometry;
    const int64_t n_since = r->length - r->n_base;
    const bool fits = n_since + n <= TDM_CACHE_RECURRENT_UNDO;
    const int64_t n_back = n < TDM_CACHE_RECURRENT_UNDO ? n : TDM_CACHE_RECURRENT_UNDO;
    float *window = window_at(r, r->window_idx);
    float *now = state_at(r, r->base_idx + 1);
    TDM_CHECK(n >= 1 && n <= geometry->append_max && r->memory != NULL);
    r->view = (tdm_recurrent_view){
        .from = r->is_now_whole ? now : state_at(r, r->base_idx),
        .now = now,
        .next = fits ? now : state_at(r, r->base_idx + 2),
        .rows = r->is_now_whole ? window + n_since * geometry->row_values : window,
        .keep = fits ? window + (geometry->n_tail + n_since) * geometry->row_values
                     : window_at(r, r->window_idx + 1),
        .n_replay = r->is_now_whole ? 0 : (int32_t)n_since,
        .n_now = (int32_t)(fits ? n : n - n_back),
        .n_keep = (int32_t)(fits ? n : geometry->n_tail + n_back),
    };
    r->is_moving = !fits;
    r->is_now_whole = false; /* until commit says that it is again */
    return &r->view;
}

static void recurrent_commit(tdm_cache *cache, int64_t n) {
    recurrent_cache *r = (recurrent_cache *)cache;
    if (r->is_moving) {
        r->base_idx = (r->base_idx + 1) % N_STATES;
        r->window_idx = (r->window_idx + 1) % N_WINDOWS;
        r->n_base = r->length + r->view.n_now;
    }
    r->length += n;
    r->is_now_whole = true;
}

static int64_t recurrent_length(const tdm_cache *cache) {
    return ((const recurrent_cache *)cache)->length;
}

static size_t recurrent_bytes(const tdm_cache *cache) {
    return ((const recurrent_cache *)cache)->memory_bytes;
}

static bool recurrent_can_trim(const tdm_cache *cache, int64_t n) {
    const recurrent_cache *r = (const recurrent_cache *)cache;
    return n >= 0 && n <= r->length - r->n_base;
}

static tdm_status recurrent_trim(tdm_cache *cache, int64_t n, tdm_error *err) {
    recurrent_cache *r = (recurrent_cache *)cache;
    if (!recurrent_can_trim(cache, n)) {
        (void)tdm_fail(err, TDM_E_STATE, "cannot trim %lld positions of a recurrent layer",
                       (long long)n);
        tdm_err_limit(err, "the last %lld", (long long)(r->length - r->n_base));
        return TDM_E_STATE;
    }
    r->length -= n;
    r->is_now_whole = r->is_now_whole && n == 0;
    return TDM_OK;
}

static bool recurrent_check(const tdm_cache *cache) {
    const recurrent_cache *r = (const recurrent_cache *)cache;
    const int64_t n_since = r->length - r->n_base;
    const bool is_sized = r->memory != NULL ? r->memory_bytes == memory_bytes(&cache->geometry)
                                            : r->memory_bytes == 0 && r->length == 0;
    return is_sized && r->n_base >= 0 && n_since >= 0 && n_since <= TDM_CACHE_RECURRENT_UNDO &&
           r->base_idx >= 0 && r->base_idx < N_STATES && r->window_idx >= 0 &&
           r->window_idx < N_WINDOWS;
}

static void recurrent_destroy(tdm_cache *cache) {
    recurrent_cache *r = (recurrent_cache *)cache;
    if (r != NULL) {
        tdm_mem_free_aligned(r->alloc, r->memory, r->memory_bytes, TDM_ALIGN_CACHE_LINE);
        tdm_mem_free(r->alloc, r, sizeof *r);
    }
}

static const tdm_cache_ops RECURRENT_OPS = {
    .signature = "recurrent/f32",
    .plan = tdm_cache_recurrent_plan,
    .reserve = recurrent_reserve,
    .commit = recurrent_commit,
    .length = recurrent_length,
    .bytes = recurrent_bytes,
    .can_trim = recurrent_can_trim,
    .trim = recurrent_trim,
    .check = recurrent_check,
    .destroy = recurrent_destroy,
    .begin_state = recurrent_begin,
};

tdm_status tdm_cache_recurrent_create(const tdm_alloc *alloc, const tdm_kv_geometry *geometry,
                                      tdm_cache **out_cache, tdm_error *err) {
    recurrent_cache *r = NULL;
    *out_cache = NULL;
    TDM_CHECK(geometry->state_values >= 0 && geometry->row_values > 0 && geometry->n_tail >= 0);
    TDM_CHECK(geometry->append_max >= 1);
    r = tdm_mem_calloc(alloc, 1, sizeof *r);
    if (r == NULL) {
        return tdm_fail_nomem(err, "a cache");
    }
    r->base.ops = &RECURRENT_OPS;
    r->base.geometry = *geometry;
    r->alloc = alloc;
    *out_cache = &r->base;
    return TDM_OK;
}
