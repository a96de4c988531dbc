/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend. Floor 3. One create; everything else goes through the table of
 * contract/backend.h. */
#ifndef TDM_BACKEND_CPU_CPU_H
#define TDM_BACKEND_CPU_CPU_H

#include "base/log.h"
#include "contract/backend.h"

#include "base/alloc.h"

/* Instruction sets, from low to high; a machine has those of its own processor. */
typedef enum tdm_cpu_isa {
    TDM_CPU_ISA_SCALAR,
    TDM_CPU_ISA_AVX2,     /* AVX2 + FMA + F16C */
    TDM_CPU_ISA_AVXVNNI,  /* AVX-VNNI on top of it */
    TDM_CPU_ISA_AVX512,   /* AVX2's with F, BW, DQ, VL and VNNI of AVX-512 on top */
    TDM_CPU_ISA_AMX,      /* AVX-512's with tiles of int8 on top */
    TDM_CPU_ISA_NEON,     /* what every 64-bit Arm processor has */
    TDM_CPU_ISA_NEON_DOT, /* NEON's with int8 products by the dot instruction on top */
    TDM_CPU_ISA_COUNT
} tdm_cpu_isa;

typedef struct tdm_cpu_options {
    tdm_tier tier;
    const char *isa;    /* tdm_cpu_isa_name's; NULL or "best": the highest that proves itself */
    int32_t n_threads;  /* 0: one a core */
    const tdm_log *log; /* may be NULL */
    bool is_mapped;     /* fast tier: read the file's layout instead of packing panels (half the
                           memory, slower at one row; the same bits) */
} tdm_cpu_options;

/* Name of an instruction set ("avx2"). */
const char *tdm_cpu_isa_name(tdm_cpu_isa isa);
/* Whether processor and operating system advertise it. Threads: any. */
bool tdm_cpu_isa_is_present(tdm_cpu_isa isa);

/* options NULL: fast tier, best set, one thread a core. A set is proved against the scalar twin on
 * small inputs first: with "best" a set that fails is passed over with a warning in the log.
 * Errors: TDM_E_ARG (unknown name, thread count), TDM_E_UNSUPPORTED (a set that is absent or fails
 * its proof; says which there are), TDM_E_NOMEM, TDM_E_IO.
 * Owns: caller destroys with out->ops->destroy, after its weights. Threads: one owner. */
TDM_NODISCARD tdm_status tdm_cpu_backend_create(tdm_backend **out_backend, const tdm_alloc *alloc,
                                                const tdm_cpu_options *options, tdm_error *err);

#endif
