/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of a plan. Megabytes are 10^6 bytes, as inspect's are. */
#include "cli/plan_report.h"

static void put_int(tdm_json_writer *w, const char *key, int64_t value) {
    tdm_json_write_key(w, key);
    tdm_json_write_i64(w, value);
}

void tdm_plan_put_parts(tdm_json_writer *w, const tdm_weight_plan *weights) {
    tdm_json_write_key(w, "parts");
    tdm_json_write_begin_array(w);
    for (int i = 0; i < TDM_SECTION_COUNT; i++) {
        const tdm_section_weights *section = &weights->sections[i];
        if (section->stored_bytes == 0) {
            continue;
        }
        tdm_json_write_begin_object(w);
        tdm_json_write_key(w, "part");
        tdm_json_write_cstr(w, TDM_SECTION_NAMES[i]);
        put_int(w, "params", section->n_params);
        put_int(w, "params_active", section->n_active);
        put_int(w, "stored_bytes", (int64_t)section->stored_bytes);
        put_int(w, "loaded_bytes", (int64_t)section->loaded_bytes);
        put_int(w, "token_bytes", (int64_t)section->token_bytes);
        tdm_json_write_end_object(w);
    }
    tdm_json_write_end_array(w);
}

tdm_status tdm_plan_print_parts(tdm_buf *buf, const tdm_weight_plan *weights) {
    TDM_TRY(tdm_buf_append_text(
        buf, "parts           parameters        stored        loaded     per token\n"));
    for (int i = 0; i < TDM_SECTION_COUNT; i++) {
        const tdm_section_weights *section = &weights->sections[i];
        if (section->stored_bytes > 0) {
            TDM_TRY(tdm_buf_printf(
                buf, "  %-10s %11.2f M %10.2f MB %10.2f MB %10.2f MB\n", TDM_SECTION_NAMES[i],
                (double)section->n_params * 1e-6, (double)section->stored_bytes * 1e-6,
                (double)section->loaded_bytes * 1e-6, (double)section->token_bytes * 1e-6));
        }
    }
    return TDM_OK;
}

void tdm_plan_caches_of(const tdm_graph *graph, tdm_dtype kv_dtype, int32_t append_max,
                        int64_t n_positions, tdm_plan_caches *out) {
    int32_t n_owners = 0;
    *out = (tdm_plan_caches){0};
    out->n = tdm_graph_cache_groups(graph, kv_dtype, append_max, n_positions, out->groups);
    for (int32_t i = 0; i < out->n; i++) {
        n_owners += out->groups[i].n_layers;
        out->bytes += out->groups[i].bytes;
        out->token_bytes += out->groups[i].token_bytes;
    }
    out->n_donors = graph->facts.n_layers - n_owners;
}

void tdm_plan_put_caches(tdm_json_writer *w, const tdm_plan_caches *caches) {
    tdm_json_write_begin_object(w);
    put_int(w, "bytes_per_token", (int64_t)caches->token_bytes);
    put_int(w, "bytes", (int64_t)caches->bytes);
    put_int(w, "shared_layers", caches->n_donors);
    tdm_json_write_key(w, "kinds");
    tdm_json_write_begin_array(w);
    for (int32_t i = 0; i < caches->n; i++) {
        const tdm_cache_group *group = &caches->groups[i];
        tdm_json_write_begin_object(w);
        tdm_json_write_key(w, "kind");
        tdm_json_write_cstr(w, group->kind);
        put_int(w, "layers", group->n_layers);
        put_int(w, "window", group->window);
        put_int(w, "bytes_per_token", (int64_t)group->token_bytes);
        put_int(w, "bytes", (int64_t)group->bytes);
        tdm_json_write_end_object(w);
    }
    tdm_json_write_end_array(w);
    tdm_json_write_end_object(w);
}

tdm_status tdm_plan_print_caches(tdm_buf *buf, const tdm_plan_caches *caches) {
    for (int32_t i = 0; i < caches->n; i++) {
        const tdm_cache_group *group = &caches->groups[i];
        TDM_TRY(tdm_buf_printf(buf, "  %-10s %5d layers %8zu bytes a token %10.2f MB", group->kind,
                               (int)group->n_layers, group->token_bytes,
                               (double)group->bytes * 1e-6));
        TDM_TRY(group->window > 0 ? tdm_buf_printf(buf, "  window %d\n", (int)group->window)
                                  : tdm_buf_append_byte(buf, '\n'));
    }
    return caches->n_donors > 0
               ? tdm_buf_printf(buf, "  %-10s %5d layers, which read another layer's\n", "shared",
                                (int)caches->n_donors)
               : TDM_OK;
}
