/* text/nfc.c - Unicode normalisation form C in linear time
 *
 * utf8proc has the mappings and the composition. Its own utf8proc_map is not
 * used, for two reasons: it sorts combining marks by exchanging neighbours,
 * so a megabyte of them takes hours; and it knows another version of Unicode
 * than the reference (see unidata.h).
 *
 * A segment is a run of ACTIVE characters and the BASE character before it, if
 * there is one. No character outside of a segment can change or take part in
 * a composition (UAX 15, section 9), so segments are normalised one by one:
 * decompose, sort each run of marks by combining class (stable, by counting),
 * compose.
 */
#include "text/nfc.h"

#include <utf8proc.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/unidata.h"

/* Below U+0300 nothing is ACTIVE, and 0xCC is the first lead byte from there
 * on; continuation bytes are smaller. */
#define FIRST_ACTIVE_LEAD 0xcc
/* Canonical decompositions have at most four code points (UAX 15). */
#define MAX_DECOMP 4
#define N_CLASS 256 /* combining classes */
/* Runs up to this long are sorted by insertion. Chosen, not measured. */
#define SHORT_RUN 16

void sl_nfc_init(struct sl_nfc *w)
{
    *w = (struct sl_nfc){0};
    sl_buf_init(&w->out, SIZE_MAX / 2);
}

void sl_nfc_deinit(struct sl_nfc *w)
{
    sl_buf_deinit(&w->out);
    sl_mem_free(w->cp);
    sl_mem_free(w->tmp);
    *w = (struct sl_nfc){0};
}

static int reserve(struct sl_nfc *w, size_t n, struct sl_err *err)
{
    size_t cap = sl_max(64, w->cap);
    int rc;

    if (n <= w->cap)
        return 0;
    while (cap < n)
        cap *= 2;
    rc = sl_mem_resize(&w->cp, cap, sizeof(*w->cp), "normalising text", err);
    if (!rc)
        rc = sl_mem_resize(&w->tmp, cap, sizeof(*w->tmp), "normalising text",
                           err);
    if (!rc)
        w->cap = cap;
    return rc;
}

static unsigned class_of(int32_t cp)
{
    int ccc = utf8proc_get_property(cp)->combining_class;

    return (unsigned)ccc & (N_CLASS - 1);
}

static void sort_short(int32_t *cp, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        int32_t x = cp[i];
        size_t j = i;

        for (; j > 0 && class_of(cp[j - 1]) > class_of(x); j--)
            cp[j] = cp[j - 1];
        cp[j] = x;
    }
}

/* A counting sort, stable; tmp [n]. */
static void sort_long(int32_t *cp, size_t n, int32_t *tmp)
{
    size_t at[N_CLASS] = {0}, sum = 0;

    for (size_t i = 0; i < n; i++)
        at[class_of(cp[i])]++;
    for (size_t c = 0; c < N_CLASS; c++) {
        size_t count = at[c];

        at[c] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        tmp[at[class_of(cp[i])]++] = cp[i];
    memcpy(cp, tmp, n * sizeof(*cp));
}

/* Canonical ordering: every run of characters whose class is not 0. */
static void sort_marks(struct sl_nfc *w, size_t n)
{
    size_t i = 0;

    while (i < n) {
        size_t from = i;

        while (i < n && class_of(w->cp[i]) != 0)
            i++;
        if (i - from > SHORT_RUN)
            sort_long(w->cp + from, i - from, w->tmp);
        else if (i - from > 1)
            sort_short(w->cp + from, i - from);
        if (i == from)
            i++;
    }
}

/* Decompose s[0..len) into w->cp; *n code points. */
static int decompose(struct sl_nfc *w, const char *s, size_t len, size_t *n,
                     struct sl_err *err)
{
    size_t i = 0;

    *n = 0;
    while (i < len) {
        utf8proc_ssize_t got;
        uint32_t cp;
        int rc = reserve(w, *n + MAX_DECOMP, err);

        if (rc)
            return rc;
        i += sl_utf8_get(&cp, s + i, len - i);
        got =
            utf8proc_decompose_char((int32_t)cp, w->cp + *n, MAX_DECOMP,
                                    UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, NULL);
        if (SL_NEVER(got < 1 || got > MAX_DECOMP))
            return sl_fail(err, SL_EBUG,
                           "U+%04X has a decomposition of unexpected length",
                           (unsigned)cp);
        *n += (size_t)got;
    }
    return 0;
}

static int segment(struct sl_nfc *w, const char *s, size_t len,
                   struct sl_err *err)
{
    utf8proc_ssize_t m;
    size_t n = 0;
    char c[4];
    int rc = decompose(w, s, len, &n, err);

    if (rc)
        return rc;
    sort_marks(w, n);
    m = utf8proc_normalize_utf32(w->cp, (utf8proc_ssize_t)n,
                                 UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < m; i++)
        sl_buf_add(&w->out, c, sl_utf8_put(c, (uint32_t)w->cp[i]));
    return 0;
}

/* The end of the run of ACTIVE characters that starts at i. */
static size_t active_end(const uint8_t *bits, const char *s, size_t len,
                         size_t i)
{
    while (i < len && (unsigned char)s[i] >= FIRST_ACTIVE_LEAD) {
        uint32_t cp;
        size_t n = sl_utf8_get(&cp, s + i, len - i);

        if (!(bits[cp] & SL_UNI_NFC_ACTIVE))
            break;
        i += n;
    }
    return i;
}

/* Where the character before offset i starts, if it is a BASE; else i. */
static size_t base_before(const uint8_t *bits, const char *s, size_t len,
                          size_t from, size_t i)
{
    size_t at = i;
    uint32_t cp;

    if (i == from)
        return i;
    do
        at--;
    while (at > from && ((unsigned char)s[at] & 0xc0) == 0x80);
    sl_utf8_get(&cp, s + at, len - at);
    return bits[cp] & SL_UNI_NFC_BASE ? at : i;
}

int sl_nfc_run(struct sl_nfc *w, const uint8_t *bits, const char *s, size_t len,
               const char **dst, size_t *dst_len, struct sl_err *err)
{
    size_t done = 0, i = 0; /* s[0..done) is in w->out */
    int rc = 0;

    sl_buf_reset(&w->out);
    while (i < len && !rc) {
        size_t end, start;
        uint32_t cp;

        if ((unsigned char)s[i] < FIRST_ACTIVE_LEAD) {
            i++;
            continue;
        }
        end = active_end(bits, s, len, i);
        if (end == i) {
            i += sl_utf8_get(&cp, s + i, len - i);
            continue;
        }
        start = base_before(bits, s, len, done, i);
        sl_buf_add(&w->out, s + done, start - done);
        rc = segment(w, s + start, end - start, err);
        done = i = end;
    }
    if (rc || done == 0) {
        *dst = s;
        *dst_len = len;
        return rc;
    }
    sl_buf_add(&w->out, s + done, len - done);
    *dst = w->out.p;
    *dst_len = w->out.len;
    return sl_buf_check(&w->out, "normalised text", err);
}
