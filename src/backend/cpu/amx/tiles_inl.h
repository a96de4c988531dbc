/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of tiles. */
#ifndef TDM_BACKEND_CPU_AMX_TILES_INL_H
#define TDM_BACKEND_CPU_AMX_TILES_INL_H

#include <immintrin.h>
#include <stdint.h>

typedef struct tile_config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
} tile_config;

/* Tiles by number: 0 to 3 sums, 4 and 6 tokens, 5 and 7 weights, n_columns of both. */
static inline void tiles_configure(int n_columns) {
    const uint16_t a_bytes = (uint16_t)n_columns;
    const uint8_t b_rows = (uint8_t)(n_columns / 4);
    const tile_config config = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, a_bytes, 64, a_bytes, 64},
        .n_rows = {16, 16, 16, 16, 16, b_rows, 16, b_rows},
    };
    /* gcc 12 does not see that the instruction reads memory and drops the stores before it. */
    __asm__ volatile("" : : "m"(config));
    _tile_loadconfig(&config);
}

#endif
