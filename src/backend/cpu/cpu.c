/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend's life: choosing a set of kernels, the table and scratch. Refuses an
 * instruction set that the machine lacks or that fails its proof. */
#include "backend/cpu/cpu.h"

#include "backend/cpu/cpu_priv.h"
#include "base/cpus.h"
#include "base/numa.h"
#include "tensor/dequant.h"
#include "tensor/ops.h"

#include <stdio.h>
#include <string.h>

typedef void (*fill_fn)(tdm_cpu_kernels *kernels);

/* NULL: this build has no kernels for the set. */
static const fill_fn FILLS[TDM_CPU_ISA_COUNT] = {
    [TDM_CPU_ISA_SCALAR] = tdm_cpu_kernels_scalar,
#if defined(__x86_64__)
    [TDM_CPU_ISA_AVX2] = tdm_cpu_kernels_avx2,     [TDM_CPU_ISA_AVXVNNI] = tdm_cpu_kernels_avxvnni,
    [TDM_CPU_ISA_AVX512] = tdm_cpu_kernels_avx512, [TDM_CPU_ISA_AMX] = tdm_cpu_kernels_amx,
#elif defined(__aarch64__)
    [TDM_CPU_ISA_NEON] = tdm_cpu_kernels_neon,
    [TDM_CPU_ISA_NEON_DOT] = tdm_cpu_kernels_neon_dot,
#endif
};

/* Of partial results, for each thread: 512 KiB. */
#define SPLIT_FLOATS (128 * 1024)

typedef struct tamper_hook {
    tdm_cpu_tamper_fn fn;
    void *arg;
} tamper_hook;

static bool isa_is_usable(tdm_cpu_isa isa) {
    return FILLS[isa] != NULL && tdm_cpu_isa_is_present(isa);
}

/* Fills from low to high and proves the result. *out_failed as in tdm_cpu_prove. */
static tdm_status isa_try(tdm_cpu *cpu, tdm_cpu_isa isa, const tamper_hook *tamper,
                          const char **out_failed, tdm_error *err) {
    *out_failed = NULL;
    for (int i = 0; i <= (int)isa; ++i) {
        if (FILLS[i] != NULL) {
            FILLS[i](&cpu->kernels);
        }
    }
    cpu->isa = isa;
    if (isa == TDM_CPU_ISA_SCALAR) {
        return TDM_OK;
    }
    if (tamper->fn != NULL) {
        tamper->fn(tamper->arg, isa, &cpu->kernels);
    }
    return tdm_cpu_prove(&cpu->kernels, cpu->alloc, out_failed, err);
}

static void list_usable(char *text, size_t bytes) {
    size_t len = 0;
    text[0] = '\0';
    for (int i = 0; i < TDM_CPU_ISA_COUNT; ++i) {
        if (isa_is_usable((tdm_cpu_isa)i)) {
            int n = snprintf(text + len, bytes - len, "%s%s", len > 0 ? ", " : "",
                             tdm_cpu_isa_name((tdm_cpu_isa)i));
            len += n > 0 ? (size_t)n : 0;
        }
    }
}

static tdm_status fail_isa(tdm_error *err, tdm_status code, const char *name, const char *why) {
    char usable[64];
    list_usable(usable, sizeof usable);
    (void)tdm_fail(err, code, "instruction set %.24s: %s", name, why);
    tdm_err_where(err, "--isa");
    tdm_err_remedy(err, "this machine and build have: %s", usable);
    return code;
}

static tdm_status isa_choose_named(tdm_cpu *cpu, const char *name, const tamper_hook *tamper,
                                   tdm_error *err) {
    for (int i = 0; i < TDM_CPU_ISA_COUNT; ++i) {
        if (strcmp(name, tdm_cpu_isa_name((tdm_cpu_isa)i)) == 0) {
            const char *failed = NULL;
            if (!isa_is_usable((tdm_cpu_isa)i)) {
                return fail_isa(err, TDM_E_UNSUPPORTED, name,
                                FILLS[i] == NULL ? "not in this build" : "not on this machine");
            }
            TDM_TRY(isa_try(cpu, (tdm_cpu_isa)i, tamper, &failed, err));
            if (failed != NULL) {
                return fail_isa(err, TDM_E_UNSUPPORTED, name, failed);
            }
            return TDM_OK;
        }
    }
    return fail_isa(err, TDM_E_ARG, name, "no such name");
}

static tdm_status isa_choose(tdm_cpu *cpu, const char *name, const tamper_hook *tamper,
                             tdm_error *err) {
    if (name != NULL && strcmp(name, "best") != 0) {
        return isa_choose_named(cpu, name, tamper, err);
    }
    for (int i = TDM_CPU_ISA_COUNT - 1; i >= 0; --i) {
        const char *failed = NULL;
        if (!isa_is_usable((tdm_cpu_isa)i)) {
            continue;
        }
        TDM_TRY(isa_try(cpu, (tdm_cpu_isa)i, tamper, &failed, err));
        if (failed == NULL) {
            break;
        }
        tdm_log_printf(cpu->log, TDM_LOG_WARN,
                       "instruction set %s is advertised but failed its proof (%s); trying a lower "
                       "one",
                       tdm_cpu_isa_name((tdm_cpu_isa)i), failed);
    }
    return TDM_OK;
}

static const char *cpu_name(const tdm_backend *be) {
    return ((const tdm_cpu *)be)->name;
}

_Static_assert(sizeof(tdm_cpu_x8_group) <= 32 * TDM_CPU_F32_ROWS * sizeof(float),
               "a group's block of columns fits where eight rows of f32 do");
_Static_assert(2 * sizeof(tdm_cpu_x8_eight) <= 32 * TDM_CPU_F32_ROWS * sizeof(float),
               "a block of columns of two eights fits where eight rows of f32 do");

size_t tdm_cpu_scratch_bytes(int64_t n_in) {
    /* Eight rows of n_in as f32 with what many tokens need, or as int8 panels with their scales, or
     * sixteen tokens in eights, which are smaller; attention: queries of an item,
     * their scores of a chunk, two mixes each; an opened block of keys, of values. */
    size_t products =
        ((size_t)n_in + 64) * TDM_CPU_F32_ROWS * sizeof(float) + TDM_CPU_DENSE_SCRATCH;
    size_t attention =
        sizeof(float) * ((size_t)TDM_CPU_ATTENTION_QUERIES *
                             (TDM_CPU_ATTENTION_CHUNK + 3 * (TDM_HEAD_DIM_MAX + 32)) +
                         2 * TDM_CPU_ATTENTION_BLOCK * TDM_HEAD_DIM_MAX);
    size_t bytes = products > attention ? products : attention;
    bytes = bytes > TDM_CPU_WIDE_SCRATCH ? bytes : TDM_CPU_WIDE_SCRATCH;
    return (bytes + 127) / 128 * 128;
}

static void scratch_free(tdm_cpu *cpu) {
    tdm_mem_free_aligned(cpu->alloc, cpu->scratch, cpu->scratch_bytes * (size_t)cpu->n_threads, 64);
    tdm_mem_free_aligned(cpu->alloc, cpu->x8.q, cpu->x8_q_bytes, 64);
    tdm_mem_free_aligned(cpu->alloc, cpu->x8.blocks, cpu->x8_blocks_bytes, 64);
    tdm_mem_free_aligned(cpu->alloc, cpu->gathered, cpu->gathered_bytes, 64);
    tdm_mem_free_aligned(cpu->alloc, cpu->x8.groups, cpu->x8_groups_bytes, 64);
    tdm_mem_free_aligned(cpu->alloc, cpu->x8.eights, cpu->x8_eights_bytes, 64);
    tdm_mem_free_aligned(cpu->alloc, cpu->x16.q, cpu->x16_bytes, 64);
    cpu->scratch = NULL;
    cpu->x16 = (tdm_cpu_x16){0};
    cpu->gathered = NULL;
    cpu->x8 = (tdm_cpu_x8){0};
}

/* Replaces the scratch; on failure the old one stays. */
tdm_status tdm_cpu_reserve(tdm_backend *be, int64_t n_max, int64_t width_max, tdm_error *err) {
    tdm_cpu *cpu = tdm_cpu_of(be);
    tdm_cpu next = *cpu;
    n_max = tdm_cpu_max(n_max, cpu->n_max);
    width_max = tdm_cpu_max(width_max, cpu->width_max);
    if (cpu->scratch != NULL && n_max == cpu->n_max && width_max == cpu->width_max &&
        (cpu->gathered != NULL || !cpu->has_columns || width_max == 0)) {
        return TDM_OK;
    }
    if (n_max > INT32_MAX || width_max > INT32_MAX) {
        return tdm_fail(err, TDM_E_LIMIT, "a step of %lld rows of %lld values", (long long)n_max,
                        (long long)width_max);
    }
    next.n_max = n_max;
    next.width_max = width_max;
    next.scratch_bytes = tdm_cpu_scratch_bytes(width_max);
    next.x8 = (tdm_cpu_x8){.ld_q = (width_max + 63) / 64 * 64, .ld_blocks = (width_max + 31) / 32};
    next.x8_q_bytes = 0;
    next.x8_blocks_bytes = 0;
    next.x8_groups_bytes = 0;
    next.x8_eights_bytes = 0;
    next.scratch = NULL;
    next.gathered = NULL;
    next.gathered_bytes = 0;
    next.x16 = (tdm_cpu_x16){0};
    if (be->tier == TDM_TIER_FAST && cpu->kernels.is_bf16 != NULL && width_max > 0) {
        next.x16_bytes = (size_t)n_max * (size_t)tdm_cpu_x16_ld(width_max) * sizeof(uint16_t);
        next.x16.q = tdm_mem_alloc_aligned(cpu->alloc, next.x16_bytes, 64);
        if (next.x16.q == NULL) {
            scratch_free(&next);
            return tdm_fail_nomem(err, "activations rounded to BF16");
        }
    }
    if (cpu->has_columns && width_max > 0) {
        next.gathered_bytes = (size_t)n_max * (size_t)width_max * sizeof(float);
        next.gathered = tdm_mem_alloc_aligned(cpu->alloc, next.gathered_bytes, 64);
        if (next.gathered == NULL) {
            scratch_free(&next);
            return tdm_fail_nomem(err, "activations in another order");
        }
    }
    if (be->tier == TDM_TIER_FAST && width_max > 0) {
        next.x8_q_bytes = (size_t)n_max * (size_t)next.x8.ld_q;
        next.x8_blocks_bytes = (size_t)n_max * (size_t)next.x8.ld_blocks * sizeof(tdm_cpu_x8_block);
        next.x8.q = tdm_mem_alloc_aligned(cpu->alloc, next.x8_q_bytes, 64);
        next.x8.blocks = tdm_mem_alloc_aligned(cpu->alloc, next.x8_blocks_bytes, 64);
        if (cpu->kernels.linear_i8_wide != NULL && n_max >= TDM_CPU_GROUP_TOKENS) {
            next.x8_groups_bytes = (size_t)(n_max / TDM_CPU_GROUP_TOKENS) *
                                   (size_t)next.x8.ld_blocks * sizeof(tdm_cpu_x8_group);
            next.x8.groups = tdm_mem_alloc_aligned(cpu->alloc, next.x8_groups_bytes, 64);
        }
        if (cpu->kernels.has_eights) {
            const bool has_wide = cpu->kernels.linear_i8_wide != NULL;
            next.eights_max = has_wide ? tdm_cpu_min(n_max, cpu->kernels.wide_tokens) : n_max;
            next.x8_eights_bytes =
                (size_t)((next.eights_max + TDM_CPU_EIGHT_TOKENS - 1) / TDM_CPU_EIGHT_TOKENS) *
                (size_t)next.x8.ld_blocks * sizeof(tdm_cpu_x8_eight);
            next.x8.eights = tdm_mem_alloc_aligned(cpu->alloc, next.x8_eights_bytes, 64);
        }
        if (next.x8.q == NULL || next.x8.blocks == NULL ||
            (next.x8_groups_bytes > 0 && next.x8.groups == NULL) ||
            (next.x8_eights_bytes > 0 && next.x8.eights == NULL)) {
            scratch_free(&next);
            return tdm_fail_nomem(err, "rounded activations");
        }
    }
    next.scratch =
        tdm_mem_alloc_aligned(cpu->alloc, next.scratch_bytes * (size_t)cpu->n_threads, 64);
    if (next.scratch == NULL) {
        scratch_free(&next);
        return tdm_fail_nomem(err, "the kernels' scratch");
    }
    scratch_free(cpu);
    *cpu = next;
    return TDM_OK;
}

/* Room for what attention split over keys leaves between chunks; without a team there is none. */
static tdm_status split_init(tdm_cpu *cpu, tdm_error *err) {
    tdm_cpu_split *split = &cpu->split;
    if (cpu->n_threads == 1) {
        return TDM_OK;
    }
    split->n_floats = SPLIT_FLOATS * tdm_cpu_min(cpu->n_threads, 16);
    split->n_tiles = (int64_t)cpu->n_threads * 4;
    split->partials =
        tdm_mem_alloc_aligned(cpu->alloc, (size_t)split->n_floats * sizeof(float), 64);
    split->left = tdm_mem_calloc(cpu->alloc, (size_t)split->n_tiles, sizeof *split->left);
    if (split->partials == NULL || split->left == NULL) {
        return tdm_fail_nomem(err, "attention's partial results");
    }
    return TDM_OK;
}

static void split_free(tdm_cpu *cpu) {
    tdm_cpu_split *split = &cpu->split;
    tdm_mem_free_aligned(cpu->alloc, split->partials, (size_t)split->n_floats * sizeof(float), 64);
    tdm_mem_free(cpu->alloc, split->left, (size_t)split->n_tiles * sizeof *split->left);
    *split = (tdm_cpu_split){0};
}

static bool cpu_can_read(const tdm_backend *be, tdm_dtype dtype) {
    (void)be;
    return tdm_dequant_can(dtype);
}

static void cpu_destroy(tdm_backend *be) {
    if (be != NULL) {
        tdm_cpu *cpu = tdm_cpu_of(be);
        tdm_team_destroy(be->team);
        scratch_free(cpu);
        split_free(cpu);
        tdm_mem_free_aligned(cpu->alloc, cpu, sizeof *cpu, 64);
    }
}

static const tdm_backend_ops OPS = {
    .name = cpu_name,
    .reserve = tdm_cpu_reserve,
    .can_read = cpu_can_read,
    .weight_plan = tdm_cpu_weight_plan,
    .weight_init = tdm_cpu_weight_init,
    .weight_deinit = tdm_cpu_weight_deinit,
    .panel_layout = tdm_cpu_panel_layout,
    .linear = tdm_cpu_linear,
    .linear_groups = tdm_cpu_linear_groups,
    .embed = tdm_cpu_embed,
    .rms_norm = tdm_cpu_rms_norm,
    .layer_norm = tdm_cpu_layer_norm,
    .rope_table = tdm_cpu_rope_table,
    .rope = tdm_cpu_rope,
    .kv_write = tdm_cpu_kv_write,
    .attention = tdm_cpu_attention,
    .index_scores = tdm_cpu_index_scores,
    .glu_mul = tdm_cpu_glu_mul,
    .activate = tdm_cpu_activate,
    .l2_norm = tdm_cpu_l2_norm,
    .regroup = tdm_cpu_regroup,
    .conv = tdm_cpu_conv,
    .delta_scan = tdm_cpu_delta_scan,
    .softcap = tdm_cpu_softcap,
    .add = tdm_cpu_add,
    .argmax = tdm_cpu_argmax,
    .peak = tdm_cpu_peak,
    .destroy = cpu_destroy,
};

/* Where memory has several nodes: threads and what they read belong together. */
static void spread_over_nodes(tdm_cpu *cpu) {
    tdm_numa_plan plan;
    tdm_cpu_set allowed;
    cpu->n_nodes = 1;
    if (tdm_cpus_allowed(&allowed)) {
        tdm_numa_plan_make(&plan, cpu->n_threads, &allowed);
        tdm_team_bind(cpu->base.team, &plan);
        cpu->n_nodes = plan.n_nodes;
    }
}

tdm_status tdm_cpu_backend_create_tampered(tdm_backend **out_backend, const tdm_alloc *alloc,
                                           const tdm_cpu_options *options, tdm_cpu_tamper_fn tamper,
                                           void *tamper_arg, tdm_error *err) {
    static const tdm_cpu_options DEFAULTS = {.tier = TDM_TIER_FAST};
    const tdm_cpu_options *o = options != NULL ? options : &DEFAULTS;
    const tamper_hook hook = {.fn = tamper, .arg = tamper_arg};
    tdm_status status = TDM_OK;
    *out_backend = NULL;
    tdm_cpu *cpu = tdm_mem_alloc_aligned(alloc, sizeof *cpu, 64);
    if (cpu == NULL) {
        return tdm_fail_nomem(err, "the CPU backend");
    }
    memset(cpu, 0, sizeof *cpu);
    cpu->base.ops = &OPS;
    cpu->base.tier = o->tier;
    cpu->alloc = alloc;
    cpu->log = o->log;
    cpu->is_mapped = o->is_mapped;
    cpu->n_threads = o->n_threads != 0 ? o->n_threads : tdm_cpu_count();
    TDM_TRY_GOTO(status, isa_choose(cpu, o->isa, &hook, err), done);
    if (o->tier == TDM_TIER_REFERENCE) { /* scalar twins, whatever was chosen and proved */
        cpu->isa = TDM_CPU_ISA_SCALAR;
        tdm_cpu_kernels_scalar(&cpu->kernels);
    }
    (void)snprintf(cpu->name, sizeof cpu->name, "cpu-%s", tdm_cpu_isa_name(cpu->isa));
    TDM_TRY_GOTO(status, tdm_team_create(&cpu->base.team, alloc, cpu->n_threads, err), done);
    spread_over_nodes(cpu);
    TDM_TRY_GOTO(status, split_init(cpu, err), done);
    TDM_TRY_GOTO(status, tdm_cpu_reserve(&cpu->base, 1, 0, err), done);
    *out_backend = &cpu->base;
    cpu = NULL;
done:
    cpu_destroy((tdm_backend *)cpu);
    return status;
}

tdm_status tdm_cpu_backend_create(tdm_backend **out_backend, const tdm_alloc *alloc,
                                  const tdm_cpu_options *options, tdm_error *err) {
    return tdm_cpu_backend_create_tampered(out_backend, alloc, options, NULL, NULL, err);
}
