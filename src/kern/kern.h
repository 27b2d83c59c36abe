/* kern/kern.h - the table of kernels, and their contracts
 *
 * A kernel works on plain pointers for one worker. It does not allocate, lock,
 * log or fail; its caller in ops/ has checked the sizes. Every entry exists as
 * a scalar function in kern/ref/, which is the contract: which operations, in
 * which order, rounded where. A faster one replaces it and gives the same bits
 * (rule K7), for any NaN any NaN.
 *
 * Sizes may be anything including 0 and 1 unless a contract says otherwise.
 * Pointers need the alignment of their element only. Nothing is read beyond
 * the named elements. Outputs do not overlap inputs unless a contract says so.
 *
 * Words used below:
 *   chain       acc = 0; for i in rising order: acc = fma(a[i], b[i], acc)
 *   lanes(f)    sixteen accumulators from 0; element i goes to lane i mod 16 in
 *               rising order; then the tree: lane j += lane j + 8 for j < 8,
 *               the same with 4, 2, 1. For sums that must run along a vector.
 *   exp, log, log1p, sin, cos, sigmoid, silu, softplus
 *               those of kern/math.h, never libm's
 *
 * Weights in fp32, bf16, f16 and fp8 lie in groups of eight output rows: element
 * (r, c) of a matrix with `cols` columns is w[(r / 8 * cols + c) * 8 + r % 8]; the
 * last group is padded with zeros. So one vector holds a column of eight
 * outputs, and the order of additions of an output does not depend on the width
 * of the vector. Groups of quantised weights are drawn in kern/quant.h.
 */
#ifndef SL_KERN_KERN_H
#define SL_KERN_KERN_H

#include "base/base.h"
#include "base/dtype.h"

/* Raised by a commit that changes what a contract computes, so that values
 * which were kept on a disk are not mixed with others. */
#define SL_CONTRACT 1

#define SL_BFP 16        /* elements that share a bfp exponent */
#define SL_GROUP 8       /* output rows that are interleaved */
#define SL_TILE 16       /* state columns, and key positions, of one tile */
#define SL_KV_PAGE 64    /* positions of one KV page */
#define SL_KV_BLOCK 256  /* positions of one attention reduction: four pages */
#define SL_FP8_BLOCK 128 /* columns that share a scale of an FP8 matrix */

/* y[t * ldy + r] = chain over c of w(r, c) * x[t * ldx + c]
 *
 * t < n_tok, r < rows, c < cols. w(r, c) in fp32:
 *   F32   itself
 *   BF16  its 16 bits are the upper half
 *   F16   an IEEE half, exactly
 *   FP8   e4m3(q) * scale[r / 8 * ceil(cols / 128) + c / 128], one rounding
 *         (exact for bf16 scales); 0x7f and 0xff are NaN
 * scale is NULL but for FP8. Writes rows values per t, not the padding. The
 * value for one t does not depend on n_tok. */
typedef void sl_mul_fn(float *restrict y, size_t ldy, const void *restrict w,
                       const float *restrict scale, const float *restrict x,
                       size_t ldx, size_t n_tok, size_t rows, size_t cols);

/* One row of activations as int8, for products with quantised weights. For each
 * block of 32 elements, cols a multiple of 32:
 *   amax   largest |x|
 *   scale  amax / 127, one division
 *   q[i]   x[i] / scale (a division), clamped to -127 .. 127, rounded to the
 *          nearest integer, ties to even; never -128
 *   sum[0], sum[1]   sums of q over columns 0 to 15 and 16 to 31
 * scale = 0 (amax is 0 or so small that the quotient is): all q are 0. An
 * infinity or a NaN in the block: scale is NaN, all q are 0, and so every
 * product with the row is NaN.
 * Writes cols elements of q, cols / 32 of scale, cols / 16 of sum. */
typedef void sl_quant_act_fn(int8_t *restrict q, float *restrict scale,
                             int16_t *restrict sum, const float *restrict x,
                             size_t cols);

/* Quantised rows. Row t is q + t * ld, scale + t * (ld / 32) and sum + t *
 * (ld / 16); ld is a multiple of 32. */
struct sl_qact {
    const int8_t *q;
    const float *scale;
    const int16_t *sum;
    size_t ld;
};

/* y[t * ldy + r] = product of row r of quantised weights and row t of x. w is
 * the groups of kern/quant.h; cols is a multiple of 32, and of 256 for q4_k,
 * q5_k, q6_k, q3_k, q2_k and iq4_xs. Over blocks of 32 columns in rising order, acc from 0, a the
 * scale of the block of x, q its integers, u the integers of the weights as
 * they are stored, every sum of integers exact:
 *
 *   q8_0        i = sum (u - 128) q;        acc = fma(d * a, i, acc)
 *   q4_0        i = sum (u - 8) q;          acc = fma(d * a, i, acc)
 *   q4_k, q5_k  i = sum u q, s = sum q;     acc = fma((d * sc) * a, i, acc)
 *                                           acc = fma(-(dmin * m), a * s, acc)
 *   q6_k        i = sc0 * sum (u - 32) q over columns 0 to 15
 *                 + sc1 * the same over 16 to 31;
 *                                           acc = fma(d * a, i, acc)
 *   q5_0        i = sum (u - 16) q, and iq4_nl i = sum t[u] q, like q4_0
 *   iq4_xs      i = sum t[u] q;             acc = fma((d * (sc - 32)) * a, i, acc)
 *   mxfp4       i = sum t[u] q;             acc = fma(2^(e - 128) * a, i, acc)
 *   q4_1, q5_1  i = sum u q, s = sum q;     acc = fma(d * a, i, acc)
 *                                           acc = fma(m, a * s, acc)
 *   q3_k        like q6_k, u - 4 for u - 32 and sc - 32 for sc
 *   q2_k        i = sc0 * sum u q over columns 0 to 15 + sc1 * ...,
 *               s = m0 * sum q over columns 0 to 15 + m1 * ...;
 *                                           acc = fma(d * a, i, acc)
 *                                           acc = fma(-dmin, a * s, acc)
 *   bfp8        i0, i1 = sum (u - 128) q over columns 0 to 15, 16 to 31;
 *               acc = fma(unit0 * a, i0, acc);  acc = fma(unit1 * a, i1, acc)
 *               unit = 2^(e - 133), 0 for e = 0
 *   bfp4        the same with u - 8 and 2^(e - 129)
 *
 * Products in front of the fma are rounded to fp32 each; d * sc, dmin * m are
 * exact (11 bits times 6). The integers are exact in fp32, which ends at 2^24 =
 * 16,777,216, whatever the bits of w, with |q| <= 127:
 *   q8_0  32 * 128 * 127      =    520,192
 *   q6_k  32 * 32 * 127 * 128 = 16,646,144
 *   iq4   32 * 127 * 127      =    516,128
 *   q5_k  32 * 31 * 127       =    125,984
 *   bfp8  16 * 128 * 127      =    260,096, the others less
 * q must be within -127 .. 127 and sum what it says. Writes rows values per t,
 * not the padding. The value for one t does not depend on n_tok. */
typedef void sl_mulq_fn(float *restrict y, size_t ldy, const void *restrict w,
                        const struct sl_qact *x, size_t n_tok, size_t rows,
                        size_t cols);

/* y[c] = w(row, c), c < cols: one row back out of its group. Quantised types:
 * the values of kern/quant.h, (d * sc) * u etc., each operation rounded; only
 * the last addition of those with minima can be inexact. scale is NULL. */
typedef void sl_row_fn(float *restrict y, const void *restrict w,
                       const float *restrict scale, size_t row, size_t cols);

/* Root mean square norm (Zhang and Sennrich 2019):
 *   s = 1 / sqrt(lanes(x^2) / n + eps);  y[i] = (x[i] * s) * w[i]
 * For the zero-centred norms of the model w already holds 1 + weight, added in
 * fp32. y may be x. n > 0. */
typedef void sl_rmsnorm_fn(float *y, const float *x, const float *restrict w,
                           size_t n, float eps);

/* The norm above, then y[i] = y[i] * silu(z[i]), or * sigmoid(z[i]). y may be
 * x. */
typedef void sl_gatednorm_fn(float *y, const float *x, const float *restrict z,
                             const float *restrict w, size_t n, float eps);

/* s = 1 / sqrt(lanes(x^2) + 1e-6);  y[i] = (x[i] * s) * scale. y may be x. */
typedef void sl_l2norm_fn(float *y, const float *x, size_t n, float scale);

/* lanes(a * b), each step one fma. */
typedef float sl_dot_fn(const float *restrict a, const float *restrict b,
                        size_t n);

/* y[i] += x[i] */
typedef void sl_add_fn(float *restrict y, const float *restrict x, size_t n);

/* y[i] = fma(a, x[i], y[i]) */
typedef void sl_axpy_fn(float *restrict y, float a, const float *restrict x,
                        size_t n);

/* y[i] = silu(g[i]) * u[i]; y may be g or u. */
typedef void sl_silu_mul_fn(float *y, const float *g, const float *u, size_t n);

/* y[i] = x[i] * sigmoid(g[i]); y may be x. */
typedef void sl_sigmoid_mul_fn(float *y, const float *x, const float *g,
                               size_t n);

/* y[i] = f(x[i]); y may be x. */
typedef void sl_map_fn(float *y, const float *x, size_t n);

/* s[i] = sin(x[i]), c[i] = cos(x[i]), for |x| <= 2^19. */
typedef void sl_sincos_fn(float *restrict s, float *restrict c,
                          const float *restrict x, size_t n);

/* Rotate pairs (x[i], x[i + half]), i < half, in place:
 *   a = x[i], b = x[i + half]
 *   x[i]        = fma(a, c[i], -(b * s[i]))
 *   x[i + half] = fma(b, c[i], a * s[i])
 * (the products b * s and a * s are rounded first) */
typedef void sl_rope_fn(float *restrict x, const float *restrict s,
                        const float *restrict c, size_t half);

/* Causal depthwise convolution of four taps and silu, n channels:
 *   a = w[0][i] * u0[i];  a = fma(w[1][i], u1[i], a), then taps 2 and 3
 *   y[i] = silu(a)
 * u0 is the oldest input, u3 the newest; w is [4][n]. The inputs may be the
 * same row. */
typedef void sl_conv_fn(float *restrict y, const float *u0, const float *u1,
                        const float *u2, const float *u3,
                        const float *restrict w, size_t n);

/* The gates of the delta rule, n heads:
 *   decay[i] = exp(a_neg[i] * softplus(a[i] + dt[i]))     a_neg = -exp(A_log)
 *   beta[i]  = sigmoid(b[i]) */
typedef void sl_gdn_gates_fn(float *restrict decay, float *restrict beta,
                             const float *restrict a, const float *restrict b,
                             const float *restrict a_neg,
                             const float *restrict dt, size_t n);

/* One visit to a tile of sixteen value columns of one head's state (gated delta
 * rule: Yang et al. 2024; D3 for the three kinds of rows).
 *
 * The state tile is [dk][16]. In order:
 *   pending row r:  S = fma(k_i, d_j, decay * S)
 *   firm row r:     S = decay * S
 *                   m_j = chain over i of k_i * S_ij
 *                   p_j = chain over i of q_i * S_ij
 *                   d_j = beta * (v_j - m_j)
 *                   o_j = fma(kq, d_j, p_j)
 *                   S_ij = fma(k_i, d_j, S_ij)
 *   the state goes to dst (which may be src)
 *   tentative row:  as a firm one, on a copy that is thrown away; d_j is also
 *                   written to d_out, to be replayed as a pending row later.
 * Rows of the step are firm ones first: row r of n_firm + n_tent uses k + r *
 * ldk and so on; tentative row t writes d_out + t * ldd. d_out may be NULL when
 * n_tent is 0; q, v, ... when both are. The last tentative row need not update
 * the copy, and so on: only outputs count. */
struct sl_gdn {
    const float *src; /* [dk][16] */
    float *dst;       /* [dk][16] */
    size_t dk;

    size_t n_pend;
    const float *pend_k, *pend_d, *pend_decay; /* row r at + r * ld */
    size_t ld_pend_k, ld_pend_d, ld_pend_decay;

    size_t n_firm, n_tent;
    const float *k, *q;             /* [dk] per row */
    const float *v;                 /* [16] per row */
    const float *decay, *beta, *kq; /* one value per row */
    size_t ld_k, ld_q, ld_v, ld_decay, ld_beta, ld_kq;
    float *o; /* [16] per row */
    size_t ld_o;
    float *d_out; /* [16] per tentative row */
    size_t ld_d;
    float *scratch; /* [dk][16], for the copy */
};
typedef void sl_gdn_fn(const struct sl_gdn *g);

/* One key or value of one position into its page. A page of one KV head holds
 * keys as four tiles of [dim][16 positions] and values as [64 positions][dim],
 * elements of type F32 or BF16 (rounded to nearest even, NaN kept quiet).
 *
 * BFP8 rounds as sl_quantise_row does, 16 elements of one position together; dim
 * is a multiple of 16. An element is an int8 i and worth i * 2^(e - 133) (0 for
 * e = 0). A tile of keys is [dim / 16] blocks of 16 exponents (one per position)
 * and [16][16 positions] elements; a value is [dim / 16] exponents and [dim]
 * elements. */
typedef void sl_put_k_fn(void *restrict page, size_t pos, const float *k,
                         size_t dim);
typedef void sl_put_v_fn(void *restrict page, size_t pos, const float *v,
                         size_t dim);

/* Attention of n_q queries with one block of up to 256 positions of one KV head
 * (in the manner of Milakov and Gimelshein 2018 and Dao et al. 2022, with fixed
 * blocks):
 *   s_p = (chain over d of q_d * k_pd) * scale      p < n_valid[t]
 *   s_p = -inf                                      p < n_skip[t]
 *   m   = max of s_p: m = -inf; for p in order: m = s_p > m ? s_p : m
 *   e_p = exp(s_p - m)
 *   l   = lanes(e)
 *   o_d = chain over p of e_p * v_pd
 * Pages k[i], v[i] hold positions 64 i to 64 i + 63; only the first
 * ceil(max n_valid / 64) are read, and positions beyond n_valid count for
 * nothing. n_valid = 0 gives m = -inf, l = 0, o = 0; otherwise n_skip <
 * n_valid. dim is a multiple of 8.
 * scratch: [n_q][256] floats. */
struct sl_attn {
    const float *q; /* query t at q + t * ld_q, [dim] */
    size_t ld_q, n_q, dim;
    float scale;
    const void *k[SL_KV_BLOCK / SL_KV_PAGE], *v[SL_KV_BLOCK / SL_KV_PAGE];
    const uint32_t *n_valid; /* [n_q], 0 to 256 */
    const uint32_t *n_skip;  /* [n_q]; NULL: all 0 */
    float *m, *l;            /* [n_q] */
    float *o;                /* [n_q][dim] */
    float *scratch;
};
typedef void sl_attn_fn(const struct sl_attn *a);

/* Put the next block behind those before it:
 *   M = m2 > m ? m2 : m;  a = exp(m - M), b = exp(m2 - M)
 *   l = fma(l2, b, l * a);  o_d = fma(o2_d, b, o_d * a);  m = M */
typedef void sl_attn_merge_fn(float *restrict m, float *restrict l,
                              float *restrict o, float m2, float l2,
                              const float *restrict o2, size_t dim);

/* y[i] = x[i] / l; y may be x. */
typedef void sl_div_fn(float *y, const float *x, float l, size_t n);

/* Largest value; the lowest index of equal ones; NaN never wins. 0 and -inf
 * for n = 0 or all NaN. */
typedef size_t sl_argmax_fn(float *max, const float *x, size_t n);

/* About n multiply-adds that wait for nothing but each other's units: the
 * ceiling of what this instruction set computes, for measurements. Returns how
 * many were done. */
typedef uint64_t sl_peak_fn(uint64_t n);

struct sl_kern {
    const char *isa;            /* of the fastest entries: "ref", "avx2", ... */
    sl_mul_fn *mul[SL_N_DTYPE]; /* NULL: no such weights */
    sl_row_fn *row[SL_N_DTYPE];
    sl_mulq_fn *mulq[SL_N_DTYPE]; /* NULL: not a quantised type */
    sl_quant_act_fn *quant_act;
    sl_rmsnorm_fn *rmsnorm;
    sl_gatednorm_fn *gatednorm_silu, *gatednorm_sigmoid;
    sl_l2norm_fn *l2norm;
    sl_dot_fn *dot;
    sl_add_fn *add;
    sl_axpy_fn *axpy;
    sl_silu_mul_fn *silu_mul;
    sl_sigmoid_mul_fn *sigmoid_mul;
    sl_map_fn *exp;
    sl_sincos_fn *sincos;
    sl_rope_fn *rope;
    sl_conv_fn *conv;
    sl_gdn_gates_fn *gdn_gates;
    sl_gdn_fn *gdn;
    sl_put_k_fn *put_k[SL_N_DTYPE]; /* F32, BF16 and BFP8 */
    sl_put_v_fn *put_v[SL_N_DTYPE];
    sl_attn_fn *attn[SL_N_DTYPE];
    sl_attn_merge_fn *attn_merge;
    sl_div_fn *div;
    sl_argmax_fn *argmax;
    sl_peak_fn *peak_int8, *peak_fp32; /* of the products with quantised
                                          weights, and of the others */
};

/* Levels of an instruction set, as bits of a mask, each above those before it
 * of its kind of processor. */
enum sl_cpu {
    SL_CPU_AVX2 = 1 << 0,        /* AVX2, FMA and F16C */
    SL_CPU_AVX_VNNI = 1 << 1,    /* products of bytes, 256 bits */
    SL_CPU_AVX512_VNNI = 1 << 2, /* AVX-512 F, BW, VL and VNNI */
    SL_CPU_NEON = 1 << 3,
    SL_CPU_NEON_DOTPROD = 1 << 4,
    SL_CPU_NEON_I8MM = 1 << 5,
};
#define SL_CPU_ALL 0xffffffffu

/* What processors say about themselves: on x86 registers of CPUID (leaf 1, 7
 * and 7.1) and XCR0, on ARM what Linux tells; zero what does not apply. */
struct sl_cpu_bits {
    uint32_t c1, b7, c7, a71;
    uint64_t xcr0, hwcap, hwcap2;
};

/* The levels that a processor with these bits can run. */
unsigned sl_cpu_levels(const struct sl_cpu_bits *b);

/* What this machine has. */
unsigned sl_cpu_detect(void);

/* Fill every entry: the scalar ones, replaced by what is both detected and
 * allowed by `mask`. Nothing else asks what the processor can do. */
void sl_kern_init(struct sl_kern *k, unsigned mask);

/* Used by sl_kern_init. */
void sl_kern_init_ref(struct sl_kern *k);
void sl_kern_init_x86(struct sl_kern *k, unsigned cpu);
void sl_kern_init_arm(struct sl_kern *k, unsigned cpu);

#endif
