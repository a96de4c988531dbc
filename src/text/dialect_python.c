/* SPDX-License-Identifier: Apache-2.0
 *
 * Dialects that write calls as Python does. Floor 4. */
#include "text/dialect_table_priv.h"

#define SP TDM_ALT_SPECIAL
#define THINK TDM_ALT_THINK
#define PEEK TDM_ALT_PEEK
#define CLOSE TDM_ALT_CLOSE
#define ENVELOPE TDM_ALT_ENVELOPE

static const tdm_dialect LFM2 = {
    .name = "lfm2",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {{.op = TDM_STEP_TEXT,
               .alts = {{"<|tool_call_start|>", SP, 2, 0}, {"<think>", THINK, 1, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
              {.op = TDM_STEP_PYTHON, .next = 3},
              {.op = TDM_STEP_MATCH,
               .next = TDM_NO_STEP,
               .alts = {{"<|tool_call_end|>", CLOSE | SP, 0, 0}}}}};

static const tdm_dialect MINICPM3 = {
    .name = "minicpm3",
    .start = 0,
    .thought = 1,
    .think_open = "<|thought_start|>",
    .think_close = "<|thought_end|>",
    .steps = {
        {.op = TDM_STEP_TEXT,
         .alts = {{"<|tool_call_start|>", SP, 2, 0}, {"<|thought_start|>", THINK | SP, 1, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"<|thought_end|>", SP, 0, 0}}},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"```python", 0, 3, 0}}},
        {.op = TDM_STEP_PYTHON, .next = 4},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"```", 0, 5, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"<|tool_call_end|>", CLOSE | SP, 0, 0}}}}};

static const tdm_dialect GEMMA3 = {
    .name = "gemma3",
    .start = 0,
    .thought = TDM_NO_STEP,
    .think_open = NULL,
    .think_close = NULL,
    .steps = {{.op = TDM_STEP_TEXT, .alts = {{"```tool_code", 0, 2, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
              {.op = TDM_STEP_PYTHON, .next = 3},
              {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"```", CLOSE, 0, 0}}}}};

static const tdm_dialect LLAMA_PYTHONIC = {
    .name = "llama-pythonic",
    .start = 0,
    .thought = TDM_NO_STEP,
    .think_open = NULL,
    .think_close = NULL,
    .steps = {{.op = TDM_STEP_TEXT,
               .alts = {{"[", PEEK, 2, 0},
                        {"<|python_start|>", ENVELOPE | SP, 0, 0},
                        {"<|python_end|>", ENVELOPE | SP, 0, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
              {.op = TDM_STEP_PYTHON, .flags = TDM_STEP_BARE, .next = 0}}};

const tdm_dialect *const TDM_DIALECTS_PYTHON[] = {&LFM2, &MINICPM3, &GEMMA3, &LLAMA_PYTHONIC, NULL};
