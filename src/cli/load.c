/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening models for verbs: options from the command line, progress and warnings on standard
 * error, Ctrl-C while it lasts. */
#include "cli/load.h"

#include "cli/boot.h"
#include "cli/find_model.h"
#include "engine/engine.h"

#include <string.h>
#include <unistd.h>

/* Progress shows after this long: a small model opens without a flicker. */
#define QUIET_NS INT64_C(300000000)

typedef struct progress {
    const tdm_cli *cli;
    int64_t start_ns;
    uint64_t bytes; /* of the files; 0: unknown */
    bool is_json, is_shown;
    bool is_drawn; /* a line on the terminal must be wiped */
} progress;

static void put_err(const char *text) {
    ssize_t n = write(STDERR_FILENO, text, strlen(text));
    (void)n; /* progress that cannot be written is not missed */
}

void tdm_cli_load_line(char *out, size_t out_bytes, int32_t done, int32_t all, uint64_t bytes,
                       int64_t ns) {
    const double share = all > 0 ? (double)done / (double)all : 0.0;
    const double mb = (double)bytes * 1e-6;
    if (bytes == 0 || ns <= 0) {
        (void)snprintf(out, out_bytes, "\rloading %3d%%", (int)(100.0 * share));
        return;
    }
    (void)snprintf(out, out_bytes, "\rloading %3d%%, %.0f of %.0f MB, %.0f MB/s   ",
                   (int)(100.0 * share), share * mb, mb, share * mb / ((double)ns * 1e-9));
}

/* Adds the length of a file of weights. */
typedef struct weighing {
    const char *folder;
    uint64_t bytes;
} weighing;

static void weigh(void *arg, const char *name, bool is_folder) {
    weighing *w = arg;
    const size_t len = strlen(name);
    char path[TDM_PATH_MAX];
    tdm_blob blob;
    if (!is_folder && len > 12 && strcmp(name + len - 12, ".safetensors") == 0 &&
        tdm_path_join(path, sizeof path, w->folder, name, NULL) == TDM_OK &&
        tdm_blob_open(&blob, NULL, path, NULL) == TDM_OK) {
        w->bytes += blob.bytes; /* bounded: no disk is so large */
        tdm_blob_close(&blob);
    }
}

/* What a load of path reads, as far as names say; 0: unknown. */
static uint64_t bytes_of(const char *path) {
    const tdm_fs *fs = tdm_fs_system();
    weighing w = {path, 0};
    tdm_blob blob;
    bool is_folder = false;
    if (fs->exists(fs->ctx, path, &is_folder) && is_folder) {
        return fs->list(fs->ctx, path, weigh, &w, NULL) == TDM_OK ? w.bytes : 0;
    }
    if (strstr(tdm_path_name(path), "-of-") == NULL && /* the first of several */
        tdm_blob_open(&blob, fs, path, NULL) == TDM_OK) {
        w.bytes = blob.bytes;
        tdm_blob_close(&blob);
    }
    return w.bytes;
}

static bool show_progress(void *arg, int32_t done, int32_t all) {
    progress *p = arg;
    char line[128];
    const int64_t now = p->cli->clock->monotonic_ns(p->cli->clock->ctx);
    if (p->is_json) {
        (void)snprintf(line, sizeof line,
                       "{\"progress\":{\"what\":\"load\",\"done\":%d,\"all\":%d}}\n", (int)done,
                       (int)all);
        put_err(line);
    } else if (p->is_shown && now - p->start_ns > QUIET_NS) {
        tdm_cli_load_line(line, sizeof line, done, all, p->bytes, now - p->start_ns);
        put_err(line);
        p->is_drawn = true;
    }
    return tdm_interrupt_is_raised(p->cli->interrupt);
}

static void show_log(void *arg, int level, const char *line) {
    static const char *const NAMES[] = {"debug: ", "", "warning: "};
    const progress *p = arg;
    if (p->is_drawn) {
        put_err("\n");
    }
    tdm_cli_note(p->cli, "%s%s", level >= 0 && level < 3 ? NAMES[level] : "", line);
}

void tdm_cli_model_options(const tdm_cli *cli, tdm_model_options *out) {
    const tdm_args *args = cli->args;
    *out = (tdm_model_options){
        .device = tdm_args_text(args, TDM_OPT_DEVICE),
        .tier = tdm_args_text(args, TDM_OPT_TIER),
        .isa = tdm_args_text(args, TDM_OPT_ISA),
        .kv = tdm_args_text(args, TDM_OPT_KV),
        .n_threads = (int32_t)tdm_args_integer(args, TDM_OPT_THREADS, 0),
        .context = tdm_args_integer(args, TDM_OPT_CTX, 0),
        .log_level = cli->is_verbose ? TDM_LOG_DEBUG : TDM_LOG_WARN,
    };
}

tdm_status tdm_cli_open_model(tdm_cli *cli, const char *name, const tdm_model_options *options,
                              tdm_model **out_model, tdm_error *err) {
    const char *how = tdm_args_text(cli->args, TDM_OPT_PROGRESS);
    progress p = {.cli = cli, .start_ns = cli->clock->monotonic_ns(cli->clock->ctx)};
    tdm_model_options own;
    char path[TDM_PATH_MAX];
    char panels[TDM_PATH_MAX];
    const int64_t panels_gb = tdm_args_integer(cli->args, TDM_OPT_PANEL_CACHE, 20);
    tdm_status status = TDM_OK;
    *out_model = NULL;
    TDM_TRY(tdm_find_model(cli->env, tdm_fs_system(), name, path, err));
    p.is_json = how != NULL && strcmp(how, "json") == 0;
    p.is_shown = !p.is_json && (how == NULL || strcmp(how, "none") != 0) &&
                 cli->env->is_terminal_err && !cli->is_quiet;
    p.bytes = p.is_shown ? bytes_of(path) : 0;
    if (options != NULL) {
        own = *options;
    } else {
        tdm_cli_model_options(cli, &own);
    }
    if (panels_gb > 0 && tdm_folder_of_panels(cli->env, panels)) {
        own.panel_cache = panels;
        own.panel_cache_bytes =
            (uint64_t)panels_gb * UINT64_C(1000000000); /* bounded by the table */
    }
    own.progress = show_progress;
    own.progress_arg = &p;
    own.log = show_log;
    own.log_arg = &p;
    tdm_interrupt_arm(cli->interrupt, NULL, false);
    status = tdm_boot_model(out_model, cli->alloc, path, &own, err);
    if (tdm_interrupt_disarm(cli->interrupt) && status == TDM_OK) {
        tdm_model_close(*out_model);
        *out_model = NULL;
        status = tdm_fail(err, TDM_E_CANCELLED, "interrupted while loading");
    }
    if (p.is_drawn) {
        put_err("\r                                                          \r");
    }
    return status;
}

static void show_warning(void *ctx, tdm_log_level level, const char *text) {
    tdm_cli_note(ctx, "%s%s", level == TDM_LOG_WARN ? "warning: " : "", text);
}

tdm_status tdm_cli_text_open(tdm_cli *cli, const char *name, tdm_cli_text *out, tdm_error *err) {
    const tdm_log log = {cli, cli->is_verbose ? TDM_LOG_DEBUG : TDM_LOG_WARN, show_warning};
    const tdm_checkpoint_options options = {.log = &log, .is_tokenizer_enough = true};
    char path[TDM_PATH_MAX];
    *out = (tdm_cli_text){0};
    TDM_TRY(tdm_find_model(cli->env, tdm_fs_system(), name, path, err));
    TDM_TRY(tdm_checkpoint_open(&out->checkpoint, cli->alloc, path, &options, err));
    return tdm_tokenizer_open(&out->tokenizer, cli->alloc, out->checkpoint, NULL, err);
}

static tdm_status read_template(tdm_cli *cli, tdm_cli_text *text, const char *file,
                                tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, cli->alloc, 0);
    status = tdm_input_read(&buf, file, err);
    if (status == TDM_OK) {
        status = tdm_chat_templates_from_source(&text->templates, cli->alloc,
                                                buf.data != NULL ? buf.data : "", buf.len,
                                                tdm_input_name(file), text->tokenizer, err);
    }
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status find_templates(tdm_cli *cli, tdm_cli_text *text, tdm_error *err) {
    TDM_TRY(tdm_chat_templates_open(&text->templates, cli->alloc, text->checkpoint, text->tokenizer,
                                    NULL, err));
    if (tdm_chat_templates_n(text->templates) > 0) {
        return TDM_OK;
    }
    (void)tdm_fail(err, TDM_E_STATE, "the model has no chat template");
    tdm_err_where(err, "%s", tdm_checkpoint_path(text->checkpoint));
    tdm_err_remedy(err, "give one with --template FILE.jinja");
    return TDM_E_STATE;
}

tdm_status tdm_cli_text_open_templates(tdm_cli *cli, tdm_cli_text *text, const char *file,
                                       tdm_error *err) {
    tdm_status status =
        file != NULL ? read_template(cli, text, file, err) : find_templates(cli, text, err);
    if (status == TDM_OK && text->tokenizer != NULL) {
        status = tdm_special_tokens_make(&text->special_tokens, cli->alloc, text->checkpoint,
                                         text->tokenizer, err);
    }
    return status;
}

const tdm_json *tdm_cli_text_special_tokens(const tdm_cli_text *text) {
    return text->special_tokens != NULL ? tdm_json_doc_root(text->special_tokens) : NULL;
}

void tdm_cli_text_close(tdm_cli_text *text) {
    tdm_json_doc_destroy(text->special_tokens);
    tdm_chat_templates_destroy(text->templates);
    tdm_tokenizer_destroy(text->tokenizer);
    tdm_checkpoint_close(text->checkpoint);
    *text = (tdm_cli_text){0};
}
