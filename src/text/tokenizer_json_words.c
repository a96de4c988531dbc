/* SPDX-License-Identifier: Apache-2.0
 *
 * The models of tokenizer.json that are not BPE: Unigram (a list of tokens and scores) and
 * WordPiece. As with BPE, special tokens never come out of plain text: the tries do not hold them.
 */
#include "text/tokenizer_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL "$.model"

#define POWERS 308

/* A score as the reference's JSON reader makes it, which rounds twice: digits first, then the power
 * of ten. A sum of scores that is right to the last bit would break ties otherwise than the models'
 * own library. Source: serde_json's f64_from_parts. */
static bool read_score(const tdm_json *node, double *out) {
    uint64_t digits = 0;
    int64_t exponent = 0;
    bool is_behind_point = false;
    bool is_full = false; /* further digits do not fit and count for nothing but their place */
    double exact = 0.0;
    if (!tdm_json_as_f64(node, &exact)) {
        return false;
    }
    const char *p = node->u.text;
    const bool is_negative = *p == '-';
    for (p += is_negative ? 1 : 0; *p != '\0' && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            is_behind_point = true;
            continue;
        }
        const uint64_t digit = (uint64_t)(*p - '0');
        is_full = is_full || digits > (UINT64_MAX - digit) / 10;
        if (!is_full) {
            digits = digits * 10 + digit;
            exponent -= is_behind_point ? 1 : 0;
        } else if (!is_behind_point) {
            exponent++;
        }
    }
    if (*p != '\0') {
        const bool is_small = p[1] == '-';
        int64_t given = 0;
        for (p += p[1] == '-' || p[1] == '+' ? 2 : 1; *p != '\0' && given < 100000; p++) {
            given = given * 10 + (*p - '0');
        }
        exponent += is_small ? -given : given;
    }
    double value = (double)digits;
    if (exponent < -POWERS || exponent > POWERS) { /* far from any score */
        *out = exact;
        return true;
    }
    double power = 1.0; /* correctly rounded, as the reference's table is */
    if (exponent != 0) {
        char text[16];
        (void)snprintf(text, sizeof(text), "1e%d", (int)(exponent < 0 ? -exponent : exponent));
        power = strtod(text, NULL);
    }
    value = exponent < 0 ? value / power : value * power;
    *out = is_negative ? -value : value;
    return true;
}

/* A token that stands in the list twice belongs to its last place, as in the reference; the others
 * keep only their spelling. */
tdm_status tdm_json_read_scored(tdm_json_reader *r, const tdm_json *vocab) {
    tdm_tokenizer *t = r->tokenizer;
    double *scores = tdm_arena_calloc(&t->arena, (size_t)t->n_vocab, sizeof(*scores));
    if (scores == NULL) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    for (size_t i = vocab->len; i-- > 0;) {
        const tdm_json *item = &vocab->u.items[i];
        if (!tdm_json_is(item, TDM_JSON_ARRAY) || item->len != 2 ||
            !tdm_json_is(&item->u.items[0], TDM_JSON_STRING) ||
            !read_score(&item->u.items[1], &scores[i])) {
            return tdm_json_refuse_at(r, TDM_E_FORMAT, MODEL ".vocab", i,
                                      "an entry is not a text and a finite number");
        }
        const tdm_json *text = &item->u.items[0];
        TDM_TRY(tdm_json_check_token(r, MODEL ".vocab", i, text->len));
        TDM_TRY(tdm_tokenizer_spell(t, (int32_t)i, text->u.text, text->len, r->err));
        (void)tdm_text_map_put(&t->by_spelling, (int32_t)i);
    }
    t->unigram.scores = scores;
    return TDM_OK;
}

/* Fills trie with every token that text may become; also the map of the same texts. */
static tdm_status fill_trie(tdm_json_reader *r, tdm_trie *trie) {
    tdm_tokenizer *t = r->tokenizer;
    size_t bytes = 0;
    for (int32_t id = 0; id < t->n_vocab; id++) {
        bytes += t->spellings[id].len;
    }
    if (tdm_trie_init(trie, &t->arena, bytes) != TDM_OK ||
        tdm_text_map_init(&t->by_bytes, &t->arena, t->spellings, (size_t)t->n_vocab) != TDM_OK) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    for (int32_t id = t->n_vocab - 1; id >= 0; id--) {
        const tdm_text_ref *text = &t->spellings[id];
        if (text->data == NULL || text->len == 0 || t->kinds[id] == TDM_TOKEN_CONTROL ||
            tdm_text_map_find(&t->by_spelling, text->data, text->len) != id) {
            continue;
        }
        (void)tdm_trie_put(trie, text->data, text->len, id);
        (void)tdm_text_map_put(&t->by_bytes, id);
    }
    return tdm_trie_freeze(trie) == TDM_OK ? TDM_OK : tdm_fail_nomem(r->err, "a vocabulary");
}

tdm_status tdm_json_read_unigram(tdm_json_reader *r, const tdm_json *model) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_unigram *u = &t->unigram;
    const tdm_json *unk = tdm_json_get(model, "unk_id");
    const tdm_json *vocab = tdm_json_get(model, "vocab");
    const tdm_json_leaf leaf = {model, MODEL};
    int64_t unk_id = -1;
    double worst = 0.0;
    char spelling[8];
    if (unk != NULL && !tdm_json_is(unk, TDM_JSON_NULL) &&
        (!tdm_json_as_i64(unk, &unk_id) || unk_id < 0 || unk_id >= (int64_t)vocab->len)) {
        return tdm_json_refuse(r, TDM_E_FORMAT, MODEL ".unk_id", "unk_id is no token");
    }
    TDM_TRY(tdm_json_read_flag(r, &leaf, "byte_fallback", false, &u->has_byte_tokens));
    for (size_t i = 0; i < vocab->len; i++) {
        worst = i == 0 || u->scores[i] < worst ? u->scores[i] : worst;
    }
    u->unk_score = worst - TDM_UNIGRAM_PENALTY;
    u->unk_id = (int32_t)unk_id;
    t->unk = u->unk_id;
    if (t->unk >= 0 && t->kinds[t->unk] != TDM_TOKEN_CONTROL) {
        t->kinds[t->unk] = TDM_TOKEN_UNKNOWN;
    }
    for (int32_t i = 0; i < 256; i++) {
        (void)snprintf(spelling, sizeof(spelling), "<0x%02X>", (unsigned)i);
        u->fallback_ids[i] = tdm_text_map_find(&t->by_spelling, spelling, 6);
    }
    TDM_TRY(fill_trie(r, &u->trie));
    u->words = &t->by_bytes;
    return TDM_OK;
}

tdm_status tdm_json_read_wordpiece(tdm_json_reader *r, const tdm_json *model) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_wordpiece *w = &t->wordpiece;
    const tdm_json *unk = tdm_json_get(model, "unk_token");
    const tdm_json *prefix = tdm_json_get(model, "continuing_subword_prefix");
    const tdm_json *max = tdm_json_get(model, "max_input_chars_per_word");
    int64_t chars_max = 100;
    if (max != NULL && (!tdm_json_as_i64(max, &chars_max) || chars_max < 0)) {
        return tdm_json_refuse(r, TDM_E_FORMAT, MODEL ".max_input_chars_per_word",
                               "max_input_chars_per_word is no count");
    }
    if (prefix != NULL && !tdm_json_is(prefix, TDM_JSON_STRING)) {
        return tdm_json_refuse(r, TDM_E_FORMAT, MODEL ".continuing_subword_prefix",
                               "continuing_subword_prefix is not a text");
    }
    w->chars_max = (size_t)chars_max;
    w->unk_id = tdm_json_is(unk, TDM_JSON_STRING)
                    ? tdm_text_map_find(&t->by_spelling, unk->u.text, unk->len)
                    : tdm_text_map_find(&t->by_spelling, "[UNK]", 5);
    t->unk = w->unk_id;
    if (t->unk < 0) {
        return tdm_json_refuse(r, TDM_E_FORMAT, MODEL ".unk_token", "unk_token is no token");
    }
    if (t->kinds[t->unk] != TDM_TOKEN_CONTROL) {
        t->kinds[t->unk] = TDM_TOKEN_UNKNOWN;
    }
    TDM_TRY(fill_trie(r, &w->trie));
    tdm_wordpiece_set_leads(w, "", prefix != NULL ? prefix->u.text : "##",
                            prefix != NULL ? prefix->len : 2);
    return TDM_OK;
}
