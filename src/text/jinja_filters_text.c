/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters that give text or numbers. Like Jinja's they take any value and turn it into its text
 * first, but where Python would refuse (length of a number) they refuse. */
#include "text/jinja_builtin.h"
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tdm_status filter_case(jargs *a, jcase how, jval *out) {
    jval text = {0};
    TDM_TRY(tdm_jinja_as_text(a->vm, a->value, &text));
    return tdm_jinja_case(a->vm, &text, how, out);
}

static tdm_status filter_upper(jargs *a, jval *out) {
    return filter_case(a, JCASE_UPPER, out);
}

static tdm_status filter_lower(jargs *a, jval *out) {
    return filter_case(a, JCASE_LOWER, out);
}

static tdm_status filter_capitalize(jargs *a, jval *out) {
    return filter_case(a, JCASE_CAPITALIZE, out);
}

static tdm_status filter_title(jargs *a, jval *out) {
    return filter_case(a, JCASE_TITLE_FILTER, out);
}

static tdm_status filter_trim(jargs *a, jval *out) {
    jval text = {0};
    TDM_TRY(tdm_jinja_as_text(a->vm, a->value, &text));
    if (tdm_jinja_given(a, 0) && a->arg[0].kind != JK_STR && a->arg[0].kind != JK_NONE) {
        return tdm_jinja_raise(a->vm, "trim wants a string of characters, not %s",
                               tdm_jinja_type_name(&a->arg[0]));
    }
    return tdm_jinja_strip(a->vm, &text, &a->arg[0], 3, out);
}

static tdm_status filter_string(jargs *a, jval *out) {
    return tdm_jinja_as_text(a->vm, a->value, out);
}

static tdm_status filter_safe(jargs *a, jval *out) {
    TDM_TRY(tdm_jinja_as_text(a->vm, a->value, out));
    out->flags |= JV_SAFE;
    return TDM_OK;
}

static tdm_status filter_escape(jargs *a, jval *out) {
    jval text = {0};
    TDM_TRY(tdm_jinja_as_text(a->vm, a->value, &text));
    if ((text.flags & JV_SAFE) != 0) {
        *out = text;
        return TDM_OK;
    }
    return tdm_jinja_escape(a->vm, &text, out);
}

static tdm_status filter_forceescape(jargs *a, jval *out) {
    jval text = {0};
    TDM_TRY(tdm_jinja_as_text(a->vm, a->value, &text));
    return tdm_jinja_escape(a->vm, &text, out);
}

static tdm_status filter_replace(jargs *a, jval *out) {
    jval text[3] = {{0}};
    int64_t max = -1;
    TDM_TRY(tdm_jinja_str(a->vm, a->value, &text[0]));
    TDM_TRY(tdm_jinja_str(a->vm, &a->arg[0], &text[1]));
    TDM_TRY(tdm_jinja_str(a->vm, &a->arg[1], &text[2]));
    if (a->arg[2].kind != JK_NONE) {
        TDM_TRY(tdm_jinja_arg_int(a, 2, -1, &max));
    }
    TDM_TRY(tdm_jinja_replace(a->vm, &text[0], &text[1], &text[2], max, out));
    out->flags &= (uint8_t)~JV_SAFE;
    return TDM_OK;
}

static tdm_status filter_default(jargs *a, jval *out) {
    const bool is_missing = a->value->kind == JK_UNDEF || a->value->kind == JK_MISSING ||
                            (tdm_jinja_arg_truth(a, 1, false) && !tdm_jinja_truth(a->value));
    *out = !is_missing ? *a->value : tdm_jinja_given(a, 0) ? a->arg[0] : tdm_jinja_text("", 0);
    return TDM_OK;
}

static tdm_status filter_length(jargs *a, jval *out) {
    const jval *v = a->value;
    if (v->kind == JK_STR) {
        TDM_TRY(tdm_jinja_charge(a->vm, v->len / 64));
        *out = tdm_jinja_int((int64_t)tdm_jinja_count(v));
    } else if (v->kind == JK_UNDEF) {
        *out = tdm_jinja_int(0);
    } else if (tdm_jinja_has_items(v) && v->kind != JK_GEN) {
        *out = tdm_jinja_int(tdm_jinja_n_items(v));
    } else if (v->kind == JK_LOOP) {
        *out = tdm_jinja_int(v->u.loop->n);
    } else {
        return tdm_jinja_raise(a->vm, "object of type '%s' has no length", tdm_jinja_type_name(v));
    }
    return TDM_OK;
}

static tdm_status filter_wordcount(jargs *a, jval *out) {
    jval text = {0};
    int64_t n = 0;
    bool was_word = false;
    TDM_TRY(tdm_jinja_as_text(a->vm, a->value, &text));
    TDM_TRY(tdm_jinja_charge(a->vm, text.len / 16));
    for (size_t at = 0; at < text.len;) {
        uint32_t cp = 0;
        const size_t len = tdm_utf8_decode(text.u.s + at, text.len - at, &cp, NULL);
        const jval one = tdm_jinja_text(text.u.s + at, len);
        const bool is_word = cp == '_' || tdm_jinja_is_class(&one, JCLASS_ALNUM);
        n += is_word && !was_word;
        was_word = is_word;
        at += len;
    }
    *out = tdm_jinja_int(n);
    return TDM_OK;
}

static tdm_status filter_center(jargs *a, jval *out) {
    jval text = {0};
    int64_t width = 0;
    TDM_TRY(tdm_jinja_as_text(a->vm, a->value, &text));
    TDM_TRY(tdm_jinja_arg_int(a, 0, 80, &width));
    const int64_t n = (int64_t)tdm_jinja_count(&text);
    const int64_t pad = width > n ? width - n : 0;
    /* Python puts the odd blank in front when the width is odd. */
    const int64_t left = pad / 2 + (pad & width & 1);
    const jval blank = tdm_jinja_text(" ", 1);
    jval parts[3] = {{0}, text, {0}};
    TDM_TRY(tdm_jinja_repeat(a->vm, &blank, left, &parts[0]));
    TDM_TRY(tdm_jinja_repeat(a->vm, &blank, pad - left, &parts[2]));
    return tdm_jinja_concat(a->vm, parts, 3, out);
}

static tdm_status filter_indent(jargs *a, jval *out) {
    jval indent = {0};
    jval lines = {0};
    const jval newline = tdm_jinja_text("\n", 1);
    const bool indents_first = tdm_jinja_arg_truth(a, 1, false);
    const bool indents_blank = tdm_jinja_arg_truth(a, 2, false);
    if (a->value->kind != JK_STR) {
        return tdm_jinja_raise(a->vm, "indent wants a string, not %s",
                               tdm_jinja_type_name(a->value));
    }
    if (tdm_jinja_given(a, 0) && a->arg[0].kind == JK_STR) {
        indent = a->arg[0];
    } else {
        const jval blank = tdm_jinja_text(" ", 1);
        int64_t width = 0;
        TDM_TRY(tdm_jinja_arg_int(a, 0, 4, &width));
        TDM_TRY(tdm_jinja_repeat(a->vm, &blank, width, &indent));
    }
    jbuild b = {.vm = a->vm};
    const jval both[2] = {*a->value, newline};
    jval whole = {0};
    TDM_TRY(tdm_jinja_concat(a->vm, both, 2, &whole));
    TDM_TRY(tdm_jinja_splitlines(a->vm, &whole, false, &lines));
    for (uint32_t i = 0; i < lines.u.seq->n; i++) {
        const jval *line = &lines.u.seq->items[i];
        if (i > 0) {
            TDM_TRY(tdm_jinja_build_str(&b, &newline));
        }
        if (i == 0 ? indents_first : indents_blank || line->len > 0) {
            TDM_TRY(tdm_jinja_build_str(&b, &indent));
        }
        TDM_TRY(tdm_jinja_build_str(&b, line));
    }
    return tdm_jinja_build_end(&b, out);
}

static tdm_status filter_truncate(jargs *a, jval *out) {
    int64_t length = 0;
    int64_t leeway = 5;
    jval cut = {0};
    const jval end = tdm_jinja_given(a, 2) ? a->arg[2] : tdm_jinja_text("...", 3);
    TDM_TRY(tdm_jinja_arg_int(a, 0, 255, &length));
    if (a->arg[3].kind != JK_NONE) {
        TDM_TRY(tdm_jinja_arg_int(a, 3, 5, &leeway));
    }
    jval count = {0};
    const int64_t n_end = end.kind == JK_STR ? (int64_t)tdm_jinja_count(&end) : INT64_MAX;
    if (length < n_end || leeway < 0) {
        return tdm_jinja_raise(a->vm, "truncate wants a length that holds the end mark");
    }
    TDM_TRY(filter_length(a, &count));
    if (count.u.i <= length || count.u.i - length <= leeway) {
        *out = *a->value;
        return TDM_OK;
    }
    if (a->value->kind != JK_STR) {
        return tdm_jinja_raise(a->vm, "truncate wants a string, not %s",
                               tdm_jinja_type_name(a->value));
    }
    const size_t stop = tdm_jinja_offset(a->value, (size_t)(length - n_end));
    TDM_TRY(tdm_jinja_sub(a->vm, a->value, 0, stop, &cut));
    if (!tdm_jinja_arg_truth(a, 1, false)) {
        const jval blank = tdm_jinja_text(" ", 1);
        const size_t at = tdm_jinja_rfind(&cut, &blank, cut.len);
        if (at != SIZE_MAX) {
            TDM_TRY(tdm_jinja_sub(a->vm, a->value, 0, at, &cut));
        }
    }
    const jval both[2] = {cut, end};
    return tdm_jinja_concat(a->vm, both, 2, out);
}

static tdm_status filter_urlencode(jargs *a, jval *out) {
    jval text = {0};
    jbuild b = {.vm = a->vm};
    if (a->value->kind != JK_STR && tdm_jinja_has_items(a->value)) {
        return tdm_jinja_raise(a->vm, "urlencode of a %s is not supported",
                               tdm_jinja_type_name(a->value));
    }
    TDM_TRY(tdm_jinja_str(a->vm, a->value, &text));
    TDM_TRY(tdm_jinja_charge(a->vm, text.len / 4));
    static const char KEPT[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~/";
    static const char HEX[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.u.s[i];
        const char escaped[3] = {'%', HEX[c >> 4], HEX[c & 15]};
        const bool is_kept = c != 0 && strchr(KEPT, c) != NULL;
        TDM_TRY(tdm_jinja_build_add(&b, is_kept ? text.u.s + i : escaped, is_kept ? 1 : 3,
                                    tdm_jinja_origin_at(&text, i)));
    }
    return tdm_jinja_build_end(&b, out);
}

static tdm_status filter_format(jargs *a, jval *out) {
    jval text = {0};
    jval args = {0};
    TDM_TRY(tdm_jinja_as_text(a->vm, a->value, &text));
    if (a->n > 0 && a->n_named > 0) {
        return tdm_jinja_raise(a->vm, "format takes either positional or keyword arguments");
    }
    if (a->n_named > 0) {
        TDM_TRY(tdm_jinja_map_new(a->vm, JK_MAP, a->n_named, &args));
        for (uint32_t i = 0; i < a->n_named; i++) {
            const jname *name = &a->vm->program->names[a->names[i]];
            const jval key = tdm_jinja_text(name->text, name->len);
            TDM_TRY(tdm_jinja_map_set(a->vm, args.u.map, &key, &a->named[i]));
        }
    } else {
        TDM_TRY(tdm_jinja_seq_new(a->vm, JK_TUPLE, a->n, &args));
        for (uint32_t i = 0; i < a->n; i++) {
            TDM_TRY(tdm_jinja_seq_push(a->vm, args.u.seq, &a->pos[i]));
        }
    }
    return tdm_jinja_percent(a->vm, &text, &args, out);
}

/* --- tojson
 * --------------------------------------------------------------------------------------- */

static tdm_status json_separators(jargs *a, const jval *v, jdump *how) {
    if ((v->kind != JK_TUPLE && !tdm_jinja_is_list(v)) || tdm_jinja_n_items(v) != 2) {
        return tdm_jinja_raise(a->vm, "separators wants two strings");
    }
    how->item_sep = tdm_jinja_item(v, 0);
    how->key_sep = tdm_jinja_item(v, 1);
    if (how->item_sep.kind != JK_STR || how->key_sep.kind != JK_STR) {
        return tdm_jinja_raise(a->vm, "separators wants two strings");
    }
    return TDM_OK;
}

static tdm_status filter_tojson(jargs *a, jval *out) {
    jdump how = {.is_ascii = tdm_jinja_arg_truth(a, 0, false),
                 .sorts_keys = tdm_jinja_arg_truth(a, 3, false),
                 .item_sep = tdm_jinja_text(", ", 2),
                 .key_sep = tdm_jinja_text(": ", 2)};
    const jval *indent = &a->arg[1];
    if (tdm_jinja_given(a, 1) && indent->kind != JK_NONE) {
        how.has_indent = true;
        how.item_sep = tdm_jinja_text(",", 1);
        if (indent->kind == JK_STR) {
            how.indent = *indent;
        } else {
            const jval blank = tdm_jinja_text(" ", 1);
            int64_t width = 0;
            TDM_TRY(tdm_jinja_arg_int(a, 1, 0, &width));
            TDM_TRY(tdm_jinja_repeat(a->vm, &blank, width, &how.indent));
        }
    }
    if (tdm_jinja_given(a, 2) && a->arg[2].kind != JK_NONE) {
        TDM_TRY(json_separators(a, &a->arg[2], &how));
    }
    return tdm_jinja_dump(a->vm, a->value, &how, out);
}

/* --- numbers
 * -------------------------------------------------------------------------------------- */

static tdm_status filter_abs(jargs *a, jval *out) {
    if (a->value->kind == JK_BIG) {
        return tdm_jinja_negate(a->vm, a->value, a->value->u.s[0] == '-', out);
    }
    if (!tdm_jinja_is_number(a->value)) {
        if (a->value->kind == JK_UNDEF) {
            return tdm_jinja_raise_undefined(a->vm, a->value);
        }
        return tdm_jinja_raise(a->vm, "bad operand type for abs: '%s'",
                               tdm_jinja_type_name(a->value));
    }
    const bool is_negative =
        a->value->kind == JK_FLOAT ? signbit(a->value->u.f) != 0 : a->value->u.i < 0;
    return tdm_jinja_negate(a->vm, a->value, is_negative, out);
}

/* Python's int(text, base): blanks around, a sign, digits with single underscores. */
static bool parse_int(const jval *text, int base, int64_t *out) {
    char digits[80];
    size_t n = 0;
    bool was_digit = false;
    for (uint32_t i = 0; i < text->len; i++) {
        const char c = text->u.s[i];
        if (c == '_' && was_digit && i + 1 < text->len) {
            was_digit = false;
            continue;
        }
        if (n + 1 == sizeof digits || c == 0 || c == ' ' || c == '_') {
            return false;
        }
        was_digit = c != '+' && c != '-';
        digits[n++] = c;
    }
    digits[n] = 0;
    char *end = NULL;
    errno = 0;
    const char *start = digits;
    const bool is_negative = n > 0 && digits[0] == '-';
    start += n > 0 && (digits[0] == '-' || digits[0] == '+');
    const bool has_prefix = start[0] == '0' && start[1] != 0 && strchr("bBoOxX", start[1]) != NULL;
    if (has_prefix && (base == 2 || base == 8 || base == 16) &&
        (start[1] | 0x20) == (base == 2   ? 'b'
                              : base == 8 ? 'o'
                                          : 'x')) {
        start += 2;
    }
    if ((*start < '0' || *start > '9') &&
        (base <= 10 || (*start | 0x20) < 'a' || (*start | 0x20) > 'z')) {
        return false;
    }
    const long long value = strtoll(start, &end, base);
    *out = is_negative ? -value : value;
    return *end == 0 && errno == 0;
}

static bool parse_float(const jval *text, double *out) {
    char digits[400];
    size_t n = 0;
    for (uint32_t i = 0; i < text->len; i++) {
        const char c = text->u.s[i];
        if (n + 1 == sizeof digits || c == 0 || c == 'x' || c == 'X' || c == '(' || c == ' ') {
            return false;
        }
        if (c != '_') {
            digits[n++] = c;
        }
    }
    digits[n] = 0;
    char *end = NULL;
    *out = strtod(digits, &end);
    return n > 0 && *end == 0 && end != digits;
}

static tdm_status stripped(jargs *a, jval *out) {
    const jval none = tdm_jinja_of_kind(JK_NONE);
    return tdm_jinja_strip(a->vm, a->value, &none, 3, out);
}

static bool double_to_int(double f, int64_t *out) {
    if (!(fabs(f) < 9.2e18)) {
        return false;
    }
    *out = (int64_t)f;
    return true;
}

static tdm_status filter_int(jargs *a, jval *out) {
    int64_t value = 0;
    int64_t base = 10;
    double f = 0;
    const jval fallback = tdm_jinja_given(a, 0) ? a->arg[0] : tdm_jinja_int(0);
    TDM_TRY(tdm_jinja_arg_int(a, 1, 10, &base));
    bool is_ok = false;
    if (a->value->kind == JK_STR) {
        jval text = {0};
        TDM_TRY(stripped(a, &text));
        is_ok = base >= 2 && base <= 36 && parse_int(&text, (int)base, &value);
        is_ok = is_ok || (parse_float(&text, &f) && double_to_int(f, &value));
    } else if (a->value->kind == JK_FLOAT) {
        is_ok = double_to_int(a->value->u.f, &value);
    } else if (a->value->kind == JK_BIG) {
        *out = *a->value;
        return TDM_OK;
    } else if (a->value->kind == JK_UNDEF) {
        return tdm_jinja_raise_undefined(a->vm, a->value);
    } else {
        is_ok = tdm_jinja_is_intlike(a->value);
        value = is_ok ? a->value->u.i : 0;
    }
    *out = is_ok ? tdm_jinja_int(value) : fallback;
    return TDM_OK;
}

static tdm_status filter_float(jargs *a, jval *out) {
    double f = 0;
    bool is_ok = tdm_jinja_is_number(a->value);
    if (a->value->kind == JK_UNDEF) {
        return tdm_jinja_raise_undefined(a->vm, a->value);
    }
    if (is_ok) {
        f = tdm_jinja_as_double(a->value);
    } else if (a->value->kind == JK_STR) {
        jval text = {0};
        TDM_TRY(stripped(a, &text));
        is_ok = parse_float(&text, &f);
    }
    *out = is_ok ? tdm_jinja_float(f) : tdm_jinja_given(a, 0) ? a->arg[0] : tdm_jinja_float(0);
    return TDM_OK;
}

/* Rounds half to even at a decimal place, by way of the exact decimal text. */
static double round_common(double f, int64_t places) {
    char text[800];
    if (isnan(f) || isinf(f) || places > 300) {
        return f;
    }
    if (places < 0) {
        const double scale = pow(10, (double)-places);
        return nearbyint(f / scale) * scale;
    }
    (void)snprintf(text, sizeof text, "%.*f", (int)places, f);
    return strtod(text, NULL);
}

static bool is_word(const jval *v, const char *word) {
    return v->kind == JK_STR && v->len == strlen(word) && memcmp(v->u.s, word, v->len) == 0;
}

static tdm_status filter_round(jargs *a, jval *out) {
    int64_t places = 0;
    const jval method = tdm_jinja_given(a, 1) ? a->arg[1] : tdm_jinja_text("common", 6);
    TDM_TRY(tdm_jinja_arg_int(a, 0, 0, &places));
    const bool is_common = is_word(&method, "common");
    const bool is_ceil = is_word(&method, "ceil");
    const bool is_floor = is_word(&method, "floor");
    if (!is_common && !is_ceil && !is_floor) {
        return tdm_jinja_raise(a->vm, "method must be common, ceil or floor");
    }
    if (a->value->kind == JK_BIG && is_common && places >= 0) {
        *out = *a->value;
        return TDM_OK;
    }
    if (!tdm_jinja_is_number(a->value) || a->value->kind == JK_BIG || places < -300) {
        if (a->value->kind == JK_UNDEF) {
            return tdm_jinja_raise_undefined(a->vm, a->value);
        }
        return tdm_jinja_raise(a->vm, "%s cannot be rounded", tdm_jinja_type_name(a->value));
    }
    if (is_common && a->value->kind != JK_FLOAT) {
        if (places >= 0) {
            *out = tdm_jinja_int(a->value->u.i);
            return TDM_OK;
        }
        *out = tdm_jinja_int((int64_t)round_common((double)a->value->u.i, places));
        return TDM_OK;
    }
    const double f = tdm_jinja_as_double(a->value);
    if (is_common) {
        *out = tdm_jinja_float(round_common(f, places));
        return TDM_OK;
    }
    const double scale = pow(10, (double)places);
    *out = tdm_jinja_float((is_ceil ? ceil(f * scale) : floor(f * scale)) / scale);
    return TDM_OK;
}

const jbuiltin TDM_JINJA_TEXT_FILTERS[] = {
    {"tojson", filter_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"trim", filter_trim, "chars", 0},
    {"length", filter_length, "", 0},
    {"count", filter_length, "", 0},
    {"string", filter_string, "", 0},
    {"default", filter_default, "default_value boolean", 0},
    {"d", filter_default, "default_value boolean", 0},
    {"replace", filter_replace, "old new count", 2},
    {"safe", filter_safe, "", 0},
    {"upper", filter_upper, "", 0},
    {"lower", filter_lower, "", 0},
    {"capitalize", filter_capitalize, "", 0},
    {"title", filter_title, "", 0},
    {"indent", filter_indent, "width first blank", 0},
    {"format", filter_format, NULL, 0},
    {"escape", filter_escape, "", 0},
    {"e", filter_escape, "", 0},
    {"forceescape", filter_forceescape, "", 0},
    {"wordcount", filter_wordcount, "", 0},
    {"center", filter_center, "width", 0},
    {"truncate", filter_truncate, "length killwords end leeway", 0},
    {"urlencode", filter_urlencode, "", 0},
    {"abs", filter_abs, "", 0},
    {"int", filter_int, "default base", 0},
    {"float", filter_float, "default", 0},
    {"round", filter_round, "precision method", 0},
    {NULL, NULL, NULL, 0},
};
