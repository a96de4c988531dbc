/* SPDX-License-Identifier: Apache-2.0
 *
 * Do the byte ranges of a file's tensors overlap, and what do they leave uncovered? Shared by both
 * containers. Floor 3, private to formats. */
#ifndef TDM_FORMATS_RANGES_PRIV_H
#define TDM_FORMATS_RANGES_PRIV_H

#include "base/alloc.h"

typedef struct tdm_byte_range {
    uint64_t offset;
    uint64_t bytes;
    uint32_t idx; /* of the tensor */
} tdm_byte_range;

typedef struct tdm_range_report {
    bool is_overlapping;
    uint32_t first_idx, second_idx; /* the two that share bytes */
    uint64_t hole_bytes;
    uint64_t hole_offset; /* of the first hole */
    uint64_t end;         /* past the last used byte; start when there are no bytes */
} tdm_range_report;

/* Sorts ranges (n >= 0, none past UINT64_MAX) and walks them from start. Up to padding - 1 bytes
 * between two of them are no hole when they only reach the next multiple of padding (1: none). */
void tdm_ranges_check(tdm_byte_range *ranges, size_t n, uint64_t start, uint64_t padding,
                      tdm_range_report *out);

#endif
