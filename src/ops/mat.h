/* ops/mat.h - a weight matrix as the kernels want it */
#ifndef SL_OPS_MAT_H
#define SL_OPS_MAT_H

#include "base/dtype.h"

struct sl_mat {
    enum sl_dtype type;
    uint32_t rows, cols; /* y of length rows, x of length cols */
    const void *w;       /* [ceil(rows / 8)][cols][8], see kern/kern.h */
    const float *scale; /* FP8: [ceil(rows / 8)][ceil(cols / 128)], else NULL */
};

/* A gated MLP (Shazeer 2020): down (silu(gate x) * up x). */
struct sl_mlp_w {
    struct sl_mat gate, up; /* [width, hidden] */
    struct sl_mat down;     /* [hidden, width] */
};

#endif
