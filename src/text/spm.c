/* SPDX-License-Identifier: Apache-2.0
 *
 * Adjacent pieces whose joined text is a token merge by best score, the leftmost first on a tie;
 * characters that no piece covers fall to byte tokens. Candidates lie in a heap: O(n log n). */
#include "text/spm.h"

#include "text/stitch.h"
#include "text/tokenizer.h"

#include "base/utf8.h"

#include <string.h>

#define NONE UINT32_MAX

typedef struct candidate {
    float score;
    uint32_t left, right;
    uint32_t end; /* of the pair, in bytes: tells a pair that has changed since */
    int32_t id;
} candidate;

static tdm_bpe_symbol *symbols_of(const tdm_bpe_scratch *scratch) {
    return (tdm_bpe_symbol *)(void *)scratch->symbols.data;
}

static bool is_before(const candidate *a, const candidate *b) {
    if (a->score > b->score || a->score < b->score) {
        return a->score > b->score;
    }
    return a->left < b->left;
}

#include "text/merge_heap_tmpl.h"

static int32_t find_word(const tdm_spm *spm, const char *text, size_t len) {
    const int32_t id = tdm_text_map_find(spm->words, text, len);
    const bool is_plain =
        id >= 0 && (spm->kinds[id] == TDM_TOKEN_NORMAL || spm->kinds[id] == TDM_TOKEN_USER ||
                    spm->kinds[id] == TDM_TOKEN_UNUSED);
    return is_plain ? id : -1;
}

static tdm_status push_pair(const tdm_spm *spm, const char *text, tdm_bpe_scratch *scratch,
                            uint32_t left) {
    const tdm_bpe_symbol *s = symbols_of(scratch);
    if (left == NONE || s[left].next == NONE) {
        return TDM_OK;
    }
    const uint32_t right = s[left].next;
    const int32_t id = find_word(spm, text + s[left].begin, s[right].end - s[left].begin);
    if (id < 0) {
        return TDM_OK;
    }
    const candidate entry = {spm->scores[id], left, right, s[right].end, id};
    return heap_push(scratch, &entry);
}

/* One symbol a character, without ids. */
static tdm_status seed(const char *text, size_t len, tdm_bpe_scratch *scratch) {
    size_t n = 0;
    for (size_t i = 0; i < len; i += n) {
        uint32_t cp = 0;
        n = tdm_utf8_decode(text + i, len - i, &cp, NULL);
        const uint32_t idx = (uint32_t)scratch->n;
        const tdm_bpe_symbol symbol = {-1, (uint32_t)i, (uint32_t)(i + n),
                                       idx == 0 ? NONE : idx - 1, i + n < len ? idx + 1 : NONE};
        TDM_TRY(tdm_buf_append(&scratch->symbols, &symbol, sizeof(symbol)));
        scratch->n++;
    }
    return TDM_OK;
}

static tdm_status merge(const tdm_spm *spm, const char *text, tdm_bpe_scratch *scratch) {
    tdm_bpe_symbol *s = symbols_of(scratch);
    for (uint32_t i = 0; i < scratch->n; i++) {
        TDM_TRY(push_pair(spm, text, scratch, i));
    }
    while (scratch->heap.len > 0) {
        const candidate top = heap_pop(scratch);
        if (s[top.left].begin == s[top.left].end || s[top.left].next != top.right ||
            s[top.right].end != top.end) {
            continue;
        }
        s[top.left].id = top.id;
        s[top.left].end = top.end;
        s[top.left].next = s[top.right].next;
        if (s[top.right].next != NONE) {
            s[s[top.right].next].prev = top.left;
        }
        s[top.right].begin = s[top.right].end;
        TDM_TRY(push_pair(spm, text, scratch, s[top.left].prev));
        TDM_TRY(push_pair(spm, text, scratch, top.left));
    }
    return TDM_OK;
}

/* Puts ids on single characters, spelling the unknown ones in bytes. The result is gathered in the
 * heap's buffer, because it may be longer than the list of symbols. */
static tdm_status resolve(const tdm_spm *spm, const char *text, tdm_bpe_scratch *scratch) {
    const tdm_bpe_symbol *s = symbols_of(scratch);
    size_t n = 0;
    tdm_buf_reset(&scratch->heap);
    for (uint32_t i = 0; i != NONE; i = s[i].next) {
        tdm_bpe_symbol symbol = s[i];
        if (symbol.id < 0) {
            symbol.id = find_word(spm, text + symbol.begin, symbol.end - symbol.begin);
        }
        if (symbol.id >= 0) {
            TDM_TRY(tdm_buf_append(&scratch->heap, &symbol, sizeof(symbol)));
            n++;
            continue;
        }
        for (uint32_t k = s[i].begin; k < s[i].end; k++) {
            const int32_t byte_id = spm->byte_ids[(uint8_t)text[k]];
            symbol.id = byte_id >= 0 ? byte_id : spm->unk_id;
            symbol.begin = k;
            symbol.end = k + 1;
            if (symbol.id >= 0) {
                TDM_TRY(tdm_buf_append(&scratch->heap, &symbol, sizeof(symbol)));
                n++;
            }
        }
    }
    const tdm_buf swap = scratch->symbols;
    scratch->symbols = scratch->heap;
    scratch->heap = swap;
    scratch->n = n;
    return TDM_OK;
}

static tdm_status encode_window(const void *model, const char *text, size_t len,
                                tdm_bpe_scratch *scratch) {
    const tdm_spm *spm = model;
    tdm_buf_reset(&scratch->symbols);
    tdm_buf_reset(&scratch->heap);
    scratch->n = 0;
    TDM_TRY(seed(text, len, scratch));
    TDM_TRY(merge(spm, text, scratch));
    return resolve(spm, text, scratch);
}

tdm_status tdm_spm_encode(const tdm_spm *spm, const char *text, size_t len,
                          tdm_bpe_scratch *scratch) {
    return len >= TDM_STITCH_BYTES_MIN ? tdm_stitch_encode(spm, encode_window, text, len, scratch)
                                       : encode_window(spm, text, len, scratch);
}
