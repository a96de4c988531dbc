/* SPDX-License-Identifier: Apache-2.0
 *
 * Scalar twins of the convolution and of the gated delta rule: sums in f64, rounded once; the state
 * itself is f32 after every position, whoever computes it. */
#include "backend/cpu/scalar/scalar_priv.h"

#include "tensor/ops.h"

void tdm_scalar_conv_row(float *out, const float *const *in, const float *taps, int64_t ld_taps,
                         const float *bias, int32_t n_taps, int64_t dim) {
    for (int64_t c = 0; c < dim; ++c) {
        double sum = bias != NULL ? (double)bias[c] : 0.0;
        for (int32_t j = 0; j < n_taps; ++j) {
            sum += (double)taps[j * ld_taps + c] * (double)in[j][c];
        }
        out[c] = (float)sum;
    }
}

/* One position. state_in and state_out: [key_dim, value_dim]. */
static void step(const tdm_delta *delta, const float *state_in, float *state_out, const float *q,
                 const float *k, const float *v, float keep, float write, float *out) {
    double seen[TDM_HEAD_DIM_MAX] = {0.0}; /* k S, then q S */
    float change[TDM_HEAD_DIM_MAX];
    int64_t n_values = delta->value_dim;
    for (int64_t i = 0; i < delta->key_dim; ++i) {
        for (int64_t j = 0; j < n_values; ++j) {
            seen[j] += (double)(keep * state_in[i * n_values + j]) * (double)k[i];
        }
    }
    for (int64_t j = 0; j < n_values; ++j) {
        change[j] = write * (v[j] - (float)seen[j]);
        seen[j] = 0.0;
    }
    for (int64_t i = 0; i < delta->key_dim; ++i) {
        for (int64_t j = 0; j < n_values; ++j) {
            float value = keep * state_in[i * n_values + j] + k[i] * change[j];
            state_out[i * n_values + j] = value;
            seen[j] += (double)value * (double)q[i];
        }
    }
    for (int64_t j = 0; out != NULL && j < n_values; ++j) {
        out[j] = (float)seen[j];
    }
}

void tdm_scalar_delta_head(const tdm_delta *delta, const tdm_delta_span *span, int32_t head) {
    const tdm_cpu_delta_head at = tdm_cpu_delta_locate(delta, head);
    float *state = span->to + at.state_at;
    for (int32_t t = 0; t < span->n; ++t) {
        const float *x = span->x + t * span->ld_x;
        float *out = span->out != NULL ? span->out + t * span->ld_out + at.out_at : NULL;
        float keep = 0.0f;
        float write = 0.0f;
        tdm_cpu_delta_gates(delta, head, x[at.a_at], x[at.b_at], &keep, &write);
        step(delta, t == 0 ? span->from + at.state_at : state, state, x + at.q_at, x + at.k_at,
             x + at.v_at, keep, write, out);
    }
}
