/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain configuration that a test changes in one place, and what the families make of it. */
#ifndef TDM_TESTS_UNIT_MODEL_PLAIN_CONFIG_H
#define TDM_TESTS_UNIT_MODEL_PLAIN_CONFIG_H

#include "model/family.h"
#include "model/model.h"
#include "support/support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tdm_decoder_spec spec; /* too large for a stack frame */

/* Families whose attention is latent: their configs have its sizes. */
static inline bool is_latent(const char *family) {
    static const char *const LATENT[] = {"deepseek_v3", "deepseek2", "glm4_moe_lite", "glm_moe_dsa",
                                         "glm-dsa"};
    bool is_one = false;
    for (size_t i = 0; i < SUPPORT_LEN(LATENT); i++) {
        is_one = is_one || strcmp(LATENT[i], family) == 0;
    }
    return is_one;
}

/* A plain config of 12 layers that every family accepts. */
static inline tdm_model_config plain(const char *family, tdm_container container) {
    tdm_model_config config = {
        .family = family,
        .text_family = family,
        .container = container,
        .hidden = 96,
        .n_layers = 12,
        .n_heads = 4,
        .n_kv_heads = 2,
        .head_dim = 16,
        .n_vocab = 320,
        .intermediate = 128,
        .value_dim = 16,
        .rotary_dim = 16,
        .context_max = 512,
        .norm_eps = 1e-6,
        .rope = {.kind = TDM_ROPE_DEFAULT, .theta = 1e6, .factor = 1.0},
        .rope_local = {.kind = TDM_ROPE_DEFAULT, .theta = 1e4, .factor = 1.0},
    };
    for (int32_t i = 0; i < TDM_CONFIG_LAYERS_MAX; i++) {
        config.head_dim_of[i] = config.head_dim;
        config.kv_heads_of[i] = config.n_kv_heads;
        config.intermediate_of[i] = config.intermediate;
    }
    if (strcmp(family, "minicpm") == 0) { /* whose factors have no defaults */
        config.embedding_multiplier = 12.0;
        config.scale_depth = container == TDM_CONTAINER_GGUF ? 0.0 : 1.5;
        config.residual_multiplier = container == TDM_CONTAINER_GGUF ? 0.25 : 0.0;
        config.dim_model_base = container == TDM_CONTAINER_GGUF ? 0.0 : 48.0;
        config.logit_scale = container == TDM_CONTAINER_GGUF ? 2.0 : 0.0;
    }
    if (is_latent(family)) {
        config.latent =
            (tdm_latent_config){.q_rank = 24, .kv_rank = 32, .nope_dim = 10, .rope_dim = 6};
        config.rotary_dim = 6;
        config.value_dim = 12;
        config.experts = (tdm_experts_config){.n = 8,
                                              .n_used = 2,
                                              .intermediate = 40,
                                              .n_groups = 2,
                                              .n_groups_used = 1,
                                              .n_shared = 2,
                                              .routed_scale = 1.5};
        config.experts.is_dense[0] = 1;
    }
    return config;
}

static inline void describe(const tdm_model_config *config) {
    tdm_error err = {0};
    if (tdm_graph_describe(config, &spec, &err) != TDM_OK) {
        fail_msg("%s: %s (%s)", config->family, err.what, err.where);
    }
}

static inline void refuse(const tdm_model_config *config, const char *says) {
    tdm_error err = {0};
    assert_int_equal(tdm_graph_describe(config, &spec, &err), TDM_E_UNSUPPORTED);
    if (strstr(err.where, says) == NULL) {
        fail_msg("wanted \"%s\": %s (%s)", says, err.what, err.where);
    }
}

static inline bool is_near(float a, double b) {
    return fabs((double)a - b) <= 1e-6 * fabs(b);
}

#endif
