/* SPDX-License-Identifier: Apache-2.0
 *
 * What an output will hold, and the pieces of the job. Floor 7, private to engine/quantize. */
#ifndef TDM_ENGINE_QUANTIZE_PLAN_H
#define TDM_ENGINE_QUANTIZE_PLAN_H

#include "base/thread.h"
#include "engine/quantize.h"
#include "engine/quantize/recipe.h"
#include "formats/config.h"
#include "formats/quant_config.h"
#include "formats/safetensors_write.h"
#include "formats/stage.h"
#include "tensor/quantize.h"
#include "tensor/weight.h"

#define TDM_QUANTIZE_PARTS 3 /* codes, scales, biases */

typedef enum tdm_item_kind {
    TDM_ITEM_COPY, /* bytes as they are */
    TDM_ITEM_ROWS, /* rows of f32 into a stored type */
    TDM_ITEM_MLX   /* codes, scales and, for affine, biases */
} tdm_item_kind;

/* One source tensor, or several of one shape under each other (experts), and what it becomes. */
typedef struct tdm_item {
    tdm_item_kind kind;
    const char *name; /* of the source, for errors */
    const tdm_weight *parts;
    size_t n_parts;
    int64_t n_rows; /* of all parts */
    int64_t n_in;
    tdm_mlx_form form; /* MLX */
    /* ROWS. The rows of each head are interleaved for rotation by neighbours: row 2i of the output is
     * row i of a head, row 2i + 1 its row half + i. head_dim 0: rows stay. */
    int32_t head_dim;
    float offset;                             /* added to each value: gemma's norms */
    tdm_write_tensor out[TDM_QUANTIZE_PARTS]; /* [n_out] */
    int32_t n_out;
    uint32_t file_idx;
} tdm_item;

typedef struct tdm_small_file { /* written whole, after the weights */
    const char *name;
    tdm_buf content;
} tdm_small_file;

#define TDM_QUANTIZE_SMALL_MAX 24

typedef struct tdm_quantize_job {
    const tdm_alloc *alloc;
    const tdm_quantize_options *options;
    const tdm_fs *fs;
    const char *src, *dst;
    tdm_checkpoint *checkpoint;
    tdm_recipe recipe;
    tdm_arena arena; /* names, weights, descriptors */
    tdm_item *items; /* in the order of the output */
    size_t n_items, items_cap;
    const char **files; /* [n_files] of the output; the first n_weight_files hold items */
    size_t n_files, n_weight_files;
    tdm_buf *headers;   /* [n_weight_files] */
    uint64_t *sizes;    /* [n_weight_files] headers included */
    uint32_t alignment; /* of a tensor's offset in the file */
    bool is_gguf;
    tdm_small_file small[TDM_QUANTIZE_SMALL_MAX];
    size_t n_small;
    tdm_quantize_report *report;
} tdm_quantize_job;

/* plan.c */
/* Item at the end, zeroed; NULL when memory is out. Valid until the next. */
tdm_item *tdm_quantize_add_item(tdm_quantize_job *job);
char *tdm_quantize_text(tdm_quantize_job *job, const char *text, size_t len);
/* What a tensor of the source stands for as a matrix of rows: all but the last axis are rows. */
TDM_NODISCARD tdm_status tdm_quantize_describe(tdm_quantize_job *job, const tdm_quant_config *quant,
                                               const tdm_checkpoint_tensor *tensor, tdm_weight *out,
                                               tdm_error *err);
/* Scales and the like beside a weight, which speaks for them. */
bool tdm_quantize_is_beside(const tdm_checkpoint *checkpoint, const char *name);
/* Hash of everything that the bytes follow from. */
TDM_NODISCARD tdm_status tdm_quantize_plan_hash(const tdm_quantize_job *job, uint64_t *out,
                                                tdm_error *err);

/* mlx.c, gguf.c */
TDM_NODISCARD tdm_status tdm_quantize_plan_mlx(tdm_quantize_job *job, tdm_error *err);
TDM_NODISCARD tdm_status tdm_quantize_plan_gguf(tdm_quantize_job *job, tdm_error *err);

/* stream.c */
TDM_NODISCARD tdm_status tdm_quantize_stream(tdm_quantize_job *job, tdm_stage *stage,
                                             tdm_error *err);

#endif
