/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of tiles of int8: four products of 16 x 64 by 64 x 16 bytes side by side. */
#include "backend/cpu/amx/amx_priv.h"

#include "backend/cpu/amx/tiles_inl.h"

double tdm_amx_peak_int8(int64_t n_rounds) {
    tiles_configure(64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int64_t r = 0; r < n_rounds; ++r) {
        _tile_dpbssd(0, 4, 5);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 6, 5);
        _tile_dpbssd(3, 6, 7);
    }
    _tile_release();
    return (double)n_rounds * 4.0 * 2.0 * 16.0 * 16.0 * 64.0;
}
