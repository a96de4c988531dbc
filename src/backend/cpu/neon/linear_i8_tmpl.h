/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products in the file's own layout, four rows at a time. A file that includes this gives first
 *     int32x4_t dot16(int32x4_t sum, int8x16_t w, int8x16_t q)
 *                              sum plus 16 products, spread over the lanes in any way
 * and finds KERNELS[form] afterwards. A row's sums of a block lie in the lanes of one register; four
 * rows' registers fold into one that has a row in each lane, and there the f32 law of cpu_priv.h
 * runs, block after block: a tile's width changes nothing. For several tokens a row's blocks are
 * opened once. */

#define ROWS 4
#define TOKENS 4

/* A block of four rows, opened. */
typedef struct open4 {
    int8_t w[ROWS][32];
    float d[ROWS];
    float m[ROWS]; /* min, or the last half's d */
    int32_t scale[2][ROWS];
    int32_t min[2][ROWS];
} open4;

TDM_INLINE void open_rows(int form, const tdm_weight *w, int64_t row0, int64_t b, open4 *out) {
    const tdm_block_kind kind = form_kind(form);
    for (int r = 0; r < ROWS; ++r) {
        form_block one = {.m = 0.0f};
        form_open(form, w, tdm_cpu_min(row0 + r, w->n_out - 1), b, &one);
        vst1q_s8(out->w[r], one.w[0]);
        vst1q_s8(out->w[r] + 16, one.w[1]);
        out->d[r] = one.d;
        if (kind == TDM_BLOCK_ONE_MIN || kind == TDM_BLOCK_INT_MIN || kind == TDM_BLOCK_PAIR) {
            out->m[r] = one.m;
        }
        for (int h = 0; h < 2; ++h) {
            if (kind == TDM_BLOCK_INT || kind == TDM_BLOCK_INT_MIN) {
                out->scale[h][r] = one.scale[h];
            }
            if (kind == TDM_BLOCK_INT_MIN) {
                out->min[h][r] = one.min[h];
            }
        }
    }
}

/* Lane r is the sum of v[r]'s lanes. */
TDM_INLINE int32x4_t fold_rows(const int32x4_t v[ROWS]) {
    return vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3]));
}

/* acc + one block of four rows, for one token; first and last: the rows' sums of both halves (first
 * alone where the kind does not part them). */
TDM_INLINE float32x4_t add_block(int form, const open4 *w, const tdm_cpu_x8_block *xb,
                                 int32x4_t first, int32x4_t last, float32x4_t acc) {
    const tdm_block_kind kind = form_kind(form);
    const float32x4_t d = vmulq_n_f32(vld1q_f32(w->d), xb->d);
    if (kind == TDM_BLOCK_PAIR) {
        acc = vfmaq_f32(acc, d, vcvtq_f32_s32(first));
        return vfmaq_f32(acc, vmulq_n_f32(vld1q_f32(w->m), xb->d), vcvtq_f32_s32(last));
    }
    if (kind == TDM_BLOCK_INT || kind == TDM_BLOCK_INT_MIN) {
        first = vmulq_s32(first, vld1q_s32(w->scale[0]));
        first = vmlaq_s32(first, last, vld1q_s32(w->scale[1]));
    }
    if (form_offset(form) != 0) {
        first = vaddq_s32(first, vdupq_n_s32(form_offset(form) * xb->sum));
    }
    acc = vfmaq_f32(acc, d, vcvtq_f32_s32(first));
    if (kind == TDM_BLOCK_ONE_MIN) {
        acc = vfmaq_f32(acc, vld1q_f32(w->m), vdupq_n_f32(xb->s));
    } else if (kind == TDM_BLOCK_INT_MIN) {
        int32x4_t mins = vmulq_n_s32(vld1q_s32(w->min[0]), xb->half_sums[0]);
        mins = vmlaq_n_s32(mins, vld1q_s32(w->min[1]), xb->half_sums[1]);
        acc = vfmaq_f32(acc, vmulq_n_f32(vld1q_f32(w->m), xb->d), vcvtq_f32_s32(mins));
    }
    return acc;
}

/* One opened block against n tokens (a constant); q[t] and xb[t] point at the token's block. */
TDM_INLINE void block_tile(int form, int n, const open4 *w, const int8_t *const *q,
                           const tdm_cpu_x8_block *const *xb, float32x4_t *acc) {
    const tdm_block_kind kind = form_kind(form);
    const int is_parted = kind != TDM_BLOCK_ONE && kind != TDM_BLOCK_ONE_MIN;
    const int32x4_t zero = vdupq_n_s32(0);
    int32x4_t firsts[TOKENS][ROWS];
    int32x4_t lasts[TOKENS][ROWS];
    int8x16_t x[TOKENS][2];
    for (int t = 0; t < n; ++t) {
        x[t][0] = vld1q_s8(q[t]);
        x[t][1] = vld1q_s8(q[t] + 16);
    }
    for (int r = 0; r < ROWS; ++r) {
        const int8x16_t w0 = vld1q_s8(w->w[r]);
        const int8x16_t w1 = vld1q_s8(w->w[r] + 16);
        for (int t = 0; t < n; ++t) {
            firsts[t][r] = dot16(zero, w0, x[t][0]);
            if (is_parted) {
                lasts[t][r] = dot16(zero, w1, x[t][1]);
            } else {
                firsts[t][r] = dot16(firsts[t][r], w1, x[t][1]);
            }
        }
    }
    for (int t = 0; t < n; ++t) {
        int32x4_t last = is_parted ? fold_rows(lasts[t]) : zero;
        acc[t] = add_block(form, w, xb[t], fold_rows(firsts[t]), last, acc[t]);
    }
}

/* Bias, residual, and the rows that exist. */
TDM_INLINE void store_rows(const tdm_cpu_linear_job *job, int64_t row0, int64_t n_rows, int64_t t,
                           float32x4_t acc) {
    float sums[ROWS];
    float *out = job->out + t * job->ld_out + row0;
    vst1q_f32(sums, acc);
    for (int64_t r = 0; r < n_rows; ++r) {
        float product = job->bias != NULL ? sums[r] + job->bias[row0 + r] : sums[r];
        out[r] = job->is_added ? out[r] + product : product;
    }
}

/* Four rows against n tokens (a constant) from tok0. opened NULL: each block is opened on the way. */
TDM_INLINE void rows_tile(int form, int n, const tdm_cpu_linear_job *job, const tdm_weight *w,
                          const open4 *opened, int64_t row0, int64_t n_rows, int64_t tok0) {
    const tdm_cpu_x8 *x8 = job->x8;
    float32x4_t acc[TOKENS];
    const int8_t *q[TOKENS];
    const tdm_cpu_x8_block *xb[TOKENS];
    for (int t = 0; t < n; ++t) {
        acc[t] = vdupq_n_f32(0.0f);
        q[t] = x8->q + (tok0 + t) * x8->ld_q;
        xb[t] = x8->blocks + (tok0 + t) * x8->ld_blocks;
    }
    for (int64_t b = 0; b < w->n_in / 32; ++b) {
        if (opened != NULL) {
            block_tile(form, n, opened + b, q, xb, acc);
        } else {
            open4 block;
            open_rows(form, w, row0, b, &block);
            block_tile(form, n, &block, q, xb, acc);
        }
        for (int t = 0; t < n; ++t) {
            q[t] += 32;
            xb[t] += 1;
        }
    }
    for (int t = 0; t < n; ++t) {
        store_rows(job, row0, n_rows, tok0 + t, acc[t]);
    }
}

TDM_INLINE void rows(int form, const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                     int64_t tok0, int64_t tok1, void *scratch) {
    const tdm_weight copy = *job->weight; /* whose numbers no store can change */
    const tdm_weight *w = &copy;
    for (int64_t o = row0; o < row1; o += ROWS) {
        const int64_t n_rows = tdm_cpu_min(ROWS, row1 - o);
        open4 *opened = scratch;
        int64_t t = tok0;
        if (tok1 - tok0 == 1) {
            rows_tile(form, 1, job, w, NULL, o, n_rows, t);
            continue;
        }
        for (int64_t b = 0; b < w->n_in / 32; ++b) {
            open_rows(form, w, o, b, opened + b);
        }
        for (; t + TOKENS <= tok1; t += TOKENS) {
            rows_tile(form, TOKENS, job, w, opened, o, n_rows, t);
        }
        for (; t < tok1; ++t) {
            rows_tile(form, 1, job, w, opened, o, n_rows, t);
        }
    }
}

typedef void (*rows_fn)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                        int64_t tok1, void *scratch);

#define ROWS_KERNEL(name)                                                                          \
    static void name##_rows(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,             \
                            int64_t tok0, int64_t tok1, void *scratch) {                           \
        rows(FORM_##name, job, row0, row1, tok0, tok1, scratch);                                   \
    }

FORMS(ROWS_KERNEL)

#define ROWS_ENTRY(name) [FORM_##name] = name##_rows,

static const rows_fn KERNELS[FORM_COUNT] = {FORMS(ROWS_ENTRY)};
