/* model/draft_head.c - a part of the output head in few bits; see draft_head.h
 *
 *     | lowest ids: half | highest: 1/128 | came up lately, a ring |
 *
 * Invariant: slot_of[g] is the slot that holds group g of the head, or NONE, and
 * group[slot_of[g]] == g. Groups with an id that may not be proposed are never
 * taken. A whole head has every group in its own slot from the start.
 */
#include "model/draft_head.h"

#include "base/mem.h"
#include "kern/kern.h"

#define NONE UINT32_MAX
#define LOW (SL_DRAFT_HEAD_ROWS / SL_GROUP / 2)
#define HIGH (SL_SMALL ? 1 : SL_DRAFT_HEAD_ROWS / SL_GROUP / 128)
#define MAX_SLOTS (SL_DRAFT_HEAD_ROWS / SL_GROUP)
#define PIECE 64 /* groups of a task. Chosen. */

struct sl_draft_head {
    const struct sl_mat *head;
    const struct sl_kern *kern;
    struct sl_mat mat; /* of the slots that are used */
    bool is_whole;
    unsigned char *room; /* [threads][room_each] to convert a group in */
    size_t room_each;
    unsigned char *w;  /* [MAX_SLOTS][group_bytes] */
    float *scale;      /* [MAX_SLOTS][n_scale], FP8 only */
    size_t group_bytes, n_scale;
    uint32_t n_group;   /* of the head that may be proposed as a whole */
    uint32_t *slot_of;  /* [n_group] */
    uint32_t group[MAX_SLOTS];
    uint32_t n_slot, n_fixed, next; /* used; never replaced; replaced next */
};

/* What slot holds, from the head; room is for one group. */
static void copy(const struct sl_draft_head *h, uint32_t slot, void *room)
{
    const unsigned char *src = h->head->w;
    uint32_t g = h->group[slot];

    if (h->mat.type != h->head->type)
        sl_draft_groups(h->w + slot * h->group_bytes, h->head, h->mat.type,
                        h->kern, g, g + 1, room);
    else
        memcpy(h->w + slot * h->group_bytes, src + g * h->group_bytes,
               h->group_bytes);
    if (h->n_scale > 0)
        memcpy(h->scale + slot * h->n_scale, h->head->scale + g * h->n_scale,
               h->n_scale * sizeof(*h->scale));
}

static void assign(struct sl_draft_head *h, uint32_t slot, uint32_t g)
{
    h->group[slot] = g;
    h->slot_of[g] = slot;
}

static void take(struct sl_draft_head *h, uint32_t g)
{
    uint32_t slot = h->next;

    if (g >= h->n_group || h->slot_of[g] != NONE)
        return;
    if (h->n_slot < MAX_SLOTS) {
        slot = h->n_slot++;
        h->mat.rows = h->n_slot * SL_GROUP;
    } else {
        h->slot_of[h->group[slot]] = NONE;
        if (++h->next == MAX_SLOTS)
            h->next = h->n_fixed;
    }
    assign(h, slot, g);
    copy(h, slot, h->room);
}

static int alloc_head(struct sl_draft_head *h, size_t n_slot,
                      unsigned n_thread, struct sl_err *err)
{
    const char *what = "the head of drafters";
    int rc = sl_mem_alloc(&h->w, n_slot, h->group_bytes, what, err);

    if (!rc)
        rc = sl_mem_alloc(&h->scale, n_slot, h->n_scale * sizeof(*h->scale),
                          what, err);
    if (!rc)
        rc = sl_mem_alloc(&h->slot_of, h->n_group, sizeof(*h->slot_of), what,
                          err);
    if (!rc)
        rc = sl_mem_alloc(&h->room, n_thread, h->room_each, what, err);
    return rc;
}

static void copy_task(void *ctx, size_t i, unsigned worker)
{
    const struct sl_draft_head *h = ctx;
    size_t end = sl_min((i + 1) * PIECE, h->n_slot);

    for (size_t slot = i * PIECE; slot < end; slot++)
        copy(h, (uint32_t)slot, h->room + worker * h->room_each);
}

/* All groups, or the lowest ids and the highest ones. */
static void take_first(struct sl_draft_head *h, uint32_t n_vocab,
                       struct sl_pool *pool)
{
    for (uint32_t g = 0; g < h->n_group; g++)
        h->slot_of[g] = NONE;
    for (uint32_t g = 0; g < (h->is_whole ? h->n_group : LOW); g++)
        assign(h, h->n_slot++, g);
    for (uint32_t i = HIGH; i > 0 && !h->is_whole; i--)
        assign(h, h->n_slot++, h->n_group - i);
    h->n_fixed = h->next = h->n_slot;
    h->mat.rows = h->is_whole ? n_vocab : h->n_slot * SL_GROUP;
    sl_pool_run(pool, copy_task, h, (h->n_slot + PIECE - 1) / PIECE);
}

int sl_draft_head_open(struct sl_draft_head **out, const struct sl_mat *head,
                       uint32_t n_vocab, enum sl_dtype want,
                       struct sl_pool *pool, const struct sl_kern *kern,
                       struct sl_err *err)
{
    enum sl_dtype type = sl_draft_type(head, want);
    bool is_whole = n_vocab <= SL_DRAFT_HEAD_ROWS;
    struct sl_draft_head *h = NULL;
    int rc;

    *out = NULL;
    if (is_whole && type == head->type)
        return 0;
    rc = sl_mem_alloc(&h, 1, sizeof(*h), "the head of drafters", err);
    if (rc)
        return rc;
    h->head = head;
    h->kern = kern;
    h->is_whole = is_whole;
    h->n_group = is_whole ? (n_vocab + SL_GROUP - 1) / SL_GROUP
                          : n_vocab / SL_GROUP;
    h->group_bytes = sl_dtype_bytes(type, (size_t)SL_GROUP * head->cols);
    h->n_scale = head->scale && type == head->type
                     ? (head->cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK
                     : 0;
    h->mat = (struct sl_mat){.type = type, .cols = head->cols};
    h->room_each = sl_round_up(sl_draft_room(head, type), SL_LINE);
    rc = alloc_head(h, is_whole ? h->n_group : MAX_SLOTS,
                    sl_pool_n_thread(pool), err);
    if (rc) {
        sl_draft_head_close(&h);
        return rc;
    }
    h->mat.w = h->w;
    h->mat.scale = h->n_scale ? h->scale : NULL;
    take_first(h, n_vocab, pool);
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
    sl_mem_free(h->room);
    sl_mem_free(h);
}

void sl_draft_head_add(struct sl_draft_head *h, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n && !h->is_whole; i++)
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
