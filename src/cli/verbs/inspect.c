/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem inspect: what a checkpoint is, from its headers alone. A part that cannot be read is told
 * as such and does not hide the others: this verb is what a person turns to when a model does not
 * load. */
#include "formats/inspect.h"
#include "cli/boot.h"
#include "cli/find_model.h"
#include "cli/load.h"
#include "cli/plan_report.h"
#include "engine/composition.h"
#include "formats/config.h"
#include "formats/gguf.h"
#include "model/plan.h"
#include "tensor/dequant.h"

#include <string.h>

/* What was found out. Every error field with a code says why its part is not known. */
typedef struct inspection {
    const tdm_checkpoint *checkpoint;
    tdm_inspect totals;
    tdm_model_config config;
    tdm_error config_error;
    tdm_error run_error; /* why this build does not run it */
    tdm_backend *backend;
    tdm_graph_plan *plan; /* NULL where run_error has a code */
    tdm_tokenizer *tokenizer;
    tdm_error tokenizer_error;
    const char *template_source; /* NULL: none */
    size_t template_len;
    tdm_error template_error;
    bool is_unread[TDM_DTYPE_COUNT]; /* storage types of tensors that no product reads */
} inspection;

typedef struct feature {
    const char *name;
    const char *word; /* occurs in the template's source */
} feature;

static const feature FEATURES[] = {
    {"system", "system"},       {"tools", "tools"},
    {"documents", "documents"}, {"thinking", "thinking"},
    {"date", "strftime_now"},   {"generation_prompt", "add_generation_prompt"},
    {"images", "image"},
};

static bool has_word(const char *text, size_t len, const char *word) {
    const size_t word_len = strlen(word);
    for (size_t i = 0; i + word_len <= len; i++) {
        if (memcmp(text + i, word, word_len) == 0) {
            return true;
        }
    }
    return false;
}

/* Packed codes and their scales: types that mean nothing alone, so nothing can be said of them. */
static bool is_part_type(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_U32 || dtype == TDM_DTYPE_I32 || dtype == TDM_DTYPE_U8 ||
           dtype == TDM_DTYPE_I8 || dtype == TDM_DTYPE_I64 || dtype == TDM_DTYPE_F8_E4M3;
}

/* Where loading would succeed every tensor is read, and packed codes are counted as weights, of
 * which they have more than elements. */
static void take_plan(inspection *in) {
    const uint64_t n_params = (uint64_t)tdm_graph_plan_weights(in->plan)->total.n_params;
    memset(in->is_unread, 0, sizeof in->is_unread);
    if (in->totals.n_parameters < n_params) {
        in->totals.n_parameters = n_params;
    }
}

static void find_unread(inspection *in) {
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(in->checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(in->checkpoint, i);
        if (!tdm_dequant_can(tensor->view.dtype) && !is_part_type(tensor->view.dtype)) {
            in->is_unread[tensor->view.dtype] = true;
        }
    }
}

/* Whether loading would succeed, found out by all of it but reading weights. */
static tdm_status check_run(tdm_cli *cli, inspection *in, tdm_error *err) {
    const tdm_graph_options options = {.alloc = cli->alloc};
    tdm_model_options words;
    tdm_status status = TDM_OK;
    if (in->config_error.code != TDM_OK) {
        in->run_error = in->config_error;
        return TDM_OK;
    }
    if (tdm_graph_can_run(&in->config, &in->run_error) != TDM_OK) {
        return TDM_OK;
    }
    tdm_cli_model_options(cli, &words);
    TDM_TRY(tdm_boot_backend(&in->backend, cli->alloc, &words, err));
    status = tdm_graph_plan_create(&in->plan, in->checkpoint, &in->config, in->backend, &options,
                                   &in->run_error);
    if (status == TDM_OK) {
        take_plan(in);
    } else if (status == TDM_E_NOMEM) {
        *err = in->run_error;
    }
    return status == TDM_E_NOMEM ? status : TDM_OK;
}

static tdm_status look(tdm_cli *cli, inspection *in, tdm_error *err) {
    tdm_template *tmpl = NULL;
    tdm_status status = TDM_OK;
    tdm_checkpoint_inspect(in->checkpoint, &in->totals);
    find_unread(in);
    status = tdm_model_config_read(&in->config, in->checkpoint, &in->config_error);
    if (status == TDM_E_NOMEM) {
        *err = in->config_error;
        return status;
    }
    TDM_TRY(check_run(cli, in, err));
    status =
        tdm_tokenizer_open(&in->tokenizer, cli->alloc, in->checkpoint, NULL, &in->tokenizer_error);
    if (status == TDM_E_NOMEM) {
        *err = in->tokenizer_error;
        return status;
    }
    if (in->tokenizer == NULL) {
        return TDM_OK;
    }
    in->template_source = tdm_tokenizer_chat_template(in->tokenizer, &in->template_len);
    if (in->template_source != NULL) {
        status = tdm_template_compile(&tmpl, cli->alloc, in->template_source, in->template_len,
                                      "chat_template", &in->template_error);
        tdm_template_destroy(tmpl);
        if (status == TDM_E_NOMEM) {
            *err = in->template_error;
            return status;
        }
    }
    return TDM_OK;
}

static const char *architecture(const inspection *in) {
    const tdm_gguf *gguf = tdm_checkpoint_gguf(in->checkpoint);
    const tdm_json *type = tdm_json_get(tdm_checkpoint_config(in->checkpoint), "model_type");
    if (gguf != NULL) {
        return tdm_gguf_architecture(gguf);
    }
    return tdm_json_is(type, TDM_JSON_STRING) ? type->u.text : NULL;
}

/* ---- JSON ---- */

static void put_text(tdm_json_writer *w, const char *key, const char *text) {
    tdm_json_write_key(w, key);
    if (text != NULL && text[0] != '\0') {
        tdm_json_write_cstr(w, text);
    } else {
        tdm_json_write_null(w);
    }
}

static void put_int(tdm_json_writer *w, const char *key, int64_t value) {
    tdm_json_write_key(w, key);
    tdm_json_write_i64(w, value);
}

/* "what (where)", or null. */
static void put_why(tdm_json_writer *w, const char *key, const tdm_error *error) {
    char text[512] = "";
    if (error->code != TDM_OK) {
        (void)snprintf(text, sizeof text, "%s%s%s%s", error->what,
                       error->where[0] != '\0' ? " (" : "", error->where,
                       error->where[0] != '\0' ? ")" : "");
    }
    put_text(w, key, text);
}

static void put_tensors(const inspection *in, tdm_json_writer *w) {
    tdm_json_write_key(w, "tensors");
    tdm_json_write_begin_array(w);
    for (int i = 0; i < TDM_DTYPE_COUNT; i++) {
        const tdm_inspect_row *row = &in->totals.by_dtype[i];
        if (row->n_tensors > 0) {
            tdm_json_write_begin_object(w);
            put_text(w, "type", TDM_DTYPES[i].name);
            put_int(w, "n", (int64_t)row->n_tensors);
            put_int(w, "elements", (int64_t)row->n_elements);
            put_int(w, "bytes", (int64_t)row->bytes);
            tdm_json_write_key(w, "runs");
            tdm_json_write_bool(w, !in->is_unread[i]);
            tdm_json_write_end_object(w);
        }
    }
    tdm_json_write_end_array(w);
}

static void put_config(const inspection *in, tdm_json_writer *w) {
    const tdm_model_config *c = &in->config;
    put_why(w, "config_error", &in->config_error);
    if (in->config_error.code != TDM_OK) {
        return;
    }
    put_int(w, "context", c->context_max);
    put_int(w, "layers", c->n_layers);
    put_int(w, "hidden", c->hidden);
    put_int(w, "heads", c->n_heads);
    put_int(w, "kv_heads", c->n_kv_heads);
    put_int(w, "head_dim", c->head_dim);
    put_int(w, "intermediate", c->intermediate);
    put_int(w, "vocabulary", c->n_vocab);
    put_int(w, "sliding_window", c->sliding_window);
    tdm_json_write_key(w, "tied_embeddings");
    tdm_json_write_bool(w, c->is_tied);
}

/* Positions at which a state's bytes are told: as many as a chat has, and all. */
#define SOME_POSITIONS 4096

static int64_t positions_at(const inspection *in, int idx) {
    int64_t all = in->config.context_max;
    return idx == 0 && all > SOME_POSITIONS ? SOME_POSITIONS : all;
}

/* Of one sequence, by kind of storage: at some positions, and at all that the model was made for. */
static void put_state(const inspection *in, tdm_json_writer *w) {
    static const struct {
        const char *name;
        tdm_dtype dtype;
    } KINDS[] = {{"f32", TDM_DTYPE_F32}, {"bf16", TDM_DTYPE_BF16}};
    const tdm_graph *graph = tdm_graph_plan_graph(in->plan);
    tdm_json_write_key(w, "state");
    tdm_json_write_begin_array(w);
    for (int i = positions_at(in, 0) < positions_at(in, 1) ? 0 : 1; i < 2; i++) {
        tdm_json_write_begin_object(w);
        put_int(w, "positions", positions_at(in, i));
        for (size_t k = 0; k < sizeof KINDS / sizeof KINDS[0]; k++) {
            tdm_plan_caches caches;
            tdm_plan_caches_of(graph, KINDS[k].dtype, TDM_COMPOSITION_DEFAULTS.prefill_chunk,
                               positions_at(in, i), &caches);
            tdm_json_write_key(w, KINDS[k].name);
            tdm_plan_put_caches(w, &caches);
        }
        tdm_json_write_end_object(w);
    }
    tdm_json_write_end_array(w);
}

static void put_plan(const inspection *in, tdm_json_writer *w) {
    const tdm_weight_plan *weights = NULL;
    if (in->plan == NULL) {
        return;
    }
    weights = tdm_graph_plan_weights(in->plan);
    put_int(w, "params_active", weights->total.n_active);
    put_int(w, "loaded_bytes", (int64_t)weights->total.loaded_bytes);
    put_int(w, "unused_bytes",
            (int64_t)(in->totals.total.bytes - weights->total.stored_bytes)); /* towers */
    tdm_plan_put_parts(w, weights);
    put_state(in, w);
}

static void put_template(const inspection *in, tdm_json_writer *w) {
    tdm_json_write_key(w, "template");
    if (in->template_source == NULL) {
        tdm_json_write_null(w);
        return;
    }
    tdm_json_write_begin_object(w);
    put_int(w, "bytes", (int64_t)in->template_len);
    tdm_json_write_key(w, "features");
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < sizeof FEATURES / sizeof FEATURES[0]; i++) {
        if (has_word(in->template_source, in->template_len, FEATURES[i].word)) {
            tdm_json_write_cstr(w, FEATURES[i].name);
        }
    }
    tdm_json_write_end_array(w);
    put_why(w, "error", &in->template_error);
    tdm_json_write_end_object(w);
}

static void put_warnings(const inspection *in, tdm_json_writer *w) {
    tdm_json_write_key(w, "warnings");
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < tdm_checkpoint_n_warnings(in->checkpoint); i++) {
        tdm_json_write_cstr(w, tdm_checkpoint_warning(in->checkpoint, i));
    }
    tdm_json_write_end_array(w);
}

static tdm_status put_json(tdm_cli *cli, const inspection *in, tdm_error *err) {
    const bool is_gguf = tdm_checkpoint_container(in->checkpoint) == TDM_CONTAINER_GGUF;
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    put_text(&w, "path", tdm_checkpoint_path(in->checkpoint));
    put_text(&w, "container", is_gguf ? "gguf" : "safetensors");
    put_text(&w, "architecture", architecture(in));
    tdm_json_write_key(&w, "supported");
    tdm_json_write_bool(&w, in->run_error.code == TDM_OK);
    put_why(&w, "unsupported_why", &in->run_error);
    put_text(&w, "unsupported_remedy", in->run_error.remedy);
    put_int(&w, "files", (int64_t)tdm_checkpoint_n_files(in->checkpoint));
    put_int(&w, "n_tensors", (int64_t)in->totals.total.n_tensors);
    put_int(&w, "params", (int64_t)in->totals.n_parameters);
    put_int(&w, "bytes", (int64_t)in->totals.total.bytes);
    put_tensors(in, &w);
    put_config(in, &w);
    put_plan(in, &w);
    put_text(&w, "tokenizer", in->tokenizer != NULL ? tdm_tokenizer_describe(in->tokenizer) : NULL);
    put_why(&w, "tokenizer_error", &in->tokenizer_error);
    put_template(in, &w);
    put_warnings(in, &w);
    status = tdm_cli_finish_json(cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

/* ---- for a person ---- */

static tdm_status plain_head(const inspection *in, tdm_buf *buf) {
    const tdm_inspect *t = &in->totals;
    const bool is_gguf = tdm_checkpoint_container(in->checkpoint) == TDM_CONTAINER_GGUF;
    const char *arch = architecture(in);
    TDM_TRY(tdm_buf_printf(buf, "path          %s\n", tdm_checkpoint_path(in->checkpoint)));
    TDM_TRY(tdm_buf_printf(buf, "container     %s, %zu file%s\n", is_gguf ? "GGUF" : "safetensors",
                           tdm_checkpoint_n_files(in->checkpoint),
                           tdm_checkpoint_n_files(in->checkpoint) == 1 ? "" : "s"));
    TDM_TRY(tdm_buf_printf(buf, "architecture  %s\n", arch != NULL ? arch : "not said"));
    TDM_TRY(tdm_buf_printf(buf, "runs          %s%s%s\n",
                           in->run_error.code == TDM_OK ? "yes" : "no: ", in->run_error.what,
                           in->run_error.code == TDM_OK ? "" : "."));
    if (in->run_error.code != TDM_OK && in->run_error.remedy[0] != '\0') {
        TDM_TRY(tdm_buf_printf(buf, "              %s\n", in->run_error.remedy));
    }
    TDM_TRY(tdm_buf_printf(buf, "parameters    %.1f M\n", (double)t->n_parameters * 1e-6));
    TDM_TRY(tdm_buf_printf(buf, "tensors       %zu, %.1f MB", t->total.n_tensors,
                           (double)t->total.bytes * 1e-6));
    if (t->n_parameters > 0) {
        TDM_TRY(tdm_buf_printf(buf, ", %.2f bits a parameter",
                               8.0 * (double)t->total.bytes / (double)t->n_parameters));
    }
    TDM_TRY(tdm_buf_append_byte(buf, '\n'));
    for (int i = 0; i < TDM_DTYPE_COUNT; i++) {
        const tdm_inspect_row *row = &t->by_dtype[i];
        if (row->n_tensors > 0) {
            TDM_TRY(tdm_buf_printf(buf, "              %-8s %5zu tensors %10.1f MB%s\n",
                                   TDM_DTYPES[i].name, row->n_tensors, (double)row->bytes * 1e-6,
                                   in->is_unread[i] ? "  not read by this build" : ""));
        }
    }
    return TDM_OK;
}

static tdm_status plain_config(const inspection *in, tdm_buf *buf) {
    const tdm_model_config *c = &in->config;
    if (in->config_error.code != TDM_OK) {
        return tdm_buf_printf(buf, "config        %s (%s)\n", in->config_error.what,
                              in->config_error.where);
    }
    TDM_TRY(tdm_buf_printf(buf, "context       %lld positions\n", (long long)c->context_max));
    TDM_TRY(tdm_buf_printf(buf, "shape         %d layers, hidden %d, %d heads, %d of keys, of %d\n",
                           (int)c->n_layers, (int)c->hidden, (int)c->n_heads, (int)c->n_kv_heads,
                           (int)c->head_dim));
    if (c->sliding_window > 0) {
        TDM_TRY(tdm_buf_printf(buf, "window        %d positions\n", (int)c->sliding_window));
    }
    return TDM_OK;
}

static tdm_status plain_plan(const inspection *in, tdm_buf *buf) {
    const tdm_weight_plan *weights = NULL;
    tdm_plan_caches caches;
    if (in->plan == NULL) {
        return TDM_OK;
    }
    weights = tdm_graph_plan_weights(in->plan);
    if (weights->total.n_active != weights->total.n_params) {
        TDM_TRY(tdm_buf_printf(buf, "active        %.1f M for each token\n",
                               (double)weights->total.n_active * 1e-6));
    }
    if (in->totals.total.bytes > weights->total.stored_bytes) {
        TDM_TRY(
            tdm_buf_printf(buf, "unused        %.1f MB that text needs not\n",
                           (double)(in->totals.total.bytes - weights->total.stored_bytes) * 1e-6));
    }
    TDM_TRY(tdm_plan_print_parts(buf, weights));
    TDM_TRY(tdm_buf_printf(buf, "state         of %lld positions, bf16 where that is a choice\n",
                           (long long)positions_at(in, 0)));
    tdm_plan_caches_of(tdm_graph_plan_graph(in->plan), TDM_DTYPE_BF16,
                       TDM_COMPOSITION_DEFAULTS.prefill_chunk, positions_at(in, 0), &caches);
    return tdm_plan_print_caches(buf, &caches);
}

static tdm_status plain_text(const inspection *in, tdm_buf *buf) {
    const tdm_error *no = &in->tokenizer_error;
    if (in->tokenizer == NULL) {
        return no->code == TDM_E_NOT_FOUND
                   ? tdm_buf_append_text(buf, "tokenizer     none\n")
                   : tdm_buf_printf(buf, "tokenizer     not usable: %s (%s)\n", no->what,
                                    no->where);
    }
    TDM_TRY(tdm_buf_printf(buf, "tokenizer     %s\n", tdm_tokenizer_describe(in->tokenizer)));
    if (in->template_source == NULL) {
        return tdm_buf_append_text(buf, "template      none\n");
    }
    TDM_TRY(tdm_buf_append_text(buf, "template      "));
    if (in->template_error.code != TDM_OK) {
        return tdm_buf_printf(buf, "not usable: %s (%s)\n", in->template_error.what,
                              in->template_error.where);
    }
    TDM_TRY(tdm_buf_append_text(buf, "yes; mentions"));
    for (size_t i = 0; i < sizeof FEATURES / sizeof FEATURES[0]; i++) {
        if (has_word(in->template_source, in->template_len, FEATURES[i].word)) {
            TDM_TRY(tdm_buf_printf(buf, " %s", FEATURES[i].name));
        }
    }
    return tdm_buf_append_byte(buf, '\n');
}

static tdm_status plain(const inspection *in, tdm_buf *buf) {
    TDM_TRY(plain_head(in, buf));
    TDM_TRY(plain_config(in, buf));
    TDM_TRY(plain_plan(in, buf));
    TDM_TRY(plain_text(in, buf));
    for (size_t i = 0; i < tdm_checkpoint_n_warnings(in->checkpoint); i++) {
        TDM_TRY(
            tdm_buf_printf(buf, "warning       %s\n", tdm_checkpoint_warning(in->checkpoint, i)));
    }
    return TDM_OK;
}

static tdm_status put_plain(tdm_cli *cli, const inspection *in, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, cli->alloc, 0);
    status = plain(in, &buf) == TDM_OK ? tdm_out_text(&cli->out, buf.data, buf.len, err)
                                       : tdm_fail_nomem(err, "the answer");
    tdm_buf_deinit(&buf);
    return status;
}

tdm_status tdm_verb_inspect(tdm_cli *cli, tdm_error *err) {
    const tdm_checkpoint_options options = {.is_tokenizer_enough = true};
    tdm_checkpoint *checkpoint = NULL;
    inspection in = {.checkpoint = NULL};
    char path[TDM_PATH_MAX];
    tdm_status status = TDM_OK;
    TDM_TRY(tdm_find_model(cli->env, tdm_fs_system(), cli->args->positional[0], path, err));
    TDM_TRY_GOTO(status, tdm_checkpoint_open(&checkpoint, cli->alloc, path, &options, err), done);
    in.checkpoint = checkpoint;
    TDM_TRY_GOTO(status, look(cli, &in, err), done);
    status = cli->is_json ? put_json(cli, &in, err) : put_plain(cli, &in, err);
done:
    tdm_graph_plan_destroy(in.plan);
    if (in.backend != NULL) {
        in.backend->ops->destroy(in.backend);
    }
    tdm_tokenizer_destroy(in.tokenizer);
    tdm_checkpoint_close(checkpoint);
    return status;
}
