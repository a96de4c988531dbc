/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem quantize: a smaller copy of a checkpoint, and how far it is from the original. */
#include "engine/quantize.h"
#include "cli/find_model.h"
#include "cli/load.h"
#include "engine/compare.h"

#include <string.h>
#include <unistd.h>

typedef struct quantize_job {
    tdm_cli *cli;
    const char *src_name;
    char src[TDM_PATH_MAX];
    const char *dst;
    tdm_buf recipe;
    tdm_quantize_report report;
    tdm_compare_report kl;
    bool has_kl;
    int64_t start_ns, shown_ns;
    bool is_json_progress, is_shown, is_drawn;
} quantize_job;

/* ---- progress ---- */

#define SHOW_EVERY_NS INT64_C(200000000)

static void put_err(const char *text) {
    const ssize_t n = write(STDERR_FILENO, text, strlen(text));
    (void)n; /* progress that cannot be written is not missed */
}

static bool show_progress(void *arg, uint64_t done, uint64_t all) {
    quantize_job *job = arg;
    char line[160];
    const int64_t now = job->cli->clock->monotonic_ns(job->cli->clock->ctx);
    const bool is_time = now - job->shown_ns > SHOW_EVERY_NS || done == all;
    if (is_time && job->is_json_progress) {
        (void)snprintf(line, sizeof line,
                       "{\"progress\":{\"what\":\"quantize\",\"done\":%llu,\"all\":%llu}}\n",
                       (unsigned long long)done, (unsigned long long)all);
        put_err(line);
        job->shown_ns = now;
    } else if (is_time && job->is_shown) {
        const double percent = all > 0 ? 100.0 * (double)done / (double)all : 100.0;
        (void)snprintf(line, sizeof line, "\rquantizing %.1f%% of %.1f MiB", percent,
                       (double)all / 1048576.0);
        put_err(line);
        job->shown_ns = now;
        job->is_drawn = true;
    }
    return tdm_interrupt_is_raised(job->cli->interrupt);
}

static void show_log(void *ctx, tdm_log_level level, const char *text) {
    const quantize_job *job = ctx;
    (void)level;
    tdm_cli_note(job->cli, "warning: %s", text);
}

/* ---- the comparison ---- */

#define KL_TOKENS_MAX ((size_t)1024)

/* Prose, numbers, code and other scripts, so that no part of a vocabulary goes untouched. */
static const char KL_TEXT[] =
    "The library closes at six on weekdays. On Saturday mornings a volunteer reads stories to "
    "children, and in the afternoon the reading room fills with students who prepare for their "
    "examinations. Nobody speaks above a whisper, but the old radiators knock as they warm up.\n\n"
    "In 1854 the engineer measured 3.75 metres of silt below the bridge; a century later it was "
    "5.2 metres, so the river had laid down about 1.5 centimetres a year. What would the depth be "
    "in 2054? If the rate holds, roughly 6.7 metres.\n\n"
    "def mean(values):\n    if not values:\n        raise ValueError(\"no values\")\n"
    "    return sum(values) / len(values)\n\n"
    "Dear Ms. Okafor,\n\nThank you for your letter of 3 March. We are sorry that the parcel "
    "arrived damaged. Please send us a photograph of the box, and we will replace what was broken "
    "within ten days.\n\n"
    "Der Zug nach M\xC3\xBCnchen f\xC3\xA4hrt heute von Gleis sieben. "
    "\xC2\xBFQu\xC3\xA9 hora es? \xC3\x80 bient\xC3\xB4t. "
    "\xE4\xBB\x8A\xE5\xA4\xA9\xE5\xA4\xA9\xE6\xB0\x94\xE5\xBE\x88\xE5\xA5\xBD\xE3\x80\x82\n\n"
    "Water boils at a lower temperature on a mountain because the air presses on it with less "
    "force. A cook who follows the recipe of a village by the sea will find the beans still hard "
    "after an hour, and must be patient.\n";

static tdm_status ids_of_text(const tdm_model *model, const char *text, size_t len, tdm_ids *ids,
                              tdm_error *err) {
    size_t n = 0;
    tdm_status status =
        tdm_model_tokenize(model, text, len, TDM_TEXT_ADD_SPECIAL, NULL, 0, &n, err);
    if (status != TDM_OK && status != TDM_E_LIMIT) {
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        if (tdm_ids_append(ids, 0, 0, 0) != TDM_OK) {
            return tdm_fail_nomem(err, "the ids");
        }
    }
    return tdm_model_tokenize(model, text, len, TDM_TEXT_ADD_SPECIAL, ids->ids, n, &n, err);
}

/* A model without a tokenizer reads ids that are spread over its vocabulary. */
static tdm_status ids_of_no_text(const tdm_model_facts *facts, tdm_ids *ids, tdm_error *err) {
    for (int64_t i = 0; i < 128; i++) {
        const int32_t id = (int32_t)((i * i * 7919 + i * 104729 + 13) % facts->n_vocab);
        if (tdm_ids_append(ids, id, 0, 0) != TDM_OK) {
            return tdm_fail_nomem(err, "the ids");
        }
    }
    return TDM_OK;
}

static tdm_status read_ids(quantize_job *job, const tdm_model *model, tdm_ids *ids,
                           tdm_error *err) {
    const char *path = tdm_args_text(job->cli->args, TDM_OPT_KL_TEXT);
    tdm_model_facts facts;
    tdm_buf text;
    tdm_status status = TDM_OK;
    tdm_model_describe(model, &facts);
    tdm_buf_init(&text, job->cli->alloc, 0);
    if (path != NULL) {
        status = tdm_input_read(&text, path, err);
        status = status == TDM_OK
                     ? tdm_input_check_utf8(text.data, text.len, tdm_input_name(path), err)
                     : status;
        status = status == TDM_OK ? ids_of_text(model, text.data, text.len, ids, err) : status;
    } else if (facts.tokenizer != NULL) {
        status = ids_of_text(model, KL_TEXT, sizeof KL_TEXT - 1, ids, err);
    } else {
        status = ids_of_no_text(&facts, ids, err);
    }
    tdm_buf_deinit(&text);
    if (status == TDM_OK && (int64_t)ids->len > facts.context) {
        ids->len = (size_t)facts.context;
    }
    if (status == TDM_OK && path == NULL && ids->len > KL_TOKENS_MAX) {
        ids->len = KL_TOKENS_MAX;
    }
    return status;
}

/* Exact arithmetic: the difference is the weights' alone. */
static tdm_status compare(quantize_job *job, tdm_error *err) {
    tdm_model_options options = {.tier = "exact", .log_level = TDM_LOG_WARN};
    tdm_model *source = NULL;
    tdm_model *result = NULL;
    tdm_ids ids;
    tdm_status status = TDM_OK;
    options.n_threads = (int32_t)tdm_args_integer(job->cli->args, TDM_OPT_THREADS, 0);
    tdm_ids_init(&ids, job->cli->alloc);
    TDM_TRY_GOTO(status, tdm_cli_open_model(job->cli, job->src, &options, &source, err), done);
    TDM_TRY_GOTO(status, tdm_cli_open_model(job->cli, job->dst, &options, &result, err), done);
    TDM_TRY_GOTO(status, read_ids(job, source, &ids, err), done);
    status = tdm_model_compare(source, result, ids.ids, ids.len, &job->kl, err);
    job->has_kl = status == TDM_OK;
done:
    tdm_model_close(source);
    tdm_model_close(result);
    tdm_ids_deinit(&ids);
    return status;
}

/* The output stands whatever comes of this: a family that does not run here is no failure. */
static tdm_status try_compare(quantize_job *job, tdm_error *err) {
    if (tdm_args_has(job->cli->args, TDM_OPT_NO_KL)) {
        return TDM_OK;
    }
    const tdm_status status = compare(job, err);
    if (status == TDM_OK || status == TDM_E_CANCELLED ||
        tdm_args_has(job->cli->args, TDM_OPT_KL_TEXT)) {
        return status;
    }
    tdm_cli_note(job->cli, "the models were not compared: %s", err->what);
    tdm_err_clear(err);
    return TDM_OK;
}

/* ---- the answer ---- */

static double bits_per_weight(const quantize_job *job) {
    return job->report.n_weights > 0
               ? 8.0 * (double)job->report.bytes / (double)job->report.n_weights
               : 0.0;
}

static void put_real(tdm_json_writer *w, const char *key, double value) {
    tdm_json_write_key(w, key);
    tdm_json_write_f64(w, value, 9);
}

static void put_kl(const quantize_job *job, tdm_json_writer *w) {
    if (!job->has_kl) {
        tdm_json_write_key(w, "kl");
        tdm_json_write_null(w);
        return;
    }
    put_real(w, "kl", job->kl.kl_mean);
    put_real(w, "kl_max", job->kl.kl_max);
    put_real(w, "top1_agreement", job->kl.top1);
    tdm_json_write_key(w, "positions");
    tdm_json_write_i64(w, job->kl.n);
    put_real(w, "nll_source", job->kl.nll_ref);
    put_real(w, "nll", job->kl.nll_test);
}

static tdm_status put_json(quantize_job *job, double seconds, tdm_error *err) {
    const tdm_quantize_report *report = &job->report;
    tdm_buf buf;
    tdm_json_writer w;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "path");
    tdm_json_write_cstr(&w, job->dst);
    tdm_json_write_key(&w, "bytes");
    tdm_json_write_u64(&w, report->bytes);
    tdm_json_write_key(&w, "source_bytes");
    tdm_json_write_u64(&w, report->source_bytes);
    tdm_json_write_key(&w, "weights");
    tdm_json_write_u64(&w, report->n_weights);
    tdm_json_write_key(&w, "bpw");
    tdm_json_write_f64(&w, bits_per_weight(job), 6);
    tdm_json_write_key(&w, "quantized");
    tdm_json_write_u64(&w, report->n_quantized);
    tdm_json_write_key(&w, "kept");
    tdm_json_write_u64(&w, report->n_kept);
    tdm_json_write_key(&w, "files");
    tdm_json_write_u64(&w, report->n_files);
    tdm_json_write_key(&w, "resumed_bytes");
    tdm_json_write_u64(&w, report->resumed_bytes);
    put_kl(job, &w);
    tdm_json_write_key(&w, "seconds");
    tdm_json_write_f64(&w, seconds, 4);
    const tdm_status status = tdm_cli_finish_json(job->cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status put_plain(quantize_job *job, double seconds, tdm_error *err) {
    const tdm_quantize_report *report = &job->report;
    char text[400];
    (void)snprintf(
        text, sizeof text,
        "%.1f MiB of weights (from %.1f MiB), %.3f bits a weight, %zu tensors quantized, "
        "%zu kept, %.1f s\n",
        (double)report->bytes / 1048576.0, (double)report->source_bytes / 1048576.0,
        bits_per_weight(job), report->n_quantized, report->n_kept, seconds);
    TDM_TRY(tdm_out_cstr(&job->cli->out, text, err));
    if (!job->has_kl) {
        return TDM_OK;
    }
    (void)snprintf(
        text, sizeof text,
        "over %lld positions: KL %.6f nats on average, %.4f at most; same likeliest token "
        "%.2f%%; mean negative log-probability %.4f, the source's %.4f\n",
        (long long)job->kl.n, job->kl.kl_mean, job->kl.kl_max, 100.0 * job->kl.top1,
        job->kl.nll_test, job->kl.nll_ref);
    return tdm_out_cstr(&job->cli->out, text, err);
}

/* ---- the run ---- */

static bool is_recipe_name(const char *text) {
    return strncmp(text, "mixed_", 6) == 0 && strchr(text, '.') == NULL &&
           strchr(text, '/') == NULL;
}

static tdm_status read_recipe(quantize_job *job, tdm_quantize_options *options, tdm_error *err) {
    const char *recipe = tdm_args_text(job->cli->args, TDM_OPT_RECIPE);
    if (recipe == NULL) {
        return TDM_OK;
    }
    if (is_recipe_name(recipe)) {
        options->recipe = recipe;
        return TDM_OK;
    }
    TDM_TRY(tdm_input_read(&job->recipe, recipe, err));
    TDM_TRY(tdm_input_check_utf8(job->recipe.data, job->recipe.len, recipe, err));
    options->recipe_text = job->recipe.len > 0 ? job->recipe.data : "";
    options->recipe_len = job->recipe.len;
    options->recipe_name = recipe;
    return TDM_OK;
}

static tdm_status convert(quantize_job *job, tdm_error *err) {
    const tdm_args *args = job->cli->args;
    const char *how = tdm_args_text(args, TDM_OPT_PROGRESS);
    const tdm_log log = {.ctx = job, .write = show_log, .level_min = TDM_LOG_WARN};
    tdm_quantize_options options = {
        .log = &log,
        .gguf = tdm_args_text(args, TDM_OPT_GGUF),
        .mode = tdm_args_text(args, TDM_OPT_MODE),
        .bits = (int32_t)tdm_args_integer(args, TDM_OPT_BITS, 0),
        .group = (int32_t)tdm_args_integer(args, TDM_OPT_GROUP, 0),
        .n_threads = (int32_t)tdm_args_integer(args, TDM_OPT_THREADS, 0),
        .shard_bytes = (uint64_t)tdm_args_integer(args, TDM_OPT_SHARD_MIB, 0) << 20,
        .progress = show_progress,
        .progress_arg = job,
    };
    TDM_TRY(read_recipe(job, &options, err));
    TDM_TRY(tdm_find_model(job->cli->env, tdm_fs_system(), job->src_name, job->src, err));
    job->is_json_progress = how != NULL && strcmp(how, "json") == 0;
    job->is_shown = !job->is_json_progress && (how == NULL || strcmp(how, "none") != 0) &&
                    job->cli->env->is_terminal_err && !job->cli->is_quiet;
    const tdm_status status =
        tdm_quantize(job->cli->alloc, job->src, job->dst, &options, &job->report, err);
    if (job->is_drawn) {
        put_err("\n");
    }
    return status;
}

tdm_status tdm_verb_quantize(tdm_cli *cli, tdm_error *err) {
    quantize_job job = {.cli = cli,
                        .src_name = cli->args->positional[0],
                        .dst = cli->args->positional[1],
                        .start_ns = cli->clock->monotonic_ns(cli->clock->ctx)};
    tdm_buf_init(&job.recipe, cli->alloc, 0);
    tdm_status status = convert(&job, err);
    if (status == TDM_OK) {
        status = try_compare(&job, err);
    }
    if (status == TDM_OK) {
        const int64_t now = cli->clock->monotonic_ns(cli->clock->ctx);
        const double seconds = (double)(now - job.start_ns) * 1e-9;
        status = cli->is_json ? put_json(&job, seconds, err) : put_plain(&job, seconds, err);
    }
    tdm_buf_deinit(&job.recipe);
    return status;
}
