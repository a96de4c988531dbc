/* SPDX-License-Identifier: Apache-2.0
 *
 * The two look-up structures. Tables are sized before they are filled and never grow. */
#include "text/tokenizer_map.h"

#include "base/arith.h"
#include "base/hash.h"

#include <string.h>

tdm_status tdm_text_map_init(tdm_text_map *map, tdm_arena *arena, const tdm_text_ref *texts,
                             size_t n) {
    size_t n_slots = 16;
    memset(map, 0, sizeof(*map));
    while (n_slots / 2 < n) {
        if (!tdm_mul_size(n_slots, 2, &n_slots)) {
            return TDM_E_NOMEM;
        }
    }
    map->slots = tdm_arena_calloc(arena, n_slots, sizeof(map->slots[0]));
    if (map->slots == NULL) {
        return TDM_E_NOMEM;
    }
    for (size_t i = 0; i < n_slots; i++) {
        map->slots[i].id = -1;
    }
    map->mask = n_slots - 1;
    map->texts = texts;
    return TDM_OK;
}

static struct tdm_text_slot *slot_of(const tdm_text_map *map, const char *text, size_t len,
                                     uint32_t hash) {
    for (size_t i = hash & map->mask;; i = (i + 1) & map->mask) {
        struct tdm_text_slot *slot = &map->slots[i];
        if (slot->id < 0) {
            return slot;
        }
        const tdm_text_ref *have = &map->texts[slot->id];
        if (slot->hash == hash && have->len == len && memcmp(have->data, text, len) == 0) {
            return slot;
        }
    }
}

int32_t tdm_text_map_put(tdm_text_map *map, int32_t id) {
    const tdm_text_ref *text = &map->texts[id];
    const uint32_t hash = (uint32_t)tdm_hash64(text->data, text->len);
    struct tdm_text_slot *slot = slot_of(map, text->data, text->len, hash);
    if (slot->id >= 0) {
        return slot->id;
    }
    slot->id = id;
    slot->hash = hash;
    map->len_max = text->len > map->len_max ? text->len : map->len_max;
    return -1;
}

int32_t tdm_text_map_find(const tdm_text_map *map, const char *text, size_t len) {
    if (len > map->len_max || map->slots == NULL) {
        return -1;
    }
    return slot_of(map, text, len, (uint32_t)tdm_hash64(text, len))->id;
}

tdm_status tdm_trie_init(tdm_trie *trie, tdm_arena *arena, size_t bytes_max) {
    memset(trie, 0, sizeof(*trie));
    if (bytes_max >= TDM_TRIE_DENSE - 1) {
        return TDM_E_NOMEM;
    }
    trie->arena = arena;
    trie->cap = (uint32_t)bytes_max + 1;
    trie->n_nodes = 1; /* node 0 is the root */
    trie->nodes = tdm_arena_calloc(arena, trie->cap, sizeof(trie->nodes[0]));
    return trie->nodes != NULL ? TDM_OK : TDM_E_NOMEM;
}

bool tdm_trie_put(tdm_trie *trie, const char *text, size_t len, int32_t value) {
    uint32_t node = 0;
    for (size_t i = 0; i < len; i++) {
        const uint8_t byte = (uint8_t)text[i];
        uint32_t next = tdm_trie_step(trie, node, byte);
        if (next == 0) {
            TDM_CHECK(trie->n_nodes < trie->cap);
            next = trie->n_nodes++;
            trie->nodes[next].byte = byte;
            trie->nodes[next].value = -1;
            if (node == 0) {
                trie->first[byte] = next;
            } else {
                trie->nodes[next].sibling = trie->nodes[node].child;
                trie->nodes[node].child = next;
            }
        }
        node = next;
    }
    if (trie->nodes[node].value >= 0) {
        return false;
    }
    trie->nodes[node].value = value;
    return true;
}

#define CHILDREN_MAX 6u /* more than these get a table of 1 KiB */

static uint32_t count_children(const tdm_trie *trie, uint32_t node) {
    uint32_t n = 0;
    for (uint32_t c = trie->nodes[node].child; c != 0; c = trie->nodes[c].sibling) {
        n++;
    }
    return n;
}

tdm_status tdm_trie_freeze(tdm_trie *trie) {
    uint32_t n = 0;
    for (uint32_t node = 1; node < trie->n_nodes; node++) {
        n += count_children(trie, node) > CHILDREN_MAX;
    }
    trie->dense = tdm_arena_calloc(trie->arena, n, sizeof(trie->dense[0]));
    if (trie->dense == NULL) {
        return TDM_E_NOMEM;
    }
    n = 0;
    for (uint32_t node = 1; node < trie->n_nodes; node++) {
        if (count_children(trie, node) <= CHILDREN_MAX) {
            continue;
        }
        for (uint32_t c = trie->nodes[node].child; c != 0; c = trie->nodes[c].sibling) {
            trie->dense[n][trie->nodes[c].byte] = c;
        }
        trie->nodes[node].child = TDM_TRIE_DENSE | n++;
    }
    return TDM_OK;
}
