/* SPDX-License-Identifier: Apache-2.0
 *
 * Unicode's normal forms, one cluster at a time. utf8proc gives the tables (decomposition of one
 * character, combining class, composition of a pair); the loops are ours for two reasons: its own
 * reordering is quadratic in a run of combining marks, and an origin has to be kept for every byte.
 *
 * A cluster begins at a character whose decomposition starts with one that can neither be reordered
 * nor composed with what stands before it: not a mark, not a Hangul vowel or final. */
#include "text/tokenizer_text.h"

#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

#define EXPANSION_MAX 32 /* U+FDFA, the longest, gives 18 */
#define INSERTION_MAX 16
#define HANGUL_T_BASE 0x11A7u

typedef struct part {
    uint32_t cp;
    uint32_t ccc;      /* canonical combining class */
    size_t begin, end; /* bytes of the view */
} part;

typedef struct cluster {
    tdm_buf parts;
    tdm_buf sorted; /* room for the counting sort */
    size_t n;
} cluster;

static part *parts_of(const cluster *c) {
    return (part *)(void *)c->parts.data;
}

static uint32_t class_of(uint32_t cp) {
    if (tdm_unicode_is_older(TDM_OLDER_UNKNOWN, cp)) {
        return 0;
    }
    return (uint32_t)utf8proc_get_property((utf8proc_int32_t)cp)->combining_class;
}

static bool is_boundary(uint32_t cp) {
    if ((cp >= 0x1160 && cp <= 0x11FF) || (cp >= 0xD7B0 && cp <= 0xD7FF)) {
        return false;
    }
    return (tdm_unicode_bits_of(tdm_unicode_class(cp)) & TDM_UC_M) == 0;
}

/* Stable order by combining class of parts[begin, end), none of class 0. */
static tdm_status sort_marks(cluster *c, size_t begin, size_t end) {
    part *p = parts_of(c);
    if (end - begin <= INSERTION_MAX) {
        for (size_t i = begin + 1; i < end; i++) {
            const part moved = p[i];
            size_t j = i;
            for (; j > begin && p[j - 1].ccc > moved.ccc; j--) {
                p[j] = p[j - 1];
            }
            p[j] = moved;
        }
        return TDM_OK;
    }
    size_t starts[257] = {0};
    const size_t bytes = (end - begin) * sizeof(part);
    tdm_buf_reset(&c->sorted);
    TDM_TRY(tdm_buf_reserve(&c->sorted, bytes));
    part *sorted = (part *)(void *)c->sorted.data;
    for (size_t i = begin; i < end; i++) {
        starts[p[i].ccc + 1]++;
    }
    for (size_t i = 1; i < 257; i++) {
        starts[i] += starts[i - 1];
    }
    for (size_t i = begin; i < end; i++) {
        sorted[starts[p[i].ccc]++] = p[i];
    }
    memcpy(p + begin, sorted, bytes);
    return TDM_OK;
}

static tdm_status reorder(cluster *c) {
    size_t i = 0;
    while (i < c->n) {
        size_t end = i;
        while (end < c->n && parts_of(c)[end].ccc != 0) {
            end++;
        }
        if (end > i + 1) {
            TDM_TRY(sort_marks(c, i, end));
        }
        i = end + 1;
    }
    return TDM_OK;
}

static bool compose_pair(uint32_t first, uint32_t second, uint32_t *out) {
    utf8proc_int32_t pair[2] = {(utf8proc_int32_t)first, (utf8proc_int32_t)second};
    if (second == HANGUL_T_BASE) { /* no final consonant, but utf8proc 2.8 composes it away */
        return false;
    }
    if (utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) != 1) {
        return false;
    }
    *out = (uint32_t)pair[0];
    return !tdm_unicode_is_older(TDM_OLDER_UNKNOWN, *out);
}

static void compose(cluster *c) {
    part *p = parts_of(c);
    size_t n = 0;
    size_t starter = SIZE_MAX;
    int64_t last = -1; /* class of the last part between the starter and here; -1: none */
    for (size_t i = 0; i < c->n; i++) {
        uint32_t composed = 0;
        const part here = p[i];
        if (starter != SIZE_MAX && last < (int64_t)here.ccc &&
            compose_pair(p[starter].cp, here.cp, &composed)) {
            p[starter].cp = composed;
            p[starter].begin = here.begin < p[starter].begin ? here.begin : p[starter].begin;
            p[starter].end = here.end > p[starter].end ? here.end : p[starter].end;
            continue;
        }
        if (here.ccc == 0) {
            starter = n;
            last = -1;
        } else {
            last = (int64_t)here.ccc;
        }
        p[n++] = here;
    }
    c->n = n;
}

static tdm_status flush(cluster *c, const tdm_text_op *op, const tdm_text_view *in,
                        tdm_text_builder *out) {
    char bytes[4];
    TDM_TRY(reorder(c));
    if (op->is_composed && c->n > 1) {
        compose(c);
    }
    for (size_t i = 0; i < c->n; i++) {
        const part *p = &parts_of(c)[i];
        const size_t len = tdm_utf8_encode(p->cp, bytes);
        TDM_TRY(tdm_text_put(out, bytes, len, tdm_text_origin(in, p->begin, p->end)));
    }
    tdm_buf_reset(&c->parts);
    c->n = 0;
    return TDM_OK;
}

static tdm_status push(cluster *c, const tdm_text_op *op, uint32_t cp, size_t begin, size_t end,
                       const tdm_text_view *in, tdm_text_builder *out) {
    utf8proc_int32_t cps[EXPANSION_MAX];
    int boundclass = UTF8PROC_BOUNDCLASS_START;
    const utf8proc_option_t options =
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (op->is_compat ? UTF8PROC_COMPAT : 0);
    utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)cp, cps, EXPANSION_MAX, options, &boundclass);
    if (n <= 0 || n > EXPANSION_MAX || tdm_unicode_is_older(TDM_OLDER_UNKNOWN, cp)) {
        cps[0] = (utf8proc_int32_t)cp;
        n = 1;
    }
    if (is_boundary((uint32_t)cps[0])) {
        TDM_TRY(flush(c, op, in, out));
    }
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        const part p = {(uint32_t)cps[i], class_of((uint32_t)cps[i]), begin, end};
        TDM_TRY(tdm_buf_append(&c->parts, &p, sizeof(p)));
        c->n++;
    }
    return TDM_OK;
}

/* Whether cp alone is its own normal form and neither joins what stands before nor moves. What it
 * does with the character behind is decided by that one. */
static bool is_inert(const tdm_text_op *op, uint32_t cp) {
    utf8proc_int32_t cps[EXPANSION_MAX];
    int boundclass = UTF8PROC_BOUNDCLASS_START;
    const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)cp);
    if (property->combining_class != 0 || !is_boundary(cp)) {
        return false;
    }
    const bool is_hangul = cp >= 0xAC00 && cp <= 0xD7A3;
    if (is_hangul || property->decomp_seqindex == UINT16_MAX) {
        return !is_hangul || op->is_composed;
    }
    const utf8proc_option_t options =
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (op->is_compat ? UTF8PROC_COMPAT : 0);
    utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)cp, cps, EXPANSION_MAX, options, &boundclass);
    if (n <= 0 || n > EXPANSION_MAX || !is_boundary((uint32_t)cps[0])) {
        return false;
    }
    if (op->is_composed) {
        n = utf8proc_normalize_utf32(cps, n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    }
    return n == 1 && cps[0] == (utf8proc_int32_t)cp;
}

tdm_status tdm_text_find_inert(tdm_text_op *op, tdm_arena *arena) {
    uint8_t *inert = tdm_arena_calloc(arena, TDM_UNICODE_BMP / 8, 1);
    if (inert == NULL) {
        return TDM_E_NOMEM;
    }
    for (uint32_t cp = 0; cp < TDM_UNICODE_BMP; cp++) {
        if ((cp < 0xD800 || cp > 0xDFFF) && is_inert(op, cp)) {
            inert[cp / 8] |= (uint8_t)(1u << cp % 8);
        }
    }
    op->inert = inert;
    return TDM_OK;
}

/* End of what can be copied from pos on: inert characters that another one, or the end, follows. */
static size_t inert_end(const tdm_text_op *op, const tdm_text_view *in, size_t pos) {
    size_t last = pos; /* where the last inert character begins */
    size_t end = pos;
    while (end < in->len) {
        const uint8_t byte = (uint8_t)in->data[end];
        uint32_t cp = byte;
        size_t n = 1;
        if (byte >= 0x80) {
            bool is_ok = false;
            n = tdm_unicode_decode(in->data + end, in->len - end, &cp, &is_ok);
            if (!is_ok || op->inert == NULL || cp >= TDM_UNICODE_BMP ||
                (op->inert[cp / 8] >> cp % 8 & 1) == 0) {
                return last;
            }
        }
        last = end;
        end += n;
    }
    return end;
}

tdm_status tdm_text_normalize(const tdm_text_op *op, const tdm_text_view *in,
                              tdm_text_builder *out) {
    tdm_status status = TDM_OK;
    cluster c = {.n = 0};
    size_t pos = 0;
    tdm_buf_init(&c.parts, out->text.alloc, 0);
    tdm_buf_init(&c.sorted, out->text.alloc, 0);
    while (pos < in->len) {
        uint32_t cp = 0;
        bool is_ok = false;
        size_t end = inert_end(op, in, pos);
        if (end > pos) {
            TDM_TRY_GOTO(status, flush(&c, op, in, out), done);
            TDM_TRY_GOTO(status, tdm_text_copy(out, in, pos, end), done);
            pos = end;
            continue;
        }
        end = pos + tdm_unicode_decode(in->data + pos, in->len - pos, &cp, &is_ok);
        if (!is_ok) { /* no character: it passes as it is and keeps its neighbours apart */
            TDM_TRY_GOTO(status, flush(&c, op, in, out), done);
            TDM_TRY_GOTO(status, tdm_text_copy(out, in, pos, end), done);
        } else {
            TDM_TRY_GOTO(status, push(&c, op, cp, pos, end, in, out), done);
        }
        pos = end;
    }
    status = flush(&c, op, in, out);
done:
    tdm_buf_deinit(&c.parts);
    tdm_buf_deinit(&c.sorted);
    return status;
}
