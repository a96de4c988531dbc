/* SPDX-License-Identifier: Apache-2.0
 *
 * The fetching thread. It works in pieces, so that it stops soon. */
#include "base/fetch.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define PIECE_BYTES ((size_t)4 << 20)

struct tdm_fetch {
    const tdm_alloc *alloc;
    pthread_t thread;
    atomic_bool is_stopped;
    atomic_bool is_done;
    const tdm_fetch_range *ranges;
    size_t n;
};

static void fetch_piece(const tdm_fetch_range *range, const uint8_t *data, size_t bytes) {
    const tdm_fs *fs = range->fs;
    if (range->how == TDM_FETCH_ASK) {
        fs->fetch(fs->ctx, data, bytes);
        return;
    }
    fs->need(fs->ctx, data, bytes);
    if (range->how == TDM_FETCH_PASS) {
        fs->forget(fs->ctx, data, bytes);
    }
}

static void fetch_range(tdm_fetch *fetch, const tdm_fetch_range *range) {
    if (range->how == TDM_FETCH_PASS) {
        range->fs->enlarge(range->fs->ctx, range->data, range->bytes);
    }
    for (size_t at = 0; at < range->bytes && !atomic_load(&fetch->is_stopped); at += PIECE_BYTES) {
        const size_t left = range->bytes - at;
        fetch_piece(range, &range->data[at], left < PIECE_BYTES ? left : PIECE_BYTES);
    }
}

static void *thread_main(void *arg) {
    tdm_fetch *fetch = arg;
    for (size_t i = 0; i < fetch->n; i++) {
        fetch_range(fetch, &fetch->ranges[i]);
    }
    atomic_store(&fetch->is_done, true);
    return NULL;
}

/* Signals belong to the program's own threads. */
static bool start_thread(tdm_fetch *fetch) {
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) {
        return false;
    }
    const bool is_started = pthread_create(&fetch->thread, NULL, thread_main, fetch) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

tdm_status tdm_fetch_start(tdm_fetch **out, const tdm_alloc *alloc, const tdm_fetch_range *ranges,
                           size_t n, tdm_error *err) {
    tdm_fetch *fetch = NULL;
    *out = NULL;
    if (n == 0) {
        return TDM_OK;
    }
    fetch = tdm_mem_alloc(alloc, sizeof *fetch);
    if (fetch == NULL) {
        return tdm_fail_nomem(err, "reading ahead");
    }
    fetch->alloc = alloc;
    fetch->ranges = ranges;
    fetch->n = n;
    atomic_init(&fetch->is_stopped, false);
    atomic_init(&fetch->is_done, false);
    if (!start_thread(fetch)) {
        tdm_mem_free(alloc, fetch, sizeof *fetch);
        return TDM_OK;
    }
    *out = fetch;
    return TDM_OK;
}

bool tdm_fetch_is_done(const tdm_fetch *fetch) {
    return atomic_load(&fetch->is_done);
}

void tdm_fetch_stop(tdm_fetch *fetch) {
    if (fetch != NULL) {
        atomic_store(&fetch->is_stopped, true);
        (void)pthread_join(fetch->thread, NULL);
        tdm_mem_free(fetch->alloc, fetch, sizeof *fetch);
    }
}
