/* model/pack.h - one tensor of a file -> its place in memory
 *
 * Matrices go into groups of eight rows (kern/kern.h) with their rows and
 * columns in the internal order of value heads; vectors become fp32. Every
 * source element is looked at on the way: NaN and infinity mean a damaged file.
 *
 * Plain functions of plain pointers: any thread, any part of a matrix.
 */
#ifndef SL_MODEL_PACK_H
#define SL_MODEL_PACK_H

#include "base/dtype.h"
#include "model/permute.h"

/* A matrix of `rows` x `cols`, rows row0 to row0 + rows of the two-dimensional
 * tensor at `src`. Source and scales need no alignment. */
struct sl_pack_mat {
    const unsigned char *src; /* NULL: random values, see `seed` */
    enum sl_dtype src_type;
    size_t row0, rows, cols;
    /* FP8: one scale per 128 x 128 elements of the tensor at src. */
    const unsigned char *scale;
    enum sl_dtype scale_type; /* F32 or BF16 */
    struct sl_perm row_perm, col_perm;
    enum sl_dtype type; /* in memory: F32, BF16, F16, FP8 or a quantised one */
    const float *importance; /* [cols] of each column, when quantised from
                                numbers; NULL: all alike */
    bool quick;         /* without a search for scales */
    void *dst;          /* groups of eight rows */
    float *dst_scale;   /* FP8: [ceil(rows / 8)][ceil(cols / 128)] */
    uint64_t seed;
};

/* Is the source made of blocks of quantised elements? Then col_perm is the
 * identity: heads are in the internal order there. */
bool sl_pack_is_blocks(const struct sl_pack_mat *m);

/* The type that a matrix has in memory: that of its source, but FP8 becomes F32
 * where the order of heads would part elements that share a scale. Ignores
 * `type`. */
enum sl_dtype sl_pack_type(const struct sl_pack_mat *m);

/* Bytes of work space that packing a piece of this matrix takes. */
size_t sl_pack_scratch(const struct sl_pack_mat *m);

/* Pack groups g0 to g1 - 1. False when a source element or scale is not finite;
 * the groups are then still written. scratch: sl_pack_scratch bytes, aligned
 * for floats. */
bool sl_pack_mat_groups(const struct sl_pack_mat *m, size_t g0, size_t g1,
                        void *scratch);

/* The same for a quantised type (pack_quant.c); and the first block of a
 * quantised source that is not finite. */
bool sl_pack_quant_groups(const struct sl_pack_mat *m, size_t g0, size_t g1,
                          void *scratch);
const unsigned char *sl_pack_quant_bad(const struct sl_pack_mat *m, size_t g0,
                                       size_t g1);

/* Row `row` of the internal order, in the file. */
const unsigned char *sl_pack_src_row(const struct sl_pack_mat *m, size_t row);

/* Row `row` of the internal order as numbers; false when one is not finite. */
bool sl_pack_row(const struct sl_pack_mat *m, size_t row, float *out);

/* The first element or scale of these groups that is not finite, in the file's
 * bytes; NULL when there is none. */
const unsigned char *sl_pack_mat_bad(const struct sl_pack_mat *m, size_t g0,
                                     size_t g1);

enum sl_pack_rule {
    SL_PACK_PLAIN,
    SL_PACK_ONE_PLUS, /* zero-centred norms: 1 + w in fp32 */
    SL_PACK_NEG_EXP,  /* A_log -> -exp(A_log) */
    SL_PACK_CONV,     /* [n][4] -> per head [4][width]; `perm` says the heads */
};

struct sl_pack_vec {
    const unsigned char *src; /* NULL: sensible values, see `seed` */
    enum sl_dtype src_type;   /* F32, BF16 or F16 */
    size_t n;
    enum sl_pack_rule rule;
    struct sl_perm perm;
    float *dst;               /* [n], SL_PACK_CONV: [4][n] */
    float dummy_lo, dummy_hi; /* range of the values without a source */
    uint64_t seed;
};

/* False when a source element or result is not finite. */
bool sl_pack_vec(const struct sl_pack_vec *v);
const unsigned char *sl_pack_vec_bad(const struct sl_pack_vec *v);

/* Element i of a run of F32, BF16 or F16 elements. */
float sl_pack_f32(const unsigned char *p, enum sl_dtype type, size_t i);

#endif
