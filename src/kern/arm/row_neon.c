/* kern/arm/row_neon.c - what happens to one row, NEON
 *
 * Proved by: qemu-user (make check). Natively where a machine has it.
 */
#define ISA(x) x##__neon

#include "kern/arm/arm.h"
#include "kern/arm/vec_neon.h"

#include "kern/wide/row_tmpl.h"
