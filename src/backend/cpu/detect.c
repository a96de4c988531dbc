/* SPDX-License-Identifier: Apache-2.0
 *
 * Which instruction sets processor and operating system advertise. Owns cpuid and the check that
 * the system saves the wide registers; whether an advertised instruction runs is proof.c's
 * question. */
#include "backend/cpu/cpu_priv.h"

static const char *const ISA_NAMES[TDM_CPU_ISA_COUNT] = {
    [TDM_CPU_ISA_SCALAR] = "scalar",
    [TDM_CPU_ISA_AVX2] = "avx2",
    [TDM_CPU_ISA_AVX512] = "avx512",
};

const char *tdm_cpu_isa_name(tdm_cpu_isa isa) {
    TDM_CHECK((uint32_t)isa < (uint32_t)TDM_CPU_ISA_COUNT);
    return ISA_NAMES[isa];
}

#if defined(__x86_64__)
#include <cpuid.h>

typedef struct x86_facts {
    bool has_avx2;
    bool has_avx512;
} x86_facts;

static x86_facts x86_ask(void) {
    x86_facts facts = {false, false};
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) {
        return facts;
    }
    bool has_fma_f16c = (c & bit_FMA) != 0 && (c & bit_F16C) != 0 && (c & bit_AVX) != 0;
    unsigned xcr0 = 0;
    unsigned xcr0_high = 0;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) {
        return facts;
    }
    facts.has_avx2 = has_fma_f16c && (b & bit_AVX2) != 0 && (xcr0 & 6u) == 6u;
    unsigned wide = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    facts.has_avx512 = facts.has_avx2 && (b & wide) == wide && (c & bit_AVX512VNNI) != 0 &&
                       (xcr0 & 0xe6u) == 0xe6u;
    return facts;
}

bool tdm_cpu_isa_is_present(tdm_cpu_isa isa) {
    x86_facts facts = x86_ask();
    switch (isa) {
    case TDM_CPU_ISA_SCALAR:
        return true;
    case TDM_CPU_ISA_AVX2:
        return facts.has_avx2;
    case TDM_CPU_ISA_AVX512:
        return facts.has_avx512;
    case TDM_CPU_ISA_COUNT:
        break;
    }
    return false;
}
#else
bool tdm_cpu_isa_is_present(tdm_cpu_isa isa) {
    return isa == TDM_CPU_ISA_SCALAR;
}
#endif
