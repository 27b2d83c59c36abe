/* engine/queue.c - whose turn it is: the order of those that wait and that run
 *
 * What is shared out are places, between clients: a client that sends thirty
 * requests does not take thirty places from others that wait for one. Of those
 * that wait and are as urgent, the one starts whose client has the fewest
 * running; of equals the oldest. So nobody waits behind more than a place of
 * each other client, and a client that is alone has all places.
 *
 * Those that run are kept in the order in which they may stay: by priority, then
 * by how many older ones of the same client run, then by age. Who has to give way
 * when pages run short is the last: the youngest of the client that has the
 * most. The first one stays first until it ends, so there is always one that is
 * never asked to give way.
 *
 * How rows are shared out is decided elsewhere (engine/schedule.c).
 */
#include "base/order.h"
#include "engine/gen.h"

void sl_gen_list_push(struct sl_gen_list *l, struct sl_gen *g)
{
    g->next = NULL;
    if (l->tail)
        l->tail->next = g;
    else
        l->head = g;
    l->tail = g;
}

void sl_gen_list_insert(struct sl_gen_list *l, struct sl_gen *g, bool first)
{
    struct sl_gen *at = NULL; /* what g comes behind; NULL: nothing */

    /* Mostly all are equal, and the newest goes to the end. */
    if (!first && l->tail && l->tail->priority <= g->priority)
        at = l->tail;
    else
        for (struct sl_gen *k = l->head;
             k && (first ? k->priority < g->priority
                         : k->priority <= g->priority);
             k = k->next)
            at = k;
    g->next = at ? at->next : l->head;
    if (at)
        at->next = g;
    else
        l->head = g;
    if (!g->next)
        l->tail = g;
}

struct sl_gen *sl_gen_list_pop(struct sl_gen_list *l)
{
    struct sl_gen *g = l->head;

    if (g) {
        l->head = g->next;
        if (!l->head)
            l->tail = NULL;
    }
    return g;
}

void sl_gen_list_remove(struct sl_gen_list *l, struct sl_gen *g)
{
    struct sl_gen *before = NULL;

    if (l->head == g)
        l->head = g->next;
    else
        for (before = l->head; before->next != g; before = before->next)
            ;
    if (before)
        before->next = g->next;
    if (l->tail == g)
        l->tail = before;
}

struct sl_gen *sl_queue_next(struct sl_engine *e)
{
    struct sl_tally *t = &e->tally;
    struct sl_gen *best = NULL;
    uint32_t least = UINT32_MAX;

    sl_tally_start(t);
    for (uint32_t i = 0; i < e->n_run; i++)
        sl_tally_at(t, e->run[i]->client, 0)->n++;
    for (struct sl_gen *g = e->waiting.head; g && least > 0; g = g->next) {
        uint32_t n;

        if (g->is_passed)
            continue;
        if (best && g->priority > best->priority)
            break;
        n = sl_tally_n(t, g->client, 0);
        if (n < least) {
            least = n;
            best = g;
        }
    }
    return best;
}

static bool is_before(const void *ctx, uint32_t i, uint32_t k)
{
    const struct sl_engine *e = ctx;
    const struct sl_gen *a = e->run[i], *b = e->run[k];

    return a->priority != b->priority ? a->priority < b->priority
                                      : a->n_older < b->n_older;
}

void sl_queue_arrange(struct sl_engine *e)
{
    uint32_t *at = e->sched_work.seq;

    sl_tally_start(&e->tally);
    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];

        g->n_older = sl_tally_at(&e->tally, g->client, g->priority)->n++;
        at[i] = i;
    }
    sl_order(at, e->sched_work.tmp, e->n_run, is_before, e);
    for (uint32_t i = 0; i < e->n_run; i++)
        e->run_work[i] = e->run[at[i]];
    if (e->n_run)
        memcpy(e->run, e->run_work, e->n_run * sizeof(*e->run));
}
