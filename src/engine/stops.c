/* SPDX-License-Identifier: Apache-2.0
 *
 * Stop texts. At most 16 texts of 256 bytes are looked for by plain comparison in at most 255 held
 * bytes plus what was pushed; nothing cleverer is worth it. */
#include "engine/stops.h"

#include <string.h>

/* What is held, and one token's text behind it: pushes of that size allocate nothing. */
#define HELD_BYTES (TDM_STOP_BYTES_MAX + 1024)

tdm_status tdm_stops_init(tdm_stops *stops, const tdm_alloc *alloc, const char *const *texts,
                          size_t n, tdm_error *err) {
    memset(stops, 0, sizeof *stops);
    stops->alloc = alloc;
    tdm_buf_init(&stops->held, alloc, 0);
    if (n > TDM_STOP_MAX) {
        (void)tdm_fail(err, TDM_E_ARG, "%zu stop texts were given", n);
        tdm_err_where(err, "stop");
        tdm_err_limit(err, "%d texts", TDM_STOP_MAX);
        return TDM_E_ARG;
    }
    for (size_t i = 0; i < n; i++) {
        stops->lens[i] = strlen(texts[i]);
        if (stops->lens[i] == 0 || stops->lens[i] > TDM_STOP_BYTES_MAX) {
            (void)tdm_fail(err, TDM_E_ARG, "stop text of %zu bytes", stops->lens[i]);
            tdm_err_where(err, "stop[%zu]", i);
            tdm_err_limit(err, "1 to %d bytes", TDM_STOP_BYTES_MAX);
            return TDM_E_ARG;
        }
        stops->texts_bytes += stops->lens[i];
    }
    stops->texts = tdm_mem_alloc(alloc, stops->texts_bytes);
    if (stops->texts == NULL || tdm_buf_reserve(&stops->held, HELD_BYTES) != TDM_OK) {
        return tdm_fail_nomem(err, "stop texts");
    }
    stops->n = n;
    for (size_t i = 0, at = 0; i < n; i++) {
        memcpy(stops->texts + at, texts[i], stops->lens[i]);
        at += stops->lens[i];
    }
    return TDM_OK;
}

void tdm_stops_deinit(tdm_stops *stops) {
    if (stops != NULL) {
        tdm_mem_free(stops->alloc, stops->texts, stops->texts_bytes);
        tdm_buf_deinit(&stops->held);
        stops->texts = NULL;
        stops->n = 0;
    }
}

/* How much of the text at `from` agrees with stop text `stop`: its whole length is a match, all
 * that is left of the held bytes a possible beginning. */
static size_t agreement(const tdm_stops *stops, const char *stop, size_t stop_len, size_t from) {
    size_t left = stops->held.len - from;
    size_t n = left < stop_len ? left : stop_len;
    return memcmp(stops->held.data + from, stop, n) == 0 ? n : 0;
}

/* Gives out what is decided. A stop text wins where it begins first; while an earlier position
 * could still become one, nothing behind it is decided, unless the text is final. */
static tdm_status scan(tdm_stops *stops, bool is_final, tdm_buf *out, bool *out_stopped) {
    size_t from = 0;
    bool may_begin = false;
    *out_stopped = false;
    for (; from < stops->held.len; from++) {
        const char *stop = stops->texts;
        for (size_t i = 0; i < stops->n; stop += stops->lens[i], i++) {
            size_t n = agreement(stops, stop, stops->lens[i], from);
            *out_stopped = *out_stopped || n == stops->lens[i];
            may_begin = may_begin || (!is_final && n > 0 && n == stops->held.len - from);
        }
        if (*out_stopped || may_begin) {
            break;
        }
    }
    TDM_TRY(tdm_buf_append(out, stops->held.data, from));
    if (*out_stopped) {
        tdm_buf_reset(&stops->held);
    } else if (from > 0) {
        memmove(stops->held.data, stops->held.data + from, stops->held.len - from);
        stops->held.len -= from;
    }
    return TDM_OK;
}

tdm_status tdm_stops_push(tdm_stops *stops, const char *text, size_t len, tdm_buf *out,
                          bool *out_stopped) {
    TDM_TRY(tdm_buf_append(&stops->held, text, len));
    return scan(stops, false, out, out_stopped);
}

tdm_status tdm_stops_finish(tdm_stops *stops, tdm_buf *out, bool *out_stopped) {
    return scan(stops, true, out, out_stopped);
}
