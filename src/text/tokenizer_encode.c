/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding. A call owns its scratch, a cache of words among it; the tokenizer is only read. */
#include "text/tokenizer_priv.h"
#include "text/word_cache.h"

#include <string.h>

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
    tdm_word_cache cache;     /* off where offsets are wanted */
    const char *readable_end; /* of the text that words are cut from */
    tdm_error *err;
} encoder;

static tdm_status encoder_init(encoder *e, const tdm_tokenizer *tokenizer, tdm_ids *ids,
                               bool wants_origins, size_t text_bytes, tdm_error *err) {
    e->tokenizer = tokenizer;
    e->ids = ids;
    e->err = err;
    tdm_buf_init(&e->raw_matches, ids->alloc, 0);
    tdm_buf_init(&e->matches, ids->alloc, 0);
    tdm_text_builder_init(&e->builders[0], ids->alloc, wants_origins);
    tdm_text_builder_init(&e->builders[1], ids->alloc, wants_origins);
    tdm_pretok_scratch_init(&e->pretok, ids->alloc, wants_origins);
    tdm_bpe_scratch_init(&e->bpe, ids->alloc);
    return tdm_word_cache_init(&e->cache, ids->alloc, ids->offsets == NULL ? text_bytes : 0) ==
                   TDM_OK
               ? TDM_OK
               : tdm_fail_nomem(err, "a cache of words");
}

static void encoder_deinit(encoder *e) {
    tdm_buf_deinit(&e->raw_matches);
    tdm_buf_deinit(&e->matches);
    tdm_text_builder_deinit(&e->builders[0]);
    tdm_text_builder_deinit(&e->builders[1]);
    tdm_pretok_scratch_deinit(&e->pretok);
    tdm_bpe_scratch_deinit(&e->bpe);
    tdm_word_cache_deinit(&e->cache);
}

static tdm_status put_id(encoder *e, int32_t id, tdm_origin origin) {
    return tdm_ids_append(e->ids, id, origin.begin, origin.end) == TDM_OK
               ? TDM_OK
               : tdm_fail_nomem(e->err, "token ids");
}

static tdm_status run_model(encoder *e, const char *word, size_t len) {
    const tdm_tokenizer *t = e->tokenizer;
    tdm_status status = TDM_OK;
    switch (t->model) {
    case TDM_MODEL_BPE:
        status = tdm_bpe_encode(&t->bpe, word, len, &e->bpe);
        break;
    case TDM_MODEL_SPM:
        status = tdm_spm_encode(&t->spm, word, len, &e->bpe);
        break;
    case TDM_MODEL_UNIGRAM:
        status = tdm_unigram_encode(&t->unigram, word, len, &e->bpe);
        break;
    case TDM_MODEL_WORDPIECE:
        status = tdm_wordpiece_encode(&t->wordpiece, word, len, &e->bpe);
        break;
    }
    return status == TDM_OK ? TDM_OK : tdm_fail_nomem(e->err, "a word's tokens");
}

static tdm_status put_found(encoder *e, const int32_t *found, size_t n) {
    tdm_ids *ids = e->ids;
    if (ids->cap - ids->len >= n) {
        memcpy(ids->ids + ids->len, found, n * sizeof(found[0]));
        ids->len += n;
        return TDM_OK;
    }
    for (size_t i = 0; i < n; i++) {
        TDM_TRY(put_id(e, found[i], (tdm_origin){0, 0}));
    }
    return TDM_OK;
}

/* A word that the cache may hold. */
static tdm_status encode_cached(encoder *e, const char *word, size_t len) {
    uint64_t key[3];
    tdm_word_key(key, word, len, (size_t)(e->readable_end - word));
    tdm_word_entry *entry = &e->cache.entries[tdm_word_slot(&e->cache, key)];
    if (entry->key[0] == key[0] && entry->key[1] == key[1] && entry->key[2] == key[2]) {
        return put_found(e, entry->ids, (size_t)entry->n);
    }
    TDM_TRY(run_model(e, word, len));
    const tdm_bpe_symbol *s = tdm_bpe_result(&e->bpe);
    if (e->bpe.n <= TDM_WORD_IDS_MAX) {
        memcpy(entry->key, key, sizeof(key));
        entry->n = (int32_t)e->bpe.n;
        for (size_t i = 0; i < e->bpe.n; i++) {
            entry->ids[i] = s[i].id;
        }
        return put_found(e, entry->ids, (size_t)entry->n);
    }
    for (size_t i = 0; i < e->bpe.n; i++) {
        TDM_TRY(put_id(e, s[i].id, (tdm_origin){0, 0}));
    }
    return TDM_OK;
}

static tdm_status encode_word(encoder *e, const tdm_text_view *text, size_t begin, size_t end) {
    const char *word = text->data + begin;
    if (e->cache.entries != NULL && end - begin <= TDM_WORD_BYTES_MAX) {
        return encode_cached(e, word, end - begin);
    }
    TDM_TRY(run_model(e, word, end - begin));
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

#define META_LEN 3u
#define META_FIRST 0xE2

static bool is_meta(const char *text, size_t len) {
    return len >= META_LEN && memcmp(text, TDM_META, META_LEN) == 0;
}

/* One piece for the model, cut where no token can lie across (see tdm_tokenizer_find_cuts). */
static tdm_status encode_piece(encoder *e, const tdm_text_view *text, size_t begin, size_t end) {
    const tdm_tokenizer *t = e->tokenizer;
    size_t pos = begin;
    while (t->crosses != NULL && pos < end) {
        const char *hit = memchr(text->data + pos, META_FIRST, end - pos);
        if (hit == NULL) {
            break;
        }
        pos = (size_t)(hit - text->data);
        if (!is_meta(hit, end - pos)) {
            pos++;
            continue;
        }
        if (pos > begin && !t->crosses[(uint8_t)text->data[pos - 1]]) {
            TDM_TRY(encode_word(e, text, begin, pos));
            begin = pos;
        }
        do { /* a run of them stays together */
            pos += META_LEN;
        } while (is_meta(text->data + pos, end - pos));
    }
    return begin < end ? encode_word(e, text, begin, end) : TDM_OK;
}

/* The most common pipeline, one split by a scanner, without a list of pieces. */
static tdm_status encode_scanned(encoder *e, const tdm_text_view *view, const tdm_scan_rule *rule) {
    const tdm_unicode *unicode = e->tokenizer->unicode;
    size_t gap = 0;
    size_t pos = 0;
    while (pos < view->len) {
        const size_t end = tdm_scan(rule, unicode, view->data, view->len, pos);
        if (end == 0) {
            uint32_t cp = 0;
            pos += tdm_utf8_decode(view->data + pos, view->len - pos, &cp, NULL);
            pos = tdm_scan_skip(rule, unicode, view->data, view->len, pos);
            continue;
        }
        if (pos > gap) {
            TDM_TRY(encode_piece(e, view, gap, pos));
        }
        TDM_TRY(encode_piece(e, view, pos, end));
        pos = end;
        gap = end;
    }
    return view->len > gap ? encode_piece(e, view, gap, view->len) : TDM_OK;
}

/* Text without added tokens, normalized. */
static tdm_status encode_plain(encoder *e, const tdm_text_view *view) {
    const tdm_tokenizer *t = e->tokenizer;
    tdm_text_view text = {NULL, 0, NULL, 0};
    const tdm_piece *pieces = NULL;
    size_t n = 0;
    if (t->n_stages == 1 && t->stages[0].rule != NULL &&
        t->stages[0].behavior == TDM_SPLIT_ISOLATED) {
        e->readable_end = view->data + view->len;
        return encode_scanned(e, view, t->stages[0].rule);
    }
    TDM_TRY(tdm_pretok_run(t->stages, t->n_stages, t->unicode, view, &e->pretok, &text, &pieces, &n,
                           e->err));
    e->readable_end = text.data + text.len;
    for (size_t i = 0; i < n; i++) {
        TDM_TRY(encode_piece(e, &text, pieces[i].begin, pieces[i].end));
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
    if (options->wants_offsets && tdm_ids_want_offsets(ids) != TDM_OK) {
        return tdm_fail_nomem(err, "token offsets");
    }
    tdm_status status = encoder_init(&e, tokenizer, ids, ids->offsets != NULL, len, err);
    if (status == TDM_OK) {
        status = encode_text(&e, len > 0 ? text : "", len, options->adds_special);
    }
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
    size_t text_bytes = 0;
    tdm_buf text;
    tdm_buf ends;
    tdm_buf trusted;
    tdm_buf_init(&text, ids->alloc, 0);
    tdm_buf_init(&ends, ids->alloc, 0);
    tdm_buf_init(&trusted, ids->alloc, 0);
    for (size_t i = 0; i < n_segments; i++) {
        text_bytes =
            segments[i].len > SIZE_MAX - text_bytes ? SIZE_MAX : text_bytes + segments[i].len;
    }
    TDM_TRY_GOTO(status,
                 encoder_init(&e, tokenizer, ids,
                              ids->offsets != NULL || tokenizer->has_special_normalized, text_bytes,
                              err),
                 done);
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
