/* kern/arm/quant_mul_neon.c - products with quantised weights, NEON
 *
 * Proved by: qemu-user (make check). Natively where a machine has it.
 */
#define ISA(x) x##__neon

#include "kern/arm/arm.h"
#include "kern/arm/vec_neon.h"

#include "kern/wide/quant_mul_tmpl.h"
