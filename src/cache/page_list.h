/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing list of pages of keys and values, shared by the kinds of cache. Floor 4. */
#ifndef TDM_CACHE_PAGE_LIST_H
#define TDM_CACHE_PAGE_LIST_H

#include "base/alloc.h"
#include "contract/cache.h"

/* k[i] and v[i] point into one block per page: [keys | values], or of latent pages [rows | index
 * keys]. */
typedef struct tdm_page_list {
    const tdm_alloc *alloc;
    uint8_t **k;
    uint8_t **v;
    uint32_t n;     /* pages that exist */
    uint32_t cap;   /* entries of k and v */
    size_t k_bytes; /* of one page's keys */
    size_t v_bytes;
} tdm_page_list;

void tdm_page_list_init(tdm_page_list *list, const tdm_alloc *alloc,
                        const tdm_kv_geometry *geometry, uint32_t page_positions);
/* At least n pages; what was made before a failure stays and is counted in n. */
TDM_NODISCARD tdm_status tdm_page_list_grow(tdm_page_list *list, uint32_t n, tdm_error *err);
/* Frees the pages from index n on. */
void tdm_page_list_shrink(tdm_page_list *list, uint32_t n);
void tdm_page_list_deinit(tdm_page_list *list);
size_t tdm_page_list_bytes(const tdm_page_list *list);
/* Bytes of one page of this geometry. */
size_t tdm_page_bytes(const tdm_kv_geometry *geometry, uint32_t page_positions);

#endif
