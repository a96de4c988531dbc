/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3-64 through the xxhash library. */
#include "base/hash.h"

#include <xxhash.h>

uint64_t tdm_hash64(const void *data, size_t bytes) {
    return XXH3_64bits(data, bytes);
}

uint64_t tdm_hash64_seeded(const void *data, size_t bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(data, bytes, seed);
}

tdm_hash_stream *tdm_hash_stream_create(void) {
    XXH3_state_t *state = XXH3_createState();
    if (state != NULL && XXH3_64bits_reset(state) != XXH_OK) {
        (void)XXH3_freeState(state);
        state = NULL;
    }
    return (tdm_hash_stream *)state;
}

void tdm_hash_stream_update(tdm_hash_stream *stream, const void *data, size_t bytes) {
    (void)XXH3_64bits_update((XXH3_state_t *)stream, data, bytes);
}

uint64_t tdm_hash_stream_digest(const tdm_hash_stream *stream) {
    return XXH3_64bits_digest((const XXH3_state_t *)stream);
}

void tdm_hash_stream_destroy(tdm_hash_stream *stream) {
    if (stream != NULL) {
        (void)XXH3_freeState((XXH3_state_t *)stream);
    }
}
