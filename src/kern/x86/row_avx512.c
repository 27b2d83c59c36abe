/* kern/x86/row_avx512.c - what happens to one row, AVX-512
 *
 * Proved by: natively, and with SIMDe on AVX2 (make check).
 */
#include "kern/x86/vec_avx512.h"
#include "kern/x86/x86.h"

#include "kern/wide/row_tmpl.h"
