/* SPDX-License-Identifier: Apache-2.0
 *
 * Wide BF16 products on AMX tiles: whole groups of sixteen tokens. An instruction multiplies sixteen
 * weight rows by sixteen tokens over 32 columns, in the order that cpu_priv.h calls two chains, and adds
 * to the tile; so the accumulator of an output stays in its tile over all columns, and one token alone
 * (avx512/two_chains.c) has the same bits.
 *
 *     A  16 rows x 64 bytes of weights     B  16 pairs of columns x 16 tokens     C  [row][token]
 *
 * Two by two tiles: 32 rows against two groups. Rows go by pieces of K_BLOCK columns that are copied
 * behind each other first (rows lie a power of two apart and would share sets of the first-level
 * cache), and while the groups pass, the sums of unfinished tiles wait in scratch. */
#include "backend/cpu/amx/amx_priv.h"

#include "backend/cpu/amx/tiles_inl.h"
#include "backend/cpu/avx512/pairs_inl.h"

#include <string.h>

#define TILE 16
#define TILE_BYTES 1024
#define K_BLOCK 512
#define BLOCK_STEPS (K_BLOCK / 32)

/* Within TDM_CPU_WIDE_SCRATCH. */
typedef struct wide_scratch {
    _Alignas(
        64) uint16_t weights[BLOCK_STEPS][2][TILE][32]; /* by columns, then upper and lower rows */
    _Alignas(64) float sums[TDM_CPU_WIDE_GROUPS][2][TILE][TDM_CPU_GROUP_TOKENS];
} wide_scratch;

_Static_assert(sizeof(wide_scratch) <= TDM_CPU_WIDE_SCRATCH, "wide BF16 products' scratch");

/* Columns [k0, k1) of 32 rows from o on; past the last they repeat it, and past k1 there are zeros. */
static void weights_copy(const tdm_weight *w, int64_t o, int64_t n_rows, int64_t k0, int64_t k1,
                         wide_scratch *s) {
    for (int64_t r = 0; r < 2 * TILE; ++r) {
        const uint8_t *row = w->data + (size_t)(o + tdm_cpu_min(r, n_rows - 1)) * w->row_bytes;
        for (int64_t k = k0; k < k1; k += 32) {
            const int64_t left = tdm_cpu_min(32, k1 - k);
            const __mmask32 mask = left == 32 ? 0xffffffffu : (__mmask32)((1u << left) - 1u);
            _mm512_store_si512(s->weights[(k - k0) / 32][r / TILE][r % TILE],
                               _mm512_maskz_loadu_epi16(mask, row + 2 * k));
        }
    }
}

/* Loads of tiles do not tell gcc 12 that they read memory. */
static inline void stores_are_done(void) {
    __asm__ volatile("" : : : "memory");
}

/* n_steps instructions for each of four tiles; sums are those of the first of two groups, whose
 * activations from the same column on are x and next. */
static void two_groups(const wide_scratch *s, int64_t n_steps, const uint16_t *x,
                       const uint16_t *next, float (*sums)[2][TILE][TDM_CPU_GROUP_TOKENS]) {
    _tile_loadd(0, sums[0][0], 64);
    _tile_loadd(1, sums[1][0], 64);
    _tile_loadd(2, sums[0][1], 64);
    _tile_loadd(3, sums[1][1], 64);
    for (int64_t i = 0; i < n_steps; ++i) {
        _tile_loadd(4, s->weights[i][0], 64);
        _tile_loadd(5, x + i * TILE_BYTES / 2, 64);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(7, next + i * TILE_BYTES / 2, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(6, s->weights[i][1], 64);
        _tile_dpbf16ps(2, 6, 5);
        _tile_dpbf16ps(3, 6, 7);
    }
    _tile_stored(0, sums[0][0], 64);
    _tile_stored(1, sums[1][0], 64);
    _tile_stored(2, sums[0][1], 64);
    _tile_stored(3, sums[1][1], 64);
}

static void one_group(const wide_scratch *s, int64_t n_steps, const uint16_t *x,
                      float (*sums)[2][TILE][TDM_CPU_GROUP_TOKENS]) {
    _tile_loadd(0, sums[0][0], 64);
    _tile_loadd(2, sums[0][1], 64);
    for (int64_t i = 0; i < n_steps; ++i) {
        _tile_loadd(4, s->weights[i][0], 64);
        _tile_loadd(5, x + i * TILE_BYTES / 2, 64);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(6, s->weights[i][1], 64);
        _tile_dpbf16ps(2, 6, 5);
    }
    _tile_stored(0, sums[0][0], 64);
    _tile_stored(2, sums[0][1], 64);
}

/* A tile's sums, turned over, to sixteen tokens from t on. */
static void tile_store(const tdm_cpu_linear_job *job, int64_t o, int64_t n_rows, int64_t t,
                       float (*sums)[TDM_CPU_GROUP_TOKENS]) {
    const __mmask16 mask = (__mmask16)((1u << n_rows) - 1u);
    __m512i v[TILE];
    for (int r = 0; r < TILE; ++r) {
        v[r] = _mm512_load_si512(sums[r]);
    }
    turn16(v);
    for (int i = 0; i < TDM_CPU_GROUP_TOKENS; ++i) {
        float *out = job->out + (t + i) * job->ld_out + o;
        __m512 product = _mm512_castsi512_ps(v[i]);
        if (job->bias != NULL) {
            product = _mm512_add_ps(product, _mm512_maskz_loadu_ps(mask, job->bias + o));
        }
        if (job->is_added) {
            product = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), product);
        }
        _mm512_mask_storeu_ps(out, mask, product);
    }
}

/* 32 rows from o on, of which n_rows exist, against groups [g0, g1), TDM_CPU_WIDE_GROUPS at most. */
static void rows_run(const tdm_cpu_linear_job *job, int64_t o, int64_t n_rows, int64_t g0,
                     int64_t g1, wide_scratch *s) {
    const int64_t n_in = job->weight->n_in;
    const int64_t group_ld = TDM_CPU_GROUP_TOKENS * job->x16->ld;
    memset(s->sums, 0, sizeof s->sums);
    for (int64_t k = 0; k < n_in; k += K_BLOCK) {
        const int64_t end = tdm_cpu_min(n_in, k + K_BLOCK);
        const int64_t n_steps = (end - k + 31) / 32;
        weights_copy(job->weight, o, n_rows, k, end, s);
        stores_are_done();
        for (int64_t g = g0; g < g1; g += 2) {
            const uint16_t *x = job->x16->q + g * group_ld + k / 32 * (TILE_BYTES / 2);
            if (g + 1 < g1) {
                two_groups(s, n_steps, x, x + group_ld, s->sums + (g - g0));
            } else {
                one_group(s, n_steps, x, s->sums + (g - g0));
            }
        }
    }
    for (int64_t g = g0; g < g1; ++g) {
        const int64_t t = g * TDM_CPU_GROUP_TOKENS;
        tile_store(job, o, tdm_cpu_min(TILE, n_rows), t, s->sums[g - g0][0]);
        if (n_rows > TILE) {
            tile_store(job, o + TILE, n_rows - TILE, t, s->sums[g - g0][1]);
        }
    }
}

void tdm_amx_linear_bf16_wide(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                              int64_t group0, int64_t group1, void *scratch) {
    tiles_configure(64);
    for (int64_t g = group0; g < group1; g += TDM_CPU_WIDE_GROUPS) {
        for (int64_t o = row0; o < row1; o += 2 * TILE) {
            rows_run(job, o, tdm_cpu_min(2 * TILE, row1 - o), g,
                     tdm_cpu_min(group1, g + TDM_CPU_WIDE_GROUPS), scratch);
        }
    }
    _tile_release();
}

bool tdm_amx_is_bf16(const tdm_weight *w) {
    return w->mode == TDM_WEIGHT_PLAIN && w->dtype == TDM_DTYPE_BF16;
}
