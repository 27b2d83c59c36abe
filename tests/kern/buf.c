/* tests/kern/buf.c - buffers between pages that cannot be touched
 *
 * A slot is a run of pages with a forbidden page on either side. A buffer lies
 * against the end of its slot, so that reading one element too many faults at
 * once, or a few elements from the start, so that it is misaligned; what is
 * left of the slot holds a pattern near the buffer.
 */
#include <math.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "check.h"

enum {
    MAX_SLOTS = 48,
    SLOT_BYTES = 4 << 20,
    PAGE = 4096, /* of every machine we test on */
    MARGIN = 256,
    MAX_COMPLAINTS = 3, /* printed per case */
};

/* No kernel writes it: a NaN of this payload comes from nowhere. */
#define PATTERN 0xfff5a5a5u

struct slot {
    unsigned char *base; /* SLOT_BYTES that can be used */
    unsigned char *p;
    size_t bytes;
    bool is_input;
    uint64_t hash;
};

static struct slot slots[MAX_SLOTS];
static size_t n_slots; /* in use by this case */

static uint64_t hash_bytes(const unsigned char *p, size_t bytes)
{
    uint64_t h = bytes, w;
    size_t i = 0;

    for (; i + 8 <= bytes; i += 8) {
        memcpy(&w, p + i, sizeof(w));
        h = (h ^ w) * 0x9fb21c651e98df25ull;
        h ^= h >> 29;
    }
    for (; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}

static void map_slot(struct slot *s)
{
    unsigned char *m = mmap(NULL, SLOT_BYTES + 2 * PAGE, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    SL_CHECK(m != MAP_FAILED);
    SL_CHECK(mprotect(m + PAGE, SLOT_BYTES, PROT_READ | PROT_WRITE) == 0);
    s->base = m + PAGE;
}

/* Where the surroundings of a buffer begin and end. */
static unsigned char *left_end(const struct slot *s)
{
    return (size_t)(s->p - s->base) > MARGIN ? s->p - MARGIN : s->base;
}

static unsigned char *right_end(const struct slot *s)
{
    unsigned char *end = s->base + SLOT_BYTES, *after = s->p + s->bytes;

    return (size_t)(end - after) > MARGIN ? after + MARGIN : end;
}

static struct slot *new_slot(struct check *c, size_t bytes, size_t align)
{
    struct slot *s = &slots[n_slots++];

    SL_CHECK(n_slots <= MAX_SLOTS && bytes + 8 * align <= SLOT_BYTES);
    if (!s->base)
        map_slot(s);
    s->bytes = bytes;
    s->p = one_in(c, 3) ? s->base + below(c, 8) * align
                        : s->base + SLOT_BYTES - bytes;
    s->is_input = false;
    memset(left_end(s), 0xa5, (size_t)(s->p - left_end(s)));
    memset(s->p + bytes, 0xa5, (size_t)(right_end(s) - s->p) - bytes);
    return s;
}

static void fill_pattern(float *p, size_t n)
{
    const uint32_t u = PATTERN;

    for (size_t i = 0; i < n; i++)
        memcpy(p + i, &u, sizeof(u));
}

static void is_input(struct slot *s)
{
    s->is_input = true;
    s->hash = hash_bytes(s->p, s->bytes);
}

float *in_floats(struct check *c, size_t n)
{
    struct slot *s = new_slot(c, n * sizeof(float), sizeof(float));
    float *p = (float *)(void *)s->p;

    if (c->tiny) /* each buffer has its own signs */
        c->tiny = 1 + (int)below(c, 3);
    for (size_t i = 0; i < n; i++)
        p[i] = any_float(c, c->fill);
    is_input(s);
    return p;
}

float *in_copy(struct check *c, const float *from, size_t n)
{
    struct slot *s = new_slot(c, n * sizeof(float), sizeof(float));

    if (n > 0)
        memcpy(s->p, from, n * sizeof(float));
    is_input(s);
    return (float *)(void *)s->p;
}

void *in_bytes(struct check *c, size_t n, size_t size)
{
    struct slot *s = new_slot(c, n * size, size);

    for (size_t i = 0; i < s->bytes; i++)
        s->p[i] = (unsigned char)next_u64(c);
    is_input(s);
    return s->p;
}

float *out_floats(struct check *c, size_t n)
{
    struct slot *s = new_slot(c, n * sizeof(float), sizeof(float));

    fill_pattern((float *)(void *)s->p, n);
    return (float *)(void *)s->p;
}

float *out_copy(struct check *c, const float *from, size_t n)
{
    struct slot *s = new_slot(c, n * sizeof(float), sizeof(float));

    if (n > 0)
        memcpy(s->p, from, n * sizeof(float));
    return (float *)(void *)s->p;
}

void *out_bytes(struct check *c, size_t n, size_t size)
{
    struct slot *s = new_slot(c, n * size, size);

    memset(s->p, 0xa5, s->bytes);
    return s->p;
}

void touched(struct check *c, const void *p)
{
    for (size_t i = 0; i < n_slots; i++)
        if (slots[i].p == p)
            slots[i].hash = hash_bytes(slots[i].p, slots[i].bytes);
    (void)c;
}

void check_begin(struct check *c)
{
    n_slots = 0;
    c->failed = 0;
    c->what[0] = 0;
}

static bool all_a5(const unsigned char *p, const unsigned char *end)
{
    for (; p < end; p++)
        if (*p != 0xa5)
            return false;
    return true;
}

void check_end(struct check *c)
{
    for (size_t i = 0; i < n_slots; i++) {
        const struct slot *s = &slots[i];

        if (s->is_input && hash_bytes(s->p, s->bytes) != s->hash)
            complain(c, "input %zu was written to", i);
        if (!all_a5(left_end(s), s->p))
            complain(c, "bytes before buffer %zu were written to", i);
        if (!all_a5(s->p + s->bytes, right_end(s)))
            complain(c, "bytes behind buffer %zu were written to", i);
    }
}

void describe(struct check *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(c->what, sizeof(c->what), fmt, ap);
    va_end(ap);
}

void complain(struct check *c, const char *fmt, ...)
{
    va_list ap;

    if (c->failed++ >= MAX_COMPLAINTS)
        return;
    printf("FAIL %s %s (%s): ", c->level, c->entry, c->what);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof(a)) == 0 || (isnan(a) && isnan(b));
}

static bool is_pattern(float f)
{
    const uint32_t u = PATTERN;

    return memcmp(&f, &u, sizeof(u)) == 0;
}

/* A NaN that was written is not the pattern that was there. */
void compare(struct check *c, const char *what, const float *got,
             const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!same(got[i], want[i]) || is_pattern(got[i]) != is_pattern(want[i]))
            complain(c, "%s[%zu] is %a, reference %a", what, i, (double)got[i],
                     (double)want[i]);
}

void compare_bytes(struct check *c, const char *what, const void *got,
                   const void *want, size_t bytes)
{
    const unsigned char *a = got, *b = want;

    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i])
            complain(c, "%s: byte %zu is %02x, reference %02x", what, i,
                     (unsigned)a[i], (unsigned)b[i]);
}

void compare_gaps(struct check *c, const float *y, size_t rows, size_t ld,
                  size_t width)
{
    for (size_t r = 0; r + 1 < rows; r++)
        for (size_t i = width; i < ld; i++)
            if (!is_pattern(y[r * ld + i]))
                complain(c, "row %zu: element %zu behind the row was written",
                         r, i);
}

void compare_near(struct check *c, const char *what, size_t i, float got,
                  double want, double tol)
{
    /* Every comparison with NaN is false, so a NaN fails. */
    if (!(fabs((double)got - want) <= tol))
        complain(c, "%s[%zu] is %.9g, mathematics %.17g, allowed %.3g", what, i,
                 (double)got, want, tol);
}

double gamma_n(size_t n)
{
    double nu = (double)n * 0x1p-24;

    return nu / (1 - nu);
}
