/* SPDX-License-Identifier: Apache-2.0
 *
 * The same with VBMI's permutation of bytes, which looks codes of three and four bits up. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx512/lone_tmpl.h"

void tdm_avx512_linear_i8_vbmi(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                               int64_t tok0, int64_t tok1, void *scratch) {
    if (job->weight->packed != NULL && tok1 - tok0 == 1) {
        LONE_KERNELS[job->weight->layout](job, row0, row1, tok0, scratch);
    } else {
        tdm_avx512_linear_i8(job, row0, row1, tok0, tok1, scratch);
    }
}
