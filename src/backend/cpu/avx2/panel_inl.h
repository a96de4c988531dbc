/* SPDX-License-Identifier: Apache-2.0
 *
 * Panels: sixteen rows of a quantized weight, interleaved so that one 64-byte vector holds four
 * neighbouring columns of each row. One broadcast of four activations then feeds sixteen dot products
 * and nothing is summed across lanes. A panel is one stream of memory, whoever reads it: registers
 * of 512 bits take whole vectors, those of 256 bits two halves, rows 0 to 7 and rows 8 to 15.
 *
 *     vector j of a block (j = 0..7), dword lane r:  columns 4j, 4j+1, 4j+2, 4j+3 of row r
 *
 * Two states:
 *  - open (scratch, made while multiplying): half a panel, integers as bytes, scales as f32;
 *  - packed (made at load, as many bytes as the file's form or hardly more), by the form's bits:
 *      1  bit j of byte i = byte i of vector j
 *      2  byte i of vectors j = 4v .. 4v + 3 as crumbs of one byte, lowest first
 *      3  codes of vectors 0 and 1, 2 and 3, 4 and 5 in the lower six bits of three bytes; above
 *         them the lower bits of vector 6 (first byte) and 7 (second), and the third bits of both
 *      4  byte i of vector j low and of vector j + 4 high
 *      5  as 4; then 64 bytes, bit j of byte i = fifth bit of vector j's byte i
 *      6  as 4; then 2 x 64 bytes, bits 2(j & 3) of byte i of the first (second) = upper bits of
 *         vector j below 4 (from 4 on)
 *      8  as open
 *    and then scales, of all sixteen rows each: f16 d (and f16 m); Q4_K, Q5_K: u8 scales and u8 mins;
 *    integers of halves: i8 of the first ones, i8 of the last, and in Q2_K pairs of i8 mins; pairs:
 *    numbers of the first halves and of the last; IQ1, IQ2 and IQ3_XXS: nibbles of sixteen rows in 64
 *    bits, row 0 lowest, i for a scale of 2i + 1; pairs have a second such word for the last half. IQ1
 *    has three bits there, and the fourth says that its row adds -1; its pairs have a third word, whose
 *    bit g of a row's nibble says so of eight columns. f16 d (and min) of K types, IQ1 and IQ2 stand before each eight blocks, numbers d (and min)
 *    of the forms with a period before each period of blocks.
 *
 * Numbers are f32, or 16 bits where every one of the weight is exactly such a number: the weight's
 * period says which, beside the blocks of a period. */
#ifndef TDM_BACKEND_CPU_AVX2_PANEL_INL_H
#define TDM_BACKEND_CPU_AVX2_PANEL_INL_H

#include "backend/cpu/avx2/block_inl.h"
#include "backend/cpu/avx2/form_inl.h"
#include "backend/cpu/cpu_priv.h"

#define PANEL_ROWS TDM_CPU_PANEL_ROWS
/* Rows of half a panel. */
#define HALF_ROWS (PANEL_ROWS / 2)
/* Bytes of one vector of a packed panel. */
#define PANEL_VECTOR (4 * PANEL_ROWS)

typedef struct open_block {
    uint8_t w[8][32];
    float d[8];
    union {
        float m[8];              /* min, or the last half's scale of a pair */
        int16_t half_scales[16]; /* first and last half of each row */
    } u;
} open_block;

/* Q2_K alone has more: it lies behind its open_block. */
typedef struct open_mins {
    float m[8];
    int16_t half_mins[16];
} open_mins;

TDM_INLINE size_t open_bytes(int form) {
    return sizeof(open_block) + (form == FORM_Q2_K ? sizeof(open_mins) : 0);
}

/* What numbers are held as. */
enum { NUMBERS_F32, NUMBERS_F16, NUMBERS_BF16 };

/* A weight's period: blocks that share a number, and what numbers are. */
TDM_INLINE int32_t period_make(int32_t blocks, int numbers) {
    return blocks | (int32_t)numbers << 16;
}

TDM_INLINE int period_numbers(int32_t period) {
    return (int)(period >> 16);
}

/* Bytes of the numbers of a panel's rows. */
TDM_INLINE int numbers_bytes(int32_t period) {
    return PANEL_ROWS * (period_numbers(period) == NUMBERS_F32 ? 4 : 2);
}

/* Bytes of integers of one packed block. */
TDM_INLINE int packed_ints(int form) {
    return PANEL_VECTOR * form_bits(form);
}

/* Nibbles of a panel's rows, and words of them behind a block of odd scales. */
#define NIBBLES_BYTES (PANEL_ROWS / 2)
TDM_INLINE int odd_words(int form) {
    return !form_is_pair(form) ? 1 : form_is_ternary(form) ? 3 : 2;
}

/* Bytes of one packed block with its scales. */
TDM_INLINE int packed_block(int form, int32_t period) {
    if (form_has_period(form)) {
        return packed_ints(form);
    }
    if (form_has_odd(form)) {
        return packed_ints(form) + NIBBLES_BYTES * odd_words(form);
    }
    if (form_is_pair(form)) {
        return packed_ints(form) + 2 * numbers_bytes(period);
    }
    bool has_two = form == FORM_Q2_K || (form_has_min(form) && !form_is_k45(form));
    return packed_ints(form) + PANEL_ROWS * (has_two ? 4 : 2);
}

/* Bytes before each period of blocks. */
TDM_INLINE int packed_head(int form, int32_t period) {
    if (form_has_period(form)) {
        return numbers_bytes(period) * (form_has_min(form) ? 2 : 1);
    }
    if (form_has_odd(form)) {
        return 2 * PANEL_ROWS;
    }
    return form == FORM_Q6_K || form == FORM_Q3_K   ? 2 * PANEL_ROWS
           : form == FORM_Q2_K || form_is_k45(form) ? 4 * PANEL_ROWS
                                                    : 0;
}

/* Whether there are heads at all. */
TDM_INLINE int form_has_head(int form) {
    return packed_head(form, 0) > 0;
}

/* Blocks between two heads. */
TDM_INLINE int32_t packed_period(int form, int32_t period) {
    return form_has_period(form) ? (period & 0xffff) : 8;
}

/* Bytes of the first n blocks of a panel. */
TDM_INLINE size_t piece_bytes(int form, int32_t period, int64_t n) {
    size_t every = (size_t)packed_period(form, period);
    return (size_t)n * (size_t)packed_block(form, period) +
           ((size_t)n + every - 1) / every * (size_t)packed_head(form, period);
}

TDM_INLINE size_t packed_panel(int form, int64_t n_in, int32_t period) {
    return piece_bytes(form, period, n_in / 32);
}

/* Rows of dwords to columns of dwords. */
TDM_INLINE void transpose8(__m256i v[8]) {
    __m256i a[8];
    for (int i = 0; i < 4; ++i) {
        a[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    __m256i b[8];
    for (int i = 0; i < 2; ++i) {
        b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

/* Codes of three bits of vector j of the half panel at p; a fourth bit may be set in each byte. */
TDM_INLINE __m256i three_bits(const uint8_t *p, int j) {
    const __m256i low3 = _mm256_set1_epi8(7);
    if (j < 6) {
        __m256i v = load256(p + PANEL_VECTOR * (j / 2));
        return _mm256_and_si256(j % 2 == 0 ? v : _mm256_srli_epi16(v, 3), low3);
    }
    __m256i low = _mm256_srli_epi16(load256(p + PANEL_VECTOR * (j - 6)), 6);
    __m256i high = _mm256_srli_epi16(load256(p + 2 * PANEL_VECTOR), j - 2);
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(3)),
                           _mm256_and_si256(high, _mm256_set1_epi8(4)));
}

/* Vector j of the half of a packed block whose integers begin at p, or of an open one. is_flipped: a table's values plus 128. */
TDM_INLINE __m256i panel_read(int form, int is_packed, int is_flipped, const uint8_t *p, int j) {
    const int bits = form_bits(form);
    if (!is_packed || bits == 8) {
        return load256(p + (is_packed ? PANEL_VECTOR : 32) * j);
    }
    if (form == FORM_A1) {
        return _mm256_and_si256(_mm256_srli_epi16(load256(p), j), _mm256_set1_epi8(1));
    }
    if (bits == 1) {
        __m256i c = load256(p);
        c = j == 0 ? _mm256_slli_epi16(c, 1) : _mm256_srli_epi16(c, j - 1);
        return _mm256_and_si256(c, _mm256_set1_epi8(2));
    }
    if (bits == 2) {
        __m256i c = _mm256_srli_epi16(load256(p + PANEL_VECTOR * (j / 4)), 2 * (j & 3));
        return _mm256_and_si256(c, _mm256_set1_epi8(3));
    }
    __m256i table = _mm256_setzero_si256();
    if (form_has_table(form)) {
        table = form_table(form);
        table = is_flipped ? _mm256_xor_si256(table, _mm256_set1_epi8((char)0x80)) : table;
    }
    if (bits == 3) {
        return _mm256_shuffle_epi8(table, three_bits(p, j));
    }
    __m256i v = load256(p + PANEL_VECTOR * (j & 3));
    v = _mm256_and_si256(j < 4 ? v : _mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
    if (form_has_table(form)) {
        return _mm256_shuffle_epi8(table, v);
    }
    if (bits == 6) {
        __m256i h = load256(p + PANEL_VECTOR * (4 + j / 4));
        int up = 4 - 2 * (j & 3);
        h = up >= 0 ? _mm256_slli_epi16(h, up) : _mm256_srli_epi16(h, -up);
        return _mm256_or_si256(v, _mm256_and_si256(h, _mm256_set1_epi8(0x30)));
    }
    if (bits == 5) {
        __m256i h = load256(p + PANEL_VECTOR * 4);
        h = j <= 4 ? _mm256_slli_epi16(h, 4 - j) : _mm256_srli_epi16(h, j - 4);
        return _mm256_or_si256(v, _mm256_and_si256(h, _mm256_set1_epi8(0x10)));
    }
    return v;
}

TDM_INLINE __m256i panel_vector(int form, int is_packed, const uint8_t *p, int j) {
    return panel_read(form, is_packed, 0, p, j);
}

#endif
