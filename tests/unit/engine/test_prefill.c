/* SPDX-License-Identifier: Apache-2.0
 *
 * The prefill planner: the examples of spec/systems.md 23, then laws over every small plan. */
#include "support/support.h"

#include "engine/prefill.h"

#define PIECES_MAX 128

/* All pieces of a plan from plan.position on; the walk must end. */
static size_t walk(tdm_prefill_plan plan, tdm_prefill_piece *pieces) {
    size_t n = 0;
    while (plan.position < plan.len) {
        assert_true(n < PIECES_MAX);
        pieces[n] = tdm_prefill_next(&plan);
        assert_true(pieces[n].to > pieces[n].from);
        plan.position = pieces[n].to;
        n++;
    }
    return n;
}

static void expect_lengths(tdm_prefill_plan plan, const int64_t *lengths, size_t n) {
    tdm_prefill_piece pieces[PIECES_MAX];
    assert_int_equal(walk(plan, pieces), n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pieces[i].to - pieces[i].from, lengths[i]);
        assert_int_equal(pieces[i].kind, i + 1 == n ? TDM_PREFILL_FINAL : TDM_PREFILL_DRAIN);
    }
}

static void examples(void **state) {
    (void)state;
    const int64_t none = TDM_PREFILL_NO_SNAPSHOT;
    expect_lengths((tdm_prefill_plan){21, 0, 8, none, true, NULL}, (int64_t[]){8, 8, 4, 1}, 4);
    expect_lengths((tdm_prefill_plan){21, 0, 8, none, false, NULL}, (int64_t[]){8, 8, 5}, 3);
    expect_lengths((tdm_prefill_plan){16, 0, 8, none, false, NULL}, (int64_t[]){8, 8}, 2);
    expect_lengths((tdm_prefill_plan){16, 0, 8, none, true, NULL}, (int64_t[]){8, 7, 1}, 3);
    expect_lengths((tdm_prefill_plan){1, 0, 8, none, true, NULL}, (int64_t[]){1}, 1);
    expect_lengths((tdm_prefill_plan){13, 0, 4, 6, true, NULL}, (int64_t[]){4, 2, 4, 2, 1}, 5);
    expect_lengths((tdm_prefill_plan){13, 0, 4, 6, false, NULL}, (int64_t[]){4, 2, 4, 3}, 4);
    expect_lengths((tdm_prefill_plan){21, 17, 8, 5, true, NULL}, (int64_t[]){3, 1}, 2);
    expect_lengths((tdm_prefill_plan){INT64_MAX, INT64_MAX - 9, INT64_MAX, none, true, NULL},
                   (int64_t[]){8, 1}, 2);
}

/* Everything that has to hold of one plan. */
static void check_laws(tdm_prefill_plan plan) {
    tdm_prefill_piece pieces[PIECES_MAX];
    const size_t n = walk(plan, pieces);
    const bool has_snapshot = plan.position < plan.snapshot_at && plan.snapshot_at < plan.len;
    int64_t at = plan.position;
    size_t n_snapshots = 0;
    for (size_t i = 0; i < n; i++) {
        const tdm_prefill_piece *p = &pieces[i];
        assert_int_equal(p->from, at); /* tiles exactly once */
        assert_true(p->to - p->from <= plan.chunk);
        assert_int_equal(p->kind == TDM_PREFILL_FINAL, i + 1 == n);
        assert_int_equal(p->is_yield, p->kind == TDM_PREFILL_DRAIN);
        if (has_snapshot) {
            assert_false(p->from < plan.snapshot_at && plan.snapshot_at < p->to);
            assert_int_equal(p->is_snapshot, p->to == plan.snapshot_at);
        }
        n_snapshots += p->is_snapshot;
        at = p->to;
    }
    assert_int_equal(at, plan.len);
    assert_int_equal(n_snapshots, has_snapshot);
    if (plan.has_tail_split) {
        assert_int_equal(pieces[n - 1].to - pieces[n - 1].from, 1);
    }
    /* No more forwards than the limits force: each run up to a boundary is cut into full chunks. */
    const int64_t first_end = has_snapshot ? plan.snapshot_at : plan.position;
    const int64_t rest = plan.len - first_end - (plan.has_tail_split ? 1 : 0);
    const int64_t least = (first_end - plan.position + plan.chunk - 1) / plan.chunk +
                          (rest + plan.chunk - 1) / plan.chunk + (plan.has_tail_split ? 1 : 0);
    assert_int_equal(n, least);
}

static void laws_over_every_small_plan(void **state) {
    (void)state;
    for (int64_t len = 1; len <= 24; len++) {
        for (int64_t position = 0; position < len; position++) {
            for (int64_t chunk = 1; chunk <= 26; chunk++) {
                for (int64_t snapshot = -1; snapshot <= len + 1; snapshot++) {
                    check_laws((tdm_prefill_plan){len, position, chunk, snapshot, true, NULL});
                    check_laws((tdm_prefill_plan){len, position, chunk, snapshot, false, NULL});
                }
            }
        }
    }
}

/* Pieces end where ranges do, carry the class of theirs, and otherwise are as before. */
static void pieces_stay_in_their_range(void **state) {
    static const tdm_position_range LIST[] = {{0, 6, 11, TDM_UNIT_ANY}, {6, 20, 12, TDM_UNIT_ANY}};
    const tdm_position_ranges ranges = {LIST, SUPPORT_LEN(LIST)};
    tdm_prefill_piece pieces[PIECES_MAX];
    (void)state;
    for (int64_t len = 1; len <= 20; len++) {
        for (int64_t chunk = 1; chunk <= 22; chunk++) {
            for (int64_t snapshot = -1; snapshot <= len; snapshot++) {
                for (int tail = 0; tail <= 1; tail++) {
                    const tdm_prefill_plan plan = {len, 0, chunk, snapshot, tail == 1, &ranges};
                    const size_t n = walk(plan, pieces);
                    int64_t at = 0;
                    size_t n_snapshots = 0;
                    for (size_t i = 0; i < n; i++) {
                        const tdm_prefill_piece *p = &pieces[i];
                        assert_int_equal(p->from, at);
                        assert_true(p->to <= 6 || p->from >= 6);
                        assert_int_equal(p->class_id, p->to <= 6 ? 11 : 12);
                        assert_int_equal(p->kind == TDM_PREFILL_FINAL, i + 1 == n);
                        assert_int_equal(p->is_yield, i + 1 < n);
                        n_snapshots += p->is_snapshot;
                        at = p->to;
                    }
                    assert_int_equal(at, len);
                    assert_int_equal(n_snapshots, snapshot > 0 && snapshot < len);
                    assert_true(tail == 0 || pieces[n - 1].to - pieces[n - 1].from == 1);
                }
            }
        }
    }
    /* past the last range nothing may run */
    const tdm_prefill_plan past = {30, 20, 4, TDM_PREFILL_NO_SNAPSHOT, true, &ranges};
    assert_int_equal(tdm_prefill_next(&past).class_id, TDM_CLASS_NONE);
}

static void chunks_and_tails_are_told_apart(void **state) {
    (void)state;
    const tdm_prefill_piece chunk = {.from = 8, .to = 16};
    const tdm_prefill_piece tail = {.from = 16, .to = 20};
    assert_int_equal(tdm_prefill_phase(&chunk, 8), TDM_PHASE_PROMPT_CHUNK);
    assert_int_equal(tdm_prefill_phase(&tail, 8), TDM_PHASE_PROMPT);
}

static void a_bounded_workspace_halves_the_chunk(void **state) {
    (void)state;
    assert_int_equal(tdm_prefill_chunk_within(512, 100, 51200), 512);
    assert_int_equal(tdm_prefill_chunk_within(512, 100, 51199), 256);
    assert_int_equal(tdm_prefill_chunk_within(512, 100, 1000), 8);
    assert_int_equal(tdm_prefill_chunk_within(512, 100, 0), 1);
    assert_int_equal(tdm_prefill_chunk_within(7, 1, 5), 3);
    assert_int_equal(tdm_prefill_chunk_within(512, SIZE_MAX, SIZE_MAX), 1);
    assert_int_equal(tdm_prefill_chunk_within(INT64_MAX, 0, 0), INT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples),
        cmocka_unit_test(laws_over_every_small_plan),
        cmocka_unit_test(pieces_stay_in_their_range),
        cmocka_unit_test(chunks_and_tails_are_told_apart),
        cmocka_unit_test(a_bounded_workspace_halves_the_chunk),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
