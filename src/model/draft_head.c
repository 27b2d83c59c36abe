/* model/draft_head.c - a part of the output head; see draft_head.h
 *
 *     | lowest ids: half | highest: 1/128 | came up lately, a ring |
 *
 * Invariant: slot_of[g] is the slot that holds group g of the head, or NONE, and
 * group[slot_of[g]] == g. Groups with an id that may not be proposed are never
 * taken.
 */
#include "model/draft_head.h"

#include "base/mem.h"
#include "kern/kern.h"

#define NONE UINT32_MAX
#define LOW (SL_DRAFT_HEAD_ROWS / SL_GROUP / 2)
#define HIGH (SL_SMALL ? 1 : SL_DRAFT_HEAD_ROWS / SL_GROUP / 128)
#define MAX_SLOTS (SL_DRAFT_HEAD_ROWS / SL_GROUP)

struct sl_draft_head {
    const struct sl_mat *head;
    struct sl_mat mat; /* of the slots that are used */
    unsigned char *w;  /* [MAX_SLOTS][group_bytes] */
    float *scale;      /* [MAX_SLOTS][n_scale], FP8 only */
    size_t group_bytes, n_scale;
    uint32_t n_group;   /* of the head that may be proposed as a whole */
    uint32_t *slot_of;  /* [n_group] */
    uint32_t group[MAX_SLOTS];
    uint32_t n_slot, n_fixed, next; /* used; never replaced; replaced next */
};

static void fill(struct sl_draft_head *h, uint32_t slot, uint32_t g)
{
    const unsigned char *src = h->head->w;

    memcpy(h->w + slot * h->group_bytes, src + g * h->group_bytes,
           h->group_bytes);
    if (h->n_scale > 0)
        memcpy(h->scale + slot * h->n_scale, h->head->scale + g * h->n_scale,
               h->n_scale * sizeof(*h->scale));
    h->group[slot] = g;
    h->slot_of[g] = slot;
}

static void take(struct sl_draft_head *h, uint32_t g)
{
    if (g >= h->n_group || h->slot_of[g] != NONE)
        return;
    if (h->n_slot < MAX_SLOTS) {
        fill(h, h->n_slot++, g);
        h->mat.rows = h->n_slot * SL_GROUP;
        return;
    }
    h->slot_of[h->group[h->next]] = NONE;
    fill(h, h->next, g);
    if (++h->next == MAX_SLOTS)
        h->next = h->n_fixed;
}

int sl_draft_head_open(struct sl_draft_head **out, const struct sl_mat *head,
                       uint32_t n_vocab, struct sl_err *err)
{
    struct sl_draft_head *h = NULL;
    int rc;

    *out = NULL;
    if (head->rows <= SL_DRAFT_HEAD_ROWS || n_vocab <= SL_DRAFT_HEAD_ROWS)
        return 0;
    rc = sl_mem_alloc(&h, 1, sizeof(*h), "the head of drafters", err);
    if (rc)
        return rc;
    h->head = head;
    h->n_group = n_vocab / SL_GROUP;
    h->group_bytes = sl_dtype_bytes(head->type, (size_t)SL_GROUP * head->cols);
    h->n_scale =
        head->scale ? (head->cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK : 0;
    rc = sl_mem_alloc(&h->w, MAX_SLOTS, h->group_bytes, "the head of drafters",
                      err);
    if (!rc)
        rc = sl_mem_alloc(&h->scale, MAX_SLOTS, h->n_scale * sizeof(*h->scale),
                          "the head of drafters", err);
    if (!rc)
        rc = sl_mem_alloc(&h->slot_of, h->n_group, sizeof(*h->slot_of),
                          "the head of drafters", err);
    if (rc) {
        sl_draft_head_close(&h);
        return rc;
    }
    for (uint32_t g = 0; g < h->n_group; g++)
        h->slot_of[g] = NONE;
    h->mat = (struct sl_mat){.type = head->type,
                             .cols = head->cols,
                             .w = h->w,
                             .scale = h->n_scale ? h->scale : NULL};
    for (uint32_t g = 0; g < LOW; g++)
        take(h, g);
    for (uint32_t i = HIGH; i > 0; i--)
        take(h, h->n_group - i);
    h->n_fixed = h->next = h->n_slot;
    *out = h;
    return 0;
}

void sl_draft_head_close(struct sl_draft_head **ph)
{
    struct sl_draft_head *h = *ph;

    if (!h)
        return;
    *ph = NULL;
    sl_mem_free(h->w);
    sl_mem_free(h->scale);
    sl_mem_free(h->slot_of);
    sl_mem_free(h);
}

void sl_draft_head_add(struct sl_draft_head *h, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        take(h, (uint32_t)ids[i] / SL_GROUP);
}

const struct sl_mat *sl_draft_head_get(const struct sl_draft_head *h)
{
    return &h->mat;
}

int32_t sl_draft_head_id(const struct sl_draft_head *h, uint32_t row)
{
    return (int32_t)(h->group[row / SL_GROUP] * SL_GROUP + row % SL_GROUP);
}
