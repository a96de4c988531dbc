/* SPDX-License-Identifier: Apache-2.0
 *
 * The merge loop. Two ways to the same result: up to SHORT_MAX symbols an array of ranks is scanned
 * for its minimum and closed up after each merge; longer words keep symbols in a linked list and
 * candidate pairs in a binary heap ordered by (rank, position), where an entry whose pair has
 * changed since is dropped when it comes up. */
#include "text/bpe.h"

#include "base/arith.h"
#include "base/utf8.h"

#include <string.h>

#define SHORT_MAX 48u
#define NONE UINT32_MAX

typedef struct candidate {
    uint32_t rank;
    uint32_t pos;   /* index of the left symbol */
    uint32_t right; /* index of the right one when this was pushed */
    uint32_t right_end;
    int32_t id;
} candidate;

void tdm_bpe_scratch_init(tdm_bpe_scratch *scratch, const tdm_alloc *alloc) {
    tdm_buf_init(&scratch->symbols, alloc, 0);
    tdm_buf_init(&scratch->heap, alloc, 0);
    scratch->n = 0;
}

void tdm_bpe_scratch_deinit(tdm_bpe_scratch *scratch) {
    tdm_buf_deinit(&scratch->symbols);
    tdm_buf_deinit(&scratch->heap);
}

static tdm_bpe_symbol *symbols_of(const tdm_bpe_scratch *scratch) {
    return (tdm_bpe_symbol *)(void *)scratch->symbols.data;
}

const tdm_bpe_symbol *tdm_bpe_result(const tdm_bpe_scratch *scratch) {
    return symbols_of(scratch);
}

static uint64_t key_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t slot_of(const tdm_bpe *bpe, uint64_t key) {
    uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 32;
    return (size_t)hash & bpe->mask;
}

tdm_status tdm_bpe_init(tdm_bpe *bpe, tdm_arena *arena, size_t n_merges) {
    size_t n_slots = 16;
    size_t bytes = 0;
    memset(bpe, 0, sizeof(*bpe));
    while (n_slots / 2 < n_merges) {
        if (!tdm_mul_size(n_slots, 2, &n_slots)) {
            return TDM_E_NOMEM;
        }
    }
    if (!tdm_mul_size(n_slots, sizeof(bpe->merges[0]), &bytes)) {
        return TDM_E_NOMEM;
    }
    bpe->merges = tdm_arena_alloc(arena, bytes, TDM_ALIGN_CACHE_LINE);
    if (bpe->merges == NULL) {
        return TDM_E_NOMEM;
    }
    memset(bpe->merges, 0xFF, bytes);
    bpe->mask = n_slots - 1;
    bpe->unk_id = -1;
    memset(bpe->byte_ids, 0xFF, sizeof(bpe->byte_ids));
    memset(bpe->fallback_ids, 0xFF, sizeof(bpe->fallback_ids));
    return TDM_OK;
}

void tdm_bpe_put(tdm_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id,
                 bool is_last_kept) {
    const uint64_t key = key_of(left, right);
    size_t i = slot_of(bpe, key);
    while (bpe->merges[i].key != UINT64_MAX && bpe->merges[i].key != key) {
        i = (i + 1) & bpe->mask;
    }
    if (bpe->merges[i].key == key && !is_last_kept) {
        return;
    }
    bpe->merges[i] = (tdm_bpe_merge){key, rank, id};
}

static const tdm_bpe_merge *find_merge(const tdm_bpe *bpe, int32_t left, int32_t right) {
    const uint64_t key = key_of(left, right);
    for (size_t i = slot_of(bpe, key);; i = (i + 1) & bpe->mask) {
        if (bpe->merges[i].key == key) {
            return &bpe->merges[i];
        }
        if (bpe->merges[i].key == UINT64_MAX) {
            return NULL;
        }
    }
}

static tdm_status add_symbol(tdm_bpe_scratch *scratch, int32_t id, size_t begin, size_t end) {
    const tdm_bpe_symbol symbol = {id, (uint32_t)begin, (uint32_t)end, NONE, NONE};
    scratch->n++;
    return tdm_buf_append(&scratch->symbols, &symbol, sizeof(symbol));
}

/* Splits into bytes. A byte without a token is unknown. */
static tdm_status seed_bytes(const tdm_bpe *bpe, const char *word, size_t len,
                             tdm_bpe_scratch *scratch) {
    size_t unk_begin = SIZE_MAX;
    TDM_TRY(tdm_buf_reserve(&scratch->symbols, len * sizeof(tdm_bpe_symbol)));
    for (size_t i = 0; i < len; i++) {
        const int32_t id = bpe->byte_ids[(uint8_t)word[i]];
        if (id < 0 && bpe->unk_id >= 0 && unk_begin == SIZE_MAX) {
            unk_begin = i;
        }
        const bool is_flushed = unk_begin != SIZE_MAX && (id >= 0 || !bpe->is_unk_fused);
        if (is_flushed) {
            TDM_TRY(add_symbol(scratch, bpe->unk_id, unk_begin, id >= 0 ? i : i + 1));
            unk_begin = SIZE_MAX;
        }
        if (id >= 0) {
            TDM_TRY(add_symbol(scratch, id, i, i + 1));
        }
    }
    return unk_begin != SIZE_MAX ? add_symbol(scratch, bpe->unk_id, unk_begin, len) : TDM_OK;
}

static bool has_fallback(const tdm_bpe *bpe, const char *bytes, size_t n) {
    bool has_all = bpe->has_byte_tokens;
    for (size_t i = 0; i < n && has_all; i++) {
        has_all = bpe->fallback_ids[(uint8_t)bytes[i]] >= 0;
    }
    return has_all;
}

/* Splits into characters: token, else byte tokens, else unknown. As in the reference, an unknown
 * that waits to be fused is put down in front of the next known character only, so that byte tokens
 * can overtake it. */
static tdm_status seed_characters(const tdm_bpe *bpe, const char *word, size_t len,
                                  tdm_bpe_scratch *scratch) {
    size_t unk_begin = SIZE_MAX;
    size_t unk_end = 0;
    size_t n = 0;
    for (size_t i = 0; i < len; i += n) {
        uint32_t cp = 0;
        bool is_ok = false;
        n = tdm_utf8_decode(word + i, len - i, &cp, &is_ok);
        const int32_t id = is_ok ? tdm_text_map_find(bpe->words, word + i, n) : -1;
        if (id >= 0) {
            if (unk_begin != SIZE_MAX) {
                TDM_TRY(add_symbol(scratch, bpe->unk_id, unk_begin, unk_end));
                unk_begin = SIZE_MAX;
            }
            TDM_TRY(add_symbol(scratch, id, i, i + n));
        } else if (has_fallback(bpe, word + i, n)) {
            for (size_t k = 0; k < n; k++) {
                TDM_TRY(
                    add_symbol(scratch, bpe->fallback_ids[(uint8_t)word[i + k]], i + k, i + k + 1));
            }
        } else if (bpe->unk_id >= 0) {
            if (unk_begin != SIZE_MAX && !bpe->is_unk_fused) {
                TDM_TRY(add_symbol(scratch, bpe->unk_id, unk_begin, unk_end));
                unk_begin = SIZE_MAX;
            }
            unk_begin = unk_begin == SIZE_MAX ? i : unk_begin;
            unk_end = i + n;
        }
    }
    return unk_begin != SIZE_MAX ? add_symbol(scratch, bpe->unk_id, unk_begin, unk_end) : TDM_OK;
}

static void merge_short(const tdm_bpe *bpe, tdm_bpe_scratch *scratch) {
    const tdm_bpe_merge *pairs[SHORT_MAX] = {NULL}; /* pairs[i]: symbols i and i + 1 */
    tdm_bpe_symbol *s = symbols_of(scratch);
    size_t n = scratch->n;
    for (size_t i = 0; i + 1 < n; i++) {
        pairs[i] = find_merge(bpe, s[i].id, s[i + 1].id);
    }
    for (;;) {
        uint32_t best = TDM_BPE_NO_RANK;
        size_t at = n;
        for (size_t i = 0; i + 1 < n; i++) {
            if (pairs[i] != NULL && pairs[i]->rank < best) {
                best = pairs[i]->rank;
                at = i;
            }
        }
        if (at == n) {
            break;
        }
        s[at].id = pairs[at]->id;
        s[at].end = s[at + 1].end;
        memmove(s + at + 1, s + at + 2, (n - at - 2) * sizeof(*s));
        memmove(pairs + at, pairs + at + 1, (n - at - 2) * sizeof(pairs[0]));
        n--;
        if (at + 1 < n) {
            pairs[at] = find_merge(bpe, s[at].id, s[at + 1].id);
        }
        if (at > 0) {
            pairs[at - 1] = find_merge(bpe, s[at - 1].id, s[at].id);
        }
    }
    scratch->n = n;
}

static bool is_before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->pos < b->pos;
}

static candidate *heap_of(const tdm_bpe_scratch *scratch) {
    return (candidate *)(void *)scratch->heap.data;
}

static tdm_status heap_push(tdm_bpe_scratch *scratch, const candidate *entry) {
    TDM_TRY(tdm_buf_append(&scratch->heap, entry, sizeof(*entry)));
    candidate *heap = heap_of(scratch);
    size_t i = scratch->heap.len / sizeof(*entry) - 1;
    while (i > 0 && is_before(entry, &heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = *entry;
    return TDM_OK;
}

static candidate heap_pop(tdm_bpe_scratch *scratch) {
    candidate *heap = heap_of(scratch);
    const candidate top = heap[0];
    scratch->heap.len -= sizeof(top);
    const size_t n = scratch->heap.len / sizeof(top);
    const candidate moved = heap[n];
    size_t i = 0;
    for (size_t child = 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && is_before(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!is_before(&heap[child], &moved)) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    if (n > 0) {
        heap[i] = moved;
    }
    return top;
}

static tdm_status push_pair(const tdm_bpe *bpe, tdm_bpe_scratch *scratch, uint32_t pos) {
    const tdm_bpe_symbol *s = symbols_of(scratch);
    if (pos == NONE || s[pos].next == NONE) {
        return TDM_OK;
    }
    const uint32_t right = s[pos].next;
    const tdm_bpe_merge *merge = find_merge(bpe, s[pos].id, s[right].id);
    if (merge == NULL) {
        return TDM_OK;
    }
    const candidate entry = {merge->rank, pos, right, s[right].end, merge->id};
    return heap_push(scratch, &entry);
}

static tdm_status merge_long(const tdm_bpe *bpe, tdm_bpe_scratch *scratch) {
    tdm_bpe_symbol *s = symbols_of(scratch);
    tdm_buf_reset(&scratch->heap);
    for (uint32_t i = 0; i < scratch->n; i++) {
        s[i].prev = i == 0 ? NONE : i - 1;
        s[i].next = i + 1 == scratch->n ? NONE : i + 1;
    }
    for (uint32_t i = 0; i < scratch->n; i++) {
        TDM_TRY(push_pair(bpe, scratch, i));
    }
    while (scratch->heap.len > 0) {
        const candidate top = heap_pop(scratch);
        /* Both sides only ever grow: the pair is the one pushed when left still ends where right
         * begins and right still ends where it did. A symbol that was merged away has no bytes. */
        if (s[top.pos].begin == s[top.pos].end || s[top.pos].next != top.right ||
            s[top.right].end != top.right_end) {
            continue;
        }
        const tdm_bpe_merge *merge = find_merge(bpe, s[top.pos].id, s[top.right].id);
        if (merge == NULL || merge->id != top.id) {
            continue;
        }
        s[top.pos].id = top.id;
        s[top.pos].end = s[top.right].end;
        s[top.pos].next = s[top.right].next;
        if (s[top.right].next != NONE) {
            s[s[top.right].next].prev = top.pos;
        }
        s[top.right].begin = s[top.right].end;
        TDM_TRY(push_pair(bpe, scratch, s[top.pos].prev));
        TDM_TRY(push_pair(bpe, scratch, top.pos));
    }
    size_t n = 0;
    for (uint32_t i = 0; i != NONE; i = s[i].next) {
        const uint32_t next = s[i].next; /* s[n] may be s[i], never a later one */
        s[n] = s[i];
        s[n].next = next;
        n++;
    }
    scratch->n = n;
    return TDM_OK;
}

tdm_status tdm_bpe_encode(const tdm_bpe *bpe, const char *word, size_t len,
                          tdm_bpe_scratch *scratch) {
    tdm_buf_reset(&scratch->symbols);
    scratch->n = 0;
    if (bpe->takes_whole_word) {
        const int32_t id = tdm_text_map_find(bpe->words, word, len);
        if (id >= 0) {
            return add_symbol(scratch, id, 0, len);
        }
    }
    TDM_TRY(bpe->is_byte_level ? seed_bytes(bpe, word, len, scratch)
                               : seed_characters(bpe, word, len, scratch));
    if (scratch->n > SHORT_MAX) {
        return merge_long(bpe, scratch);
    }
    if (scratch->n > 1) {
        merge_short(bpe, scratch);
    }
    return TDM_OK;
}
