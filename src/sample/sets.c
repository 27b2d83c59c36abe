/* sample/sets.c - where in a grammar a text can be
 *
 * A text can be in several places at once: alternatives begin alike, and rules
 * are ambiguous. All are followed together (Thompson 1968; Tomita 1985 for the
 * shared stacks). A frame is the set of all callers that called a rule at the
 * same point of the text, so that ambiguity makes frames wider and never makes
 * copies of stacks; and frames that hold the same exist once, so that an array
 * of a thousand items comes back to the same numbers after each.
 *
 * Closing a set, from the places just behind a byte:
 *
 *   1. Empty edges are followed, and rules that end here return to all callers
 *      in their frame, until nothing new comes.
 *   2. Rules that can begin here are entered in the order of their rank: when a
 *      rule's turn comes all its callers are known, so its frame can be made.
 *
 * A rule that has just been entered does not return at once, even if it can be
 * empty: its caller has an empty edge for that (automaton.h). A call in the
 * last place of a rule hands on its own callers instead of becoming one, so
 * that lists written by recursion need no memory.
 *
 * A place whose state cannot reach the end of its rule within
 * SL_AUTOMATON_MAX_DEPTH is left out. All others have a way to the end that
 * keeps to the limit, so a set that is not dead never leads to a dead end. The
 * depth of a frame is that of its deepest caller; shallow ones that share it
 * are cut off with it, which is the same in every run.
 *
 * Invariants:
 *   1. A frame's callers have smaller frame numbers than it.
 *   2. Sets hold only places that can move by a byte or a token.
 *   3. Every step from a dead set is dead.
 *   4. Which sets there are, what a step costs and what `need` says depends on
 *      the text that leads there, never on what else is known.
 */
#include "sample/sets.h"

#include "base/mem.h"

/* Limits, chosen. Of one closing: some tens of places are usual, some thousands
 * a list of choices. */
#define MAX_WORK (1u << 14) /* places of a set while it is closed */
#define MAX_CLOSING UINT16_MAX /* places looked at; fits sl_step.n_visit */

/* Of one operation: some 25 ms. A mask of a usual shape looks at some thousands,
 * one of ten thousand choices at a quarter of a million. As many places and
 * frames can be made by it at most, and max_live sets. */
#define MAX_VISITS (1u << 21)

/* What may be there when an operation begins; beyond it sets are trimmed. */
#define KEEP_PLACES (1u << 19) /* 4 MB */
#define KEEP_FRAMES (1u << 16)

/* Backstops: twice the sum of these. */
#define MAX_PLACES ((KEEP_PLACES + MAX_VISITS) * 2)
#define MAX_FRAMES ((KEEP_FRAMES + MAX_VISITS) * 2)
#define MAX_SETS (1u << 16)        /* 2 MB, and: */
#define MAX_STEPS ((size_t)1 << 22) /* 32 MB */

#define FIRST_SET 3u
#define FIRST_FRAME 2u

/* ------------------------------------------------------------------ indices */

static uint32_t hash(const struct sl_place *p, uint32_t n, uint32_t more)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ more;

    for (uint32_t i = 0; i < n; i++) {
        h ^= (uint64_t)p[i].frame << 32 | p[i].state;
        h *= 0xff51afd7ed558ccdu; /* of MurmurHash3 */
        h ^= h >> 32;
    }
    return (uint32_t)h;
}

static bool same(const struct sl_place *a, const struct sl_place *b, uint32_t n)
{
    return n == 0 || memcmp(a, b, n * sizeof(*a)) == 0;
}

/* What a set is, but for its places. */
static uint32_t set_rest(bool ends, uint16_t need)
{
    return need * 2u + ends;
}

static uint32_t set_hash(const struct sl_sets *s, uint32_t i)
{
    const struct sl_set *x = &s->set[i];

    return hash(s->place + x->at, x->n, set_rest(x->ends, x->need));
}

static uint32_t frame_hash(const struct sl_sets *s, uint32_t i)
{
    return hash(s->place + s->frame[i].at, s->frame[i].n, 0);
}

typedef uint32_t hash_fn(const struct sl_sets *s, uint32_t i);

static void index_put(struct sl_index *x, uint32_t h, uint32_t i)
{
    while (x->slot[h & x->mask])
        h++;
    x->slot[h & x->mask] = i;
}

/* Room for one more than the numbers from `first` to n - 1, which are put in
 * again when it grows. */
static int index_fit(struct sl_sets *s, struct sl_index *x, hash_fn *fn,
                     uint32_t first, uint32_t n, struct sl_err *err)
{
    struct sl_index y = {.mask = x->mask ? x->mask : 63};
    int rc;

    if (x->slot && n + 1 < x->mask / 2)
        return 0;
    while (n + 1 >= y.mask / 2)
        y.mask = y.mask * 2 + 1;
    rc = sl_mem_alloc(&y.slot, (size_t)y.mask + 1, sizeof(*y.slot),
                      "states of a grammar", err);
    if (rc)
        return rc;
    for (uint32_t i = first; i < n; i++)
        index_put(&y, fn(s, i), i);
    sl_mem_free(x->slot);
    *x = y;
    return 0;
}

/* ------------------------------------------------------------------- memory */

static bool fail(struct sl_sets *s, enum sl_code code)
{
    if (!s->failed)
        s->failed = code;
    return false;
}

static bool fit(struct sl_sets *s, void *p, uint32_t n, uint32_t *cap,
                uint32_t max, size_t size)
{
    size_t want = *cap;

    if (n <= *cap)
        return true;
    if (n > max)
        return fail(s, SL_ENOMEM);
    while (want < n)
        want = want ? want * 2 : 64;
    want = sl_min(want, max);
    if (sl_mem_resize(p, want, size, "states of a grammar", NULL))
        return fail(s, SL_ENOMEM);
    *cap = (uint32_t)want;
    return true;
}

/* step[] grows with set[]; what is new is not known yet. */
static bool fit_sets(struct sl_sets *s, uint32_t n)
{
    uint32_t old = s->cap_set, cap = old;
    size_t row = s->a->n_class * sizeof(*s->step);

    if (n <= old)
        return true;
    if (!fit(s, &s->set, n, &cap, s->max_set, sizeof(*s->set)) ||
        sl_mem_resize(&s->step, cap, row, "states of a grammar", NULL))
        return fail(s, SL_ENOMEM);
    memset(s->step + (size_t)old * s->a->n_class, 0, (cap - old) * row);
    s->cap_set = cap;
    return true;
}

static uint32_t push_places(struct sl_sets *s, const struct sl_place *p,
                            uint32_t n)
{
    uint32_t at = s->n_place;

    if (n)
        memcpy(s->place + at, p, n * sizeof(*p));
    s->n_place += n;
    return at;
}

static bool fit_places(struct sl_sets *s, uint32_t more)
{
    return fit(s, &s->place, s->n_place + more, &s->cap_place, MAX_PLACES,
               sizeof(*s->place));
}

static int by_place(const void *a, const void *b)
{
    const struct sl_place *x = a, *y = b;

    if (x->frame != y->frame)
        return x->frame < y->frame ? -1 : 1;
    return (x->state > y->state) - (x->state < y->state);
}

static uint32_t sort_places(struct sl_place *p, uint32_t n)
{
    uint32_t k = 0;

    if (n < 2)
        return n;
    qsort(p, n, sizeof(*p), by_place);
    for (uint32_t i = 1; i < n; i++)
        if (by_place(&p[k], &p[i]))
            p[++k] = p[i];
    return k + 1;
}

/* The set that holds sorted[n], if there is one; else 0. */
static uint32_t find_set(const struct sl_sets *s, const struct sl_place *sorted,
                         uint32_t n, bool ends, uint16_t need)
{
    uint32_t h = hash(sorted, n, set_rest(ends, need)), i;

    for (; (i = s->set_index.slot[h & s->set_index.mask]) != 0; h++) {
        const struct sl_set *x = &s->set[i];

        if (x->n == n && x->ends == ends && x->need == need &&
            same(s->place + x->at, sorted, n))
            break;
    }
    return i;
}

/* The number of the set that holds sorted[n]; 0 when memory is full. */
static uint32_t set_of(struct sl_sets *s, uint32_t n, bool ends, uint16_t need)
{
    uint32_t i = find_set(s, s->sorted, n, ends, need);

    if (i)
        return i;
    if (!fit_sets(s, s->n_set + 1) || !fit_places(s, n) ||
        index_fit(s, &s->set_index, set_hash, FIRST_SET, s->n_set, NULL)) {
        fail(s, SL_ENOMEM);
        return 0;
    }
    i = s->n_set++;
    s->set[i] = (struct sl_set){
        .at = push_places(s, s->sorted, n), .n = n, .need = need, .ends = ends};
    index_put(&s->set_index, set_hash(s, i), i);
    return i;
}

/* The frame of the callers in sorted[n]; 0 when memory is full. */
static uint32_t frame_of(struct sl_sets *s, uint32_t n, uint32_t depth)
{
    uint32_t h = hash(s->sorted, n, 0), i;

    for (; (i = s->frame_index.slot[h & s->frame_index.mask]) != 0; h++)
        if (s->frame[i].n == n &&
            same(s->place + s->frame[i].at, s->sorted, n))
            return i;
    if (!fit(s, &s->frame, s->n_frame + 1, &s->cap_frame, MAX_FRAMES,
             sizeof(*s->frame)) ||
        !fit_places(s, n) ||
        index_fit(s, &s->frame_index, frame_hash, FIRST_FRAME, s->n_frame,
                  NULL)) {
        fail(s, SL_ENOMEM);
        return 0;
    }
    i = s->n_frame++;
    s->frame[i] = (struct sl_frame){
        .at = push_places(s, s->sorted, n), .n = n, .depth = depth};
    index_put(&s->frame_index, frame_hash(s, i), i);
    return i;
}

/* ------------------------------------------------------------ closing a set */

static void open_set(struct sl_sets *s)
{
    s->n_work = s->n_caller = 0;
    s->need = s->n_visit = 0;
    s->cut = s->ends = false;
    s->stamp++;
    if (s->stamp == 0) { /* after four billion sets */
        memset(s->last_stamp, 0, s->a->n_state * sizeof(*s->last_stamp));
        memset(s->head_stamp, 0, s->a->n_rule * sizeof(*s->head_stamp));
        s->stamp = 1;
    }
}

/* Does the place keep to the limit on depth? */
static bool is_near(struct sl_sets *s, uint32_t state, uint32_t frame)
{
    uint32_t d = s->a->depth[state] + s->frame[frame].depth;

    if (d > SL_AUTOMATON_MAX_DEPTH) {
        s->cut = true;
        return false;
    }
    s->need = (uint32_t)sl_max(s->need, d);
    return true;
}

static void count(struct sl_sets *s)
{
    if (++s->n_visit > MAX_CLOSING)
        fail(s, SL_EARG);
}

static void add(struct sl_sets *s, uint32_t state, uint32_t frame)
{
    uint32_t i = s->last_stamp[state] == s->stamp ? s->last[state] : 0;

    count(s);
    if (!is_near(s, state, frame))
        return;
    for (uint32_t k = i; k; k = s->prev[k - 1])
        if (s->work[k - 1].frame == frame)
            return;
    if (s->n_work == MAX_WORK) {
        fail(s, SL_EARG);
        return;
    }
    s->work[s->n_work] = (struct sl_place){frame, state};
    s->prev[s->n_work++] = i;
    s->last[state] = s->n_work;
    s->last_stamp[state] = s->stamp;
}

static void add_caller(struct sl_sets *s, uint32_t rule, struct sl_place p)
{
    uint32_t rank = s->a->rank[rule];

    count(s);
    if (!is_near(s, p.state, p.frame))
        return;
    if (s->n_caller == MAX_WORK) {
        fail(s, SL_EARG);
        return;
    }
    s->caller[s->n_caller] = p;
    s->caller_next[s->n_caller++] =
        s->head_stamp[rule] == s->stamp ? s->head[rule] : 0;
    s->head[rule] = s->n_caller;
    s->head_stamp[rule] = s->stamp;
    s->pending[rank / 64] |= 1ull << rank % 64;
}

static void call(struct sl_sets *s, const struct sl_edge *e, uint32_t frame)
{
    const struct sl_frame *f = &s->frame[frame];

    if (s->a->depth[s->a->start[e->arg]] > SL_AUTOMATON_MAX_DEPTH)
        return; /* the rule has no end */
    if (e->to != SL_STATE_RETURN || frame <= SL_FRAME_LAST_BASE) {
        add_caller(s, e->arg, (struct sl_place){frame, e->to});
        return;
    }
    for (uint32_t i = 0; i < f->n; i++)
        add_caller(s, e->arg, s->place[f->at + i]);
}

static void visit(struct sl_sets *s, struct sl_place p, bool returns)
{
    const struct sl_automaton *a = s->a;

    if (p.state == SL_STATE_RETURN) {
        const struct sl_frame *f = &s->frame[p.frame];

        if (p.frame <= SL_FRAME_LAST_BASE)
            s->ends = true;
        for (uint32_t i = 0; returns && i < f->n; i++)
            add(s, s->place[f->at + i].state, s->place[f->at + i].frame);
        return;
    }
    for (uint32_t i = a->first[p.state]; i < a->first[p.state + 1]; i++) {
        const struct sl_edge *e = &a->edge[i];

        if (e->kind == SL_EDGE_EMPTY || e->nullable)
            add(s, e->to, p.frame);
        if (e->kind == SL_EDGE_CALL)
            call(s, e, p.frame);
    }
}

/* All callers of the rule are known: enter it. */
static void enter(struct sl_sets *s, uint32_t rule)
{
    uint32_t n = 0, depth = 0, f;

    for (uint32_t k = s->head[rule]; k; k = s->caller_next[k - 1]) {
        s->sorted[n++] = s->caller[k - 1];
        depth = (uint32_t)sl_max(depth, s->frame[s->caller[k - 1].frame].depth);
    }
    n = sort_places(s->sorted, n);
    if (s->a->depth[s->a->start[rule]] + depth + 1 > SL_AUTOMATON_MAX_DEPTH) {
        s->cut = true;
        return;
    }
    f = frame_of(s, n, depth + 1);
    if (f)
        add(s, s->a->start[rule], f);
}

/* The number of the set that the places in work[] lead to. */
static uint32_t close_set(struct sl_sets *s)
{
    uint32_t i = 0, n = 0, n_word = s->a->n_rule / 64 + 1;

    for (; i < s->n_work && !s->failed; i++)
        visit(s, s->work[i], true);
    for (uint32_t w = 0; w < n_word; w++) {
        while (s->pending[w]) {
            uint32_t bit = (uint32_t)__builtin_ctzll(s->pending[w]);

            s->pending[w] &= s->pending[w] - 1;
            if (s->failed)
                continue;
            enter(s, s->a->at_rank[w * 64 + bit]);
            for (; i < s->n_work && !s->failed; i++)
                visit(s, s->work[i], false);
        }
    }
    if (s->failed)
        return SL_SET_DEAD;
    for (i = 0; i < s->n_work; i++)
        if (s->a->moves[s->work[i].state])
            s->sorted[n++] = s->work[i];
    if (n == 0 && !s->ends)
        return s->cut ? SL_SET_DEEP : SL_SET_DEAD;
    n = sort_places(s->sorted, n);
    i = set_of(s, n, s->ends,
               (uint16_t)(s->cut ? SL_AUTOMATON_MAX_DEPTH + 1 : s->need));
    return i ? i : SL_SET_DEAD;
}

/* ------------------------------------------------------------------- public */

static int take_work(struct sl_sets *s, struct sl_err *err)
{
    const char *what = "states of a grammar";
    const struct sl_automaton *a = s->a;
    int rc = sl_mem_alloc(&s->work, MAX_WORK, sizeof(*s->work), what, err);

    if (!rc)
        rc = sl_mem_alloc(&s->prev, MAX_WORK, sizeof(*s->prev), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->caller, MAX_WORK, sizeof(*s->caller), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->caller_next, MAX_WORK, sizeof(*s->caller_next),
                          what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->sorted, MAX_WORK, sizeof(*s->sorted), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->last, a->n_state, sizeof(*s->last), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->last_stamp, a->n_state, sizeof(*s->last_stamp),
                          what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->head, a->n_rule, sizeof(*s->head), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->head_stamp, a->n_rule, sizeof(*s->head_stamp),
                          what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->pending, a->n_rule / 64 + 1, sizeof(*s->pending),
                          what, err);
    return rc;
}

/* The sets and frames that always exist. */
static void put_fixed(struct sl_sets *s)
{
    for (uint32_t i = 0; i < FIRST_SET; i++)
        s->set[i] = (struct sl_set){0};
    for (uint32_t i = 0; i < FIRST_FRAME; i++)
        s->frame[i] = (struct sl_frame){0};
    s->n_set = FIRST_SET;
    s->n_frame = FIRST_FRAME;
    for (uint32_t c = 0; c < s->a->n_class; c++) {
        s->step[(size_t)SL_SET_DEAD * s->a->n_class + c].to = SL_SET_DEAD;
        s->step[(size_t)SL_SET_DEEP * s->a->n_class + c].to = SL_SET_DEEP;
    }
}

int sl_sets_init(struct sl_sets *s, const struct sl_automaton *a,
                 struct sl_err *err)
{
    int rc;

    *s = (struct sl_sets){.a = a};
    s->max_set = (uint32_t)sl_min(MAX_SETS, MAX_STEPS / a->n_class);
    s->max_live = s->max_set / 2;
    s->round = 1;
    rc = take_work(s, err);
    if (!rc && (!fit_sets(s, 64) ||
                !fit(s, &s->frame, 64, &s->cap_frame, MAX_FRAMES,
                     sizeof(*s->frame)) ||
                !fit_places(s, 256)))
        rc = sl_fail(err, SL_ENOMEM, "no memory is left for a grammar");
    if (!rc)
        rc = index_fit(s, &s->set_index, set_hash, 0, 0, err);
    if (!rc)
        rc = index_fit(s, &s->frame_index, frame_hash, 0, 0, err);
    if (rc)
        sl_sets_deinit(s);
    else
        put_fixed(s);
    return rc;
}

void sl_sets_deinit(struct sl_sets *s)
{
    sl_mem_free(s->place);
    sl_mem_free(s->set);
    sl_mem_free(s->frame);
    sl_mem_free(s->step);
    sl_mem_free(s->set_index.slot);
    sl_mem_free(s->frame_index.slot);
    sl_mem_free(s->work);
    sl_mem_free(s->prev);
    sl_mem_free(s->last);
    sl_mem_free(s->last_stamp);
    sl_mem_free(s->caller);
    sl_mem_free(s->caller_next);
    sl_mem_free(s->head);
    sl_mem_free(s->head_stamp);
    sl_mem_free(s->pending);
    sl_mem_free(s->sorted);
    *s = (struct sl_sets){0};
}

void sl_sets_begin(struct sl_sets *s)
{
    s->cost = (struct sl_cost){0};
    s->failed = 0;
    sl_sets_round(s);
}

void sl_sets_round(struct sl_sets *s)
{
    s->round++;
    if (s->round)
        return;
    for (size_t i = 0; i < (size_t)s->n_set * s->a->n_class; i++)
        s->step[i].round = 0;
    s->round = 1;
}

void sl_sets_pay(struct sl_sets *s, struct sl_cost c)
{
    /* Both summands are far below half of what the type holds. */
    s->cost.n_visit += c.n_visit;
    s->cost.n_live += c.n_live;
    if (s->cost.n_visit > MAX_VISITS || s->cost.n_live > s->max_live)
        fail(s, SL_EARG);
}

/* What the closing that has just ended took. */
static uint32_t paid(struct sl_sets *s, uint32_t set)
{
    sl_sets_pay(s, (struct sl_cost){s->n_visit, set > SL_SET_LAST_DEAD});
    return s->failed ? SL_SET_DEAD : set;
}

uint32_t sl_sets_first(struct sl_sets *s)
{
    open_set(s);
    add(s, s->a->start[s->a->root], SL_FRAME_TEXT);
    return paid(s, close_set(s));
}

static uint32_t compute(struct sl_sets *s, uint32_t set, uint32_t class)
{
    const struct sl_automaton *a = s->a;
    uint8_t byte = a->byte_of[class];
    uint32_t at = s->set[set].at, n = s->set[set].n;

    open_set(s);
    for (uint32_t i = at; i < at + n && !s->failed; i++) {
        struct sl_place p = s->place[i];

        count(s);
        for (uint32_t k = a->first[p.state]; k < a->first[p.state + 1]; k++) {
            const struct sl_edge *e = &a->edge[k];

            if (e->kind == SL_EDGE_BYTE && e->lo <= byte && byte <= e->hi)
                add(s, e->to, p.frame);
        }
    }
    return close_set(s);
}

uint32_t sl_sets_learn(struct sl_sets *s, uint32_t set, uint32_t class)
{
    size_t i = (size_t)set * s->a->n_class + class;
    uint32_t to;

    if (s->failed)
        return SL_SET_DEAD;
    if (!s->step[i].to) {
        to = compute(s, set, class);
        if (s->failed)
            return SL_SET_DEAD;
        s->step[i].to = to;
        s->step[i].n_visit = (uint16_t)s->n_visit;
    }
    to = s->step[i].to;
    s->step[i].round = s->round;
    sl_sets_pay(s, (struct sl_cost){s->step[i].n_visit, to > SL_SET_LAST_DEAD});
    return s->failed ? SL_SET_DEAD : to;
}

uint32_t sl_sets_token(struct sl_sets *s, uint32_t set, uint32_t token)
{
    const struct sl_automaton *a = s->a;
    uint32_t at = s->set[set].at, n = s->set[set].n;

    if (s->failed)
        return SL_SET_DEAD;
    open_set(s);
    for (uint32_t i = at; i < at + n; i++) {
        struct sl_place p = s->place[i];

        for (uint32_t k = a->first[p.state]; k < a->first[p.state + 1]; k++)
            if (a->edge[k].kind == SL_EDGE_TOKEN && a->edge[k].arg == token)
                add(s, a->edge[k].to, p.frame);
    }
    return paid(s, close_set(s));
}

uint32_t sl_sets_return(struct sl_sets *s, uint32_t frame)
{
    struct sl_frame f = s->frame[frame];

    if (s->failed)
        return SL_SET_DEAD;
    open_set(s);
    for (uint32_t i = 0; i < f.n; i++)
        add(s, s->place[f.at + i].state, s->place[f.at + i].frame);
    return paid(s, close_set(s));
}

uint32_t sl_sets_part(struct sl_sets *s, uint32_t set, uint32_t i, uint32_t n,
                      bool any)
{
    const struct sl_place *p = s->place + s->set[set].at + i;
    uint32_t out, need = 0;

    SL_ASSERT(i + n <= s->set[set].n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t frame = any ? SL_FRAME_ANY : p[k].frame;

        s->sorted[k] = (struct sl_place){frame, p[k].state};
        need = (uint32_t)sl_max(need, s->a->depth[p[k].state] +
                                          s->frame[frame].depth);
    }
    sl_sets_pay(s, (struct sl_cost){n, 1});
    out = set_of(s, n, false, (uint16_t)need);
    return out && !s->failed ? out : SL_SET_DEAD;
}

size_t sl_sets_bytes(const struct sl_sets *s)
{
    const struct sl_automaton *a = s->a;

    return s->cap_place * sizeof(*s->place) + s->cap_set * sizeof(*s->set) +
           (size_t)s->cap_set * a->n_class * sizeof(*s->step) +
           s->cap_frame * sizeof(*s->frame) +
           ((size_t)s->set_index.mask + s->frame_index.mask + 2) *
               sizeof(uint32_t) +
           MAX_WORK *
               (sizeof(*s->work) + sizeof(*s->prev) + sizeof(*s->caller) +
                sizeof(*s->caller_next) + sizeof(*s->sorted)) +
           (size_t)a->n_state * (sizeof(*s->last) + sizeof(*s->last_stamp)) +
           (size_t)a->n_rule * (sizeof(*s->head) + sizeof(*s->head_stamp));
}

bool sl_sets_is_crowded(const struct sl_sets *s)
{
    return s->failed || s->n_place > KEEP_PLACES || s->n_frame > KEEP_FRAMES ||
           s->n_set > s->max_set / 4;
}

/* What is kept, under its new numbers. */
static int copy_live(struct sl_sets *new, const struct sl_sets *s,
                     const bool *keep, uint32_t *frame_to, uint32_t *const *live,
                     size_t n, struct sl_err *err)
{
    for (uint32_t f = FIRST_FRAME; f < s->n_frame; f++) {
        const struct sl_frame *x = &s->frame[f];

        if (!keep[f])
            continue;
        for (uint32_t i = 0; i < x->n; i++) {
            new->sorted[i] = s->place[x->at + i];
            new->sorted[i].frame = frame_to[new->sorted[i].frame];
        }
        frame_to[f] = frame_of(new, x->n, x->depth);
    }
    for (size_t k = 0; k < n && !new->failed; k++) {
        const struct sl_set *x = &s->set[*live[k]];

        if (*live[k] <= SL_SET_LAST_DEAD)
            continue;
        for (uint32_t i = 0; i < x->n; i++) {
            new->sorted[i] = s->place[x->at + i];
            new->sorted[i].frame = frame_to[new->sorted[i].frame];
        }
        (void)set_of(new, x->n, x->ends, x->need);
    }
    return new->failed
               ? sl_fail(err, SL_ENOMEM, "no memory is left for a grammar")
               : 0;
}

static void renumber(const struct sl_sets *new, const struct sl_sets *s,
                     const uint32_t *frame_to, uint32_t *const *live, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const struct sl_set *x = &s->set[*live[k]];

        if (*live[k] <= SL_SET_LAST_DEAD)
            continue;
        for (uint32_t i = 0; i < x->n; i++) {
            new->sorted[i] = s->place[x->at + i];
            new->sorted[i].frame = frame_to[new->sorted[i].frame];
        }
        *live[k] = find_set(new, new->sorted, x->n, x->ends, x->need);
    }
}

int sl_sets_trim(struct sl_sets *s, uint32_t *const *live, size_t n,
                 struct sl_err *err)
{
    struct sl_sets new;
    uint32_t *frame_to = NULL;
    bool *keep = NULL;
    int rc = sl_sets_init(&new, s->a, err);

    if (rc)
        return rc;
    rc = sl_mem_alloc(&keep, s->n_frame, sizeof(*keep), "frames", err);
    if (!rc)
        rc = sl_mem_alloc(&frame_to, s->n_frame, sizeof(*frame_to), "frames",
                          err);
    if (!rc) {
        frame_to[SL_FRAME_ANY] = SL_FRAME_ANY;
        for (size_t k = 0; k < n; k++)
            for (uint32_t i = 0; i < s->set[*live[k]].n; i++)
                keep[s->place[s->set[*live[k]].at + i].frame] = true;
        for (uint32_t f = s->n_frame; f-- > FIRST_FRAME;)
            for (uint32_t i = 0; keep[f] && i < s->frame[f].n; i++)
                keep[s->place[s->frame[f].at + i].frame] = true;
        rc = copy_live(&new, s, keep, frame_to, live, n, err);
    }
    if (!rc)
        renumber(&new, s, frame_to, live, n);
    sl_mem_free(keep);
    sl_mem_free(frame_to);
    if (rc) {
        sl_sets_deinit(&new);
        return rc;
    }
    sl_sets_deinit(s);
    *s = new;
    return 0;
}
