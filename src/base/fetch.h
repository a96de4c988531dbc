/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that fetches mapped files from front to back while another one works, so that the disk
 * and the processor are busy at once. Floor 0. It only saves time: where there is no thread, pages
 * come when they are read. */
#ifndef TDM_BASE_FETCH_H
#define TDM_BASE_FETCH_H

#include "base/file.h"

typedef enum tdm_fetch_how {
    TDM_FETCH_ASK,   /* the system is asked and does it when it can: for small parts */
    TDM_FETCH_ENTER, /* pages are entered and stay: they will be read again and again */
    TDM_FETCH_PASS   /* pages come into memory in the largest pieces, and are left again */
} tdm_fetch_how;

/* A part of a mapping, which stays until the fetch is stopped. */
typedef struct tdm_fetch_range {
    const tdm_fs *fs;
    const uint8_t *data;
    size_t bytes;
    tdm_fetch_how how;
} tdm_fetch_range;

typedef struct tdm_fetch tdm_fetch;

/* Borrows ranges, which are fetched in their order. *out NULL: n is 0, or the system has no thread
 * for it, which costs time only. Errors: TDM_E_NOMEM. Owns: caller stops. */
TDM_NODISCARD tdm_status tdm_fetch_start(tdm_fetch **out, const tdm_alloc *alloc,
                                         const tdm_fetch_range *ranges, size_t n, tdm_error *err);
/* Whether it has nothing left to do. Threads: any. */
bool tdm_fetch_is_done(const tdm_fetch *fetch);
/* Returns soon, whether all is fetched or not. NULL-safe. */
void tdm_fetch_stop(tdm_fetch *fetch);

#endif
