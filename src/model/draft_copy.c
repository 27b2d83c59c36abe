/* model/draft_copy.c - a drafter's weights in fewer bits; see draft_copy.h
 *
 * Rows are read as numbers by the kernel table, whatever their type, quantised
 * one by one, and eight of them interleaved: as in loading (pack_quant.c), but
 * from memory.
 */
#include "model/draft_copy.h"

#include "base/mem.h"
#include "kern/quantise.h"

#define PIECE 64 /* groups of a task. Chosen. */
#define MAX_MAT 16 /* of an MTP head without its experts */

struct piece_mat {
    const struct sl_mat *from;
    struct sl_mat *to;
    size_t at;    /* bytes from the start of the copies */
    size_t first; /* task */
};

struct sl_draft_copy {
    struct sl_mtp_w w;
    struct piece_mat mat[MAX_MAT];
    size_t n_mat, n_task, bytes;
    void *data;
    /* While it is made. */
    const struct sl_kern *kern;
    unsigned char *room; /* of each worker */
    size_t room_each;
};

enum sl_dtype sl_draft_type(const struct sl_mat *m, enum sl_dtype want)
{
    if (want == SL_N_DTYPE || sl_dtype_get(m->type)->block > 1)
        return m->type;
    if (m->cols % sl_dtype_get(want)->block != 0)
        want = SL_Q8_0;
    return m->cols % sl_dtype_get(want)->block == 0 ? want : m->type;
}

size_t sl_draft_room(const struct sl_mat *m, enum sl_dtype t)
{
    return m->cols * sizeof(float) +
           SL_GROUP * sl_dtype_bytes(t, m->cols);
}

void sl_draft_groups(void *dst, const struct sl_mat *m, enum sl_dtype t,
                     const struct sl_kern *kern, size_t g0, size_t g1,
                     void *room)
{
    size_t bytes = sl_dtype_bytes(t, m->cols);
    float *x = room;
    unsigned char *blocks = (unsigned char *)(x + m->cols);
    unsigned char *to = dst;

    for (size_t g = g0; g < g1; g++, to += SL_GROUP * bytes) {
        const void *rows[SL_GROUP] = {NULL};

        for (size_t i = 0; i < SL_GROUP && g * SL_GROUP + i < m->rows; i++) {
            kern->row[m->type](x, m->w, m->scale, g * SL_GROUP + i, m->cols);
            sl_quantise_quick(t, blocks + i * bytes, x, m->cols);
            rows[i] = blocks + i * bytes;
        }
        sl_quant_pack(t, to, rows, m->cols);
    }
}

static size_t n_group(const struct sl_mat *m)
{
    return (m->rows + SL_GROUP - 1) / SL_GROUP;
}

/* Give the matrix of the copy that stands where m stands in w its place. */
static void place(struct sl_draft_copy *c, const struct sl_weights *w,
                  const struct sl_mat *m, enum sl_dtype want)
{
    size_t at = (size_t)((const char *)m - (const char *)&w->mtp);
    struct piece_mat *p = &c->mat[c->n_mat];
    enum sl_dtype t = sl_draft_type(m, want);

    if (t == m->type)
        return;
    SL_CHECK(c->n_mat < MAX_MAT);
    *p = (struct piece_mat){.from = m,
                            .to = (struct sl_mat *)((char *)&c->w + at),
                            .at = c->bytes,
                            .first = c->n_task};
    *p->to = (struct sl_mat){.type = t, .rows = m->rows, .cols = m->cols};
    c->n_task += (n_group(m) + PIECE - 1) / PIECE;
    c->bytes += sl_round_up(
        n_group(m) * SL_GROUP * sl_dtype_bytes(t, m->cols), SL_LINE);
    c->room_each = sl_max(c->room_each, sl_draft_room(m, t));
    c->n_mat++;
}

static bool is_inside(const struct sl_weights *w, const struct sl_mat *m)
{
    const char *p = (const char *)m, *begin = (const char *)&w->mtp;

    return p >= begin && p < begin + sizeof(w->mtp);
}

static void task(void *ctx, size_t i, unsigned worker)
{
    struct sl_draft_copy *c = ctx;
    const struct piece_mat *p = &c->mat[c->n_mat - 1];
    size_t g0, bytes;

    while (p->first > i)
        p--;
    g0 = (i - p->first) * PIECE;
    bytes = SL_GROUP * sl_dtype_bytes(p->to->type, p->to->cols);
    sl_draft_groups((char *)c->data + p->at + g0 * bytes, p->from, p->to->type,
                    c->kern, g0, sl_min(g0 + PIECE, n_group(p->from)),
                    c->room + worker * c->room_each);
}

static int make(struct sl_draft_copy *c, struct sl_pool *pool,
                struct sl_err *err)
{
    unsigned n_thread = sl_pool_n_thread(pool);
    int rc;

    c->room_each = sl_round_up(c->room_each, SL_LINE);
    rc = sl_mem_map(&c->data, c->bytes, "the copy of the draft head", err);
    if (!rc)
        rc = sl_mem_alloc(&c->room, n_thread, c->room_each,
                          "the copy of the draft head", err);
    if (rc)
        return rc;
    for (size_t i = 0; i < c->n_mat; i++)
        c->mat[i].to->w = (char *)c->data + c->mat[i].at;
    sl_pool_run(pool, task, c, c->n_task);
    sl_mem_free(c->room);
    c->room = NULL;
    return 0;
}

int sl_draft_copy_open(struct sl_draft_copy **out, const struct sl_weights *w,
                       enum sl_dtype want, struct sl_pool *pool,
                       const struct sl_kern *kern, struct sl_err *err)
{
    struct sl_draft_copy *c = NULL;
    int rc = sl_mem_alloc(&c, 1, sizeof(*c), "the copy of the draft head", err);

    *out = NULL;
    if (rc)
        return rc;
    c->w = w->mtp;
    c->kern = kern;
    for (size_t i = 0; i < w->n_mat; i++)
        if (w->mat[i].class == SL_W_MTP && is_inside(w, w->mat[i].mat))
            place(c, w, w->mat[i].mat, want);
    if (c->n_mat > 0)
        rc = make(c, pool, err);
    if (rc)
        sl_draft_copy_close(&c);
    *out = c;
    return rc;
}

const struct sl_mtp_w *sl_draft_copy_get(const struct sl_draft_copy *c)
{
    return &c->w;
}

void sl_draft_copy_close(struct sl_draft_copy **pc)
{
    struct sl_draft_copy *c = *pc;

    if (!c)
        return;
    *pc = NULL;
    if (c->data)
        sl_mem_unmap(c->data, c->bytes);
    sl_mem_free(c->room);
    sl_mem_free(c);
}
