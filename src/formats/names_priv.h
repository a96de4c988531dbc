/* SPDX-License-Identifier: Apache-2.0
 *
 * From a name to a number: an open-addressed hash table over names that somebody else keeps. Used
 * for metadata keys, tensor names and shard files, both to refuse duplicates and to answer look-ups
 * in constant time. Floor 3, private to formats.
 *
 * Names come from strangers, who can make them collide. A search that has to look at more than
 * TDM_NAMES_PROBES_MAX slots is answered with TDM_E_LIMIT, so that opening stays linear; a million
 * names that nobody forged stay below a hundred. */
#ifndef TDM_FORMATS_NAMES_PRIV_H
#define TDM_FORMATS_NAMES_PRIV_H

#include "base/alloc.h"

#define TDM_NAMES_PROBES_MAX 512

typedef struct tdm_names_slot {
    uint64_t hash;
    const char *name; /* NULL: free */
    uint32_t len;
    uint32_t value;
} tdm_names_slot;

typedef struct tdm_names {
    const tdm_alloc *alloc;
    tdm_names_slot *slots;
    size_t n_slots; /* 0 or a power of two */
    size_t n;
} tdm_names;

void tdm_names_init(tdm_names *names, const tdm_alloc *alloc);
/* NULL-safe. */
void tdm_names_deinit(tdm_names *names);
/* name must outlive the table. TDM_OK; TDM_E_STATE when it is there already (the table is as
 * before); TDM_E_LIMIT when too many names collide; TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_names_add(tdm_names *names, const char *name, size_t len,
                                       uint32_t value);
/* *out is left alone when there is none. */
bool tdm_names_find(const tdm_names *names, const char *name, size_t len, uint32_t *out);

/* Room for one more element at the end of a vector that doubles. Returns the vector (moved or not)
 * or NULL when memory is out, and then it is as before. Freed with *cap * elem_bytes. */
void *tdm_vector_grow(const tdm_alloc *alloc, void *items, size_t len, size_t *cap,
                      size_t elem_bytes);

#endif
