/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention: cuts spans into items (a few tokens times the heads of one kv head, and a chunk of
 * positions where there are few of those) and lets the team draw them. An item's bits do not depend
 * on how it was cut. */
#include "backend/cpu/cpu_priv.h"

typedef struct attention_run {
    tdm_cpu *cpu;
    const tdm_attention_span *spans;
    int32_t n_spans;
    int32_t heads_max;  /* heads of one item, at most */
    int32_t tokens_max; /* tokens of one item, at most */
    bool is_split;      /* an item is some chunks of a tile of queries, not all of them */
    int64_t chunks_max; /* of such an item */
    atomic_llong next;
} attention_run;

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* The heads of a kv head in pieces of at most heads_max, even ones. */
static int64_t pieces_of(const attention_run *run, const tdm_attention_span *s) {
    return ceil_div(s->n_heads / s->pages->n_kv_heads, run->heads_max);
}

static int64_t head_items(const attention_run *run, const tdm_attention_span *s) {
    return s->pages->n_kv_heads * pieces_of(run, s);
}

/* Tiles: some tokens by some heads. */
static int64_t tiles_of(const attention_run *run, const tdm_attention_span *s) {
    return ceil_div(s->n, run->tokens_max) * head_items(run, s);
}

/* Chunks that any query of the span sees: [first, last). */
static int64_t first_chunk(const tdm_attention_span *s) {
    int64_t first = s->window > 0 ? tdm_cpu_max(0, s->pos0 + 1 - s->window) : 0;
    return first / TDM_CPU_ATTENTION_CHUNK;
}

static int64_t chunks_of(const tdm_attention_span *s) {
    return ceil_div(s->pos0 + s->n, TDM_CPU_ATTENTION_CHUNK) - first_chunk(s);
}

static int64_t tile_items(const attention_run *run, const tdm_attention_span *s) {
    return run->is_split ? ceil_div(chunks_of(s), run->chunks_max) : 1;
}

static int64_t span_items(const attention_run *run, const tdm_attention_span *s) {
    return tiles_of(run, s) * tile_items(run, s);
}

static tdm_cpu_attention_item tile_at(const attention_run *run, const tdm_attention_span *s,
                                      int64_t at) {
    int64_t group = s->n_heads / s->pages->n_kv_heads;
    int64_t pieces = pieces_of(run, s);
    int64_t n_head_items = head_items(run, s);
    int64_t kv_head = at % n_head_items / pieces;
    int64_t piece = at % pieces;
    int64_t tok0 = at / n_head_items * run->tokens_max;
    return (tdm_cpu_attention_item){.span = s,
                                    .head0 = (int32_t)(kv_head * group + group * piece / pieces),
                                    .head1 =
                                        (int32_t)(kv_head * group + group * (piece + 1) / pieces),
                                    .tok0 = (int32_t)tok0,
                                    .tok1 = (int32_t)tdm_cpu_min(tok0 + run->tokens_max, s->n)};
}

/* Floats of one chunk's partial of any tile. */
static int64_t partial_floats(const attention_run *run, const tdm_attention_span *s) {
    int64_t heads = tdm_cpu_min(run->heads_max, s->n_heads / s->pages->n_kv_heads);
    return tdm_cpu_partial_floats(heads * tdm_cpu_min(run->tokens_max, s->n), s->pages->value_dim);
}

/* Where the walk over all items stands: the span of an item, and what lies before that span. */
typedef struct place {
    int32_t span;
    int64_t first_item;
    int64_t first_tile;
    int64_t first_float;
} place;

static void place_next(const attention_run *run, place *p) {
    const tdm_attention_span *s = &run->spans[p->span];
    int64_t n_tiles = tiles_of(run, s);
    p->first_item += span_items(run, s);
    p->first_tile += n_tiles;
    p->first_float += run->is_split ? n_tiles * chunks_of(s) * partial_floats(run, s) : 0;
    ++p->span;
}

/* Some chunks of a tile; whoever brings a tile's last ones merges all of it, in order. */
static void attend_split(const attention_run *run, const place *p, int64_t at, void *scratch) {
    const tdm_attention_span *s = &run->spans[p->span];
    const tdm_cpu_split *split = &run->cpu->split;
    int64_t n_chunks = chunks_of(s);
    int64_t n_items = tile_items(run, s);
    int64_t tile = at / n_items;
    tdm_cpu_attention_item item = tile_at(run, s, tile);
    int64_t n_queries = (int64_t)(item.tok1 - item.tok0) * (item.head1 - item.head0);
    float *partials = split->partials + p->first_float + tile * n_chunks * partial_floats(run, s);
    int64_t begin = n_chunks * (at % n_items) / n_items;
    item.chunk0 = first_chunk(s) + begin;
    item.chunk1 = first_chunk(s) + n_chunks * (at % n_items + 1) / n_items;
    item.partials = partials + begin * tdm_cpu_partial_floats(n_queries, s->pages->value_dim);
    run->cpu->kernels.attention(&item, scratch);
    if (atomic_fetch_sub_explicit(&split->left[p->first_tile + tile], 1, memory_order_acq_rel) ==
        1) {
        item.chunk0 = first_chunk(s);
        item.chunk1 = item.chunk0 + n_chunks;
        item.partials = partials;
        run->cpu->kernels.attention_merge(&item, scratch);
    }
}

static void attention_member(void *arg, int32_t idx, int32_t n_members) {
    attention_run *run = arg;
    void *scratch = tdm_cpu_thread_scratch(run->cpu, idx);
    place p = {0};
    (void)n_members;
    for (;;) {
        int64_t at = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed);
        while (p.span < run->n_spans && at >= p.first_item + span_items(run, &run->spans[p.span])) {
            place_next(run, &p);
        }
        if (p.span == run->n_spans) {
            return;
        }
        if (run->is_split) {
            attend_split(run, &p, at - p.first_item, scratch);
        } else {
            tdm_cpu_attention_item item = tile_at(run, &run->spans[p.span], at - p.first_item);
            run->cpu->kernels.attention(&item, scratch);
        }
    }
}

static place all_items(const attention_run *run) {
    place p = {0};
    while (p.span < run->n_spans) {
        place_next(run, &p);
    }
    return p;
}

/* Whether chunks are shared out too: where tiles are few, and what lies between is small enough. */
static bool can_split(attention_run *run) {
    const tdm_cpu_split *split = &run->cpu->split;
    if (split->partials == NULL || run->cpu->kernels.attention_merge == NULL ||
        all_items(run).first_tile > split->n_tiles) {
        return false;
    }
    for (int32_t i = 0; i < run->n_spans; ++i) {
        if (run->spans[i].chosen != NULL) {
            return false;
        }
    }
    run->is_split = true;
    run->chunks_max = 1;
    run->chunks_max = tdm_cpu_max(1, all_items(run).first_item / (run->cpu->n_threads * 4));
    run->is_split = all_items(run).first_float <= split->n_floats;
    return run->is_split;
}

/* How the spans are cut, which moves no bit: whole groups of heads, since they share what is read of
 * keys and values; then chunks; then, where even those are few, smaller groups. */
static void plan_items(attention_run *run, int64_t group_max) {
    int64_t pieces = ceil_div(group_max, TDM_CPU_ATTENTION_QUERIES);
    int64_t enough = (int64_t)run->cpu->n_threads * 2;
    run->heads_max = (int32_t)ceil_div(group_max, pieces);
    run->tokens_max = TDM_CPU_ATTENTION_QUERIES / run->heads_max;
    if (run->cpu->n_threads == 1) {
        return;
    }
    (void)can_split(run);
    while (run->heads_max > 1 && all_items(run).first_item < enough) {
        run->heads_max = (int32_t)ceil_div(run->heads_max, 2);
        run->is_split = false;
        (void)can_split(run);
    }
    if (run->is_split) {
        place p = {0};
        for (; p.span < run->n_spans; place_next(run, &p)) {
            const tdm_attention_span *s = &run->spans[p.span];
            for (int64_t i = 0; i < tiles_of(run, s); ++i) {
                atomic_init(&run->cpu->split.left[p.first_tile + i], (int)tile_items(run, s));
            }
        }
    }
}

void tdm_cpu_attention(tdm_backend *be, const tdm_attention_span *spans, int32_t n_spans) {
    tdm_cpu *cpu = tdm_cpu_of(be);
    attention_run run = {.cpu = cpu, .spans = spans, .n_spans = n_spans};
    int64_t work = 0; /* scores, roughly */
    int64_t group_max = 1;
    for (int32_t i = 0; i < n_spans; ++i) {
        const tdm_attention_span *s = &spans[i];
        int64_t seen = s->pos0 + s->n;
        if (s->window > 0) {
            seen = tdm_cpu_min(seen, (int64_t)s->window + s->n);
        }
        seen = s->chosen != NULL ? tdm_cpu_min(seen, s->ld_chosen) : seen;
        work += seen * s->n * s->n_heads;
        group_max = tdm_cpu_max(group_max, s->n_heads / s->pages->n_kv_heads);
    }
    atomic_init(&run.next, 0);
    plan_items(&run, group_max);
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
