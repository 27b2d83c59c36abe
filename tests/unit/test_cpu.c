/* Which level is chosen from what a processor says about itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kern/kern.h"

/* Registers of real processors, cut down to the bits that are looked at and
 * some neighbours: leaf 1 ecx, leaf 7 ebx and ecx, leaf 7.1 eax, XCR0. */
static const struct {
    const char *name;
    struct sl_cpu_bits bits;
    unsigned want;
} machines[] = {
    {"nothing", {0}, 0},
    {"Nehalem", {.c1 = 0x009ce3bd}, 0},
    {"Zen 1",
     {.c1 = 0x7ed8320b, .b7 = 0x209c01a9, .xcr0 = 0x7},
     SL_CPU_AVX2},
    {"Zen 1, no system that saves ymm",
     {.c1 = 0x76d8320b, .b7 = 0x209c01a9},
     0},
    {"Zen 1, ymm switched off",
     {.c1 = 0x7ed8320b, .b7 = 0x209c01a9, .xcr0 = 0x3},
     0},
    {"no F16C",
     {.c1 = 0x5ed8320b, .b7 = 0x209c01a9, .xcr0 = 0x7},
     0},
    {"no FMA", {.c1 = 0x7ed8220b, .b7 = 0x209c01a9, .xcr0 = 0x7}, 0},
    {"Skylake-X: no VNNI",
     {.c1 = 0x7ffefbff, .b7 = 0xd39ffffb, .xcr0 = 0xe7},
     SL_CPU_AVX2},
    {"Cascade Lake",
     {.c1 = 0x7ffefbff, .b7 = 0xd39ffffb, .c7 = 0x808, .xcr0 = 0xe7},
     SL_CPU_AVX2 | SL_CPU_AVX512_VNNI},
    {"Cascade Lake, no system that saves zmm",
     {.c1 = 0x7ffefbff, .b7 = 0xd39ffffb, .c7 = 0x808, .xcr0 = 0x07},
     SL_CPU_AVX2},
    {"Cascade Lake, zmm but not its upper half",
     {.c1 = 0x7ffefbff, .b7 = 0xd39ffffb, .c7 = 0x808, .xcr0 = 0x67},
     SL_CPU_AVX2},
    {"without AVX-512 VL",
     {.c1 = 0x7ffefbff, .b7 = 0x539ffffb, .c7 = 0x808, .xcr0 = 0xe7},
     SL_CPU_AVX2},
    {"Alder Lake",
     {.c1 = 0x7ffafbff,
      .b7 = 0x239c27eb,
      .c7 = 0x98c007ac,
      .a71 = 0x1c30,
      .xcr0 = 0x7},
     SL_CPU_AVX2 | SL_CPU_AVX_VNNI},
    {"Sapphire Rapids",
     {.c1 = 0x7ffefbff,
      .b7 = 0xf3bfbfeb,
      .c7 = 0xfb417fee,
      .a71 = 0x1c30,
      .xcr0 = 0x602e7},
     SL_CPU_AVX2 | SL_CPU_AVX_VNNI | SL_CPU_AVX512_VNNI},
    {"Cortex-A53", {.hwcap = 0xff}, SL_CPU_NEON},
    {"Neoverse N1",
     {.hwcap = 0x119fff},
     SL_CPU_NEON | SL_CPU_NEON_DOTPROD},
    {"Neoverse V1",
     {.hwcap = 0xffffffff, .hwcap2 = 0x3f3f00},
     SL_CPU_NEON | SL_CPU_NEON_DOTPROD | SL_CPU_NEON_I8MM},
    {"i8mm alone",
     {.hwcap = 0xff, .hwcap2 = 1 << 13},
     SL_CPU_NEON},
};

static void choice(void **state)
{
    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(machines); i++) {
        unsigned got = sl_cpu_levels(&machines[i].bits);

        if (got != machines[i].want)
            fail_msg("%s: levels %#x, not %#x", machines[i].name, got,
                     machines[i].want);
    }
}

/* The compiler's helper asks the same questions in its own way. */
static void this_machine(void **state)
{
    unsigned cpu = sl_cpu_detect();

    (void)state;
#if defined(__x86_64__)
    __builtin_cpu_init();
    assert_int_equal((cpu & SL_CPU_AVX2) != 0,
                     __builtin_cpu_supports("avx2") &&
                         __builtin_cpu_supports("fma"));
    assert_int_equal((cpu & SL_CPU_AVX512_VNNI) != 0,
                     (cpu & SL_CPU_AVX2) &&
                         __builtin_cpu_supports("avx512f") &&
                         __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512vl") &&
                         __builtin_cpu_supports("avx512vnni"));
#else
    assert_true((cpu & (SL_CPU_AVX2 | SL_CPU_AVX512_VNNI)) == 0);
#endif
}

/* Whatever is allowed, the table is whole and says what it is. */
static void masks(void **state)
{
    static const struct {
        unsigned mask;
        const char *isa;
    } level[] = {{0, "ref"},
                 {SL_CPU_AVX2, "avx2"},
                 {SL_CPU_AVX2 | SL_CPU_AVX_VNNI, "avx-vnni"},
                 {SL_CPU_AVX2 | SL_CPU_AVX512_VNNI, "avx512-vnni"},
                 {SL_CPU_NEON, "neon"},
                 {SL_CPU_NEON | SL_CPU_NEON_DOTPROD, "neon-dotprod"},
                 {SL_CPU_NEON | SL_CPU_NEON_DOTPROD | SL_CPU_NEON_I8MM,
                  "neon-i8mm"}};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(level); i++) {
        struct sl_kern k;

        if ((sl_cpu_detect() & level[i].mask) != level[i].mask)
            continue;
        sl_kern_init(&k, level[i].mask);
        assert_string_equal(k.isa, level[i].isa);
        assert_non_null(k.mulq[SL_Q4_K]);
        assert_non_null(k.argmax);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choice),
        cmocka_unit_test(this_machine),
        cmocka_unit_test(masks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
