/* SPDX-License-Identifier: Apache-2.0
 *
 * The staged set of files. The order of operations is the whole point:
 *
 *   bytes -> sync of the file -> line of the journal -> sync of the journal
 *   all files whole -> sync of the folder -> the journal goes -> rename -> sync above (by rename)
 *
 * so that at every moment DST is absent or whole, and DST.partial can be gone on with or begun anew.
 * A journal that is missing (never made, or gone just before the rename) means to begin anew. */
#include "formats/stage.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOURNAL "journal"
#define JOURNAL_BYTES_MAX ((size_t)64 << 20)
#define CHECKPOINT_BYTES ((size_t)64 << 20)
#define READ_BYTES ((size_t)1 << 20)

typedef struct file_mark { /* the journal's last word about a file */
    uint64_t bytes;
    uint64_t hash;
} file_mark;

struct tdm_stage {
    const tdm_alloc *alloc;
    tdm_stage_options options;
    const tdm_fs *fs;
    char folder[TDM_PATH_MAX];
    file_mark *marks; /* [n_files] */
    tdm_file *journal;
    tdm_file *file; /* the one that is open */
    size_t idx;
    uint64_t at;   /* where the next byte belongs */
    uint64_t kept; /* bytes of the file that are there */
    uint64_t kept_sum;
    size_t loose; /* bytes since the last line */
    tdm_hash_stream *hash;
    bool is_published;
};

static tdm_status path_of(const tdm_stage *stage, const char *name, char out[TDM_PATH_MAX],
                          tdm_error *err) {
    return tdm_path_join(out, TDM_PATH_MAX, stage->folder, name, err);
}

static tdm_status fail_state(const tdm_stage *stage, tdm_error *err, const char *what,
                             const char *remedy) {
    (void)tdm_fail(err, TDM_E_STATE, "%s", what);
    tdm_err_where(err, "%s", stage->folder);
    tdm_err_remedy(err, "%s", remedy);
    return TDM_E_STATE;
}

/* ---- the journal ---- */

/* "file IDX BYTES HASH" and the line's own hash. */
static int format_line(char out[128], size_t idx, file_mark mark) {
    char text[96];
    const int n =
        snprintf(text, sizeof text, "file %zu %" PRIu64 " %016" PRIx64, idx, mark.bytes, mark.hash);
    return snprintf(out, 128, "%s %016" PRIx64 "\n", text, tdm_hash64(text, (size_t)n));
}

static const char HEAD[] = "tandem-stage 1 ";

static int format_head(char out[128], uint64_t plan) {
    return snprintf(out, 128, "%s%016" PRIx64 "\n", HEAD, plan);
}

/* Digits at *at up to the next blank; false when there are none or too many. */
static bool read_number(const char **at, int base, uint64_t *out) {
    static const char DIGITS[] = "0123456789abcdef";
    uint64_t value = 0;
    int n = 0;
    for (; **at != '\0' && **at != ' ' && **at != '\n'; (*at)++, n++) {
        const char *digit = strchr(DIGITS, **at);
        if (digit == NULL || digit - DIGITS >= base || n >= (base == 16 ? 16 : 18)) {
            return false;
        }
        value = value * (uint64_t)base + (uint64_t)(digit - DIGITS); /* bounded by n */
    }
    *at += **at == ' ' ? 1 : 0;
    *out = value;
    return n > 0;
}

/* One whole line; a line that is torn or of no known form ends the reading. */
static bool read_line(tdm_stage *stage, const char *line) {
    char again[128];
    file_mark mark = {0, 0};
    uint64_t idx = 0;
    const char *at = line;
    if (strncmp(at, "file ", 5) != 0) {
        return false;
    }
    at += 5;
    if (!read_number(&at, 10, &idx) || !read_number(&at, 10, &mark.bytes) ||
        !read_number(&at, 16, &mark.hash) || idx >= stage->options.n_files) {
        return false;
    }
    (void)format_line(again, (size_t)idx, mark);
    if (strncmp(line, again, strlen(again)) != 0) {
        return false;
    }
    stage->marks[idx] = mark;
    return true;
}

/* *out_bytes: of the lines that count; 0: it has no head of ours. */
static void read_journal(tdm_stage *stage, const char *text, size_t len, bool *out_is_other,
                         size_t *out_bytes) {
    char head[128];
    const int n = format_head(head, stage->options.plan);
    size_t at = 0;
    *out_bytes = 0;
    *out_is_other = false;
    if (memchr(text, '\n', len) == NULL) {
        return; /* torn before its first line was whole */
    }
    if (len < (size_t)n || memcmp(text, head, (size_t)n) != 0) { /* another's, or damaged */
        *out_is_other = len >= (size_t)n && memcmp(text, head, sizeof HEAD - 1) == 0;
        return;
    }
    at = (size_t)n;
    while (at < len) {
        const char *end = memchr(&text[at], '\n', len - at);
        char line[128] = "";
        const size_t line_len = end != NULL ? (size_t)(end + 1 - &text[at]) : sizeof line;
        if (line_len >= sizeof line) {
            break;
        }
        memcpy(line, &text[at], line_len);
        if (!read_line(stage, line)) {
            break;
        }
        at += line_len; /* bounded: stays at most len */
    }
    *out_bytes = at;
}

static tdm_status write_head(tdm_stage *stage, tdm_error *err) {
    char head[128];
    char path[TDM_PATH_MAX];
    const int n = format_head(head, stage->options.plan);
    TDM_TRY(path_of(stage, JOURNAL, path, err));
    TDM_TRY(stage->fs->open_create(stage->fs->ctx, path, &stage->journal, err));
    TDM_TRY(stage->fs->append(stage->fs->ctx, stage->journal, head, (size_t)n, err));
    TDM_TRY(stage->fs->sync(stage->fs->ctx, stage->journal, err));
    return stage->fs->sync_folder(stage->fs->ctx, stage->folder, err);
}

/* ---- opening ---- */

typedef struct sweep {
    const tdm_stage *stage;
    bool has_journal, has_stranger;
} sweep;

static void look_at(void *arg, const char *name, bool is_folder) {
    sweep *s = arg;
    bool is_ours = !is_folder && strcmp(name, JOURNAL) == 0;
    s->has_journal = s->has_journal || is_ours;
    for (size_t i = 0; i < s->stage->options.n_files; i++) {
        is_ours = is_ours || (!is_folder && strcmp(name, s->stage->options.files[i]) == 0);
    }
    s->has_stranger = s->has_stranger || !is_ours;
}

/* Takes away what an earlier run left; the caller has seen that nothing else is there. */
static tdm_status drop_files(tdm_stage *stage, tdm_error *err) {
    for (size_t i = 0; i < stage->options.n_files; i++) {
        char path[TDM_PATH_MAX];
        bool is_folder = false;
        TDM_TRY(path_of(stage, stage->options.files[i], path, err));
        if (stage->fs->exists(stage->fs->ctx, path, &is_folder)) {
            TDM_TRY(stage->fs->unlink(stage->fs->ctx, path, err));
        }
    }
    return TDM_OK;
}

/* Reads the journal under its lock and cuts it after the last line that counts. */
static tdm_status take_journal(tdm_stage *stage, tdm_error *err) {
    char path[TDM_PATH_MAX];
    tdm_blob blob;
    bool is_other = false;
    size_t keep = 0;
    TDM_TRY(path_of(stage, JOURNAL, path, err));
    TDM_TRY(tdm_blob_open(&blob, stage->fs, path, err));
    if (blob.bytes <= JOURNAL_BYTES_MAX && blob.bytes > 0) {
        read_journal(stage, (const char *)blob.data, blob.bytes, &is_other, &keep);
    }
    tdm_blob_close(&blob);
    if (is_other) {
        return fail_state(stage, err, "an unfinished output of another conversion is in the way",
                          "finish that one, or remove the folder");
    }
    TDM_TRY(stage->fs->open_append(stage->fs->ctx, path, keep, &stage->journal, err));
    if (keep > 0) {
        return TDM_OK;
    }
    stage->fs->close(stage->fs->ctx, stage->journal);
    stage->journal = NULL;
    TDM_TRY(stage->fs->unlink(stage->fs->ctx, path, err));
    TDM_TRY(drop_files(stage, err));
    return write_head(stage, err);
}

static tdm_status enter_folder(tdm_stage *stage, tdm_error *err) {
    sweep s = {.stage = stage};
    bool is_folder = false;
    if (!stage->fs->exists(stage->fs->ctx, stage->folder, &is_folder)) {
        TDM_TRY(stage->fs->make_folder(stage->fs->ctx, stage->folder, err));
        return write_head(stage, err);
    }
    if (!is_folder) {
        return fail_state(stage, err, "a file stands where the unfinished output would be",
                          "remove it, or give another name");
    }
    TDM_TRY(stage->fs->list(stage->fs->ctx, stage->folder, look_at, &s, err));
    if (s.has_stranger) {
        return fail_state(stage, err, "the folder of the unfinished output holds other files",
                          "remove it, or give another name");
    }
    if (s.has_journal) {
        return take_journal(stage, err);
    }
    TDM_TRY(drop_files(stage, err));
    return write_head(stage, err);
}

static tdm_status check_target(const tdm_stage *stage, tdm_error *err) {
    bool is_folder = false;
    if (!stage->fs->exists(stage->fs->ctx, stage->options.dst, &is_folder)) {
        return TDM_OK;
    }
    (void)tdm_fail(err, TDM_E_STATE, "the output exists already");
    tdm_err_where(err, "%s", stage->options.dst);
    tdm_err_remedy(err, "remove it, or give another name");
    return TDM_E_STATE;
}

tdm_status tdm_stage_open(tdm_stage **out_stage, const tdm_alloc *alloc,
                          const tdm_stage_options *options, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_stage *stage = tdm_mem_calloc(alloc, 1, sizeof *stage);
    *out_stage = NULL;
    if (stage == NULL) {
        return tdm_fail_nomem(err, "a staged output");
    }
    if (options->n_files == 0 || (!options->is_folder && options->n_files != 1)) {
        tdm_mem_free(alloc, stage, sizeof *stage);
        return tdm_fail(err, TDM_E_ARG, "an output of %zu files", options->n_files);
    }
    stage->alloc = alloc;
    stage->options = *options;
    stage->fs = options->fs != NULL ? options->fs : tdm_fs_system();
    stage->idx = options->n_files;
    if (options->checkpoint_bytes == 0) {
        stage->options.checkpoint_bytes = CHECKPOINT_BYTES;
    }
    stage->marks = tdm_mem_calloc(alloc, options->n_files, sizeof *stage->marks);
    if (stage->marks == NULL) {
        status = tdm_fail_nomem(err, "a staged output");
        goto done;
    }
    const int n = snprintf(stage->folder, sizeof stage->folder, "%s.partial", options->dst);
    if (n < 0 || (size_t)n >= sizeof stage->folder) {
        status = tdm_fail(err, TDM_E_LIMIT, "path is too long");
        goto done;
    }
    TDM_TRY_GOTO(status, check_target(stage, err), done);
    TDM_TRY_GOTO(status, enter_folder(stage, err), done);
    *out_stage = stage;
    stage = NULL;
done:
    tdm_stage_close(stage);
    return status;
}

void tdm_stage_close(tdm_stage *stage) {
    if (stage == NULL) {
        return;
    }
    stage->fs->close(stage->fs->ctx, stage->file);
    stage->fs->close(stage->fs->ctx, stage->journal);
    tdm_hash_stream_destroy(stage->hash);
    tdm_mem_free(stage->alloc, stage->marks, stage->options.n_files * sizeof *stage->marks);
    tdm_mem_free(stage->alloc, stage, sizeof *stage);
}

/* ---- one file ---- */

/* Calls in another order than the header says: our own mistake, and no reason to publish. */
static tdm_status fail_order(tdm_error *err) {
    return tdm_fail(err, TDM_E_STATE, "the files of an output were written out of order");
}

/* Hashes the first bytes of the file at path; *out_is_same tells whether they are the mark's. */
static tdm_status compare_with_mark(tdm_stage *stage, const char *path, file_mark mark,
                                    bool *out_is_same, tdm_error *err) {
    tdm_file *file = NULL;
    uint8_t *buffer = tdm_mem_alloc(stage->alloc, READ_BYTES);
    tdm_status status = TDM_OK;
    uint64_t at = 0;
    *out_is_same = false;
    if (buffer == NULL) {
        return tdm_fail_nomem(err, "a buffer");
    }
    TDM_TRY_GOTO(status, stage->fs->open_read(stage->fs->ctx, path, &file, err), done);
    while (at < mark.bytes) {
        const uint64_t left = mark.bytes - at;
        const size_t want = left < READ_BYTES ? (size_t)left : READ_BYTES;
        size_t got = 0;
        TDM_TRY_GOTO(status,
                     stage->fs->read_at(stage->fs->ctx, file, (size_t)at, buffer, want, &got, err),
                     done);
        if (got == 0) {
            goto done; /* shorter than the journal says */
        }
        tdm_hash_stream_update(stage->hash, buffer, got);
        at += got; /* bounded: stays at most mark.bytes */
    }
    *out_is_same = tdm_hash_stream_digest(stage->hash) == mark.hash;
done:
    stage->fs->close(stage->fs->ctx, file);
    tdm_mem_free(stage->alloc, buffer, READ_BYTES);
    return status;
}

static tdm_status new_hash(tdm_stage *stage, tdm_error *err) {
    tdm_hash_stream_destroy(stage->hash);
    stage->hash = tdm_hash_stream_create();
    return stage->hash != NULL ? TDM_OK : tdm_fail_nomem(err, "a hash");
}

tdm_status tdm_stage_begin(tdm_stage *stage, size_t idx, uint64_t *out_kept, tdm_error *err) {
    char path[TDM_PATH_MAX];
    bool is_folder = false;
    bool is_same = false;
    file_mark mark = {0, 0};
    if (stage->file != NULL || idx >= stage->options.n_files) {
        return fail_order(err);
    }
    mark = stage->marks[idx];
    TDM_TRY(path_of(stage, stage->options.files[idx], path, err));
    TDM_TRY(new_hash(stage, err));
    const bool is_there = stage->fs->exists(stage->fs->ctx, path, &is_folder);
    if (is_there && mark.bytes > 0) {
        TDM_TRY(compare_with_mark(stage, path, mark, &is_same, err));
    }
    if (is_there && !is_same) {
        TDM_TRY(stage->fs->unlink(stage->fs->ctx, path, err));
        TDM_TRY(new_hash(stage, err));
    }
    TDM_TRY(is_same ? stage->fs->open_append(stage->fs->ctx, path, (size_t)mark.bytes, &stage->file,
                                             err)
                    : stage->fs->open_create(stage->fs->ctx, path, &stage->file, err));
    stage->idx = idx;
    stage->at = 0;
    stage->loose = 0;
    stage->kept = is_same ? mark.bytes : 0;
    stage->kept_sum += stage->kept; /* bounded: of bytes that are on the disk */
    *out_kept = stage->kept;
    return TDM_OK;
}

/* What was appended so far is safe, and the journal says so. */
static tdm_status checkpoint(tdm_stage *stage, tdm_error *err) {
    char line[128];
    const file_mark mark = {stage->at, tdm_hash_stream_digest(stage->hash)};
    const int n = format_line(line, stage->idx, mark);
    TDM_TRY(stage->fs->sync(stage->fs->ctx, stage->file, err));
    TDM_TRY(stage->fs->append(stage->fs->ctx, stage->journal, line, (size_t)n, err));
    TDM_TRY(stage->fs->sync(stage->fs->ctx, stage->journal, err));
    stage->loose = 0;
    return TDM_OK;
}

tdm_status tdm_stage_append(tdm_stage *stage, const void *data, size_t bytes, tdm_error *err) {
    const uint8_t *from = data;
    if (stage->file == NULL) {
        return fail_order(err);
    }
    if (stage->at < stage->kept) {
        const uint64_t left = stage->kept - stage->at;
        const size_t passed = left < bytes ? (size_t)left : bytes;
        stage->at += passed; /* bounded: stays inside kept */
        from += passed;      /* bounded: stays inside data */
        bytes -= passed;
    }
    if (bytes == 0) {
        return TDM_OK;
    }
    TDM_TRY(stage->fs->append(stage->fs->ctx, stage->file, from, bytes, err));
    tdm_hash_stream_update(stage->hash, from, bytes);
    stage->at += bytes;    /* bounded: of bytes that are on the disk */
    stage->loose += bytes; /* bounded: one append past the checkpoint's distance */
    return stage->loose >= stage->options.checkpoint_bytes ? checkpoint(stage, err) : TDM_OK;
}

void tdm_stage_skip(tdm_stage *stage, uint64_t bytes) {
    const uint64_t left = stage->kept > stage->at ? stage->kept - stage->at : 0;
    stage->at += bytes < left ? bytes : left; /* bounded: stays inside kept */
}

tdm_status tdm_stage_end(tdm_stage *stage, tdm_error *err) {
    if (stage->file == NULL || stage->at < stage->kept) {
        return fail_order(err);
    }
    const tdm_status status = stage->loose > 0 || stage->at == 0 ? checkpoint(stage, err) : TDM_OK;
    stage->fs->close(stage->fs->ctx, stage->file);
    stage->file = NULL;
    return status;
}

uint64_t tdm_stage_kept_bytes(const tdm_stage *stage) {
    return stage->kept_sum;
}

tdm_status tdm_stage_publish(tdm_stage *stage, tdm_error *err) {
    const tdm_fs *fs = stage->fs;
    char path[TDM_PATH_MAX];
    if (stage->file != NULL || stage->is_published) {
        return fail_order(err);
    }
    TDM_TRY(check_target(stage, err)); /* it may have come meanwhile */
    TDM_TRY(fs->sync_folder(fs->ctx, stage->folder, err));
    TDM_TRY(path_of(stage, JOURNAL, path, err));
    TDM_TRY(fs->unlink(fs->ctx, path, err));
    fs->close(fs->ctx, stage->journal);
    stage->journal = NULL;
    if (stage->options.is_folder) {
        TDM_TRY(fs->rename(fs->ctx, stage->folder, stage->options.dst, err));
        stage->is_published = true;
        return TDM_OK;
    }
    TDM_TRY(path_of(stage, stage->options.files[0], path, err));
    TDM_TRY(fs->rename(fs->ctx, path, stage->options.dst, err));
    stage->is_published = true;
    /* Empty by now; that it stays behind harms nobody. */
    (void)fs->remove_folder(fs->ctx, stage->folder, NULL);
    return TDM_OK;
}
