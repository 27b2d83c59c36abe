/* kern/wide/quant_act_tmpl.h - activations as int8
 *
 * Includer: defines the operations of wide.h, and ISA(x). Of these only NEON
 * does; AVX-512 uses what AVX2 has.
 */
#include <math.h>

#include "kern/quant.h"
#include "kern/wide/wide.h"

enum { N = SL_QBLOCK / VEC };

/* The largest magnitude. An infinity or a NaN, whose bits are above those of all
 * numbers, gives itself. */
SL_INLINE uint32_t max_bits(const vf x[N])
{
    const vi mag = iset(0x7fffffff);
    vi m = iand(bits(x[0]), mag);
    float v[VEC];
    uint32_t most = 0;

    UNROLL
    for (size_t i = 1; i < N; i++) {
        vi u = iand(bits(x[i]), mag);

        m = bits(choose(igt(u, m), floats(u), floats(m)));
    }
    store(v, floats(m));
    for (size_t i = 0; i < VEC; i++) {
        uint32_t u;

        __builtin_memcpy(&u, &v[i], sizeof(u));
        most = u > most ? u : most;
    }
    return most;
}

static void quant_act(int8_t *restrict q, float *restrict scale,
                      int16_t *restrict sum, const float *restrict x,
                      size_t cols)
{
    for (size_t b = 0; b < cols / SL_QBLOCK; b++, x += SL_QBLOCK) {
        int32_t v[SL_QBLOCK] = {0};
        uint32_t most;
        float amax;
        vf r[N];

        UNROLL
        for (size_t i = 0; i < N; i++)
            r[i] = load(x + i * VEC);
        most = max_bits(r);
        __builtin_memcpy(&amax, &most, sizeof(amax));
        scale[b] = most >= 0x7f800000u ? NAN : amax / 127;
        if (scale[b] > 0) {
            UNROLL
            for (size_t i = 0; i < N; i++) {
                vf y = vmin(vdiv(r[i], set(scale[b])), set(127));

                y = vmax(y, set(-127));
                store((float *)(void *)(v + i * VEC), floats(to_int(y)));
            }
        }
        sum[2 * b] = sum[2 * b + 1] = 0;
        for (size_t i = 0; i < SL_QBLOCK; i++) {
            q[b * SL_QBLOCK + i] = (int8_t)v[i];
            sum[2 * b + i / 16] = (int16_t)(sum[2 * b + i / 16] + v[i]);
        }
    }
}

void ISA(sl_kern_init_quant_act)(struct sl_kern *k)
{
    k->quant_act = quant_act;
}
