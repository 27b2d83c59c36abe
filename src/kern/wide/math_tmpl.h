/* kern/wide/math_tmpl.h - math.c, VEC at a time
 *
 * Line by line the operations of kern/math.c, so every lane has the bits of
 * the scalar function. Branches there are choices here. Includer: as wide.h
 * says.
 */
#include <math.h>

#include "kern/coef.h"
#include "kern/wide/wide.h"

/* 2^n for normal results. */
SL_INLINE vf vec_pow2(vi n)
{
    return floats(ishl(iadd(n, iset(127)), 23));
}

SL_INLINE vf vec_exp(vf x)
{
    const vf magic = set(SL_ROUND_MAGIC);
    vf t, n, r, p;
    vi k, half;

    x = vmin(set(SL_EXP_MAX), x);
    x = vmax(set(SL_EXP_MIN), x);
    t = vfma(x, set(SL_LOG2E), magic);
    n = vsub(t, magic);
    k = isub(bits(t), iset(SL_ROUND_MAGIC_BITS));
    r = vfma(n, set(-SL_LN2_HI), x);
    r = vfma(n, set(-SL_LN2_LO), r);
    p = vfma(set(SL_EXP_C6), r, set(SL_EXP_C5));
    p = vfma(p, r, set(SL_EXP_C4));
    p = vfma(p, r, set(SL_EXP_C3));
    p = vfma(p, r, set(SL_EXP_C2));
    p = vfma(p, r, set(1));
    p = vfma(p, r, set(1));
    half = isra(k, 1);
    /* A NaN went through p, and stays one whatever it is multiplied with. */
    p = vmul(p, vec_pow2(half));
    return vmul(p, vec_pow2(isub(k, half)));
}

SL_INLINE vf vec_log_tail(vf f, vf e)
{
    vf z = vmul(f, f), y;
    vf p = vfma(set(SL_LOG_C10), f, set(SL_LOG_C9));

    p = vfma(p, f, set(SL_LOG_C8));
    p = vfma(p, f, set(SL_LOG_C7));
    p = vfma(p, f, set(SL_LOG_C6));
    p = vfma(p, f, set(SL_LOG_C5));
    p = vfma(p, f, set(SL_LOG_C4));
    p = vfma(p, f, set(SL_LOG_C3));
    y = vmul(vmul(p, f), z);
    y = vfma(e, set(SL_LN2_LO), y);
    y = vfma(set(-0.5f), z, y);
    y = vadd(f, y);
    return vfma(e, set(SL_LN2_HI), y);
}

SL_INLINE vf vec_log1p(vf x)
{
    const vf inf = set(INFINITY);
    vf u = vadd(set(1), x);
    vi ub = bits(u);
    vi e = isra(isub(ub, iset(SL_SQRT_HALF_BITS)), 23);
    vf m = floats(isub(ub, ishl(e, 23)));
    vf scale = vec_pow2(isub(iset(0), e));
    vf f = vfma(x, scale, vsub(scale, set(1)));
    vf y;

    f = choose(igt(e, iset(63)), vsub(m, set(1)), f);
    y = vec_log_tail(f, to_float(e));
    y = choose(gt(u, set(0)), y, set(NAN));
    y = choose(eq(u, set(0)), set(-INFINITY), y);
    return choose(eq(u, inf), inf, y);
}

SL_INLINE vf vec_sin_poly(vf r)
{
    vf z = vmul(r, r);
    vf p = vfma(set(SL_SIN_C7), z, set(SL_SIN_C5));

    p = vfma(p, z, set(SL_SIN_C3));
    return vfma(vmul(r, z), p, r);
}

SL_INLINE vf vec_cos_poly(vf r)
{
    vf z = vmul(r, r);
    vf p = vfma(set(SL_COS_C8), z, set(SL_COS_C6));

    p = vfma(p, z, set(SL_COS_C4));
    return vfma(vmul(z, z), p, vfma(set(-0.5f), z, set(1)));
}

/* y with its sign turned where bit 1 of n is set. */
SL_INLINE vf turn(vf y, vi n)
{
    return floats(ixor(bits(y), ishl(iand(n, iset(2)), 30)));
}

SL_INLINE void vec_sincos(vf x, vf *s, vf *c)
{
    const vf magic = set(SL_ROUND_MAGIC);
    const vi one = iset(1);
    vf t = vfma(x, set(SL_TWO_OVER_PI), magic);
    vf n = vsub(t, magic);
    vi q = bits(t);
    vm odd = ieq(iand(q, one), one);
    vf r = vfma(n, set(-SL_PIO2_1), x);
    vf sr, cr;

    r = vfma(n, set(-SL_PIO2_2), r);
    r = vfma(n, set(-SL_PIO2_3), r);
    sr = vec_sin_poly(r);
    cr = vec_cos_poly(r);
    *s = turn(choose(odd, cr, sr), q);
    *c = turn(choose(odd, sr, cr), iadd(q, one));
}

SL_INLINE vf vec_sigmoid(vf x)
{
    return vdiv(set(1), vadd(set(1), vec_exp(negate(x))));
}

SL_INLINE vf vec_silu(vf x)
{
    return vdiv(x, vadd(set(1), vec_exp(negate(x))));
}

SL_INLINE vf vec_softplus(vf x)
{
    return choose(gt(x, set(20)), x, vec_log1p(vec_exp(x)));
}
