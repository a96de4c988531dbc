/* SPDX-License-Identifier: Apache-2.0
 *
 * From rows of the source to bytes of the output. A chunk of rows is shared out to the team, each
 * member writing the bytes of its own rows, and appended when all are done: the bytes do not depend
 * on how many members there are. What an earlier run has written is passed over without being
 * computed, as far as whole tensors go.
 *
 * Codes, scales and biases of a matrix follow each other in the file and come from one computation:
 * the last two are held while the codes are written. Where they are larger than KEEP_BYTES they are
 * computed again instead. */
#include "engine/quantize/plan.h"

#include "base/arith.h"
#include "base/cpus.h"

#include <string.h>

#define CHUNK_BYTES ((size_t)16 << 20)
#define KEEP_BYTES ((size_t)64 << 20)
#define ROW_WEIGHTS_MAX ((int64_t)1 << 26)

typedef struct stream {
    tdm_quantize_job *job;
    tdm_stage *stage;
    tdm_team *team;
    int32_t n_threads;
    uint64_t done, all; /* bytes of output */
    /* scratch of a member: a row of f32, then a row's codes, scales and biases */
    uint8_t *scratch;
    size_t scratch_bytes; /* of one member */
    size_t row_f32_bytes;
    uint8_t *chunk;
    size_t chunk_bytes;
    uint8_t *keep; /* scales, then biases, of the matrix at hand */
    size_t keep_bytes;
} stream;

/* A chunk of rows on its way. */
typedef struct chunk_task {
    const stream *s;
    const tdm_item *item;
    int32_t part;
    int64_t row0;
    int64_t n_rows;
    bool keeps;           /* scales and biases go to s->keep */
    int64_t bad_row[256]; /* by member: the first with a value that is not finite; -1: none */
} chunk_task;

static size_t row_out_bytes(const tdm_item *item, int32_t part) {
    return (size_t)(item->out[part].bytes / (uint64_t)item->n_rows);
}

/* Row `row` of the output is which row of the source. */
static int64_t source_row(const tdm_item *item, int64_t row) {
    if (item->head_dim == 0) {
        return row;
    }
    const int64_t head = row / item->head_dim;
    const int64_t at = row % item->head_dim;
    return head * item->head_dim + (at % 2) * (item->head_dim / 2) + at / 2;
}

static void read_values(const tdm_item *item, int64_t row, float *out) {
    const int64_t from = source_row(item, row);
    const int64_t rows_each = item->n_rows / (int64_t)item->n_parts;
    const tdm_weight *weight = &item->parts[from / rows_each];
    tdm_weight_row(weight, from % rows_each, out);
    if (item->offset != 0.0f) {
        for (int64_t i = 0; i < item->n_in; i++) {
            out[i] += item->offset;
        }
    }
}

static void copy_row(const tdm_item *item, int64_t row, uint8_t *out) {
    const int64_t from = source_row(item, row);
    const int64_t rows_each = item->n_rows / (int64_t)item->n_parts;
    const tdm_weight *weight = &item->parts[from / rows_each];
    const size_t bytes = row_out_bytes(item, 0);
    memcpy(out, weight->data + (size_t)(from % rows_each) * bytes, bytes);
}

/* The bytes of one row at out; false when a value is not finite. */
static bool make_row(const chunk_task *task, int64_t row, uint8_t *scratch, uint8_t *out) {
    const tdm_item *item = task->item;
    const stream *s = task->s;
    float *values = (float *)(void *)scratch;
    if (item->kind == TDM_ITEM_COPY) {
        copy_row(item, row, out);
        return true;
    }
    read_values(item, row, values);
    if (!tdm_quantize_is_finite(values, item->n_in, NULL)) {
        return false;
    }
    if (item->kind == TDM_ITEM_ROWS) {
        tdm_quantize_row(item->out[0].dtype, values, item->n_in, out);
        return true;
    }
    const size_t scale_bytes = row_out_bytes(item, 1);
    uint8_t *part[TDM_QUANTIZE_PARTS];
    part[0] = scratch + s->row_f32_bytes;
    part[1] = part[0] + row_out_bytes(item, 0);
    part[2] = part[1] + scale_bytes;
    part[task->part] = out;
    if (task->keeps) {
        part[1] = s->keep + (size_t)row * scale_bytes;
        part[2] = s->keep + (size_t)item->out[1].bytes + (size_t)row * scale_bytes;
    }
    tdm_quantize_mlx_row(&item->form, values, item->n_in, part[0], part[1],
                         item->n_out == 3 ? part[2] : NULL);
    return true;
}

static void run_member(void *arg, int32_t idx, int32_t n) {
    chunk_task *task = arg;
    const stream *s = task->s;
    const size_t bytes = row_out_bytes(task->item, task->part);
    const int64_t begin = task->n_rows * idx / n;
    const int64_t end = task->n_rows * (idx + 1) / n;
    task->bad_row[idx] = -1;
    for (int64_t i = begin; i < end; i++) {
        if (!make_row(task, task->row0 + i, s->scratch + (size_t)idx * s->scratch_bytes,
                      s->chunk + (size_t)i * bytes)) {
            task->bad_row[idx] = task->row0 + i;
            return;
        }
    }
}

static tdm_status check_finite(const chunk_task *task, tdm_error *err) {
    for (int32_t i = 0; i < task->s->n_threads; i++) {
        if (task->bad_row[i] >= 0) {
            (void)tdm_fail(err, TDM_E_FORMAT,
                           "tensor \"%.100s\" has a value that is not finite in row %lld",
                           task->item->name, (long long)task->bad_row[i]);
            tdm_err_where(err, "%s", task->s->job->src);
            tdm_err_remedy(err, "the checkpoint is damaged; fetch it again");
            return TDM_E_FORMAT;
        }
    }
    return TDM_OK;
}

/* What was read will not be read again soon. */
static void forget(const chunk_task *task) {
    const tdm_item *item = task->item;
    const tdm_fs *fs = task->s->job->fs;
    const int64_t rows_each = item->n_rows / (int64_t)item->n_parts;
    int64_t row = task->row0;
    int64_t left = task->n_rows;
    while (left > 0) {
        const tdm_weight *weight = &item->parts[row / rows_each];
        const int64_t at = row % rows_each;
        const int64_t n = left < rows_each - at ? left : rows_each - at;
        fs->forget(fs->ctx, weight->data + (size_t)at * weight->row_bytes,
                   (size_t)n * weight->row_bytes);
        row += n;
        left -= n;
    }
}

static tdm_status tell(stream *s, size_t bytes, tdm_error *err) {
    const tdm_quantize_options *options = s->job->options;
    s->done += bytes;
    if (options->progress != NULL && options->progress(options->progress_arg, s->done, s->all)) {
        (void)tdm_fail(err, TDM_E_CANCELLED, "stopped");
        tdm_err_remedy(err, "the same command goes on where this one ended");
        return TDM_E_CANCELLED;
    }
    return TDM_OK;
}

/* ---- scratch ---- */

static tdm_status ensure(const stream *s, uint8_t **buffer, size_t *held, size_t bytes,
                         tdm_error *err) {
    if (bytes <= *held) {
        return TDM_OK;
    }
    tdm_mem_free_aligned(s->job->alloc, *buffer, *held, TDM_ALIGN_CACHE_LINE);
    *held = 0;
    *buffer = tdm_mem_alloc_aligned(s->job->alloc, bytes, TDM_ALIGN_CACHE_LINE);
    if (*buffer == NULL) {
        return tdm_fail_nomem(err, "a buffer of the conversion");
    }
    *held = bytes;
    return TDM_OK;
}

static tdm_status ensure_scratch(stream *s, const tdm_item *item, tdm_error *err) {
    size_t bytes = TDM_ALIGN_CACHE_LINE;
    size_t held = s->scratch_bytes * (size_t)s->n_threads;
    if (item->kind == TDM_ITEM_COPY) {
        return TDM_OK;
    }
    if (item->n_in > ROW_WEIGHTS_MAX) {
        (void)tdm_fail(err, TDM_E_LIMIT, "tensor \"%.100s\" has rows of %lld weights", item->name,
                       (long long)item->n_in);
        tdm_err_limit(err, "%lld", (long long)ROW_WEIGHTS_MAX);
        return TDM_E_LIMIT;
    }
    s->row_f32_bytes = (size_t)item->n_in * sizeof(float);
    bytes += s->row_f32_bytes;
    for (int32_t i = 0; i < item->n_out && item->kind == TDM_ITEM_MLX; i++) {
        bytes += row_out_bytes(item, i);
    }
    bytes = (bytes + TDM_ALIGN_CACHE_LINE - 1) / TDM_ALIGN_CACHE_LINE * TDM_ALIGN_CACHE_LINE;
    if (bytes > s->scratch_bytes) {
        const tdm_status status = ensure(s, &s->scratch, &held, bytes * (size_t)s->n_threads, err);
        s->scratch_bytes = status == TDM_OK ? bytes : 0;
        TDM_TRY(status);
    }
    return TDM_OK;
}

/* ---- one tensor of the output ---- */

/* One row without end (a copied tensor) is cut by bytes. */
static tdm_status append_whole(stream *s, const tdm_item *item, tdm_error *err) {
    const uint8_t *data = item->parts->data;
    size_t left = (size_t)item->out[0].bytes;
    while (left > 0) {
        const size_t n = left < CHUNK_BYTES ? left : CHUNK_BYTES;
        TDM_TRY(tdm_stage_append(s->stage, data, n, err));
        s->job->fs->forget(s->job->fs->ctx, data, n);
        TDM_TRY(tell(s, n, err));
        data += n;
        left -= n;
    }
    return TDM_OK;
}

static tdm_status append_rows(stream *s, const tdm_item *item, int32_t part, bool keeps,
                              tdm_error *err) {
    const size_t bytes = row_out_bytes(item, part);
    const int64_t fits = bytes > 0 && bytes < CHUNK_BYTES ? (int64_t)(CHUNK_BYTES / bytes) : 1;
    const int64_t step = fits < item->n_rows ? fits : item->n_rows;
    TDM_TRY(ensure(s, &s->chunk, &s->chunk_bytes, (size_t)step * bytes + 1, err));
    for (int64_t row = 0; row < item->n_rows; row += step) {
        chunk_task task = {.s = s, .item = item, .part = part, .row0 = row, .keeps = keeps};
        task.n_rows = item->n_rows - row < step ? item->n_rows - row : step;
        tdm_team_run(s->team, run_member, &task);
        TDM_TRY(check_finite(&task, err));
        forget(&task);
        TDM_TRY(tdm_stage_append(s->stage, s->chunk, (size_t)task.n_rows * bytes, err));
        TDM_TRY(tell(s, (size_t)task.n_rows * bytes, err));
    }
    return TDM_OK;
}

static tdm_status append_kept(stream *s, const tdm_item *item, int32_t part, tdm_error *err) {
    const size_t offset = part == 1 ? 0 : (size_t)item->out[1].bytes;
    TDM_TRY(tdm_stage_append(s->stage, s->keep + offset, (size_t)item->out[part].bytes, err));
    return tell(s, (size_t)item->out[part].bytes, err);
}

/* kept: bytes of this item and what follows that are in the file already. */
static tdm_status append_item(stream *s, const tdm_item *item, uint64_t kept, tdm_error *err) {
    const uint64_t side = item->n_out > 1 ? item->out[1].bytes * (uint64_t)(item->n_out - 1) : 0;
    const bool keeps = item->kind == TDM_ITEM_MLX && side <= KEEP_BYTES;
    bool has_kept = false;
    TDM_TRY(ensure_scratch(s, item, err));
    if (keeps) {
        TDM_TRY(ensure(s, &s->keep, &s->keep_bytes, (size_t)side, err));
    }
    for (int32_t part = 0; part < item->n_out; part++) {
        const uint64_t bytes = item->out[part].bytes;
        if (bytes <= kept) {
            kept -= bytes;
            tdm_stage_skip(s->stage, bytes);
            TDM_TRY(tell(s, (size_t)bytes, err));
            continue;
        }
        kept = 0;
        if (item->kind == TDM_ITEM_COPY && item->n_rows == 1) {
            TDM_TRY(append_whole(s, item, err));
        } else if (has_kept) {
            TDM_TRY(append_kept(s, item, part, err));
        } else {
            TDM_TRY(append_rows(s, item, part, keeps && part == 0, err));
            has_kept = keeps && part == 0;
        }
    }
    return TDM_OK;
}

/* Zeros up to the alignment of the next tensor. */
static tdm_status append_padding(stream *s, uint64_t at, uint64_t *out_at, tdm_error *err) {
    static const uint8_t ZEROS[64];
    const uint64_t align = s->job->alignment;
    const uint64_t padding = (align - at % align) % align;
    *out_at = at + padding;
    return padding > 0 ? tdm_stage_append(s->stage, ZEROS, (size_t)padding, err) : TDM_OK;
}

static tdm_status stream_file(stream *s, uint32_t file, tdm_error *err) {
    const tdm_quantize_job *job = s->job;
    const tdm_buf *header = &job->headers[file];
    uint64_t kept = 0;
    uint64_t at = header->len;
    TDM_TRY(tdm_stage_begin(s->stage, file, &kept, err));
    TDM_TRY(tdm_stage_append(s->stage, header->data, header->len, err));
    for (size_t i = 0; i < job->n_items; i++) {
        const tdm_item *item = &job->items[i];
        if (item->file_idx != file) {
            continue;
        }
        TDM_TRY(append_padding(s, at, &at, err));
        TDM_TRY(append_item(s, item, kept > at ? kept - at : 0, err));
        for (int32_t k = 0; k < item->n_out; k++) {
            at += item->out[k].bytes; /* sums were checked when the header was made */
        }
    }
    TDM_TRY(append_padding(s, at, &at, err));
    return tdm_stage_end(s->stage, err);
}

tdm_status tdm_quantize_stream(tdm_quantize_job *job, tdm_stage *stage, tdm_error *err) {
    tdm_status status = TDM_OK;
    stream s = {.job = job, .stage = stage};
    s.n_threads = job->options->n_threads > 0 ? job->options->n_threads : tdm_cpu_count();
    s.n_threads = s.n_threads < 256 ? s.n_threads : 256;
    s.all = job->report->bytes;
    TDM_TRY(tdm_team_create(&s.team, job->alloc, s.n_threads, err));
    for (uint32_t file = 0; file < job->n_weight_files && status == TDM_OK; file++) {
        status = stream_file(&s, file, err);
    }
    tdm_team_destroy(s.team);
    tdm_mem_free_aligned(job->alloc, s.scratch, s.scratch_bytes * (size_t)s.n_threads,
                         TDM_ALIGN_CACHE_LINE);
    tdm_mem_free_aligned(job->alloc, s.chunk, s.chunk_bytes, TDM_ALIGN_CACHE_LINE);
    tdm_mem_free_aligned(job->alloc, s.keep, s.keep_bytes, TDM_ALIGN_CACHE_LINE);
    return status;
}
