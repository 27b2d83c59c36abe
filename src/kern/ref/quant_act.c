/* kern/ref/quant_act.c - activations as int8 */
#include <math.h>
#include <string.h>

#include "kern/coef.h"
#include "kern/quant.h"
#include "kern/ref/ref.h"

/* v clamped to -127 .. 127 and rounded to nearest, ties to even: adding a
 * number whose last bit counts ones leaves the rounding to the addition. */
static int8_t to_int8(float v)
{
    v = v > 127 ? 127 : v;
    v = v < -127 ? -127 : v;
    return (int8_t)(v + SL_ROUND_MAGIC - SL_ROUND_MAGIC);
}

/* One block of 32. */
static void quant_block(int8_t *restrict q, float *restrict scale,
                        int16_t *restrict sum, const float *restrict x)
{
    float amax = 0, s;
    bool finite = true;

    for (size_t i = 0; i < SL_QBLOCK; i++) {
        amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
        finite = finite && isfinite(x[i]);
    }
    s = amax / 127;
    *scale = finite ? s : NAN;
    sum[0] = sum[1] = 0;
    for (size_t i = 0; i < SL_QBLOCK; i++) {
        q[i] = finite && s > 0 ? to_int8(x[i] / s) : 0;
        sum[i / 16] = (int16_t)(sum[i / 16] + q[i]);
    }
}

static void quant_act(int8_t *restrict q, float *restrict scale,
                      int16_t *restrict sum, const float *restrict x,
                      size_t cols)
{
    for (size_t b = 0; b < cols / SL_QBLOCK; b++)
        quant_block(q + b * SL_QBLOCK, scale + b, sum + 2 * b,
                    x + b * SL_QBLOCK);
}

void sl_kern_init_ref_quant_act(struct sl_kern *k)
{
    k->quant_act = quant_act;
}
