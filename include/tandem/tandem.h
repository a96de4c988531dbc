/* SPDX-License-Identifier: Apache-2.0
 *
 * Tandem's public face: the only header that an embedder needs.
 * Errors come first because every other call reports through them. */
#ifndef TANDEM_TANDEM_H
#define TANDEM_TANDEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TDM_API __attribute__((visibility("default")))
#define TDM_NODISCARD __attribute__((warn_unused_result))
#define TDM_PRINTF(fmt_idx, first_idx) __attribute__((format(printf, fmt_idx, first_idx)))
#else
#define TDM_API
#define TDM_NODISCARD
#define TDM_PRINTF(fmt_idx, first_idx)
#endif

/* One list gives each status its code, name, sentence, HTTP answer and exit code of the command. */
#define TDM_STATUS_LIST(X)                                                                         \
    X(OK, "ok", "no error", 200, 0)                                                                \
    X(E_ARG, "bad_argument", "an argument is outside what the call accepts", 400, 2)               \
    X(E_NOT_FOUND, "not_found", "a named thing does not exist", 404, 3)                            \
    X(E_NO_FIT, "does_not_fit", "memory or context is too small for the request", 413, 4)          \
    X(E_NETWORK, "network", "a transfer failed", 502, 5)                                           \
    X(E_FORMAT, "corrupt", "bytes from outside break their format", 422, 6)                        \
    X(E_NOMEM, "out_of_memory", "an allocation failed", 503, 1)                                    \
    X(E_IO, "io", "the operating system refused a read or a write", 500, 1)                        \
    X(E_UNSUPPORTED, "unsupported", "well formed, but this build does not run it", 501, 1)         \
    X(E_SHAPE, "shape", "dimensions do not agree", 422, 6)                                         \
    X(E_LIMIT, "limit", "a stated limit was crossed", 413, 1)                                      \
    X(E_STATE, "state", "the call is not legal in this state", 409, 1)                             \
    X(E_DEVICE, "device", "the accelerator failed", 500, 1)                                        \
    X(E_BUSY, "busy", "the resource is in use", 503, 1)                                            \
    X(E_CANCELLED, "cancelled", "the caller cancelled the work", 499, 130)                         \
    X(E_INTERNAL, "internal", "an invariant of Tandem itself failed", 500, 1)

typedef enum tdm_status {
#define TDM_STATUS_ENUM(name, text, sentence, http, exit_code) TDM_##name,
    TDM_STATUS_LIST(TDM_STATUS_ENUM)
#undef TDM_STATUS_ENUM
        TDM_STATUS_COUNT
} tdm_status;

/* What went wrong, in the caller's storage. Every text is NUL-terminated and may be empty.
 * Threads: a plain value; it may be copied and passed between threads. */
typedef struct tdm_error {
    tdm_status code;
    char what[256];   /* the fact, one sentence */
    char where[192];  /* file and offset, or JSON path, or parameter */
    char limit[96];   /* the limit that was crossed */
    char remedy[192]; /* what the reader can do about it */
} tdm_error;

/* Short machine-readable name of a status ("corrupt"), never NULL. Threads: any. */
TDM_API const char *tdm_status_name(tdm_status status);
/* One sentence about a status, never NULL. Threads: any. */
TDM_API const char *tdm_status_sentence(tdm_status status);
/* The HTTP status with which a server answers it. Threads: any. */
TDM_API int tdm_status_http(tdm_status status);
/* The exit code with which the command answers it. Threads: any. */
TDM_API int tdm_status_exit_code(tdm_status status);

/* Version of the library, "0.1.0". Threads: any. */
TDM_API const char *tdm_version(void);

/* ---- Model -------------------------------------------------------------------------------------
 *
 * A checkpoint opened for use: weights (mapped), tokenizer, chat template, and the threads that
 * compute. Threads: a model and everything made from it belong to one thread at a time; only
 * tdm_generation_cancel may be called from others. */

typedef struct tdm_model tdm_model;

typedef struct tdm_model_options {
    /* All fields zero mean the defaults; initialise with TDM_MODEL_OPTIONS_INIT. */
    const char *device; /* NULL or "cpu" */
    const char *tier;   /* NULL or "fast"; "exact", "reference" */
    const char *isa;    /* NULL: the best that the machine has; "scalar", "avx2", ... */
    const char *kv;     /* NULL: f32 in reference and exact, bf16 in fast; "f32", "bf16" */
    int32_t n_threads;  /* 0: physical cores */
    int32_t n_batch;    /* most tokens of one forward; 0: 512 */
    int64_t context;    /* most positions of a sequence; 0: what the model was made for */
    bool is_strict;     /* warnings about the files become errors */
    /* Layers made ready, of all; returning true stops with TDM_E_CANCELLED. */
    bool (*progress)(void *arg, int32_t done, int32_t all);
    void *progress_arg;
    /* One line, no newline. level: 0 debug, 1 information, 2 warning. */
    void (*log)(void *arg, int level, const char *line);
    void *log_arg;
    int log_level; /* least level that is passed on */
    /* A folder for packed weights, so that a model is packed once and not at every load; made when
     * it is missing. NULL: pack at every load. What goes wrong there costs time and a line of log. */
    const char *panel_cache;
    uint64_t panel_cache_bytes; /* most bytes of that folder; 0: 20 GB */
} tdm_model_options;

#define TDM_MODEL_OPTIONS_INIT                                                                     \
    { 0 }

/* Opens a .gguf file, or a folder with config.json and safetensors.
 * Errors: TDM_E_NOT_FOUND, TDM_E_FORMAT, TDM_E_SHAPE, TDM_E_UNSUPPORTED, TDM_E_ARG, TDM_E_NO_FIT,
 * TDM_E_NOMEM, TDM_E_IO, TDM_E_CANCELLED; where names the file and the offset or field.
 * Owns: caller closes. options may be NULL. On failure *out_model is NULL. */
TDM_API TDM_NODISCARD tdm_status tdm_model_open(tdm_model **out_model, const char *path,
                                                const tdm_model_options *options, tdm_error *err);
/* NULL-safe. Prompts and generations of the model are destroyed first. */
TDM_API void tdm_model_close(tdm_model *model);

typedef struct tdm_model_facts {
    const char *architecture; /* "llama"; borrowed until close, like every text here */
    const char *container;    /* "gguf", "safetensors" */
    const char *backend;      /* "cpu-avx2" */
    const char *tier;         /* "fast" */
    const char *kv;           /* "bf16" */
    const char *tokenizer;    /* one line, or NULL when the checkpoint has none */
    bool has_chat_template;
    const char *dialect; /* how answers write tool calls and reasoning: "hermes", "harmony", ...,
                            "plain"; NULL without a tokenizer */
    int32_t n_layers, n_vocab, hidden, n_threads;
    int64_t context; /* most positions of a sequence */
    int64_t n_params;
    size_t weight_bytes;
    size_t kv_bytes_per_token; /* averaged over a whole context */
    int32_t bos_id, eos_id;    /* -1: none */
    double load_ms;
} tdm_model_facts;

TDM_API void tdm_model_describe(const tdm_model *model, tdm_model_facts *out_facts);

/* ---- Text and ids ------------------------------------------------------------------------------
 */

#define TDM_TEXT_ADD_SPECIAL 1u   /* BOS and EOS as the tokenizer adds them */
#define TDM_TEXT_PARSE_SPECIAL 2u /* special tokens spelled in the text become their ids */
#define TDM_TEXT_SKIP_SPECIAL 4u  /* decoding leaves special tokens out */

/* Ids of text[0..len). Writes at most cap ids and sets *out_n to how many there are; when that is
 * more than cap the answer is TDM_E_LIMIT and the call can be repeated with a larger array.
 * Errors: TDM_E_STATE (no tokenizer), TDM_E_FORMAT (not UTF-8, offset in where), TDM_E_LIMIT. */
TDM_API TDM_NODISCARD tdm_status tdm_model_tokenize(const tdm_model *model, const char *text,
                                                    size_t len, unsigned flags, int32_t *ids,
                                                    size_t cap, size_t *out_n, tdm_error *err);
/* Text of n ids as UTF-8 (invalid bytes become U+FFFD); the same protocol with bytes.
 * Errors: TDM_E_STATE, TDM_E_ARG (an id outside the vocabulary), TDM_E_LIMIT. */
TDM_API TDM_NODISCARD tdm_status tdm_model_detokenize(const tdm_model *model, const int32_t *ids,
                                                      size_t n, unsigned flags, char *text,
                                                      size_t cap, size_t *out_len, tdm_error *err);

/* ---- Prompt ------------------------------------------------------------------------------------
 *
 * What a generation starts from: ids, and the text they came from. */

typedef struct tdm_prompt tdm_prompt;

typedef struct tdm_message {
    const char *role;    /* "system", "user", "assistant", "tool" */
    const char *content; /* UTF-8, NUL-terminated */
} tdm_message;

/* Text as it stands. flags: TDM_TEXT_ADD_SPECIAL, TDM_TEXT_PARSE_SPECIAL.
 * Errors: TDM_E_ARG (no text at all), TDM_E_STATE, TDM_E_FORMAT, TDM_E_NOMEM. */
TDM_API TDM_NODISCARD tdm_status tdm_prompt_from_text(tdm_prompt **out_prompt, tdm_model *model,
                                                      const char *text, size_t len, unsigned flags,
                                                      tdm_error *err);
/* Ids as they stand; copied. Errors: TDM_E_ARG (none, or one outside the vocabulary). */
TDM_API TDM_NODISCARD tdm_status tdm_prompt_from_ids(tdm_prompt **out_prompt, tdm_model *model,
                                                     const int32_t *ids, size_t n, tdm_error *err);
/* Messages through the model's own chat template, with its opening of the answer at the end. A
 * special token spelled inside a message stays text.
 * Errors: TDM_E_STATE (no template), TDM_E_ARG (the template refuses the conversation; what is its
 * message), TDM_E_FORMAT (the template fails; where is its line and column). */
TDM_API TDM_NODISCARD tdm_status tdm_prompt_from_chat(tdm_prompt **out_prompt, tdm_model *model,
                                                      const tdm_message *messages,
                                                      size_t n_messages, tdm_error *err);
/* The same from a JSON object with "messages" and, as wanted, "tools", "documents",
 * "add_generation_prompt" (default true), "continue_final_message", "now", "chat_template" and any
 * variable of the template. "chat_template" names one of the model's templates; without it the one
 * called tool_use serves requests with tools, rag those with documents, default all others. The
 * prompt remembers the tools, for splits_answer. */
TDM_API TDM_NODISCARD tdm_status tdm_prompt_from_chat_json(tdm_prompt **out_prompt,
                                                           tdm_model *model, const char *json,
                                                           size_t len, tdm_error *err);
TDM_API void tdm_prompt_destroy(tdm_prompt *prompt);
/* Borrowed until destroy. text is NULL for a prompt from ids. */
TDM_API const int32_t *tdm_prompt_ids(const tdm_prompt *prompt, size_t *out_n);
TDM_API const char *tdm_prompt_text(const tdm_prompt *prompt, size_t *out_len);
/* The text by where it came from, in order and without gaps: trusted is what the template wrote (or
 * text given with TDM_TEXT_PARSE_SPECIAL), untrusted what messages said; only in trusted text are
 * special tokens what they are spelled like. 0 segments for a prompt from ids. at: false past the
 * last; out_text is borrowed until destroy. */
TDM_API size_t tdm_prompt_n_segments(const tdm_prompt *prompt);
TDM_API bool tdm_prompt_segment_at(const tdm_prompt *prompt, size_t idx, const char **out_text,
                                   size_t *out_len, bool *out_is_trusted);

/* ---- Generation --------------------------------------------------------------------------------
 */

#define TDM_STOP_MAX 16
#define TDM_STOP_BYTES_MAX 256
#define TDM_TOP_MAX 20

typedef struct tdm_bias {
    int32_t id;
    float bias; /* added to the logit */
} tdm_bias;

/* Every field has a neutral value; start from tdm_generation_options_init, which fills in the
 * model's own recommendations (generation_config.json) where it has any. */
typedef struct tdm_generation_options {
    int32_t max_tokens;             /* 512; > 0 */
    bool ignores_eos;               /* keep going past end-of-text tokens */
    const char *stop[TDM_STOP_MAX]; /* texts that end the answer; not part of it */
    size_t n_stop;
    uint64_t seed;
    bool has_seed;     /* false: one is drawn, and told in the stats */
    float temperature; /* 0: greedy */
    int32_t top_k;
    float top_p, min_p, top_n_sigma;
    float xtc_probability, xtc_threshold;
    float repetition_penalty, presence_penalty, frequency_penalty;
    int32_t penalty_window; /* tokens that penalties look back; 0: all */
    float dry_multiplier, dry_base;
    int32_t dry_allowed_length;
    int32_t mirostat; /* 0, 1 or 2 */
    float mirostat_tau, mirostat_eta;
    const tdm_bias *bias;
    size_t n_bias;
    int32_t n_logprobs; /* -1: none; 0: of the chosen token; k <= 20: of the k best too */
    bool skips_special; /* leave special tokens out of the text (default true) */
    /* Tell the answer's parts apart as the model's dialect writes them (default false). Stop texts
     * then count in text only, not in reasoning or calls. */
    bool splits_answer;
    bool streams_calls;     /* parts of a call as they come; false: a call comes whole or not */
    const char *tools_json; /* an array; types of arguments that the dialect does not type. NULL:
                               the tools of the prompt's chat request */
} tdm_generation_options;

TDM_API void tdm_generation_options_init(tdm_generation_options *options, const tdm_model *model);

typedef enum tdm_finish {
    TDM_FINISH_NONE,     /* more to come */
    TDM_FINISH_STOP,     /* an end-of-text token or a stop text */
    TDM_FINISH_LENGTH,   /* max_tokens, or the context is full */
    TDM_FINISH_CANCELLED /* tdm_generation_cancel */
} tdm_finish;

typedef struct tdm_top {
    int32_t id;
    float logprob;
} tdm_top;

/* What an answer is made of. The parts of all events, neighbours of one kind and call joined, are
 * the same however the generation is driven. */
typedef enum tdm_part_kind {
    TDM_PART_TEXT,
    TDM_PART_REASONING,
    TDM_PART_CALL_BEGIN,     /* text: the function's name; id: the model's own id, or empty */
    TDM_PART_CALL_ARGUMENTS, /* text: more of the arguments; joined they are one JSON object */
    TDM_PART_CALL_END,       /* id: as in BEGIN, or one that the model wrote only later */
    TDM_PART_CALL_DROPPED    /* with streams_calls, in place of END: it was no call after all; what
                                had been written of it comes as TEXT next */
} tdm_part_kind;

typedef struct tdm_answer_part {
    tdm_part_kind kind;
    const char *text; /* not NUL-terminated */
    size_t len;
    const char *id;
    size_t id_len;
    int32_t call_idx; /* from 0 in the order of BEGIN; -1 outside calls */
} tdm_answer_part;

/* One step of a generation. Texts are borrowed until the next call. */
typedef struct tdm_event {
    int32_t id;       /* the committed token; -1 in an event that only carries text or the end */
    bool is_content;  /* false for the token that ended the answer */
    const char *text; /* what has become final: whole characters, no part of a stop text; with
                         splits_answer the TEXT parts, joined */
    size_t text_len;
    const tdm_answer_part *parts; /* [n_parts] with splits_answer; may be empty in any event */
    size_t n_parts;
    float logprob; /* natural logarithm; NaN unless asked for */
    int32_t n_top;
    tdm_top top[TDM_TOP_MAX]; /* descending */
    tdm_finish finish;
} tdm_event;

typedef struct tdm_generation_stats {
    int64_t n_prompt, n_decode;
    double prefill_ms; /* from create to the first token's logits */
    double decode_ms;  /* from the first token to the last */
    uint64_t seed;
} tdm_generation_stats;

typedef struct tdm_generation tdm_generation;

/* Copies what it needs from prompt and options. Checks that prompt and answer fit the context and
 * that their keys and values fit into free memory. splits_answer needs a tokenizer (TDM_E_STATE).
 * Errors: TDM_E_ARG (a field, named in where), TDM_E_FORMAT (tools_json), TDM_E_NO_FIT (says positions or bytes), TDM_E_NOMEM.
 * Owns: caller destroys, before the model closes. */
TDM_API TDM_NODISCARD tdm_status tdm_generation_create(tdm_generation **out_generation,
                                                       tdm_model *model, const tdm_prompt *prompt,
                                                       const tdm_generation_options *options,
                                                       tdm_error *err);
/* Runs until the next token is committed; the first call reads the prompt. After an event with a
 * finish, further calls give TDM_E_STATE. */
TDM_API TDM_NODISCARD tdm_status tdm_generation_next(tdm_generation *generation,
                                                     tdm_event *out_event, tdm_error *err);
/* Makes the running or the next tdm_generation_next end with TDM_FINISH_CANCELLED. Threads: any;
 * also from a signal handler. */
TDM_API void tdm_generation_cancel(tdm_generation *generation);
/* Continues the same sequence with more tokens (the next turn of a chat): appends ids to what the
 * caches hold. Legal after an event with a finish. The prompt given is the whole conversation; what
 * the caches already hold of it is not computed again. */
TDM_API TDM_NODISCARD tdm_status tdm_generation_continue(tdm_generation *generation,
                                                         const tdm_prompt *prompt, tdm_error *err);
TDM_API void tdm_generation_stats_get(const tdm_generation *generation,
                                      tdm_generation_stats *out_stats);
TDM_API void tdm_generation_destroy(tdm_generation *generation);

/* ---- Scoring -----------------------------------------------------------------------------------
 */

/* logprobs[i] is the log-probability of ids[i] given the ids before it, for i >= 1; logprobs[0] is
 * NaN. top (NULL, or [n][n_top]) receives the n_top best at each position that predicts ids[i]; its
 * row 0 is all id -1. chunk: tokens of one forward, 0: the model's n_batch.
 * Errors: TDM_E_ARG, TDM_E_NO_FIT, TDM_E_NOMEM. */
TDM_API TDM_NODISCARD tdm_status tdm_model_score(tdm_model *model, const int32_t *ids, size_t n,
                                                 int32_t chunk, float *logprobs, int32_t n_top,
                                                 tdm_top *top, tdm_error *err);

/* ---- Embedding ---------------------------------------------------------------------------------
 *
 * One vector for a text: the output of the final norm, pooled over its tokens. What the checkpoint
 * says about it (sentence-transformers' files, a GGUF file's pooling_type) holds where an option is
 * left at its default, or the call is refused with TDM_E_UNSUPPORTED. A model without a head embeds
 * too. */

typedef enum tdm_pooling {
    TDM_POOLING_AUTO, /* the checkpoint's; the last token where it says nothing */
    TDM_POOLING_LAST,
    TDM_POOLING_MEAN,
    TDM_POOLING_FIRST /* "cls" */
} tdm_pooling;

typedef enum tdm_embed_length {
    TDM_LENGTH_AUTO, /* the checkpoint's; 1 where it says nothing */
    TDM_LENGTH_ONE,  /* divided by its length */
    TDM_LENGTH_KEPT
} tdm_embed_length;

typedef struct tdm_embed_options {
    /* All fields zero mean the defaults; initialise with TDM_EMBED_OPTIONS_INIT. */
    tdm_pooling pooling;
    tdm_embed_length length;
    int32_t dimensions; /* only the first so many, divided by their own length (Matryoshka); 0: the
                                checkpoint's, else all */
    const char *prompt_name; /* one of the checkpoint's prompts; NULL: its default one, if any */
    const char *instruction; /* in place of a prompt: "Instruct: INSTRUCTION\nQuery:" */
} tdm_embed_options;

#define TDM_EMBED_OPTIONS_INIT                                                                     \
    { 0 }

/* What the options come to. */
typedef struct tdm_embed_plan {
    tdm_pooling pooling;     /* never AUTO */
    tdm_embed_length length; /* never AUTO */
    int32_t dimensions;      /* values of a vector */
    int64_t tokens_max;      /* of an input */
    const char *prompt;      /* what is put before a text, or NULL; not NUL-terminated */
    size_t prompt_len;
} tdm_embed_plan;

/* Errors: TDM_E_ARG, TDM_E_NOT_FOUND (no such prompt; remedy lists the ones there are),
 * TDM_E_UNSUPPORTED, TDM_E_FORMAT, TDM_E_NOMEM. Texts are borrowed until the model is closed, an
 * instruction's only until the next call. options may be NULL. */
TDM_API TDM_NODISCARD tdm_status tdm_model_embed_plan(tdm_model *model,
                                                      const tdm_embed_options *options,
                                                      tdm_embed_plan *out_plan, tdm_error *err);
/* Ids of text[0..len) as it is embedded: the prompt before it, and what the tokenizer adds around
 * it. The protocol of tdm_model_tokenize. */
TDM_API TDM_NODISCARD tdm_status tdm_model_embed_tokenize(tdm_model *model, const char *text,
                                                          size_t len,
                                                          const tdm_embed_options *options,
                                                          int32_t *ids, size_t cap, size_t *out_n,
                                                          tdm_error *err);

typedef struct tdm_embed_input {
    const int32_t *ids;
    size_t n; /* > 0 */
} tdm_embed_input;

/* out [n_inputs, dimensions] in the order of inputs. Inputs share forwards; a vector's bits do not
 * depend on which. Errors: as the plan; TDM_E_ARG (an empty input, an id outside the vocabulary),
 * TDM_E_NO_FIT (longer than tokens_max, or than memory), TDM_E_NOMEM. */
TDM_API TDM_NODISCARD tdm_status tdm_model_embed(tdm_model *model, const tdm_embed_input *inputs,
                                                 size_t n_inputs, const tdm_embed_options *options,
                                                 float *out, tdm_error *err);

#ifdef __cplusplus
}
#endif
#endif
