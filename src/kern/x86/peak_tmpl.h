/* kern/x86/peak_tmpl.h - multiply-adds from registers, where bytes have an
 * instruction that adds to 32 bits; see sl_peak_fn and peak_avx2.c
 *
 * Includer: defines the operations of wide.h, and ISA(x).
 */
#define CHAINS 12 /* hide the latency and leave registers for the rest */
#ifdef __clang__
#define UNROLL_ALL UNROLL
#else
#define UNROLL_ALL _Pragma("GCC unroll 12")
#endif
#define OPAQUE(x) __asm__ volatile("" : "+v"(x))

static uint64_t peak_int8(uint64_t n)
{
    const uint64_t step = CHAINS * sizeof(vi), rounds = n / step + 1;
    vi w = iset(0x03030303), x = iset(0x05050505), acc[CHAINS];

    UNROLL_ALL
    for (int c = 0; c < CHAINS; c++)
        acc[c] = iset(0);
    for (uint64_t i = 0; i < rounds; i++) {
        UNROLL_ALL
        for (int c = 0; c < CHAINS; c++) {
            acc[c] = dot4(acc[c], w, x);
            OPAQUE(acc[c]);
        }
    }
    return rounds * step;
}

static uint64_t peak_fp32(uint64_t n)
{
    const uint64_t step = CHAINS * sizeof(vf) / sizeof(float);
    const uint64_t rounds = n / step + 1;
    vf w = set(0.5f), acc[CHAINS];

    UNROLL_ALL
    for (int c = 0; c < CHAINS; c++)
        acc[c] = set(0);
    for (uint64_t i = 0; i < rounds; i++) {
        UNROLL_ALL
        for (int c = 0; c < CHAINS; c++) {
            acc[c] = vfma(acc[c], w, w);
            OPAQUE(acc[c]);
        }
    }
    return rounds * step;
}

void ISA(sl_kern_init_peak)(struct sl_kern *k)
{
    k->peak_int8 = peak_int8;
    k->peak_fp32 = peak_fp32;
}
