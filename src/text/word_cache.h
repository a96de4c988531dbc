/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that a call has met, with their tokens. Floor 4. Room-internal. Direct-mapped, one line of
 * cache a word, bounded; it lives in the call that encodes, so the tokenizer itself stays immutable.
 */
#ifndef TDM_TEXT_WORD_CACHE_H
#define TDM_TEXT_WORD_CACHE_H

#include "base/alloc.h"
#include "base/status.h"

#define TDM_WORD_BYTES_MAX 23u /* longer words are not kept */
#define TDM_WORD_IDS_MAX 9u

typedef struct tdm_word_entry {
    uint64_t key[3]; /* the bytes, zero-padded; the last byte is the length, 0: free */
    int32_t n;
    int32_t ids[TDM_WORD_IDS_MAX];
} tdm_word_entry;

typedef struct tdm_word_cache {
    const tdm_alloc *alloc;
    tdm_word_entry *entries; /* NULL: off */
    size_t n;                /* a power of two */
} tdm_word_cache;

/* Sized for a text of text_bytes; off for one that is too short to gain. Errors: TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_word_cache_init(tdm_word_cache *cache, const tdm_alloc *alloc,
                                             size_t text_bytes);
void tdm_word_cache_deinit(tdm_word_cache *cache);

/* word[0..len), len in [1, TDM_WORD_BYTES_MAX]; readable tells how many bytes may be read at word.
 */
static inline void tdm_word_key(uint64_t key[3], const char *word, size_t len, size_t readable) {
    key[0] = key[1] = key[2] = 0;
    if (readable >= 24) {
        __builtin_memcpy(key, word, 24);
        const size_t bits = len % 8 * 8;
        const uint64_t mask = bits == 0 ? 0 : ~(uint64_t)0 >> (64 - bits);
        if (len < 8) {
            key[0] &= mask;
            key[1] = key[2] = 0;
        } else if (len < 16) {
            key[1] &= mask;
            key[2] = 0;
        } else {
            key[2] &= mask;
        }
    } else {
        __builtin_memcpy(key, word, len);
    }
    key[2] |= (uint64_t)len << 56;
}

static inline size_t tdm_word_slot(const tdm_word_cache *cache, const uint64_t key[3]) {
    uint64_t hash =
        (key[0] ^ (key[1] * UINT64_C(0x9E3779B97F4A7C15))) + key[2] * UINT64_C(0xC2B2AE3D27D4EB4F);
    hash *= UINT64_C(0x9FB21C651E98DF25);
    return (size_t)(hash >> 32) & (cache->n - 1);
}

#endif
