/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding, and the questions that a tokenizer answers. A call owns its scratch; the tokenizer is
 * only read. */
#include "text/tokenizer_priv.h"

#include "base/arith.h"

#include <string.h>

void tdm_ids_init(tdm_ids *ids, const tdm_alloc *alloc) {
    memset(ids, 0, sizeof(*ids));
    ids->alloc = alloc;
}

void tdm_ids_deinit(tdm_ids *ids) {
    if (ids->ids != NULL) {
        tdm_mem_free(ids->alloc, ids->ids, ids->cap * sizeof(ids->ids[0]));
    }
    if (ids->offsets != NULL) {
        tdm_mem_free(ids->alloc, ids->offsets, ids->cap * sizeof(ids->offsets[0]));
    }
    tdm_ids_init(ids, ids->alloc);
}

static tdm_status ids_grow(tdm_ids *ids, size_t cap) {
    size_t bytes = 0;
    size_t offset_bytes = 0;
    if (!tdm_mul_size(cap, sizeof(ids->ids[0]), &bytes) ||
        !tdm_mul_size(cap, sizeof(ids->offsets[0]), &offset_bytes)) {
        return TDM_E_NOMEM;
    }
    uint32_t(*offsets)[2] = NULL;
    if (ids->offsets != NULL) {
        offsets = tdm_mem_alloc(ids->alloc, offset_bytes);
        if (offsets == NULL) {
            return TDM_E_NOMEM;
        }
    }
    int32_t *grown = tdm_mem_resize(ids->alloc, ids->ids, ids->cap * sizeof(ids->ids[0]), bytes);
    if (grown == NULL) {
        tdm_mem_free(ids->alloc, offsets, offset_bytes);
        return TDM_E_NOMEM;
    }
    if (offsets != NULL) {
        memcpy(offsets, ids->offsets, ids->len * sizeof(ids->offsets[0]));
        tdm_mem_free(ids->alloc, ids->offsets, ids->cap * sizeof(ids->offsets[0]));
        ids->offsets = offsets;
    }
    ids->ids = grown;
    ids->cap = cap;
    return TDM_OK;
}

tdm_status tdm_ids_append(tdm_ids *ids, int32_t id, uint32_t begin, uint32_t end) {
    if (ids->len == ids->cap) {
        size_t cap = 64;
        if (ids->cap > 0 && !tdm_mul_size(ids->cap, 2, &cap)) {
            return TDM_E_NOMEM;
        }
        TDM_TRY(ids_grow(ids, cap));
    }
    ids->ids[ids->len] = id;
    if (ids->offsets != NULL) {
        ids->offsets[ids->len][0] = begin;
        ids->offsets[ids->len][1] = end;
    }
    ids->len++;
    return TDM_OK;
}

/* Makes room for offsets; ids that are there already get (0, 0). */
static tdm_status ids_want_offsets(tdm_ids *ids) {
    if (ids->offsets != NULL) {
        return TDM_OK;
    }
    if (ids->cap == 0) {
        TDM_TRY(ids_grow(ids, 64));
    }
    ids->offsets = tdm_mem_calloc(ids->alloc, ids->cap, sizeof(ids->offsets[0]));
    return ids->offsets != NULL ? TDM_OK : TDM_E_NOMEM;
}

/* One call of encode. */
typedef struct encoder {
    const tdm_tokenizer *tokenizer;
    tdm_ids *ids;
    tdm_trust trust;
    tdm_buf raw_matches;
    tdm_buf matches;
    tdm_text_builder builders[2];
    tdm_pretok_scratch pretok;
    tdm_bpe_scratch bpe;
    tdm_error *err;
} encoder;

static void encoder_init(encoder *e, const tdm_tokenizer *tokenizer, tdm_ids *ids,
                         bool wants_origins, tdm_error *err) {
    e->tokenizer = tokenizer;
    e->ids = ids;
    e->err = err;
    tdm_buf_init(&e->raw_matches, ids->alloc, 0);
    tdm_buf_init(&e->matches, ids->alloc, 0);
    tdm_text_builder_init(&e->builders[0], ids->alloc, wants_origins);
    tdm_text_builder_init(&e->builders[1], ids->alloc, wants_origins);
    tdm_pretok_scratch_init(&e->pretok, ids->alloc, wants_origins);
    tdm_bpe_scratch_init(&e->bpe, ids->alloc);
}

static void encoder_deinit(encoder *e) {
    tdm_buf_deinit(&e->raw_matches);
    tdm_buf_deinit(&e->matches);
    tdm_text_builder_deinit(&e->builders[0]);
    tdm_text_builder_deinit(&e->builders[1]);
    tdm_pretok_scratch_deinit(&e->pretok);
    tdm_bpe_scratch_deinit(&e->bpe);
}

static tdm_status put_id(encoder *e, int32_t id, tdm_origin origin) {
    return tdm_ids_append(e->ids, id, origin.begin, origin.end) == TDM_OK
               ? TDM_OK
               : tdm_fail_nomem(e->err, "token ids");
}

static tdm_status encode_word(encoder *e, const tdm_text_view *text, size_t begin, size_t end) {
    const tdm_tokenizer *t = e->tokenizer;
    const char *word = text->data + begin;
    tdm_status status = TDM_OK;
    switch (t->model) {
    case TDM_MODEL_BPE:
        status = tdm_bpe_encode(&t->bpe, word, end - begin, &e->bpe);
        break;
    case TDM_MODEL_SPM:
        status = tdm_spm_encode(&t->spm, word, end - begin, &e->bpe);
        break;
    case TDM_MODEL_UNIGRAM:
        status = tdm_unigram_encode(&t->unigram, word, end - begin, &e->bpe);
        break;
    case TDM_MODEL_WORDPIECE:
        status = tdm_wordpiece_encode(&t->wordpiece, word, end - begin, &e->bpe);
        break;
    }
    if (status != TDM_OK) {
        return tdm_fail_nomem(e->err, "a word's tokens");
    }
    const tdm_bpe_symbol *s = tdm_bpe_result(&e->bpe);
    for (size_t i = 0; i < e->bpe.n; i++) {
        tdm_origin origin = {0, 0};
        if (e->ids->offsets != NULL) {
            origin = tdm_text_origin(text, begin + s[i].begin, begin + s[i].end);
        }
        TDM_TRY(put_id(e, s[i].id, origin));
    }
    return TDM_OK;
}

/* Text without added tokens, normalized. */
static tdm_status encode_plain(encoder *e, const tdm_text_view *view) {
    const tdm_tokenizer *t = e->tokenizer;
    tdm_text_view text = {NULL, 0, NULL, 0};
    const tdm_piece *pieces = NULL;
    size_t n = 0;
    TDM_TRY(tdm_pretok_run(t->stages, t->n_stages, t->unicode, view, &e->pretok, &text, &pieces, &n,
                           e->err));
    for (size_t i = 0; i < n; i++) {
        TDM_TRY(encode_word(e, &text, pieces[i].begin, pieces[i].end));
    }
    return TDM_OK;
}

/* Text between two raw added tokens. */
static tdm_status encode_section(encoder *e, const tdm_text_view *section) {
    const tdm_tokenizer *t = e->tokenizer;
    tdm_text_view view = {NULL, 0, NULL, 0};
    size_t pos = 0;
    TDM_TRY(tdm_tokenizer_normalize(t, &e->pretok.regex, e->builders, section, &view, e->err));
    if (tdm_matcher_run(&t->normalized_matcher, &view, &e->trust, &e->matches) != TDM_OK) {
        return tdm_fail_nomem(e->err, "added tokens");
    }
    const tdm_match *m = (const tdm_match *)(const void *)e->matches.data;
    for (size_t i = 0; i < e->matches.len / sizeof(*m); i++) {
        if (m[i].begin > pos) {
            const tdm_text_view plain = tdm_text_slice(&view, pos, m[i].begin);
            TDM_TRY(encode_plain(e, &plain));
        }
        TDM_TRY(put_id(e, m[i].id, tdm_text_origin(&view, m[i].begin, m[i].end)));
        pos = m[i].end;
    }
    if (view.len > pos) {
        const tdm_text_view plain = tdm_text_slice(&view, pos, view.len);
        TDM_TRY(encode_plain(e, &plain));
    }
    return TDM_OK;
}

static tdm_status encode_text(encoder *e, const char *text, size_t len, bool adds_special) {
    const tdm_tokenizer *t = e->tokenizer;
    const tdm_text_view whole = {text, len, NULL, 0};
    size_t pos = 0;
    for (size_t i = 0; adds_special && i < t->n_prefix; i++) {
        TDM_TRY(put_id(e, t->prefix_ids[i], (tdm_origin){0, 0}));
    }
    if (tdm_matcher_run(&t->raw_matcher, &whole, &e->trust, &e->raw_matches) != TDM_OK) {
        return tdm_fail_nomem(e->err, "added tokens");
    }
    const tdm_match *m = (const tdm_match *)(const void *)e->raw_matches.data;
    for (size_t i = 0; i < e->raw_matches.len / sizeof(*m); i++) {
        if (m[i].begin > pos) {
            const tdm_text_view section = tdm_text_slice(&whole, pos, m[i].begin);
            TDM_TRY(encode_section(e, &section));
        }
        TDM_TRY(put_id(e, m[i].id, tdm_text_origin(&whole, m[i].begin, m[i].end)));
        pos = m[i].end;
    }
    if (len > pos) {
        const tdm_text_view section = tdm_text_slice(&whole, pos, len);
        TDM_TRY(encode_section(e, &section));
    }
    for (size_t i = 0; adds_special && i < t->n_suffix; i++) {
        TDM_TRY(put_id(e, t->suffix_ids[i], (tdm_origin){(uint32_t)len, (uint32_t)len}));
    }
    return TDM_OK;
}

static tdm_status refuse_long(size_t len, tdm_error *err) {
    const tdm_status status = tdm_fail(err, TDM_E_LIMIT, "a text of %zu bytes to encode", len);
    tdm_err_limit(err, "%zu bytes", TDM_TEXT_BYTES_MAX);
    return status;
}

tdm_status tdm_tokenizer_encode(const tdm_tokenizer *tokenizer, const char *text, size_t len,
                                const tdm_encode_options *options, tdm_ids *ids, tdm_error *err) {
    encoder e = {.trust = {.is_all = options->parses_special}};
    const size_t had = ids->len;
    if (len > TDM_TEXT_BYTES_MAX) {
        return refuse_long(len, err);
    }
    if (options->wants_offsets && ids_want_offsets(ids) != TDM_OK) {
        return tdm_fail_nomem(err, "token offsets");
    }
    encoder_init(&e, tokenizer, ids, ids->offsets != NULL, err);
    const tdm_status status = encode_text(&e, len > 0 ? text : "", len, options->adds_special);
    encoder_deinit(&e);
    if (status != TDM_OK) {
        ids->len = had;
    }
    return status;
}

tdm_status tdm_tokenizer_encode_segments(const tdm_tokenizer *tokenizer,
                                         const tdm_text_segment *segments, size_t n_segments,
                                         bool adds_special, tdm_ids *ids, tdm_error *err) {
    tdm_status status = TDM_OK;
    encoder e = {.trust = {.is_all = false}};
    const size_t had = ids->len;
    tdm_buf text;
    tdm_buf ends;
    tdm_buf trusted;
    tdm_buf_init(&text, ids->alloc, 0);
    tdm_buf_init(&ends, ids->alloc, 0);
    tdm_buf_init(&trusted, ids->alloc, 0);
    encoder_init(&e, tokenizer, ids, ids->offsets != NULL || tokenizer->has_special_normalized,
                 err);
    for (size_t i = 0; i < n_segments; i++) {
        if (segments[i].len > TDM_TEXT_BYTES_MAX - text.len) {
            status = refuse_long(text.len, err);
            goto done;
        }
        if (segments[i].len == 0) {
            continue;
        }
        status = tdm_buf_append(&text, segments[i].text, segments[i].len);
        if (status == TDM_OK) {
            status = tdm_buf_append(&ends, &text.len, sizeof(text.len));
        }
        if (status == TDM_OK) {
            status = tdm_buf_append(&trusted, &segments[i].is_trusted, sizeof(bool));
        }
        if (status != TDM_OK) {
            status = tdm_fail_nomem(err, "a prompt");
            goto done;
        }
    }
    e.trust.ends = (const size_t *)(const void *)ends.data;
    e.trust.is_trusted = (const bool *)(const void *)trusted.data;
    e.trust.n = trusted.len;
    status = encode_text(&e, text.len > 0 ? text.data : "", text.len, adds_special);
done:
    encoder_deinit(&e);
    tdm_buf_deinit(&text);
    tdm_buf_deinit(&ends);
    tdm_buf_deinit(&trusted);
    if (status != TDM_OK) {
        ids->len = had;
    }
    return status;
}

int32_t tdm_tokenizer_n_vocab(const tdm_tokenizer *tokenizer) {
    return tokenizer->n_vocab;
}

int32_t tdm_tokenizer_bos(const tdm_tokenizer *tokenizer) {
    return tokenizer->bos;
}

int32_t tdm_tokenizer_eos(const tdm_tokenizer *tokenizer) {
    return tokenizer->eos;
}

bool tdm_tokenizer_adds_bos(const tdm_tokenizer *tokenizer) {
    return tokenizer->adds_bos;
}

size_t tdm_tokenizer_n_eog(const tdm_tokenizer *tokenizer) {
    return tokenizer->n_eog;
}

int32_t tdm_tokenizer_eog_at(const tdm_tokenizer *tokenizer, size_t idx) {
    return idx < tokenizer->n_eog ? tokenizer->eog[idx] : -1;
}

tdm_token_kind tdm_tokenizer_kind(const tdm_tokenizer *tokenizer, int32_t id) {
    return id >= 0 && id < tokenizer->n_vocab ? (tdm_token_kind)tokenizer->kinds[id]
                                              : TDM_TOKEN_UNUSED;
}

const char *tdm_tokenizer_spelling(const tdm_tokenizer *tokenizer, int32_t id, size_t *out_len) {
    *out_len = 0;
    if (id < 0 || id >= tokenizer->n_vocab || tokenizer->spellings[id].data == NULL) {
        return NULL;
    }
    *out_len = tokenizer->spellings[id].len;
    return tokenizer->spellings[id].data;
}

int32_t tdm_tokenizer_find(const tdm_tokenizer *tokenizer, const char *spelling, size_t len) {
    return tdm_text_map_find(&tokenizer->by_spelling, spelling, len);
}

const char *tdm_tokenizer_chat_template(const tdm_tokenizer *tokenizer, size_t *out_len) {
    *out_len = tokenizer->chat_template_len;
    return tokenizer->chat_template;
}

const char *tdm_tokenizer_describe(const tdm_tokenizer *tokenizer) {
    return tokenizer->description;
}
