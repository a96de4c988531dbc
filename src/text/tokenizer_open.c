/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer of a checkpoint: one of the files that may hold one, with DIR/chat_template.jinja,
 * or the metadata of a GGUF file. */
#include "text/tokenizer_files.h"

#define TEMPLATE_BYTES_MAX ((size_t)4 << 20)

/* DIR/chat_template.jinja wins over what tokenizer_config.json carries. */
static tdm_status read_template_file(tdm_tokenizer *tokenizer, const char *dir, const tdm_fs *fs,
                                     tdm_error *err) {
    char path[TDM_PATH_MAX];
    tdm_blob blob;
    TDM_TRY(tdm_path_join(path, sizeof(path), dir, "chat_template.jinja", err));
    tdm_status status = tdm_blob_open(&blob, fs, path, err);
    if (status == TDM_E_NOT_FOUND) {
        tdm_err_clear(err);
        return TDM_OK;
    }
    if (status == TDM_OK && blob.bytes > TEMPLATE_BYTES_MAX) {
        status = tdm_fail(err, TDM_E_LIMIT, "a chat template of %zu bytes", blob.bytes);
        tdm_err_where(err, "%s", path);
        tdm_err_limit(err, "%zu bytes", TEMPLATE_BYTES_MAX);
    }
    if (status == TDM_OK) {
        status = tdm_tokenizer_set_template(
            tokenizer, blob.bytes > 0 ? (const char *)blob.data : "", blob.bytes, err);
    }
    tdm_blob_close(&blob);
    return status;
}

typedef struct opener {
    tdm_tokenizer **out;
    const tdm_alloc *alloc;
    const char *dir;
    const tdm_fs *fs;
    const tdm_json *config;
    tdm_error *err;
} opener;

typedef tdm_status (*maker)(tdm_tokenizer **out, const tdm_alloc *alloc, const char *text,
                            size_t len, const tdm_json *config, const char *name, tdm_error *err);

static const char *text_of(const tdm_blob *blob) {
    return blob->bytes > 0 ? (const char *)blob->data : "";
}

static tdm_status from_json(tdm_tokenizer **out, const tdm_alloc *alloc, const char *text,
                            size_t len, const tdm_json *config, const char *name, tdm_error *err) {
    return tdm_tokenizer_from_json(out, alloc, text, len, config, name, err);
}

/* A tokenizer.model is SentencePiece's, or, in folders of llama 3, lines of tiktoken. */
static tdm_status from_model(tdm_tokenizer **out, const tdm_alloc *alloc, const char *text,
                             size_t len, const tdm_json *config, const char *name, tdm_error *err) {
    const size_t n = len < 8 ? len : 8;
    bool is_base64 = n == 8;
    for (size_t i = 0; i < n && is_base64; i++) {
        const char c = text[i];
        is_base64 = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                    c == '+' || c == '/' || c == '=' || c == ' ' || c == '\n';
    }
    return is_base64 ? tdm_tokenizer_from_tiktoken(out, alloc, text, len, config, name, err)
                     : tdm_tokenizer_from_sentencepiece(out, alloc, text, len, config, name, err);
}

/* Files that hold a tokenizer, the first one found wins. */
static const struct {
    const char *file;
    maker make;
} FILES[] = {
    {"tokenizer.json", from_json},
    {"tekken.json", tdm_tokenizer_from_tekken},
    {"tokenizer.model", from_model},
    {"tokenizer.model.v3", from_model},
    {"spiece.model", tdm_tokenizer_from_sentencepiece},
    {"sentencepiece.bpe.model", tdm_tokenizer_from_sentencepiece},
    {"qwen.tiktoken", tdm_tokenizer_from_tiktoken},
    {"tiktoken.model", tdm_tokenizer_from_tiktoken},
    {"tokenizer.tiktoken", tdm_tokenizer_from_tiktoken},
};

static tdm_status open_one(const opener *o, const char *file, maker make) {
    char path[TDM_PATH_MAX];
    tdm_blob blob;
    TDM_TRY(tdm_path_join(path, sizeof(path), o->dir, file, o->err));
    tdm_status status = tdm_blob_open(&blob, o->fs, path, o->err);
    if (status == TDM_OK) {
        status = make(o->out, o->alloc, text_of(&blob), blob.bytes, o->config, path, o->err);
    }
    tdm_blob_close(&blob);
    return status;
}

static tdm_status open_vocab(const opener *o) {
    char path[TDM_PATH_MAX];
    tdm_blob vocab;
    tdm_blob merges;
    TDM_TRY(tdm_path_join(path, sizeof(path), o->dir, "vocab.json", o->err));
    TDM_TRY(tdm_blob_open(&vocab, o->fs, path, o->err));
    tdm_status status = tdm_path_join(path, sizeof(path), o->dir, "merges.txt", o->err);
    if (status == TDM_OK) {
        status = tdm_blob_open(&merges, o->fs, path, o->err);
    }
    if (status == TDM_OK) {
        const tdm_vocab_files files = {text_of(&vocab), vocab.bytes, text_of(&merges),
                                       merges.bytes};
        status = tdm_tokenizer_from_vocab(o->out, o->alloc, &files, o->config, path, o->err);
        tdm_blob_close(&merges);
    }
    tdm_blob_close(&vocab);
    return status;
}

tdm_status tdm_tokenizer_open(tdm_tokenizer **out, const tdm_alloc *alloc,
                              const tdm_checkpoint *checkpoint, const tdm_fs *fs, tdm_error *err) {
    tdm_tokenizer *tokenizer = NULL;
    const opener o = {&tokenizer,
                      alloc,
                      tdm_checkpoint_path(checkpoint),
                      fs,
                      tdm_checkpoint_tokenizer_config(checkpoint),
                      err};
    *out = NULL;
    if (tdm_checkpoint_container(checkpoint) == TDM_CONTAINER_GGUF) {
        return tdm_tokenizer_from_gguf(out, alloc, tdm_checkpoint_gguf(checkpoint), o.dir, err);
    }
    tdm_status status = TDM_E_NOT_FOUND;
    for (size_t i = 0; i < sizeof(FILES) / sizeof(FILES[0]) && status == TDM_E_NOT_FOUND; i++) {
        tdm_err_clear(err);
        status = open_one(&o, FILES[i].file, FILES[i].make);
    }
    if (status == TDM_E_NOT_FOUND) {
        tdm_err_clear(err);
        status = open_vocab(&o);
    }
    if (status == TDM_E_NOT_FOUND) {
        status = tdm_fail(err, TDM_E_NOT_FOUND, "the folder has no tokenizer");
        tdm_err_where(err,
                      "%s: tokenizer.json, tekken.json, tokenizer.model, qwen.tiktoken or "
                      "vocab.json with merges.txt",
                      o.dir);
    }
    if (status == TDM_OK) {
        status = read_template_file(tokenizer, o.dir, fs, err);
    }
    if (status == TDM_OK) {
        *out = tokenizer;
        tokenizer = NULL;
    }
    tdm_tokenizer_destroy(tokenizer);
    return status;
}
