/* SPDX-License-Identifier: Apache-2.0
 *
 * Text on its way through a pipeline: a view that knows where in the input each of its bytes came
 * from, a builder for the next view, and the operations that rewrite text (normalizers, Metaspace,
 * the prefix space). Floor 4. Room-internal.
 * A new normalizer is one more kind here and one more reader in tokenizer_json_ops.c. */
#ifndef TDM_TEXT_TOKENIZER_TEXT_H
#define TDM_TEXT_TOKENIZER_TEXT_H

#include "base/buf.h"
#include "text/charsmap.h"
#include "text/pretok_regex.h"

typedef struct tdm_origin { /* half-open range of input bytes */
    uint32_t begin, end;
} tdm_origin;

typedef struct tdm_text_view {
    const char *data;
    size_t len;
    const tdm_origin *origins; /* [len], or NULL: byte i of data is byte base + i of the input */
    uint32_t base;
} tdm_text_view;

tdm_text_view tdm_text_slice(const tdm_text_view *view, size_t begin, size_t end);
/* Where view's bytes [begin, end), begin <= end <= len, came from. */
tdm_origin tdm_text_origin(const tdm_text_view *view, size_t begin, size_t end);

typedef struct tdm_text_builder {
    tdm_buf text;
    tdm_buf origins; /* tdm_origin a byte of text; empty unless wants_origins */
    bool wants_origins;
} tdm_text_builder;

void tdm_text_builder_init(tdm_text_builder *builder, const tdm_alloc *alloc, bool wants_origins);
void tdm_text_builder_deinit(tdm_text_builder *builder);
void tdm_text_builder_reset(tdm_text_builder *builder);
/* What was built; borrowed until the next change. */
tdm_text_view tdm_text_builder_view(const tdm_text_builder *builder);
/* Appends the bytes [begin, end) of from. */
TDM_NODISCARD tdm_status tdm_text_copy(tdm_text_builder *out, const tdm_text_view *from,
                                       size_t begin, size_t end);
/* Appends len bytes that all stand for one range of the input. */
TDM_NODISCARD tdm_status tdm_text_put(tdm_text_builder *out, const char *bytes, size_t len,
                                      tdm_origin origin);

typedef enum tdm_text_op_kind {
    TDM_TEXT_NORMALIZE,    /* NFC, NFD, NFKC, NFKD */
    TDM_TEXT_PREPEND,      /* a in front of a text that is not empty */
    TDM_TEXT_REPLACE,      /* a by b */
    TDM_TEXT_REPLACE_EXPR, /* expr by b */
    TDM_TEXT_LOWERCASE,
    TDM_TEXT_STRIP, /* white space at the ends */
    TDM_TEXT_METASPACE,
    TDM_TEXT_MAP,         /* each character by itself: map */
    TDM_TEXT_CHARSMAP,    /* charsmap */
    TDM_TEXT_SQUEEZE,     /* runs of a become one, those at the ends vanish */
    TDM_TEXT_PREFIX_SPACE /* a in front unless the text begins with a */
} tdm_text_op_kind;

typedef enum tdm_text_map_kind {                     /* what MAP does with a character */
                                 TDM_MAP_NMT,        /* Nmt */
                                 TDM_MAP_BERT_CLEAN, /* clean_text */
                                 TDM_MAP_BERT_CJK, /* handle_chinese_chars: a space on both sides */
                                 TDM_MAP_BERT_ACCENTS, /* the dropping half of strip_accents */
                                 TDM_MAP_MARKS         /* StripAccents */
} tdm_text_map_kind;

typedef struct tdm_text_op {
    tdm_text_op_kind kind;
    tdm_text_map_kind map;               /* MAP */
    const struct tdm_charsmap *charsmap; /* CHARSMAP */
    const char *a;
    size_t a_len;
    const char *b;
    size_t b_len;
    const tdm_regex *expr;
    bool is_composed, is_compat; /* NORMALIZE */
    const uint8_t *inert;        /* NORMALIZE: a bit a character of the basic plane: itself in every
                                  * company of its like. NULL: ASCII only */
    bool is_left, is_right;      /* STRIP */
    bool is_first_only;          /* METASPACE: prepends only at the start of the input */
    bool has_prepend;            /* METASPACE */
} tdm_text_op;

/* Appends op applied to in. A regular expression needs scratch; in must then be valid UTF-8
 * (TDM_E_FORMAT when it is not). Errors: TDM_E_NOMEM, TDM_E_LIMIT. */
TDM_NODISCARD tdm_status tdm_text_op_apply(const tdm_text_op *op, tdm_regex_scratch *scratch,
                                           const tdm_text_view *in, tdm_text_builder *out,
                                           tdm_error *err);
/* In tokenizer_charmap.c. */
TDM_NODISCARD tdm_status tdm_text_map_chars(const tdm_text_op *op, const tdm_text_view *in,
                                            tdm_text_builder *out);
TDM_NODISCARD tdm_status tdm_text_apply_charsmap(const tdm_text_op *op, const tdm_text_view *in,
                                                 tdm_text_builder *out);
/* In tokenizer_unicode.c. Fills op->inert. */
TDM_NODISCARD tdm_status tdm_text_find_inert(tdm_text_op *op, tdm_arena *arena);
TDM_NODISCARD tdm_status tdm_text_normalize(const tdm_text_op *op, const tdm_text_view *in,
                                            tdm_text_builder *out);

#endif
