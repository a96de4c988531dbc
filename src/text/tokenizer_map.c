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
    size_t bytes = 0;
    memset(map, 0, sizeof(*map));
    while (n_slots / 2 < n) {
        if (!tdm_mul_size(n_slots, 2, &n_slots)) {
            return TDM_E_NOMEM;
        }
    }
    if (!tdm_mul_size(n_slots, sizeof(map->slots[0]), &bytes)) {
        return TDM_E_NOMEM;
    }
    map->slots = tdm_arena_alloc(arena, bytes, TDM_ALIGN_DEFAULT);
    if (map->slots == NULL) {
        return TDM_E_NOMEM;
    }
    memset(map->slots, 0xFF, bytes); /* every id is -1 */
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
        if (slot->hash == hash && have->len == len &&
            (len == 0 || memcmp(have->data, text, len) == 0)) {
            return slot;
        }
    }
}

static uint32_t hash_of(const tdm_text_ref *text) {
    return (uint32_t)tdm_hash64(text->data, text->len);
}

/* Each place is a miss of the caches: so many are under way at once. */
#define AHEAD 16

static int32_t put_hashed(tdm_text_map *map, int32_t id, uint32_t hash) {
    const tdm_text_ref *text = &map->texts[id];
    struct tdm_text_slot *slot = slot_of(map, text->data, text->len, hash);
    if (slot->id >= 0) {
        return slot->id;
    }
    slot->id = id;
    slot->hash = hash;
    map->len_max = text->len > map->len_max ? text->len : map->len_max;
    return -1;
}

int32_t tdm_text_map_put(tdm_text_map *map, int32_t id) {
    return put_hashed(map, id, hash_of(&map->texts[id]));
}

int32_t tdm_text_map_put_all(tdm_text_map *map, int32_t n) {
    uint32_t hashes[AHEAD] = {0};
    int32_t n_hashed = 0;
    for (int32_t id = 0; id < n; id++) {
        for (; n_hashed < n && n_hashed < id + AHEAD; n_hashed++) {
            const uint32_t hash = hash_of(&map->texts[n_hashed]);
            hashes[n_hashed % AHEAD] = hash;
            __builtin_prefetch(&map->slots[hash & map->mask], 1);
        }
        if (put_hashed(map, id, hashes[id % AHEAD]) >= 0) {
            return id;
        }
    }
    return -1;
}

/* Slots are walked in the order of their hashes, so that both maps are met from front to back. The
 * texts differ, so that none is compared. */
tdm_status tdm_text_map_select(tdm_text_map *map, tdm_arena *arena, const tdm_text_map *from,
                               bool (*keeps)(const void *arg, int32_t id), const void *arg) {
    const size_t n_slots = from->mask + 1;
    TDM_TRY(tdm_text_map_init(map, arena, from->texts, n_slots / 2));
    for (size_t i = 0; i < n_slots; i++) {
        const struct tdm_text_slot slot = from->slots[i];
        if (slot.id < 0 || !keeps(arg, slot.id)) {
            continue;
        }
        const uint32_t len = map->texts[slot.id].len;
        size_t at = slot.hash & map->mask;
        while (map->slots[at].id >= 0) {
            at = (at + 1) & map->mask;
        }
        map->slots[at] = slot;
        map->len_max = len > map->len_max ? len : map->len_max;
    }
    return TDM_OK;
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
