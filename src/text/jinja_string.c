/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings of the template machine: building, cutting, searching. A string is bytes of valid UTF-8
 * with a length below 4 GiB; what Python counts in characters is counted here too. Every byte keeps
 * its origin: a string of one origin has a flag, a mixed one a list of runs. */
#include "text/jinja_string.h"

#include "text/jinja_vm.h"

#include "base/utf8.h"

#include <string.h>

#define STRING_MAX ((size_t)256 << 20)

/* --- building --------------------------------------------------------------------------------- */

tdm_status tdm_jinja_build_reserve(jbuild *b, size_t extra) {
    if (extra <= b->cap - b->len) {
        return TDM_OK;
    }
    if (extra > STRING_MAX - b->len) {
        return tdm_jinja_limit(b->vm, "template string of %zu bytes", STRING_MAX);
    }
    size_t cap = b->cap < 48 ? 96 : b->cap * 2;
    cap = cap < b->len + extra ? b->len + extra : cap;
    char *data = tdm_jinja_alloc(b->vm, cap, 1);
    if (data == NULL) {
        return tdm_jinja_nomem(b->vm);
    }
    if (b->len > 0) {
        memcpy(data, b->data, b->len);
    }
    b->data = data;
    b->cap = cap;
    return TDM_OK;
}

tdm_status tdm_jinja_build_add(jbuild *b, const char *s, size_t len, bool is_untrusted) {
    if (len == 0) {
        return TDM_OK;
    }
    TDM_TRY(tdm_jinja_build_reserve(b, len));
    memcpy(b->data + b->len, s, len);
    b->len += len;
    if (b->is_uniform) {
        b->has_untrusted |= is_untrusted;
        return TDM_OK;
    }
    if (b->n_runs > 0 && b->runs[b->n_runs - 1].is_untrusted == is_untrusted) {
        b->runs[b->n_runs - 1].end = (uint32_t)b->len;
        return TDM_OK;
    }
    if (b->n_runs == b->cap_runs) {
        const uint32_t cap = b->cap_runs == 0 ? 4 : b->cap_runs * 2;
        jrun *runs = tdm_jinja_alloc(b->vm, cap, sizeof *runs);
        if (runs == NULL) {
            return tdm_jinja_nomem(b->vm);
        }
        if (b->n_runs > 0) {
            memcpy(runs, b->runs, b->n_runs * sizeof *runs);
        }
        b->runs = runs;
        b->cap_runs = cap;
    }
    b->runs[b->n_runs++] = (jrun){.end = (uint32_t)b->len, .is_untrusted = is_untrusted};
    return TDM_OK;
}

tdm_status tdm_jinja_build_cp(jbuild *b, uint32_t cp, bool is_untrusted) {
    char bytes[4];
    return tdm_jinja_build_add(b, bytes, tdm_utf8_encode(cp, bytes), is_untrusted);
}

tdm_status tdm_jinja_build_part(jbuild *b, const jval *str, size_t begin, size_t len) {
    if (str->runs == NULL) {
        return tdm_jinja_build_add(b, str->u.s + begin, len, (str->flags & JV_UNTRUSTED) != 0);
    }
    const size_t end = begin + len;
    for (uint32_t i = 0; i < str->runs->n && begin < end; i++) {
        const jrun *run = &str->runs->run[i];
        if (run->end <= begin) {
            continue;
        }
        const size_t stop = run->end < end ? run->end : end;
        TDM_TRY(tdm_jinja_build_add(b, str->u.s + begin, stop - begin, run->is_untrusted));
        begin = stop;
    }
    return TDM_OK;
}

tdm_status tdm_jinja_build_str(jbuild *b, const jval *str) {
    return tdm_jinja_build_part(b, str, 0, str->len);
}

tdm_status tdm_jinja_build_end(jbuild *b, jval *out) {
    *out = (jval){.kind = JK_STR, .len = (uint32_t)b->len, .u.s = b->len > 0 ? b->data : ""};
    if (b->n_runs == 1 && b->runs[0].is_untrusted) {
        out->flags = JV_UNTRUSTED;
    }
    if (b->n_runs > 1) {
        jruns *runs = tdm_jinja_alloc(b->vm, 1, sizeof *runs + b->n_runs * sizeof *b->runs);
        if (runs == NULL) {
            return tdm_jinja_nomem(b->vm);
        }
        runs->n = b->n_runs;
        memcpy(runs->run, b->runs, b->n_runs * sizeof *b->runs);
        out->runs = runs;
    }
    return TDM_OK;
}

bool tdm_jinja_origin_at(const jval *str, size_t i) {
    if (str->runs == NULL) {
        return (str->flags & JV_UNTRUSTED) != 0;
    }
    uint32_t low = 0;
    uint32_t high = str->runs->n - 1;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (str->runs->run[mid].end > i) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return str->runs->run[low].is_untrusted;
}

tdm_status tdm_jinja_sub(jinja_vm *vm, const jval *str, size_t begin, size_t len, jval *out) {
    jval v = *str;
    v.u.s = str->u.s + begin;
    v.len = (uint32_t)len;
    v.runs = NULL;
    if (str->runs == NULL || len == 0) {
        *out = v;
        return TDM_OK;
    }
    uint32_t first = 0;
    while (str->runs->run[first].end <= begin) {
        first++;
    }
    uint32_t last = first;
    while (str->runs->run[last].end < begin + len) {
        last++;
    }
    v.flags = (uint8_t)(str->flags & JV_SAFE);
    if (first == last) {
        v.flags |= str->runs->run[first].is_untrusted ? JV_UNTRUSTED : 0;
        *out = v;
        return TDM_OK;
    }
    const uint32_t n = last - first + 1;
    jruns *runs = tdm_jinja_alloc(vm, 1, sizeof *runs + n * sizeof(jrun));
    if (runs == NULL) {
        return tdm_jinja_nomem(vm);
    }
    runs->n = n;
    for (uint32_t i = 0; i < n; i++) {
        const jrun *run = &str->runs->run[first + i];
        runs->run[i] = (jrun){.end = i + 1 == n ? (uint32_t)len : (uint32_t)(run->end - begin),
                              .is_untrusted = run->is_untrusted};
    }
    v.runs = runs;
    *out = v;
    return TDM_OK;
}

tdm_status tdm_jinja_concat(jinja_vm *vm, const jval *strs, uint32_t n, jval *out) {
    jbuild b = {.vm = vm};
    size_t len = 0;
    for (uint32_t i = 0; i < n; i++) {
        len += strs[i].len;
    }
    TDM_TRY(tdm_jinja_charge(vm, len / 256));
    if (len > 0) {
        TDM_TRY(tdm_jinja_build_reserve(&b, len));
    }
    for (uint32_t i = 0; i < n; i++) {
        TDM_TRY(tdm_jinja_build_str(&b, &strs[i]));
    }
    return tdm_jinja_build_end(&b, out);
}

tdm_status tdm_jinja_repeat(jinja_vm *vm, const jval *str, int64_t n, jval *out) {
    jbuild b = {.vm = vm};
    if (n > 0 && str->len > 0) {
        if ((uint64_t)n > STRING_MAX / str->len) {
            return tdm_jinja_limit(vm, "template string of %zu bytes", STRING_MAX);
        }
        TDM_TRY(tdm_jinja_charge(vm, (uint64_t)n));
        TDM_TRY(tdm_jinja_build_reserve(&b, str->len * (size_t)n));
    }
    for (int64_t i = 0; i < n && str->len > 0; i++) {
        TDM_TRY(tdm_jinja_build_str(&b, str));
    }
    return tdm_jinja_build_end(&b, out);
}

tdm_status tdm_jinja_escape(jinja_vm *vm, const jval *str, jval *out) {
    static const char *const SAFE[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    static const char UNSAFE[] = "&<>\"'";
    jbuild b = {.vm = vm};
    TDM_TRY(tdm_jinja_charge(vm, str->len / 16));
    size_t begin = 0;
    for (size_t i = 0; i < str->len; i++) {
        const char *hit = str->u.s[i] == 0 ? NULL : strchr(UNSAFE, str->u.s[i]);
        if (hit == NULL) {
            continue;
        }
        const char *text = SAFE[hit - UNSAFE];
        TDM_TRY(tdm_jinja_build_part(&b, str, begin, i - begin));
        TDM_TRY(tdm_jinja_build_add(&b, text, strlen(text), tdm_jinja_origin_at(str, i)));
        begin = i + 1;
    }
    TDM_TRY(tdm_jinja_build_part(&b, str, begin, str->len - begin));
    TDM_TRY(tdm_jinja_build_end(&b, out));
    out->flags |= JV_SAFE;
    return TDM_OK;
}

/* --- counting and searching ------------------------------------------------------------------- */

bool tdm_jinja_is_space(uint32_t cp) {
    return (cp >= 0x09 && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 || cp == 0xA0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

size_t tdm_jinja_count(const jval *str) {
    size_t n = 0;
    for (size_t i = 0; i < str->len; i++) {
        n += ((unsigned char)str->u.s[i] & 0xC0u) != 0x80u;
    }
    return n;
}

size_t tdm_jinja_offset(const jval *str, size_t i) {
    size_t at = 0;
    while (at < str->len) {
        if (((unsigned char)str->u.s[at] & 0xC0u) != 0x80u) {
            if (i == 0) {
                break;
            }
            i--;
        }
        at++;
    }
    return at;
}

/* Long needles by a rolling hash, so that no pair of texts makes the search quadratic. */
static size_t find_long(const char *s, size_t len, const char *needle, size_t m) {
    const uint64_t base = 0x9E3779B97F4A7C15u;
    uint64_t want = 0;
    uint64_t have = 0;
    uint64_t high = 1;
    for (size_t i = 0; i < m; i++) {
        want = want * base + (unsigned char)needle[i] + 1u;
        have = have * base + (unsigned char)s[i] + 1u;
        high *= i == 0 ? 1 : base;
    }
    for (size_t at = 0;; at++) {
        if (have == want && memcmp(s + at, needle, m) == 0) {
            return at;
        }
        if (at + m >= len) {
            return SIZE_MAX;
        }
        have -= high * ((unsigned char)s[at] + 1u);
        have = have * base + (unsigned char)s[at + m] + 1u;
    }
}

size_t tdm_jinja_find(const jval *str, const jval *needle, size_t begin) {
    const size_t m = needle->len;
    if (begin > str->len || m > str->len - begin) {
        return SIZE_MAX;
    }
    if (m == 0) {
        return begin;
    }
    const char *s = str->u.s;
    if (m > 16) {
        const size_t at = find_long(s + begin, str->len - begin, needle->u.s, m);
        return at == SIZE_MAX ? at : at + begin;
    }
    const size_t stop = str->len - m;
    while (begin <= stop) {
        const char *hit = memchr(s + begin, needle->u.s[0], stop - begin + 1);
        if (hit == NULL) {
            return SIZE_MAX;
        }
        begin = (size_t)(hit - s);
        if (memcmp(hit, needle->u.s, m) == 0) {
            return begin;
        }
        begin++;
    }
    return SIZE_MAX;
}

size_t tdm_jinja_rfind(const jval *str, const jval *needle, size_t end) {
    if (needle->len > end) {
        return SIZE_MAX;
    }
    for (size_t at = end - needle->len + 1; at-- > 0;) {
        if (needle->len == 0 || memcmp(str->u.s + at, needle->u.s, needle->len) == 0) {
            return at;
        }
    }
    return SIZE_MAX;
}

/* --- cutting ---------------------------------------------------------------------------------- */

static bool is_stripped(uint32_t cp, const char *bytes, size_t n, const jval *chars) {
    if (chars == NULL || chars->kind != JK_STR) {
        return tdm_jinja_is_space(cp);
    }
    const jval one = {.kind = JK_STR, .len = (uint32_t)n, .u.s = bytes};
    return tdm_jinja_find(chars, &one, 0) != SIZE_MAX;
}

tdm_status tdm_jinja_strip(jinja_vm *vm, const jval *str, const jval *chars, int sides, jval *out) {
    const char *s = str->u.s;
    size_t begin = 0;
    size_t end = str->len;
    uint32_t cp = 0;
    while ((sides & 1) != 0 && begin < end) {
        const size_t n = tdm_utf8_decode(s + begin, end - begin, &cp, NULL);
        if (!is_stripped(cp, s + begin, n, chars)) {
            break;
        }
        begin += n;
    }
    while ((sides & 2) != 0 && end > begin) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)s[at] & 0xC0u) == 0x80u) {
            at--;
        }
        (void)tdm_utf8_decode(s + at, end - at, &cp, NULL);
        if (!is_stripped(cp, s + at, end - at, chars)) {
            break;
        }
        end = at;
    }
    TDM_TRY(tdm_jinja_charge(vm, (str->len - (end - begin)) / 16));
    return tdm_jinja_sub(vm, str, begin, end - begin, out);
}

static tdm_status push_part(jinja_vm *vm, jval *list, const jval *str, size_t begin, size_t end) {
    jval part = {0};
    TDM_TRY(tdm_jinja_charge(vm, 1));
    TDM_TRY(tdm_jinja_sub(vm, str, begin, end - begin, &part));
    return tdm_jinja_seq_push(vm, list->u.seq, &part);
}

/* The first character at or after `at` for which is_space holds (or not). */
static size_t skip_to(const jval *str, size_t at, bool is_space) {
    while (at < str->len) {
        uint32_t cp = 0;
        const size_t n = tdm_utf8_decode(str->u.s + at, str->len - at, &cp, NULL);
        if (tdm_jinja_is_space(cp) == is_space) {
            break;
        }
        at += n;
    }
    return at;
}

static tdm_status split_blanks(jinja_vm *vm, const jval *str, int64_t max, jval *out) {
    for (size_t at = skip_to(str, 0, false); at < str->len;) {
        size_t end = skip_to(str, at, true);
        if (max-- == 0) { /* the rest, without blanks at its end */
            jval rest = {0};
            TDM_TRY(tdm_jinja_sub(vm, str, at, str->len - at, &rest));
            TDM_TRY(tdm_jinja_strip(vm, &rest, NULL, 2, &rest));
            return tdm_jinja_seq_push(vm, out->u.seq, &rest);
        }
        TDM_TRY(push_part(vm, out, str, at, end));
        at = skip_to(str, end, false);
    }
    return TDM_OK;
}

static tdm_status check_separator(jinja_vm *vm, const jval *sep, bool *out_is_blanks) {
    *out_is_blanks = sep == NULL || sep->kind == JK_NONE || sep->kind == JK_MISSING;
    if (*out_is_blanks) {
        return TDM_OK;
    }
    if (sep->kind != JK_STR) {
        return tdm_jinja_raise(vm, "the separator must be a string, not %s",
                               tdm_jinja_type_name(sep));
    }
    return sep->len > 0 ? TDM_OK : tdm_jinja_raise(vm, "empty separator");
}

tdm_status tdm_jinja_split(jinja_vm *vm, const jval *str, const jval *sep, int64_t max, jval *out) {
    bool is_blanks = false;
    TDM_TRY(check_separator(vm, sep, &is_blanks));
    TDM_TRY(tdm_jinja_charge(vm, str->len / 32));
    TDM_TRY(tdm_jinja_seq_new(vm, JK_LIST, 2, out));
    if (is_blanks) {
        return split_blanks(vm, str, max, out);
    }
    size_t begin = 0;
    while (max-- != 0) {
        const size_t at = tdm_jinja_find(str, sep, begin);
        if (at == SIZE_MAX) {
            break;
        }
        TDM_TRY(push_part(vm, out, str, begin, at));
        begin = at + sep->len;
    }
    return push_part(vm, out, str, begin, str->len);
}

static void reverse_items(jseq *seq) {
    for (uint32_t i = 0, j = seq->n; i + 1 < j; i++) {
        const jval held = seq->items[i];
        seq->items[i] = seq->items[--j];
        seq->items[j] = held;
    }
}

tdm_status tdm_jinja_rsplit(jinja_vm *vm, const jval *str, const jval *sep, int64_t max,
                            jval *out) {
    bool is_blanks = false;
    TDM_TRY(check_separator(vm, sep, &is_blanks));
    TDM_TRY(tdm_jinja_seq_new(vm, JK_LIST, 2, out));
    if (is_blanks) { /* all words, then the first ones joined to one piece again */
        jval words = {0};
        TDM_TRY(tdm_jinja_split(vm, str, NULL, -1, &words));
        const uint32_t n = words.u.seq->n;
        if (max < 0 || n <= max) {
            *out = words;
            return TDM_OK;
        }
        const jval *items = words.u.seq->items;
        const uint32_t first = n - (uint32_t)max;
        const size_t end = (size_t)(items[first - 1].u.s - str->u.s) + items[first - 1].len;
        TDM_TRY(push_part(vm, out, str, 0, end)); /* blanks in front stay */
        for (uint32_t i = first; i < n; i++) {
            TDM_TRY(tdm_jinja_seq_push(vm, out->u.seq, &items[i]));
        }
        return TDM_OK;
    }
    TDM_TRY(tdm_jinja_charge(vm, (uint64_t)str->len * sep->len / 64));
    size_t end = str->len;
    while (max-- != 0) {
        const size_t at = tdm_jinja_rfind(str, sep, end);
        if (at == SIZE_MAX) {
            break;
        }
        TDM_TRY(push_part(vm, out, str, at + sep->len, end));
        end = at;
    }
    TDM_TRY(push_part(vm, out, str, 0, end));
    reverse_items(out->u.seq);
    return TDM_OK;
}

tdm_status tdm_jinja_splitlines(jinja_vm *vm, const jval *str, bool keeps_ends, jval *out) {
    TDM_TRY(tdm_jinja_charge(vm, str->len / 16));
    TDM_TRY(tdm_jinja_seq_new(vm, JK_LIST, 4, out));
    size_t begin = 0;
    for (size_t at = 0; at < str->len;) {
        uint32_t cp = 0;
        size_t n = tdm_utf8_decode(str->u.s + at, str->len - at, &cp, NULL);
        if ((cp < 0x0A || cp > 0x0D) && (cp < 0x1C || cp > 0x1E) && cp != 0x85 && cp != 0x2028 &&
            cp != 0x2029) {
            at += n;
            continue;
        }
        n += cp == '\r' && at + 1 < str->len && str->u.s[at + 1] == '\n';
        TDM_TRY(push_part(vm, out, str, begin, keeps_ends ? at + n : at));
        at += n;
        begin = at;
    }
    return begin < str->len ? push_part(vm, out, str, begin, str->len) : TDM_OK;
}

/* `old` is empty: fresh goes in front of each character and at the end. */
static tdm_status interleave(jbuild *b, const jval *str, const jval *fresh, int64_t max) {
    for (size_t at = 0; at < str->len;) {
        uint32_t cp = 0;
        const size_t n = tdm_utf8_decode(str->u.s + at, str->len - at, &cp, NULL);
        if (max != 0) {
            TDM_TRY(tdm_jinja_charge(b->vm, 1));
            TDM_TRY(tdm_jinja_build_str(b, fresh));
            max--;
        }
        TDM_TRY(tdm_jinja_build_part(b, str, at, n));
        at += n;
    }
    return max != 0 ? tdm_jinja_build_str(b, fresh) : TDM_OK;
}

tdm_status tdm_jinja_replace(jinja_vm *vm, const jval *str, const jval *old, const jval *fresh,
                             int64_t max, jval *out) {
    jbuild b = {.vm = vm};
    TDM_TRY(tdm_jinja_charge(vm, str->len / 32));
    if (old->len == 0) {
        TDM_TRY(interleave(&b, str, fresh, max));
        return tdm_jinja_build_end(&b, out);
    }
    size_t begin = 0;
    while (max-- != 0) {
        const size_t at = tdm_jinja_find(str, old, begin);
        if (at == SIZE_MAX) {
            break;
        }
        TDM_TRY(tdm_jinja_charge(vm, 1));
        TDM_TRY(tdm_jinja_build_part(&b, str, begin, at - begin));
        TDM_TRY(tdm_jinja_build_str(&b, fresh));
        begin = at + old->len;
    }
    if (begin == 0) {
        *out = *str;
        return TDM_OK;
    }
    TDM_TRY(tdm_jinja_build_part(&b, str, begin, str->len - begin));
    return tdm_jinja_build_end(&b, out);
}
