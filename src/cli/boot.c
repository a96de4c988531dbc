/* SPDX-License-Identifier: Apache-2.0
 *
 * The one file that names backends: it turns the words of tdm_model_options into one, and hands it
 * to the engine. tdm_model_open of the public header lives here for that reason. */
#include "cli/boot.h"
#include "backend/cpu/cpu.h"
#include "engine/engine.h"

#include <string.h>

static tdm_status fail_word(tdm_error *err, tdm_status code, const char *field, const char *word,
                            const char *limit) {
    (void)tdm_fail(err, code, "%s \"%.60s\" is not there", field, word);
    tdm_err_where(err, "%s", field);
    tdm_err_limit(err, "%s", limit);
    return code;
}

static tdm_status read_tier(const char *word, tdm_tier *out, tdm_error *err) {
    static const char *const NAMES[] = {"reference", "exact", "fast"};
    *out = TDM_TIER_FAST;
    if (word == NULL) {
        return TDM_OK;
    }
    for (int i = 0; i < 3; i++) {
        if (strcmp(word, NAMES[i]) == 0) {
            *out = (tdm_tier)i;
            return TDM_OK;
        }
    }
    return fail_word(err, TDM_E_ARG, "tier", word, "reference, exact, fast");
}

static void forward_log(void *ctx, tdm_log_level level, const char *text) {
    const tdm_model_options *options = ctx;
    if (options->log != NULL) {
        options->log(options->log_arg, (int)level, text);
    }
}

tdm_status tdm_boot_backend(tdm_backend **out, const tdm_alloc *alloc,
                            const tdm_model_options *options, tdm_error *err) {
    const tdm_log log = {(void *)(uintptr_t)options, (tdm_log_level)options->log_level,
                         forward_log};
    tdm_cpu_options cpu = {.isa = options->isa, .n_threads = options->n_threads, .log = &log};
    *out = NULL;
    if (options->device != NULL && strcmp(options->device, "cpu") != 0) {
        const bool is_known = strncmp(options->device, "cuda", 4) == 0;
        return fail_word(err, is_known ? TDM_E_UNSUPPORTED : TDM_E_ARG, "device", options->device,
                         "this build has: cpu");
    }
    TDM_TRY(read_tier(options->tier, &cpu.tier, err));
    return tdm_cpu_backend_create(out, alloc, &cpu, err);
}

tdm_status tdm_boot_model(tdm_model **out_model, const tdm_alloc *alloc, const char *path,
                          const tdm_model_options *options, tdm_error *err) {
    static const tdm_model_options DEFAULTS = TDM_MODEL_OPTIONS_INIT;
    tdm_backend *backend = NULL;
    tdm_status status = TDM_OK;
    *out_model = NULL;
    options = options != NULL ? options : &DEFAULTS;
    TDM_TRY(tdm_boot_backend(&backend, alloc, options, err));
    status = tdm_model_open_with(out_model, alloc, path, options, backend, err);
    if (status != TDM_OK) {
        backend->ops->destroy(backend);
    }
    return status;
}

tdm_status tdm_model_open(tdm_model **out_model, const char *path, const tdm_model_options *options,
                          tdm_error *err) {
    return tdm_boot_model(out_model, NULL, path, options, err);
}
