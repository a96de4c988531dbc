/* SPDX-License-Identifier: Apache-2.0
 *
 * Fitting: positions against the context, bytes of keys and values against free memory. */
#include "engine/sequence_priv.h"

#include "base/system.h"

tdm_status tdm_sequence_check_fit(const tdm_model *model, size_t n_positions, tdm_error *err) {
    size_t available = 0;
    size_t need = 0;
    if (n_positions > (size_t)model->composition.context) {
        (void)tdm_fail(err, TDM_E_NO_FIT, "%zu tokens do not fit the context of %lld", n_positions,
                       (long long)model->composition.context);
        tdm_err_limit(err, "%lld positions", (long long)model->composition.context);
        tdm_err_remedy(err, model->composition.context < model->config.context_max
                                ? "shorten the text, or open with a larger context"
                                : "shorten the text");
        return TDM_E_NO_FIT;
    }
    need = model->graph->ops->state_plan(model->graph, model->composition.kv_dtype,
                                         (int64_t)n_positions);
    available = tdm_memory_available();
    if (need > available) {
        (void)tdm_fail(err, TDM_E_NO_FIT,
                       "keys and values of %zu positions need %zu bytes, %zu are free", n_positions,
                       need, available);
        tdm_err_limit(err, "%zu bytes", available);
        tdm_err_remedy(err, "use a smaller context, or kv bf16");
        return TDM_E_NO_FIT;
    }
    return TDM_OK;
}

tdm_status tdm_model_sequence_class(const tdm_model *model, int64_t n_rows, tdm_class *out,
                                    tdm_error *err) {
    *out = tdm_row_ranges_lookup(&model->declaration.classes.sequence, n_rows);
    if (*out == TDM_CLASS_NONE) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "the graph declares no operation for %lld positions",
                       (long long)n_rows);
        tdm_err_where(err, "%s.classes.sequence", model->declaration.descriptor.id);
        return TDM_E_UNSUPPORTED;
    }
    return TDM_OK;
}
