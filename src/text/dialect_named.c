/* SPDX-License-Identifier: Apache-2.0
 *
 * Dialects that write a name, a mark, and the arguments as one value; and harmony's channels. Floor 4. */
#include "text/dialect_table_priv.h"

#define SP TDM_ALT_SPECIAL
#define THINK TDM_ALT_THINK
#define PEEK TDM_ALT_PEEK
#define CLOSE TDM_ALT_CLOSE
#define ENVELOPE TDM_ALT_ENVELOPE

static const tdm_dialect DEEPSEEK = {
    .name = "deepseek-v3",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {
        {.op = TDM_STEP_TEXT,
         .alts = {{"<｜tool▁calls▁begin｜>", SP, 2, 0},
                  {"<think>", THINK, 1, 0},
                  {"<｜tool▁call▁begin｜>", SP, 3, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"<｜tool▁call▁begin｜>", SP, 3, 0}, {"<｜tool▁calls▁end｜>", CLOSE | SP, 0, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_NAME, .alts = {{"<｜tool▁sep｜>", SP, 4, 0}}},
        {.op = TDM_STEP_MATCH, .next = 5, .alts = {{"{", PEEK, 7, 0}, {"\"", PEEK, 7, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_NAME, .alts = {{"\n", 0, 6, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"```json", 0, 7, 0}, {"{", PEEK, 7, 0}}},
        {.op = TDM_STEP_ARGUMENTS, .next = 8},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"```", 0, 9, 0}, {"<｜tool▁call▁end｜>", SP, 2, 0}}},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"<｜tool▁call▁end｜>", SP, 2, 0}}}}};

static const tdm_dialect KIMI_K2 = {
    .name = "kimi-k2",
    .start = 0,
    .thought = 1,
    .think_open = "<think>",
    .think_close = "</think>",
    .steps = {
        {.op = TDM_STEP_TEXT,
         .alts = {{"<|tool_calls_section_begin|>", SP, 2, 0},
                  {"<think>", THINK, 1, 0},
                  {"<|tool_call_begin|>", SP, 3, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
        {.op = TDM_STEP_MATCH,
         .next = TDM_NO_STEP,
         .alts = {{"<|tool_call_begin|>", SP, 3, 0},
                  {"<|tool_calls_section_end|>", CLOSE | SP, 0, 0}}},
        {.op = TDM_STEP_UNTIL,
         .into = TDM_INTO_NAME_ID,
         .alts = {{"<|tool_call_argument_begin|>", SP, 4, 0}}},
        {.op = TDM_STEP_ARGUMENTS, .next = 5},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"<|tool_call_end|>", SP, 2, 0}}}}};

static const tdm_dialect MISTRAL = {
    .name = "mistral",
    .start = 0,
    .thought = 1,
    .think_open = "[THINK]",
    .think_close = "[/THINK]",
    .steps = {
        {.op = TDM_STEP_TEXT, .alts = {{"[TOOL_CALLS]", SP, 2, 0}, {"[THINK]", THINK | SP, 1, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"[/THINK]", SP, 0, 0}}},
        {.op = TDM_STEP_MATCH, .next = 4, .alts = {{"[", PEEK, 3, 0}, {"{", PEEK, 3, 0}}},
        {.op = TDM_STEP_JSON, .next = 7},
        {.op = TDM_STEP_UNTIL,
         .into = TDM_INTO_NAME,
         .alts = {{"[CALL_ID]", SP, 5, 0}, {"[ARGS]", SP, 6, 0}, {"{", PEEK, 6, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_ID, .alts = {{"[ARGS]", SP, 6, 0}}},
        {.op = TDM_STEP_ARGUMENTS, .next = 7},
        {.op = TDM_STEP_MATCH, .next = 0, .alts = {{"[TOOL_CALLS]", SP, 2, 0}}}}};

static const tdm_dialect FUNCTIONARY = {
    .name = "functionary",
    .start = 5,
    .thought = TDM_NO_STEP,
    .think_open = NULL,
    .think_close = NULL,
    .steps = {
        {.op = TDM_STEP_TEXT, .alts = {{">>>", 0, 2, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_NAME, .alts = {{"\n", TDM_ALT_RECIPIENT, 3, 0}}},
        {.op = TDM_STEP_ARGUMENTS, .next = 4},
        {.op = TDM_STEP_MATCH, .next = 0, .alts = {{">>>", 0, 2, 0}}},
        {.op = TDM_STEP_MATCH, .next = 2, .alts = {{">>>", 0, 2, 0}}}}};

static const tdm_dialect GLM4 = {
    .name = "glm4",
    .start = 2,
    .thought = TDM_NO_STEP,
    .think_open = NULL,
    .think_close = NULL,
    .steps = {{.op = TDM_STEP_TEXT, .alts = {{"<|assistant|>", SP, 2, 0}}},
              {.op = TDM_STEP_REASONING, .alts = {{"</think>", 0, 0, 0}}},
              {.op = TDM_STEP_UNTIL,
               .into = TDM_INTO_NAME,
               .flags = TDM_STEP_KNOWN,
               .alts = {{"\n", 0, 3, 0}}},
              {.op = TDM_STEP_ARGUMENTS, .next = 4},
              {.op = TDM_STEP_MATCH, .next = 0, .alts = {{"<|assistant|>", SP, 2, 0}}}}};

static const tdm_dialect GEMMA4 = {
    .name = "gemma4",
    .start = 0,
    .thought = 1,
    .think_open = "<|channel>thought\n",
    .think_close = "<channel|>",
    .steps = {
        {.op = TDM_STEP_TEXT,
         .alts = {{"<|tool_call>", SP, 2, 0},
                  {"<|channel>thought\n", THINK | SP, 1, 10},
                  {"<|tool_response>", ENVELOPE | SP, 0, 0}}},
        {.op = TDM_STEP_REASONING, .alts = {{"<channel|>", SP, 0, 0}}},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"call:", 0, 3, 0}}},
        {.op = TDM_STEP_UNTIL, .into = TDM_INTO_NAME, .alts = {{"{", PEEK, 4, 0}}},
        {.op = TDM_STEP_ARGUMENTS, .flags = TDM_STEP_GEMMA, .next = 5},
        {.op = TDM_STEP_MATCH, .next = TDM_NO_STEP, .alts = {{"<tool_call|>", CLOSE | SP, 0, 0}}}}};

static const tdm_dialect HARMONY = {
    .name = "harmony",
    .start = 2,
    .thought = 1,
    .think_open = "<|channel|>analysis<|message|>",
    .think_close = "<|end|>",
    .steps = {{.op = TDM_STEP_TEXT,
               .alts = {{"<|end|>", ENVELOPE | SP, 3, 0},
                        {"<|return|>", ENVELOPE | SP, 3, 0},
                        {"<|call|>", ENVELOPE | SP, 3, 0},
                        {"<|start|>", ENVELOPE | SP, 2, 0},
                        {"<|channel|>", ENVELOPE | SP | PEEK, 2, 0}}},
              {.op = TDM_STEP_REASONING,
               .alts = {{"<|end|>", SP, 3, 0},
                        {"<|return|>", SP, 3, 0},
                        {"<|call|>", SP, 3, 0},
                        {"<|start|>", SP, 2, 0},
                        {"<|channel|>", SP | PEEK, 2, 0}}},
              {.op = TDM_STEP_UNTIL,
               .into = TDM_INTO_HEADER,
               .alts = {{"<|message|>", SP | TDM_ALT_HEADER, 4, 0}}},
              {.op = TDM_STEP_MATCH,
               .next = 0,
               .alts = {{"<|start|>", SP, 2, 0}, {"<|channel|>", SP | PEEK, 2, 0}}},
              {.op = TDM_STEP_ARGUMENTS, .next = 5},
              {.op = TDM_STEP_MATCH,
               .next = 0,
               .alts = {{"<|call|>", CLOSE | SP, 3, 0}, {"<|end|>", CLOSE | SP, 3, 0}}}}};

const tdm_dialect *const TDM_DIALECTS_NAMED[] = {&DEEPSEEK, &KIMI_K2, &MISTRAL, &FUNCTIONARY,
                                                 &GLM4,     &GEMMA4,  &HARMONY, NULL};
