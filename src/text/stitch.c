/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows that join, and periods that are repeated instead of encoded. Where windows do not join
 * the word is begun again with windows of twice the length, at the worst until one window is the
 * word. */
#include "text/stitch.h"

#include <string.h>

#define WINDOW_BYTES 128u
#define PERIOD_MAX 16u
#define PERIODIC_BYTES_MIN 8192u
#define SAMPLE_BYTES 4096u
#define HEAD_BYTES 64u

/* The last place at or before end where a character begins. */
static size_t character_begin(const char *word, size_t floor, size_t end) {
    size_t at = end; /* not past the last byte */
    while (at > floor && end - at < 4 && ((uint8_t)word[at] & 0xC0) == 0x80) {
        at--;
    }
    return ((uint8_t)word[at] & 0xC0) == 0x80 ? end : at;
}

static const tdm_bpe_symbol *symbols_of(const tdm_buf *buf) {
    return (const tdm_bpe_symbol *)(const void *)buf->data;
}

/* Appends n symbols of from, moved by shift bytes, to the finished ones. */
static tdm_status take(tdm_bpe_scratch *scratch, size_t begin, size_t end, size_t shift) {
    const tdm_bpe_symbol *s = symbols_of(&scratch->symbols);
    TDM_TRY(tdm_buf_reserve(&scratch->done, (end - begin) * sizeof(*s)));
    for (size_t i = begin; i < end; i++) {
        tdm_bpe_symbol symbol = s[i];
        symbol.begin += (uint32_t)shift;
        symbol.end += (uint32_t)shift;
        TDM_TRY(tdm_buf_append(&scratch->done, &symbol, sizeof(symbol)));
    }
    return TDM_OK;
}

static void hand_over(tdm_bpe_scratch *scratch) {
    const tdm_buf swap = scratch->symbols;
    scratch->symbols = scratch->done;
    scratch->done = swap;
    scratch->n = scratch->symbols.len / sizeof(tdm_bpe_symbol);
}

static tdm_status encode_windows(const void *model, tdm_window_fn encode, const char *word,
                                 size_t len, tdm_bpe_scratch *scratch) {
    size_t pos = 0;
    size_t window = WINDOW_BYTES;
    int32_t expected = -1; /* the token that the last window had at pos; -1: none, pos is 0 */
    tdm_buf_reset(&scratch->done);
    for (;;) {
        const bool is_last = len - pos <= window + window / 2;
        const size_t end = is_last ? len : character_begin(word, pos, pos + window);
        TDM_TRY(encode(model, word + pos, end - pos, scratch));
        const tdm_bpe_symbol *s = symbols_of(&scratch->symbols);
        const size_t n = scratch->n;
        if (expected >= 0 && (n == 0 || s[0].id != expected)) { /* does not join */
            pos = 0;
            expected = -1;
            tdm_buf_reset(&scratch->done);
            window *= 2;
            continue;
        }
        if (is_last) {
            return take(scratch, 0, n, pos);
        }
        /* Join at the last token that ends well before the window does. */
        size_t cut = n;
        while (cut > 0 && s[cut - 1].end + window / 4 > end - pos) {
            cut--;
        }
        /* Not inside a character whose bytes are tokens: it would be read otherwise. */
        while (cut >= 2 && ((uint8_t)word[pos + s[cut - 1].begin] & 0xC0) == 0x80) {
            cut--;
        }
        if (cut < 2) { /* tokens as long as the window: the same place again, seen from afar */
            window *= 2;
            continue;
        }
        expected = s[cut - 1].id;
        const size_t step = s[cut - 1].begin;
        TDM_TRY(take(scratch, 0, cut - 1, pos));
        pos += step;
    }
}

/* Of all but the first HEAD_BYTES (a prefix may stand in front), 0: none. */
static size_t period_of(const char *word, size_t len) {
    const char *rest = word + HEAD_BYTES;
    for (size_t p = 1; p <= PERIOD_MAX; p++) {
        if (memcmp(rest, rest + p, len - HEAD_BYTES - p) == 0) {
            return p;
        }
    }
    return 0;
}

/* Two places of the sample with the same token, a multiple of the period apart. */
static bool find_cycle(const tdm_bpe_scratch *scratch, size_t period, size_t *out_first,
                       size_t *out_second) {
    const tdm_bpe_symbol *s = symbols_of(&scratch->symbols);
    size_t first = 0;
    while (first < scratch->n && s[first].begin < SAMPLE_BYTES / 4) {
        first++;
    }
    for (size_t i = first + 1; i < scratch->n && s[i].begin < SAMPLE_BYTES * 3 / 4; i++) {
        if (s[i].id == s[first].id && (s[i].begin - s[first].begin) % period == 0) {
            *out_first = first;
            *out_second = i;
            return true;
        }
    }
    return false;
}

static tdm_status encode_periodic(const void *model, tdm_window_fn encode, const char *word,
                                  size_t len, size_t period, tdm_bpe_scratch *scratch,
                                  bool *out_is_done) {
    size_t first = 0;
    size_t second = 0;
    *out_is_done = false;
    const size_t first_sample = character_begin(word, 0, SAMPLE_BYTES);
    TDM_TRY(encode(model, word, first_sample, scratch));
    if (!find_cycle(scratch, period, &first, &second)) {
        return TDM_OK;
    }
    const size_t cycle =
        symbols_of(&scratch->symbols)[second].begin - symbols_of(&scratch->symbols)[first].begin;
    /* A sample whose rest is whole cycles. */
    const size_t sample = first_sample + (len - first_sample) % cycle;
    TDM_TRY(encode(model, word, sample, scratch));
    if (!find_cycle(scratch, period, &first, &second) ||
        symbols_of(&scratch->symbols)[second].begin - symbols_of(&scratch->symbols)[first].begin !=
            cycle) {
        return TDM_OK;
    }
    tdm_buf_reset(&scratch->done);
    TDM_TRY(take(scratch, 0, first, 0));
    for (size_t shift = 0; shift < len - sample; shift += cycle) {
        TDM_TRY(take(scratch, first, second, shift));
    }
    TDM_TRY(take(scratch, first, scratch->n, len - sample));
    *out_is_done = true;
    return TDM_OK;
}

tdm_status tdm_stitch_encode(const void *model, tdm_window_fn encode, const char *word, size_t len,
                             tdm_bpe_scratch *scratch) {
    bool is_done = false;
    if (len >= PERIODIC_BYTES_MIN) {
        const size_t period = period_of(word, len);
        if (period > 0) {
            TDM_TRY(encode_periodic(model, encode, word, len, period, scratch, &is_done));
        }
    }
    if (!is_done) {
        TDM_TRY(encode_windows(model, encode, word, len, scratch));
    }
    hand_over(scratch);
    return TDM_OK;
}
