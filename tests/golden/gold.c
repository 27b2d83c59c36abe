/* tests/golden/gold.c - see gold.h
 *
 * Every field of the format is four bytes, little-endian, so all records are
 * aligned inside an allocated buffer and can be used in place. The reader is
 * for little-endian machines with IEEE floats and says so at compile time
 * where it can.
 */
#include "gold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "golden vectors are read in place: little-endian machines only"
#endif
_Static_assert(sizeof(float) == 4, "fp32 vectors");

static const char magic[8] = {'S', 'L', 'G', 'O', 'L', 'D', '1', '\n'};

/* More than any committed file needs; a bound for damaged ones. */
enum { MAX_FILE_BYTES = 64 << 20 };

/* What is left to read. After a failure every take returns NULL. */
struct cur {
    const unsigned char *p;
    size_t left;
    int bad;
};

/* The next n words of four bytes. */
static const void *take(struct cur *c, size_t n)
{
    const unsigned char *p = c->p;

    if (c->bad || n > c->left / 4) {
        c->bad = 1;
        return NULL;
    }
    c->p += 4 * n;
    c->left -= 4 * n;
    return p;
}

static uint32_t take_u32(struct cur *c)
{
    const void *p = take(c, 1);
    uint32_t v = 0;

    if (p)
        memcpy(&v, p, sizeof v);
    return v;
}

static void take_rec(struct cur *c, struct gold_rec *r)
{
    uint32_t kind = take_u32(c);

    if (kind < GOLD_LOGITS || kind > GOLD_MTP_PRIME)
        c->bad = 1;
    r->kind = (enum gold_kind)kind;
    r->n_tok = take_u32(c);
    r->tok = take(c, r->n_tok);
    r->n_row = take_u32(c);
    r->pos = take(c, r->n_row);
    r->n_col = take_u32(c);
    if (r->n_col && r->n_row > c->left / 4 / r->n_col)
        c->bad = 1;
    r->data = take(c, (size_t)r->n_row * r->n_col);
    if (!r->n_tok || !r->n_row || !r->n_col)
        c->bad = 1;
}

/* The whole file in one allocation, or NULL. */
static unsigned char *slurp(const char *path, size_t *n_bytes)
{
    FILE *f = fopen(path, "rb");
    unsigned char *buf = NULL;
    long n = -1;

    if (!f)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0)
        n = ftell(f);
    if (n >= 0 && n <= MAX_FILE_BYTES && fseek(f, 0, SEEK_SET) == 0)
        buf = malloc((size_t)n + 1);
    if (buf && fread(buf, 1, (size_t)n, f) != (size_t)n) {
        free(buf);
        buf = NULL;
    }
    fclose(f);
    *n_bytes = buf ? (size_t)n : 0;
    return buf;
}

int gold_open(struct gold *g, const char *path, char *why, size_t why_bytes)
{
    size_t bytes = 0;
    struct cur c;

    memset(g, 0, sizeof *g);
    g->bytes = slurp(path, &bytes);
    if (!g->bytes) {
        snprintf(why, why_bytes, "golden file '%s' cannot be read", path);
        return -1;
    }
    if (bytes < sizeof magic || memcmp(g->bytes, magic, sizeof magic) != 0) {
        snprintf(why, why_bytes, "golden file '%s' has another magic", path);
        goto fail;
    }
    c = (struct cur){g->bytes + sizeof magic, bytes - sizeof magic, 0};
    while (c.left) {
        struct gold_rec *more;

        more = realloc(g->rec, (g->n_rec + 1) * sizeof *more);
        if (!more) {
            snprintf(why, why_bytes, "no memory for golden file '%s'", path);
            goto fail;
        }
        g->rec = more;
        take_rec(&c, &g->rec[g->n_rec]);
        if (c.bad) {
            snprintf(why, why_bytes,
                     "golden file '%s' is damaged in record %zu", path,
                     g->n_rec);
            goto fail;
        }
        g->n_rec++;
    }
    return 0;
fail:
    gold_close(g);
    return -1;
}

void gold_close(struct gold *g)
{
    free(g->rec);
    free(g->bytes);
    memset(g, 0, sizeof *g);
}

const struct gold_rec *gold_find(const struct gold *g, enum gold_kind kind,
                                 uint32_t n_tok)
{
    for (size_t i = 0; i < g->n_rec; i++)
        if (g->rec[i].kind == kind && g->rec[i].n_tok == n_tok)
            return &g->rec[i];
    return NULL;
}
