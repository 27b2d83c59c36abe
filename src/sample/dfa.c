/* sample/dfa.c - sets of texts that a finite automaton knows; see dfa.h
 *
 * A pattern becomes a grammar, that becomes an automaton (automaton.h), and its
 * sets of states become the states here: the usual construction (Rabin and
 * Scott 1959). It can grow exponentially, so states and work are limited. Two
 * automata are joined by running both (the product), where a state counts that
 * can still lead to an end in at least one of them.
 */
#include "sample/dfa.h"

#include "base/mem.h"
#include "sample/automaton.h"

#define START 1u

void sl_dfa_close(struct sl_dfa *d)
{
    sl_mem_free(d->to);
    sl_mem_free(d->ends);
    *d = (struct sl_dfa){0};
}

/* States are made one at a time; `cap` is of the one that is being built. */
struct work {
    struct sl_grammar *g;
    struct sl_dfa *d;
    uint32_t cap;
};

static uint32_t no_memory(struct sl_grammar *g)
{
    return sl_grammar_fail(g, SL_ENOMEM, "no memory for a pattern");
}

/* A new state, or 0 and a failure. */
static uint32_t new_state(struct work *w, bool ends)
{
    struct sl_dfa *d = w->d;

    if (w->g->failed || !sl_grammar_spend(w->g, 1))
        return 0;
    if (d->n == SL_DFA_MAX_STATES)
        return sl_grammar_fail(w->g, SL_EARG,
                               "patterns, lengths and names that have to hold "
                               "together need more than %u states; make them "
                               "simpler or shorter",
                               SL_DFA_MAX_STATES);
    if (d->n == w->cap) {
        uint32_t cap = w->cap ? w->cap * 2 : 64;

        if (sl_mem_resize(&d->to, cap, sizeof(*d->to), "a pattern", NULL) ||
            sl_mem_resize(&d->ends, cap, 1, "a pattern", NULL))
            return no_memory(w->g);
        w->cap = cap;
    }
    memset(d->to[d->n], 0, sizeof(*d->to));
    d->ends[d->n] = ends;
    return d->n++;
}

static bool begin(struct work *w, struct sl_dfa *out, struct sl_grammar *g)
{
    *out = (struct sl_dfa){0};
    *w = (struct work){.g = g, .d = out};
    (void)new_state(w, false); /* dead */
    return !g->failed;
}

static bool done(struct work *w)
{
    if (w->g->failed)
        sl_dfa_close(w->d);
    return !w->g->failed;
}

/* -------------------------------------------------- numbers of things by key
 */

/* Numbers from 1 on of byte strings of one length or more, by content. */
struct keys {
    uint32_t *slot; /* [mask + 1]; 0: empty */
    uint32_t mask;
    uint32_t *at; /* [number] into word; one more at the end */
    uint32_t *word;
    uint32_t n, n_word, cap, cap_word;
};

static uint32_t hash(const uint32_t *w, uint32_t n)
{
    uint64_t h = n;

    for (uint32_t i = 0; i < n; i++) {
        h = (h ^ w[i]) * 0xff51afd7ed558ccdu; /* of MurmurHash3 */
        h ^= h >> 32;
    }
    return (uint32_t)h;
}

static void free_keys(struct keys *k)
{
    sl_mem_free(k->slot);
    sl_mem_free(k->at);
    sl_mem_free(k->word);
}

static bool open_keys(struct keys *k)
{
    *k = (struct keys){.mask = SL_DFA_MAX_STATES * 4 - 1, .n = 1};
    return !sl_mem_alloc(&k->slot, (size_t)k->mask + 1, sizeof(*k->slot),
                         "a pattern", NULL) &&
           !sl_mem_alloc(&k->at, SL_DFA_MAX_STATES + 2, sizeof(*k->at),
                         "a pattern", NULL);
}

/* The number of a key; *is_new when it is the next one. 0: no memory. */
static uint32_t key(struct keys *k, const uint32_t *w, uint32_t n, bool *is_new)
{
    uint32_t h = hash(w, n), i;

    *is_new = false;
    for (; (i = k->slot[h & k->mask]) != 0; h++)
        if (k->at[i + 1] - k->at[i] == n &&
            !memcmp(k->word + k->at[i], w, n * sizeof(*w)))
            return i;
    if (k->n > SL_DFA_MAX_STATES)
        return 0; /* not reached: a state with that number has failed before */
    if (k->n_word + n > k->cap_word) {
        uint32_t cap = k->cap_word ? k->cap_word * 2 : 1024;

        while (cap < k->n_word + n)
            cap *= 2;
        if (sl_mem_resize(&k->word, cap, sizeof(*w), "a pattern", NULL))
            return 0;
        k->cap_word = cap;
    }
    memcpy(k->word + k->n_word, w, n * sizeof(*w));
    k->at[k->n] = k->n_word;
    k->n_word += n;
    k->at[k->n + 1] = k->n_word;
    k->slot[h & k->mask] = k->n;
    *is_new = true;
    return k->n++;
}

/* ----------------------------------------------------------------- patterns */

/* Sets of states of an automaton without calls. */
struct subset {
    struct work w;
    const struct sl_automaton *a;
    struct keys keys;
    uint32_t *list, *stamp; /* [n_state] */
    uint32_t n, round;
};

static void put(struct subset *x, uint32_t state)
{
    if (x->stamp[state] == x->round)
        return;
    x->stamp[state] = x->round;
    x->list[x->n++] = state;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* The state of the set in list[]. */
static uint32_t close_set(struct subset *x)
{
    bool ends = false, is_new;
    uint32_t i, m = 0;

    if (x->n == 0)
        return 0;
    for (i = 0; i < x->n; i++) {
        uint32_t s = x->list[i];

        for (uint32_t k = x->a->first[s]; k < x->a->first[s + 1]; k++)
            if (x->a->edge[k].kind == SL_EDGE_EMPTY)
                put(x, x->a->edge[k].to);
    }
    if (!sl_grammar_spend(x->w.g, x->n))
        return 0;
    for (i = 0; i < x->n; i++) {
        ends |= x->list[i] == SL_STATE_RETURN;
        if (x->list[i] == SL_STATE_RETURN || x->a->moves[x->list[i]])
            x->list[m++] = x->list[i];
    }
    if (m == 0)
        return 0;
    qsort(x->list, m, sizeof(*x->list), by_number);
    i = key(&x->keys, x->list, m, &is_new);
    if (!i)
        return no_memory(x->w.g);
    return is_new ? new_state(&x->w, ends) : i;
}

static uint32_t step(struct subset *x, uint32_t from, uint8_t byte)
{
    const struct sl_automaton *a = x->a;

    x->n = 0;
    x->round++;
    for (uint32_t i = x->keys.at[from]; i < x->keys.at[from + 1]; i++) {
        uint32_t s = x->keys.word[i];

        for (uint32_t k = a->first[s]; k < a->first[s + 1]; k++) {
            const struct sl_edge *e = &a->edge[k];

            if (e->kind == SL_EDGE_BYTE && e->lo <= byte && byte <= e->hi)
                put(x, e->to);
        }
    }
    return close_set(x);
}

static void subsets(struct subset *x)
{
    const struct sl_automaton *a = x->a;

    x->round = 1;
    put(x, a->start[a->root]);
    (void)close_set(x);
    for (uint32_t s = START; s < x->w.d->n && !x->w.g->failed; s++) {
        uint32_t to[256];

        for (uint32_t c = 0; c < a->n_class && !x->w.g->failed; c++)
            to[c] = step(x, s, a->byte_of[c]);
        for (int b = 0; b < 256 && !x->w.g->failed; b++)
            x->w.d->to[s][b] = (uint16_t)to[a->class_of[b]];
    }
}

static struct sl_automaton *compile(struct sl_grammar *g, const char *s,
                                    size_t len, enum sl_regex_what what)
{
    struct sl_automaton *a = NULL;
    struct sl_grammar own;
    struct sl_err err = {0};
    uint32_t r;

    sl_grammar_init(&own);
    r = sl_grammar_rule(&own, "pattern", 7);
    sl_grammar_define(&own, r, sl_regex_node(&own, s, len, what, SL_REGEX_RAW));
    if (sl_automaton_open(&a, &own, &err))
        sl_grammar_fail(g, err.code, "%s", err.msg);
    sl_grammar_deinit(&own);
    return a;
}

bool sl_dfa_regex(struct sl_dfa *out, struct sl_grammar *g, const char *s,
                  size_t len, enum sl_regex_what what)
{
    struct sl_automaton *a = compile(g, s, len, what);
    struct subset x = {.a = a};

    if (!begin(&x.w, out, g) || !a)
        goto out;
    if (!open_keys(&x.keys) ||
        sl_mem_alloc(&x.list, a->n_state, sizeof(*x.list), "a pattern", NULL) ||
        sl_mem_alloc(&x.stamp, a->n_state, sizeof(*x.stamp), "a pattern", NULL))
        no_memory(g);
    else
        subsets(&x);
    sl_mem_free(x.list);
    sl_mem_free(x.stamp);
    free_keys(&x.keys);
out:
    sl_automaton_close(&a);
    return done(&x.w);
}

/* --------------------------------------------------------- lengths and names
 */

/* From state s by the bytes of one character to `next`. Unicode, table 3-7. */
static void character(struct work *w, uint32_t s, uint32_t next)
{
    static const struct {
        uint8_t lo, hi, lo_2, hi_2, more;
    } form[] = {
        {0xc2, 0xdf, 0, 0, 1},       {0xe0, 0xe0, 0xa0, 0xbf, 1},
        {0xe1, 0xec, 0x80, 0xbf, 1}, {0xed, 0xed, 0x80, 0x9f, 1},
        {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2},
        {0xf1, 0xf3, 0x80, 0xbf, 2}, {0xf4, 0xf4, 0x80, 0x8f, 2},
    };
    uint32_t tail[3] = {next}, at;

    for (uint32_t i = 1; i < 3; i++) {
        tail[i] = new_state(w, false);
        for (int b = 0x80; b <= 0xbf && !w->g->failed; b++)
            w->d->to[tail[i]][b] = (uint16_t)tail[i - 1];
    }
    for (int b = 0; b < 0x80 && !w->g->failed; b++)
        w->d->to[s][b] = (uint16_t)next;
    for (size_t i = 0; i < SL_COUNTOF(form) && !w->g->failed; i++) {
        at = tail[form[i].more];
        if (form[i].lo_2) {
            at = new_state(w, false);
            for (int b = form[i].lo_2; b <= form[i].hi_2 && at; b++)
                w->d->to[at][b] = (uint16_t)tail[form[i].more];
        }
        for (int b = form[i].lo; b <= form[i].hi && !w->g->failed; b++)
            w->d->to[s][b] = (uint16_t)at;
    }
}

bool sl_dfa_any(struct sl_dfa *out, struct sl_grammar *g)
{
    struct work w;

    if (begin(&w, out, g) && new_state(&w, true))
        character(&w, START, START);
    return done(&w);
}

bool sl_dfa_names(struct sl_dfa *out, struct sl_grammar *g,
                  const char *const *name, size_t n)
{
    struct work w;

    if (begin(&w, out, g))
        (void)new_state(&w, false);
    for (size_t i = 0; i < n && !g->failed; i++) {
        uint32_t s = START;

        for (const char *c = name[i]; *c && !g->failed; c++) {
            uint32_t next = out->to[s][(uint8_t)*c];

            if (!next) {
                next = new_state(&w, false);
                if (next)
                    out->to[s][(uint8_t)*c] = (uint16_t)next;
            }
            s = next;
        }
        if (!g->failed)
            out->ends[s] = true;
    }
    return done(&w);
}

bool sl_dfa_has(const struct sl_dfa *d, const char *s, size_t len)
{
    uint32_t at = START;

    for (size_t i = 0; i < len; i++)
        at = d->to[at][(uint8_t)s[i]];
    return d->ends[at];
}

/* ------------------------------------------------------------------ product */

/* Of two automata, or of one and a count of characters. */
struct product {
    struct work w;
    const struct sl_dfa *a, *b; /* b is NULL for a count */
    enum sl_dfa_op op;
    uint32_t lo, hi;
    struct keys keys;
};

static bool is_dead(const struct product *x, uint32_t i, uint32_t k)
{
    if (!x->b)
        return !i || k > x->hi;
    if (x->op == SL_DFA_AND)
        return !i || !k;
    return !i && (!k || x->op == SL_DFA_AND_NOT);
}

static bool does_end(const struct product *x, uint32_t i, uint32_t k)
{
    if (!x->b)
        return x->a->ends[i] && k >= x->lo;
    if (x->op == SL_DFA_OR)
        return x->a->ends[i] || x->b->ends[k];
    return x->a->ends[i] && x->b->ends[k] == (x->op == SL_DFA_AND);
}

static uint32_t pair(struct product *x, uint32_t i, uint32_t k)
{
    uint32_t w[2] = {i, k}, s;
    bool is_new;

    if (is_dead(x, i, k))
        return 0;
    s = key(&x->keys, w, 2, &is_new);
    if (!s)
        return no_memory(x->w.g);
    return is_new ? new_state(&x->w, does_end(x, i, k)) : s;
}

/* A byte that begins a character counts; above lo only as far as hi does. */
static uint32_t next_count(const struct product *x, uint32_t c, int byte)
{
    if ((byte & 0xc0) == 0x80 || (x->hi == SL_GRAMMAR_MANY && c == x->lo))
        return c;
    return c + 1;
}

static void run(struct product *x, uint32_t k0)
{
    struct sl_grammar *g = x->w.g;
    struct sl_dfa *out = x->w.d;

    (void)pair(x, START, k0);
    for (uint32_t s = START; s < out->n && !g->failed; s++) {
        uint32_t i = x->keys.word[x->keys.at[s]], old_i = 0, old_k = 0, to = 0;
        uint32_t k = x->keys.word[x->keys.at[s] + 1];

        for (int c = 0; c < 256 && !g->failed; c++) {
            uint32_t ni = x->a->to[i][c];
            uint32_t nk = x->b ? x->b->to[k][c] : next_count(x, k, c);

            if (c == 0 || ni != old_i || nk != old_k)
                to = pair(x, ni, nk);
            old_i = ni;
            old_k = nk;
            if (!g->failed)
                out->to[s][c] = (uint16_t)to;
        }
    }
}

static bool product(struct product *x, struct sl_dfa *out, struct sl_grammar *g,
                    uint32_t k0)
{
    if (!begin(&x->w, out, g))
        return done(&x->w);
    if (open_keys(&x->keys))
        run(x, k0);
    else
        no_memory(g);
    free_keys(&x->keys);
    return done(&x->w);
}

bool sl_dfa_join(struct sl_dfa *out, struct sl_grammar *g,
                 const struct sl_dfa *a, const struct sl_dfa *b,
                 enum sl_dfa_op op)
{
    return product(&(struct product){.a = a, .b = b, .op = op}, out, g, START);
}

bool sl_dfa_count(struct sl_dfa *out, struct sl_grammar *g,
                  const struct sl_dfa *a, uint32_t lo, uint32_t hi)
{
    return product(&(struct product){.a = a, .lo = lo, .hi = hi}, out, g, 0);
}

/* --------------------------------------------------------------- as a node */

/* Which states can still lead to an end; by passes, each from the last state
 * down, of which few are needed, since states mostly lead upwards. */
static void find_live(struct sl_grammar *g, const struct sl_dfa *d, bool *live)
{
    bool more = true;

    while (more && sl_grammar_spend(g, d->n)) {
        more = false;
        for (uint32_t s = d->n; s-- > START;) {
            bool is = d->ends[s];

            for (int b = 0; b < 256 && !is && !live[s]; b++)
                is = live[d->to[s][b]];
            if (is && !live[s])
                live[s] = more = true;
        }
    }
}

bool sl_dfa_is_empty(struct sl_grammar *g, const struct sl_dfa *d)
{
    bool *live = NULL, any = false;

    if (g->failed || d->n <= START)
        return true;
    if (sl_mem_alloc(&live, d->n, sizeof(*live), "a pattern", NULL)) {
        no_memory(g);
        return true;
    }
    find_live(g, d, live);
    any = live[START];
    sl_mem_free(live);
    return !any;
}

static void arcs(struct sl_grammar *g, uint32_t m, const struct sl_dfa *d,
                 const bool *live, uint32_t s, enum sl_regex_write how)
{
    for (uint32_t b = 0, k; b < 256 && !g->failed; b = k) {
        uint32_t to = d->to[s][b];
        struct sl_range one = {b, b};
        struct sl_arc arc = {.from = s - START, .to = to - START};
        bool special = how == SL_REGEX_JSON && sl_regex_is_escaped(b);

        for (k = b + 1; k < 256 && d->to[s][k] == to && !special &&
                        !(how == SL_REGEX_JSON && sl_regex_is_escaped(k));)
            k++;
        if (!to || !live[to] || (special && b == 0))
            continue;
        arc.lo = (uint8_t)b;
        arc.hi = (uint8_t)(k - 1);
        if (special)
            arc.node = sl_regex_set(g, &one, 1, how);
        sl_grammar_arc(g, m, arc);
    }
    if (d->ends[s])
        sl_grammar_arc(
            g, m,
            (struct sl_arc){.from = s - START, .to = d->n - START, .lo = 1});
}

uint32_t sl_dfa_node(struct sl_grammar *g, const struct sl_dfa *d,
                     enum sl_regex_write how)
{
    bool *live = NULL;
    uint32_t m;

    if (g->failed)
        return 0;
    if (sl_mem_alloc(&live, d->n, sizeof(*live), "a pattern", NULL))
        return no_memory(g);
    find_live(g, d, live);
    m = sl_grammar_machine(g, d->n - START);
    for (uint32_t s = START; s < d->n && !g->failed; s++)
        if (live[s])
            arcs(g, m, d, live, s, how);
    sl_mem_free(live);
    return m;
}
