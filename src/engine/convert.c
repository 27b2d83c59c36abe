/* engine/convert.c - models in their forms; see convert.h */
#include "engine/convert.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/out.h"
#include "engine/importance.h"
#include "model/gguf_write.h"
#include "model/packing.h"
#include "model/plan.h"
#include "text/tokenizer_json.h"

int sl_convert_tokenizer(struct sl_tokenizer **out, const char *path,
                         struct sl_err *err)
{
    struct sl_source *src = NULL;
    int rc;

    /* A folder with a tokenizer need not hold a model. */
    if (sl_file_kind(path) == SL_FILE_DIR)
        return sl_tokenizer_load(out, path, err);
    rc = sl_source_open(&src, path, err);
    if (!rc)
        rc = sl_source_tokenizer(out, src, err);
    sl_source_close(&src);
    return rc;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && !strcmp(s + n - m, end);
}

static bool is_gguf(const char *dst)
{
    return ends_with(dst, ".gguf") || ends_with(dst, ".GGUF");
}

/* Weights on their way to another form lie in a file, which need not fit into
 * memory, beside what is written. */
struct room {
    struct sl_out out;
    unsigned char *base;
};

/* struct sl_load_place.get */
static int get_room(void *ctx, const struct sl_plan *plan, unsigned char **base,
                    struct sl_err *err)
{
    struct room *r = ctx;
    int rc = sl_out_size(&r->out, plan->bytes, err);

    if (!rc)
        rc = sl_out_map(&r->out, &r->base, err);
    *base = r->base;
    return rc;
}

static int to_gguf(const struct sl_convert_opts *o, struct sl_source *src,
                   const struct sl_importance *imp, struct sl_pool *pool,
                   struct sl_err *err)
{
    struct room room = {.base = NULL};
    struct sl_load_place place = {&room, get_room};
    struct sl_load_opts lo = {.pool = pool,
                              .plan = (enum sl_dtype_plan)o->plan,
                              .importance = imp,
                              .place = src->packed ? NULL : &place,
                              .progress = o->progress,
                              .progress_ctx = o->progress_ctx};
    struct sl_weights *w = NULL;
    int rc = src->packed ? 0 : sl_out_open(&room.out, o->dst, 0, err);

    if (!rc)
        rc = sl_weights_load(&w, src, &lo, err);
    if (!rc)
        rc = sl_gguf_write(o->dst, w, src, o->progress, o->progress_ctx, err);
    sl_weights_close(&w);
    sl_out_unmap(&room.out, room.base);
    (void)sl_out_close(&room.out, SL_EIO, NULL); /* nobody wants it */
    return rc;
}

static int to_packed(const struct sl_convert_opts *o, struct sl_source *src,
                     const struct sl_importance *imp, struct sl_pool *pool,
                     struct sl_err *err)
{
    struct sl_packing_opts po = {.pool = pool,
                                 .plan = (enum sl_dtype_plan)o->plan,
                                 .importance = imp,
                                 .progress = o->progress,
                                 .progress_ctx = o->progress_ctx};

    return sl_packing_write(o->dst, src, &po, err);
}

/* Is it a file that we may replace: a model, and not of the source. */
static int check_old(const char *dst, const struct sl_source *src,
                     struct sl_err *err)
{
    struct sl_file_stamp a, b;

    for (size_t i = 0; src->ckpt && i < sl_ckpt_n_file(src->ckpt); i++)
        if (sl_file_stamp(&a, sl_ckpt_file(src->ckpt, i)) &&
            sl_file_stamp(&b, dst) && a.dev == b.dev && a.inode == b.inode)
            return sl_fail(err, SL_EARG,
                           "'%.300s' is part of the source; name another file",
                           dst);
    if (is_gguf(dst) || sl_packed_is(dst))
        return 0;
    return sl_fail(err, SL_EARG,
                   "'%.300s' is there and is no model that a conversion wrote; "
                   "remove it, or name another file",
                   dst);
}

static int check_dst(const struct sl_convert_opts *o,
                     const struct sl_source *src, struct sl_err *err)
{
    struct sl_file_stamp a, b;

    if (sl_file_stamp(&a, o->src) && sl_file_stamp(&b, o->dst) &&
        a.dev == b.dev && a.inode == b.inode)
        return sl_fail(err, SL_EARG,
                       "'%.300s' is the source itself; name another file",
                       o->dst);
    switch (sl_file_kind(o->dst)) {
    case SL_FILE_NONE:
        return 0;
    case SL_FILE_REGULAR:
        return check_old(o->dst, src, err);
    case SL_FILE_DIR:
        return sl_fail(err, SL_EARG,
                       "'%.300s' is a folder; name the file to write", o->dst);
    default:
        return sl_fail(err, SL_EARG,
                       "'%.300s' is not a regular file, and a conversion would "
                       "replace it; name another",
                       o->dst);
    }
}

/* What the calibration text says; *use is NULL without one. */
static int measure(struct sl_importance *imp, const struct sl_importance **use,
                   const struct sl_convert_opts *o, const struct sl_source *src,
                   struct sl_pool *pool, struct sl_err *err)
{
    struct sl_importance_opts io = {.model = o->src,
                                    .text = o->calibrate,
                                    .n_text = o->n_calibrate,
                                    .pool = pool,
                                    .progress = o->progress,
                                    .progress_ctx = o->progress_ctx};

    if (!o->calibrate)
        return 0;
    if (src->packed)
        return sl_fail(err, SL_EUNSUP,
                       "a packed file is copied, not quantised again; "
                       "calibrate with its source");
    *use = imp;
    return sl_importance_measure(imp, &io, err);
}

int sl_convert(const struct sl_convert_opts *o, struct sl_err *err)
{
    const struct sl_importance *use = NULL;
    struct sl_importance imp = {0};
    struct sl_source *src = NULL;
    struct sl_pool *pool = NULL;
    int rc = sl_source_open(&src, o->src, err);

    if (!rc)
        rc = check_dst(o, src, err);
    if (!rc)
        rc = sl_pool_open(&pool, o->n_thread, o->pin, err);
    if (!rc)
        rc = measure(&imp, &use, o, src, pool, err);
    if (!rc)
        rc = is_gguf(o->dst) ? to_gguf(o, src, use, pool, err)
                             : to_packed(o, src, use, pool, err);
    sl_importance_deinit(&imp);
    sl_pool_close(&pool);
    sl_source_close(&src);
    return sl_wrap(err, rc, "converting '%.300s'", o->src);
}

int sl_convert_keep(char **path, const struct sl_convert_opts *o,
                    const char *cache_dir, struct sl_err *err)
{
    struct sl_packing_opts po = {.plan = (enum sl_dtype_plan)o->plan,
                                 .progress = o->progress,
                                 .progress_ctx = o->progress_ctx};
    struct sl_source *src = NULL;
    struct sl_pool *pool = NULL;
    int rc = sl_source_open(&src, o->src, err);

    if (!rc && src->packed)
        rc = sl_fail(err, SL_EARG,
                     "it is a packed file and used as it is; name a file to "
                     "copy it to");
    if (!rc)
        rc = sl_pool_open(&pool, o->n_thread, o->pin, err);
    po.pool = pool;
    if (!rc)
        rc = sl_packing_cached(&src, cache_dir, &po, err);
    if (!rc)
        rc = sl_mem_dup(path, src->path, strlen(src->path), err);
    sl_pool_close(&pool);
    sl_source_close(&src);
    return sl_wrap(err, rc, "converting '%.300s'", o->src);
}

int sl_convert_sweep(const char *cache_dir, const struct sl_packing_sweep *s,
                     struct sl_err *err)
{
    return sl_packing_sweep(cache_dir, s, err);
}

static int verify(uint64_t *n_bytes, const struct sl_convert_opts *o,
                  struct sl_source *src, struct sl_pool *pool,
                  struct sl_err *err)
{
    struct sl_load_opts lo = {.pool = pool,
                              .check = true,
                              .progress = o->progress,
                              .progress_ctx = o->progress_ctx};
    struct sl_weights *w = NULL;
    int rc;

    if (src->packed) {
        *n_bytes = src->packed->map.len;
        rc = sl_packing_verify(src->packed, pool, o->progress, o->progress_ctx,
                               err);
        if (rc)
            return rc;
    }
    rc = sl_weights_load(&w, src, &lo, err);
    if (!rc && src->ckpt)
        *n_bytes = sl_ckpt_bytes(src->ckpt);
    sl_weights_close(&w);
    return rc;
}

int sl_convert_verify(uint64_t *n_bytes, const struct sl_convert_opts *o,
                      struct sl_err *err)
{
    struct sl_tokenizer *t = NULL;
    struct sl_source *src = NULL;
    struct sl_pool *pool = NULL;
    struct sl_err why = {0};
    int rc = sl_source_open(&src, o->src, err);

    *n_bytes = 0;
    if (!rc) {
        rc = sl_source_tokenizer(&t, src, &why);
        rc = rc == SL_ENOTFOUND ? 0
             : rc               ? sl_fail(err, (enum sl_code)rc, "%s", why.msg)
                                : 0;
    }
    sl_tokenizer_close(&t);
    if (!rc)
        rc = sl_pool_open(&pool, o->n_thread, o->pin, err);
    if (!rc)
        rc = verify(n_bytes, o, src, pool, err);
    sl_pool_close(&pool);
    sl_source_close(&src);
    return sl_wrap(err, rc, "checking '%.300s'", o->src);
}
