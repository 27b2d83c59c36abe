/* kern/x86/attn_avx512.c - attention, AVX-512
 *
 * Proved by: natively, and with SIMDe on AVX2 (make check).
 */
#include "kern/x86/vec_avx512.h"
#include "kern/x86/x86.h"

#include "kern/wide/attn_tmpl.h"
