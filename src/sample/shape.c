/* sample/shape.c - which tokens an answer of a given shape may go on with
 *
 * To know whether one token may follow is cheap: a step per byte. To know it of
 * all tokens is a walk over the trie, which is expensive where nearly
 * everything is allowed, inside of a string, say: a step per node, half a
 * million of them. Three things keep that rare:
 *
 *   - Steps are looked up (sets.h).
 *   - Masks are kept for the situation (a set of places), and found by number.
 *   - Most of a mask does not depend on what encloses the place: the inside of
 *     a string looks the same in each field of each object. So a walk is made
 *     with an unknown caller (SL_FRAME_ANY) and kept for the states alone. It
 *     gives the tokens that stay within the rule, and the nodes where the rule
 *     can end. Only what lies below these depends on the caller, and is walked
 *     again from there. (The idea of context-independent tokens: Dong et al.,
 *     "XGrammar", 2024.)
 *
 * The unknown caller could be deep inside of the text, where the limit on depth
 * forbids what it would allow; the walk notes how deep it looked, and near the
 * limit the mask is made by a walk from the place itself. So a mask says of
 * each token exactly what sl_matcher_allows says.
 *
 * Memory of a shape: 16 MB for the automaton, 27 MB for sets, 2 MB of masks at
 * most; a usual schema takes a tenth. When it is crowded, all but where the
 * matchers are is forgotten.
 */
#include "sample/shape.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "sample/sets.h"

#define N_MASK 64 /* masks kept; 31 KB each for 248,320 tokens; chosen */

/* A kept mask. */
struct mask {
    uint32_t set;  /* 0: free */
    uint64_t *bit; /* [sl_mask_words] */
    uint32_t *out; /* [n_out] nodes where the rule can end; unknown caller */
    uint32_t n_out, cap_out;
    uint32_t need; /* depth that was looked at */
};

struct sl_shape {
    atomic_uint ref;
    struct sl_automaton *a;
    struct sl_sets sets;
    const struct sl_trie *trie; /* borrowed */
    struct mask mask[N_MASK];
    uint32_t victim;
    const struct mask *busy; /* is being made from others, or NULL */
    uint32_t *path; /* [SL_TRIE_MAX_DEPTH + 1] set before the byte of a depth */
    uint32_t first; /* where an answer begins */
    struct sl_matcher *matchers;
    uint32_t n_matcher;
};

struct sl_matcher {
    struct sl_shape *s;
    uint32_t set;
    struct sl_matcher *next, **back; /* of the shape's list */
};

static void free_shape(struct sl_shape *s)
{
    if (!s)
        return;
    sl_sets_deinit(&s->sets);
    sl_automaton_close(&s->a);
    for (int i = 0; i < N_MASK; i++) {
        sl_mem_free(s->mask[i].bit);
        sl_mem_free(s->mask[i].out);
    }
    sl_mem_free(s->path);
    sl_mem_free(s);
}

int sl_shape_open(struct sl_shape **out, const struct sl_grammar *g,
                  const struct sl_trie *trie, struct sl_err *err)
{
    struct sl_shape *s = NULL;
    int rc = sl_mem_alloc(&s, 1, sizeof(*s), "a shape", err);

    if (rc)
        return rc;
    atomic_init(&s->ref, 1);
    s->trie = trie;
    rc = sl_automaton_open(&s->a, g, err);
    if (!rc)
        rc = sl_sets_init(&s->sets, s->a, err);
    if (!rc)
        rc = sl_mem_alloc(&s->path, SL_TRIE_MAX_DEPTH + 1, sizeof(*s->path),
                          "a shape", err);
    if (!rc) {
        s->first = sl_sets_first(&s->sets);
        if (s->sets.full)
            rc = sl_fail(err, SL_EARG,
                         "the shape of the answer can begin in too many ways; "
                         "make it simpler");
    }
    if (rc)
        free_shape(s);
    else
        *out = s;
    return rc;
}

struct sl_shape *sl_shape_acquire(struct sl_shape *s)
{
    /* Whoever acquires has a reference already, so nothing is ordered. */
    atomic_fetch_add_explicit(&s->ref, 1, memory_order_relaxed);
    return s;
}

void sl_shape_close(struct sl_shape **ps)
{
    struct sl_shape *s = *ps;

    *ps = NULL;
    /* The last one must see what the others did: pairs with itself. */
    if (s && atomic_fetch_sub_explicit(&s->ref, 1, memory_order_acq_rel) == 1)
        free_shape(s);
}

/* ----------------------------------------------------------------- matchers */

int sl_matcher_open(struct sl_matcher **out, struct sl_shape *s,
                    struct sl_err *err)
{
    struct sl_matcher *m = NULL;
    int rc = sl_mem_alloc(&m, 1, sizeof(*m), "a shape", err);

    if (rc)
        return rc;
    m->s = sl_shape_acquire(s);
    *out = m;
    return 0;
}

void sl_matcher_stop(struct sl_matcher *m)
{
    if (!m->back)
        return;
    *m->back = m->next;
    if (m->next)
        m->next->back = m->back;
    m->back = NULL;
    m->s->n_matcher--;
}

void sl_matcher_close(struct sl_matcher **pm)
{
    struct sl_matcher *m = *pm;

    if (!m)
        return;
    *pm = NULL;
    sl_matcher_stop(m);
    sl_shape_close(&m->s);
    sl_mem_free(m);
}

/* Before each use: from the first one on it is in the list of those whose sets
 * are kept. */
static void enlist(struct sl_matcher *m)
{
    struct sl_shape *s = m->s;

    if (m->back)
        return;
    m->set = s->first;
    m->next = s->matchers;
    m->back = &s->matchers;
    if (m->next)
        m->next->back = &m->next;
    s->matchers = m;
    s->n_matcher++;
}

/* Before an operation: make room if there is little left. Without memory to do
 * it things go on as they are. */
static void begin(struct sl_matcher *mt)
{
    struct sl_shape *s = mt->s;
    uint32_t **live = NULL, n = 0;

    enlist(mt);
    sl_sets_begin(&s->sets);
    if (!sl_sets_is_crowded(&s->sets) ||
        sl_mem_alloc(&live, s->n_matcher + 1, sizeof(*live), "a shape", NULL))
        return;
    live[n++] = &s->first;
    for (struct sl_matcher *m = s->matchers; m; m = m->next)
        live[n++] = &m->set;
    if (!sl_sets_trim(&s->sets, live, n, NULL))
        for (int i = 0; i < N_MASK; i++)
            s->mask[i].set = 0;
    sl_mem_free(live);
}

static uint32_t step_text(struct sl_shape *s, uint32_t set, const char *p,
                          size_t len)
{
    for (size_t i = 0; i < len && set > SL_SET_LAST_DEAD; i++)
        set = sl_sets_step(&s->sets, set, (uint8_t)p[i]);
    return set;
}

static uint32_t step_id(struct sl_shape *s, uint32_t set, int32_t id)
{
    const struct sl_trie *t = s->trie;

    for (uint32_t k = 0; k < s->a->n_token; k++)
        if (s->a->token[k] == id)
            return sl_sets_token(&s->sets, set, k);
    if (id < 0 || (uint32_t)id >= t->n_vocab || !t->text[id])
        return SL_SET_DEAD;
    return step_text(s, set, t->text[id], t->len[id]);
}

bool sl_matcher_allows(struct sl_matcher *m, int32_t id)
{
    begin(m);
    return step_id(m->s, m->set, id) > SL_SET_LAST_DEAD;
}

static bool move(struct sl_matcher *m, uint32_t set)
{
    if (set <= SL_SET_LAST_DEAD)
        return false;
    m->set = set;
    return true;
}

bool sl_matcher_push(struct sl_matcher *m, int32_t id)
{
    begin(m);
    return move(m, step_id(m->s, m->set, id));
}

bool sl_matcher_push_text(struct sl_matcher *m, const char *p, size_t len)
{
    begin(m);
    return move(m, step_text(m->s, m->set, p, len));
}

bool sl_matcher_can_end(struct sl_matcher *m)
{
    enlist(m);
    return m->s->sets.set[m->set].ends;
}

bool sl_matcher_is_done(struct sl_matcher *m)
{
    const struct sl_set *x;

    enlist(m);
    x = &m->s->sets.set[m->set];
    return x->ends && x->n == 0;
}

uint32_t sl_matcher_mark(struct sl_matcher *m)
{
    enlist(m);
    return m->set;
}

void sl_matcher_rewind(struct sl_matcher *m, uint32_t mark)
{
    m->set = mark;
}

/* -------------------------------------------------------------------- masks */

static void set_bit(uint64_t *bit, int32_t id)
{
    bit[id / 64] |= 1ull << id % 64;
}

static void add_out(struct sl_shape *s, struct mask *m, uint32_t node)
{
    if (m->n_out == m->cap_out) {
        uint32_t cap = m->cap_out ? m->cap_out * 2 : 256;

        if (sl_mem_resize(&m->out, cap, sizeof(*m->out), "a mask", NULL)) {
            s->sets.full = true;
            return;
        }
        m->cap_out = cap;
    }
    m->out[m->n_out++] = node;
}

/* The tokens of nodes from i to `end`, from `set` before the byte of node i.
 * With `outs` the nodes where the rule can end are noted there. */
static void walk(struct sl_shape *s, uint64_t *bit, struct mask *outs,
                 uint32_t i, uint32_t end, uint32_t set)
{
    const struct sl_trie *t = s->trie;
    struct sl_sets *x = &s->sets;

    if (i >= end || set <= SL_SET_LAST_DEAD)
        return;
    s->path[t->depth[i]] = set;
    while (i < end) {
        uint32_t d = t->depth[i];
        uint32_t to = sl_sets_step(x, s->path[d], t->byte[i]);
        const struct sl_set *at = &x->set[to];

        if (outs && to == SL_SET_DEEP)
            outs->need = SL_AUTOMATON_MAX_DEPTH + 1;
        if (to <= SL_SET_LAST_DEAD) {
            i = t->end[i];
            continue;
        }
        if (t->id[i] >= 0)
            set_bit(bit, t->id[i]);
        if (outs && at->need > outs->need)
            outs->need = at->need;
        if (outs && at->ends && t->end[i] > i + 1)
            add_out(s, outs, i);
        s->path[d + 1] = to;
        i = at->n ? i + 1 : t->end[i];
    }
}

/* A place for a mask, at the cost of the oldest one but `busy`. */
static struct mask *new_mask(struct sl_shape *s, uint32_t set)
{
    size_t words = sl_mask_words(s->trie->n_vocab);
    struct mask *m;

    if (&s->mask[s->victim] == s->busy)
        s->victim = (s->victim + 1) % N_MASK;
    m = &s->mask[s->victim];
    s->victim = (s->victim + 1) % N_MASK;
    if (m->set)
        s->sets.set[m->set].mask = 0;
    m->set = 0;
    if (!m->bit && sl_mem_alloc(&m->bit, words, sizeof(*m->bit), "a mask", NULL))
        return NULL;
    memset(m->bit, 0, words * sizeof(*m->bit));
    m->n_out = m->need = 0;
    m->set = set;
    s->sets.set[set].mask = (uint32_t)(m - s->mask) + 1;
    return m;
}

static struct mask *kept(struct sl_shape *s, uint32_t set)
{
    uint32_t i = s->sets.set[set].mask;

    return i ? &s->mask[i - 1] : NULL;
}

static void forget(struct sl_shape *s, struct mask *m)
{
    s->sets.set[m->set].mask = 0;
    m->set = 0;
}

/* The mask of states whose caller is not known. */
static struct mask *any_mask(struct sl_shape *s, uint32_t set)
{
    struct mask *m = kept(s, set);

    if (m || set <= SL_SET_LAST_DEAD)
        return m;
    m = new_mask(s, set);
    if (!m)
        return NULL;
    m->need = s->sets.set[set].need;
    walk(s, m->bit, m, 0, s->trie->n, set);
    if (s->sets.full) {
        forget(s, m);
        return NULL;
    }
    return m;
}

/* Add to `bit` what the n places from the i-th on allow, which share a frame.
 * False: too much work. */
static bool add_group(struct sl_shape *s, uint64_t *bit, uint32_t set,
                      uint32_t i, uint32_t n)
{
    uint32_t frame = s->sets.place[s->sets.set[set].at + i].frame, after;
    const struct sl_trie *t = s->trie;
    struct mask *m = any_mask(s, sl_sets_part(&s->sets, set, i, n, true));

    if (!m)
        return false;
    if (s->sets.frame[frame].depth + m->need > SL_AUTOMATON_MAX_DEPTH) {
        walk(s, bit, NULL, 0, t->n, sl_sets_part(&s->sets, set, i, n, false));
        return !s->sets.full;
    }
    for (size_t w = 0; w < sl_mask_words(t->n_vocab); w++)
        bit[w] |= m->bit[w];
    if (frame == SL_FRAME_TEXT || m->n_out == 0)
        return true;
    after = sl_sets_return(&s->sets, frame);
    for (uint32_t k = 0; k < m->n_out && !s->sets.full; k++)
        walk(s, bit, NULL, m->out[k] + 1, t->end[m->out[k]], after);
    return !s->sets.full;
}

static bool fill(struct sl_shape *s, uint64_t *bit, uint32_t set)
{
    uint32_t n = s->sets.set[set].n;

    for (uint32_t i = 0, k; i < n; i = k) {
        uint32_t at = s->sets.set[set].at;

        for (k = i + 1; k < n && s->sets.place[at + k].frame ==
                                     s->sets.place[at + i].frame;)
            k++;
        if (!add_group(s, bit, set, i, k - i))
            return false;
    }
    for (uint32_t k = 0; k < s->a->n_token; k++)
        if ((uint32_t)s->a->token[k] < s->trie->n_vocab &&
            sl_sets_token(&s->sets, set, k) > SL_SET_LAST_DEAD)
            set_bit(bit, s->a->token[k]);
    return !s->sets.full;
}

int sl_matcher_mask(struct sl_matcher *mt, const uint64_t **out,
                    struct sl_err *err)
{
    struct sl_shape *s = mt->s;
    struct mask *m;

    begin(mt);
    m = kept(s, mt->set);
    if (!m) {
        m = new_mask(s, mt->set);
        s->busy = m;
        if (m && !fill(s, m->bit, mt->set)) {
            forget(s, m);
            m = NULL;
        }
        s->busy = NULL;
    }
    if (!m)
        return sl_fail(err, SL_EARG,
                       "the shape of the answer is too ambiguous to say what "
                       "may follow here; make it simpler");
    *out = m->bit;
    return 0;
}
