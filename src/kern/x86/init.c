/* kern/x86/init.c - what x86 processors can do better
 *
 * In ascending order of instruction set, so that each level overwrites the one
 * below it.
 */
#include "kern/x86/x86.h"

void sl_kern_init_x86(struct sl_kern *k, unsigned cpu)
{
    if (!(cpu & SL_CPU_AVX2))
        return;
    k->isa = "avx2";
    sl_kern_init_mul__avx2(k);
    sl_kern_init_row__avx2(k);
    sl_kern_init_gdn__avx2(k);
    sl_kern_init_attn__avx2(k);
    sl_kern_init_quant_act__avx2(k);
    sl_kern_init_quant_mul__avx2(k);
    sl_kern_init_peak__avx2(k);
    if (cpu & SL_CPU_AVX_VNNI) {
        k->isa = "avx-vnni";
        sl_kern_init_quant_mul__vnni(k);
        sl_kern_init_peak__vnni(k);
    }
    if (!(cpu & SL_CPU_AVX512_VNNI))
        return;
    k->isa = "avx512-vnni";
    sl_kern_init_mul__avx512(k);
    sl_kern_init_row__avx512(k);
    sl_kern_init_gdn__avx512(k);
    sl_kern_init_attn__avx512(k);
    sl_kern_init_quant_mul__avx512(k);
    sl_kern_init_peak__avx512(k);
}
