/* SPDX-License-Identifier: Apache-2.0
 *
 * Opened panels against tokens in eights: tiles, pieces of columns, storing. A file that includes
 * this gives first
 *     BATCH_FLIP(form)   added to each byte of an opened panel without a carry
 *     BATCH_ZERO(form)   the zero point that remains then
 *     batch_sums(form, zero, n, w, x8, starts, t0, sums, lasts)
 *                        a block of sixteen rows by n tokens of eight from t0 on, [half][token];
 *                        lasts gets the last halves' sums where a form has pairs of scales
 * and finds batch_products afterwards. The order of every f32 sum is that of
 * cpu_priv.h, so that neither tiles nor pieces change a bit.
 *
 * A panel is read from its first to its last column, and all tokens meet a piece of it before the
 * next piece is opened: the panel stays one stream of memory, and sums wait in scratch. */
#ifndef BATCH_FLIP
#error "define BATCH_FLIP, BATCH_ZERO and batch_sums first"
#endif

/* Sums of one panel and eight tokens. */
typedef struct batch_acc {
    _Alignas(32) float v[TDM_CPU_EIGHT_TOKENS][PANEL_ROWS];
} batch_acc;

/* Scratch of a call: an opened piece, then sums, then sixteen tokens in eights if the call makes them. */
#define BATCH_OPENED (BATCH_BLOCKS * sizeof(batch_block))
#define BATCH_SCRATCH                                                                              \
    (BATCH_OPENED + TDM_CPU_BATCH_TOKENS / TDM_CPU_EIGHT_TOKENS * sizeof(batch_acc))

_Static_assert(BATCH_SCRATCH <= TDM_CPU_DENSE_SCRATCH, "beside tokens in eights");

/* Tokens of a call, TDM_CPU_BATCH_TOKENS at most; the last eight may have fewer. */
typedef struct batch_x {
    const tdm_cpu_x8_eight *eights; /* [.., n_in / 32] */
    int64_t tok0;
    int64_t n;
} batch_x;

/* What a tile reads and writes. */
typedef struct batch_piece {
    const uint8_t *opened;
    int64_t n_blocks;
    const tdm_cpu_x8_eight *x8;
    const uint8_t *ahead; /* NULL, or asked for, a block's bytes a block: the next piece */
    int ahead_bytes;
    batch_acc *acc;
} batch_piece;

/* Tokens [t0, t0 + n) of eight. */
TDM_INLINE void batch_tile(int form, int n, const batch_piece *piece, const batch_starts *starts,
                           int t0) {
    const uint8_t *opened = piece->opened;
    const tdm_cpu_x8_eight *x8 = piece->x8;
    const uint8_t *ahead = piece->ahead;
    float *acc = piece->acc->v[t0];
    for (int64_t b = 0; b < piece->n_blocks; ++b, ++x8, ++starts) {
        const batch_block *w = (const batch_block *)(const void *)opened;
        __m256i sums[2][4];
        __m256i lasts[2][4];
        batch_sums(form, BATCH_ZERO(form), n, w, x8, starts, t0, sums, lasts);
        BATCH_UNROLL for (int t = 0; t < n; ++t) {
            BATCH_UNROLL for (int h = 0; h < 2; ++h) {
                batch_step(form, w, h, x8, t0 + t, sums[h][t], lasts[h][t],
                           acc + PANEL_ROWS * t + HALF_ROWS * h);
            }
        }
        /* Sums stay in memory: gcc keeps them in registers that it does not have. */
        __asm__ volatile("" ::: "memory");
        if (ahead != NULL) {
            for (int i = 0; i < piece->ahead_bytes; i += 64) {
                _mm_prefetch((const char *)ahead + i, _MM_HINT_T0);
            }
            ahead += piece->ahead_bytes;
        }
        opened += batch_bytes(form);
    }
}

typedef void (*batch_tile_fn)(const batch_piece *piece, const batch_starts *starts, int t0);

/* A piece of a panel against n tokens of eight; tiles of 4, 2 and 1 token. */
TDM_INLINE void batch_eight(int form, const batch_tile_fn tiles[3], batch_piece *piece, int n) {
    batch_starts starts[BATCH_BLOCKS];
    int t = 0;
    batch_prepare(form, BATCH_ZERO(form), piece->n_blocks, piece->x8, starts);
    for (int i = 0; i < 3; ++i) {
        for (; t + (4 >> i) <= n; t += 4 >> i) {
            tiles[i](piece, starts, t);
            piece->ahead = NULL;
        }
    }
}

/* Bias, residual, and the rows that exist. */
static void batch_store(const tdm_cpu_linear_job *job, int64_t row0, int64_t tok0, int n,
                        const batch_acc *acc) {
    for (int h = 0; h < 2 && row0 < job->weight->n_out; ++h, row0 += HALF_ROWS) {
        __m256i mask = lanes_below(tdm_cpu_min(HALF_ROWS, job->weight->n_out - row0));
        for (int t = 0; t < n; ++t) {
            float *out = job->out + (tok0 + t) * job->ld_out + row0;
            __m256 v = _mm256_load_ps(acc->v[t] + HALF_ROWS * h);
            if (job->bias != NULL) {
                v = _mm256_add_ps(v, _mm256_maskload_ps(job->bias + row0, mask));
            }
            if (job->is_added) {
                v = _mm256_add_ps(_mm256_maskload_ps(out, mask), v);
            }
            _mm256_maskstore_ps(out, mask, v);
        }
    }
}

/* The panel of rows o on against every token of the call. */
TDM_INLINE void batch_panel(int form, const batch_tile_fn tiles[3], const tdm_cpu_linear_job *job,
                            int64_t o, const batch_x *x, uint8_t *opened, batch_acc *sums) {
    const tdm_weight *w = job->weight;
    const int64_t n_blocks = w->n_in / 32;
    const uint8_t *p = (const uint8_t *)w->packed +
                       (size_t)(o / PANEL_ROWS) * packed_panel(form, w->n_in, w->period);
    const int64_t n_eights = (x->n + TDM_CPU_EIGHT_TOKENS - 1) / TDM_CPU_EIGHT_TOKENS;
    memset(sums, 0, (size_t)n_eights * sizeof *sums);
    for (int64_t b = 0; b < n_blocks; b += BATCH_BLOCKS) {
        const int64_t n = tdm_cpu_min(BATCH_BLOCKS, n_blocks - b);
        p = batch_open(form, BATCH_FLIP(form), p, n, w->period, opened);
        for (int64_t e = 0; e < n_eights; ++e) {
            const int64_t left = x->n - e * TDM_CPU_EIGHT_TOKENS;
            batch_piece piece = {.opened = opened,
                                 .n_blocks = n,
                                 .x8 = x->eights + e * n_blocks + b,
                                 .ahead = e == 0 ? p : NULL,
                                 .ahead_bytes = packed_block(form, w->period),
                                 .acc = sums + e};
            batch_eight(form, tiles, &piece, (int)tdm_cpu_min(TDM_CPU_EIGHT_TOKENS, left));
        }
    }
    for (int64_t e = 0; e < n_eights; ++e) {
        const int64_t t = e * TDM_CPU_EIGHT_TOKENS;
        batch_store(job, o, x->tok0 + t, (int)tdm_cpu_min(TDM_CPU_EIGHT_TOKENS, x->n - t),
                    sums + e);
    }
}

typedef void (*batch_fn)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                         const batch_x *x, void *scratch);

/* Tiles are functions of their own, so that each has all the registers. */
#define BATCH_TILE(name, n)                                                                        \
    static __attribute__((noinline)) void name##_tile##n(const batch_piece *piece,                 \
                                                         const batch_starts *starts, int t0) {     \
        batch_tile(FORM_##name, n, piece, starts, t0);                                             \
    }

#define BATCH(name)                                                                                \
    BATCH_TILE(name, 4)                                                                            \
    BATCH_TILE(name, 2)                                                                            \
    BATCH_TILE(name, 1)                                                                            \
    static void name##_batch(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,            \
                             const batch_x *x, void *scratch) {                                    \
        const batch_tile_fn tiles[3] = {name##_tile4, name##_tile2, name##_tile1};                 \
        uint8_t *opened = scratch;                                                                 \
        for (int64_t o = row0; o < row1; o += PANEL_ROWS) {                                        \
            batch_panel(FORM_##name, tiles, job, o, x, opened,                                     \
                        (batch_acc *)(void *)(opened + BATCH_OPENED));                             \
        }                                                                                          \
    }

FORMS(BATCH)

#define BATCH_ENTRY(name) [FORM_##name] = name##_batch,

static const batch_fn BATCH_KERNELS[FORM_COUNT] = {FORMS(BATCH_ENTRY)};

/* Tokens [tok0, tok1) of a packed weight, from the call's eights or from some made here. */
static void batch_products(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                           int64_t tok1, void *scratch) {
    const tdm_cpu_x8 *x8 = job->x8;
    const int64_t n_blocks = job->weight->n_in / 32;
    const batch_fn kernel = BATCH_KERNELS[job->weight->layout];
    const int64_t at = tok0 - job->eights_tok;
    if (job->eights != NULL && at % TDM_CPU_EIGHT_TOKENS == 0) {
        for (int64_t t = 0; t < tok1 - tok0; t += TDM_CPU_BATCH_TOKENS) {
            const batch_x x = {job->eights + (at + t) / TDM_CPU_EIGHT_TOKENS * n_blocks, tok0 + t,
                               tdm_cpu_min(TDM_CPU_BATCH_TOKENS, tok1 - tok0 - t)};
            kernel(job, row0, row1, &x, scratch);
        }
        return;
    }
    tdm_cpu_x8_eight *eights = (tdm_cpu_x8_eight *)(void *)((uint8_t *)scratch + BATCH_SCRATCH);
    for (int64_t t = tok0; t < tok1; t += 2 * TDM_CPU_EIGHT_TOKENS) {
        const batch_x x = {eights, t, tdm_cpu_min(2 * TDM_CPU_EIGHT_TOKENS, tok1 - t)};
        for (int64_t i = 0; i < x.n; i += TDM_CPU_EIGHT_TOKENS) {
            tdm_cpu_eight_put(eights + i / TDM_CPU_EIGHT_TOKENS * n_blocks,
                              tdm_cpu_min(TDM_CPU_EIGHT_TOKENS, x.n - i),
                              x8->q + (t + i) * x8->ld_q, x8->ld_q,
                              x8->blocks + (t + i) * x8->ld_blocks, x8->ld_blocks, n_blocks);
        }
        kernel(job, row0, row1, &x, scratch);
    }
}
