/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of pre-tokenizers to split patterns. Where llama.cpp had to bend a model's own expression
 * to its regular-expression engine (case classes, folded contractions) the model's own stands here.
 * A name that is not here is refused by the caller, never guessed. Source: llama.cpp
 * src/llama-vocab.cpp; the expressions are the models' (tokenizer.json). */
#include "text/tokenizer_gguf.h"

#include <string.h>

#define SPACES "\\s+(?!\\S)|\\s+"
#define LINES "\\s*[\\r\\n]+|" SPACES
#define FOLD "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define MARKS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail) PREFIX UPPER "*" LOWER "+" tail "|" PREFIX UPPER "+" LOWER "*" tail
#define SLASHED " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define LLAMA3 FOLD "|" WORD "|\\p{N}{1,3}|" MARKS "|" LINES
#define QWEN2 FOLD "|" WORD "|\\p{N}|" MARKS "|" LINES
#define QWEN35                                                                                     \
    FOLD "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "                                         \
         "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES
#define O200K CASED(FOLD "?") "|\\p{N}{1,3}|" SLASHED "|" LINES
#define TEKKEN CASED("") "|\\p{N}|" SLASHED "|" LINES
#define DEEPSEEK3                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES
#define CJK "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+"
#define CJK_HANGUL "[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+"
#define BAILING                                                                                    \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|" \
    "\\s*[\\r\\n]|" SPACES
#define SEED FOLD "|" WORD "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
#define DEFAULT_MARKS "[\\p{P}\\$\\+<=>\\^~\\|]+"
#define FALCON_MARKS "[\\p{P}\\$\\+<=>\\^~\\|`]+"
#define THREE_DIGITS "[0-9][0-9][0-9]"
/* Letters and punctuation of DeepSeek LLM's tokenizer.json. */
#define DEEPSEEK_LETTERS                                                                           \
    "\\s?["                                                                                        \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-"        \
    "\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}"          \
    "\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}"         \
    "\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-"           \
    "\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}"        \
    "\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-"       \
    "\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-"         \
    "\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-"        \
    "\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}"        \
    "\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}"          \
    "\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{"    \
    "2149}"                                                                                        \
    "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"         \
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-"        \
    "\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"        \
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"             \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"         \
    "\\x{1E900}-\\x{1E943}"                                                                        \
    "]+"
#define DEEPSEEK_MARKS                                                                             \
    "\\s?["                                                                                        \
    "!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}"           \
    "]+"

#define HEAD_DEEPSEEK_LLM                                                                          \
    { "[\r\n]", DEEPSEEK_LETTERS, DEEPSEEK_MARKS, "\\s+\\z", CJK_HANGUL, "\\p{N}+" }

static const tdm_gguf_pre PRES[] = {
    {"default", {DEFAULT_MARKS, GPT2, "\\p{N}+", THREE_DIGITS}, false, false},
    {"llama3", {LLAMA3}, true, true},
    {"llama-v3", {LLAMA3}, true, true},
    {"llama-bpe", {LLAMA3}, true, true},
    {"falcon3", {LLAMA3}, true, true},
    {"falcon-h1", {LLAMA3}, true, true},
    {"pixtral", {LLAMA3}, true, true},
    {"midm-2.0", {LLAMA3}, true, true},
    {"lfm2", {LLAMA3}, true, true},
    {"jina-v5-nano", {LLAMA3}, true, true},
    {"dbrx", {LLAMA3}, false, false},
    {"smaug-bpe", {LLAMA3}, false, false},
    {"glm4", {LLAMA3}, false, false},
    {"chatglm-bpe", {LLAMA3}, false, false},
    {"minicpm5", {"\\p{N}{1,3}", LLAMA3}, true, false},
    {"deepseek-llm", HEAD_DEEPSEEK_LLM, false, false},
    {"deepseek-coder",
     {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK_HANGUL, "\\p{N}"},
     false,
     false},
    {"deepseek-v3", {"\\p{N}{1,3}", CJK, DEEPSEEK3}, false, false},
    {"hunyuan-dense", {"\\p{N}{1,3}", CJK, DEEPSEEK3}, false, false},
    {"joyai-llm", {"\\p{N}{1,3}", CJK, DEEPSEEK3}, false, false},
    {"falcon", {FALCON_MARKS, GPT2, THREE_DIGITS}, false, false},
    {"starcoder", {"\\p{N}", GPT2}, false, false},
    {"refact", {"\\p{N}", GPT2}, false, false},
    {"command-r", {"\\p{N}", GPT2}, false, false},
    {"smollm", {"\\p{N}", GPT2}, false, false},
    {"codeshell", {"\\p{N}", GPT2}, false, false},
    {"exaone", {"\\p{N}", GPT2}, false, false},
    {"minerva-7b", {"\\p{N}", GPT2}, false, false},
    {"mellum2", {"\\p{N}", GPT2}, false, false},
    {"gpt-2", {GPT2}, false, false},
    {"phi-2", {GPT2}, false, false},
    {"jina-es", {GPT2}, false, false},
    {"jina-de", {GPT2}, false, false},
    {"gigachat", {GPT2}, false, false},
    {"jina-v2-es", {GPT2}, false, false},
    {"jina-v2-de", {GPT2}, false, false},
    {"a.x-4.0", {GPT2}, false, false},
    {"mellum", {GPT2}, false, false},
    {"modern-bert", {GPT2}, false, false},
    {"mpt", {GPT2}, false, false},
    {"olmo", {GPT2}, false, false},
    {"jais", {GPT2}, false, false},
    {"trillion", {GPT2}, false, false},
    {"granite-docling", {GPT2}, false, false},
    {"exaone4", {GPT2}, false, false},
    {"qwen2", {QWEN2}, false, false},
    {"deepseek-r1-qwen", {QWEN2}, false, false},
    {"kormo", {QWEN2}, false, false},
    {"f2llmv2", {QWEN2}, false, false},
    {"megrez", {QWEN2}, false, false},
    {"stablelm2", {QWEN2}, false, false},
    {"hunyuan", {QWEN2}, false, false},
    {"solar-open", {QWEN2}, false, false},
    {"grok-2", {QWEN2}, false, false},
    {"qwen35", {QWEN35}, false, false},
    {"poro-chat", {BLOOM}, false, false},
    {"bloom", {BLOOM}, false, false},
    {"gpt3-finnish", {BLOOM}, false, false},
    {"viking", {BLOOM, "\\p{N}"}, false, false},
    {"tekken", {TEKKEN}, true, true},
    {"gpt-4o", {O200K}, false, false},
    {"llama4", {O200K}, false, false},
    {"kanana2", {O200K}, false, false},
    {"talkie", {O200K}, false, false},
    {"minimax-m2", {O200K}, false, false},
    {"granite-embed-multi-97m", {O200K}, true, false},
    {"tiny_aya", {"\\d{1,3}(?=(?:\\d{3})*\\b)", O200K}, false, false},
    {"cohere2moe", {"\\d{1,3}(?=(?:\\d{3})*\\b)", O200K}, false, false},
    {"superbpe", {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}, false, false},
    {"bailingmoe", {BAILING}, false, false},
    {"bailingmoe2", {BAILING}, false, false},
    {"llada-moe", {BAILING}, false, false},
    {"seed-coder", {SEED}, false, false},
};

const tdm_gguf_pre *tdm_gguf_pre_find(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof(PRES) / sizeof(PRES[0]); i++) {
        if (strlen(PRES[i].name) == len && memcmp(PRES[i].name, name, len) == 0) {
            return &PRES[i];
        }
    }
    return NULL;
}
