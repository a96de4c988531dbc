/* SPDX-License-Identifier: Apache-2.0
 *
 * Dialects that write one tag a parameter; values are plain text, typed by the tools' schema. Floor 4. */
#include "text/dialect_table_priv.h"

#define THINK TDM_ALT_THINK
#define CLOSE TDM_ALT_CLOSE
#define END TDM_ALT_END
#define BEGIN TDM_ALT_BEGIN
#define KEY TDM_ALT_KEY
#define VALUE TDM_ALT_VALUE

static const tdm_dialect QWEN3_CODER = {
    .name = "qwen3-coder",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {
        {.op = TDM_STEP_TEXT,
         .alts = {{"<tool_call>", 0, 2, 0}, {"<think>", THINK, 1, 0}, {"<function=", 0, 3, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"<function=", 0, 3, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_NAME, .alts = {{">", BEGIN, 4, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"<parameter=", 0, 5, 0}, {"</function>", END, 7, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_KEY, .alts = {{">", KEY, 6, 0}}},
        {.op = TDM_STEP_UNTIL,
         .into = TDM_INTO_VALUE,
         .flags = TDM_STEP_SKIPS_LINE,
         .alts = {{"\n</parameter>", VALUE, 4, 0}, {"</parameter>", VALUE, 4, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = 0,
         .alts = {{"</tool_call>", CLOSE, 0, 0}, {"<function=", 0, 3, 0}}}}};

static const tdm_dialect SEED_OSS = {
    .name = "seed-oss",
    .start = 0,
    .thought = 1,
    .think_open = "<seed:think>",
    .think_close = "</seed:think>",
    .steps = {
        {.op = TDM_STEP_TEXT,
         .alts = {{"<seed:tool_call>", 0, 2, 0}, {"<seed:think>", THINK, 1, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"</seed:think>", 0, 0, 0}}},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"<function=", 0, 3, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_NAME, .alts = {{">", BEGIN, 4, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"<parameter=", 0, 5, 0}, {"</function>", END, 7, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_KEY, .alts = {{">", KEY, 6, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_VALUE, .alts = {{"</parameter>", VALUE, 4, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"</seed:tool_call>", CLOSE, 0, 0}, {"<function=", 0, 3, 0}}}}};

static const tdm_dialect MINIMAX_M2 = {
    .name = "minimax-m2",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {
        {.op = TDM_STEP_TEXT, .alts = {{"<minimax:tool_call>", 0, 2, 0}, {"<think>", THINK, 1, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"<invoke name=\"", 0, 3, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_NAME, .alts = {{"\">", BEGIN, 4, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"<parameter name=\"", 0, 5, 0}, {"</invoke>", END, 7, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_KEY, .alts = {{"\">", KEY, 6, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_VALUE, .alts = {{"</parameter>", VALUE, 4, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"</minimax:tool_call>", CLOSE, 0, 0}, {"<invoke name=\"", 0, 3, 0}}}}};

static const tdm_dialect DEEPSEEK_V32 = {
    .name = "deepseek-v3.2",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {
        {.op = TDM_STEP_TEXT,
         .alts = {{"<｜DSML｜function_calls>", 0, 2, 0}, {"<think>", THINK, 1, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"<｜DSML｜invoke name=\"", 0, 3, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_NAME, .alts = {{"\">", BEGIN, 4, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"<｜DSML｜parameter name=\"", 0, 5, 0}, {"</｜DSML｜invoke>", END, 7, 0}}},
        {.op = TDM_STEP_UNTIL,
         .into = TDM_INTO_KEY,
         .alts = {{"\" string=\"true\">", KEY | TDM_ALT_KEY_STRING, 6, 0},
                  {"\" string=\"false\">", KEY | TDM_ALT_KEY_LITERAL, 6, 0},
                  {"\">", KEY, 6, 0}}},
        {.op = TDM_STEP_UNTIL,
         .into = TDM_INTO_VALUE,
         .alts = {{"</｜DSML｜parameter>", VALUE, 4, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"</｜DSML｜function_calls>", CLOSE, 0, 0},
                  {"<｜DSML｜invoke name=\"", 0, 3, 0}}}}};

static const tdm_dialect GLM = {
    .name = "glm",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {
        {.op = TDM_STEP_TEXT, .alts = {{"<tool_call>", 0, 2, 0}, {"<think>", THINK, 1, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
        {.op = TDM_STEP_UNTIL,
         .into = TDM_INTO_NAME,
         .alts = {{"\n", BEGIN, 3, 0},
                  {"<arg_key>", BEGIN, 4, 0},
                  {"</tool_call>", BEGIN | END | CLOSE, 0, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"<arg_key>", 0, 4, 0}, {"</tool_call>", END | CLOSE, 0, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_KEY, .alts = {{"</arg_key>", KEY, 5, 0}}},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"<arg_value>", 0, 6, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_VALUE, .alts = {{"</arg_value>", VALUE, 3, 0}}}}};

const tdm_dialect *const TDM_DIALECTS_XML[] = {&QWEN3_CODER,  &SEED_OSS, &MINIMAX_M2,
                                               &DEEPSEEK_V32, &GLM,      NULL};
