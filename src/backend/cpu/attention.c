/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention and the writing of keys and values: cuts spans into items (a few tokens times the heads
 * of one kv head) and lets the team draw them. An item's bits do not depend on how it was cut. */
#include "backend/cpu/cpu_priv.h"

#include <stdatomic.h>
#include <string.h>

typedef struct attention_run {
    tdm_cpu *cpu;
    const tdm_attention_span *spans;
    int32_t n_spans;
    int32_t heads_max;  /* heads of one item, at most */
    int32_t tokens_max; /* tokens of one item, at most */
    atomic_llong next;
} attention_run;

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Heads of one kv head are cut in pieces of at most heads_max. */
static int64_t head_items(const attention_run *run, const tdm_attention_span *s) {
    int32_t group = s->n_heads / s->pages->n_kv_heads;
    return (int64_t)s->pages->n_kv_heads * ceil_div(group, run->heads_max);
}

static int64_t span_items(const attention_run *run, const tdm_attention_span *s) {
    return ceil_div(s->n, run->tokens_max) * head_items(run, s);
}

static tdm_cpu_attention_item item_at(const attention_run *run, const tdm_attention_span *s,
                                      int64_t at) {
    int32_t group = s->n_heads / s->pages->n_kv_heads;
    int64_t pieces = ceil_div(group, run->heads_max);
    int64_t n_head_items = head_items(run, s);
    int64_t kv_head = at % n_head_items / pieces;
    int64_t piece = at % pieces;
    int64_t tok0 = at / n_head_items * run->tokens_max;
    int64_t head0 = kv_head * group + piece * run->heads_max;
    int64_t head1 = tdm_cpu_min(head0 + run->heads_max, (kv_head + 1) * group);
    return (tdm_cpu_attention_item){.span = s,
                                    .head0 = (int32_t)head0,
                                    .head1 = (int32_t)head1,
                                    .tok0 = (int32_t)tok0,
                                    .tok1 = (int32_t)tdm_cpu_min(tok0 + run->tokens_max, s->n)};
}

static void attention_member(void *arg, int32_t idx, int32_t n_members) {
    attention_run *run = arg;
    void *scratch = tdm_cpu_thread_scratch(run->cpu, idx);
    int64_t first = 0; /* item at which the current span begins */
    int32_t i = 0;
    (void)n_members;
    for (;;) {
        int64_t at = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed);
        while (i < run->n_spans && at >= first + span_items(run, &run->spans[i])) {
            first += span_items(run, &run->spans[i]);
            ++i;
        }
        if (i == run->n_spans) {
            return;
        }
        tdm_cpu_attention_item item = item_at(run, &run->spans[i], at - first);
        run->cpu->kernels.attention(&item, scratch);
    }
}

void tdm_cpu_attention(tdm_backend *be, const tdm_attention_span *spans, int32_t n_spans) {
    tdm_cpu *cpu = tdm_cpu_of(be);
    attention_run run = {.cpu = cpu, .spans = spans, .n_spans = n_spans};
    int64_t work = 0; /* scores, roughly */
    int64_t group_max = 1;
    int64_t kv_items = 0; /* with whole groups and single tokens */
    for (int32_t i = 0; i < n_spans; ++i) {
        const tdm_attention_span *s = &spans[i];
        int64_t seen = s->pos0 + s->n;
        if (s->window > 0) {
            seen = tdm_cpu_min(seen, (int64_t)s->window + s->n);
        }
        seen = s->chosen != NULL ? tdm_cpu_min(seen, s->ld_chosen) : seen;
        work += seen * s->n * s->n_heads;
        group_max = tdm_cpu_max(group_max, s->n_heads / s->pages->n_kv_heads);
        kv_items += (int64_t)s->pages->n_kv_heads * s->n;
    }
    /* Whole groups share a key's load; single heads divide better where there is little to share.
     */
    bool is_narrow = cpu->n_threads > 1 && kv_items < (int64_t)cpu->n_threads * 4;
    run.heads_max = is_narrow ? 1 : 8;
    run.tokens_max = TDM_CPU_ATTENTION_QUERIES / (int32_t)tdm_cpu_min(group_max, run.heads_max);
    atomic_init(&run.next, 0);
    if (cpu->n_threads == 1 || work < 256) {
        attention_member(&run, 0, 1);
    } else {
        tdm_team_run(be->team, attention_member, &run);
    }
}

typedef struct index_run {
    tdm_cpu *cpu;
    const tdm_index_span *spans;
    int32_t n_spans;
} index_run;

static void index_member(void *arg, int32_t idx, int32_t n_members) {
    const index_run *run = arg;
    for (int32_t i = 0; i < run->n_spans; ++i) {
        int64_t begin = 0;
        int64_t end = 0;
        tdm_cpu_share(run->spans[i].n, idx, n_members, &begin, &end);
        run->cpu->kernels.index_scores(&run->spans[i], begin, end);
    }
}

void tdm_cpu_index_scores(tdm_backend *be, const tdm_index_span *spans, int32_t n_spans) {
    index_run run = {tdm_cpu_of(be), spans, n_spans};
    int64_t work = 0; /* values that are multiplied */
    for (int32_t i = 0; i < n_spans; ++i) {
        work += (int64_t)spans[i].n * spans[i].n_heads * spans[i].pages->index_dim;
    }
    if (run.cpu->n_threads == 1 || work < 16384) {
        index_member(&run, 0, 1);
    } else {
        tdm_team_run(be->team, index_member, &run);
    }
}

void tdm_cpu_kv_write(tdm_backend *be, const tdm_kv_write_span *spans, int32_t n_spans) {
    const tdm_cpu *cpu = tdm_cpu_of(be);
    for (int32_t i = 0; i < n_spans; ++i) {
        const tdm_kv_write_span *s = &spans[i];
        const tdm_kv_pages *pages = s->pages;
        for (int32_t t = 0; t < s->n; ++t) {
            int64_t position = s->pos0 + t;
            for (int32_t h = 0; h < pages->n_kv_heads; ++h) {
                cpu->kernels.kv_store(tdm_cpu_row(pages, pages->k, h, position, pages->head_dim),
                                      s->k + t * s->ld_k + (int64_t)h * pages->head_dim,
                                      pages->head_dim, pages->dtype);
                if (!pages->is_latent) {
                    cpu->kernels.kv_store(
                        tdm_cpu_row(pages, pages->v, h, position, pages->value_dim),
                        s->v + t * s->ld_v + (int64_t)h * pages->value_dim, pages->value_dim,
                        pages->dtype);
                }
            }
            if (pages->index != NULL) {
                memcpy(tdm_cpu_index_row(pages, position), s->index + t * s->ld_index,
                       (size_t)pages->index_dim * sizeof(float));
            }
        }
    }
}
