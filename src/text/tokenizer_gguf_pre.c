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

#define SPARK                                                                                      \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\\r\\n]|" SPACES
#define YOUTU_SCRIPTS                                                                              \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}"     \
    "\\x{2019}\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|"       \
    "[\\x{3105}-\\x{312F}]+|[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define YOUTU CASED(FOLD "?") "|\\p{N}|" SLASHED "|" LINES
/* Runs of white space in powers of two. */
#define JAIS2                                                                                      \
    FOLD "|" WORD "|\\p{N}{1,3}|" MARKS                                                            \
         "|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|"                         \
         "\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!"    \
         "\\S)|"                                                                                   \
         "\\s{1}"
#define RUNS_OF_LINES "[^\\n]+|[\\n]+"
#define EXAONE_MOE                                                                                 \
    FOLD "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "                   \
         "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|" SPACES
/* Words without Chinese characters, which the model's expression takes away by intersection. */
#define KIMI_UPPER "(?:(?!\\p{Han})" UPPER ")"
#define KIMI_LOWER "(?:(?!\\p{Han})" LOWER ")"
#define KIMI_K2                                                                                    \
    "\\p{Han}+|" PREFIX KIMI_UPPER "*" KIMI_LOWER "+" FOLD "?|" PREFIX KIMI_UPPER "+" KIMI_LOWER   \
    "*" FOLD "?|\\p{N}{1,3}|" MARKS "|" LINES
#define AFMOE_SCRIPTS                                                                              \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-"      \
    "\\x{30FF}\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{EC0}-\\x{EFF}\\x{1780}-"  \
    "\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{"    \
    "1100}-"                                                                                       \
    "\\x{11FF}]+"

#define HEAD_DEEPSEEK_LLM                                                                          \
    { "[\r\n]", DEEPSEEK_LETTERS, DEEPSEEK_MARKS, "\\s+\\z", CJK_HANGUL, "\\p{N}+" }

static const tdm_gguf_pre PRES[] = {
    {"default", {DEFAULT_MARKS, GPT2, "\\p{N}+", THREE_DIGITS}, false, false, false, false, false},
    {"llama3", {LLAMA3}, true, true, false, false, false},
    {"llama-v3", {LLAMA3}, true, true, false, false, false},
    {"llama-bpe", {LLAMA3}, true, true, false, false, false},
    {"falcon3", {LLAMA3}, true, true, false, false, false},
    {"falcon-h1", {LLAMA3}, true, true, false, false, false},
    {"pixtral", {LLAMA3}, true, true, false, false, false},
    {"midm-2.0", {LLAMA3}, true, true, false, false, false},
    {"lfm2", {LLAMA3}, true, true, false, false, false},
    {"jina-v5-nano", {LLAMA3}, true, true, false, false, false},
    {"dbrx", {LLAMA3}, false, false, false, false, false},
    {"smaug-bpe", {LLAMA3}, false, false, false, false, false},
    {"glm4", {LLAMA3}, false, false, false, false, false},
    {"glm5", {LLAMA3}, false, false, false, false, false},
    {"chatglm-bpe", {LLAMA3}, false, false, false, false, false},
    {"minicpm5", {"\\p{N}{1,3}", LLAMA3}, true, false, false, false, false},
    {"deepseek-llm", HEAD_DEEPSEEK_LLM, false, false, false, false, false},
    {"deepseek-coder",
     {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK_HANGUL, "\\p{N}"},
     false,
     false,
     false,
     false,
     false},
    {"deepseek-v3", {"\\p{N}{1,3}", CJK, DEEPSEEK3}, false, false, false, false, false},
    {"hunyuan-dense", {"\\p{N}{1,3}", CJK, DEEPSEEK3}, false, false, false, false, false},
    {"joyai-llm", {"\\p{N}{1,3}", CJK, DEEPSEEK3}, false, false, false, false, false},
    {"falcon", {FALCON_MARKS, GPT2, THREE_DIGITS}, false, false, false, false, false},
    {"starcoder", {"\\p{N}", GPT2}, false, false, false, false, false},
    {"refact", {"\\p{N}", GPT2}, false, false, false, false, false},
    {"command-r", {"\\p{N}", GPT2}, false, false, false, false, false},
    {"smollm", {"\\p{N}", GPT2}, false, false, false, false, false},
    {"codeshell", {"\\p{N}", GPT2}, false, false, false, false, false},
    {"exaone", {"\\p{N}", GPT2}, false, false, false, false, false},
    {"minerva-7b", {"\\p{N}", GPT2}, false, false, false, false, false},
    {"mellum2", {"\\p{N}", GPT2}, false, false, false, false, false},
    {"gpt-2", {GPT2}, false, false, false, false, false},
    {"phi-2", {GPT2}, false, false, false, false, false},
    {"jina-es", {GPT2}, false, false, false, false, false},
    {"jina-de", {GPT2}, false, false, false, false, false},
    {"gigachat", {GPT2}, false, false, false, false, false},
    {"jina-v2-es", {GPT2}, false, false, false, false, false},
    {"jina-v2-de", {GPT2}, false, false, false, false, false},
    {"a.x-4.0", {GPT2}, false, false, false, false, false},
    {"mellum", {GPT2}, false, false, false, false, false},
    {"modern-bert", {GPT2}, false, false, false, false, false},
    {"mpt", {GPT2}, false, false, false, false, false},
    {"olmo", {GPT2}, false, false, false, false, false},
    {"jais", {GPT2}, false, false, false, false, false},
    {"trillion", {GPT2}, false, false, false, false, false},
    {"granite-docling", {GPT2}, false, false, false, false, false},
    {"exaone4", {GPT2}, false, false, false, false, false},
    {"qwen2", {QWEN2}, false, false, false, false, false},
    {"deepseek-r1-qwen", {QWEN2}, false, false, false, false, false},
    {"kormo", {QWEN2}, false, false, false, false, false},
    {"f2llmv2", {QWEN2}, false, false, false, false, false},
    {"megrez", {QWEN2}, false, false, false, false, false},
    {"stablelm2", {QWEN2}, false, false, false, false, false},
    {"hunyuan", {QWEN2}, false, false, false, false, false},
    {"solar-open", {QWEN2}, false, false, false, false, false},
    {"grok-2", {QWEN2}, false, false, false, false, false},
    {"qwen35", {QWEN35}, false, false, false, false, false},
    {"poro-chat", {BLOOM}, false, false, false, false, false},
    {"bloom", {BLOOM}, false, false, false, false, false},
    {"gpt3-finnish", {BLOOM}, false, false, false, false, false},
    {"viking", {BLOOM, "\\p{N}"}, false, false, false, false, false},
    {"tekken", {TEKKEN}, true, true, false, false, false},
    {"gpt-4o", {O200K}, false, false, false, false, false},
    {"llama4", {O200K}, false, false, false, false, false},
    {"kanana2", {O200K}, false, false, false, false, false},
    {"talkie", {O200K}, false, false, false, false, false},
    {"minimax-m2", {O200K}, false, false, false, false, false},
    {"granite-embed-multi-97m", {O200K}, true, false, false, false, false},
    {"tiny_aya", {TDM_SCAN_GROUPED_BOUND_PATTERN, O200K}, false, false, false, false, false},
    {"cohere2moe", {TDM_SCAN_GROUPED_BOUND_PATTERN, O200K}, false, false, false, false, false},
    {"superbpe", {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}, false, false, false, false, false},
    {"bailingmoe", {BAILING}, false, false, false, false, false},
    {"bailingmoe2", {BAILING}, false, false, false, false, false},
    {"llada-moe", {BAILING}, false, false, false, false, false},
    {"seed-coder", {SEED}, false, false, false, false, false},
    {"hy_v4", {"\\p{N}{1,3}", CJK, DEEPSEEK3}, false, false, false, false, false},
    {"spark2_5", {"\\p{N}{1,3}", CJK, SPARK, "\\p{N}"}, false, false, false, false, false},
    {"youtu", {YOUTU_SCRIPTS, YOUTU}, true, false, false, false, false},
    {"jais-2", {JAIS2}, false, false, false, false, false},
    {"gemma4", {RUNS_OF_LINES}, false, true, true, true, false},
    {"granite-embed-multi-311m", {RUNS_OF_LINES}, false, true, true, true, false},
    {"sarvam-moe", {RUNS_OF_LINES}, false, false, true, false, false},
    {"jina-v1-en", {GPT2}, false, false, false, false, false},
    {"jina-v2-code", {GPT2}, false, false, false, false, false},
    {"roberta-bpe", {GPT2}, false, false, false, false, false},
    {"exaone-moe", {EXAONE_MOE}, false, false, false, false, false},
    {"chameleon",
     {"<sentinel:[0-9]+>|IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]",
      GPT2},
     false,
     true,
     false,
     false,
     false},
    {"kimi-k2", {KIMI_K2}, false, false, false, false, true},
    {"ufakzeka", {WORD "|\\p{N}|" MARKS "|" LINES}, false, false, false, false, false},
    {"afmoe",
     {TDM_SCAN_GROUPED_PATTERN, AFMOE_SCRIPTS, DEEPSEEK3},
     false,
     false,
     false,
     false,
     false},
    {"laguna", {RUNS_OF_LINES, QWEN2}, false, false, false, false, false},
};

const tdm_gguf_pre *tdm_gguf_pre_find(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof(PRES) / sizeof(PRES[0]); i++) {
        if (strlen(PRES[i].name) == len && memcmp(PRES[i].name, name, len) == 0) {
            return &PRES[i];
        }
    }
    return NULL;
}
