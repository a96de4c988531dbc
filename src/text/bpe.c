/* SPDX-License-Identifier: Apache-2.0
 *
 * The merge loop. Two ways to the same result: up to SHORT_MAX symbols an array of ranks is scanned
 * for its minimum and closed up after each merge; more symbols stand in a linked list and candidate
 * pairs in a binary heap ordered by (rank, position), where an entry whose pair has changed since
 * is dropped when it comes up. Long words come in windows, see stitch.h. */
#include "text/stitch.h"

#include "base/arith.h"
#include "text/unicode.h"

#include <stdatomic.h>
#include <string.h>

#define SHORT_MAX 128u
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
    tdm_buf_init(&scratch->done, alloc, 0);
    scratch->n = 0;
}

void tdm_bpe_scratch_deinit(tdm_bpe_scratch *scratch) {
    tdm_buf_deinit(&scratch->symbols);
    tdm_buf_deinit(&scratch->heap);
    tdm_buf_deinit(&scratch->done);
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

#define FILTER_SHIFT 20 /* other bits than the slot's lowest */

static size_t hash_of(uint64_t key) {
    uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 32;
    return (size_t)hash;
}

static size_t slot_of(const tdm_bpe *bpe, uint64_t key) {
    return hash_of(key) & bpe->mask;
}

tdm_status tdm_bpe_init(tdm_bpe *bpe, tdm_arena *arena, size_t n_merges) {
    size_t n_slots = 16;
    size_t bytes = 0;
    memset(bpe, 0, sizeof(*bpe));
    while (n_slots / 4 * 3 < n_merges) { /* small, because most of a miss is waiting for memory */
        if (!tdm_mul_size(n_slots, 2, &n_slots)) {
            return TDM_E_NOMEM;
        }
    }
    if (!tdm_mul_size(n_slots, sizeof(bpe->merges[0]), &bytes)) {
        return TDM_E_NOMEM;
    }
    bpe->merges = tdm_arena_alloc(arena, bytes, TDM_ALIGN_CACHE_LINE);
    bpe->filter = tdm_arena_calloc(arena, n_slots, 1); /* eight bits a slot */
    if (bpe->merges == NULL || bpe->filter == NULL) {
        return TDM_E_NOMEM;
    }
    memset(bpe->merges, 0xFF, bytes);
    bpe->mask = n_slots - 1;
    bpe->filter_mask = n_slots * 8 - 1;
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
    const size_t bit = hash_of(key) >> FILTER_SHIFT & bpe->filter_mask;
    bpe->filter[bit / 8] |= (uint8_t)(1u << bit % 8);
    bpe->merges[i] = (tdm_bpe_merge){key, rank, id};
}

static const tdm_bpe_merge *find_merge(const tdm_bpe *bpe, int32_t left, int32_t right) {
    const uint64_t key = key_of(left, right);
    const size_t bit = hash_of(key) >> FILTER_SHIFT & bpe->filter_mask;
    if ((bpe->filter[bit / 8] >> bit % 8 & 1) == 0) {
        return NULL;
    }
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

static int32_t find_character(const tdm_bpe *bpe, uint32_t cp, const char *bytes, size_t n) {
    return cp < 0x10000 && bpe->char_ids != NULL ? bpe->char_ids[cp]
                                                 : tdm_text_map_find(bpe->words, bytes, n);
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
        n = tdm_unicode_decode(word + i, len - i, &cp, &is_ok);
        const int32_t id = is_ok ? find_character(bpe, cp, word + i, n) : -1;
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

/* Symbols of a short word, apart by field so that the search for the least rank is a plain loop. */
typedef struct short_word {
    uint32_t ranks[SHORT_MAX]; /* of symbols i and i + 1 */
    int32_t results[SHORT_MAX];
    int32_t ids[SHORT_MAX];
    uint32_t begins[SHORT_MAX];
    size_t n;
} short_word;

static void rank_pair(const tdm_bpe *bpe, short_word *w, size_t i) {
    const tdm_bpe_merge *merge = find_merge(bpe, w->ids[i], w->ids[i + 1]);
    w->ranks[i] = merge != NULL ? merge->rank : TDM_BPE_NO_RANK;
    w->results[i] = merge != NULL ? merge->id : -1;
}

static void close_up(short_word *w, size_t at) {
    for (size_t i = at + 1; i + 1 < w->n; i++) {
        w->ids[i] = w->ids[i + 1];
        w->begins[i] = w->begins[i + 1];
    }
    for (size_t i = at; i + 2 < w->n; i++) {
        w->ranks[i] = w->ranks[i + 1];
        w->results[i] = w->results[i + 1];
    }
    w->n--;
}

static void merge_short(const tdm_bpe *bpe, short_word *w) {
    for (;;) {
        uint32_t best = TDM_BPE_NO_RANK;
        size_t at = 0;
        for (size_t i = 0; i + 1 < w->n; i++) {
            best = w->ranks[i] < best ? w->ranks[i] : best;
        }
        if (best == TDM_BPE_NO_RANK) {
            return;
        }
        while (w->ranks[at] != best) {
            at++;
        }
        w->ids[at] = w->results[at];
        close_up(w, at);
        if (at + 1 < w->n) {
            rank_pair(bpe, w, at);
        }
        if (at > 0) {
            rank_pair(bpe, w, at - 1);
        }
    }
}

static tdm_status put_short(const short_word *w, size_t len, tdm_bpe_scratch *scratch) {
    TDM_TRY(tdm_buf_reserve(&scratch->symbols, w->n * sizeof(tdm_bpe_symbol)));
    tdm_bpe_symbol *s = symbols_of(scratch);
    for (size_t i = 0; i < w->n; i++) {
        const uint32_t end = i + 1 < w->n ? w->begins[i + 1] : (uint32_t)len;
        s[i] = (tdm_bpe_symbol){w->ids[i], w->begins[i], end, NONE, NONE};
    }
    scratch->symbols.len = w->n * sizeof(*s);
    scratch->n = w->n;
    return TDM_OK;
}

/* Bytes that all have tokens: straight to the short form. */
static tdm_status encode_short_bytes(const tdm_bpe *bpe, const char *word, size_t len,
                                     tdm_bpe_scratch *scratch) {
    short_word w;
    w.n = len;
    for (size_t i = 0; i < len; i++) {
        w.ids[i] = bpe->byte_ids[(uint8_t)word[i]];
        w.begins[i] = (uint32_t)i;
    }
    for (size_t i = 0; i + 1 < len; i++) {
        const uint32_t slot =
            bpe->byte_pairs[(uint32_t)(uint8_t)word[i] << 8 | (uint8_t)word[i + 1]];
        w.ranks[i] = slot != 0 ? bpe->merges[slot - 1].rank : TDM_BPE_NO_RANK;
        w.results[i] = slot != 0 ? bpe->merges[slot - 1].id : -1;
    }
    merge_short(bpe, &w);
    return put_short(&w, len, scratch);
}

/* Characters. A symbol ends where the last of those it was merged of did. */
static void encode_short_symbols(const tdm_bpe *bpe, tdm_bpe_scratch *scratch) {
    short_word w;
    tdm_bpe_symbol *s = symbols_of(scratch);
    const size_t n = scratch->n;
    size_t k = 0;
    w.n = scratch->n;
    for (size_t i = 0; i < w.n; i++) {
        w.ids[i] = s[i].id;
        w.begins[i] = s[i].begin;
    }
    for (size_t i = 0; i + 1 < w.n; i++) {
        rank_pair(bpe, &w, i);
    }
    merge_short(bpe, &w);
    for (size_t i = 0; i < w.n; i++) {
        const uint32_t limit = i + 1 < w.n ? w.begins[i + 1] : NONE;
        uint32_t end = w.begins[i];
        for (; k < n && s[k].begin < limit; k++) {
            end = s[k].end;
        }
        s[i] = (tdm_bpe_symbol){w.ids[i], w.begins[i], end, NONE, NONE};
    }
    scratch->n = w.n;
}

static bool is_before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->pos < b->pos;
}

#include "text/merge_heap_tmpl.h"

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

static tdm_status tabulate_characters(tdm_bpe *bpe, tdm_arena *arena) {
    int32_t *ids = tdm_arena_calloc(arena, 0x10000, sizeof(*ids));
    if (ids == NULL) {
        return TDM_E_NOMEM;
    }
    for (uint32_t cp = 0; cp < 0x10000; cp++) {
        char bytes[4];
        const bool is_scalar = cp < 0xD800 || cp > 0xDFFF;
        ids[cp] = is_scalar ? tdm_text_map_find(bpe->words, bytes, tdm_utf8_encode(cp, bytes)) : -1;
    }
    bpe->char_ids = ids;
    return TDM_OK;
}

tdm_status tdm_bpe_seal(tdm_bpe *bpe, tdm_arena *arena, size_t n_vocab) {
    bool is_local = bpe->is_byte_level || bpe->has_byte_tokens;
    for (size_t i = 0; i < 256; i++) {
        is_local = is_local && (bpe->is_byte_level ? bpe->byte_ids[i] : bpe->fallback_ids[i]) >= 0;
    }
    bpe->is_local = is_local;
    bpe->whole = tdm_arena_calloc(arena, n_vocab, sizeof(bpe->whole[0]));
    if (bpe->whole == NULL) {
        return TDM_E_NOMEM;
    }
    if (!bpe->is_byte_level) {
        return tabulate_characters(bpe, arena);
    }
    if (!is_local) {
        return TDM_OK;
    }
    bpe->byte_pairs = tdm_arena_calloc(arena, 65536, sizeof(bpe->byte_pairs[0]));
    if (bpe->byte_pairs == NULL) {
        return TDM_E_NOMEM;
    }
    for (uint32_t i = 0; i < 65536; i++) {
        const tdm_bpe_merge *merge = find_merge(bpe, bpe->byte_ids[i >> 8], bpe->byte_ids[i & 255]);
        bpe->byte_pairs[i] = merge != NULL ? 1 + (uint32_t)(merge - bpe->merges) : 0;
    }
    return TDM_OK;
}

/* A word, or a window of one. */
static tdm_status encode_merged(const void *model, const char *word, size_t len,
                                tdm_bpe_scratch *scratch) {
    const tdm_bpe *bpe = model;
    if (bpe->byte_pairs != NULL && len <= SHORT_MAX) {
        return encode_short_bytes(bpe, word, len, scratch);
    }
    tdm_buf_reset(&scratch->symbols);
    scratch->n = 0;
    TDM_TRY(bpe->is_byte_level ? seed_bytes(bpe, word, len, scratch)
                               : seed_characters(bpe, word, len, scratch));
    if (scratch->n > SHORT_MAX) {
        return merge_long(bpe, scratch);
    }
    if (scratch->n > 1) {
        encode_short_symbols(bpe, scratch);
    }
    return TDM_OK;
}

tdm_status tdm_bpe_merge_bytes(const tdm_bpe *bpe, const char *word, size_t len,
                               tdm_bpe_scratch *scratch) {
    return encode_merged(bpe, word, len, scratch);
}

static tdm_status encode_any(const tdm_bpe *bpe, const char *word, size_t len,
                             tdm_bpe_scratch *scratch) {
    return bpe->is_local && len >= TDM_STITCH_BYTES_MIN
               ? tdm_stitch_encode(bpe, encode_merged, word, len, scratch)
               : encode_merged(bpe, word, len, scratch);
}

static tdm_status put_whole(tdm_bpe_scratch *scratch, int32_t id, size_t len) {
    tdm_buf_reset(&scratch->symbols);
    scratch->n = 0;
    return add_symbol(scratch, id, 0, len);
}

tdm_status tdm_bpe_encode(const tdm_bpe *bpe, const char *word, size_t len,
                          tdm_bpe_scratch *scratch) {
    const int32_t id =
        len > 1 || bpe->takes_whole_word ? tdm_text_map_find(bpe->words, word, len) : -1;
    if (id < 0) {
        return encode_any(bpe, word, len, scratch);
    }
    if (bpe->takes_whole_word) {
        return put_whole(scratch, id, len);
    }
    const uint8_t known = atomic_load_explicit(&bpe->whole[id], memory_order_relaxed);
    if (known == 1) {
        return put_whole(scratch, id, len);
    }
    TDM_TRY(encode_any(bpe, word, len, scratch));
    if (known == 0) {
        const bool is_whole = scratch->n == 1 && symbols_of(scratch)[0].id == id;
        atomic_store_explicit(&bpe->whole[id], is_whole ? 1 : 2, memory_order_relaxed);
    }
    return TDM_OK;
}
