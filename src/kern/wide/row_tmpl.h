/* kern/wide/row_tmpl.h - what happens to one row: norms, gates, maps, rotations
 *
 * Sums along a row use the sixteen virtual lanes of the contract. The last
 * registers of a row are masked: lanes that hold no element keep their value,
 * and no byte beyond the row is touched.
 *
 * Includer: defines the operations of wide.h, and ISA(x).
 */
#include "kern/wide/math_tmpl.h"

#define L2_EPS 1e-6f /* as in ref/row.c */

enum { LANES = 16, N = LANES / VEC };

/* lanes(a * b); a may be b. Adding the zero product of an empty lane would turn
 * a -0 into 0. */
static float dot(const float *restrict a, const float *restrict b, size_t n)
{
    vf acc[N];
    size_t i = 0;

    UNROLL
    for (size_t j = 0; j < N; j++)
        acc[j] = set(0);
    for (; i + LANES <= n; i += LANES) {
        UNROLL
        for (size_t j = 0; j < N; j++)
            acc[j] = vfma(load(a + i + j * VEC), load(b + i + j * VEC), acc[j]);
    }
    UNROLL
    for (size_t j = 0; j < N; j++, i += VEC) {
        if (i < n) {
            vf sum = vfma(load_n(a + i, n - i), load_n(b + i, n - i), acc[j]);

            acc[j] = choose(first(n - i), sum, acc[j]);
        }
    }
    return lanes_sum(acc);
}

static float inverse_rms(const float *x, size_t n, float eps)
{
    return 1 / sqrtf(dot(x, x, n) / (float)n + eps);
}

static void rmsnorm(float *y, const float *x, const float *restrict w, size_t n,
                    float eps)
{
    vf s = set(inverse_rms(x, n, eps));

    for (size_t i = 0; i < n; i += VEC)
        store_n(y + i,
                vmul(vmul(load_n(x + i, n - i), s), load_n(w + i, n - i)),
                n - i);
}

static void gatednorm_silu(float *y, const float *x, const float *restrict z,
                           const float *restrict w, size_t n, float eps)
{
    vf s = set(inverse_rms(x, n, eps));

    for (size_t i = 0; i < n; i += VEC) {
        vf v = vmul(vmul(load_n(x + i, n - i), s), load_n(w + i, n - i));

        store_n(y + i, vmul(v, vec_silu(load_n(z + i, n - i))), n - i);
    }
}

static void gatednorm_sigmoid(float *y, const float *x, const float *restrict z,
                              const float *restrict w, size_t n, float eps)
{
    vf s = set(inverse_rms(x, n, eps));

    for (size_t i = 0; i < n; i += VEC) {
        vf v = vmul(vmul(load_n(x + i, n - i), s), load_n(w + i, n - i));

        store_n(y + i, vmul(v, vec_sigmoid(load_n(z + i, n - i))), n - i);
    }
}

static void l2norm(float *y, const float *x, size_t n, float scale)
{
    vf s = set(1 / sqrtf(dot(x, x, n) + L2_EPS));

    for (size_t i = 0; i < n; i += VEC)
        store_n(y + i, vmul(vmul(load_n(x + i, n - i), s), set(scale)), n - i);
}

static void add(float *restrict y, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i += VEC)
        store_n(y + i, vadd(load_n(y + i, n - i), load_n(x + i, n - i)), n - i);
}

static void axpy(float *restrict y, float a, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i += VEC)
        store_n(y + i,
                vfma(set(a), load_n(x + i, n - i), load_n(y + i, n - i)),
                n - i);
}

static void silu_mul(float *y, const float *g, const float *u, size_t n)
{
    for (size_t i = 0; i < n; i += VEC)
        store_n(y + i, vmul(vec_silu(load_n(g + i, n - i)), load_n(u + i, n - i)),
                n - i);
}

static void sigmoid_mul(float *y, const float *x, const float *g, size_t n)
{
    for (size_t i = 0; i < n; i += VEC)
        store_n(y + i,
                vmul(load_n(x + i, n - i), vec_sigmoid(load_n(g + i, n - i))),
                n - i);
}

static void exp_map(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += VEC)
        store_n(y + i, vec_exp(load_n(x + i, n - i)), n - i);
}

static void sincos_map(float *restrict s, float *restrict c,
                       const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i += VEC) {
        vf vs, vc;

        vec_sincos(load_n(x + i, n - i), &vs, &vc);
        store_n(s + i, vs, n - i);
        store_n(c + i, vc, n - i);
    }
}

static void rope(float *restrict x, const float *restrict s,
                 const float *restrict c, size_t half)
{
    for (size_t i = 0; i < half; i += VEC) {
        size_t n = half - i;
        vf a = load_n(x + i, n), b = load_n(x + half + i, n);
        vf vs = load_n(s + i, n), vc = load_n(c + i, n);

        store_n(x + i, vfma(a, vc, negate(vmul(b, vs))), n);
        store_n(x + half + i, vfma(b, vc, vmul(a, vs)), n);
    }
}

static void conv(float *restrict y, const float *u0, const float *u1,
                 const float *u2, const float *u3, const float *restrict w,
                 size_t n)
{
    for (size_t i = 0; i < n; i += VEC) {
        size_t l = n - i;
        vf a = vmul(load_n(w + i, l), load_n(u0 + i, l));

        a = vfma(load_n(w + n + i, l), load_n(u1 + i, l), a);
        a = vfma(load_n(w + 2 * n + i, l), load_n(u2 + i, l), a);
        a = vfma(load_n(w + 3 * n + i, l), load_n(u3 + i, l), a);
        store_n(y + i, vec_silu(a), l);
    }
}

static void div_map(float *y, const float *x, float l, size_t n)
{
    for (size_t i = 0; i < n; i += VEC)
        store_n(y + i, vdiv(load_n(x + i, n - i), set(l)), n - i);
}

/* First the largest value, then where it is: the second pass ends early and
 * needs no index vectors. A NaN never replaces a maximum: vmax returns its
 * second operand. */
static size_t argmax(float *max, const float *x, size_t n)
{
    vf m = set(-INFINITY);
    size_t best = 0;

    for (size_t i = 0; i < n; i += VEC)
        m = vmax(choose(first(n - i), load_n(x + i, n - i), m), m);
    *max = top(m);
    if (*max == -INFINITY)
        return 0;
    while (best + VEC <= n &&
           top(choose(eq(load(x + best), set(*max)), set(1), set(0))) == 0)
        best += VEC;
    while (x[best] != *max)
        best++;
    *max = x[best]; /* 0 and -0 are equal: the first one counts */
    return best;
}

void ISA(sl_kern_init_row)(struct sl_kern *k)
{
    k->rmsnorm = rmsnorm;
    k->gatednorm_silu = gatednorm_silu;
    k->gatednorm_sigmoid = gatednorm_sigmoid;
    k->l2norm = l2norm;
    k->dot = dot;
    k->add = add;
    k->axpy = axpy;
    k->silu_mul = silu_mul;
    k->sigmoid_mul = sigmoid_mul;
    k->exp = exp_map;
    k->sincos = sincos_map;
    k->rope = rope;
    k->conv = conv;
    k->div = div_map;
    k->argmax = argmax;
}
