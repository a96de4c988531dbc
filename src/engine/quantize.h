/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint into a smaller one. Floor 7.
 *
 * Everything about the output but its bytes is planned from headers first: which tensors, of which
 * type, at which offsets. Then tensors stream through one after another, rows spread over threads;
 * the bytes depend on the plan alone. Memory beside the mapped source: 64 MiB of output and work,
 * scales of one matrix where they fit into another 64 MiB, one row of f32 a thread, and what the
 * headers of both checkpoints need. Pages of the source that were read are let go.
 *
 * An interrupted run leaves DST.partial; the same call goes on with it and gives the same bytes.
 * Source: shared/spec/systems.md 169; mlx-lm 0.32.2's conversion for what is quantized. */
#ifndef TDM_ENGINE_QUANTIZE_H
#define TDM_ENGINE_QUANTIZE_H

#include "base/file.h"
#include "base/log.h"

typedef struct tdm_quantize_options {
    const tdm_fs *fs;        /* NULL: the system's */
    const tdm_log *log;      /* warnings; may be NULL */
    const char *gguf;        /* NULL: MLX layout; else the type of matrices, "Q4_0", "Q4_K_M" ... */
    const char *mode;        /* MLX: NULL: "affine"; "mxfp4", "mxfp8", "nvfp4" */
    int32_t bits, group;     /* MLX: 0: what the mode is used with: affine 4 and 64 */
    const char *recipe;      /* NULL: none; "mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6" */
    const char *recipe_text; /* NULL: none; JSON, see docs/quantize.md */
    size_t recipe_len;
    const char *recipe_name; /* of that text, for errors */
    int32_t n_threads;       /* 0: physical cores */
    uint64_t shard_bytes;    /* MLX: most bytes of a shard; 0: 5 GiB */
    size_t checkpoint_bytes; /* between two points to go on from; 0: 64 MiB */
    /* Bytes of output that are there, of all; true stops with TDM_E_CANCELLED. */
    bool (*progress)(void *arg, uint64_t done, uint64_t all);
    void *progress_arg;
} tdm_quantize_options;

typedef struct tdm_quantize_report {
    uint64_t bytes;         /* of weights in the output */
    uint64_t source_bytes;  /* of weights in the source */
    uint64_t n_weights;     /* values that they stand for */
    uint64_t resumed_bytes; /* that an earlier run had written */
    size_t n_quantized;     /* tensors of the model that are quantized now */
    size_t n_kept;          /* and that are not */
    size_t n_files;         /* of weights */
} tdm_quantize_report;

/* Errors: TDM_E_ARG (options, recipe), TDM_E_UNSUPPORTED (a family, type or layout, by name),
 * TDM_E_STATE (dst exists; see formats/stage.h), TDM_E_FORMAT and TDM_E_SHAPE (the source),
 * TDM_E_LIMIT, TDM_E_IO, TDM_E_NOMEM, TDM_E_CANCELLED. */
TDM_NODISCARD tdm_status tdm_quantize(const tdm_alloc *alloc, const char *src, const char *dst,
                                      const tdm_quantize_options *options,
                                      tdm_quantize_report *report, tdm_error *err);

#endif
