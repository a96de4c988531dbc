/* SPDX-License-Identifier: Apache-2.0
 *
 * Compositions: printed records for sets of flags, refusals by flag, and a walk over random flags
 * after which no field is undefined. */
#include "support/support.h"

#include "engine/composition.h"

/* Any number of rows. */
#define ANY_ROWS .classes.decode.class_default = TDM_STEP_ROWS

static const tdm_graph_declaration PLAIN = {ANY_ROWS, .has_mixed_rows = true};
static const tdm_graph_declaration RICH = {
    ANY_ROWS, .has_mixed_rows = true, .has_paged_attention = true, .has_compiled_decode = true};
static const tdm_graph_declaration POOR = {ANY_ROWS, .has_compiled_decode = true};

static tdm_composition_facts facts_of(const tdm_graph_declaration *declaration) {
    return (tdm_composition_facts){.device = "cpu-avx2",
                                   .tier = TDM_TIER_FAST,
                                   .n_threads = 2,
                                   .context_max = 8192,
                                   .declaration = declaration};
}

static void expect_printed(const tdm_composition_flags *flags, const tdm_composition_facts *facts,
                           const char *want) {
    tdm_composition c;
    char text[512];
    assert_int_equal(tdm_composition_resolve(&c, flags, facts, NULL), TDM_OK);
    assert_int_equal(tdm_composition_print(&c, text, sizeof text), strlen(want));
    assert_string_equal(text, want);
}

static void nothing_stated(void **state) {
    (void)state;
    const tdm_composition_flags flags = {0};
    const tdm_composition_facts facts = facts_of(&PLAIN);
    expect_printed(&flags, &facts,
                   "device cpu-avx2\ntier fast\nkv bf16\npaged none\ndraft 0\ncontext 8192\n"
                   "threads 2\nprefill_chunk 512\nmax_rows 8\nmixed_budget 256\n"
                   "vector_greedy on\nmixed_prefill off\ntail_split on\ngrammar_jump off\n"
                   "greedy_draft off\ncompiled_decode off\n");
}

/* What is asked for has to be declared, with every smaller count; what is not asked for is what is
 * declared. */
static void rows_are_those_of_the_table(void **state) {
    static const tdm_row_entry FIRST[] = {{1, 7}, {2, 7}, {4, 7}};
    static const tdm_row_entry SECOND[] = {{2, 7}};
    const tdm_graph_declaration two = {.classes.decode = {FIRST, 3, TDM_CLASS_NONE}};
    const tdm_graph_declaration none = {.classes.decode = {SECOND, 1, TDM_CLASS_NONE}};
    tdm_composition_flags flags = {0};
    tdm_composition_facts facts = facts_of(&two);
    tdm_composition c = {0};
    tdm_error err;
    (void)state;
    assert_int_equal(tdm_composition_resolve(&c, &flags, &facts, NULL), TDM_OK);
    assert_int_equal(c.max_rows, 2);
    flags.max_rows = 2;
    assert_int_equal(tdm_composition_resolve(&c, &flags, &facts, NULL), TDM_OK);
    assert_int_equal(c.max_rows, 2);
    flags.max_rows = 4;
    assert_int_equal(tdm_composition_resolve(&c, &flags, &facts, &err), TDM_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "3 rows"));
    assert_string_equal(err.where, "max_rows");
    assert_string_equal(err.limit, "1 to 2");
    flags.max_rows = 0;
    facts.declaration = &none;
    assert_int_equal(tdm_composition_resolve(&c, &flags, &facts, &err), TDM_E_UNSUPPORTED);
    assert_string_equal(err.where, "max_rows");
}

static void exact_stores_f32(void **state) {
    (void)state;
    const tdm_composition_flags flags = {.device = "cpu", .context = 100, .max_rows = 1};
    tdm_composition_facts facts = facts_of(&POOR);
    facts.tier = TDM_TIER_EXACT;
    facts.device = "cpu-scalar";
    facts.n_threads = 1;
    expect_printed(&flags, &facts,
                   "device cpu-scalar\ntier exact\nkv f32\npaged none\ndraft 0\ncontext 100\n"
                   "threads 1\nprefill_chunk 512\nmax_rows 1\nmixed_budget 256\n"
                   "vector_greedy on\nmixed_prefill off\ntail_split on\ngrammar_jump off\n"
                   "greedy_draft off\ncompiled_decode on\n");
}

static void everything_stated(void **state) {
    (void)state;
    const tdm_composition_flags flags = {.device = "cpu-avx2",
                                         .kv = "f32",
                                         .context = 8192,
                                         .prefill_chunk = 64,
                                         .max_rows = 1024,
                                         .mixed_budget = 1,
                                         .paged_block = 128,
                                         .draft_tokens = 4,
                                         .is_draft_adaptive = true,
                                         .paged_direct = TDM_FLAG_ON,
                                         .vector_greedy = TDM_FLAG_OFF,
                                         .mixed_prefill = TDM_FLAG_ON,
                                         .tail_split = TDM_FLAG_OFF,
                                         .grammar_jump = TDM_FLAG_ON,
                                         .greedy_draft = TDM_FLAG_ON};
    tdm_composition_facts facts = facts_of(&RICH);
    facts.has_drafter = true;
    facts.tier = TDM_TIER_REFERENCE;
    expect_printed(&flags, &facts,
                   "device cpu-avx2\ntier reference\nkv f32\npaged 128 direct\ndraft adaptive 4\n"
                   "context 8192\nthreads 2\nprefill_chunk 64\nmax_rows 1024\nmixed_budget 1\n"
                   "vector_greedy off\nmixed_prefill on\ntail_split off\ngrammar_jump on\n"
                   "greedy_draft on\ncompiled_decode off\n");
}

/* Pages that are gathered first keep the compiled form. */
static void gathered_pages_keep_compiled_decode(void **state) {
    (void)state;
    const tdm_composition_flags flags = {.paged_block = 64};
    const tdm_composition_facts facts = facts_of(&RICH);
    tdm_composition c;
    assert_int_equal(tdm_composition_resolve(&c, &flags, &facts, NULL), TDM_OK);
    assert_true(c.has_compiled_decode);
    assert_int_equal(c.paged.block_size, 64);
    assert_false(c.paged.is_direct);
}

static void expect_refused(tdm_composition_flags flags, const tdm_graph_declaration *declaration,
                           tdm_status status, const char *where) {
    const tdm_composition_facts facts = facts_of(declaration);
    tdm_composition c;
    tdm_composition before;
    tdm_error err;
    memset(&c, 0x5A, sizeof c);
    before = c;
    assert_int_equal(tdm_composition_resolve(&c, &flags, &facts, &err), status);
    assert_string_equal(err.where, where);
    assert_true(err.what[0] != '\0');
    assert_memory_equal(&c, &before, sizeof c);
}

static void refusals_name_the_flag(void **state) {
    (void)state;
    typedef tdm_composition_flags flags;
    expect_refused((flags){.device = "cuda"}, &RICH, TDM_E_UNSUPPORTED, "device");
    expect_refused((flags){.device = "cpu-avx"}, &RICH, TDM_E_UNSUPPORTED, "device");
    expect_refused((flags){.device = ""}, &RICH, TDM_E_UNSUPPORTED, "device");
    expect_refused((flags){.device = "cpu-avx2-and-more"}, &RICH, TDM_E_UNSUPPORTED, "device");
    expect_refused((flags){.kv = "auto"}, &RICH, TDM_E_ARG, "kv");
    expect_refused((flags){.kv = "F32"}, &RICH, TDM_E_ARG, "kv");
    expect_refused((flags){.kv = "q8"}, &RICH, TDM_E_UNSUPPORTED, "kv");
    expect_refused((flags){.context = -1}, &RICH, TDM_E_ARG, "context");
    expect_refused((flags){.context = 8193}, &RICH, TDM_E_ARG, "context");
    expect_refused((flags){.prefill_chunk = -1}, &RICH, TDM_E_ARG, "prefill_chunk");
    expect_refused((flags){.prefill_chunk = TDM_CHUNK_MAX + 1}, &RICH, TDM_E_ARG, "prefill_chunk");
    expect_refused((flags){.max_rows = TDM_ROWS_MAX + 1}, &RICH, TDM_E_ARG, "max_rows");
    expect_refused((flags){.mixed_budget = -5}, &RICH, TDM_E_ARG, "mixed_budget");
    expect_refused((flags){.paged_block = 32}, &RICH, TDM_E_ARG, "paged_block");
    expect_refused((flags){.paged_block = 96}, &RICH, TDM_E_ARG, "paged_block");
    expect_refused((flags){.paged_block = -64}, &RICH, TDM_E_ARG, "paged_block");
    expect_refused((flags){.paged_block = 64}, &PLAIN, TDM_E_UNSUPPORTED, "paged_block");
    expect_refused((flags){.paged_direct = TDM_FLAG_ON}, &RICH, TDM_E_UNSUPPORTED, "paged_direct");
    expect_refused((flags){.draft_tokens = 4}, &RICH, TDM_E_UNSUPPORTED, "draft_tokens");
    expect_refused((flags){.draft_tokens = 65}, &RICH, TDM_E_ARG, "draft_tokens");
    expect_refused((flags){.is_draft_adaptive = true}, &RICH, TDM_E_ARG, "draft_tokens");
    expect_refused((flags){.greedy_draft = TDM_FLAG_ON}, &RICH, TDM_E_UNSUPPORTED, "greedy_draft");
    expect_refused((flags){.mixed_prefill = TDM_FLAG_ON}, &POOR, TDM_E_UNSUPPORTED,
                   "mixed_prefill");
}

static uint32_t draw(uint64_t *seed, uint32_t n) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 40) % n;
}

static void expect_defined(const tdm_composition *c) {
    assert_true(c->device[0] != '\0' && memchr(c->device, '\0', sizeof c->device) != NULL);
    assert_true(c->kv_dtype == TDM_DTYPE_F32 || c->kv_dtype == TDM_DTYPE_BF16);
    assert_in_range(c->tier, TDM_TIER_REFERENCE, TDM_TIER_FAST);
    assert_in_range(c->context, 1, 8192);
    assert_in_range(c->n_threads, 1, 64);
    assert_in_range(c->prefill_chunk, 1, TDM_CHUNK_MAX);
    assert_in_range(c->max_rows, 1, TDM_ROWS_MAX);
    assert_in_range(c->mixed_budget, 1, TDM_CHUNK_MAX);
    assert_in_range(c->draft.n, 0, TDM_DRAFT_DEPTH_MAX);
    assert_true(!c->draft.is_adaptive || c->draft.n > 0);
    assert_true(c->paged.block_size == 0 || c->paged.block_size >= 64);
    assert_true(!c->paged.is_direct || c->paged.block_size > 0);
    assert_true(!(c->paged.is_direct && c->has_compiled_decode));
}

static void random_flags_leave_nothing_undefined(void **state) {
    (void)state;
    static const char *const devices[] = {NULL, "cpu", "cpu-avx2", "cuda"};
    static const char *const kvs[] = {NULL, "f32", "bf16", "8"};
    static const int32_t counts[] = {0, 0, 1, 7, 64, 512, -1, 1 << 20};
    const tdm_graph_declaration *const declarations[] = {&PLAIN, &RICH, &POOR};
    uint64_t seed = 42;
    int n_resolved = 0;
    for (int round = 0; round < 200000; round++) {
        tdm_composition_facts facts = facts_of(declarations[draw(&seed, 3)]);
        tdm_composition c;
        tdm_error err = {0};
        facts.has_drafter = draw(&seed, 2) == 1;
        facts.tier = (tdm_tier)draw(&seed, 3);
        /* Each flag is stated in one round of three, so that many sets resolve. */
#define MAYBE(value, none) (draw(&seed, 3) == 0 ? (value) : (none))
        const tdm_composition_flags flags = {
            .device = MAYBE(devices[draw(&seed, 4)], NULL),
            .kv = MAYBE(kvs[draw(&seed, 4)], NULL),
            .context = MAYBE(counts[draw(&seed, 8)], 0),
            .prefill_chunk = MAYBE(counts[draw(&seed, 8)], 0),
            .max_rows = MAYBE(counts[draw(&seed, 8)], 0),
            .mixed_budget = MAYBE(counts[draw(&seed, 8)], 0),
            .paged_block = MAYBE(counts[draw(&seed, 8)], 0),
            .draft_tokens = MAYBE(counts[draw(&seed, 8)], 0),
            .is_draft_adaptive = draw(&seed, 8) == 0,
            .paged_direct = MAYBE((tdm_flag)draw(&seed, 3), TDM_FLAG_UNSTATED),
            .vector_greedy = (tdm_flag)draw(&seed, 3),
            .mixed_prefill = MAYBE((tdm_flag)draw(&seed, 3), TDM_FLAG_UNSTATED),
            .tail_split = (tdm_flag)draw(&seed, 3),
            .grammar_jump = (tdm_flag)draw(&seed, 3),
            .greedy_draft = MAYBE((tdm_flag)draw(&seed, 3), TDM_FLAG_UNSTATED),
        };
        memset(&c, 0x5A, sizeof c);
        if (tdm_composition_resolve(&c, &flags, &facts, &err) == TDM_OK) {
            char text[512];
            expect_defined(&c);
            assert_true(tdm_composition_print(&c, text, sizeof text) < sizeof text);
            assert_null(strstr(text, "auto\n"));
            assert_null(strstr(text, "unknown"));
            n_resolved++;
        } else {
            assert_true(err.where[0] != '\0');
        }
    }
    assert_true(n_resolved > 10000); /* the walk is not all refusals */
}

static void print_tells_the_length_and_cuts(void **state) {
    (void)state;
    const tdm_composition_flags flags = {0};
    const tdm_composition_facts facts = facts_of(&PLAIN);
    tdm_composition c;
    char whole[512];
    char cut[512];
    assert_int_equal(tdm_composition_resolve(&c, &flags, &facts, NULL), TDM_OK);
    const size_t len = tdm_composition_print(&c, whole, sizeof whole);
    assert_int_equal(tdm_composition_print(&c, NULL, 0), len);
    for (size_t cap = 1; cap <= len + 1; cap++) {
        memset(cut, '#', sizeof cut);
        assert_int_equal(tdm_composition_print(&c, cut, cap), len);
        assert_int_equal(strlen(cut), cap - 1);
        assert_memory_equal(cut, whole, cap - 1);
        assert_int_equal(cut[cap], '#');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_table),
        cmocka_unit_test(nothing_stated),
        cmocka_unit_test(exact_stores_f32),
        cmocka_unit_test(everything_stated),
        cmocka_unit_test(gathered_pages_keep_compiled_decode),
        cmocka_unit_test(refusals_name_the_flag),
        cmocka_unit_test(random_flags_leave_nothing_undefined),
        cmocka_unit_test(print_tells_the_length_and_cuts),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
