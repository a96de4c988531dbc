/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenize and detokenize for embedders: the answer goes into the caller's array, or its size is
 * told. */
#include "engine/model_priv.h"

#include <string.h>

static tdm_status too_small(size_t need, size_t cap, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_LIMIT, "the answer needs room for %zu, %zu were given", need, cap);
    tdm_err_limit(err, "%zu", cap);
    tdm_err_remedy(err, "call again with room for %zu", need);
    return TDM_E_LIMIT;
}

tdm_status tdm_model_tokenize(const tdm_model *model, const char *text, size_t len, unsigned flags,
                              int32_t *ids, size_t cap, size_t *out_n, tdm_error *err) {
    const tdm_encode_options options = {
        .adds_special = (flags & TDM_TEXT_ADD_SPECIAL) != 0,
        .parses_special = (flags & TDM_TEXT_PARSE_SPECIAL) != 0,
    };
    tdm_ids list;
    tdm_status status = TDM_OK;
    *out_n = 0;
    TDM_TRY(tdm_model_need_tokenizer(model, err));
    tdm_ids_init(&list, model->alloc);
    status = tdm_tokenizer_encode(model->tokenizer, text, len, &options, &list, err);
    if (status == TDM_OK) {
        size_t n = list.len < cap ? list.len : cap;
        *out_n = list.len;
        if (n > 0) {
            memcpy(ids, list.ids, n * sizeof *ids);
        }
        if (list.len > cap) {
            status = too_small(list.len, cap, err);
        }
    }
    tdm_ids_deinit(&list);
    return status;
}

tdm_status tdm_model_detokenize(const tdm_model *model, const int32_t *ids, size_t n,
                                unsigned flags, char *text, size_t cap, size_t *out_len,
                                tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    *out_len = 0;
    TDM_TRY(tdm_model_need_tokenizer(model, err));
    tdm_buf_init(&buf, model->alloc, 0);
    status = tdm_tokenizer_decode(model->tokenizer, ids, n, (flags & TDM_TEXT_SKIP_SPECIAL) != 0,
                                  &buf, err);
    if (status == TDM_OK) {
        size_t bytes = buf.len < cap ? buf.len : cap;
        *out_len = buf.len;
        if (bytes > 0) {
            memcpy(text, buf.data, bytes);
        }
        if (buf.len > cap) {
            status = too_small(buf.len, cap, err);
        }
    }
    tdm_buf_deinit(&buf);
    return status;
}
