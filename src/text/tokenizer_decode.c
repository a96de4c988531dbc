/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids to text as a state machine, so that a stream and a whole call are the same code: feeding the
 * ids in any cutting and finishing gives the same bytes. Two modes. BYTES: pieces are bytes, the
 * tail that may still become a character waits. RUNS: consecutive byte tokens wait until another
 * kind of token ends their run; a run that is no UTF-8 becomes one U+FFFD a byte, as in the
 * reference. */
#include "text/tokenizer_priv.h"

#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"

void tdm_decode_init(tdm_decode_state *state, const tdm_tokenizer *tokenizer,
                     const tdm_alloc *alloc, bool skips_special, bool is_raw) {
    memset(state, 0, sizeof(*state));
    state->tokenizer = tokenizer;
    state->skips_special = skips_special;
    state->is_raw = is_raw;
    tdm_buf_init(&state->run, alloc, 0);
}

void tdm_decode_deinit(tdm_decode_state *state) {
    tdm_buf_deinit(&state->run);
}

/* Appends bytes as UTF-8: whole characters, U+FFFD for what is none; what may still become one goes
 * to the tail unless is_last. */
static tdm_status emit_lossy(tdm_decode_state *state, const char *bytes, size_t len, bool is_last,
                             tdm_buf *out) {
    size_t pos = 0;
    while (pos < len) {
        uint32_t cp = 0;
        bool is_ok = false;
        const size_t valid = tdm_utf8_valid_prefix(bytes + pos, len - pos);
        TDM_TRY(tdm_buf_append(out, bytes + pos, valid));
        pos += valid;
        if (pos == len) {
            break;
        }
        if (!is_last && tdm_utf8_incomplete_tail(bytes + pos, len - pos) == len - pos) {
            state->tail_len = (uint32_t)(len - pos);
            memcpy(state->tail, bytes + pos, len - pos);
            return TDM_OK;
        }
        pos += tdm_utf8_decode(bytes + pos, len - pos, &cp, &is_ok);
        TDM_TRY(tdm_buf_append_text(out, REPLACEMENT));
    }
    return TDM_OK;
}

static tdm_status emit(tdm_decode_state *state, const char *bytes, size_t len, tdm_buf *out) {
    char joined[8];
    if (state->is_raw) {
        return tdm_buf_append(out, bytes, len);
    }
    /* The tail takes bytes one at a time until it is a character or cannot become one. */
    while (state->tail_len > 0 && len > 0) {
        const uint32_t n = state->tail_len + 1;
        memcpy(joined, state->tail, state->tail_len);
        joined[n - 1] = *bytes;
        if ((*bytes & 0xC0) != 0x80) { /* no continuation: the tail is broken, the byte is not */
            state->tail_len = 0;
            TDM_TRY(emit_lossy(state, joined, n - 1, true, out));
            break;
        }
        bytes++;
        len--;
        state->tail_len = 0;
        TDM_TRY(emit_lossy(state, joined, n, false, out));
    }
    return emit_lossy(state, bytes, len, false, out);
}

/* Strips at the very start of the text, then emits. */
static tdm_status put(tdm_decode_state *state, const char *bytes, size_t len, tdm_buf *out) {
    const tdm_decoder *d = &state->tokenizer->decoder;
    while (state->n_stripped < d->n_stripped && len > 0) {
        if (len < d->strip_text.len || memcmp(bytes, d->strip_text.data, d->strip_text.len) != 0) {
            state->n_stripped = d->n_stripped; /* text has begun */
            break;
        }
        bytes += d->strip_text.len;
        len -= d->strip_text.len;
        state->n_stripped++;
    }
    return len > 0 ? emit(state, bytes, len, out) : TDM_OK;
}

static tdm_status end_run(tdm_decode_state *state, tdm_buf *out) {
    const size_t len = state->run.len;
    if (len == 0) {
        return TDM_OK;
    }
    if (state->is_raw || tdm_utf8_valid_prefix(state->run.data, len) == len) {
        TDM_TRY(put(state, state->run.data, len, out));
    } else {
        for (size_t i = 0; i < len; i++) {
            TDM_TRY(put(state, REPLACEMENT, 3, out));
        }
    }
    tdm_buf_reset(&state->run);
    return TDM_OK;
}

static tdm_status push_one(tdm_decode_state *state, int32_t id, tdm_buf *out) {
    const tdm_tokenizer *t = state->tokenizer;
    const tdm_decoder *d = &t->decoder;
    const uint8_t flags = t->flags[id];
    if ((state->skips_special && (flags & TDM_TOKEN_FLAG_SPECIAL) != 0) ||
        t->spellings[id].data == NULL) {
        return TDM_OK;
    }
    const bool is_first = !state->has_token;
    const tdm_text_ref piece =
        is_first && d->first_pieces != NULL ? d->first_pieces[id] : t->pieces[id];
    state->has_token = true;
    if (d->mode == TDM_DECODE_RUNS && (flags & TDM_TOKEN_FLAG_BYTE) != 0) {
        return tdm_buf_append(&state->run, piece.data, piece.len);
    }
    TDM_TRY(end_run(state, out));
    if (d->has_separator && !is_first) {
        TDM_TRY(put(state, " ", 1, out));
    }
    return piece.len > 0 ? put(state, piece.data, piece.len, out) : TDM_OK;
}

static tdm_status passed_on(tdm_status status, tdm_error *err) {
    if (status == TDM_E_LIMIT) {
        return tdm_fail(err, TDM_E_LIMIT, "decoded text crosses the buffer's limit");
    }
    return status == TDM_OK ? TDM_OK : tdm_fail_nomem(err, "decoded text");
}

tdm_status tdm_decode_push(tdm_decode_state *state, const int32_t *ids, size_t n, tdm_buf *out,
                           tdm_error *err) {
    const int32_t n_vocab = state->tokenizer->n_vocab;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= n_vocab) {
            const tdm_status status =
                tdm_fail(err, TDM_E_ARG, "token id %d is outside the vocabulary", (int)ids[i]);
            tdm_err_where(err, "id at index %zu", i);
            tdm_err_limit(err, "%d ids", (int)n_vocab);
            return status;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const tdm_status status = push_one(state, ids[i], out);
        if (status != TDM_OK) {
            return passed_on(status, err);
        }
    }
    return TDM_OK;
}

tdm_status tdm_decode_finish(tdm_decode_state *state, tdm_buf *out, tdm_error *err) {
    tdm_status status = end_run(state, out);
    if (status == TDM_OK && state->tail_len > 0) {
        status = emit_lossy(state, state->tail, state->tail_len, true, out);
    }
    state->tail_len = 0;
    state->has_token = false;
    state->n_stripped = 0;
    tdm_buf_reset(&state->run);
    return passed_on(status, err);
}

static tdm_status decode_whole(const tdm_tokenizer *tokenizer, const int32_t *ids, size_t n,
                               bool skips_special, bool is_raw, tdm_buf *out, tdm_error *err) {
    tdm_decode_state state;
    const size_t had = out->len;
    tdm_decode_init(&state, tokenizer, out->alloc, skips_special, is_raw);
    tdm_status status = tdm_decode_push(&state, ids, n, out, err);
    if (status == TDM_OK) {
        status = tdm_decode_finish(&state, out, err);
    }
    tdm_decode_deinit(&state);
    if (status != TDM_OK) {
        out->len = had;
    }
    return status;
}

tdm_status tdm_tokenizer_decode_bytes(const tdm_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                      bool skips_special, tdm_buf *out, tdm_error *err) {
    return decode_whole(tokenizer, ids, n, skips_special, true, out, err);
}

tdm_status tdm_tokenizer_decode(const tdm_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                bool skips_special, tdm_buf *out, tdm_error *err) {
    return decode_whole(tokenizer, ids, n, skips_special, false, out, err);
}
