/* SPDX-License-Identifier: Apache-2.0
 *
 * One token's int8 products on packed panels with AVX-512 VNNI. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx512/lone_tmpl.h"

void tdm_avx512_lone_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok,
                        void *scratch) {
    LONE_KERNELS[job->weight->layout](job, row0, row1, tok, scratch);
}
