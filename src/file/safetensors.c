/* file/safetensors.c - one safetensors file; see safetensors.h
 *
 *   offset   size   meaning (little endian)
 *   0        8      n, bytes of the header
 *   8        n      JSON: name -> {dtype, shape, data_offsets [begin, end)},
 *                   may be padded with white space; "__metadata__" is skipped
 *   8 + n    rest   data section; data_offsets count from here
 *
 * Rules checked here, in this order, each with its own message:
 *   1. n <= SL_ST_MAX_HEADER and 8 + n <= size of the file.
 *   2. The header is one JSON object, without duplicate keys.
 *   3. Every tensor has a known dtype, a shape of at most SL_ST_MAX_DIM whole
 *      numbers, and two offsets with begin <= end.
 *   4. product(shape) * bits / 8 == end - begin, without overflow.
 *   5. Sorted by offset, the tensors follow each other without hole or overlap
 *      from 0 to the last byte of the file.
 *
 * Rule 5 is the reference library's: it refuses holes of any size, overlaps,
 * and bytes behind the last tensor. So a file that was cut short is found here,
 * and not when its last layer is read.
 */
#include "file/safetensors.h"

#include "base/cur.h"
#include "base/json.h"
#include "base/mem.h"

static const struct {
    const char *name;
    uint32_t bits;
} types[] = {
#define X(name, bits) [SL_ST_##name] = {#name, bits},
    SL_ST_TYPES(X)
#undef X
};

const char *sl_st_type_name(enum sl_st_type t)
{
    SL_CHECK((size_t)t < SL_COUNTOF(types));
    return types[t].name;
}

bool sl_st_dtype(enum sl_dtype *out, enum sl_st_type t)
{
    if (t == SL_ST_F32)
        *out = SL_F32;
    else if (t == SL_ST_BF16)
        *out = SL_BF16;
    else if (t == SL_ST_F16)
        *out = SL_F16;
    else if (t == SL_ST_F8_E4M3)
        *out = SL_FP8;
    else
        return false;
    return true;
}

const unsigned char *sl_st_data(const struct sl_st *st,
                                const struct sl_st_ten *t)
{
    SL_ASSERT(t->offset <= st->map.len);
    return st->map.p + t->offset;
}

static int read_type(struct sl_st_ten *t, const json_t *o, struct sl_err *err)
{
    const char *s = "";
    int rc = sl_json_str(&s, o, "dtype", true, err);

    if (rc)
        return rc;
    for (size_t i = 0; i < SL_COUNTOF(types); i++)
        if (!strcmp(s, types[i].name)) {
            t->type = (enum sl_st_type)i;
            return 0;
        }
    return sl_fail(err, SL_EFORMAT,
                   "its dtype '%.40s' is not one of the format; convert the "
                   "file again",
                   s);
}

/* A list of whole numbers >= 0 of at most max entries. */
static int read_sizes(size_t *out, uint32_t *n, uint32_t max, const json_t *o,
                      const char *key, struct sl_err *err)
{
    const json_t *a = json_object_get(o, key);

    if (!json_is_array(a) || json_array_size(a) > max)
        return sl_fail(err, SL_EFORMAT,
                       "its %s must be a list of at most %u numbers", key, max);
    *n = (uint32_t)json_array_size(a);
    for (uint32_t i = 0; i < *n; i++) {
        const json_t *v = json_array_get(a, i);

        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return sl_fail(err, SL_EFORMAT,
                           "entry %u of its %s is not a whole number >= 0", i,
                           key);
        out[i] = (size_t)json_integer_value(v);
    }
    return 0;
}

/* Bytes of the shape; every partial product has to fit, as in the reference. */
static int shape_bytes(size_t *out, const struct sl_st_ten *t,
                       struct sl_err *err)
{
    size_t n = 1;
    bool ok = true;

    for (uint32_t i = 0; ok && i < t->n_dim; i++)
        ok = sl_mul_size(&n, n, t->dim[i]);
    ok = ok && sl_mul_size(&n, n, types[t->type].bits);
    if (!ok)
        return sl_fail(err, SL_EFORMAT,
                       "the product of its shape does not fit 64 bits");
    if (n % 8 != 0)
        return sl_fail(err, SL_EFORMAT,
                       "its %s elements do not end at a whole byte",
                       types[t->type].name);
    *out = n / 8;
    return 0;
}

static int read_tensor(struct sl_st_ten *t, const json_t *o, size_t data,
                       size_t left, struct sl_err *err)
{
    size_t off[2], want = 0;
    uint32_t n_off = 0;
    int rc;

    if (!json_is_object(o))
        return sl_fail(err, SL_EFORMAT, "its entry is not an object");
    rc = read_type(t, o, err);
    if (!rc)
        rc = read_sizes(t->dim, &t->n_dim, SL_ST_MAX_DIM, o, "shape", err);
    if (!rc)
        rc = read_sizes(off, &n_off, 2, o, "data_offsets", err);
    if (!rc)
        rc = shape_bytes(&want, t, err);
    if (rc)
        return rc;
    if (n_off != 2 || off[0] > off[1])
        return sl_fail(err, SL_EFORMAT,
                       "its data_offsets must be two rising numbers");
    if (off[1] > left)
        return sl_fail(err, SL_EFORMAT,
                       "it ends at byte %zu of the data, which has %zu; the "
                       "file is cut short or damaged, fetch it again",
                       off[1], left);
    if (off[1] - off[0] != want)
        return sl_fail(err, SL_EFORMAT,
                       "its shape needs %zu bytes and its data_offsets span "
                       "%zu; the file is damaged, fetch it again",
                       want, off[1] - off[0]);
    t->offset = data + off[0];
    t->bytes = want;
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct sl_st_ten *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    /* Empty ones first: they share the offset of the next. */
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Rule 5. The tensors are sorted by offset. */
static int check_cover(const struct sl_st *st, size_t data, size_t len,
                       struct sl_err *err)
{
    size_t end = data;

    for (size_t i = 0; i < st->n_ten; i++) {
        const struct sl_st_ten *t = &st->ten[i];

        if (t->offset < end)
            return sl_fail(err, SL_EFORMAT,
                           "the tensors '%.200s' and '%.200s' overlap; the "
                           "file is damaged, fetch it again",
                           st->ten[i - 1].name, t->name);
        if (t->offset > end)
            return sl_fail(err, SL_EFORMAT,
                           "%zu bytes before the tensor '%.200s' belong to "
                           "none; the file is damaged, fetch it again",
                           t->offset - end, t->name);
        end += t->bytes;
    }
    if (end != len)
        return sl_fail(err, SL_EFORMAT,
                       "%zu bytes behind the last tensor belong to none; the "
                       "file is damaged, fetch it again",
                       len - end);
    return 0;
}

static int read_metadata(const json_t *o, struct sl_err *err)
{
    const char *key;
    json_t *v;

    if (!json_is_object(o) && !json_is_null(o))
        return sl_fail(err, SL_EFORMAT, "__metadata__ is not an object");
    json_object_foreach((json_t *)(uintptr_t)o, key, v) if (
        !json_is_string(
            v)) return sl_fail(err, SL_EFORMAT,
                               "the entry '%.100s' of __metadata__ is not a string",
                               key);
    return 0;
}

static int read_header(struct sl_st *st, json_t *head, size_t data, size_t len,
                       struct sl_err *err)
{
    const char *key;
    json_t *v;
    int rc;

    if (!json_is_object(head))
        return sl_fail(err, SL_EFORMAT, "the header is not a JSON object");
    if (json_object_size(head) > SL_ST_MAX_TENSOR)
        return sl_fail(err, SL_EFORMAT,
                       "the header lists %zu tensors; the limit is %u",
                       json_object_size(head), SL_ST_MAX_TENSOR);
    rc = sl_mem_alloc(&st->ten, json_object_size(head), sizeof(*st->ten),
                      "the list of tensors", err);
    if (rc)
        return rc;
    json_object_foreach(head, key, v)
    {
        struct sl_st_ten *t = &st->ten[st->n_ten];

        if (!strcmp(key, "__metadata__")) {
            rc = read_metadata(v, err);
            if (rc)
                return rc;
            continue;
        }
        if (strlen(key) > SL_ST_MAX_NAME)
            return sl_fail(err, SL_EFORMAT,
                           "the tensor name '%.60s...' has %zu bytes; the "
                           "limit is %d",
                           key, strlen(key), SL_ST_MAX_NAME);
        rc = sl_mem_dup(&t->name, key, strlen(key), err);
        if (rc)
            return rc;
        st->n_ten++;
        rc = read_tensor(t, v, data, len - data, err);
        if (rc)
            return sl_wrap(err, rc, "tensor '%.200s'", key);
    }
    qsort(st->ten, st->n_ten, sizeof(*st->ten), by_offset);
    return check_cover(st, data, len, err);
}

/* Rules 1 and 2, then the rest. */
static int parse(struct sl_st *st, const void *p, size_t len,
                 struct sl_err *err)
{
    struct sl_cur c;
    uint64_t n;
    const char *text;
    json_t *head = NULL;
    int rc;

    sl_cur_init(&c, p ? p : "", len);
    n = sl_cur_u64(&c);
    if (c.bad)
        return sl_fail(err, SL_EFORMAT,
                       "the file has %zu bytes, too few for a safetensors "
                       "file; fetch it again",
                       len);
    if (n > SL_ST_MAX_HEADER)
        return sl_fail(err, SL_EFORMAT,
                       "its header would have %llu bytes and the limit is %u; "
                       "this is not a safetensors file",
                       (unsigned long long)n, SL_ST_MAX_HEADER);
    text = sl_cur_take(&c, (size_t)n);
    if (!text)
        return sl_fail(err, SL_EFORMAT,
                       "its header has %llu bytes and the file ends after "
                       "%zu; it is cut short, fetch it again",
                       (unsigned long long)n, len);
    rc = sl_json_parse(&head, text, (size_t)n, "its header", err);
    if (rc)
        return rc;
    rc = read_header(st, head, 8 + (size_t)n, len, err);
    json_decref(head);
    return rc;
}

static int alloc(struct sl_st **out, const char *path, struct sl_err *err)
{
    struct sl_st *st;
    int rc = sl_mem_alloc(&st, 1, sizeof(*st), "a safetensors file", err);

    if (rc)
        return rc;
    *out = st;
    return sl_mem_dup(&st->path, path, strlen(path), err);
}

int sl_st_parse(struct sl_st **out, const void *p, size_t len, const char *path,
                struct sl_err *err)
{
    struct sl_st *st = NULL;
    int rc = alloc(&st, path, err);

    if (!rc)
        rc = parse(st, p, len, err);
    if (!rc) {
        *out = st;
        st = NULL;
    }
    sl_st_close(&st);
    return sl_wrap(err, rc, "reading '%.300s'", path);
}

int sl_st_open(struct sl_st **out, const char *path, struct sl_err *err)
{
    struct sl_st *st = NULL;
    int rc = alloc(&st, path, err);

    if (!rc)
        rc = sl_map_open(&st->map, path, err);
    if (!rc)
        rc = sl_wrap(err, parse(st, st->map.p, st->map.len, err),
                     "reading '%.300s'", path);
    if (!rc) {
        *out = st;
        st = NULL;
    }
    sl_st_close(&st);
    return rc;
}

void sl_st_close(struct sl_st **out)
{
    struct sl_st *st = *out;

    if (!st)
        return;
    *out = NULL;
    for (size_t i = 0; i < st->n_ten; i++)
        sl_mem_free(st->ten[i].name);
    sl_mem_free(st->ten);
    sl_map_close(&st->map);
    sl_mem_free(st->path);
    sl_mem_free(st);
}
