/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading of sentence-transformers' files. Modules run in the order of modules.json; the only
 * sequence that is run here is a transformer, a pooling and perhaps a normalization. Source:
 * sentence-transformers, models/Pooling.py and SentenceTransformer.py; llama.cpp,
 * enum llama_pooling_type. */
#include "formats/embed_config.h"

#include "formats/checkpoint_priv.h"

#include <stdio.h>
#include <string.h>

#define LENGTH_MAX 16777216

struct tdm_embed_config {
    const tdm_alloc *alloc;
    tdm_embed_facts facts;
    tdm_json_doc *modules, *pooling, *sentence, *bert;
    const tdm_json *prompts; /* object, or NULL */
};

static tdm_status fail_at(const char *file, const char *path, tdm_status status, tdm_error *err) {
    tdm_err_where(err, "%s: %s", file, path);
    tdm_err_remedy(err, status == TDM_E_UNSUPPORTED
                            ? "its vectors would be others than the model's makers meant"
                            : "fetch the file again, or mend it");
    return status;
}

static const tdm_json *root_of(const tdm_json_doc *doc) {
    return doc != NULL ? tdm_json_doc_root(doc) : NULL;
}

/* *out NULL when the folder has no such file. */
static tdm_status read_document(tdm_embed_config *config, const tdm_checkpoint *checkpoint,
                                const char *name, tdm_json_doc **out, tdm_error *err) {
    char path[TDM_PATH_MAX];
    bool is_folder = false;
    tdm_blob blob = {0};
    tdm_status status = TDM_OK;
    *out = NULL;
    TDM_TRY(tdm_path_join(path, sizeof path, checkpoint->path, name, err));
    if (!checkpoint->fs->exists(checkpoint->fs->ctx, path, &is_folder) || is_folder) {
        return TDM_OK;
    }
    TDM_TRY(tdm_blob_open(&blob, checkpoint->fs, path, err));
    status = tdm_json_parse(out, config->alloc, blob.data != NULL ? (const char *)blob.data : "",
                            blob.bytes, NULL, name, err);
    tdm_blob_close(&blob);
    return status;
}

/* The last word of "sentence_transformers.models.Pooling". */
static const char *kind_of(const tdm_json *module) {
    const tdm_json *type = tdm_json_get(module, "type");
    const char *dot = NULL;
    if (!tdm_json_is(type, TDM_JSON_STRING)) {
        return "";
    }
    dot = strrchr(type->u.text, '.');
    return dot != NULL ? dot + 1 : type->u.text;
}

static tdm_status read_modules(tdm_embed_config *config, const char **out_pooling, tdm_error *err) {
    static const char FILE_NAME[] = "modules.json";
    static const char *const ORDER[] = {"Transformer", "Pooling", "Normalize"};
    const tdm_json *list = root_of(config->modules);
    if (!tdm_json_is(list, TDM_JSON_ARRAY) || tdm_json_len(list) < 2) {
        (void)tdm_fail(err, TDM_E_FORMAT, "no list of a transformer and a pooling");
        return fail_at(FILE_NAME, "$", TDM_E_FORMAT, err);
    }
    for (size_t i = 0; i < tdm_json_len(list); i++) {
        const char *kind = kind_of(&list->u.items[i]);
        const tdm_json *path = tdm_json_get(&list->u.items[i], "path");
        char where[32];
        (void)snprintf(where, sizeof where, "$[%zu].type", i);
        if (i >= 3 || strcmp(kind, ORDER[i]) != 0) {
            (void)tdm_fail(err, TDM_E_UNSUPPORTED, "a module \"%.60s\" in place %zu", kind, i);
            return fail_at(FILE_NAME, where, TDM_E_UNSUPPORTED, err);
        }
        if (i == 0 && path != NULL && !tdm_json_text_is(path, "")) {
            (void)tdm_fail(err, TDM_E_UNSUPPORTED, "a transformer in a folder of its own");
            return fail_at(FILE_NAME, "$[0].path", TDM_E_UNSUPPORTED, err);
        }
        if (i == 1 && tdm_json_is(path, TDM_JSON_STRING)) {
            if (path->u.text[0] == '.' || strchr(path->u.text, '/') != NULL) {
                (void)tdm_fail(err, TDM_E_UNSUPPORTED, "a pooling outside the folder");
                return fail_at(FILE_NAME, "$[1].path", TDM_E_UNSUPPORTED, err);
            }
            *out_pooling = path->u.text;
        }
    }
    config->facts.has_modules = true;
    config->facts.is_normalized = tdm_json_len(list) == 3;
    return TDM_OK;
}

static const struct {
    const char *flag; /* pooling_mode_... */
    const char *word; /* of pooling_mode, in newer files */
    tdm_pooling pooling;
} MODES[] = {
    {"lasttoken", "lasttoken", TDM_POOLING_LAST},
    {"mean_tokens", "mean", TDM_POOLING_MEAN},
    {"cls_token", "cls", TDM_POOLING_FIRST},
    {"max_tokens", "max", TDM_POOLING_AUTO}, /* AUTO: not done here */
    {"mean_sqrt_len_tokens", "mean_sqrt_len_tokens", TDM_POOLING_AUTO},
    {"weightedmean_tokens", "weightedmean", TDM_POOLING_AUTO},
};

static tdm_status fail_mode(const char *name, const char *key, const char *file, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "pooling \"%.60s\" is not done here", name);
    tdm_err_limit(err, "lasttoken, mean or cls, and one of them");
    return fail_at(file, key, TDM_E_UNSUPPORTED, err);
}

/* The one mode that is on. */
static tdm_status read_modes(tdm_embed_config *config, const tdm_json *object, const char *file,
                             tdm_error *err) {
    const tdm_json *word = tdm_json_get(object, "pooling_mode");
    int32_t n = 0;
    for (size_t i = 0; i < sizeof MODES / sizeof MODES[0]; i++) {
        char key[64];
        bool is_on = tdm_json_text_is(word, MODES[i].word);
        (void)snprintf(key, sizeof key, "pooling_mode_%s", MODES[i].flag);
        (void)tdm_json_as_bool(tdm_json_get(object, key), &is_on);
        if (is_on && (MODES[i].pooling == TDM_POOLING_AUTO || ++n > 1)) {
            return fail_mode(MODES[i].word, key, file, err);
        }
        config->facts.pooling = is_on ? MODES[i].pooling : config->facts.pooling;
    }
    if (n == 0) {
        return fail_mode(tdm_json_is(word, TDM_JSON_STRING) ? word->u.text : "none", "$", file,
                         err);
    }
    return TDM_OK;
}

static tdm_status read_pooling(tdm_embed_config *config, const tdm_checkpoint *checkpoint,
                               const char *folder, int32_t hidden, tdm_error *err) {
    char name[300];
    int64_t width = hidden;
    bool is_included = true;
    const tdm_json *object = NULL;
    const tdm_json *said = NULL;
    (void)snprintf(name, sizeof name, "%.255s%sconfig.json", folder, folder[0] != '\0' ? "/" : "");
    TDM_TRY(read_document(config, checkpoint, name, &config->pooling, err));
    if (config->pooling == NULL) {
        if (!config->facts.has_modules) {
            return TDM_OK;
        }
        (void)tdm_fail(err, TDM_E_FORMAT, "the folder lacks %.120s", name);
        return fail_at("modules.json", "$[1].path", TDM_E_FORMAT, err);
    }
    object = root_of(config->pooling);
    said = tdm_json_get(object, "word_embedding_dimension");
    if (said != NULL && (!tdm_json_as_i64(said, &width) || width != hidden)) {
        (void)tdm_fail(err, TDM_E_FORMAT, "vectors of another width than the model's %d",
                       (int)hidden);
        return fail_at(name, "word_embedding_dimension", TDM_E_FORMAT, err);
    }
    (void)tdm_json_as_bool(tdm_json_get(object, "include_prompt"), &is_included);
    config->facts.excludes_prompt = !is_included;
    return read_modes(config, object, name, err);
}

/* A whole number from 1 to max under key; absent or null leaves *out. */
static tdm_status read_count(const tdm_json *object, const char *file, const char *key, int64_t max,
                             int32_t *out, tdm_error *err) {
    const tdm_json *node = tdm_json_get(object, key);
    int64_t value = 0;
    if (node == NULL || tdm_json_is(node, TDM_JSON_NULL)) {
        return TDM_OK;
    }
    if (!tdm_json_as_i64(node, &value) || value < 1 || value > max) {
        (void)tdm_fail(err, TDM_E_FORMAT, "%s is no possible number", key);
        tdm_err_limit(err, "1 to %lld", (long long)max);
        return fail_at(file, key, TDM_E_FORMAT, err);
    }
    *out = (int32_t)value;
    return TDM_OK;
}

static tdm_status read_prompts(tdm_embed_config *config, const tdm_json *object, int32_t hidden,
                               tdm_error *err) {
    static const char FILE_NAME[] = "config_sentence_transformers.json";
    const tdm_json *prompts = tdm_json_get(object, "prompts");
    const tdm_json *name = tdm_json_get(object, "default_prompt_name");
    TDM_TRY(read_count(object, FILE_NAME, "truncate_dim", hidden, &config->facts.dimensions, err));
    for (size_t i = 0; tdm_json_is(prompts, TDM_JSON_OBJECT) && i < tdm_json_len(prompts); i++) {
        if (!tdm_json_is(&prompts->u.items[i], TDM_JSON_STRING)) {
            (void)tdm_fail(err, TDM_E_FORMAT, "prompt \"%.60s\" is no text",
                           prompts->u.items[i].key);
            return fail_at(FILE_NAME, "prompts", TDM_E_FORMAT, err);
        }
    }
    if (tdm_json_is(prompts, TDM_JSON_OBJECT)) {
        config->prompts = prompts;
        config->facts.n_prompts = tdm_json_len(prompts);
    }
    if (tdm_json_is(name, TDM_JSON_STRING)) {
        if (!tdm_json_is(tdm_json_get(config->prompts, name->u.text), TDM_JSON_STRING)) {
            (void)tdm_fail(err, TDM_E_FORMAT, "there is no prompt \"%.60s\"", name->u.text);
            return fail_at(FILE_NAME, "default_prompt_name", TDM_E_FORMAT, err);
        }
        config->facts.default_prompt = name->u.text;
    }
    return TDM_OK;
}

static tdm_status read_folder(tdm_embed_config *config, const tdm_checkpoint *checkpoint,
                              int32_t hidden, tdm_error *err) {
    static const char BERT[] = "sentence_bert_config.json";
    const char *pooling = "1_Pooling";
    bool is_lowered = false;
    TDM_TRY(read_document(config, checkpoint, "modules.json", &config->modules, err));
    if (config->modules != NULL) {
        TDM_TRY(read_modules(config, &pooling, err));
    }
    TDM_TRY(read_pooling(config, checkpoint, pooling, hidden, err));
    TDM_TRY(read_document(config, checkpoint, "config_sentence_transformers.json",
                          &config->sentence, err));
    TDM_TRY(read_prompts(config, root_of(config->sentence), hidden, err));
    TDM_TRY(read_document(config, checkpoint, BERT, &config->bert, err));
    (void)tdm_json_as_bool(tdm_json_get(root_of(config->bert), "do_lower_case"), &is_lowered);
    if (is_lowered) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "texts are to be lowercased");
        return fail_at(BERT, "do_lower_case", TDM_E_UNSUPPORTED, err);
    }
    return read_count(root_of(config->bert), BERT, "max_seq_length", LENGTH_MAX,
                      &config->facts.length_max, err);
}

/* ARCH.pooling_type: 0 none, 1 mean, 2 cls, 3 last, 4 rank. */
static tdm_status read_gguf(tdm_embed_config *config, const tdm_checkpoint *checkpoint,
                            tdm_error *err) {
    static const tdm_pooling TYPES[] = {TDM_POOLING_AUTO, TDM_POOLING_MEAN, TDM_POOLING_FIRST,
                                        TDM_POOLING_LAST};
    const tdm_gguf *gguf = tdm_checkpoint_gguf(checkpoint);
    const char *arch = tdm_gguf_architecture(gguf);
    char key[160];
    uint64_t type = 0;
    (void)snprintf(key, sizeof key, "%.100s.pooling_type", arch != NULL ? arch : "");
    if (!tdm_gguf_has(gguf, key)) {
        return TDM_OK;
    }
    if (!tdm_gguf_get_u64(gguf, key, &type) || type >= sizeof TYPES / sizeof TYPES[0]) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "pooling type %llu is not done here",
                       (unsigned long long)type);
        tdm_err_limit(err, "0 none, 1 mean, 2 cls, 3 last");
        return fail_at(tdm_checkpoint_file_name(checkpoint, 0), key, TDM_E_UNSUPPORTED, err);
    }
    config->facts.pooling = TYPES[type];
    return TDM_OK;
}

tdm_status tdm_embed_config_open(tdm_embed_config **out, const tdm_alloc *alloc,
                                 const tdm_checkpoint *checkpoint, int32_t hidden, tdm_error *err) {
    tdm_embed_config *config = tdm_mem_calloc(alloc, 1, sizeof *config);
    tdm_status status = TDM_OK;
    *out = NULL;
    if (config == NULL) {
        return tdm_fail_nomem(err, "how a model embeds");
    }
    config->alloc = alloc;
    status = tdm_checkpoint_container(checkpoint) == TDM_CONTAINER_GGUF
                 ? read_gguf(config, checkpoint, err)
                 : read_folder(config, checkpoint, hidden, err);
    if (status != TDM_OK) {
        tdm_embed_config_close(config);
        return status;
    }
    *out = config;
    return TDM_OK;
}

void tdm_embed_config_close(tdm_embed_config *config) {
    if (config != NULL) {
        tdm_json_doc_destroy(config->modules);
        tdm_json_doc_destroy(config->pooling);
        tdm_json_doc_destroy(config->sentence);
        tdm_json_doc_destroy(config->bert);
        tdm_mem_free(config->alloc, config, sizeof *config);
    }
}

const tdm_embed_facts *tdm_embed_config_facts(const tdm_embed_config *config) {
    return &config->facts;
}

const char *tdm_embed_config_prompt_at(const tdm_embed_config *config, size_t idx,
                                       const char **out_text, size_t *out_len) {
    const tdm_json *prompt = NULL;
    *out_text = NULL;
    *out_len = 0;
    if (idx >= config->facts.n_prompts) {
        return NULL;
    }
    prompt = &config->prompts->u.items[idx];
    *out_text = prompt->u.text;
    *out_len = prompt->len;
    return prompt->key;
}
