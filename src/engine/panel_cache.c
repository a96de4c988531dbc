/* SPDX-License-Identifier: Apache-2.0
 *
 * The store over a file, and what happens at the end of a load: room is made, a file is written under
 * another name, synced, and renamed. Two processes write two files; the later rename stands. */
#include "engine/panel_cache.h"

#include "base/arith.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEMPORARIES 4
#define STALE_NS INT64_C(86400000000000)
#define SUFFIX ".panels"

struct tdm_panel_cache {
    tdm_panels store;
    const tdm_alloc *alloc;
    tdm_panel_cache_options options;
    tdm_panel_source source;
    char path[TDM_PATH_MAX];
    tdm_blob blob;
    tdm_panel_file file; /* n 0: none is used */
    size_t n_taken;
    tdm_panel_item *items; /* packed by this load */
    size_t n_items, items_cap;
    uint64_t items_bytes;
    bool is_refused;
    bool is_incomplete; /* an item is missing: nothing can be saved */
};

static tdm_panel_cache *cache_of(tdm_panels *panels) {
    return (tdm_panel_cache *)(void *)panels;
}

/* ---- the store ---- */

static bool is_same_record(const tdm_panel_record *a, const tdm_panel_record *b) {
    return a->n_out == b->n_out && a->n_in == b->n_in && a->source == b->source &&
           a->bytes == b->bytes && a->layout == b->layout && a->period == b->period;
}

static const uint8_t *store_take(tdm_panels *panels, const tdm_panel_record *record) {
    tdm_panel_cache *cache = cache_of(panels);
    tdm_panel_record have;
    const uint8_t *data = NULL;
    if (cache->file.n == 0 || cache->is_refused) {
        return NULL;
    }
    if (cache->n_taken < cache->file.n) {
        data = tdm_panel_file_at(&cache->file, cache->n_taken++, &have);
    }
    if (data == NULL || !is_same_record(&have, record)) {
        cache->is_refused = true;
        return NULL;
    }
    return data;
}

static void store_put(tdm_panels *panels, const tdm_panel_record *record, const uint8_t *data) {
    tdm_panel_cache *cache = cache_of(panels);
    if (cache->n_items == cache->items_cap) {
        const size_t cap = cache->items_cap == 0 ? 256 : cache->items_cap * 2;
        tdm_panel_item *grown =
            tdm_mem_resize(cache->alloc, cache->items, cache->items_cap * sizeof *grown,
                           cap * sizeof *grown); /* bounded: by the weights in memory */
        if (grown == NULL) {
            cache->is_incomplete = true;
            return;
        }
        cache->items = grown;
        cache->items_cap = cap;
    }
    cache->items[cache->n_items++] = (tdm_panel_item){*record, data};
    cache->items_bytes += record->bytes;
}

static void store_refuse(tdm_panels *panels) {
    cache_of(panels)->is_refused = true;
}

/* ---- names ---- */

/* "model.gguf-0123456789abcdef.x86-rows16.panels": readable, and one for each path and layout. */
static bool name_file(tdm_panel_cache *cache, const tdm_checkpoint *checkpoint) {
    char real[TDM_PATH_MAX];
    char name[192];
    char stem[65];
    if (tdm_path_real(real, sizeof real, tdm_checkpoint_path(checkpoint), NULL) != TDM_OK) {
        return false;
    }
    (void)snprintf(stem, sizeof stem, "%.64s", tdm_path_name(real));
    const int n = snprintf(name, sizeof name, "%s-%016" PRIx64 ".%s-%" PRIu32 SUFFIX, stem,
                           tdm_hash64(real, strlen(real)), cache->source.layout.name,
                           cache->source.layout.version);
    return n > 0 && (size_t)n < sizeof name &&
           tdm_path_join(cache->path, sizeof cache->path, cache->options.folder, name, NULL) ==
               TDM_OK;
}

static void note(const tdm_panel_cache *cache, const char *what, const tdm_error *error) {
    tdm_log_printf(cache->options.log, TDM_LOG_INFO, "packed weights: %s: %s (%s)", what,
                   error->what, error->where);
}

static void drop_file(tdm_panel_cache *cache) {
    cache->file = (tdm_panel_file){0};
    tdm_blob_close(&cache->blob);
}

static void map_file(tdm_panel_cache *cache) {
    const tdm_fs *fs = cache->options.fs;
    tdm_error error = {0};
    tdm_status status = tdm_blob_open(&cache->blob, fs, cache->path, &error);
    if (status == TDM_OK) {
        status = tdm_panel_file_check(&cache->file, cache->blob.data, cache->blob.bytes,
                                      &cache->source, &error);
    }
    if (status == TDM_OK) {
        fs->enlarge(fs->ctx, cache->blob.data, cache->blob.bytes);
        (void)fs->touch(fs->ctx, cache->path,
                        NULL); /* a folder that cannot be written: still read */
        return;
    }
    drop_file(cache);
    if (status != TDM_E_NOT_FOUND) {
        tdm_err_where(&error, "%s", cache->path);
        note(cache, "not used", &error);
    }
}

tdm_panel_cache *tdm_panel_cache_open(const tdm_alloc *alloc,
                                      const tdm_panel_cache_options *options,
                                      const tdm_checkpoint *checkpoint,
                                      const tdm_panel_layout *layout) {
    static const tdm_panels_ops OPS = {store_take, store_put, store_refuse};
    tdm_panel_cache *cache = tdm_mem_calloc(alloc, 1, sizeof *cache);
    if (cache == NULL) {
        return NULL;
    }
    cache->store.ops = &OPS;
    cache->alloc = alloc;
    cache->options = *options;
    cache->options.fs = options->fs != NULL ? options->fs : tdm_fs_system();
    cache->options.clock = options->clock != NULL ? options->clock : tdm_clock_system();
    cache->source.layout = *layout;
    if (options->digest != NULL) {
        cache->source.digest = *options->digest;
    } else {
        tdm_checkpoint_digest_take(checkpoint, &cache->source.digest);
    }
    if (!name_file(cache, checkpoint)) {
        tdm_mem_free(alloc, cache, sizeof *cache);
        return NULL;
    }
    map_file(cache);
    return cache;
}

tdm_panels *tdm_panel_cache_store(tdm_panel_cache *cache) {
    return &cache->store;
}

const uint8_t *tdm_panel_cache_take_one(tdm_panel_cache *cache, size_t *out_bytes) {
    tdm_panel_record record = {.bytes = 0};
    const uint8_t *data =
        cache->file.n == 1 ? tdm_panel_file_at(&cache->file, cache->n_taken++, &record) : NULL;
    *out_bytes = (size_t)record.bytes;
    return data;
}

bool tdm_panel_cache_is_refused(const tdm_panel_cache *cache) {
    return cache->is_refused || cache->n_taken < cache->file.n;
}

void tdm_panel_cache_restart(tdm_panel_cache *cache) {
    tdm_log_printf(cache->options.log, TDM_LOG_INFO,
                   "packed weights: not this checkpoint's, made again (%s)", cache->path);
    drop_file(cache);
    cache->n_taken = 0;
    cache->n_items = 0;
    cache->items_bytes = 0;
    cache->is_refused = false;
    cache->is_incomplete = false;
}

bool tdm_panel_cache_is_used(const tdm_panel_cache *cache) {
    return cache->file.n > 0;
}

const tdm_blob *tdm_panel_cache_file(const tdm_panel_cache *cache) {
    return cache->file.n > 0 ? &cache->blob : NULL;
}

void tdm_panel_cache_close(tdm_panel_cache *cache) {
    if (cache != NULL) {
        drop_file(cache);
        tdm_mem_free(cache->alloc, cache->items, cache->items_cap * sizeof *cache->items);
        tdm_mem_free(cache->alloc, cache, sizeof *cache);
    }
}

/* ---- room ---- */

/* What a walk over the folder finds. */
typedef struct sweep {
    tdm_panel_cache *cache;
    uint64_t bytes; /* of the files that stay, without the one that will be replaced */
    int64_t oldest_ns;
    uint64_t oldest_bytes;
    char oldest[TDM_PATH_MAX]; /* "": there is none */
    char stale[TDM_PATH_MAX];  /* of a process that was killed; likewise */
} sweep;

static bool ends_in(const char *name, const char *suffix) {
    const size_t len = strlen(name);
    const size_t suffix_len = strlen(suffix);
    return len >= suffix_len && strcmp(name + len - suffix_len, suffix) == 0;
}

static bool identify(const tdm_fs *fs, const char *path, tdm_file_id *out) {
    tdm_file *file = NULL;
    if (fs->open_read(fs->ctx, path, &file, NULL) != TDM_OK) {
        return false;
    }
    const tdm_status status = fs->identify(fs->ctx, file, out, NULL);
    fs->close(fs->ctx, file);
    return status == TDM_OK;
}

static void visit(void *arg, const char *name, bool is_folder) {
    sweep *s = arg;
    const tdm_panel_cache *cache = s->cache;
    const tdm_fs *fs = cache->options.fs;
    const bool is_temporary = ends_in(name, ".tmp") && strstr(name, SUFFIX ".") != NULL;
    char path[TDM_PATH_MAX];
    tdm_file_id id;
    if (is_folder || (!is_temporary && !ends_in(name, SUFFIX)) ||
        tdm_path_join(path, sizeof path, cache->options.folder, name, NULL) != TDM_OK ||
        strcmp(path, cache->path) == 0 || !identify(fs, path, &id)) {
        return;
    }
    if (is_temporary &&
        cache->options.clock->unix_ns(cache->options.clock->ctx) - id.mtime_ns > STALE_NS) {
        memcpy(s->stale, path, sizeof path);
        return;
    }
    s->bytes += id.bytes;
    if (!is_temporary && (s->oldest[0] == '\0' || id.mtime_ns < s->oldest_ns)) {
        s->oldest_ns = id.mtime_ns;
        s->oldest_bytes = id.bytes;
        memcpy(s->oldest, path, sizeof path);
    }
}

/* Removes files, the least recently used first, until bytes fit below the limit. */
static tdm_status make_room(tdm_panel_cache *cache, size_t bytes, tdm_error *err) {
    const tdm_fs *fs = cache->options.fs;
    const uint64_t limit = cache->options.bytes_max;
    if (bytes > limit) {
        (void)tdm_fail(err, TDM_E_LIMIT, "%zu bytes are more than the folder may hold", bytes);
        tdm_err_limit(err, "%" PRIu64 " bytes", limit);
        return TDM_E_LIMIT;
    }
    for (;;) {
        sweep s = {.cache = cache};
        TDM_TRY(fs->list(fs->ctx, cache->options.folder, visit, &s, err));
        if (s.stale[0] != '\0') {
            TDM_TRY(fs->unlink(fs->ctx, s.stale, err));
            continue;
        }
        if (s.bytes <= limit - bytes || s.oldest[0] == '\0') {
            return TDM_OK;
        }
        TDM_TRY(fs->unlink(fs->ctx, s.oldest, err));
    }
}

/* Every folder of path that is not there. */
static tdm_status make_folders(const tdm_fs *fs, const char *path, tdm_error *err) {
    char part[TDM_PATH_MAX];
    bool is_folder = false;
    for (size_t i = 1; i < sizeof part; i++) {
        const bool is_end = path[i] == '\0';
        if (path[i - 1] == '\0') {
            break;
        }
        if (path[i] != '/' && !is_end) {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (!fs->exists(fs->ctx, part, &is_folder)) {
            const tdm_status status = fs->make_folder(fs->ctx, part, err);
            if (status != TDM_OK &&
                status != TDM_E_STATE) { /* another process may have been first */
                return status;
            }
        }
        if (is_end) {
            break;
        }
    }
    return TDM_OK;
}

/* ---- saving ---- */

/* A file of a name that nobody else has. */
static tdm_status create_temporary(const tdm_panel_cache *cache, char path[TDM_PATH_MAX],
                                   tdm_file **out_file, tdm_error *err) {
    const tdm_fs *fs = cache->options.fs;
    tdm_status status = TDM_E_STATE;
    for (int i = 0; i < TEMPORARIES && status == TDM_E_STATE; i++) {
        const int n = snprintf(path, TDM_PATH_MAX, "%s.%d.tmp", cache->path, i);
        if (n < 0 || n >= TDM_PATH_MAX) {
            return tdm_fail(err, TDM_E_LIMIT, "path is too long");
        }
        status = fs->open_create(fs->ctx, path, out_file, err);
    }
    return status;
}

static tdm_status write_file(tdm_panel_cache *cache, tdm_error *err) {
    const tdm_fs *fs = cache->options.fs;
    char path[TDM_PATH_MAX];
    size_t bytes = 0;
    tdm_file *file = NULL;
    tdm_status status = TDM_OK;
    if (!tdm_panel_file_bytes(cache->items, cache->n_items, &bytes)) {
        return tdm_fail(err, TDM_E_LIMIT, "too many weights");
    }
    TDM_TRY(make_folders(fs, cache->options.folder, err));
    TDM_TRY(make_room(cache, bytes, err));
    TDM_TRY(create_temporary(cache, path, &file, err));
    status = tdm_panel_file_write(fs, file, cache->alloc, &cache->source, cache->items,
                                  cache->n_items, err);
    if (status == TDM_OK) {
        status = fs->sync(fs->ctx, file, err);
    }
    fs->close(fs->ctx, file);
    if (status == TDM_OK) {
        status = fs->rename(fs->ctx, path, cache->path, err);
    }
    if (status != TDM_OK) {
        (void)fs->unlink(fs->ctx, path, NULL);
    }
    return status;
}

void tdm_panel_cache_save(tdm_panel_cache *cache) {
    tdm_error error = {0};
    TDM_CHECK(!tdm_panel_cache_is_refused(cache));
    if (cache->n_items == 0 || cache->is_incomplete ||
        cache->items_bytes < cache->options.bytes_min) {
        return;
    }
    if (write_file(cache, &error) != TDM_OK) {
        note(cache, "not saved, the next load packs again", &error);
    }
    cache->options.log = NULL;
}
