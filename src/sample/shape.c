/* sample/shape.c - which tokens an answer of a given shape may go on with
 *
 * To know whether one token may follow is cheap: a step per byte. To know it of
 * all tokens is a walk over the trie, which is expensive where nearly
 * everything is allowed, inside of a string, say: a step per node, half a
 * million of them. Four things keep that rare:
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
 *   - Inside of a string all plain tokens (trie.h) lead to the same place, or,
 *     where characters are counted, to the same one for each number of
 *     characters. Once that is known of the characters it is known of the
 *     tokens, and only the others are walked, one in ten.
 *
 * The unknown caller could be deep inside of the text, where the limit on depth
 * forbids what it would allow; the walk notes how deep it looked, and near the
 * limit the mask is made by a walk from the place itself. So a mask says of
 * each token exactly what sl_matcher_allows says.
 *
 * A mask that takes too much work is refused. What counts as work is what
 * making it would take if nothing were kept: what is kept is charged for as
 * when it was made. So whether an answer is refused does not depend on others
 * before it (decisions D2 and D4).
 *
 * Memory of a shape, at most: 16 MB for the automaton, 40 MB for sets, 2 MB of
 * masks; a usual schema takes a tenth. When it is crowded, all but where the
 * matchers are is forgotten.
 */
#include "sample/shape.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "sample/sets.h"

#define N_MASK 64 /* masks kept; 31 KB each for 248,320 tokens; chosen */
#define CHEAP 4096 /* nodes of a walk that need not be remembered; chosen */

/* A kept mask. */
struct mask {
    uint32_t set;  /* 0: free */
    uint64_t *bit; /* [sl_mask_words] */
    const struct sl_nodes *nodes; /* that were walked */
    uint32_t *out; /* [n_out] nodes where the rule can end; unknown caller */
    uint32_t n_out, cap_out;
    uint32_t need; /* depth that was looked at */
    uint32_t n_walked; /* nodes */
    struct sl_cost cost;
    uint64_t used;
};

struct sl_shape {
    atomic_uint ref;
    atomic_size_t bytes; /* the using thread sets, any reads: a number alone */
    struct sl_automaton *a;
    struct sl_sets sets;
    const struct sl_trie *trie; /* borrowed */
    struct mask mask[N_MASK];
    uint64_t clock;
    uint64_t *whole;    /* the mask that was asked for last */
    uint32_t whole_set; /* its set; 0: none */
    struct sl_cost whole_cost;
    uint32_t *path; /* [SL_TRIE_MAX_DEPTH + 1] set before the byte of a depth */
    uint32_t first; /* where an answer begins */
    struct sl_matcher *matchers;
    uint32_t n_matcher;
};

struct sl_matcher {
    struct sl_shape *s;
    uint32_t set;
    int lost; /* a code: a step took too much, or there was no memory for it */
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
    sl_mem_free(s->whole);
    sl_mem_free(s);
}

static void count_bytes(struct sl_shape *s)
{
    size_t words = sl_mask_words(s->trie->n_vocab);
    size_t n = sizeof(*s) + sl_automaton_bytes(s->a) + sl_sets_bytes(&s->sets) +
               (SL_TRIE_MAX_DEPTH + 1) * sizeof(*s->path) +
               words * sizeof(*s->whole);

    for (int i = 0; i < N_MASK; i++)
        n += (s->mask[i].bit ? words * sizeof(*s->whole) : 0) +
             s->mask[i].cap_out * sizeof(*s->mask[i].out);
    atomic_store_explicit(&s->bytes, n, memory_order_relaxed);
}

size_t sl_shape_bytes(const struct sl_shape *s)
{
    return atomic_load_explicit(&s->bytes, memory_order_relaxed);
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
    if (!rc)
        rc = sl_mem_alloc(&s->whole, sl_mask_words(trie->n_vocab),
                          sizeof(*s->whole), "a mask", err);
    if (!rc) {
        s->first = sl_sets_first(&s->sets);
        if (s->sets.failed)
            rc = sl_fail(err, s->sets.failed,
                         "the shape of the answer can begin in too many ways; "
                         "make it simpler");
    }
    if (rc) {
        free_shape(s);
        return rc;
    }
    count_bytes(s);
    *out = s;
    return 0;
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

/* Make room if there is little left. Without memory to do it things go on as
 * they are. */
static void tidy(struct sl_shape *s)
{
    uint32_t **live = NULL, n = 0;

    if (!sl_sets_is_crowded(&s->sets) ||
        sl_mem_alloc(&live, s->n_matcher + 1, sizeof(*live), "a shape", NULL))
        return;
    live[n++] = &s->first;
    for (struct sl_matcher *m = s->matchers; m; m = m->next)
        live[n++] = &m->set;
    if (!sl_sets_trim(&s->sets, live, n, NULL)) {
        s->whole_set = 0;
        for (int i = 0; i < N_MASK; i++)
            s->mask[i].set = 0;
    }
    sl_mem_free(live);
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
    tidy(m->s); /* nothing of what one answer took is kept for ever */
    count_bytes(m->s);
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

/* Before an operation. */
static void begin(struct sl_matcher *m)
{
    enlist(m);
    tidy(m->s);
    sl_sets_begin(&m->s->sets);
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

/* After a failure every step is dead. */
static bool lives(struct sl_matcher *m, uint32_t set)
{
    if (m->s->sets.failed)
        m->lost = m->s->sets.failed;
    return set > SL_SET_LAST_DEAD;
}

bool sl_matcher_allows(struct sl_matcher *m, int32_t id)
{
    begin(m);
    return lives(m, step_id(m->s, m->set, id));
}

static bool move(struct sl_matcher *m, uint32_t set)
{
    if (!lives(m, set))
        return false;
    m->set = set;
    return true;
}

static int too_ambiguous(int code, struct sl_err *err)
{
    if (code == SL_ENOMEM)
        return sl_fail(err, SL_ENOMEM, "no memory is left for a grammar");
    return sl_fail(err, SL_EARG,
                   "the shape of the answer is too ambiguous to say what may "
                   "follow here; make it simpler");
}

int sl_matcher_check(const struct sl_matcher *m, struct sl_err *err)
{
    return m->lost ? too_ambiguous(m->lost, err) : 0;
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

uint32_t sl_matcher_n_fit(struct sl_matcher *m, const int32_t *ids, uint32_t n)
{
    uint32_t set, i;

    begin(m);
    set = m->set;
    for (i = 0; i < n; i++) {
        set = step_id(m->s, set, ids[i]);
        if (set <= SL_SET_LAST_DEAD)
            break;
    }
    return i;
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
            s->sets.failed = SL_ENOMEM;
            return;
        }
        m->cap_out = cap;
    }
    m->out[m->n_out++] = node;
}

/* The tokens of nodes from i to `end`, from `set` before the byte of node i.
 * With `outs` the nodes where the rule can end are noted there. */
static void walk(struct sl_shape *s, const struct sl_nodes *t, uint64_t *bit,
                 struct mask *outs, uint32_t i, uint32_t end, uint32_t set)
{
    struct sl_sets *x = &s->sets;

    if (i >= end || set <= SL_SET_LAST_DEAD)
        return;
    s->path[t->depth[i]] = set;
    while (i < end) {
        uint32_t d = t->depth[i];
        uint32_t to = sl_sets_step(x, s->path[d], t->byte[i]);
        const struct sl_set *at = &x->set[to];

        if (outs)
            outs->n_walked++;
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

/* ---- plain tokens */

/* Well-formed UTF-8 above ASCII: Unicode, table 3-7. */
static const struct form {
    uint8_t n;
    struct {
        uint8_t lo, hi;
    } byte[4];
} forms[] = {
    {2, {{0xc2, 0xdf}, {0x80, 0xbf}}},
    {3, {{0xe0, 0xe0}, {0xa0, 0xbf}, {0x80, 0xbf}}},
    {3, {{0xe1, 0xec}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {3, {{0xed, 0xed}, {0x80, 0x9f}, {0x80, 0xbf}}},
    {3, {{0xee, 0xef}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf0, 0xf0}, {0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf1, 0xf3}, {0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf4, 0xf4}, {0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}}},
};

/* Do all characters of the form lead from `set` to `to`? As deep as a form is
 * long. */
static bool form_leads(struct sl_shape *s, uint32_t set, const struct form *f,
                       uint32_t k, uint32_t to)
{
    uint32_t last = 0;

    if (k == f->n)
        return set == to;
    for (uint32_t b = f->byte[k].lo; b <= f->byte[k].hi; b++) {
        uint32_t next = sl_sets_step(&s->sets, set, (uint8_t)b);

        if (next != last && !form_leads(s, next, f, k + 1, to))
            return false;
        last = next;
    }
    return true;
}

/* Where every plain character leads from `set`; SL_SET_DEAD: none of them leads
 * anywhere; 0: it depends. */
static uint32_t find_plain(struct sl_shape *s, uint32_t set)
{
    uint32_t to = sl_sets_step(&s->sets, set, ' ');

    if (to == SL_SET_DEEP)
        to = 0;
    for (uint32_t c = ' '; to && c < 0x80; c++)
        if (sl_trie_is_plain((uint8_t)c) &&
            sl_sets_step(&s->sets, set, (uint8_t)c) != to)
            to = 0;
    for (size_t i = 0; to && i < SL_COUNTOF(forms); i++) {
        if (to != SL_SET_DEAD) {
            if (!form_leads(s, set, &forms[i], 0, to))
                to = 0;
            continue;
        }
        /* Dead must be dead at the first byte. */
        for (uint32_t b = forms[i].byte[0].lo; b <= forms[i].byte[0].hi; b++)
            if (sl_sets_step(&s->sets, set, (uint8_t)b) != SL_SET_DEAD)
                to = 0;
    }
    return to;
}

/* What has been spent since `before`. */
static struct sl_cost spent(const struct sl_shape *s, struct sl_cost before)
{
    return (struct sl_cost){s->sets.cost.n_visit - before.n_visit,
                            s->sets.cost.n_live - before.n_live};
}

/* The same, remembered. */
static uint32_t plain_next(struct sl_shape *s, uint32_t set)
{
    struct sl_cost before = s->sets.cost;
    uint32_t to;

    if (s->sets.set[set].plain) {
        sl_sets_pay(&s->sets, s->sets.set[set].plain_cost);
        return s->sets.set[set].plain - 1;
    }
    sl_sets_round(&s->sets);
    to = find_plain(s, set);
    if (s->sets.failed)
        return 0;
    s->sets.set[set].plain = to + 1;
    s->sets.set[set].plain_cost = spent(s, before);
    return to;
}

/* The plain tokens of a mask, if they can be told by their length: then only
 * the others have to be walked. */
static bool add_plain(struct sl_shape *s, struct mask *m, uint32_t set)
{
    const struct sl_trie *t = s->trie;
    uint32_t n = 0, need = m->need, at = set;

    while (n < SL_TRIE_PLAIN) {
        uint32_t to = plain_next(s, at);

        if (to == 0 || (to != SL_SET_DEAD && s->sets.set[to].ends))
            return false;
        if (to == SL_SET_DEAD)
            break;
        need = (uint32_t)sl_max(need, s->sets.set[to].need);
        n = to == at ? SL_TRIE_PLAIN : n + 1;
        at = to;
    }
    m->need = need;
    if (n == SL_TRIE_PLAIN) {
        for (size_t w = 0; w < sl_mask_words(t->n_vocab); w++)
            m->bit[w] |= t->plain_bit[w];
        return true;
    }
    for (uint32_t i = 0; i < t->n_plain[n]; i++)
        set_bit(m->bit, t->plain[i]);
    return true;
}

/* ---- masks that are kept */

/* A place for a mask, at the cost of a cheap one, or else of the one that was
 * used the longest time ago. */
static struct mask *new_mask(struct sl_shape *s, uint32_t set)
{
    size_t words = sl_mask_words(s->trie->n_vocab);
    struct mask *m = &s->mask[0];

    for (int i = 1; i < N_MASK && m->set; i++) {
        struct mask *x = &s->mask[i];
        bool cheap = x->n_walked < CHEAP, was = m->n_walked < CHEAP;

        if (!x->set || (cheap && !was) || (cheap == was && x->used < m->used))
            m = x;
    }
    if (m->set)
        s->sets.set[m->set].mask = 0;
    m->set = 0;
    if (!m->bit && sl_mem_alloc(&m->bit, words, sizeof(*m->bit), "a mask", NULL))
        return NULL;
    memset(m->bit, 0, words * sizeof(*m->bit));
    m->n_out = m->need = m->n_walked = 0;
    m->set = set;
    s->sets.set[set].mask = (uint32_t)(m - s->mask) + 1;
    return m;
}

static struct mask *make_mask(struct sl_shape *s, uint32_t set)
{
    struct sl_cost before = s->sets.cost;
    struct mask *m = new_mask(s, set);
    const struct sl_nodes *t;

    if (!m) {
        s->sets.failed = SL_ENOMEM;
        return NULL;
    }
    m->need = s->sets.set[set].need;
    t = add_plain(s, m, set) ? &s->trie->rest : &s->trie->all;
    m->nodes = t;
    sl_sets_round(&s->sets);
    walk(s, t, m->bit, m, 0, t->n, set);
    m->cost = spent(s, before);
    if (!s->sets.failed)
        return m;
    s->sets.set[set].mask = 0;
    m->set = 0;
    return NULL;
}

/* The mask of states whose caller is not known; NULL: too much work. */
static struct mask *any_mask(struct sl_shape *s, uint32_t set)
{
    uint32_t i = s->sets.set[set].mask;
    struct mask *m = i ? &s->mask[i - 1] : NULL;

    if (set <= SL_SET_LAST_DEAD)
        return NULL;
    if (m)
        sl_sets_pay(&s->sets, m->cost);
    else
        m = make_mask(s, set);
    if (m)
        m->used = ++s->clock;
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

    if (!m || s->sets.failed)
        return false;
    sl_sets_round(&s->sets);
    if (s->sets.frame[frame].depth + m->need > SL_AUTOMATON_MAX_DEPTH) {
        walk(s, &t->all, bit, NULL, 0, t->all.n,
             sl_sets_part(&s->sets, set, i, n, false));
        return !s->sets.failed;
    }
    for (size_t w = 0; w < sl_mask_words(t->n_vocab); w++)
        bit[w] |= m->bit[w];
    if (frame == SL_FRAME_TEXT || m->n_out == 0)
        return true;
    after = sl_sets_return(&s->sets, frame);
    for (uint32_t k = 0; k < m->n_out && !s->sets.failed; k++)
        walk(s, m->nodes, bit, NULL, m->out[k] + 1, m->nodes->end[m->out[k]],
             after);
    return !s->sets.failed;
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
    return !s->sets.failed;
}

int sl_matcher_mask(struct sl_matcher *mt, const uint64_t **out,
                    struct sl_err *err)
{
    struct sl_shape *s = mt->s;

    begin(mt);
    if (s->whole_set == mt->set) {
        sl_sets_pay(&s->sets, s->whole_cost);
    } else {
        memset(s->whole, 0,
               sl_mask_words(s->trie->n_vocab) * sizeof(*s->whole));
        s->whole_set = fill(s, s->whole, mt->set) ? mt->set : 0;
        s->whole_cost = s->sets.cost;
    }
    if (!s->whole_set)
        return too_ambiguous(s->sets.failed, err);
    *out = s->whole;
    return 0;
}

uint64_t sl_shape_work(const struct sl_shape *s)
{
    return s->sets.cost.n_visit;
}
