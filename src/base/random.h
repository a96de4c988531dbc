/* SPDX-License-Identifier: Apache-2.0
 *
 * Counter-based random numbers: a pure function of key and counter, so that no one else's draws can
 * shift a stream. Floor 0. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC
 * 2011), Philox4x32-10. */
#ifndef TDM_BASE_RANDOM_H
#define TDM_BASE_RANDOM_H

#include <stdint.h>

/* out[4] from counter[4] and key[2]. */
void tdm_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* Number `draw` of the stream (seed, choice, token index). Uniform over 64 bits. */
uint64_t tdm_random_u64(uint64_t seed, uint32_t choice, uint32_t token_idx, uint32_t draw);
/* The same, in [0, 1) with 53 bits. */
double tdm_random_f64(uint64_t seed, uint32_t choice, uint32_t token_idx, uint32_t draw);

#endif
