/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking and reading the tables of contract/rows.h. It owns nothing: tables are constant data of
 * whoever declares them. It refuses a table that leaves any count or position undecided; lookups
 * are linear because tables have a handful of entries and are read once a step. */
#include "contract/rows.h"

static tdm_status refuse(tdm_error *err, const char *name, size_t idx, const char *what) {
    (void)tdm_fail(err, TDM_E_ARG, "%s: %s", name, what);
    tdm_err_where(err, "%s[%zu]", name, idx);
    return TDM_E_ARG;
}

tdm_status tdm_row_table_check(const tdm_row_table *table, const char *name, tdm_error *err) {
    if (table->n_entries == 0 && table->class_default == TDM_CLASS_NONE) {
        (void)tdm_fail(err, TDM_E_ARG, "%s: a row table without entries and without a default",
                       name);
        tdm_err_where(err, "%s", name);
        return TDM_E_ARG;
    }
    for (size_t i = 0; i < table->n_entries; i++) {
        const tdm_row_entry *entry = &table->entries[i];
        if (entry->n_rows < 1) {
            return refuse(err, name, i, "a row count below 1");
        }
        if (entry->class_id == TDM_CLASS_NONE) {
            return refuse(err, name, i, "an entry that names no class");
        }
        if (i > 0 && entry->n_rows == table->entries[i - 1].n_rows) {
            return refuse(err, name, i, "the same row count twice");
        }
        if (i > 0 && entry->n_rows < table->entries[i - 1].n_rows) {
            return refuse(err, name, i, "row counts that do not ascend");
        }
    }
    return TDM_OK;
}

tdm_class tdm_row_table_lookup(const tdm_row_table *table, int64_t n_rows) {
    if (n_rows < 1) {
        return TDM_CLASS_NONE;
    }
    for (size_t i = 0; i < table->n_entries; i++) {
        if (table->entries[i].n_rows == n_rows) {
            return table->entries[i].class_id;
        }
    }
    return table->class_default;
}

/* What both kinds of ranges have in common. */
typedef struct extent {
    int64_t from, to;
    tdm_class class_id;
} extent;

/* Range idx against the end of the one before. */
static tdm_status check_extent(extent e, size_t idx, int64_t end_before, const char *name,
                               tdm_error *err) {
    if (e.from > e.to) {
        return refuse(err, name, idx, "an inverted range");
    }
    if (e.from == e.to) {
        return refuse(err, name, idx, "an empty range");
    }
    if (e.class_id == TDM_CLASS_NONE) {
        return refuse(err, name, idx, "a range that names no class");
    }
    if (idx > 0 && e.from < end_before) {
        return refuse(err, name, idx, "a range that overlaps the one before");
    }
    if (idx > 0 && e.from > end_before) {
        return refuse(err, name, idx, "a gap to the range before");
    }
    return TDM_OK;
}

static tdm_status refuse_no_ranges(tdm_error *err, const char *name) {
    (void)tdm_fail(err, TDM_E_ARG, "%s: no ranges at all", name);
    tdm_err_where(err, "%s", name);
    return TDM_E_ARG;
}

tdm_status tdm_position_ranges_check(const tdm_position_ranges *ranges, const char *name,
                                     tdm_error *err) {
    int64_t end = 0;
    if (ranges->n_ranges == 0) {
        return refuse_no_ranges(err, name);
    }
    if (ranges->ranges[0].from != 0) {
        return refuse(err, name, 0, "a prompt begins at position 0, and so must the first range");
    }
    for (size_t i = 0; i < ranges->n_ranges; i++) {
        const tdm_position_range *r = &ranges->ranges[i];
        TDM_TRY(check_extent((extent){r->from, r->to, r->class_id}, i, end, name, err));
        end = r->to;
    }
    return TDM_OK;
}

const tdm_position_range *tdm_position_ranges_lookup(const tdm_position_ranges *ranges,
                                                     tdm_position_piece piece) {
    if (piece.from >= piece.to) {
        return NULL;
    }
    for (size_t i = 0; i < ranges->n_ranges; i++) {
        const tdm_position_range *r = &ranges->ranges[i];
        if (r->from <= piece.from && piece.to <= r->to) {
            return r;
        }
    }
    return NULL;
}

int64_t tdm_position_ranges_cut(const tdm_position_ranges *ranges, tdm_position_piece piece) {
    for (size_t i = 0; i < ranges->n_ranges; i++) {
        const tdm_position_range *r = &ranges->ranges[i];
        if (r->from <= piece.from && piece.from < r->to) {
            return piece.to < r->to ? piece.to : r->to;
        }
    }
    return piece.from;
}

tdm_status tdm_row_ranges_check(const tdm_row_ranges *ranges, const char *name, tdm_error *err) {
    int64_t end = 0;
    if (ranges->n_ranges == 0) {
        return refuse_no_ranges(err, name);
    }
    if (ranges->ranges[0].from < 1) {
        return refuse(err, name, 0, "a row count below 1");
    }
    for (size_t i = 0; i < ranges->n_ranges; i++) {
        const tdm_row_range *r = &ranges->ranges[i];
        TDM_TRY(check_extent((extent){r->from, r->to, r->class_id}, i, end, name, err));
        end = r->to;
    }
    return TDM_OK;
}

tdm_class tdm_row_ranges_lookup(const tdm_row_ranges *ranges, int64_t n_rows) {
    for (size_t i = 0; i < ranges->n_ranges; i++) {
        if (ranges->ranges[i].from <= n_rows && n_rows < ranges->ranges[i].to) {
            return ranges->ranges[i].class_id;
        }
    }
    return TDM_CLASS_NONE;
}
