/* state/recurrent.c - committed recurrent states and pending rows
 *
 * Layout of a slot: layer by layer S [n_val][val_dim / 16][key_dim][16], then
 * layer by layer the conv inputs [3][conv_dim], oldest first. Layout of a
 * buffer: layer by layer k, d, decay, u, each [max_tent][its width].
 *
 * Invariants (sl_rec_check): a slot is free or has ref > 0; free slots + owned
 * slots = all slots. A slot with ref > 1 is never a dst.
 */
#include "state/recurrent.h"

#include "base/mem.h"

static size_t conv_dim(const struct sl_rec_shape *s)
{
    return 2 * (size_t)s->n_key * s->key_dim + (size_t)s->n_val * s->val_dim;
}

static size_t layer_s(const struct sl_rec_shape *s)
{
    return (size_t)s->n_val * s->val_dim * s->key_dim;
}

/* Floats of one tentative row of one layer. */
static size_t tent_row(const struct sl_rec_shape *s)
{
    return (size_t)s->n_key * s->key_dim + (size_t)s->n_val * s->val_dim +
           s->n_val + conv_dim(s);
}

size_t sl_rec_slot_bytes(const struct sl_rec_shape *s)
{
    return s->n_layer * (layer_s(s) + SL_CONV_PAST * conv_dim(s)) *
           sizeof(float);
}

static size_t slot_map_bytes(const struct sl_rec *r)
{
    return r->n_slot * r->slot_floats * sizeof(float);
}

static size_t tent_map_bytes(const struct sl_rec *r)
{
    return (size_t)r->n_buf * 2 * r->tent_floats * sizeof(float);
}

static int reserve(struct sl_rec *r, struct sl_err *err)
{
    int rc = sl_mem_alloc(&r->free, r->n_slot, sizeof(*r->free),
                          "recurrent states", err);

    if (!rc)
        rc = sl_mem_alloc(&r->ref, r->n_slot, sizeof(*r->ref),
                          "recurrent states", err);
    if (!rc)
        rc = sl_mem_alloc(&r->buf_free, r->n_buf, sizeof(*r->buf_free),
                          "recurrent states", err);
    if (!rc)
        rc = sl_mem_map(&r->slot, slot_map_bytes(r), "recurrent states", err);
    if (!rc)
        rc = sl_mem_map(&r->tent, tent_map_bytes(r), "pending rows", err);
    return rc;
}

int sl_rec_open(struct sl_rec **out, const struct sl_rec_shape *shape,
                uint32_t n_buf, uint32_t n_slot, struct sl_err *err)
{
    struct sl_rec *r = NULL;
    int rc = sl_mem_alloc(&r, 1, sizeof(*r), "recurrent states", err);

    if (rc)
        return rc;
    r->shape = *shape;
    r->s_floats = layer_s(shape);
    r->conv_floats = SL_CONV_PAST * conv_dim(shape);
    r->slot_floats = sl_rec_slot_bytes(shape) / sizeof(float);
    r->tent_floats = shape->n_layer * shape->max_tent * tent_row(shape);
    r->n_slot = r->n_free = n_slot;
    r->n_buf = r->n_buf_free = n_buf;
    rc = reserve(r, err);
    for (uint32_t i = 0; !rc && i < n_slot; i++)
        r->free[i] = n_slot - 1 - i;
    for (uint32_t i = 0; !rc && i < n_buf; i++)
        r->buf_free[i] = n_buf - 1 - i;
    if (rc)
        sl_rec_close(&r);
    else
        *out = r;
    return rc;
}

void sl_rec_close(struct sl_rec **pr)
{
    struct sl_rec *r = *pr;

    if (!r)
        return;
    *pr = NULL;
    sl_mem_unmap(r->slot, slot_map_bytes(r));
    sl_mem_unmap(r->tent, tent_map_bytes(r));
    sl_mem_free(r->free);
    sl_mem_free(r->ref);
    sl_mem_free(r->buf_free);
    sl_mem_free(r);
}

static void release(struct sl_rec *r, uint32_t slot)
{
    if (slot == SL_REC_ZERO)
        return;
    SL_CHECK(slot < r->n_slot && r->ref[slot] > 0);
    if (--r->ref[slot] == 0)
        r->free[r->n_free++] = slot;
}

void sl_rec_seq_init(struct sl_rec_seq *q)
{
    *q = (struct sl_rec_seq){
        .slot = SL_REC_ZERO, .dst = SL_REC_ZERO, .buf = SL_REC_NONE};
}

static void release_buf(struct sl_rec *r, struct sl_rec_seq *q)
{
    if (q->buf != SL_REC_NONE)
        r->buf_free[r->n_buf_free++] = q->buf;
    q->buf = SL_REC_NONE;
}

void sl_rec_seq_deinit(struct sl_rec *r, struct sl_rec_seq *q)
{
    release(r, q->slot);
    release_buf(r, q);
    sl_rec_seq_init(q);
}

void sl_rec_rest(struct sl_rec *r, struct sl_rec_seq *q)
{
    SL_ASSERT(q->n_pend == 0 && q->dst == SL_REC_ZERO);
    release_buf(r, q);
}

bool sl_rec_begin(struct sl_rec *r, struct sl_rec_seq *q, uint32_t n_tent)
{
    bool in_place = q->slot != SL_REC_ZERO && r->ref[q->slot] == 1;
    bool need_buf = n_tent > 0 && q->buf == SL_REC_NONE;

    SL_ASSERT(q->dst == SL_REC_ZERO);
    if ((need_buf && r->n_buf_free == 0) || (!in_place && r->n_free == 0))
        return false;
    if (need_buf)
        q->buf = r->buf_free[--r->n_buf_free];
    if (in_place) {
        q->dst = q->slot;
        return true;
    }
    q->dst = r->free[--r->n_free];
    r->ref[q->dst] = 1;
    return true;
}

void sl_rec_end(struct sl_rec *r, struct sl_rec_seq *q, uint32_t n_accept)
{
    SL_ASSERT(q->dst != SL_REC_ZERO && n_accept <= r->shape.max_tent);
    if (q->dst != q->slot)
        release(r, q->slot);
    q->slot = q->dst;
    q->dst = SL_REC_ZERO;
    q->side ^= 1;
    q->n_pend = n_accept;
}

void sl_rec_share(struct sl_rec *r, struct sl_rec_seq *q,
                  const struct sl_rec_seq *from)
{
    SL_ASSERT(from->n_pend == 0 && from->dst == SL_REC_ZERO);
    if (from->slot != SL_REC_ZERO)
        r->ref[from->slot]++;
    release(r, q->slot);
    q->slot = from->slot;
    q->n_pend = 0;
}

static float *tent_at(const struct sl_rec *r, const struct sl_rec_seq *q,
                      uint32_t side, uint32_t layer)
{
    size_t buf = q->buf == SL_REC_NONE ? 0 : q->buf; /* then never touched */

    return r->tent + (buf * 2 + side) * r->tent_floats +
           layer * r->shape.max_tent * tent_row(&r->shape);
}

void sl_rec_view(const struct sl_rec *r, const struct sl_rec_seq *q,
                 uint32_t layer, struct sl_delta_seq *out)
{
    const struct sl_rec_shape *s = &r->shape;
    size_t n = s->max_tent, keys = (size_t)s->n_key * s->key_dim;
    size_t vals = (size_t)s->n_val * s->val_dim;
    size_t conv0 = s->n_layer * r->s_floats + layer * r->conv_floats;
    float *src = q->slot == SL_REC_ZERO ? NULL
                                        : r->slot + q->slot * r->slot_floats;
    float *dst = r->slot + q->dst * r->slot_floats;
    const float *p = tent_at(r, q, q->side, layer);
    float *t = tent_at(r, q, q->side ^ 1, layer);

    SL_ASSERT(layer < s->n_layer && q->dst != SL_REC_ZERO);
    out->n_pend = q->n_pend;
    out->src_s = src ? src + layer * r->s_floats : NULL;
    out->dst_s = dst + layer * r->s_floats;
    out->src_conv = src ? src + conv0 : NULL;
    out->dst_conv = dst + conv0;
    out->pend_k = p;
    out->pend_d = p + n * keys;
    out->pend_decay = p + n * (keys + vals);
    out->pend_u = p + n * (keys + vals + s->n_val);
    out->tent_k = t;
    out->tent_d = t + n * keys;
    out->tent_decay = t + n * (keys + vals);
    out->tent_u = t + n * (keys + vals + s->n_val);
}

const float *sl_rec_get(const struct sl_rec *r, const struct sl_rec_seq *q)
{
    SL_ASSERT(q->n_pend == 0);
    return q->slot == SL_REC_ZERO ? NULL : r->slot + q->slot * r->slot_floats;
}

void sl_rec_check(const struct sl_rec *r)
{
    uint32_t owned = 0;

    for (uint32_t i = 0; i < r->n_slot; i++)
        owned += r->ref[i] > 0;
    SL_CHECK(owned + r->n_free == r->n_slot);
    for (uint32_t i = 0; i < r->n_free; i++)
        SL_CHECK(r->ref[r->free[i]] == 0);
}
