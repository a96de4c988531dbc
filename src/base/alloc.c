/* SPDX-License-Identifier: Apache-2.0
 *
 * The system allocator, the tracker, arenas and pools. The only file that calls malloc. */
#define _DEFAULT_SOURCE 1 /* madvise, MADV_HUGEPAGE */
#include "base/alloc.h"

#include "base/arith.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(ptr, bytes) ASAN_POISON_MEMORY_REGION(ptr, bytes)
#define UNPOISON(ptr, bytes) ASAN_UNPOISON_MEMORY_REGION(ptr, bytes)
#else
#define POISON(ptr, bytes) ((void)(ptr), (void)(bytes))
#define UNPOISON(ptr, bytes) ((void)(ptr), (void)(bytes))
#endif

/* Large blocks begin at a huge page and ask for such pages: their first touch costs a third of that
 * of small ones, and reading them misses fewer translations. The system may say no. */
#define HUGE_PAGE ((size_t)2 << 20)

/* Blocks of whole pages are mappings of their own, so that they are zeros at no cost until they are
 * touched. A sanitizer sees over the ends of malloc's blocks only; small ones would waste pages. */
static bool is_mapping(size_t bytes, size_t align) {
#ifdef HAS_ASAN
    (void)bytes;
    (void)align;
    return false;
#else
    return align == TDM_ALIGN_PAGE && bytes >= 16 * TDM_ALIGN_PAGE;
#endif
}

static void *allocate(size_t bytes, size_t align) {
    void *ptr = NULL;
    if (is_mapping(bytes, align)) {
        ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return ptr != MAP_FAILED ? ptr : NULL;
    }
    if (bytes < 2 * HUGE_PAGE) {
        return align <= TDM_ALIGN_DEFAULT                ? malloc(bytes)
               : posix_memalign(&ptr, align, bytes) == 0 ? ptr
                                                         : NULL;
    }
    if (posix_memalign(&ptr, align > HUGE_PAGE ? align : HUGE_PAGE, bytes) != 0) {
        return NULL;
    }
    (void)madvise(ptr, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return ptr;
}

static void give_back(void *ptr, size_t bytes, size_t align) {
    int saved = errno;
    if (ptr != NULL && is_mapping(bytes, align)) {
        (void)munmap(ptr, bytes);
    } else {
        free(ptr);
    }
    errno = saved;
}

static void *system_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes, size_t align) {
    void *grown = NULL;
    (void)ctx;
    if (new_bytes == 0) {
        give_back(ptr, old_bytes, align);
        return NULL;
    }
    if (ptr != NULL && align <= TDM_ALIGN_DEFAULT) {
        return realloc(ptr, new_bytes);
    }
    grown = allocate(new_bytes, align);
    if (ptr != NULL && grown != NULL) {
        memcpy(grown, ptr, old_bytes < new_bytes ? old_bytes : new_bytes);
        give_back(ptr, old_bytes, align);
    }
    return grown;
}

static const tdm_alloc SYSTEM_ALLOC = {NULL, system_resize};

const tdm_alloc *tdm_alloc_system(void) {
    return &SYSTEM_ALLOC;
}

static const tdm_alloc *or_system(const tdm_alloc *alloc) {
    return alloc != NULL ? alloc : &SYSTEM_ALLOC;
}

void *tdm_mem_alloc_aligned(const tdm_alloc *alloc, size_t bytes, size_t align) {
    const tdm_alloc *a = or_system(alloc);
    return a->resize(a->ctx, NULL, 0, bytes > 0 ? bytes : 1, align);
}

void *tdm_mem_alloc_pages(const tdm_alloc *alloc, size_t bytes) {
    void *ptr = tdm_mem_alloc_aligned(alloc, bytes, TDM_ALIGN_PAGE);
    const bool is_zero = or_system(alloc) == &SYSTEM_ALLOC && is_mapping(bytes, TDM_ALIGN_PAGE);
    if (ptr != NULL && !is_zero) {
        memset(ptr, 0, bytes > 0 ? bytes : 1);
    }
    return ptr;
}

void *tdm_mem_alloc(const tdm_alloc *alloc, size_t bytes) {
    return tdm_mem_alloc_aligned(alloc, bytes, TDM_ALIGN_DEFAULT);
}

void *tdm_mem_calloc(const tdm_alloc *alloc, size_t n, size_t elem_bytes) {
    size_t bytes = 0;
    void *ptr = NULL;
    if (!tdm_mul_size(n, elem_bytes, &bytes)) {
        return NULL;
    }
    ptr = tdm_mem_alloc(alloc, bytes);
    if (ptr != NULL) {
        memset(ptr, 0, bytes > 0 ? bytes : 1);
    }
    return ptr;
}

void *tdm_mem_resize(const tdm_alloc *alloc, void *ptr, size_t old_bytes, size_t new_bytes) {
    const tdm_alloc *a = or_system(alloc);
    size_t old_real = ptr == NULL ? 0 : (old_bytes > 0 ? old_bytes : 1);
    return a->resize(a->ctx, ptr, old_real, new_bytes > 0 ? new_bytes : 1, TDM_ALIGN_DEFAULT);
}

void tdm_mem_free_aligned(const tdm_alloc *alloc, void *ptr, size_t bytes, size_t align) {
    const tdm_alloc *a = or_system(alloc);
    if (ptr != NULL) {
        (void)a->resize(a->ctx, ptr, bytes > 0 ? bytes : 1, 0, align);
    }
}

void tdm_mem_free(const tdm_alloc *alloc, void *ptr, size_t bytes) {
    tdm_mem_free_aligned(alloc, ptr, bytes, TDM_ALIGN_DEFAULT);
}

char *tdm_mem_copy_text(const tdm_alloc *alloc, const char *text, size_t len) {
    size_t bytes = 0;
    char *copy = NULL;
    if (!tdm_add_size(len, 1, &bytes)) {
        return NULL;
    }
    copy = tdm_mem_alloc(alloc, bytes);
    if (copy != NULL) {
        if (len > 0) {
            memcpy(copy, text, len);
        }
        copy[len] = '\0';
    }
    return copy;
}

/* Tracker. */

static bool tracker_refuses(tdm_alloc_tracker *tracker, size_t growth) {
    size_t call = atomic_fetch_add(&tracker->n_calls, 1) + 1;
    size_t live = atomic_load(&tracker->live_bytes);
    if (tracker->fail_at != 0 &&
        (call == tracker->fail_at || (tracker->is_failing_from_then && call > tracker->fail_at))) {
        return true;
    }
    return tracker->limit_bytes != 0 &&
           (live > tracker->limit_bytes || growth > tracker->limit_bytes - live);
}

static void tracker_note_peak(tdm_alloc_tracker *tracker, size_t live) {
    size_t peak = atomic_load(&tracker->peak_bytes);
    while (live > peak && !atomic_compare_exchange_weak(&tracker->peak_bytes, &peak, live)) {
    }
}

static void *tracker_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    tdm_alloc_tracker *tracker = ctx;
    const tdm_alloc *parent = tracker->parent;
    void *result = NULL;
    if (new_bytes == 0) {
        if (ptr != NULL) {
            atomic_fetch_sub(&tracker->live_bytes, old_bytes);
            atomic_fetch_sub(&tracker->n_live, 1);
        }
        return parent->resize(parent->ctx, ptr, old_bytes, 0, align);
    }
    if (new_bytes > old_bytes && tracker_refuses(tracker, new_bytes - old_bytes)) {
        return NULL;
    }
    result = parent->resize(parent->ctx, ptr, old_bytes, new_bytes, align);
    if (result != NULL) {
        if (ptr == NULL) {
            atomic_fetch_add(&tracker->n_live, 1);
        }
        /* Unsigned wrap-around makes one addition serve growth and shrinking. */
        tracker_note_peak(tracker, atomic_fetch_add(&tracker->live_bytes, new_bytes - old_bytes) +
                                       new_bytes - old_bytes);
    }
    return result;
}

void tdm_alloc_tracker_init(tdm_alloc_tracker *tracker, const tdm_alloc *parent) {
    memset(tracker, 0, sizeof *tracker);
    tracker->parent = or_system(parent);
    tracker->alloc.ctx = tracker;
    tracker->alloc.resize = tracker_resize;
}

/* Arena. A chunk is [header | pieces ...]; head is the one being filled. */

#define ARENA_CHUNK_FIRST ((size_t)4096)
#define ARENA_CHUNK_LARGEST ((size_t)1 << 20)
#ifdef HAS_ASAN
#define ARENA_RED_ZONE ((size_t)16)
#else
#define ARENA_RED_ZONE ((size_t)0)
#endif

struct tdm_arena_chunk {
    tdm_arena_chunk *next;
    size_t cap;  /* bytes after the header */
    size_t used; /* of cap */
    size_t pad;  /* keeps the header a multiple of 16 */
};

void tdm_arena_init(tdm_arena *arena, const tdm_alloc *alloc) {
    memset(arena, 0, sizeof *arena);
    arena->alloc = alloc;
    arena->chunk_bytes = ARENA_CHUNK_FIRST;
}

static uint8_t *chunk_data(tdm_arena_chunk *chunk) {
    return (uint8_t *)(chunk + 1);
}

/* Offset in the chunk at which a piece of this size and alignment would begin; false when it does
 * not fit. */
static bool chunk_place(tdm_arena_chunk *chunk, size_t bytes, size_t align, size_t *out_offset) {
    uintptr_t base = (uintptr_t)chunk_data(chunk);
    uintptr_t at = (base + chunk->used + align - 1) & ~(uintptr_t)(align - 1);
    size_t offset = (size_t)(at - base);
    if (!tdm_range_is_inside(offset, bytes, chunk->cap)) {
        return false;
    }
    *out_offset = offset;
    return true;
}

static tdm_arena_chunk *arena_add_chunk(tdm_arena *arena, size_t bytes, size_t align) {
    size_t cap = 0;
    size_t total = 0;
    tdm_arena_chunk *chunk = NULL;
    if (!tdm_add_size(bytes, align, &cap)) {
        return NULL;
    }
    if (cap < arena->chunk_bytes) {
        cap = arena->chunk_bytes;
    }
    if (!tdm_add_size(cap, sizeof *chunk, &total)) {
        return NULL;
    }
    chunk = tdm_mem_alloc(arena->alloc, total);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->cap = cap;
    chunk->used = 0;
    chunk->next = arena->head;
    arena->head = chunk;
    POISON(chunk_data(chunk), cap);
    if (arena->chunk_bytes < ARENA_CHUNK_LARGEST) {
        arena->chunk_bytes *= 2;
    }
    return chunk;
}

void *tdm_arena_alloc(tdm_arena *arena, size_t bytes, size_t align) {
    size_t want = 0;
    size_t offset = 0;
    tdm_arena_chunk *chunk = arena->head;
    if (!tdm_add_size(bytes > 0 ? bytes : 1, ARENA_RED_ZONE, &want)) {
        return NULL;
    }
    if (arena->limit_bytes != 0 &&
        (arena->used_bytes > arena->limit_bytes || want > arena->limit_bytes - arena->used_bytes)) {
        return NULL;
    }
    if (chunk == NULL || !chunk_place(chunk, want, align, &offset)) {
        chunk = arena_add_chunk(arena, want, align);
        if (chunk == NULL || !chunk_place(chunk, want, align, &offset)) {
            return NULL;
        }
    }
    arena->used_bytes += offset + want - chunk->used;
    chunk->used = offset + want;
    UNPOISON(chunk_data(chunk) + offset, bytes > 0 ? bytes : 1);
    return chunk_data(chunk) + offset;
}

void *tdm_arena_calloc(tdm_arena *arena, size_t n, size_t elem_bytes) {
    size_t bytes = 0;
    void *ptr = NULL;
    if (!tdm_mul_size(n, elem_bytes, &bytes)) {
        return NULL;
    }
    ptr = tdm_arena_alloc(arena, bytes, TDM_ALIGN_DEFAULT);
    if (ptr != NULL && bytes > 0) {
        memset(ptr, 0, bytes);
    }
    return ptr;
}

char *tdm_arena_copy_text(tdm_arena *arena, const char *text, size_t len) {
    size_t bytes = 0;
    char *copy = NULL;
    if (!tdm_add_size(len, 1, &bytes)) {
        return NULL;
    }
    copy = tdm_arena_alloc(arena, bytes, 1);
    if (copy != NULL) {
        if (len > 0) {
            memcpy(copy, text, len);
        }
        copy[len] = '\0';
    }
    return copy;
}

static void chunk_free(tdm_arena *arena, tdm_arena_chunk *chunk) {
    UNPOISON(chunk_data(chunk), chunk->cap);
    tdm_mem_free(arena->alloc, chunk, sizeof *chunk + chunk->cap);
}

void tdm_arena_reset(tdm_arena *arena) {
    tdm_arena_chunk *kept = NULL;
    tdm_arena_chunk *chunk = arena->head;
    while (chunk != NULL) {
        tdm_arena_chunk *next = chunk->next;
        if (kept == NULL || chunk->cap > kept->cap) {
            if (kept != NULL) {
                chunk_free(arena, kept);
            }
            kept = chunk;
        } else {
            chunk_free(arena, chunk);
        }
        chunk = next;
    }
    if (kept != NULL) {
        kept->next = NULL;
        kept->used = 0;
        POISON(chunk_data(kept), kept->cap);
    }
    arena->head = kept;
    arena->used_bytes = 0;
}

void tdm_arena_deinit(tdm_arena *arena) {
    if (arena == NULL) {
        return;
    }
    while (arena->head != NULL) {
        tdm_arena_chunk *next = arena->head->next;
        chunk_free(arena, arena->head);
        arena->head = next;
    }
    arena->used_bytes = 0;
    arena->chunk_bytes = ARENA_CHUNK_FIRST;
}

/* Pool: free objects form a list through their first word. */

void tdm_pool_init(tdm_pool *pool, const tdm_alloc *alloc, size_t object_bytes) {
    memset(pool, 0, sizeof *pool);
    tdm_arena_init(&pool->arena, alloc);
    pool->object_bytes = object_bytes < sizeof(void *) ? sizeof(void *) : object_bytes;
}

void *tdm_pool_take(tdm_pool *pool) {
    void *object = pool->free_list;
    if (object != NULL) {
        UNPOISON(object, pool->object_bytes);
        memcpy(&pool->free_list, object, sizeof(void *));
    } else {
        object = tdm_arena_alloc(&pool->arena, pool->object_bytes, TDM_ALIGN_DEFAULT);
    }
    if (object != NULL) {
        pool->n_live++;
    }
    return object;
}

void tdm_pool_give(tdm_pool *pool, void *object) {
    if (object == NULL) {
        return;
    }
    TDM_CHECK(pool->n_live > 0);
    memcpy(object, &pool->free_list, sizeof(void *));
    pool->free_list = object;
    pool->n_live--;
    POISON(object, pool->object_bytes);
}

void tdm_pool_deinit(tdm_pool *pool) {
    if (pool != NULL) {
        tdm_arena_deinit(&pool->arena);
        pool->free_list = NULL;
        pool->n_live = 0;
    }
}
