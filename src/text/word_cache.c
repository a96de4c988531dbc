/* SPDX-License-Identifier: Apache-2.0
 *
 * Making and dropping the cache. A cache of 16,384 words (1 MiB) is what fits the second level of
 * most cores; larger ones measured slower. */
#include "text/word_cache.h"

#include <string.h>

#define TEXT_BYTES_MIN 512u
#define ENTRIES_MAX 16384u

tdm_status tdm_word_cache_init(tdm_word_cache *cache, const tdm_alloc *alloc, size_t text_bytes) {
    memset(cache, 0, sizeof(*cache));
    cache->alloc = alloc;
    /* The masks of tdm_word_key count bytes from the low end. */
    if (text_bytes < TEXT_BYTES_MIN || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__) {
        return TDM_OK;
    }
    cache->n = 64;
    while (cache->n < ENTRIES_MAX && cache->n < text_bytes / 16) {
        cache->n *= 2;
    }
    cache->entries = tdm_mem_calloc(alloc, cache->n, sizeof(cache->entries[0]));
    return cache->entries != NULL ? TDM_OK : TDM_E_NOMEM;
}

void tdm_word_cache_deinit(tdm_word_cache *cache) {
    if (cache->entries != NULL) {
        tdm_mem_free(cache->alloc, cache->entries, cache->n * sizeof(cache->entries[0]));
    }
    memset(cache, 0, sizeof(*cache));
}
