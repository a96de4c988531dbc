/* SPDX-License-Identifier: Apache-2.0
 *
 * The one product of attention: sums of a few queries over steps, in registers. A step is a row of
 * lanes of four bytes (cpu_priv.h): of keys it is a dimension (or two) and lanes are positions; of
 * values it is a position (or two) and lanes are dimensions. So scores and mixes are one kernel.
 *
 * Included by attention_tmpl.h, inside a set's file, which has defined `vec`, LANES, TILE_QUERIES and
 * the v_ functions of its registers, and for FORM_DOT v_dot. The order of an output's sum is that of
 * steps, and within a step of two the second goes first, as AVX-512's bf16 dot has it; how many
 * queries or lanes share a tile changes nothing. */
#ifndef TDM_BACKEND_CPU_ATTENTION_TILE_TMPL_H
#define TDM_BACKEND_CPU_ATTENTION_TILE_TMPL_H

/* What lies in a lane, and what it is multiplied with. */
enum {
    FORM_F32,   /* an f32, with an f32 */
    FORM_PAIRS, /* two bf16, widened, with two f32 */
    FORM_DOT    /* two bf16, with two bf16 */
};

/* Steps and lanes of up to a chunk. */
typedef struct lanes_view {
    const uint8_t *blocks[TDM_CPU_ATTENTION_CHUNK / TDM_CPU_ATTENTION_BLOCK];
    /* What will be read next, asked for row by row while this is multiplied; NULL: nothing. */
    const uint8_t *ahead[TDM_CPU_ATTENTION_CHUNK / TDM_CPU_ATTENTION_BLOCK];
    int64_t shift; /* a block has 1 << shift steps, or all there are */
    int64_t step_bytes;
    int64_t n_lanes;
} lanes_view;

/* What multiplies step s of query t: at + t * ld + s * (floats of a step). */
typedef struct factors {
    const float *at;
    int64_t ld;
} factors;

TDM_INLINE int64_t step_floats(int form) {
    return form == FORM_PAIRS ? 2 : 1;
}

/* acc[t * n_vec + i] += one step, for n queries and n_vec vectors of lanes (constants). */
TDM_INLINE void add_step(int form, int n, int n_vec, const vec *lanes, const float *a, int64_t ld,
                         vec *acc) {
    if (form == FORM_PAIRS) {
        for (int part = 1; part >= 0; --part) {
            vec b[4];
            for (int i = 0; i < n_vec; ++i) {
                b[i] = part == 1 ? v_second(lanes[i]) : v_first(lanes[i]);
            }
            for (int t = 0; t < n; ++t) {
                vec x = v_set1(a[t * ld + part]);
                for (int i = 0; i < n_vec; ++i) {
                    acc[t * n_vec + i] = v_fma(b[i], x, acc[t * n_vec + i]);
                }
            }
        }
        return;
    }
    for (int t = 0; t < n; ++t) {
        vec x = v_set1(a[t * ld]);
        for (int i = 0; i < n_vec; ++i) {
            acc[t * n_vec + i] = form == FORM_DOT ? v_dot(lanes[i], x, acc[t * n_vec + i])
                                                  : v_fma(lanes[i], x, acc[t * n_vec + i]);
        }
    }
}

/* out[t * ld_out ...] (+)= the steps [step0, step1) for n queries and n_vec vectors from lane on. A
 * single vector may be a part of one. */
TDM_INLINE void multiply(int form, int n, int n_vec, const lanes_view *b, int64_t lane,
                         int64_t step0, int64_t step1, const factors *a, float *out, int64_t ld_out,
                         bool is_fresh) {
    vec acc[TILE_QUERIES * 4];
    for (int t = 0; t < n; ++t) {
        for (int i = 0; i < n_vec; ++i) {
            const float *at = out + t * ld_out + lane + LANES * i;
            acc[t * n_vec + i] = is_fresh ? v_set1(0.0f) : v_load(at);
        }
    }
    for (int64_t s = step0; s < step1;) {
        int64_t block = s >> b->shift;
        int64_t end = tdm_cpu_min(step1, (block + 1) << b->shift);
        const uint8_t *row =
            b->blocks[block] + (s - (block << b->shift)) * b->step_bytes + lane * 4;
        const float *at = a->at + s * step_floats(form);
        const uint8_t *ahead = b->ahead[block];
        int64_t distance = ahead != NULL ? ahead - b->blocks[block] : 0;
        for (; s < end; ++s, row += b->step_bytes, at += step_floats(form)) {
            vec lanes[4];
            for (int i = 0; i < n_vec; ++i) {
                const float *from = (const float *)(const void *)(row + LANES * 4 * i);
                lanes[i] = n_vec == 1 ? v_load_some(from, b->n_lanes - lane) : v_load(from);
            }
            add_step(form, n, n_vec, lanes, at, a->ld, acc);
            for (int i = 0; i < n_vec * LANES * 4 && distance != 0; i += 64) {
                __builtin_prefetch(row + distance + i, 0, 2); /* to the second cache */
            }
        }
    }
    for (int t = 0; t < n; ++t) {
        for (int i = 0; i < n_vec; ++i) {
            v_store(out + t * ld_out + lane + LANES * i, acc[t * n_vec + i]);
        }
    }
}

/* All lanes for n queries. out is padded to whole vectors. */
TDM_INLINE void multiply_lanes(int form, int n, const lanes_view *b, int64_t step0, int64_t step1,
                               const factors *a, float *out, int64_t ld_out, bool is_fresh) {
    int64_t lane = 0;
    for (; lane + 4 * LANES <= b->n_lanes; lane += 4 * LANES) {
        multiply(form, n, 4, b, lane, step0, step1, a, out, ld_out, is_fresh);
    }
    for (; lane < b->n_lanes; lane += LANES) {
        multiply(form, n, 1, b, lane, step0, step1, a, out, ld_out, is_fresh);
    }
}

/* One step of one query of which one of two positions counts: the other may be anything. */
TDM_INLINE void multiply_half(int form, bool is_second, const lanes_view *b, int64_t step,
                              const factors *a, float *out) {
    int64_t block = step >> b->shift;
    const uint8_t *row = b->blocks[block] + (step - (block << b->shift)) * b->step_bytes;
    const float *at = a->at + step * step_floats(form);
    for (int64_t lane = 0; lane < b->n_lanes; lane += LANES) {
        const float *from = (const float *)(const void *)(row + lane * 4);
        vec lanes = v_load_some(from, b->n_lanes - lane);
        vec acc = v_load(out + lane);
        lanes = is_second ? v_only_second(lanes) : v_only_first(lanes);
        add_step(form, 1, 1, &lanes, at, a->ld, &acc);
        v_store(out + lane, acc);
    }
}

#endif
