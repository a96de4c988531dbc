/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing keys and values into blocks of 64 positions, and reading single ones back as f32. Owns no
 * memory; the order inside of a block is stated in cpu_priv.h, and this file and the attention
 * kernels are all that know it. Rows are rounded by the set's kernel, then moved. */
#include "backend/cpu/cpu_priv.h"

#include "tensor/dequant.h"
#include "tensor/half.h"
#include "tensor/ops.h"

#include <string.h>

#define BLOCK TDM_CPU_ATTENTION_BLOCK

typedef struct write_run {
    const tdm_cpu *cpu;
    const tdm_kv_write_span *spans;
    int32_t n_spans;
} write_run;

/* row: dim values of dtype. */
static void put_key(const tdm_kv_pages *pages, int64_t head, int64_t position, const uint8_t *row) {
    int64_t dim = pages->head_dim;
    uint8_t *lane = tdm_cpu_kv_block(pages, pages->k, head, position, dim) + position % BLOCK * 4;
    int64_t n_lanes = pages->dtype == TDM_DTYPE_F32 ? dim : dim / 2;
    for (int64_t i = 0; i < n_lanes; ++i) {
        memcpy(lane + i * BLOCK * 4, row + i * 4, 4);
    }
}

static void put_value(const tdm_kv_pages *pages, int64_t head, int64_t position,
                      const uint8_t *row) {
    int64_t dim = pages->value_dim;
    int64_t slot = position % BLOCK;
    uint8_t *block = tdm_cpu_kv_block(pages, pages->v, head, position, dim);
    if (pages->dtype == TDM_DTYPE_F32) {
        memcpy(block + slot * dim * 4, row, (size_t)dim * 4);
        return;
    }
    uint8_t *half = block + slot / 2 * dim * 4 + slot % 2 * 2;
    for (int64_t d = 0; d < dim; ++d) {
        memcpy(half + d * 4, row + d * 2, 2);
    }
}

static void write_position(const tdm_cpu *cpu, const tdm_kv_write_span *s, int64_t t) {
    const tdm_kv_pages *pages = s->pages;
    const int64_t position = s->pos0 + t;
    const float *k = s->k + t * s->ld_k;
    uint8_t row[TDM_HEAD_DIM_MAX * sizeof(float)];
    if (pages->is_latent) {
        cpu->kernels.kv_store(tdm_cpu_latent_row(pages, position), k, pages->head_dim,
                              pages->dtype);
    }
    for (int32_t h = 0; h < pages->n_kv_heads && !pages->is_latent; ++h) {
        cpu->kernels.kv_store(row, k + (int64_t)h * pages->head_dim, pages->head_dim, pages->dtype);
        put_key(pages, h, position, row);
        cpu->kernels.kv_store(row, s->v + t * s->ld_v + (int64_t)h * pages->value_dim,
                              pages->value_dim, pages->dtype);
        put_value(pages, h, position, row);
    }
    if (pages->index != NULL) {
        memcpy(tdm_cpu_index_row(pages, position), s->index + t * s->ld_index,
               (size_t)pages->index_dim * sizeof(float));
    }
}

static void write_member(void *arg, int32_t idx, int32_t n_members) {
    const write_run *run = arg;
    for (int32_t i = 0; i < run->n_spans; ++i) {
        int64_t begin = 0;
        int64_t end = 0;
        tdm_cpu_share(run->spans[i].n, idx, n_members, &begin, &end);
        for (int64_t t = begin; t < end; ++t) {
            write_position(run->cpu, &run->spans[i], t);
        }
    }
}

void tdm_cpu_kv_write(tdm_backend *be, const tdm_kv_write_span *spans, int32_t n_spans) {
    write_run run = {tdm_cpu_of(be), spans, n_spans};
    int64_t longest = 0;
    for (int32_t i = 0; i < n_spans; ++i) {
        longest = tdm_cpu_max(longest, spans[i].n);
    }
    if (run.cpu->n_threads == 1 || longest < 64) {
        write_member(&run, 0, 1);
    } else {
        tdm_team_run(be->team, write_member, &run);
    }
}

static float value_at(const uint8_t *block, int64_t at, tdm_dtype dtype) {
    uint16_t half = 0;
    float whole = 0.0f;
    if (dtype == TDM_DTYPE_F32) {
        memcpy(&whole, block + at * 4, sizeof whole);
        return whole;
    }
    memcpy(&half, block + at * 2, sizeof half);
    return tdm_bf16_to_f32(half);
}

void tdm_cpu_key_read(const tdm_kv_pages *pages, int64_t head, int64_t position, float *out) {
    if (pages->is_latent) {
        tdm_dequant_row(pages->dtype, tdm_cpu_latent_row(pages, position), pages->head_dim, out);
        return;
    }
    const uint8_t *block = tdm_cpu_kv_block(pages, pages->k, head, position, pages->head_dim);
    for (int64_t d = 0; d < pages->head_dim; ++d) {
        out[d] = value_at(block, tdm_cpu_key_at(pages->dtype, position % BLOCK, d), pages->dtype);
    }
}

void tdm_cpu_value_read(const tdm_kv_pages *pages, int64_t head, int64_t position, float *out) {
    if (pages->is_latent) {
        tdm_dequant_row(pages->dtype, tdm_cpu_latent_row(pages, position), pages->value_dim, out);
        return;
    }
    const uint8_t *block = tdm_cpu_kv_block(pages, pages->v, head, position, pages->value_dim);
    for (int64_t d = 0; d < pages->value_dim; ++d) {
        int64_t at = tdm_cpu_value_at(pages->dtype, pages->value_dim, position % BLOCK, d);
        out[d] = value_at(block, at, pages->dtype);
    }
}
