/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing of panels at load; see panel_inl.h for the layout. The eight types with a form of their
 * own are packed by vectors, everything else through the plain decoders of tensor/weight.h. Rows
 * past the last are packed as zeros with scale zero. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/panel_inl.h"
#include "base/arith.h"

/* Every x86 set reads these panels. The version goes up with any change of a packed byte, of a form's
 * number or of a decoder in tensor/: tests/unit/backend_cpu/test_panels.c notices. */
const tdm_panel_layout TDM_AVX2_PANELS = {"x86-rows16", 4};

/* Blocks of 32 that share a scale. */
static int32_t period_of(const tdm_weight *w) {
    if (w->mode != TDM_WEIGHT_PLAIN) {
        return w->mode == TDM_WEIGHT_AFFINE ? w->group / 32 : 1;
    }
    switch ((int)w->dtype) {
    case TDM_DTYPE_TQ1_0:
    case TDM_DTYPE_TQ2_0:
        return 8;
    case TDM_DTYPE_Q1_0:
        return 4;
    case TDM_DTYPE_Q2_0:
        return 2;
    default:
        return 1;
    }
}

/* The narrowest that holds every scale (and min) of such a weight exactly. */
static int numbers_of(const tdm_weight *w) {
    switch (w->mode) {
    case TDM_WEIGHT_AFFINE:
        return w->scales_dtype == TDM_DTYPE_F16    ? NUMBERS_F16
               : w->scales_dtype == TDM_DTYPE_BF16 ? NUMBERS_BF16
                                                   : NUMBERS_F32;
    case TDM_WEIGHT_MXFP4: /* powers of two */
        return NUMBERS_BF16;
    case TDM_WEIGHT_NVFP4: /* four significant bits, if nothing multiplies them */
        return w->multiplier == 1.0f ? NUMBERS_F16 : NUMBERS_F32;
    case TDM_WEIGHT_PLAIN:
    case TDM_WEIGHT_MXFP8:
    case TDM_WEIGHT_FP8:
    case TDM_WEIGHT_MODE_COUNT:
    default:
        break;
    }
    switch ((int)w->dtype) {
    case TDM_DTYPE_TQ1_0:
    case TDM_DTYPE_TQ2_0:
    case TDM_DTYPE_Q1_0:
    case TDM_DTYPE_Q2_0:
    case TDM_DTYPE_IQ4_NL:
    case TDM_DTYPE_NVFP4:
        return NUMBERS_F16;
    case TDM_DTYPE_MXFP4:
        return NUMBERS_BF16;
    default:
        return NUMBERS_F32;
    }
}

static int form_of_grouped(const tdm_weight *w) {
    static const int8_t AFFINE[9] = {0,       FORM_A1, FORM_A2, FORM_A4, FORM_A4,
                                     FORM_A5, FORM_A6, FORM_A8, FORM_A8};
    switch (w->mode) {
    case TDM_WEIGHT_AFFINE:
        return AFFINE[w->bits];
    case TDM_WEIGHT_NVFP4:
        return FORM_E2M1_PAIR;
    case TDM_WEIGHT_PLAIN:
    case TDM_WEIGHT_MXFP4:
    case TDM_WEIGHT_MXFP8:
    case TDM_WEIGHT_FP8:
    case TDM_WEIGHT_MODE_COUNT:
    default:
        return FORM_E2M1;
    }
}

static int form_of(const tdm_weight *w) {
    if (w->mode != TDM_WEIGHT_PLAIN) {
        return form_of_grouped(w);
    }
    switch ((int)w->dtype) {
    case TDM_DTYPE_TQ1_0:
    case TDM_DTYPE_TQ2_0:
    case TDM_DTYPE_Q2_0:
        return FORM_C2;
    case TDM_DTYPE_Q1_0:
        return FORM_B1;
    case TDM_DTYPE_IQ4_NL:
    case TDM_DTYPE_IQ4_XS:
        return FORM_IQ4;
    case TDM_DTYPE_MXFP4:
        return FORM_E2M1;
    case TDM_DTYPE_NVFP4:
        return FORM_E2M1_PAIR;
    case TDM_DTYPE_IQ1_S:
        return FORM_IQ1;
    case TDM_DTYPE_IQ1_M:
        return FORM_IQ1_PAIR;
    case TDM_DTYPE_IQ2_XXS:
        return FORM_IQ2;
    case TDM_DTYPE_IQ2_XS:
    case TDM_DTYPE_IQ2_S:
        return FORM_IQ2_PAIR;
    case TDM_DTYPE_IQ3_XXS:
        return FORM_IQ3_XXS;
    case TDM_DTYPE_IQ3_S:
        return FORM_IQ3_S;
    default: /* the rest have forms of their own name */
        return (int)w->dtype;
    }
}

void tdm_avx2_layout(tdm_weight *weight, bool is_mapped) {
    size_t n_panels = (size_t)((weight->n_out + PANEL_ROWS - 1) / PANEL_ROWS);
    size_t bytes = 0;
    weight->layout = form_of(weight);
    weight->period = period_make(period_of(weight), numbers_of(weight));
    if (!is_mapped) {
        size_t panel = packed_panel(weight->layout, weight->n_in, weight->period);
        weight->packed_bytes = tdm_mul_size(n_panels, panel, &bytes) ? bytes : SIZE_MAX;
    }
}

/* Vector i of half a packed block whose integers begin at p. */
TDM_INLINE void put_vector(uint8_t *p, int i, __m256i v) {
    _mm256_storeu_si256((__m256i *)(void *)(p + PANEL_VECTOR * i), v);
}

/* Bit `bit` of each vector's bytes as bit j of one. */
TDM_INLINE __m256i pack_plane(const __m256i v[8], int bit) {
    __m256i all = _mm256_setzero_si256();
    for (int j = 0; j < 8; ++j) {
        __m256i one = _mm256_srl_epi16(v[j], _mm_cvtsi32_si128(bit));
        one = _mm256_and_si256(one, _mm256_set1_epi8(1));
        all = _mm256_or_si256(all, _mm256_sll_epi16(one, _mm_cvtsi32_si128(j)));
    }
    return all;
}

TDM_INLINE void pack_threes(const __m256i v[8], uint8_t *p) {
    const __m256i two = _mm256_set1_epi8(3);
    const __m256i third = _mm256_set1_epi8(4);
    __m256i thirds = _mm256_or_si256(_mm256_slli_epi16(_mm256_and_si256(v[6], third), 4),
                                     _mm256_slli_epi16(_mm256_and_si256(v[7], third), 5));
    const __m256i tops[3] = {_mm256_slli_epi16(_mm256_and_si256(v[6], two), 6),
                             _mm256_slli_epi16(_mm256_and_si256(v[7], two), 6), thirds};
    for (int i = 0; i < 3; ++i) {
        __m256i both = _mm256_or_si256(v[2 * i], _mm256_slli_epi16(v[2 * i + 1], 3));
        put_vector(p, i, _mm256_or_si256(both, tops[i]));
    }
}

/* Upper bits of six. */
TDM_INLINE void pack_crumbs(const __m256i v[8], uint8_t *p) {
    for (int half = 0; half < 2; ++half) {
        __m256i all = _mm256_setzero_si256();
        for (int j = 0; j < 4; ++j) {
            __m256i two =
                _mm256_and_si256(_mm256_srli_epi16(v[4 * half + j], 4), _mm256_set1_epi8(3));
            all = _mm256_or_si256(all, _mm256_sll_epi16(two, _mm_cvtsi32_si128(2 * j)));
        }
        put_vector(p, half, all);
    }
}

/* Columns of eight rows in the packed state; p is where their half of the block begins. */
TDM_INLINE void pack_bits(int bits, const __m256i v[8], uint8_t *p) {
    const __m256i low4 = _mm256_set1_epi8(15);
    if (bits == 8) {
        for (int j = 0; j < 8; ++j) {
            put_vector(p, j, v[j]);
        }
        return;
    }
    if (bits == 1) { /* 0 or 2 */
        put_vector(p, 0, pack_plane(v, 1));
        return;
    }
    for (int i = 0; i < 2 && bits == 2; ++i) {
        __m256i all = v[4 * i];
        for (int k = 1; k < 4; ++k) {
            all = _mm256_or_si256(all, _mm256_sll_epi16(v[4 * i + k], _mm_cvtsi32_si128(2 * k)));
        }
        put_vector(p, i, all);
    }
    if (bits == 3) {
        pack_threes(v, p);
    }
    for (int j = 0; j < 4 && bits >= 4; ++j) {
        __m256i high = _mm256_slli_epi16(_mm256_and_si256(v[j + 4], low4), 4);
        put_vector(p, j, _mm256_or_si256(_mm256_and_si256(v[j], low4), high));
    }
    if (bits == 5) {
        put_vector(p, 4, pack_plane(v, 4));
    }
    if (bits == 6) {
        pack_crumbs(v, p + 4 * PANEL_VECTOR);
    }
}

/* Eight rows' integers of a block; rows past the n_rows-th are zeros. */
TDM_INLINE void pack_ints(tdm_dtype dtype, const uint8_t *const *rows, int n_rows, int64_t b,
                          uint8_t *p) {
    __m256i v[8];
    for (int r = 0; r < 8; ++r) {
        v[r] = r < n_rows ? block_ints(dtype, rows[r], b) : _mm256_setzero_si256();
    }
    transpose8(v);
    pack_bits(form_bits((int)dtype), v, p);
}

/* Where the two bytes of d and of the min stand in a block of the file. */
static int file_scale_at(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_Q6_K ? 208 : 0;
}

static void pack_scales(tdm_dtype dtype, const uint8_t *const *rows, int n_rows, int64_t b,
                        uint8_t *p) {
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    memset(p, 0, (size_t)(packed_block((int)dtype, 0) - packed_ints((int)dtype)));
    for (int r = 0; r < n_rows; ++r) {
        if (dtype == TDM_DTYPE_Q6_K) {
            p[r] = (uint8_t)block_half_scale(rows[r], b, 0);
            p[PANEL_ROWS + r] = (uint8_t)block_half_scale(rows[r], b, 1);
        } else if (form_is_k45((int)dtype)) {
            const uint8_t *super = rows[r] + (b / 8) * (int64_t)info->block_bytes;
            tdm_k4_scale_min(super + 4, (int)(b % 8), &p[r], &p[PANEL_ROWS + r]);
        } else {
            const uint8_t *block = rows[r] + b * (int64_t)info->block_bytes;
            memcpy(p + 2 * r, block, 2);
            if (block_has_min(dtype)) {
                memcpy(p + 2 * PANEL_ROWS + 2 * r, block + 2, 2);
            }
        }
    }
}

static void pack_head(tdm_dtype dtype, const uint8_t *const *rows, int n_rows, int64_t b,
                      uint8_t *p) {
    memset(p, 0, (size_t)packed_head((int)dtype, 0));
    for (int r = 0; r < n_rows; ++r) {
        const uint8_t *super = rows[r] + (b / 8) * (int64_t)TDM_DTYPES[dtype].block_bytes;
        memcpy(p + 2 * r, super + file_scale_at(dtype), 2);
        if (packed_head((int)dtype, 0) == 4 * PANEL_ROWS) {
            memcpy(p + 2 * PANEL_ROWS + 2 * r, super + 2, 2);
        }
    }
}

TDM_INLINE void pack_panel(tdm_dtype dtype, const tdm_weight *w, int64_t panel) {
    const uint8_t *rows[PANEL_ROWS];
    uint8_t *p =
        (uint8_t *)w->packed + (size_t)panel * packed_panel((int)dtype, w->n_in, w->period);
    int64_t row0 = panel * PANEL_ROWS;
    int n_rows = (int)tdm_cpu_min(PANEL_ROWS, w->n_out - row0);
    for (int r = 0; r < PANEL_ROWS; ++r) {
        rows[r] = w->data + (size_t)(row0 + (r < n_rows ? r : 0)) * w->row_bytes;
    }
    for (int64_t b = 0; b < w->n_in / 32; ++b) {
        if (form_has_head((int)dtype) && b % 8 == 0) {
            pack_head(dtype, rows, n_rows, b, p);
            p += packed_head((int)dtype, 0);
        }
        for (int half = 0; half < 2; ++half) {
            pack_ints(dtype, rows + HALF_ROWS * half, n_rows - HALF_ROWS * half, b,
                      p + 4 * HALF_ROWS * half);
        }
        pack_scales(dtype, rows, n_rows, b, p + packed_ints((int)dtype));
        p += packed_block((int)dtype, 0);
    }
}

/* Block b of n_rows rows by the plain decoders; rows past the last are zeros. */
static void gather(const tdm_weight *w, int64_t row0, int n_rows, int64_t b, tdm_block32 *blocks) {
    for (int64_t r = 0; r < n_rows; ++r) {
        if (row0 + r < w->n_out) {
            tdm_weight_block(w, row0 + r, b, &blocks[r]);
        } else {
            blocks[r] = (tdm_block32){0};
        }
    }
}

/* Codes by level (as a byte) of a table form: the lowest where two stand for one level. Ternary ones:
 * -9 and -7 are 0, -1 and 1 are 1, 7 and 9 are 2. */
static void invert_table(int form, uint8_t codes[256]) {
    const int8_t *levels = form_levels(form);
    for (int i = -9; form_is_ternary(form) && i <= 9; ++i) {
        codes[(uint8_t)i] = (uint8_t)((i + 12) / 8);
    }
    if (form_is_ternary(form)) {
        codes[0] = 0; /* rows past the last */
        return;
    }
    for (int i = 15; i >= 0; --i) {
        codes[(uint8_t)levels[i]] = (uint8_t)i;
    }
}

/* Integers of eight blocks as columns: as a register will hold them, or, with codes, as a table form
 * is packed. */
static void gather_ints(int form, const uint8_t *codes, const tdm_block32 *blocks, __m256i v[8]) {
    const __m256i zero = _mm256_set1_epi8((char)(form_is_signed(form, 0) ? 0 : form_zero(form)));
    for (int r = 0; r < 8; ++r) {
        v[r] = _mm256_add_epi8(load256(blocks[r].w), zero);
        if (codes != NULL) {
            uint8_t ints[32];
            for (int i = 0; i < 32; ++i) {
                ints[i] = codes[(uint8_t)blocks[r].w[i]];
            }
            v[r] = load256(ints);
        }
    }
    transpose8(v);
}

/* Number r of a panel's rows. */
static void put_number(int32_t period, uint8_t *p, int r, float value) {
    uint16_t half =
        period_numbers(period) == NUMBERS_F16 ? tdm_f16_from_f32(value) : tdm_bf16_from_f32(value);
    if (period_numbers(period) == NUMBERS_F32) {
        memcpy(p + 4 * r, &value, sizeof value);
    } else {
        memcpy(p + 2 * r, &half, sizeof half);
    }
}

static void put_f16(uint8_t *p, int r, float value) {
    uint16_t half = tdm_f16_from_f32(value);
    memcpy(p + 2 * r, &half, sizeof half);
}

static void put_head(int form, int32_t period, const tdm_block32 blocks[PANEL_ROWS], uint8_t *p) {
    for (int r = 0; r < PANEL_ROWS; ++r) {
        if (form_has_period(form)) {
            put_number(period, p, r, blocks[r].d[0]);
            if (form_has_min(form)) {
                put_number(period, p + numbers_bytes(period), r, blocks[r].m);
            }
        } else if (form_has_odd(form)) {
            put_f16(p, r, blocks[r].unit * form_unit(form));
        } else { /* Q2_K, Q3_K */
            put_f16(p, r, blocks[r].d[0]);
            if (form == FORM_Q2_K) {
                put_f16(p + 2 * PANEL_ROWS, r, -blocks[r].m);
            }
        }
    }
}

/* Nibble r of a word. */
static void put_nibble(uint8_t *p, int r, unsigned i) {
    p[r / 2] = (uint8_t)(p[r / 2] | (i & 15u) << 4 * (r & 1));
}

/* Odd scales and, in IQ1, the rows that are -9, -1 or 7 in 32 or 8 columns. */
static void put_odd(int form, const tdm_block32 blocks[PANEL_ROWS], uint8_t *p) {
    const int is_pair = form_is_pair(form);
    memset(p, 0, (size_t)(NIBBLES_BYTES * odd_words(form)));
    for (int r = 0; r < PANEL_ROWS; ++r) {
        unsigned marks = 0;
        for (int g = 0; g < 4 && form_is_ternary(form); ++g) {
            marks |= ((unsigned)blocks[r].w[8 * g] % 8 == 7 ? 1u : 0u) << g;
        }
        put_nibble(p, r, (unsigned)blocks[r].odd[0] / 2);
        if (is_pair) {
            put_nibble(p + NIBBLES_BYTES, r, (unsigned)blocks[r].odd[1] / 2);
        }
        if (form_is_ternary(form)) {
            put_nibble(p + (is_pair ? 2 * NIBBLES_BYTES : 0), r,
                       is_pair ? marks : (marks & 1) << 3);
        }
    }
}

static void put_scales(int form, int32_t period, const tdm_block32 blocks[PANEL_ROWS], uint8_t *p) {
    for (int r = 0; r < PANEL_ROWS; ++r) {
        for (int h = 0; h < 2; ++h) {
            if (form_is_pair(form)) {
                put_number(period, p + numbers_bytes(period) * h, r, blocks[r].d[h]);
            } else if (form_has_halves(form)) {
                p[PANEL_ROWS * h + r] = (uint8_t)blocks[r].scale[h];
                if (form == FORM_Q2_K) {
                    p[2 * PANEL_ROWS + 2 * r + h] = (uint8_t)blocks[r].min[h];
                }
            }
        }
    }
}

static void pack_any(const tdm_weight *w, int64_t panel) {
    const int form = w->layout;
    const int32_t period = w->period;
    const bool has_codes = form_has_table(form) || form_is_ternary(form);
    uint8_t codes[256] = {0}; /* rows past the last are zeros, with scale zero */
    uint8_t *p = (uint8_t *)w->packed + (size_t)panel * packed_panel(form, w->n_in, period);
    invert_table(form, codes);
    for (int64_t b = 0; b < w->n_in / 32; ++b) {
        tdm_block32 blocks[PANEL_ROWS];
        gather(w, panel * PANEL_ROWS, PANEL_ROWS, b, blocks);
        if (form_has_head(form) && b % packed_period(form, period) == 0) {
            put_head(form, period, blocks, p);
            p += packed_head(form, period);
        }
        for (int half = 0; half < 2; ++half) {
            __m256i v[8];
            gather_ints(form, has_codes ? codes : NULL, blocks + HALF_ROWS * half, v);
            for (int j = 0; j < 8 && form == FORM_A1; ++j) {
                v[j] = _mm256_add_epi8(v[j], v[j]);
            }
            pack_bits(form_bits(form), v, p + 4 * HALF_ROWS * half);
        }
        if (form_has_odd(form)) {
            put_odd(form, blocks, p + packed_ints(form));
        } else {
            put_scales(form, period, blocks, p + packed_ints(form));
        }
        p += packed_block(form, period);
    }
}

void tdm_avx2_open(const tdm_weight *w, int64_t row0, void *out) {
    int form = w->layout;
    uint8_t *p = out;
    for (int64_t b = 0; b < w->n_in / 32; ++b, p += open_bytes(form)) {
        open_block *open = (open_block *)(void *)p;
        open_mins *mins = (open_mins *)(void *)(p + sizeof(open_block));
        tdm_block32 blocks[HALF_ROWS];
        __m256i v[8];
        gather(w, row0, HALF_ROWS, b, blocks);
        gather_ints(form, NULL, blocks, v);
        for (int j = 0; j < 8; ++j) {
            _mm256_store_si256((__m256i *)(void *)open->w[j], v[j]);
        }
        for (int r = 0; r < 8; ++r) {
            open->d[r] = blocks[r].d[0];
            if (form_has_halves(form)) {
                open->u.half_scales[2 * r] = (int16_t)blocks[r].scale[0];
                open->u.half_scales[2 * r + 1] = (int16_t)blocks[r].scale[1];
            } else {
                open->u.m[r] = form_is_pair(form) ? blocks[r].d[1] : blocks[r].m;
            }
            if (form == FORM_Q2_K) {
                mins->m[r] = blocks[r].m;
                mins->half_mins[2 * r] = (int16_t)blocks[r].min[0];
                mins->half_mins[2 * r + 1] = (int16_t)blocks[r].min[1];
            }
        }
    }
}

void tdm_avx2_pack(const tdm_weight *weight, int64_t panel0, int64_t panel1) {
    for (int64_t i = panel0; i < panel1; ++i) {
        switch (weight->layout) {
        case FORM_Q4_0:
            pack_panel(TDM_DTYPE_Q4_0, weight, i);
            break;
        case FORM_Q4_1:
            pack_panel(TDM_DTYPE_Q4_1, weight, i);
            break;
        case FORM_Q5_0:
            pack_panel(TDM_DTYPE_Q5_0, weight, i);
            break;
        case FORM_Q5_1:
            pack_panel(TDM_DTYPE_Q5_1, weight, i);
            break;
        case FORM_Q8_0:
            pack_panel(TDM_DTYPE_Q8_0, weight, i);
            break;
        case FORM_Q4_K:
            pack_panel(TDM_DTYPE_Q4_K, weight, i);
            break;
        case FORM_Q5_K:
            pack_panel(TDM_DTYPE_Q5_K, weight, i);
            break;
        case FORM_Q6_K:
            pack_panel(TDM_DTYPE_Q6_K, weight, i);
            break;
        default:
            pack_any(weight, i);
            break;
        }
    }
}
