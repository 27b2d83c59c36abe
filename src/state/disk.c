/* state/disk.c - the folder that kept prefixes lie in; see disk.h
 *
 * Files are not waited for until they are on the disk: each carries a digest,
 * so what a power failure tears is found when it is read.
 */
#include "state/disk.h"

#include "base/file.h"
#include "base/reader.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/out.h"
#include "base/tree.h"

#define KEY_HEX (2 * SL_SHA256)
#define NAME_CAP 128
#define PATH_CAP 4096
#define LIST_AGAIN 16 /* parts of the limit; see disk.h. Chosen. */
#define KEEP_FREE 16  /* likewise: how much more is removed than is needed */
#define TMP ".tmp"
#define LEFT_NS ((int64_t)600 * 1000000000) /* see disk.h. Chosen. */

static const char hex[] = "0123456789abcdef";

static void to_hex(char *out, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = hex[p[i] >> 4];
        out[2 * i + 1] = hex[p[i] & 15];
    }
    out[2 * n] = 0;
}

static bool is_hex(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!s[i] || !strchr(hex, s[i]))
            return false;
    return true;
}

static void from_hex(uint8_t *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)((strchr(hex, s[2 * i]) - hex) << 4 |
                           (strchr(hex, s[2 * i + 1]) - hex));
}

/* ------------------------------------------------------------------ names */

/* What a name says. */
struct label {
    enum sl_wire_kind kind;
    bool ours; /* of this model */
    uint8_t key[SL_SHA256];
    uint32_t n_tok; /* of a state */
};

static int path_of(char out[PATH_CAP], const struct sl_disk *d,
                   const struct sl_wire *w, struct sl_err *err)
{
    char name[NAME_CAP], key[KEY_HEX + 1];

    to_hex(key, w->key, SL_SHA256);
    if (w->kind == SL_WIRE_PAGE)
        snprintf(name, sizeof(name), "%s-%s.page", d->id, key);
    else
        snprintf(name, sizeof(name), "%s-%s-%u.state", d->id, key, w->n_tok);
    return sl_path_join(out, PATH_CAP, d->dir, name, err);
}

/* False for a name that is none of these files. */
static bool read_name(struct label *l, const struct sl_disk *d,
                      const char *name)
{
    const char *key = name + SL_DISK_ID + 1, *tail;
    int64_t n_tok;
    size_t digits;

    if (!is_hex(name, SL_DISK_ID) || name[SL_DISK_ID] != '-' ||
        !is_hex(key, KEY_HEX))
        return false;
    *l = (struct label){.ours = !memcmp(name, d->id, SL_DISK_ID)};
    from_hex(l->key, key, SL_SHA256);
    tail = key + KEY_HEX;
    if (!strcmp(tail, ".page")) {
        l->kind = SL_WIRE_PAGE;
        return true;
    }
    digits = strcspn(tail + (*tail == '-'), ".");
    if (*tail != '-' || strcmp(tail + 1 + digits, ".state") ||
        sl_num_i64(&n_tok, tail + 1, digits, 1, UINT32_MAX, "", NULL))
        return false;
    l->kind = SL_WIRE_STATE;
    l->n_tok = (uint32_t)n_tok;
    return true;
}

/* ---------------------------------------------------------------- listing */

struct file {
    char name[NAME_CAP];
    struct label label;
    uint64_t bytes;
    int64_t used_ns;
};

struct list {
    struct sl_disk *d;
    struct file *file; /* [n] */
    size_t n, cap;
    uint64_t bytes;
    uint32_t n_left; /* removed leftovers */
    int rc;
};

/* A file that is being written, or was until its process was ended. */
static void see_tmp(struct list *l, const char *path)
{
    struct sl_file_stamp s;

    if (!sl_file_stamp(&s, path))
        return;
    if (sl_file_now() - s.mtime_ns > LEFT_NS && sl_file_remove(path))
        l->n_left++;
    else
        l->bytes += s.size;
}

static void see(void *ctx, const char *name)
{
    struct list *l = ctx;
    struct file f = {0};
    struct sl_file_stamp s;
    char path[PATH_CAP];
    size_t n = strlen(name);

    if (l->rc || sl_path_join(path, sizeof(path), l->d->dir, name, NULL))
        return;
    if (n > strlen(TMP) && !strcmp(name + n - strlen(TMP), TMP) &&
        is_hex(name, SL_DISK_ID)) {
        see_tmp(l, path);
        return;
    }
    if (n >= NAME_CAP || !read_name(&f.label, l->d, name) ||
        !sl_file_stamp(&s, path))
        return;
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 1024;
        l->rc = sl_mem_resize(&l->file, l->cap, sizeof(*l->file),
                              "the list of kept prefixes", NULL);
        if (l->rc)
            return;
    }
    memcpy(f.name, name, n + 1);
    f.bytes = s.size;
    f.used_ns = s.mtime_ns;
    l->bytes += s.size;
    l->file[l->n++] = f;
}

/* All that is there, and what it comes to; sl_mem_free ends l->file. */
static int list(struct list *l, struct sl_disk *d, struct sl_err *err)
{
    int rc;

    *l = (struct list){.d = d};
    rc = sl_dir_each(d->dir, see, l, err);
    if (!rc && l->rc)
        rc = sl_fail(err, SL_ENOMEM, "no memory for the list of '%.300s'",
                     d->dir);
    if (l->n_left > 0)
        sl_log(SL_LOG_WARN,
               "event=prefix_dropped files=%u why=\"a process that wrote them "
               "was ended\"",
               l->n_left);
    if (rc)
        return rc;
    d->bytes = l->bytes;
    d->n_file = (uint32_t)l->n;
    d->fresh_bytes = 0;
    return 0;
}

static int by_use(const void *a, const void *b)
{
    int64_t x = ((const struct file *)a)->used_ns;
    int64_t y = ((const struct file *)b)->used_ns;

    return (x > y) - (x < y);
}

static void count_out(struct sl_disk *d, uint64_t bytes)
{
    d->bytes -= sl_min(bytes, d->bytes);
    d->n_file -= d->n_file > 0;
}

/* Room for `more` bytes below the limit. What may not be removed, because it is
 * somebody else's, stays and counts. */
static int make_room(struct sl_disk *d, uint64_t more, sl_disk_fn *gone,
                     void *ctx, struct sl_err *err)
{
    uint64_t most = d->max_bytes - more, want;
    struct list l = {0};
    char path[PATH_CAP];
    int rc;

    if (d->bytes <= most && d->fresh_bytes <= d->max_bytes / LIST_AGAIN)
        return 0;
    rc = list(&l, d, err);
    want =
        d->bytes <= most ? most : most - sl_min(most, d->max_bytes / KEEP_FREE);
    if (!rc)
        qsort(l.file, l.n, sizeof(*l.file), by_use);
    for (size_t i = 0; !rc && i < l.n && d->bytes > want; i++) {
        const struct file *f = &l.file[i];

        if (sl_path_join(path, sizeof(path), d->dir, f->name, NULL) ||
            !sl_file_remove(path))
            continue;
        count_out(d, f->bytes);
        d->n_evict++;
        if (f->label.ours && f->label.kind == SL_WIRE_STATE)
            gone(ctx, f->label.key, f->label.n_tok);
    }
    sl_mem_free(l.file);
    if (!rc && d->bytes > most)
        rc = sl_fail(err, SL_ENOSPACE,
                     "'%.300s' has files of %llu bytes that may not be removed; "
                     "use another --prefix-cache-dir, or remove them",
                     d->dir, (unsigned long long)d->bytes);
    return rc;
}

/* --------------------------------------------------------------- open, close
 */

/* Tell of the states, and of what others left. */
static void report(const struct sl_disk *d, const struct list *l,
                   sl_disk_fn *found, void *ctx)
{
    uint32_t n_state = 0, n_other = 0;

    for (size_t i = 0; i < l->n; i++) {
        const struct label *b = &l->file[i].label;

        n_other += !b->ours;
        if (!b->ours || b->kind != SL_WIRE_STATE)
            continue;
        n_state++;
        found(ctx, b->key, b->n_tok);
    }
    sl_log(SL_LOG_INFO, "event=prefix_disk prefixes=%u files=%u bytes=%llu",
           n_state, d->n_file, (unsigned long long)d->bytes);
    if (n_other > 0)
        sl_log(SL_LOG_WARN,
               "event=prefix_dropped files=%u why=\"they are of another model, "
               "version or setting; they stay until their room is needed\"",
               n_other);
}

int sl_disk_open(struct sl_disk *d, const char *dir, uint64_t max_bytes,
                 const uint8_t model[SL_SHA256], sl_disk_fn *found, void *ctx,
                 struct sl_err *err)
{
    struct sl_err why = {0};
    struct list l = {0};
    int rc;

    *d = (struct sl_disk){.max_bytes = max_bytes};
    memcpy(d->model, model, SL_SHA256);
    to_hex(d->id, model, SL_DISK_ID / 2);
    rc = sl_mem_dup(&d->dir, dir, strlen(dir), err);
    if (rc)
        return rc;
    rc = sl_dir_make(dir, &why);
    if (!rc && !sl_tree_can_write(dir))
        rc = sl_fail(&why, SL_EIO, "'%.300s' may not be written", dir);
    if (rc)
        sl_log(SL_LOG_WARN,
               "event=prefix_disk why=\"nothing will be kept: %s\"", why.msg);
    if (sl_file_kind(dir) == SL_FILE_DIR && !list(&l, d, &why))
        report(d, &l, found, ctx);
    sl_mem_free(l.file);
    return 0;
}

void sl_disk_close(struct sl_disk *d)
{
    sl_mem_free(d->dir);
    *d = (struct sl_disk){0};
}

/* ------------------------------------------------------------ one record */

uint64_t sl_disk_most(const struct sl_disk *d)
{
    return d->max_bytes - d->max_bytes / KEEP_FREE;
}

bool sl_disk_use(const struct sl_disk *d, const struct sl_wire *w,
                 int64_t used_ns)
{
    char path[PATH_CAP];

    return !path_of(path, d, w, NULL) && sl_file_touch(path, used_ns);
}

int sl_disk_write(struct sl_disk *d, struct sl_wire *w,
                  const struct sl_wire_part *part, uint32_t n_part,
                  int64_t used_ns, sl_disk_fn *gone, void *ctx,
                  struct sl_err *err)
{
    uint64_t all = SL_WIRE_HEAD + w->bytes, at = SL_WIRE_HEAD;
    unsigned char head[SL_WIRE_HEAD];
    struct sl_out o = {.fd = -1};
    char path[PATH_CAP];
    int rc = path_of(path, d, w, err);

    memcpy(w->model, d->model, SL_SHA256);
    if (!rc && all > d->max_bytes)
        rc = sl_fail(err, SL_ENOSPACE,
                     "a file of %llu bytes passes the limit; raise "
                     "--prefix-cache-dir-gib",
                     (unsigned long long)all);
    if (!rc)
        rc = make_room(d, all, gone, ctx, err);
    if (!rc && !sl_wire_put(head, w, part, n_part))
        rc = sl_fail(err, SL_ENOMEM, "no memory for a digest");
    if (!rc)
        rc = sl_out_open_spare(&o, path, all, err);
    if (!rc)
        rc = sl_out_at(&o, 0, head, sizeof(head), err);
    for (uint32_t i = 0; !rc && i < n_part; at += part[i++].n)
        rc = sl_out_at(&o, at, part[i].p, part[i].n, err);
    rc = sl_out_close(&o, rc, err);
    if (rc)
        return rc;
    (void)sl_file_touch(path, used_ns);
    d->bytes += all;
    d->fresh_bytes += all;
    d->n_file++;
    return 0;
}

static int read_file(struct sl_reader *in, struct sl_wire *w,
                     const struct sl_wire_part *part, uint32_t n_part,
                     struct sl_err *err)
{
    unsigned char head[SL_WIRE_HEAD];
    uint64_t at = SL_WIRE_HEAD;
    int rc = sl_reader_read(in, 0, head, sizeof(head), err);

    if (!rc)
        rc = sl_wire_get(w, head, sizeof(head), err);
    if (!rc && in->bytes != SL_WIRE_HEAD + w->bytes)
        rc = sl_fail(err, SL_EFORMAT, "it has %llu bytes and should have %llu",
                     (unsigned long long)in->bytes,
                     (unsigned long long)(SL_WIRE_HEAD + w->bytes));
    for (uint32_t i = 0; !rc && i < n_part; at += part[i++].n)
        rc = sl_reader_read(in, at, part[i].p, part[i].n, err);
    if (!rc && !sl_wire_ok(head, part, n_part))
        rc = sl_fail(err, SL_EFORMAT, "its bytes do not match its digest");
    return rc;
}

int sl_disk_read(struct sl_disk *d, struct sl_wire *w,
                 const struct sl_wire_part *part, uint32_t n_part,
                 struct sl_err *err)
{
    struct sl_reader in = {.fd = -1};
    char path[PATH_CAP];
    int rc = path_of(path, d, w, err);

    memcpy(w->model, d->model, SL_SHA256);
    if (!rc)
        rc = sl_reader_open(&in, path, err);
    if (rc == SL_ENOTFOUND && sl_file_kind(path) != SL_FILE_NONE)
        rc = SL_EIO; /* it may not be read, by us */
    if (rc)
        return rc;
    rc = read_file(&in, w, part, n_part, err);
    if (rc == SL_EFORMAT && sl_file_remove(path))
        count_out(d, in.bytes);
    sl_reader_close(&in);
    return sl_wrap(err, rc, "'%.300s'", path);
}

void sl_disk_remove(struct sl_disk *d, const struct sl_wire *w)
{
    char path[PATH_CAP];
    struct sl_file_stamp s;

    if (!path_of(path, d, w, NULL) && sl_file_stamp(&s, path) &&
        sl_file_remove(path))
        count_out(d, s.size);
}
