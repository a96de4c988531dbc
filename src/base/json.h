/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded JSON: a document tree built from yajl's events, and a writer. Floor 0.
 * The parser keeps an explicit stack (no recursion), refuses duplicate keys, depth, node and byte
 * excess and invalid UTF-8 with a typed error, keeps the order of keys and the spelling of numbers.
 */
#ifndef TDM_BASE_JSON_H
#define TDM_BASE_JSON_H

#include "base/buf.h"

typedef enum tdm_json_kind {
    TDM_JSON_NULL,
    TDM_JSON_BOOL,
    TDM_JSON_INT,  /* a number without fraction or exponent; text holds its digits */
    TDM_JSON_REAL, /* any other number; text holds its spelling */
    TDM_JSON_STRING,
    TDM_JSON_ARRAY,
    TDM_JSON_OBJECT
} tdm_json_kind;

/* A node. Children lie side by side: items[0..len). A member of an object has key and key_len set.
 */
typedef struct tdm_json {
    tdm_json_kind kind;
    bool boolean;
    uint32_t key_len;
    uint32_t len;    /* bytes of text, or number of items */
    const char *key; /* NUL-terminated, NULL outside objects; may hold NULs inside key_len */
    union {
        const char *text;             /* INT, REAL, STRING: NUL-terminated */
        const struct tdm_json *items; /* ARRAY, OBJECT */
    } u;
} tdm_json;

typedef struct tdm_json_doc tdm_json_doc;

typedef struct tdm_json_limits {
    size_t bytes_max;
    uint32_t depth_max;
    uint32_t nodes_max;
} tdm_json_limits;

/* 32 MiB, depth 64, 10^6 nodes (reliability 3.7). */
extern const tdm_json_limits TDM_JSON_LIMITS_DEFAULT;
/* 256 MiB, depth 64, 8 * 10^6 nodes: tokenizer.json. */
extern const tdm_json_limits TDM_JSON_LIMITS_TOKENIZER;

/* Parses a whole text. name says what the text is in errors ("DIR/config.json"). limits NULL: the
 * default ones. Errors: TDM_E_FORMAT (offset in where), TDM_E_LIMIT, TDM_E_NOMEM. Owns: caller
 * destroys the document. */
TDM_NODISCARD tdm_status tdm_json_parse(tdm_json_doc **out_doc, const tdm_alloc *alloc,
                                        const char *text, size_t len, const tdm_json_limits *limits,
                                        const char *name, tdm_error *err);
void tdm_json_doc_destroy(tdm_json_doc *doc);
/* Borrowed until the document is destroyed. */
const tdm_json *tdm_json_doc_root(const tdm_json_doc *doc);

/* Questions; NULL nodes are answered as absent. */
const tdm_json *tdm_json_get(const tdm_json *object, const char *key);
/* Member by a key of key_len bytes that may hold NULs. */
const tdm_json *tdm_json_get_n(const tdm_json *object, const char *key, size_t key_len);
bool tdm_json_is(const tdm_json *node, tdm_json_kind kind);
bool tdm_json_text_is(const tdm_json *node, const char *text);
/* INT in range of int64. */
bool tdm_json_as_i64(const tdm_json *node, int64_t *out);
/* INT or REAL, finite. */
bool tdm_json_as_f64(const tdm_json *node, double *out);
bool tdm_json_as_bool(const tdm_json *node, bool *out);
/* Number of items of an array or object, 0 for anything else. */
size_t tdm_json_len(const tdm_json *node);

/* Writer: appends JSON to a buffer. The first failure is kept and later calls do nothing; ask
 * tdm_json_writer_status once at the end. Strings that are not UTF-8 have each bad byte sequence
 * written as U+FFFD. */
typedef struct tdm_json_writer {
    tdm_buf *buf;
    tdm_status status;
    uint32_t depth;
    bool needs_comma;
} tdm_json_writer;

void tdm_json_writer_init(tdm_json_writer *w, tdm_buf *buf);
void tdm_json_write_begin_object(tdm_json_writer *w);
void tdm_json_write_end_object(tdm_json_writer *w);
void tdm_json_write_begin_array(tdm_json_writer *w);
void tdm_json_write_end_array(tdm_json_writer *w);
void tdm_json_write_key(tdm_json_writer *w, const char *key);
void tdm_json_write_text(tdm_json_writer *w, const char *text, size_t len);
void tdm_json_write_cstr(tdm_json_writer *w, const char *text);
void tdm_json_write_i64(tdm_json_writer *w, int64_t value);
void tdm_json_write_u64(tdm_json_writer *w, uint64_t value);
/* Shortest form of `digits` significant digits (1 to 17); not-finite numbers are written as null.
 */
void tdm_json_write_f64(tdm_json_writer *w, double value, int digits);
void tdm_json_write_bool(tdm_json_writer *w, bool value);
void tdm_json_write_null(tdm_json_writer *w);
tdm_status tdm_json_writer_status(const tdm_json_writer *w);

#endif
