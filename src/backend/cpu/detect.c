/* SPDX-License-Identifier: Apache-2.0
 *
 * Which instruction sets processor and operating system advertise. Owns cpuid and the check that
 * the system saves the wide registers, and on Arm what the kernel lists (AT_HWCAP); whether an advertised instruction runs is proof.c's
 * question. _GNU_SOURCE is for syscall. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "backend/cpu/cpu_priv.h"

static const char *const ISA_NAMES[TDM_CPU_ISA_COUNT] = {
    [TDM_CPU_ISA_SCALAR] = "scalar",     [TDM_CPU_ISA_AVX2] = "avx2",
    [TDM_CPU_ISA_AVXVNNI] = "avxvnni",   [TDM_CPU_ISA_AVX512] = "avx512",
    [TDM_CPU_ISA_AMX] = "amx",           [TDM_CPU_ISA_NEON] = "neon",
    [TDM_CPU_ISA_NEON_DOT] = "neon-dot",
};

const char *tdm_cpu_isa_name(tdm_cpu_isa isa) {
    TDM_CHECK((uint32_t)isa < (uint32_t)TDM_CPU_ISA_COUNT);
    return ISA_NAMES[isa];
}

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* AMX-TILE and AMX-INT8 of leaf 7's edx: clang 14's cpuid.h has no names for them. Source: Intel's
 * manual, volume 2, CPUID. */
#define AMX_BITS (1U << 24 | 1U << 25)

typedef struct x86_facts {
    bool has_avx2;
    bool has_avxvnni;
    bool has_avx512;
    bool has_amx;
} x86_facts;

/* Tiles need the system's leave, once a process; asking again is harmless. Their state is large, so
 * a kernel may say no. */
static bool tiles_allow(void) {
#if defined(__linux__) && defined(ARCH_REQ_XCOMP_PERM)
    enum { XFEATURE_TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILE_DATA) == 0;
#else
    return false;
#endif
}

static x86_facts x86_ask(void) {
    x86_facts facts = {0};
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
    facts.has_amx = facts.has_avx512 && (d & AMX_BITS) == AMX_BITS && (xcr0 & 0x60000u) == 0x60000u;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) {
        facts.has_avxvnni = facts.has_avx2 && (a & bit_AVXVNNI) != 0;
    }
    return facts;
}

bool tdm_cpu_isa_is_present(tdm_cpu_isa isa) {
    x86_facts facts = x86_ask();
    switch (isa) {
    case TDM_CPU_ISA_SCALAR:
        return true;
    case TDM_CPU_ISA_AVX2:
        return facts.has_avx2;
    case TDM_CPU_ISA_AVXVNNI:
        return facts.has_avxvnni;
    case TDM_CPU_ISA_AVX512:
        return facts.has_avx512;
    case TDM_CPU_ISA_AMX:
        return facts.has_amx && tiles_allow();
    case TDM_CPU_ISA_NEON:
    case TDM_CPU_ISA_NEON_DOT:
    case TDM_CPU_ISA_COUNT:
        break;
    }
    return false;
}
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

bool tdm_cpu_isa_is_present(tdm_cpu_isa isa) {
    const unsigned long has = getauxval(AT_HWCAP);
    switch (isa) {
    case TDM_CPU_ISA_SCALAR:
        return true;
    case TDM_CPU_ISA_NEON:
        return (has & HWCAP_ASIMD) != 0;
    case TDM_CPU_ISA_NEON_DOT:
        return (has & HWCAP_ASIMD) != 0 && (has & HWCAP_ASIMDDP) != 0;
    case TDM_CPU_ISA_AVX2:
    case TDM_CPU_ISA_AVXVNNI:
    case TDM_CPU_ISA_AVX512:
    case TDM_CPU_ISA_AMX:
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
