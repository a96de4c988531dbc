/* SPDX-License-Identifier: Apache-2.0
 *
 * The name table: linear probing, at most half full, doubling. */
#include "formats/names_priv.h"

#include "base/arith.h"
#include "base/hash.h"

#include <string.h>

#define SLOTS_MIN 16

void tdm_names_init(tdm_names *names, const tdm_alloc *alloc) {
    memset(names, 0, sizeof *names);
    names->alloc = alloc;
}

void tdm_names_deinit(tdm_names *names) {
    if (names != NULL) {
        tdm_mem_free(names->alloc, names->slots, names->n_slots * sizeof *names->slots);
        names->slots = NULL;
        names->n_slots = 0;
        names->n = 0;
    }
}

static bool is_slot_of(const tdm_names_slot *slot, uint64_t hash, const char *name, size_t len) {
    return slot->hash == hash && slot->len == len && memcmp(slot->name, name, len) == 0;
}

/* The slot that holds the name, or the free one where it would go, or NULL past the probe limit. */
static tdm_names_slot *probe(const tdm_names *names, uint64_t hash, const char *name, size_t len) {
    const size_t mask = names->n_slots - 1;
    size_t at = (size_t)hash & mask;
    for (size_t n = 0; n < TDM_NAMES_PROBES_MAX; n++) {
        tdm_names_slot *slot = &names->slots[at];
        if (slot->name == NULL || is_slot_of(slot, hash, name, len)) {
            return slot;
        }
        at = (at + 1) & mask;
    }
    return NULL;
}

static tdm_status rehash(tdm_names *names) {
    tdm_names old = *names;
    size_t n_slots = SLOTS_MIN;
    if (old.n_slots > 0 && !tdm_mul_size(old.n_slots, 2, &n_slots)) {
        return TDM_E_NOMEM;
    }
    names->slots = tdm_mem_calloc(names->alloc, n_slots, sizeof *names->slots);
    if (names->slots == NULL) {
        names->slots = old.slots;
        return TDM_E_NOMEM;
    }
    names->n_slots = n_slots;
    for (size_t i = 0; i < old.n_slots; i++) {
        const tdm_names_slot *from = &old.slots[i];
        tdm_names_slot *to = NULL;
        if (from->name == NULL) {
            continue;
        }
        to = probe(names, from->hash, from->name, from->len);
        if (to == NULL) {
            tdm_mem_free(names->alloc, names->slots, n_slots * sizeof *names->slots);
            *names = old;
            return TDM_E_LIMIT;
        }
        *to = *from;
    }
    tdm_mem_free(old.alloc, old.slots, old.n_slots * sizeof *old.slots);
    return TDM_OK;
}

tdm_status tdm_names_add(tdm_names *names, const char *name, size_t len, uint32_t value) {
    const uint64_t hash = tdm_hash64(name, len);
    tdm_names_slot *slot = NULL;
    if (len > UINT32_MAX) {
        return TDM_E_LIMIT;
    }
    if (names->n >= names->n_slots / 2) {
        TDM_TRY(rehash(names));
    }
    slot = probe(names, hash, name, len);
    if (slot == NULL) {
        return TDM_E_LIMIT;
    }
    if (slot->name != NULL) {
        return TDM_E_STATE;
    }
    slot->hash = hash;
    slot->name = name;
    slot->len = (uint32_t)len;
    slot->value = value;
    names->n++;
    return TDM_OK;
}

bool tdm_names_find(const tdm_names *names, const char *name, size_t len, uint32_t *out) {
    const tdm_names_slot *slot = NULL;
    if (names->n == 0) {
        return false;
    }
    slot = probe(names, tdm_hash64(name, len), name, len);
    if (slot == NULL || slot->name == NULL) {
        return false;
    }
    *out = slot->value;
    return true;
}

void *tdm_vector_grow(const tdm_alloc *alloc, void *items, size_t len, size_t *cap,
                      size_t elem_bytes) {
    size_t new_cap = 16;
    size_t new_bytes = 0;
    void *grown = NULL;
    if (len < *cap) {
        return items;
    }
    if (*cap > 0 && !tdm_mul_size(*cap, 2, &new_cap)) {
        return NULL;
    }
    if (!tdm_mul_size(new_cap, elem_bytes, &new_bytes)) {
        return NULL;
    }
    grown = tdm_mem_resize(alloc, items, *cap * elem_bytes, new_bytes);
    if (grown != NULL) {
        *cap = new_cap;
    }
    return grown;
}
