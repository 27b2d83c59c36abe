/* model/plan.c - which bytes of a checkpoint go where; see plan.h
 *
 * Shapes are compared before anything is computed from them, so what an item
 * says about its source is known to lie inside the tensor: the dimensions are
 * those of config.json, whose ranges conf.c has checked, and the file's reader
 * has made sure that a tensor has the bytes of its shape.
 */
#include "model/plan.h"

#include "model/dtypes.h"

#include "base/mem.h"
#include "kern/kern.h"
#include "kern/quantise.h"

#define SCALE_SUFFIX "_scale_inv"

int sl_plan_init(struct sl_plan *p, struct sl_err *err)
{
    size_t n = p->ckpt ? sl_ckpt_n_tensor(p->ckpt) : 0;

    p->err = err;
    return sl_mem_alloc(&p->seen, n, 1, "the list of tensors", err);
}

void sl_plan_deinit(struct sl_plan *p)
{
    sl_mem_free(p->item);
    sl_mem_free(p->seen);
    p->item = NULL;
    p->seen = NULL;
    p->n_item = p->cap_item = 0;
}

bool sl_plan_has(const struct sl_plan *p, const char *name)
{
    size_t i;

    return p->ckpt && sl_ckpt_find(p->ckpt, name, &i);
}

/* --- lists of problems --- */

static void list_add(struct sl_list *l, const char *text)
{
    size_t room = sizeof(l->text) - l->len;
    int n;

    l->n++;
    /* Once one did not fit, later ones are only counted. */
    if (l->n_shown + 1 < l->n)
        return;
    n = snprintf(l->text + l->len, room, "%s%s", l->len ? ", " : "", text);
    if (n > 0 && (size_t)n < room) {
        l->len += (size_t)n;
        l->n_shown++;
    }
}

void sl_plan_missing(struct sl_plan *p, const char *name)
{
    list_add(&p->missing, name);
}

void sl_plan_extra(struct sl_plan *p, const char *name)
{
    list_add(&p->extra, name);
}

static size_t shape_text(char *out, size_t cap, const size_t *dim, size_t n)
{
    size_t len = 0;

    out[0] = 0;
    for (size_t i = 0; i < n; i++) {
        int k = snprintf(out + len, cap - len, "%s%zu", i ? ", " : "", dim[i]);

        if (k < 0 || (size_t)k >= cap - len)
            break;
        len += (size_t)k;
    }
    return len;
}

static void add_wrong(struct sl_plan *p, size_t i, const size_t *dim,
                      size_t n_dim)
{
    const struct sl_ten *t = sl_ckpt_get(p->ckpt, i);
    char is[100], want[80], text[320];

    if (p->seen[i] == SL_SEEN_WRONG)
        return; /* another part of the same tensor said so */
    p->seen[i] = SL_SEEN_WRONG;
    shape_text(is, sizeof(is), t->dim, t->n_dim);
    shape_text(want, sizeof(want), dim, n_dim);
    snprintf(text, sizeof(text), "%.100s is [%s] and must be [%s]", t->name, is,
             want);
    list_add(&p->wrong, text);
}

/* Every tensor counts; a type is shown with the first that has it. */
static void add_unsup(struct sl_plan *p, size_t i, const char *want)
{
    const struct sl_ten *t = sl_ckpt_get(p->ckpt, i);
    char text[160];

    if (p->seen[i] == SL_SEEN_WRONG)
        return;
    p->seen[i] = SL_SEEN_WRONG;
    if (p->unsup.n == 0)
        p->want = want;
    snprintf(text, sizeof(text), "%s (", t->type_name);
    if (memmem(p->unsup.text, p->unsup.len, text, strlen(text))) {
        p->unsup.n++;
        p->unsup.n_shown++;
        return;
    }
    snprintf(text, sizeof(text), "%s (%.100s)", t->type_name, t->name);
    list_add(&p->unsup, text);
}

/* "3 missing: a, b and 1 more; " */
static void list_text(char *out, size_t cap, const struct sl_list *l,
                      const char *what)
{
    char more[40] = "";

    out[0] = 0;
    if (l->n == 0)
        return;
    if (l->n > l->n_shown)
        snprintf(more, sizeof(more), " and %zu more", l->n - l->n_shown);
    snprintf(out, cap, "%zu %s: %.*s%s; ", l->n, what, (int)l->len, l->text,
             more);
}

bool sl_plan_is_bad(const struct sl_plan *p)
{
    return p->rc || p->missing.n + p->wrong.n + p->extra.n + p->unsup.n > 0;
}

int sl_plan_check(const struct sl_plan *p, struct sl_err *err)
{
    char missing[300], wrong[300], extra[300];
    bool gguf = p->ckpt && sl_ckpt_gguf(p->ckpt);

    if (p->rc)
        return p->rc;
    if (!sl_plan_is_bad(p))
        return 0;
    if (p->unsup.n > 0)
        return sl_fail(err, SL_EUNSUP,
                       "types that are not implemented for their tensors "
                       "(%zu): %.*s%s; use a checkpoint with %s there",
                       p->unsup.n, (int)p->unsup.len, p->unsup.text,
                       p->unsup.n > p->unsup.n_shown ? " and more" : "",
                       p->want);
    list_text(missing, sizeof(missing), &p->missing, "missing");
    list_text(wrong, sizeof(wrong), &p->wrong, "wrong");
    list_text(extra, sizeof(extra), &p->extra, "unknown");
    return sl_fail(err, SL_EFORMAT,
                   "the tensors are not those of its %s: %s%s%s"
                   "fetch %s again",
                   gguf ? "metadata" : "config.json", missing, wrong, extra,
                   gguf ? "the file" : "the folder");
}

/* --- items --- */

/* Readers and writers of GGUF take a first dimension of 1 for none. */
static bool same_shape(const struct sl_plan *p, const struct sl_ten *t,
                       const size_t *dim, size_t n)
{
    size_t i = 0, k = 0;

    if (n == 0)
        return false;
    if (sl_ckpt_gguf(p->ckpt)) {
        while (i + 1 < t->n_dim && t->dim[i] == 1)
            i++;
        while (k + 1 < n && dim[k] == 1)
            k++;
    }
    return t->n_dim - i == n - k &&
           !memcmp(t->dim + i, dim + k, (n - k) * sizeof(*dim));
}

/* The tensor, if it is there and has the right shape. */
static bool find(struct sl_plan *p, const struct sl_src *s, size_t *i)
{
    const struct sl_ten *t;

    if (!sl_ckpt_find(p->ckpt, s->name, i)) {
        sl_plan_missing(p, s->name);
        return false;
    }
    t = sl_ckpt_get(p->ckpt, *i);
    if (!same_shape(p, t, s->dim, s->n_dim) &&
        !same_shape(p, t, s->alt, s->n_alt)) {
        add_wrong(p, *i, s->dim, s->n_dim);
        return false;
    }
    if (p->seen[*i] == SL_SEEN_NOT)
        p->seen[*i] = SL_SEEN_USED;
    return p->seen[*i] == SL_SEEN_USED;
}

static struct sl_item *append(struct sl_plan *p)
{
    size_t cap = p->cap_item ? 2 * p->cap_item : 256;

    if (p->rc)
        return NULL;
    if (p->n_item == p->cap_item) {
        p->rc = sl_mem_resize(&p->item, cap, sizeof(*p->item),
                              "the list of weights", p->err);
        if (p->rc)
            return NULL;
        p->cap_item = cap;
    }
    return &p->item[p->n_item];
}

/* Reserve n * size bytes for a part of an item. */
static void reserve(struct sl_plan *p, size_t *offset,
                    enum sl_weight_class class, size_t n, size_t size)
{
    size_t at = sl_round_up(p->bytes, SL_ITEM_ALIGN), bytes, end;

    if (p->rc)
        return;
    if (!sl_mul_size(&bytes, n, size) || !sl_add_size(&end, at, bytes) ||
        end > SIZE_MAX / 2) {
        p->rc = sl_fail(p->err, SL_EUNSUP,
                        "the model does not fit a memory of 64 bits; check "
                        "the sizes in its metadata");
        return;
    }
    *offset = at;
    p->bytes = end;
    p->class_bytes[class] += bytes;
}

/* FNV-1a: each tensor has random values of its own. */
static uint64_t seed_of(const struct sl_plan *p, const struct sl_src *s)
{
    uint64_t h = 0xcbf29ce484222325u ^ p->dummy_seed;

    for (const char *c = s->name; *c; c++)
        h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    h = (h ^ s->slice) * 0x100000001b3u;
    h = (h ^ s->row0) * 0x100000001b3u;
    /* Away from the element numbers that are mixed in later. */
    return h << 32 | h >> 32;
}

static size_t blocks(size_t n)
{
    return (n + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK;
}

/* The scales beside an FP8 tensor. */
static bool find_scale(struct sl_plan *p, const struct sl_src *s,
                       struct sl_item *it)
{
    size_t k = s->n_dim - 2; /* 1 with slices, else 0 */
    size_t rows = blocks(s->dim[k]), cols = blocks(s->dim[k + 1]);
    struct sl_src want = {.n_dim = s->n_dim};
    char name[SL_ST_MAX_NAME + sizeof(SCALE_SUFFIX)];
    const struct sl_ten *t;

    snprintf(name, sizeof(name), "%.*s%s", SL_ST_MAX_NAME, s->name,
             SCALE_SUFFIX);
    want.name = name;
    want.dim[0] = s->dim[0];
    want.dim[k] = rows;
    want.dim[k + 1] = cols;
    if (!find(p, &want, &it->scale))
        return false;
    t = sl_ckpt_get(p->ckpt, it->scale);
    if (t->type != SL_BF16 && t->type != SL_F32) {
        add_unsup(p, it->scale, "BF16 or F32");
        return false;
    }
    it->mat.scale_type = t->type;
    it->mat.scale =
        sl_ckpt_data(p->ckpt, it->scale) +
        s->slice * rows * cols * sl_dtype_get(it->mat.scale_type)->bytes;
    return true;
}

/* What a matrix may be. */
static const char *matrix_types(const struct sl_plan *p)
{
    return sl_ckpt_gguf(p->ckpt) ? SL_GGUF_USABLE
                                 : "F32, BF16, F16 or F8_E4M3 with scales";
}

/* The next entry of a packed file, which must be this. */
static bool next_packed(struct sl_plan *p, struct sl_packed_item *out,
                        uint32_t kind, size_t rows, size_t cols)
{
    const struct sl_packed_item *it = p->packed->item + p->n_item;

    if (p->n_item < p->packed->n_item && it->kind == kind && it->rows == rows &&
        it->cols == cols && cols % sl_dtype_get(it->type)->block == 0) {
        *out = *it;
        return true;
    }
    if (!p->rc)
        p->rc = sl_fail(p->err, SL_EFORMAT,
                        "weight %zu of '%.300s' is not the %zu x %zu that its "
                        "config asks for; the packed file is damaged: remove "
                        "it, and it is made again",
                        p->n_item, p->packed->path, rows, cols);
    return false;
}

/* Every item must be where the walk puts it. */
static void check_place(struct sl_plan *p, const struct sl_item *it)
{
    const struct sl_packed_item *e;

    if (!p->packed || p->rc)
        return;
    e = &p->packed->item[p->n_item];
    if (e->offset != it->offset || e->scale_offset != it->scale_offset ||
        p->bytes > p->packed->data_bytes)
        p->rc = sl_fail(p->err, SL_EFORMAT,
                        "weight %zu of '%.300s' is at %llu and must be at "
                        "%zu; the packed file is damaged: remove it, and it "
                        "is made again",
                        p->n_item, p->packed->path,
                        (unsigned long long)e->offset, it->offset);
}

static bool find_mat(struct sl_plan *p, const struct sl_src *s,
                     struct sl_item *it)
{
    struct sl_pack_mat *m = &it->mat;
    const struct sl_ten *t;
    size_t rows;

    if (p->packed) {
        struct sl_packed_item e;

        if (!next_packed(p, &e, 1, m->rows, m->cols))
            return false;
        m->src_type = m->type = e.type;
        return true;
    }
    if (!p->ckpt) {
        m->src_type = m->type = SL_BF16;
        m->seed = seed_of(p, s);
        return true;
    }
    if (!find(p, s, &it->tensor))
        return false;
    t = sl_ckpt_get(p->ckpt, it->tensor);
    if (t->type == SL_N_DTYPE || m->cols % sl_dtype_get(t->type)->block) {
        add_unsup(p, it->tensor, matrix_types(p));
        return false;
    }
    m->src_type = t->type;
    if (m->src_type == SL_FP8 && !find_scale(p, s, it))
        return false;
    rows = s->n_dim == 3 ? s->dim[1] : s->dim[0];
    it->src_offset = s->slice * rows * sl_dtype_bytes(m->src_type, m->cols);
    m->src = sl_ckpt_data(p->ckpt, it->tensor) + it->src_offset;
    m->type = sl_pack_type(m);
    return true;
}

void sl_plan_mat(struct sl_plan *p, struct sl_mat *out,
                 enum sl_weight_class class, const struct sl_src *s,
                 size_t rows, size_t cols)
{
    struct sl_item *it = append(p);
    size_t groups = (rows + SL_GROUP - 1) / SL_GROUP;

    if (!it)
        return;
    *it = (struct sl_item){.out_mat = out, .class = class};
    it->mat = (struct sl_pack_mat){.row0 = s->row0,
                                   .rows = rows,
                                   .cols = cols,
                                   .row_perm = s->row_perm,
                                   .col_perm = s->col_perm};
    if (!find_mat(p, s, it))
        return;
    it->mat.type = sl_dtypes_get(p->types, class, p->w->conf.tied, cols,
                                 it->mat.type);
    it->mat.quick = p->types == SL_PLAN_DRAFT;
    it->src_bytes = rows * sl_dtype_bytes(it->mat.src_type, cols);
    reserve(p, &it->offset, class, groups * SL_GROUP,
            sl_dtype_bytes(it->mat.type, cols));
    if (it->mat.type == SL_FP8)
        reserve(p, &it->scale_offset, class, groups * blocks(cols),
                sizeof(float));
    check_place(p, it);
    p->n_item++;
}

void sl_plan_vec(struct sl_plan *p, const float **out,
                 enum sl_weight_class class, const struct sl_src *s, size_t n)
{
    struct sl_item *it = append(p);
    struct sl_pack_vec *v;
    size_t len = s->rule == SL_PACK_CONV ? SL_CONV * n : n;
    const struct sl_ten *t;

    if (!it)
        return;
    *it = (struct sl_item){.out_vec = out, .class = class};
    v = &it->vec;
    *v = (struct sl_pack_vec){.src_type = SL_F32,
                              .n = n,
                              .rule = s->rule,
                              .perm = s->row_perm,
                              .dummy_lo = s->dummy_lo,
                              .dummy_hi = s->dummy_hi,
                              .seed = seed_of(p, s)};
    if (p->packed) {
        struct sl_packed_item e;

        if (!next_packed(p, &e, 2, len, 1))
            return;
    }
    if (p->ckpt) {
        if (!find(p, s, &it->tensor))
            return;
        t = sl_ckpt_get(p->ckpt, it->tensor);
        if (t->type != SL_F32 && t->type != SL_BF16 && t->type != SL_F16) {
            add_unsup(p, it->tensor, "F32, BF16 or F16");
            return;
        }
        v->src_type = t->type;
        v->src = sl_ckpt_data(p->ckpt, it->tensor);
    }
    it->src_bytes = len * sl_dtype_get(v->src_type)->bytes;
    reserve(p, &it->offset, class, len, sizeof(float));
    check_place(p, it);
    p->n_item++;
}

void sl_item_place(struct sl_item *it, unsigned char *base)
{
    struct sl_pack_mat *m = &it->mat;

    if (!it->out_mat) {
        it->vec.dst = (float *)(void *)(base + it->offset);
        *it->out_vec = it->vec.dst;
        return;
    }
    m->dst = base + it->offset;
    if (m->type == SL_FP8)
        m->dst_scale = (float *)(void *)(base + it->scale_offset);
    *it->out_mat = (struct sl_mat){.type = m->type,
                                   .rows = (uint32_t)m->rows,
                                   .cols = (uint32_t)m->cols,
                                   .w = m->dst,
                                   .scale = m->dst_scale};
}

/* --- a value that is not finite --- */

static void index_text(char *out, size_t cap, const struct sl_ten *t, size_t i)
{
    size_t index[SL_ST_MAX_DIM];

    for (size_t k = t->n_dim; k > 0; k--) {
        index[k - 1] = i % t->dim[k - 1];
        i /= t->dim[k - 1];
    }
    shape_text(out, cap, index, t->n_dim);
}

int sl_plan_report_bad(const struct sl_plan *p, const struct sl_item *it,
                       const unsigned char *at, struct sl_err *err)
{
    size_t i = it->tensor;
    const struct sl_ten *t = sl_ckpt_get(p->ckpt, i);
    const unsigned char *data = sl_ckpt_data(p->ckpt, i);
    const struct sl_dtype_info *type;
    char index[100];

    if (it->mat.scale && !(at >= data && at < data + t->bytes)) {
        i = it->scale;
        t = sl_ckpt_get(p->ckpt, i);
        data = sl_ckpt_data(p->ckpt, i);
    }
    if (SL_NEVER(!at || t->type == SL_N_DTYPE))
        return sl_fail(err, SL_EBUG, "a bad value was seen and lost");
    type = sl_dtype_get(t->type);
    index_text(index, sizeof(index), t,
               (size_t)(at - data) / type->bytes * type->block);
    return sl_fail(err, SL_EFORMAT,
                   "the tensor '%.200s' in '%.300s' holds a value that is not "
                   "finite (NaN, infinity or an overflow) at [%s]; the file "
                   "is damaged, fetch it again",
                   t->name, sl_ckpt_path(p->ckpt, i), index);
}
