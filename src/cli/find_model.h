/* SPDX-License-Identifier: Apache-2.0
 *
 * What MODEL means on a command line, and the models that are at hand. Floor 10. */
#ifndef TDM_CLI_FIND_MODEL_H
#define TDM_CLI_FIND_MODEL_H

#include "base/file.h"
#include "cli/cli.h"

/* The path that a checkpoint reader can open, into out[TDM_PATH_MAX]. In this order: a path that
 * exists; a Hugging Face id in the local cache; a name in Tandem's own folder, with or without
 * ".gguf". Errors: TDM_E_NOT_FOUND with near names in remedy; TDM_E_LIMIT. */
TDM_NODISCARD tdm_status tdm_find_model(const tdm_env *env, const tdm_fs *fs, const char *name,
                                        char out[TDM_PATH_MAX], tdm_error *err);

typedef struct tdm_model_entry {
    const char *name; /* what MODEL may be to mean it */
    const char *path;
    const char *source; /* "tandem", "huggingface" */
    uint64_t bytes;     /* of its weight files */
} tdm_model_entry;

/* Calls visit for each model of Tandem's own folder, then of the Hugging Face cache. Folders that
 * do not exist hold none. */
typedef tdm_status (*tdm_model_visit_fn)(void *arg, const tdm_model_entry *entry, tdm_error *err);
TDM_NODISCARD tdm_status tdm_models_walk(const tdm_env *env, const tdm_fs *fs,
                                         tdm_model_visit_fn visit, void *arg, tdm_error *err);

/* Folders, into out[TDM_PATH_MAX]; false when the environment names none. */
bool tdm_folder_of_models(const tdm_env *env, char out[TDM_PATH_MAX]);
bool tdm_folder_of_panels(const tdm_env *env, char out[TDM_PATH_MAX]);
bool tdm_folder_of_hub(const tdm_env *env, char out[TDM_PATH_MAX]);
bool tdm_folder_of_state(const tdm_env *env, char out[TDM_PATH_MAX]);

#endif
