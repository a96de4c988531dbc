/* SPDX-License-Identifier: Apache-2.0
 *
 * Binding: what agrees binds; every single promise without its operation, every single missing
 * operation and every ABI that differs is refused by name. */
#include "support/support.h"

#include "engine/declaration.h"

/* Operations that are never called: binding looks at pointers only. */
static tdm_status reserve(tdm_graph *g, int32_t t, int32_t r, int32_t l, tdm_error *e) {
    (void)g;
    (void)t;
    (void)r;
    (void)l;
    (void)e;
    return TDM_E_INTERNAL;
}
static size_t state_plan(const tdm_graph *g, tdm_dtype d, int64_t n) {
    (void)g;
    (void)d;
    (void)n;
    return 0;
}
static tdm_status state_create(tdm_graph *g, tdm_dtype d, int32_t n, tdm_state **s, tdm_error *e) {
    (void)g;
    (void)d;
    (void)n;
    (void)s;
    (void)e;
    return TDM_E_INTERNAL;
}
static tdm_status state_reserve(tdm_graph *g, tdm_state *s, int64_t n, tdm_error *e) {
    (void)g;
    (void)s;
    (void)n;
    (void)e;
    return TDM_E_INTERNAL;
}
static void state_destroy(tdm_graph *g, tdm_state *s) {
    (void)g;
    (void)s;
}
static tdm_status forward(tdm_graph *g, const tdm_step *s, tdm_error *e) {
    (void)g;
    (void)s;
    (void)e;
    return TDM_E_INTERNAL;
}
static void destroy(tdm_graph *g) {
    (void)g;
}

static const tdm_graph_ops WHOLE = {
    .reserve = reserve,
    .state_plan = state_plan,
    .state_create = state_create,
    .state_reserve = state_reserve,
    .state_destroy = state_destroy,
    .forward = forward,
    .destroy = destroy,
};
static const tdm_bind_site SITE = {"cpu-avx2", TDM_GRAPH_ABI, TDM_STATE_ABI};

static tdm_graph_declaration decoder(void) {
    static const tdm_graph_facts facts = {.family = "llama"};
    return tdm_declaration_text_decoder(&facts, "cpu");
}

static void expect_refused(const tdm_graph_declaration *d, const tdm_graph_ops *ops,
                           const char *what, const char *where) {
    tdm_error err;
    assert_int_equal(tdm_bind_check(d, ops, &SITE, &err), TDM_E_UNSUPPORTED);
    if (strstr(err.what, what) == NULL || strstr(err.what, "decoder") == NULL) {
        fail_msg("\"%s\" does not name %s", err.what, what);
    }
    assert_string_equal(err.where, where);
}

static void the_text_decoder_binds(void **state) {
    (void)state;
    tdm_graph_declaration d = decoder();
    assert_int_equal(tdm_bind_check(&d, &WHOLE, &SITE, NULL), TDM_OK);
    assert_string_equal(d.descriptor.artifact, "llama");
    d.descriptor.backend = "cpu-avx2";
    assert_int_equal(tdm_bind_check(&d, &WHOLE, &SITE, NULL), TDM_OK);
}

static void abis_and_backends_must_agree(void **state) {
    (void)state;
    tdm_graph_declaration d = decoder();
    const char *const strangers[] = {"cuda", "cp", "cpu-avx", "cpu-avx2-x", "c"};
    for (size_t i = 0; i < SUPPORT_LEN(strangers); i++) {
        d.descriptor.backend = strangers[i];
        expect_refused(&d, &WHOLE, strangers[i], "decoder.backend");
    }
    d = decoder();
    d.descriptor.graph_abi = TDM_GRAPH_ABI + 1;
    expect_refused(&d, &WHOLE, "graph ABI 2, not 1", "decoder.graph_abi");
    d = decoder();
    d.descriptor.state_abi = 0;
    expect_refused(&d, &WHOLE, "state ABI 0, not 1", "decoder.state_abi");
}

static void every_operation_is_needed(void **state) {
    (void)state;
    const tdm_graph_declaration d = decoder();
    tdm_graph_ops ops = WHOLE;
    ops.reserve = NULL;
    expect_refused(&d, &ops, "\"reserve\"", "decoder.operations");
    ops = WHOLE;
    ops.state_plan = NULL;
    expect_refused(&d, &ops, "\"state_plan\"", "decoder.operations");
    ops = WHOLE;
    ops.state_create = NULL;
    expect_refused(&d, &ops, "\"state_create\"", "decoder.operations");
    ops = WHOLE;
    ops.state_reserve = NULL;
    expect_refused(&d, &ops, "\"state_reserve\"", "decoder.operations");
    ops = WHOLE;
    ops.state_destroy = NULL;
    expect_refused(&d, &ops, "\"state_destroy\"", "decoder.operations");
    ops = WHOLE;
    ops.forward = NULL;
    expect_refused(&d, &ops, "\"forward\"", "decoder.operations");
    ops = WHOLE;
    ops.destroy = NULL;
    expect_refused(&d, &ops, "\"destroy\"", "decoder.operations");
}

/* One declaration a promise, refused by the name of the operation. */
static void promises_without_operations_are_refused(void **state) {
    (void)state;
    tdm_graph_declaration d = decoder();
    d.media.input = TDM_MEDIA_EMBEDDINGS;
    expect_refused(&d, &WHOLE, "\"embedding_prompt\"", "decoder.media.input");
    d = decoder();
    d.media.input = TDM_MEDIA_PIXELS;
    d.media.has_video = true;
    expect_refused(&d, &WHOLE, "\"pixel_prompt\"", "decoder.media.input");
    d = decoder();
    d.method = TDM_METHOD_DENOISING;
    expect_refused(&d, &WHOLE, "\"denoise\"", "decoder.method");
    d = decoder();
    d.adapters.is_mountable = true;
    expect_refused(&d, &WHOLE, "\"adapter_mount\"", "decoder.adapters.is_mountable");
    d = decoder();
    d.has_paged_attention = true;
    expect_refused(&d, &WHOLE, "\"paged_attention\"", "decoder.has_paged_attention");
    d = decoder();
    d.has_compiled_decode = true;
    expect_refused(&d, &WHOLE, "\"compiled_step\"", "decoder.has_compiled_decode");
    d = decoder();
    d.has_embeddings = true;
    expect_refused(&d, &WHOLE, "\"embed_pooled\"", "decoder.has_embeddings");
    d = decoder();
    d.has_sparse_attention = true;
    expect_refused(&d, &WHOLE, "\"sparse_attention\"", "decoder.has_sparse_attention");
    d = decoder();
    d.native_draft.kind = "mtp";
    d.native_draft.width = 1;
    expect_refused(&d, &WHOLE, "\"draft\"", "decoder.native_draft");
    d = decoder();
    d.kv.delayed_affine = TDM_DELAYED_AFFINE_ALL;
    expect_refused(&d, &WHOLE, "\"cache_convert\"", "decoder.kv.delayed_affine");
    d = decoder();
    d.speculation.has_turbo_kv = true;
    expect_refused(&d, &WHOLE, "\"verify_turbo\"", "decoder.speculation.has_turbo_kv");
}

static void contradictions_are_refused(void **state) {
    (void)state;
    tdm_graph_declaration d = decoder();
    d.adapters.is_batched = true;
    expect_refused(&d, &WHOLE, "batched adapters", "decoder.adapters.is_batched");
    d = decoder();
    d.media.has_video = true;
    expect_refused(&d, &WHOLE, "video", "decoder.media.has_video");
    d = decoder();
    d.native_draft.kind = "mtp";
    expect_refused(&d, &WHOLE, "native draft", "decoder.native_draft");
    d = decoder();
    d.native_draft.width = 3;
    expect_refused(&d, &WHOLE, "native draft", "decoder.native_draft");
    d = decoder();
    d.speculation.has_adapters = true;
    expect_refused(&d, &WHOLE, "speculation with adapters", "decoder.speculation.has_adapters");
}

static void expect_table_refused(const tdm_graph_declaration *d, const char *what,
                                 const char *where) {
    tdm_error err;
    assert_int_equal(tdm_bind_check(d, &WHOLE, &SITE, &err), TDM_E_ARG);
    assert_non_null(strstr(err.what, what));
    assert_string_equal(err.where, where);
}

/* The tables are checked when the graph is bound, each by its name. */
static void tables_that_contradict_themselves_are_refused(void **state) {
    static const tdm_row_entry TWICE[] = {{1, 1}, {1, 2}};
    static const tdm_position_range OVERLAP[] = {{0, 8, 1, TDM_UNIT_ANY}, {7, 9, 1, TDM_UNIT_ANY}};
    static const tdm_position_range LATE[] = {{1, 8, 1, TDM_UNIT_ANY}};
    static const tdm_row_range GAP[] = {{1, 2, 1}, {3, 9, 1}};
    static const tdm_row_range INVERTED[] = {{5, 2, 1}};
    tdm_graph_declaration d = decoder();
    (void)state;
    d.classes.decode = (tdm_row_table){NULL, 0, TDM_CLASS_NONE};
    expect_table_refused(&d, "without entries", "decoder.classes.decode");
    d.classes.decode = (tdm_row_table){TWICE, 2, TDM_CLASS_NONE};
    expect_table_refused(&d, "twice", "decoder.classes.decode[1]");
    d = decoder();
    d.classes.prompt = (tdm_position_ranges){OVERLAP, 2};
    expect_table_refused(&d, "overlaps", "decoder.classes.prompt[1]");
    d.classes.prompt = (tdm_position_ranges){LATE, 1};
    expect_table_refused(&d, "position 0", "decoder.classes.prompt[0]");
    d = decoder();
    d.classes.sequence = (tdm_row_ranges){GAP, 2};
    expect_table_refused(&d, "gap", "decoder.classes.sequence[1]");
    d.classes.sequence = (tdm_row_ranges){INVERTED, 1};
    expect_table_refused(&d, "inverted", "decoder.classes.sequence[0]");
}

/* One row and four decode by different operations; a prompt and what is scored have theirs. */
static void the_text_decoder_names_its_classes(void **state) {
    const tdm_graph_declaration d = decoder();
    const tdm_step_classes *c = &d.classes;
    (void)state;
    assert_int_equal(tdm_row_table_lookup(&c->decode, 1), TDM_STEP_ONE_ROW);
    assert_int_equal(tdm_row_table_lookup(&c->decode, 4), TDM_STEP_ROWS);
    assert_int_equal(tdm_row_table_lookup(&c->decode, 0), TDM_CLASS_NONE);
    assert_int_equal(
        tdm_position_ranges_lookup(&c->prompt, (tdm_position_piece){0, 1 << 20})->class_id,
        TDM_STEP_PIECE);
    assert_int_equal(tdm_row_ranges_lookup(&c->sequence, 1), TDM_STEP_ONE_ROW);
    assert_int_equal(tdm_row_ranges_lookup(&c->sequence, 2), TDM_STEP_PIECE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_decoder_binds),
        cmocka_unit_test(abis_and_backends_must_agree),
        cmocka_unit_test(every_operation_is_needed),
        cmocka_unit_test(promises_without_operations_are_refused),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(tables_that_contradict_themselves_are_refused),
        cmocka_unit_test(the_text_decoder_names_its_classes),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
