/* tests/kern/check.h - what the checks of the kernel tester share
 *
 * A check is one random case of one entry of the table: it draws sizes and
 * values, runs the reference and the candidate on the same inputs, and compares
 * every byte they may have written. All buffers lie against pages that cannot
 * be touched; inputs are compared with what they were.
 *
 * Buffers come from a pool that check_begin empties. Nothing is freed.
 */
#ifndef SL_TESTS_KERN_CHECK_H
#define SL_TESTS_KERN_CHECK_H

#include "base/base.h"
#include "kern/kern.h"

/* Kinds of values. */
enum fill {
    FILL_UNIFORM, /* [-1, 1) */
    FILL_NORMAL,  /* mean 0, deviation 1 */
    FILL_INT,     /* 1 to 3 or -1 to -3: sums are exact */
    FILL_BITS,    /* any bit pattern: denormals, infinities, NaN; or tiny */
    N_FILL,
};

struct check {
    const char *entry; /* for messages */
    const char *level; /* instruction set of `fast` */
    const struct sl_kern *ref, *fast;
    uint64_t rng;
    enum fill fill;
    /* FILL_BITS: all values so small that products vanish, and only the signs
     * of zeros are left. 1: positive, 2: negative, 3: either; 0: not so. */
    int tiny;
    unsigned failed; /* complaints about this case */
    char what[160];  /* sizes, for messages */
};

/* random.c */
uint64_t next_u64(struct check *c);
size_t below(struct check *c, size_t n); /* 0 to n - 1 */
bool one_in(struct check *c, size_t n);
size_t any_size(struct check *c, size_t max); /* likes 0, 1, edges of vectors */
float any_float(struct check *c, enum fill f);
float uniform(struct check *c, float lo, float hi);

/* buf.c: in: filled and compared by check_end; out: a pattern that no kernel
 * writes, so that what lies between rows shows. */
float *in_floats(struct check *c, size_t n);
float *in_copy(struct check *c, const float *from, size_t n);
void *in_bytes(struct check *c, size_t n, size_t size); /* random bits */
float *out_floats(struct check *c, size_t n);
float *out_copy(struct check *c, const float *from, size_t n);
void *out_bytes(struct check *c, size_t n, size_t size);
/* Call when an input has been changed on purpose. */
void touched(struct check *c, const void *p);
void check_begin(struct check *c);
void check_end(struct check *c);

/* Describe the sizes of this case. */
void describe(struct check *c, const char *fmt, ...) SL_PRINTF(2, 3);
void complain(struct check *c, const char *fmt, ...) SL_PRINTF(2, 3);

/* Equal bits, or both NaN. */
bool same(float a, float b);
/* Every element, the untouched ones included. */
void compare(struct check *c, const char *what, const float *got,
             const float *want, size_t n);
void compare_bytes(struct check *c, const char *what, const void *got,
                   const void *want, size_t bytes);
/* Elements width..ld of each row still hold the pattern of out_floats. */
void compare_gaps(struct check *c, const float *y, size_t rows, size_t ld,
                  size_t width);
/* |got - want| <= tol; NaN fails. */
void compare_near(struct check *c, const char *what, size_t i, float got,
                  double want, double tol);

/* gamma_n = n u / (1 - n u), u = 2^-24: a sum of n terms in any order is off by
 * at most gamma_n times the sum of magnitudes (Higham, Accuracy and Stability
 * of Numerical Algorithms, 2nd ed., 3.1). */
double gamma_n(size_t n);

typedef void check_fn(struct check *c);

struct entry {
    const char *name;
    check_fn *check;
};

/* One list per file, ends with a NULL name. */
extern const struct entry mul_entries[], row_entries[], gdn_entries[],
    attn_entries[], quant_entries[];

/* bench.c; the largest number of threads, or NULL for 2; the levels allowed */
int bench(const char *threads, unsigned mask);

#endif
