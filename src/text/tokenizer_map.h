/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts to ids by open addressing; the trie that finds added tokens in a text. Floor 4.
 * Room-internal. Both are made once, live in the tokenizer's arena and are read by any thread. */
#ifndef TDM_TEXT_TOKENIZER_MAP_H
#define TDM_TEXT_TOKENIZER_MAP_H

#include "base/buf.h"

typedef struct tdm_text_ref {
    const char *data; /* NULL: none */
    uint32_t len;
} tdm_text_ref;

/* ids index texts, which the map borrows. */
typedef struct tdm_text_map {
    const tdm_text_ref *texts;
    struct tdm_text_slot {
        uint32_t hash;
        int32_t id; /* -1: free */
    } * slots;
    size_t mask;
    uint32_t len_max; /* longest text inside */
} tdm_text_map;

/* Room for n texts. */
TDM_NODISCARD tdm_status tdm_text_map_init(tdm_text_map *map, tdm_arena *arena,
                                           const tdm_text_ref *texts, size_t n);
/* The id that already stands for the same text, or -1 after putting id in. */
int32_t tdm_text_map_put(tdm_text_map *map, int32_t id);
/* Puts texts [0, n) into an empty map; the first id whose text was there already, or -1. Faster than
 * one by one: places are fetched ahead. */
int32_t tdm_text_map_put_all(tdm_text_map *map, int32_t n);
/* A map of those of from's texts that keeps wants. */
TDM_NODISCARD tdm_status tdm_text_map_select(tdm_text_map *map, tdm_arena *arena,
                                             const tdm_text_map *from,
                                             bool (*keeps)(const void *arg, int32_t id),
                                             const void *arg);
int32_t tdm_text_map_find(const tdm_text_map *map, const char *text, size_t len);

/* A byte trie. Its value is an index given by the caller. */
typedef struct tdm_trie {
    tdm_arena *arena;
    struct tdm_trie_node {
        uint32_t child;   /* first child, 0: none; siblings are linked */
        uint32_t sibling; /* 0: none */
        int32_t value;    /* -1: no text ends here */
        uint8_t byte;
    } * nodes;
    uint32_t n_nodes;
    uint32_t cap;
    uint32_t first[256];    /* children of the root */
    uint32_t (*dense)[256]; /* children of nodes that have many; see tdm_trie_freeze */
} tdm_trie;

/* bytes_max: sum of the lengths of all texts that will be put. */
TDM_NODISCARD tdm_status tdm_trie_init(tdm_trie *trie, tdm_arena *arena, size_t bytes_max);
/* len >= 1. The first value of a text stays; returns false when it had one. */
bool tdm_trie_put(tdm_trie *trie, const char *text, size_t len, int32_t value);
/* Gives nodes with many children a table. Nothing can be put in afterwards. */
TDM_NODISCARD tdm_status tdm_trie_freeze(tdm_trie *trie);
#define TDM_TRIE_DENSE 0x80000000u /* in child: the rest is an index of dense */
/* One step from node (0: the root) by byte; 0 when there is none. */
static inline uint32_t tdm_trie_step(const tdm_trie *trie, uint32_t node, uint8_t byte) {
    if (node == 0) {
        return trie->first[byte];
    }
    uint32_t child = trie->nodes[node].child;
    if ((child & TDM_TRIE_DENSE) != 0) {
        return trie->dense[child & ~TDM_TRIE_DENSE][byte];
    }
    while (child != 0 && trie->nodes[child].byte != byte) {
        child = trie->nodes[child].sibling;
    }
    return child;
}

#endif
