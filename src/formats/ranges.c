/* SPDX-License-Identifier: Apache-2.0
 *
 * One sort and one walk. The heap sort is our own, since the C library's qsort may take memory that
 * no allocator of ours has seen, and may be quadratic for forged orders. */
#include "formats/ranges_priv.h"

#include <string.h>

static bool is_before(const tdm_byte_range *a, const tdm_byte_range *b) {
    return a->offset != b->offset ? a->offset < b->offset : a->idx < b->idx;
}

static void sift_down(tdm_byte_range *heap, size_t at, size_t n) {
    const tdm_byte_range moved = heap[at];
    for (;;) {
        size_t child = 2 * at + 1; /* bounded: at indexes elements of 24 bytes */
        if (child >= n) {
            break;
        }
        /* bounded: child < n */
        if (child + 1 < n && is_before(&heap[child], &heap[child + 1])) {
            child++;
        }
        if (!is_before(&moved, &heap[child])) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static void sort_ranges(tdm_byte_range *ranges, size_t n) {
    bool is_sorted = true;
    for (size_t i = 1; i < n && is_sorted; i++) {
        is_sorted = !is_before(&ranges[i], &ranges[i - 1]);
    }
    if (is_sorted) {
        return;
    }
    for (size_t i = n / 2; i > 0; i--) {
        sift_down(ranges, i - 1, n);
    }
    for (size_t end = n; end > 1; end--) {
        const tdm_byte_range last = ranges[end - 1];
        ranges[end - 1] = ranges[0];
        ranges[0] = last;
        sift_down(ranges, 0, end - 1);
    }
}

void tdm_ranges_check(tdm_byte_range *ranges, size_t n, uint64_t start, uint64_t padding,
                      tdm_range_report *out) {
    uint32_t last_idx = 0;
    memset(out, 0, sizeof *out);
    out->end = start;
    sort_ranges(ranges, n);
    for (size_t i = 0; i < n; i++) {
        const tdm_byte_range *range = &ranges[i];
        if (range->bytes == 0) {
            continue; /* no bytes, nothing to share */
        }
        if (range->offset < out->end) {
            out->is_overlapping = true;
            out->first_idx = last_idx;
            out->second_idx = range->idx;
            return;
        }
        if (range->offset - out->end >= padding ||
            (range->offset > out->end && range->offset % padding != 0)) {
            out->hole_offset = out->hole_bytes == 0 ? out->end : out->hole_offset;
            out->hole_bytes += range->offset - out->end; /* bounded: inside the file */
        }
        out->end = range->offset + range->bytes; /* bounded: inside the file */
        last_idx = range->idx;
    }
}
