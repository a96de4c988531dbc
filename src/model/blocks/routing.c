/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups that a token may not choose from are closed with -infinity, as transformers and the
 * original do (mlx-lm and older versions fill with 0, which differs where few biased scores are
 * above it: spec/models.md 9.7). Source: transformers 5.17, models/deepseek_v3. */
#include "model/blocks/routing.h"

#include "base/status.h"

#include <math.h>

/* In f32, as the reference sums. */
static float goodness(const float *scores, const float *correction, int32_t n) {
    float best = -INFINITY;
    float second = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        float score = correction != NULL ? scores[i] + correction[i] : scores[i];
        if (score > best) {
            second = best;
            best = score;
        } else if (score > second) {
            second = score;
        }
    }
    return best + second;
}

void tdm_routing_close_groups(float *scores, const float *correction, int32_t n, int32_t n_groups,
                              int32_t n_used) {
    float good[TDM_ROUTING_GROUPS_MAX];
    TDM_CHECK(n_groups >= 1 && n_groups <= TDM_ROUTING_GROUPS_MAX && n % n_groups == 0);
    int32_t size = n / n_groups;
    for (int32_t g = 0; g < n_groups; g++) {
        good[g] =
            goodness(scores + g * size, correction != NULL ? correction + g * size : NULL, size);
    }
    for (int32_t g = 0; g < n_groups; g++) {
        int32_t n_better = 0;
        for (int32_t other = 0; other < n_groups; other++) {
            n_better += good[other] > good[g] || (good[other] == good[g] && other < g) ? 1 : 0;
        }
        for (int32_t i = 0; n_better >= n_used && i < size; i++) {
            scores[g * size + i] = -INFINITY;
        }
    }
}
