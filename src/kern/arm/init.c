/* kern/arm/init.c - what 64-bit ARM processors can do better
 *
 * In ascending order of instruction set, so that each level overwrites the one
 * below it. Putting keys and values of bfp8, and rows out of their groups, stay
 * scalar: they are once per token.
 */
#include "kern/arm/arm.h"

void sl_kern_init_arm(struct sl_kern *k, unsigned cpu)
{
    if (!(cpu & SL_CPU_NEON))
        return;
    k->isa = "neon";
    sl_kern_init_mul__neon(k);
    sl_kern_init_row__neon(k);
    sl_kern_init_gdn__neon(k);
    sl_kern_init_attn__neon(k);
    sl_kern_init_quant_act__neon(k);
    sl_kern_init_quant_mul__neon(k);
    if (!(cpu & SL_CPU_NEON_DOTPROD))
        return;
    k->isa = "neon-dotprod";
    sl_kern_init_quant_mul__dotprod(k);
    if (!(cpu & SL_CPU_NEON_I8MM))
        return;
    k->isa = "neon-i8mm";
    sl_kern_init_quant_mul__i8mm(k);
}
