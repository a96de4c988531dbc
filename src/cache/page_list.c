/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of keys and values. A page is zeros when made, so that a slot that was never written reads
 * as zeros and not as somebody's old memory. Zeroing them by hand was a tenth of a small model's
 * first token. */
#include "cache/page_list.h"

#include <string.h>

static size_t values_bytes(const tdm_kv_geometry *geometry, int32_t dim, tdm_dtype dtype,
                           uint32_t page_positions) {
    return (size_t)geometry->n_kv_heads * page_positions * (size_t)dim *
           TDM_DTYPES[dtype].block_bytes;
}

static size_t keys_bytes(const tdm_kv_geometry *geometry, uint32_t page_positions) {
    return values_bytes(geometry, geometry->head_dim, geometry->dtype, page_positions);
}

/* Values; or behind latent rows, which are their own values, an indexer's keys, or nothing. */
static size_t second_bytes(const tdm_kv_geometry *geometry, uint32_t page_positions) {
    return geometry->is_latent
               ? values_bytes(geometry, geometry->index_dim, TDM_DTYPE_F32, page_positions)
               : values_bytes(geometry, geometry->value_dim, geometry->dtype, page_positions);
}

size_t tdm_page_bytes(const tdm_kv_geometry *geometry, uint32_t page_positions) {
    return keys_bytes(geometry, page_positions) + second_bytes(geometry, page_positions);
}

void tdm_page_list_init(tdm_page_list *list, const tdm_alloc *alloc,
                        const tdm_kv_geometry *geometry, uint32_t page_positions) {
    memset(list, 0, sizeof *list);
    list->alloc = alloc;
    list->k_bytes = keys_bytes(geometry, page_positions);
    list->v_bytes = second_bytes(geometry, page_positions);
}

static tdm_status grow_table(tdm_page_list *list, uint32_t n, tdm_error *err) {
    uint32_t cap = list->cap == 0 ? 16 : list->cap;
    uint8_t **k = NULL;
    uint8_t **v = NULL;
    while (cap < n) {
        cap *= 2;
    }
    k = tdm_mem_calloc(list->alloc, cap, sizeof *k);
    v = tdm_mem_calloc(list->alloc, cap, sizeof *v);
    if (k == NULL || v == NULL) {
        tdm_mem_free(list->alloc, k, cap * sizeof *k);
        tdm_mem_free(list->alloc, v, cap * sizeof *v);
        return tdm_fail_nomem(err, "a table of cache pages");
    }
    if (list->n > 0) {
        memcpy(k, list->k, list->n * sizeof *k);
        memcpy(v, list->v, list->n * sizeof *v);
    }
    tdm_mem_free(list->alloc, list->k, list->cap * sizeof *k);
    tdm_mem_free(list->alloc, list->v, list->cap * sizeof *v);
    list->k = k;
    list->v = v;
    list->cap = cap;
    return TDM_OK;
}

tdm_status tdm_page_list_grow(tdm_page_list *list, uint32_t n, tdm_error *err) {
    if (n > list->cap) {
        TDM_TRY(grow_table(list, n, err));
    }
    while (list->n < n) {
        size_t bytes = list->k_bytes + list->v_bytes;
        uint8_t *page = tdm_mem_alloc_pages(list->alloc, bytes);
        if (page == NULL) {
            return tdm_fail_nomem(err, "a cache page");
        }
        list->k[list->n] = page;
        list->v[list->n] = page + list->k_bytes;
        list->n++;
    }
    return TDM_OK;
}

void tdm_page_list_shrink(tdm_page_list *list, uint32_t n) {
    while (list->n > n) {
        list->n--;
        tdm_mem_free_aligned(list->alloc, list->k[list->n], list->k_bytes + list->v_bytes,
                             TDM_ALIGN_PAGE);
        list->k[list->n] = NULL;
        list->v[list->n] = NULL;
    }
}

void tdm_page_list_deinit(tdm_page_list *list) {
    tdm_page_list_shrink(list, 0);
    tdm_mem_free(list->alloc, list->k, list->cap * sizeof *list->k);
    tdm_mem_free(list->alloc, list->v, list->cap * sizeof *list->v);
    list->k = NULL;
    list->v = NULL;
    list->cap = 0;
}

size_t tdm_page_list_bytes(const tdm_page_list *list) {
    return list->n * (list->k_bytes + list->v_bytes);
}
