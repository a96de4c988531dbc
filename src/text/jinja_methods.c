/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of strings, mappings, lists and the loop variable: the ones that change nothing. Those
 * that would (append, pop, update) are not there, as in Jinja's immutable sandbox. */
#include "text/jinja_builtin.h"
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

static tdm_status want_text(const jargs *a, uint32_t i) {
    if (tdm_jinja_given(a, i) && a->arg[i].kind != JK_STR) {
        if (a->arg[i].kind == JK_UNDEF) {
            return tdm_jinja_raise_undefined(a->vm, &a->arg[i]);
        }
        return tdm_jinja_raise(a->vm, "a string is required, not %s",
                               tdm_jinja_type_name(&a->arg[i]));
    }
    return TDM_OK;
}

static tdm_status strip(jargs *a, int sides, jval *out) {
    if (a->arg[0].kind != JK_NONE) {
        TDM_TRY(want_text(a, 0));
    }
    return tdm_jinja_strip(a->vm, a->value, &a->arg[0], sides, out);
}

static tdm_status str_strip(jargs *a, jval *out) {
    return strip(a, 3, out);
}

static tdm_status str_lstrip(jargs *a, jval *out) {
    return strip(a, 1, out);
}

static tdm_status str_rstrip(jargs *a, jval *out) {
    return strip(a, 2, out);
}

static tdm_status str_split(jargs *a, jval *out) {
    int64_t max = -1;
    TDM_TRY(tdm_jinja_arg_int(a, 1, -1, &max));
    return tdm_jinja_split(a->vm, a->value, &a->arg[0], max, out);
}

static tdm_status str_rsplit(jargs *a, jval *out) {
    int64_t max = -1;
    TDM_TRY(tdm_jinja_arg_int(a, 1, -1, &max));
    return tdm_jinja_rsplit(a->vm, a->value, &a->arg[0], max, out);
}

static tdm_status str_splitlines(jargs *a, jval *out) {
    return tdm_jinja_splitlines(a->vm, a->value, tdm_jinja_arg_truth(a, 0, false), out);
}

static tdm_status str_replace(jargs *a, jval *out) {
    int64_t max = -1;
    TDM_TRY(want_text(a, 0));
    TDM_TRY(want_text(a, 1));
    TDM_TRY(tdm_jinja_arg_int(a, 2, -1, &max));
    return tdm_jinja_replace(a->vm, a->value, &a->arg[0], &a->arg[1], max, out);
}

static bool has_affix(const jval *str, const jval *affix, bool is_end) {
    return affix->len <= str->len &&
           (affix->len == 0 ||
            memcmp(str->u.s + (is_end ? str->len - affix->len : 0), affix->u.s, affix->len) == 0);
}

/* startswith and endswith take one string or a tuple of them, and character positions. */
static tdm_status affix(jargs *a, bool is_end, jval *out) {
    jval part = *a->value;
    if (tdm_jinja_given(a, 1)) {
        const jval parts[3] = {a->arg[1],
                               tdm_jinja_given(a, 2) ? a->arg[2] : tdm_jinja_of_kind(JK_NONE),
                               tdm_jinja_of_kind(JK_NONE)};
        TDM_TRY(tdm_jinja_slice(a->vm, a->value, parts, &part));
    }
    if (a->arg[0].kind != JK_TUPLE) {
        TDM_TRY(want_text(a, 0));
        *out = tdm_jinja_bool(has_affix(&part, &a->arg[0], is_end));
        return TDM_OK;
    }
    *out = tdm_jinja_bool(false);
    for (uint32_t i = 0; i < tdm_jinja_n_items(&a->arg[0]); i++) {
        const jval one = tdm_jinja_item(&a->arg[0], i);
        if (one.kind != JK_STR) {
            return tdm_jinja_raise(a->vm, "a tuple of strings is required");
        }
        out->u.i |= has_affix(&part, &one, is_end);
    }
    return TDM_OK;
}

static tdm_status str_startswith(jargs *a, jval *out) {
    return affix(a, false, out);
}

static tdm_status str_endswith(jargs *a, jval *out) {
    return affix(a, true, out);
}

static tdm_status str_removeprefix(jargs *a, jval *out) {
    TDM_TRY(want_text(a, 0));
    const size_t n = has_affix(a->value, &a->arg[0], false) ? a->arg[0].len : 0;
    return tdm_jinja_sub(a->vm, a->value, n, a->value->len - n, out);
}

static tdm_status str_removesuffix(jargs *a, jval *out) {
    TDM_TRY(want_text(a, 0));
    const size_t n = has_affix(a->value, &a->arg[0], true) ? a->arg[0].len : 0;
    return tdm_jinja_sub(a->vm, a->value, 0, a->value->len - n, out);
}

static tdm_status str_upper(jargs *a, jval *out) {
    return tdm_jinja_case(a->vm, a->value, JCASE_UPPER, out);
}

static tdm_status str_lower(jargs *a, jval *out) {
    return tdm_jinja_case(a->vm, a->value, JCASE_LOWER, out);
}

static tdm_status str_title(jargs *a, jval *out) {
    return tdm_jinja_case(a->vm, a->value, JCASE_TITLE, out);
}

static tdm_status str_capitalize(jargs *a, jval *out) {
    return tdm_jinja_case(a->vm, a->value, JCASE_CAPITALIZE, out);
}

static tdm_status str_swapcase(jargs *a, jval *out) {
    return tdm_jinja_case(a->vm, a->value, JCASE_SWAP, out);
}

/* Character position of a byte offset, -1 for none. */
static int64_t position(const jval *str, size_t at) {
    if (at == SIZE_MAX) {
        return -1;
    }
    jval head = *str;
    head.len = (uint32_t)at;
    return (int64_t)tdm_jinja_count(&head);
}

static tdm_status find_text(jargs *a, bool is_last, jval *out) {
    TDM_TRY(want_text(a, 0));
    size_t begin = 0;
    if (tdm_jinja_given(a, 1)) {
        int64_t from = 0;
        const int64_t n = (int64_t)tdm_jinja_count(a->value);
        TDM_TRY(tdm_jinja_arg_int(a, 1, 0, &from));
        from += from < 0 ? n : 0;
        if (from > n) {
            *out = tdm_jinja_int(-1);
            return TDM_OK;
        }
        begin = tdm_jinja_offset(a->value, from < 0 ? 0 : (size_t)from);
    }
    TDM_TRY(tdm_jinja_charge(a->vm, is_last ? (uint64_t)a->value->len * a->arg[0].len / 64
                                            : a->value->len / 32));
    size_t at = is_last ? tdm_jinja_rfind(a->value, &a->arg[0], a->value->len)
                        : tdm_jinja_find(a->value, &a->arg[0], begin);
    if (is_last && at != SIZE_MAX && at < begin) {
        at = SIZE_MAX;
    }
    *out = tdm_jinja_int(position(a->value, at));
    return TDM_OK;
}

static tdm_status str_find(jargs *a, jval *out) {
    return find_text(a, false, out);
}

static tdm_status str_rfind(jargs *a, jval *out) {
    return find_text(a, true, out);
}

static tdm_status str_index(jargs *a, jval *out) {
    TDM_TRY(find_text(a, false, out));
    return out->u.i >= 0 ? TDM_OK : tdm_jinja_raise(a->vm, "substring not found");
}

static tdm_status str_count(jargs *a, jval *out) {
    TDM_TRY(want_text(a, 0));
    TDM_TRY(tdm_jinja_charge(a->vm, a->value->len / 32));
    if (a->arg[0].len == 0) {
        *out = tdm_jinja_int((int64_t)tdm_jinja_count(a->value) + 1);
        return TDM_OK;
    }
    int64_t n = 0;
    for (size_t at = 0; (at = tdm_jinja_find(a->value, &a->arg[0], at)) != SIZE_MAX; n++) {
        at += a->arg[0].len;
    }
    *out = tdm_jinja_int(n);
    return TDM_OK;
}

static tdm_status str_join(jargs *a, jval *out) {
    jval items = {0};
    jbuild b = {.vm = a->vm};
    TDM_TRY(tdm_jinja_iterable(a->vm, &a->arg[0], &items));
    for (uint32_t i = 0; i < tdm_jinja_n_items(&items); i++) {
        const jval item = tdm_jinja_item(&items, i);
        TDM_TRY(tdm_jinja_charge(a->vm, 1));
        if (item.kind != JK_STR) {
            return tdm_jinja_raise(a->vm, "sequence item %u: expected str, found %s", i,
                                   tdm_jinja_type_name(&item));
        }
        if (i > 0) {
            TDM_TRY(tdm_jinja_build_str(&b, a->value));
        }
        TDM_TRY(tdm_jinja_build_str(&b, &item));
    }
    return tdm_jinja_build_end(&b, out);
}

static tdm_status str_partition(jargs *a, jval *out) {
    TDM_TRY(want_text(a, 0));
    if (a->arg[0].len == 0) {
        return tdm_jinja_raise(a->vm, "empty separator");
    }
    TDM_TRY(tdm_jinja_seq_new(a->vm, JK_TUPLE, 3, out));
    const size_t at = tdm_jinja_find(a->value, &a->arg[0], 0);
    jval parts[3] = {*a->value, tdm_jinja_text("", 0), tdm_jinja_text("", 0)};
    if (at != SIZE_MAX) {
        const size_t end = at + a->arg[0].len;
        TDM_TRY(tdm_jinja_sub(a->vm, a->value, 0, at, &parts[0]));
        TDM_TRY(tdm_jinja_sub(a->vm, a->value, at, end - at, &parts[1]));
        TDM_TRY(tdm_jinja_sub(a->vm, a->value, end, a->value->len - end, &parts[2]));
    }
    memcpy(out->u.seq->items, parts, sizeof parts);
    out->u.seq->n = 3;
    return TDM_OK;
}

static tdm_status str_format(jargs *a, jval *out) {
    jval kwargs = {0};
    TDM_TRY(tdm_jinja_map_new(a->vm, JK_MAP, a->n_named, &kwargs));
    for (uint32_t i = 0; i < a->n_named; i++) {
        const jname *name = &a->vm->program->names[a->names[i]];
        const jval key = tdm_jinja_text(name->text, name->len);
        TDM_TRY(tdm_jinja_map_set(a->vm, kwargs.u.map, &key, &a->named[i]));
    }
    return tdm_jinja_format(a->vm, a->value, a->pos, a->n, &kwargs, out);
}

static tdm_status is_class(jargs *a, jclass what, jval *out) {
    *out = tdm_jinja_bool(tdm_jinja_is_class(a->value, what));
    return tdm_jinja_charge(a->vm, a->value->len / 16);
}

static tdm_status str_isdigit(jargs *a, jval *out) {
    return is_class(a, JCLASS_DIGIT, out);
}

static tdm_status str_isalpha(jargs *a, jval *out) {
    return is_class(a, JCLASS_ALPHA, out);
}

static tdm_status str_isalnum(jargs *a, jval *out) {
    return is_class(a, JCLASS_ALNUM, out);
}

static tdm_status str_isspace(jargs *a, jval *out) {
    return is_class(a, JCLASS_SPACE, out);
}

static tdm_status str_islower(jargs *a, jval *out) {
    return is_class(a, JCLASS_LOWER, out);
}

static tdm_status str_isupper(jargs *a, jval *out) {
    return is_class(a, JCLASS_UPPER, out);
}

const jbuiltin TDM_JINJA_STR_METHODS[] = {
    {"strip", str_strip, "chars", 0},
    {"lstrip", str_lstrip, "chars", 0},
    {"rstrip", str_rstrip, "chars", 0},
    {"split", str_split, "sep maxsplit", 0},
    {"rsplit", str_rsplit, "sep maxsplit", 0},
    {"splitlines", str_splitlines, "keepends", 0},
    {"replace", str_replace, "old new count", 2},
    {"startswith", str_startswith, "prefix start end", 1},
    {"endswith", str_endswith, "suffix start end", 1},
    {"removeprefix", str_removeprefix, "prefix", 1},
    {"removesuffix", str_removesuffix, "suffix", 1},
    {"upper", str_upper, "", 0},
    {"lower", str_lower, "", 0},
    {"title", str_title, "", 0},
    {"capitalize", str_capitalize, "", 0},
    {"swapcase", str_swapcase, "", 0},
    {"find", str_find, "sub start", 1},
    {"rfind", str_rfind, "sub start", 1},
    {"index", str_index, "sub start", 1},
    {"count", str_count, "sub", 1},
    {"join", str_join, "iterable", 1},
    {"partition", str_partition, "sep", 1},
    {"format", str_format, NULL, 0},
    {"isdigit", str_isdigit, "", 0},
    {"isnumeric", str_isdigit, "", 0},
    {"isdecimal", str_isdigit, "", 0},
    {"isalpha", str_isalpha, "", 0},
    {"isalnum", str_isalnum, "", 0},
    {"isspace", str_isspace, "", 0},
    {"islower", str_islower, "", 0},
    {"isupper", str_isupper, "", 0},
    {NULL, NULL, NULL, 0},
};

/* --- mappings
 * -------------------------------------------------------------------------------------- */

static tdm_status view(jargs *a, uint16_t what, jval *out) {
    const uint32_t n = tdm_jinja_map_len(a->value);
    TDM_TRY(tdm_jinja_charge(a->vm, n));
    TDM_TRY(tdm_jinja_seq_new(a->vm, JK_VIEW, n, out));
    out->x = what;
    for (uint32_t i = 0; i < n; i++) {
        jval *item = &out->u.seq->items[i];
        if (what == JVIEW_KEYS) {
            *item = tdm_jinja_map_key(a->value, i);
        } else if (what == JVIEW_VALUES) {
            *item = tdm_jinja_map_value(a->value, i);
        } else {
            TDM_TRY(tdm_jinja_seq_new(a->vm, JK_TUPLE, 2, item));
            item->u.seq->items[0] = tdm_jinja_map_key(a->value, i);
            item->u.seq->items[1] = tdm_jinja_map_value(a->value, i);
            item->u.seq->n = 2;
        }
    }
    out->u.seq->n = n;
    return TDM_OK;
}

static tdm_status map_items(jargs *a, jval *out) {
    return view(a, JVIEW_ITEMS, out);
}

static tdm_status map_keys(jargs *a, jval *out) {
    return view(a, JVIEW_KEYS, out);
}

static tdm_status map_values(jargs *a, jval *out) {
    return view(a, JVIEW_VALUES, out);
}

static tdm_status map_get(jargs *a, jval *out) {
    if (tdm_jinja_is_list(&a->arg[0]) || tdm_jinja_is_map(&a->arg[0])) {
        return tdm_jinja_raise(a->vm, "unhashable type: '%s'", tdm_jinja_type_name(&a->arg[0]));
    }
    if (!tdm_jinja_map_get(a->vm, a->value, &a->arg[0], out)) {
        *out = tdm_jinja_given(a, 1) ? a->arg[1] : tdm_jinja_of_kind(JK_NONE);
    }
    return TDM_OK;
}

static tdm_status copy_of(jargs *a, jval *out) {
    *out = *a->value; /* nothing can change it */
    return TDM_OK;
}

const jbuiltin TDM_JINJA_MAP_METHODS[] = {
    {"items", map_items, "", 0},   {"get", map_get, "key default", 1}, {"keys", map_keys, "", 0},
    {"values", map_values, "", 0}, {"copy", copy_of, "", 0},           {NULL, NULL, NULL, 0},
};

/* --- lists and the loop
 * ------------------------------------------------------------------------------ */

static tdm_status list_index(jargs *a, jval *out) {
    for (uint32_t i = 0; i < tdm_jinja_n_items(a->value); i++) {
        const jval item = tdm_jinja_item(a->value, i);
        bool is_equal = false;
        TDM_TRY(tdm_jinja_charge(a->vm, 1));
        TDM_TRY(tdm_jinja_equal(a->vm, &item, &a->arg[0], &is_equal));
        if (is_equal) {
            *out = tdm_jinja_int(i);
            return TDM_OK;
        }
    }
    return tdm_jinja_raise(a->vm, "the value is not in the list");
}

static tdm_status list_count(jargs *a, jval *out) {
    int64_t n = 0;
    for (uint32_t i = 0; i < tdm_jinja_n_items(a->value); i++) {
        const jval item = tdm_jinja_item(a->value, i);
        bool is_equal = false;
        TDM_TRY(tdm_jinja_charge(a->vm, 1));
        TDM_TRY(tdm_jinja_equal(a->vm, &item, &a->arg[0], &is_equal));
        n += is_equal;
    }
    *out = tdm_jinja_int(n);
    return TDM_OK;
}

const jbuiltin TDM_JINJA_LIST_METHODS[] = {
    {"index", list_index, "value", 1},
    {"count", list_count, "value", 1},
    {"copy", copy_of, "", 0},
    {NULL, NULL, NULL, 0},
};

static tdm_status loop_cycle(jargs *a, jval *out) {
    if (a->n == 0 || a->n_named > 0) {
        return tdm_jinja_raise(a->vm, "no items for cycling given");
    }
    *out = a->pos[(a->value->u.loop->index - 1) % a->n];
    return TDM_OK;
}

static tdm_status loop_changed(jargs *a, jval *out) {
    struct jloop *loop = a->value->u.loop;
    jval seen = {0};
    bool is_equal = false;
    TDM_TRY(tdm_jinja_seq_new(a->vm, JK_TUPLE, a->n, &seen));
    for (uint32_t i = 0; i < a->n; i++) {
        TDM_TRY(tdm_jinja_seq_push(a->vm, seen.u.seq, &a->pos[i]));
    }
    if (loop->has_seen) {
        TDM_TRY(tdm_jinja_equal(a->vm, &seen, &loop->seen, &is_equal));
    }
    loop->has_seen = true;
    loop->seen = seen;
    *out = tdm_jinja_bool(!is_equal);
    return TDM_OK;
}

const jbuiltin TDM_JINJA_LOOP_METHODS[] = {
    {"cycle", loop_cycle, NULL, 0},
    {"changed", loop_changed, NULL, 0},
    {NULL, NULL, NULL, 0},
};
