/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint, whatever its container: a folder with config.json and safetensors (one file, or
 * shards under an index), or a GGUF file (or its first split). Floor 3. Opening reads headers and
 * maps files; no weight byte is touched.
 *
 * Threads: after open it is read-only and may be shared. Owns: every view, text and JSON node that
 * it hands out is borrowed until close. */
#ifndef TDM_FORMATS_CHECKPOINT_H
#define TDM_FORMATS_CHECKPOINT_H

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "contract/tensor.h"

typedef struct tdm_checkpoint tdm_checkpoint;
typedef struct tdm_gguf tdm_gguf;

typedef enum tdm_container { TDM_CONTAINER_SAFETENSORS, TDM_CONTAINER_GGUF } tdm_container;

typedef struct tdm_checkpoint_options {
    const tdm_fs *fs;         /* NULL: the system's */
    const tdm_log *log;       /* warnings (holes, trailing bytes); may be NULL */
    bool is_strict;           /* warnings become errors */
    bool is_tokenizer_enough; /* a folder without config.json and weights opens too (tokenizer files
                                 only) */
} tdm_checkpoint_options;

typedef struct tdm_checkpoint_tensor {
    const char *name;
    tdm_tensor_view view; /* safetensors: data may be unaligned for its dtype (MLX pads no header);
                             GGUF: aligned to 8 at least */
    uint32_t file_idx;    /* which shard */
    uint64_t offset;      /* in that file */
} tdm_checkpoint_tensor;

/* Errors: TDM_E_NOT_FOUND, TDM_E_IO, TDM_E_FORMAT, TDM_E_LIMIT, TDM_E_UNSUPPORTED, TDM_E_NOMEM;
 * where names the file and the offset or JSON path. */
TDM_NODISCARD tdm_status tdm_checkpoint_open(tdm_checkpoint **out, const tdm_alloc *alloc,
                                             const char *path,
                                             const tdm_checkpoint_options *options, tdm_error *err);
void tdm_checkpoint_close(tdm_checkpoint *checkpoint);

tdm_container tdm_checkpoint_container(const tdm_checkpoint *checkpoint);
const char *tdm_checkpoint_path(const tdm_checkpoint *checkpoint);
/* Tensors in file order; NULL past the end. */
size_t tdm_checkpoint_n_tensors(const tdm_checkpoint *checkpoint);
const tdm_checkpoint_tensor *tdm_checkpoint_tensor_at(const tdm_checkpoint *checkpoint, size_t idx);
/* NULL when there is none of that name. */
const tdm_checkpoint_tensor *tdm_checkpoint_find(const tdm_checkpoint *checkpoint,
                                                 const char *name);
/* File names for error messages: file_idx of a tensor; "" past the end. */
const char *tdm_checkpoint_file_name(const tdm_checkpoint *checkpoint, uint32_t file_idx);
size_t tdm_checkpoint_n_files(const tdm_checkpoint *checkpoint);
/* The file as it was when it was opened; NULL past the end. */
const tdm_file_id *tdm_checkpoint_file_id(const tdm_checkpoint *checkpoint, uint32_t file_idx);
/* Tells files apart without reading them whole. identity: device, inode, length and time of each;
 * content: each header, and 16 blocks of 4 KiB of each file's data. */
typedef struct tdm_checkpoint_digest {
    uint64_t identity;
    uint64_t content;
} tdm_checkpoint_digest;
void tdm_checkpoint_digest_take(const tdm_checkpoint *checkpoint, tdm_checkpoint_digest *out);
/* Little of the files will be read soon: their pages may leave memory. They read as before. */
void tdm_checkpoint_forget(const tdm_checkpoint *checkpoint);
/* The files will be read here and there; or in order again, as they are at first. */
void tdm_checkpoint_scatter(const tdm_checkpoint *checkpoint, bool is_scattered);
/* The files, borrowed; NULL past the last. */
const tdm_blob *tdm_checkpoint_file(const tdm_checkpoint *checkpoint, size_t idx);
/* What was odd but allowed (holes, trailing bytes), one sentence each. */
size_t tdm_checkpoint_n_warnings(const tdm_checkpoint *checkpoint);
const char *tdm_checkpoint_warning(const tdm_checkpoint *checkpoint, size_t idx);

/* Safetensors: the parsed JSON files of the folder; NULL when absent (or the container is GGUF). */
const tdm_json *tdm_checkpoint_config(const tdm_checkpoint *checkpoint);
const tdm_json *tdm_checkpoint_generation_config(const tdm_checkpoint *checkpoint);
const tdm_json *tdm_checkpoint_tokenizer_config(const tdm_checkpoint *checkpoint);
/* GGUF: the metadata; NULL for a folder. */
const tdm_gguf *tdm_checkpoint_gguf(const tdm_checkpoint *checkpoint);

#endif
