/* SPDX-License-Identifier: Apache-2.0
 *
 * How the config readers see a file: a table of fields with ranges, over a source that is JSON or
 * GGUF metadata. Floor 3, private to formats. */
#ifndef TDM_FORMATS_CONFIG_PRIV_H
#define TDM_FORMATS_CONFIG_PRIV_H

#include "formats/config.h"
#include "formats/gguf.h"

/* Where values come from. JSON: the first of scopes that has the key answers. GGUF: ARCH "." key.
 */
typedef struct tdm_config_source {
    const tdm_gguf *gguf; /* NULL: JSON */
    const char *file;     /* for errors */
    const char *prefix;   /* GGUF: "llama."; may be "" */
    int32_t n_layers;     /* 0 until it is read */
    struct {
        const tdm_json *object; /* NULL: not there */
        const char *path;       /* "$.text_config" */
    } scopes[2];
    tdm_error *err;
} tdm_config_source;

typedef enum tdm_field_kind {
    TDM_FIELD_I32,
    TDM_FIELD_I32_FIRST,  /* of a GGUF array of one a layer the first that is not 0 */
    TDM_FIELD_I32_LAYERS, /* all of that array, at offset; a single number is left alone */
    TDM_FIELD_I64,
    TDM_FIELD_F64
} tdm_field_kind;

typedef enum tdm_field_need {
    TDM_NEED_NONE,
    TDM_NEED_JSON, /* required in config.json only */
    TDM_NEED_BOTH
} tdm_field_need;

#define TDM_FIELD_NAMES_MAX 5

/* One row of a range table. The value is written at offset in a record; an absent one leaves the
 * record alone. null in JSON means absent. A GGUF array is taken for a number of other kinds where
 * its elements are equal. */
typedef struct tdm_field {
    const char *json[TDM_FIELD_NAMES_MAX]; /* spellings, NULL at the end; the first present wins */
    const char *gguf;                      /* NULL: GGUF has none */
    size_t offset;
    tdm_field_kind kind;
    tdm_field_need need;
    double min, max; /* inclusive; whole numbers are exact below 2^53 */
} tdm_field;

/* Reads n rows into record. Errors: TDM_E_FORMAT with where, limit and remedy (arrays of another
 * length than the layers included); TDM_E_UNSUPPORTED for a GGUF array whose elements differ. */
tdm_status tdm_fields_read(const tdm_config_source *source, const tdm_field *fields, size_t n,
                           void *record);

/* The node of a JSON key, or NULL when absent or null; *out_path is the scope's path. */
const tdm_json *tdm_config_find(const tdm_config_source *source, const char *key,
                                const char **out_path);
/* Fills where for a JSON key (path "$...") or a GGUF key (path NULL), and the remedy. */
tdm_status tdm_config_fail(const tdm_config_source *source, const char *path, const char *key,
                           tdm_status status);
/* A bool that may be absent (*out is left alone). */
tdm_status tdm_config_bool(const tdm_config_source *source, const char *key, bool *out);

/* config_class.c: what keys mean that are absent. 0 and false: nothing. */
typedef struct tdm_class_default {
    const char *family;
    bool is_tied;
    bool is_sliding_opt_in;     /* use_sliding_window exists and is false by default */
    bool has_hidden_activation; /* the key that names the activation; else hidden_act */
    bool is_attention_biased;
    int32_t n_heads, n_kv_heads, n_vocab;
    int32_t head_dim;       /* 0: hidden / heads */
    int32_t sliding_window; /* when the key is absent; null means none */
    int64_t context_max;
    double norm_eps, theta;
    double rotary_fraction; /* 0: all of a head */
    double rope_proportion; /* where the file has no rope at all: a proportional one; 0: not */
    const tdm_rope_config *absent_rope; /* likewise: this one, with the file's base; NULL: plain */
    bool has_local_rope; /* sliding layers have a rope of their own, which no scaling touches */
    double local_theta;  /* of it; 0: that of the other layers */
    double query_scalar, attention_softcap, final_softcap;
    int32_t global_head_dim; /* of layers that do not slide; 0: as the others */
    int32_t ple_dim;
    bool has_linear;      /* layers of the gated delta rule, and a gate in the others */
    bool is_renormalized; /* norm_topk_prob */
    bool has_moe_flag;    /* experts are there where enable_moe_block says so, else not */
} tdm_class_default;

/* NULL: no row. */
const tdm_class_default *tdm_class_find(const char *family);
/* Before the tables are read: what they leave alone stays the class's. */
void tdm_class_apply(const tdm_class_default *class, const tdm_config_source *source,
                     tdm_model_config *out);

/* config_layers.c: what may differ between layers. init before anything is read; check, when all is,
 * fills what the file does not say and compares heads. */
void tdm_config_init_layers(tdm_model_config *out);
tdm_status tdm_config_check_layers(tdm_model_config *config, const char *file, tdm_error *err);
/* per_layer_config of config.json. */
tdm_status tdm_config_read_per_layer(tdm_model_config *out, const tdm_config_source *source);
/* GGUF: sizes of heads where the layers that slide have their own. */
tdm_status tdm_config_read_swa_heads(tdm_model_config *out, const tdm_config_source *source);

/* config_latent.c: latent attention, its indexer and groups of experts, in the families that have
 * them; last, since it says what head_dim and its like mean there. */
tdm_status tdm_config_read_latent_json(tdm_model_config *out, const tdm_config_source *source);
tdm_status tdm_config_read_latent_gguf(tdm_model_config *out, const tdm_config_source *source);

/* config_linear.c: layers of the gated delta rule, in the families that have them. */
tdm_status tdm_config_read_linear_json(tdm_model_config *out, const tdm_config_source *source,
                                       const tdm_class_default *class);
tdm_status tdm_config_read_linear_gguf(tdm_model_config *out, const tdm_config_source *source);

/* A failure of several fields together. Returns TDM_E_FORMAT. */
tdm_status tdm_config_fail_cross(const char *file, const char *what, tdm_error *err);

/* config_json.c and config_gguf.c: everything but the checks across fields. */
tdm_status tdm_config_read_json(tdm_model_config *out, const tdm_checkpoint *checkpoint,
                                tdm_error *err);
tdm_status tdm_config_read_gguf(tdm_model_config *out, const tdm_checkpoint *checkpoint,
                                tdm_error *err);

/* config.c: the rows that every decoder has, and the rope's. */
extern const tdm_field TDM_MODEL_FIELDS[];
extern const size_t TDM_MODEL_FIELDS_LEN;
extern const tdm_field TDM_ROPE_FIELDS[];
extern const size_t TDM_ROPE_FIELDS_LEN;
/* Checks that belong to the kind of rope: what it needs, and what contradicts. path and prefix are
 * for errors. */
tdm_status tdm_rope_check(tdm_rope_config *rope, const tdm_config_source *source,
                          int64_t context_max);
/* 1 but for every interval-th layer. */
void tdm_config_fill_rope_layers(tdm_model_config *config, int64_t interval);

#endif
