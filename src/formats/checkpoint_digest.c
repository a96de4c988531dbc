/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether files are still those that something was made from, without reading them whole: who they
 * are, their headers, and blocks of their data spread evenly. A file changed in place within the
 * clock's step of its last time, and outside the blocks, goes unnoticed here; whoever keeps what was
 * made from it compares parts of that too. */
#include "formats/checkpoint_priv.h"

#include "base/hash.h"

#include <string.h>

#define SAMPLES 16
#define SAMPLE_BYTES ((size_t)4096)

/* Where the first tensor of part begins: what stands before is the header. */
static size_t data_begin(const tdm_checkpoint *checkpoint, size_t part) {
    size_t begin = checkpoint->parts[part].blob.bytes;
    for (size_t i = 0; i < checkpoint->n_tensors; i++) {
        const tdm_checkpoint_tensor *tensor = &checkpoint->tensors[i];
        if (tensor->file_idx == part && tensor->offset < begin) {
            begin = (size_t)tensor->offset;
        }
    }
    return begin;
}

static uint64_t hash_part(const tdm_checkpoint *checkpoint, size_t part, uint64_t seed) {
    const tdm_blob *blob = &checkpoint->parts[part].blob;
    const size_t begin = data_begin(checkpoint, part);
    const size_t data = blob->bytes - begin;
    uint64_t hash = tdm_hash64_seeded(blob->data, begin, seed);
    for (size_t i = 0; i < SAMPLES && data > 0; i++) {
        const size_t at = data / SAMPLES * i;
        const size_t left = data - at;
        hash = tdm_hash64_seeded(&blob->data[begin + at], /* bounded: at is below data */
                                 left < SAMPLE_BYTES ? left : SAMPLE_BYTES, hash);
    }
    return hash;
}

void tdm_checkpoint_digest_take(const tdm_checkpoint *checkpoint, tdm_checkpoint_digest *out) {
    *out = (tdm_checkpoint_digest){0};
    for (size_t i = 0; i < checkpoint->n_parts; i++) {
        const tdm_file_id *id = &checkpoint->parts[i].blob.id;
        const uint64_t words[4] = {id->device, id->inode, id->bytes, (uint64_t)id->mtime_ns};
        out->identity = tdm_hash64_seeded(words, sizeof words, out->identity);
        out->content = hash_part(checkpoint, i, out->content);
    }
}

void tdm_checkpoint_forget(const tdm_checkpoint *checkpoint) {
    for (size_t i = 0; i < checkpoint->n_parts; i++) {
        const tdm_blob *blob = &checkpoint->parts[i].blob;
        if (blob->data != NULL && blob->fs->forget != NULL) {
            blob->fs->forget(blob->fs->ctx, blob->data, blob->bytes);
        }
    }
}

void tdm_checkpoint_scatter(const tdm_checkpoint *checkpoint, bool is_scattered) {
    for (size_t i = 0; i < checkpoint->n_parts; i++) {
        const tdm_blob *blob = &checkpoint->parts[i].blob;
        if (blob->data != NULL && blob->fs->scatter != NULL) {
            blob->fs->scatter(blob->fs->ctx, blob->data, blob->bytes, is_scattered);
        }
    }
}

const tdm_blob *tdm_checkpoint_file(const tdm_checkpoint *checkpoint, size_t idx) {
    return idx < checkpoint->n_parts ? &checkpoint->parts[idx].blob : NULL;
}
