/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3 behind our own names. Floor 0. Not for secrets. */
#ifndef TDM_BASE_HASH_H
#define TDM_BASE_HASH_H

#include "base/alloc.h"

uint64_t tdm_hash64(const void *data, size_t bytes);
uint64_t tdm_hash64_seeded(const void *data, size_t bytes, uint64_t seed);

/* Streaming XXH3-64; pieces give the same as the whole. */
typedef struct tdm_hash_stream tdm_hash_stream;
tdm_hash_stream *tdm_hash_stream_create(void); /* NULL when memory is out */
void tdm_hash_stream_update(tdm_hash_stream *stream, const void *data, size_t bytes);
uint64_t tdm_hash_stream_digest(const tdm_hash_stream *stream);
void tdm_hash_stream_destroy(tdm_hash_stream *stream);

#endif
