/* kern/arm/quant_mul_i8mm.c - products with quantised weights, NEON with i8mm
 *
 * Proved by: qemu-user (make check). Natively where a machine has it.
 */
#define ISA(x) x##__i8mm

#include "kern/arm/arm.h"
#include "kern/arm/vec_neon.h"

#include "kern/wide/quant_mul_tmpl.h"
