/* kern/arm/quant_act_neon.c - activations as int8, NEON
 *
 * Proved by: qemu-user (make check). Natively where a machine has it.
 */
#define ISA(x) x##__neon

#include "kern/arm/arm.h"
#include "kern/arm/vec_neon.h"

#include "kern/wide/quant_act_tmpl.h"
