/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products on panels, all but the integer sums of a block. A file that includes this gives
 * first
 *     TILE_MAX                 tokens of the widest tile, 4 or 8
 *     block_scales, broadcast4 come from linear_i8_inl.h
 *     block_sums(form, is_packed, n, p, scales, q, xb, sums, lasts)
 *                              8 rows by n tokens; q[t] points at the block's 32 activations; lasts
 *                              gets the last halves' sums where a form has pairs of scales
 * and finds KERNELS[form][is packed] afterwards. The f32 part is the same for all: each output has
 * one lane of one accumulator, and blocks come in ascending order, so a tile's width changes
 * nothing. */
#ifndef TILE_MAX
#error "define TILE_MAX and block_sums first"
#endif

/* Tokens from which opening a packed panel pays. */
#define OPEN_TOKENS 16
/* How far behind the end of its own rows opening asks for memory. */
#define AHEAD_BYTES 4096

/* One panel against n tokens (a constant): acc[t] lane r is row r's product. */
TDM_INLINE void panel_tile(int form, int is_packed, int n, const uint8_t *p, const tdm_cpu_x8 *x8,
                           int64_t tok0, int64_t n_blocks, int32_t period, __m256 *acc) {
    __m256 head_d = _mm256_setzero_ps();
    __m256 head_m = _mm256_setzero_ps();
    const int8_t *q[TILE_MAX];
    const tdm_cpu_x8_block *xb[TILE_MAX];
    for (int t = 0; t < n; ++t) {
        acc[t] = _mm256_setzero_ps();
        q[t] = x8->q + (tok0 + t) * x8->ld_q;
        xb[t] = x8->blocks + (tok0 + t) * x8->ld_blocks;
    }
    int32_t head_in = 0; /* blocks until the next head */
    for (int64_t b = 0; b < n_blocks; ++b) {
        block_scales scales;
        __m256i sums[TILE_MAX];
        __m256i lasts[TILE_MAX]; /* of the last halves; pairs only */
        if (is_packed && packed_head(form) > 0 && head_in-- == 0) {
            heads_load(form, p, &head_d, &head_m);
            p += packed_head(form);
            head_in = packed_period(form, period) - 1;
        }
        scales = is_packed ? scales_packed(form, p + packed_ints(form), head_d, head_m)
                           : scales_open(form, (const open_block *)(const void *)p);
        block_sums(form, is_packed, n, p, &scales, q, xb, sums, lasts);
        for (int t = 0; t < n; ++t) {
            __m256 d = _mm256_mul_ps(scales.d, _mm256_set1_ps(xb[t]->d));
            acc[t] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sums[t]), acc[t]);
            if (form_has_min(form)) {
                acc[t] = _mm256_fmadd_ps(scales.m, _mm256_set1_ps(xb[t]->s), acc[t]);
            } else if (form_is_pair(form)) {
                d = _mm256_mul_ps(scales.m, _mm256_set1_ps(xb[t]->d));
                acc[t] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(lasts[t]), acc[t]);
            } else if (form == FORM_Q2_K) {
                __m256i mins = _mm256_madd_epi16(scales.mins, broadcast_halves(xb[t]));
                d = _mm256_mul_ps(scales.m, _mm256_set1_ps(xb[t]->d));
                acc[t] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(mins), acc[t]);
            }
            q[t] += 32;
            xb[t] += 1;
        }
        p += is_packed ? (size_t)packed_block(form) : open_bytes(form);
    }
}

TDM_INLINE void open_panel(int form, const tdm_weight *w, int64_t row0, open_block *out) {
    const uint8_t *rows[8];
    for (int r = 0; r < 8; ++r) {
        rows[r] = w->data + (size_t)tdm_cpu_min(row0 + r, w->n_out - 1) * w->row_bytes;
    }
    /* Eight rows at once defeat the hardware's prefetching: ask for the panel behind this one, line
     * after line, as linear_f32.c does. */
    const char *ahead = (const char *)rows[0] + 8 * w->row_bytes + AHEAD_BYTES;
    const int64_t step = (int64_t)w->row_bytes * 8 / (w->n_in / 32);
    for (int64_t b = 0; b < w->n_in / 32; ++b, ++out, ahead += step) {
        __m256i v[8];
        for (int64_t i = 0; i < step; i += 64) {
            _mm_prefetch(ahead + i, _MM_HINT_T1);
        }
        for (int r = 0; r < 8; ++r) {
            v[r] = block_ints((tdm_dtype)form, rows[r], b);
            out->d[r] = block_scale((tdm_dtype)form, rows[r], b);
            if (form == FORM_Q6_K) {
                out->u.half_scales[2 * r] = (int16_t)block_half_scale(rows[r], b, 0);
                out->u.half_scales[2 * r + 1] = (int16_t)block_half_scale(rows[r], b, 1);
            } else if (form_has_min(form)) {
                out->u.m[r] = block_min((tdm_dtype)form, rows[r], b);
            }
        }
        transpose8(v);
        for (int j = 0; j < 8; ++j) {
            _mm256_store_si256((__m256i *)(void *)out->w[j], v[j]);
        }
    }
}

/* A packed panel opened: for many tokens its bits are unpacked once instead of in every tile. */
TDM_INLINE void open_packed(int form, const uint8_t *p, int64_t n_blocks, int32_t period,
                            uint8_t *out) {
    __m256 head_d = _mm256_setzero_ps();
    __m256 head_m = _mm256_setzero_ps();
    int32_t head_in = 0;
    for (int64_t b = 0; b < n_blocks; ++b, out += open_bytes(form)) {
        open_block *open = (open_block *)(void *)out;
        if (packed_head(form) > 0 && head_in-- == 0) {
            heads_load(form, p, &head_d, &head_m);
            p += packed_head(form);
            head_in = packed_period(form, period) - 1;
        }
        block_scales s = scales_packed(form, p + packed_ints(form), head_d, head_m);
        for (int j = 0; j < 8; ++j) {
            _mm256_store_si256((__m256i *)(void *)open->w[j], open_vector(form, p, j));
        }
        _mm256_store_ps(open->d, s.d);
        if (form_has_halves(form)) {
            _mm256_store_si256((__m256i *)(void *)open->u.half_scales, s.pairs);
        } else if (form_has_min(form) || form_is_pair(form)) {
            _mm256_store_ps(open->u.m, s.m);
        }
        if (form == FORM_Q2_K) {
            open_mins *mins = (open_mins *)(void *)(open + 1);
            _mm256_store_ps(mins->m, s.m);
            _mm256_store_si256((__m256i *)(void *)mins->half_mins, s.mins);
        }
        p += packed_block(form);
    }
}

/* Bias, residual, and the rows that exist. */
static void store_tile(const tdm_cpu_linear_job *job, int64_t row0, int64_t tok0, int n,
                       const __m256 *acc) {
    int64_t n_rows = job->weight->n_out - row0;
    __m256i mask = lanes_below(tdm_cpu_min(8, n_rows));
    for (int t = 0; t < n; ++t) {
        float *out = job->out + (tok0 + t) * job->ld_out + row0;
        __m256 v = acc[t];
        if (job->bias != NULL) {
            v = _mm256_add_ps(v, _mm256_maskload_ps(job->bias + row0, mask));
        }
        if (job->is_added) {
            v = _mm256_add_ps(_mm256_maskload_ps(out, mask), v);
        }
        _mm256_maskstore_ps(out, mask, v);
    }
}

/* One panel against tokens [tok0, tok1). */
TDM_INLINE void panel_tokens(int form, int is_packed, const tdm_cpu_linear_job *job,
                             const uint8_t *p, int64_t row0, int64_t tok0, int64_t tok1) {
    int64_t n_blocks = job->weight->n_in / 32;
    __m256 acc[TILE_MAX];
    int64_t t = tok0;
    for (; t + TILE_MAX <= tok1; t += TILE_MAX) {
        panel_tile(form, is_packed, TILE_MAX, p, job->x8, t, n_blocks, job->weight->period, acc);
        store_tile(job, row0, t, TILE_MAX, acc);
    }
    if (TILE_MAX == 8 && t + 4 <= tok1) {
        panel_tile(form, is_packed, 4, p, job->x8, t, n_blocks, job->weight->period, acc);
        store_tile(job, row0, t, 4, acc);
        t += 4;
    }
    if (t + 2 <= tok1) {
        panel_tile(form, is_packed, 2, p, job->x8, t, n_blocks, job->weight->period, acc);
        store_tile(job, row0, t, 2, acc);
        t += 2;
    }
    if (t < tok1) {
        panel_tile(form, is_packed, 1, p, job->x8, t, n_blocks, job->weight->period, acc);
        store_tile(job, row0, t, 1, acc);
    }
}

TDM_INLINE void panels(int form, int is_packed, const tdm_cpu_linear_job *job, int64_t row0,
                       int64_t row1, int64_t tok0, int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    size_t panel_bytes = packed_panel(form, w->n_in, w->period);
    for (int64_t o = row0; o < row1; o += TDM_CPU_PANEL_ROWS) {
        if (is_packed) {
            const uint8_t *p =
                (const uint8_t *)w->packed + (size_t)(o / TDM_CPU_PANEL_ROWS) * panel_bytes;
            if (tok1 - tok0 < OPEN_TOKENS || form_bits(form) == 8) {
                panel_tokens(form, 1, job, p, o, tok0, tok1);
                continue;
            }
            open_packed(form, p, w->n_in / 32, w->period, scratch);
        } else if (form_is_stored(form)) {
            open_panel(form, w, o, scratch);
        } else {
            tdm_avx2_open(w, o, scratch);
        }
        panel_tokens(form, 0, job, scratch, o, tok0, tok1);
    }
}

typedef void (*panels_fn)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch);

#define PANELS(name)                                                                               \
    static void name##_open(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,             \
                            int64_t tok0, int64_t tok1, void *scratch) {                           \
        panels(FORM_##name, 0, job, row0, row1, tok0, tok1, scratch);                              \
    }                                                                                              \
    static void name##_packed(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,           \
                              int64_t tok0, int64_t tok1, void *scratch) {                         \
        panels(FORM_##name, 1, job, row0, row1, tok0, tok1, scratch);                              \
    }

FORMS(PANELS)

#define PANELS_ENTRY(name) [FORM_##name] = {name##_open, name##_packed},

/* By form; open, packed. */
static const panels_fn KERNELS[FORM_COUNT][2] = {FORMS(PANELS_ENTRY)};
