/* SPDX-License-Identifier: Apache-2.0
 *
 * How a checkpoint is meant to embed: what sentence-transformers' files say (modules.json,
 * 1_Pooling/config.json, config_sentence_transformers.json, sentence_bert_config.json), or a GGUF
 * file's pooling_type. Floor 3. What would change a vector and is not done here is refused by
 * name. */
#ifndef TDM_FORMATS_EMBED_CONFIG_H
#define TDM_FORMATS_EMBED_CONFIG_H

#include "formats/checkpoint.h"

typedef struct tdm_embed_config tdm_embed_config;

typedef struct tdm_embed_facts {
    tdm_pooling pooling;  /* AUTO: the files do not say */
    bool has_modules;     /* modules.json is there, so that is_normalized is said */
    bool is_normalized;   /* a Normalize module comes last */
    bool excludes_prompt; /* include_prompt false: a prompt's tokens are not pooled */
    int32_t dimensions;   /* truncate_dim; 0: all */
    int32_t length_max;   /* tokens of an input; 0: not said */
    size_t n_prompts;
    const char *default_prompt; /* a prompt's name, or NULL */
} tdm_embed_facts;

/* Reads what there is; a checkpoint without any of the files opens too. hidden: the width that
 * pooling must have. Errors: TDM_E_FORMAT, TDM_E_UNSUPPORTED (a module, a pooling or lowercasing
 * that is not done here), TDM_E_IO, TDM_E_NOMEM; where is the file and the path. Owns: caller
 * closes. */
TDM_NODISCARD tdm_status tdm_embed_config_open(tdm_embed_config **out, const tdm_alloc *alloc,
                                               const tdm_checkpoint *checkpoint, int32_t hidden,
                                               tdm_error *err);
/* NULL-safe. */
void tdm_embed_config_close(tdm_embed_config *config);
const tdm_embed_facts *tdm_embed_config_facts(const tdm_embed_config *config);
/* Prompt idx, what stands before a text of that kind; name NULL past the last. Borrowed until
 * close. */
const char *tdm_embed_config_prompt_at(const tdm_embed_config *config, size_t idx,
                                       const char **out_text, size_t *out_len);

#endif
