/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: the allocator that is passed, an arena, a pool, and a tracker that counts bytes and fails
 * on demand. Floor 0. The size of a block is told again when it is freed, so that every byte can be
 * accounted for. */
#ifndef TDM_BASE_ALLOC_H
#define TDM_BASE_ALLOC_H

#include "base/status.h"

#include <stdatomic.h>

/* An allocator is one function. new_bytes 0 frees and returns NULL; ptr NULL allocates (old_bytes
 * 0). A failed call returns NULL and leaves ptr as it was. align is a power of two, at least 1; it
 * is the same for the life of a block. Laws: errno is preserved by a free; the content up to the
 * smaller size is preserved by a resize. Threads: any, for the system allocator and the tracker. */
typedef struct tdm_alloc {
    void *ctx;
    void *(*resize)(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes, size_t align);
} tdm_alloc;

#define TDM_ALIGN_DEFAULT ((size_t)16)
#define TDM_ALIGN_CACHE_LINE ((size_t)64)
#define TDM_ALIGN_PAGE ((size_t)4096)

/* malloc and free underneath. Lives for the process. Every function below takes NULL to mean this
 * one. */
const tdm_alloc *tdm_alloc_system(void);

/* Uninitialised block of bytes >= 1, or NULL. */
void *tdm_mem_alloc(const tdm_alloc *alloc, size_t bytes);
void *tdm_mem_alloc_aligned(const tdm_alloc *alloc, size_t bytes, size_t align);
/* Zeroed block of TDM_ALIGN_PAGE, for what is filled little by little: pages of the system allocator
 * that nobody has touched cost nothing. */
void *tdm_mem_alloc_pages(const tdm_alloc *alloc, size_t bytes);
/* Zeroed array; NULL too when n * elem_bytes overflows. n 0 gives a block of one byte's accounting
 * and never NULL. */
void *tdm_mem_calloc(const tdm_alloc *alloc, size_t n, size_t elem_bytes);
/* Grows or shrinks a block of default alignment. */
void *tdm_mem_resize(const tdm_alloc *alloc, void *ptr, size_t old_bytes, size_t new_bytes);
/* NULL-safe. bytes is what was asked for (for calloc: n * elem_bytes). */
void tdm_mem_free(const tdm_alloc *alloc, void *ptr, size_t bytes);
void tdm_mem_free_aligned(const tdm_alloc *alloc, void *ptr, size_t bytes, size_t align);
/* NUL-terminated copy of len bytes; freed with tdm_mem_free(alloc, s, len + 1). */
char *tdm_mem_copy_text(const tdm_alloc *alloc, const char *text, size_t len);

/* Counts every block that goes through it and fails on demand. Put it between a test and the system
 * allocator. */
typedef struct tdm_alloc_tracker {
    tdm_alloc alloc; /* pass &tracker.alloc on */
    const tdm_alloc *parent;
    atomic_size_t live_bytes;
    atomic_size_t peak_bytes;
    atomic_size_t n_live;
    atomic_size_t n_calls; /* allocations and growths so far */
    size_t fail_at;        /* 0: never; N: the Nth allocation or growth fails (counted from 1) */
    bool is_failing_from_then; /* also every later one */
    size_t limit_bytes;        /* 0: none; otherwise what would cross it fails */
} tdm_alloc_tracker;

void tdm_alloc_tracker_init(tdm_alloc_tracker *tracker, const tdm_alloc *parent);

/* An arena gives out pieces of growing chunks and frees them all at once. Under ASan the space
 * between pieces is poisoned. Owner thread only. */
typedef struct tdm_arena_chunk tdm_arena_chunk;
typedef struct tdm_arena {
    const tdm_alloc *alloc;
    tdm_arena_chunk *head;
    size_t chunk_bytes; /* size of the next chunk; doubles up to 1 MiB */
    size_t used_bytes;  /* given out, padding included */
    size_t limit_bytes; /* 0: none */
} tdm_arena;

void tdm_arena_init(tdm_arena *arena, const tdm_alloc *alloc);
/* Uninitialised, or NULL when memory or limit_bytes is exhausted. */
void *tdm_arena_alloc(tdm_arena *arena, size_t bytes, size_t align);
/* Zeroed array of default alignment; NULL too when the product overflows. */
void *tdm_arena_calloc(tdm_arena *arena, size_t n, size_t elem_bytes);
/* NUL-terminated copy. */
char *tdm_arena_copy_text(tdm_arena *arena, const char *text, size_t len);
/* Gives back the content and keeps the largest chunk. */
void tdm_arena_reset(tdm_arena *arena);
/* Frees everything; the arena may be used again as after init. NULL-safe. */
void tdm_arena_deinit(tdm_arena *arena);

/* A pool hands out objects of one size from slabs; freed objects are reused, slabs live until
 * deinit. Owner thread. */
typedef struct tdm_pool {
    tdm_arena arena;
    void *free_list;
    size_t object_bytes;
    size_t n_live;
} tdm_pool;

void tdm_pool_init(tdm_pool *pool, const tdm_alloc *alloc, size_t object_bytes);
void *tdm_pool_take(tdm_pool *pool);
void tdm_pool_give(tdm_pool *pool, void *object);
void tdm_pool_deinit(tdm_pool *pool);

#endif
