/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine's limits, measured by the threads and instructions that products use. Every figure is
 * the best of a few short runs: a limit is what is reached once, not what a busy machine averages. */
#include "cli/bench_probe.h"

#include "base/cpus.h"
#include "cli/boot.h"
#include "cli/load.h"
#include "cli/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define REPEATS 5
#define PEAK_NS INT64_C(20000000) /* of one run */
#define WAITS 2000
#define SLEEP_NS INT64_C(20000000) /* after which a team sleeps */

typedef struct probe_job {
    tdm_cli *cli;
    tdm_json_writer w;
    tdm_buf buf;
    tdm_backend *backend; /* of the line being measured */
} probe_job;

static int64_t now_ns(const probe_job *job) {
    return job->cli->clock->monotonic_ns(job->cli->clock->ctx);
}

/* The processor's name as Linux tells it. */
static void read_processor(char *out, size_t cap) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    (void)snprintf(out, cap, "unknown");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            (void)snprintf(out, cap, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* Best rate of one kind of arithmetic, 10^9 operations a second; 0: the set has none. */
static double measure_peak(const probe_job *job, tdm_peak kind) {
    const tdm_backend_ops *ops = job->backend->ops;
    int64_t n_rounds = 1000;
    int64_t ns = 0;
    double best = 0.0;
    for (;; n_rounds *= 2) {
        const int64_t start = now_ns(job);
        if (ops->peak(job->backend, kind, n_rounds) <= 0.0) {
            return 0.0;
        }
        ns = now_ns(job) - start;
        if (ns >= PEAK_NS) {
            break;
        }
    }
    for (int i = 0; i < REPEATS; i++) {
        const int64_t start = now_ns(job);
        const double operations = ops->peak(job->backend, kind, n_rounds);
        ns = now_ns(job) - start;
        best = fmax(best, operations / (double)(ns > 0 ? ns : 1));
    }
    return best;
}

static void nothing(void *arg, int32_t idx, int32_t n) {
    (void)arg;
    (void)idx;
    (void)n;
}

/* Microseconds of a phase in which nobody has anything to do: awake, and after a sleep. */
static void measure_waits(const probe_job *job, double *out_barrier_us, double *out_wake_us) {
    *out_barrier_us = HUGE_VAL;
    *out_wake_us = HUGE_VAL;
    for (int r = 0; r < REPEATS; r++) {
        int64_t start = now_ns(job);
        for (int i = 0; i < WAITS; i++) {
            tdm_team_run(job->backend->team, nothing, NULL);
        }
        *out_barrier_us = fmin(*out_barrier_us, (double)(now_ns(job) - start) * 1e-3 / WAITS);
        job->cli->clock->sleep_ns(job->cli->clock->ctx, SLEEP_NS);
        start = now_ns(job);
        tdm_team_run(job->backend->team, nothing, NULL);
        *out_wake_us = fmin(*out_wake_us, (double)(now_ns(job) - start) * 1e-3);
    }
}

static tdm_status say(const probe_job *job, const char *line, tdm_error *err) {
    return job->cli->is_json ? TDM_OK : tdm_out_text(&job->cli->out, line, strlen(line), err);
}

static void put(probe_job *job, const char *key, double value) {
    tdm_json_write_key(&job->w, key);
    tdm_json_write_f64(&job->w, value, 6);
}

static void put_whole(probe_job *job, const char *key, int64_t value) {
    tdm_json_write_key(&job->w, key);
    tdm_json_write_i64(&job->w, value);
}

/* Reads of each size, and waits, at one number of threads. */
static tdm_status probe_memory(probe_job *job, int32_t n_threads, tdm_error *err) {
    static const size_t MIB[] = {1, 4, 16, 64, 512};
    tdm_probe probe;
    double barrier_us = 0.0;
    double wake_us = 0.0;
    char line[160];
    TDM_TRY(tdm_probe_init(&probe, job->cli->alloc, job->cli->clock, job->backend->team, err));
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < sizeof MIB / sizeof MIB[0] && status == TDM_OK; i++) {
        double best = 0.0;
        for (int r = 0; r < REPEATS; r++) {
            best = fmax(best, tdm_probe_read_some_gbs(&probe, MIB[i] << 20));
        }
        (void)snprintf(line, sizeof line, "read   %3d threads  %4zu MiB  %8.1f GB/s\n",
                       (int)n_threads, MIB[i], best);
        tdm_json_write_begin_object(&job->w);
        put_whole(job, "threads", n_threads);
        put_whole(job, "bytes", (int64_t)(MIB[i] << 20));
        put(job, "read_gbs", best);
        tdm_json_write_end_object(&job->w);
        status = say(job, line, err);
    }
    tdm_probe_deinit(&probe);
    TDM_TRY(status);
    measure_waits(job, &barrier_us, &wake_us);
    (void)snprintf(line, sizeof line, "wait   %3d threads  phase %.2f us, after a sleep %.1f us\n",
                   (int)n_threads, barrier_us, wake_us);
    tdm_json_write_begin_object(&job->w);
    put_whole(job, "threads", n_threads);
    put(job, "barrier_us", barrier_us);
    put(job, "wake_us", wake_us);
    tdm_json_write_end_object(&job->w);
    return say(job, line, err);
}

/* What the set has no instruction for is left out. */
static tdm_status probe_arithmetic(probe_job *job, const char *isa, int32_t n_threads,
                                   tdm_error *err) {
    static const struct {
        tdm_peak kind;
        const char *name, *unit, *key;
    } KINDS[] = {{TDM_PEAK_F32, "f32", "GFLOP/s", "f32_gops"},
                 {TDM_PEAK_INT8, "int8", "GOP/s", "int8_gops"},
                 {TDM_PEAK_BF16, "bf16", "GFLOP/s", "bf16_gops"}};
    double rates[sizeof KINDS / sizeof KINDS[0]];
    char texts[sizeof KINDS / sizeof KINDS[0]][48] = {{0}};
    double largest = 0.0;
    char line[192];
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        rates[i] = measure_peak(job, KINDS[i].kind);
        largest = fmax(largest, rates[i]);
        if (rates[i] > 0.0) {
            (void)snprintf(texts[i], sizeof texts[i], "  %s %8.1f %s", KINDS[i].name, rates[i],
                           KINDS[i].unit);
        }
    }
    if (largest <= 0.0) {
        return TDM_OK;
    }
    (void)snprintf(line, sizeof line, "peak   %3d threads  %-8s%s%s%s\n", (int)n_threads, isa,
                   texts[0], texts[1], texts[2]);
    tdm_json_write_begin_object(&job->w);
    put_whole(job, "threads", n_threads);
    tdm_json_write_key(&job->w, "isa");
    tdm_json_write_cstr(&job->w, isa);
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        if (rates[i] > 0.0) {
            put(job, KINDS[i].key, rates[i]);
        }
    }
    tdm_json_write_end_object(&job->w);
    return say(job, line, err);
}

/* Every set that the machine has, then memory with the best of them. */
static tdm_status probe_threads(probe_job *job, int32_t n_threads, tdm_error *err) {
    static const char *const SETS[] = {"scalar", "avx2", "avxvnni",  "avx512",
                                       "amx",    "neon", "neon-dot", "best"};
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < sizeof SETS / sizeof SETS[0] && status == TDM_OK; i++) {
        const bool is_last = i + 1 == sizeof SETS / sizeof SETS[0];
        tdm_model_options options;
        tdm_cli_model_options(job->cli, &options);
        options.n_threads = n_threads;
        options.isa = SETS[i];
        status = tdm_boot_backend(&job->backend, job->cli->alloc, &options, err);
        if (status == TDM_E_UNSUPPORTED && !is_last) {
            status = TDM_OK; /* not on this machine, or not in this build */
            continue;
        }
        if (status == TDM_OK) {
            status = is_last ? probe_memory(job, n_threads, err)
                             : probe_arithmetic(job, SETS[i], n_threads, err);
            job->backend->ops->destroy(job->backend);
        }
    }
    return status;
}

static tdm_status probe_all(probe_job *job, tdm_error *err) {
    const tdm_option_value *threads = &job->cli->args->values[TDM_OPT_THREADS_LIST];
    const int32_t n_cores = tdm_cpu_count();
    if (threads->is_set) {
        for (size_t i = 0; i < threads->n_items; i++) {
            TDM_TRY(probe_threads(job, (int32_t)threads->items[i], err));
        }
        return TDM_OK;
    }
    for (int32_t n = 1; n < n_cores; n *= 2) {
        TDM_TRY(probe_threads(job, n, err));
    }
    return probe_threads(job, n_cores, err);
}

tdm_status tdm_bench_probe(tdm_cli *cli, tdm_error *err) {
    probe_job job = {.cli = cli};
    char processor[128];
    char line[192];
    tdm_status status = TDM_OK;
    read_processor(processor, sizeof processor);
    (void)snprintf(line, sizeof line, "%s, %d cores\n", processor, (int)tdm_cpu_count());
    tdm_buf_init(&job.buf, cli->alloc, 0);
    tdm_json_writer_init(&job.w, &job.buf);
    tdm_json_write_begin_object(&job.w);
    tdm_json_write_key(&job.w, "processor");
    tdm_json_write_cstr(&job.w, processor);
    put_whole(&job, "cores", tdm_cpu_count());
    tdm_json_write_key(&job.w, "limits");
    tdm_json_write_begin_array(&job.w);
    status = say(&job, line, err);
    if (status == TDM_OK) {
        status = probe_all(&job, err);
    }
    tdm_json_write_end_array(&job.w);
    if (status == TDM_OK && cli->is_json) {
        status = tdm_cli_finish_json(cli, &job.w, err);
    }
    tdm_buf_deinit(&job.buf);
    return status;
}
