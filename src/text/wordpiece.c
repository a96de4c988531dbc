/* SPDX-License-Identifier: Apache-2.0
 *
 * Greedy longest match through one trie that holds heads and tails alike. */
#include "text/wordpiece.h"

#include "base/utf8.h"

#include <string.h>

#define NONE UINT32_MAX

static uint32_t walk(const tdm_trie *trie, const char *text, size_t len) {
    uint32_t node = 0;
    for (size_t i = 0; i < len; i++) {
        node = tdm_trie_step(trie, node, (uint8_t)text[i]);
        if (node == 0) {
            break;
        }
    }
    return node;
}

void tdm_wordpiece_set_leads(tdm_wordpiece *w, const char *head, const char *tail,
                             size_t tail_len) {
    w->has_head_lead = head[0] != '\0';
    w->has_tail_lead = tail_len > 0;
    w->head_node = walk(&w->trie, head, strlen(head));
    w->tail_node = walk(&w->trie, tail, tail_len);
}

/* Counts characters no further than it must. */
static bool is_longer(const char *word, size_t len, size_t chars_max) {
    size_t n = 0;
    if (len <= chars_max) {
        return false;
    }
    for (size_t i = 0; i < len; n++) {
        uint32_t cp = 0;
        if (n == chars_max) {
            return true;
        }
        i += tdm_utf8_decode(word + i, len - i, &cp, NULL);
    }
    return false;
}

/* The longest token from node on that spells word[begin..); its end, or begin when there is none.
 * *id keeps the value that it had when there is none. */
static size_t longest(const tdm_trie *trie, uint32_t node, const char *word, size_t len,
                      size_t begin, int32_t *id) {
    size_t found = begin;
    for (size_t i = begin; i < len; i++) {
        node = tdm_trie_step(trie, node, (uint8_t)word[i]);
        if (node == 0) {
            break;
        }
        if (trie->nodes[node].value >= 0) {
            *id = trie->nodes[node].value;
            found = i + 1;
        }
    }
    return found;
}

static tdm_status put(tdm_bpe_scratch *scratch, int32_t id, size_t begin, size_t end) {
    const tdm_bpe_symbol symbol = {id, (uint32_t)begin, (uint32_t)end, NONE, NONE};
    scratch->n++;
    return tdm_buf_append(&scratch->symbols, &symbol, sizeof(symbol));
}

static tdm_status put_unknown(const tdm_wordpiece *w, size_t len, tdm_bpe_scratch *scratch) {
    tdm_buf_reset(&scratch->symbols);
    scratch->n = 0;
    return w->unk_id >= 0 ? put(scratch, w->unk_id, 0, len) : TDM_OK;
}

tdm_status tdm_wordpiece_encode(const tdm_wordpiece *w, const char *word, size_t len,
                                tdm_bpe_scratch *scratch) {
    size_t pos = 0;
    tdm_buf_reset(&scratch->symbols);
    scratch->n = 0;
    if (is_longer(word, len, w->chars_max) || (w->has_head_lead && w->head_node == 0)) {
        return put_unknown(w, len, scratch);
    }
    if (w->has_head_lead) { /* the lead alone may be a token as well */
        int32_t id = w->trie.nodes[w->head_node].value;
        pos = longest(&w->trie, w->head_node, word, len, 0, &id);
        if (id < 0) {
            return put_unknown(w, len, scratch);
        }
        TDM_TRY(put(scratch, id, 0, pos));
    }
    while (pos < len) {
        const bool is_head = pos == 0 && !w->has_head_lead;
        int32_t id = -1;
        if (!is_head && w->has_tail_lead && w->tail_node == 0) {
            return put_unknown(w, len, scratch);
        }
        const size_t end = longest(&w->trie, is_head ? 0 : w->tail_node, word, len, pos, &id);
        if (end == pos) {
            return put_unknown(w, len, scratch);
        }
        TDM_TRY(put(scratch, id, pos, end));
        pos = end;
    }
    return TDM_OK;
}
