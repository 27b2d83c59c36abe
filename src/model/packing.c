/* model/packing.c - a model -> a packed file, and the folder that keeps them;
 * see packing.h
 *
 * Weights are packed straight into the file, which is mapped for writing; its
 * room was taken before. Then the digests of the data are computed in parallel,
 * and the head is written last. The file has another name until all of that is
 * on the disk.
 *
 * Two processes that pack the same model at once do the work twice and end with
 * the same file; a lock keeps the second waiting for the first where the file
 * system has locks.
 */
#include "model/packing.h"

#include <stdatomic.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/out.h"
#include "base/tree.h"
#include "kern/kern.h"
#include "kern/quantise.h"
#include "model/dtypes.h"
#include "model/plan.h"

#define PATH_CAP 4096
#define HEX (2 * SL_SHA256)
#define MAX_RECEIPT 4096
/* Chunks that are checked whenever a file of the cache is opened. Chosen. */
#define N_SAMPLE 2

struct packing {
    struct sl_packed_plan lay;
    struct sl_out out;
    unsigned char *base; /* of the file */
    struct sl_buf meta;
    const struct sl_source *src;
    uint8_t key[SL_SHA256];
};

/* --- one file --- */

static struct sl_packed_item item_of(const struct sl_item *it)
{
    const struct sl_pack_mat *m = &it->mat;
    struct sl_packed_item e = {.kind = it->out_mat ? 1 : 2,
                               .type = SL_F32,
                               .rows = it->vec.n,
                               .cols = 1,
                               .offset = it->offset};
    size_t groups;

    if (!it->out_mat) {
        if (it->vec.rule == SL_PACK_CONV)
            e.rows *= SL_CONV;
        e.bytes = e.rows * sizeof(float);
        return e;
    }
    groups = (m->rows + SL_GROUP - 1) / SL_GROUP;
    e.type = m->type;
    e.rows = m->rows;
    e.cols = m->cols;
    e.bytes = groups * SL_GROUP * sl_dtype_bytes(m->type, m->cols);
    if (m->type == SL_FP8) {
        e.scale_offset = it->scale_offset;
        e.scale_bytes = groups * ((m->cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK) *
                        sizeof(float);
    }
    return e;
}

/* struct sl_load_place.get: the plan is complete. */
static int get_room(void *ctx, const struct sl_plan *plan, unsigned char **base,
                    struct sl_err *err)
{
    struct packing *p = ctx;
    int rc;

    p->lay.flags = plan->w->has_mtp ? SL_PACKED_MTP : 0;
    p->lay.meta_bytes = p->meta.len;
    p->lay.n_item = plan->n_item;
    p->lay.data_bytes = plan->bytes;
    rc = sl_packed_lay_out(&p->lay, err);
    if (!rc)
        rc = sl_out_size(&p->out, p->lay.bytes, err);
    if (!rc)
        rc = sl_out_map(&p->out, &p->base, err);
    for (size_t i = 0; !rc && i < plan->n_item; i++) {
        struct sl_packed_item e = item_of(&plan->item[i]);

        sl_packed_put_item(&p->lay, p->base, i, &e);
    }
    *base = rc ? NULL : p->base + p->lay.data;
    return rc;
}

static void digest_chunk(void *ctx, size_t i, unsigned w)
{
    struct packing *p = ctx;

    (void)w;
    sl_packed_put_digest(&p->lay, p->base, i);
}

/* Of what the file holds: its table and the digests of its data say all of it,
 * so what was read need not be digested besides. */
static bool make_key(struct packing *p, const struct sl_importance *imp)
{
    struct sl_sha256 s;

    sl_sha256_init(&s);
    sl_sha256_u64(&s, SL_PACKED_VERSION);
    sl_sha256_u64(&s, SL_PACKED_LAYOUT);
    sl_sha256_u64(&s, p->lay.plan);
    sl_sha256_u64(&s, p->meta.len);
    sl_sha256_add(&s, p->meta.p, p->meta.len);
    sl_sha256_add(&s, p->base + p->lay.table, p->lay.data - p->lay.table);
    if (imp)
        sl_sha256_add(&s, imp->digest, SL_SHA256);
    return sl_sha256_end(&s, p->key);
}

static int pack_into(struct packing *p, struct sl_source *src,
                     const struct sl_packing_opts *opts, struct sl_err *err)
{
    struct sl_load_place place = {p, get_room};
    struct sl_load_opts lo = {.pool = opts->pool,
                              .plan = opts->plan,
                              .importance = opts->importance,
                              .place = &place,
                              .progress = opts->progress,
                              .progress_ctx = opts->progress_ctx};
    struct sl_weights *w = NULL;
    int rc = sl_weights_load(&w, src, &lo, err);

    sl_weights_close(&w);
    if (rc)
        return rc;
    sl_pool_run(opts->pool, digest_chunk, p, p->lay.n_chunk);
    if (!make_key(p, opts->importance))
        return sl_fail(err, SL_ENOMEM, "the digest of the model failed");
    return sl_packed_put_head(&p->lay, p->base, p->meta.p, p->key, err);
}

/* Pack into p->out, which is open. */
static int pack_source(struct packing *p, struct sl_source *src,
                       const struct sl_packing_opts *opts, struct sl_err *err)
{
    int rc = sl_source_meta(&p->meta, src, err);

    p->lay.plan = (uint64_t)opts->plan;
    if (!rc)
        rc = pack_into(p, src, opts, err);
    sl_out_unmap(&p->out, p->base);
    sl_buf_deinit(&p->meta);
    return rc;
}

static int copy_packed(struct packing *p, const struct sl_packed *from,
                       const struct sl_packing_opts *opts, struct sl_err *err)
{
    int rc = sl_packing_verify(from, opts->pool, opts->progress,
                               opts->progress_ctx, err);

    if (!rc)
        rc = sl_out_size(&p->out, from->map.len, err);
    return rc ? rc : sl_out_at(&p->out, 0, from->map.p, from->map.len, err);
}

int sl_packing_write(const char *path, struct sl_source *src,
                     const struct sl_packing_opts *opts, struct sl_err *err)
{
    struct packing p = {.src = src};
    int rc = sl_out_open(&p.out, path, 0, err);

    if (!rc && src->packed && opts->plan != SL_PLAN_AUTO &&
        (uint64_t)opts->plan != src->packed->plan)
        rc = sl_fail(err, SL_EUNSUP,
                     "'%.300s' was packed as %s and its source is needed to "
                     "make %s of it",
                     src->path, sl_dtypes_name(src->packed->plan),
                     sl_dtypes_name((uint64_t)opts->plan));
    else if (!rc && src->packed)
        rc = copy_packed(&p, src->packed, opts, err);
    else if (!rc)
        rc = pack_source(&p, src, opts, err);
    return sl_out_close(&p.out, rc, err);
}

/* --- checking --- */

struct check {
    const struct sl_packed *p;
    _Atomic size_t first_bad, done;
    sl_progress_fn *progress;
    void *ctx;
};

static void check_chunk(void *ctx, size_t i, unsigned w)
{
    struct check *c = ctx;
    size_t seen = c->first_bad, n;

    if (!sl_packed_chunk_ok(c->p, i))
        while (i < seen &&
               !atomic_compare_exchange_weak(&c->first_bad, &seen, i))
            ;
    n = ++c->done;
    if (w == 0 && c->progress)
        c->progress(c->ctx, sl_min(n * SL_PACKED_CHUNK, c->p->data_bytes),
                    c->p->data_bytes);
}

int sl_packing_verify(const struct sl_packed *p, struct sl_pool *pool,
                      sl_progress_fn *progress, void *ctx, struct sl_err *err)
{
    struct check c = {.p = p, .progress = progress, .ctx = ctx};

    c.first_bad = SIZE_MAX;
    sl_pool_run(pool, check_chunk, &c, p->n_chunk);
    if (c.first_bad < p->n_chunk)
        return sl_packed_bad_chunk(p, c.first_bad, err);
    if (progress && p->data_bytes)
        progress(ctx, p->data_bytes, p->data_bytes);
    return 0;
}

/* --- the folder --- */

static void to_hex(char out[HEX + 1], const uint8_t digest[SL_SHA256])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < SL_SHA256; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[HEX] = 0;
}

static bool add_file(struct sl_sha256 *sha, const char *name, const char *path)
{
    struct sl_file_stamp s;

    if (!sl_file_stamp(&s, path))
        return false;
    sl_sha256_add(sha, name, strlen(name) + 1);
    sl_sha256_u64(sha, s.dev);
    sl_sha256_u64(sha, s.inode);
    sl_sha256_u64(sha, s.size);
    sl_sha256_u64(sha, (uint64_t)s.mtime_ns);
    return true;
}

/* Every regular file of a folder. */
static bool add_folder(struct sl_sha256 *sha, const char *dir)
{
    struct sl_names names = {.n = 0};
    char path[PATH_CAP];
    bool ok =
        sl_file_kind(dir) == SL_FILE_DIR && !sl_names_list(&names, dir, NULL);

    for (size_t i = 0; ok && i < names.n; i++) {
        ok = !sl_path_join(path, sizeof(path), dir, names.name[i], NULL);
        if (ok && sl_file_kind(path) == SL_FILE_REGULAR)
            ok = add_file(sha, names.name[i], path);
    }
    sl_names_deinit(&names);
    return ok;
}

/* Digest of the stamps of a source's files, or (`src` NULL) of a folder's.
 * False when they cannot be listed. */
static bool stamp(uint8_t out[SL_SHA256], const struct sl_source *src,
                  const char *dir, enum sl_dtype_plan plan)
{
    struct sl_sha256 sha;
    bool ok = true;

    sl_sha256_init(&sha);
    sl_sha256_u64(&sha, SL_PACKED_VERSION);
    sl_sha256_u64(&sha, SL_PACKED_LAYOUT);
    sl_sha256_u64(&sha, (uint64_t)plan);
    if (plan != SL_PLAN_AUTO)
        sl_sha256_u64(&sha, SL_QUANTISER);
    if (!src || src->form == SL_SOURCE_FOLDER)
        ok = add_folder(&sha, src ? src->path : dir);
    for (size_t i = 0; ok && src && src->ckpt && i < sl_ckpt_n_file(src->ckpt);
         i++)
        ok = add_file(&sha, "", sl_ckpt_file(src->ckpt, i));
    return sl_sha256_end(&sha, out) && ok;
}

/* What a receipt is called; false when the source cannot be told from others. */
static bool source_id(char out[HEX + 1], const struct sl_source *src,
                      enum sl_dtype_plan plan)
{
    uint8_t digest[SL_SHA256];

    if (!stamp(digest, src, NULL, plan))
        return false;
    to_hex(out, digest);
    return true;
}

bool sl_packing_id(uint8_t out[SL_SHA256], const struct sl_source *src,
                   enum sl_dtype_plan plan)
{
    if (!src->packed)
        return stamp(out, src, NULL, plan);
    memcpy(out, src->packed->key, SL_SHA256);
    return true;
}

bool sl_packing_folder_id(uint8_t out[SL_SHA256], const char *dir)
{
    return stamp(out, NULL, dir, SL_PLAN_AUTO);
}

struct cache {
    const char *dir;
    char packed[PATH_CAP], by[PATH_CAP];
    char id[HEX + 1], key[HEX + 1];
    char receipt[PATH_CAP], file[PATH_CAP];
};

static int cache_paths(struct cache *c, struct sl_err *err)
{
    int rc = sl_path_join(c->packed, sizeof(c->packed), c->dir, "packed", err);

    if (!rc)
        rc = sl_path_join(c->by, sizeof(c->by), c->packed, "by", err);
    if (!rc)
        rc = sl_path_join(c->receipt, sizeof(c->receipt), c->by, c->id, err);
    return rc;
}

static int file_path(struct cache *c, struct sl_err *err)
{
    char name[HEX + 16];

    snprintf(name, sizeof(name), "%s.sluice", c->key);
    return sl_path_join(c->file, sizeof(c->file), c->packed, name, err);
}

/* The key that the receipt names; false when there is none. */
static bool read_receipt(struct cache *c)
{
    char *text = NULL;
    size_t len = 0;
    bool ok;

    if (sl_file_kind(c->receipt) != SL_FILE_REGULAR ||
        sl_file_read(&text, &len, c->receipt, MAX_RECEIPT, NULL))
        return false;
    ok = len >= HEX;
    for (size_t i = 0; ok && i < HEX; i++)
        ok = (text[i] >= '0' && text[i] <= '9') ||
             (text[i] >= 'a' && text[i] <= 'f');
    if (ok)
        memcpy(c->key, text, HEX);
    c->key[HEX] = 0;
    sl_file_free(text);
    return ok;
}

/* Is the file of the key there, whole, and that of the key? */
static int open_kept(struct sl_source **out, struct cache *c,
                     struct sl_err *err)
{
    char key[HEX + 1];
    int rc = file_path(c, err);

    if (!rc && sl_file_kind(c->file) == SL_FILE_NONE)
        rc = sl_fail(err, SL_ENOTFOUND, "'%.300s' is not there", c->file);
    if (!rc)
        rc = sl_source_open(out, c->file, err);
    if (rc)
        return rc;
    to_hex(key, (*out)->packed->key);
    if (strcmp(key, c->key))
        rc = sl_fail(err, SL_EFORMAT, "'%.300s' has the key of another model",
                     c->file);
    for (size_t i = 0; !rc && i < N_SAMPLE; i++) {
        size_t n = (*out)->packed->n_chunk;
        size_t k = i * (n - 1) / (N_SAMPLE - 1);

        if (n > 0 && !sl_packed_chunk_ok((*out)->packed, k))
            rc = sl_packed_bad_chunk((*out)->packed, k, err);
    }
    if (rc)
        sl_source_close(out);
    else
        (void)sl_file_touch(c->receipt, sl_file_now()); /* packing_sweep.h */
    return rc;
}

static int no_room(const struct cache *c, int rc, struct sl_err *err)
{
    return sl_wrap(err, rc,
                   "keeping packed weights in '%.200s' (--weights copy does "
                   "without)",
                   c->dir);
}

/* Pack, name the file after its key, and leave a receipt. */
static int make(struct sl_source **out, struct cache *c, struct sl_source *src,
                const struct sl_packing_opts *opts, struct sl_err *err)
{
    struct packing p = {.src = src};
    int rc = sl_path_join(c->file, sizeof(c->file), c->packed, c->id, err);

    if (!rc)
        rc = sl_out_open(&p.out, c->file, 0, err);
    if (!rc)
        rc = pack_source(&p, src, opts, err);
    if (!rc) {
        to_hex(c->key, p.key);
        rc = file_path(c, err);
    }
    if (!rc)
        rc = sl_out_rename(&p.out, c->file, err);
    rc = sl_out_close(&p.out, rc, err);
    if (!rc)
        rc = sl_file_write(c->receipt, c->key, HEX, err);
    if (rc == SL_ENOSPACE || rc == SL_EIO || rc == SL_ENOTFOUND)
        rc = no_room(c, rc, err);
    return rc ? rc : open_kept(out, c, err);
}

static int find_or_make(struct sl_source **out, struct cache *c,
                        struct sl_source *src,
                        const struct sl_packing_opts *opts, struct sl_err *err)
{
    struct sl_err why = {0};
    int lock, rc;

    if (read_receipt(c) && !open_kept(out, c, &why))
        return 0;
    rc = sl_dir_make(c->by, err);
    if (rc)
        return no_room(c, rc, err);
    lock = sl_file_lock(c->packed, c->id);
    /* Another process may have made it while we waited. */
    if (read_receipt(c)) {
        rc = open_kept(out, c, &why);
        if (rc && rc != SL_ENOTFOUND)
            sl_log(SL_LOG_WARN, "event=packed_again why=\"%s\"", why.msg);
        if (rc == SL_EFORMAT || rc == SL_EUNSUP)
            sl_file_remove(c->file);
    }
    if (!*out)
        rc = make(out, c, src, opts, err);
    sl_file_unlock(lock, c->packed, c->id);
    return rc;
}

static int cache_init(struct cache *c, const struct sl_source *src,
                      const char *dir, enum sl_dtype_plan plan,
                      struct sl_err *err)
{
    c->dir = dir;
    if (!source_id(c->id, src, plan))
        return sl_fail(err, SL_EIO, "the files of '%.300s' cannot be listed",
                       src->path);
    return cache_paths(c, err);
}

bool sl_packing_find(struct sl_source **src, const char *dir,
                     enum sl_dtype_plan plan)
{
    struct sl_source *kept = NULL;
    struct cache *c = NULL;
    bool found;

    if ((*src)->packed || sl_mem_alloc(&c, 1, sizeof(*c), "paths", NULL))
        return (*src)->packed != NULL;
    found = !cache_init(c, *src, dir, plan, NULL) && read_receipt(c) &&
            !open_kept(&kept, c, NULL);
    sl_mem_free(c);
    if (found) {
        sl_source_close(src);
        *src = kept;
    }
    return found;
}

int sl_packing_cached(struct sl_source **src, const char *dir,
                      const struct sl_packing_opts *opts, struct sl_err *err)
{
    struct sl_source *kept = NULL;
    struct cache *c = NULL;
    int rc;

    if ((*src)->packed)
        return 0;
    rc = sl_mem_alloc(&c, 1, sizeof(*c), "paths", err);
    if (rc)
        return rc;
    rc = cache_init(c, *src, dir, opts->plan, err);
    if (!rc)
        rc = find_or_make(&kept, c, *src, opts, err);
    sl_mem_free(c);
    if (rc)
        return rc;
    sl_source_close(src);
    *src = kept;
    return 0;
}
