/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products of single panels, and of weights in the file's layout, with AVX-512 VNNI. Vectors stay 256 bits
 * wide (panels have eight rows); the wide file of registers holds eight tokens. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/avx2_priv.h"

#define TILE_MAX 8
#define DPBUSD(acc, w, x) _mm256_dpbusd_epi32(acc, w, x)
#include "backend/cpu/avx2/vnni_tmpl.h"

#include "backend/cpu/avx2/linear_i8_tmpl.h"

void tdm_avx512_linear_i8_single(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                                 int64_t tok0, int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    KERNELS[w->layout][w->packed != NULL ? 1 : 0](job, row0, row1, tok0, tok1, scratch);
}
