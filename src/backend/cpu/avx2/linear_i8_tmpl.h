/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products on panels, all but the integer sums of a block. A file that includes this gives
 * first
 *     TILE_MAX                 accumulators of the widest tile, 4 or 8
 *     block_scales, broadcast4 come from linear_i8_inl.h
 *     block_sums(form, is_packed, n, p, half, scales, q, xb, sums, lasts)
 *                              8 rows (half a panel) by n tokens; q[t] points at the block's 32
 *                              activations; lasts gets the last halves' sums where a form has pairs
 *                              of scales
 * and finds PACKED_KERNELS[form] and MAPPED_KERNELS[form] afterwards; with PANELS_OPEN_ONLY defined, the
 * latter alone. The f32 part is the same for all: each output has one lane of one accumulator, and
 * blocks come in ascending order, so a tile's shape changes nothing. */
#ifndef TILE_MAX
#error "define TILE_MAX and block_sums first"
#endif

/* Tokens from which opening a packed panel pays. */
#define OPEN_TOKENS 16
/* Tokens from which 256-bit sets open whole panels (batch_tmpl.h). */
#define BATCH_TOKENS_MIN 5
/* How far behind the end of its own rows opening asks for memory. */
#define AHEAD_BYTES 4096

/* The f32 law of cpu_priv.h. */
TDM_INLINE __m256 block_step(int form, const block_scales *s, const tdm_cpu_x8_block *x,
                             __m256i sum, __m256i last, __m256 acc) {
    __m256 d = _mm256_mul_ps(s->d, _mm256_set1_ps(x->d));
    acc = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sum), acc);
    if (form_has_min(form)) {
        acc = _mm256_fmadd_ps(s->m, _mm256_set1_ps(x->s), acc);
    } else if (form_is_pair(form)) {
        d = _mm256_mul_ps(s->m, _mm256_set1_ps(x->d));
        acc = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(last), acc);
    } else if (form == FORM_Q2_K) {
        __m256i mins = _mm256_madd_epi16(s->mins, broadcast_halves(x));
        d = _mm256_mul_ps(s->m, _mm256_set1_ps(x->d));
        acc = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(mins), acc);
    }
    return acc;
}

/* One panel against n tokens (constants): of halves [half0, half0 + n_halves) of it, if it is packed; an
 * open one is half a panel. acc[h * n + t] lane r is the product of row r of half h. */
TDM_INLINE void panel_tile(int form, int is_packed, int n_halves, int n, const uint8_t *p,
                           int half0, const tdm_cpu_x8 *x8, int64_t tok0, int64_t n_blocks,
                           int32_t period, __m256 *acc) {
    __m256 head_d[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    __m256 head_m[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    const int8_t *q[TILE_MAX];
    const tdm_cpu_x8_block *xb[TILE_MAX];
    for (int t = 0; t < n; ++t) {
        q[t] = x8->q + (tok0 + t) * x8->ld_q;
        xb[t] = x8->blocks + (tok0 + t) * x8->ld_blocks;
        for (int h = 0; h < n_halves; ++h) {
            acc[h * n + t] = _mm256_setzero_ps();
        }
    }
    int32_t head_in = 0; /* blocks until the next head */
    for (int64_t b = 0; b < n_blocks; ++b) {
        if (is_packed && form_has_head(form) && head_in-- == 0) {
            for (int h = 0; h < n_halves; ++h) {
                heads_load(form, period, p, half0 + h, &head_d[h], &head_m[h]);
            }
            p += packed_head(form, period);
            head_in = packed_period(form, period) - 1;
        }
        for (int h = 0; h < n_halves; ++h) {
            __m256i sums[TILE_MAX];
            __m256i lasts[TILE_MAX]; /* of the last halves of columns; pairs only */
            const block_scales s = is_packed
                                       ? scales_packed(form, period, p + packed_ints(form),
                                                       half0 + h, head_d[h], head_m[h])
                                       : scales_open(form, (const open_block *)(const void *)p);
            block_sums(form, is_packed, n, p, half0 + h, &s, q, xb, sums, lasts);
            for (int t = 0; t < n; ++t) {
                acc[h * n + t] = block_step(form, &s, xb[t], sums[t], lasts[t], acc[h * n + t]);
            }
        }
        for (int t = 0; t < n; ++t) {
            q[t] += 32;
            xb[t] += 1;
        }
        p += is_packed ? (size_t)packed_block(form, period) : open_bytes(form);
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

#ifndef PANELS_OPEN_ONLY
/* Half a packed panel opened: for many tokens its bits are unpacked once instead of in every tile. */
TDM_INLINE void open_packed(int form, const uint8_t *p, int half, int64_t n_blocks, int32_t period,
                            uint8_t *out) {
    __m256 head_d = _mm256_setzero_ps();
    __m256 head_m = _mm256_setzero_ps();
    int32_t head_in = 0;
    for (int64_t b = 0; b < n_blocks; ++b, out += open_bytes(form)) {
        open_block *open = (open_block *)(void *)out;
        if (form_has_head(form) && head_in-- == 0) {
            heads_load(form, period, p, half, &head_d, &head_m);
            p += packed_head(form, period);
            head_in = packed_period(form, period) - 1;
        }
        block_scales s = scales_packed(form, period, p + packed_ints(form), half, head_d, head_m);
        for (int j = 0; j < 8; ++j) {
            _mm256_store_si256((__m256i *)(void *)open->w[j], open_vector(form, p, half, j));
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
        p += packed_block(form, period);
    }
}
#endif

/* Bias, residual, and the rows that exist, of eight. */
static void store_tile(const tdm_cpu_linear_job *job, int64_t row0, int64_t tok0, int n,
                       const __m256 *acc) {
    int64_t n_rows = job->weight->n_out - row0;
    __m256i mask = lanes_below(tdm_cpu_min(HALF_ROWS, n_rows));
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

/* A tile and its storing; row0 is that of half0. */
TDM_INLINE void tile_store(int form, int is_packed, int n_halves, int n,
                           const tdm_cpu_linear_job *job, const uint8_t *p, int half0, int64_t row0,
                           int64_t tok0) {
    const tdm_weight *w = job->weight;
    __m256 acc[TILE_MAX];
    panel_tile(form, is_packed, n_halves, n, p, half0, job->x8, tok0, w->n_in / 32, w->period, acc);
    for (int h = 0; h < n_halves && row0 + HALF_ROWS * h < w->n_out; ++h) {
        store_tile(job, row0 + HALF_ROWS * h, tok0, n, acc + h * n);
    }
}

/* Half a panel against tokens [tok0, tok1). */
TDM_INLINE void half_tokens(int form, int is_packed, const tdm_cpu_linear_job *job,
                            const uint8_t *p, int half, int64_t row0, int64_t tok0, int64_t tok1) {
    int64_t t = tok0;
    for (; t + TILE_MAX <= tok1; t += TILE_MAX) {
        tile_store(form, is_packed, 1, TILE_MAX, job, p, half, row0, t);
    }
    if (TILE_MAX == 8 && t + 4 <= tok1) {
        tile_store(form, is_packed, 1, 4, job, p, half, row0, t);
        t += 4;
    }
    if (t + 2 <= tok1) {
        tile_store(form, is_packed, 1, 2, job, p, half, row0, t);
        t += 2;
    }
    if (t < tok1) {
        tile_store(form, is_packed, 1, 1, job, p, half, row0, t);
    }
}

#ifndef PANELS_OPEN_ONLY
/* A packed panel. A lone token, or two, meet both halves at once: each of its broadcasts serves both. */
TDM_INLINE void packed_tokens(int form, const tdm_cpu_linear_job *job, const uint8_t *p,
                              int64_t row0, int64_t tok0, int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    const int64_t n = tok1 - tok0;
    if (n == 1) {
        tile_store(form, 1, 2, 1, job, p, 0, row0, tok0);
        return;
    }
    if (n == 2) {
        tile_store(form, 1, 2, 2, job, p, 0, row0, tok0);
        return;
    }
    for (int half = 0; half < 2 && row0 < w->n_out; ++half, row0 += HALF_ROWS) {
        if (n < OPEN_TOKENS || form_bits(form) == 8) {
            half_tokens(form, 1, job, p, half, row0, tok0, tok1);
        } else {
            open_packed(form, p, half, w->n_in / 32, w->period, scratch);
            half_tokens(form, 0, job, scratch, 0, row0, tok0, tok1);
        }
    }
}

TDM_INLINE void packed_panels(int form, const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                              int64_t tok0, int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    const size_t panel_bytes = packed_panel(form, w->n_in, w->period);
    for (int64_t o = row0; o < row1; o += PANEL_ROWS) {
        packed_tokens(form, job,
                      (const uint8_t *)w->packed + (size_t)(o / PANEL_ROWS) * panel_bytes, o, tok0,
                      tok1, scratch);
    }
}
#endif

/* Of the file's own layout, half a panel at a time. */
TDM_INLINE void mapped_panels(int form, const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                              int64_t tok0, int64_t tok1, void *scratch) {
    for (int64_t o = row0; o < row1; o += HALF_ROWS) {
        if (form_is_stored(form)) {
            open_panel(form, job->weight, o, scratch);
        } else {
            tdm_avx2_open(job->weight, o, scratch);
        }
        half_tokens(form, 0, job, scratch, 0, o, tok0, tok1);
    }
}

typedef void (*panels_fn)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch);

#define MAPPED(name)                                                                               \
    static void name##_mapped(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,           \
                              int64_t tok0, int64_t tok1, void *scratch) {                         \
        mapped_panels(FORM_##name, job, row0, row1, tok0, tok1, scratch);                          \
    }

FORMS(MAPPED)

#define MAPPED_ENTRY(name) [FORM_##name] = name##_mapped,

static const panels_fn MAPPED_KERNELS[FORM_COUNT] = {FORMS(MAPPED_ENTRY)};

#ifndef PANELS_OPEN_ONLY
#define PACKED(name)                                                                               \
    static void name##_packed(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,           \
                              int64_t tok0, int64_t tok1, void *scratch) {                         \
        packed_panels(FORM_##name, job, row0, row1, tok0, tok1, scratch);                          \
    }

FORMS(PACKED)

#define PACKED_ENTRY(name) [FORM_##name] = name##_packed,

static const panels_fn PACKED_KERNELS[FORM_COUNT] = {FORMS(PACKED_ENTRY)};
#endif
