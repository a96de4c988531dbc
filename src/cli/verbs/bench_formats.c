/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem bench --formats: one row against a weight of each storage format, weights of random bits
 * that no cache holds. A round is a pass of the read-only probe, then the product in Q4_0, then the
 * product in the format, so that a busy minute meets all three; the figures are medians over rounds.
 * Rates count the bytes of the file, whatever the backend keeps: a format that is kept wider pays for
 * it here. */
#include "cli/verbs/bench_formats.h"

#include "base/arith.h"
#include "base/hash.h"
#include "base/random.h"
#include "cli/boot.h"
#include "cli/load.h"
#include "cli/probe.h"
#include "tensor/block.h"
#include "tensor/dequant.h"
#include "tensor/half.h"
#include "tensor/ops.h"
#include "tensor/weight.h"

#include <stdlib.h>
#include <string.h>

#define N_IN 4096
#define ROUNDS_MAX 1000

typedef struct format {
    tdm_weight_mode mode;
    tdm_dtype dtype; /* PLAIN */
    int32_t bits, group;
} format;

static const format GROUPED[] = {
    {TDM_WEIGHT_AFFINE, TDM_DTYPE_U32, 1, 64},  {TDM_WEIGHT_AFFINE, TDM_DTYPE_U32, 2, 64},
    {TDM_WEIGHT_AFFINE, TDM_DTYPE_U32, 3, 64},  {TDM_WEIGHT_AFFINE, TDM_DTYPE_U32, 4, 32},
    {TDM_WEIGHT_AFFINE, TDM_DTYPE_U32, 4, 64},  {TDM_WEIGHT_AFFINE, TDM_DTYPE_U32, 4, 128},
    {TDM_WEIGHT_AFFINE, TDM_DTYPE_U32, 5, 64},  {TDM_WEIGHT_AFFINE, TDM_DTYPE_U32, 6, 64},
    {TDM_WEIGHT_AFFINE, TDM_DTYPE_U32, 8, 64},  {TDM_WEIGHT_MXFP4, TDM_DTYPE_U32, 4, 32},
    {TDM_WEIGHT_MXFP8, TDM_DTYPE_U32, 8, 32},   {TDM_WEIGHT_NVFP4, TDM_DTYPE_U32, 4, 16},
    {TDM_WEIGHT_FP8, TDM_DTYPE_F8_E4M3, 8, 128}};

/* A weight in memory of its own. */
typedef struct subject {
    char name[32];
    uint8_t *parts[3]; /* codes, scales, biases */
    size_t bytes[3];
    tdm_weight weight;
    float *out; /* [n_out] */
} subject;

typedef struct formats_bench {
    tdm_cli *cli;
    tdm_backend *backend;
    tdm_probe probe;
    size_t weight_bytes; /* about, of a file's weight */
    size_t n_rounds;
    const char *only; /* NULL: all */
    float *x;         /* [N_IN] */
    subject reference;
    bool has_header;
} formats_bench;

typedef struct rounds {
    double gbs[ROUNDS_MAX];
    double read_gbs[ROUNDS_MAX];
    double share[ROUNDS_MAX];
    double of_reference[ROUNDS_MAX]; /* share over Q4_0's of the same round */
} rounds;

static uint8_t *random_bytes(const formats_bench *b, size_t bytes) {
    uint8_t *data = tdm_mem_alloc_aligned(b->cli->alloc, bytes, TDM_ALIGN_CACHE_LINE);
    uint64_t state = 1;
    for (size_t i = 0; data != NULL && i < bytes; ++i) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        data[i] = (uint8_t)(state >> 56);
    }
    return data;
}

static void subject_free(const formats_bench *b, subject *s) {
    tdm_weight_deinit(b->backend, &s->weight);
    for (int i = 0; i < 3; ++i) {
        tdm_mem_free_aligned(b->cli->alloc, s->parts[i], s->bytes[i], TDM_ALIGN_CACHE_LINE);
    }
    tdm_mem_free(b->cli->alloc, s->out, (size_t)s->weight.n_out * sizeof *s->out);
    memset(s, 0, sizeof *s);
}

static size_t file_bytes(const subject *s) {
    return s->bytes[0] + s->bytes[1] + s->bytes[2];
}

/* Bytes of each tensor for one row, on average; fp8's scales are of 128 rows. */
static void row_bytes_of(const format *f, int64_t out[3]) {
    const tdm_dtype_info *info = &TDM_DTYPES[f->dtype];
    bool is_affine = f->mode == TDM_WEIGHT_AFFINE;
    out[0] = N_IN / (int64_t)info->block_weights * (int64_t)info->block_bytes;
    out[1] = 0;
    out[2] = 0;
    if (f->mode != TDM_WEIGHT_PLAIN) {
        out[0] = N_IN / 8 * f->bits;
        out[1] = N_IN / f->group * (is_affine ? 2 : f->mode == TDM_WEIGHT_FP8 ? 4 : 1);
        out[2] = is_affine ? out[1] : 0;
    }
}

/* Scales that keep the values of random codes small and finite. */
static void set_scales(const format *f, subject *s) {
    uint16_t half = tdm_bf16_from_f32(0.01f);
    const float one = 0.01f;
    if (f->mode == TDM_WEIGHT_PLAIN) {
        size_t block = TDM_DTYPES[f->dtype].block_bytes;
        for (size_t at = 0; at < s->bytes[0]; at += block) {
            tdm_block_set_scales(f->dtype, s->parts[0] + at, 0.02f, 0.02f);
        }
        return;
    }
    for (size_t i = 0; f->bits == 8 && f->mode != TDM_WEIGHT_AFFINE && i < s->bytes[0]; ++i) {
        s->parts[0][i] &= 0xbf; /* no NaN */
    }
    for (size_t i = 0; i < s->bytes[1]; ++i) {
        if (f->mode == TDM_WEIGHT_FP8) {
            memcpy(s->parts[1] + i / 4 * 4, &one, sizeof one);
        } else if (f->mode == TDM_WEIGHT_AFFINE) {
            memcpy(s->parts[1] + i / 2 * 2, &half, sizeof half);
            memcpy(s->parts[2] + i / 2 * 2, &half, sizeof half);
        } else {
            s->parts[1][i] = f->mode == TDM_WEIGHT_NVFP4 ? 0x20 : 120;
        }
    }
}

static tdm_weight_source source_of(const format *f, const subject *s, int64_t n_out) {
    tdm_dtype scales = f->mode == TDM_WEIGHT_AFFINE ? TDM_DTYPE_BF16
                       : f->mode == TDM_WEIGHT_FP8  ? TDM_DTYPE_F32
                                                    : TDM_DTYPE_U8;
    tdm_weight_source out = {.mode = f->mode,
                             .bits = f->bits,
                             .group = f->group,
                             .view = {f->dtype, 2, {n_out, N_IN}, s->parts[0], s->bytes[0]}};
    if (f->mode == TDM_WEIGHT_PLAIN) {
        return out;
    }
    if (f->mode == TDM_WEIGHT_FP8) {
        out.group_rows = 128;
        out.scales =
            (tdm_tensor_view){scales, 2, {n_out / 128, N_IN / 128}, s->parts[1], s->bytes[1]};
        return out;
    }
    out.view.dims[1] = N_IN / 32 * f->bits;
    out.scales = (tdm_tensor_view){scales, 2, {n_out, N_IN / f->group}, s->parts[1], s->bytes[1]};
    if (f->mode == TDM_WEIGHT_AFFINE) {
        out.biases = out.scales;
        out.biases.data = s->parts[2];
    }
    return out;
}

static void name_of(const format *f, char *out, size_t bytes) {
    if (f->mode == TDM_WEIGHT_PLAIN) {
        (void)snprintf(out, bytes, "%s", TDM_DTYPES[f->dtype].name);
    } else if (f->mode == TDM_WEIGHT_AFFINE) {
        (void)snprintf(out, bytes, "affine-%d-g%d", (int)f->bits, (int)f->group);
    } else {
        (void)snprintf(out, bytes, "%s", TDM_WEIGHT_MODE_NAMES[f->mode]);
    }
}

static tdm_status subject_make(const formats_bench *b, const format *f, subject *out,
                               tdm_error *err) {
    int64_t row[3];
    memset(out, 0, sizeof *out);
    name_of(f, out->name, sizeof out->name);
    row_bytes_of(f, row);
    int64_t n_out = (int64_t)b->weight_bytes / (row[0] + row[1] + row[2]) / 128 * 128;
    n_out = n_out < 128 ? 128 : n_out;
    for (int i = 0; i < 3; ++i) {
        size_t bytes = (size_t)(n_out * row[i]);
        bytes = i == 1 && f->mode == TDM_WEIGHT_FP8 ? bytes / 128 : bytes;
        if (bytes > 0) {
            out->parts[i] = random_bytes(b, bytes);
            if (out->parts[i] == NULL) {
                return tdm_fail_nomem(err, "a weight to measure");
            }
            out->bytes[i] = bytes;
        }
    }
    set_scales(f, out);
    const tdm_weight_source source = source_of(f, out, n_out);
    TDM_TRY(tdm_weight_init_source(b->backend, &source, &out->weight, err));
    out->out = tdm_mem_calloc(b->cli->alloc, (size_t)n_out, sizeof *out->out);
    return out->out != NULL ? TDM_OK : tdm_fail_nomem(err, "results to measure");
}

/* 10^9 bytes of the file a second. */
static double product_gbs(const formats_bench *b, const subject *s) {
    const tdm_linear_part part = {.weight = &s->weight, .out = s->out, .ld_out = s->weight.n_out};
    int64_t start = b->cli->clock->monotonic_ns(b->cli->clock->ctx);
    tdm_op_linear(b->backend, b->x, N_IN, 1, &part, 1);
    int64_t ns = b->cli->clock->monotonic_ns(b->cli->clock->ctx) - start;
    return (double)file_bytes(s) / (double)(ns > 0 ? ns : 1);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, size_t n) {
    qsort(x, n, sizeof *x, compare);
    return n % 2 == 1 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

static void measure(formats_bench *b, const subject *s, rounds *out) {
    (void)product_gbs(b, s);
    for (size_t r = 0; r < b->n_rounds; ++r) {
        double read = tdm_probe_read_gbs(&b->probe);
        double reference = product_gbs(b, &b->reference) / read;
        out->gbs[r] = product_gbs(b, s);
        out->read_gbs[r] = read;
        out->share[r] = out->gbs[r] / read;
        out->of_reference[r] = out->share[r] / reference;
    }
}

static void put_f64(tdm_json_writer *w, const char *key, double value) {
    tdm_json_write_key(w, key);
    tdm_json_write_f64(w, value, 6);
}

static void put_i64(tdm_json_writer *w, const char *key, int64_t value) {
    tdm_json_write_key(w, key);
    tdm_json_write_i64(w, value);
}

static void put_text(tdm_json_writer *w, const char *key, const char *text) {
    tdm_json_write_key(w, key);
    tdm_json_write_cstr(w, text);
}

static tdm_status put_json(formats_bench *b, const subject *s, rounds *r, const char *hash,
                           tdm_error *err) {
    tdm_buf buf;
    tdm_json_writer w;
    tdm_buf_init(&buf, b->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    put_text(&w, "format", s->name);
    put_text(&w, "backends", b->backend->ops->name(b->backend));
    put_i64(&w, "n_threads", tdm_team_size(b->backend->team));
    put_i64(&w, "n_out", s->weight.n_out);
    put_i64(&w, "n_in", s->weight.n_in);
    put_i64(&w, "file_bytes", (int64_t)file_bytes(s));
    put_i64(&w, "held_bytes",
            (int64_t)(s->weight.packed_bytes > 0 ? s->weight.packed_bytes : file_bytes(s)));
    put_i64(&w, "rounds", (int64_t)b->n_rounds);
    put_f64(&w, "gbs", median(r->gbs, b->n_rounds));
    put_f64(&w, "read_gbs", median(r->read_gbs, b->n_rounds));
    put_f64(&w, "share_of_limit", median(r->share, b->n_rounds));
    put_f64(&w, "share_of_q4_0", median(r->of_reference, b->n_rounds));
    put_text(&w, "hash", hash);
    tdm_status status = tdm_cli_finish_json(b->cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status put_plain(formats_bench *b, const subject *s, rounds *r, const char *hash,
                            tdm_error *err) {
    char line[320];
    size_t held = s->weight.packed_bytes > 0 ? s->weight.packed_bytes : file_bytes(s);
    double n_bits = 8.0 / (double)s->weight.n_out / N_IN;
    if (!b->has_header) {
        (void)snprintf(line, sizeof line,
                       "%s, %d threads, weights of %zu MB, %zu rounds\n"
                       "%-14s %6s %6s %8s %10s %9s %8s  %s\n",
                       b->backend->ops->name(b->backend), (int)tdm_team_size(b->backend->team),
                       b->weight_bytes / 1000000, b->n_rounds, "format", "bits", "held", "GB/s",
                       "read GB/s", "of limit", "of Q4_0", "results");
        b->has_header = true;
        TDM_TRY(tdm_out_text(&b->cli->out, line, strlen(line), err));
    }
    (void)snprintf(line, sizeof line, "%-14s %6.3f %6.3f %8.2f %10.2f %9.3f %8.3f  %s\n", s->name,
                   n_bits * (double)file_bytes(s), n_bits * (double)held,
                   median(r->gbs, b->n_rounds), median(r->read_gbs, b->n_rounds),
                   median(r->share, b->n_rounds), median(r->of_reference, b->n_rounds), hash);
    return tdm_out_text(&b->cli->out, line, strlen(line), err);
}

static tdm_status run_format(formats_bench *b, const format *f, rounds *r, tdm_error *err) {
    subject s;
    char hash[24];
    tdm_status status = TDM_OK;
    char name[32];
    name_of(f, name, sizeof name);
    if (b->only != NULL && strcmp(b->only, name) != 0) {
        return TDM_OK;
    }
    status = subject_make(b, f, &s, err);
    if (status == TDM_OK) {
        measure(b, &s, r);
        (void)snprintf(
            hash, sizeof hash, "%016llx",
            (unsigned long long)tdm_hash64(s.out, (size_t)s.weight.n_out * sizeof *s.out));
        status = b->cli->is_json ? put_json(b, &s, r, hash, err) : put_plain(b, &s, r, hash, err);
    }
    subject_free(b, &s);
    return status;
}

/* Whether a format has the name that was asked for. */
static bool has_format(const char *wanted) {
    char name[32];
    for (size_t i = 0; i < (size_t)TDM_DTYPE_COUNT + sizeof GROUPED / sizeof GROUPED[0]; ++i) {
        const format plain = {TDM_WEIGHT_PLAIN, (tdm_dtype)i, 0, 0};
        if (i < TDM_DTYPE_COUNT && !tdm_dequant_can((tdm_dtype)i)) {
            continue;
        }
        name_of(i < TDM_DTYPE_COUNT ? &plain : &GROUPED[i - TDM_DTYPE_COUNT], name, sizeof name);
        if (strcmp(name, wanted) == 0) {
            return true;
        }
    }
    return false;
}

static tdm_status run_all(formats_bench *b, rounds *r, tdm_error *err) {
    for (int i = 0; i < TDM_DTYPE_COUNT; ++i) {
        const format f = {TDM_WEIGHT_PLAIN, (tdm_dtype)i, 0, 0};
        if (tdm_dequant_can((tdm_dtype)i)) {
            TDM_TRY(run_format(b, &f, r, err));
        }
    }
    for (size_t i = 0; i < sizeof GROUPED / sizeof GROUPED[0]; ++i) {
        TDM_TRY(run_format(b, &GROUPED[i], r, err));
    }
    return TDM_OK;
}

tdm_status tdm_bench_formats(tdm_cli *cli, int32_t n_threads, tdm_error *err) {
    static const format Q4_0 = {TDM_WEIGHT_PLAIN, TDM_DTYPE_Q4_0, 0, 0};
    formats_bench b = {.cli = cli,
                       .n_rounds = (size_t)tdm_args_integer(cli->args, TDM_OPT_REPEATS, 5),
                       .weight_bytes =
                           (size_t)tdm_args_integer(cli->args, TDM_OPT_BENCH_MB, 64) * 1000000,
                       .only = tdm_args_text(cli->args, TDM_OPT_BENCH_FORMAT)};
    tdm_model_options options;
    tdm_status status = TDM_OK;
    if (b.only != NULL && !has_format(b.only)) {
        return tdm_fail(err, TDM_E_ARG, "no format is called %.32s", b.only);
    }
    rounds *r = tdm_mem_calloc(cli->alloc, 1, sizeof *r);
    b.x = tdm_mem_calloc(cli->alloc, N_IN, sizeof *b.x);
    if (r == NULL || b.x == NULL) {
        status = tdm_fail_nomem(err, "the rounds");
        goto done;
    }
    for (uint32_t i = 0; i < N_IN; ++i) {
        b.x[i] = (float)(tdm_random_f64(1, 0, i, 0) - 0.5);
    }
    tdm_cli_model_options(cli, &options);
    options.n_threads = n_threads;
    TDM_TRY_GOTO(status, tdm_boot_backend(&b.backend, cli->alloc, &options, err), done);
    TDM_TRY_GOTO(status, b.backend->ops->reserve(b.backend, 1, N_IN, err), done);
    TDM_TRY_GOTO(status, tdm_probe_init(&b.probe, cli->alloc, cli->clock, b.backend->team, err),
                 done);
    TDM_TRY_GOTO(status, subject_make(&b, &Q4_0, &b.reference, err), done);
    status = run_all(&b, r, err);
done:
    if (b.backend != NULL) {
        subject_free(&b, &b.reference);
        tdm_probe_deinit(&b.probe);
        b.backend->ops->destroy(b.backend);
    }
    tdm_mem_free(cli->alloc, b.x, N_IN * sizeof *b.x);
    tdm_mem_free(cli->alloc, r, sizeof *r);
    return status;
}
