/* SPDX-License-Identifier: Apache-2.0
 *
 * What holds of every configuration that was read, from whatever bytes. */
#ifndef TDM_TESTS_FUZZ_CONFIG_LAWS_H
#define TDM_TESTS_FUZZ_CONFIG_LAWS_H

#include "formats/config.h"
#include "model/model.h"

static inline void config_laws(const tdm_model_config *config) {
    tdm_error err = {0};
    TDM_CHECK(config->n_layers >= 1 && config->n_layers <= TDM_CONFIG_LAYERS_MAX);
    TDM_CHECK(config->n_layer_types == 0 || config->n_layer_types == config->n_layers);
    TDM_CHECK(config->n_heads % config->n_kv_heads == 0 && config->head_dim >= 1);
    TDM_CHECK(config->rotary_dim <= config->head_dim);
    TDM_CHECK(config->global_rotary_dim <= config->global_head_dim);
    TDM_CHECK(config->rope.theta > 0.0 && config->rope.factor > 0.0);
    TDM_CHECK(config->norm_eps > 0.0 && config->n_vocab >= 1);
    TDM_CHECK(config->n_eos >= 0 && config->n_eos <= TDM_CONFIG_EOS_MAX);
    TDM_CHECK(config->n_kv_shared >= 0 && config->n_kv_shared <= config->n_layers);
    for (int32_t i = 0; i < config->n_layers; i++) {
        TDM_CHECK(config->head_dim_of[i] >= 1 && config->intermediate_of[i] >= 0);
        TDM_CHECK(config->kv_heads_of[i] >= 0);
        TDM_CHECK(config->kv_heads_of[i] == 0 || config->n_heads % config->kv_heads_of[i] == 0);
    }
    if (tdm_graph_can_run(config, &err) != TDM_OK) {
        TDM_CHECK(err.what[0] != '\0' && err.where[0] != '\0');
    }
}

#endif
