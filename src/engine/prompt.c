/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompts: ids and the text they came from. Refuses an empty prompt and ids outside the vocabulary
 * here, so that nothing later has to. */
#include "engine/model_priv.h"
#include "engine/prompt_priv.h"

#include "base/utf8.h"

#include <string.h>
#include <time.h>

static tdm_status prompt_new(tdm_prompt **out_prompt, const tdm_model *model, tdm_error *err) {
    tdm_prompt *prompt = tdm_mem_calloc(model->alloc, 1, sizeof *prompt);
    *out_prompt = NULL;
    if (prompt == NULL) {
        return tdm_fail_nomem(err, "a prompt");
    }
    prompt->alloc = model->alloc;
    prompt->dialect =
        model->chat_templates != NULL ? tdm_chat_templates_dialect(model->chat_templates) : NULL;
    tdm_ids_init(&prompt->ids, model->alloc);
    tdm_buf_init(&prompt->text, model->alloc, 0);
    *out_prompt = prompt;
    return TDM_OK;
}

void tdm_prompt_destroy(tdm_prompt *prompt) {
    if (prompt != NULL) {
        tdm_ids_deinit(&prompt->ids);
        tdm_buf_deinit(&prompt->text);
        tdm_mem_free(prompt->alloc, prompt->segments,
                     prompt->n_segments * sizeof *prompt->segments);
        tdm_chat_tools_release(prompt->tools);
        tdm_mem_free(prompt->alloc, prompt, sizeof *prompt);
    }
}

const int32_t *tdm_prompt_ids(const tdm_prompt *prompt, size_t *out_n) {
    *out_n = prompt->ids.len;
    return prompt->ids.ids;
}

const char *tdm_prompt_text(const tdm_prompt *prompt, size_t *out_len) {
    *out_len = prompt->text.len;
    return prompt->has_text ? prompt->text.data : NULL;
}

size_t tdm_prompt_n_segments(const tdm_prompt *prompt) {
    return prompt->n_segments;
}

bool tdm_prompt_segment_at(const tdm_prompt *prompt, size_t idx, const char **out_text,
                           size_t *out_len, bool *out_is_trusted) {
    if (idx >= prompt->n_segments) {
        return false;
    }
    *out_text = prompt->segments[idx].text;
    *out_len = prompt->segments[idx].len;
    *out_is_trusted = prompt->segments[idx].is_trusted;
    return true;
}

static tdm_status check_ids(const tdm_prompt *prompt, const tdm_model *model, tdm_error *err) {
    if (prompt->ids.len == 0) {
        (void)tdm_fail(err, TDM_E_ARG, "the prompt is empty");
        tdm_err_where(err, "prompt");
        tdm_err_remedy(err, "give at least one token of text");
        return TDM_E_ARG;
    }
    for (size_t i = 0; i < prompt->ids.len; i++) {
        if (prompt->ids.ids[i] < 0 || prompt->ids.ids[i] >= model->config.n_vocab) {
            (void)tdm_fail(err, TDM_E_ARG, "token id %d has no row in the embedding",
                           (int)prompt->ids.ids[i]);
            tdm_err_where(err, "prompt: id %zu", i);
            tdm_err_limit(err, "0 to %d", (int)model->config.n_vocab - 1);
            return TDM_E_ARG;
        }
    }
    return TDM_OK;
}

static tdm_status finish(tdm_prompt **out_prompt, tdm_prompt *prompt, const tdm_model *model,
                         tdm_status status, tdm_error *err) {
    if (status == TDM_OK) {
        status = check_ids(prompt, model, err);
    }
    if (status != TDM_OK) {
        tdm_prompt_destroy(prompt);
        return status;
    }
    *out_prompt = prompt;
    return TDM_OK;
}

/* Keeps the text and its segments, and looks whether it ends inside a thought. */
static tdm_status take_text(tdm_prompt *prompt, const char *text, size_t len,
                            const struct tdm_template_span *spans, size_t n_spans, tdm_error *err) {
    prompt->has_text = true;
    if (tdm_buf_append(&prompt->text, text, len) != TDM_OK) {
        return tdm_fail_nomem(err, "a prompt's text");
    }
    prompt->segments = tdm_mem_calloc(prompt->alloc, n_spans, sizeof *prompt->segments);
    if (prompt->segments == NULL) {
        return tdm_fail_nomem(err, "a prompt's segments");
    }
    prompt->n_segments = n_spans;
    for (size_t i = 0; i < n_spans; i++) {
        prompt->segments[i] = (tdm_text_segment){
            .text = prompt->text.data + spans[i].begin,
            .len = spans[i].end - spans[i].begin,
            .is_trusted = spans[i].is_trusted,
        };
    }
    prompt->opens_in_reasoning =
        len > 0 && tdm_dialect_opens_in_reasoning(prompt->dialect, prompt->text.data, len);
    return TDM_OK;
}

static tdm_status encode_text(tdm_prompt *prompt, const tdm_model *model, const char *text,
                              size_t len, unsigned flags, tdm_error *err) {
    const tdm_encode_options options = {
        .adds_special = (flags & TDM_TEXT_ADD_SPECIAL) != 0,
        .parses_special = (flags & TDM_TEXT_PARSE_SPECIAL) != 0,
    };
    const struct tdm_template_span whole = {0, len, options.parses_special};
    TDM_TRY(take_text(prompt, text, len, &whole, len > 0 ? 1 : 0, err));
    return tdm_tokenizer_encode(model->tokenizer, text, len, &options, &prompt->ids, err);
}

tdm_status tdm_prompt_from_text(tdm_prompt **out_prompt, tdm_model *model, const char *text,
                                size_t len, unsigned flags, tdm_error *err) {
    tdm_prompt *prompt = NULL;
    *out_prompt = NULL;
    TDM_TRY(tdm_model_need_tokenizer(model, err));
    TDM_TRY(prompt_new(&prompt, model, err));
    return finish(out_prompt, prompt, model, encode_text(prompt, model, text, len, flags, err),
                  err);
}

tdm_status tdm_prompt_from_ids(tdm_prompt **out_prompt, tdm_model *model, const int32_t *ids,
                               size_t n, tdm_error *err) {
    tdm_prompt *prompt = NULL;
    tdm_status status = TDM_OK;
    *out_prompt = NULL;
    TDM_TRY(prompt_new(&prompt, model, err));
    for (size_t i = 0; status == TDM_OK && i < n; i++) {
        status = tdm_ids_append(&prompt->ids, ids[i], 0, 0);
    }
    if (status != TDM_OK) {
        (void)tdm_fail_nomem(err, "a prompt's ids");
    }
    return finish(out_prompt, prompt, model, status, err);
}

/* The template of the request, with the model named where there is none. */
static tdm_status choose_template(const tdm_model *model, const tdm_json *request,
                                  const tdm_chat_template **out, tdm_error *err) {
    const tdm_status status = tdm_chat_templates_choose(model->chat_templates, request, out, err);
    if (status == TDM_E_STATE) {
        tdm_err_where(err, "%s", tdm_checkpoint_path(model->checkpoint));
        tdm_err_remedy(err, "give the prompt as raw text");
    }
    return status;
}

/* The wall clock as the user sees it, in seconds since 1970 without a zone. */
static int64_t local_now_s(const tdm_model *model) {
    time_t now = (time_t)(model->clock->unix_ns(model->clock->ctx) / INT64_C(1000000000));
    struct tm local;
    struct tm utc;
    if (localtime_r(&now, &local) == NULL || gmtime_r(&now, &utc) == NULL) {
        return (int64_t)now;
    }
    int64_t days = local.tm_yday - utc.tm_yday;
    if (local.tm_year != utc.tm_year) {
        days = local.tm_year > utc.tm_year ? 1 : -1;
    }
    return (int64_t)now + days * 86400 + (local.tm_hour - utc.tm_hour) * 3600 +
           (local.tm_min - utc.tm_min) * 60;
}

static tdm_status render_into(tdm_prompt *prompt, tdm_model *model, const tdm_json *request,
                              tdm_error *err) {
    const tdm_chat_template *chosen = NULL;
    tdm_template_output output;
    tdm_status status = TDM_OK;
    TDM_TRY(choose_template(model, request, &chosen, err));
    prompt->dialect = chosen->dialect;
    tdm_template_output_init(&output, model->alloc);
    status =
        tdm_chat_render(chosen->tmpl, model->alloc, request,
                        tdm_json_doc_root(model->special_tokens), local_now_s(model), &output, err);
    if (status == TDM_OK) {
        status =
            take_text(prompt, output.text.data, output.text.len, output.spans, output.n_spans, err);
    }
    tdm_template_output_deinit(&output);
    TDM_TRY(status);
    /* The template writes BOS itself where the model wants one. */
    return tdm_tokenizer_encode_segments(model->tokenizer, prompt->segments, prompt->n_segments,
                                         false, &prompt->ids, err);
}

/* take: *doc, when the request has tools; it is then NULL. */
static tdm_status take_tools(tdm_prompt *prompt, tdm_json_doc **doc_take, tdm_error *err) {
    const tdm_json *list = tdm_json_get(tdm_json_doc_root(*doc_take), "tools");
    if (tdm_json_is(list, TDM_JSON_ARRAY)) {
        TDM_TRY(tdm_chat_tools_create(&prompt->tools, prompt->alloc, *doc_take, list, err));
        *doc_take = NULL;
    }
    return TDM_OK;
}

tdm_status tdm_prompt_from_chat_json(tdm_prompt **out_prompt, tdm_model *model, const char *json,
                                     size_t len, tdm_error *err) {
    tdm_prompt *prompt = NULL;
    tdm_json_doc *doc = NULL;
    tdm_status status = TDM_OK;
    *out_prompt = NULL;
    TDM_TRY(tdm_model_need_tokenizer(model, err));
    TDM_TRY(prompt_new(&prompt, model, err));
    status = tdm_json_parse(&doc, model->alloc, json, len, NULL, "chat request", err);
    if (status == TDM_OK) {
        status = render_into(prompt, model, tdm_json_doc_root(doc), err);
    }
    if (status == TDM_OK) {
        status = take_tools(prompt, &doc, err);
    }
    tdm_json_doc_destroy(doc);
    return finish(out_prompt, prompt, model, status, err);
}

static tdm_status write_messages(tdm_buf *buf, const tdm_message *messages, size_t n_messages,
                                 tdm_error *err) {
    tdm_json_writer w;
    tdm_json_writer_init(&w, buf);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "messages");
    tdm_json_write_begin_array(&w);
    for (size_t i = 0; i < n_messages; i++) {
        size_t len = strlen(messages[i].content);
        size_t valid = tdm_utf8_valid_prefix(messages[i].content, len);
        if (valid != len) {
            (void)tdm_fail(err, TDM_E_FORMAT, "message %zu is not UTF-8", i);
            tdm_err_where(err, "messages[%zu].content: byte %zu", i, valid);
            return TDM_E_FORMAT;
        }
        tdm_json_write_begin_object(&w);
        tdm_json_write_key(&w, "role");
        tdm_json_write_cstr(&w, messages[i].role);
        tdm_json_write_key(&w, "content");
        tdm_json_write_text(&w, messages[i].content, len);
        tdm_json_write_end_object(&w);
    }
    tdm_json_write_end_array(&w);
    tdm_json_write_end_object(&w);
    return tdm_json_writer_status(&w) == TDM_OK ? TDM_OK : tdm_fail_nomem(err, "a chat request");
}

tdm_status tdm_prompt_from_chat(tdm_prompt **out_prompt, tdm_model *model,
                                const tdm_message *messages, size_t n_messages, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    *out_prompt = NULL;
    tdm_buf_init(&buf, model->alloc, 0);
    status = write_messages(&buf, messages, n_messages, err);
    if (status == TDM_OK) {
        status = tdm_prompt_from_chat_json(out_prompt, model, buf.data, buf.len, err);
    }
    tdm_buf_deinit(&buf);
    return status;
}
