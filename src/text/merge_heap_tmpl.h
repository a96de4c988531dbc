/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap of merge candidates in a scratch's buffer. Floor 4. A template: the file that includes it has defined
 * `candidate` and `is_before`, the order in which candidates leave. */
#ifndef TDM_TEXT_MERGE_HEAP_TMPL_H
#define TDM_TEXT_MERGE_HEAP_TMPL_H

static candidate *heap_of(const tdm_bpe_scratch *scratch) {
    return (candidate *)(void *)scratch->heap.data;
}

static tdm_status heap_push(tdm_bpe_scratch *scratch, const candidate *entry) {
    TDM_TRY(tdm_buf_append(&scratch->heap, entry, sizeof(*entry)));
    candidate *heap = heap_of(scratch);
    size_t i = scratch->heap.len / sizeof(*entry) - 1;
    while (i > 0 && is_before(entry, &heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = *entry;
    return TDM_OK;
}

static candidate heap_pop(tdm_bpe_scratch *scratch) {
    candidate *heap = heap_of(scratch);
    const candidate top = heap[0];
    scratch->heap.len -= sizeof(top);
    const size_t n = scratch->heap.len / sizeof(top);
    const candidate moved = heap[n];
    size_t i = 0;
    for (size_t child = 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && is_before(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!is_before(&heap[child], &moved)) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    if (n > 0) {
        heap[i] = moved;
    }
    return top;
}

#endif
