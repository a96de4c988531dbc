/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products of weights in the file's layout with AVX-512 VNNI: rows are opened by eights, so vectors
 * stay 256 bits wide; the wide file of registers holds eight tokens. Packed ones: panel_i8.c. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/avx2_priv.h"

#define TILE_MAX 8
#define PANELS_OPEN_ONLY
#define DPBUSD(acc, w, x) _mm256_dpbusd_epi32(acc, w, x)
#include "backend/cpu/avx2/vnni_tmpl.h"

#include "backend/cpu/avx2/linear_i8_tmpl.h"

void tdm_avx512_linear_i8_mapped(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                                 int64_t tok0, int64_t tok1, void *scratch) {
    MAPPED_KERNELS[job->weight->layout](job, row0, row1, tok0, tok1, scratch);
}
