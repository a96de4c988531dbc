/* SPDX-License-Identifier: Apache-2.0
 *
 * Upper, lower and title case as Python has them: simple mappings from utf8proc, the one-to-many
 * ones from a table, and the two rules that look around (the final sigma, letters after letters).
 */
#include "text/jinja_case.h"

#include "text/jinja_string.h"
#include "text/jinja_vm.h"

#include "base/utf8.h"

#include <utf8proc.h>

static const jcase_row *row_of(uint32_t cp) {
    if (cp < 0xDF) {
        return NULL;
    }
    size_t low = 0;
    size_t high = TDM_JINJA_N_CASE_ROWS;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (TDM_JINJA_CASE_ROWS[mid].cp == cp) {
            return &TDM_JINJA_CASE_ROWS[mid];
        }
        if (TDM_JINJA_CASE_ROWS[mid].cp < cp) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return NULL;
}

static bool is_cased(uint32_t cp) {
    if (cp < 0x80) {
        return (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z');
    }
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)cp);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT || cp == 0xAA || cp == 0xBA;
}

/* Case_Ignorable, as far as category tells it. */
static bool is_ignorable(uint32_t cp) {
    if (cp < 0x80) {
        return cp == '\'' || cp == '.' || cp == ':' || cp == '^' || cp == '`';
    }
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)cp);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
           category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
           category == UTF8PROC_CATEGORY_SK || cp == 0xB7 || cp == 0x2019;
}

/* Whether the sigma at `at` ends a word: a cased letter somewhere before (but not before `from`),
 * none after. */
static bool is_final_sigma(const jval *str, size_t from, size_t at) {
    bool has_before = false;
    for (size_t i = at; i > from;) {
        uint32_t cp = 0;
        size_t begin = i - 1;
        while (begin > 0 && ((unsigned char)str->u.s[begin] & 0xC0u) == 0x80u) {
            begin--;
        }
        (void)tdm_utf8_decode(str->u.s + begin, i - begin, &cp, NULL);
        if (!is_ignorable(cp)) {
            has_before = is_cased(cp);
            break;
        }
        i = begin;
    }
    for (size_t i = at + 2; has_before && i < str->len;) {
        uint32_t cp = 0;
        i += tdm_utf8_decode(str->u.s + i, str->len - i, &cp, NULL);
        if (!is_ignorable(cp)) {
            return !is_cased(cp);
        }
    }
    return has_before;
}

enum { CASE_UP, CASE_DOWN, CASE_FIRST };

static tdm_status put(jbuild *b, const jval *str, size_t from, size_t at, uint32_t cp, int how) {
    const bool is_untrusted = tdm_jinja_origin_at(str, at);
    if (how == CASE_DOWN) {
        if (cp == 0x130) {
            TDM_TRY(tdm_jinja_build_cp(b, 'i', is_untrusted));
            return tdm_jinja_build_cp(b, 0x307, is_untrusted);
        }
        const uint32_t low = cp == 0x3A3 ? (is_final_sigma(str, from, at) ? 0x3C2u : 0x3C3u)
                                         : (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
        return tdm_jinja_build_cp(b, low, is_untrusted);
    }
    const jcase_row *row = row_of(cp);
    if (row == NULL) {
        const utf8proc_int32_t c = (utf8proc_int32_t)cp;
        return tdm_jinja_build_cp(
            b, (uint32_t)(how == CASE_UP ? utf8proc_toupper(c) : utf8proc_totitle(c)),
            is_untrusted);
    }
    const uint16_t *to = how == CASE_UP ? row->upper : row->title;
    for (int i = 0; i < 3 && to[i] != 0; i++) {
        TDM_TRY(tdm_jinja_build_cp(b, to[i], is_untrusted));
    }
    return TDM_OK;
}

/* Jinja's title filter splits before: blanks - ( { [ < */
static bool is_break(uint32_t cp) {
    return tdm_jinja_is_space(cp) || cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<';
}

/* The characters are pure ASCII: one pass without Unicode. */
static tdm_status ascii_case(jinja_vm *vm, const jval *str, bool is_upper, jval *out) {
    char *text = tdm_jinja_alloc(vm, str->len + 1u, 1);
    if (text == NULL) {
        return tdm_jinja_nomem(vm);
    }
    const char first = is_upper ? 'a' : 'A';
    for (size_t i = 0; i < str->len; i++) {
        const char c = str->u.s[i];
        text[i] = c >= first && c <= first + 25 ? (char)(c ^ 0x20) : c;
    }
    *out = *str;
    out->u.s = text;
    return TDM_OK;
}

static bool is_ascii(const jval *str) {
    for (size_t i = 0; i < str->len; i++) {
        if (((unsigned char)str->u.s[i] & 0x80u) != 0) {
            return false;
        }
    }
    return true;
}

tdm_status tdm_jinja_case(jinja_vm *vm, const jval *str, jcase how, jval *out) {
    jbuild b = {.vm = vm};
    bool was_letter = false;
    size_t from = 0;
    TDM_TRY(tdm_jinja_charge(vm, str->len / 8));
    if ((how == JCASE_UPPER || how == JCASE_LOWER) && is_ascii(str)) {
        return ascii_case(vm, str, how == JCASE_UPPER, out);
    }
    for (size_t at = 0; at < str->len;) {
        uint32_t cp = 0;
        const size_t n = tdm_utf8_decode(str->u.s + at, str->len - at, &cp, NULL);
        int to = CASE_DOWN;
        switch (how) {
        case JCASE_UPPER:
            to = CASE_UP;
            break;
        case JCASE_LOWER:
            break;
        case JCASE_CAPITALIZE:
            to = at == 0 ? CASE_FIRST : CASE_DOWN;
            break;
        case JCASE_TITLE:
            to = was_letter ? CASE_DOWN : CASE_FIRST;
            was_letter = is_cased(cp);
            break;
        case JCASE_TITLE_FILTER:
            to = was_letter ? CASE_DOWN : CASE_UP;
            was_letter = !is_break(cp);
            break;
        case JCASE_SWAP:
            to = utf8proc_tolower((utf8proc_int32_t)cp) != (utf8proc_int32_t)cp ? CASE_DOWN
                                                                                : CASE_UP;
            break;
        }
        TDM_TRY(put(&b, str, from, at, cp, to));
        at += n;
        /* Jinja lowers the rest of each word by itself. */
        from = how == JCASE_TITLE_FILTER && to == CASE_UP ? at : from;
    }
    TDM_TRY(tdm_jinja_build_end(&b, out));
    out->flags |= str->flags & JV_SAFE;
    return TDM_OK;
}

bool tdm_jinja_is_class(const jval *str, jclass what) {
    bool has = false;
    for (size_t at = 0; at < str->len;) {
        uint32_t cp = 0;
        at += tdm_utf8_decode(str->u.s + at, str->len - at, &cp, NULL);
        const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        const bool is_letter = c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
        const bool is_digit = c == UTF8PROC_CATEGORY_ND || cp == 0xB2 || cp == 0xB3 || cp == 0xB9 ||
                              cp == 0x2070 || (cp >= 0x2074 && cp <= 0x2079) ||
                              (cp >= 0x2080 && cp <= 0x2089);
        switch (what) {
        case JCLASS_LOWER:
        case JCLASS_UPPER:
            if (!is_cased(cp)) {
                continue;
            }
            if ((what == JCLASS_LOWER) !=
                (c != UTF8PROC_CATEGORY_LU && c != UTF8PROC_CATEGORY_LT)) {
                return false;
            }
            break;
        case JCLASS_DIGIT:
            if (!is_digit) {
                return false;
            }
            break;
        case JCLASS_ALPHA:
            if (!is_letter) {
                return false;
            }
            break;
        case JCLASS_ALNUM:
            if (!is_letter && !is_digit && c != UTF8PROC_CATEGORY_NO && c != UTF8PROC_CATEGORY_NL) {
                return false;
            }
            break;
        case JCLASS_SPACE:
            if (!tdm_jinja_is_space(cp)) {
                return false;
            }
            break;
        }
        has = true;
    }
    return has;
}

bool tdm_jinja_is_printable(uint32_t cp) {
    if (cp < 0x7F) {
        return cp >= 0x20;
    }
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c != UTF8PROC_CATEGORY_CN && (c < UTF8PROC_CATEGORY_ZS || c > UTF8PROC_CATEGORY_CO);
}
