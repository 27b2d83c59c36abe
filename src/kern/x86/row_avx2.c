/* kern/x86/row_avx2.c - what happens to one row: norms, gates, maps, rotations
 *
 * Sums along a row use two registers as the sixteen virtual lanes of the
 * contract. The last registers of a row are masked: lanes that hold no element
 * keep their value, and no byte beyond the row is touched.
 */
#include <math.h>

#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

#define L2_EPS 1e-6f /* as in ref/row.c */

/* acc + a * b in the first n lanes. Adding the zero product of an empty lane
 * would turn a -0 into 0. */
SL_INLINE __m256 fma_n(__m256 a, __m256 b, __m256 acc, size_t n)
{
    __m256 sum = _mm256_fmadd_ps(a, b, acc);

    if (n >= VEC)
        return sum;
    return choose(_mm256_castsi256_ps(first(n)), sum, acc);
}

/* lanes(a * b); a may be b. */
static float dot(const float *restrict a, const float *restrict b, size_t n)
{
    __m256 lo = _mm256_setzero_ps(), hi = lo;
    size_t i = 0;

    for (; i + 2 * VEC <= n; i += 2 * VEC) {
        lo =
            _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), lo);
        hi = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + VEC),
                             _mm256_loadu_ps(b + i + VEC), hi);
    }
    if (i < n)
        lo = fma_n(load_n(a + i, n - i), load_n(b + i, n - i), lo, n - i);
    if (i + VEC < n) {
        i += VEC;
        hi = fma_n(load_n(a + i, n - i), load_n(b + i, n - i), hi, n - i);
    }
    return lanes_sum(lo, hi);
}

static float inverse_rms(const float *x, size_t n, float eps)
{
    return 1 / sqrtf(dot(x, x, n) / (float)n + eps);
}

static void rmsnorm(float *y, const float *x, const float *restrict w, size_t n,
                    float eps)
{
    __m256 s = set(inverse_rms(x, n, eps));

    for (size_t i = 0; i < n; i += VEC) {
        __m256 v = _mm256_mul_ps(load_n(x + i, n - i), s);

        store_n(y + i, _mm256_mul_ps(v, load_n(w + i, n - i)), n - i);
    }
}

static void gatednorm_silu(float *y, const float *x, const float *restrict z,
                           const float *restrict w, size_t n, float eps)
{
    __m256 s = set(inverse_rms(x, n, eps));

    for (size_t i = 0; i < n; i += VEC) {
        __m256 v = _mm256_mul_ps(load_n(x + i, n - i), s);

        v = _mm256_mul_ps(v, load_n(w + i, n - i));
        v = _mm256_mul_ps(v, vec_silu(load_n(z + i, n - i)));
        store_n(y + i, v, n - i);
    }
}

static void gatednorm_sigmoid(float *y, const float *x, const float *restrict z,
                              const float *restrict w, size_t n, float eps)
{
    __m256 s = set(inverse_rms(x, n, eps));

    for (size_t i = 0; i < n; i += VEC) {
        __m256 v = _mm256_mul_ps(load_n(x + i, n - i), s);

        v = _mm256_mul_ps(v, load_n(w + i, n - i));
        v = _mm256_mul_ps(v, vec_sigmoid(load_n(z + i, n - i)));
        store_n(y + i, v, n - i);
    }
}

static void l2norm(float *y, const float *x, size_t n, float scale)
{
    __m256 s = set(1 / sqrtf(dot(x, x, n) + L2_EPS));

    for (size_t i = 0; i < n; i += VEC) {
        __m256 v = _mm256_mul_ps(load_n(x + i, n - i), s);

        store_n(y + i, _mm256_mul_ps(v, set(scale)), n - i);
    }
}

static void add(float *restrict y, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i += VEC)
        store_n(y + i,
                _mm256_add_ps(load_n(y + i, n - i), load_n(x + i, n - i)),
                n - i);
}

static void axpy(float *restrict y, float a, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i += VEC) {
        __m256 v = load_n(y + i, n - i);

        v = _mm256_fmadd_ps(set(a), load_n(x + i, n - i), v);
        store_n(y + i, v, n - i);
    }
}

static void silu_mul(float *y, const float *g, const float *u, size_t n)
{
    for (size_t i = 0; i < n; i += VEC) {
        __m256 v = vec_silu(load_n(g + i, n - i));

        store_n(y + i, _mm256_mul_ps(v, load_n(u + i, n - i)), n - i);
    }
}

static void sigmoid_mul(float *y, const float *x, const float *g, size_t n)
{
    for (size_t i = 0; i < n; i += VEC) {
        __m256 v = vec_sigmoid(load_n(g + i, n - i));

        store_n(y + i, _mm256_mul_ps(load_n(x + i, n - i), v), n - i);
    }
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
        __m256 vs, vc;

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
        __m256 a = load_n(x + i, n), b = load_n(x + half + i, n);
        __m256 vs = load_n(s + i, n), vc = load_n(c + i, n);

        store_n(x + i, _mm256_fmsub_ps(a, vc, _mm256_mul_ps(b, vs)), n);
        store_n(x + half + i, _mm256_fmadd_ps(b, vc, _mm256_mul_ps(a, vs)), n);
    }
}

static void conv(float *restrict y, const float *u0, const float *u1,
                 const float *u2, const float *u3, const float *restrict w,
                 size_t n)
{
    for (size_t i = 0; i < n; i += VEC) {
        size_t l = n - i;
        __m256 a = _mm256_mul_ps(load_n(w + i, l), load_n(u0 + i, l));

        a = _mm256_fmadd_ps(load_n(w + n + i, l), load_n(u1 + i, l), a);
        a = _mm256_fmadd_ps(load_n(w + 2 * n + i, l), load_n(u2 + i, l), a);
        a = _mm256_fmadd_ps(load_n(w + 3 * n + i, l), load_n(u3 + i, l), a);
        store_n(y + i, vec_silu(a), l);
    }
}

static void div_map(float *y, const float *x, float l, size_t n)
{
    for (size_t i = 0; i < n; i += VEC)
        store_n(y + i, _mm256_div_ps(load_n(x + i, n - i), set(l)), n - i);
}

/* The first index at which x equals `value`, which is there. */
static size_t find(const float *x, float value, size_t n)
{
    for (size_t i = 0; i < n; i += VEC) {
        __m256 v = load_n(x + i, n - i);
        unsigned hits = (unsigned)_mm256_movemask_ps(
            _mm256_cmp_ps(v, set(value), _CMP_EQ_OQ));

        if (n - i < VEC)
            hits &= (1u << (n - i)) - 1;
        if (hits)
            return i + (size_t)__builtin_ctz(hits);
    }
    return 0;
}

/* First the largest value, then where it is: the second pass ends early and
 * needs no index vectors. A NaN never replaces a maximum: max_ps returns its
 * second operand. */
static size_t argmax(float *max, const float *x, size_t n)
{
    __m256 m = set(-INFINITY);
    __m128 s;
    size_t best;
    size_t i = 0;

    for (; i + VEC <= n; i += VEC)
        m = _mm256_max_ps(_mm256_loadu_ps(x + i), m);
    if (i < n) {
        __m256 v =
            choose(_mm256_castsi256_ps(first(n - i)), load_n(x + i, n - i), m);

        m = _mm256_max_ps(v, m);
    }
    s = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    s = _mm_max_ss(s, _mm_movehdup_ps(s));
    *max = _mm_cvtss_f32(s);
    if (*max == -INFINITY)
        return 0;
    best = find(x, *max, n);
    *max = x[best]; /* 0 and -0 are equal: the first one counts */
    return best;
}

void sl_kern_init_row__avx2(struct sl_kern *k)
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
