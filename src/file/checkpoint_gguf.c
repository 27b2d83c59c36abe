/* file/checkpoint_gguf.c - a GGUF file, or a set of them, as a checkpoint
 *
 * A set was cut into parts NAME-00001-of-0000N.gguf. Each has its own list of
 * tensors and says in split.no (from 0) and split.count which one it is; the
 * first has the metadata of the model, and split.tensors.count for all. Any
 * part may be named; all must be there, and belong together.
 */
#include "base/mem.h"
#include "base/num.h"
#include "file/checkpoint_parts.h"

#define PATH_CAP 4096
/* Digits of the two numbers, and what stands around them. */
#define DIGITS 5
#define TAIL "-00001-of-00002.gguf"
#define TAIL_LEN (sizeof(TAIL) - 1)

/* 0 when the file is whole. */
static int split_count(uint32_t *out, const struct sl_gguf *g,
                       struct sl_err *err)
{
    int64_t n = 0;
    int rc =
        sl_gguf_i64(&n, g, "split.count", false, 0, SL_CKPT_MAX_SHARD, err);

    *out = n > 1 ? (uint32_t)n : 0;
    return sl_wrap(err, rc, "reading '%.300s'", g->path);
}

static bool digits(const char *s)
{
    for (size_t i = 0; i < DIGITS; i++)
        if (s[i] < '0' || s[i] > '9')
            return false;
    return true;
}

/* Length of the path before "-00001-of-0000N.gguf"; false when it does not end
 * so. */
static bool stem_of(size_t *len, const char *path)
{
    size_t n = strlen(path);
    const char *t = path + n - TAIL_LEN;

    if (n < TAIL_LEN || t[0] != '-' || !digits(t + 1) ||
        strncmp(t + 1 + DIGITS, "-of-", 4) || !digits(t + 5 + DIGITS) ||
        strcmp(t + 5 + 2 * DIGITS, ".gguf"))
        return false;
    *len = n - TAIL_LEN;
    return true;
}

static int open_part(struct sl_ckpt *c, const char *path, uint32_t i,
                     uint32_t n, struct sl_err *err)
{
    uint32_t count;
    int64_t no = -1;
    int rc;

    if (sl_file_kind(path) == SL_FILE_NONE)
        return sl_fail(err, SL_ENOTFOUND,
                       "part %u of %u, '%.300s', is missing; put all parts "
                       "into one folder",
                       i + 1, n, path);
    rc = sl_gguf_open(&c->part[i], path, err);
    if (rc)
        return rc;
    c->n_part++;
    rc = split_count(&count, c->part[i], err);
    if (!rc)
        rc = sl_gguf_i64(&no, c->part[i], "split.no", true, 0,
                         SL_CKPT_MAX_SHARD, err);
    if (!rc && (count != n || no != i))
        rc = sl_fail(err, SL_EFORMAT,
                     "'%.300s' says that it is part %lld of %u and its name "
                     "says %u of %u; the parts do not belong together, fetch "
                     "them again",
                     path, (long long)no + 1, count, i + 1, n);
    return rc;
}

/* part[0] is a part of n; open all in their order instead. */
static int open_parts(struct sl_ckpt *c, const char *path, uint32_t n,
                      struct sl_err *err)
{
    char name[PATH_CAP];
    size_t stem;
    int64_t named = n;
    int rc;

    if (!stem_of(&stem, path) || stem + TAIL_LEN >= sizeof(name))
        return sl_fail(err, SL_EARG,
                       "'%.300s' is one of %u parts and its name does not end "
                       "in -00001-of-%05u.gguf, so the others cannot be "
                       "found; give it its name back",
                       path, n, n);
    (void)sl_num_i64(&named, path + stem + 5 + DIGITS, DIGITS, 0, INT32_MAX,
                     "parts", NULL);
    if (named != n)
        return sl_fail(err, SL_EFORMAT,
                       "'%.300s' says in split.count that it is one of %u "
                       "parts, and its name says of %lld; give it its name "
                       "back, or fetch it again",
                       path, n, (long long)named);
    sl_gguf_close(&c->part[0]);
    c->n_part = 0;
    rc = sl_mem_resize(&c->part, n, sizeof(struct sl_gguf *),
                       "the list of parts", err);
    for (uint32_t i = 0; !rc && i < n; i++) {
        snprintf(name, sizeof(name), "%.*s-%05u-of-%05u.gguf", (int)stem, path,
                 i + 1, n);
        rc = open_part(c, name, i, n, err);
    }
    return rc;
}

static struct entry entry_of(const struct sl_gguf *g,
                             const struct sl_gguf_ten *t)
{
    struct entry e = {.ten = {.name = t->name,
                              .type = SL_N_DTYPE,
                              .type_name = sl_gguf_type_name(t->type),
                              .n_dim = t->n_dim,
                              .bytes = t->bytes},
                      .path = g->path,
                      .map = &g->map,
                      .offset = t->offset};

    (void)sl_gguf_dtype(&e.ten.type, t->type);
    memcpy(e.ten.dim, t->dim, sizeof(t->dim));
    return e;
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    return strcmp(x->ten.name, y->ten.name);
}

/* The tensors of all parts; none may be in two. */
static int take_all(struct sl_ckpt *c, struct sl_err *err)
{
    int64_t want = -1;
    size_t n = 0;
    int rc;

    for (size_t i = 0; i < c->n_part; i++)
        n += c->part[i]->n_ten;
    rc = sl_mem_alloc(&c->ten, n, sizeof(*c->ten), "the list of tensors", err);
    if (rc)
        return rc;
    for (size_t i = 0; i < c->n_part; i++)
        for (size_t k = 0; k < c->part[i]->n_ten; k++)
            c->ten[c->n_ten++] = entry_of(c->part[i], &c->part[i]->ten[k]);
    qsort(c->ten, n, sizeof(*c->ten), by_name);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(c->ten[i - 1].ten.name, c->ten[i].ten.name))
            return sl_fail(err, SL_EFORMAT,
                           "the tensor '%.200s' is in '%.200s' and in "
                           "'%.200s'; the parts do not belong together",
                           c->ten[i].ten.name, c->ten[i - 1].path,
                           c->ten[i].path);
    if (c->n_part > 1)
        rc = sl_gguf_i64(&want, c->part[0], "split.tensors.count", false, 0,
                         SL_GGUF_MAX_TENSOR, err);
    if (!rc && want >= 0 && (size_t)want != n)
        rc = sl_fail(err, SL_EFORMAT,
                     "the first part says that there are %lld tensors, and the "
                     "%zu parts have %zu; fetch them again",
                     (long long)want, c->n_part, n);
    return rc;
}

int sl_ckpt_open_gguf(struct sl_ckpt *c, const char *path, struct sl_err *err)
{
    uint32_t n = 0;
    int rc = sl_mem_alloc(&c->part, 1, sizeof(struct sl_gguf *),
                          "the list of parts", err);

    if (!rc)
        rc = sl_gguf_open(&c->part[0], path, err);
    if (rc)
        return rc;
    c->n_part = 1;
    rc = split_count(&n, c->part[0], err);
    if (!rc && n > 0)
        rc = open_parts(c, path, n, err);
    return rc ? rc : take_all(c, err);
}
