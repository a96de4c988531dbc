/* SPDX-License-Identifier: Apache-2.0
 *
 * One table of verbs and one of options, from which parsing, --help, the man page and the
 * completions all come. Floor 10. */
#ifndef TDM_CLI_OPTIONS_H
#define TDM_CLI_OPTIONS_H

#include "base/buf.h"

#include <stdio.h>

typedef enum tdm_verb_id {
    TDM_VERB_GENERATE,
    TDM_VERB_CHAT,
    TDM_VERB_TOKENIZE,
    TDM_VERB_DETOKENIZE,
    TDM_VERB_TEMPLATE,
    TDM_VERB_EXPLAIN,
    TDM_VERB_SCORE,
    TDM_VERB_EMBED,
    TDM_VERB_GOLDEN,
    TDM_VERB_BENCH,
    TDM_VERB_INSPECT,
    TDM_VERB_FIT,
    TDM_VERB_QUANTIZE,
    TDM_VERB_LS,
    TDM_VERB_COUNT
} tdm_verb_id;

typedef struct tdm_verb_row {
    const char *name;
    const char *positional; /* "MODEL"; words apart by one space, "[X]" may be left out */
    const char *summary;    /* one line of `tandem --help` */
    const char *about;      /* paragraphs of `tandem VERB --help`, apart by \n */
} tdm_verb_row;

extern const tdm_verb_row TDM_VERBS[TDM_VERB_COUNT];

typedef enum tdm_option_id {
    TDM_OPT_HELP,
    TDM_OPT_JSON,
    TDM_OPT_JSON_LINES,
    TDM_OPT_VERBOSE,
    TDM_OPT_QUIET,
    TDM_OPT_NO_COLOR,
    TDM_OPT_PROGRESS,
    TDM_OPT_THREADS,
    TDM_OPT_THREADS_LIST,
    TDM_OPT_ISA,
    TDM_OPT_TIER,
    TDM_OPT_DEVICE,
    TDM_OPT_KV,
    TDM_OPT_CTX,
    TDM_OPT_PANEL_CACHE,
    TDM_OPT_PROMPT,
    TDM_OPT_FILE,
    TDM_OPT_IDS,
    TDM_OPT_MAX_TOKENS,
    TDM_OPT_CHAT,
    TDM_OPT_RAW,
    TDM_OPT_SYSTEM,
    TDM_OPT_TOOLS,
    TDM_OPT_TEMP,
    TDM_OPT_TOP_K,
    TDM_OPT_TOP_P,
    TDM_OPT_MIN_P,
    TDM_OPT_TOP_N_SIGMA,
    TDM_OPT_XTC_PROBABILITY,
    TDM_OPT_XTC_THRESHOLD,
    TDM_OPT_REPETITION_PENALTY,
    TDM_OPT_PRESENCE_PENALTY,
    TDM_OPT_FREQUENCY_PENALTY,
    TDM_OPT_PENALTY_WINDOW,
    TDM_OPT_DRY_MULTIPLIER,
    TDM_OPT_DRY_BASE,
    TDM_OPT_DRY_ALLOWED_LENGTH,
    TDM_OPT_MIROSTAT,
    TDM_OPT_MIROSTAT_TAU,
    TDM_OPT_MIROSTAT_ETA,
    TDM_OPT_LOGIT_BIAS,
    TDM_OPT_SEED,
    TDM_OPT_STOP,
    TDM_OPT_IGNORE_EOS,
    TDM_OPT_SHOW_SPECIAL,
    TDM_OPT_LOGPROBS,
    TDM_OPT_NO_SPECIAL,
    TDM_OPT_NO_PARSE_SPECIAL,
    TDM_OPT_OFFSETS,
    TDM_OPT_TEMPLATE,
    TDM_OPT_TEMPLATE_NAME,
    TDM_OPT_NO_GENERATION_PROMPT,
    TDM_OPT_VAR,
    TDM_OPT_TEXT,
    TDM_OPT_CHUNK,
    TDM_OPT_TOP,
    TDM_OPT_ROWS,
    TDM_OPT_MODEL,
    TDM_OPT_MATES,
    TDM_OPT_BOUND,
    TDM_OPT_DUMP,
    TDM_OPT_BENCH_PROMPT,
    TDM_OPT_BENCH_GEN,
    TDM_OPT_BENCH_DEPTH,
    TDM_OPT_BENCH_BATCH,
    TDM_OPT_REPEATS,
    TDM_OPT_PROBE,
    TDM_OPT_PHASES,
    TDM_OPT_BENCH_FORMATS,
    TDM_OPT_BENCH_FORMAT,
    TDM_OPT_BENCH_MB,
    TDM_OPT_POOLING,
    TDM_OPT_DIMENSIONS,
    TDM_OPT_NO_NORMALIZE,
    TDM_OPT_PROMPT_NAME,
    TDM_OPT_INSTRUCT,
    TDM_OPT_PARALLEL,
    TDM_OPT_MEMORY,
    TDM_OPT_NAMES,
    TDM_OPT_BITS,
    TDM_OPT_GROUP,
    TDM_OPT_MODE,
    TDM_OPT_RECIPE,
    TDM_OPT_GGUF,
    TDM_OPT_SHARD_MIB,
    TDM_OPT_KL_TEXT,
    TDM_OPT_NO_KL,
    TDM_OPT_COUNT
} tdm_option_id;

typedef enum tdm_option_kind {
    TDM_OPTION_FLAG,
    TDM_OPTION_TEXT,
    TDM_OPTION_INT,
    TDM_OPTION_REAL,
    TDM_OPTION_INTS,  /* whole numbers apart by commas */
    TDM_OPTION_CHOICE /* one of the words of its argument's name, "a|b|c" */
} tdm_option_kind;

typedef struct tdm_option_row {
    char letter;      /* 0: none */
    const char *name; /* without the dashes */
    tdm_option_kind kind;
    bool is_repeated;
    const char *argument; /* what --help calls its value; NULL for a flag */
    uint32_t verbs;       /* bits of tdm_verb_id */
    double min, max;      /* INT, REAL, INTS */
    const char *fallback; /* told in --help; NULL: nothing to tell */
    const char *help;
} tdm_option_row;

extern const tdm_option_row TDM_OPTIONS[TDM_OPT_COUNT];

#define TDM_OPTION_LIST_MAX 16

typedef struct tdm_option_value {
    bool is_set;
    const char *text; /* as written; the last one of a repeated option */
    int64_t integer;
    double real;
    int64_t items[TDM_OPTION_LIST_MAX];
    size_t n_items;
} tdm_option_value;

typedef struct tdm_repeat {
    tdm_option_id option;
    const char *text;
} tdm_repeat;

/* A parsed command line. Texts are borrowed from argv. */
typedef struct tdm_args {
    const tdm_alloc *alloc;
    tdm_verb_id verb;
    tdm_option_value values[TDM_OPT_COUNT];
    const char *positional[2];
    size_t n_positional;
    tdm_repeat *repeats; /* [n_repeats] options given again and again, in order */
    size_t n_repeats;
    size_t repeats_cap;
} tdm_args;

/* Parses argv[1..argc). Errors: TDM_E_ARG with the nearest known name in remedy; TDM_E_NOMEM.
 * Positional arguments are checked too, unless --help is set. Owns: deinit, also after failure. */
TDM_NODISCARD tdm_status tdm_args_parse(tdm_args *args, const tdm_alloc *alloc, int argc,
                                        char *const *argv, tdm_error *err);
void tdm_args_deinit(tdm_args *args);

bool tdm_args_has(const tdm_args *args, tdm_option_id option);
/* The text of an option, or NULL when it was not given. */
const char *tdm_args_text(const tdm_args *args, tdm_option_id option);
int64_t tdm_args_integer(const tdm_args *args, tdm_option_id option, int64_t fallback);
double tdm_args_real(const tdm_args *args, tdm_option_id option, double fallback);
/* Text number idx of a repeated option, or NULL past the last. */
const char *tdm_args_repeat(const tdm_args *args, tdm_option_id option, size_t idx);

/* The verb of that name; false when there is none. */
bool tdm_verb_find(const char *name, tdm_verb_id *out_verb);

/* Nearest of the candidates offered so far to a name that was not understood. */
typedef struct tdm_guess {
    const char *wanted;
    size_t distance;
    char best[128]; /* empty: none is near */
} tdm_guess;
void tdm_guess_init(tdm_guess *guess, const char *wanted);
void tdm_guess_offer(tdm_guess *guess, const char *candidate);

/* Texts made from the tables, appended to out. */
TDM_NODISCARD tdm_status tdm_help_all(tdm_buf *out);
TDM_NODISCARD tdm_status tdm_help_verb(tdm_verb_id verb, tdm_buf *out);
TDM_NODISCARD tdm_status tdm_help_man(tdm_buf *out);
TDM_NODISCARD tdm_status tdm_help_bash(tdm_buf *out);

#endif
