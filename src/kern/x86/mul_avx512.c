/* kern/x86/mul_avx512.c - products with a weight matrix, AVX-512
 *
 * Proved by: natively, and with SIMDe on AVX2 (make check).
 */
#include "kern/x86/vec_avx512.h"
#include "kern/x86/x86.h"

#include "kern/wide/mul_tmpl.h"
