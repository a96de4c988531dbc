/* SPDX-License-Identifier: Apache-2.0
 *
 * Row tables and ranges: kernel choice as data. Floor 1; the bodies are in tensor/rows.c.
 *
 * A graph's author writes down which class of operation serves which number of rows or which
 * prompt positions. The planner, which knows what it is about to run, looks the class up and names
 * it; graphs and operations never look at shapes to choose. Lookup never rounds to a neighbour:
 * what is not written down is unsupported, and the answer is TDM_CLASS_NONE.
 *
 *     rows       1   2   3   4   5 ...            table {1: A, 4: B}, no default
 *     class      A   -   -   B   -
 *
 *     positions  [0 ....... 512)[512 ...... max)  ranges {0..512: A, 512..max: B}
 *     piece             [400, 600) crosses: refused; tdm_position_ranges_cut gives 512
 *
 * Ranges are half-open. Positions of a prompt and counts of rows are different C types, so that one
 * table cannot be asked the other's question.
 * Source: spec/systems.md 26, 27; errata.md 23, 27. */
#ifndef TDM_CONTRACT_ROWS_H
#define TDM_CONTRACT_ROWS_H

#include "base/status.h"

/* A class of operation; the graph that declares the table gives numbers their meaning. 0 means
 * none, so that a table whose author wrote no default has none. */
typedef uint16_t tdm_class;
#define TDM_CLASS_NONE ((tdm_class)0)

#define TDM_RANGE_OPEN_END INT64_MAX /* `to` of a last range that has no end */

/* Exact counts. What a row is, the table's owner says: sequences for decode, positions for verify
 * and draft. */
typedef struct tdm_row_entry {
    int64_t n_rows; /* >= 1 */
    tdm_class class_id;
} tdm_row_entry;

typedef struct tdm_row_table {
    const tdm_row_entry *entries; /* ascending n_rows; borrowed, usually constant data */
    size_t n_entries;
    tdm_class class_default; /* for counts that are not listed; TDM_CLASS_NONE: unsupported */
} tdm_row_table;

/* Entries ascend without repetition, counts are positive, every class is named, and the table says
 * something at all. name: what the message calls the table. Errors: TDM_E_ARG, where "name[idx]".
 */
TDM_NODISCARD tdm_status tdm_row_table_check(const tdm_row_table *table, const char *name,
                                             tdm_error *err);
/* The class of exactly n_rows rows, the default, or TDM_CLASS_NONE. */
tdm_class tdm_row_table_lookup(const tdm_row_table *table, int64_t n_rows);

/* Which processor a prompt range asks for. */
typedef enum tdm_unit { TDM_UNIT_ANY, TDM_UNIT_CPU, TDM_UNIT_GPU } tdm_unit;

/* Absolute positions [from, to) inside one sequence's prompt. */
typedef struct tdm_position_range {
    int64_t from, to;
    tdm_class class_id;
    tdm_unit unit;
} tdm_position_range;

typedef struct tdm_position_ranges {
    const tdm_position_range *ranges; /* borrowed */
    size_t n_ranges;
} tdm_position_ranges;

/* A piece [from, to) of a prompt. */
typedef struct tdm_position_piece {
    int64_t from, to;
} tdm_position_piece;

/* At least one range, the first from 0, each where the one before ended, none empty or inverted,
 * every class named. Errors: TDM_E_ARG, where "name[idx]". */
TDM_NODISCARD tdm_status tdm_position_ranges_check(const tdm_position_ranges *ranges,
                                                   const char *name, tdm_error *err);
/* The range that holds the whole piece; NULL when none does: the piece is empty, lies outside, or
 * crosses from one range into the next. Borrowed from the table. */
const tdm_position_range *tdm_position_ranges_lookup(const tdm_position_ranges *ranges,
                                                     tdm_position_piece piece);
/* Where a planner has to end the piece so that lookup accepts it: piece.to, or the end of the range
 * that piece.from lies in. piece.from itself when no range holds it. */
int64_t tdm_position_ranges_cut(const tdm_position_ranges *ranges, tdm_position_piece piece);

/* Total rows [from, to) of one forward: sequence, embedding and mixed operations. */
typedef struct tdm_row_range {
    int64_t from, to; /* from >= 1 */
    tdm_class class_id;
} tdm_row_range;

typedef struct tdm_row_ranges {
    const tdm_row_range *ranges; /* borrowed */
    size_t n_ranges;
} tdm_row_ranges;

/* As tdm_position_ranges_check, but the first may begin at any count >= 1: fewer rows are then
 * unsupported. */
TDM_NODISCARD tdm_status tdm_row_ranges_check(const tdm_row_ranges *ranges, const char *name,
                                              tdm_error *err);
/* The class of n_rows rows, or TDM_CLASS_NONE. */
tdm_class tdm_row_ranges_lookup(const tdm_row_ranges *ranges, int64_t n_rows);

#endif
