/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of wide products: panels, groups of tokens, bias, residual and the rows that
 * exist. See wide_inl.h for what stands before this. Defines WIDE_KERNELS[form]. */
/* Sums of one panel and one group, [token][row]. */
typedef struct wide_sums {
    __m512 acc[TDM_CPU_GROUP_TOKENS];
} wide_sums;

/* Blocks [b0, b0 + n_blocks) of the panel of rows o on: opened once, against every group. */
TDM_INLINE void wide_panel(int form, const tdm_cpu_linear_job *job, int64_t o, int64_t n_rows,
                           int64_t b0, int64_t n_blocks, int64_t group0, int64_t group1,
                           uint8_t *opened, wide_sums *sums) {
    const tdm_weight *w = job->weight;
    const int32_t period = w->period;
    const size_t panel_bytes = packed_panel(form, w->n_in, period);
    const int64_t n_heads = b0 / packed_period(form, period);
    const uint8_t *p = (const uint8_t *)w->packed + (size_t)(o / WIDE_ROWS) * panel_bytes +
                       b0 * packed_block(form, period) + n_heads * packed_head(form, period);
    wide_open(form, p, n_blocks, period, opened);
    for (int64_t g = group0; g < group1; ++g, ++sums) {
        const tdm_cpu_x8_group *group = job->x8->groups + g * job->x8->ld_blocks + b0;
        for (int t = 0; b0 == 0 && t < TDM_CPU_GROUP_TOKENS; ++t) {
            sums->acc[t] = _mm512_setzero_ps();
        }
        wide_group(form, opened, n_blocks, group, sums->acc);
        if (b0 + n_blocks == w->n_in / 32) {
            wide_store(job, o, n_rows, g * TDM_CPU_GROUP_TOKENS, TDM_CPU_GROUP_TOKENS, sums->acc);
        }
    }
}

/* Columns in pieces; within a piece every panel meets every group. A piece begins at a
 * head: its length is a multiple of every period. */
TDM_INLINE void wide_panels(int form, const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                            int64_t group0, int64_t group1, void *scratch) {
    const int64_t n_blocks = job->weight->n_in / 32;
    uint8_t *opened = scratch;
    wide_sums *sums =
        (wide_sums *)(void *)(opened + (size_t)TDM_CPU_WIDE_BLOCKS * TDM_CPU_WIDE_BLOCK_BYTES);
    for (int64_t b = 0; b < n_blocks; b += TDM_CPU_WIDE_BLOCKS) {
        const int64_t n = tdm_cpu_min(TDM_CPU_WIDE_BLOCKS, n_blocks - b);
        for (int64_t o = row0; o < row1; o += WIDE_ROWS) {
            wide_panel(form, job, o, tdm_cpu_min(WIDE_ROWS, row1 - o), b, n, group0, group1, opened,
                       sums + (o - row0) / WIDE_ROWS * TDM_CPU_WIDE_GROUPS);
        }
    }
}

typedef void (*wide_fn)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t group0,
                        int64_t group1, void *scratch);

#define WIDE(name)                                                                                 \
    static void name##_wide(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,             \
                            int64_t group0, int64_t group1, void *scratch) {                       \
        wide_panels(FORM_##name, job, row0, row1, group0, group1, scratch);                        \
    }

FORMS(WIDE)

#define WIDE_ENTRY(name) [FORM_##name] = name##_wide,

static const wide_fn WIDE_KERNELS[FORM_COUNT] = {FORMS(WIDE_ENTRY)};
