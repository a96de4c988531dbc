/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden checkpoints that this build runs: the one list for every test that goes over families,
 * and for the table of docs/models.md. A family is done when its golden is here. What is compared
 * stands in golden/test_families.c; contract/test_graph.c, golden/test_plan.c and
 * prop/test_batch_invariance.c go over the same list. One a line, sorted. */
#ifndef TDM_TESTS_GOLDENS_H
#define TDM_TESTS_GOLDENS_H

#include "tolerance.h"

typedef struct support_golden {
    const char *name; /* a folder */
    double bound;     /* of max_rel in exact; tolerance.h says why */
} support_golden;

/* clang-format off */

/* tests/data/goldens: safetensors as the reference framework saved them. */
static const support_golden SUPPORT_GOLDENS[] = {
    {"cohere", TOL_GOLDEN_EXACT},
    {"cohere2", TOL_GOLDEN_EXACT},
    {"deepseek-v3", TOL_GOLDEN_EXACT},
    {"deepseek-v3-yarn", TOL_GOLDEN_EXACT},
    {"gemma", TOL_GOLDEN_EXACT},
    {"gemma2", TOL_GOLDEN_EXACT},
    {"gemma3", TOL_GOLDEN_EXACT},
    {"gemma4-dense-keqv", TOL_GOLDEN_EXACT},
    {"gemma4-moe", TOL_GOLDEN_EXACT},
    {"gemma4-ple-shared", TOL_GOLDEN_EXACT},
    {"glm-moe-dsa", TOL_GOLDEN_LATENT},
    {"glm-moe-dsa-shared", TOL_GOLDEN_LATENT},
    {"glm4", TOL_GOLDEN_EXACT},
    {"glm4-moe-lite", TOL_GOLDEN_LATENT},
    {"gpt-oss", TOL_GOLDEN_EXACT},
    {"gpt-oss-blocks", TOL_GOLDEN_EXACT},
    {"granite", TOL_GOLDEN_EXACT},
    {"lfm2", TOL_GOLDEN_EXACT},
    {"llama", TOL_GOLDEN_EXACT},
    {"llama3-rope", TOL_GOLDEN_EXACT},
    {"minicpm", TOL_GOLDEN_EXACT},
    {"ministral", TOL_GOLDEN_EXACT},
    {"mistral-sliding", TOL_GOLDEN_EXACT},
    {"mixtral", TOL_GOLDEN_EXACT},
    {"olmo", TOL_GOLDEN_EXACT},
    {"olmo2", TOL_GOLDEN_EXACT},
    {"olmo3", TOL_GOLDEN_EXACT},
    {"phi3", TOL_GOLDEN_EXACT},
    {"qwen2", TOL_GOLDEN_EXACT},
    {"qwen2-moe", TOL_GOLDEN_EXACT},
    {"qwen3", TOL_GOLDEN_EXACT},
    {"qwen3-moe", TOL_GOLDEN_EXACT},
    {"qwen3-next", TOL_GOLDEN_EXACT},
    {"qwen3_5", TOL_GOLDEN_EXACT},
    {"qwen3_5-moe", TOL_GOLDEN_EXACT},
    {"smollm3", TOL_GOLDEN_EXACT},
    {"starcoder2", TOL_GOLDEN_EXACT},
    {"yarn", TOL_GOLDEN_EXACT},
};

/* tests/data/goldens-gguf: GGUF files that llama.cpp's converter made of the same models. */
static const support_golden SUPPORT_CONVERTED[] = {
    {"cohere", TOL_GOLDEN_EXACT},
    {"cohere2", TOL_GOLDEN_EXACT},
    {"glm4", TOL_GOLDEN_EXACT},
    {"granite", TOL_GOLDEN_EXACT},
    {"minicpm", TOL_GOLDEN_EXACT},
    {"mixtral-full", TOL_GOLDEN_EXACT},
    {"olmo", TOL_GOLDEN_EXACT},
    {"olmo2", TOL_GOLDEN_EXACT},
    {"olmo3", TOL_GOLDEN_EXACT},
    {"phi3", TOL_GOLDEN_EXACT},
    {"qwen2-moe-full", TOL_GOLDEN_EXACT},
    {"starcoder2-full", TOL_GOLDEN_EXACT},
};

/* goldens-gguf of the shared data: likewise, families by families. golden/test_gguf.c has
 * mistral-sliding too, whose file has lost its window. */
static const support_golden SUPPORT_SHARED_GGUF[] = {
    {"deepseek-v3", TOL_GOLDEN_EXACT},
    {"gemma2", TOL_GOLDEN_EXACT},
    {"gemma3", TOL_GOLDEN_EXACT},
    {"gemma4-dense-keqv", TOL_GOLDEN_EXACT},
    {"gemma4-moe", TOL_GOLDEN_EXACT},
    {"gemma4-ple-shared", TOL_GOLDEN_EXACT},
    {"glm-moe-dsa", TOL_GOLDEN_LATENT},
    {"glm4-moe-lite", TOL_GOLDEN_LATENT},
    {"gpt-oss", TOL_GOLDEN_EXACT},
    {"lfm2", TOL_GOLDEN_EXACT},
    {"llama", TOL_GOLDEN_EXACT},
    {"llama3-rope", TOL_GOLDEN_EXACT},
    {"qwen2", TOL_GOLDEN_EXACT},
    {"qwen3", TOL_GOLDEN_EXACT},
    {"qwen3-moe", TOL_GOLDEN_EXACT},
    {"qwen3-next", TOL_GOLDEN_EXACT},
    {"qwen3_5", TOL_GOLDEN_EXACT},
    {"qwen3_5-moe", TOL_GOLDEN_EXACT},
    {"smollm3", TOL_GOLDEN_EXACT},
    {"yarn", TOL_GOLDEN_EXACT},
};

/* goldens-gguf of the shared data: one family in the storage types of GGUF. */
static const support_golden SUPPORT_SHARED_QUANTS[] = {
    {"quant-iq3_s", TOL_GOLDEN_EXACT},
    {"quant-iq4_xs", TOL_GOLDEN_EXACT},
    {"quant-mxfp4_moe", TOL_GOLDEN_EXACT},
    {"quant-q2_k", TOL_GOLDEN_EXACT},
    {"quant-q4_0", TOL_GOLDEN_EXACT},
    {"quant-q4_k_m", TOL_GOLDEN_EXACT},
    {"quant-q5_k_s", TOL_GOLDEN_EXACT},
    {"quant-q6_k", TOL_GOLDEN_EXACT},
    {"quant-q8_0", TOL_GOLDEN_EXACT},
};

/* goldens-mlx of the shared data: folders that MLX quantized. */
static const support_golden SUPPORT_SHARED_MLX[] = {
    {"gemma3-mixed-3-6", TOL_GOLDEN_EXACT},
    {"gemma3-q6g32", TOL_GOLDEN_EXACT},
    {"gpt-oss-mxfp4", TOL_GOLDEN_EXACT},
    {"llama-mxfp4-tied", TOL_GOLDEN_EXACT},
    {"llama-nvfp4-tied", TOL_GOLDEN_EXACT},
    {"llama-q2g128", TOL_GOLDEN_EXACT},
    {"llama-q3g64-f16", TOL_GOLDEN_EXACT},
    {"llama-q4g32", TOL_GOLDEN_EXACT},
    {"llama-q8g128-shards", TOL_GOLDEN_EXACT},
    {"mixtral-q6g64-f16", TOL_GOLDEN_EXACT},
    {"qwen2-q8g64-f16", TOL_GOLDEN_EXACT},
    {"qwen3-mixed-4-6-8-off", TOL_GOLDEN_EXACT},
    {"qwen3-moe-nvfp4-global", TOL_GOLDEN_EXACT},
    {"qwen3-moe-q4g32", TOL_GOLDEN_EXACT},
    {"qwen3-mxfp8", TOL_GOLDEN_EXACT},
    {"qwen3-q5g128-f16", TOL_GOLDEN_EXACT},
};

/* tests/data/goldens-foreign: the layouts of other tool chains. */
static const support_golden SUPPORT_FOREIGN[] = {
    {"awq-llama-g32", TOL_GOLDEN_EXACT},
    {"awq-qwen2-g64", TOL_GOLDEN_EXACT},
    {"awq-qwen3-moe-g32", TOL_GOLDEN_EXACT},
    {"ct-fp8-block", TOL_GOLDEN_EXACT},
    {"ct-fp8-channel", TOL_GOLDEN_EXACT},
    {"ct-fp8-tensor", TOL_GOLDEN_EXACT},
    {"ct-int4-act-order", TOL_GOLDEN_EXACT},
    {"ct-int4-asym-g64", TOL_GOLDEN_EXACT},
    {"ct-int4-sym-g32", TOL_GOLDEN_EXACT},
    {"ct-int8-channel", TOL_GOLDEN_EXACT},
    {"ct-mxfp4", TOL_GOLDEN_EXACT},
    {"ct-nvfp4", TOL_GOLDEN_EXACT},
    {"ct-w8a8-int", TOL_GOLDEN_EXACT},
    {"fp8-llama-block", TOL_GOLDEN_EXACT},
    {"gptq-llama-2bit", TOL_GOLDEN_EXACT},
    {"gptq-llama-3bit", TOL_GOLDEN_EXACT},
    {"gptq-llama-act-order", TOL_GOLDEN_EXACT},
    {"gptq-llama-g32", TOL_GOLDEN_EXACT},
    {"gptq-llama-v2-channel", TOL_GOLDEN_EXACT},
    {"gptq-qwen2-8bit", TOL_GOLDEN_EXACT},
};

/* tests/data/embeddings: folders of sentence-transformers; golden/test_embed.c. */
static const support_golden SUPPORT_EMBEDDINGS[] = {
    {"mistral-mean", TOL_GOLDEN_EXACT},
    {"qwen3-embedding", TOL_GOLDEN_EXACT},
};

/* clang-format on */

#endif
