/* kern/ref/ref.h - what the scalar kernels share
 *
 * These kernels are the contract (rule K1): written for the eye, one loop per
 * index, and never made faster. kern/kern.h says the same in words.
 */
#ifndef SL_KERN_REF_REF_H
#define SL_KERN_REF_REF_H

#include "kern/kern.h"

/* Each file fills its part of the table. */
void sl_kern_init_ref_mul(struct sl_kern *k);
void sl_kern_init_ref_row(struct sl_kern *k);
void sl_kern_init_ref_gdn(struct sl_kern *k);
void sl_kern_init_ref_attn(struct sl_kern *k);
void sl_kern_init_ref_quant_act(struct sl_kern *k);
void sl_kern_init_ref_quant_mul(struct sl_kern *k);
void sl_kern_init_ref_peak(struct sl_kern *k);

/* The tree that ends every sum along lanes. Overwrites `lane`. */
float sl_lanes_sum__ref(float lane[16]);

/* lanes(a * b) */
float sl_dot__ref(const float *restrict a, const float *restrict b, size_t n);

#endif
