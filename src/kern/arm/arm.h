/* kern/arm/arm.h - the parts from which the tables of ARM are made */
#ifndef SL_KERN_ARM_ARM_H
#define SL_KERN_ARM_ARM_H

#include "kern/wide/wide.h"

SL_WIDE_INIT(neon);
void sl_kern_init_quant_mul__dotprod(struct sl_kern *k);
void sl_kern_init_quant_mul__i8mm(struct sl_kern *k);

#endif
