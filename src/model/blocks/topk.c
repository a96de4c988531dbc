/* SPDX-License-Identifier: Apache-2.0
 *
 * Selection by radix: four counts of 256 find the score of the k-th best, one byte at a time from
 * the top, whatever the scores are; no pivots, so that no order of them is slow. */
#include "model/blocks/topk.h"

#include <stddef.h>
#include <string.h>

/* Unsigned keys in the order of the floats; 0 for NaN, which is below -infinity's. */
static uint32_t key_of(float score) {
    uint32_t bits = 0;
    float canonical = score + 0.0F; /* -0 becomes 0 */
    if (score != score) {
        return 0;
    }
    memcpy(&bits, &canonical, sizeof bits);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

/* The key of the k-th best of n; *out_equal: how many of the k have that very key. */
static uint32_t find_threshold(const float *scores, int64_t n, int64_t k, int64_t *out_equal) {
    uint32_t prefix = 0;
    uint32_t mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int64_t counts[256] = {0};
        uint32_t digit = 255;
        for (int64_t i = 0; i < n; i++) {
            uint32_t key = key_of(scores[i]);
            counts[(key >> shift) & 0xff] += (key & mask) == prefix ? 1 : 0;
        }
        while (counts[digit] < k) { /* ends: k of the keys with this prefix are counted */
            k -= counts[digit];
            digit--;
        }
        prefix |= digit << shift;
        mask |= 0xffU << shift;
    }
    *out_equal = k;
    return prefix;
}

int64_t tdm_topk_keep(float *scores, int32_t *ids, int64_t n, int64_t k) {
    int64_t n_equal = 0;
    int64_t kept = 0;
    if (n <= k || k <= 0) {
        return n <= k ? n : 0;
    }
    uint32_t threshold = find_threshold(scores, n, k, &n_equal);
    for (int64_t i = 0; i < n; i++) {
        uint32_t key = key_of(scores[i]);
        if (key > threshold || (key == threshold && n_equal-- > 0)) {
            scores[kept] = scores[i];
            ids[kept] = ids[i];
            kept++;
        }
    }
    return kept;
}
