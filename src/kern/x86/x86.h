/* kern/x86/x86.h - the parts from which the tables of x86 are made */
#ifndef SL_KERN_X86_X86_H
#define SL_KERN_X86_X86_H

#include "kern/kern.h"
#include "kern/wide/wide.h"

void sl_kern_init_mul__avx2(struct sl_kern *k);
void sl_kern_init_row__avx2(struct sl_kern *k);
void sl_kern_init_gdn__avx2(struct sl_kern *k);
void sl_kern_init_attn__avx2(struct sl_kern *k);
void sl_kern_init_quant_act__avx2(struct sl_kern *k);
void sl_kern_init_quant_mul__avx2(struct sl_kern *k);
void sl_kern_init_peak__avx2(struct sl_kern *k);

void sl_kern_init_quant_mul__vnni(struct sl_kern *k);
void sl_kern_init_peak__vnni(struct sl_kern *k);

/* Activations become int8 as at the AVX2 level. */
SL_WIDE_INIT(avx512);
void sl_kern_init_peak__avx512(struct sl_kern *k);

#endif
