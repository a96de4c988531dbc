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
    tdm_ids_init(&prompt->ids, model->alloc);
    tdm_buf_init(&prompt->text, model->alloc, 0);
    *out_prompt = prompt;
    return TDM_OK;
}

void tdm_prompt_destroy(tdm_prompt *prompt) {
    if (prompt != NULL) {
        tdm_ids_deinit(&prompt->ids);
        tdm_buf_deinit(&prompt->text);
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

static tdm_status encode_text(tdm_prompt *prompt, const tdm_model *model, const char *text,
                              size_t len, unsigned flags, tdm_error *err) {
    const tdm_encode_options options = {
        .adds_special = (flags & TDM_TEXT_ADD_SPECIAL) != 0,
        .parses_special = (flags & TDM_TEXT_PARSE_SPECIAL) != 0,
    };
    prompt->has_text = true;
    if (tdm_buf_append(&prompt->text, text, len) != TDM_OK) {
        return tdm_fail_nomem(err, "a prompt's text");
    }
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

static tdm_status need_template(const tdm_model *model, tdm_error *err) {
    TDM_TRY(tdm_model_need_tokenizer(model, err));
    if (model->chat_template != NULL) {
        return TDM_OK;
    }
    if (model->template_error.code != TDM_OK) {
        if (err != NULL) {
            *err = model->template_error;
        }
        return model->template_error.code;
    }
    (void)tdm_fail(err, TDM_E_STATE, "the model has no chat template");
    tdm_err_where(err, "%s", tdm_checkpoint_path(model->checkpoint));
    tdm_err_remedy(err, "give the prompt as raw text");
    return TDM_E_STATE;
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

/* The rendered spans as tokenizer segments. */
static tdm_status encode_spans(tdm_prompt *prompt, const tdm_model *model,
                               const tdm_template_output *output, tdm_error *err) {
    tdm_text_segment *segments = tdm_mem_calloc(model->alloc, output->n_spans, sizeof *segments);
    tdm_status status = TDM_OK;
    if (segments == NULL) {
        return tdm_fail_nomem(err, "a prompt's segments");
    }
    for (size_t i = 0; i < output->n_spans; i++) {
        segments[i].text = output->text.data + output->spans[i].begin;
        segments[i].len = output->spans[i].end - output->spans[i].begin;
        segments[i].is_trusted = output->spans[i].is_trusted;
    }
    /* The template writes BOS itself where the model wants one. */
    status = tdm_tokenizer_encode_segments(model->tokenizer, segments, output->n_spans, false,
                                           &prompt->ids, err);
    tdm_mem_free(model->alloc, segments, output->n_spans * sizeof *segments);
    return status;
}

static tdm_status render_into(tdm_prompt *prompt, tdm_model *model, const tdm_json *request,
                              tdm_error *err) {
    tdm_template_output output;
    tdm_status status = TDM_OK;
    tdm_template_output_init(&output, model->alloc);
    status =
        tdm_chat_render(model->chat_template, model->alloc, request,
                        tdm_json_doc_root(model->special_tokens), local_now_s(model), &output, err);
    if (status == TDM_OK) {
        prompt->has_text = true;
        status = tdm_buf_append(&prompt->text, output.text.data, output.text.len) == TDM_OK
                     ? encode_spans(prompt, model, &output, err)
                     : tdm_fail_nomem(err, "a prompt's text");
    }
    tdm_template_output_deinit(&output);
    return status;
}

tdm_status tdm_prompt_from_chat_json(tdm_prompt **out_prompt, tdm_model *model, const char *json,
                                     size_t len, tdm_error *err) {
    tdm_prompt *prompt = NULL;
    tdm_json_doc *doc = NULL;
    tdm_status status = TDM_OK;
    *out_prompt = NULL;
    TDM_TRY(need_template(model, err));
    TDM_TRY(prompt_new(&prompt, model, err));
    status = tdm_json_parse(&doc, model->alloc, json, len, NULL, "chat request", err);
    if (status == TDM_OK) {
        status = render_into(prompt, model, tdm_json_doc_root(doc), err);
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
