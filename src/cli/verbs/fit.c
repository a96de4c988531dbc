/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem fit: bytes and speed before anything is loaded. What does not fit is an error with exit
 * code 4, and the figures are printed all the same. */
#include "engine/fit.h"
#include "cli/boot.h"
#include "cli/find_model.h"
#include "cli/load.h"
#include "cli/plan_report.h"
#include "cli/probe.h"
#include "engine/composition.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The probe's buffer must not push what is measured out of memory. */
#define PROBE_ROOM ((size_t)2 << 30)

typedef struct fit_job {
    tdm_cli *cli;
    tdm_fit_report report;
    tdm_plan_caches caches;
    double read_gbs; /* 0: not measured */
} fit_job;

/* "8G", "512M", "1.5GiB", "8589934592": K, M, G, T are powers of 1024. */
static tdm_status read_size(const char *text, size_t *out, tdm_error *err) {
    static const char UNITS[] = "KMGT";
    char *end = NULL;
    double value = isdigit((unsigned char)text[0]) != 0 ? strtod(text, &end) : -1.0;
    const char *unit = NULL;
    if (value > 0.0 && *end != '\0') {
        unit = strchr(UNITS, toupper((unsigned char)*end));
        if (unit != NULL) {
            value *= ldexp(1.0, 10 * (int)(unit - UNITS + 1));
            end++;
            end += strcmp(end, "iB") == 0 ? 2 : strcmp(end, "B") == 0 ? 1 : 0;
        }
    }
    if (!(value >= 1.0) || value > 1e18 || *end != '\0') {
        (void)tdm_fail(err, TDM_E_ARG, "\"%.40s\" is no size", text);
        tdm_err_where(err, "--memory");
        tdm_err_limit(err, "a number above 0, with K, M, G or T");
        return TDM_E_ARG;
    }
    *out = (size_t)value;
    return TDM_OK;
}

static const char *kv_name(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_F32 ? "f32" : "bf16";
}

/* What to do, in one sentence. */
static void advise(const tdm_fit_report *r, char *out, size_t cap) {
    if (r->weight_bytes + r->work_bytes > r->bytes_available) {
        (void)snprintf(out, cap, "the weights alone do not fit: take a smaller quantization");
    } else if (r->is_fitting) {
        (void)snprintf(out, cap, "%d sequence%s of %lld positions would fit together",
                       (int)r->sequences_fitting, r->sequences_fitting == 1 ? "" : "s",
                       (long long)r->context);
    } else if (r->context_fitting > 0) {
        (void)snprintf(out, cap, "--ctx %lld fits%s", (long long)r->context_fitting,
                       r->kv_dtype == TDM_DTYPE_F32 ? "; --kv bf16 halves keys and values" : "");
    } else {
        (void)snprintf(out, cap, "fewer sequences, or a smaller quantization");
    }
}

/* ---- JSON ---- */

static void put_int(tdm_json_writer *w, const char *key, size_t value) {
    tdm_json_write_key(w, key);
    tdm_json_write_u64(w, value);
}

static void put_text(tdm_json_writer *w, const char *key, const char *text) {
    tdm_json_write_key(w, key);
    tdm_json_write_cstr(w, text);
}

static void put_rate(tdm_json_writer *w, const char *key, double value) {
    tdm_json_write_key(w, key);
    if (value > 0.0) {
        tdm_json_write_f64(w, value, 4);
    } else {
        tdm_json_write_null(w);
    }
}

static tdm_status put_json(const fit_job *job, tdm_error *err) {
    const tdm_fit_report *r = &job->report;
    char advice[160];
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    advise(r, advice, sizeof advice);
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    put_int(&w, "weights", r->weight_bytes);
    put_int(&w, "kv", r->kv_bytes);
    put_int(&w, "work", r->work_bytes);
    put_int(&w, "total", r->total_bytes);
    put_int(&w, "available", r->bytes_available);
    put_text(&w, "verdict", r->is_fitting ? "fits" : "does not fit");
    put_text(&w, "advice", advice);
    put_int(&w, "ctx", (size_t)r->context);
    put_int(&w, "ctx_model", (size_t)r->context_max);
    put_int(&w, "ctx_fitting", (size_t)r->context_fitting);
    put_int(&w, "parallel", (size_t)r->n_sequences);
    put_int(&w, "parallel_fitting", (size_t)r->sequences_fitting);
    put_text(&w, "kv_type", kv_name(r->kv_dtype));
    put_text(&w, "tier", tdm_tier_name(r->tier));
    put_text(&w, "backend", r->backend);
    put_int(&w, "weights_packed", r->weights.packed_bytes);
    put_int(&w, "params", (size_t)r->weights.total.n_params);
    put_int(&w, "params_active", (size_t)r->weights.total.n_active);
    put_int(&w, "token_bytes", r->weights.total.token_bytes);
    tdm_plan_put_parts(&w, &r->weights);
    tdm_json_write_key(&w, "state");
    tdm_plan_put_caches(&w, &job->caches);
    put_rate(&w, "read_gbs", job->read_gbs);
    put_rate(&w, "decode_tok_s", tdm_fit_decode_rate(r, job->read_gbs, 0));
    put_rate(&w, "decode_tok_s_full", tdm_fit_decode_rate(r, job->read_gbs, r->context));
    status = tdm_cli_finish_json(job->cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

/* ---- for a person ---- */

static tdm_status plain(const fit_job *job, tdm_buf *buf) {
    const tdm_fit_report *r = &job->report;
    char advice[160];
    advise(r, advice, sizeof advice);
    TDM_TRY(tdm_buf_printf(buf, "%s: %.2f GB of %.2f GB\n", r->is_fitting ? "fits" : "does not fit",
                           (double)r->total_bytes * 1e-9, (double)r->bytes_available * 1e-9));
    TDM_TRY(tdm_buf_printf(buf, "weights     %10.2f MB, of which %.2f MB are repacked copies\n",
                           (double)r->weight_bytes * 1e-6, (double)r->weights.packed_bytes * 1e-6));
    TDM_TRY(tdm_buf_printf(buf, "keys/values %10.2f MB: %d x %lld positions, %s\n",
                           (double)r->kv_bytes * 1e-6, (int)r->n_sequences, (long long)r->context,
                           kv_name(r->kv_dtype)));
    TDM_TRY(tdm_buf_printf(buf, "work        %10.2f MB\n", (double)r->work_bytes * 1e-6));
    TDM_TRY(tdm_plan_print_parts(buf, &r->weights));
    TDM_TRY(tdm_buf_append_text(buf, "one sequence\n"));
    TDM_TRY(tdm_plan_print_caches(buf, &job->caches));
    if (job->read_gbs > 0.0) {
        TDM_TRY(tdm_buf_printf(
            buf, "decode      about %.1f tokens/s, %.1f with the context full, at %.1f GB/s\n",
            tdm_fit_decode_rate(r, job->read_gbs, 0),
            tdm_fit_decode_rate(r, job->read_gbs, r->context), job->read_gbs));
    }
    return tdm_buf_printf(buf, "advice      %s\n", advice);
}

static tdm_status put_plain(const fit_job *job, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    status = plain(job, &buf) == TDM_OK ? tdm_out_bytes(&job->cli->out, buf.data, buf.len, err)
                                        : tdm_fail_nomem(err, "the answer");
    tdm_buf_deinit(&buf);
    return status;
}

/* How fast memory can be read now; not measured where there is little of it. */
static void measure(fit_job *job, tdm_backend *backend) {
    tdm_probe probe;
    if (backend->team == NULL || job->report.bytes_available < PROBE_ROOM ||
        tdm_probe_init(&probe, job->cli->alloc, job->cli->clock, backend->team, NULL) != TDM_OK) {
        return;
    }
    job->read_gbs = tdm_probe_read_gbs(&probe);
    tdm_probe_deinit(&probe);
}

static tdm_status fit(fit_job *job, tdm_alloc_tracker *memory, tdm_backend *backend,
                      const char *path, const tdm_model_options *options, tdm_error *err) {
    const char *size = tdm_args_text(job->cli->args, TDM_OPT_MEMORY);
    tdm_fit_report *r = &job->report;
    tdm_fit_request request = {.n_sequences =
                                   (int32_t)tdm_args_integer(job->cli->args, TDM_OPT_PARALLEL, 1)};
    if (size != NULL) {
        TDM_TRY(read_size(size, &request.bytes_available, err));
    }
    TDM_TRY(tdm_model_fit(r, memory, path, options, backend, &request, err));
    job->caches = (tdm_plan_caches){.n = r->n_caches, .bytes = r->kv_sequence_bytes};
    job->caches.n_donors = r->n_layers;
    for (int32_t i = 0; i < r->n_caches; i++) {
        job->caches.groups[i] = r->caches[i];
        job->caches.token_bytes += r->caches[i].token_bytes;
        job->caches.n_donors -= r->caches[i].n_layers;
    }
    measure(job, backend);
    return TDM_OK;
}

static tdm_status fail_fit(const tdm_fit_report *r, tdm_error *err) {
    char advice[160];
    advise(r, advice, sizeof advice);
    (void)tdm_fail(err, TDM_E_NO_FIT, "%zu bytes are needed, %zu are there", r->total_bytes,
                   r->bytes_available);
    tdm_err_limit(err, "%zu bytes", r->bytes_available);
    tdm_err_remedy(err, "%s", advice);
    return TDM_E_NO_FIT;
}

tdm_status tdm_verb_fit(tdm_cli *cli, tdm_error *err) {
    fit_job job = {.cli = cli};
    tdm_alloc_tracker memory;
    tdm_model_options options;
    tdm_backend *backend = NULL;
    char path[TDM_PATH_MAX];
    tdm_status status = TDM_OK;
    TDM_TRY(tdm_find_model(cli->env, tdm_fs_system(), cli->args->positional[0], path, err));
    tdm_cli_model_options(cli, &options);
    tdm_alloc_tracker_init(&memory, cli->alloc);
    TDM_TRY(tdm_boot_backend(&backend, &memory.alloc, &options, err));
    status = fit(&job, &memory, backend, path, &options, err);
    backend->ops->destroy(backend);
    TDM_TRY(status);
    TDM_TRY(cli->is_json ? put_json(&job, err) : put_plain(&job, err));
    return job.report.is_fitting ? TDM_OK : fail_fit(&job.report, err);
}
