/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a config.json beside a checkpoint without tensors. Properties: a refusal says what
 * and where; what is accepted lies inside the range tables, and so does what its family makes of
 * it; the same bytes get the same answer twice; memory is proportional to the input and all given
 * back. */
#include "formats/config.h"
#include "formats/quant_config.h"
#include "model/family.h"
#include "model/model.h"
#include "unit/formats/mem_fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_config(const tdm_model_config *c) {
    TDM_CHECK(c->family != NULL && c->text_family != NULL);
    TDM_CHECK(c->n_layers >= 1 && c->n_layers <= TDM_CONFIG_LAYERS_MAX);
    TDM_CHECK(c->hidden >= 1 && c->n_heads >= 1 && c->n_kv_heads >= 1 && c->n_vocab >= 1);
    TDM_CHECK(c->head_dim >= 1 && c->head_dim <= 8192 && c->value_dim >= 1);
    TDM_CHECK(c->rotary_dim >= 0 && c->context_max >= 1 && c->sliding_window >= 0);
    TDM_CHECK(c->norm_eps >= 0.0 && c->norm_eps <= 1.0);
    TDM_CHECK(c->rope.theta > 0.0 && c->rope.factor > 0.0);
    TDM_CHECK(c->experts.n >= 0 && c->experts.n <= 65536 && c->experts.n_used >= 0);
    if (c->latent.kv_rank > 0) {
        TDM_CHECK(c->latent.nope_dim >= 1 && c->latent.rope_dim >= 2 && c->latent.q_rank >= 0);
        TDM_CHECK(c->latent.nope_dim + c->latent.rope_dim == c->head_dim);
        TDM_CHECK(c->experts.n_groups >= 1 && c->experts.n % c->experts.n_groups == 0);
        TDM_CHECK(c->experts.n_groups_used >= 1 && c->experts.n_groups_used <= c->experts.n_groups);
        TDM_CHECK(c->latent.index_topk == 0 || c->latent.is_index_shared[0] == 0);
    }
    TDM_CHECK(c->n_eos >= 0 && c->n_eos <= TDM_CONFIG_EOS_MAX && c->bos_id >= -1);
}

static void check_spec(const tdm_model_config *c, const tdm_decoder_spec *spec) {
    TDM_CHECK(spec->n_ropes >= 0 && spec->n_ropes <= TDM_SPEC_ROPES_MAX);
    TDM_CHECK(spec->experts.n_used <= spec->experts.n);
    TDM_CHECK(spec->logit_divisor > 0.0F && spec->embed_scale > 0.0F);
    for (int32_t i = 0; i < c->n_layers; i++) {
        TDM_CHECK(spec->layers[i].window >= 0);
        TDM_CHECK(!spec->layers[i].has_rope || spec->layers[i].rope_idx < spec->n_ropes);
        TDM_CHECK(!spec->layers[i].has_experts || spec->experts.n > 0);
        TDM_CHECK(!spec->layers[i].has_donor || spec->layers[i].donor < i);
    }
}

static tdm_status read_all(const tdm_checkpoint *checkpoint, tdm_error *err) {
    static tdm_model_config config;
    static tdm_decoder_spec spec;
    tdm_generation_config generation;
    tdm_quant_config quant;
    TDM_TRY(tdm_generation_config_read(&generation, checkpoint, err));
    TDM_TRY(tdm_model_config_read(&config, checkpoint, err));
    check_config(&config);
    TDM_TRY(tdm_quant_config_read(&quant, tdm_checkpoint_config(checkpoint), "d", err));
    TDM_TRY(tdm_graph_describe(&config, &spec, err));
    check_spec(&config, &spec);
    return TDM_OK;
}

static tdm_status run(const uint8_t *data, size_t size, tdm_error *err) {
    static const uint8_t NO_TENSORS[] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    static mem_fs m;
    tdm_alloc_tracker tracker;
    tdm_checkpoint_options options = {.fs = &m.fs};
    tdm_checkpoint *checkpoint = NULL;
    tdm_status status = TDM_OK;
    tdm_alloc_tracker_init(&tracker, NULL);
    mem_fs_init(&m);
    mem_fs_put(&m, "d/config.json", data, size);
    mem_fs_put(&m, "d/model.safetensors", NO_TENSORS, sizeof NO_TENSORS);
    *err = (tdm_error){0};
    status = tdm_checkpoint_open(&checkpoint, &tracker.alloc, "d", &options, err);
    TDM_CHECK(tracker.peak_bytes <= 64 * size + 262144);
    if (status == TDM_OK) {
        status = read_all(checkpoint, err);
    }
    tdm_checkpoint_close(checkpoint);
    TDM_CHECK(tracker.n_live == 0 && tracker.live_bytes == 0 && m.n_open == 0);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdm_error err;
    tdm_error again;
    tdm_status status = run(data, size, &err);
    if (status != TDM_OK) {
        TDM_CHECK(err.code == status && err.what[0] != '\0' && err.where[0] != '\0');
    }
    TDM_CHECK(run(data, size, &again) == status && strcmp(err.what, again.what) == 0 &&
              strcmp(err.where, again.where) == 0);
    return 0;
}
