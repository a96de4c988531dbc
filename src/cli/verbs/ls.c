/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem ls: the models at hand. */
#include "cli/find_model.h"

typedef struct ls_job {
    tdm_cli *cli;
    tdm_json_writer *w; /* NULL: for a person */
    size_t n;
} ls_job;

static tdm_status put_plain(ls_job *job, const tdm_model_entry *entry, tdm_error *err) {
    char line[TDM_PATH_MAX * 2 + 64];
    int n = 0;
    if (tdm_args_has(job->cli->args, TDM_OPT_NAMES)) {
        n = snprintf(line, sizeof line, "%s\n", entry->name);
    } else {
        n = snprintf(line, sizeof line, "%-48s %8.1f MB  %-11s  %s\n", entry->name,
                     (double)entry->bytes * 1e-6, entry->source, entry->path);
    }
    return tdm_out_text(&job->cli->out, line, n > 0 && n < (int)sizeof line ? (size_t)n : 0, err);
}

static tdm_status visit(void *arg, const tdm_model_entry *entry, tdm_error *err) {
    ls_job *job = arg;
    tdm_json_writer *w = job->w;
    job->n++;
    if (w == NULL) {
        return put_plain(job, entry, err);
    }
    tdm_json_write_begin_object(w);
    tdm_json_write_key(w, "name");
    tdm_json_write_cstr(w, entry->name);
    tdm_json_write_key(w, "path");
    tdm_json_write_cstr(w, entry->path);
    tdm_json_write_key(w, "source");
    tdm_json_write_cstr(w, entry->source);
    tdm_json_write_key(w, "bytes");
    tdm_json_write_u64(w, entry->bytes);
    tdm_json_write_end_object(w);
    return TDM_OK;
}

static tdm_status ls_json(tdm_cli *cli, tdm_error *err) {
    tdm_buf buf;
    tdm_json_writer w;
    ls_job job = {.cli = cli, .w = &w};
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "models");
    tdm_json_write_begin_array(&w);
    TDM_TRY_GOTO(status, tdm_models_walk(cli->env, tdm_fs_system(), visit, &job, err), done);
    tdm_json_write_end_array(&w);
    status = tdm_cli_finish_json(cli, &w, err);
done:
    tdm_buf_deinit(&buf);
    return status;
}

tdm_status tdm_verb_ls(tdm_cli *cli, tdm_error *err) {
    ls_job job = {.cli = cli};
    char folder[TDM_PATH_MAX] = "~/.cache/tandem/models";
    if (cli->is_json) {
        return ls_json(cli, err);
    }
    TDM_TRY(tdm_models_walk(cli->env, tdm_fs_system(), visit, &job, err));
    if (job.n == 0) {
        (void)tdm_folder_of_models(cli->env, folder);
        tdm_cli_note(cli, "no models yet; put .gguf files or checkpoint folders into %s", folder);
    }
    return TDM_OK;
}
