/* kern/x86/quant_mul_avx512.c - products with quantised weights, AVX-512 VNNI
 *
 * Proved by: natively, and with SIMDe on AVX2 (make check).
 */
#include "kern/x86/vec_avx512.h"
#include "kern/x86/x86.h"

#include "kern/wide/quant_mul_tmpl.h"
