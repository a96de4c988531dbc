/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem generate: one prompt to text. For a person the text streams as it comes; with --json one
 * object tells it all at the end. Ctrl-C ends the answer: what came stands. */
#include "cli/find_model.h"
#include "cli/load.h"
#include "cli/sampling.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define EXIT_INTERRUPTED 130

/* Options that only a chat template can serve. */
static const tdm_option_id NEEDS_CHAT[] = {TDM_OPT_SYSTEM, TDM_OPT_TOOLS, TDM_OPT_TEMPLATE_NAME};

typedef struct generate_job {
    tdm_cli *cli;
    tdm_model *model;
    tdm_model_facts facts;
    tdm_prompt *prompt;
    tdm_generation *generation;
    tdm_buf source;   /* the prompt's text */
    tdm_buf tools;    /* JSON, or empty */
    tdm_buf text;     /* of the answer, kept for JSON */
    tdm_ids ids;      /* of the answer */
    tdm_buf logprobs; /* JSON objects apart by commas */
    tdm_buf reasoning;
    tdm_buf call;      /* arguments of the open call */
    tdm_buf call_name; /* and its name */
    tdm_buf calls;     /* JSON objects apart by commas */
    tdm_finish finish;
    bool has_logprobs;
    bool is_split; /* reasoning and calls are told apart from the text */
} generate_job;

static tdm_status fail_empty(tdm_error *err) {
    (void)tdm_fail(err, TDM_E_ARG, "the prompt is empty");
    tdm_err_remedy(err, "give one with -p TEXT, -f FILE, --ids FILE or on standard input");
    return TDM_E_ARG;
}

/* The prompt's text from -p, -f or standard input: before the model is loaded, so that a bad one is
 * answered at once. */
static tdm_status read_prompt(generate_job *job, tdm_error *err) {
    const tdm_args *args = job->cli->args;
    const char *text = tdm_args_text(args, TDM_OPT_PROMPT);
    const char *path = tdm_args_text(args, TDM_OPT_FILE);
    const char *name = text != NULL ? "-p" : tdm_input_name(path);
    if (text != NULL) {
        if (tdm_buf_append_text(&job->source, text) != TDM_OK) {
            return tdm_fail_nomem(err, "the prompt");
        }
    } else {
        if (path == NULL && isatty(STDIN_FILENO) == 1) {
            tdm_cli_note(job->cli, "reading the prompt from standard input; Ctrl-D ends it");
        }
        TDM_TRY(tdm_input_read(&job->source, path, err));
    }
    if (job->source.len == 0) {
        return fail_empty(err);
    }
    return tdm_input_check_utf8(job->source.data, job->source.len, name, err);
}

/* --tools: read before the model is loaded too. What the array holds is the template's business. */
static tdm_status read_tools(generate_job *job, tdm_error *err) {
    const char *path = tdm_args_text(job->cli->args, TDM_OPT_TOOLS);
    tdm_json_doc *doc = NULL;
    bool is_array = false;
    if (path == NULL) {
        return TDM_OK;
    }
    TDM_TRY(tdm_input_read(&job->tools, path, err));
    TDM_TRY(tdm_json_parse(&doc, job->cli->alloc, job->tools.len > 0 ? job->tools.data : "",
                           job->tools.len, NULL, tdm_input_name(path), err));
    is_array = tdm_json_is(tdm_json_doc_root(doc), TDM_JSON_ARRAY);
    tdm_json_doc_destroy(doc);
    if (!is_array) {
        (void)tdm_fail(err, TDM_E_ARG, "tools are a JSON array");
        tdm_err_where(err, "%.150s", tdm_input_name(path));
        return TDM_E_ARG;
    }
    return TDM_OK;
}

/* Members of the request besides the messages. */
static void write_choices(const generate_job *job, tdm_json_writer *w) {
    const char *name = tdm_args_text(job->cli->args, TDM_OPT_TEMPLATE_NAME);
    if (name != NULL) {
        tdm_json_write_key(w, "chat_template");
        tdm_json_write_cstr(w, name);
    }
    if (job->tools.len > 0) { /* parsed before: it goes in as it is */
        tdm_json_write_key(w, "tools");
        if (tdm_buf_append(w->buf, job->tools.data, job->tools.len) != TDM_OK) {
            w->status = TDM_E_NOMEM;
        }
        w->needs_comma = true;
    }
}

/* System and user message as a chat request. */
static tdm_status chat_prompt(generate_job *job, tdm_error *err) {
    const char *system_text = tdm_args_text(job->cli->args, TDM_OPT_SYSTEM);
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "messages");
    tdm_json_write_begin_array(&w);
    for (int i = system_text == NULL ? 1 : 0; i < 2; i++) {
        tdm_json_write_begin_object(&w);
        tdm_json_write_key(&w, "role");
        tdm_json_write_cstr(&w, i == 0 ? "system" : "user");
        tdm_json_write_key(&w, "content");
        if (i == 0) {
            tdm_json_write_cstr(&w, system_text);
        } else {
            tdm_json_write_text(&w, job->source.data, job->source.len);
        }
        tdm_json_write_end_object(&w);
    }
    tdm_json_write_end_array(&w);
    write_choices(job, &w);
    tdm_json_write_end_object(&w);
    status = tdm_json_writer_status(&w) == TDM_OK
                 ? tdm_prompt_from_chat_json(&job->prompt, job->model, buf.data, buf.len, err)
                 : tdm_fail_nomem(err, "the chat");
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status text_prompt(generate_job *job, tdm_error *err) {
    const tdm_args *args = job->cli->args;
    const bool is_chat = tdm_args_has(args, TDM_OPT_CHAT) ||
                         (job->facts.has_chat_template && !tdm_args_has(args, TDM_OPT_RAW));
    if (is_chat) {
        job->is_split = job->cli->is_json && job->facts.dialect != NULL &&
                        strcmp(job->facts.dialect, "plain") != 0;
        return chat_prompt(job, err);
    }
    for (size_t i = 0; i < sizeof NEEDS_CHAT / sizeof NEEDS_CHAT[0]; i++) {
        if (tdm_args_has(args, NEEDS_CHAT[i])) {
            const char *name = TDM_OPTIONS[NEEDS_CHAT[i]].name;
            (void)tdm_fail(err, TDM_E_ARG, "--%s needs a chat template; %s", name,
                           tdm_args_has(args, TDM_OPT_RAW) ? "--raw uses none"
                                                           : "the model has none");
            tdm_err_where(err, "--%s", name);
            return TDM_E_ARG;
        }
    }
    return tdm_prompt_from_text(&job->prompt, job->model, job->source.data, job->source.len,
                                TDM_TEXT_ADD_SPECIAL | TDM_TEXT_PARSE_SPECIAL, err);
}

static tdm_status ids_prompt(generate_job *job, const char *path, tdm_error *err) {
    tdm_ids ids;
    tdm_status status = TDM_OK;
    tdm_ids_init(&ids, job->cli->alloc);
    status = tdm_input_ids(job->cli->alloc, path, &ids, err);
    if (status == TDM_OK && ids.len == 0) {
        status = fail_empty(err);
    }
    if (status == TDM_OK) {
        status = tdm_prompt_from_ids(&job->prompt, job->model, ids.ids, ids.len, err);
    }
    tdm_ids_deinit(&ids);
    return status;
}

static tdm_status check_sources(const tdm_args *args, tdm_error *err) {
    const int n = (tdm_args_has(args, TDM_OPT_PROMPT) ? 1 : 0) +
                  (tdm_args_has(args, TDM_OPT_FILE) ? 1 : 0) +
                  (tdm_args_has(args, TDM_OPT_IDS) ? 1 : 0);
    if (n > 1) {
        return tdm_fail(err, TDM_E_ARG, "give the prompt once: -p, -f or --ids");
    }
    if (tdm_args_has(args, TDM_OPT_CHAT) &&
        (tdm_args_has(args, TDM_OPT_RAW) || tdm_args_has(args, TDM_OPT_IDS))) {
        return tdm_fail(err, TDM_E_ARG, "--chat goes with neither --raw nor --ids");
    }
    for (size_t i = 0; i < sizeof NEEDS_CHAT / sizeof NEEDS_CHAT[0]; i++) {
        if (tdm_args_has(args, NEEDS_CHAT[i]) && tdm_args_has(args, TDM_OPT_IDS)) {
            return tdm_fail(err, TDM_E_ARG, "--%s does not go with --ids",
                            TDM_OPTIONS[NEEDS_CHAT[i]].name);
        }
    }
    if (tdm_args_has(args, TDM_OPT_PROMPT) && tdm_args_text(args, TDM_OPT_PROMPT)[0] == '\0') {
        return fail_empty(err); /* before a model is loaded for nothing */
    }
    return TDM_OK;
}

/* ---- the answer ---- */

static void write_top(const tdm_event *event, tdm_json_writer *w) {
    tdm_json_write_key(w, "top");
    tdm_json_write_begin_array(w);
    for (int32_t i = 0; i < event->n_top; i++) {
        tdm_json_write_begin_object(w);
        tdm_json_write_key(w, "id");
        tdm_json_write_i64(w, event->top[i].id);
        tdm_json_write_key(w, "logprob");
        tdm_json_write_f64(w, (double)event->top[i].logprob, 9);
        tdm_json_write_end_object(w);
    }
    tdm_json_write_end_array(w);
}

static tdm_status keep_logprob(generate_job *job, const tdm_event *event) {
    tdm_json_writer w;
    if (job->logprobs.len > 0) {
        TDM_TRY(tdm_buf_append_byte(&job->logprobs, ','));
    }
    tdm_json_writer_init(&w, &job->logprobs);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "id");
    tdm_json_write_i64(&w, event->id);
    tdm_json_write_key(&w, "logprob");
    tdm_json_write_f64(&w, (double)event->logprob, 9);
    write_top(event, &w);
    tdm_json_write_end_object(&w);
    return tdm_json_writer_status(&w);
}

/* The open call as a JSON object. */
static tdm_status keep_call(generate_job *job, const tdm_answer_part *end) {
    tdm_json_writer w;
    if (job->calls.len > 0) {
        TDM_TRY(tdm_buf_append_byte(&job->calls, ','));
    }
    tdm_json_writer_init(&w, &job->calls);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "name");
    tdm_json_write_text(&w, job->call_name.data, job->call_name.len);
    tdm_json_write_key(&w, "arguments");
    tdm_json_write_text(&w, job->call.data, job->call.len);
    tdm_json_write_key(&w, "id");
    if (end->id_len > 0) {
        tdm_json_write_text(&w, end->id, end->id_len);
    } else {
        tdm_json_write_null(&w);
    }
    tdm_json_write_end_object(&w);
    return tdm_json_writer_status(&w);
}

static tdm_status keep_part(generate_job *job, const tdm_answer_part *part) {
    switch (part->kind) {
    case TDM_PART_REASONING:
        return tdm_buf_append(&job->reasoning, part->text, part->len);
    case TDM_PART_CALL_BEGIN:
        tdm_buf_reset(&job->call);
        tdm_buf_reset(&job->call_name);
        return tdm_buf_append(&job->call_name, part->text, part->len);
    case TDM_PART_CALL_ARGUMENTS:
        return tdm_buf_append(&job->call, part->text, part->len);
    case TDM_PART_CALL_END:
        return keep_call(job, part);
    case TDM_PART_TEXT: /* the event's text has it */
    case TDM_PART_CALL_DROPPED:
        break;
    }
    return TDM_OK;
}

static tdm_status keep_event(generate_job *job, const tdm_event *event) {
    for (size_t i = 0; i < event->n_parts; i++) {
        TDM_TRY(keep_part(job, &event->parts[i]));
    }
    if (event->id >= 0 && event->is_content) {
        TDM_TRY(tdm_ids_append(&job->ids, event->id, 0, 0));
        if (job->has_logprobs) {
            TDM_TRY(keep_logprob(job, event));
        }
    }
    return event->text_len > 0 ? tdm_buf_append(&job->text, event->text, event->text_len) : TDM_OK;
}

/* Without a tokenizer the ids are the answer. */
static tdm_status put_id(generate_job *job, int32_t id, tdm_error *err) {
    char text[24];
    const int n =
        snprintf(text, sizeof text, "%s%d", job->cli->out.last == '\0' ? "" : " ", (int)id);
    return tdm_out_bytes(&job->cli->out, text, n > 0 ? (size_t)n : 0, err);
}

static tdm_status take_event(generate_job *job, const tdm_event *event, tdm_error *err) {
    if (!job->cli->is_json && job->facts.tokenizer == NULL) {
        return event->id >= 0 && event->is_content ? put_id(job, event->id, err) : TDM_OK;
    }
    if (job->cli->is_json) {
        return keep_event(job, event) == TDM_OK ? TDM_OK : tdm_fail_nomem(err, "the answer");
    }
    return tdm_out_text(&job->cli->out, event->text, event->text_len, err);
}

static tdm_status stream(generate_job *job, tdm_error *err) {
    tdm_event event;
    tdm_status status = TDM_OK;
    tdm_interrupt_arm(job->cli->interrupt, job->generation, false);
    do {
        status = tdm_generation_next(job->generation, &event, err);
        if (status == TDM_OK) {
            job->finish = event.finish;
            status = take_event(job, &event, err);
        }
    } while (status == TDM_OK && event.finish == TDM_FINISH_NONE);
    (void)tdm_interrupt_disarm(job->cli->interrupt);
    if (status == TDM_OK && job->finish == TDM_FINISH_CANCELLED) {
        job->cli->exit_code = EXIT_INTERRUPTED;
    }
    return status;
}

static double rate(int64_t n, double ms) {
    return ms > 0.0 && n > 0 ? (double)n * 1e3 / ms : (double)NAN;
}

static void write_timings(const generate_job *job, const tdm_generation_stats *stats,
                          tdm_json_writer *w) {
    tdm_json_write_key(w, "timings");
    tdm_json_write_begin_object(w);
    tdm_json_write_key(w, "load_ms");
    tdm_json_write_f64(w, job->facts.load_ms, 6);
    tdm_json_write_key(w, "ttft_ms");
    tdm_json_write_f64(w, stats->prefill_ms, 6);
    tdm_json_write_key(w, "prefill_tok_s");
    tdm_json_write_f64(w, rate(stats->n_prompt, stats->prefill_ms), 6);
    tdm_json_write_key(w, "decode_tok_s");
    tdm_json_write_f64(w, rate(stats->n_decode - 1, stats->decode_ms), 6);
    tdm_json_write_key(w, "n_prompt");
    tdm_json_write_i64(w, stats->n_prompt);
    tdm_json_write_key(w, "n_decode");
    tdm_json_write_i64(w, stats->n_decode);
    tdm_json_write_end_object(w);
}

static void write_ids(tdm_json_writer *w, const char *key, const int32_t *ids, size_t n) {
    tdm_json_write_key(w, key);
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < n; i++) {
        tdm_json_write_i64(w, ids[i]);
    }
    tdm_json_write_end_array(w);
}

/* A list that was written as it came; it goes in as it is. */
static void write_kept(tdm_json_writer *w, const char *key, const tdm_buf *list) {
    tdm_json_write_key(w, key);
    tdm_json_write_begin_array(w);
    if (list->len > 0 && tdm_buf_append(w->buf, list->data, list->len) != TDM_OK) {
        w->status = TDM_E_NOMEM;
    }
    tdm_json_write_end_array(w);
}

static void write_split(const generate_job *job, tdm_json_writer *w) {
    tdm_json_write_key(w, "reasoning");
    if (job->reasoning.len > 0) {
        tdm_json_write_text(w, job->reasoning.data, job->reasoning.len);
    } else {
        tdm_json_write_null(w);
    }
    write_kept(w, "calls", &job->calls);
}

static tdm_status put_json(generate_job *job, tdm_error *err) {
    static const char *const FINISHES[] = {"none", "stop", "length", "cancelled"};
    tdm_generation_stats stats;
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    size_t n_prompt = 0;
    const int32_t *prompt_ids = tdm_prompt_ids(job->prompt, &n_prompt);
    tdm_generation_stats_get(job->generation, &stats);
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    write_ids(&w, "prompt_ids", prompt_ids, n_prompt);
    write_ids(&w, "ids", job->ids.ids, job->ids.len);
    tdm_json_write_key(&w, "text");
    if (job->facts.tokenizer != NULL) {
        tdm_json_write_text(&w, job->text.data, job->text.len);
    } else {
        tdm_json_write_null(&w);
    }
    if (job->is_split) {
        write_split(job, &w);
    }
    tdm_json_write_key(&w, "finish");
    tdm_json_write_cstr(&w, FINISHES[job->finish]);
    if (job->has_logprobs) {
        write_kept(&w, "logprobs", &job->logprobs);
    } else {
        tdm_json_write_key(&w, "logprobs");
        tdm_json_write_null(&w);
    }
    tdm_json_write_key(&w, "seed");
    tdm_json_write_u64(&w, stats.seed);
    write_timings(job, &stats, &w);
    status = tdm_cli_finish_json(job->cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status end_plain(generate_job *job, const tdm_generation_options *options,
                            tdm_error *err) {
    tdm_generation_stats stats;
    TDM_TRY(tdm_out_end_line(&job->cli->out, err));
    tdm_generation_stats_get(job->generation, &stats);
    if (options->temperature > 0.0F && !options->has_seed) {
        tdm_cli_note(job->cli, "seed %llu", (unsigned long long)stats.seed);
    }
    if (job->cli->is_verbose) {
        tdm_cli_note(job->cli,
                     "load %.0f ms; prompt %lld tokens, %.1f ms, %.1f tok/s; answer %lld "
                     "tokens, %.1f tok/s",
                     job->facts.load_ms, (long long)stats.n_prompt, stats.prefill_ms,
                     rate(stats.n_prompt, stats.prefill_ms), (long long)stats.n_decode,
                     rate(stats.n_decode - 1, stats.decode_ms));
    }
    return TDM_OK;
}

static tdm_status generate(generate_job *job, tdm_error *err) {
    tdm_cli_sampling sampling;
    const char *ids = tdm_args_text(job->cli->args, TDM_OPT_IDS);
    tdm_status status = ids != NULL ? ids_prompt(job, ids, err) : text_prompt(job, err);
    if (status != TDM_OK) {
        return status;
    }
    TDM_TRY_GOTO(status, tdm_cli_sampling_init(&sampling, job->cli, job->model, false, err), done);
    job->has_logprobs = sampling.options.n_logprobs >= 0;
    sampling.options.splits_answer = job->is_split;
    TDM_TRY_GOTO(
        status,
        tdm_generation_create(&job->generation, job->model, job->prompt, &sampling.options, err),
        done);
    TDM_TRY_GOTO(status, stream(job, err), done);
    status = job->cli->is_json ? put_json(job, err) : end_plain(job, &sampling.options, err);
done:
    tdm_cli_sampling_deinit(&sampling);
    return status;
}

tdm_status tdm_verb_generate(tdm_cli *cli, tdm_error *err) {
    generate_job job = {.cli = cli};
    char path[TDM_PATH_MAX];
    tdm_status status = TDM_OK;
    TDM_TRY(check_sources(cli->args, err));
    TDM_TRY(tdm_find_model(cli->env, tdm_fs_system(), cli->args->positional[0], path, err));
    tdm_buf_init(&job.source, cli->alloc, 0);
    tdm_buf_init(&job.tools, cli->alloc, 0);
    tdm_buf_init(&job.text, cli->alloc, 0);
    tdm_buf_init(&job.logprobs, cli->alloc, 0);
    tdm_buf_init(&job.reasoning, cli->alloc, 0);
    tdm_buf_init(&job.call, cli->alloc, 0);
    tdm_buf_init(&job.call_name, cli->alloc, 0);
    tdm_buf_init(&job.calls, cli->alloc, 0);
    tdm_ids_init(&job.ids, cli->alloc);
    status = tdm_args_has(cli->args, TDM_OPT_IDS) ? TDM_OK : read_prompt(&job, err);
    if (status == TDM_OK) {
        status = read_tools(&job, err);
    }
    if (status == TDM_OK) {
        status = tdm_cli_open_model(cli, cli->args->positional[0], NULL, &job.model, err);
    }
    if (status == TDM_OK) {
        tdm_model_describe(job.model, &job.facts);
        status = generate(&job, err);
    }
    tdm_generation_destroy(job.generation);
    tdm_prompt_destroy(job.prompt);
    tdm_model_close(job.model);
    tdm_ids_deinit(&job.ids);
    tdm_buf_deinit(&job.calls);
    tdm_buf_deinit(&job.call_name);
    tdm_buf_deinit(&job.call);
    tdm_buf_deinit(&job.reasoning);
    tdm_buf_deinit(&job.logprobs);
    tdm_buf_deinit(&job.text);
    tdm_buf_deinit(&job.tools);
    tdm_buf_deinit(&job.source);
    return status;
}
