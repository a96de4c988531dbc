/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden of a real model: a long text, of whose logits the largest 32, the log-sum-exp and the
 * log-probability of the next token are stored; and a prompt with its greedy continuation. The
 * vocabulary is large, so logits are reduced chunk by chunk and never kept.
 *
 * KL is taken over 33 outcomes: the stored ids, and one bucket for everything else. */
#include "base/arith.h"
#include "cli/golden/dump.h"
#include "cli/golden/golden.h"

#include <math.h>
#include <string.h>

typedef struct real {
    const tdm_alloc *alloc;
    const tdm_golden *golden;
    const tdm_golden_setup *setup;
    tdm_hash_stream *hash;
    int32_t n_vocab;
    /* the text: n positions, k stored ids each */
    size_t n, k;
    const int32_t *text_ids, *top_ids; /* [n], [n, k] */
    const float *top_logits;           /* [n, k], descending */
    const float *logsumexp;            /* [n] */
    const float *next_logprob;         /* [n - 1] */
    /* the continuation */
    size_t n_prompt, n_gen;
    const int32_t *prompt_ids, *gen_ids; /* [n_prompt], [n_gen] */
    const float *gen_gap;                /* [n_gen] */
    /* what we computed */
    float *our_top_logits, *our_logsumexp, *our_next; /* [n, k], [n], [n - 1] */
    int32_t *our_top1, *our_forced, *our_free;        /* [n], [n_gen], [n_gen] */
    double kl_sum, kl_max, diff_max, abs_max;
    bool is_hashed;      /* whether what is fed now goes into the hash */
    int32_t last_argmax; /* of the last position fed */
} real;

static tdm_status need(const real *r, const char *name, tdm_dtype dtype, int32_t rank, size_t n,
                       const void **out, int64_t *dims, tdm_error *err) {
    TDM_TRY(tdm_golden_tensor(r->golden, name, dtype, rank, true, out, dims, err));
    if (n > 0 && dims[0] != (int64_t)n) {
        (void)tdm_fail(err, TDM_E_SHAPE, "the golden's %s has %lld rows", name, (long long)dims[0]);
        tdm_err_where(err, "%s", r->golden->path);
        tdm_err_limit(err, "%zu by its ids", n);
        return TDM_E_SHAPE;
    }
    return TDM_OK;
}

static tdm_status check_top_ids(const real *r, tdm_error *err) {
    for (size_t i = 0; i < r->n * r->k; i++) {
        if (r->top_ids[i] < 0 || r->top_ids[i] >= r->n_vocab) {
            (void)tdm_fail(err, TDM_E_SHAPE, "the golden's id %d is outside the model's vocabulary",
                           (int)r->top_ids[i]);
            tdm_err_where(err, "%s, top_ids[%zu]", r->golden->path, i);
            tdm_err_limit(err, "0 to %d", (int)r->n_vocab - 1);
            return TDM_E_SHAPE;
        }
    }
    return TDM_OK;
}

static tdm_status read_tensors(real *r, tdm_error *err) {
    int64_t dims[2] = {0, 0};
    const void *data = NULL;
    TDM_TRY(need(r, "text_ids", TDM_DTYPE_I32, 1, 0, &data, dims, err));
    r->text_ids = data;
    r->n = (size_t)dims[0];
    TDM_TRY(need(r, "top_ids", TDM_DTYPE_I32, 2, r->n, &data, dims, err));
    r->top_ids = data;
    r->k = (size_t)dims[1];
    TDM_TRY(need(r, "top_logits", TDM_DTYPE_F32, 2, r->n, &data, dims, err));
    r->top_logits = data;
    TDM_TRY(need(r, "logsumexp", TDM_DTYPE_F32, 1, r->n, &data, dims, err));
    r->logsumexp = data;
    TDM_TRY(need(r, "next_logprob", TDM_DTYPE_F32, 1, r->n - 1, &data, dims, err));
    r->next_logprob = data;
    TDM_TRY(need(r, "prompt_ids", TDM_DTYPE_I32, 1, 0, &data, dims, err));
    r->prompt_ids = data;
    r->n_prompt = (size_t)dims[0];
    TDM_TRY(need(r, "gen_ids", TDM_DTYPE_I32, 1, 0, &data, dims, err));
    r->gen_ids = data;
    r->n_gen = (size_t)dims[0];
    TDM_TRY(need(r, "gen_gap", TDM_DTYPE_F32, 1, r->n_gen, &data, dims, err));
    r->gen_gap = data;
    if (r->k < 2 || dims[0] < 1) {
        (void)tdm_fail(err, TDM_E_SHAPE, "the golden stores fewer than two ids a position");
        tdm_err_where(err, "%s", r->golden->path);
        return TDM_E_SHAPE;
    }
    return check_top_ids(r, err);
}

/* KL of the stored distribution against ours at position i. */
static double bucket_kl(const real *r, size_t i) {
    const float *truth = r->top_logits + i * r->k;
    const float *ours = r->our_top_logits + i * r->k;
    double rest_p = 1.0;
    double rest_q = 1.0;
    double kl = 0.0;
    for (size_t j = 0; j < r->k; j++) {
        const double log_p = (double)truth[j] - (double)r->logsumexp[i];
        const double log_q = (double)ours[j] - (double)r->our_logsumexp[i];
        kl += exp(log_p) * (log_p - log_q);
        rest_p -= exp(log_p);
        rest_q -= exp(log_q);
    }
    /* What is left of one after 32 roundings of f32 figures is noise below this. */
    if (rest_p > 1e-6) {
        kl += rest_p * log(rest_p / fmax(rest_q, 1e-30));
    }
    return kl;
}

static void reduce_text(void *arg, int64_t pos0, const float *logits, int32_t n) {
    real *r = arg;
    for (int32_t row = 0; row < n; row++) {
        const size_t i = (size_t)(pos0 + row);
        const float *x = logits + (int64_t)row * r->n_vocab;
        const double sum = tdm_row_logsumexp(x, r->n_vocab);
        double kl = 0.0;
        for (size_t j = 0; j < r->k; j++) {
            const size_t at = i * r->k + j;
            const double diff = fabs((double)x[r->top_ids[at]] - (double)r->top_logits[at]);
            r->our_top_logits[at] = x[r->top_ids[at]];
            r->abs_max = fmax(r->abs_max, fabs((double)r->top_logits[at]));
            r->diff_max = diff <= r->diff_max ? r->diff_max : diff;
        }
        r->our_logsumexp[i] = (float)sum;
        r->our_top1[i] = tdm_row_argmax(x, r->n_vocab);
        if (i + 1 < r->n) {
            r->our_next[i] = (float)((double)x[r->text_ids[i + 1]] - sum);
        }
        kl = bucket_kl(r, i);
        r->kl_sum += kl;
        r->kl_max = kl <= r->kl_max ? r->kl_max : kl;
    }
    tdm_hash_stream_update(r->hash, logits, (size_t)n * (size_t)r->n_vocab * sizeof(float));
}

static void keep_argmax(void *arg, int64_t pos0, const float *logits, int32_t n) {
    real *r = arg;
    const float *last = logits + (int64_t)(n - 1) * r->n_vocab;
    (void)pos0;
    r->last_argmax = tdm_row_argmax(last, r->n_vocab);
    if (r->is_hashed) { /* only the row that a token is taken from belongs to the continuation */
        tdm_hash_stream_update(r->hash, last, (size_t)r->n_vocab * sizeof(float));
    }
}

static tdm_status run_text(real *r, tdm_error *err) {
    tdm_feeder *feeder = NULL;
    tdm_status status = tdm_feeder_create(&feeder, r->alloc, r->setup, err);
    if (status == TDM_OK) {
        status = tdm_feeder_feed(feeder, r->text_ids, r->n, reduce_text, NULL, r, err);
    }
    tdm_feeder_destroy(feeder);
    return status;
}

/* The greedy continuation: forced feeds the golden's tokens, else our own. */
static tdm_status run_gen(real *r, bool is_forced, int32_t *out_ids, tdm_error *err) {
    tdm_feeder *feeder = NULL;
    const size_t n_head = r->n_prompt - 1;
    tdm_status status = tdm_feeder_create(&feeder, r->alloc, r->setup, err);
    r->is_hashed = false;
    if (status == TDM_OK && n_head > 0) {
        status = tdm_feeder_feed(feeder, r->prompt_ids, n_head, NULL, NULL, NULL, err);
    }
    r->is_hashed = is_forced;
    for (size_t i = 0; i < r->n_gen && status == TDM_OK; i++) {
        const int32_t *next = i == 0      ? r->prompt_ids + n_head
                              : is_forced ? r->gen_ids + i - 1
                                          : out_ids + i - 1;
        status = tdm_feeder_feed(feeder, next, 1, keep_argmax, NULL, r, err);
        out_ids[i] = r->last_argmax;
    }
    tdm_feeder_destroy(feeder);
    return status;
}

static void write_f64(tdm_json_writer *w, const char *key, double value) {
    tdm_json_write_key(w, key);
    tdm_json_write_f64(w, value, 9);
}

static void write_u64(tdm_json_writer *w, const char *key, size_t value) {
    tdm_json_write_key(w, key);
    tdm_json_write_u64(w, value);
}

static double share(size_t n, size_t all) {
    return all > 0 ? (double)n / (double)all : (double)NAN;
}

static void write_text_results(const real *r, tdm_json_writer *w) {
    const double gap_min = 2.0 * r->setup->bound * r->abs_max;
    size_t n_equal = 0;
    size_t n_clear = 0;
    size_t n_agree = 0;
    double nll = 0.0;
    double nll_golden = 0.0;
    for (size_t i = 0; i < r->n; i++) {
        const float *top = r->top_logits + i * r->k;
        const bool is_equal = r->our_top1[i] == r->top_ids[i * r->k];
        const bool is_clear = (double)top[0] - (double)top[1] > gap_min;
        n_equal += is_equal ? 1U : 0U;
        n_clear += is_clear ? 1U : 0U;
        n_agree += is_clear && is_equal ? 1U : 0U;
        if (i + 1 < r->n) {
            nll -= (double)r->our_next[i];
            nll_golden -= (double)r->next_logprob[i];
        }
    }
    write_u64(w, "positions", r->n);
    write_f64(w, "max_rel", r->diff_max / r->abs_max);
    write_f64(w, "kl_mean", r->kl_sum / (double)r->n);
    write_f64(w, "kl_max", r->kl_max);
    write_f64(w, "top1_agreement", share(n_equal, r->n));
    write_f64(w, "argmax_agree", share(n_agree, n_clear));
    write_u64(w, "argmax_positions", n_clear);
    write_f64(w, "nll", nll / (double)(r->n - 1));
    write_f64(w, "nll_golden", nll_golden / (double)(r->n - 1));
    write_f64(w, "nll_rel", nll / nll_golden - 1.0);
}

static void write_gen_results(const real *r, tdm_json_writer *w) {
    const double gap_min = 2.0 * r->setup->bound * r->abs_max;
    size_t n_clear = 0;
    size_t n_agree = 0;
    size_t n_forced = 0;
    size_t n_free = 0;
    size_t first = r->n_gen;
    for (size_t i = 0; i < r->n_gen; i++) {
        const bool is_equal = r->our_forced[i] == r->gen_ids[i];
        const bool is_clear = (double)r->gen_gap[i] > gap_min;
        n_forced += is_equal ? 1U : 0U;
        n_clear += is_clear ? 1U : 0U;
        n_agree += is_clear && is_equal ? 1U : 0U;
        if (r->our_free[i] == r->gen_ids[i]) {
            n_free++;
        } else if (first == r->n_gen) {
            first = i;
        }
    }
    write_f64(w, "gen_agree", share(n_agree, n_clear));
    write_u64(w, "gen_positions", n_clear);
    write_u64(w, "n_gen", r->n_gen);
    write_u64(w, "gen_forced_equal", n_forced);
    write_u64(w, "gen_free_equal", n_free);
    tdm_json_write_key(w, "gen_first_difference");
    if (first < r->n_gen) {
        tdm_json_write_u64(w, first);
    } else {
        tdm_json_write_null(w);
    }
}

static void write_results(const real *r, tdm_json_writer *w) {
    char text[24];
    write_text_results(r, w);
    write_gen_results(r, w);
    tdm_json_write_key(w, "first_bad_layer");
    tdm_json_write_null(w);
    (void)snprintf(text, sizeof text, "%016llx",
                   (unsigned long long)tdm_hash_stream_digest(r->hash));
    tdm_json_write_key(w, "logits_hash");
    tdm_json_write_cstr(w, text);
}

static tdm_status write_dump(const real *r, const char *path, tdm_error *err) {
    const tdm_dump_tensor tensors[] = {
        {"top_logits", "F32", 2, {r->n, r->k}, r->our_top_logits},
        {"logsumexp", "F32", 1, {r->n, 0}, r->our_logsumexp},
        {"next_logprob", "F32", 1, {r->n - 1, 0}, r->our_next},
        {"top1", "I32", 1, {r->n, 0}, r->our_top1},
        {"gen_ids", "I32", 1, {r->n_gen, 0}, r->our_free},
    };
    return tdm_dump_write(tdm_fs_system(), path, tensors, sizeof tensors / sizeof tensors[0], err);
}

static tdm_status allocate(real *r, tdm_arena *arena, tdm_error *err) {
    r->hash = tdm_hash_stream_create();
    r->our_top_logits = tdm_arena_calloc(arena, r->n * r->k, sizeof(float));
    r->our_logsumexp = tdm_arena_calloc(arena, r->n, sizeof(float));
    r->our_next = tdm_arena_calloc(arena, r->n, sizeof(float));
    r->our_top1 = tdm_arena_calloc(arena, r->n, sizeof(int32_t));
    r->our_forced = tdm_arena_calloc(arena, r->n_gen, sizeof(int32_t));
    r->our_free = tdm_arena_calloc(arena, r->n_gen, sizeof(int32_t));
    return r->hash != NULL && r->our_top_logits != NULL && r->our_logsumexp != NULL &&
                   r->our_next != NULL && r->our_top1 != NULL && r->our_forced != NULL &&
                   r->our_free != NULL
               ? TDM_OK
               : tdm_fail_nomem(err, "the computed figures");
}

tdm_status tdm_golden_compare_real(const tdm_golden *golden, const tdm_alloc *alloc,
                                   const tdm_golden_setup *setup, const char *dump,
                                   tdm_json_writer *w, tdm_error *err) {
    real r = {
        .alloc = alloc, .golden = golden, .setup = setup, .n_vocab = setup->graph->facts.n_vocab};
    tdm_arena arena;
    tdm_status status = TDM_OK;
    tdm_arena_init(&arena, alloc);
    TDM_TRY_GOTO(status, read_tensors(&r, err), done);
    TDM_TRY_GOTO(status, allocate(&r, &arena, err), done);
    TDM_TRY_GOTO(status, run_text(&r, err), done);
    TDM_TRY_GOTO(status, run_gen(&r, true, r.our_forced, err), done);
    TDM_TRY_GOTO(status, run_gen(&r, false, r.our_free, err), done);
    write_results(&r, w);
    if (dump != NULL) {
        status = write_dump(&r, dump, err);
    }
done:
    tdm_hash_stream_destroy(r.hash);
    tdm_arena_deinit(&arena);
    return status;
}
