/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products with AVX-VNNI: AVX-512's dot instruction in AVX2's sixteen registers. */
#include "backend/cpu/avxvnni/avxvnni_priv.h"

#include "backend/cpu/avx2/avx2_priv.h"

#define TILE_MAX 4
#define DPBUSD(acc, w, x) _mm256_dpbusd_avx_epi32(acc, w, x)
#include "backend/cpu/avx2/vnni_tmpl.h"

#include "backend/cpu/avx2/linear_i8_tmpl.h"

void tdm_avxvnni_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                           int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    if (w->packed != NULL && tok1 - tok0 >= BATCH_TOKENS_MIN) {
        tdm_avxvnni_linear_i8_batch(job, row0, row1, tok0, tok1, scratch);
        return;
    }
    (w->packed != NULL ? PACKED_KERNELS : MAPPED_KERNELS)[w->layout](job, row0, row1, tok0, tok1,
                                                                     scratch);
}
