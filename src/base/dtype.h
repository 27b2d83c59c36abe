/* base/dtype.h - element types: name, block, bytes
 *
 * Rows are stored in blocks of `block` elements that take `bytes` bytes. The
 * meaning of each is a contract in kern/; the names are those of design.md
 * section 6 and of GGUF.
 */
#ifndef SL_BASE_DTYPE_H
#define SL_BASE_DTYPE_H

#include "base/base.h"

/*    enum      name       block  bytes */
#define SL_DTYPES(X)                                                           \
    X(F32, "fp32", 1, 4)                                                       \
    X(BF16, "bf16", 1, 2)                                                      \
    X(F16, "f16", 1, 2)                                                        \
    X(FP8, "fp8", 1, 1) /* E4M3, scales beside it */                           \
    X(Q8_0, "q8_0", 32, 34)                                                    \
    X(Q6_K, "q6_k", 256, 210)                                                  \
    X(Q5_K, "q5_k", 256, 176)                                                  \
    X(Q4_K, "q4_k", 256, 144)                                                  \
    X(Q4_0, "q4_0", 32, 18)                                                    \
    X(BFP8, "bfp8", 16, 17) /* Tenstorrent BFP8_b, along the row */            \
    X(BFP4, "bfp4", 16, 9)                                                     \
    X(Q4_1, "q4_1", 32, 20) /* these come from files only */                   \
    X(Q5_0, "q5_0", 32, 22)                                                    \
    X(Q5_1, "q5_1", 32, 24)                                                    \
    X(Q3_K, "q3_k", 256, 110)                                                  \
    X(Q2_K, "q2_k", 256, 84)                                                   \
    X(IQ4_NL, "iq4_nl", 32, 18)                                                \
    X(IQ4_XS, "iq4_xs", 256, 136)                                              \
    X(MXFP4, "mxfp4", 32, 17)

enum sl_dtype {
#define X(id, name, block, bytes) SL_##id,
    SL_DTYPES(X)
#undef X
        SL_N_DTYPE
};

struct sl_dtype_info {
    const char *name;
    uint32_t block, bytes;
};

const struct sl_dtype_info *sl_dtype_get(enum sl_dtype t);

/* Bytes of `n` elements; n is a multiple of the block. */
size_t sl_dtype_bytes(enum sl_dtype t, size_t n);

#endif
