/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract kit of tdm_alloc (base/alloc.h): random allocations, growths, shrinks and frees
 * against a twin that remembers what was written; alignment; errno; nothing overlaps. */
#ifndef TDM_TESTS_ALLOC_KIT_H
#define TDM_TESTS_ALLOC_KIT_H

#include "support/support.h"

#include "base/alloc.h"
#include "base/random.h"

#include <errno.h>

#define ALLOC_KIT_BLOCKS 40

typedef struct alloc_kit_block {
    uint8_t *data;
    size_t bytes;
    size_t align;
    uint8_t fill;
} alloc_kit_block;

static inline void alloc_kit_check(const alloc_kit_block *block, size_t bytes) {
    assert_int_equal((uintptr_t)block->data % block->align, 0);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(block->data[i], (uint8_t)(block->fill + i));
    }
}

static inline void alloc_kit_write(alloc_kit_block *block, uint8_t fill) {
    block->fill = fill;
    for (size_t i = 0; i < block->bytes; i++) {
        block->data[i] = (uint8_t)(fill + i);
    }
}

static inline void alloc_kit_run(const tdm_alloc *alloc) {
    alloc_kit_block blocks[ALLOC_KIT_BLOCKS];
    memset(blocks, 0, sizeof blocks);
    for (uint32_t step = 0; step < 4000; step++) {
        alloc_kit_block *block = &blocks[tdm_random_u64(3, 0, step, 0) % ALLOC_KIT_BLOCKS];
        const size_t bytes = 1 + (size_t)(tdm_random_u64(3, 0, step, 1) % 3000);
        if (block->data == NULL) {
            block->align = (size_t)1 << (tdm_random_u64(3, 0, step, 2) % 9); /* 1 .. 256 */
            block->bytes = bytes;
            block->data = alloc->resize(alloc->ctx, NULL, 0, bytes, block->align);
            assert_non_null(block->data);
            alloc_kit_write(block, (uint8_t)step);
        } else if (step % 3 == 0) { /* the smaller part is preserved */
            alloc_kit_check(block, block->bytes);
            uint8_t *moved =
                alloc->resize(alloc->ctx, block->data, block->bytes, bytes, block->align);
            assert_non_null(moved);
            block->data = moved;
            alloc_kit_check(block, bytes < block->bytes ? bytes : block->bytes);
            block->bytes = bytes;
            alloc_kit_write(block, (uint8_t)step);
        } else if (step % 3 == 1) {
            alloc_kit_check(block, block->bytes);
            errno = 41;
            assert_null(alloc->resize(alloc->ctx, block->data, block->bytes, 0, block->align));
            assert_int_equal(errno, 41);
            block->data = NULL;
        } else {
            alloc_kit_check(block, block->bytes);
        }
    }
    for (size_t i = 0; i < ALLOC_KIT_BLOCKS; i++) {
        if (blocks[i].data != NULL) {
            alloc_kit_check(&blocks[i], blocks[i].bytes);
            (void)alloc->resize(alloc->ctx, blocks[i].data, blocks[i].bytes, 0, blocks[i].align);
        }
    }
    assert_null(alloc->resize(alloc->ctx, NULL, 0, 0, 16)); /* freeing nothing is legal */
}

/* A call that cannot be served says so and leaves the block as it was. */
static inline void alloc_kit_fails(const tdm_alloc *alloc) {
    for (size_t align = 1; align <= 256; align *= 16) {
        alloc_kit_block block = {NULL, 100, align, 0};
        block.data = alloc->resize(alloc->ctx, NULL, 0, 100, align);
        assert_non_null(block.data);
        alloc_kit_write(&block, 9);
        const size_t far_too_many = SIZE_MAX / 2 - 4096;
        assert_null(alloc->resize(alloc->ctx, NULL, 0, far_too_many, align));
        assert_null(alloc->resize(alloc->ctx, block.data, 100, far_too_many, align));
        alloc_kit_check(&block, 100);
        (void)alloc->resize(alloc->ctx, block.data, 100, 0, align);
    }
}

#endif
