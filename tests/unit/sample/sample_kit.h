/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the sampler share: made-up logits, and samplers that must be made. */
#ifndef TDM_TESTS_SAMPLE_KIT_H
#define TDM_TESTS_SAMPLE_KIT_H

#include "support/support.h"

#include "base/random.h"
#include "sample/sampler_priv.h"

#include <float.h>
#include <math.h>

#define V 64

static inline void make_logits(float *x, int32_t n, double scale, uint32_t salt) {
    for (int32_t i = 0; i < n; i++) {
        const double u = tdm_random_f64(77, salt, (uint32_t)i, 0) + 0x1.0p-54;
        const double v = tdm_random_f64(77, salt, (uint32_t)i, 1);
        x[i] = (float)(scale * sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
    }
}

static inline tdm_sampler *must_create(const tdm_sampling *s, int32_t n_vocab) {
    tdm_error err;
    tdm_sampler *sampler = NULL;
    if (tdm_sampler_create(&sampler, NULL, s, n_vocab, &err) != TDM_OK) {
        fail_msg("%s", err.what);
    }
    return sampler;
}

static inline tdm_sampled sample_copy(tdm_sampler *sampler, const float *logits, int32_t n,
                                      uint32_t token_idx) {
    static float copy[8192];
    tdm_sampled out;
    assert_true(n <= 8192);
    memcpy(copy, logits, (size_t)n * sizeof *logits);
    tdm_sampler_sample(sampler, copy, token_idx, &out, NULL);
    return out;
}

#endif
