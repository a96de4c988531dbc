/* SPDX-License-Identifier: Apache-2.0
 *
 * Text operations of the template machine. Floor 4, private to the template engine.
 * Every one keeps the origin of each byte, or calls the whole result untrusted. */
#ifndef TDM_TEXT_JINJA_STRING_H
#define TDM_TEXT_JINJA_STRING_H

#include "text/jinja_value.h"

/* Collects a string. Zero-initialise with vm set. */
typedef struct jbuild {
    jinja_vm *vm;
    char *data;
    size_t len, cap;
    bool is_uniform; /* keeps no runs, only has_untrusted */
    bool has_untrusted;
    jrun *runs;
    uint32_t n_runs, cap_runs;
} jbuild;

tdm_status tdm_jinja_build_reserve(jbuild *b, size_t extra);
tdm_status tdm_jinja_build_add(jbuild *b, const char *s, size_t len, bool is_untrusted);
tdm_status tdm_jinja_build_cp(jbuild *b, uint32_t cp, bool is_untrusted);
/* Bytes [begin, begin + len) of a string value. */
tdm_status tdm_jinja_build_part(jbuild *b, const jval *str, size_t begin, size_t len);
tdm_status tdm_jinja_build_str(jbuild *b, const jval *str);
tdm_status tdm_jinja_build_end(jbuild *b, jval *out);

/* Origin of byte i of a string. */
bool tdm_jinja_origin_at(const jval *str, size_t i);
tdm_status tdm_jinja_sub(jinja_vm *vm, const jval *str, size_t begin, size_t len, jval *out);
tdm_status tdm_jinja_concat(jinja_vm *vm, const jval *strs, uint32_t n, jval *out);
tdm_status tdm_jinja_repeat(jinja_vm *vm, const jval *str, int64_t n, jval *out);
tdm_status tdm_jinja_escape(jinja_vm *vm, const jval *str, jval *out);

bool tdm_jinja_is_space(uint32_t cp);
size_t tdm_jinja_count(const jval *str);
/* Byte offset of character i (i <= count). */
size_t tdm_jinja_offset(const jval *str, size_t i);
/* First occurrence at or after begin, or SIZE_MAX. An empty needle is found at begin. */
size_t tdm_jinja_find(const jval *str, const jval *needle, size_t begin);
size_t tdm_jinja_rfind(const jval *str, const jval *needle, size_t end);

/* sides: 1 left, 2 right, 3 both. chars NULL or None: white space. */
tdm_status tdm_jinja_strip(jinja_vm *vm, const jval *str, const jval *chars, int sides, jval *out);
tdm_status tdm_jinja_split(jinja_vm *vm, const jval *str, const jval *sep, int64_t max, jval *out);
tdm_status tdm_jinja_rsplit(jinja_vm *vm, const jval *str, const jval *sep, int64_t max, jval *out);
tdm_status tdm_jinja_splitlines(jinja_vm *vm, const jval *str, bool keeps_ends, jval *out);
tdm_status tdm_jinja_replace(jinja_vm *vm, const jval *str, const jval *old, const jval *fresh,
                             int64_t max, jval *out);
typedef enum jcase {
    JCASE_UPPER,
    JCASE_LOWER,
    JCASE_CAPITALIZE,   /* first letter up, all others down */
    JCASE_TITLE,        /* Python's str.title */
    JCASE_TITLE_FILTER, /* Jinja's filter: after blanks and - ( { [ < only */
    JCASE_SWAP
} jcase;
tdm_status tdm_jinja_case(jinja_vm *vm, const jval *str, jcase how, jval *out);
/* Python's str.isX. */
typedef enum jclass {
    JCLASS_LOWER,
    JCLASS_UPPER,
    JCLASS_DIGIT,
    JCLASS_ALPHA,
    JCLASS_ALNUM,
    JCLASS_SPACE
} jclass;
bool tdm_jinja_is_class(const jval *str, jclass what);
bool tdm_jinja_is_printable(uint32_t cp);

/* --- text of values (jinja_text.c) ------------------------------------------------------------ */
/* Python's str(v): strings are themselves, undefined is empty. */
tdm_status tdm_jinja_str(jinja_vm *vm, const jval *v, jval *out);
tdm_status tdm_jinja_repr(jinja_vm *vm, const jval *v, jval *out);
/* Python's repr of a double; returns its length. */
size_t tdm_jinja_float_text(double f, char out[40]);

typedef struct jdump {
    bool is_ascii;
    bool sorts_keys;
    bool has_indent;
    jval indent; /* one level of it */
    jval item_sep, key_sep;
} jdump;
/* json.dumps. */
tdm_status tdm_jinja_dump(jinja_vm *vm, const jval *v, const jdump *how, jval *out);

/* --- formatting (jinja_format.c) -------------------------------------------------------------- */
/* Python's `fmt % args`. args is a tuple, a mapping, or one value. */
tdm_status tdm_jinja_percent(jinja_vm *vm, const jval *fmt, const jval *args, jval *out);
/* Python's fmt.format(*args, **kwargs). */
tdm_status tdm_jinja_format(jinja_vm *vm, const jval *fmt, const jval *args, uint32_t n_args,
                            const jval *kwargs, jval *out);
/* strftime of a moment without zone. */
tdm_status tdm_jinja_strftime(jinja_vm *vm, const jval *fmt, int64_t unix_s, jval *out);

#endif
