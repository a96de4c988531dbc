/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation: one sequence from prompt to end. `history` holds every committed id, prompt included;
 * the caches hold its first state->length ids, and what lies behind them is fed by the next step:
 *
 *   history   | prompt ............................ | answer ........ | last |
 *   caches    |<------------- state->length ------------------------->|
 *
 * One next(): feed what is missing in the planner's pieces, sample from the last logits, commit,
 * decode to text. A token is in history before it is in the caches, so a cancelled or failed step
 * can be repeated. */
#include "engine/model_priv.h"

#include "engine/answer_stream.h"
#include "engine/prefill.h"
#include "engine/prompt_priv.h"
#include "engine/request.h"
#include "engine/resolve.h"
#include "engine/sequence_priv.h"
#include "engine/stops.h"
#include "sample/sampler.h"
#include "text/detok.h"

#include <math.h>
#include <string.h>

/* Room for one token's text; longer ones (a vocabulary may hold any) grow it once. */
#define PIECE_BYTES 1024

struct tdm_generation {
    tdm_model *model;
    tdm_request request;
    tdm_resolved resolved; /* how the request runs */
    tdm_state *state;
    tdm_sampler *sampler;
    tdm_detok *detok; /* NULL without a tokenizer */
    tdm_stops stops;
    tdm_answer_stream *answer;  /* in place of detok and stops; NULL: the answer is not split */
    tdm_chat_tools *tools;      /* that answer borrows */
    tdm_chat_tools *told_tools; /* of the options; NULL: the prompt's */
    bool splits_answer, streams_calls;
    int32_t *history; /* [history_cap] */
    size_t history_len;
    size_t history_cap;
    float *logits;        /* [n_vocab] */
    tdm_buf pieces;       /* decoded, not yet through the stop texts */
    tdm_buf text;         /* of the last event */
    int32_t output_limit; /* most tokens of this answer */
    int32_t n_answer;     /* tokens of this answer */
    uint32_t n_drawn;     /* tokens of all answers: the index of the random stream */
    size_t history_max;   /* committed ids never exceed this */
    bool is_finished;
    atomic_bool is_cancelled;
    tdm_generation_stats stats;
    double start_ms;
    double first_ms;
};

void tdm_generation_options_init(tdm_generation_options *options, const tdm_model *model) {
    tdm_request_options_default(options);
    if (model != NULL) {
        const tdm_generation_config *g = &model->generation_config;
        bool is_sampled = !g->has_do_sample || g->is_sampled;
        if (is_sampled && !isnan(g->temperature)) {
            options->temperature = (float)g->temperature;
        }
        if (is_sampled && g->top_k >= 0) {
            options->top_k = g->top_k;
        }
        if (is_sampled && !isnan(g->top_p)) {
            options->top_p = (float)g->top_p;
        }
        if (is_sampled && !isnan(g->min_p)) {
            options->min_p = (float)g->min_p;
        }
        if (!isnan(g->repetition_penalty)) {
            options->repetition_penalty = (float)g->repetition_penalty;
        }
    }
}

/* Newlines and end-of-text tokens, which XTC must not remove. Returns how many of cap were filled.
 */
static size_t exempt_ids(const tdm_model *model, int32_t *ids, size_t cap) {
    size_t n = 0;
    for (int32_t i = 0; i < model->config.n_eos && n < cap; i++) {
        ids[n++] = model->config.eos_ids[i];
    }
    if (model->tokenizer != NULL) {
        static const char *const NEWLINES[] = {
            "\n", "\xC4\x8A", "<0x0A>"}; /* plain, byte-level alphabet, byte token */
        size_t n_eog = tdm_tokenizer_n_eog(model->tokenizer);
        for (size_t i = 0; i < n_eog && n < cap; i++) {
            ids[n++] = tdm_tokenizer_eog_at(model->tokenizer, i);
        }
        for (size_t i = 0; i < sizeof NEWLINES / sizeof NEWLINES[0] && n < cap; i++) {
            int32_t id = tdm_tokenizer_find(model->tokenizer, NEWLINES[i], strlen(NEWLINES[i]));
            if (id >= 0) {
                ids[n++] = id;
            }
        }
    }
    return n;
}

/* A seed that two runs will not share: both clocks, stirred. */
static uint64_t draw_seed(const tdm_model *model) {
    uint64_t a = (uint64_t)model->clock->unix_ns(model->clock->ctx);
    uint64_t b = (uint64_t)model->clock->monotonic_ns(model->clock->ctx);
    uint64_t x = a ^ (b << 32) ^ (b >> 32);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9); /* the finaliser of SplitMix64 */
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (x ^ (x >> 31)) >> 1; /* 63 bits: a JSON integer everywhere */
}

/* The request as a checked snapshot, and how it is to run. */
static tdm_status take_request(tdm_generation *g, const tdm_prompt *prompt,
                               const tdm_generation_options *options, tdm_error *err) {
    static const char *const GROUPED[] = {TDM_METHOD_ID_AUTOREGRESSIVE};
    int32_t end_ids[TDM_XTC_EXEMPT_IDS_MAX];
    const tdm_model *model = g->model;
    const tdm_request_input input = {
        .prompt = prompt->ids.ids,
        .n_prompt = prompt->ids.len,
        .options = options,
        .delivery = TDM_DELIVERY_STREAM,
        .n_vocab = model->config.n_vocab,
        .context = model->composition.context,
        .drawn_seed = draw_seed(model),
        .end_ids = end_ids,
        .n_end_ids = exempt_ids(model, end_ids, TDM_XTC_EXEMPT_IDS_MAX),
    };
    const tdm_exec_capabilities capabilities = {
        .method = model->declaration.method,
        .grouped_methods = GROUPED,
        .n_grouped_methods = 1,
        .has_group_seed = true,
        .has_compiled_decode = model->composition.has_compiled_decode,
    };
    const tdm_exec_features features = {.compiled_decode = model->composition.has_compiled_decode};
    TDM_TRY(tdm_request_init(&g->request, model->alloc, &input, err));
    const tdm_exec_requirements requirements = tdm_request_requirements(&g->request);
    g->resolved = tdm_execution_resolve(&requirements, &capabilities, &features);
    g->stats.seed = g->request.sampling.seed;
    return tdm_resolved_status(&g->resolved, err);
}

/* Positions that this answer may reach: prompt, and answer as far as the context goes. */
static tdm_status set_limits(tdm_generation *g, size_t n_prompt, tdm_error *err) {
    int64_t room = 0;
    TDM_TRY(tdm_sequence_check_fit(g->model, n_prompt, err));
    /* The last token of an answer needs no position: nothing reads it. */
    room = g->model->composition.context - (int64_t)n_prompt + 1;
    g->output_limit = room < g->request.max_tokens ? (int32_t)room : g->request.max_tokens;
    g->history_max = n_prompt + (size_t)g->output_limit;
    return tdm_sequence_check_fit(g->model, g->history_max - 1, err);
}

/* Room for everything that the answer may commit, so that the token path allocates nothing. */
static tdm_status reserve_room(tdm_generation *g, tdm_error *err) {
    size_t cap = g->history_max;
    if (cap > g->history_cap) {
        int32_t *grown = tdm_mem_resize(g->model->alloc, g->history, g->history_cap * sizeof *grown,
                                        cap * sizeof *grown);
        if (grown == NULL) {
            return tdm_fail_nomem(err, "a sequence's history");
        }
        g->history = grown;
        g->history_cap = cap;
    }
    TDM_TRY(tdm_sampler_reserve(g->sampler, cap, err));
    return g->model->graph->ops->state_reserve(g->model->graph, g->state,
                                               (int64_t)g->history_max - 1 - g->state->length, err);
}

static tdm_status take_prompt(tdm_generation *g, const tdm_prompt *prompt, size_t from,
                              tdm_error *err) {
    size_t n = prompt->ids.len - from;
    TDM_TRY(reserve_room(g, err));
    if (n > 0) {
        memcpy(g->history + from, prompt->ids.ids + from, n * sizeof *g->history);
    }
    g->history_len = prompt->ids.len;
    return tdm_sampler_accept(g->sampler, prompt->ids.ids + from, n, err);
}

static tdm_status make_stops(tdm_generation *g, tdm_error *err) {
    const char *texts[TDM_STOP_MAX];
    for (size_t i = 0; i < g->request.n_stop; i++) {
        texts[i] = g->request.stop[i].text;
    }
    if (g->request.n_stop > 0) {
        TDM_TRY(tdm_model_need_tokenizer(g->model, err));
    }
    return tdm_stops_init(&g->stops, g->model->alloc, texts, g->request.n_stop, err);
}

/* A fresh reader of the answer to prompt, in place of the last one. */
static tdm_status begin_split(tdm_generation *g, const tdm_prompt *prompt, tdm_error *err) {
    const char *stops[TDM_STOP_MAX];
    tdm_chat_tools *tools = g->told_tools != NULL ? g->told_tools : prompt->tools;
    tdm_answer_stream *fresh = NULL;
    if (!g->splits_answer) {
        return TDM_OK;
    }
    for (size_t i = 0; i < g->request.n_stop; i++) {
        stops[i] = g->request.stop[i].text;
    }
    const tdm_answer_stream_options options = {
        .dialect = prompt->dialect,
        .tools = tools != NULL ? tools->list : NULL,
        .opens_in_reasoning = prompt->opens_in_reasoning,
        .skips_special = g->request.skips_special,
        .streams_calls = g->streams_calls,
        .stops = stops,
        .n_stops = g->request.n_stop,
    };
    TDM_TRY(tdm_answer_stream_create(&fresh, g->model->alloc, g->model->tokenizer, &options, err));
    tdm_answer_stream_destroy(g->answer);
    tdm_chat_tools_release(g->tools);
    g->answer = fresh;
    g->tools = tdm_chat_tools_retain(tools);
    return TDM_OK;
}

static tdm_status make_split(tdm_generation *g, const tdm_prompt *prompt,
                             const tdm_generation_options *options, tdm_error *err) {
    if (options == NULL || !options->splits_answer) {
        return TDM_OK;
    }
    TDM_TRY(tdm_model_need_tokenizer(g->model, err));
    g->splits_answer = true;
    g->streams_calls = options->streams_calls;
    if (options->tools_json != NULL) {
        TDM_TRY(tdm_chat_tools_parse(&g->told_tools, g->model->alloc, options->tools_json, err));
    }
    return begin_split(g, prompt, err);
}

static tdm_status build(tdm_generation *g, const tdm_prompt *prompt,
                        const tdm_generation_options *options, tdm_error *err) {
    tdm_model *model = g->model;
    const tdm_composition *composition = &model->composition;
    TDM_TRY(take_request(g, prompt, options, err));
    TDM_TRY(set_limits(g, prompt->ids.len, err));
    TDM_TRY(make_stops(g, err));
    TDM_TRY(make_split(g, prompt, options, err));
    if (tdm_buf_reserve(&g->pieces, PIECE_BYTES) != TDM_OK ||
        tdm_buf_reserve(&g->text, PIECE_BYTES + TDM_STOP_BYTES_MAX) != TDM_OK) {
        return tdm_fail_nomem(err, "an answer's text");
    }
    TDM_TRY(tdm_sampler_create(&g->sampler, model->alloc, &g->request.sampling,
                               model->config.n_vocab, err));
    if (model->tokenizer != NULL) {
        TDM_TRY(tdm_detok_create(&g->detok, model->alloc, model->tokenizer,
                                 g->request.skips_special, err));
    }
    g->logits = tdm_mem_alloc_aligned(model->alloc, (size_t)model->config.n_vocab * sizeof(float),
                                      TDM_ALIGN_CACHE_LINE);
    if (g->logits == NULL) {
        return tdm_fail_nomem(err, "a row of logits");
    }
    TDM_TRY(model->graph->ops->reserve(model->graph, composition->prefill_chunk, 1, 1, err));
    TDM_TRY(model->graph->ops->state_create(model->graph, composition->kv_dtype,
                                            composition->prefill_chunk, &g->state, err));
    g->stats.n_prompt = (int64_t)prompt->ids.len;
    return take_prompt(g, prompt, 0, err);
}

tdm_status tdm_generation_create(tdm_generation **out_generation, tdm_model *model,
                                 const tdm_prompt *prompt, const tdm_generation_options *options,
                                 tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_generation *g = tdm_mem_calloc(model->alloc, 1, sizeof *g);
    *out_generation = NULL;
    if (g == NULL) {
        return tdm_fail_nomem(err, "a generation");
    }
    g->model = model;
    tdm_buf_init(&g->pieces, model->alloc, 0);
    tdm_buf_init(&g->text, model->alloc, 0);
    g->start_ms = tdm_model_now_ms(model);
    status = tdm_model_need_head(model, err);
    if (status == TDM_OK) {
        status = build(g, prompt, options, err);
    }
    if (status != TDM_OK) {
        tdm_generation_destroy(g);
        return status;
    }
    *out_generation = g;
    return TDM_OK;
}

void tdm_generation_destroy(tdm_generation *g) {
    if (g == NULL) {
        return;
    }
    g->model->graph->ops->state_destroy(g->model->graph, g->state);
    tdm_sampler_destroy(g->sampler);
    tdm_detok_destroy(g->detok);
    tdm_stops_deinit(&g->stops);
    tdm_answer_stream_destroy(g->answer);
    tdm_chat_tools_release(g->tools);
    tdm_chat_tools_release(g->told_tools);
    tdm_request_deinit(&g->request);
    tdm_mem_free(g->model->alloc, g->history, g->history_cap * sizeof *g->history);
    tdm_buf_deinit(&g->pieces);
    tdm_buf_deinit(&g->text);
    tdm_mem_free_aligned(g->model->alloc, g->logits,
                         (size_t)g->model->config.n_vocab * sizeof(float), TDM_ALIGN_CACHE_LINE);
    tdm_mem_free(g->model->alloc, g, sizeof *g);
}

void tdm_generation_cancel(tdm_generation *g) {
    atomic_store(&g->is_cancelled, true);
}

static tdm_status refuse_class(const tdm_generation *g, const tdm_prefill_piece *piece,
                               tdm_error *err) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED,
                   "the graph declares no operation for positions %lld to %lld of a prompt",
                   (long long)piece->from, (long long)piece->to);
    tdm_err_where(err, "%s.classes.prompt", g->model->declaration.descriptor.id);
    return TDM_E_UNSUPPORTED;
}

/* Feeds history past the caches in the pieces that the planner gives; the logits of its last id end
 * in g->logits. False in *out_done: cancelled between two pieces. */
static tdm_status feed(tdm_generation *g, bool *out_done, tdm_error *err) {
    const tdm_composition *composition = &g->model->composition;
    const tdm_step_classes *classes = &g->model->declaration.classes;
    tdm_graph *graph = g->model->graph;
    *out_done = false;
    while ((size_t)g->state->length < g->history_len) {
        const tdm_prefill_plan plan = {
            .len = (int64_t)g->history_len,
            .position = g->state->length,
            .chunk = composition->prefill_chunk,
            .snapshot_at = TDM_PREFILL_NO_SNAPSHOT,
            .has_tail_split = composition->has_tail_split,
            .ranges = &classes->prompt,
        };
        const tdm_prefill_piece piece = tdm_prefill_next(&plan);
        int32_t n = (int32_t)(piece.to - piece.from);
        const tdm_step_row row = {
            .phase = g->n_answer > 0 ? TDM_PHASE_DECODE
                                     : tdm_prefill_phase(&piece, composition->prefill_chunk),
            .state = g->state,
            .tokens = g->history + piece.from,
            .n_tokens = n,
            .logits_from = piece.kind == TDM_PREFILL_FINAL ? n - 1 : n,
        };
        const tdm_step step = {
            .rows = &row,
            .n_rows = 1,
            .logits = g->logits,
            /* an answer's own token decodes; what else is missing is a prompt's */
            .class_id = row.phase == TDM_PHASE_DECODE && n == 1
                            ? tdm_row_table_lookup(&classes->decode, 1)
                            : piece.class_id,
        };
        if (step.class_id == TDM_CLASS_NONE) {
            return refuse_class(g, &piece, err);
        }
        if (atomic_load(&g->is_cancelled)) {
            return TDM_OK;
        }
        TDM_TRY(graph->ops->forward(graph, &step, err));
    }
    *out_done = true;
    return TDM_OK;
}

/* Decodes id, and passes the text through the stop texts into g->text. */
static tdm_status emit_text(tdm_generation *g, int32_t id, bool *out_stopped, tdm_error *err) {
    *out_stopped = false;
    if (g->answer != NULL) {
        TDM_TRY(tdm_answer_stream_push(g->answer, id, err));
        *out_stopped = tdm_answer_stream_is_stopped(g->answer);
        return TDM_OK;
    }
    if (g->detok == NULL || id >= tdm_tokenizer_n_vocab(g->model->tokenizer)) {
        return TDM_OK; /* rows that pad the embedding past the vocabulary have no spelling */
    }
    tdm_buf_reset(&g->pieces);
    TDM_TRY(tdm_detok_push(g->detok, &id, 1, &g->pieces, err));
    return tdm_stops_push(&g->stops, g->pieces.data, g->pieces.len, &g->text, out_stopped) == TDM_OK
               ? TDM_OK
               : tdm_fail_nomem(err, "an answer's text");
}

/* The tail of the text: half characters replaced, held beginnings of stop texts given out. */
static tdm_status emit_tail(tdm_generation *g, bool *out_stopped, tdm_error *err) {
    *out_stopped = false;
    if (g->answer != NULL) {
        TDM_TRY(tdm_answer_stream_finish(g->answer, err));
        *out_stopped = tdm_answer_stream_is_stopped(g->answer);
        return TDM_OK;
    }
    if (g->detok == NULL) {
        return TDM_OK;
    }
    tdm_buf_reset(&g->pieces);
    TDM_TRY(tdm_detok_finish(g->detok, &g->pieces, err));
    if (tdm_stops_push(&g->stops, g->pieces.data, g->pieces.len, &g->text, out_stopped) != TDM_OK ||
        (!*out_stopped && tdm_stops_finish(&g->stops, &g->text, out_stopped) != TDM_OK)) {
        return tdm_fail_nomem(err, "an answer's text");
    }
    return TDM_OK;
}

static void note_times(tdm_generation *g) {
    double now = tdm_model_now_ms(g->model);
    if (g->n_answer == 0) {
        g->first_ms = now;
        g->stats.prefill_ms = now - g->start_ms;
    } else {
        g->stats.decode_ms = now - g->first_ms;
    }
}

static void fill_event(tdm_event *event, const tdm_generation *g, const tdm_sampled *sampled) {
    event->id = sampled->id;
    event->logprob = g->request.sampling.n_logprobs >= 0 ? sampled->logprob : NAN;
    event->n_top = sampled->n_top;
    for (int32_t i = 0; i < sampled->n_top; i++) {
        event->top[i] = (tdm_top){sampled->top[i].id, sampled->top[i].logprob};
    }
}

/* The parts of the event, and its text out of them. */
static tdm_status fill_parts(tdm_event *event, tdm_generation *g, tdm_error *err) {
    if (g->answer == NULL) {
        return TDM_OK;
    }
    event->parts = tdm_answer_stream_parts(g->answer, &event->n_parts);
    for (size_t i = 0; i < event->n_parts; i++) {
        if (event->parts[i].kind == TDM_PART_TEXT &&
            tdm_buf_append(&g->text, event->parts[i].text, event->parts[i].len) != TDM_OK) {
            return tdm_fail_nomem(err, "an answer's text");
        }
    }
    return TDM_OK;
}

/* Adds the sampled id to the committed ones and decides whether the answer goes on. */
static tdm_status commit(tdm_generation *g, const tdm_sampled *sampled, tdm_event *event,
                         tdm_error *err) {
    bool is_stopped = false;
    bool is_end = !g->request.ignores_eos && tdm_model_is_end(g->model, sampled->id);
    g->history[g->history_len++] = sampled->id;
    TDM_TRY(tdm_sampler_accept(g->sampler, &sampled->id, 1, err));
    g->n_answer++;
    g->n_drawn++;
    fill_event(event, g, sampled);
    event->is_content = !is_end;
    if (!is_end) {
        g->stats.n_decode++;
        TDM_TRY(emit_text(g, sampled->id, &is_stopped, err));
    }
    if (is_end || is_stopped) {
        event->finish = TDM_FINISH_STOP;
    } else if (g->n_answer >= g->output_limit) {
        event->finish = TDM_FINISH_LENGTH;
    }
    if (event->finish != TDM_FINISH_NONE && !is_stopped) {
        TDM_TRY(emit_tail(g, &is_stopped, err));
        event->finish = is_stopped ? TDM_FINISH_STOP : event->finish;
    }
    return TDM_OK;
}

static tdm_status end_cancelled(tdm_generation *g, tdm_event *event, tdm_error *err) {
    bool is_stopped = false;
    TDM_TRY(emit_tail(g, &is_stopped, err));
    event->finish = TDM_FINISH_CANCELLED;
    return TDM_OK;
}

tdm_status tdm_generation_next(tdm_generation *g, tdm_event *out_event, tdm_error *err) {
    bool is_fed = false;
    *out_event = (tdm_event){.id = -1, .text = "", .logprob = NAN};
    if (g->is_finished) {
        (void)tdm_fail(err, TDM_E_STATE, "the answer has ended");
        tdm_err_remedy(err, "continue it with the next turn, or create a new generation");
        return TDM_E_STATE;
    }
    tdm_buf_reset(&g->text);
    if (g->answer != NULL) {
        tdm_answer_stream_clear(g->answer);
    }
    TDM_TRY(feed(g, &is_fed, err));
    if (is_fed) {
        tdm_sampled sampled;
        bool is_finite = true;
        note_times(g);
        tdm_sampler_sample(g->sampler, g->logits, g->n_drawn, &sampled, &is_finite);
        if (!is_finite) {
            g->state->is_poisoned = true;
            (void)tdm_fail(err, TDM_E_INTERNAL, "the model gave no finite logit at position %lld",
                           (long long)g->state->length - 1);
            tdm_err_remedy(err,
                           "the weights are damaged or unsuited to this tier; try --tier exact");
            return TDM_E_INTERNAL;
        }
        TDM_TRY(commit(g, &sampled, out_event, err));
    } else {
        TDM_TRY(end_cancelled(g, out_event, err));
    }
    TDM_TRY(fill_parts(out_event, g, err));
    g->is_finished = out_event->finish != TDM_FINISH_NONE;
    if (g->text.len > 0) {
        out_event->text = g->text.data;
        out_event->text_len = g->text.len;
    }
    return TDM_OK;
}

/* What a stop text left behind in the detokenizer is no part of the next answer. */
static tdm_status begin_text(tdm_generation *g, const tdm_prompt *prompt, tdm_error *err) {
    if (g->detok != NULL) {
        tdm_buf_reset(&g->pieces);
        TDM_TRY(tdm_detok_finish(g->detok, &g->pieces, err));
    }
    return begin_split(g, prompt, err);
}

/* Length of what history and prompt share. */
static size_t common_prefix(const tdm_generation *g, const tdm_prompt *prompt) {
    size_t n = g->history_len < prompt->ids.len ? g->history_len : prompt->ids.len;
    size_t i = 0;
    while (i < n && g->history[i] == prompt->ids.ids[i]) {
        i++;
    }
    return i;
}

/* Makes the caches hold the first n ids at most: trimmed where every layer can, else begun anew. */
static tdm_status rewind_to(tdm_generation *g, int64_t n, tdm_error *err) {
    tdm_state *state = g->state;
    int64_t surplus = state->length - n;
    bool can_trim = !state->is_poisoned;
    if (surplus <= 0 && can_trim) {
        return TDM_OK;
    }
    for (int32_t i = 0; i < state->n_caches; i++) {
        can_trim = can_trim && state->caches[i]->ops->can_trim(state->caches[i], surplus);
    }
    if (!can_trim) {
        tdm_state *fresh = NULL;
        TDM_TRY(g->model->graph->ops->state_create(g->model->graph, g->model->composition.kv_dtype,
                                                   g->model->composition.prefill_chunk, &fresh,
                                                   err));
        g->model->graph->ops->state_destroy(g->model->graph, state);
        g->state = fresh;
        return TDM_OK;
    }
    for (int32_t i = 0; i < state->n_caches; i++) {
        TDM_TRY(state->caches[i]->ops->trim(state->caches[i], surplus, err));
    }
    state->length = n;
    return TDM_OK;
}

tdm_status tdm_generation_continue(tdm_generation *g, const tdm_prompt *prompt, tdm_error *err) {
    size_t shared = common_prefix(g, prompt);
    /* The last id must pass the model again, since its logits are what is sampled from. */
    size_t kept = shared < prompt->ids.len ? shared : prompt->ids.len - 1;
    if (!g->is_finished) {
        return tdm_fail(err, TDM_E_STATE, "the answer has not ended");
    }
    TDM_TRY(set_limits(g, prompt->ids.len, err));
    TDM_TRY(begin_text(g, prompt, err));
    TDM_TRY(rewind_to(g, (int64_t)kept, err));
    g->history_len = shared;
    tdm_sampler_rewind(g->sampler, shared);
    TDM_TRY(take_prompt(g, prompt, shared, err));
    g->n_answer = 0;
    g->stats.n_prompt = (int64_t)prompt->ids.len;
    g->stats.n_decode = 0;
    g->stats.prefill_ms = 0.0;
    g->stats.decode_ms = 0.0;
    g->start_ms = tdm_model_now_ms(g->model);
    atomic_store(&g->is_cancelled, false);
    g->is_finished = false;
    return TDM_OK;
}

void tdm_generation_stats_get(const tdm_generation *g, tdm_generation_stats *out_stats) {
    *out_stats = g->stats;
}
