/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampling record of generate and chat. Ranges are the options table's and, once more, the
 * engine's; here only the order of precedence is decided. */
#include "cli/sampling.h"

#include "engine/engine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void set_real(const tdm_args *args, tdm_option_id option, float *field) {
    *field = (float)tdm_args_real(args, option, (double)*field);
}

static void set_int(const tdm_args *args, tdm_option_id option, int32_t *field) {
    *field = (int32_t)tdm_args_integer(args, option, *field);
}

/* What a chat uses where the model says nothing. */
static tdm_status set_chat_defaults(const tdm_model *model, tdm_generation_options *options,
                                    tdm_error *err) {
    tdm_engine_parts parts;
    tdm_generation_config said;
    tdm_model_parts(model, &parts);
    TDM_TRY(tdm_generation_config_read(&said, parts.checkpoint, err));
    if (isnan(said.temperature) && !(said.has_do_sample && !said.is_sampled)) {
        options->temperature = 0.7F;
        if (isnan(said.top_p)) {
            options->top_p = 0.95F;
        }
    }
    return TDM_OK;
}

static tdm_status read_bias(const char *text, tdm_bias *out, tdm_error *err) {
    char *end = NULL;
    long id = 0;
    errno = 0;
    id = strtol(text, &end, 10);
    if (errno == 0 && end != text && *end == '=' && id >= 0 && id <= INT32_MAX) {
        const char *number = end + 1;
        const double bias = strtod(number, &end);
        if (end != number && *end == '\0' && isfinite(bias)) {
            *out = (tdm_bias){(int32_t)id, (float)bias};
            return TDM_OK;
        }
    }
    (void)tdm_fail(err, TDM_E_ARG, "--logit-bias is ID=BIAS");
    tdm_err_where(err, "--logit-bias %.100s", text);
    return TDM_E_ARG;
}

static tdm_status set_biases(tdm_cli_sampling *sampling, const tdm_args *args, tdm_error *err) {
    size_t n = 0;
    if (!tdm_args_has(args, TDM_OPT_LOGIT_BIAS)) {
        return TDM_OK;
    }
    sampling->bias_cap = args->n_repeats;
    sampling->bias = tdm_mem_calloc(sampling->alloc, sampling->bias_cap, sizeof *sampling->bias);
    if (sampling->bias == NULL) {
        return tdm_fail_nomem(err, "the logit biases");
    }
    while (tdm_args_repeat(args, TDM_OPT_LOGIT_BIAS, n) != NULL) {
        TDM_TRY(read_bias(tdm_args_repeat(args, TDM_OPT_LOGIT_BIAS, n), &sampling->bias[n], err));
        n++;
    }
    sampling->options.bias = sampling->bias;
    sampling->options.n_bias = n;
    return TDM_OK;
}

static tdm_status set_stops(tdm_generation_options *options, const tdm_args *args, tdm_error *err) {
    while (tdm_args_repeat(args, TDM_OPT_STOP, options->n_stop) != NULL) {
        const char *text = tdm_args_repeat(args, TDM_OPT_STOP, options->n_stop);
        if (options->n_stop == TDM_STOP_MAX || text[0] == '\0' ||
            strlen(text) > TDM_STOP_BYTES_MAX) {
            (void)tdm_fail(err, TDM_E_ARG, "too many stop texts, or one that is empty or too long");
            tdm_err_where(err, "--stop");
            tdm_err_limit(err, "%d texts of 1 to %d bytes", TDM_STOP_MAX, TDM_STOP_BYTES_MAX);
            return TDM_E_ARG;
        }
        TDM_TRY(tdm_input_check_utf8(text, strlen(text), "--stop", err));
        options->stop[options->n_stop++] = text;
    }
    return TDM_OK;
}

static void set_numbers(tdm_generation_options *o, const tdm_args *args) {
    set_int(args, TDM_OPT_MAX_TOKENS, &o->max_tokens);
    set_real(args, TDM_OPT_TEMP, &o->temperature);
    set_int(args, TDM_OPT_TOP_K, &o->top_k);
    set_real(args, TDM_OPT_TOP_P, &o->top_p);
    set_real(args, TDM_OPT_MIN_P, &o->min_p);
    set_real(args, TDM_OPT_TOP_N_SIGMA, &o->top_n_sigma);
    set_real(args, TDM_OPT_XTC_PROBABILITY, &o->xtc_probability);
    set_real(args, TDM_OPT_XTC_THRESHOLD, &o->xtc_threshold);
    set_real(args, TDM_OPT_REPETITION_PENALTY, &o->repetition_penalty);
    set_real(args, TDM_OPT_PRESENCE_PENALTY, &o->presence_penalty);
    set_real(args, TDM_OPT_FREQUENCY_PENALTY, &o->frequency_penalty);
    set_int(args, TDM_OPT_PENALTY_WINDOW, &o->penalty_window);
    set_real(args, TDM_OPT_DRY_MULTIPLIER, &o->dry_multiplier);
    set_real(args, TDM_OPT_DRY_BASE, &o->dry_base);
    set_int(args, TDM_OPT_DRY_ALLOWED_LENGTH, &o->dry_allowed_length);
    set_int(args, TDM_OPT_MIROSTAT, &o->mirostat);
    set_real(args, TDM_OPT_MIROSTAT_TAU, &o->mirostat_tau);
    set_real(args, TDM_OPT_MIROSTAT_ETA, &o->mirostat_eta);
    set_int(args, TDM_OPT_LOGPROBS, &o->n_logprobs);
}

tdm_status tdm_cli_sampling_init(tdm_cli_sampling *sampling, const tdm_cli *cli,
                                 const tdm_model *model, bool is_chat, tdm_error *err) {
    const tdm_args *args = cli->args;
    tdm_generation_options *options = &sampling->options;
    *sampling = (tdm_cli_sampling){.alloc = cli->alloc};
    tdm_generation_options_init(options, model);
    if (is_chat) {
        TDM_TRY(set_chat_defaults(model, options, err));
    }
    set_numbers(options, args);
    options->ignores_eos = tdm_args_has(args, TDM_OPT_IGNORE_EOS);
    options->skips_special = !tdm_args_has(args, TDM_OPT_SHOW_SPECIAL);
    if (tdm_args_has(args, TDM_OPT_SEED)) {
        options->has_seed = true;
        options->seed = (uint64_t)tdm_args_integer(args, TDM_OPT_SEED, 0);
    }
    TDM_TRY(set_stops(options, args, err));
    return set_biases(sampling, args, err);
}

void tdm_cli_sampling_deinit(tdm_cli_sampling *sampling) {
    tdm_mem_free(sampling->alloc, sampling->bias, sampling->bias_cap * sizeof *sampling->bias);
    sampling->bias = NULL;
}
