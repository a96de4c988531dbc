/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of logits while it is being cut down to the tokens that may be drawn. Floor 5, private to
 * the room.
 *
 * A row is dense (every id above -inf is a candidate) until the first cut; then keys[0..n_keys)
 * holds the candidates. A key is one integer that sorts best first: the logit's bits turned around,
 * then the id, so that a tie is won by the lower id and no two keys are equal. block_max holds the
 * largest logit of each block of TDM_ROW_BLOCK ids: a cut looks into the blocks that can matter and
 * skips the rest, which is why no cut sorts the vocabulary. */
#ifndef TDM_SAMPLE_ROW_H
#define TDM_SAMPLE_ROW_H

#include "base/alloc.h"

#include <string.h>

#define TDM_ROW_BLOCK 64

typedef struct tdm_row {
    float *logits; /* [n_vocab] borrowed */
    int32_t n_vocab;
    int32_t n_blocks;
    float *block_max; /* [n_blocks] */
    uint64_t *keys;   /* [n_vocab] */
    uint64_t *marks;  /* [n_blocks] scratch of the block cut */
    size_t n_keys;
    bool is_dense;
    float max;      /* largest candidate */
    int32_t max_id; /* lowest id that has it */
} tdm_row;

static inline uint64_t tdm_row_key(float logit, int32_t id) {
    uint32_t bits = 0;
    const float plain = logit + 0.0F; /* -0 and +0 tie */
    memcpy(&bits, &plain, sizeof bits);
    const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
    return ((uint64_t)~ascending << 32) | (uint32_t)id;
}

static inline float tdm_row_key_logit(uint64_t key) {
    const uint32_t ascending = ~(uint32_t)(key >> 32);
    const uint32_t bits = (ascending >> 31) != 0 ? ascending & 0x7FFFFFFFU : ~ascending;
    float logit = 0.0F;
    memcpy(&logit, &bits, sizeof logit);
    return logit;
}

static inline int32_t tdm_row_key_id(uint64_t key) {
    return (int32_t)(uint32_t)key;
}

/* exp(x) for x <= 0 within 2 ulp, exactly 1 at 0; below -87 it stays at exp(-87), about 1.6e-38, so
 * that no branch is needed. Compilers turn a loop of it into vector code; the bits do not depend on
 * whether they do (no contraction). */
static inline float tdm_exp_neg(float x) {
    const float magic = 12582912.0F; /* 1.5 * 2^23: adding it rounds to an integer */
    const float clamped = x > -87.0F ? x : -87.0F;
    const float shifted = clamped * 1.44269504F + magic;
    const float n = shifted - magic;
    const float r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * (r * r) + r + 1.0F;
    uint32_t bits = 0;
    uint32_t shift = 0;
    float out = 0.0F;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&shift, &shifted, sizeof shift);
    bits += shift << 23; /* the low bits of shifted are n */
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* Index of the largest value, lowest on a tie; NaN never wins; 0 when nothing is above -inf, and
 * then *out_max is -inf. */
int32_t tdm_argmax(const float *x, int32_t n, float *out_max);
/* out[i] = exp((x[i] - max) * inv_t), n at most TDM_ROW_BLOCK; NaN and -inf give about nothing,
 * +inf counts as FLT_MAX. */
void tdm_exp_block(float *out, const float *x, int32_t n, float max, float inv_t);
/* Sum of exp((x[i] - max) * inv_t) in f64, in one fixed order, of the same terms. max is at least
 * every finite x and finite; inv_t in [0, 1e30]. */
double tdm_exp_sum(const float *x, int32_t n, float max, float inv_t);
/* Smallest float that is at least x. */
float tdm_float_at_least(double x);
/* Puts the shortest best-first prefix whose weight reaches target at the front of keys and returns
 * its length (all n when the weight never does). Weight of a key: 1, or exp(logit - max) when
 * by_mass. The prefix is a set: its order is not stated. O(n), whatever the values. */
size_t tdm_keys_select(uint64_t *keys, size_t n, double target, float max, bool by_mass);
/* Ascending keys: best first. For small n. */
void tdm_keys_sort(uint64_t *keys, size_t n);

/* Memory of the row's own arrays; zero-filled fields otherwise. TDM_OK or TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_row_init(tdm_row *row, const tdm_alloc *alloc, int32_t n_vocab,
                                      tdm_error *err);
void tdm_row_deinit(tdm_row *row, const tdm_alloc *alloc);
/* Borrows logits and makes the row dense. NaN becomes -inf and +inf FLT_MAX, in place. False when
 * no candidate is left. */
bool tdm_row_load(tdm_row *row, float *logits);
/* Takes the maxima of the blocks and of the whole again; for a dense row that was written into. */
void tdm_row_measure(tdm_row *row);
/* Drops every candidate below threshold. */
void tdm_row_keep_at_least(tdm_row *row, float threshold);
/* Keeps the k best; k >= 1. */
void tdm_row_keep_top(tdm_row *row, size_t k);
/* Number of candidates at or above threshold, counted no further than cap. */
size_t tdm_row_count_at_least(const tdm_row *row, float threshold, size_t cap);
/* Sum of exp((logit - max) * inv_t) over the candidates. */
double tdm_row_mass(const tdm_row *row, float inv_t);

/* The cuts. Each leaves at least one candidate. */
void tdm_row_cut_top_n_sigma(tdm_row *row, float n_sigma);
void tdm_row_cut_top_p(tdm_row *row, float top_p);
void tdm_row_cut_min_p(tdm_row *row, float min_p, int32_t min_keep);
/* Of all candidates with p > threshold drops every one but the least likely; ids in exempt stay. */
void tdm_row_cut_xtc(tdm_row *row, float threshold, const int32_t *exempt, size_t n_exempt);

/* The stream of one token: what every draw is a function of. */
typedef struct tdm_stream {
    uint64_t seed;
    uint32_t choice;
    uint32_t token_idx;
} tdm_stream;

/* Draws an id from softmax(logit / temperature) over the candidates by Gumbel-max; the noise of an
 * id is draw number `id` of the stream, whoever else is a candidate. *out_logit is its logit. */
int32_t tdm_row_draw(const tdm_row *row, float temperature, const tdm_stream *stream,
                     float *out_logit);
/* XTC's coin in [0, 1): draw number 2^32 - 1, which no id can reach. */
double tdm_stream_coin(const tdm_stream *stream);

#endif
