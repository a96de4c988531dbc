/* SPDX-License-Identifier: Apache-2.0
 *
 * The checkpoint under construction, shared by the files that open its parts. Floor 3, private to
 * formats. */
#ifndef TDM_FORMATS_CHECKPOINT_PRIV_H
#define TDM_FORMATS_CHECKPOINT_PRIV_H

#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "formats/names_priv.h"
#include "formats/safetensors.h"

#define TDM_CHECKPOINT_PARTS_MAX 1024

/* One weight file: its bytes and the parsed header that points into them. */
typedef struct tdm_checkpoint_part {
    const char *name; /* without its folder */
    tdm_blob blob;
    tdm_gguf *gguf;
    tdm_safetensors *safetensors;
} tdm_checkpoint_part;

struct tdm_checkpoint {
    const tdm_alloc *alloc;
    tdm_arena arena; /* paths, names, warnings */
    const tdm_fs *fs;
    const tdm_log *log;
    bool is_strict;
    bool is_tokenizer_enough;
    tdm_container container;
    const char *path;
    tdm_checkpoint_part *parts;
    size_t n_parts, parts_cap;
    tdm_checkpoint_tensor *tensors;
    size_t n_tensors, tensors_cap;
    tdm_names by_name;
    const char **warnings;
    size_t n_warnings, warnings_cap;
    tdm_json_doc *config, *generation_config, *tokenizer_config;
};

/* What a folder holds, as far as opening a checkpoint cares. */
typedef struct tdm_folder_facts {
    bool has_config, has_generation_config, has_tokenizer_config;
    bool has_single;    /* model.safetensors */
    bool has_index;     /* model.safetensors.index.json */
    bool has_tokenizer; /* any of the files that a tokenizer is read from */
    bool has_snapshots; /* a repository folder of the Hugging Face cache */
    size_t n_gguf;      /* the first parts of splits count, later ones do not */
    char gguf[256];     /* the first of them */
    char other[256];    /* a .safetensors of another name */
    char pickle[256];   /* a .bin, .pt, .pth, .ckpt or .pkl */
} tdm_folder_facts;

/* checkpoint_path.c */
tdm_status tdm_folder_facts_read(tdm_folder_facts *out, const tdm_fs *fs, const char *path,
                                 tdm_error *err);
/* TDM_E_NOT_FOUND, with the name in the same folder that is most like it as remedy. */
tdm_status tdm_fail_no_path(const tdm_fs *fs, const char *path, tdm_error *err);
bool tdm_is_pickle_name(const char *name);
bool tdm_name_ends(const char *name, const char *suffix);
/* NAME-00001-of-00003.gguf: fills number (from 1), count and the length of NAME. */
bool tdm_split_name_parse(const char *name, uint32_t *out_number, uint32_t *out_count,
                          size_t *out_prefix_len);

/* checkpoint_shards.c: folder holds model.safetensors, or the index if is_indexed. */
tdm_status tdm_checkpoint_open_shards(tdm_checkpoint *checkpoint, const char *folder,
                                      const tdm_folder_facts *facts, tdm_error *err);
/* checkpoint_split.c: path is a GGUF file. */
tdm_status tdm_checkpoint_open_gguf(tdm_checkpoint *checkpoint, const char *path, tdm_error *err);

/* checkpoint.c: a part of that name in that folder ("": the working folder), mapped and not yet
 * parsed. The part is valid until the next is added. */
tdm_status tdm_checkpoint_add_part(tdm_checkpoint *checkpoint, const char *folder, const char *name,
                                   tdm_checkpoint_part **out, tdm_error *err);
tdm_status tdm_checkpoint_add_tensor(tdm_checkpoint *checkpoint, const char *name,
                                     const tdm_tensor_view *view, uint64_t offset, tdm_error *err);
/* Keeps the sentence and logs it; under is_strict it is an error instead. */
tdm_status tdm_checkpoint_warn(tdm_checkpoint *checkpoint, tdm_error *err, const char *fmt, ...)
    TDM_PRINTF(3, 4);
/* The holes and trailing bytes of the last part, as warnings. */
tdm_status tdm_checkpoint_warn_gaps(tdm_checkpoint *checkpoint, uint64_t hole_bytes,
                                    uint64_t hole_offset, uint64_t trailing_bytes, tdm_error *err);
/* A JSON file of the folder, parsed. */
tdm_status tdm_checkpoint_read_json(tdm_checkpoint *checkpoint, const char *folder,
                                    const char *name, tdm_json_doc **out, tdm_error *err);

#endif
