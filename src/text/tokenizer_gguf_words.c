/* SPDX-License-Identifier: Apache-2.0
 *
 * The GGUF models that do not merge: `bert` (WordPiece; U+2581 marks the head of a word) and `t5`
 * (Unigram, with SentencePiece's character map). Text is prepared as the models' own tokenizers do,
 * where the peer's character classes differ from theirs. Source: llama.cpp's llm_tokenizer_wpm and
 * llm_tokenizer_ugm sessions. */
#include "text/tokenizer_gguf.h"

#include <string.h>

#define KEY TDM_GGUF_KEY
#define OPS_MAX 8

/* Every token that text may become, in a trie. */
tdm_status tdm_gguf_fill_trie(tdm_gguf_reader *r, tdm_trie *trie) {
    tdm_tokenizer *t = r->tokenizer;
    size_t bytes = 0;
    for (int32_t id = 0; id < t->n_vocab; id++) {
        bytes += t->spellings[id].len;
    }
    if (tdm_trie_init(trie, &t->arena, bytes) != TDM_OK) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    for (int32_t id = 0; id < t->n_vocab; id++) {
        if (tdm_gguf_is_plain(t, id)) {
            (void)tdm_trie_put(trie, t->spellings[id].data, t->spellings[id].len, id);
        }
    }
    return tdm_trie_freeze(trie) == TDM_OK ? TDM_OK : tdm_fail_nomem(r->err, "a vocabulary");
}

static tdm_status make_ops(tdm_gguf_reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    t->normalizers = tdm_arena_calloc(&t->arena, OPS_MAX, sizeof(t->normalizers[0]));
    return t->normalizers != NULL ? TDM_OK : tdm_fail_nomem(r->err, "a tokenizer");
}

static tdm_text_op *next_op(tdm_tokenizer *t, tdm_text_op_kind kind) {
    tdm_text_op *op = &t->normalizers[t->n_normalizers++];
    op->kind = kind;
    return op;
}

/* Clean, space out Chinese characters, and, where the model was trained so, drop accents and
 * capitals; then words and punctuation signs. */
static tdm_status prepare_bert(tdm_gguf_reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    bool is_lowered = true;
    (void)tdm_gguf_get_bool(r->gguf, KEY("normalizer.lowercase"), &is_lowered);
    bool is_stripped = is_lowered;
    (void)tdm_gguf_get_bool(r->gguf, KEY("normalizer.strip_accents"), &is_stripped);
    TDM_TRY(make_ops(r));
    next_op(t, TDM_TEXT_MAP)->map = TDM_MAP_BERT_CLEAN;
    next_op(t, TDM_TEXT_MAP)->map = TDM_MAP_BERT_CJK;
    if (is_stripped) {
        if (tdm_text_find_inert(next_op(t, TDM_TEXT_NORMALIZE), &t->arena) != TDM_OK) {
            return tdm_fail_nomem(r->err, "a tokenizer");
        }
        next_op(t, TDM_TEXT_MAP)->map = TDM_MAP_BERT_ACCENTS;
    }
    if (is_lowered) {
        (void)next_op(t, TDM_TEXT_LOWERCASE);
    }
    t->stages = tdm_arena_calloc(&t->arena, 2, sizeof(t->stages[0]));
    if (t->stages == NULL) {
        return tdm_fail_nomem(r->err, "a tokenizer");
    }
    t->n_stages = 2;
    t->stages[0].rule = tdm_scan_find("\\s+", 3);
    t->stages[0].behavior = TDM_SPLIT_REMOVED;
    t->stages[1].rule = tdm_scan_punctuation();
    return TDM_OK;
}

tdm_status tdm_gguf_read_bert(tdm_gguf_reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_wordpiece *w = &t->wordpiece;
    TDM_TRY(prepare_bert(r));
    TDM_TRY(tdm_gguf_fill_trie(r, &w->trie));
    tdm_wordpiece_set_leads(w, TDM_META, "", 0);
    w->chars_max = SIZE_MAX;
    w->unk_id = t->unk;
    t->decoder.n_stripped = 1; /* the space of the first word */
    t->decoder.strip_text = (tdm_text_ref){" ", 1};
    return tdm_gguf_make_pieces(r);
}

static tdm_status read_charsmap(tdm_gguf_reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_gguf_array_ref list;
    tdm_charsmap *map = tdm_arena_calloc(&t->arena, 1, sizeof(*map));
    if (!tdm_gguf_has(r->gguf, KEY("precompiled_charsmap"))) {
        return map != NULL ? TDM_OK : tdm_fail_nomem(r->err, "a character map");
    }
    if (!tdm_gguf_array_find(r->gguf, KEY("precompiled_charsmap"), &list) ||
        (list.type != TDM_GGUF_U8 && list.type != TDM_GGUF_I8)) {
        return tdm_gguf_refuse(r, TDM_E_FORMAT, KEY("precompiled_charsmap"),
                               "the character map is no list of bytes");
    }
    char *blob = tdm_mem_alloc(t->alloc, list.n + 1);
    tdm_status status = TDM_OK;
    if (map == NULL || blob == NULL) {
        status = tdm_fail_nomem(r->err, "a character map");
    }
    for (size_t i = 0; i < list.n && status == TDM_OK; i++) {
        int64_t value = 0;
        (void)tdm_gguf_ref_i64(&list, i, &value);
        blob[i] = (char)(uint8_t)(value & 0xFF);
    }
    if (status == TDM_OK) {
        status = tdm_charsmap_init(map, &t->arena, blob, list.n, true, r->err);
    }
    if (status == TDM_E_FORMAT) {
        tdm_err_where(r->err, "%s: %s", r->name, KEY("precompiled_charsmap"));
    }
    tdm_mem_free(t->alloc, blob, list.n + 1);
    TDM_TRY(status);
    next_op(t, TDM_TEXT_CHARSMAP)->charsmap = map;
    return TDM_OK;
}

static tdm_status read_unigram_scores(tdm_gguf_reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    const float *given = NULL;
    float worst = 0.0f;
    bool has_worst = false;
    double *scores = tdm_arena_calloc(&t->arena, (size_t)t->n_vocab, sizeof(*scores));
    if (scores == NULL) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    TDM_TRY(tdm_gguf_read_scores(r, &given));
    for (int32_t id = 0; id < t->n_vocab; id++) {
        scores[id] = t->kinds[id] == TDM_TOKEN_USER ? 0.0 : (double)given[id];
        if (t->kinds[id] == TDM_TOKEN_NORMAL && (!has_worst || given[id] < worst)) {
            worst = given[id];
            has_worst = true;
        }
    }
    t->unigram.scores = scores;
    t->unigram.unk_score = (double)(worst - (float)TDM_UNIGRAM_PENALTY);
    return TDM_OK;
}

tdm_status tdm_gguf_read_t5(tdm_gguf_reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    bool adds_prefix = true;
    bool is_squeezed = false;
    (void)tdm_gguf_get_bool(r->gguf, KEY("add_space_prefix"), &adds_prefix);
    (void)tdm_gguf_get_bool(r->gguf, KEY("remove_extra_whitespaces"), &is_squeezed);
    TDM_TRY(make_ops(r));
    TDM_TRY(read_charsmap(r));
    if (is_squeezed) {
        tdm_text_op *op = next_op(t, TDM_TEXT_SQUEEZE);
        op->a = " ";
        op->a_len = 1;
    }
    /* A file that squeezes puts a space in front of every word, the first one included. */
    TDM_TRY(tdm_gguf_escape_spaces(r, adds_prefix || is_squeezed));
    if (!adds_prefix) {
        t->decoder.n_stripped = 0;
    }
    TDM_TRY(read_unigram_scores(r));
    TDM_TRY(tdm_gguf_fill_trie(r, &t->unigram.trie));
    /* No texts: a run of unknown characters is one unknown token. */
    if (tdm_text_map_init(&t->by_bytes, &t->arena, t->spellings, 1) != TDM_OK) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    t->unigram.words = &t->by_bytes;
    t->unigram.unk_id = t->unk;
    return tdm_gguf_make_pieces(r);
}
