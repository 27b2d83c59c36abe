/* kern/x86/quant_mul_vnni.c - products with quantised weights, AVX-VNNI
 *
 * Proved by: natively, and with SIMDe on AVX2 (make check).
 */
#include "kern/x86/vec_vnni.h"
#include "kern/x86/x86.h"

#include "kern/wide/quant_mul_tmpl.h"
