/* SPDX-License-Identifier: Apache-2.0
 *
 * The row sampler: create, history, and the order in which a row of logits becomes a token. The
 * steps themselves live in processors.c, row.c, mirostat.c and draw.c. Everything that a sample
 * needs is allocated by create and accept. */
#include "base/arith.h"
#include "sample/sampler_priv.h"

#include <math.h>

#define HISTORY_FIRST 256

/* An owned copy of a list; NULL stays NULL. False: memory is out. */
static bool copy_list(const tdm_alloc *alloc, const void *list, size_t n, size_t elem_bytes,
                      const void **out) {
    void *copy = NULL;
    *out = NULL;
    if (n == 0) {
        return true;
    }
    copy = tdm_mem_calloc(alloc, n, elem_bytes);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, list, n * elem_bytes); /* n is at most a stated maximum */
    *out = copy;
    return true;
}

static bool copy_lists(tdm_sampler *sampler, const tdm_sampling *from) {
    tdm_sampling *to = &sampler->options;
    const void *exempt = NULL;
    const void *breakers = NULL;
    const void *bias = NULL;
    const bool is_ok =
        copy_list(sampler->alloc, from->xtc_exempt_ids, from->n_xtc_exempt, sizeof(int32_t),
                  &exempt) &&
        copy_list(sampler->alloc, from->dry_breakers, from->n_dry_breakers, sizeof(int32_t),
                  &breakers) &&
        copy_list(sampler->alloc, from->bias, from->n_bias, sizeof(tdm_logit_bias), &bias);
    to->xtc_exempt_ids = exempt;
    to->dry_breakers = breakers;
    to->bias = bias;
    return is_ok;
}

/* Scratch that these options need, and no other. */
static tdm_status make_scratch(tdm_sampler *sampler, tdm_error *err) {
    const tdm_sampling *options = &sampler->options;
    const size_t n = (size_t)sampler->n_vocab;
    bool is_ok = true;
    if (options->temperature > 0.0F) {
        TDM_TRY(tdm_row_init(&sampler->row, sampler->alloc, sampler->n_vocab, err));
    }
    if (options->n_logprobs >= 0 && options->logprobs_is_raw && sampler->has_processors) {
        sampler->raw = tdm_mem_calloc(sampler->alloc, n, sizeof *sampler->raw);
        is_ok = sampler->raw != NULL;
    }
    if (is_ok && (options->repetition_penalty != 1.0F || options->presence_penalty != 0.0F)) {
        sampler->stamps = tdm_mem_calloc(sampler->alloc, n, sizeof *sampler->stamps);
        is_ok = sampler->stamps != NULL;
    }
    if (is_ok && options->dry_multiplier != 0.0F) {
        sampler->longest = tdm_mem_calloc(sampler->alloc, n, sizeof *sampler->longest);
        is_ok = sampler->longest != NULL;
    }
    return is_ok ? TDM_OK : tdm_fail_nomem(err, "the sampler's scratch");
}

tdm_status tdm_sampler_create(tdm_sampler **out, const tdm_alloc *alloc,
                              const tdm_sampling *sampling, int32_t n_vocab, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_sampler *sampler = NULL;
    *out = NULL;
    TDM_TRY(tdm_sampling_check(sampling, n_vocab, err));
    sampler = tdm_mem_calloc(alloc, 1, sizeof *sampler);
    if (sampler == NULL) {
        return tdm_fail_nomem(err, "a sampler");
    }
    sampler->alloc = alloc;
    sampler->options = *sampling;
    sampler->n_vocab = n_vocab;
    sampler->has_processors = sampling->n_bias > 0 || sampling->repetition_penalty != 1.0F ||
                              sampling->presence_penalty != 0.0F ||
                              sampling->frequency_penalty != 0.0F ||
                              sampling->dry_multiplier != 0.0F;
    sampler->mirostat.mu = 2.0 * (double)sampling->mirostat_tau;
    sampler->mirostat.pending_id = -1;
    if (!copy_lists(sampler, sampling)) {
        status = tdm_fail_nomem(err, "the sampler's lists");
        goto done;
    }
    TDM_TRY_GOTO(status, make_scratch(sampler, err), done);
    *out = sampler;
    sampler = NULL;
done:
    tdm_sampler_destroy(sampler);
    return status;
}

/* Frees an owned list that the options point to as const. */
static void free_list(const tdm_alloc *alloc, const void *list, size_t bytes) {
    tdm_mem_free(alloc, (void *)(uintptr_t)list, bytes);
}

void tdm_sampler_destroy(tdm_sampler *sampler) {
    if (sampler == NULL) {
        return;
    }
    const tdm_alloc *alloc = sampler->alloc;
    const tdm_sampling *options = &sampler->options;
    const size_t n = (size_t)sampler->n_vocab;
    free_list(alloc, options->xtc_exempt_ids, options->n_xtc_exempt * sizeof(int32_t));
    free_list(alloc, options->dry_breakers, options->n_dry_breakers * sizeof(int32_t));
    free_list(alloc, options->bias, options->n_bias * sizeof(tdm_logit_bias));
    tdm_row_deinit(&sampler->row, alloc);
    tdm_mem_free(alloc, sampler->raw, n * sizeof *sampler->raw);
    tdm_mem_free(alloc, sampler->stamps, n * sizeof *sampler->stamps);
    tdm_mem_free(alloc, sampler->longest, n * sizeof *sampler->longest);
    tdm_mem_free(alloc, sampler->history, sampler->history_cap * sizeof *sampler->history);
    tdm_mem_free(alloc, sampler->repeats, sampler->history_cap * sizeof *sampler->repeats);
    tdm_mem_free(alloc, sampler, sizeof *sampler);
}

/* Room for cap ids in all. On failure everything is as before. */
static tdm_status grow_history(tdm_sampler *sampler, size_t cap, tdm_error *err) {
    size_t bytes = 0;
    if (cap > INT32_MAX || !tdm_mul_size(cap, sizeof *sampler->history, &bytes)) {
        (void)tdm_fail(err, TDM_E_LIMIT, "a history of %zu tokens", cap);
        tdm_err_limit(err, "%d tokens", INT32_MAX);
        return TDM_E_LIMIT;
    }
    int32_t *history = tdm_mem_alloc(sampler->alloc, bytes);
    int32_t *repeats = NULL;
    if (history != NULL && sampler->longest != NULL) {
        repeats = tdm_mem_alloc(sampler->alloc, bytes);
        if (repeats == NULL) {
            tdm_mem_free(sampler->alloc, history, bytes);
            history = NULL;
        }
    }
    if (history == NULL) {
        return tdm_fail_nomem(err, "the sampler's history");
    }
    if (sampler->n_history > 0) {
        memcpy(history, sampler->history, sampler->n_history * sizeof *history);
    }
    tdm_mem_free(sampler->alloc, sampler->history, sampler->history_cap * sizeof *history);
    tdm_mem_free(sampler->alloc, sampler->repeats, sampler->history_cap * sizeof *repeats);
    sampler->history = history;
    sampler->repeats = repeats;
    sampler->history_cap = cap;
    return TDM_OK;
}

tdm_status tdm_sampler_reserve(tdm_sampler *sampler, size_t n, tdm_error *err) {
    size_t need = 0;
    if (!tdm_add_size(sampler->n_history, n, &need)) {
        need = SIZE_MAX; /* refused below */
    }
    if (need <= sampler->history_cap) {
        return TDM_OK;
    }
    return grow_history(sampler, need, err);
}

void tdm_sampler_rewind(tdm_sampler *sampler, size_t n) {
    TDM_CHECK(n <= sampler->n_history);
    sampler->n_history = n;
    sampler->mirostat.pending_id = -1;
}

tdm_status tdm_sampler_accept(tdm_sampler *sampler, const int32_t *ids, size_t n, tdm_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= sampler->n_vocab) {
            (void)tdm_fail(err, TDM_E_ARG, "token %d entered the sampler's history", ids[i]);
            tdm_err_limit(err, "0 to %d", sampler->n_vocab - 1);
            return TDM_E_ARG;
        }
    }
    if (n > sampler->history_cap - sampler->n_history) {
        size_t cap = sampler->history_cap > 0 ? sampler->history_cap : HISTORY_FIRST;
        while (cap < INT32_MAX / 2 && cap - sampler->n_history < n) {
            cap *= 2;
        }
        if (cap - sampler->n_history < n) { /* past doubling: exactly, or refused */
            TDM_TRY(tdm_sampler_reserve(sampler, n, err));
        } else {
            TDM_TRY(grow_history(sampler, cap, err));
        }
    }
    for (size_t i = 0; i < n; i++) {
        sampler->history[sampler->n_history++] = ids[i];
        tdm_mirostat_accept(&sampler->mirostat, &sampler->options, ids[i]);
    }
    return TDM_OK;
}

/* The truncation chain and the draw over a loaded row. */
static int32_t draw_truncated(tdm_sampler *sampler, const tdm_stream *stream) {
    const tdm_sampling *options = &sampler->options;
    tdm_row *row = &sampler->row;
    float logit = 0.0F;
    if (options->top_n_sigma > 0.0F) {
        tdm_row_cut_top_n_sigma(row, options->top_n_sigma);
    }
    if (options->top_p > 0.0F && options->top_p < 1.0F) {
        tdm_row_cut_top_p(row, options->top_p);
    }
    if (options->min_p > 0.0F) {
        tdm_row_cut_min_p(row, options->min_p, options->min_keep);
    }
    if (options->xtc_probability > 0.0F &&
        tdm_stream_coin(stream) < (double)options->xtc_probability) {
        tdm_row_cut_xtc(row, options->xtc_threshold, options->xtc_exempt_ids,
                        options->n_xtc_exempt);
    }
    if (options->top_k > 0 && options->top_k < sampler->n_vocab) {
        tdm_row_keep_top(row, (size_t)options->top_k);
    }
    return tdm_row_draw(row, options->temperature, stream, &logit);
}

/* Whether a row whose largest value is max holds a finite logit. */
static bool has_finite(const float *logits, int32_t n, float max) {
    if (max < INFINITY) {
        return max > -INFINITY;
    }
    for (int32_t i = 0; i < n; i++) { /* an overflowed row: rare */
        if (isfinite(logits[i])) {
            return true;
        }
    }
    return false;
}

void tdm_sampler_sample(tdm_sampler *sampler, float *logits, uint32_t token_idx, tdm_sampled *out,
                        bool *out_is_finite) {
    const tdm_sampling *options = &sampler->options;
    const tdm_stream stream = {options->seed, options->choice, token_idx};
    const int32_t k = options->n_logprobs;
    float max = 0.0F;
    out->n_top = 0;
    out->logprob = NAN;
    if (sampler->raw != NULL) {
        memcpy(sampler->raw, logits, (size_t)sampler->n_vocab * sizeof *logits);
    }
    if (sampler->has_processors) {
        tdm_sampler_process(sampler, logits);
    }
    out->id = tdm_argmax(logits, sampler->n_vocab, &max);
    const bool is_finite = has_finite(logits, sampler->n_vocab, max);
    if (out_is_finite != NULL) {
        *out_is_finite = is_finite;
    }
    if (!is_finite) {
        out->id = 0;
        sampler->mirostat.pending_id = -1;
        return;
    }
    /* Log-probabilities before temperature and cuts, which write into the row. A cut never touches
     * the logit of an id that can still be drawn, so the chosen one's is read afterwards. */
    const float *truth = sampler->raw != NULL ? sampler->raw : logits;
    tdm_normaliser norm = {.max = (double)NAN, .log_sum = (double)NAN};
    if (k >= 0) {
        norm = tdm_normaliser_of(truth, sampler->n_vocab);
        out->n_top = tdm_normaliser_top(&norm, truth, sampler->n_vocab, k, out->top);
    }
    if (options->temperature > 0.0F) {
        (void)tdm_row_load(&sampler->row, logits);
        out->id = options->mirostat != 0 ? tdm_sampler_mirostat(sampler, &stream)
                                         : draw_truncated(sampler, &stream);
    }
    out->logprob = tdm_normaliser_logprob(&norm, truth[out->id]);
}

bool tdm_sampler_is_plain_greedy(const tdm_sampler *sampler) {
    return sampler->options.temperature == 0.0F && !sampler->has_processors &&
           sampler->options.n_logprobs < 0;
}
