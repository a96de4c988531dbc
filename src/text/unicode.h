/* SPDX-License-Identifier: Apache-2.0
 *
 * What a splitter asks of a character: its general category, whether it is white space, whether it
 * is CR or LF, all as one bit set. Floor 4. Categories are utf8proc's (Unicode 15.0 in 2.8.0);
 * every hand-written scanner and normalizer of this room uses this one source. */
#ifndef TDM_TEXT_UNICODE_H
#define TDM_TEXT_UNICODE_H

#include "base/utf8.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits 0 to 29: utf8proc's category number. */
#define TDM_UC_LU (1u << 1)
#define TDM_UC_LL (1u << 2)
#define TDM_UC_LT (1u << 3)
#define TDM_UC_LM (1u << 4)
#define TDM_UC_LO (1u << 5)
#define TDM_UC_L (TDM_UC_LU | TDM_UC_LL | TDM_UC_LT | TDM_UC_LM | TDM_UC_LO)
#define TDM_UC_M (1u << 6 | 1u << 7 | 1u << 8)
#define TDM_UC_ND (1u << 9)
#define TDM_UC_NL (1u << 10)
#define TDM_UC_N (TDM_UC_ND | TDM_UC_NL | 1u << 11)
#define TDM_UC_PC (1u << 12)
#define TDM_UC_P (TDM_UC_PC | 1u << 13 | 1u << 14 | 1u << 15 | 1u << 16 | 1u << 17 | 1u << 18)
#define TDM_UC_S (1u << 19 | 1u << 20 | 1u << 21 | 1u << 22)
#define TDM_UC_CRLF (1u << 30)
#define TDM_UC_SPACE (1u << 31) /* the property White_Space */

#define TDM_UNICODE_BMP 0x10000u

/* One byte a character of the basic plane: category, 0x20 white space, 0x40 CR or LF. */
typedef struct tdm_unicode {
    uint8_t bmp[TDM_UNICODE_BMP];
    uint32_t ascii[128]; /* bits */
} tdm_unicode;

void tdm_unicode_init(tdm_unicode *unicode);
/* Which tables these classes come from: the library's version. */
const char *tdm_unicode_library(void);
/* Category of a character younger than utf8proc's tables; 0: not assigned. In unicode_newer.c. */
uint8_t tdm_unicode_newer_category(uint32_t cp);
/* The byte for any scalar value. */
uint8_t tdm_unicode_class(uint32_t cp);
bool tdm_unicode_is_space(uint32_t cp);
/* The regular-expression class \w: Alphabetic, M, Nd, Pc, Join_Control. */
bool tdm_unicode_is_word(uint32_t cp);
/* What the expressions of tokenizer files (Oniguruma's) take for a word: \w. */
bool tdm_unicode_is_expr_word(uint32_t cp);
/* The one-character small form, as Unicode 17 has it; U+0130 (whose small form is two) is itself. */
uint32_t tdm_unicode_lower(uint32_t cp);

/* Classes as the reference's BERT parts and normal forms know them. In unicode_older.c. */
typedef enum tdm_unicode_older {
    TDM_OLDER_NONSPACING,
    TDM_OLDER_MARK,
    TDM_OLDER_PUNCTUATION, /* above ASCII */
    TDM_OLDER_CONTROL,
    TDM_OLDER_UNKNOWN /* to the normal forms */
} tdm_unicode_older;
bool tdm_unicode_is_older(tdm_unicode_older set, uint32_t cp);

/* tdm_utf8_decode with the common cases inline. len >= 1. */
static inline size_t tdm_unicode_decode(const char *text, size_t len, uint32_t *out_cp,
                                        bool *out_is_ok) {
    const uint8_t *b = (const uint8_t *)(const void *)text;
    *out_is_ok = true;
    if (b[0] < 0x80) {
        *out_cp = b[0];
        return 1;
    }
    if (b[0] >= 0xC2 && b[0] < 0xE0 && len >= 2 && (b[1] & 0xC0) == 0x80) {
        *out_cp = (uint32_t)(b[0] & 0x1F) << 6 | (b[1] & 0x3F);
        return 2;
    }
    if (b[0] > 0xE0 && b[0] < 0xF0 && b[0] != 0xED && len >= 3 && (b[1] & 0xC0) == 0x80 &&
        (b[2] & 0xC0) == 0x80) {
        *out_cp = (uint32_t)(b[0] & 0x0F) << 12 | (uint32_t)(b[1] & 0x3F) << 6 | (b[2] & 0x3F);
        return 3;
    }
    return tdm_utf8_decode(text, len, out_cp, out_is_ok);
}

static inline uint32_t tdm_unicode_bits_of(uint8_t cls) {
    return 1u << (cls & 31) | (uint32_t)(cls & 0x20) << 26 | (uint32_t)(cls & 0x40) << 24;
}

/* Bits of the character at text[pos], pos < len; its length through out_bytes. Bytes that are no
 * UTF-8 count as U+FFFD. */
static inline uint32_t tdm_unicode_at(const tdm_unicode *unicode, const char *text, size_t len,
                                      size_t pos, size_t *out_bytes) {
    const uint8_t byte = (uint8_t)text[pos];
    uint32_t cp = 0;
    if (byte < 0x80) {
        *out_bytes = 1;
        return unicode->ascii[byte];
    }
    bool is_ok = true;
    *out_bytes = tdm_unicode_decode(text + pos, len - pos, &cp, &is_ok);
    return tdm_unicode_bits_of(cp < TDM_UNICODE_BMP ? unicode->bmp[cp] : tdm_unicode_class(cp));
}

#endif
