/* tests/kern/main.c - the kernel tester
 *
 *   kerncheck [SEED] [CASES]     all entries, every level; defaults 1 and 400
 *   kerncheck --bench [THREADS [LEVEL]]
 *                                rates, and the ratio to the reference; of the
 *                                highest level, or of the one that is named
 *
 * It asks two questions, because a wrong program can pass either alone (style
 * guide 4.2): is the fast kernel the reference, bit for bit; and is the
 * reference the mathematics, exactly on small integers and within a derived
 * bound on real numbers. A failure prints the seed and the case that repeat it;
 * so does a fault at a guard page.
 */
#include <signal.h>
#include <unistd.h>

#include "base/num.h"
#include "check.h"

enum { DEFAULT_CASES = 250, MAX_CASES = 100000000 };

struct level {
    const char *name;
    unsigned mask; /* this level and those below it */
    unsigned need; /* of the processor */
};

#define VNNI (SL_CPU_AVX2 | SL_CPU_AVX_VNNI)
#define AVX512 (SL_CPU_AVX2 | SL_CPU_AVX512_VNNI)
#define DOTPROD (SL_CPU_NEON | SL_CPU_NEON_DOTPROD)
#define I8MM (DOTPROD | SL_CPU_NEON_I8MM)

#ifdef SL_SIMDE /* kerncheck-simde: compiled for AVX2 */
static const struct level levels[] = {
    {"avx-vnni (SIMDe)", VNNI, SL_CPU_AVX2},
    {"avx512-vnni (SIMDe)", AVX512, SL_CPU_AVX2},
};
#else
static const struct level levels[] = {
    {"ref", 0, 0},
#if defined(__x86_64__)
    {"avx2", SL_CPU_AVX2, SL_CPU_AVX2},
    {"avx-vnni", VNNI, VNNI},
    {"avx512-vnni", AVX512, AVX512},
#elif defined(__aarch64__)
    {"neon", SL_CPU_NEON, SL_CPU_NEON},
    {"neon-dotprod", DOTPROD, DOTPROD},
    {"neon-i8mm", I8MM, I8MM},
#endif
};
#endif

static const struct entry *const lists[] = {
    mul_entries, row_entries, gdn_entries, attn_entries, quant_entries};

static struct check now; /* the running case, for the signal handler */
static uint64_t seed = 1, i_case;

static void on_fault(int sig)
{
    char line[320];
    int n = snprintf(line, sizeof(line),
                     "FAIL %s %s (%s): signal %d: touched memory beyond a "
                     "buffer; seed %llu, case %llu\n0 passed, 1 failed\n",
                     now.level, now.entry, now.what, sig,
                     (unsigned long long)seed, (unsigned long long)i_case);

    if (n > 0 && write(STDOUT_FILENO, line, (size_t)n) < 0)
        _exit(2);
    _exit(1);
}

/* One case: the state of the generator is a function of its arguments. */
static bool run_case(const struct entry *e, uint64_t id)
{
    check_begin(&now);
    now.entry = e->name;
    now.rng = seed * 0x9e3779b97f4a7c15ull + id * 0xd1b54a32d192ed03ull;
    for (const char *p = e->name; *p; p++)
        now.rng = (now.rng ^ (unsigned char)*p) * 0x100000001b3ull;
    now.fill = (enum fill)below(&now, N_FILL);
    now.tiny = now.fill == FILL_BITS && one_in(&now, 3);
    e->check(&now);
    check_end(&now);
    if (now.failed)
        printf("     repeat with: kerncheck %llu, case %llu\n",
               (unsigned long long)seed, (unsigned long long)id);
    return now.failed == 0;
}

static void run_level(const struct level *l, uint64_t cases, uint64_t *passed,
                      uint64_t *failed)
{
    struct sl_kern ref, fast;

    sl_kern_init(&ref, 0);
    sl_kern_init(&fast, l->mask);
#ifdef SL_SIMDE /* the processor need not have what it is compiled for */
    sl_kern_init_x86(&fast, l->mask);
#endif
    now.ref = &ref;
    now.fast = &fast;
    now.level = l->name;
    for (size_t i = 0; i < SL_COUNTOF(lists); i++) {
        for (const struct entry *e = lists[i]; e->name; e++) {
            uint64_t bad = 0;

            /* One entry that is wrong everywhere need not say so for ever. */
            for (i_case = 0; i_case < cases && bad < 5; i_case++)
                bad += !run_case(e, i_case);
            *passed += i_case - bad;
            *failed += bad;
        }
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: kerncheck [SEED] [CASES] | "
                    "kerncheck --bench [THREADS [LEVEL]]\n");
    return 2;
}

static bool can_run(const struct level *l)
{
    return (sl_cpu_detect() & l->need) == l->need;
}

static int bench_level(const char *threads, const char *name)
{
    for (size_t i = 0; name && i < SL_COUNTOF(levels); i++)
        if (!strcmp(levels[i].name, name) && can_run(&levels[i]))
            return bench(threads, levels[i].mask);
    if (!name)
        return bench(threads, SL_CPU_ALL);
    fprintf(stderr, "%s: not a level of this processor\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t passed = 0, failed = 0;
    int64_t arg[2] = {1, DEFAULT_CASES};
    struct sl_err err;

    if (argc > 1 && argc < 5 && strcmp(argv[1], "--bench") == 0)
        return bench_level(argv[2], argc > 3 ? argv[3] : NULL);
    if (argc > 3)
        return usage();
    for (int i = 1; i < argc; i++)
        if (sl_num_i64(&arg[i - 1], argv[i], strlen(argv[i]), 0, MAX_CASES,
                       "argument", &err))
            return usage();
    seed = (uint64_t)arg[0];
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    for (size_t i = 0; i < SL_COUNTOF(levels); i++) {
        if (!can_run(&levels[i])) {
            printf("skip %s: this processor does not have it\n",
                   levels[i].name);
            continue;
        }
        run_level(&levels[i], (uint64_t)arg[1], &passed, &failed);
    }
    printf("%llu passed, %llu failed\n", (unsigned long long)passed,
           (unsigned long long)failed);
    return failed != 0;
}
