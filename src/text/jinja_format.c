/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's two ways to format: `text % values` and text.format(...), with the conversions that
 * templates use: text, integers, floats, width, precision, alignment, sign, zeros, thousands.
 * It refuses attribute paths inside format fields (nothing in a template needs them, and they are
 * how sandboxes were escaped), and complex directives, with an error that names them. */
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WIDTH_MAX 1000000

typedef struct spec {
    char fill[5];
    char align; /* < > ^ = or 0 */
    char sign;  /* + blank or 0 */
    bool is_alternate;
    bool has_comma;
    int64_t width;
    int64_t precision; /* -1: none */
    char type;
} spec;

/* Digits at *at into *out; false when there are none. */
static bool read_number(const char *s, size_t len, size_t *at, int64_t *out) {
    const size_t begin = *at;
    int64_t n = 0;
    while (*at < len && s[*at] >= '0' && s[*at] <= '9') {
        n = n > WIDTH_MAX ? n : n * 10 + (s[*at] - '0');
        (*at)++;
    }
    *out = n;
    return *at > begin;
}

static tdm_status add_fill(jbuild *b, const spec *sp, size_t n) {
    const char *fill = sp->fill[0] != 0 ? sp->fill : " ";
    for (size_t i = 0; i < n; i++) {
        TDM_TRY(tdm_jinja_build_add(b, fill, strlen(fill), false));
    }
    return TDM_OK;
}

/* Text of a value, padded to the width. prefix is how many bytes of sign come before zeros. */
static tdm_status add_padded(jbuild *b, const jval *text, const spec *sp, char default_align,
                             size_t prefix) {
    const size_t n = tdm_jinja_count(text);
    const size_t pad = sp->width > 0 && (size_t)sp->width > n ? (size_t)sp->width - n : 0;
    const char align = sp->align != 0 ? sp->align : default_align;
    TDM_TRY(tdm_jinja_charge(b->vm, pad / 8));
    if (align == '=') {
        TDM_TRY(tdm_jinja_build_part(b, text, 0, prefix));
        TDM_TRY(add_fill(b, sp, pad));
        return tdm_jinja_build_part(b, text, prefix, text->len - prefix);
    }
    const size_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    TDM_TRY(add_fill(b, sp, left));
    TDM_TRY(tdm_jinja_build_str(b, text));
    return add_fill(b, sp, pad - left);
}

static tdm_status add_text_field(jbuild *b, const jval *text, const spec *sp) {
    jval cut = *text;
    if (sp->precision >= 0 && (size_t)sp->precision < tdm_jinja_count(text)) {
        TDM_TRY(tdm_jinja_sub(b->vm, text, 0, tdm_jinja_offset(text, (size_t)sp->precision), &cut));
    }
    return add_padded(b, &cut, sp, '<', 0);
}

/* Puts a comma between thousands of the digits [begin, end) of text. Returns the new length. */
static size_t add_commas(char *text, size_t len, size_t cap) {
    size_t begin = text[0] == '-' || text[0] == '+' || text[0] == ' ' ? 1 : 0;
    size_t end = begin;
    while (end < len && text[end] >= '0' && text[end] <= '9') {
        end++;
    }
    for (size_t at = end; at > begin + 3 && len + 1 < cap; len++) {
        at -= 3;
        memmove(text + at + 1, text + at, len - at);
        text[at] = ',';
    }
    return len;
}

static tdm_status add_digits(jbuild *b, char *text, size_t len, size_t cap, const spec *sp,
                             bool is_untrusted) {
    if (sp->has_comma) {
        len = add_commas(text, len, cap);
    }
    const size_t prefix = text[0] == '-' || text[0] == '+' || text[0] == ' ' ? 1 : 0;
    jval v = tdm_jinja_text(text, len);
    v.flags = is_untrusted ? JV_UNTRUSTED : 0;
    return add_padded(b, &v, sp, '>', prefix);
}

static tdm_status add_int_field(jbuild *b, const jval *v, const spec *sp) {
    char text[160];
    const bool is_untrusted = (v->flags & JV_UNTRUSTED) != 0;
    int64_t i = v->u.i;
    if (v->kind == JK_FLOAT) {
        if (!(fabs(v->u.f) < 9.2e18)) {
            return tdm_jinja_raise(b->vm, "the number is too large to format as an integer");
        }
        i = (int64_t)v->u.f;
    }
    const char *sign = i < 0 ? "-" : sp->sign == '+' ? "+" : sp->sign == ' ' ? " " : "";
    const uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    int n = 0;
    switch (sp->type) {
    case 'x':
        n = snprintf(text, sizeof text, "%s%s%" PRIx64, sign, sp->is_alternate ? "0x" : "", size);
        break;
    case 'X':
        n = snprintf(text, sizeof text, "%s%s%" PRIX64, sign, sp->is_alternate ? "0X" : "", size);
        break;
    case 'o':
        n = snprintf(text, sizeof text, "%s%s%" PRIo64, sign, sp->is_alternate ? "0o" : "", size);
        break;
    default:
        n = snprintf(text, sizeof text, "%s%" PRIu64, sign, size);
        break;
    }
    if (sp->precision > n && sp->precision < 100) { /* %.3d: at least so many digits */
        const size_t at = strlen(sign);
        const size_t pad = (size_t)sp->precision - ((size_t)n - at);
        memmove(text + at + pad, text + at, (size_t)n - at);
        memset(text + at, '0', pad);
        n += (int)pad;
    }
    return add_digits(b, text, (size_t)n, sizeof text, sp, is_untrusted);
}

static tdm_status add_float_field(jbuild *b, const jval *v, const spec *sp) {
    char text[800];
    const double f = tdm_jinja_as_double(v);
    const int precision = sp->precision < 0 ? 6 : sp->precision > 300 ? 300 : (int)sp->precision;
    const char *sign = signbit(f) != 0 ? "-" : sp->sign == '+' ? "+" : sp->sign == ' ' ? " " : "";
    const double size = fabs(f);
    int n = 0;
    if (isnan(f) || isinf(f)) {
        n = snprintf(text, sizeof text, "%s%s", sign, isnan(f) ? "nan" : "inf");
    } else if (sp->type == 'e' || sp->type == 'E') {
        n = sp->type == 'e' ? snprintf(text, sizeof text, "%s%.*e", sign, precision, size)
                            : snprintf(text, sizeof text, "%s%.*E", sign, precision, size);
    } else if (sp->type == 'g' || sp->type == 'G') {
        n = sp->type == 'g' ? snprintf(text, sizeof text, "%s%.*g", sign, precision, size)
                            : snprintf(text, sizeof text, "%s%.*G", sign, precision, size);
    } else if (sp->type == '%') {
        n = snprintf(text, sizeof text, "%s%.*f%%", sign, precision, size * 100);
    } else {
        n = snprintf(text, sizeof text, "%s%.*f", sign, precision, size);
    }
    return add_digits(b, text, (size_t)n, sizeof text, sp, (v->flags & JV_UNTRUSTED) != 0);
}

/* --- % ------------------------------------------------------------------------------------------
 */

typedef struct percent {
    jbuild b;
    const jval *fmt;
    const jval *args;
    uint32_t next; /* of a tuple */
    size_t at;
} percent;

static tdm_status next_argument(percent *p, jval *out) {
    const bool is_tuple = p->args->kind == JK_TUPLE;
    if (p->next >= (is_tuple ? tdm_jinja_n_items(p->args) : 1u)) {
        return tdm_jinja_raise(p->b.vm, "not enough arguments for format string");
    }
    *out = is_tuple ? tdm_jinja_item(p->args, p->next) : *p->args;
    p->next++;
    return TDM_OK;
}

static tdm_status read_width(percent *p, int64_t *out) {
    if (p->at < p->fmt->len && p->fmt->u.s[p->at] == '*') {
        jval v = {0};
        p->at++;
        TDM_TRY(next_argument(p, &v));
        if (!tdm_jinja_is_intlike(&v) || v.u.i < 0) {
            return tdm_jinja_raise(p->b.vm, "* wants a non-negative integer");
        }
        *out = v.u.i;
    } else {
        (void)read_number(p->fmt->u.s, p->fmt->len, &p->at, out);
    }
    return *out <= WIDTH_MAX ? TDM_OK : tdm_jinja_limit(p->b.vm, "format width %d", WIDTH_MAX);
}

/* `%(name)s`: sets *out to the member; else leaves it missing. */
static tdm_status read_key(percent *p, jval *out) {
    const char *s = p->fmt->u.s;
    if (p->at >= p->fmt->len || s[p->at] != '(') {
        return TDM_OK;
    }
    const size_t begin = ++p->at;
    while (p->at < p->fmt->len && s[p->at] != ')') {
        p->at++;
    }
    if (!tdm_jinja_is_map(p->args)) {
        return tdm_jinja_raise(p->b.vm, "format requires a mapping");
    }
    if (p->at == p->fmt->len ||
        !tdm_jinja_map_get_text(p->b.vm, p->args, s + begin, p->at - begin, out)) {
        return tdm_jinja_raise(p->b.vm, "the mapping lacks a key of the format");
    }
    p->at++;
    return TDM_OK;
}

static tdm_status convert(percent *p, const jval *v, spec *sp) {
    jinja_vm *vm = p->b.vm;
    jval text = *v;
    switch (sp->type) {
    case 's':
    case 'r':
    case 'a':
        TDM_TRY(sp->type == 's' ? tdm_jinja_str(vm, v, &text) : tdm_jinja_repr(vm, v, &text));
        sp->align = sp->align != 0 ? sp->align : '>';
        return add_text_field(&p->b, &text, sp);
    case 'c':
        if (v->kind == JK_STR && tdm_jinja_count(v) == 1) {
            sp->align = sp->align != 0 ? sp->align : '>';
            return add_text_field(&p->b, v, sp);
        }
        return tdm_jinja_raise(vm, "%%c requires a character");
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        if (v->kind == JK_BIG && strchr("diu", sp->type) != NULL) {
            text = (jval){.kind = JK_STR, .flags = v->flags, .len = v->len, .u.s = v->u.s};
            return add_padded(&p->b, &text, sp, '>', 0);
        }
        if (!tdm_jinja_is_intlike(v) && (v->kind != JK_FLOAT || strchr("diu", sp->type) == NULL)) {
            break;
        }
        return add_int_field(&p->b, v, sp);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (!tdm_jinja_is_number(v)) {
            break;
        }
        return add_float_field(&p->b, v, sp);
    default:
        return tdm_jinja_raise(vm, "unsupported format character at byte %zu", p->at);
    }
    if (v->kind == JK_UNDEF) {
        return tdm_jinja_raise_undefined(vm, v);
    }
    return tdm_jinja_raise(vm, "%%%c format: a number is required, not %s", sp->type,
                           tdm_jinja_type_name(v));
}

static tdm_status percent_field(percent *p) {
    const char *s = p->fmt->u.s;
    const size_t len = p->fmt->len;
    spec sp = {.precision = -1};
    jval v = {.kind = JK_MISSING};
    bool is_zero = false;
    TDM_TRY(read_key(p, &v));
    for (; p->at < len && s[p->at] != 0 && strchr("-+ #0", s[p->at]) != NULL; p->at++) {
        sp.align = s[p->at] == '-' ? '<' : sp.align;
        sp.sign = s[p->at] == '+' || (s[p->at] == ' ' && sp.sign == 0) ? s[p->at] : sp.sign;
        sp.is_alternate |= s[p->at] == '#';
        is_zero |= s[p->at] == '0';
    }
    TDM_TRY(read_width(p, &sp.width));
    if (p->at < len && s[p->at] == '.') {
        p->at++;
        TDM_TRY(read_width(p, &sp.precision));
    }
    while (p->at < len && (s[p->at] == 'l' || s[p->at] == 'h' || s[p->at] == 'L')) {
        p->at++;
    }
    if (p->at == len) {
        return tdm_jinja_raise(p->b.vm, "incomplete format");
    }
    sp.type = s[p->at++];
    if (sp.type == '%') {
        return tdm_jinja_build_add(&p->b, "%", 1, tdm_jinja_origin_at(p->fmt, p->at - 1));
    }
    if (is_zero && sp.align == 0 && sp.type != 's' && sp.type != 'r') {
        sp.align = '=';
        sp.fill[0] = '0';
    }
    if (v.kind == JK_MISSING) {
        TDM_TRY(next_argument(p, &v));
    }
    return convert(p, &v, &sp);
}

tdm_status tdm_jinja_percent(jinja_vm *vm, const jval *fmt, const jval *args, jval *out) {
    percent p = {.b = {.vm = vm}, .fmt = fmt, .args = args};
    TDM_TRY(tdm_jinja_charge(vm, fmt->len / 16));
    while (p.at < fmt->len) {
        const char *hit = memchr(fmt->u.s + p.at, '%', fmt->len - p.at);
        const size_t stop = hit == NULL ? fmt->len : (size_t)(hit - fmt->u.s);
        TDM_TRY(tdm_jinja_build_part(&p.b, fmt, p.at, stop - p.at));
        p.at = stop + 1;
        if (hit != NULL) {
            TDM_TRY(percent_field(&p));
        }
    }
    const bool is_single = args->kind != JK_TUPLE && !tdm_jinja_is_map(args) &&
                           !tdm_jinja_is_list(args) && args->kind != JK_RANGE &&
                           args->kind != JK_UNDEF;
    if ((args->kind == JK_TUPLE && p.next < tdm_jinja_n_items(args)) ||
        (is_single && p.next == 0)) {
        return tdm_jinja_raise(vm, "not all arguments converted during string formatting");
    }
    return tdm_jinja_build_end(&p.b, out);
}

/* --- str.format
 * ----------------------------------------------------------------------------------- */

static size_t character_len(const char *s) {
    const unsigned char c = (unsigned char)*s;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static bool read_spec(const char *s, size_t len, spec *sp) {
    size_t at = 0;
    const size_t n = len > 0 ? character_len(s) : 0;
    if (n > 0 && n < len && strchr("<>^=", s[n]) != NULL && s[n] != 0) {
        memcpy(sp->fill, s, n);
        sp->align = s[n];
        at = n + 1;
    } else if (len > 0 && s[0] != 0 && strchr("<>^=", s[0]) != NULL) {
        sp->align = s[0];
        at = 1;
    }
    if (at < len && (s[at] == '+' || s[at] == ' ' || s[at] == '-')) {
        sp->sign = s[at] == '-' ? 0 : s[at];
        at++;
    }
    if (at < len && s[at] == '#') {
        sp->is_alternate = true;
        at++;
    }
    if (at < len && s[at] == '0') {
        if (sp->align == 0) {
            sp->align = '=';
            sp->fill[0] = '0';
        }
        at++;
    }
    (void)read_number(s, len, &at, &sp->width);
    if (at < len && s[at] == ',') {
        sp->has_comma = true;
        at++;
    }
    if (at < len && s[at] == '.') {
        at++;
        if (!read_number(s, len, &at, &sp->precision)) {
            return false;
        }
    }
    if (at < len) {
        sp->type = s[at++];
    }
    return at == len && sp->width <= WIDTH_MAX && sp->precision <= WIDTH_MAX;
}

static tdm_status format_value(jbuild *b, const jval *v, const spec *sp) {
    jinja_vm *vm = b->vm;
    jval text = {0};
    const bool is_number = tdm_jinja_is_number(v) && v->kind != JK_BIG;
    if (is_number && sp->type != 0 && strchr("eEfFgG%", sp->type) != NULL) {
        return add_float_field(b, v, sp);
    }
    if (tdm_jinja_is_intlike(v) && (v->kind == JK_INT || sp->type != 0) &&
        (sp->type == 0 || strchr("dxXo", sp->type) != NULL) && sp->precision < 0) {
        return add_int_field(b, v, sp);
    }
    if (v->kind == JK_FLOAT && sp->type == 0 && sp->precision >= 0) {
        spec general = *sp;
        general.type = 'g';
        return add_float_field(b, v, &general);
    }
    if (sp->type != 0 && (sp->type != 's' || is_number)) {
        return tdm_jinja_raise(vm, "format code '%c' does not fit a %s", sp->type,
                               tdm_jinja_type_name(v));
    }
    TDM_TRY(tdm_jinja_str(vm, v, &text));
    return is_number ? add_padded(b, &text, sp, '>', text.u.s[0] == '-')
                     : add_text_field(b, &text, sp);
}

typedef struct formatter {
    jbuild b;
    const jval *args;
    uint32_t n_args;
    const jval *kwargs;
    uint32_t next;
    bool has_numbers, is_numbered; /* a field without name was seen; it had a number */
} formatter;

/* One field: name[!conversion][:spec] in s. */
static tdm_status format_field(formatter *f, const char *s, size_t len) {
    jinja_vm *vm = f->b.vm;
    size_t name_len = 0;
    while (name_len < len && s[name_len] != '!' && s[name_len] != ':') {
        if (s[name_len] == '.' || s[name_len] == '[' || s[name_len] == '{') {
            return tdm_jinja_raise(vm, "attributes in format fields are not supported");
        }
        name_len++;
    }
    size_t at = name_len;
    char conversion = 0;
    if (at + 1 < len && s[at] == '!') {
        conversion = s[at + 1];
        at += 2;
    }
    spec sp = {.precision = -1};
    if (at < len && (s[at] != ':' || !read_spec(s + at + 1, len - at - 1, &sp))) {
        return tdm_jinja_raise(vm, "invalid format specifier");
    }
    jval v = {0};
    size_t digits = 0;
    int64_t idx = 0;
    const bool is_index = read_number(s, name_len, &digits, &idx) && digits == name_len;
    if (name_len == 0 || is_index) {
        const bool was_numbered = f->is_numbered;
        f->is_numbered = is_index;
        if (f->has_numbers && was_numbered != is_index) {
            return tdm_jinja_raise(vm, "a format cannot both number its fields and not");
        }
        f->has_numbers = true;
        idx = name_len == 0 ? f->next++ : idx;
        if (idx >= f->n_args) {
            return tdm_jinja_raise(vm, "format has no argument %" PRId64, idx);
        }
        v = f->args[idx];
    } else if (!tdm_jinja_map_get_text(vm, f->kwargs, s, name_len, &v)) {
        return tdm_jinja_raise(vm, "format has no argument '%.*s'",
                               (int)(name_len > 80 ? 80 : name_len), s);
    }
    if (conversion != 0) {
        const jval raw = v;
        TDM_TRY(conversion == 's' ? tdm_jinja_str(vm, &raw, &v) : tdm_jinja_repr(vm, &raw, &v));
    }
    return format_value(&f->b, &v, &sp);
}

tdm_status tdm_jinja_format(jinja_vm *vm, const jval *fmt, const jval *args, uint32_t n_args,
                            const jval *kwargs, jval *out) {
    formatter f = {.b = {.vm = vm}, .args = args, .n_args = n_args, .kwargs = kwargs};
    const char *s = fmt->u.s;
    size_t begin = 0;
    size_t at = 0;
    TDM_TRY(tdm_jinja_charge(vm, fmt->len / 16));
    while (at < fmt->len) {
        if (s[at] != '{' && s[at] != '}') {
            at++;
            continue;
        }
        TDM_TRY(tdm_jinja_build_part(&f.b, fmt, begin, at - begin));
        if (at + 1 < fmt->len && s[at + 1] == s[at]) { /* {{ and }} */
            TDM_TRY(tdm_jinja_build_part(&f.b, fmt, at, 1));
            at += 2;
        } else {
            const char *end = s[at] == '{' ? memchr(s + at, '}', fmt->len - at) : NULL;
            if (end == NULL) {
                return tdm_jinja_raise(vm, "single '%c' in a format", s[at]);
            }
            TDM_TRY(format_field(&f, s + at + 1, (size_t)(end - s) - at - 1));
            at = (size_t)(end - s) + 1;
        }
        begin = at;
    }
    TDM_TRY(tdm_jinja_build_part(&f.b, fmt, begin, at - begin));
    return tdm_jinja_build_end(&f.b, out);
}
