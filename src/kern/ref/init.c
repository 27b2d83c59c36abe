/* kern/ref/init.c - the scalar table, complete */
#include "kern/ref/ref.h"

void sl_kern_init_ref(struct sl_kern *k)
{
    k->isa = "ref";
    sl_kern_init_ref_mul(k);
    sl_kern_init_ref_row(k);
    sl_kern_init_ref_gdn(k);
    sl_kern_init_ref_attn(k);
    sl_kern_init_ref_quant_act(k);
    sl_kern_init_ref_quant_mul(k);
    sl_kern_init_ref_peak(k);
}
