/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem quantize: a smaller copy of a checkpoint, and how far it is from the original. */
#include "engine/quantize.h"
#include "cli/find_model.h"
#include "cli/load.h"

#include <string.h>
#include <unistd.h>

typedef struct quantize_job {
    tdm_cli *cli;
    const char *src_name;
    char src[TDM_PATH_MAX];
    const char *dst;
    tdm_buf recipe;
    tdm_quantize_report report;
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

/* ---- the answer ---- */

static double bits_per_weight(const quantize_job *job) {
    return job->report.n_weights > 0
               ? 8.0 * (double)job->report.bytes / (double)job->report.n_weights
               : 0.0;
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
        const int64_t now = cli->clock->monotonic_ns(cli->clock->ctx);
        const double seconds = (double)(now - job.start_ns) * 1e-9;
        status = cli->is_json ? put_json(&job, seconds, err) : put_plain(&job, seconds, err);
    }
    tdm_buf_deinit(&job.recipe);
    return status;
}
