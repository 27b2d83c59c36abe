/* file/checkpoint.c - the files of a checkpoint; see checkpoint.h
 *
 * All files are mapped at once: maps cost address space only, and a file is
 * needed again and again because layers are spread over them. Tensors are kept
 * as a list sorted by name and found by bisection; there are some hundred to
 * some hundred thousand of them and each is looked up once or twice.
 *
 * A tensor that lies in a shard but not in the index is ignored, as the
 * reference does for files it did not open: the index is what the author
 * published. Parts of a GGUF set are in checkpoint_gguf.c.
 */
#include "file/checkpoint_parts.h"

#include "base/json.h"
#include "base/mem.h"

#define INDEX "model.safetensors.index.json"
#define SINGLE "model.safetensors"
#define SUFFIX ".safetensors"
#define PATH_CAP 4096

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    return strcmp(x->ten.name, y->ten.name);
}

bool sl_ckpt_find(const struct sl_ckpt *c, const char *name, size_t *i)
{
    size_t lo = 0, hi = c->n_ten;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int d = strcmp(c->ten[mid].ten.name, name);

        if (d == 0) {
            *i = mid;
            return true;
        }
        if (d < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

static struct entry entry_of(const struct sl_st *st, const struct sl_st_ten *t)
{
    struct entry e = {.ten = {.name = t->name,
                              .type = SL_N_DTYPE,
                              .type_name = sl_st_type_name(t->type),
                              .n_dim = t->n_dim,
                              .bytes = t->bytes},
                      .path = st->path,
                      .map = &st->map,
                      .offset = t->offset};

    (void)sl_st_dtype(&e.ten.type, t->type);
    memcpy(e.ten.dim, t->dim, sizeof(e.ten.dim));
    return e;
}

/* "a-00001.safetensors": no folder, no way out of the folder. */
static bool is_plain_name(const char *s)
{
    return *s && *s != '.' && !strchr(s, '/') && !strchr(s, '\\');
}

static int open_file(struct sl_ckpt *c, const char *dir, const char *name,
                     struct sl_err *err)
{
    char path[PATH_CAP];
    int rc;

    if (c->n_file == SL_CKPT_MAX_SHARD)
        return sl_fail(err, SL_EFORMAT,
                       "the checkpoint has more than %d files; merge some",
                       SL_CKPT_MAX_SHARD);
    rc = sl_path_join(path, sizeof(path), dir, name, err);
    if (!rc)
        rc = sl_st_open(&c->file[c->n_file], path, err);
    if (!rc)
        c->n_file++;
    return rc;
}

/* A checkpoint of one file. */
static int open_single(struct sl_ckpt *c, const char *dir, const char *name,
                       struct sl_err *err)
{
    const struct sl_st *st;
    int rc = open_file(c, dir, name, err);

    if (rc)
        return rc;
    st = c->file[0];
    rc = sl_mem_alloc(&c->ten, st->n_ten, sizeof(*c->ten),
                      "the list of tensors", err);
    if (rc)
        return rc;
    for (size_t i = 0; i < st->n_ten; i++)
        c->ten[i] = entry_of(st, &st->ten[i]);
    c->n_ten = st->n_ten;
    return 0;
}

/* An index entry while shards are being opened. */
struct want {
    const char *tensor, *file; /* borrowed from the JSON */
};

static int by_file(const void *a, const void *b)
{
    const struct want *x = a, *y = b;
    int d = strcmp(x->file, y->file);

    return d ? d : strcmp(x->tensor, y->tensor);
}

static int read_weight_map(struct want *w, size_t *n, const json_t *map,
                           struct sl_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)map, key, v)
    {
        if (!json_is_string(v))
            return sl_fail(err, SL_EFORMAT,
                           "the file of the tensor '%.200s' is not a string",
                           key);
        if (!is_plain_name(json_string_value(v)))
            return sl_fail(err, SL_EFORMAT,
                           "the tensor '%.200s' is said to be in '%.200s', "
                           "which is not the name of a file in this folder",
                           key, json_string_value(v));
        w[(*n)++] = (struct want){.tensor = key, .file = json_string_value(v)};
    }
    qsort(w, *n, sizeof(*w), by_file);
    return 0;
}

static const struct entry *find_in(const struct entry *by, size_t n,
                                   const char *name)
{
    struct entry e = {.ten = {.name = name}};

    return n ? bsearch(&e, by, n, sizeof(*by), by_name) : NULL;
}

/* Take the wanted tensors of one opened file. */
static int take_from(struct sl_ckpt *c, const struct sl_st *st,
                     const struct want *w, size_t n, struct sl_err *err)
{
    struct entry *by;
    int rc =
        sl_mem_alloc(&by, st->n_ten, sizeof(*by), "the list of tensors", err);

    if (rc)
        return rc;
    for (size_t i = 0; i < st->n_ten; i++)
        by[i] = entry_of(st, &st->ten[i]);
    qsort(by, st->n_ten, sizeof(*by), by_name);
    for (size_t i = 0; !rc && i < n; i++) {
        const struct entry *t = find_in(by, st->n_ten, w[i].tensor);

        if (t)
            c->ten[c->n_ten++] = *t;
        else
            rc = sl_fail(err, SL_EFORMAT,
                         "the index says that the tensor '%.200s' is in "
                         "'%.200s', but it is not; fetch both files again",
                         w[i].tensor, st->path);
    }
    sl_mem_free(by);
    return rc;
}

static int open_shards(struct sl_ckpt *c, const char *dir, const json_t *index,
                       struct sl_err *err)
{
    const json_t *map = json_object_get(index, "weight_map");
    struct want *w = NULL;
    size_t n = 0, end;
    int rc;

    if (!json_is_object(map))
        return sl_fail(err, SL_EFORMAT, "the object 'weight_map' is missing");
    rc = sl_mem_alloc(&w, json_object_size(map), sizeof(*w), "the index", err);
    if (!rc)
        rc = sl_mem_alloc(&c->ten, json_object_size(map), sizeof(*c->ten),
                          "the list of tensors", err);
    if (!rc)
        rc = read_weight_map(w, &n, map, err);
    for (size_t i = 0; !rc && i < n; i = end) {
        for (end = i; end < n && !strcmp(w[end].file, w[i].file);)
            end++;
        rc = open_file(c, dir, w[i].file, err);
        if (!rc)
            rc = take_from(c, c->file[c->n_file - 1], w + i, end - i, err);
    }
    sl_mem_free(w);
    return rc;
}

static int open_index(struct sl_ckpt *c, const char *dir, const char *path,
                      struct sl_err *err)
{
    json_t *index = NULL;
    int rc = sl_json_load(&index, path, SL_CKPT_MAX_INDEX, err);

    if (rc)
        return rc;
    rc =
        sl_wrap(err, open_shards(c, dir, index, err), "reading '%.300s'", path);
    json_decref(index);
    return rc;
}

/* The only *.safetensors of a folder. */
struct only {
    char name[256];
    size_t n;
};

static void see_name(void *ctx, const char *name)
{
    struct only *o = ctx;
    size_t len = strlen(name);

    if (len <= strlen(SUFFIX) || len >= sizeof(o->name) ||
        strcmp(name + len - strlen(SUFFIX), SUFFIX))
        return;
    memcpy(o->name, name, len + 1);
    o->n++;
}

static int open_only(struct sl_ckpt *c, const char *dir, struct sl_err *err)
{
    struct only o = {0};
    int rc = sl_dir_each(dir, see_name, &o, err);

    if (rc)
        return rc;
    if (o.n == 0)
        return sl_fail(err, SL_ENOTFOUND,
                       "'%s' holds no safetensors weights (%s, %s or one "
                       "*" SUFFIX "); give the folder of a checkpoint",
                       dir, INDEX, SINGLE);
    if (o.n > 1)
        return sl_fail(err, SL_ENOTFOUND,
                       "'%s' holds %zu files *" SUFFIX
                       " and no %s that says which to use; fetch it too",
                       dir, o.n, INDEX);
    return open_single(c, dir, o.name, err);
}

static int open_any(struct sl_ckpt *c, const char *dir, struct sl_err *err)
{
    char path[PATH_CAP];
    int rc;

    if (sl_file_kind(dir) == SL_FILE_REGULAR)
        return sl_ckpt_open_gguf(c, dir, err);
    if (sl_file_kind(dir) != SL_FILE_DIR)
        return sl_fail(err, SL_ENOTFOUND, "'%s' is not a folder", dir);
    rc = sl_path_join(path, sizeof(path), dir, INDEX, err);
    if (rc)
        return rc;
    if (sl_file_kind(path) != SL_FILE_NONE)
        return open_index(c, dir, path, err);
    rc = sl_path_join(path, sizeof(path), dir, SINGLE, err);
    if (rc)
        return rc;
    if (sl_file_kind(path) != SL_FILE_NONE)
        return open_single(c, dir, SINGLE, err);
    return open_only(c, dir, err);
}

int sl_ckpt_open(struct sl_ckpt **out, const char *path, struct sl_err *err)
{
    struct sl_ckpt *c = NULL;
    int rc = sl_mem_alloc(&c, 1, sizeof(*c), "a checkpoint", err);

    if (rc)
        return rc;
    rc = open_any(c, path, err);
    if (rc) {
        sl_ckpt_close(&c);
        return rc;
    }
    qsort(c->ten, c->n_ten, sizeof(*c->ten), by_name);
    *out = c;
    return 0;
}

void sl_ckpt_close(struct sl_ckpt **out)
{
    struct sl_ckpt *c = *out;

    if (!c)
        return;
    *out = NULL;
    for (size_t i = 0; i < c->n_file; i++)
        sl_st_close(&c->file[i]);
    for (size_t i = 0; i < c->n_part; i++)
        sl_gguf_close(&c->part[i]);
    sl_mem_free(c->part);
    sl_mem_free(c->ten);
    sl_mem_free(c);
}

size_t sl_ckpt_n_tensor(const struct sl_ckpt *c)
{
    return c->n_ten;
}

uint64_t sl_ckpt_bytes(const struct sl_ckpt *c)
{
    uint64_t n = 0;

    for (size_t i = 0; i < c->n_ten; i++)
        n += c->ten[i].ten.bytes;
    return n;
}

const struct sl_gguf *sl_ckpt_gguf(const struct sl_ckpt *c)
{
    return c->n_part ? c->part[0] : NULL;
}

size_t sl_ckpt_n_file(const struct sl_ckpt *c)
{
    return c->n_file + c->n_part;
}

const char *sl_ckpt_file(const struct sl_ckpt *c, size_t i)
{
    return i < c->n_file ? c->file[i]->path : c->part[i - c->n_file]->path;
}

const struct sl_ten *sl_ckpt_get(const struct sl_ckpt *c, size_t i)
{
    SL_ASSERT(i < c->n_ten);
    return &c->ten[i].ten;
}

const unsigned char *sl_ckpt_data(const struct sl_ckpt *c, size_t i)
{
    SL_ASSERT(i < c->n_ten);
    return c->ten[i].map->p + c->ten[i].offset;
}

const char *sl_ckpt_path(const struct sl_ckpt *c, size_t i)
{
    SL_ASSERT(i < c->n_ten);
    return c->ten[i].path;
}

void sl_ckpt_want(const struct sl_ckpt *c, size_t i, size_t offset, size_t len)
{
    const struct entry *e = &c->ten[i];

    sl_map_want(e->map, e->offset + offset, len);
}

void sl_ckpt_drop(const struct sl_ckpt *c, size_t i, size_t offset, size_t len)
{
    const struct entry *e = &c->ten[i];

    sl_map_drop(e->map, e->offset + offset, len);
}

void sl_ckpt_drop_all(const struct sl_ckpt *c)
{
    for (size_t i = 0; i < c->n_file; i++)
        sl_map_drop(&c->file[i]->map, 0, c->file[i]->map.len);
    for (size_t i = 0; i < c->n_part; i++)
        sl_map_drop(&c->part[i]->map, 0, c->part[i]->map.len);
}
