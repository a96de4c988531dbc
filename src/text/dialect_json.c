/* SPDX-License-Identifier: Apache-2.0
 *
 * Dialects whose calls are JSON objects that carry their own names, in a list or in tags. Floor 4. */
#include "text/dialect_table_priv.h"

#define SP TDM_ALT_SPECIAL
#define THINK TDM_ALT_THINK
#define PEEK TDM_ALT_PEEK
#define CLOSE TDM_ALT_CLOSE
#define ENVELOPE TDM_ALT_ENVELOPE

static const tdm_dialect HERMES = {
    .name = "hermes",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {
        {.op = TDM_STEP_TEXT, .alts = {{"<tool_call>", 0, 2, 0}, {"<think>", THINK, 1, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
        {.op = TDM_STEP_JSON, .next = 3},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"</tool_call>", CLOSE, 0, 0}}}}};

static const tdm_dialect MINIMAX_M1 = {
    .name = "minimax",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {
        {.op = TDM_STEP_TEXT, .alts = {{"<tool_calls>", 0, 2, 0}, {"<think>", THINK, 1, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
        {.op = TDM_STEP_JSON, .next = 3},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"</tool_calls>", CLOSE, 0, 0}}}}};

static const tdm_dialect NEMOTRON = {
    .name = "nemotron",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {{.op = TDM_STEP_TEXT, .alts = {{"<TOOLCALL>", 0, 2, 0}, {"<think>", THINK, 1, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
              {.op = TDM_STEP_JSON, .next = 3},
              {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"</TOOLCALL>", CLOSE, 0, 0}}}}};

static const tdm_dialect GRANITE3 = {
    .name = "granite3",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {{.op = TDM_STEP_TEXT,
               .alts = {{"<|tool_call|>", SP, 2, 0},
                        {"<think>", THINK, 1, 0},
                        {"<tool_call>", 0, 2, 0},
                        {"<response>", ENVELOPE, 0, 0},
                        {"</response>", ENVELOPE, 0, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
              {.op = TDM_STEP_JSON, .next = 0}}};

static const tdm_dialect APERTUS = {
    .name = "apertus",
    .start = 0,
    .thought = 1,
    .think_open = "<|inner_prefix|>",
    .think_close = "<|inner_suffix|>",
    .steps = {{.op = TDM_STEP_TEXT,
               .alts = {{"<|tools_prefix|>", SP, 2, 0}, {"<|inner_prefix|>", THINK | SP, 1, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"<|inner_suffix|>", SP, 0, 0}}},
              {.op = TDM_STEP_JSON, .flags = TDM_STEP_NAME_IS_KEY, .next = 3},
              {.op = TDM_STEP_MATCH,
               .next = TDM_NO_STEP,
               .alts = {{"<|tools_suffix|>", CLOSE | SP, 0, 0}}}}};

static const tdm_dialect COMMAND_R7B = {
    .name = "command-r7b",
    .start = 0,
    .thought = 1,
    .think_open = "<|START_THINKING|>",
    .think_close = "<|END_THINKING|>",
    .steps = {{.op = TDM_STEP_TEXT,
               .alts = {{"<|START_ACTION|>", SP, 2, 0},
                        {"<|START_THINKING|>", THINK | SP, 1, 0},
                        {"<|START_RESPONSE|>", ENVELOPE | SP, 0, 0},
                        {"<|END_RESPONSE|>", ENVELOPE | SP, 0, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"<|END_THINKING|>", SP, 0, 0}}},
              {.op = TDM_STEP_JSON, .next = 3},
              {.op = TDM_STEP_MATCH,
               .next = TDM_NO_STEP,
               .alts = {{"<|END_ACTION|>", CLOSE | SP, 0, 0}}}}};

static const tdm_dialect COMMAND_R = {
    .name = "command-r",
    .start = 0,
    .thought = TDM_NO_STEP,
    .think_open = NULL,
    .think_close = NULL,
    .steps = {{.op = TDM_STEP_TEXT, .alts = {{"Action:", 0, 2, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
              {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"```json", 0, 3, 0}}},
              {.op = TDM_STEP_JSON, .next = 4},
              {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"```", CLOSE, 0, 0}}}}};

static const tdm_dialect FIREFUNCTION = {
    .name = "firefunction",
    .start = 0,
    .thought = TDM_NO_STEP,
    .think_open = NULL,
    .think_close = NULL,
    .steps = {{.op = TDM_STEP_TEXT, .alts = {{"functools", 0, 2, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
              {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"[", PEEK, 3, 0}}},
              {.op = TDM_STEP_JSON, .next = 0}}};

static const tdm_dialect PHI4_MINI = {
    .name = "phi4-mini",
    .start = 0,
    .thought = TDM_NO_STEP,
    .think_open = NULL,
    .think_close = NULL,
    .steps = {{.op = TDM_STEP_TEXT, .alts = {{"<|tool_call|>", SP, 2, 0}, {"functools", 0, 4, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
              {.op = TDM_STEP_JSON, .next = 3},
              {.op = TDM_STEP_MATCH, .next = 0, .alts = {{"<|/tool_call|>", CLOSE | SP, 0, 0}}},
              {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"[", PEEK, 2, 0}}}}};

static const tdm_dialect LLAMA3 = {
    .name = "llama3-json",
    .start = 2,
    .thought = TDM_NO_STEP,
    .think_open = NULL,
    .think_close = NULL,
    .steps = {{.op = TDM_STEP_TEXT, .alts = {{"<|python_tag|>", SP, 3, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
              {.op = TDM_STEP_MATCH,
               .next = 0,
               .alts = {{"<|python_tag|>", SP, 3, 0},
                        {"{", PEEK, 4, 0},
                        {"[{", PEEK, 4, 0},
                        {"[", PEEK, 5, 0}}},
              {.op = TDM_STEP_MATCH, .next = 5, .alts = {{"{", PEEK, 4, 0}, {"[{", PEEK, 4, 0}}},
              {.op = TDM_STEP_JSON, .flags = TDM_STEP_BARE, .next = 6},
              {.op = TDM_STEP_PYTHON, .flags = TDM_STEP_BARE, .next = 6},
              {.op = TDM_STEP_MATCH, .next = 0, .alts = {{"<|python_tag|>", SP, 3, 0}}}}};

static const tdm_dialect LLAMA4 = {
    .name = "llama4-json",
    .start = 2,
    .thought = TDM_NO_STEP,
    .think_open = NULL,
    .think_close = NULL,
    .steps = {{.op = TDM_STEP_TEXT,
               .alts = {{"<|python_start|>", ENVELOPE | SP, 2, 0},
                        {"<|python_end|>", ENVELOPE | SP, 2, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
              {.op = TDM_STEP_MATCH,
               .next = 0,
               .alts = {{"{", PEEK, 3, 0}, {"[{", PEEK, 3, 0}, {"[", PEEK, 4, 0}}},
              {.op = TDM_STEP_JSON, .flags = TDM_STEP_BARE, .next = 0},
              {.op = TDM_STEP_PYTHON, .flags = TDM_STEP_BARE, .next = 0}}};

static const tdm_dialect PLAIN_THINK = {
    .name = "plain-think",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {{.op = TDM_STEP_TEXT, .alts = {{"<think>", THINK, 1, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}}}};

static const tdm_dialect PLAIN = {
    .name = "plain",
    .start = 0,
    .thought = TDM_NO_STEP,
    .think_open = NULL,
    .think_close = NULL,
    .steps = {{.op = TDM_STEP_TEXT}, {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}}}};

const tdm_dialect *const TDM_DIALECTS_JSON[] = {
    &HERMES,       &MINIMAX_M1, &NEMOTRON, &GRANITE3, &APERTUS,     &COMMAND_R7B, &COMMAND_R,
    &FIREFUNCTION, &PHI4_MINI,  &LLAMA3,   &LLAMA4,   &PLAIN_THINK, &PLAIN,       NULL};
