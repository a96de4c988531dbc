/* SPDX-License-Identifier: Apache-2.0
 *
 * Every storage type that a checkpoint may hold. Floor 1.
 * Source: shared/spec/gguf.md section 5 and quantized-formats.md section 5 (block layouts),
 * safetensors README. */
#ifndef TDM_CONTRACT_DTYPE_H
#define TDM_CONTRACT_DTYPE_H

#include <stdint.h>

/* X(name, text, weights a block, bytes a block, id in GGUF or -1). Sub-byte plain types do not
 * occur. */
#define TDM_DTYPE_LIST(X)                                                                          \
    X(F32, "F32", 1, 4, 0)                                                                         \
    X(F16, "F16", 1, 2, 1)                                                                         \
    X(BF16, "BF16", 1, 2, 30)                                                                      \
    X(F64, "F64", 1, 8, 28)                                                                        \
    X(I8, "I8", 1, 1, 24)                                                                          \
    X(I16, "I16", 1, 2, 25)                                                                        \
    X(I32, "I32", 1, 4, 26)                                                                        \
    X(I64, "I64", 1, 8, 27)                                                                        \
    X(U8, "U8", 1, 1, -1)                                                                          \
    X(U16, "U16", 1, 2, -1)                                                                        \
    X(U32, "U32", 1, 4, -1)                                                                        \
    X(U64, "U64", 1, 8, -1)                                                                        \
    X(BOOL, "BOOL", 1, 1, -1)                                                                      \
    X(F8_E4M3, "F8_E4M3", 1, 1, -1)                                                                \
    X(F8_E5M2, "F8_E5M2", 1, 1, -1)                                                                \
    X(F8_E8M0, "F8_E8M0", 1, 1, -1)                                                                \
    X(Q4_0, "Q4_0", 32, 18, 2)                                                                     \
    X(Q4_1, "Q4_1", 32, 20, 3)                                                                     \
    X(Q5_0, "Q5_0", 32, 22, 6)                                                                     \
    X(Q5_1, "Q5_1", 32, 24, 7)                                                                     \
    X(Q8_0, "Q8_0", 32, 34, 8)                                                                     \
    X(Q8_1, "Q8_1", 32, 36, 9)                                                                     \
    X(Q2_K, "Q2_K", 256, 84, 10)                                                                   \
    X(Q3_K, "Q3_K", 256, 110, 11)                                                                  \
    X(Q4_K, "Q4_K", 256, 144, 12)                                                                  \
    X(Q5_K, "Q5_K", 256, 176, 13)                                                                  \
    X(Q6_K, "Q6_K", 256, 210, 14)                                                                  \
    X(Q8_K, "Q8_K", 256, 292, 15)                                                                  \
    X(IQ2_XXS, "IQ2_XXS", 256, 66, 16)                                                             \
    X(IQ2_XS, "IQ2_XS", 256, 74, 17)                                                               \
    X(IQ3_XXS, "IQ3_XXS", 256, 98, 18)                                                             \
    X(IQ1_S, "IQ1_S", 256, 50, 19)                                                                 \
    X(IQ4_NL, "IQ4_NL", 32, 18, 20)                                                                \
    X(IQ3_S, "IQ3_S", 256, 110, 21)                                                                \
    X(IQ2_S, "IQ2_S", 256, 82, 22)                                                                 \
    X(IQ4_XS, "IQ4_XS", 256, 136, 23)                                                              \
    X(IQ1_M, "IQ1_M", 256, 56, 29)                                                                 \
    X(TQ1_0, "TQ1_0", 256, 54, 34)                                                                 \
    X(TQ2_0, "TQ2_0", 256, 66, 35)                                                                 \
    X(MXFP4, "MXFP4", 32, 17, 39)                                                                  \
    X(NVFP4, "NVFP4", 64, 36, 40)                                                                  \
    X(Q1_0, "Q1_0", 128, 18, 41)                                                                   \
    X(Q2_0, "Q2_0", 64, 18, 42)

typedef enum tdm_dtype {
#define TDM_DTYPE_ENUM(name, text, weights, bytes, gguf) TDM_DTYPE_##name,
    TDM_DTYPE_LIST(TDM_DTYPE_ENUM)
#undef TDM_DTYPE_ENUM
        TDM_DTYPE_COUNT
} tdm_dtype;

typedef struct tdm_dtype_info {
    const char *name;
    uint32_t block_weights;
    uint32_t block_bytes;
    int32_t gguf_id; /* -1: not a GGUF type */
} tdm_dtype_info;

/* The table, indexed by tdm_dtype. Defined in tensor/dtype.c. */
extern const tdm_dtype_info TDM_DTYPES[TDM_DTYPE_COUNT];

#endif
