/* kern/cpu.c - what this processor has
 *
 * sl_cpu_levels is a function of the bits that the processor and the kernel of
 * the operating system report, so that every machine can be tested on any. A
 * level needs exactly the features that its files are compiled for. Registers
 * wider than the oldest ones count only when the operating system saves them:
 * XCR0 says so.
 */
#include "kern/kern.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

/* Bits of CPUID (Intel, Software Developer's Manual, volume 2, CPUID), by leaf
 * and register. */
enum {
    C1_FMA = 1 << 12,
    C1_OSXSAVE = 1 << 27,
    C1_F16C = 1 << 29,
    B7_AVX2 = 1 << 5,
    B7_AVX512F = 1 << 16,
    B7_AVX512BW = 1 << 30,
    C7_AVX512_VNNI = 1 << 11,
    A71_AVX_VNNI = 1 << 4,
    /* XCR0: xmm and ymm; these, the masks and zmm. */
    XCR0_YMM = 0x06,
    XCR0_ZMM = 0xe6,
};
#define B7_AVX512VL (1u << 31)

/* Bits of AT_HWCAP and AT_HWCAP2 of Linux on ARM. */
enum {
    HWCAP_SIMD = 1 << 1,
    HWCAP_DOTPROD = 1 << 20,
    HWCAP2_INT8_MM = 1 << 13,
};

static bool all(uint64_t have, uint64_t want)
{
    return (have & want) == want;
}

static unsigned x86_levels(const struct sl_cpu_bits *b)
{
    const uint32_t avx512 = B7_AVX512F | B7_AVX512BW | B7_AVX512VL;
    unsigned cpu = SL_CPU_AVX2;

    if (!all(b->c1, C1_OSXSAVE | C1_FMA | C1_F16C) || !all(b->b7, B7_AVX2) ||
        !all(b->xcr0, XCR0_YMM))
        return 0;
    if (all(b->a71, A71_AVX_VNNI))
        cpu |= SL_CPU_AVX_VNNI;
    if (all(b->b7, avx512) && all(b->c7, C7_AVX512_VNNI) &&
        all(b->xcr0, XCR0_ZMM))
        cpu |= SL_CPU_AVX512_VNNI;
    return cpu;
}

static unsigned arm_levels(const struct sl_cpu_bits *b)
{
    if (!all(b->hwcap, HWCAP_SIMD))
        return 0;
    if (!all(b->hwcap, HWCAP_DOTPROD))
        return SL_CPU_NEON;
    if (!all(b->hwcap2, HWCAP2_INT8_MM))
        return SL_CPU_NEON | SL_CPU_NEON_DOTPROD;
    return SL_CPU_NEON | SL_CPU_NEON_DOTPROD | SL_CPU_NEON_I8MM;
}

unsigned sl_cpu_levels(const struct sl_cpu_bits *b)
{
    return x86_levels(b) | arm_levels(b);
}

unsigned sl_cpu_detect(void)
{
    struct sl_cpu_bits b = {0};

#if defined(__x86_64__)
    unsigned a, d, n_sub, c;

    if (__get_cpuid(1, &a, &c, &b.c1, &d) && b.c1 & C1_OSXSAVE) {
        uint32_t lo, hi;

        __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
        b.xcr0 = (uint64_t)hi << 32 | lo;
    }
    if (__get_cpuid_count(7, 0, &n_sub, &b.b7, &b.c7, &d) && n_sub >= 1)
        __get_cpuid_count(7, 1, &b.a71, &a, &c, &d);
#elif defined(__aarch64__)
    b.hwcap = getauxval(AT_HWCAP);
    b.hwcap2 = getauxval(AT_HWCAP2);
#endif
    return sl_cpu_levels(&b);
}
