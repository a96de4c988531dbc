/* SPDX-License-Identifier: Apache-2.0
 *
 * PCRE2 behind three functions. The compiled code lies in the tokenizer's arena (frees are no-ops),
 * the match data in the caller's scratch; every byte goes through the caller's allocator. Matching
 * is interpretive and has a match, a depth and a heap limit, so that a hostile expression ends in
 * TDM_E_LIMIT and not in a hang. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretok_regex.h"

#include "base/buf.h"

#include <pcre2.h>
#include <string.h>

#define PATTERN_BYTES_MAX ((size_t)65536)
#define MATCH_STEPS_MAX 5000000u
#define MATCH_DEPTH_MAX 1000000u
#define MATCH_HEAP_KIB_MAX 65536u
#define COMPILE_DEPTH_MAX 100u

/* What Oniguruma takes for a word: tdm_unicode_is_expr_word. */
#define WORD_SET                                                                                   \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}\\x{24B6}-\\x{24E9}"     \
    "\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"
#define WORD_BORDER "(?<=[" WORD_SET "])(?![" WORD_SET "])|(?<![" WORD_SET "])(?=[" WORD_SET "])"
#define NO_BORDER "(?<=[" WORD_SET "])(?=[" WORD_SET "])|(?<![" WORD_SET "])(?![" WORD_SET "])"

struct tdm_regex {
    pcre2_code *code;
};

static void *arena_malloc(PCRE2_SIZE bytes, void *ctx) {
    return tdm_arena_alloc(ctx, bytes > 0 ? bytes : 1, TDM_ALIGN_DEFAULT);
}

static void arena_free(void *ptr, void *ctx) {
    (void)ptr;
    (void)ctx;
}

/* A block with its size in front, because PCRE2 does not tell it when it frees. */
static void *heap_malloc(PCRE2_SIZE bytes, void *ctx) {
    size_t total = 0;
    unsigned char *block = NULL;
    if (__builtin_add_overflow(bytes, TDM_ALIGN_DEFAULT, &total)) {
        return NULL;
    }
    block = tdm_mem_alloc(ctx, total);
    if (block == NULL) {
        return NULL;
    }
    memcpy(block, &total, sizeof(total));
    return block + TDM_ALIGN_DEFAULT;
}

static void heap_free(void *ptr, void *ctx) {
    size_t total = 0;
    if (ptr == NULL) {
        return;
    }
    unsigned char *block = (unsigned char *)ptr - TDM_ALIGN_DEFAULT;
    memcpy(&total, block, sizeof(total));
    tdm_mem_free(ctx, block, total);
}

static tdm_status refuse(tdm_error *err, const char *what, size_t offset) {
    tdm_status status = tdm_fail(err, TDM_E_UNSUPPORTED, "regular expression uses %s", what);
    tdm_err_where(err, "offset %zu of the expression", offset);
    return status;
}

/* Copies one escape, translated. *idx stands on the letter behind the backslash. */
static tdm_status translate_escape(tdm_buf *out, const char *p, size_t len, size_t *idx,
                                   bool is_in_class, tdm_error *err) {
    const char letter = p[*idx];
    *idx += 1;
    switch (letter) {
    case 's':
        return tdm_buf_append_text(out, "\\p{White_Space}");
    case 'S':
        return tdm_buf_append_text(out, "\\P{White_Space}");
    case 'w':
        return tdm_buf_append_text(out, is_in_class ? WORD_SET : "[" WORD_SET "]");
    case 'W':
        return is_in_class ? refuse(err, "\\W inside a class", *idx)
                           : tdm_buf_append_text(out, "[^" WORD_SET "]");
    case 'b':
        return tdm_buf_append_text(out, is_in_class ? "\\b" : "(?:" WORD_BORDER ")");
    case 'B':
        return tdm_buf_append_text(out, is_in_class ? "\\B" : "(?:" NO_BORDER ")");
    case 'h':
        return tdm_buf_append_text(out, is_in_class ? "0-9a-fA-F" : "[0-9a-fA-F]");
    case 'H':
        return is_in_class ? refuse(err, "\\H inside a class", *idx)
                           : tdm_buf_append_text(out, "[^0-9a-fA-F]");
    case 'u': /* \uHHHH is Oniguruma's; PCRE2 spells it \x{HHHH} */
        if (len - *idx < 4) {
            return refuse(err, "a short \\u", *idx);
        }
        TDM_TRY(tdm_buf_append_text(out, "\\x{"));
        TDM_TRY(tdm_buf_append(out, p + *idx, 4));
        *idx += 4;
        return tdm_buf_append_byte(out, '}');
    default:
        TDM_TRY(tdm_buf_append_byte(out, '\\'));
        return tdm_buf_append_byte(out, letter);
    }
}

static tdm_status translate(tdm_buf *out, const char *p, size_t len, tdm_error *err) {
    bool is_in_class = false;
    size_t idx = 0;
    while (idx < len) {
        const char byte = p[idx];
        if (byte == '\\' && idx + 1 < len) {
            idx++;
            TDM_TRY(translate_escape(out, p, len, &idx, is_in_class, err));
            continue;
        }
        if (is_in_class) {
            if (byte == '&' && idx + 1 < len && p[idx + 1] == '&') {
                return refuse(err, "an intersection of classes", idx);
            }
            if (byte == '[' && !(idx + 1 < len && p[idx + 1] == ':')) {
                return refuse(err, "a class inside a class", idx);
            }
            if (byte == '[') { /* [:name:] is copied whole */
                while (idx < len && p[idx] != ']') {
                    TDM_TRY(tdm_buf_append_byte(out, p[idx++]));
                }
                if (idx < len) {
                    TDM_TRY(tdm_buf_append_byte(out, p[idx++]));
                }
                continue;
            }
            is_in_class = byte != ']';
        } else if (byte == '[') {
            is_in_class = true;
            TDM_TRY(tdm_buf_append_byte(out, p[idx++]));
            if (idx < len && p[idx] == '^') {
                TDM_TRY(tdm_buf_append_byte(out, p[idx++]));
            }
            if (idx < len && p[idx] == ']') { /* a bracket in first place is a member */
                TDM_TRY(tdm_buf_append_byte(out, p[idx++]));
            }
            continue;
        }
        TDM_TRY(tdm_buf_append_byte(out, byte));
        idx++;
    }
    return TDM_OK;
}

static tdm_status compile(tdm_regex *regex, tdm_arena *arena, const tdm_buf *source,
                          bool is_multiline, tdm_error *err) {
    int code = 0;
    PCRE2_SIZE offset = 0;
    PCRE2_UCHAR message[128] = {0};
    pcre2_general_context *general = pcre2_general_context_create(arena_malloc, arena_free, arena);
    pcre2_compile_context *context = general != NULL ? pcre2_compile_context_create(general) : NULL;
    if (context == NULL) {
        return tdm_fail_nomem(err, "a regular expression");
    }
    (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    (void)pcre2_set_parens_nest_limit(context, COMPILE_DEPTH_MAX);
    const uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | (is_multiline ? PCRE2_MULTILINE : 0u);
    regex->code =
        pcre2_compile((PCRE2_SPTR)source->data, source->len, options, &code, &offset, context);
    if (regex->code == NULL) {
        if (code == PCRE2_ERROR_NOMEMORY || code == 121) { /* 121: failed to get memory */
            return tdm_fail_nomem(err, "a regular expression");
        }
        (void)pcre2_get_error_message(code, message, sizeof(message));
        tdm_status status =
            tdm_fail(err, TDM_E_FORMAT, "regular expression does not compile: %s", message);
        tdm_err_where(err, "offset %zu of the rewritten expression", (size_t)offset);
        return status;
    }
    return TDM_OK;
}

tdm_status tdm_regex_create(const tdm_regex **out, tdm_arena *arena, const char *pattern,
                            size_t len, bool is_multiline, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_buf source;
    *out = NULL;
    tdm_buf_init(&source, arena->alloc, 0);
    tdm_regex *regex = tdm_arena_calloc(arena, 1, sizeof(*regex));
    if (regex == NULL) {
        status = tdm_fail_nomem(err, "a regular expression");
        goto done;
    }
    if (len > PATTERN_BYTES_MAX) {
        status = tdm_fail(err, TDM_E_LIMIT, "regular expression of %zu bytes", len);
        tdm_err_limit(err, "%zu bytes", PATTERN_BYTES_MAX);
        goto done;
    }
    status = tdm_buf_reserve(&source, len + 1);
    if (status == TDM_OK) {
        status = translate(&source, pattern, len, err);
    }
    if (status == TDM_E_NOMEM) {
        status = tdm_fail_nomem(err, "a regular expression");
    }
    if (status != TDM_OK) {
        goto done;
    }
    TDM_TRY_GOTO(status, compile(regex, arena, &source, is_multiline, err), done);
    *out = regex;
done:
    tdm_buf_deinit(&source);
    return status;
}

void tdm_regex_scratch_init(tdm_regex_scratch *scratch, const tdm_alloc *alloc) {
    memset(scratch, 0, sizeof(*scratch));
    scratch->alloc = alloc != NULL ? alloc : tdm_alloc_system();
}

void tdm_regex_scratch_deinit(tdm_regex_scratch *scratch) {
    pcre2_match_data_free(scratch->match_data);
    pcre2_match_context_free(scratch->match_context);
    pcre2_general_context_free(scratch->general_context);
    memset(scratch, 0, sizeof(*scratch));
}

static void *mutable_alloc(const tdm_alloc *alloc) {
    union { /* PCRE2 wants a plain void pointer; it is only handed back */
        const void *in;
        void *out;
    } u = {alloc};
    return u.out;
}

static tdm_status scratch_prepare(tdm_regex_scratch *scratch, tdm_error *err) {
    if (scratch->match_data != NULL) {
        return TDM_OK;
    }
    if (scratch->general_context == NULL) {
        scratch->general_context =
            pcre2_general_context_create(heap_malloc, heap_free, mutable_alloc(scratch->alloc));
    }
    if (scratch->general_context != NULL && scratch->match_context == NULL) {
        scratch->match_context = pcre2_match_context_create(scratch->general_context);
    }
    if (scratch->match_context != NULL) {
        (void)pcre2_set_match_limit(scratch->match_context, MATCH_STEPS_MAX);
        (void)pcre2_set_depth_limit(scratch->match_context, MATCH_DEPTH_MAX);
        (void)pcre2_set_heap_limit(scratch->match_context, MATCH_HEAP_KIB_MAX);
        scratch->match_data = pcre2_match_data_create(1, scratch->general_context);
    }
    return scratch->match_data != NULL ? TDM_OK : tdm_fail_nomem(err, "a match");
}

tdm_status tdm_regex_find(const tdm_regex *regex, tdm_regex_scratch *scratch, const char *text,
                          size_t len, size_t from, bool *out_found, size_t *out_begin,
                          size_t *out_end, tdm_error *err) {
    *out_found = false;
    TDM_TRY(scratch_prepare(scratch, err));
    const int rc = pcre2_match(regex->code, (PCRE2_SPTR)text, len, from, PCRE2_NO_UTF_CHECK,
                               scratch->match_data, scratch->match_context);
    if (rc == PCRE2_ERROR_NOMATCH) {
        return TDM_OK;
    }
    if (rc == PCRE2_ERROR_NOMEMORY) {
        return tdm_fail_nomem(err, "a match");
    }
    if (rc < 0) {
        tdm_status status =
            tdm_fail(err, TDM_E_LIMIT, "a split expression of the tokenizer takes too long here");
        tdm_err_where(err, "byte %zu of the text", from);
        tdm_err_limit(err, "%u steps, depth %u, %u KiB", MATCH_STEPS_MAX, MATCH_DEPTH_MAX,
                      MATCH_HEAP_KIB_MAX);
        return status;
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(scratch->match_data);
    *out_begin = range[0];
    *out_end = range[1] > range[0] ? range[1] : range[0]; /* \K in a lookahead can invert them */
    *out_found = true;
    return TDM_OK;
}
