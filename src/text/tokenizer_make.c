/* SPDX-License-Identifier: Apache-2.0
 *
 * What both makers of tokenizers share: tables, spellings, matchers, facts found by spelling. */
#include "text/tokenizer_priv.h"

#include <string.h>

/* <|end_of_sentence|> with full-width bars and U+2581 */
#define DEEPSEEK_END                                                                               \
    ("<\xEF\xBD\x9C"                                                                               \
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>")

tdm_status tdm_tokenizer_make(tdm_tokenizer **out, const tdm_alloc *alloc, tdm_error *err) {
    tdm_tokenizer *tokenizer = tdm_mem_calloc(alloc, 1, sizeof(*tokenizer));
    *out = NULL;
    if (tokenizer == NULL) {
        return tdm_fail_nomem(err, "a tokenizer");
    }
    tokenizer->alloc = alloc;
    tdm_arena_init(&tokenizer->arena, alloc);
    tokenizer->bos = tokenizer->eos = tokenizer->unk = -1;
    tokenizer->description = "";
    tokenizer->unicode = tdm_arena_calloc(&tokenizer->arena, 1, sizeof(*tokenizer->unicode));
    if (tokenizer->unicode == NULL) {
        tdm_tokenizer_destroy(tokenizer);
        return tdm_fail_nomem(err, "a tokenizer");
    }
    tdm_unicode_init(tokenizer->unicode);
    *out = tokenizer;
    return TDM_OK;
}

void tdm_tokenizer_destroy(tdm_tokenizer *tokenizer) {
    if (tokenizer == NULL) {
        return;
    }
    const tdm_alloc *alloc = tokenizer->alloc;
    tdm_arena_deinit(&tokenizer->arena);
    tdm_mem_free(alloc, tokenizer, sizeof(*tokenizer));
}

tdm_status tdm_tokenizer_reserve(tdm_tokenizer *tokenizer, int32_t n_vocab, tdm_error *err) {
    tdm_arena *arena = &tokenizer->arena;
    const size_t n = (size_t)n_vocab;
    tokenizer->n_vocab = n_vocab;
    tokenizer->spellings = tdm_arena_calloc(arena, n, sizeof(tokenizer->spellings[0]));
    tokenizer->pieces = tdm_arena_calloc(arena, n, sizeof(tokenizer->pieces[0]));
    tokenizer->kinds = tdm_arena_calloc(arena, n, 1);
    tokenizer->flags = tdm_arena_calloc(arena, n, 1);
    if (tokenizer->spellings == NULL || tokenizer->pieces == NULL || tokenizer->kinds == NULL ||
        tokenizer->flags == NULL ||
        tdm_text_map_init(&tokenizer->by_spelling, arena, tokenizer->spellings, n) != TDM_OK) {
        return tdm_fail_nomem(err, "a vocabulary");
    }
    memset(tokenizer->kinds, TDM_TOKEN_UNUSED, n);
    return TDM_OK;
}

tdm_status tdm_tokenizer_spell(tdm_tokenizer *tokenizer, int32_t id, const char *text, size_t len,
                               tdm_error *err) {
    char *copy = tdm_arena_copy_text(&tokenizer->arena, text, len);
    if (copy == NULL) {
        return tdm_fail_nomem(err, "a vocabulary");
    }
    tokenizer->spellings[id] = (tdm_text_ref){copy, (uint32_t)len};
    tokenizer->pieces[id] = tokenizer->spellings[id];
    tokenizer->kinds[id] = TDM_TOKEN_NORMAL;
    return TDM_OK;
}

/* The GPT-2 alphabet: printable Latin-1 stands for itself, the other bytes for U+0100 upwards, in
 * their order. */
static int32_t alphabet_byte(uint32_t cp) {
    if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xAC) || (cp >= 0xAE && cp <= 0xFF)) {
        return (int32_t)cp;
    }
    if (cp >= 0x100 && cp <= 0x120) {
        return (int32_t)(cp - 0x100); /* 0x00 to 0x20 */
    }
    if (cp >= 0x121 && cp <= 0x142) {
        return (int32_t)(cp - 0x121 + 0x7F); /* 0x7F to 0xA0 */
    }
    return cp == 0x143 ? 0xAD : -1;
}

bool tdm_byte_level_decode(const char *spelling, size_t len, char *raw, size_t *out_len) {
    size_t n = 0;
    size_t pos = 0;
    while (pos < len) {
        uint32_t cp = 0;
        bool is_ok = false;
        pos += tdm_utf8_decode(spelling + pos, len - pos, &cp, &is_ok);
        const int32_t byte = is_ok ? alphabet_byte(cp) : -1;
        if (byte < 0) {
            return false;
        }
        raw[n++] = (char)(uint8_t)byte;
    }
    *out_len = n;
    return true;
}

static int32_t hex_value(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int32_t tdm_byte_token_value(const char *s, size_t len) {
    if (len != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') {
        return -1;
    }
    const int32_t high = hex_value(s[3]);
    const int32_t low = hex_value(s[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void tdm_tokenizer_add_eog(tdm_tokenizer *tokenizer, int32_t id) {
    for (size_t i = 0; i < tokenizer->n_eog; i++) {
        if (tokenizer->eog[i] == id) {
            return;
        }
    }
    if (id >= 0 && id < tokenizer->n_vocab && tokenizer->n_eog < TDM_EOG_MAX) {
        tokenizer->eog[tokenizer->n_eog++] = id;
    }
}

/* Source: llama.cpp's list of end-of-generation spellings. */
static const char *const EOG_NAMES[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    DEEPSEEK_END,
    "[e~[",
};

const char *tdm_eog_spelling(size_t idx) {
    return idx < sizeof(EOG_NAMES) / sizeof(EOG_NAMES[0]) ? EOG_NAMES[idx] : NULL;
}

bool tdm_spelling_is_eog(const char *spelling, size_t len) {
    for (size_t i = 0; i < sizeof(EOG_NAMES) / sizeof(EOG_NAMES[0]); i++) {
        if (strlen(EOG_NAMES[i]) == len && memcmp(EOG_NAMES[i], spelling, len) == 0) {
            return true;
        }
    }
    return false;
}

tdm_status tdm_tokenizer_set_template(tdm_tokenizer *tokenizer, const char *text, size_t len,
                                      tdm_error *err) {
    const char *copy = tdm_arena_copy_text(&tokenizer->arena, text, len);
    if (copy == NULL) {
        return tdm_fail_nomem(err, "a chat template");
    }
    tokenizer->chat_template = copy;
    tokenizer->chat_template_len = len;
    return TDM_OK;
}

tdm_status tdm_tokenizer_normalize(const tdm_tokenizer *tokenizer, tdm_regex_scratch *scratch,
                                   tdm_text_builder builders[2], const tdm_text_view *view,
                                   tdm_text_view *out, tdm_error *err) {
    *out = *view;
    for (size_t i = 0; i < tokenizer->n_normalizers; i++) {
        tdm_text_builder *builder = &builders[i % 2];
        tdm_text_builder_reset(builder);
        TDM_TRY(tdm_text_op_apply(&tokenizer->normalizers[i], scratch, out, builder, err));
        *out = tdm_text_builder_view(builder);
        if (out->len > UINT32_MAX / 2) {
            return tdm_fail(err, TDM_E_LIMIT, "the text grows past 2 GiB while it is normalized");
        }
    }
    return TDM_OK;
}

/* Rewrites the text of each token that is looked for behind the normalizers. */
static tdm_status normalize_added(tdm_tokenizer *tokenizer, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_regex_scratch scratch;
    tdm_text_builder builders[2];
    tdm_regex_scratch_init(&scratch, tokenizer->alloc);
    tdm_text_builder_init(&builders[0], tokenizer->alloc, false);
    tdm_text_builder_init(&builders[1], tokenizer->alloc, false);
    for (size_t i = 0; i < tokenizer->n_added && tokenizer->n_normalizers > 0; i++) {
        tdm_added_token *token = &tokenizer->added[i];
        const tdm_text_view view = {token->text, token->len, NULL, 0};
        tdm_text_view out = {NULL, 0, NULL, 0};
        if (!token->is_normalized) {
            continue;
        }
        TDM_TRY_GOTO(
            status, tdm_tokenizer_normalize(tokenizer, &scratch, builders, &view, &out, err), done);
        if (out.len > 4 * TDM_TOKEN_BYTES_MAX) {
            status =
                tdm_fail(err, TDM_E_LIMIT, "an added token has %zu bytes once normalized", out.len);
            goto done;
        }
        token->text = tdm_arena_copy_text(&tokenizer->arena, out.data, out.len);
        token->len = (uint32_t)out.len;
        if (token->text == NULL) {
            status = tdm_fail_nomem(err, "added tokens");
            goto done;
        }
    }
done:
    tdm_text_builder_deinit(&builders[0]);
    tdm_text_builder_deinit(&builders[1]);
    tdm_regex_scratch_deinit(&scratch);
    return status;
}

tdm_status tdm_tokenizer_make_matchers(tdm_tokenizer *tokenizer, bool is_longest_first,
                                       tdm_error *err) {
    TDM_TRY(normalize_added(tokenizer, err));
    for (size_t i = 0; i < tokenizer->n_added; i++) {
        tokenizer->has_special_normalized |=
            tokenizer->added[i].is_special && tokenizer->added[i].is_normalized;
    }
    if (tdm_matcher_init(&tokenizer->raw_matcher, &tokenizer->arena, tokenizer->added,
                         tokenizer->n_added, false, is_longest_first) != TDM_OK ||
        tdm_matcher_init(&tokenizer->normalized_matcher, &tokenizer->arena, tokenizer->added,
                         tokenizer->n_added, true, is_longest_first) != TDM_OK) {
        return tdm_fail_nomem(err, "added tokens");
    }
    return TDM_OK;
}

tdm_status tdm_tokenizer_find_cuts(tdm_tokenizer *tokenizer, tdm_error *err) {
    const size_t meta_len = strlen(TDM_META);
    const bool is_bpe = tokenizer->model == TDM_MODEL_BPE && !tokenizer->bpe.is_byte_level &&
                        !tokenizer->bpe.takes_whole_word && tokenizer->bpe.is_local;
    if (!is_bpe && tokenizer->model != TDM_MODEL_SPM) {
        return TDM_OK;
    }
    bool *crosses = tdm_arena_calloc(&tokenizer->arena, 256, sizeof(bool));
    if (crosses == NULL) {
        return tdm_fail_nomem(err, "a vocabulary");
    }
    for (int32_t id = 0; id < tokenizer->n_vocab; id++) {
        const tdm_text_ref *text = &tokenizer->spellings[id];
        bool was_meta = true; /* nothing stands in front of the first one */
        if (text->len <= meta_len || memchr(text->data + 1, TDM_META[0], text->len - 1) == NULL) {
            continue; /* none but perhaps in front */
        }
        for (size_t i = 0; i < text->len;) {
            const bool is_meta =
                text->len - i >= meta_len && memcmp(text->data + i, TDM_META, meta_len) == 0;
            if (is_meta && !was_meta) {
                crosses[(uint8_t)text->data[i - 1]] = true;
            }
            was_meta = is_meta;
            i += is_meta ? meta_len : 1;
        }
    }
    /* Texts that run into each other byte by byte would be read anew behind a cut. */
    for (size_t byte = 0xC0; byte < 256; byte++) {
        crosses[byte] = true;
    }
    tokenizer->crosses = crosses;
    return TDM_OK;
}
