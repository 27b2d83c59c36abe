/* model/dflash.c - block drafters; see dflash.h
 *
 * Context, once per committed token (model.md 8.4):
 *
 *     ctx = norm(fc [taps]);  K = rope(norm(Wk ctx)), V = Wv ctx   per layer
 *
 * A block of B rows behind S committed tokens: the anchor at position S, then
 * mask tokens (8.5):
 *
 *     h = embed(ids)
 *     per layer:  h = h + conv'(attention(conv(norm h)))
 *                 h = h + conv'(mlp(conv(norm h)))
 *     f = norm(h);  u = head f          row i proposes the token at S + i
 *
 * The second generation has the convolutions: two taps, whose weights depend on
 * the input of the sublayer in groups of channels (8.9); and the selector (8.10),
 * which walks the best candidates of each row from left to right, with a score
 * that knows the one chosen before. The first has neither: conv is the identity
 * and the best candidate is taken.
 *
 * Keys and values of a block lie behind the committed ones and are overwritten
 * by those of what is committed next. All activations are fp32.
 */
#include "model/dflash.h"

#include "base/mem.h"
#include "kern/math.h"
#include "kern/quant.h"
#include "model/layers.h"
#include "model/plan.h"
#include "ops/mul.h"
#include "ops/rows.h"

#define FIRST_TOP 16 /* candidates that a share is of, without a selector */

struct conv_w {
    const float *base;  /* [side][tap][hidden] */
    struct sl_mat proj; /* [side * tap * groups, hidden] */
};

struct layer_w {
    const float *in_norm, *post_norm, *q_norm, *k_norm;
    struct sl_mat q, k, v, o;
    struct sl_mlp_w mlp;
    struct conv_w attn_conv, mlp_conv;
};

struct sl_flash {
    struct sl_flash_conf c;
    const struct sl_weights *target; /* borrowed */
    uint32_t plane, max_block_seq, max_logit;
    uint32_t rows; /* of each block of the pass that runs */
    float *inv_freq;

    const float *hidden_norm, *norm;
    struct sl_mat fc, gate_proj, before, after; /* the last three: selector */
    struct layer_w layer[SL_FLASH_MAX_LAYER];
    void *data;
    size_t bytes;

    /* Work space: R rows. */
    struct sl_arena arena;
    float *h, *x, *y, *z;    /* [R][hidden] */
    float *q, *k, *v, *attn; /* [R][heads * head_dim] */
    float *qs, *acc, *ml, *part, *scratch;
    float *gate, *up;        /* [R][ffn] */
    float *dyn;              /* [R][4 * groups] */
    float *pred, *succ, *sel; /* [rank] */
    uint32_t *seq_of_row;
    struct sl_attend_seq *seq;
    int32_t *id;
    struct sl_act_space act; /* the model's is too small for the taps */
    struct sl_run run; /* the model's, with that */
};

/* ---------------------------------------------------------------- loading */

struct walk {
    struct sl_plan *p;
    const char *prefix; /* of all names: "" or "model." */
    char name[SL_ST_MAX_NAME];
};

static struct sl_src src_of(struct walk *w, const char *layer, const char *name,
                            uint32_t n_dim, size_t d0, size_t d1, size_t d2)
{
    snprintf(w->name, sizeof(w->name), "%s%s%s", w->prefix, layer, name);
    return (struct sl_src){
        .name = w->name, .n_dim = n_dim, .dim = {d0, d1, d2},
        .dummy_lo = 0.9f, .dummy_hi = 1.1f};
}

static void mat(struct walk *w, struct sl_mat *out, const char *layer,
                const char *name, size_t rows, size_t cols)
{
    struct sl_src s = src_of(w, layer, name, 2, rows, cols, 0);

    sl_plan_mat(w->p, out, SL_W_FFN, &s, rows, cols);
}

static void vec(struct walk *w, const float **out, const char *layer,
                const char *name, size_t n)
{
    struct sl_src s = src_of(w, layer, name, 1, n, 0, 0);

    sl_plan_vec(w->p, out, SL_W_SMALL, &s, n);
}

static void conv(struct walk *w, const struct sl_flash_conf *c,
                 struct conv_w *out, const char *layer, const char *name)
{
    char base[100], proj[100];
    struct sl_src s;

    snprintf(base, sizeof(base), "%s.base_kernel", name);
    snprintf(proj, sizeof(proj), "%s.kernel_projection.weight", name);
    s = src_of(w, layer, base, 3, 2, 2, c->hidden);
    sl_plan_vec(w->p, &out->base, SL_W_SMALL, &s, 4 * (size_t)c->hidden);
    mat(w, &out->proj, layer, proj, 4 * (size_t)c->hidden / c->group,
        c->hidden);
}

static void walk_layer(struct walk *w, const struct sl_flash_conf *c,
                       struct layer_w *l, uint32_t i)
{
    size_t h = c->hidden, q = (size_t)c->n_head * c->head_dim;
    size_t kv = (size_t)c->n_kv_head * c->head_dim;
    char at[40];

    snprintf(at, sizeof(at), "layers.%u.", i);
    vec(w, &l->in_norm, at, "input_layernorm.weight", h);
    vec(w, &l->post_norm, at, "post_attention_layernorm.weight", h);
    vec(w, &l->q_norm, at, "self_attn.q_norm.weight", c->head_dim);
    vec(w, &l->k_norm, at, "self_attn.k_norm.weight", c->head_dim);
    mat(w, &l->q, at, "self_attn.q_proj.weight", q, h);
    mat(w, &l->k, at, "self_attn.k_proj.weight", kv, h);
    mat(w, &l->v, at, "self_attn.v_proj.weight", kv, h);
    mat(w, &l->o, at, "self_attn.o_proj.weight", h, q);
    mat(w, &l->mlp.gate, at, "mlp.gate_proj.weight", c->ffn, h);
    mat(w, &l->mlp.up, at, "mlp.up_proj.weight", c->ffn, h);
    mat(w, &l->mlp.down, at, "mlp.down_proj.weight", h, c->ffn);
    if (!c->is_v2)
        return;
    conv(w, c, &l->attn_conv, at, "attention_conv");
    conv(w, c, &l->mlp_conv, at, "mlp_conv");
}

static int walk(struct sl_flash *f, struct sl_plan *p, struct sl_err *err)
{
    const struct sl_flash_conf *c = &f->c;
    struct walk w = {.p = p, .prefix = ""};
    int rc = sl_plan_init(p, err);

    if (rc)
        return rc;
    if (!sl_plan_has(p, "fc.weight") && sl_plan_has(p, "model.fc.weight"))
        w.prefix = "model.";
    mat(&w, &f->fc, "", "fc.weight", c->hidden,
        (size_t)c->n_tap * c->hidden);
    vec(&w, &f->hidden_norm, "", "hidden_norm.weight", c->hidden);
    vec(&w, &f->norm, "", "norm.weight", c->hidden);
    for (uint32_t i = 0; i < c->n_layer; i++)
        walk_layer(&w, c, &f->layer[i], i);
    if (c->is_v2) {
        mat(&w, &f->gate_proj, "", "candidate_selector.hidden_projection.weight",
            c->rank, c->hidden);
        mat(&w, &f->before, "", "candidate_selector.predecessor_codebook",
            c->vocab, c->rank);
        mat(&w, &f->after, "", "candidate_selector.successor_codebook",
            c->vocab, c->rank);
    }
    return sl_plan_check(p, err);
}

/* The plan whose matrices of an MLP have this type. */
static enum sl_dtype_plan plan_of(enum sl_dtype want)
{
    return want == SL_Q8_0   ? SL_PLAN_Q8
           : want == SL_Q4_0 ? SL_PLAN_DRAFT
                             : SL_PLAN_AUTO;
}

static int load(struct sl_flash *f, const char *dir, enum sl_dtype want,
                struct sl_pool *pool, struct sl_err *err)
{
    struct sl_weights *shape = NULL; /* what a plan asks of the model: nothing */
    struct sl_plan p = {.types = plan_of(want)};
    struct sl_load_opts lo = {.pool = pool, .dummy = !dir};
    int rc = sl_mem_alloc(&shape, 1, sizeof(*shape), "the drafter", err);

    p.w = shape;
    if (!rc && dir)
        rc = sl_ckpt_open(&p.ckpt, dir, err);
    if (!rc)
        rc = walk(f, &p, err);
    if (!rc)
        rc = sl_weights_pack(&f->data, &p, &lo, err);
    f->bytes = p.bytes;
    sl_plan_deinit(&p);
    sl_ckpt_close(&p.ckpt);
    sl_mem_free(shape);
    return rc;
}

/* --------------------------------------------------------------- work space */

struct cutter {
    struct sl_arena *arena; /* NULL: only count */
    size_t bytes;
};

static void *cut(struct cutter *c, size_t n, size_t size)
{
    c->bytes += sl_arena_cost(n * size);
    return c->arena ? sl_arena_get(c->arena, n * size) : NULL;
}

static void cut_work(struct sl_flash *f, struct cutter *k, unsigned n_thread,
                     size_t rows)
{
    const struct sl_flash_conf *c = &f->c;
    size_t heads = (size_t)c->n_head * c->head_dim, fl = sizeof(float);
    size_t kvs = (size_t)c->n_kv_head * c->head_dim;
    uint32_t group = c->n_head / c->n_kv_head;

    f->h = cut(k, rows * c->hidden, fl);
    f->x = cut(k, rows * c->hidden, fl);
    f->y = cut(k, rows * c->hidden, fl);
    f->z = cut(k, rows * c->hidden, fl);
    f->q = cut(k, rows * heads, fl);
    f->k = cut(k, rows * kvs, fl);
    f->v = cut(k, rows * kvs, fl);
    f->attn = cut(k, rows * heads, fl);
    f->qs = cut(k, rows * heads, fl);
    f->acc = cut(k, rows * heads, fl);
    f->ml = cut(k, rows * c->n_head * 2, fl);
    f->part = cut(k, SL_PARTS_PER_THREAD * n_thread *
                         sl_attend_part_floats(group, c->head_dim), fl);
    f->scratch = cut(k, (size_t)n_thread * SL_ATTEND_ROWS * group *
                            SL_KV_BLOCK, fl);
    f->gate = cut(k, rows * c->ffn, fl);
    f->up = cut(k, rows * c->ffn, fl);
    f->dyn = cut(k, c->is_v2 ? rows * 4 * c->hidden / c->group : 0, fl);
    f->pred = cut(k, c->rank, fl);
    f->succ = cut(k, c->rank, fl);
    f->sel = cut(k, rows * c->rank, fl);
    f->seq_of_row = cut(k, rows, sizeof(*f->seq_of_row));
    f->seq = cut(k, rows, sizeof(*f->seq));
    f->id = cut(k, rows, sizeof(*f->id));
    f->act.n = rows * sl_max(sl_max((size_t)c->n_tap * c->hidden, heads),
                             c->ffn);
    f->act.n = sl_round_up(f->act.n, SL_QBLOCK);
    f->act.q = cut(k, f->act.n, sizeof(*f->act.q));
    f->act.scale = cut(k, f->act.n / SL_QBLOCK, sizeof(*f->act.scale));
    f->act.sum = cut(k, f->act.n / (SL_QBLOCK / 2), sizeof(*f->act.sum));
}

static void borrow_run(struct sl_flash *f, const struct sl_model *m)
{
    f->run = m->run;
    f->run.act = f->act;
}

static int open_work(struct sl_flash *f, unsigned n_thread, size_t rows,
                     struct sl_err *err)
{
    struct cutter k = {0};
    int rc;

    cut_work(f, &k, n_thread, rows);
    rc = sl_arena_init(&f->arena, k.bytes,
                       "the work space of the drafter; --drafter mtp does "
                       "without: it",
                       err);
    if (!rc)
        rc = sl_mem_alloc(&f->inv_freq, f->c.head_dim / 2, sizeof(float),
                          "the rotation", err);
    if (rc)
        return rc;
    k = (struct cutter){.arena = &f->arena};
    cut_work(f, &k, n_thread, rows);
    SL_CHECK(!sl_arena_failed(&f->arena));
    sl_inv_freq(f->inv_freq, f->c.theta, f->c.head_dim);
    return 0;
}

int sl_flash_open(struct sl_flash **out, const char *dir,
                  const struct sl_weights *target, enum sl_dtype want,
                  struct sl_pool *pool, const struct sl_model_opts *opts,
                  struct sl_err *err)
{
    struct sl_flash *f = NULL;
    int rc = sl_mem_alloc(&f, 1, sizeof(*f), "the drafter", err);

    if (rc)
        return rc;
    f->target = target;
    f->max_logit = opts->max_logit;
    if (dir)
        rc = sl_flash_conf_load(&f->c, dir, &target->conf, err);
    else
        sl_flash_conf_dummy(&f->c, &target->conf);
    if (!rc)
        rc = load(f, dir, want, pool, err);
    if (!rc)
        rc = open_work(f, sl_pool_n_thread(pool),
                       sl_max(opts->max_row,
                              (size_t)opts->max_seq * f->c.block),
                       err);
    if (!rc && f->max_logit < f->c.block)
        rc = sl_fail(err, SL_EBUG, "room for %u rows of logits and a block of "
                                   "%u",
                     f->max_logit, f->c.block);
    if (rc)
        sl_flash_close(&f);
    else
        *out = f;
    return sl_wrap(err, rc, "the drafter '%.300s'", dir ? dir : "(random)");
}

void sl_flash_close(struct sl_flash **pf)
{
    struct sl_flash *f = *pf;

    if (!f)
        return;
    *pf = NULL;
    if (f->data)
        sl_mem_unmap(f->data, f->bytes);
    sl_arena_deinit(&f->arena);
    sl_mem_free(f->inv_freq);
    sl_mem_free(f);
}

const struct sl_flash_conf *sl_flash_get_conf(const struct sl_flash *f)
{
    return &f->c;
}

size_t sl_flash_bytes(const struct sl_flash *f)
{
    return f->bytes;
}

void sl_flash_plane(const struct sl_flash *f, struct sl_kv_plane *out)
{
    *out = (struct sl_kv_plane){.n_layer = f->c.n_layer,
                                .n_head = f->c.n_kv_head,
                                .dim = f->c.head_dim};
}

void sl_flash_set_plane(struct sl_flash *f, uint32_t plane)
{
    f->plane = plane;
}

/* ---------------------------------------------------------------- forward */

static void place_seq(struct sl_flash *f, uint32_t i, struct sl_seq *q,
                      uint32_t row0, uint32_t n, uint32_t pos)
{
    SL_ASSERT(pos + n <= q->n_page * SL_KV_PAGE);
    f->seq[i] = (struct sl_attend_seq){.row0 = row0,
                                       .n_row = n,
                                       .pos0 = pos,
                                       .first = q->from[f->plane],
                                       .page = q->page};
    for (uint32_t k = 0; k < n; k++)
        f->seq_of_row[row0 + k] = i;
}

/* Attention of a layer as the op wants it; `queries` false: keys only. */
static struct sl_attend attend_of(const struct sl_flash *f,
                                  const struct sl_kv *kv, uint32_t layer,
                                  size_t n_row, size_t n_seq)
{
    const struct sl_flash_conf *c = &f->c;

    return (struct sl_attend){
        .n_head = c->n_head,
        .n_kv_head = c->n_kv_head,
        .head_dim = c->head_dim,
        .rot_dim = c->head_dim,
        .eps = c->eps,
        .q_norm = f->layer[layer].q_norm,
        .k_norm = f->layer[layer].k_norm,
        .inv_freq = f->inv_freq,
        .kv_type = kv->type,
        .base = sl_kv_layer(kv, f->plane, layer),
        .page_bytes = kv->page_bytes,
        .head_bytes = kv->plane[f->plane].head_bytes,
        .window = c->window[layer],
        .is_block = !c->causal[layer],
        .n_row = n_row,
        .no_gate = true,
        .qg = f->q,
        .k = f->k,
        .v = f->v,
        .seq = f->seq,
        .n_seq = n_seq,
        .seq_of_row = f->seq_of_row,
        .out = f->attn,
        .q = f->qs,
        .acc = f->acc,
        .ml = f->ml,
        .part = f->part,
        .max_part = SL_PARTS_PER_THREAD * sl_pool_n_thread(f->run.pool),
        .scratch = f->scratch,
    };
}

void sl_flash_see(struct sl_flash *f, struct sl_model *m,
                  const struct sl_flash_rows *r)
{
    const struct sl_flash_conf *c = &f->c;
    uint32_t row = 0;

    if (r->n_row == 0)
        return;
    borrow_run(f, m);
    for (uint32_t i = 0; i < r->n_seq; i++) {
        place_seq(f, i, r->seq[i], row, r->n[i], r->pos[i]);
        row += r->n[i];
    }
    SL_CHECK(row == r->n_row);
    sl_mul_one(&f->run, f->x, &f->fc, r->taps, r->n_row);
    sl_rmsnorm(&f->run, f->x, f->x, f->hidden_norm, r->n_row, c->hidden,
               c->eps);
    for (uint32_t i = 0; i < c->n_layer; i++) {
        struct sl_attend a = attend_of(f, r->seq[0]->mem->kv, i, r->n_row,
                                       r->n_seq);
        struct sl_mul_job in[] = {{.w = &f->layer[i].k, .y = f->k},
                                  {.w = &f->layer[i].v, .y = f->v}};

        sl_mul_shared(&f->run, in, SL_COUNTOF(in), f->x, r->n_row);
        sl_attend_put(&f->run, &a);
    }
}

/* y[t] = (base0 + dyn0) x[t] + (base1 + dyn1) x[t - 1] of one side, blocks of
 * f->rows rows; dyn is [row][side][tap][group]. */
static void convolve(const struct sl_flash *f, float *restrict y,
                     const float *restrict x, const struct conv_w *w,
                     size_t side, size_t n_row)
{
    const struct sl_flash_conf *c = &f->c;
    size_t h = c->hidden, groups = h / c->group;
    const float *base0 = w->base + side * 2 * h, *base1 = base0 + h;

    for (size_t t = 0; t < n_row; t++) {
        const float *d0 = f->dyn + (t * 4 + side * 2) * groups;
        const float *d1 = d0 + groups, *now = x + t * h;
        const float *last = t % f->rows ? now - h : NULL;

        for (size_t g = 0, i = 0; g < groups; g++)
            for (size_t end = i + c->group; i < end; i++) {
                float a = (base0[i] + d0[g]) * now[i];

                if (last)
                    a += (base1[i] + d1[g]) * last[i];
                y[t * h + i] = a;
            }
    }
}

/* The input of a sublayer, from the normed rows in x to those in the result. */
static const float *prepare(struct sl_flash *f,
                            const struct conv_w *w, size_t n_row)
{
    if (!f->c.is_v2)
        return f->x;
    sl_mul_one(&f->run, f->dyn, &w->proj, f->x, n_row);
    convolve(f, f->z, f->x, w, 0, n_row);
    return f->z;
}

/* h += the sublayer's output, which is in y. */
static void finish(struct sl_flash *f, const struct conv_w *w, size_t n_row)
{
    float *y = f->y;

    if (f->c.is_v2) {
        convolve(f, f->z, f->y, w, 1, n_row);
        y = f->z;
    }
    sl_add(&f->run, f->h, y, n_row, f->c.hidden);
}

static void layer(struct sl_flash *f, const struct sl_kv *kv, uint32_t i, size_t n_row,
                  size_t n_seq)
{
    const struct sl_flash_conf *c = &f->c;
    const struct layer_w *l = &f->layer[i];
    struct sl_attend a = attend_of(f, kv, i, n_row, n_seq);
    struct sl_mul_job in[] = {{.w = &l->q, .y = f->q},
                              {.w = &l->k, .y = f->k},
                              {.w = &l->v, .y = f->v}};
    struct sl_mul_job up[] = {{.w = &l->mlp.gate, .y = f->gate},
                              {.w = &l->mlp.up, .y = f->up}};

    sl_rmsnorm(&f->run, f->x, f->h, l->in_norm, n_row, c->hidden, c->eps);
    sl_mul_shared(&f->run, in, SL_COUNTOF(in),
                  prepare(f, &l->attn_conv, n_row), n_row);
    sl_attend_run(&f->run, &a);
    sl_mul_one(&f->run, f->y, &l->o, f->attn, n_row);
    finish(f, &l->attn_conv, n_row);

    sl_rmsnorm(&f->run, f->x, f->h, l->post_norm, n_row, c->hidden, c->eps);
    sl_mul_shared(&f->run, up, SL_COUNTOF(up),
                  prepare(f, &l->mlp_conv, n_row), n_row);
    sl_silu_mul(&f->run, f->gate, f->up, n_row, c->ffn);
    sl_mul_one(&f->run, f->y, &l->mlp.down, f->gate, n_row);
    finish(f, &l->mlp_conv, n_row);
}

/* The top k of u [n]: ids and values, falling, ties to the lower id. */
static uint32_t top(const float *u, uint32_t n, uint32_t k, int32_t *id,
                    float *val)
{
    uint32_t have = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = have;

        if (have == k && !(u[i] > val[k - 1]))
            continue;
        if (have == k)
            at--;
        for (; at > 0 && u[i] > val[at - 1]; at--) {
            id[at] = id[at - 1];
            val[at] = val[at - 1];
        }
        id[at] = (int32_t)i;
        val[at] = u[i];
        have += have < k;
    }
    return have;
}

/* Add the selector's part to the values of the candidates behind `prev`:
 * val[c] = u[c] + sum over r of before[prev][r] gate[r] after[c][r]. */
static void add_selector(struct sl_flash *f, const struct sl_kern *kern,
                         int32_t prev, const float *gate, const int32_t *id,
                         float *val, uint32_t n)
{
    const struct sl_mat *a = &f->before, *b = &f->after;

    kern->row[a->type](f->pred, a->w, a->scale, (size_t)prev, f->c.rank);
    for (uint32_t r = 0; r < f->c.rank; r++)
        f->pred[r] *= gate[r];
    for (uint32_t i = 0; i < n; i++) {
        kern->row[b->type](f->succ, b->w, b->scale, (size_t)id[i], f->c.rank);
        val[i] += kern->dot(f->pred, f->succ, f->c.rank);
    }
}

/* The largest of n values, and its share: exp(max) / sum of exp. */
static uint32_t best_of(const float *val, uint32_t n, float *share)
{
    uint32_t best = 0;
    float sum = 0;

    for (uint32_t i = 1; i < n; i++)
        best = val[i] > val[best] ? i : best;
    for (uint32_t i = 0; i < n; i++)
        sum += sl_exp(val[i] - val[best]);
    *share = 1 / sum;
    return best;
}

/* The logits of one row as the drafter means them. */
static void scale_logits(const struct sl_flash_conf *c, float *u, size_t n)
{
    for (size_t i = 0; c->multiplier != 1 && i < n; i++)
        u[i] *= c->multiplier;
    /* tanh(x) = 1 - 2 / (1 + exp(2x)) */
    for (size_t i = 0; c->softcap > 0 && i < n; i++)
        u[i] = c->softcap * (1 - 2 / (1 + sl_exp(2 * u[i] / c->softcap)));
}

/* Choose the drafts of one sequence from its logits u [rows - 1][ld], of which
 * n_row may be proposed. */
static void choose(struct sl_flash *f, const struct sl_draft_head *head, float *u, uint32_t ld,
                   uint32_t n_row, const float *gate, int32_t prev,
                   int32_t *draft, float *sure)
{
    const struct sl_flash_conf *c = &f->c;
    uint32_t k = c->is_v2 ? c->top_k : FIRST_TOP;
    float val[SL_FLASH_MAX_TOP], share;
    int32_t id[SL_FLASH_MAX_TOP];

    for (uint32_t i = 0; i + 1 < f->rows; i++, u += ld) {
        uint32_t n;

        scale_logits(c, u, n_row);
        n = top(u, n_row, k, id, val);
        for (uint32_t j = 0; head && j < n; j++)
            id[j] = sl_draft_head_id(head, (uint32_t)id[j]);
        if (c->is_v2)
            add_selector(f, f->run.kern, prev, gate + i * c->rank, id, val, n);
        prev = id[best_of(val, n, &share)];
        draft[i] = prev;
        if (sure)
            sure[i] = share;
    }
}

/* Logits and drafts, for as many sequences at a time as there is room for. */
static void propose(struct sl_flash *f, struct sl_model *m,
                    const struct sl_flash_blocks *b)
{
    const struct sl_flash_conf *c = &f->c;
    uint32_t each = f->rows - 1, most = c->block - 1;
    uint32_t step = f->max_logit / each;
    const struct sl_mat *head =
        b->head ? sl_draft_head_get(b->head) : &f->target->head;
    uint32_t n_row = b->head ? head->rows : b->n_vocab;

    for (uint32_t i0 = 0; i0 < b->n_seq; i0 += step) {
        uint32_t n = (uint32_t)sl_min(step, b->n_seq - i0);
        float *u = m->work.logits;

        /* All rows but the anchors'. */
        for (uint32_t i = 0; i < n; i++)
            memcpy(f->y + (size_t)i * each * c->hidden,
                   f->x + ((size_t)(i0 + i) * f->rows + 1) * c->hidden,
                   each * c->hidden * sizeof(*f->y));
        sl_mul_one(&f->run, u, head, f->y, (size_t)n * each);
        if (c->is_v2)
            sl_mul_one(&f->run, f->sel, &f->gate_proj, f->y, (size_t)n * each);
        for (uint32_t i = 0; i < n; i++) {
            choose(f, b->head, u + (size_t)i * each * head->rows,
                   head->rows, n_row, f->sel + (size_t)i * each * c->rank,
                   b->anchor[i0 + i], b->draft + (size_t)(i0 + i) * most,
                   b->sure ? b->sure + (size_t)(i0 + i) * most : NULL);
            if (b->logits)
                memcpy(b->logits + (size_t)(i0 + i) * each * c->vocab,
                       u + (size_t)i * each * c->vocab,
                       (size_t)each * c->vocab * sizeof(*u));
        }
    }
}

void sl_flash_draft(struct sl_flash *f, struct sl_model *m,
                    const struct sl_flash_blocks *b)
{
    const struct sl_flash_conf *c = &f->c;
    uint32_t rows = b->n_draft ? b->n_draft + 1 : c->block;
    size_t n_row = (size_t)b->n_seq * rows;

    if (b->n_seq == 0)
        return;
    SL_ASSERT(rows <= c->block);
    f->rows = rows;
    borrow_run(f, m);
    for (uint32_t i = 0; i < b->n_seq; i++) {
        place_seq(f, i, b->seq[i], i * rows, rows, b->seq[i]->n_tok);
        for (uint32_t k = 0; k < rows; k++)
            f->id[i * rows + k] = k ? c->mask_id : b->anchor[i];
    }
    sl_embed(&f->run, f->h, &f->target->embed, f->id, n_row);
    for (size_t i = 0; c->embed_scale != 1 && i < n_row * c->hidden; i++)
        f->h[i] *= c->embed_scale;
    for (uint32_t i = 0; i < c->n_layer; i++)
        layer(f, b->seq[0]->mem->kv, i, n_row, b->n_seq);
    sl_rmsnorm(&f->run, f->x, f->h, f->norm, n_row, c->hidden, c->eps);
    propose(f, m, b);
}
