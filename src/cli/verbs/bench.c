/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem bench: prefill, decode and batched decode, as llama-bench counts them: prefill computes
 * the last token's logits only, prompts are drawn ids, decode starts from n_depth positions and
 * feeds its own greedy tokens. Repeats of all tests run interleaved (A B C, A B C, ...), each right
 * after a pass of the read-only probe, so that a busy machine shows in both. With --phases each
 * test runs once and tells its operations instead. */
#include "base/hash.h"
#include "base/random.h"
#include "cli/bench_probe.h"
#include "cli/load.h"
#include "cli/probe.h"
#include "cli/verbs/bench_formats.h"
#include "cli/verbs/bench_phases.h"
#include "engine/engine.h"
#include "tensor/ops.h"

#include <math.h>
#include <string.h>

#define N_BATCH 512

typedef struct test {
    int32_t n_prompt, n_gen; /* one of them is 0 */
    int32_t n_depth, n_seq;
    tdm_state **states; /* [n_seq] kept between repeats */
    double *ns, *gbs;   /* [repeats] */
    uint64_t hash;
    bool has_hash;
} test;

typedef struct bench_job {
    tdm_cli *cli;
    tdm_arena arena; /* tests and samples */
    test *tests;
    size_t n_tests;
    size_t n_repeats;
    int32_t n_seq_max;
    /* of the model that is open */
    tdm_model *model;
    tdm_engine_parts parts;
    tdm_model_facts facts;
    tdm_probe probe;
    float *logits; /* [n_seq_max, n_vocab] */
    int32_t *ids;  /* [N_BATCH] scratch */
    int32_t *next; /* [n_seq_max] */
    tdm_step_row *rows;
    size_t step_bytes;  /* of weights that each step reads */
    tdm_phases *phases; /* NULL: not asked for */
    bool has_header;
} bench_job;

/* ---- which tests ---- */

static size_t list_of(const tdm_args *args, tdm_option_id option, int64_t fallback,
                      int64_t out[TDM_OPTION_LIST_MAX]) {
    const tdm_option_value *value = &args->values[option];
    if (!value->is_set) {
        out[0] = fallback;
        return 1;
    }
    memcpy(out, value->items, value->n_items * sizeof *out);
    return value->n_items;
}

static void add_test(bench_job *job, int64_t n_prompt, int64_t n_gen, int64_t n_depth,
                     int64_t n_seq) {
    if (n_prompt > 0 || n_gen > 0) {
        job->tests[job->n_tests++] = (test){.n_prompt = (int32_t)n_prompt,
                                            .n_gen = (int32_t)n_gen,
                                            .n_depth = (int32_t)n_depth,
                                            .n_seq = (int32_t)n_seq};
        job->n_seq_max = n_seq > job->n_seq_max ? (int32_t)n_seq : job->n_seq_max;
    }
}

static tdm_status plan_tests(bench_job *job, tdm_error *err) {
    const tdm_args *args = job->cli->args;
    int64_t p[TDM_OPTION_LIST_MAX];
    int64_t n[TDM_OPTION_LIST_MAX];
    int64_t d[TDM_OPTION_LIST_MAX];
    int64_t b[TDM_OPTION_LIST_MAX];
    const size_t n_p = list_of(args, TDM_OPT_BENCH_PROMPT, 512, p);
    const size_t n_n = list_of(args, TDM_OPT_BENCH_GEN, 128, n);
    const size_t n_d = list_of(args, TDM_OPT_BENCH_DEPTH, 0, d);
    size_t n_b = list_of(args, TDM_OPT_BENCH_BATCH, 1, b);
    if (tdm_args_has(args, TDM_OPT_PHASES) && !tdm_args_has(args, TDM_OPT_BENCH_BATCH)) {
        b[n_b++] = 8; /* one row and a batch have other phases */
    }
    job->tests = tdm_arena_calloc(&job->arena, n_d * (n_p + n_n * n_b), sizeof *job->tests);
    if (job->tests == NULL) {
        return tdm_fail_nomem(err, "the tests");
    }
    for (size_t i = 0; i < n_d; i++) {
        for (size_t j = 0; j < n_p; j++) {
            add_test(job, p[j], 0, d[i], 1);
        }
        for (size_t j = 0; j < n_n * n_b; j++) {
            add_test(job, 0, n[j / n_b], d[i], b[j % n_b]);
        }
    }
    for (size_t i = 0; i < job->n_tests; i++) {
        test *t = &job->tests[i];
        t->ns = tdm_arena_calloc(&job->arena, job->n_repeats, sizeof *t->ns);
        t->gbs = tdm_arena_calloc(&job->arena, job->n_repeats, sizeof *t->gbs);
        t->states = tdm_arena_calloc(&job->arena, (size_t)t->n_seq, sizeof(tdm_state *));
        if (t->ns == NULL || t->gbs == NULL || t->states == NULL) {
            return tdm_fail_nomem(err, "the tests");
        }
    }
    return job->n_tests > 0 ? TDM_OK : tdm_fail(err, TDM_E_ARG, "-p 0 and -n 0 leave no test");
}

/* ---- running ---- */

static int64_t now_ns(const bench_job *job) {
    return job->cli->clock->monotonic_ns(job->cli->clock->ctx);
}

static int32_t draw_id(const bench_job *job, int32_t seq, int64_t position) {
    const uint64_t draw = tdm_random_u64((uint64_t)seq + 1, 0, (uint32_t)position, 0);
    return (int32_t)(draw % (uint64_t)job->facts.n_vocab);
}

static void drop_states(bench_job *job, test *t) {
    for (int32_t i = 0; i < t->n_seq; i++) {
        job->parts.graph->ops->state_destroy(job->parts.graph, t->states[i]);
        t->states[i] = NULL;
    }
}

/* One forward; its phases too where they are asked for. decode's argmax is the step's. */
static tdm_status run_step(bench_job *job, tdm_step step, int32_t *next, tdm_error *err) {
    tdm_graph *graph = job->parts.graph;
    if (job->phases != NULL) {
        step.tap = tdm_phases_tap;
        step.tap_arg = job->phases;
        tdm_phases_step_begin(job->phases);
    }
    TDM_TRY(graph->ops->forward(graph, &step, err));
    if (next != NULL) {
        tdm_op_argmax(job->parts.backend, next, job->logits, job->facts.n_vocab, step.n_rows,
                      job->facts.n_vocab);
    }
    if (job->phases != NULL) {
        tdm_phases_step_end(job->phases);
    }
    return TDM_OK;
}

/* n drawn tokens of one sequence, N_BATCH a step; logits of the last one where wanted. */
static tdm_status prefill(bench_job *job, tdm_state *state, int32_t seq, int32_t n,
                          bool wants_logits, tdm_error *err) {
    for (int32_t at = 0; at < n;) {
        const int32_t n_now = n - at < N_BATCH ? n - at : N_BATCH;
        const bool is_last = at + n_now == n;
        tdm_step_row row = {.phase = TDM_PHASE_PROMPT_CHUNK,
                            .state = state,
                            .tokens = job->ids,
                            .n_tokens = n_now,
                            .logits_from = is_last && wants_logits ? n_now - 1 : n_now};
        const tdm_step step = {.rows = &row, .n_rows = 1, .logits = job->logits};
        for (int32_t i = 0; i < n_now; i++) {
            job->ids[i] = draw_id(job, seq, state->length + i);
        }
        TDM_TRY(run_step(job, step, NULL, err));
        at += n_now;
    }
    return TDM_OK;
}

/* Takes a state back to depth; false when its caches have forgotten too much. */
static bool trim_to(tdm_state *state, int64_t depth) {
    const int64_t n = state->length - depth;
    for (int32_t i = 0; i < state->n_caches; i++) {
        if (!state->caches[i]->ops->can_trim(state->caches[i], n)) {
            return false;
        }
    }
    for (int32_t i = 0; i < state->n_caches; i++) {
        if (state->caches[i]->ops->trim(state->caches[i], n, NULL) != TDM_OK) {
            return false;
        }
    }
    state->length = depth;
    return true;
}

/* Every state of the test at n_depth. */
static tdm_status prepare(bench_job *job, test *t, tdm_error *err) {
    tdm_graph *graph = job->parts.graph;
    for (int32_t i = 0; i < t->n_seq; i++) {
        if (t->states[i] != NULL && trim_to(t->states[i], t->n_depth)) {
            continue;
        }
        graph->ops->state_destroy(graph, t->states[i]);
        t->states[i] = NULL;
        TDM_TRY(graph->ops->state_create(graph, job->parts.kv_dtype, N_BATCH, &t->states[i], err));
        TDM_TRY(prefill(job, t->states[i], i, t->n_depth, false, err));
    }
    return TDM_OK;
}

static tdm_status decode(bench_job *job, test *t, int32_t n, tdm_error *err) {
    const tdm_step step = {.rows = job->rows, .n_rows = t->n_seq, .logits = job->logits};
    for (int32_t i = 0; i < t->n_seq; i++) {
        job->next[i] = draw_id(job, i, t->n_depth);
        job->rows[i] = (tdm_step_row){.phase = TDM_PHASE_DECODE,
                                      .state = t->states[i],
                                      .tokens = &job->next[i],
                                      .n_tokens = 1};
    }
    for (int32_t i = 0; i < n; i++) {
        TDM_TRY(run_step(job, step, job->next, err));
    }
    return TDM_OK;
}

static tdm_status keep_hash(bench_job *job, test *t, tdm_error *err) {
    const size_t n = (size_t)t->n_seq * (size_t)job->facts.n_vocab;
    const uint64_t hash = tdm_hash64(job->logits, n * sizeof(float));
    if (t->has_hash && hash != t->hash) {
        return tdm_fail(err, TDM_E_INTERNAL, "two runs of one test gave different logits");
    }
    t->hash = hash;
    t->has_hash = true;
    return TDM_OK;
}

/* Of the probe: as many bytes as a step reads, since a small model lives in a cache. */
static size_t read_bytes(const bench_job *job) {
    return job->step_bytes < job->probe.bytes ? job->step_bytes : job->probe.bytes;
}

static tdm_status run_test(bench_job *job, test *t, size_t repeat, tdm_error *err) {
    int64_t start = 0;
    tdm_status status = prepare(job, t, err);
    if (status != TDM_OK) {
        return status;
    }
    t->gbs[repeat] = tdm_probe_read_some_gbs(&job->probe, read_bytes(job));
    start = now_ns(job);
    status = t->n_prompt > 0 ? prefill(job, t->states[0], 0, t->n_prompt, true, err)
                             : decode(job, t, t->n_gen, err);
    t->ns[repeat] = (double)(now_ns(job) - start);
    return status == TDM_OK ? keep_hash(job, t, err) : status;
}

/* Pages, caches and the threads' clocks: one short run that is not counted. */
static tdm_status warm_up(bench_job *job, test *t, tdm_error *err) {
    TDM_TRY(prepare(job, t, err));
    if (t->n_prompt > 0) {
        return prefill(job, t->states[0], 0, t->n_prompt < N_BATCH ? t->n_prompt : N_BATCH, true,
                       err);
    }
    return decode(job, t, 1, err);
}

/* ---- telling ---- */

static double mean(const double *x, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
    }
    return sum / (double)n;
}

static double deviation(const double *x, size_t n) {
    const double m = mean(x, n);
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += (x[i] - m) * (x[i] - m);
    }
    return n > 1 ? sqrt(sum / (double)(n - 1)) : 0.0;
}

typedef struct figures {
    double *ts;   /* [repeats] tokens a second */
    double share; /* of the probe's rate; NaN for prefill */
} figures;

/* share: bytes that a step reads, times steps a second, over the rate of the same round. */
static tdm_status reckon(const bench_job *job, const test *t, tdm_arena *arena, figures *out,
                         tdm_error *err) {
    const double n_tokens =
        t->n_prompt > 0 ? (double)t->n_prompt : (double)t->n_gen * (double)t->n_seq;
    double share = 0.0;
    out->ts = tdm_arena_calloc(arena, job->n_repeats, sizeof *out->ts);
    if (out->ts == NULL) {
        return tdm_fail_nomem(err, "the figures");
    }
    for (size_t i = 0; i < job->n_repeats; i++) {
        const double gbs = (double)job->step_bytes * (double)t->n_gen / t->ns[i];
        out->ts[i] = n_tokens * 1e9 / t->ns[i];
        share += gbs / t->gbs[i];
    }
    out->share = t->n_gen > 0 ? share / (double)job->n_repeats : (double)NAN;
    return TDM_OK;
}

static void put_i64(tdm_json_writer *w, const char *key, int64_t value) {
    tdm_json_write_key(w, key);
    tdm_json_write_i64(w, value);
}

static void put_f64(tdm_json_writer *w, const char *key, double value) {
    tdm_json_write_key(w, key);
    tdm_json_write_f64(w, value, 9);
}

static void put_list(tdm_json_writer *w, const char *key, const double *x, size_t n) {
    tdm_json_write_key(w, key);
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < n; i++) {
        tdm_json_write_f64(w, x[i], 9);
    }
    tdm_json_write_end_array(w);
}

static void put_text(tdm_json_writer *w, const char *key, const char *text) {
    tdm_json_write_key(w, key);
    tdm_json_write_cstr(w, text);
}

static void hash_text(uint64_t hash, char out[24]) {
    (void)snprintf(out, 24, "%016llx", (unsigned long long)hash);
}

static tdm_status put_json(bench_job *job, const test *t, const figures *f, tdm_error *err) {
    const size_t n = job->n_repeats;
    char hash[24];
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    hash_text(t->hash, hash);
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    put_text(&w, "model_filename", tdm_checkpoint_path(job->parts.checkpoint));
    put_text(&w, "model_type", job->facts.architecture);
    put_i64(&w, "model_size", (int64_t)job->facts.weight_bytes);
    put_i64(&w, "model_n_params", job->facts.n_params);
    put_text(&w, "backends", job->facts.backend);
    put_text(&w, "tier", job->facts.tier);
    put_text(&w, "type_k", job->facts.kv);
    put_text(&w, "type_v", job->facts.kv);
    put_i64(&w, "n_batch", N_BATCH);
    put_i64(&w, "n_threads", job->facts.n_threads);
    put_i64(&w, "n_prompt", t->n_prompt);
    put_i64(&w, "n_gen", t->n_gen);
    put_i64(&w, "n_depth", t->n_depth);
    put_i64(&w, "n_seq", t->n_seq);
    put_f64(&w, "avg_ns", mean(t->ns, n));
    put_f64(&w, "stddev_ns", deviation(t->ns, n));
    put_f64(&w, "avg_ts", mean(f->ts, n));
    put_f64(&w, "stddev_ts", deviation(f->ts, n));
    put_list(&w, "samples_ns", t->ns, n);
    put_list(&w, "samples_ts", f->ts, n);
    put_f64(&w, "read_gbs", mean(t->gbs, n));
    put_i64(&w, "read_bytes", (int64_t)read_bytes(job));
    put_i64(&w, "step_bytes", (int64_t)job->step_bytes);
    put_f64(&w, "share_of_limit", f->share);
    put_text(&w, "logits_hash", hash);
    status = tdm_cli_finish_json(job->cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

static void test_name(const test *t, char *out, size_t bytes) {
    char seq[24] = "";
    char depth[24] = "";
    if (t->n_seq > 1) {
        (void)snprintf(seq, sizeof seq, " x %d", (int)t->n_seq);
    }
    if (t->n_depth > 0) {
        (void)snprintf(depth, sizeof depth, " @ d%d", (int)t->n_depth);
    }
    (void)snprintf(out, bytes, "%s%d%s%s", t->n_prompt > 0 ? "pp" : "tg",
                   (int)(t->n_prompt > 0 ? t->n_prompt : t->n_gen), seq, depth);
}

static tdm_status put_header(bench_job *job, tdm_error *err) {
    char line[TDM_PATH_MAX + 256];
    (void)snprintf(line, sizeof line,
                   "%s, %s, %.1f MB, %s %s, kv %s, probe %zu MiB\n"
                   "%-20s %7s %20s %12s %9s  %s\n",
                   tdm_path_name(tdm_checkpoint_path(job->parts.checkpoint)),
                   job->facts.architecture, (double)job->facts.weight_bytes * 1e-6,
                   job->facts.backend, job->facts.tier, job->facts.kv, read_bytes(job) >> 20,
                   "test", "threads", "tok/s", "read GB/s", "of limit", "logits");
    job->has_header = true;
    return tdm_out_text(&job->cli->out, line, strlen(line), err);
}

static tdm_status put_plain(bench_job *job, const test *t, const figures *f, tdm_error *err) {
    const size_t n = job->n_repeats;
    char name[64];
    char share[16] = "-";
    char hash[24];
    char line[256];
    if (!job->has_header) {
        TDM_TRY(put_header(job, err));
    }
    test_name(t, name, sizeof name);
    hash_text(t->hash, hash);
    if (!isnan(f->share)) {
        (void)snprintf(share, sizeof share, "%.1f %%", 100.0 * f->share);
    }
    (void)snprintf(line, sizeof line, "%-20s %7d %10.2f +- %6.2f %12.2f %9s  %s\n", name,
                   (int)job->facts.n_threads, mean(f->ts, n), deviation(f->ts, n), mean(t->gbs, n),
                   share, hash);
    return tdm_out_text(&job->cli->out, line, strlen(line), err);
}

static tdm_status put_results(bench_job *job, tdm_error *err) {
    tdm_arena arena;
    tdm_status status = TDM_OK;
    tdm_arena_init(&arena, job->cli->alloc);
    for (size_t i = 0; i < job->n_tests && status == TDM_OK; i++) {
        figures f = {0};
        status = reckon(job, &job->tests[i], &arena, &f, err);
        if (status == TDM_OK) {
            status = job->cli->is_json ? put_json(job, &job->tests[i], &f, err)
                                       : put_plain(job, &job->tests[i], &f, err);
        }
    }
    tdm_arena_deinit(&arena);
    return status;
}

/* ---- one number of threads ---- */

/* The weights that every token reads: all but an embedding table that is only looked up in. */
static size_t count_step_bytes(const tdm_engine_parts *parts) {
    size_t bytes = 0;
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(parts->checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(parts->checkpoint, i);
        const bool is_table = strcmp(tensor->name, "token_embd.weight") == 0 ||
                              strcmp(tensor->name, "model.embed_tokens.weight") == 0;
        bytes += !is_table || parts->config->is_tied ? tensor->view.bytes : 0;
    }
    return bytes;
}

static tdm_status allocate(bench_job *job, tdm_error *err) {
    const size_t n_seq = (size_t)job->n_seq_max;
    if (job->logits == NULL) {
        job->logits =
            tdm_arena_calloc(&job->arena, n_seq * (size_t)job->facts.n_vocab, sizeof *job->logits);
        job->ids = tdm_arena_calloc(&job->arena, N_BATCH, sizeof *job->ids);
        job->next = tdm_arena_calloc(&job->arena, n_seq, sizeof *job->next);
        job->rows = tdm_arena_calloc(&job->arena, n_seq, sizeof *job->rows);
    }
    if (job->logits == NULL || job->ids == NULL || job->next == NULL || job->rows == NULL) {
        return tdm_fail_nomem(err, "the logits");
    }
    return job->parts.graph->ops->reserve(job->parts.graph,
                                          N_BATCH > job->n_seq_max ? N_BATCH : job->n_seq_max,
                                          job->n_seq_max, job->n_seq_max, err);
}

/* Each test once, as a list of its phases. */
static tdm_status run_phases(bench_job *job, tdm_error *err) {
    char name[64];
    for (size_t i = 0; i < job->n_tests; i++) {
        test *t = &job->tests[i];
        const tdm_phases_test told = {.name = name,
                                      .n_prompt = t->n_prompt,
                                      .n_gen = t->n_gen,
                                      .n_depth = t->n_depth,
                                      .n_seq = t->n_seq,
                                      .n_threads = job->facts.n_threads};
        test_name(t, name, sizeof name);
        TDM_TRY(warm_up(job, t, err));
        TDM_TRY(prepare(job, t, err));
        tdm_phases_start(job->phases);
        TDM_TRY(t->n_prompt > 0 ? prefill(job, t->states[0], 0, t->n_prompt, true, err)
                                : decode(job, t, t->n_gen, err));
        TDM_TRY(tdm_phases_put(job->phases, &told, err));
    }
    return TDM_OK;
}

static tdm_status run_all(bench_job *job, tdm_error *err) {
    TDM_TRY(allocate(job, err));
    if (job->phases != NULL) {
        return run_phases(job, err);
    }
    for (size_t i = 0; i < job->n_tests; i++) {
        TDM_TRY(warm_up(job, &job->tests[i], err));
    }
    for (size_t r = 0; r < job->n_repeats; r++) {
        for (size_t i = 0; i < job->n_tests; i++) {
            TDM_TRY(run_test(job, &job->tests[i], r, err));
        }
    }
    return put_results(job, err);
}

static tdm_status run_threads(bench_job *job, int64_t n_threads, tdm_error *err) {
    tdm_model_options options;
    tdm_status status = TDM_OK;
    tdm_cli_model_options(job->cli, &options);
    options.n_threads = (int32_t)n_threads;
    TDM_TRY(
        tdm_cli_open_model(job->cli, job->cli->args->positional[0], &options, &job->model, err));
    tdm_model_parts(job->model, &job->parts);
    tdm_model_describe(job->model, &job->facts);
    job->step_bytes = count_step_bytes(&job->parts);
    status = tdm_probe_init(&job->probe, job->cli->alloc, job->cli->clock, job->parts.backend->team,
                            err);
    if (status == TDM_OK && tdm_args_has(job->cli->args, TDM_OPT_PHASES)) {
        status = tdm_phases_create(&job->phases, job->cli, job->parts.backend,
                                   job->parts.graph->facts.n_layers, err);
    }
    if (status == TDM_OK) {
        status = run_all(job, err);
    }
    tdm_phases_destroy(job->phases);
    job->phases = NULL;
    for (size_t i = 0; i < job->n_tests; i++) {
        drop_states(job, &job->tests[i]);
    }
    tdm_probe_deinit(&job->probe);
    tdm_model_close(job->model);
    job->model = NULL;
    return status;
}

/* --format and --weight-mb belong to --formats; each of the two without a MODEL stands alone. */
static tdm_status check_kind(const tdm_args *args, tdm_error *err) {
    const bool is_probe = tdm_args_has(args, TDM_OPT_PROBE);
    const bool is_formats = tdm_args_has(args, TDM_OPT_BENCH_FORMATS);
    const bool is_model = args->n_positional > 0;
    const char *what = NULL;
    if (!is_formats &&
        (tdm_args_has(args, TDM_OPT_BENCH_FORMAT) || tdm_args_has(args, TDM_OPT_BENCH_MB))) {
        what = "--format and --weight-mb go with --formats";
    } else if (tdm_args_has(args, TDM_OPT_PHASES) && !is_model) {
        what = "--phases are those of a MODEL";
    } else if (is_probe + is_formats + is_model > 1) {
        what = is_probe ? "--probe measures no model" : "--formats measures no model";
    } else if (is_probe + is_formats + is_model == 0) {
        what = "bench needs MODEL";
    }
    if (what == NULL) {
        return TDM_OK;
    }
    (void)tdm_fail(err, TDM_E_ARG, "%s", what);
    tdm_err_where(err, "bench");
    tdm_err_remedy(err, "give a MODEL, --probe alone, or --formats");
    return TDM_E_ARG;
}

tdm_status tdm_verb_bench(tdm_cli *cli, tdm_error *err) {
    bench_job job = {.cli = cli,
                     .n_repeats = (size_t)tdm_args_integer(cli->args, TDM_OPT_REPEATS, 5)};
    int64_t threads[TDM_OPTION_LIST_MAX];
    const size_t n = list_of(cli->args, TDM_OPT_THREADS_LIST, 0, threads);
    tdm_status status = TDM_OK;
    TDM_TRY(check_kind(cli->args, err));
    if (tdm_args_has(cli->args, TDM_OPT_PROBE)) {
        return tdm_bench_probe(cli, err);
    }
    if (tdm_args_has(cli->args, TDM_OPT_BENCH_FORMATS)) {
        for (size_t i = 0; i < n; i++) {
            TDM_TRY(tdm_bench_formats(cli, (int32_t)threads[i], err));
        }
        return TDM_OK;
    }
    tdm_arena_init(&job.arena, cli->alloc);
    status = plan_tests(&job, err);
    for (size_t i = 0; i < n && status == TDM_OK; i++) {
        status = run_threads(&job, threads[i], err);
    }
    tdm_arena_deinit(&job.arena);
    return status;
}
