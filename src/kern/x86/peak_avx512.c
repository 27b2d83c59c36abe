/* kern/x86/peak_avx512.c - multiply-adds from registers, AVX-512
 *
 * Natively only: what is emulated has no peak.
 */
#include "kern/x86/vec_avx512.h"
#include "kern/x86/x86.h"

#include "kern/x86/peak_tmpl.h"
