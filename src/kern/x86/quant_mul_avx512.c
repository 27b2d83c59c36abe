/* kern/x86/quant_mul_avx512.c - products with quantised weights, AVX-512 VNNI
 *
 * Proved by: SIMDe, on AVX2 (make check). Natively where a machine has it.
 */
#include "kern/x86/vec_avx512.h"
#include "kern/x86/x86.h"

#include "kern/wide/quant_mul_tmpl.h"
