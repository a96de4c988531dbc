/* SPDX-License-Identifier: Apache-2.0
 *
 * yajl in an arena. Blocks carry their size in front of them, since yajl does not tell old sizes.
 * Freed blocks are not reused before the end: yajl's own memory is a few stacks and one buffer for
 * strings with escapes. */
#include "base/json_sax.h"

#include "base/arith.h"
#include "base/utf8.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

typedef struct sax_memory {
    tdm_arena arena;
    jmp_buf full;
} sax_memory;

#define HEADER TDM_ALIGN_DEFAULT

static void *sax_malloc(void *ctx, size_t bytes) {
    sax_memory *memory = ctx;
    size_t total = 0;
    uint8_t *block = NULL;
    if (tdm_add_size(bytes, HEADER, &total)) {
        block = tdm_arena_alloc(&memory->arena, total, TDM_ALIGN_DEFAULT);
    }
    if (block == NULL) {
        longjmp(memory->full, 1);
    }
    memcpy(block, &bytes, sizeof bytes);
    return block + HEADER;
}

static void sax_free(void *ctx, void *ptr) {
    (void)ctx;
    (void)ptr;
}

static void *sax_realloc(void *ctx, void *ptr, size_t bytes) {
    size_t old_bytes = 0;
    void *grown = NULL;
    if (ptr != NULL) {
        memcpy(&old_bytes, (uint8_t *)ptr - HEADER, sizeof old_bytes);
    }
    if (bytes <= old_bytes) {
        return ptr;
    }
    grown = sax_malloc(ctx, bytes);
    if (old_bytes > 0) {
        memcpy(grown, ptr, old_bytes);
    }
    return grown;
}

static tdm_status fail_at(const char *text, size_t len, size_t offset, const char *reason,
                          const char *name, tdm_error *err) {
    size_t line = 1;
    if (offset > len) {
        offset = len;
    }
    for (size_t i = 0; i < offset; i++) {
        line += text[i] == '\n';
    }
    (void)tdm_fail(err, TDM_E_FORMAT, "broken JSON: %s", reason);
    tdm_err_where(err, "%s: offset %zu, line %zu", name, offset, line);
    tdm_err_remedy(err, "fetch the file again, or mend it");
    return TDM_E_FORMAT;
}

/* The first line of yajl's own words, which otherwise quote the input. */
static void copy_reason(char *out, size_t cap, yajl_handle handle) {
    unsigned char *words = yajl_get_error(handle, 0, NULL, 0);
    size_t n = 0;
    const char *from = (const char *)words;
    static const char PREFIX_LEXICAL[] = "lexical error: ";
    static const char PREFIX_PARSE[] = "parse error: ";
    if (strncmp(from, PREFIX_LEXICAL, sizeof PREFIX_LEXICAL - 1) == 0) {
        from += sizeof PREFIX_LEXICAL - 1;
    } else if (strncmp(from, PREFIX_PARSE, sizeof PREFIX_PARSE - 1) == 0) {
        from += sizeof PREFIX_PARSE - 1;
    }
    while (n + 1 < cap && from[n] != '\0' && from[n] != '\n') {
        out[n] = from[n];
        n++;
    }
    out[n] = '\0';
    yajl_free_error(handle, words);
}

static tdm_status run_yajl(sax_memory *memory, const yajl_callbacks *callbacks, void *ctx,
                           const tdm_status *stop_status, const char *text, size_t len,
                           const char *name, tdm_error *err) {
    yajl_alloc_funcs funcs = {sax_malloc, sax_realloc, sax_free, memory};
    yajl_handle handle = yajl_alloc(callbacks, &funcs, ctx);
    yajl_status result = yajl_parse(handle, (const unsigned char *)text, len);
    size_t consumed = yajl_get_bytes_consumed(handle);
    if (result == yajl_status_ok) {
        consumed = len;
        result = yajl_complete_parse(handle);
    }
    if (result == yajl_status_client_canceled) {
        return *stop_status;
    }
    if (result != yajl_status_ok) {
        char reason[128];
        copy_reason(reason, sizeof reason, handle);
        return fail_at(text, len, consumed, reason, name, err);
    }
    return TDM_OK;
}

#define ESCAPE_LEN 6 /* \\uXXXX */

/* Value of the escape that text begins with; -1: there is none. */
static int32_t escape_value(const char *text, size_t len) {
    int32_t value = 0;
    if (len < ESCAPE_LEN || text[0] != '\\' || text[1] != 'u') {
        return -1;
    }
    for (size_t k = 2; k < ESCAPE_LEN; k++) {
        const char c = text[k];
        const int32_t digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* yajl turns half a surrogate pair into "?" or into bytes that are no UTF-8. Returns where the
 * first one is, or len. A backslash can only stand inside a string, or else yajl refuses the text.
 */
static size_t find_lone_surrogate(const char *text, size_t len) {
    const char *end = text + len; /* bounded: the end of the text that was passed */
    const char *at = memchr(text, '\\', len);
    while (at != NULL) {
        const size_t left = (size_t)(end - at);
        const int32_t high = escape_value(at, left);
        size_t step = left < 2 ? left : 2; /* over the backslash and what it escapes */
        if (high >= 0xD800 && high <= 0xDFFF) {
            const int32_t low = escape_value(at + ESCAPE_LEN, left - ESCAPE_LEN);
            if (high > 0xDBFF || low < 0xDC00 || low > 0xDFFF) {
                return (size_t)(at - text);
            }
            step = 2 * ESCAPE_LEN; /* both escapes were found inside left */
        }
        at = memchr(at + step, '\\', left - step); /* bounded: step <= left */
    }
    return len;
}

/* What yajl lets through: its look at UTF-8 takes overlong forms, surrogates and numbers above
 * U+10FFFF for characters. */
static tdm_status check_text(const char *text, size_t len, const char *name, tdm_error *err) {
    const size_t n_valid = tdm_utf8_valid_prefix(text, len);
    if (n_valid < len) {
        return fail_at(text, len, n_valid, "bytes that are no UTF-8", name, err);
    }
    const size_t lone = find_lone_surrogate(text, len);
    if (lone < len) {
        return fail_at(text, len, lone, "half a surrogate pair", name, err);
    }
    return TDM_OK;
}

tdm_status tdm_json_sax(const tdm_alloc *alloc, const yajl_callbacks *callbacks, void *ctx,
                        const tdm_status *stop_status, const char *text, size_t len,
                        const char *name, tdm_error *err) {
    sax_memory memory;
    tdm_status status = TDM_OK;
    TDM_TRY(check_text(text, len, name, err));
    tdm_arena_init(&memory.arena, alloc);
    if (setjmp(memory.full) != 0) {
        status = tdm_fail_nomem(err, "reading JSON");
    } else {
        status = run_yajl(&memory, callbacks, ctx, stop_status, text, len, name, err);
    }
    tdm_arena_deinit(&memory.arena);
    return status;
}
