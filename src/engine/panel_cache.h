/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder of packed weights, a file for each checkpoint and layout. Floor 7. A load opens it, hands
 * its store to the backend, and at the end saves what had to be packed. Nothing here fails a load: a
 * folder that is missing, full or not ours, and a file of another time, only cost packing.
 *
 *   FOLDER/NAME-HASH.LAYOUT.panels        HASH of the checkpoint's real path
 *   FOLDER/NAME-HASH.text-1.panels        the tokenizer's tables, as a packed weight of their own
 *   FOLDER/NAME-HASH.LAYOUT.panels.N.tmp  being written; left by a killed process, it goes a day later
 *
 * A file appears whole by a rename, after its bytes are synced. It is mapped while the model lives:
 * removing it is harmless then, cutting it is not, as with the checkpoint itself.
 * Owner thread only. */
#ifndef TDM_ENGINE_PANEL_CACHE_H
#define TDM_ENGINE_PANEL_CACHE_H

#include "base/clock.h"
#include "base/log.h"
#include "formats/panel_file.h"

#define TDM_PANEL_CACHE_BYTES ((uint64_t)20000000000)
/* Smaller models are packed faster than a file is found. */
#define TDM_PANEL_CACHE_BYTES_MIN ((uint64_t)8 << 20)
/* Likewise small vocabularies. */
#define TDM_PANEL_CACHE_TEXT_BYTES_MIN ((uint64_t)1 << 20)

typedef struct tdm_panel_cache_options {
    const tdm_fs *fs;       /* NULL: the system's */
    const tdm_clock *clock; /* NULL: the system's */
    const tdm_log *log;     /* what went wrong, at info; may be NULL */
    const char *folder;     /* made when something is saved */
    uint64_t bytes_max;     /* of all files; those that were not used for longest go first */
    uint64_t bytes_min;     /* packed weights below that are not saved */
    const tdm_checkpoint_digest *digest; /* the checkpoint's; NULL: taken here */
} tdm_panel_cache_options;

typedef struct tdm_panel_cache tdm_panel_cache;

/* NULL when there can be none. Borrows checkpoint, and log until save; layout is a backend's.
 * Owns: caller closes, after the weights are given back. */
tdm_panel_cache *tdm_panel_cache_open(const tdm_alloc *alloc,
                                      const tdm_panel_cache_options *options,
                                      const tdm_checkpoint *checkpoint,
                                      const tdm_panel_layout *layout);
tdm_panels *tdm_panel_cache_store(tdm_panel_cache *cache);
/* For files of one item whose length only they know: its bytes, or NULL. */
const uint8_t *tdm_panel_cache_take_one(tdm_panel_cache *cache, size_t *out_bytes);
/* After a load: whether the file turned out to be of other weights. Then whatever came from it goes,
 * and the load begins again after restart, which packs everything. */
bool tdm_panel_cache_is_refused(const tdm_panel_cache *cache);
void tdm_panel_cache_restart(tdm_panel_cache *cache);
/* Writes what had to be packed, which is still where it was. */
void tdm_panel_cache_save(tdm_panel_cache *cache);
/* Whether the weights are the file's. */
bool tdm_panel_cache_is_used(const tdm_panel_cache *cache);
/* The file, while it is used: for whoever fetches it ahead. NULL: none is. */
const tdm_blob *tdm_panel_cache_file(const tdm_panel_cache *cache);
/* NULL-safe. */
void tdm_panel_cache_close(tdm_panel_cache *cache);

#endif
