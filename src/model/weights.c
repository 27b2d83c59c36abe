/* model/weights.c - a checkpoint -> struct sl_weights; see weights.h
 *
 * Loading has three passes, so that nothing large is reserved or read for a
 * checkpoint that does not fit its config.json:
 *
 *   1. plan   Walk the model as config.json describes it. For every matrix and
 *             vector find the tensor, compare its shape, and append an item:
 *             which bytes, where to, how (names.c). What is missing, misshapen
 *             or left over is collected and reported as one list.
 *   2. place  Offsets are known, so one reservation of exactly that size holds
 *             everything, each item aligned to SL_ITEM_ALIGN.
 *   3. pack   Items are cut into pieces of about PIECE_BYTES of the file. The
 *             pool packs them in any order; each writes a place of its own, so
 *             the result does not depend on the order. A piece gives its source
 *             pages back when it is done: resident memory stays near the size
 *             of the packed model plus one piece per thread.
 *
 * A piece that holds NaN or infinity is noted; the lowest one is reported with
 * tensor and index, whichever worker saw it. Without files (`dummy`) the walk
 * is the same and items have no source.
 *
 * Memory: everything here has the lifetime of the model but items and pieces,
 * which end with the call.
 */
#include "model/weights.h"

#include <stdatomic.h>

#include "base/log.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "model/dtypes.h"
#include "model/names.h"

/* Of the file. Large against pages, so that what is not dropped at the edges of
 * a piece does not add up; small against a layer, so that all threads have
 * work. Chosen, not measured. */
#define PIECE_BYTES (4u << 20)

struct sl_weights_mem {
    void *data;               /* the reservation; NULL when it is elsewhere */
    struct sl_packed *packed; /* what is mapped, or NULL */
    struct sl_mlp_w *expert;  /* of all layers */
};

struct piece {
    const struct sl_item *item;
    size_t g0, g1; /* groups of a matrix */
};

struct load {
    struct sl_plan *plan;
    const struct sl_load_opts *opts;
    struct piece *piece;
    size_t n_piece;
    uint64_t total;         /* bytes of source, or of the result of a dummy */
    _Atomic uint64_t done;  /* the same */
    unsigned char *scratch; /* [n_thread][scratch_bytes], to quantise */
    size_t scratch_bytes;
    _Atomic size_t first_bad; /* lowest piece that is not finite */
};

static size_t groups(size_t rows)
{
    return (rows + SL_GROUP - 1) / SL_GROUP;
}

/* Groups of one piece. */
static size_t piece_groups(const struct sl_item *it)
{
    size_t row = sl_dtype_bytes(it->mat.src_type, it->mat.cols);
    size_t n = PIECE_BYTES / (row * SL_GROUP);

    return n ? n : 1;
}

static size_t n_pieces(const struct sl_item *it)
{
    size_t n;

    if (!it->out_mat)
        return 1;
    n = piece_groups(it);
    return (groups(it->mat.rows) + n - 1) / n;
}

/* Bytes of the source that a piece reads; of a dummy, that it writes. */
static uint64_t piece_bytes(const struct piece *p)
{
    const struct sl_item *it = p->item;
    const struct sl_pack_mat *m = &it->mat;
    size_t rows;

    if (!it->out_mat)
        return it->src_bytes;
    rows = sl_min(p->g1 * SL_GROUP, m->rows) - p->g0 * SL_GROUP;
    return (uint64_t)rows * sl_dtype_bytes(m->src_type, m->cols);
}

static int cut(struct load *l, struct sl_err *err)
{
    const struct sl_plan *plan = l->plan;
    size_t n = 0;
    int rc;

    for (size_t i = 0; i < plan->n_item; i++)
        n += n_pieces(&plan->item[i]);
    rc = sl_mem_alloc(&l->piece, n, sizeof(*l->piece), "the list of pieces",
                      err);
    if (rc)
        return rc;
    for (size_t i = 0; i < plan->n_item; i++) {
        const struct sl_item *it = &plan->item[i];
        size_t step = it->out_mat ? piece_groups(it) : 1;
        size_t end = it->out_mat ? groups(it->mat.rows) : 1;

        if (it->out_mat)
            l->scratch_bytes =
                sl_max(l->scratch_bytes,
                       sl_round_up(sl_pack_scratch(&it->mat), SL_LINE));
        for (size_t g = 0; g < end; g += step) {
            struct piece *p = &l->piece[l->n_piece++];

            *p = (struct piece){it, g, sl_min(g + step, end)};
            l->total += piece_bytes(p);
        }
    }
    SL_ASSERT(l->n_piece == n);
    return sl_mem_alloc(&l->scratch, sl_pool_n_thread(l->opts->pool),
                        l->scratch_bytes, "room to quantise", err);
}

/* Tell the system about the source rows of a piece, in runs that lie together
 * in the file. */
typedef void advise_fn(const struct sl_ckpt *c, size_t i, size_t offset,
                       size_t len);

static void advise(const struct load *l, const struct piece *p, advise_fn *fn)
{
    const struct sl_item *it = p->item;
    const struct sl_pack_mat *m = &it->mat;
    size_t row = sl_dtype_bytes(m->src_type, m->cols);
    size_t end = sl_min(p->g1 * SL_GROUP, m->rows), n;

    if (!it->out_mat || !m->src)
        return;
    for (size_t r = p->g0 * SL_GROUP; r < end; r += n) {
        size_t from = sl_perm_src(&m->row_perm, r);

        for (n = 1; r + n < end; n++)
            if (sl_perm_src(&m->row_perm, r + n) != from + n)
                break;
        fn(l->plan->ckpt, it->tensor, it->src_offset + (m->row0 + from) * row,
           n * row);
    }
}

/* What was made of a piece has been seen. */
static void forget(const struct piece *p)
{
    const struct sl_pack_mat *m = &p->item->mat;
    size_t group = SL_GROUP * sl_dtype_bytes(m->type, m->cols);

    if (p->item->out_mat)
        sl_mem_forget((unsigned char *)m->dst + p->g0 * group,
                      (p->g1 - p->g0) * group);
}

static void note_bad(struct load *l, size_t i)
{
    size_t seen = atomic_load_explicit(&l->first_bad, memory_order_relaxed);

    while (i < seen && !atomic_compare_exchange_weak_explicit(
                           &l->first_bad, &seen, i, memory_order_relaxed,
                           memory_order_relaxed))
        ;
}

/* Kernel worker w; worker 0 is the loading thread. */
static void pack_piece(void *ctx, size_t i, unsigned w)
{
    struct load *l = ctx;
    const struct piece *p = &l->piece[i];
    const struct sl_item *it = p->item;
    uint64_t n = piece_bytes(p);
    bool good;

    /* The result of a load that has failed is not looked at. */
    if (i > atomic_load_explicit(&l->first_bad, memory_order_relaxed))
        return;
    if (i + 1 < l->n_piece)
        advise(l, p + 1, sl_ckpt_want);
    if (it->out_mat)
        good = sl_pack_mat_groups(&it->mat, p->g0, p->g1,
                                  l->scratch + w * l->scratch_bytes);
    else
        good = sl_pack_vec(&it->vec);
    advise(l, p, sl_ckpt_drop);
    if (l->opts->check)
        forget(p);
    if (!good)
        note_bad(l, i);
    n += atomic_fetch_add_explicit(&l->done, n, memory_order_relaxed);
    if (w == 0 && l->opts->progress)
        l->opts->progress(l->opts->progress_ctx, n, l->total);
}

/* The tensor and index of the first value of a piece that is not finite. */
static int report_bad(const struct load *l, struct sl_err *err)
{
    const struct piece *p = &l->piece[l->first_bad];
    const struct sl_item *it = p->item;
    const unsigned char *at = it->out_mat
                                  ? sl_pack_mat_bad(&it->mat, p->g0, p->g1)
                                  : sl_pack_vec_bad(&it->vec);

    return sl_plan_report_bad(l->plan, it, at, err);
}

static int pack_all(struct load *l, struct sl_err *err)
{
    sl_pool_run(l->opts->pool, pack_piece, l, l->n_piece);
    if (l->plan->ckpt)
        sl_ckpt_drop_all(l->plan->ckpt);
    if (l->first_bad < l->n_piece)
        return report_bad(l, err);
    if (l->opts->progress)
        l->opts->progress(l->opts->progress_ctx, l->total, l->total);
    return 0;
}

/* The list of all matrices; and what their columns count. */
static int list_mats(struct sl_weights *w, struct sl_plan *plan,
                     const struct sl_importance *imp, struct sl_err *err)
{
    int rc = sl_mem_alloc(&w->mat, plan->n_item, sizeof(*w->mat),
                          "the list of matrices", err);
    size_t n_copied = 0;

    for (size_t i = 0; !rc && i < plan->n_item; i++) {
        struct sl_item *it = &plan->item[i];

        if (!it->out_mat)
            continue;
        if (imp && w->n_mat < imp->n)
            it->mat.importance = imp->col[w->n_mat];
        n_copied += it->mat.importance && sl_pack_is_blocks(&it->mat) &&
                    it->mat.src_type == it->mat.type;
        w->mat[w->n_mat++] = (struct sl_weight_mat){it->out_mat, it->class};
    }
    SL_CHECK(rc || !imp || imp->n == w->n_mat);
    if (!rc && n_copied)
        sl_log(SL_LOG_WARN,
               "event=copied matrices=%zu of=%zu why=\"they have the type of "
               "the plan already, so the calibration changes nothing in them; "
               "give it a source in bf16\"",
               n_copied, w->n_mat);
    return rc;
}

/* Pass 2: the reservation, and every pointer into it. */
static int place(struct sl_weights *w, struct sl_plan *plan,
                 const struct sl_load_opts *opts, struct sl_err *err)
{
    unsigned char *base;
    int rc;

    if (opts->place) {
        rc = opts->place->get(opts->place->ctx, plan, &base, err);
    } else if (plan->packed && !opts->copy) {
        base = (unsigned char *)(uintptr_t)plan->packed->data; /* read only */
        rc = 0;
    } else {
        rc = sl_mem_map(&base, plan->bytes, "the weights", err);
        w->mem->data = rc ? NULL : base;
    }
    if (rc)
        return rc;
    w->bytes = plan->bytes;
    memcpy(w->class_bytes, plan->class_bytes, sizeof(w->class_bytes));
    w->base = base;
    for (size_t i = 0; i < plan->n_item; i++)
        sl_item_place(&plan->item[i], base);
    if (w->conf.tied)
        w->head = w->embed;
    return list_mats(w, plan, opts->importance, err);
}

static int alloc_tables(struct sl_weights *w, struct sl_err *err)
{
    const struct sl_conf *c = &w->conf;
    size_t n_moe = 0, n = 0;
    int rc = sl_mem_alloc(&w->layer, c->n_layer, sizeof(*w->layer),
                          "the list of layers", err);

    for (uint32_t i = 0; i < c->n_layer; i++)
        n_moe += !c->dense[i];
    if (c->n_expert > 0 && c->n_mtp > 0)
        n_moe++;
    if (!rc && !sl_mul_size(&n, n_moe, c->n_expert))
        rc = sl_fail(err, SL_EUNSUP, "too many experts");
    if (!rc)
        rc = sl_mem_alloc(&w->mem->expert, n, sizeof(*w->mem->expert),
                          "the list of experts", err);
    n = 0;
    for (uint32_t i = 0; !rc && i < c->n_layer; i++) {
        w->layer[i].kind = (enum sl_layer_kind)c->kind[i];
        w->layer[i].dense = c->dense[i];
        if (!c->dense[i])
            w->layer[i].moe.expert = w->mem->expert + n++ * c->n_expert;
    }
    w->mtp.layer.kind = SL_LAYER_FULL;
    w->mtp.layer.dense = c->n_expert == 0;
    if (!rc && c->n_expert > 0 && c->n_mtp > 0)
        w->mtp.layer.moe.expert = w->mem->expert + n * c->n_expert;
    return rc;
}

/* --- packed weights --- */

struct copy {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
};

static void copy_piece(void *ctx, size_t i, unsigned w)
{
    const struct copy *c = ctx;
    size_t at = i * PIECE_BYTES;

    (void)w;
    memcpy(c->to + at, c->from + at, sl_min(PIECE_BYTES, c->bytes - at));
}

/* The walk has taken its types and places from the file. */
static int take_packed(struct sl_weights *w, struct sl_source *src,
                       const struct sl_plan *plan,
                       const struct sl_load_opts *opts, struct sl_err *err)
{
    struct copy c = {w->mem->data, src->packed->data, plan->bytes};

    if (plan->n_item != src->packed->n_item ||
        plan->bytes != src->packed->data_bytes)
        return sl_fail(err, SL_EFORMAT,
                       "'%.300s' has %zu weights in %zu bytes and its config "
                       "asks for %zu in %zu; the packed file is damaged: "
                       "remove it, and it is made again",
                       src->path, src->packed->n_item, src->packed->data_bytes,
                       plan->n_item, plan->bytes);
    if (opts->copy) {
        sl_pool_run(opts->pool, copy_piece, &c,
                    (plan->bytes + PIECE_BYTES - 1) / PIECE_BYTES);
        return 0;
    }
    w->mem->packed = src->packed;
    src->packed = NULL;
    return 0;
}

static int load(struct sl_weights *w, struct sl_source *src,
                const struct sl_load_opts *opts, struct sl_err *err)
{
    struct sl_plan plan = {
        .w = w, .dummy_seed = opts->dummy_seed, .types = opts->plan};
    struct load l = {.plan = &plan, .opts = opts, .first_bad = SIZE_MAX};
    int rc;

    w->conf = opts->shape ? *opts->shape : src->conf;
    rc = alloc_tables(w, err);
    if (!rc && !opts->dummy)
        rc = sl_source_tensors(src, err);
    if (!opts->dummy) {
        plan.ckpt = src->ckpt;
        plan.packed = src->packed;
    }
    if (plan.packed && plan.packed->plan != (uint64_t)opts->plan &&
        opts->plan != SL_PLAN_AUTO)
        rc = sl_fail(err, SL_EUNSUP,
                     "'%.300s' was packed as %s; convert the model again for "
                     "another --dtype",
                     src->path, sl_dtypes_name(plan.packed->plan));
    if (plan.packed)
        plan.types = SL_PLAN_AUTO;
    if (!rc)
        rc = sl_names_walk(&plan, err);
    if (!rc)
        rc = place(w, &plan, opts, err);
    if (!rc && plan.packed)
        rc = take_packed(w, src, &plan, opts, err);
    else if (!rc)
        rc = cut(&l, err);
    if (!rc && !plan.packed)
        rc = pack_all(&l, err);
    sl_mem_free(l.piece);
    sl_mem_free(l.scratch);
    sl_plan_deinit(&plan);
    return rc;
}

int sl_weights_pack(void **data, struct sl_plan *plan,
                    const struct sl_load_opts *opts, struct sl_err *err)
{
    struct load l = {.plan = plan, .opts = opts, .first_bad = SIZE_MAX};
    int rc = sl_mem_map(data, plan->bytes, "the weights", err);

    if (rc)
        return rc;
    for (size_t i = 0; i < plan->n_item; i++)
        sl_item_place(&plan->item[i], *data);
    rc = cut(&l, err);
    if (!rc)
        rc = pack_all(&l, err);
    sl_mem_free(l.piece);
    sl_mem_free(l.scratch);
    return rc;
}

static uint64_t count_params(const struct sl_plan *plan)
{
    uint64_t n = 0;

    for (size_t i = 0; i < plan->n_item; i++) {
        const struct sl_item *it = &plan->item[i];
        size_t taps = it->vec.rule == SL_PACK_CONV ? SL_CONV : 1;

        n += it->out_mat ? (uint64_t)it->mat.rows * it->mat.cols
                         : (uint64_t)it->vec.n * taps;
    }
    return n;
}

static uint32_t all_types(const struct sl_plan *plan)
{
    uint32_t types = 0;

    for (size_t i = 0; i < plan->n_item; i++)
        if (plan->item[i].out_mat)
            types |= 1u << plan->item[i].mat.type;
    return types;
}

/* Matrices of a packed file whose rows did not fit the type of its plan. */
static size_t count_fallbacks(const struct sl_plan *plan)
{
    size_t n = 0;

    for (size_t i = 0; plan->packed && i < plan->n_item; i++) {
        const struct sl_item *it = &plan->item[i];

        n += it->out_mat && it->mat.type == SL_Q8_0 &&
             sl_dtypes_falls_back(plan->packed->plan, it->class,
                                  plan->w->conf.tied, it->mat.cols);
    }
    return n;
}

/* A folder without any tensors is measured by its config.json alone. */
static int measure(struct sl_weights *w, struct sl_weights_size *out,
                   struct sl_source *src, struct sl_err *err)
{
    struct sl_plan plan = {.w = w};
    int rc;

    w->conf = src->conf;
    rc = alloc_tables(w, err);
    if (!rc)
        rc = sl_source_tensors(src, err);
    if (rc == SL_ENOTFOUND && w->layer)
        rc = 0;
    plan.ckpt = src->ckpt;
    plan.packed = src->packed;
    if (!rc)
        rc = sl_names_walk(&plan, err);
    if (!rc)
        *out = (struct sl_weights_size){
            .conf = w->conf,
            .has_files = plan.ckpt || plan.packed,
            .has_mtp = w->has_mtp,
            .types = all_types(&plan),
            .plan = plan.packed ? sl_dtypes_name(plan.packed->plan) : NULL,
            .n_fell = count_fallbacks(&plan),
            .n_param = count_params(&plan),
            .file_bytes = plan.ckpt     ? sl_ckpt_bytes(plan.ckpt)
                          : plan.packed ? plan.packed->data_bytes
                                        : 0,
            .bytes = plan.bytes,
        };
    if (!rc)
        memcpy(out->class_bytes, plan.class_bytes, sizeof(out->class_bytes));
    sl_plan_deinit(&plan);
    return rc;
}

int sl_weights_measure(struct sl_weights_size *out, const char *path,
                       struct sl_err *err)
{
    struct sl_source *src = NULL;
    struct sl_weights *w = NULL;
    int rc = sl_source_open(&src, path, err);

    if (!rc)
        rc = sl_mem_alloc(&w, 1, sizeof(*w), "the weights", err);
    if (!rc)
        rc = sl_mem_alloc(&w->mem, 1, sizeof(*w->mem), "the weights", err);
    if (!rc)
        rc = measure(w, out, src, err);
    sl_weights_close(&w);
    sl_source_close(&src);
    return rc;
}

int sl_weights_open(struct sl_weights **out, const char *path,
                    const struct sl_load_opts *opts, struct sl_err *err)
{
    struct sl_source *src = NULL;
    int rc = opts->shape ? 0 : sl_source_open(&src, path, err);

    if (!rc)
        rc = sl_weights_load(out, src, opts, err);
    sl_source_close(&src);
    return sl_wrap(err, rc, "loading '%.300s'", path);
}

int sl_weights_load(struct sl_weights **out, struct sl_source *src,
                    const struct sl_load_opts *opts, struct sl_err *err)
{
    struct sl_weights *w = NULL;
    int rc = sl_mem_alloc(&w, 1, sizeof(*w), "the weights", err);

    if (!rc)
        rc = sl_mem_alloc(&w->mem, 1, sizeof(*w->mem), "the weights", err);
    if (!rc)
        rc = load(w, src, opts, err);
    if (!rc) {
        *out = w;
        w = NULL;
    }
    sl_weights_close(&w);
    return rc;
}

void sl_weights_close(struct sl_weights **out)
{
    struct sl_weights *w = *out;

    if (!w)
        return;
    *out = NULL;
    if (w->mem) {
        if (w->mem->data)
            sl_mem_unmap(w->mem->data, w->bytes);
        sl_packed_close(&w->mem->packed);
        sl_mem_free(w->mem->expert);
    }
    sl_mem_free(w->mem);
    sl_mem_free(w->mat);
    sl_mem_free(w->layer);
    sl_mem_free(w);
}
