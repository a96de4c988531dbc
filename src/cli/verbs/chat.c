/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem chat: a conversation. One generation lives as long as the conversation, so that a turn
 * computes only what is new. An answer that was stopped stays in the conversation as far as it
 * came. With --json every answer is one JSON line. */
#include "cli/find_model.h"
#include "cli/line_edit.h"
#include "cli/load.h"
#include "cli/sampling.h"

#include <string.h>
#include <sys/stat.h>

typedef struct chat_job {
    tdm_cli *cli;
    tdm_model *model;
    tdm_cli_sampling sampling;
    tdm_generation *generation;
    tdm_arena texts;       /* of the messages */
    tdm_message *messages; /* [cap] */
    size_t n, cap;
    tdm_buf answer;
    tdm_line_edit *edit;
    bool is_over;
    bool is_seed_told;
} chat_job;

static const char HELP[] =
    "/help           this text\n"
    "/system [TEXT]  set the system message, or drop it; starts over\n"
    "/reset          start over\n"
    "/save FILE      the conversation as JSON, as `tandem template` reads it\n"
    "/stats          tokens and speed of the last answer\n"
    "/exit           leave; so does Ctrl-D\n"
    "A line that ends in \\ goes on in the next. Ctrl-C stops an answer.\n";

/* ---- the conversation ---- */

static tdm_status push(chat_job *job, const char *role, const char *text, size_t len,
                       tdm_error *err) {
    const size_t unit = sizeof *job->messages;
    char *copy = NULL;
    if (job->n == job->cap) {
        const size_t cap = job->cap > 0 ? job->cap * 2 : 16;
        tdm_message *grown =
            tdm_mem_resize(job->cli->alloc, job->messages, job->cap * unit, cap * unit);
        if (grown == NULL) {
            return tdm_fail_nomem(err, "the conversation");
        }
        job->messages = grown;
        job->cap = cap;
    }
    copy = tdm_arena_copy_text(&job->texts, len > 0 ? text : "", len);
    if (copy == NULL) {
        return tdm_fail_nomem(err, "a message");
    }
    job->messages[job->n++] = (tdm_message){role, copy};
    return TDM_OK;
}

static tdm_status start_over(chat_job *job, const char *system_text, tdm_error *err) {
    tdm_arena old = job->texts; /* system_text may lie in it */
    tdm_status status = TDM_OK;
    tdm_arena_init(&job->texts, job->cli->alloc);
    tdm_generation_destroy(job->generation);
    job->generation = NULL;
    job->n = 0;
    if (system_text != NULL && system_text[0] != '\0') {
        status = push(job, "system", system_text, strlen(system_text), err);
    }
    tdm_arena_deinit(&old);
    return status;
}

static const char *system_text(const chat_job *job) {
    return job->n > 0 && strcmp(job->messages[0].role, "system") == 0 ? job->messages[0].content
                                                                      : NULL;
}

/* ---- one turn ---- */

static void write_messages(const chat_job *job, tdm_json_writer *w) {
    tdm_json_write_key(w, "messages");
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < job->n; i++) {
        tdm_json_write_begin_object(w);
        tdm_json_write_key(w, "role");
        tdm_json_write_cstr(w, job->messages[i].role);
        tdm_json_write_key(w, "content");
        tdm_json_write_cstr(w, job->messages[i].content);
        tdm_json_write_end_object(w);
    }
    tdm_json_write_end_array(w);
}

/* The conversation by the template that --template-name asks for, else by the model's choice. */
static tdm_status make_prompt(chat_job *job, tdm_prompt **out, tdm_error *err) {
    const char *name = tdm_args_text(job->cli->args, TDM_OPT_TEMPLATE_NAME);
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    if (name == NULL) {
        return tdm_prompt_from_chat(out, job->model, job->messages, job->n, err);
    }
    *out = NULL;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    write_messages(job, &w);
    tdm_json_write_key(&w, "chat_template");
    tdm_json_write_cstr(&w, name);
    tdm_json_write_end_object(&w);
    status = tdm_json_writer_status(&w) == TDM_OK
                 ? tdm_prompt_from_chat_json(out, job->model, buf.data, buf.len, err)
                 : tdm_fail_nomem(err, "the conversation");
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status begin_answer(chat_job *job, tdm_error *err) {
    tdm_prompt *prompt = NULL;
    tdm_status status = make_prompt(job, &prompt, err);
    if (status == TDM_OK) {
        status = job->generation == NULL
                     ? tdm_generation_create(&job->generation, job->model, prompt,
                                             &job->sampling.options, err)
                     : tdm_generation_continue(job->generation, prompt, err);
    }
    tdm_prompt_destroy(prompt);
    return status;
}

static tdm_status take_text(chat_job *job, const tdm_event *event, tdm_error *err) {
    if (event->text_len == 0) {
        return TDM_OK;
    }
    if (tdm_buf_append(&job->answer, event->text, event->text_len) != TDM_OK) {
        return tdm_fail_nomem(err, "the answer");
    }
    return job->cli->is_json ? TDM_OK
                             : tdm_out_text(&job->cli->out, event->text, event->text_len, err);
}

static tdm_status put_answer(chat_job *job, tdm_finish finish, tdm_error *err) {
    static const char *const FINISHES[] = {"none", "stop", "length", "cancelled"};
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    if (!job->cli->is_json) {
        return tdm_out_end_line(&job->cli->out, err);
    }
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "text");
    tdm_json_write_text(&w, job->answer.data, job->answer.len);
    tdm_json_write_key(&w, "finish");
    tdm_json_write_cstr(&w, FINISHES[finish]);
    status = tdm_cli_finish_json(job->cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status stream_answer(chat_job *job, tdm_error *err) {
    tdm_event event = {.finish = TDM_FINISH_NONE};
    tdm_status status = TDM_OK;
    tdm_buf_reset(&job->answer);
    tdm_interrupt_arm(job->cli->interrupt, job->generation, true);
    do {
        status = tdm_generation_next(job->generation, &event, err);
        if (status == TDM_OK) {
            status = take_text(job, &event, err);
        }
    } while (status == TDM_OK && event.finish == TDM_FINISH_NONE);
    tdm_interrupt_arm(job->cli->interrupt, NULL, true);
    return status == TDM_OK ? put_answer(job, event.finish, err) : status;
}

static void tell_seed(chat_job *job) {
    tdm_generation_stats stats;
    const tdm_generation_options *options = &job->sampling.options;
    if (!job->is_seed_told && options->temperature > 0.0F && !options->has_seed) {
        tdm_generation_stats_get(job->generation, &stats);
        tdm_cli_note(job->cli, "seed %llu", (unsigned long long)stats.seed);
        job->is_seed_told = true;
    }
}

/* A turn that cannot be begun is told and taken back; the chat goes on. Only a failure of the
 * machine ends it. */
static tdm_status turn(chat_job *job, const tdm_buf *line, tdm_error *err) {
    const size_t n_before = job->n;
    tdm_status status = tdm_input_check_utf8(line->data, line->len, "the message", err);
    if (status == TDM_OK) {
        TDM_TRY(push(job, "user", line->data, line->len, err));
        status = begin_answer(job, err);
    }
    if (status != TDM_OK) {
        if (status == TDM_E_NOMEM || status == TDM_E_INTERNAL) {
            return status;
        }
        if (status == TDM_E_NO_FIT) {
            tdm_err_remedy(err, "/reset starts over");
        }
        job->n = n_before;
        tdm_cli_print_error(err, job->cli->is_json, job->cli->has_color);
        return TDM_OK;
    }
    TDM_TRY(stream_answer(job, err));
    tell_seed(job);
    return push(job, "assistant", job->answer.data, job->answer.len, err);
}

/* ---- commands ---- */

static tdm_status save_to(const char *path, const tdm_buf *buf, tdm_error *err) {
    const tdm_fs *fs = tdm_fs_system();
    tdm_file *file = NULL;
    tdm_status status = fs->open_create(fs->ctx, path, &file, err);
    if (status == TDM_OK) {
        status = fs->append(fs->ctx, file, buf->data, buf->len, err);
        fs->close(fs->ctx, file);
    }
    return status;
}

static tdm_status save(chat_job *job, const char *path, tdm_error *err) {
    tdm_buf buf;
    tdm_json_writer w;
    tdm_error why = {.code = TDM_OK};
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    write_messages(job, &w);
    tdm_json_write_end_object(&w);
    if (tdm_json_writer_status(&w) != TDM_OK || tdm_buf_append_byte(&buf, '\n') != TDM_OK) {
        tdm_buf_deinit(&buf);
        return tdm_fail_nomem(err, "the conversation");
    }
    if (path[0] == '\0') {
        tdm_cli_note(job->cli, "/save needs a file's name");
    } else if (save_to(path, &buf, &why) == TDM_OK) {
        tdm_cli_note(job->cli, "saved to %s", path);
    } else {
        tdm_cli_print_error(&why, job->cli->is_json, job->cli->has_color);
    }
    tdm_buf_deinit(&buf);
    return TDM_OK;
}

static void tell_stats(const chat_job *job) {
    tdm_generation_stats s;
    if (job->generation == NULL) {
        tdm_cli_note(job->cli, "no answer yet");
        return;
    }
    tdm_generation_stats_get(job->generation, &s);
    tdm_cli_note(job->cli,
                 "prompt %lld tokens, first token after %.0f ms; answer %lld tokens, %.1f "
                 "tok/s",
                 (long long)s.n_prompt, s.prefill_ms, (long long)s.n_decode,
                 s.decode_ms > 0.0 ? (double)(s.n_decode - 1) * 1e3 / s.decode_ms : 0.0);
}

/* What stands behind the command's word, blanks left out. */
static const char *argument(const char *line) {
    const char *at = line + strcspn(line, " \t");
    return at + strspn(at, " \t");
}

static bool is_command(const char *line, const char *name) {
    const size_t len = strlen(name);
    return strncmp(line, name, len) == 0 &&
           (line[len] == '\0' || line[len] == ' ' || line[len] == '\t');
}

static tdm_status command(chat_job *job, const char *line, tdm_error *err) {
    if (is_command(line, "/exit") || is_command(line, "/quit")) {
        job->is_over = true;
    } else if (is_command(line, "/help")) {
        tdm_cli_note(job->cli, "%.*s", (int)(sizeof HELP - 2), HELP);
    } else if (is_command(line, "/reset")) {
        TDM_TRY(start_over(job, system_text(job), err));
        tdm_cli_note(job->cli, "started over");
    } else if (is_command(line, "/system")) {
        TDM_TRY(start_over(job, argument(line), err));
        tdm_cli_note(job->cli, job->n > 0 ? "system message set; started over"
                                          : "no system message; started over");
    } else if (is_command(line, "/save")) {
        return save(job, argument(line), err);
    } else if (is_command(line, "/stats")) {
        tell_stats(job);
    } else {
        tdm_cli_note(job->cli, "unknown command; /help lists them");
    }
    return TDM_OK;
}

/* ---- the loop ---- */

/* A message: one line, or several of which all but the last end in a backslash. */
static tdm_status read_message(chat_job *job, tdm_buf *message, tdm_line_kind *out_kind,
                               tdm_error *err) {
    tdm_buf line;
    tdm_status status = TDM_OK;
    bool goes_on = true;
    tdm_buf_reset(message);
    tdm_buf_init(&line, job->cli->alloc, 0);
    while (goes_on && status == TDM_OK) {
        status =
            tdm_line_edit_read(job->edit, message->len == 0 ? "> " : "| ", &line, out_kind, err);
        goes_on = status == TDM_OK && *out_kind == TDM_LINE_TEXT && line.len > 0 &&
                  line.data[line.len - 1] == '\\';
        if (goes_on) {
            line.data[line.len - 1] = '\n';
        }
        if (status == TDM_OK && *out_kind == TDM_LINE_TEXT && line.len > 0 &&
            tdm_buf_append(message, line.data, line.len) != TDM_OK) {
            status = tdm_fail_nomem(err, "a message");
        }
    }
    tdm_buf_deinit(&line);
    return status;
}

static tdm_status converse(chat_job *job, tdm_error *err) {
    tdm_buf message;
    tdm_status status = TDM_OK;
    tdm_buf_init(&message, job->cli->alloc, 0);
    while (status == TDM_OK && !job->is_over) {
        tdm_line_kind kind = TDM_LINE_END;
        status = read_message(job, &message, &kind, err);
        if (status != TDM_OK || kind == TDM_LINE_END) {
            break;
        }
        if (kind == TDM_LINE_INTERRUPTED) {
            status = tdm_out_bytes(&job->cli->out, "\n", 1, err); /* off the line that was begun */
            tdm_cli_note(job->cli, "(Ctrl-D or /exit leaves)");
        } else if (message.len > 0 && message.data[0] == '/') {
            const char *text = tdm_buf_text(&message);
            status = text != NULL ? command(job, text, err) : tdm_fail_nomem(err, "a line");
        } else if (message.len > 0) {
            status = turn(job, &message, err);
        }
    }
    tdm_buf_deinit(&message);
    return status;
}

/* Makes every folder above path; a failure shows when the file is written. */
static void make_folders(const char *path) {
    char part[TDM_PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        const int n = snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (n > 0 && n < (int)sizeof part) {
            (void)mkdir(part, 0700);
        }
    }
}

static tdm_status chat(chat_job *job, tdm_error *err) {
    char state[TDM_PATH_MAX];
    char history[TDM_PATH_MAX + 32] = "";
    tdm_model_facts facts;
    tdm_status status = TDM_OK;
    tdm_model_describe(job->model, &facts);
    if (!facts.has_chat_template) {
        (void)tdm_fail(err, TDM_E_STATE, "the model has no chat template that this build can use");
        tdm_err_remedy(err, "tandem generate --raw continues a text");
        return TDM_E_STATE;
    }
    TDM_TRY(tdm_cli_sampling_init(&job->sampling, job->cli, job->model, true, err));
    TDM_TRY(start_over(job, tdm_args_text(job->cli->args, TDM_OPT_SYSTEM), err));
    if (tdm_folder_of_state(job->cli->env, state)) {
        (void)snprintf(history, sizeof history, "%s/chat_history", state);
        make_folders(history);
    }
    TDM_TRY(tdm_line_edit_create(&job->edit, job->cli->alloc, job->cli->interrupt,
                                 history[0] != '\0' ? history : NULL, err));
    if (tdm_line_edit_is_terminal(job->edit)) {
        tdm_cli_note(job->cli, "%s, %d threads. /help lists the commands.", facts.architecture,
                     (int)facts.n_threads);
    }
    status = converse(job, err);
    if (status == TDM_OK && tdm_line_edit_is_terminal(job->edit)) {
        status = tdm_out_end_line(&job->cli->out, err);
    }
    tdm_line_edit_destroy(job->edit); /* writes the history, whose name is ours */
    return status;
}

tdm_status tdm_verb_chat(tdm_cli *cli, tdm_error *err) {
    chat_job job = {.cli = cli, .sampling = {.alloc = cli->alloc}};
    tdm_status status = TDM_OK;
    tdm_arena_init(&job.texts, cli->alloc);
    tdm_buf_init(&job.answer, cli->alloc, 0);
    status = tdm_cli_open_model(cli, cli->args->positional[0], NULL, &job.model, err);
    if (status == TDM_OK) {
        status = chat(&job, err);
    }
    tdm_generation_destroy(job.generation);
    tdm_cli_sampling_deinit(&job.sampling);
    tdm_mem_free(cli->alloc, job.messages, job.cap * sizeof *job.messages);
    tdm_arena_deinit(&job.texts);
    tdm_buf_deinit(&job.answer);
    tdm_model_close(job.model);
    return status;
}
