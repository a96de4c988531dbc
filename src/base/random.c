/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10. Source: Salmon et al. (SC 2011), constants and round function of section 3. */
#include "base/random.h"

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u
#define PHILOX_ROUNDS 10

void tdm_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0];
    uint32_t c1 = counter[1];
    uint32_t c2 = counter[2];
    uint32_t c3 = counter[3];
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t tdm_random_u64(uint64_t seed, uint32_t choice, uint32_t token_idx, uint32_t draw) {
    const uint32_t counter[4] = {draw >> 1, token_idx, choice, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    uint32_t half = (draw & 1u) * 2u; /* one block serves two draws */
    tdm_philox4x32(counter, key, out);
    return ((uint64_t)out[half + 1] << 32) | out[half];
}

double tdm_random_f64(uint64_t seed, uint32_t choice, uint32_t token_idx, uint32_t draw) {
    return (double)(tdm_random_u64(seed, choice, token_idx, draw) >> 11) * 0x1.0p-53;
}
