/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking models up by name. Nothing is downloaded and nothing is written here. A snapshot of the
 * Hugging Face cache is a folder of links:
 *
 *     hub/models--ORG--NAME/refs/main                 one line, the revision
 *     hub/models--ORG--NAME/snapshots/REVISION/...    config.json, *.safetensors, *.gguf
 */
#include "cli/find_model.h"

#include <stdio.h>
#include <string.h>

#define REVISION_MAX 128

/* parts joined by slashes; false when one is NULL or it does not fit. */
static bool join(char out[TDM_PATH_MAX], const char *a, const char *b, const char *c) {
    int n = -1;
    if (a == NULL || b == NULL) {
        return false;
    }
    n = c != NULL ? snprintf(out, TDM_PATH_MAX, "%s/%s/%s", a, b, c)
                  : snprintf(out, TDM_PATH_MAX, "%s/%s", a, b);
    return n > 0 && n < TDM_PATH_MAX;
}

bool tdm_folder_of_models(const tdm_env *env, char out[TDM_PATH_MAX]) {
    return env->cache_home != NULL ? join(out, env->cache_home, "tandem", "models")
                                   : join(out, env->home, ".cache", "tandem/models");
}

bool tdm_folder_of_panels(const tdm_env *env, char out[TDM_PATH_MAX]) {
    return env->cache_home != NULL ? join(out, env->cache_home, "tandem", "panels")
                                   : join(out, env->home, ".cache", "tandem/panels");
}

bool tdm_folder_of_hub(const tdm_env *env, char out[TDM_PATH_MAX]) {
    if (env->hf_hub_cache != NULL) {
        const int n = snprintf(out, TDM_PATH_MAX, "%s", env->hf_hub_cache);
        return n > 0 && n < TDM_PATH_MAX;
    }
    if (env->hf_home != NULL) {
        return join(out, env->hf_home, "hub", NULL);
    }
    return env->cache_home != NULL ? join(out, env->cache_home, "huggingface", "hub")
                                   : join(out, env->home, ".cache", "huggingface/hub");
}

bool tdm_folder_of_state(const tdm_env *env, char out[TDM_PATH_MAX]) {
    return env->state_home != NULL ? join(out, env->state_home, "tandem", NULL)
                                   : join(out, env->home, ".local", "state/tandem");
}

static bool ends_in(const char *name, const char *suffix) {
    const size_t len = strlen(name);
    const size_t suffix_len = strlen(suffix);
    return len >= suffix_len && strcmp(name + len - suffix_len, suffix) == 0;
}

/* "-00002-of-00003.gguf": a part that is not the first belongs to the first. */
static bool is_later_part(const char *name) {
    const size_t len = strlen(name);
    const char *tail = len > 20 ? name + len - 20 : name;
    return len > 20 && ends_in(name, ".gguf") && strncmp(tail + 6, "-of-", 4) == 0 &&
           tail[0] == '-' && strncmp(tail, "-00001", 6) != 0;
}

/* What a folder holds, as far as it matters here. */
typedef struct folder_view {
    bool has_config;
    size_t n_gguf;
    char gguf[256];
    uint64_t bytes;
    const tdm_fs *fs;
    const char *path;
} folder_view;

static uint64_t file_bytes(const tdm_fs *fs, const char *path) {
    tdm_file *file = NULL;
    tdm_file_id id = {0};
    if (fs->open_read(fs->ctx, path, &file, NULL) != TDM_OK) {
        return 0;
    }
    if (fs->identify(fs->ctx, file, &id, NULL) != TDM_OK) {
        id.bytes = 0;
    }
    fs->close(fs->ctx, file);
    return id.bytes;
}

static void view_entry(void *arg, const char *name, bool is_folder) {
    folder_view *view = arg;
    char path[TDM_PATH_MAX];
    const bool is_gguf = !is_folder && ends_in(name, ".gguf");
    if (!is_folder && strcmp(name, "config.json") == 0) {
        view->has_config = true;
    }
    if (is_gguf && !is_later_part(name)) {
        if (view->n_gguf == 0) {
            (void)snprintf(view->gguf, sizeof view->gguf, "%s", name);
        }
        view->n_gguf++;
    }
    if ((is_gguf || (!is_folder && ends_in(name, ".safetensors"))) &&
        join(path, view->path, name, NULL)) {
        view->bytes += file_bytes(view->fs, path);
    }
}

/* The path to open for a folder: itself, or the one .gguf file in it. */
static tdm_status open_path(const tdm_fs *fs, const char *folder, char out[TDM_PATH_MAX],
                            uint64_t *out_bytes, tdm_error *err) {
    folder_view view = {.fs = fs, .path = folder};
    int n = -1;
    TDM_TRY(fs->list(fs->ctx, folder, view_entry, &view, err));
    if (!view.has_config && view.n_gguf == 1) {
        n = snprintf(out, TDM_PATH_MAX, "%s/%s", folder, view.gguf);
    } else if (!view.has_config && view.n_gguf > 1) {
        (void)tdm_fail(err, TDM_E_ARG, "the folder holds %zu .gguf files", view.n_gguf);
        tdm_err_where(err, "%s", folder);
        tdm_err_remedy(err, "name one of them, for example %s", view.gguf);
        return TDM_E_ARG;
    } else {
        n = snprintf(out, TDM_PATH_MAX, "%s", folder);
    }
    if (n < 0 || n >= TDM_PATH_MAX) {
        return tdm_fail(err, TDM_E_LIMIT, "a path is too long");
    }
    if (out_bytes != NULL) {
        *out_bytes = view.bytes;
    }
    return TDM_OK;
}

/* hub/models--ORG--NAME -> hub/models--ORG--NAME/snapshots/REVISION */
static bool find_snapshot(const tdm_fs *fs, const char *repo, char out[TDM_PATH_MAX]) {
    char path[TDM_PATH_MAX];
    char revision[REVISION_MAX];
    size_t n = 0;
    tdm_file *file = NULL;
    bool is_folder = false;
    if (!join(path, repo, "refs", "main") || fs->open_read(fs->ctx, path, &file, NULL) != TDM_OK) {
        return false;
    }
    if (fs->read_at(fs->ctx, file, 0, revision, sizeof revision - 1, &n, NULL) != TDM_OK) {
        n = 0;
    }
    fs->close(fs->ctx, file);
    while (n > 0 && (revision[n - 1] == '\n' || revision[n - 1] == ' ')) {
        n--;
    }
    revision[n] = '\0';
    return n > 0 && strchr(revision, '/') == NULL && join(out, repo, "snapshots", revision) &&
           fs->exists(fs->ctx, out, &is_folder) && is_folder;
}

/* ORG/NAME -> hub/models--ORG--NAME */
static bool repo_folder(const char *hub, const char *id, char out[TDM_PATH_MAX]) {
    const char *slash = strchr(id, '/');
    int n = -1;
    if (slash == NULL || slash == id || slash[1] == '\0' || strchr(slash + 1, '/') != NULL ||
        id[0] == '.') {
        return false;
    }
    n = snprintf(out, TDM_PATH_MAX, "%s/models--%.*s--%s", hub, (int)(slash - id), id, slash + 1);
    return n > 0 && n < TDM_PATH_MAX;
}

/* Tandem's own folder: NAME, or NAME.gguf. */
static bool find_own(const tdm_env *env, const tdm_fs *fs, const char *name,
                     char out[TDM_PATH_MAX]) {
    char folder[TDM_PATH_MAX];
    char file[TDM_PATH_MAX];
    bool is_folder = false;
    if (!tdm_folder_of_models(env, folder) || name[0] == '/' || name[0] == '\0' ||
        strstr(name, "..") != NULL) {
        return false;
    }
    if (join(out, folder, name, NULL) && fs->exists(fs->ctx, out, &is_folder)) {
        return true;
    }
    return snprintf(file, sizeof file, "%s.gguf", name) < (int)sizeof file &&
           join(out, folder, file, NULL) && fs->exists(fs->ctx, out, &is_folder);
}

static tdm_status offer_entry(void *arg, const tdm_model_entry *entry, tdm_error *err) {
    (void)err;
    tdm_guess_offer(arg, entry->name);
    return TDM_OK;
}

static tdm_status fail_missing(const tdm_env *env, const tdm_fs *fs, const char *name,
                               tdm_error *err) {
    tdm_guess guess;
    char folder[TDM_PATH_MAX] = "";
    tdm_guess_init(&guess, name);
    if (tdm_models_walk(env, fs, offer_entry, &guess, NULL) != TDM_OK) {
        guess.best[0] = '\0'; /* a folder that cannot be listed offers no names */
    }
    (void)tdm_folder_of_models(env, folder);
    (void)tdm_fail(err, TDM_E_NOT_FOUND, "there is no model \"%.120s\"", name);
    tdm_err_where(err, "looked for a path, in the Hugging Face cache, and in %.100s", folder);
    if (guess.best[0] != '\0') {
        tdm_err_remedy(err, "did you mean %s?", guess.best);
    } else {
        tdm_err_remedy(err, "tandem ls lists the models at hand");
    }
    return TDM_E_NOT_FOUND;
}

tdm_status tdm_find_model(const tdm_env *env, const tdm_fs *fs, const char *name,
                          char out[TDM_PATH_MAX], tdm_error *err) {
    char hub[TDM_PATH_MAX];
    char found[TDM_PATH_MAX];
    bool is_folder = false;
    if (strlen(name) >= TDM_PATH_MAX) {
        return tdm_fail(err, TDM_E_LIMIT, "the model's name is too long");
    }
    if (name[0] != '\0' && fs->exists(fs->ctx, name, &is_folder)) {
        (void)snprintf(found, sizeof found, "%s", name);
    } else if (tdm_folder_of_hub(env, hub) && repo_folder(hub, name, out) &&
               find_snapshot(fs, out, found)) {
        is_folder = true;
    } else if (find_own(env, fs, name, found)) {
        (void)fs->exists(fs->ctx, found, &is_folder);
    } else {
        return fail_missing(env, fs, name, err);
    }
    if (is_folder) {
        return open_path(fs, found, out, NULL, err);
    }
    (void)snprintf(out, TDM_PATH_MAX, "%s", found);
    return TDM_OK;
}

/* ---- the list ---- */

typedef struct walker {
    const tdm_fs *fs;
    const char *folder;
    tdm_model_visit_fn visit;
    void *arg;
    tdm_status status;
    tdm_error *err;
} walker;

static void tell(walker *w, const char *name, const char *path, const char *source,
                 uint64_t bytes) {
    const tdm_model_entry entry = {name, path, source, bytes};
    w->status = w->visit(w->arg, &entry, w->err);
}

static void walk_own(void *arg, const char *name, bool is_folder) {
    walker *w = arg;
    char path[TDM_PATH_MAX];
    char open_at[TDM_PATH_MAX];
    char shown[TDM_PATH_MAX];
    uint64_t bytes = 0;
    if (w->status != TDM_OK || name[0] == '.' || !join(path, w->folder, name, NULL)) {
        return;
    }
    if (is_folder) {
        if (open_path(w->fs, path, open_at, &bytes, NULL) == TDM_OK && bytes > 0) {
            tell(w, name, open_at, "tandem", bytes);
        }
    } else if (ends_in(name, ".gguf") && !is_later_part(name)) {
        (void)snprintf(shown, sizeof shown, "%.*s", (int)(strlen(name) - 5), name);
        tell(w, shown, path, "tandem", file_bytes(w->fs, path));
    }
}

static void walk_hub(void *arg, const char *name, bool is_folder) {
    static const char HEAD[] = "models--";
    walker *w = arg;
    char repo[TDM_PATH_MAX];
    char snapshot[TDM_PATH_MAX];
    char path[TDM_PATH_MAX];
    char id[512];
    uint64_t bytes = 0;
    const char *dash = NULL;
    if (w->status != TDM_OK || !is_folder || strncmp(name, HEAD, sizeof HEAD - 1) != 0) {
        return;
    }
    name += sizeof HEAD - 1;
    dash = strstr(name, "--");
    if (dash == NULL || !join(repo, w->folder, name - (sizeof HEAD - 1), NULL) ||
        !find_snapshot(w->fs, repo, snapshot) ||
        open_path(w->fs, snapshot, path, &bytes, NULL) != TDM_OK || bytes == 0) {
        return;
    }
    if (snprintf(id, sizeof id, "%.*s/%s", (int)(dash - name), name, dash + 2) < (int)sizeof id) {
        tell(w, id, path, "huggingface", bytes);
    }
}

static tdm_status walk(walker *w, const char *folder,
                       void (*entry)(void *arg, const char *name, bool is_folder)) {
    bool is_folder = false;
    if (!w->fs->exists(w->fs->ctx, folder, &is_folder) || !is_folder) {
        return TDM_OK;
    }
    w->folder = folder;
    TDM_TRY(w->fs->list(w->fs->ctx, folder, entry, w, w->err));
    return w->status;
}

tdm_status tdm_models_walk(const tdm_env *env, const tdm_fs *fs, tdm_model_visit_fn visit,
                           void *arg, tdm_error *err) {
    walker w = {.fs = fs, .visit = visit, .arg = arg, .err = err};
    char folder[TDM_PATH_MAX];
    if (tdm_folder_of_models(env, folder)) {
        TDM_TRY(walk(&w, folder, walk_own));
    }
    if (tdm_folder_of_hub(env, folder)) {
        TDM_TRY(walk(&w, folder, walk_hub));
    }
    return TDM_OK;
}
