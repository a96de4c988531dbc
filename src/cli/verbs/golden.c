/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem golden: a golden folder's ids through a model, and how far its logits are from ours. */
#include "cli/golden/golden.h"
#include "cli/load.h"
#include "engine/engine.h"

#include <string.h>

#define CHUNK_DEFAULT 512

/* The checkpoint: --model, else DIR/model.gguf, else DIR. */
static tdm_status model_name(const tdm_cli *cli, char out[TDM_PATH_MAX], tdm_error *err) {
    const char *name = tdm_args_text(cli->args, TDM_OPT_MODEL);
    const char *folder = cli->args->positional[0];
    const tdm_fs *fs = tdm_fs_system();
    bool is_folder = false;
    if (name == NULL) {
        TDM_TRY(tdm_path_join(out, TDM_PATH_MAX, folder, "model.gguf", err));
        if (fs->exists(fs->ctx, out, &is_folder)) {
            return TDM_OK;
        }
        name = folder;
    }
    return snprintf(out, TDM_PATH_MAX, "%s", name) < TDM_PATH_MAX
               ? TDM_OK
               : tdm_fail(err, TDM_E_LIMIT, "the model's name is too long");
}

static void write_setup(const tdm_model *model, const tdm_golden_setup *setup, tdm_json_writer *w) {
    tdm_model_facts facts;
    tdm_model_describe(model, &facts);
    tdm_json_write_key(w, "architecture");
    tdm_json_write_cstr(w, facts.architecture);
    tdm_json_write_key(w, "backend");
    tdm_json_write_cstr(w, facts.backend);
    tdm_json_write_key(w, "tier");
    tdm_json_write_cstr(w, facts.tier);
    tdm_json_write_key(w, "kv");
    tdm_json_write_cstr(w, facts.kv);
    tdm_json_write_key(w, "n_threads");
    tdm_json_write_i64(w, facts.n_threads);
    tdm_json_write_key(w, "chunk");
    tdm_json_write_i64(w, setup->chunk);
    tdm_json_write_key(w, "mates");
    tdm_json_write_i64(w, setup->n_mates);
    tdm_json_write_key(w, "bound");
    tdm_json_write_f64(w, setup->bound, 9);
}

/* The result's members one a line, for a person. */
static tdm_status put_plain(tdm_cli *cli, const tdm_buf *json, tdm_error *err) {
    tdm_json_doc *doc = NULL;
    tdm_buf buf;
    tdm_status status = TDM_OK;
    const tdm_json *root = NULL;
    tdm_buf_init(&buf, cli->alloc, 0);
    TDM_TRY_GOTO(status, tdm_json_parse(&doc, cli->alloc, json->data, json->len, NULL, "-", err),
                 done);
    root = tdm_json_doc_root(doc);
    for (size_t i = 0; i < tdm_json_len(root) && status == TDM_OK; i++) {
        const tdm_json *item = &root->u.items[i];
        status = tdm_buf_printf(&buf, "%-22s %s\n", item->key,
                                item->kind == TDM_JSON_NULL ? "-" : item->u.text);
    }
    status = status == TDM_OK ? tdm_out_text(&cli->out, buf.data, buf.len, err)
                              : tdm_fail_nomem(err, "the answer");
done:
    tdm_buf_deinit(&buf);
    tdm_json_doc_destroy(doc);
    return status;
}

static tdm_status compare(tdm_cli *cli, const tdm_golden *golden, tdm_model *model,
                          tdm_error *err) {
    const char *dump = tdm_args_text(cli->args, TDM_OPT_DUMP);
    tdm_engine_parts parts;
    tdm_golden_setup setup = {
        .chunk = (int32_t)tdm_args_integer(cli->args, TDM_OPT_CHUNK, CHUNK_DEFAULT),
        .n_mates = (int32_t)tdm_args_integer(cli->args, TDM_OPT_MATES, 0),
        .bound = tdm_args_real(cli->args, TDM_OPT_BOUND, 1e-4),
    };
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    tdm_model_parts(model, &parts);
    setup.graph = parts.graph;
    setup.kv_dtype = parts.kv_dtype;
    tdm_buf_init(&buf, cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    status = golden->is_real ? tdm_golden_compare_real(golden, cli->alloc, &setup, dump, &w, err)
                             : tdm_golden_compare(golden, cli->alloc, &setup, dump, &w, err);
    if (status == TDM_OK) {
        write_setup(model, &setup, &w);
        if (cli->is_json) {
            status = tdm_cli_finish_json(cli, &w, err);
        } else {
            tdm_json_write_end_object(&w);
            status = tdm_json_writer_status(&w) == TDM_OK ? put_plain(cli, &buf, err)
                                                          : tdm_fail_nomem(err, "the answer");
        }
    }
    tdm_buf_deinit(&buf);
    return status;
}

tdm_status tdm_verb_golden(tdm_cli *cli, tdm_error *err) {
    tdm_golden golden;
    tdm_model *model = NULL;
    char name[TDM_PATH_MAX];
    tdm_status status = tdm_golden_open(&golden, cli->alloc, cli->args->positional[0], err);
    if (status != TDM_OK) {
        goto done;
    }
    if (golden.is_real && !tdm_args_has(cli->args, TDM_OPT_MODEL)) {
        status = tdm_fail(err, TDM_E_ARG, "the golden of a real model needs --model FILE");
        goto done;
    }
    TDM_TRY_GOTO(status, model_name(cli, name, err), done);
    TDM_TRY_GOTO(status, tdm_cli_open_model(cli, name, NULL, &model, err), done);
    status = compare(cli, &golden, model, err);
done:
    tdm_model_close(model);
    tdm_golden_close(&golden);
    return status;
}
