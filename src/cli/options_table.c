/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of verbs and options. Nothing about a verb's command line is written anywhere else:
 * a new option is one line here and the place that reads it. */
#include "cli/options.h"

#include <float.h>

const tdm_verb_row TDM_VERBS[TDM_VERB_COUNT] = {
    [TDM_VERB_GENERATE] =
        {"generate", "MODEL", "one prompt to text",
         "Reads a prompt from -p, -f, --ids or standard input and writes the answer as it comes.\n"
         "A model with a chat template answers a chat message (--chat); --raw continues the text.\n"
         "Ctrl-C ends the answer; what came stands, and the exit code is 130."},
    [TDM_VERB_CHAT] =
        {"chat", "MODEL", "a conversation in the terminal",
         "Each line is a message; /help lists the commands. Ctrl-C stops an answer and keeps the "
         "chat, Ctrl-D leaves."},
    [TDM_VERB_TOKENIZE] =
        {"tokenize", "MODEL", "text on standard input to token ids",
         "MODEL may be a folder that holds only tokenizer files.\n"
         "With --json-lines: a JSON string a line in, {\"ids\":[...]} a line out."},
    [TDM_VERB_DETOKENIZE] =
        {"detokenize", "MODEL", "token ids on standard input to text",
         "Reads a JSON array of ids and writes the bytes that they stand for, special tokens "
         "spelled out.\n"
         "With --json-lines: an array a line in, {\"text\":...} a line out; bytes that are no "
         "UTF-8 are U+FFFD there, and bytes_hex has them as they are."},
    [TDM_VERB_TEMPLATE] =
        {"template", "[MODEL] [CONVERSATION.json]", "a conversation through a chat template",
         "CONVERSATION.json is a list of messages, or an object with messages, tools, documents "
         "and any variable of the template; - is standard input.\n"
         "With --template FILE.jinja no MODEL is given.\n"
         "With --json-lines: such an object a line in, {\"ok\":...} a line out."},
    [TDM_VERB_EXPLAIN] =
        {"explain", "MODEL CONVERSATION.json", "what a conversation becomes for the model",
         "The rendered prompt by segments that are trusted (the template's) or not (a message's), "
         "its tokens, how tool calls and thoughts of the answer will be read, and what looks "
         "wrong. No weight is touched; MODEL may be a folder that holds only tokenizer files.\n"
         "CONVERSATION.json is as for template; - is standard input."},
    [TDM_VERB_SCORE] =
        {"score", "MODEL", "log-probability of every token of a text",
         "The text comes from --text, --ids or standard input. Of a FILE.jsonl each line is an "
         "object whose \"text\" is a document; documents end in the model's "
         "end-of-text token and follow each other.\n"
         "With --rows the figures are those of mlx_lm's perplexity: the mean over "
         "every token of every row but each row's first, and its standard error."},
    [TDM_VERB_EMBED] =
        {"embed", "MODEL", "text to a vector",
         "The output of the final norm, pooled over the text's tokens as the checkpoint says "
         "(sentence-transformers' files, or a GGUF file's pooling_type); the last token where it "
         "says nothing. The text comes from -p, -f, --ids or standard input.\n"
         "With --json-lines: a JSON string or an array of ids a line in, {\"ok\":true,"
         "\"embedding\":[...]} a line out, in order; lines share forwards, 64 at a time, and a "
         "vector's bits do not depend on which."},
    [TDM_VERB_GOLDEN] =
        {"golden", "DIR", "compare a golden folder's logits with ours",
         "DIR holds golden.safetensors and a checkpoint; with --model its ids run through another "
         "one.\n"
         "Figures are told, not judged: the exit code is 0 whenever the comparison was made."},
    [TDM_VERB_BENCH] =
        {"bench", "[MODEL]", "measure prefill, decode and batched decode",
         "Every combination of -p with -d is a prefill test, every combination of -n, -d and -b a "
         "decode test; 0 leaves them out. Repeats run interleaved, and a read-only probe of "
         "memory runs beside each of them.\n"
         "With --probe no MODEL is given: what reads of each size and waits of the threads take, "
         "and each "
         "instruction set's peaks of f32, of bytes and, where it has an instruction for it, of "
         "bf16.\n"
         "With --phases each test runs once and prints the operations of its steps, layer by "
         "layer, "
         "instead; -b is 1 and 8 then, unless it is given.\n"
         "With --formats no MODEL is given: products of one row with random weights of each "
         "storage format, their GB/s of the file and the share of what memory gives in the same "
         "round."},
    [TDM_VERB_INSPECT] =
        {"inspect", "MODEL", "what a checkpoint is, without loading weights",
         "Architecture, tensors by kind, bytes, context, tokenizer, template, limits, and whether "
         "this build runs it."},
    [TDM_VERB_FIT] =
        {"fit", "MODEL", "whether a model fits, before it is loaded",
         "Bytes of weights, of keys and values, and of work, what the machine has, the longest "
         "context and the most sequences that fit, and the speed to expect. No weight is read.\n"
         "The exit code is 4 when it does not fit."},
    [TDM_VERB_QUANTIZE] =
        {"quantize", "IN OUT", "a smaller copy of a checkpoint",
         "OUT is a folder in MLX layout, or with --gguf TYPE a GGUF file; it must not exist. "
         "Weights "
         "stream through in bounded memory. An interrupted run leaves OUT.partial: the same "
         "command "
         "goes on with it, and OUT has the same bytes.\n"
         "At the end both models read a text, and the distance between their predictions is told "
         "(Kullback-Leibler divergence, in nats, and how often the likeliest token is the same).\n"
         "--recipe is mixed_2_6, mixed_3_4, mixed_3_6, mixed_4_6 or a JSON file: "
         "{\"bits\": 4, \"group_size\": 64, \"model.layers.*.down_proj\": {\"bits\": 6}, "
         "\"lm_head\": false}; with --gguf {\"blk.*.ffn_down\": \"Q6_K\"}. The first entry that "
         "matches a module decides."},
    [TDM_VERB_LS] = {"ls", "", "models at hand",
                     "Models in Tandem's own folder and in the Hugging Face cache."},
};

#define BIT(verb) (1U << TDM_VERB_##verb)
#define ALL ((1U << TDM_VERB_COUNT) - 1U)
#define TALK (BIT(TEMPLATE) | BIT(EXPLAIN))
#define LINES (BIT(EMBED) | BIT(TOKENIZE) | BIT(DETOKENIZE) | BIT(TEMPLATE))
#define ANSWER (BIT(GENERATE) | BIT(CHAT))
#define RUN (ANSWER | BIT(EMBED) | BIT(SCORE) | BIT(GOLDEN) | BIT(BENCH))
#define SIZE (BIT(FIT) | BIT(INSPECT))
#define LOAD (RUN | SIZE | BIT(EXPLAIN) | LINES)
#define INT_MOST 2147483647.0
#define U64_MOST 18446744073709551615.0

#define FLAG(letter, name, verbs, help)                                                            \
    { letter, name, TDM_OPTION_FLAG, false, NULL, verbs, 0, 0, NULL, help }
#define TEXT(letter, name, argument, verbs, fallback, help)                                        \
    { letter, name, TDM_OPTION_TEXT, false, argument, verbs, 0, 0, fallback, help }
#define TEXTS(letter, name, argument, verbs, help)                                                 \
    { letter, name, TDM_OPTION_TEXT, true, argument, verbs, 0, 0, NULL, help }
#define INT(letter, name, argument, verbs, min, max, fallback, help)                               \
    { letter, name, TDM_OPTION_INT, false, argument, verbs, min, max, fallback, help }
#define INTS(letter, name, verbs, min, max, fallback, help)                                        \
    { letter, name, TDM_OPTION_INTS, false, "N,...", verbs, min, max, fallback, help }
#define REAL(letter, name, argument, verbs, min, max, fallback, help)                              \
    { letter, name, TDM_OPTION_REAL, false, argument, verbs, min, max, fallback, help }
#define CHOICE(letter, name, words, verbs, fallback, help)                                         \
    { letter, name, TDM_OPTION_CHOICE, false, words, verbs, 0, 0, fallback, help }

const tdm_option_row TDM_OPTIONS[TDM_OPT_COUNT] = {
    /* every verb */
    [TDM_OPT_HELP] = FLAG('h', "help", ALL, "this text"),
    [TDM_OPT_JSON] = FLAG(0, "json", ALL, "JSON on standard output, and nothing else there"),
    [TDM_OPT_JSON_LINES] =
        FLAG(0, "json-lines", LINES, "one JSON value a line in, one JSON object a line out"),
    [TDM_OPT_VERBOSE] = FLAG('v', "verbose", ALL, "say more on standard error"),
    [TDM_OPT_QUIET] = FLAG('q', "quiet", ALL, "say nothing on standard error but errors"),
    [TDM_OPT_NO_COLOR] =
        FLAG(0, "no-color", ALL, "no colours; so does the environment variable NO_COLOR"),
    [TDM_OPT_PROGRESS] = CHOICE(0, "progress", "auto|json|none", ALL, "auto",
                                "how loading is shown on standard error"),
    [TDM_OPT_THREADS] = INT(0, "threads", "N", (LOAD | BIT(QUANTIZE)) & ~BIT(BENCH), 1, 256,
                            "physical cores", "threads that compute"),
    [TDM_OPT_THREADS_LIST] =
        INTS('t', "threads", BIT(BENCH), 1, 256, "physical cores", "threads that compute"),
    [TDM_OPT_ISA] =
        CHOICE(0, "isa", "scalar|avx2|avxvnni|avx512|amx|neon|neon-dot", LOAD, "best there is",
               "instruction set; one that the machine lacks is refused"),
    [TDM_OPT_TIER] = CHOICE(0, "tier", "reference|exact|fast", RUN | SIZE, "fast", "arithmetic"),
    [TDM_OPT_DEVICE] = TEXT(0, "device", "cpu|cuda[:N]", LOAD, "cpu", "where to compute"),
    [TDM_OPT_KV] = TEXT(0, "kv", "f32|bf16", RUN | BIT(FIT), "bf16 in fast, else f32",
                        "storage of keys and values"),
    [TDM_OPT_CTX] = INT('c', "ctx", "N", ANSWER | BIT(EMBED) | BIT(SCORE) | BIT(FIT), 1, 16777216,
                        "the model's", "most positions of a sequence"),
    [TDM_OPT_PANEL_CACHE] =
        INT(0, "panel-cache", "GB", RUN, 0, 1000000, "20",
            "most that the folder of packed weights may hold; 0: pack at every load"),

    /* generate, chat */
    [TDM_OPT_PROMPT] =
        TEXT('p', "prompt", "TEXT", BIT(GENERATE) | BIT(EMBED), NULL, "the prompt, or the text"),
    [TDM_OPT_FILE] =
        TEXT('f', "file", "FILE", BIT(GENERATE) | BIT(EMBED), NULL, "the same from a file"),
    [TDM_OPT_IDS] = TEXT(0, "ids", "FILE", BIT(GENERATE) | BIT(EMBED) | BIT(SCORE), NULL,
                         "token ids from a file, a JSON array; needs no tokenizer"),
    [TDM_OPT_MAX_TOKENS] =
        INT('n', "max-tokens", "N", ANSWER, 1, INT_MOST, "512", "most tokens of an answer"),
    [TDM_OPT_CHAT] = FLAG(0, "chat", BIT(GENERATE),
                          "put the prompt into the model's chat template (the default where there "
                          "is one)"),
    [TDM_OPT_RAW] = FLAG(0, "raw", BIT(GENERATE), "continue the prompt as it stands"),
    [TDM_OPT_SYSTEM] = TEXT('s', "system", "TEXT", ANSWER, NULL, "a system message"),
    [TDM_OPT_TOOLS] = TEXT(0, "tools", "FILE.json", BIT(GENERATE), NULL,
                           "tools that the chat template offers to the model, a JSON array; with "
                           "--json the answer has its calls apart"),
    [TDM_OPT_TEMP] = REAL(0, "temp", "T", ANSWER, 0, 5, "the model's; else 0, chat 0.7",
                          "temperature; 0 always takes the most likely token"),
    [TDM_OPT_TOP_K] =
        INT(0, "top-k", "K", ANSWER, 0, INT_MOST, "the model's; else 0, off", "keep K tokens"),
    [TDM_OPT_TOP_P] = REAL(0, "top-p", "P", ANSWER, 0, 1, "the model's; else off, chat 0.95",
                           "keep the tokens that make up probability P"),
    [TDM_OPT_MIN_P] = REAL(0, "min-p", "P", ANSWER, 0, 1, "the model's; else off",
                           "drop tokens less likely than P times the best"),
    [TDM_OPT_TOP_N_SIGMA] = REAL(0, "top-n-sigma", "N", ANSWER, 0, 100, "off",
                                 "keep logits within N standard deviations of the best"),
    [TDM_OPT_XTC_PROBABILITY] = REAL(0, "xtc-probability", "P", ANSWER, 0, 1, "0, off",
                                     "how often to drop the likeliest tokens"),
    [TDM_OPT_XTC_THRESHOLD] =
        REAL(0, "xtc-threshold", "P", ANSWER, 0, 0.5, "0.1", "which ones: those above P but one"),
    [TDM_OPT_REPETITION_PENALTY] =
        REAL(0, "repetition-penalty", "R", ANSWER, 0.01, 100, "the model's; else 1, off",
             "divides the logits of tokens that occurred"),
    [TDM_OPT_PRESENCE_PENALTY] = REAL(0, "presence-penalty", "R", ANSWER, -100, 100, "0, off",
                                      "taken off the logits of tokens that occurred"),
    [TDM_OPT_FREQUENCY_PENALTY] = REAL(0, "frequency-penalty", "R", ANSWER, -100, 100, "0, off",
                                       "the same, once for each time"),
    [TDM_OPT_PENALTY_WINDOW] = INT(0, "penalty-window", "N", ANSWER, 0, INT_MOST, "20",
                                   "tokens that the penalties look back; 0: all"),
    [TDM_OPT_DRY_MULTIPLIER] = REAL(0, "dry-multiplier", "R", ANSWER, 0, 100, "0, off",
                                    "punishes tokens that would extend a repeat"),
    [TDM_OPT_DRY_BASE] =
        REAL(0, "dry-base", "R", ANSWER, 1, 100, "1.75", "growth with the repeat's length"),
    [TDM_OPT_DRY_ALLOWED_LENGTH] = INT(0, "dry-allowed-length", "N", ANSWER, 1, 1000000, "2",
                                       "longest repeat that goes unpunished"),
    [TDM_OPT_MIROSTAT] = INT(0, "mirostat", "0|1|2", ANSWER, 0, 2, "0, off",
                             "aims at a constant surprise in place of the cuts above"),
    [TDM_OPT_MIROSTAT_TAU] =
        REAL(0, "mirostat-tau", "R", ANSWER, 0, 100, "5", "the surprise, in bits"),
    [TDM_OPT_MIROSTAT_ETA] =
        REAL(0, "mirostat-eta", "R", ANSWER, 0, 1, "0.1", "how fast it adapts"),
    [TDM_OPT_LOGIT_BIAS] =
        TEXTS(0, "logit-bias", "ID=B", ANSWER, "adds B to a token's logit; may be given again"),
    [TDM_OPT_SEED] = INT(0, "seed", "N", ANSWER, 0, U64_MOST, "drawn, and printed",
                         "the same seed gives the same answer"),
    [TDM_OPT_STOP] =
        TEXTS(0, "stop", "TEXT", ANSWER, "ends the answer where TEXT comes; may be given again"),
    [TDM_OPT_IGNORE_EOS] = FLAG(0, "ignore-eos", ANSWER, "go on past end-of-text tokens"),
    [TDM_OPT_SHOW_SPECIAL] = FLAG(0, "show-special", ANSWER, "write special tokens out"),
    [TDM_OPT_LOGPROBS] = INT(0, "logprobs", "K", BIT(GENERATE), 0, 20, NULL,
                             "with --json: log-probability of each token, and of the K best"),

    /* tokenize, template, score */
    [TDM_OPT_NO_SPECIAL] = FLAG(0, "no-special", BIT(TOKENIZE), "add no BOS or EOS"),
    [TDM_OPT_NO_PARSE_SPECIAL] =
        FLAG(0, "no-parse-special", BIT(TOKENIZE), "special tokens spelled in the text stay text"),
    [TDM_OPT_OFFSETS] =
        FLAG(0, "offsets", BIT(TOKENIZE), "also the range of bytes that each token came from"),
    [TDM_OPT_TEMPLATE] = TEXT(0, "template", "FILE.jinja", TALK, NULL,
                              "a template from a file; template then takes no MODEL"),
    [TDM_OPT_TEMPLATE_NAME] =
        TEXT(0, "template-name", "NAME", TALK | ANSWER,
             "tool_use with tools, rag with documents, where the model has them; else default",
             "which of the model's chat templates"),
    [TDM_OPT_NO_GENERATION_PROMPT] =
        FLAG(0, "no-generation-prompt", TALK, "do not open the assistant's answer at the end"),
    [TDM_OPT_VAR] = TEXTS(0, "var", "NAME=VALUE", TALK,
                          "a variable of the template, JSON or text; may be given again"),
    [TDM_OPT_TEXT] = TEXT(0, "text", "FILE", BIT(SCORE), NULL, "the text from a file"),
    [TDM_OPT_CHUNK] = INT(0, "chunk", "N", BIT(SCORE) | BIT(GOLDEN), 1, 65536, NULL,
                          "most tokens of one forward; never changes a result"),
    [TDM_OPT_TOP] = INT(0, "top", "K", BIT(SCORE), 0, 20, "0", "also the K best at each position"),
    [TDM_OPT_ROWS] =
        INT(0, "rows", "N", BIT(SCORE), 2, 16777216, "one row",
            "cut the text into rows of N tokens, each read from its beginning; what is "
            "left over at the end is not counted"),

    /* golden */
    [TDM_OPT_MODEL] = TEXT(0, "model", "MODEL", BIT(GOLDEN), "DIR's own", "the checkpoint to run"),
    [TDM_OPT_MATES] = INT(0, "mates", "N", BIT(GOLDEN), 0, 64, "0",
                          "other sequences in the same steps; never changes a result"),
    [TDM_OPT_BOUND] = REAL(0, "bound", "R", BIT(GOLDEN), 0, 1, "1e-4",
                           "top tokens count where the golden's gap exceeds 2 R times the largest "
                           "logit; hidden states count as bad above R"),
    [TDM_OPT_DUMP] =
        TEXT(0, "dump", "FILE", BIT(GOLDEN), NULL, "write what was computed as safetensors"),

    /* bench */
    [TDM_OPT_BENCH_PROMPT] =
        INTS('p', "n-prompt", BIT(BENCH), 0, 1048576, "512", "tokens of a prefill test"),
    [TDM_OPT_BENCH_GEN] =
        INTS('n', "n-gen", BIT(BENCH), 0, 1048576, "128", "tokens of a decode test"),
    [TDM_OPT_BENCH_DEPTH] =
        INTS('d', "n-depth", BIT(BENCH), 0, 1048576, "0", "positions that are there before"),
    [TDM_OPT_BENCH_BATCH] =
        INTS('b', "n-seq", BIT(BENCH), 1, 256, "1", "sequences that decode together"),
    [TDM_OPT_REPEATS] = INT('r', "repeats", "N", BIT(BENCH), 1, 1000, "5", "runs of each test"),
    [TDM_OPT_PROBE] =
        FLAG(0, "probe", BIT(BENCH), "the machine's limits instead: reads, arithmetic, waits"),
    [TDM_OPT_PHASES] =
        FLAG(0, "phases", BIT(BENCH), "the operations of a step in order, with count, bytes, time"),
    [TDM_OPT_BENCH_FORMATS] = FLAG(0, "formats", BIT(BENCH),
                                   "a line for each storage format of weights instead of a model"),
    [TDM_OPT_BENCH_FORMAT] =
        TEXT(0, "format", "NAME", BIT(BENCH), "all", "with --formats: only one"),
    [TDM_OPT_BENCH_MB] = INT(0, "weight-mb", "N", BIT(BENCH), 1, 4096, "64",
                             "with --formats: megabytes of each weight"),

    /* embed */
    [TDM_OPT_POOLING] = CHOICE(0, "pooling", "auto|last|mean|cls", BIT(EMBED), "auto",
                               "which tokens make the vector; auto: as the checkpoint says"),
    [TDM_OPT_DIMENSIONS] = INT(0, "dimensions", "N", BIT(EMBED), 1, 1048576, "the checkpoint's",
                               "keep the first N values, for models that were trained to be cut"),
    [TDM_OPT_NO_NORMALIZE] =
        FLAG(0, "no-normalize", BIT(EMBED), "do not divide vectors by their length"),
    [TDM_OPT_PROMPT_NAME] = TEXT(0, "prompt-name", "NAME", BIT(EMBED), "the checkpoint's, if any",
                                 "which of the checkpoint's prompts to put before the text"),
    [TDM_OPT_INSTRUCT] = TEXT(0, "instruct", "TASK", BIT(EMBED), NULL,
                              "put \"Instruct: TASK\", a line feed and \"Query:\" before the text"),

    /* fit */
    [TDM_OPT_PARALLEL] =
        INT(0, "parallel", "N", BIT(FIT), 1, 1024, "1", "sequences that run together"),
    [TDM_OPT_MEMORY] = TEXT(0, "memory", "SIZE", BIT(FIT), "what the machine has left",
                            "memory to fit into: bytes, or with K, M, G"),
    /* quantize */
    [TDM_OPT_BITS] =
        INT(0, "bits", "N", BIT(QUANTIZE), 1, 8, "4; mxfp8 8", "bits of a weight's code"),
    [TDM_OPT_GROUP] = INT(0, "group", "N", BIT(QUANTIZE), 16, 128, "64; mxfp4, mxfp8 32; nvfp4 16",
                          "weights that share a scale"),
    [TDM_OPT_MODE] = CHOICE(0, "mode", "affine|mxfp4|mxfp8|nvfp4", BIT(QUANTIZE), "affine",
                            "what codes and scales are"),
    [TDM_OPT_RECIPE] =
        TEXT(0, "recipe", "FILE|NAME", BIT(QUANTIZE), NULL, "other settings for some modules"),
    [TDM_OPT_GGUF] =
        TEXT(0, "gguf", "TYPE", BIT(QUANTIZE), NULL,
             "write a GGUF file: Q4_0, Q4_K_M, Q5_K_M, Q6_K, Q8_0, BF16, F16, F32 ..."),
    [TDM_OPT_SHARD_MIB] = INT(0, "shard-mib", "N", BIT(QUANTIZE), 1, 1048576, "5120",
                              "most MiB of a safetensors file"),
    [TDM_OPT_KL_TEXT] = TEXT(0, "kl-text", "FILE", BIT(QUANTIZE), "a built-in one",
                             "the text that both models read at the end"),
    [TDM_OPT_NO_KL] = FLAG(0, "no-kl", BIT(QUANTIZE), "do not compare the models"),

    /* ls */
    [TDM_OPT_NAMES] = FLAG(0, "names", BIT(LS), "names alone, one a line"),
};
