/* kern/x86/peak_vnni.c - multiply-adds from registers, AVX-VNNI
 *
 * Natively only: what is emulated has no peak.
 */
#include "kern/x86/vec_vnni.h"
#include "kern/x86/x86.h"

#include "kern/x86/peak_tmpl.h"
