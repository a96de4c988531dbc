/* SPDX-License-Identifier: Apache-2.0
 *
 * Embedding against another framework's vectors (tests/data/embeddings), and its laws: the same
 * bits alone and together, for every chunk and number of threads; lengths, dimensions and poolings;
 * a model without a head. */
#include "tandem/tandem.h"

#include "backend/cpu/cpu.h"
#include "base/file.h"
#include "engine/engine.h"
#include "formats/safetensors.h"
#include "support/goldens.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

#define N_INPUTS_MAX 16
#define HIDDEN 64

typedef struct rig {
    tdm_model *model;
    tdm_blob blob;
    tdm_safetensors *golden;
    tdm_embed_input inputs[N_INPUTS_MAX];
    size_t n;
} rig;

static void must(tdm_status status, const tdm_error *err) {
    if (status != TDM_OK) {
        fail_msg("%s (%s)", err->what, err->where);
    }
}

static const void *golden_of(const rig *r, const char *name) {
    size_t idx = 0;
    assert_true(tdm_safetensors_find(r->golden, name, &idx));
    return tdm_safetensors_tensor_view(r->golden, idx)->data;
}

static void rig_open(rig *r, const char *name, const tdm_model_options *options) {
    char rel[64];
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    tdm_error err = {0};
    size_t idx = 0;
    memset(r, 0, sizeof *r);
    (void)snprintf(rel, sizeof rel, "embeddings/%s", name);
    (void)support_data_path(folder, rel);
    (void)support_join(path, folder, "golden.safetensors");
    must(tdm_blob_open(&r->blob, NULL, path, &err), &err);
    must(tdm_safetensors_parse(&r->golden, NULL, r->blob.data, r->blob.bytes, path, &err), &err);
    must(tdm_model_open(&r->model, folder, options, &err), &err);
    assert_true(tdm_safetensors_find(r->golden, "lengths", &idx));
    r->n = (size_t)tdm_safetensors_tensor_view(r->golden, idx)->dims[0];
    const int32_t *lengths = golden_of(r, "lengths");
    const int32_t *ids = golden_of(r, "ids");
    for (size_t i = 0; i < r->n; i++) {
        r->inputs[i] = (tdm_embed_input){ids, (size_t)lengths[i]};
        ids += lengths[i];
    }
}

static void rig_close(rig *r) {
    tdm_model_close(r->model);
    tdm_safetensors_destroy(r->golden);
    tdm_blob_close(&r->blob);
}

static void embed(rig *r, const tdm_embed_options *options, float *out) {
    tdm_error err = {0};
    must(tdm_model_embed(r->model, r->inputs, r->n, options, out, &err), &err);
}

/* Largest difference over the largest value. */
static double rel_of(const float *got, const float *want, size_t n) {
    double diff = 0.0;
    double largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        diff = fmax(diff, fabs((double)got[i] - (double)want[i]));
        largest = fmax(largest, fabs((double)want[i]));
    }
    return diff / largest;
}

static void vectors_agree(void **state) {
    static const struct {
        const char *tensor;
        tdm_embed_options options;
        size_t width;
    } QUESTIONS[] = {
        {"embedding", {0}, HIDDEN},
        {"short", {.dimensions = 24}, 24},
        {"hidden_last", {.pooling = TDM_POOLING_LAST, .length = TDM_LENGTH_KEPT}, HIDDEN},
        {"hidden_mean", {.pooling = TDM_POOLING_MEAN, .length = TDM_LENGTH_KEPT}, HIDDEN},
        {"hidden_first", {.pooling = TDM_POOLING_FIRST, .length = TDM_LENGTH_KEPT}, HIDDEN},
    };
    (void)state;
    for (size_t c = 0; c < SUPPORT_LEN(SUPPORT_EMBEDDINGS); c++) {
        static float got[N_INPUTS_MAX * HIDDEN];
        const tdm_model_options options = {.tier = "exact", .n_threads = 1};
        rig r;
        rig_open(&r, SUPPORT_EMBEDDINGS[c].name, &options);
        for (size_t q = 0; q < SUPPORT_LEN(QUESTIONS); q++) {
            embed(&r, &QUESTIONS[q].options, got);
            double rel = rel_of(got, golden_of(&r, QUESTIONS[q].tensor), r.n * QUESTIONS[q].width);
            print_message("%s %s max_rel %.2e\n", SUPPORT_EMBEDDINGS[c].name, QUESTIONS[q].tensor,
                          rel);
            assert_true(rel <= SUPPORT_EMBEDDINGS[c].bound);
        }
        rig_close(&r);
    }
}

/* The default tier rounds activations and keys: directions stay. */
static void fast_points_the_same_way(void **state) {
    (void)state;
    for (size_t c = 0; c < SUPPORT_LEN(SUPPORT_EMBEDDINGS); c++) {
        static float got[N_INPUTS_MAX * HIDDEN];
        rig r;
        rig_open(&r, SUPPORT_EMBEDDINGS[c].name, NULL);
        embed(&r, NULL, got);
        const float *want = golden_of(&r, "embedding");
        for (size_t i = 0; i < r.n; i++) {
            double cosine = 0.0;
            for (size_t k = 0; k < HIDDEN; k++) {
                cosine += (double)got[i * HIDDEN + k] * (double)want[i * HIDDEN + k];
            }
            assert_true(cosine >= TOL_EMBED_FAST_COSINE);
        }
        rig_close(&r);
    }
}

static void bits_do_not_depend_on_company(void **state) {
    static const struct {
        int32_t n_batch, n_threads;
    } WAYS[] = {{1, 1}, {3, 2}, {16, 1}, {40, 2}, {512, 2}};
    static const tdm_pooling POOLINGS[] = {TDM_POOLING_LAST, TDM_POOLING_MEAN, TDM_POOLING_FIRST};
    (void)state;
    for (size_t c = 0; c < SUPPORT_LEN(SUPPORT_EMBEDDINGS) * 2; c++) {
        static float want[SUPPORT_LEN(POOLINGS)][N_INPUTS_MAX * HIDDEN];
        static float got[N_INPUTS_MAX * HIDDEN];
        const char *tier = c % 2 == 0 ? "exact" : "fast";
        for (size_t w = 0; w < SUPPORT_LEN(WAYS); w++) {
            const tdm_model_options options = {
                .tier = tier, .n_batch = WAYS[w].n_batch, .n_threads = WAYS[w].n_threads};
            rig r;
            rig_open(&r, SUPPORT_EMBEDDINGS[c / 2].name, &options);
            for (size_t p = 0; p < SUPPORT_LEN(POOLINGS); p++) {
                const tdm_embed_options pooled = {.pooling = POOLINGS[p]};
                for (size_t i = 0; w == 0 && i < r.n; i++) { /* alone, a token at a time */
                    tdm_error err = {0};
                    must(tdm_model_embed(r.model, &r.inputs[i], 1, &pooled, want[p] + i * HIDDEN,
                                         &err),
                         &err);
                }
                memset(got, 0, sizeof got);
                embed(&r, &pooled, got);
                if (memcmp(got, want[p], r.n * HIDDEN * sizeof *got) != 0) {
                    fail_msg("%s %s: other bits with batches of %d on %d threads",
                             SUPPORT_EMBEDDINGS[c / 2].name, tier, (int)WAYS[w].n_batch,
                             (int)WAYS[w].n_threads);
                }
            }
            rig_close(&r);
        }
    }
}

/* More inputs than one forward takes, in an order of their own. */
static void many_inputs_keep_their_order(void **state) {
    static tdm_embed_input many[100];
    static float got[100 * HIDDEN];
    static float want[N_INPUTS_MAX * HIDDEN];
    const tdm_model_options options = {.tier = "exact", .n_batch = 50, .n_threads = 2};
    tdm_error err = {0};
    rig r;
    (void)state;
    rig_open(&r, "qwen3-embedding", &options);
    embed(&r, NULL, want);
    for (size_t i = 0; i < SUPPORT_LEN(many); i++) {
        many[i] = r.inputs[i * 5 % r.n];
    }
    must(tdm_model_embed(r.model, many, SUPPORT_LEN(many), NULL, got, &err), &err);
    for (size_t i = 0; i < SUPPORT_LEN(many); i++) {
        assert_memory_equal(got + i * HIDDEN, want + i * 5 % r.n * HIDDEN, HIDDEN * sizeof *got);
    }
    must(tdm_model_embed(r.model, NULL, 0, NULL, got, &err), &err);
    rig_close(&r);
}

static void lengths_are_one(void **state) {
    static float got[N_INPUTS_MAX * HIDDEN];
    rig r;
    (void)state;
    rig_open(&r, "mistral-mean", NULL);
    for (int32_t n = 1; n <= HIDDEN; n += 21) {
        const tdm_embed_options options = {.dimensions = n};
        embed(&r, &options, got);
        for (size_t i = 0; i < r.n; i++) {
            double square = 0.0;
            for (int32_t k = 0; k < n; k++) {
                square += pow((double)got[i * (size_t)n + (size_t)k], 2.0);
            }
            assert_true(fabs(square - 1.0) < 1e-5);
        }
    }
    rig_close(&r);
}

static void refuse(rig *r, const tdm_embed_input *inputs, size_t n,
                   const tdm_embed_options *options, tdm_status status, const char *says) {
    static float out[N_INPUTS_MAX * HIDDEN];
    tdm_error err = {0};
    assert_int_equal(tdm_model_embed(r->model, inputs, n, options, out, &err), status);
    if (strstr(err.what, says) == NULL && strstr(err.where, says) == NULL) {
        fail_msg("wanted \"%s\": %s (%s)", says, err.what, err.where);
    }
}

static void what_cannot_be_is_refused(void **state) {
    static const int32_t BAD[] = {5, 320};
    static int32_t many[600];
    const tdm_embed_input empty = {BAD, 0};
    const tdm_embed_input outside = {BAD, 2};
    const tdm_embed_input negative = {(const int32_t[]){-1}, 1};
    const tdm_embed_input too_long = {many, 513};
    const tdm_embed_options wide = {.dimensions = HIDDEN + 1};
    const tdm_embed_options below = {.dimensions = -1};
    const tdm_embed_options nameless = {.prompt_name = "poem"};
    const tdm_embed_options both = {.prompt_name = "query", .instruction = "x"};
    const tdm_model_options options = {.tier = "exact", .n_threads = 1};
    tdm_embed_plan plan;
    tdm_error err = {0};
    rig r;
    (void)state;
    rig_open(&r, "qwen3-embedding", &options);
    refuse(&r, &empty, 1, NULL, TDM_E_ARG, "without tokens");
    refuse(&r, &outside, 1, NULL, TDM_E_ARG, "320");
    refuse(&r, &negative, 1, NULL, TDM_E_ARG, "-1");
    refuse(&r, &too_long, 1, NULL, TDM_E_NO_FIT, "513");
    refuse(&r, r.inputs, 1, &wide, TDM_E_ARG, "dimensions");
    refuse(&r, r.inputs, 1, &below, TDM_E_ARG, "dimensions");
    refuse(&r, r.inputs, 1, &nameless, TDM_E_NOT_FOUND, "poem");
    refuse(&r, r.inputs, 1, &both, TDM_E_ARG, "instruction");
    assert_int_equal(tdm_model_embed_plan(r.model, &nameless, &plan, &err), TDM_E_NOT_FOUND);
    assert_non_null(strstr(err.remedy, "query, document"));
    rig_close(&r);
}

static void prompts_come_from_the_files(void **state) {
    const tdm_embed_options query = {.prompt_name = "query"};
    const tdm_embed_options task = {.instruction = "Find a thing"};
    static const char QUERY[] = "Instruct: Given a question, find what answers it\nQuery:";
    static const char TASK[] = "Instruct: Find a thing\nQuery:";
    tdm_embed_plan plan;
    tdm_error err = {0};
    rig r;
    (void)state;
    rig_open(&r, "qwen3-embedding", NULL);
    must(tdm_model_embed_plan(r.model, NULL, &plan, &err), &err);
    assert_true(plan.pooling == TDM_POOLING_LAST && plan.length == TDM_LENGTH_ONE);
    assert_true(plan.dimensions == HIDDEN && plan.tokens_max == 512 && plan.prompt_len == 0);
    must(tdm_model_embed_plan(r.model, &query, &plan, &err), &err);
    assert_true(plan.prompt_len == sizeof QUERY - 1);
    assert_memory_equal(plan.prompt, QUERY, plan.prompt_len);
    must(tdm_model_embed_plan(r.model, &task, &plan, &err), &err);
    assert_true(plan.prompt_len == sizeof TASK - 1);
    assert_memory_equal(plan.prompt, TASK, plan.prompt_len);
    rig_close(&r);
    rig_open(&r, "mistral-mean", NULL);
    must(tdm_model_embed_plan(r.model, NULL, &plan, &err), &err);
    assert_int_equal(plan.pooling, TDM_POOLING_MEAN);
    rig_close(&r);
}

/* The folder holds no lm_head and none is tied: it embeds, and says why it does nothing else. */
static void a_model_without_a_head(void **state) {
    static const int32_t IDS[] = {3, 4, 5};
    float logprobs[3];
    tdm_generation_options options;
    tdm_generation *generation = NULL;
    tdm_prompt *prompt = NULL;
    tdm_error err = {0};
    rig r;
    (void)state;
    rig_open(&r, "qwen3-embedding", NULL);
    tdm_generation_options_init(&options, r.model);
    must(tdm_prompt_from_ids(&prompt, r.model, IDS, 3, &err), &err);
    assert_int_equal(tdm_generation_create(&generation, r.model, prompt, &options, &err),
                     TDM_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "no head"));
    assert_int_equal(tdm_model_score(r.model, IDS, 3, 0, logprobs, 0, NULL, &err),
                     TDM_E_UNSUPPORTED);
    tdm_prompt_destroy(prompt);
    rig_close(&r);
}

/* Every allocation of a call fails once, with the caches of several inputs half made. */
static void failed_allocations_leave_nothing(void **state) {
    static float got[N_INPUTS_MAX * HIDDEN];
    static float want[N_INPUTS_MAX * HIDDEN];
    const tdm_cpu_options cpu = {.tier = TDM_TIER_EXACT, .n_threads = 1};
    const tdm_model_options options = {.n_batch = 20};
    char folder[SUPPORT_PATH_MAX];
    tdm_status status = TDM_E_NOMEM;
    rig r;
    (void)state;
    (void)support_data_path(folder, "embeddings/qwen3-embedding");
    rig_open(&r, "qwen3-embedding", &(tdm_model_options){.tier = "exact"});
    embed(&r, NULL, want);
    for (size_t n = 1; status == TDM_E_NOMEM; n++) {
        tdm_alloc_tracker memory;
        tdm_backend *backend = NULL;
        tdm_model *model = NULL;
        tdm_error err = {0};
        tdm_alloc_tracker_init(&memory, NULL);
        must(tdm_cpu_backend_create(&backend, &memory.alloc, &cpu, &err), &err);
        must(tdm_model_open_with(&model, &memory.alloc, folder, &options, backend, &err), &err);
        memory.fail_at = memory.n_calls + n;
        status = tdm_model_embed(model, r.inputs, r.n, NULL, got, &err);
        if (status == TDM_E_NOMEM) { /* the model is as good as before */
            memory.fail_at = 0;
            must(tdm_model_embed(model, r.inputs, r.n, NULL, got, &err), &err);
        }
        assert_memory_equal(got, want, r.n * HIDDEN * sizeof *got);
        tdm_model_close(model);
        assert_int_equal(memory.live_bytes, 0);
        assert_true(n < 1000);
    }
    assert_int_equal(status, TDM_OK);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_agree),
        cmocka_unit_test(fast_points_the_same_way),
        cmocka_unit_test(bits_do_not_depend_on_company),
        cmocka_unit_test(many_inputs_keep_their_order),
        cmocka_unit_test(lengths_are_one),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(prompts_come_from_the_files),
        cmocka_unit_test(a_model_without_a_head),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
