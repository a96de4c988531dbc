/* SPDX-License-Identifier: Apache-2.0
 *
 * Viterbi over bytes: best[i] is the best way to the boundary i. Of two equal ways the first one
 * found stays, as in the reference. The way back is walked twice, to count and to write. */
#include "text/unigram.h"

#include "base/arith.h"
#include "base/utf8.h"

#include <string.h>

#define NONE UINT32_MAX

typedef struct way {
    double score;
    uint32_t from; /* where the last token begins; NONE: not reached */
    int32_t id;    /* -1: one unknown character */
} way;

static void offer(way *target, double score, size_t from, int32_t id) {
    if (target->from == NONE || score > target->score) {
        *target = (way){score, (uint32_t)from, id};
    }
}

static void find_ways(const tdm_unigram *u, const char *text, size_t len, way *best) {
    const tdm_trie *trie = &u->trie;
    size_t n = 0;
    for (size_t i = 0; i <= len; i++) {
        best[i] = (way){0.0, NONE, -1};
    }
    for (size_t i = 0; i < len; i += n) {
        const double score = best[i].score;
        bool has_single = false;
        uint32_t cp = 0;
        uint32_t node = 0;
        n = (uint8_t)text[i] < 0x80 ? 1 : tdm_utf8_decode(text + i, len - i, &cp, NULL);
        for (size_t end = i; end < len;) {
            node = tdm_trie_step(trie, node, (uint8_t)text[end]);
            if (node == 0) {
                break;
            }
            end++;
            const int32_t id = trie->nodes[node].value;
            if (id >= 0) {
                offer(&best[end], score + u->scores[id], i, id);
                has_single = has_single || end - i == n;
            }
        }
        if (!has_single) {
            offer(&best[i + n], score + u->unk_score, i, -1);
        }
    }
}

/* A run of unknown characters: a token spelled like the run, else its bytes, else unknown. */
static tdm_status put_unknown(const tdm_unigram *u, const char *text, size_t begin, size_t end,
                              tdm_bpe_scratch *scratch) {
    const int32_t id = tdm_text_map_find(u->words, text + begin, end - begin);
    bool has_bytes = u->has_byte_tokens && id < 0;
    tdm_bpe_symbol symbol = {id >= 0 ? id : u->unk_id, (uint32_t)begin, (uint32_t)end, NONE, NONE};
    for (size_t i = begin; i < end && has_bytes; i++) {
        has_bytes = u->fallback_ids[(uint8_t)text[i]] >= 0;
    }
    for (size_t i = begin; i < end && has_bytes; i++) {
        symbol.id = u->fallback_ids[(uint8_t)text[i]];
        symbol.begin = (uint32_t)i;
        symbol.end = (uint32_t)(i + 1);
        TDM_TRY(tdm_buf_append(&scratch->symbols, &symbol, sizeof(symbol)));
        scratch->n++;
    }
    if (has_bytes || symbol.id < 0) {
        return TDM_OK;
    }
    scratch->n++;
    return tdm_buf_append(&scratch->symbols, &symbol, sizeof(symbol));
}

/* Turns the way back into a way forth: from of a boundary becomes the next boundary. */
static void turn_round(way *best, size_t len) {
    uint32_t next = NONE;
    uint32_t at = (uint32_t)len;
    int32_t next_id = -1;
    for (;;) {
        const way here = best[at];
        best[at].from = next;
        best[at].id = next_id;
        if (at == 0) {
            return;
        }
        next = at;
        next_id = here.id;
        at = here.from;
    }
}

tdm_status tdm_unigram_encode(const tdm_unigram *u, const char *text, size_t len,
                              tdm_bpe_scratch *scratch) {
    size_t bytes = 0;
    tdm_buf_reset(&scratch->symbols);
    tdm_buf_reset(&scratch->heap);
    scratch->n = 0;
    if (!tdm_mul_size(len + 1, sizeof(way), &bytes)) {
        return TDM_E_NOMEM;
    }
    TDM_TRY(tdm_buf_reserve(&scratch->heap, bytes));
    way *best = (way *)(void *)scratch->heap.data;
    find_ways(u, text, len, best);
    turn_round(best, len);
    size_t unk_begin = SIZE_MAX;
    for (uint32_t at = 0; at < len; at = best[at].from) {
        const int32_t id = best[at].id;
        if (id < 0) {
            unk_begin = unk_begin == SIZE_MAX ? at : unk_begin;
            continue;
        }
        if (unk_begin != SIZE_MAX) {
            TDM_TRY(put_unknown(u, text, unk_begin, at, scratch));
            unk_begin = SIZE_MAX;
        }
        const tdm_bpe_symbol symbol = {id, at, best[at].from, NONE, NONE};
        TDM_TRY(tdm_buf_append(&scratch->symbols, &symbol, sizeof(symbol)));
        scratch->n++;
    }
    return unk_begin != SIZE_MAX ? put_unknown(u, text, unk_begin, len, scratch) : TDM_OK;
}
