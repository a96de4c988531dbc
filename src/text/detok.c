/* SPDX-License-Identifier: Apache-2.0
 *
 * The streaming detokenizer: the decoder's state machine on the heap. A push that fails for a bad
 * id has changed nothing. */
#include "text/detok.h"

#include "text/tokenizer_priv.h"

struct tdm_detok {
    const tdm_alloc *alloc;
    tdm_decode_state state;
};

tdm_status tdm_detok_create(tdm_detok **out, const tdm_alloc *alloc, const tdm_tokenizer *tokenizer,
                            bool skips_special, tdm_error *err) {
    tdm_detok *detok = tdm_mem_calloc(alloc, 1, sizeof(*detok));
    *out = NULL;
    if (detok == NULL) {
        return tdm_fail_nomem(err, "a detokenizer");
    }
    detok->alloc = alloc;
    tdm_decode_init(&detok->state, tokenizer, alloc, skips_special, false);
    *out = detok;
    return TDM_OK;
}

void tdm_detok_destroy(tdm_detok *detok) {
    if (detok == NULL) {
        return;
    }
    const tdm_alloc *alloc = detok->alloc;
    tdm_decode_deinit(&detok->state);
    tdm_mem_free(alloc, detok, sizeof(*detok));
}

tdm_status tdm_detok_push(tdm_detok *detok, const int32_t *ids, size_t n, tdm_buf *out,
                          tdm_error *err) {
    return tdm_decode_push(&detok->state, ids, n, out, err);
}

tdm_status tdm_detok_finish(tdm_detok *detok, tdm_buf *out, tdm_error *err) {
    return tdm_decode_finish(&detok->state, out, err);
}
