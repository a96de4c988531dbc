/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of ids, and the questions that a tokenizer answers. */
#include "text/tokenizer_priv.h"

#include "base/arith.h"

#include <string.h>

void tdm_ids_init(tdm_ids *ids, const tdm_alloc *alloc) {
    memset(ids, 0, sizeof(*ids));
    ids->alloc = alloc;
}

void tdm_ids_deinit(tdm_ids *ids) {
    if (ids->ids != NULL) {
        tdm_mem_free(ids->alloc, ids->ids, ids->cap * sizeof(ids->ids[0]));
    }
    if (ids->offsets != NULL) {
        tdm_mem_free(ids->alloc, ids->offsets, ids->cap * sizeof(ids->offsets[0]));
    }
    tdm_ids_init(ids, ids->alloc);
}

static tdm_status ids_grow(tdm_ids *ids, size_t cap) {
    size_t bytes = 0;
    size_t offset_bytes = 0;
    if (!tdm_mul_size(cap, sizeof(ids->ids[0]), &bytes) ||
        !tdm_mul_size(cap, sizeof(ids->offsets[0]), &offset_bytes)) {
        return TDM_E_NOMEM;
    }
    uint32_t(*offsets)[2] = NULL;
    if (ids->offsets != NULL) {
        offsets = tdm_mem_alloc(ids->alloc, offset_bytes);
        if (offsets == NULL) {
            return TDM_E_NOMEM;
        }
    }
    int32_t *grown = tdm_mem_resize(ids->alloc, ids->ids, ids->cap * sizeof(ids->ids[0]), bytes);
    if (grown == NULL) {
        tdm_mem_free(ids->alloc, offsets, offset_bytes);
        return TDM_E_NOMEM;
    }
    if (offsets != NULL) {
        memcpy(offsets, ids->offsets, ids->len * sizeof(ids->offsets[0]));
        tdm_mem_free(ids->alloc, ids->offsets, ids->cap * sizeof(ids->offsets[0]));
        ids->offsets = offsets;
    }
    ids->ids = grown;
    ids->cap = cap;
    return TDM_OK;
}

tdm_status tdm_ids_append(tdm_ids *ids, int32_t id, uint32_t begin, uint32_t end) {
    if (ids->len == ids->cap) {
        size_t cap = 64;
        if (ids->cap > 0 && !tdm_mul_size(ids->cap, 2, &cap)) {
            return TDM_E_NOMEM;
        }
        TDM_TRY(ids_grow(ids, cap));
    }
    ids->ids[ids->len] = id;
    if (ids->offsets != NULL) {
        ids->offsets[ids->len][0] = begin;
        ids->offsets[ids->len][1] = end;
    }
    ids->len++;
    return TDM_OK;
}

tdm_status tdm_ids_want_offsets(tdm_ids *ids) {
    if (ids->offsets != NULL) {
        return TDM_OK;
    }
    if (ids->cap == 0) {
        TDM_TRY(ids_grow(ids, 64));
    }
    ids->offsets = tdm_mem_calloc(ids->alloc, ids->cap, sizeof(ids->offsets[0]));
    return ids->offsets != NULL ? TDM_OK : TDM_E_NOMEM;
}

int32_t tdm_tokenizer_n_vocab(const tdm_tokenizer *tokenizer) {
    return tokenizer->n_vocab;
}

int32_t tdm_tokenizer_bos(const tdm_tokenizer *tokenizer) {
    return tokenizer->bos;
}

int32_t tdm_tokenizer_eos(const tdm_tokenizer *tokenizer) {
    return tokenizer->eos;
}

bool tdm_tokenizer_adds_bos(const tdm_tokenizer *tokenizer) {
    return tokenizer->adds_bos;
}

size_t tdm_tokenizer_n_eog(const tdm_tokenizer *tokenizer) {
    return tokenizer->n_eog;
}

int32_t tdm_tokenizer_eog_at(const tdm_tokenizer *tokenizer, size_t idx) {
    return idx < tokenizer->n_eog ? tokenizer->eog[idx] : -1;
}

tdm_token_kind tdm_tokenizer_kind(const tdm_tokenizer *tokenizer, int32_t id) {
    return id >= 0 && id < tokenizer->n_vocab ? (tdm_token_kind)tokenizer->kinds[id]
                                              : TDM_TOKEN_UNUSED;
}

const char *tdm_tokenizer_spelling(const tdm_tokenizer *tokenizer, int32_t id, size_t *out_len) {
    *out_len = 0;
    if (id < 0 || id >= tokenizer->n_vocab || tokenizer->spellings[id].data == NULL) {
        return NULL;
    }
    *out_len = tokenizer->spellings[id].len;
    return tokenizer->spellings[id].data;
}

int32_t tdm_tokenizer_find(const tdm_tokenizer *tokenizer, const char *spelling, size_t len) {
    return tdm_text_map_find(&tokenizer->by_spelling, spelling, len);
}

const char *tdm_tokenizer_chat_template(const tdm_tokenizer *tokenizer, size_t *out_len) {
    *out_len = tokenizer->chat_template_len;
    return tokenizer->chat_template;
}

const char *tdm_tokenizer_describe(const tdm_tokenizer *tokenizer) {
    return tokenizer->description;
}
