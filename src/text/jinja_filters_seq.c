/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters over sequences and mappings. Those that are generators in Jinja give generators here too
 * (read once, no length, no index), though their items are made at once: nothing that a template
 * can see depends on when. map, select and their kin call another filter or test by name; that one
 * may not be map, select or their kin again, which keeps the depth of calls fixed. */
#include "text/jinja_builtin.h"
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

static tdm_status items_of(jargs *a, jval *out, uint32_t *out_n) {
    TDM_TRY(tdm_jinja_iterable(a->vm, a->value, out));
    *out_n = tdm_jinja_n_items(out);
    return tdm_jinja_charge(a->vm, *out_n);
}

/* map and select take nothing from a value that is false, whatever it is. */
static tdm_status true_items_of(jargs *a, jval *out, uint32_t *out_n) {
    *out_n = 0;
    return tdm_jinja_truth(a->value) ? items_of(a, out, out_n) : TDM_OK;
}

static tdm_status filter_list(jargs *a, jval *out) {
    jval items = {0};
    uint32_t n = 0;
    TDM_TRY(items_of(a, &items, &n));
    TDM_TRY(tdm_jinja_seq_new(a->vm, JK_LIST, n, out));
    for (uint32_t i = 0; i < n; i++) {
        const jval item = tdm_jinja_item(&items, i);
        TDM_TRY(tdm_jinja_seq_push(a->vm, out->u.seq, &item));
    }
    return TDM_OK;
}

static tdm_status pairs_of(jinja_vm *vm, const jval *map, jkind kind, jval *out) {
    const uint32_t n = tdm_jinja_map_len(map);
    TDM_TRY(tdm_jinja_charge(vm, n));
    TDM_TRY(tdm_jinja_seq_new(vm, kind, n, out));
    for (uint32_t i = 0; i < n; i++) {
        jval pair = {0};
        TDM_TRY(tdm_jinja_seq_new(vm, JK_TUPLE, 2, &pair));
        pair.u.seq->items[0] = tdm_jinja_map_key(map, i);
        pair.u.seq->items[1] = tdm_jinja_map_value(map, i);
        pair.u.seq->n = 2;
        TDM_TRY(tdm_jinja_seq_push(vm, out->u.seq, &pair));
    }
    return TDM_OK;
}

/* Jinja refuses other values only once the generator is read; a render that never reads it is not
 * told apart from one that does. */
static tdm_status filter_items(jargs *a, jval *out) {
    if (a->value->kind == JK_UNDEF) {
        return tdm_jinja_seq_new(a->vm, JK_GEN, 0, out);
    }
    if (!tdm_jinja_is_map(a->value)) {
        /* A generator that fails when it is read: no items, marked by x. */
        TDM_TRY(tdm_jinja_seq_new(a->vm, JK_GEN, 0, out));
        out->x = 1;
        return TDM_OK;
    }
    return pairs_of(a->vm, a->value, JK_GEN, out);
}

static tdm_status filter_first(jargs *a, jval *out) {
    jval items = {0};
    const jval source = *a->value;
    if (source.kind == JK_GEN && source.u.seq->pos < source.u.seq->n) {
        *out = source.u.seq->items[source.u.seq->pos++];
        return TDM_OK;
    }
    TDM_TRY(tdm_jinja_iterable(a->vm, &source, &items));
    *out = tdm_jinja_n_items(&items) > 0 ? tdm_jinja_item(&items, 0)
                                         : tdm_jinja_undefined("the first item", 14);
    return TDM_OK;
}

static tdm_status filter_last(jargs *a, jval *out) {
    jval items = {0};
    if (a->value->kind == JK_GEN) {
        return tdm_jinja_raise(a->vm, "'generator' object is not reversible");
    }
    TDM_TRY(tdm_jinja_iterable(a->vm, a->value, &items));
    const uint32_t n = tdm_jinja_n_items(&items);
    *out = n > 0 ? tdm_jinja_item(&items, n - 1) : tdm_jinja_undefined("the last item", 13);
    return TDM_OK;
}

static tdm_status filter_reverse(jargs *a, jval *out) {
    if (a->value->kind == JK_STR) {
        const jval parts[3] = {tdm_jinja_of_kind(JK_NONE), tdm_jinja_of_kind(JK_NONE),
                               tdm_jinja_int(-1)};
        return tdm_jinja_slice(a->vm, a->value, parts, out);
    }
    jval items = {0};
    uint32_t n = 0;
    const jkind kind = a->value->kind == JK_GEN || a->value->kind == JK_UNDEF ? JK_LIST : JK_GEN;
    TDM_TRY(items_of(a, &items, &n));
    TDM_TRY(tdm_jinja_seq_new(a->vm, kind, n, out));
    while (n > 0) {
        const jval item = tdm_jinja_item(&items, --n);
        TDM_TRY(tdm_jinja_seq_push(a->vm, out->u.seq, &item));
    }
    return TDM_OK;
}

static tdm_status filter_join(jargs *a, jval *out) {
    jval items = {0};
    jval sep = tdm_jinja_text("", 0);
    uint32_t n = 0;
    jbuild b = {.vm = a->vm};
    TDM_TRY(items_of(a, &items, &n));
    if (tdm_jinja_given(a, 0)) {
        TDM_TRY(tdm_jinja_str(a->vm, &a->arg[0], &sep));
    }
    for (uint32_t i = 0; i < n; i++) {
        jval item = tdm_jinja_item(&items, i);
        jval text = {0};
        if (tdm_jinja_given(a, 1) && a->arg[1].kind != JK_NONE) {
            const jval whole = item;
            TDM_TRY(tdm_jinja_getpath(a->vm, &whole, &a->arg[1], &item));
        }
        TDM_TRY(tdm_jinja_str(a->vm, &item, &text));
        if (i > 0) {
            TDM_TRY(tdm_jinja_build_str(&b, &sep));
        }
        TDM_TRY(tdm_jinja_build_str(&b, &text));
    }
    return tdm_jinja_build_end(&b, out);
}

/* --- map, select, reject
 * --------------------------------------------------------------------------- */

static const jname *name_of(const jargs *a, uint32_t named) {
    return &a->vm->program->names[a->names[named]];
}

static const jval *named_arg(const jargs *a, const char *want) {
    for (uint32_t i = 0; i < a->n_named; i++) {
        const jname *name = name_of(a, i);
        if (name->len == strlen(want) && memcmp(name->text, want, name->len) == 0) {
            return &a->named[i];
        }
    }
    return NULL;
}

/* Finds the filter or test that argument `at` names. */
static tdm_status find_named(jargs *a, uint32_t at, bool is_test, uint32_t *out_id) {
    const jval *name = &a->pos[at];
    int id = -1;
    if (name->kind == JK_STR) {
        id = is_test ? tdm_jinja_test_find(name->u.s, name->len)
                     : tdm_jinja_filter_find(name->u.s, name->len);
    }
    if (id < 0) {
        return tdm_jinja_raise(a->vm, "no %s named '%.*s'", is_test ? "test" : "filter",
                               name->kind == JK_STR ? (int)(name->len > 80 ? 80 : name->len) : 0,
                               name->kind == JK_STR ? name->u.s : "");
    }
    static const char *const REFUSED[] = {"map", "select", "reject", "selectattr", "rejectattr"};
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED && !is_test; i++) {
        if (strlen(REFUSED[i]) == name->len && memcmp(REFUSED[i], name->u.s, name->len) == 0) {
            return tdm_jinja_raise(a->vm, "map of the filter %s is not supported", REFUSED[i]);
        }
    }
    *out_id = (uint32_t)id;
    return TDM_OK;
}

static tdm_status map_attribute(jargs *a, const jval *path, const jval *items, uint32_t n,
                                jval *out) {
    const jval *fallback = named_arg(a, "default");
    if (a->n_named > (fallback == NULL ? 1u : 2u)) {
        return tdm_jinja_raise(a->vm, "map got an unexpected argument");
    }
    for (uint32_t i = 0; i < n; i++) {
        const jval item = tdm_jinja_item(items, i);
        jval part = {0};
        TDM_TRY(tdm_jinja_getpath(a->vm, &item, path, &part));
        if (fallback != NULL && fallback->kind != JK_NONE && part.kind == JK_UNDEF) {
            part = *fallback;
        }
        TDM_TRY(tdm_jinja_seq_push(a->vm, out->u.seq, &part));
    }
    return TDM_OK;
}

static tdm_status filter_map(jargs *a, jval *out) {
    jval items = {0};
    uint32_t n = 0;
    uint32_t id = 0;
    TDM_TRY(true_items_of(a, &items, &n));
    TDM_TRY(tdm_jinja_seq_new(a->vm, JK_GEN, n, out));
    const jval *path = a->n == 0 ? named_arg(a, "attribute") : NULL;
    if (path != NULL) {
        return map_attribute(a, path, &items, n, out);
    }
    if (a->n == 0) {
        return tdm_jinja_raise(a->vm, "map requires a filter");
    }
    TDM_TRY(find_named(a, 0, false, &id));
    for (uint32_t i = 0; i < n; i++) {
        const jval item = tdm_jinja_item(&items, i);
        jval result = {0};
        jargs inner = *a;
        inner.value = &item;
        inner.pos++;
        inner.n--;
        TDM_TRY(tdm_jinja_call_filter(id, &inner, &result));
        TDM_TRY(tdm_jinja_seq_push(a->vm, out->u.seq, &result));
    }
    return TDM_OK;
}

static tdm_status filter_items_by(jargs *a, bool keeps, bool has_path, jval *out) {
    jval items = {0};
    uint32_t n = 0;
    uint32_t id = 0;
    const uint32_t skip = has_path ? 1 : 0;
    TDM_TRY(true_items_of(a, &items, &n));
    TDM_TRY(tdm_jinja_seq_new(a->vm, JK_GEN, 0, out));
    if (a->n < skip) {
        return tdm_jinja_raise(a->vm, "the name of an attribute is missing");
    }
    const bool has_test = a->n > skip;
    if (has_test) {
        TDM_TRY(find_named(a, skip, true, &id));
    }
    for (uint32_t i = 0; i < n; i++) {
        const jval item = tdm_jinja_item(&items, i);
        jval part = item;
        if (has_path) {
            TDM_TRY(tdm_jinja_getpath(a->vm, &item, &a->pos[0], &part));
        }
        jval verdict = part;
        if (has_test) {
            jargs inner = *a;
            inner.value = &part;
            inner.pos += skip + 1;
            inner.n -= skip + 1;
            TDM_TRY(tdm_jinja_call_test(id, &inner, &verdict));
        }
        if (tdm_jinja_truth(&verdict) == keeps) {
            TDM_TRY(tdm_jinja_seq_push(a->vm, out->u.seq, &item));
        }
    }
    return TDM_OK;
}

static tdm_status filter_select(jargs *a, jval *out) {
    return filter_items_by(a, true, false, out);
}

static tdm_status filter_reject(jargs *a, jval *out) {
    return filter_items_by(a, false, false, out);
}

static tdm_status filter_selectattr(jargs *a, jval *out) {
    return filter_items_by(a, true, true, out);
}

static tdm_status filter_rejectattr(jargs *a, jval *out) {
    return filter_items_by(a, false, true, out);
}

/* --- order
 * ------------------------------------------------------------------------------------------ */

/* What an item is ordered by: a part of it, in lower case unless case matters. */
static tdm_status sort_key(jargs *a, const jval *item, const jval *path, bool minds_case,
                           jval *out) {
    *out = *item;
    if (path != NULL && path->kind != JK_MISSING && path->kind != JK_NONE) {
        TDM_TRY(tdm_jinja_getpath(a->vm, item, path, out));
    }
    if (!minds_case && out->kind == JK_STR) {
        const jval text = *out;
        return tdm_jinja_case(a->vm, &text, JCASE_LOWER, out);
    }
    return TDM_OK;
}

/* Keys and items side by side, merged bottom-up: stable, and n log n on any input. */
static tdm_status merge_sort(jinja_vm *vm, jpair *pairs, uint32_t n, bool is_reverse) {
    jpair *from = pairs;
    jpair *to = tdm_jinja_alloc(vm, n == 0 ? 1 : n, sizeof *to);
    if (to == NULL) {
        return tdm_jinja_nomem(vm);
    }
    for (uint64_t width = 1; width < n; width *= 2) {
        for (uint64_t begin = 0; begin < n; begin += 2 * width) {
            const uint64_t mid = begin + width < n ? begin + width : n;
            const uint64_t end = begin + 2 * width < n ? begin + 2 * width : n;
            uint64_t i = begin;
            uint64_t k = mid;
            for (uint64_t at = begin; at < end; at++) {
                bool takes_right = i == mid;
                if (i < mid && k < end) {
                    int order = 0;
                    TDM_TRY(tdm_jinja_charge(vm, 1));
                    TDM_TRY(tdm_jinja_compare(vm, &from[k].key, &from[i].key, &order));
                    takes_right = is_reverse ? order > 0 && order != 2 : order < 0;
                }
                to[at] = takes_right ? from[k++] : from[i++];
            }
        }
        jpair *held = from;
        from = to;
        to = held;
    }
    if (from != pairs && n > 0) {
        memcpy(pairs, from, n * sizeof *pairs);
    }
    return TDM_OK;
}

/* Python compares no one item with itself, but a sort of one item of any kind succeeds. */
static tdm_status sorted_pairs(jargs *a, const jval *items, uint32_t n, const jval *path,
                               bool minds_case, bool is_reverse, jpair **out) {
    jpair *pairs = tdm_jinja_alloc(a->vm, n == 0 ? 1 : n, sizeof *pairs);
    if (pairs == NULL) {
        return tdm_jinja_nomem(a->vm);
    }
    for (uint32_t i = 0; i < n; i++) {
        pairs[i].value = tdm_jinja_item(items, i);
        TDM_TRY(sort_key(a, &pairs[i].value, path, minds_case, &pairs[i].key));
    }
    *out = pairs;
    return merge_sort(a->vm, pairs, n, is_reverse);
}

static tdm_status list_of(jinja_vm *vm, const jpair *pairs, uint32_t n, jval *out) {
    TDM_TRY(tdm_jinja_seq_new(vm, JK_LIST, n, out));
    for (uint32_t i = 0; i < n; i++) {
        TDM_TRY(tdm_jinja_seq_push(vm, out->u.seq, &pairs[i].value));
    }
    return TDM_OK;
}

static tdm_status filter_sort(jargs *a, jval *out) {
    jval items = {0};
    uint32_t n = 0;
    jpair *pairs = NULL;
    TDM_TRY(items_of(a, &items, &n));
    const jval *path = &a->arg[2];
    if (path->kind == JK_STR && path->len > 0 && memchr(path->u.s, ',', path->len) != NULL) {
        return tdm_jinja_raise(a->vm, "sort by several attributes is not supported");
    }
    TDM_TRY(sorted_pairs(a, &items, n, path, tdm_jinja_arg_truth(a, 1, false),
                         tdm_jinja_arg_truth(a, 0, false), &pairs));
    return list_of(a->vm, pairs, n, out);
}

static tdm_status filter_dictsort(jargs *a, jval *out) {
    jval pairs = {0};
    if (!tdm_jinja_is_map(a->value)) {
        if (a->value->kind == JK_UNDEF) {
            return tdm_jinja_raise_undefined(a->vm, a->value);
        }
        return tdm_jinja_raise(a->vm, "dictsort wants a mapping, not %s",
                               tdm_jinja_type_name(a->value));
    }
    jval position = tdm_jinja_int(0);
    if (tdm_jinja_given(a, 1)) {
        const jval *by = &a->arg[1];
        const bool is_key = by->kind == JK_STR && by->len == 3 && memcmp(by->u.s, "key", 3) == 0;
        const bool is_value =
            by->kind == JK_STR && by->len == 5 && memcmp(by->u.s, "value", 5) == 0;
        if (!is_key && !is_value) {
            return tdm_jinja_raise(a->vm, "dictsort sorts by 'key' or 'value'");
        }
        position.u.i = is_value;
    }
    TDM_TRY(pairs_of(a->vm, a->value, JK_LIST, &pairs));
    jpair *sorted = NULL;
    const uint32_t n = pairs.u.seq->n;
    TDM_TRY(sorted_pairs(a, &pairs, n, &position, tdm_jinja_arg_truth(a, 0, false),
                         tdm_jinja_arg_truth(a, 2, false), &sorted));
    return list_of(a->vm, sorted, n, out);
}

static tdm_status filter_unique(jargs *a, jval *out) {
    jval items = {0};
    jval seen = {0};
    uint32_t n = 0;
    TDM_TRY(items_of(a, &items, &n));
    TDM_TRY(tdm_jinja_seq_new(a->vm, JK_GEN, 0, out));
    TDM_TRY(tdm_jinja_seq_new(a->vm, JK_LIST, 0, &seen));
    for (uint32_t i = 0; i < n; i++) {
        const jval item = tdm_jinja_item(&items, i);
        jval key = {0};
        bool is_known = false;
        TDM_TRY(sort_key(a, &item, &a->arg[1], tdm_jinja_arg_truth(a, 0, false), &key));
        if (tdm_jinja_is_list(&key) || tdm_jinja_is_map(&key)) {
            return tdm_jinja_raise(a->vm, "unhashable type: '%s'", tdm_jinja_type_name(&key));
        }
        TDM_TRY(tdm_jinja_contains(a->vm, &seen, &key, &is_known));
        if (!is_known) {
            TDM_TRY(tdm_jinja_seq_push(a->vm, seen.u.seq, &key));
            TDM_TRY(tdm_jinja_seq_push(a->vm, out->u.seq, &item));
        }
    }
    return TDM_OK;
}

static tdm_status extreme(jargs *a, bool is_max, jval *out) {
    jval items = {0};
    jval best = {0};
    uint32_t n = 0;
    TDM_TRY(items_of(a, &items, &n));
    *out = tdm_jinja_undefined("an item of an empty sequence", 28);
    for (uint32_t i = 0; i < n; i++) {
        const jval item = tdm_jinja_item(&items, i);
        jval key = {0};
        int order = is_max ? 1 : -1;
        TDM_TRY(sort_key(a, &item, &a->arg[1], tdm_jinja_arg_truth(a, 0, false), &key));
        if (i > 0) {
            TDM_TRY(tdm_jinja_compare(a->vm, &key, &best, &order));
        }
        if (is_max ? order == 1 || (order > 0 && order != 2) : order < 0) {
            best = key;
            *out = item;
        }
    }
    return TDM_OK;
}

static tdm_status filter_min(jargs *a, jval *out) {
    return extreme(a, false, out);
}

static tdm_status filter_max(jargs *a, jval *out) {
    return extreme(a, true, out);
}

static tdm_status filter_sum(jargs *a, jval *out) {
    jval items = {0};
    uint32_t n = 0;
    TDM_TRY(items_of(a, &items, &n));
    jval sum = tdm_jinja_given(a, 1) ? a->arg[1] : tdm_jinja_int(0);
    if (sum.kind == JK_STR) {
        return tdm_jinja_raise(a->vm, "sum cannot add strings");
    }
    for (uint32_t i = 0; i < n; i++) {
        const jval left = sum;
        const jval item = tdm_jinja_item(&items, i);
        jval part = item;
        if (tdm_jinja_given(a, 0) && a->arg[0].kind != JK_NONE) {
            TDM_TRY(tdm_jinja_getpath(a->vm, &item, &a->arg[0], &part));
        }
        TDM_TRY(tdm_jinja_binary(a->vm, JO_ADD, &left, &part, &sum));
    }
    *out = sum;
    return TDM_OK;
}

static tdm_status filter_groupby(jargs *a, jval *out) {
    jval items = {0};
    uint32_t n = 0;
    jpair *pairs = NULL;
    const bool minds_case = tdm_jinja_arg_truth(a, 2, false);
    TDM_TRY(items_of(a, &items, &n));
    if (tdm_jinja_given(a, 1) && a->arg[1].kind != JK_NONE) {
        return tdm_jinja_raise(a->vm, "groupby with a default is not supported");
    }
    TDM_TRY(sorted_pairs(a, &items, n, &a->arg[0], minds_case, false, &pairs));
    TDM_TRY(tdm_jinja_seq_new(a->vm, JK_LIST, 0, out));
    jseq *group = NULL;
    for (uint32_t i = 0; i < n; i++) {
        bool is_same = false;
        if (i > 0) {
            TDM_TRY(tdm_jinja_equal(a->vm, &pairs[i - 1].key, &pairs[i].key, &is_same));
        }
        if (!is_same) {
            jval pair = {0};
            TDM_TRY(tdm_jinja_seq_new(a->vm, JK_TUPLE, 2, &pair));
            TDM_TRY(sort_key(a, &pairs[i].value, &a->arg[0], true, &pair.u.seq->items[0]));
            TDM_TRY(tdm_jinja_seq_new(a->vm, JK_LIST, 0, &pair.u.seq->items[1]));
            pair.u.seq->n = 2;
            group = pair.u.seq->items[1].u.seq;
            TDM_TRY(tdm_jinja_seq_push(a->vm, out->u.seq, &pair));
        }
        TDM_TRY(tdm_jinja_seq_push(a->vm, group, &pairs[i].value));
    }
    return TDM_OK;
}

/* --- pieces
 * ------------------------------------------------------------------------------------------ */

static tdm_status filter_batch(jargs *a, jval *out) {
    jval items = {0};
    jval row = {0};
    uint32_t n = 0;
    int64_t size = 0;
    TDM_TRY(items_of(a, &items, &n));
    TDM_TRY(tdm_jinja_arg_int(a, 0, 0, &size));
    TDM_TRY(tdm_jinja_seq_new(a->vm, JK_GEN, 0, out));
    for (uint32_t i = 0; i < n; i++) {
        const jval item = tdm_jinja_item(&items, i);
        if (i == 0 || (int64_t)row.u.seq->n == size) {
            TDM_TRY(tdm_jinja_seq_new(a->vm, JK_LIST, 0, &row));
            TDM_TRY(tdm_jinja_seq_push(a->vm, out->u.seq, &row));
        }
        TDM_TRY(tdm_jinja_seq_push(a->vm, row.u.seq, &item));
    }
    while (n > 0 && tdm_jinja_given(a, 1) && a->arg[1].kind != JK_NONE &&
           (int64_t)row.u.seq->n < size) {
        TDM_TRY(tdm_jinja_charge(a->vm, 1));
        TDM_TRY(tdm_jinja_seq_push(a->vm, row.u.seq, &a->arg[1]));
    }
    return TDM_OK;
}

static tdm_status filter_slice(jargs *a, jval *out) {
    jval items = {0};
    uint32_t n = 0;
    int64_t columns = 0;
    TDM_TRY(items_of(a, &items, &n));
    TDM_TRY(tdm_jinja_arg_int(a, 0, 0, &columns));
    if (columns == 0) {
        return tdm_jinja_raise(a->vm, "division by zero");
    }
    TDM_TRY(tdm_jinja_seq_new(a->vm, JK_GEN, 0, out));
    uint32_t next = 0;
    for (int64_t c = 0; c < columns; c++) {
        jval row = {0};
        const int64_t len = (int64_t)n / columns + (c < (int64_t)n % columns);
        TDM_TRY(tdm_jinja_charge(a->vm, 1));
        TDM_TRY(tdm_jinja_seq_new(a->vm, JK_LIST, (uint32_t)len, &row));
        for (int64_t i = 0; i < len; i++) {
            const jval item = tdm_jinja_item(&items, next++);
            TDM_TRY(tdm_jinja_seq_push(a->vm, row.u.seq, &item));
        }
        if (tdm_jinja_given(a, 1) && a->arg[1].kind != JK_NONE && c >= (int64_t)n % columns) {
            TDM_TRY(tdm_jinja_seq_push(a->vm, row.u.seq, &a->arg[1]));
        }
        TDM_TRY(tdm_jinja_seq_push(a->vm, out->u.seq, &row));
    }
    return TDM_OK;
}

static tdm_status filter_attr(jargs *a, jval *out) {
    const jval *name = &a->arg[0];
    if (name->kind != JK_STR) {
        return tdm_jinja_raise(a->vm, "attr wants the name of an attribute");
    }
    if (tdm_jinja_is_map(a->value) &&
        tdm_jinja_method_find(a->value->kind, name->u.s, name->len) < 0) {
        *out = tdm_jinja_undefined(name->u.s, name->len); /* attributes only, no keys */
        return TDM_OK;
    }
    return tdm_jinja_getattr(a->vm, a->value, name->u.s, name->len, out);
}

const jbuiltin TDM_JINJA_SEQ_FILTERS[] = {
    {"items", filter_items, "", 0},
    {"list", filter_list, "", 0},
    {"join", filter_join, "d attribute", 0},
    {"map", filter_map, NULL, 0},
    {"select", filter_select, NULL, 0},
    {"reject", filter_reject, NULL, 0},
    {"selectattr", filter_selectattr, NULL, 0},
    {"rejectattr", filter_rejectattr, NULL, 0},
    {"first", filter_first, "", 0},
    {"last", filter_last, "", 0},
    {"sort", filter_sort, "reverse case_sensitive attribute", 0},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0},
    {"unique", filter_unique, "case_sensitive attribute", 0},
    {"reverse", filter_reverse, "", 0},
    {"min", filter_min, "case_sensitive attribute", 0},
    {"max", filter_max, "case_sensitive attribute", 0},
    {"sum", filter_sum, "attribute start", 0},
    {"groupby", filter_groupby, "attribute default case_sensitive", 1},
    {"batch", filter_batch, "linecount fill_with", 1},
    {"slice", filter_slice, "slices fill_with", 1},
    {"attr", filter_attr, "name", 1},
    {NULL, NULL, NULL, 0},
};
