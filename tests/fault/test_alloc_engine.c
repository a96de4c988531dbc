/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory runs out at every single allocation of a model's life: backend, load, prompt, generation,
 * scoring, close. Each time the answer is TDM_E_NOMEM with a sentence, and not one byte is left
 * behind. Twice: the Nth allocation alone fails, and every one from the Nth on. A second law rides
 * along: between two tokens of a generation nothing is allocated. */
#include "support/support.h"

#include "backend/cpu/cpu.h"
#include "engine/engine.h"

#define N_ATTEMPTS_MAX 20000
#define N_TOKENS 4

typedef struct scenario {
    const char *folder;
    tdm_tier tier;
    const char *isa; /* NULL: the best */
    int32_t n_threads;
    bool has_text; /* the folder has a tokenizer and a template */
} scenario;

/* What a run that was allowed to finish did. */
typedef struct outcome {
    int32_t ids[N_TOKENS];
    size_t n_ids;
    size_t n_calls_between_tokens;
} outcome;

static tdm_status generate(tdm_generation *generation, const tdm_alloc_tracker *tracker,
                           outcome *out, tdm_error *err) {
    tdm_event event;
    TDM_TRY(tdm_generation_next(generation, &event, err)); /* reads the prompt */
    out->ids[0] = event.id;
    out->n_ids = 1;
    const size_t n_calls = tracker->n_calls;
    while (event.finish == TDM_FINISH_NONE) {
        TDM_TRY(tdm_generation_next(generation, &event, err));
        if (event.id >= 0 && out->n_ids < N_TOKENS) {
            out->ids[out->n_ids++] = event.id;
        }
    }
    out->n_calls_between_tokens = tracker->n_calls - n_calls;
    return TDM_OK;
}

static void fill_options(tdm_generation_options *o, const tdm_model *model, bool has_text) {
    static const tdm_bias bias[] = {{7, 1.5F}, {9, -2.0F}};
    tdm_generation_options_init(o, model);
    o->max_tokens = N_TOKENS;
    o->ignores_eos = true;
    o->temperature = 0.7F;
    o->top_k = 40;
    o->top_p = 0.95F;
    o->xtc_probability = 0.5F;
    o->repetition_penalty = 1.1F;
    o->dry_multiplier = 0.8F;
    o->bias = bias;
    o->n_bias = SUPPORT_LEN(bias);
    o->n_logprobs = 3;
    o->seed = 42;
    o->has_seed = true;
    if (has_text) {
        o->stop[0] = "never said";
        o->n_stop = 1;
    }
}

static tdm_status make_prompt(tdm_prompt **out, tdm_model *model, bool has_text, tdm_error *err) {
    static const int32_t ids[] = {1, 17, 300, 4, 4, 250};
    static const tdm_message messages[] = {{"user", " zq "}};
    return has_text ? tdm_prompt_from_chat(out, model, messages, SUPPORT_LEN(messages), err)
                    : tdm_prompt_from_ids(out, model, ids, SUPPORT_LEN(ids), err);
}

/* Everything that is done with an open model. */
static tdm_status use_model(tdm_model *model, const scenario *s, const tdm_alloc_tracker *tracker,
                            outcome *out, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_generation_options options;
    tdm_prompt *prompt = NULL;
    tdm_generation *generation = NULL;
    float logprobs[6];
    tdm_top top[6][2];
    const int32_t *ids = NULL;
    size_t n = 0;
    fill_options(&options, model, s->has_text);
    TDM_TRY_GOTO(status, make_prompt(&prompt, model, s->has_text, err), done);
    TDM_TRY_GOTO(status, tdm_generation_create(&generation, model, prompt, &options, err), done);
    TDM_TRY_GOTO(status, generate(generation, tracker, out, err), done);
    TDM_TRY_GOTO(status, tdm_generation_continue(generation, prompt, err), done);
    ids = tdm_prompt_ids(prompt, &n);
    n = n < SUPPORT_LEN(logprobs) ? n : SUPPORT_LEN(logprobs);
    TDM_TRY_GOTO(status, tdm_model_score(model, ids, n, 2, logprobs, 2, &top[0][0], err), done);
done:
    tdm_generation_destroy(generation);
    tdm_prompt_destroy(prompt);
    return status;
}

static tdm_status attempt(const scenario *s, tdm_alloc_tracker *tracker, outcome *out,
                          tdm_error *err) {
    tdm_backend *backend = NULL;
    tdm_model *model = NULL;
    const tdm_cpu_options cpu = {.tier = s->tier, .isa = s->isa, .n_threads = s->n_threads};
    const tdm_model_options options = {.n_batch = 4};
    tdm_status status = tdm_cpu_backend_create(&backend, &tracker->alloc, &cpu, err);
    if (status != TDM_OK) {
        assert_null(backend);
        return status;
    }
    status = tdm_model_open_with(&model, &tracker->alloc, s->folder, &options, backend, err);
    if (status != TDM_OK) {
        assert_null(model);
        backend->ops->destroy(backend); /* still ours */
        return status;
    }
    status = use_model(model, s, tracker, out, err);
    tdm_model_close(model);
    return status;
}

static void expect_nothing_left(const tdm_alloc_tracker *tracker, size_t n, const char *mode) {
    if (tracker->live_bytes != 0 || tracker->n_live != 0) {
        fail_msg("allocation %zu (%s): %zu bytes in %zu blocks are left behind", n, mode,
                 (size_t)tracker->live_bytes, (size_t)tracker->n_live);
    }
}

/* Fails allocation after allocation until one attempt comes through. */
static void fail_each(const scenario *s, const outcome *want, bool is_failing_from_then) {
    const char *mode = is_failing_from_then ? "from then on" : "once";
    size_t n = 1;
    for (; n < N_ATTEMPTS_MAX; n++) {
        tdm_alloc_tracker tracker;
        outcome got = {0};
        tdm_error err = {0};
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = n;
        tracker.is_failing_from_then = is_failing_from_then;
        const bool is_told = !is_failing_from_then || n % 2 == 0; /* err may be NULL */
        const tdm_status status = attempt(s, &tracker, &got, is_told ? &err : NULL);
        expect_nothing_left(&tracker, n, mode);
        if (tracker.n_calls < n) { /* never reached: the whole life went well */
            assert_int_equal(status, TDM_OK);
            assert_memory_equal(got.ids, want->ids, sizeof got.ids);
            break;
        }
        const bool is_explained = err.code == TDM_E_NOMEM && err.what[0] != '\0';
        if (status != TDM_E_NOMEM || (is_told && !is_explained)) {
            fail_msg("allocation %zu (%s) fails: status %s, code %s, what \"%s\"", n, mode,
                     tdm_status_name(status), tdm_status_name(err.code), err.what);
        }
    }
    assert_in_range(n, 50, N_ATTEMPTS_MAX - 1);
    (void)printf("%zu allocations failed, %s\n", n - 1, mode);
}

static void run_scenario(const scenario *s) {
    tdm_alloc_tracker tracker;
    outcome want = {0};
    tdm_error err = {0};
    tdm_alloc_tracker_init(&tracker, NULL);
    if (attempt(s, &tracker, &want, &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    expect_nothing_left(&tracker, 0, "no failure");
    assert_int_equal(want.n_ids, N_TOKENS);
    assert_int_equal(want.n_calls_between_tokens, 0);
    fail_each(s, &want, false);
    fail_each(s, &want, true);
}

static void ids_exact_scalar(void **state) {
    char path[SUPPORT_PATH_MAX];
    (void)state;
    run_scenario(
        &(scenario){support_data_path(path, "goldens/llama"), TDM_TIER_EXACT, "scalar", 1, false});
}

static void ids_fast_best_two_threads(void **state) {
    char path[SUPPORT_PATH_MAX];
    (void)state;
    run_scenario(&(scenario){support_data_path(path, "goldens/mistral-sliding"), TDM_TIER_FAST,
                             NULL, 2, false});
}

static void copy_file(const char *from_rel, const char *folder, const char *name) {
    char from[SUPPORT_PATH_MAX];
    char to[SUPPORT_PATH_MAX];
    size_t bytes = 0;
    char *data = support_read_file(support_data_path(from, from_rel), &bytes);
    support_write_file(support_join(to, folder, name), data, bytes);
    free(data);
}

/* Weights of one golden, a tokenizer of another, and a template. */
static void run_with_tokenizer(const char *tokenizer_rel, bool has_text) {
    static const char config[] =
        "{\"eos_token\": \"<|endoftext|>\", \"chat_template\": "
        "\"{% for m in messages %}{{ m['content'] | trim }}{{ '#' }}{% endfor %}\"}";
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    (void)support_temp_folder(folder);
    copy_file("goldens/llama/config.json", folder, "config.json");
    copy_file("goldens/llama/model.safetensors", folder, "model.safetensors");
    copy_file(tokenizer_rel, folder, "tokenizer.json");
    support_write_file(support_join(path, folder, "tokenizer_config.json"), config,
                       sizeof config - 1);
    run_scenario(&(scenario){folder, TDM_TIER_FAST, "scalar", 1, has_text});
    support_remove_folder(folder);
}

/* Text all the way: template, tokenizer, stop texts, streamed pieces. */
static void text_with_byte_level_bpe(void **state) {
    (void)state;
    run_with_tokenizer("tokenizers/gpt2-bytelevel/tokenizer.json", true);
}

static void ids_with_byte_fallback_bpe(void **state) {
    (void)state;
    run_with_tokenizer("tokenizers/llama2-bytefallback/tokenizer.json", false);
}

static void ids_with_unigram(void **state) {
    (void)state;
    run_with_tokenizer("tokenizers/unigram-metaspace/tokenizer.json", false);
}

static void gguf_quantized(void **state) {
    char path[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(path, "goldens-gguf/quant-q4_0/model.gguf");
    run_scenario(&(scenario){path, TDM_TIER_FAST, "scalar", 1, false});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_exact_scalar),         cmocka_unit_test(ids_fast_best_two_threads),
        cmocka_unit_test(text_with_byte_level_bpe), cmocka_unit_test(ids_with_byte_fallback_bpe),
        cmocka_unit_test(ids_with_unigram),         cmocka_unit_test(gguf_quantized),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
