/* SPDX-License-Identifier: Apache-2.0
 *
 * The plain golden: logits of every prompt position and of a teacher-forced continuation, and,
 * where the golden has them, the hidden states that tell the first wrong layer. */
#include "base/arith.h"
#include "cli/golden/dump.h"
#include "cli/golden/golden.h"

#include <math.h>
#include <string.h>

typedef struct plain {
    const tdm_golden *golden;
    const tdm_golden_setup *setup;
    const int32_t *input_ids, *gen_ids;
    const float *logits, *gen_logits; /* the golden's: [n_prompt, n_vocab], [n_gen, n_vocab] */
    const float *hidden;              /* [n_layers + 1, n_prompt, width] or NULL */
    size_t n_prompt, n_gen;
    int32_t n_vocab, n_layers;
    int64_t width;
    float *ours; /* [n_prompt + n_gen, n_vocab] */
    size_t ours_bytes;
    size_t first_row; /* of ours, where what is fed now goes */
    /* per layer, over the prompt: largest difference, largest value */
    double *layer_diff, *layer_abs;
} plain;

/* What one set of positions amounts to. */
typedef struct tally {
    double diff_max, abs_max;
    size_t diff_at;
    double kl_sum, kl_max;
    size_t n, n_clear, n_agree;
} tally;

static tdm_status check_dims(const plain *p, const char *name, const int64_t *dims, int64_t d0,
                             int64_t d1, tdm_error *err) {
    if (dims[0] == d0 && dims[1] == d1) {
        return TDM_OK;
    }
    (void)tdm_fail(err, TDM_E_SHAPE, "the golden's %s is [%lld, %lld]", name, (long long)dims[0],
                   (long long)dims[1]);
    tdm_err_where(err, "%s", p->golden->path);
    tdm_err_limit(err, "[%lld, %lld] by the ids and the model's vocabulary", (long long)d0,
                  (long long)d1);
    return TDM_E_SHAPE;
}

static tdm_status read_tensors(plain *p, tdm_error *err) {
    const tdm_golden *g = p->golden;
    const tdm_json *about = g->about != NULL ? tdm_json_doc_root(g->about) : NULL;
    const bool is_llama = tdm_json_text_is(tdm_json_get(about, "expect"), "llama_logits");
    const char *names[2] = {is_llama ? "llama_logits" : "logits",
                            is_llama ? "llama_gen_logits" : "gen_logits"};
    int64_t dims[3];
    const void *data = NULL;
    TDM_TRY(tdm_golden_tensor(g, "input_ids", TDM_DTYPE_I32, 1, true, &data, dims, err));
    p->input_ids = data;
    p->n_prompt = (size_t)dims[0];
    TDM_TRY(tdm_golden_tensor(g, "gen_ids", TDM_DTYPE_I32, 1, true, &data, dims, err));
    p->gen_ids = data;
    p->n_gen = (size_t)dims[0];
    TDM_TRY(tdm_golden_tensor(g, names[0], TDM_DTYPE_F32, 2, true, &data, dims, err));
    p->logits = data;
    TDM_TRY(check_dims(p, names[0], dims, (int64_t)p->n_prompt, p->n_vocab, err));
    TDM_TRY(tdm_golden_tensor(g, names[1], TDM_DTYPE_F32, 2, true, &data, dims, err));
    p->gen_logits = data;
    TDM_TRY(check_dims(p, names[1], dims, (int64_t)p->n_gen, p->n_vocab, err));
    if (is_llama) {
        return TDM_OK; /* the hidden states are those of the other truth */
    }
    TDM_TRY(tdm_golden_tensor(g, "hidden", TDM_DTYPE_F32, 3, false, &data, dims, err));
    if (data != NULL && dims[0] == p->n_layers + 1 && dims[1] == (int64_t)p->n_prompt &&
        dims[2] == p->width) {
        p->hidden = data;
    }
    return TDM_OK;
}

static void keep_logits(void *arg, int64_t pos0, const float *logits, int32_t n) {
    plain *p = arg;
    const size_t row = p->first_row + (size_t)pos0;
    memcpy(p->ours + row * (size_t)p->n_vocab, logits,
           (size_t)n * (size_t)p->n_vocab * sizeof(float));
}

/* hidden[0] is the embedding, hidden[i + 1] comes after layer i, the last is after the final norm:
 * the residual after the last layer itself is not there. */
static void compare_hidden(void *arg, int32_t layer, int64_t pos0, const float *hidden, int32_t n,
                           int64_t width) {
    plain *p = arg;
    const int32_t row = layer == p->n_layers ? p->n_layers : layer + 1;
    const int32_t slot = row - 1;
    const float *truth = p->hidden + ((int64_t)row * (int64_t)p->n_prompt + pos0) * width;
    if (layer == p->n_layers - 1) {
        return;
    }
    for (int64_t i = 0; i < (int64_t)n * width; i++) {
        const double diff = fabs((double)hidden[i] - (double)truth[i]);
        if (!(diff <= p->layer_diff[slot])) { /* NaN counts */
            p->layer_diff[slot] = diff;
        }
        p->layer_abs[slot] = fmax(p->layer_abs[slot], fabs((double)truth[i]));
    }
}

static tdm_status run(plain *p, const tdm_alloc *alloc, tdm_error *err) {
    tdm_feeder *feeder = NULL;
    tdm_status status = tdm_feeder_create(&feeder, alloc, p->setup, err);
    const size_t row_bytes = (size_t)p->n_vocab * sizeof(float);
    if (status == TDM_OK) {
        status = tdm_feeder_feed(feeder, p->input_ids, p->n_prompt, keep_logits,
                                 p->hidden != NULL ? compare_hidden : NULL, p, err);
    }
    if (status == TDM_OK) { /* the first token is taken from the last position's logits */
        memcpy(p->ours + p->n_prompt * (size_t)p->n_vocab,
               p->ours + (p->n_prompt - 1) * (size_t)p->n_vocab, row_bytes);
        p->first_row = 1; /* position n_prompt gives row n_prompt + 1 */
    }
    for (size_t i = 0; i + 1 < p->n_gen && status == TDM_OK; i++) {
        status = tdm_feeder_feed(feeder, p->gen_ids + i, 1, keep_logits, NULL, p, err);
    }
    tdm_feeder_destroy(feeder);
    return status;
}

static double row_kl(const float *truth, const float *ours, int32_t n) {
    const double truth_sum = tdm_row_logsumexp(truth, n);
    const double ours_sum = tdm_row_logsumexp(ours, n);
    double kl = 0.0;
    for (int32_t i = 0; i < n; i++) {
        const double log_p = (double)truth[i] - truth_sum;
        kl += exp(log_p) * (log_p - ((double)ours[i] - ours_sum));
    }
    return kl;
}

static double row_gap(const float *row, int32_t n, int32_t best) {
    double second = -HUGE_VAL;
    for (int32_t i = 0; i < n; i++) {
        if (i != best) {
            second = fmax(second, (double)row[i]);
        }
    }
    return (double)row[best] - second;
}

static double largest(const float *rows, size_t n) {
    double max = 0.0;
    for (size_t i = 0; i < n; i++) {
        max = fmax(max, fabs((double)rows[i]));
    }
    return max;
}

/* gap_min: positions with a smaller gap between their two best tokens do not count for agreement.
 */
static tally compare_rows(const float *truth, const float *ours, size_t n, int32_t n_vocab,
                          double gap_min) {
    tally t = {.n = n};
    for (size_t r = 0; r < n; r++) {
        const float *a = truth + r * (size_t)n_vocab;
        const float *b = ours + r * (size_t)n_vocab;
        const int32_t best = tdm_row_argmax(a, n_vocab);
        const double kl = row_kl(a, b, n_vocab);
        for (int32_t i = 0; i < n_vocab; i++) {
            const double diff = fabs((double)a[i] - (double)b[i]);
            if (!(diff <= t.diff_max)) {
                t.diff_max = diff;
                t.diff_at = r;
            }
        }
        t.kl_sum += kl;
        t.kl_max = kl > t.kl_max || isnan(kl) ? kl : t.kl_max;
        if (row_gap(a, n_vocab, best) > gap_min) {
            t.n_clear++;
            t.n_agree += tdm_row_argmax(b, n_vocab) == best ? 1U : 0U;
        }
    }
    return t;
}

static void write_share(tdm_json_writer *w, const char *key, size_t n, size_t all) {
    tdm_json_write_key(w, key);
    tdm_json_write_f64(w, all > 0 ? (double)n / (double)all : (double)NAN, 9);
}

static void write_bad_layer(const plain *p, tdm_json_writer *w) {
    tdm_json_write_key(w, "first_bad_layer");
    for (int32_t i = 0; p->hidden != NULL && i < p->n_layers; i++) {
        if (!(p->layer_diff[i] <= p->setup->bound * p->layer_abs[i])) {
            tdm_json_write_i64(w, i);
            return;
        }
    }
    tdm_json_write_null(w);
}

static tdm_status write_hash(const plain *p, tdm_json_writer *w, tdm_error *err) {
    char text[24];
    tdm_hash_stream *hash = tdm_hash_stream_create();
    if (hash == NULL) {
        return tdm_fail_nomem(err, "a hash");
    }
    tdm_hash_stream_update(hash, p->ours, p->ours_bytes);
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)tdm_hash_stream_digest(hash));
    tdm_hash_stream_destroy(hash);
    tdm_json_write_key(w, "logits_hash");
    tdm_json_write_cstr(w, text);
    return TDM_OK;
}

static tdm_status write_results(const plain *p, tdm_json_writer *w, tdm_error *err) {
    const size_t n_vocab = (size_t)p->n_vocab;
    const double abs_max =
        fmax(largest(p->logits, p->n_prompt * n_vocab), largest(p->gen_logits, p->n_gen * n_vocab));
    const double gap_min = 2.0 * p->setup->bound * abs_max;
    const tally prompt = compare_rows(p->logits, p->ours, p->n_prompt, p->n_vocab, gap_min);
    const tally gen =
        compare_rows(p->gen_logits, p->ours + p->n_prompt * n_vocab, p->n_gen, p->n_vocab, gap_min);
    const bool is_gen_worse = !(gen.diff_max <= prompt.diff_max);
    tdm_json_write_key(w, "positions");
    tdm_json_write_u64(w, p->n_prompt + p->n_gen);
    tdm_json_write_key(w, "n_prompt");
    tdm_json_write_u64(w, p->n_prompt);
    tdm_json_write_key(w, "n_gen");
    tdm_json_write_u64(w, p->n_gen);
    tdm_json_write_key(w, "max_rel");
    tdm_json_write_f64(w, (is_gen_worse ? gen.diff_max : prompt.diff_max) / abs_max, 9);
    tdm_json_write_key(w, "max_rel_position");
    tdm_json_write_u64(w, is_gen_worse ? p->n_prompt + gen.diff_at : prompt.diff_at);
    tdm_json_write_key(w, "kl_mean");
    tdm_json_write_f64(w, (prompt.kl_sum + gen.kl_sum) / (double)(prompt.n + gen.n), 9);
    tdm_json_write_key(w, "kl_max");
    tdm_json_write_f64(
        w, isnan(gen.kl_max) || gen.kl_max > prompt.kl_max ? gen.kl_max : prompt.kl_max, 9);
    write_share(w, "argmax_agree", prompt.n_agree, prompt.n_clear);
    write_share(w, "gen_agree", gen.n_agree, gen.n_clear);
    tdm_json_write_key(w, "argmax_positions");
    tdm_json_write_u64(w, prompt.n_clear);
    tdm_json_write_key(w, "gen_positions");
    tdm_json_write_u64(w, gen.n_clear);
    write_bad_layer(p, w);
    return write_hash(p, w, err);
}

static tdm_status write_dump(const plain *p, const char *path, tdm_error *err) {
    const tdm_dump_tensor tensors[] = {
        {"logits", "F32", 2, {p->n_prompt, (size_t)p->n_vocab}, p->ours},
        {"gen_logits",
         "F32",
         2,
         {p->n_gen, (size_t)p->n_vocab},
         p->ours + p->n_prompt * (size_t)p->n_vocab},
    };
    return tdm_dump_write(tdm_fs_system(), path, tensors, 2, err);
}

static tdm_status allocate(plain *p, const tdm_alloc *alloc, tdm_arena *arena, tdm_error *err) {
    size_t n_rows = 0;
    if (tdm_add_size(p->n_prompt, p->n_gen, &n_rows) &&
        tdm_mul_size(n_rows, (size_t)p->n_vocab * sizeof(float), &p->ours_bytes)) {
        p->ours = tdm_mem_alloc(alloc, p->ours_bytes);
    }
    p->layer_diff = tdm_arena_calloc(arena, (size_t)p->n_layers + 1, sizeof(double));
    p->layer_abs = tdm_arena_calloc(arena, (size_t)p->n_layers + 1, sizeof(double));
    return p->ours != NULL && p->layer_diff != NULL && p->layer_abs != NULL
               ? TDM_OK
               : tdm_fail_nomem(err, "the computed logits");
}

tdm_status tdm_golden_compare(const tdm_golden *golden, const tdm_alloc *alloc,
                              const tdm_golden_setup *setup, const char *dump, tdm_json_writer *w,
                              tdm_error *err) {
    const tdm_graph_facts *facts = &setup->graph->facts;
    plain p = {.golden = golden,
               .setup = setup,
               .n_vocab = facts->n_vocab,
               .n_layers = facts->n_layers,
               .width = facts->hidden};
    tdm_arena arena;
    tdm_status status = TDM_OK;
    tdm_arena_init(&arena, alloc);
    TDM_TRY_GOTO(status, read_tensors(&p, err), done);
    TDM_TRY_GOTO(status, allocate(&p, alloc, &arena, err), done);
    TDM_TRY_GOTO(status, run(&p, alloc, err), done);
    TDM_TRY_GOTO(status, write_results(&p, w, err), done);
    if (dump != NULL) {
        status = write_dump(&p, dump, err);
    }
done:
    tdm_mem_free(alloc, p.ours, p.ours_bytes);
    tdm_arena_deinit(&arena);
    return status;
}
