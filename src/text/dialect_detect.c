/* SPDX-License-Identifier: Apache-2.0
 *
 * Which dialect a model speaks. The template is the first witness: it spells the markup that it
 * renders or asks for. The first rule whose words all occur in it decides; narrower rules stand
 * first. Where the template says nothing about tools, the vocabulary may: some markup exists for
 * one purpose only. */
#include "text/dialect_table_priv.h"

#include <string.h>

typedef struct rule {
    const char *dialect;
    const char *words[3];
} rule;

static const rule RULES[] = {
    {"harmony", {"<|channel|>", "<|message|>", "<|start|>"}},
    {"gemma4", {"<|tool_call>", "<|turn>"}},
    {"deepseek-v3.2", {"｜DSML｜"}},
    {"deepseek-v3", {"<｜tool▁calls▁begin｜>"}},
    {"kimi-k2", {"<|tool_calls_section_begin|>"}},
    {"minimax-m2", {"<minimax:tool_call>"}},
    {"minimax", {"<tool_calls>", "</tool_calls>"}},
    {"seed-oss", {"<seed:tool_call>"}},
    {"seed-oss", {"<seed:think>"}},
    {"qwen3-coder", {"<tool_call>", "<function=", "<parameter="}},
    {"glm", {"<tool_call>", "<arg_key>"}},
    {"command-r7b", {"<|START_ACTION|>"}},
    {"command-r", {"<|CHATBOT_TOKEN|>", "Action:"}},
    {"apertus", {"<|tools_prefix|>"}},
    {"minicpm3", {"<|tool_call_start|>", "<|thought_start|>"}},
    {"lfm2", {"<|tool_call_start|>"}},
    {"lfm2", {"<|tool_list_start|>"}},
    {"mistral", {"[TOOL_CALLS]"}},
    {"mistral", {"[THINK]"}},
    {"functionary", {">>>all"}},
    {"firefunction", {"functools["}},
    {"nemotron", {"<TOOLCALL>"}},
    {"granite3", {"<|start_of_role|>", "<|tool_call|>"}},
    {"phi4-mini", {"<|/tool_call|>"}},
    {"phi4-mini", {"<|tool|>", "<|end|>"}},
    {"hermes", {"<tool_call>"}},
    {"llama-pythonic", {"[func_name1("}},
    {"llama4-json", {"<|python_start|>", "<|header_start|>"}},
    {"llama3-json", {"<|python_tag|>"}},
    {"llama3-json", {"<|start_header_id|>", "\"parameters\": "}},
    {"granite3", {"<|tool_call|>"}},
    {"glm4", {"[gMASK]", "<sop>"}},
    {"gemma3", {"<start_of_turn>", "<start_of_image>"}},
    {"gemma3", {"<start_of_turn>", "<audio_soft_token>"}},
    {"plain-think", {"<think>"}},
    {"plain-think", {"</think>"}},
};

static const rule TOKENS[] = {
    {"harmony", {"<|channel|>", "<|message|>", "<|start|>"}},
    {"gemma4", {"<|tool_call>", "<tool_call|>"}},
    {"deepseek-v3", {"<｜tool▁calls▁begin｜>"}},
    {"kimi-k2", {"<|tool_calls_section_begin|>"}},
    {"minimax-m2", {"<minimax:tool_call>"}},
    {"command-r7b", {"<|START_ACTION|>"}},
    {"apertus", {"<|tools_prefix|>"}},
    {"lfm2", {"<|tool_call_start|>", "<|tool_list_start|>"}},
    {"mistral", {"[TOOL_CALLS]"}},
    {"granite3", {"<|start_of_role|>", "<|tool_call|>"}},
    {"phi4-mini", {"<|tool_call|>", "<|/tool_call|>"}},
    {"glm", {"<arg_key>", "<tool_call>"}},
    {"hermes", {"<tool_call>", "</tool_call>"}},
    {"plain-think", {"<think>", "</think>"}},
};

#define LEN(array) (sizeof(array) / sizeof((array)[0]))

/* Where word begins in text, or len. */
static size_t find(const char *text, size_t len, const char *word) {
    const size_t n = strlen(word);
    size_t at = 0;
    while (at < len && len - at >= n) {
        const char *hit = memchr(text + at, word[0], len - at - n + 1);
        if (hit == NULL) {
            break;
        }
        at = (size_t)(hit - text);
        if (memcmp(hit, word, n) == 0) {
            return at;
        }
        at++;
    }
    return len;
}

static bool template_has(const rule *r, const char *text, size_t len) {
    for (size_t i = 0; i < LEN(r->words) && r->words[i] != NULL; i++) {
        if (find(text, len, r->words[i]) == len) {
            return false;
        }
    }
    return true;
}

static bool vocabulary_has(const rule *r, const tdm_tokenizer *tokenizer) {
    for (size_t i = 0; i < LEN(r->words) && r->words[i] != NULL; i++) {
        if (tdm_tokenizer_find(tokenizer, r->words[i], strlen(r->words[i])) < 0) {
            return false;
        }
    }
    return true;
}

const tdm_dialect *tdm_dialect_detect(const char *template_source, size_t len,
                                      const tdm_tokenizer *tokenizer) {
    for (size_t i = 0; template_source != NULL && i < LEN(RULES); i++) {
        if (template_has(&RULES[i], template_source, len)) {
            return tdm_dialect_find(RULES[i].dialect);
        }
    }
    for (size_t i = 0; tokenizer != NULL && i < LEN(TOKENS); i++) {
        if (vocabulary_has(&TOKENS[i], tokenizer)) {
            return tdm_dialect_find(TOKENS[i].dialect);
        }
    }
    return tdm_dialect_find("plain");
}

const char *tdm_dialect_name(const tdm_dialect *dialect) {
    return dialect->name;
}

const tdm_dialect *tdm_dialect_at(size_t idx) {
    static const tdm_dialect *const *const LISTS[] = {TDM_DIALECTS_JSON, TDM_DIALECTS_XML,
                                                      TDM_DIALECTS_NAMED, TDM_DIALECTS_PYTHON};
    for (size_t l = 0; l < LEN(LISTS); l++) {
        for (size_t i = 0; LISTS[l][i] != NULL; i++) {
            if (idx == 0) {
                return LISTS[l][i];
            }
            idx--;
        }
    }
    return NULL;
}

const tdm_dialect *tdm_dialect_find(const char *name) {
    size_t i = 0;
    const tdm_dialect *dialect = tdm_dialect_at(0);
    while (dialect != NULL && strcmp(dialect->name, name) != 0) {
        dialect = tdm_dialect_at(++i);
    }
    return dialect;
}

/* Where word begins last in text, or len. */
static size_t find_last(const char *text, size_t len, const char *word) {
    size_t last = len;
    size_t from = 0;
    while (from < len) {
        const size_t at = from + find(text + from, len - from, word);
        if (at >= len) {
            break;
        }
        last = at;
        from = at + 1;
    }
    return last;
}

bool tdm_dialect_opens_in_reasoning(const tdm_dialect *dialect, const char *prompt, size_t len) {
    /* What stands only between turns: an opening tag in front of it is somebody's talk. */
    static const char *const TURNS[] = {
        "<|",    "<｜",           "[INST]",  "[/INST]",           "</s>", "<seed:",
        "<turn", "<end_of_turn>", "<turn|>", "<end_of_sentence>", "]<]"};
    if (dialect->think_open == NULL) {
        return false;
    }
    const size_t open = find_last(prompt, len, dialect->think_open);
    if (open == len) {
        return false;
    }
    const size_t body = open + strlen(dialect->think_open);
    if (find(prompt + body, len - body, dialect->think_close) < len - body) {
        return false;
    }
    for (size_t i = 0; i < LEN(TURNS); i++) {
        if (find(prompt + body, len - body, TURNS[i]) < len - body) {
            return false;
        }
    }
    return true;
}

bool tdm_dialect_reads(const tdm_dialect *dialect, const char *spelling) {
    for (unsigned i = 0; i < TDM_STEPS_MAX; i++) {
        const tdm_step *step = &dialect->steps[i];
        for (unsigned a = 0; a < TDM_ALTS_MAX && step->alts[a].text != NULL; a++) {
            if (strstr(step->alts[a].text, spelling) != NULL) {
                return true;
            }
        }
        if (((step->flags & TDM_STEP_GEMMA) != 0 && strcmp(spelling, "<|\"|>") == 0) ||
            (step->op == TDM_STEP_UNTIL && step->into == TDM_INTO_HEADER &&
             strcmp(spelling, "<|constrain|>") == 0)) {
            return true;
        }
    }
    return false;
}
