/* file/gguf.c - one GGUF file; see gguf.h
 *
 *   magic "GGUF", version u32, tensors u64, pairs u64
 *   pairs:    key string, kind u32, value
 *   tensors:  name string, dimensions u32, that many u64 (fastest first),
 *             type u32, offset u64
 *   padding to the alignment, then the data; offsets count from there
 *
 * A string is its length (u64) and its bytes; an array is the kind of its
 * elements (u32), their number (u64), and they. All little endian.
 *
 * No count is trusted before it is known to fit in what is left of the file, so
 * memory is bounded by the size of the file. Checked here, each with its own
 * message: magic, version, byte order; counts; keys and names (length, UTF-8,
 * no control characters, no duplicates); kinds, arrays of arrays; the
 * alignment; types, dimensions, and that the product of them fits; offsets
 * (aligned, inside of the file) and that no two tensors share a byte.
 *
 * Gaps between tensors and bytes behind the last are accepted: editors of
 * metadata leave them.
 */
#include "file/gguf.h"

#include "base/mem.h"
#include "base/utf8.h"

#define MAGIC "GGUF"
#define DEFAULT_ALIGN 32
#define MIN_ALIGN 8
/* The least bytes that a pair and a tensor take in the file: an empty key and
 * one byte; an empty name and one dimension. */
#define MIN_PAIR (8 + 4 + 1)
#define MIN_TENSOR (8 + 4 + 8 + 4 + 8)

static const struct type {
    const char *name;
    uint32_t id, block, bytes;
} types[] = {
#define X(name, id, block, bytes) {#name, id, block, bytes},
    SL_GGUF_TYPES(X)
#undef X
};

/* Of other programs, of which only the name is known here: those of
 * ik_llama.cpp from 97 on, and some that were given up or are newer. */
static const struct {
    uint32_t id;
    const char *name;
} foreign[] = {{31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
               {33, "Q4_0_8_8"},   {36, "I2_S or IQ4_NL_4_4"},
               {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
               {41, "Q1_0"},       {42, "Q2_0"},
               {97, "Q8_0_X4"},    {98, "Q8_1_X4"},
               {99, "Q8_2_X4"},    {133, "Q6_0"},
               {134, "IQ1_BN"},    {135, "IQ2_BN"},
               {136, "Q8_K64"},    {137, "IQ2_K"},
               {138, "IQ3_K"},     {139, "IQ4_K"},
               {140, "IQ5_K"},     {141, "IQ6_K"},
               {144, "IQ4_KS"},    {145, "IQ2_KS"},
               {146, "IQ4_KSS"},   {147, "Q8_K16"},
               {148, "Q8_K32"},    {149, "Q8_KR8"},
               {150, "Q8_K128"},   {151, "Q8_KV"},
               {152, "IQ5_KS"},    {153, "IQ2_KT"},
               {154, "IQ3_KT"},    {155, "IQ4_KT"},
               {156, "IQ3_KS"},    {157, "IQ2_KL"},
               {158, "IQ1_KT"},    {202, "Q4_0_R8"},
               {206, "Q5_0_R4"},   {208, "Q8_0_R8"},
               {210, "Q2_K_R4"},   {211, "Q3_K_R4"},
               {212, "Q4_K_R4"},   {213, "Q5_K_R4"},
               {214, "Q6_K_R4"},   {216, "IQ2_XXS_R4"},
               {217, "IQ2_XS_R4"}, {218, "IQ3_XXS_R4"},
               {219, "IQ1_S_R4"},  {220, "IQ4_NL_R4"},
               {221, "IQ3_S_R4"},  {222, "IQ2_S_R4"},
               {223, "IQ4_XS_R8"}, {229, "IQ1_M_R4"},
               {230, "BF16_R16"},  {233, "Q6_0_R4"},
               {335, "IQ2_BN_R4"}, {337, "IQ2_K_R4"},
               {338, "IQ3_K_R4"},  {339, "IQ4_K_R4"},
               {340, "IQ5_K_R4"},  {344, "IQ4_KS_R4"},
               {352, "IQ5_KS_R4"}, {353, "MXFP4_R8"},
               {397, "Q8_K_R16"},  {398, "Q8_KV_R8"},
               {399, "Q8_K_R8"}};

static const struct {
    const char *name;
    size_t bytes; /* 0: not of a fixed size */
} kinds[SL_GGUF_N_KIND] = {
    [SL_GGUF_U8] = {"u8", 1},      [SL_GGUF_I8_] = {"i8", 1},
    [SL_GGUF_U16] = {"u16", 2},    [SL_GGUF_I16_] = {"i16", 2},
    [SL_GGUF_U32] = {"u32", 4},    [SL_GGUF_I32_] = {"i32", 4},
    [SL_GGUF_F32_] = {"f32", 4},   [SL_GGUF_BOOL] = {"bool", 1},
    [SL_GGUF_STR] = {"string", 0}, [SL_GGUF_ARR] = {"array", 0},
    [SL_GGUF_U64] = {"u64", 8},    [SL_GGUF_I64_] = {"i64", 8},
    [SL_GGUF_F64_] = {"f64", 8},
};

static const struct type *find_type(uint32_t id)
{
    for (size_t i = 0; i < SL_COUNTOF(types); i++)
        if (types[i].id == id)
            return &types[i];
    return NULL;
}

const char *sl_gguf_type_name(enum sl_gguf_type t)
{
    const struct type *type = find_type((uint32_t)t);

    SL_CHECK(type);
    return type->name;
}

static const struct {
    enum sl_gguf_type gguf;
    enum sl_dtype dtype;
} usable[] = {
    {SL_GGUF_F32, SL_F32},       {SL_GGUF_F16, SL_F16},
    {SL_GGUF_BF16, SL_BF16},     {SL_GGUF_Q8_0, SL_Q8_0},
    {SL_GGUF_Q6_K, SL_Q6_K},     {SL_GGUF_Q5_K, SL_Q5_K},
    {SL_GGUF_Q4_K, SL_Q4_K},     {SL_GGUF_Q4_0, SL_Q4_0},
    {SL_GGUF_Q4_1, SL_Q4_1},     {SL_GGUF_Q5_0, SL_Q5_0},
    {SL_GGUF_Q5_1, SL_Q5_1},     {SL_GGUF_Q3_K, SL_Q3_K},
    {SL_GGUF_Q2_K, SL_Q2_K},     {SL_GGUF_IQ4_NL, SL_IQ4_NL},
    {SL_GGUF_IQ4_XS, SL_IQ4_XS}, {SL_GGUF_MXFP4, SL_MXFP4},
};

bool sl_gguf_dtype(enum sl_dtype *out, enum sl_gguf_type t)
{
    for (size_t i = 0; i < SL_COUNTOF(usable); i++)
        if (usable[i].gguf == t) {
            *out = usable[i].dtype;
            return true;
        }
    return false;
}

bool sl_gguf_type_of(enum sl_gguf_type *out, enum sl_dtype t)
{
    for (size_t i = 0; i < SL_COUNTOF(usable); i++)
        if (usable[i].dtype == t) {
            *out = usable[i].gguf;
            return true;
        }
    return false;
}

const unsigned char *sl_gguf_data(const struct sl_gguf *g,
                                  const struct sl_gguf_ten *t)
{
    return g->base + t->offset;
}

/* --- reading --- */

struct reader {
    struct sl_cur c;
    struct sl_gguf *g;
    size_t len;        /* of the file */
    char *names;       /* where the next one goes */
    const char *where; /* what is being read, for messages */
    uint64_t i;        /* and its number */
    struct sl_err *err;
};

static int cut_short(const struct reader *r)
{
    return sl_fail(r->err, SL_EFORMAT,
                   "the file ends inside of %s %llu, after %zu bytes; it was "
                   "cut short, fetch it again",
                   r->where, (unsigned long long)r->i, r->len);
}

static int damaged(const struct reader *r, const char *what, uint64_t value,
                   const char *want)
{
    return sl_fail(r->err, SL_EFORMAT,
                   "%s of %s %llu is %llu and must be %s; the file is damaged, "
                   "fetch it again",
                   what, r->where, (unsigned long long)r->i,
                   (unsigned long long)value, want);
}

/* A string, borrowed. */
static int read_str(struct reader *r, const unsigned char **p, size_t *len)
{
    uint64_t n = sl_cur_u64(&r->c);

    if (r->c.bad)
        return cut_short(r);
    if (n > sl_cur_left(&r->c))
        return sl_fail(r->err, SL_EFORMAT,
                       "a string of %s %llu is said to have %llu bytes and "
                       "%zu are left in the file; it is damaged or cut short, "
                       "fetch it again",
                       r->where, (unsigned long long)r->i,
                       (unsigned long long)n, sl_cur_left(&r->c));
    *len = (size_t)n;
    *p = sl_cur_take(&r->c, *len);
    return 0;
}

/* What a terminal would obey: C0, DEL and, in UTF-8, C1. */
static bool has_control(const unsigned char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] < 0x20 || p[i] == 0x7f ||
            (p[i] == 0xc2 && i + 1 < len && p[i + 1] < 0xa0))
            return true;
    return false;
}

/* A name, copied with a zero behind it. */
static int read_name(struct reader *r, const char **out)
{
    const unsigned char *p = NULL;
    size_t len = 0;
    int rc = read_str(r, &p, &len);

    if (rc)
        return rc;
    if (len == 0 || len > SL_GGUF_MAX_NAME)
        return sl_fail(r->err, SL_EFORMAT,
                       "the name of %s %llu has %zu bytes; 1 to %d are "
                       "possible",
                       r->where, (unsigned long long)r->i, len,
                       SL_GGUF_MAX_NAME);
    if (memchr(p, 0, len) || sl_utf8_valid((const char *)p, len) != len)
        return sl_fail(r->err, SL_EFORMAT,
                       "the name of %s %llu is not UTF-8 text; the file is "
                       "damaged, fetch it again",
                       r->where, (unsigned long long)r->i);
    if (has_control(p, len))
        return sl_fail(r->err, SL_EFORMAT,
                       "the name of %s %llu has control characters in it; the "
                       "file is damaged or means harm, use another",
                       r->where, (unsigned long long)r->i);
    memcpy(r->names, p, len);
    r->names[len] = 0;
    *out = r->names;
    r->names += len + 1;
    return 0;
}

static int skip_strings(struct reader *r, uint64_t n)
{
    int rc = 0;

    for (uint64_t i = 0; !rc && i < n; i++) {
        const unsigned char *p;
        size_t len;

        rc = read_str(r, &p, &len);
    }
    return rc;
}

static int read_array(struct reader *r, struct sl_gguf_kv *kv)
{
    uint32_t of = sl_cur_u32(&r->c);
    uint64_t n = sl_cur_u64(&r->c);
    size_t left = sl_cur_left(&r->c), least;

    if (r->c.bad)
        return cut_short(r);
    if (of == SL_GGUF_ARR)
        return sl_fail(r->err, SL_EUNSUP,
                       "the key '%.200s' is an array of arrays, which no known "
                       "model has; the file is damaged or of another kind",
                       kv->key);
    if (of >= SL_GGUF_N_KIND)
        return damaged(r, "the kind of the elements", of, "0 to 12");
    least = kinds[of].bytes ? kinds[of].bytes : 8;
    if (n > left / least)
        return sl_fail(r->err, SL_EFORMAT,
                       "the array '%.200s' is said to have %llu elements, and "
                       "the file has only %zu bytes left; it is damaged or cut "
                       "short, fetch it again",
                       kv->key, (unsigned long long)n, left);
    kv->of = (enum sl_gguf_kind)of;
    kv->n = n;
    kv->p = r->c.p;
    if (of == SL_GGUF_STR)
        return skip_strings(r, n);
    (void)sl_cur_take(&r->c, (size_t)n * least);
    return 0;
}

static int read_pair(struct reader *r, struct sl_gguf_kv *kv)
{
    const unsigned char *p;
    size_t len;
    uint32_t kind;
    int rc = read_name(r, &kv->key);

    if (rc)
        return rc;
    kind = sl_cur_u32(&r->c);
    if (r->c.bad)
        return cut_short(r);
    if (kind >= SL_GGUF_N_KIND)
        return damaged(r, "the kind", kind, "0 to 12");
    kv->kind = kv->of = (enum sl_gguf_kind)kind;
    kv->n = 1;
    kv->p = r->c.p;
    if (kind == SL_GGUF_ARR)
        rc = read_array(r, kv);
    else if (kind == SL_GGUF_STR)
        rc = read_str(r, &p, &len);
    else if (!sl_cur_take(&r->c, kinds[kind].bytes))
        rc = cut_short(r);
    if (!rc)
        kv->len = (size_t)(r->c.p - kv->p);
    return rc;
}

static int by_key(const void *a, const void *b)
{
    const struct sl_gguf_kv *x = a, *y = b;

    return strcmp(x->key, y->key);
}

static int read_pairs(struct reader *r, uint64_t n)
{
    struct sl_gguf *g = r->g;
    int rc =
        sl_mem_alloc(&g->kv, (size_t)n, sizeof(*g->kv), "the metadata", r->err);

    r->where = "key";
    for (r->i = 0; !rc && r->i < n; r->i++) {
        rc = read_pair(r, &g->kv[r->i]);
        g->n_kv += !rc;
    }
    if (rc)
        return rc;
    qsort(g->kv, g->n_kv, sizeof(*g->kv), by_key);
    for (size_t i = 1; i < g->n_kv; i++)
        if (!strcmp(g->kv[i - 1].key, g->kv[i].key))
            return sl_fail(r->err, SL_EFORMAT,
                           "the key '%.200s' stands in the file twice; it is "
                           "damaged, fetch it again",
                           g->kv[i].key);
    return 0;
}

static int read_alignment(struct reader *r)
{
    int64_t a = DEFAULT_ALIGN;
    int rc = sl_gguf_i64(&a, r->g, "general.alignment", false, MIN_ALIGN,
                         SL_GGUF_MAX_ALIGN, r->err);

    if (!rc && (a & (a - 1)))
        rc = sl_fail(r->err, SL_EFORMAT,
                     "general.alignment is %lld and must be a power of two; "
                     "the file is damaged, fetch it again",
                     (long long)a);
    r->g->alignment = (uint32_t)a;
    return rc;
}

static int read_dims(struct reader *r, struct sl_gguf_ten *t)
{
    t->n_dim = sl_cur_u32(&r->c);
    if (r->c.bad)
        return cut_short(r);
    if (t->n_dim == 0 || t->n_dim > SL_GGUF_MAX_DIM)
        return damaged(r, "the number of dimensions", t->n_dim, "1 to 4");
    for (uint32_t k = t->n_dim; k > 0; k--) {
        uint64_t n = sl_cur_u64(&r->c);

        if (r->c.bad)
            return cut_short(r);
        if (n == 0 || n > SIZE_MAX / 2)
            return damaged(r, "a dimension", n, "from 1 to 2^63");
        t->dim[k - 1] = (size_t)n;
    }
    return 0;
}

static int unknown_type(struct reader *r, const char *tensor, uint32_t id)
{
    for (size_t i = 0; i < SL_COUNTOF(foreign); i++)
        if (foreign[i].id == id)
            return sl_fail(
                r->err, SL_EUNSUP,
                "the tensor '%.200s' has the type %s (%u), which "
                "has no kernel here; use a file with " SL_GGUF_USABLE,
                tensor, foreign[i].name, id);
    return sl_fail(r->err, SL_EUNSUP,
                   "the tensor '%.200s' has the type %u, which is not known "
                   "here; use a file with " SL_GGUF_USABLE,
                   tensor, id);
}

static int read_type(struct reader *r, struct sl_gguf_ten *t)
{
    const struct type *type;
    uint32_t id = sl_cur_u32(&r->c);
    size_t cols = t->dim[t->n_dim - 1], n;

    if (r->c.bad)
        return cut_short(r);
    type = find_type(id);
    if (!type)
        return unknown_type(r, t->name, id);
    t->type = (enum sl_gguf_type)id;
    if (cols % type->block)
        return sl_fail(r->err, SL_EFORMAT,
                       "the tensor '%.200s' has rows of %zu elements and the "
                       "type %s, whose blocks have %u; the file is damaged",
                       t->name, cols, type->name, type->block);
    n = cols / type->block;
    for (uint32_t k = 0; k + 1 < t->n_dim; k++)
        if (!sl_mul_size(&n, n, t->dim[k]))
            return sl_fail(r->err, SL_EFORMAT,
                           "the shape of the tensor '%.200s' has more "
                           "elements than 64 bits can count; the file is "
                           "damaged, fetch it again",
                           t->name);
    if (!sl_mul_size(&t->bytes, n, type->bytes))
        return sl_fail(r->err, SL_EFORMAT,
                       "the tensor '%.200s' has more bytes than 64 bits can "
                       "count; the file is damaged, fetch it again",
                       t->name);
    return 0;
}

static int read_tensor(struct reader *r, struct sl_gguf_ten *t)
{
    uint64_t offset;
    int rc = read_name(r, &t->name);

    if (!rc)
        rc = read_dims(r, t);
    if (!rc)
        rc = read_type(r, t);
    if (rc)
        return rc;
    offset = sl_cur_u64(&r->c);
    if (r->c.bad)
        return cut_short(r);
    if (offset % r->g->alignment || offset > r->len)
        return sl_fail(r->err, SL_EFORMAT,
                       "the tensor '%.200s' is said to begin at %llu of the "
                       "data; that must be a multiple of %u inside of the "
                       "file's %zu bytes: it is damaged or cut short, fetch it "
                       "again",
                       t->name, (unsigned long long)offset, r->g->alignment,
                       r->len);
    t->offset = (size_t)offset; /* of the data, until place() */
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct sl_gguf_ten *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

static int by_offset(const void *a, const void *b)
{
    const struct sl_gguf_ten *const *x = a, *const *y = b;

    if ((*x)->offset != (*y)->offset)
        return (*x)->offset < (*y)->offset ? -1 : 1;
    return strcmp((*x)->name, (*y)->name);
}

/* Names and places of two tensors must differ. */
static int check_pairwise(const struct reader *r, struct sl_gguf_ten **by,
                          size_t n)
{
    qsort(by, n, sizeof(struct sl_gguf_ten *), by_name);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(by[i - 1]->name, by[i]->name))
            return sl_fail(r->err, SL_EFORMAT,
                           "the tensor '%.200s' stands in the file twice; it "
                           "is damaged, fetch it again",
                           by[i]->name);
    qsort(by, n, sizeof(struct sl_gguf_ten *), by_offset);
    for (size_t i = 1; i < n; i++)
        if (by[i]->offset - by[i - 1]->offset < by[i - 1]->bytes)
            return sl_fail(r->err, SL_EFORMAT,
                           "the tensors '%.200s' and '%.200s' overlap; the "
                           "file is damaged, fetch it again",
                           by[i - 1]->name, by[i]->name);
    return 0;
}

/* Offsets in the data -> offsets in the file. */
static int place(struct reader *r)
{
    struct sl_gguf *g = r->g;
    size_t start = sl_round_up((size_t)(r->c.p - g->base), g->alignment);
    struct sl_gguf_ten **by = NULL;
    int rc;

    for (size_t i = 0; i < g->n_ten; i++) {
        struct sl_gguf_ten *t = &g->ten[i];

        if (start > r->len || t->offset > r->len - start ||
            t->bytes > r->len - start - t->offset)
            return sl_fail(r->err, SL_EFORMAT,
                           "the tensor '%.200s' needs %zu bytes from %zu on "
                           "and the file has %zu; it was cut short, fetch it "
                           "again",
                           t->name, t->bytes, start + t->offset, r->len);
        t->offset += start;
    }
    rc =
        sl_mem_alloc(&by, g->n_ten, sizeof(*by), "the list of tensors", r->err);
    for (size_t i = 0; !rc && i < g->n_ten; i++)
        by[i] = &g->ten[i];
    if (!rc)
        rc = check_pairwise(r, by, g->n_ten);
    sl_mem_free(by);
    return rc;
}

static int read_tensors(struct reader *r, uint64_t n)
{
    struct sl_gguf *g = r->g;
    int rc = sl_mem_alloc(&g->ten, (size_t)n, sizeof(*g->ten),
                          "the list of tensors", r->err);

    r->where = "tensor";
    for (r->i = 0; !rc && r->i < n; r->i++) {
        rc = read_tensor(r, &g->ten[r->i]);
        g->n_ten += !rc;
    }
    return rc ? rc : place(r);
}

static int check_version(const struct reader *r, uint32_t v)
{
    if (v == 2 || v == 3)
        return 0;
    if (v != 0 && (v & 0xffff) == 0)
        return sl_fail(r->err, SL_EUNSUP,
                       "the file is big endian (its version reads as 0x%08x); "
                       "use a little-endian one",
                       v);
    return sl_fail(r->err, SL_EUNSUP,
                   "the file has version %u of GGUF, and 2 and 3 are read "
                   "here; convert it again",
                   v);
}

static int check_counts(const struct reader *r, uint64_t n_ten, uint64_t n_kv)
{
    size_t left = sl_cur_left(&r->c);

    if (n_kv > SL_GGUF_MAX_KV || n_kv > left / MIN_PAIR)
        return sl_fail(r->err, SL_EFORMAT,
                       "the file is said to have %llu keys; with %zu bytes it "
                       "can have %zu at most: it is damaged or cut short, "
                       "fetch it again",
                       (unsigned long long)n_kv, r->len,
                       sl_min(left / MIN_PAIR, SL_GGUF_MAX_KV));
    if (n_ten > SL_GGUF_MAX_TENSOR || n_ten > left / MIN_TENSOR)
        return sl_fail(r->err, SL_EFORMAT,
                       "the file is said to have %llu tensors; with %zu bytes "
                       "it can have %zu at most: it is damaged or cut short, "
                       "fetch it again",
                       (unsigned long long)n_ten, r->len,
                       sl_min(left / MIN_TENSOR, SL_GGUF_MAX_TENSOR));
    return 0;
}

static int read_all(struct reader *r)
{
    const unsigned char *magic = sl_cur_take(&r->c, 4);
    uint32_t version = sl_cur_u32(&r->c);
    uint64_t n_ten = sl_cur_u64(&r->c), n_kv = sl_cur_u64(&r->c);
    size_t room;
    int rc;

    if (!magic || memcmp(magic, MAGIC, 4))
        return sl_fail(r->err, SL_EFORMAT,
                       "the file does not begin with 'GGUF', so it is not one");
    r->where = "the header, byte";
    if (r->c.bad)
        return cut_short(r);
    rc = check_version(r, version);
    if (!rc)
        rc = check_counts(r, n_ten, n_kv);
    if (rc)
        return rc;
    r->g->version = version;
    /* Names lie in the file, each behind eight bytes of its length. */
    room = sl_min(r->len, (size_t)(n_ten + n_kv) * (SL_GGUF_MAX_NAME + 1));
    rc = sl_mem_alloc(&r->g->names, room, 1, "the names of tensors", r->err);
    r->names = r->g->names;
    if (!rc)
        rc = read_pairs(r, n_kv);
    if (!rc)
        rc = read_alignment(r);
    if (!rc)
        rc = read_tensors(r, n_ten);
    return rc;
}

static int fill(struct sl_gguf *g, const void *p, size_t len, const char *path,
                struct sl_err *err)
{
    struct reader r = {.g = g, .len = len, .err = err};
    int rc = sl_mem_dup(&g->path, path, strlen(path), err);

    g->base = p;
    sl_cur_init(&r.c, p, len);
    return rc ? rc : read_all(&r);
}

int sl_gguf_parse(struct sl_gguf **out, const void *p, size_t len,
                  const char *path, struct sl_err *err)
{
    struct sl_gguf *g = NULL;
    int rc = sl_mem_alloc(&g, 1, sizeof(*g), "a GGUF file", err);

    if (!rc)
        rc = fill(g, p, len, path, err);
    if (rc)
        sl_gguf_close(&g);
    else
        *out = g;
    return sl_wrap(err, rc, "reading '%.300s'", path);
}

int sl_gguf_open(struct sl_gguf **out, const char *path, struct sl_err *err)
{
    struct sl_map map = {0};
    int rc = sl_map_open(&map, path, err);

    if (rc)
        return rc;
    rc = sl_gguf_parse(out, map.p, map.len, path, err);
    if (rc)
        sl_map_close(&map);
    else
        (*out)->map = map;
    return rc;
}

void sl_gguf_close(struct sl_gguf **out)
{
    struct sl_gguf *g = *out;

    if (!g)
        return;
    *out = NULL;
    sl_map_close(&g->map);
    sl_mem_free(g->path);
    sl_mem_free(g->kv);
    sl_mem_free(g->ten);
    sl_mem_free(g->names);
    sl_mem_free(g);
}

/* --- metadata --- */

const struct sl_gguf_kv *sl_gguf_find(const struct sl_gguf *g, const char *key)
{
    struct sl_gguf_kv want = {.key = key};

    if (g->n_kv == 0)
        return NULL;
    return bsearch(&want, g->kv, g->n_kv, sizeof(*g->kv), by_key);
}

/* The pair, or an error about its absence; *kv is NULL for an absent one that
 * is not needed. */
static int get(const struct sl_gguf_kv **kv, const struct sl_gguf *g,
               const char *key, bool need, struct sl_err *err)
{
    *kv = sl_gguf_find(g, key);
    if (!*kv && need)
        return sl_fail(err, SL_EFORMAT,
                       "the key '%.200s' is missing in '%.300s'; the file is "
                       "incomplete, use another",
                       key, g->path);
    return 0;
}

static int wrong_kind(const struct sl_gguf_kv *kv, const char *want,
                      struct sl_err *err)
{
    return sl_fail(err, SL_EFORMAT, "the key '%.200s' is %s%s%s and must be %s",
                   kv->key, kinds[kv->kind].name,
                   kv->kind == SL_GGUF_ARR ? " of " : "",
                   kv->kind == SL_GGUF_ARR ? kinds[kv->of].name : "", want);
}

static bool is_int(enum sl_gguf_kind k)
{
    return k <= SL_GGUF_I32_ || k == SL_GGUF_U64 || k == SL_GGUF_I64_;
}

/* Little-endian bytes of a fixed-size kind. */
static uint64_t raw(const unsigned char *p, size_t bytes)
{
    uint64_t v = 0;

    for (size_t i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

int64_t sl_gguf_int(const struct sl_gguf_kv *kv, uint64_t i)
{
    size_t bytes = kinds[kv->of].bytes;
    uint64_t v = raw(kv->p + i * bytes, bytes);

    switch (kv->of) {
    case SL_GGUF_I8_:
        return (int8_t)v;
    case SL_GGUF_I16_:
        return (int16_t)v;
    case SL_GGUF_I32_:
        return (int32_t)v;
    case SL_GGUF_U64:
        return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    default:
        return (int64_t)v;
    }
}

int sl_gguf_i64(int64_t *out, const struct sl_gguf *g, const char *key,
                bool need, int64_t lo, int64_t hi, struct sl_err *err)
{
    const struct sl_gguf_kv *kv;
    int rc = get(&kv, g, key, need, err);
    int64_t v;

    if (rc || !kv)
        return rc;
    if (!is_int(kv->kind))
        return wrong_kind(kv, "a whole number", err);
    v = sl_gguf_int(kv, 0);
    if (v < lo || v > hi)
        return sl_fail(err, SL_EFORMAT,
                       "the key '%.200s' is %lld and must be from %lld to %lld",
                       key, (long long)v, (long long)lo, (long long)hi);
    *out = v;
    return 0;
}

int sl_gguf_f64(double *out, const struct sl_gguf *g, const char *key,
                bool need, double lo, double hi, struct sl_err *err)
{
    const struct sl_gguf_kv *kv;
    int rc = get(&kv, g, key, need, err);
    double v;

    if (rc || !kv)
        return rc;
    if (kv->kind == SL_GGUF_F32_) {
        uint32_t u = (uint32_t)raw(kv->p, 4);
        float f;

        memcpy(&f, &u, sizeof(f));
        v = (double)f;
        if (f == (float)lo || f == (float)hi)
            v = f == (float)lo ? lo : hi;
    } else if (kv->kind == SL_GGUF_F64_) {
        uint64_t u = raw(kv->p, 8);

        memcpy(&v, &u, sizeof(v));
    } else {
        return wrong_kind(kv, "a number with a fraction", err);
    }
    if (!(v >= lo && v <= hi))
        return sl_fail(err, SL_EFORMAT,
                       "the key '%.200s' is %g and must be from %g to %g", key,
                       v, lo, hi);
    *out = v;
    return 0;
}

int sl_gguf_bool(bool *out, const struct sl_gguf *g, const char *key, bool need,
                 struct sl_err *err)
{
    const struct sl_gguf_kv *kv;
    int rc = get(&kv, g, key, need, err);

    if (rc || !kv)
        return rc;
    if (kv->kind != SL_GGUF_BOOL)
        return wrong_kind(kv, "true or false", err);
    *out = kv->p[0] != 0;
    return 0;
}

int sl_gguf_str(const char **out, size_t *len, const struct sl_gguf *g,
                const char *key, bool need, struct sl_err *err)
{
    const struct sl_gguf_kv *kv;
    int rc = get(&kv, g, key, need, err);

    if (rc || !kv)
        return rc;
    if (kv->kind != SL_GGUF_STR)
        return wrong_kind(kv, "a string", err);
    *out = (const char *)kv->p + 8;
    *len = kv->len - 8;
    return 0;
}

int sl_gguf_ints(const struct sl_gguf_kv **out, const struct sl_gguf *g,
                 const char *key, bool need, struct sl_err *err)
{
    const struct sl_gguf_kv *kv;
    int rc = get(&kv, g, key, need, err);

    if (rc || !kv)
        return rc;
    if (kv->kind != SL_GGUF_ARR || !(is_int(kv->of) || kv->of == SL_GGUF_BOOL))
        return wrong_kind(kv, "an array of whole numbers", err);
    *out = kv;
    return 0;
}

int sl_gguf_strs(const struct sl_gguf_kv **out, const struct sl_gguf *g,
                 const char *key, bool need, struct sl_err *err)
{
    const struct sl_gguf_kv *kv;
    int rc = get(&kv, g, key, need, err);

    if (rc || !kv)
        return rc;
    if (kv->kind != SL_GGUF_ARR || kv->of != SL_GGUF_STR)
        return wrong_kind(kv, "an array of strings", err);
    *out = kv;
    return 0;
}

void sl_gguf_walk(struct sl_cur *c, const struct sl_gguf_kv *kv)
{
    sl_cur_init(c, kv->p, kv->len);
}

const char *sl_gguf_next(struct sl_cur *c, size_t *len)
{
    uint64_t n = sl_cur_u64(c);

    *len = c->bad ? 0 : (size_t)n;
    return c->bad ? NULL : sl_cur_take(c, *len);
}
