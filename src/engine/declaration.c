/* SPDX-License-Identifier: Apache-2.0
 *
 * Binding a graph: promises against operations. A promise and its operation stand in one line of
 * one list, so that a new operation is one line here. Promises whose operation the graph table of
 * this build does not have yet are listed too: they are always refused, by name. */
#include "engine/declaration.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 64

typedef struct promise {
    const char *field;     /* of the declaration */
    const char *operation; /* that keeps it */
    bool is_made;
    bool is_kept;
} promise;

static tdm_status refuse(tdm_error *err, const tdm_graph_descriptor *d, const char *field) {
    tdm_err_where(err, "%s.%s", d->id, field);
    return TDM_E_UNSUPPORTED;
}

/* "cpu" serves every "cpu-...", "cpu-avx2" itself only. */
static bool is_same_backend(const char *wanted, const char *device) {
    const size_t len = strlen(wanted);
    return strncmp(wanted, device, len) == 0 && (device[len] == '\0' || device[len] == '-');
}

static tdm_status check_descriptor(const tdm_graph_descriptor *d, const tdm_bind_site *site,
                                   tdm_error *err) {
    if (!is_same_backend(d->backend, site->backend)) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "graph %s is built for backend %s, not for %s",
                       d->id, d->backend, site->backend);
        return refuse(err, d, "backend");
    }
    if (d->graph_abi != site->graph_abi) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "graph %s has graph ABI %d, not %d", d->id,
                       (int)d->graph_abi, (int)site->graph_abi);
        return refuse(err, d, "graph_abi");
    }
    if (d->state_abi != site->state_abi) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "graph %s has state ABI %d, not %d", d->id,
                       (int)d->state_abi, (int)site->state_abi);
        return refuse(err, d, "state_abi");
    }
    return TDM_OK;
}

/* Two fields that cannot both be true. */
static tdm_status check_sense(const tdm_graph_declaration *decl, tdm_error *err) {
    const tdm_graph_descriptor *d = &decl->descriptor;
    if (decl->adapters.is_batched && !decl->adapters.is_mountable) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED,
                       "graph %s declares batched adapters but none can be mounted", d->id);
        return refuse(err, d, "adapters.is_batched");
    }
    if (decl->media.has_video && decl->media.input == TDM_MEDIA_NONE) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "graph %s declares video without a media input",
                       d->id);
        return refuse(err, d, "media.has_video");
    }
    if ((decl->native_draft.kind != NULL) != (decl->native_draft.width > 0)) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED,
                       "graph %s declares a native draft without both a kind and a width", d->id);
        return refuse(err, d, "native_draft");
    }
    if (decl->speculation.has_adapters && !decl->adapters.is_mountable) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED,
                       "graph %s declares speculation with adapters but none can be mounted",
                       d->id);
        return refuse(err, d, "speculation.has_adapters");
    }
    return TDM_OK;
}

/* A step that no table names could only be refused while it is planned; a table that contradicts
 * itself is refused here. */
static tdm_status check_classes(const tdm_graph_declaration *decl, tdm_error *err) {
    const tdm_step_classes *c = &decl->classes;
    char names[3][NAME_MAX_BYTES];
    static const char *const TABLES[3] = {"decode", "prompt", "sequence"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(names[i], sizeof names[i], "%.32s.classes.%s", decl->descriptor.id,
                       TABLES[i]);
    }
    TDM_TRY(tdm_row_table_check(&c->decode, names[0], err));
    TDM_TRY(tdm_position_ranges_check(&c->prompt, names[1], err));
    return tdm_row_ranges_check(&c->sequence, names[2], err);
}

tdm_status tdm_bind_check(const tdm_graph_declaration *declaration, const tdm_graph_ops *ops,
                          const tdm_bind_site *site, tdm_error *err) {
    const tdm_graph_declaration *d = declaration;
    const bool has_embedding_input = d->media.input == TDM_MEDIA_EMBEDDINGS ||
                                     d->media.input == TDM_MEDIA_EMBEDDINGS_AND_POSITIONS;
    const promise promises[] = {
        /* what any graph must have */
        {"operations", "reserve", true, ops->reserve != NULL},
        {"operations", "state_plan", true, ops->state_plan != NULL},
        {"operations", "state_create", true, ops->state_create != NULL},
        {"operations", "state_reserve", true, ops->state_reserve != NULL},
        {"operations", "state_destroy", true, ops->state_destroy != NULL},
        {"operations", "forward", true, ops->forward != NULL},
        {"operations", "destroy", true, ops->destroy != NULL},
        /* what tdm_graph_ops has no entry for; mixed rows, taps and verify rows are forward's own
         */
        {"method", "denoise", d->method == TDM_METHOD_DENOISING, false},
        {"adapters.is_mountable", "adapter_mount", d->adapters.is_mountable, false},
        {"media.input", "embedding_prompt", has_embedding_input, false},
        {"media.input", "positioned_prompt", d->media.input == TDM_MEDIA_EMBEDDINGS_AND_POSITIONS,
         false},
        {"media.input", "pixel_prompt", d->media.input == TDM_MEDIA_PIXELS, false},
        {"has_paged_attention", "paged_attention", d->has_paged_attention, false},
        {"has_compiled_decode", "compiled_step", d->has_compiled_decode, false},
        {"has_sparse_attention", "sparse_attention", d->has_sparse_attention, false},
        {"has_embeddings", "embed_pooled", d->has_embeddings, false},
        {"native_draft", "draft", d->native_draft.kind != NULL, false},
        {"kv.delayed_affine", "cache_convert", d->kv.delayed_affine != TDM_DELAYED_AFFINE_NONE,
         false},
        {"speculation.has_affine_kv", "verify_affine", d->speculation.has_affine_kv, false},
        {"speculation.has_turbo_kv", "verify_turbo", d->speculation.has_turbo_kv, false},
        {"speculation.has_immediate_affine4", "verify_affine", d->speculation.has_immediate_affine4,
         false},
    };
    TDM_TRY(check_descriptor(&d->descriptor, site, err));
    TDM_TRY(check_sense(d, err));
    TDM_TRY(check_classes(d, err));
    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
        const promise *p = &promises[i];
        if (p->is_made && !p->is_kept) {
            (void)tdm_fail(err, TDM_E_UNSUPPORTED,
                           "graph %s promises %s and has no operation \"%s\"", d->descriptor.id,
                           p->field, p->operation);
            return refuse(err, &d->descriptor, p->field);
        }
    }
    return TDM_OK;
}

tdm_graph_declaration tdm_declaration_text_decoder(const tdm_graph_facts *facts,
                                                   const char *backend) {
    static const tdm_row_entry DECODE[] = {{1, TDM_STEP_ONE_ROW}};
    static const tdm_position_range PROMPT[] = {
        {0, TDM_RANGE_OPEN_END, TDM_STEP_PIECE, TDM_UNIT_ANY}};
    static const tdm_row_range SEQUENCE[] = {{1, 2, TDM_STEP_ONE_ROW},
                                             {2, TDM_RANGE_OPEN_END, TDM_STEP_PIECE}};
    return (tdm_graph_declaration){
        .descriptor = {.id = "decoder",
                       .backend = backend,
                       .graph_abi = TDM_GRAPH_ABI,
                       .state_abi = TDM_STATE_ABI,
                       .artifact = facts->family},
        .method = TDM_METHOD_AUTOREGRESSIVE,
        .classes = {.decode = {DECODE, 1, TDM_STEP_ROWS},
                    .prompt = {PROMPT, 1},
                    .sequence = {SEQUENCE, 2}},
        .has_mixed_rows = true,
        .has_hidden_taps = true,
        .kv = {.has_dense_reads = true, .delayed_affine = TDM_DELAYED_AFFINE_NONE},
    };
}
