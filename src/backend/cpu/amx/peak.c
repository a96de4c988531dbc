/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of tiles: four products side by side, of 16 x 64 by 64 x 16 bytes and of 16 x 32 by 32 x 16
 * BF16. */
#include "backend/cpu/amx/amx_priv.h"

#include "backend/cpu/amx/tiles_inl.h"

#define TILE_ROWS 16
#define TILE_BYTES 64

static void sums_zero(void) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* All four factors from the same rows. Loads of tiles do not tell gcc 12 that they read memory. */
static void factors_load(const uint16_t rows[TILE_ROWS][TILE_BYTES / 2]) {
    __asm__ volatile("" : : "r"(rows) : "memory");
    _tile_loadd(4, rows, TILE_BYTES);
    _tile_loadd(5, rows, TILE_BYTES);
    _tile_loadd(6, rows, TILE_BYTES);
    _tile_loadd(7, rows, TILE_BYTES);
}

static void factors_fill(uint16_t rows[TILE_ROWS][TILE_BYTES / 2], uint16_t value) {
    for (int r = 0; r < TILE_ROWS; ++r) {
        for (int i = 0; i < TILE_BYTES / 2; ++i) {
            rows[r][i] = value;
        }
    }
}

double tdm_amx_peak_int8(int64_t n_rounds) {
    uint16_t rows[TILE_ROWS][TILE_BYTES / 2];
    factors_fill(rows, 0x0503); /* 3, 5, 3, ... */
    tiles_configure(TILE_BYTES);
    sums_zero();
    factors_load((const uint16_t(*)[TILE_BYTES / 2]) rows);
    for (int64_t r = 0; r < n_rounds; ++r) {
        _tile_dpbssd(0, 4, 5);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 6, 5);
        _tile_dpbssd(3, 6, 7);
    }
    _tile_release();
    return (double)n_rounds * 4.0 * 2.0 * 16.0 * 16.0 * 64.0;
}

double tdm_amx_peak_bf16(int64_t n_rounds) {
    uint16_t rows[TILE_ROWS][TILE_BYTES / 2];
    factors_fill(rows, 0x3f00); /* 0.5: sums stay normal and finite */
    tiles_configure(TILE_BYTES);
    sums_zero();
    factors_load((const uint16_t(*)[TILE_BYTES / 2]) rows);
    for (int64_t r = 0; r < n_rounds; ++r) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 6, 5);
        _tile_dpbf16ps(3, 6, 7);
    }
    _tile_release();
    return (double)n_rounds * 4.0 * 2.0 * 16.0 * 16.0 * 32.0;
}
