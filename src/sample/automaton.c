/* sample/automaton.c - a compiled grammar
 *
 * A rule becomes states and edges backwards: build(node, next) makes what
 * matches the node and goes on to `next`, and returns where that begins. So a
 * call in the last place goes to SL_STATE_RETURN directly, which is how the
 * matcher sees that nothing need be remembered for it.
 *
 * Characters become bytes here (the usual splitting of ranges by the length of
 * UTF-8 and by common first bytes), so that the matcher and the masks know
 * bytes only, and a token may end inside of a character.
 *
 * Then four facts are worked out, each by one pass over reversed edges or by
 * one depth-first walk, so in linear time whatever the grammar is:
 *
 *   nullable  which rules also match nothing. A call of such a rule counts as
 *             an empty edge, too, so that the matcher never returns from a rule
 *             that it has just entered.
 *   depth     how many calls in each other a state needs at least to reach the
 *             end of its rule (Knuth, "A generalization of Dijkstra's
 *             algorithm", 1977). With a limit on depth, a matcher that keeps to
 *             it always has a way to the end: there are no dead ends.
 *   rank      the order in which rules call each other before the first byte.
 *             A circle is left recursion and refused.
 *   classes   bytes that no edge tells apart.
 */
#include "sample/automaton.h"

#include "base/mem.h"

#define NO_DEPTH UINT16_MAX
/* Calls of build: bounds repetitions of nothing, which make no states. */
#define MAX_STEPS (1u << 20)

struct wire {
    uint32_t from;
    struct sl_edge e;
};

struct job {
    const struct sl_grammar *g;
    struct sl_automaton *a;
    struct wire *wire; /* [n_wire] in the order they were made */
    uint32_t n_wire, cap_wire;
    uint32_t n_step;
    uint32_t *rev_first, *rev; /* edges by target; a call is listed under the
                                  state it returns to and under its rule's */
    uint32_t *stack;           /* [n_state + n_edge] work space */
    int failed;
    struct sl_err *err;
};

/* ------------------------------------------------------------ making states */

static int too_large(struct job *j)
{
    if (!j->failed)
        j->failed = sl_fail(j->err, SL_EARG,
                            "the shape of the answer needs more than %u "
                            "states; shorten its repetitions or lengths",
                            SL_AUTOMATON_MAX_STATES);
    return j->failed;
}

static uint32_t new_state(struct job *j)
{
    if (j->failed)
        return 0;
    if (j->a->n_state == SL_AUTOMATON_MAX_STATES) {
        too_large(j);
        return 0;
    }
    return j->a->n_state++;
}

static void wire(struct job *j, uint32_t from, struct sl_edge e)
{
    if (j->failed)
        return;
    if (j->n_wire == j->cap_wire) {
        uint32_t cap = j->cap_wire ? j->cap_wire * 2 : 256;

        if (j->n_wire == SL_AUTOMATON_MAX_EDGES) {
            too_large(j);
            return;
        }
        j->failed =
            sl_mem_resize(&j->wire, cap, sizeof(*j->wire), "a grammar", j->err);
        if (j->failed)
            return;
        j->cap_wire = cap;
    }
    j->wire[j->n_wire++] = (struct wire){from, e};
}

static void wire_bytes(struct job *j, uint32_t from, uint32_t lo, uint32_t hi,
                       uint32_t to)
{
    wire(j, from,
         (struct sl_edge){.kind = SL_EDGE_BYTE,
                          .lo = (uint8_t)lo,
                          .hi = (uint8_t)hi,
                          .to = to});
}

static void wire_empty(struct job *j, uint32_t from, uint32_t to)
{
    wire(j, from, (struct sl_edge){.kind = SL_EDGE_EMPTY, .to = to});
}

/* Continuation bytes up to `next`; tail[m] reads m of them. */
struct tails {
    uint32_t state[4];
    bool has[4];
};

static uint32_t tail(struct job *j, struct tails *t, uint32_t m)
{
    for (uint32_t i = 1; i <= m; i++) {
        if (t->has[i])
            continue;
        t->state[i] = new_state(j);
        t->has[i] = true;
        wire_bytes(j, t->state[i], 0x80, 0xbf, t->state[i - 1]);
    }
    return t->state[m];
}

static bool all_are(const unsigned char *p, uint32_t n, unsigned char v)
{
    for (uint32_t i = 0; i < n; i++)
        if (p[i] != v)
            return false;
    return true;
}

/* Byte strings from lo to hi, n bytes each, from state `from`. At most four
 * levels of recursion. */
static void split(struct job *j, struct tails *t, uint32_t from,
                  const unsigned char *lo, const unsigned char *hi, uint32_t n)
{
    static const unsigned char least[4] = {0x80, 0x80, 0x80, 0x80},
                               most[4] = {0xbf, 0xbf, 0xbf, 0xbf};
    uint32_t a = lo[0], b = hi[0], s;

    if (n == 1) {
        wire_bytes(j, from, a, b, t->state[0]);
        return;
    }
    if (a == b) {
        s = new_state(j);
        wire_bytes(j, from, a, a, s);
        split(j, t, s, lo + 1, hi + 1, n - 1);
        return;
    }
    if (!all_are(lo + 1, n - 1, 0x80)) {
        s = new_state(j);
        wire_bytes(j, from, a, a, s);
        split(j, t, s, lo + 1, most, n - 1);
        a++;
    }
    if (!all_are(hi + 1, n - 1, 0xbf)) {
        s = new_state(j);
        wire_bytes(j, from, b, b, s);
        split(j, t, s, least, hi + 1, n - 1);
        b--;
    }
    if (a <= b)
        wire_bytes(j, from, a, b, tail(j, t, n - 1));
}

static uint32_t put(unsigned char *out, uint32_t cp)
{
    if (cp < 0x80) {
        out[0] = (unsigned char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (unsigned char)(0xc0 | cp >> 6);
        out[1] = (unsigned char)(0x80 | (cp & 63));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (unsigned char)(0xe0 | cp >> 12);
        out[1] = (unsigned char)(0x80 | (cp >> 6 & 63));
        out[2] = (unsigned char)(0x80 | (cp & 63));
        return 3;
    }
    out[0] = (unsigned char)(0xf0 | cp >> 18);
    out[1] = (unsigned char)(0x80 | (cp >> 12 & 63));
    out[2] = (unsigned char)(0x80 | (cp >> 6 & 63));
    out[3] = (unsigned char)(0x80 | (cp & 63));
    return 4;
}

static uint32_t build_set(struct job *j, const struct sl_node *n, uint32_t next)
{
    static const uint32_t limit[4] = {0x7f, 0x7ff, 0xffff, SL_GRAMMAR_MAX_CODE};
    struct tails t = {.state = {next}, .has = {true}};
    uint32_t from = new_state(j);

    for (uint32_t i = 0; i < n->b && !j->failed; i++) {
        struct sl_range r = j->g->range[n->a + i];

        for (uint32_t k = 0; k < 4 && r.lo <= r.hi; k++) {
            unsigned char lo[4], hi[4];

            if (r.lo > limit[k])
                continue;
            put(lo, r.lo);
            put(hi, (uint32_t)sl_min(r.hi, limit[k]));
            split(j, &t, from, lo, hi, k + 1);
            r.lo = limit[k] + 1;
        }
    }
    return from;
}

static uint32_t build_bytes(struct job *j, const struct sl_node *n,
                            uint32_t next)
{
    for (uint32_t i = n->b; i > 0 && !j->failed; i--) {
        uint8_t c = (uint8_t)j->g->bytes.p[n->a + i - 1];
        uint32_t s = new_state(j);

        wire_bytes(j, s, c, c, next);
        next = s;
    }
    return next;
}

static uint32_t build_token(struct job *j, int32_t id, uint32_t next)
{
    struct sl_automaton *a = j->a;
    uint32_t i = 0, s = new_state(j);

    while (i < a->n_token && a->token[i] != id)
        i++;
    if (i == SL_AUTOMATON_MAX_TOKENS) {
        too_large(j);
        return 0;
    }
    a->token[i] = id;
    a->n_token = (uint32_t)sl_max(a->n_token, i + 1);
    wire(j, s, (struct sl_edge){.kind = SL_EDGE_TOKEN, .arg = i, .to = next});
    return s;
}

static uint32_t build(struct job *j, uint32_t i, uint32_t next);

/* The children of a sequence are built last one first. A list only leads
 * forwards, so its indices are laid out before; the recursion is bounded by
 * SL_GRAMMAR_MAX_HEIGHT. */
static uint32_t build_seq(struct job *j, const struct sl_node *n, uint32_t next)
{
    uint32_t *child = NULL, len = 0;

    for (uint32_t c = n->a; c; c = j->g->node[c].next)
        len++;
    if (!j->failed)
        j->failed =
            sl_mem_alloc(&child, len, sizeof(*child), "a grammar", j->err);
    if (j->failed)
        return 0;
    len = 0;
    for (uint32_t c = n->a; c; c = j->g->node[c].next)
        child[len++] = c;
    while (len > 0)
        next = build(j, child[--len], next);
    sl_mem_free(child);
    return next;
}

static uint32_t build_alt(struct job *j, const struct sl_node *n, uint32_t next)
{
    uint32_t s;

    if (n->a && n->a == n->b)
        return build(j, n->a, next);
    s = new_state(j);
    for (uint32_t c = n->a; c && !j->failed; c = j->g->node[c].next)
        wire_empty(j, s, build(j, c, next));
    return s;
}

static uint32_t build_repeat(struct job *j, const struct sl_node *n,
                             uint32_t next)
{
    uint32_t s;

    if (n->hi == SL_GRAMMAR_MANY) {
        s = new_state(j);
        wire_empty(j, s, build(j, n->a, s));
        wire_empty(j, s, next);
    } else {
        uint32_t end = next;

        s = next;
        for (uint32_t i = n->lo; i < n->hi && !j->failed; i++) {
            uint32_t opt = new_state(j);

            wire_empty(j, opt, build(j, n->a, s));
            wire_empty(j, opt, end);
            s = opt;
        }
    }
    for (uint32_t i = 0; i < n->lo && !j->failed; i++)
        s = build(j, n->a, s);
    return s;
}

static uint32_t build_machine(struct job *j, const struct sl_node *n,
                              uint32_t next)
{
    uint32_t s = new_state(j);

    for (uint32_t i = 1; i < n->lo; i++)
        (void)new_state(j); /* they follow each other */
    for (uint32_t i = 0; i < n->b && !j->failed; i++) {
        const struct sl_arc *a = &j->g->arc[n->a + i];
        uint32_t to = a->to == n->lo ? next : s + a->to;

        if (a->node)
            wire_empty(j, s + a->from, build(j, a->node, to));
        else if (a->lo > a->hi)
            wire_empty(j, s + a->from, to);
        else
            wire_bytes(j, s + a->from, a->lo, a->hi, to);
    }
    return s;
}

static uint32_t build(struct job *j, uint32_t i, uint32_t next)
{
    const struct sl_node *n = &j->g->node[i];
    uint32_t s;

    if (j->failed || j->n_step++ > MAX_STEPS) {
        too_large(j);
        return 0;
    }
    switch (n->kind) {
    case SL_NODE_BYTES:
        return build_bytes(j, n, next);
    case SL_NODE_SET:
        return build_set(j, n, next);
    case SL_NODE_SEQ:
        return build_seq(j, n, next);
    case SL_NODE_ALT:
        return build_alt(j, n, next);
    case SL_NODE_REPEAT:
        return build_repeat(j, n, next);
    case SL_NODE_CALL:
        s = new_state(j);
        wire(j, s,
             (struct sl_edge){.kind = SL_EDGE_CALL, .arg = n->a, .to = next});
        return s;
    case SL_NODE_TOKEN:
        return build_token(j, (int32_t)n->a, next);
    case SL_NODE_MACHINE:
        return build_machine(j, n, next);
    }
    return 0;
}

static int build_rules(struct job *j)
{
    struct sl_automaton *a = j->a;
    int rc;

    a->n_rule = j->g->n_rule;
    a->root = j->g->root;
    a->n_state = 1; /* SL_STATE_RETURN */
    rc = sl_mem_alloc(&a->start, a->n_rule, sizeof(*a->start), "a grammar",
                      j->err);
    for (uint32_t i = 0; !rc && !j->failed && i < a->n_rule; i++)
        a->start[i] = build(j, j->g->rule[i].node, SL_STATE_RETURN);
    return rc ? rc : j->failed;
}

/* ------------------------------------------------- edges by state, both ways */

static int sort_edges(struct job *j)
{
    struct sl_automaton *a = j->a;
    int rc = sl_mem_alloc(&a->first, (size_t)a->n_state + 2, sizeof(*a->first),
                          "a grammar", j->err);

    a->n_edge = j->n_wire;
    if (!rc)
        rc = sl_mem_alloc(&a->edge, a->n_edge, sizeof(*a->edge), "a grammar",
                          j->err);
    if (!rc)
        rc = sl_mem_alloc(&a->moves, a->n_state, sizeof(*a->moves),
                          "a grammar", j->err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < j->n_wire; i++)
        a->first[j->wire[i].from + 2]++;
    for (uint32_t s = 2; s <= a->n_state + 1; s++)
        a->first[s] += a->first[s - 1];
    for (uint32_t i = 0; i < j->n_wire; i++) {
        const struct wire *w = &j->wire[i];

        a->edge[a->first[w->from + 1]++] = w->e;
        if (w->e.kind == SL_EDGE_BYTE || w->e.kind == SL_EDGE_TOKEN)
            a->moves[w->from] = true;
    }
    /* From here on only the source is needed, in the order of the edges. */
    for (uint32_t s = 0, i = 0; s < a->n_state; s++)
        for (; i < a->first[s + 1]; i++)
            j->wire[i].from = s;
    return 0;
}

static int reverse_edges(struct job *j)
{
    struct sl_automaton *a = j->a;
    size_t n = (size_t)a->n_edge * 2;
    int rc = sl_mem_alloc(&j->rev_first, (size_t)a->n_state + 2,
                          sizeof(*j->rev_first), "a grammar", j->err);

    if (!rc)
        rc = sl_mem_alloc(&j->rev, n, sizeof(*j->rev), "a grammar", j->err);
    if (!rc)
        rc = sl_mem_alloc(&j->stack, (size_t)a->n_state * 2 + n,
                          sizeof(*j->stack), "a grammar", j->err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < a->n_edge; i++) {
        const struct sl_edge *e = &a->edge[i];

        j->rev_first[e->to + 2]++;
        if (e->kind == SL_EDGE_CALL)
            j->rev_first[a->start[e->arg] + 2]++;
    }
    for (uint32_t s = 2; s <= a->n_state + 1; s++)
        j->rev_first[s] += j->rev_first[s - 1];
    for (uint32_t i = 0; i < a->n_edge; i++) {
        const struct sl_edge *e = &a->edge[i];

        j->rev[j->rev_first[e->to + 1]++] = i;
        if (e->kind == SL_EDGE_CALL)
            j->rev[j->rev_first[a->start[e->arg] + 1]++] = i;
    }
    return 0;
}

/* --------------------------------------------------------------- four facts */

static int find_nullable(struct job *j)
{
    struct sl_automaton *a = j->a;
    bool *null = NULL;
    uint32_t n = 0;
    int rc = sl_mem_alloc(&null, a->n_state, 1, "a grammar", j->err);

    if (rc)
        return rc;
    null[SL_STATE_RETURN] = true;
    j->stack[n++] = SL_STATE_RETURN;
    while (n > 0) {
        uint32_t s = j->stack[--n];

        for (uint32_t i = j->rev_first[s]; i < j->rev_first[s + 1]; i++) {
            uint32_t e = j->rev[i], p = j->wire[e].from;
            const struct sl_edge *x = &a->edge[e];

            if (null[p] ||
                !(x->kind == SL_EDGE_EMPTY ||
                  (x->kind == SL_EDGE_CALL && null[a->start[x->arg]] &&
                   null[x->to])))
                continue;
            null[p] = true;
            j->stack[n++] = p;
        }
    }
    for (uint32_t i = 0; i < a->n_edge; i++)
        a->edge[i].nullable =
            a->edge[i].kind == SL_EDGE_CALL && null[a->start[a->edge[i].arg]];
    sl_mem_free(null);
    return 0;
}

/* The depth of the source of an edge by way of it, as far as is known. */
static uint32_t depth_by(const struct sl_automaton *a, const struct sl_edge *e)
{
    uint32_t to = a->depth[e->to], in;

    if (e->kind != SL_EDGE_CALL || e->nullable)
        return to;
    in = a->depth[a->start[e->arg]];
    return in == NO_DEPTH ? NO_DEPTH : (uint32_t)sl_max(to, in + 1);
}

/* Level by level: all states of depth d before those of d + 1. */
static int find_depth(struct job *j)
{
    struct sl_automaton *a = j->a;
    uint32_t *now = j->stack, *later = j->stack + a->n_state, n = 0, m = 0;
    int rc = sl_mem_alloc(&a->depth, a->n_state, sizeof(*a->depth),
                          "a grammar", j->err);

    if (rc)
        return rc;
    for (uint32_t s = 0; s < a->n_state; s++)
        a->depth[s] = NO_DEPTH;
    a->depth[SL_STATE_RETURN] = 0;
    now[n++] = SL_STATE_RETURN;
    for (uint32_t d = 0; d <= SL_AUTOMATON_MAX_DEPTH; d++) {
        while (n > 0) {
            uint32_t s = now[--n];

            for (uint32_t i = j->rev_first[s]; i < j->rev_first[s + 1]; i++) {
                uint32_t p = j->wire[j->rev[i]].from;
                uint32_t by = depth_by(a, &a->edge[j->rev[i]]);

                if (by == d && a->depth[p] == NO_DEPTH) {
                    a->depth[p] = (uint16_t)d;
                    now[n++] = p;
                } else if (by == d + 1 && a->depth[p] == NO_DEPTH) {
                    later[m++] = p;
                }
            }
        }
        while (m > 0) {
            uint32_t p = later[--m];

            if (a->depth[p] == NO_DEPTH) {
                a->depth[p] = (uint16_t)(d + 1);
                now[n++] = p;
            }
        }
    }
    if (a->depth[a->start[a->root]] <= SL_AUTOMATON_MAX_DEPTH)
        return 0;
    return sl_fail(j->err, SL_EARG,
                   "no text of finite length has this shape; correct what "
                   "contradicts or always contains itself");
}

/* A depth-first walk over rules, by what they call before their first byte. */
struct walk {
    const uint32_t *call; /* [first[r] .. first[r + 1]) rules called by r */
    const uint32_t *first;
    uint32_t *at;   /* [n_rule] next call to look at; the walk's own stack */
    uint8_t *color; /* 0 new, 1 on the path, 2 done */
};

/* The rules that r calls before its first byte are appended to `out`. */
static uint32_t first_calls(struct job *j, uint32_t r, uint32_t *seen,
                            uint32_t *out)
{
    const struct sl_automaton *a = j->a;
    uint32_t n = 0, k = 0;

    seen[a->start[r]] = r + 1;
    j->stack[n++] = a->start[r];
    while (n > 0) {
        uint32_t s = j->stack[--n];

        for (uint32_t i = a->first[s]; i < a->first[s + 1]; i++) {
            const struct sl_edge *e = &a->edge[i];

            if (e->kind == SL_EDGE_CALL)
                out[k++] = e->arg;
            if ((e->kind == SL_EDGE_EMPTY || e->nullable) &&
                seen[e->to] != r + 1 && e->to != SL_STATE_RETURN) {
                seen[e->to] = r + 1;
                j->stack[n++] = e->to;
            }
        }
    }
    return k;
}

static int left_recursive(struct job *j, uint32_t r)
{
    const struct sl_rule *rule = &j->g->rule[r];

    return sl_fail(j->err, SL_EARG,
                   "the rule '%.*s' calls itself before its first character "
                   "(left recursion); write it as a repetition",
                   (int)rule->n_name, j->g->bytes.p + rule->name);
}

/* Ranks are given from the last down, as rules are done. */
static int walk_from(struct job *j, struct walk *w, uint32_t root,
                     uint32_t *n_left)
{
    uint32_t n = 0;

    if (w->color[root])
        return 0;
    j->stack[n++] = root;
    w->color[root] = 1;
    while (n > 0) {
        uint32_t r = j->stack[n - 1];

        if (w->at[r] < w->first[r + 1]) {
            uint32_t to = w->call[w->at[r]++];

            if (w->color[to] == 1)
                return left_recursive(j, to);
            if (w->color[to] == 0) {
                w->color[to] = 1;
                j->stack[n++] = to;
            }
        } else {
            n--;
            w->color[r] = 2;
            j->a->rank[r] = --*n_left;
            j->a->at_rank[*n_left] = r;
        }
    }
    return 0;
}

static int find_ranks(struct job *j)
{
    struct sl_automaton *a = j->a;
    uint32_t *first = NULL, *call = NULL, *at = NULL, *seen = NULL;
    uint32_t n = 0, n_left = a->n_rule;
    uint8_t *color = NULL;
    int rc = sl_mem_alloc(&a->rank, a->n_rule, sizeof(*a->rank), "a grammar",
                          j->err);

    if (!rc)
        rc = sl_mem_alloc(&a->at_rank, a->n_rule, sizeof(*a->at_rank),
                          "a grammar", j->err);
    if (!rc)
        rc = sl_mem_alloc(&first, (size_t)a->n_rule + 1, sizeof(*first),
                          "a grammar", j->err);
    if (!rc)
        rc = sl_mem_alloc(&call, a->n_edge, sizeof(*call), "a grammar", j->err);
    if (!rc)
        rc = sl_mem_alloc(&at, a->n_rule, sizeof(*at), "a grammar", j->err);
    if (!rc)
        rc = sl_mem_alloc(&seen, a->n_state, sizeof(*seen), "a grammar",
                          j->err);
    if (!rc)
        rc = sl_mem_alloc(&color, a->n_rule, 1, "a grammar", j->err);
    for (uint32_t r = 0; !rc && r < a->n_rule; r++) {
        at[r] = first[r] = n;
        n += first_calls(j, r, seen, call + n);
        first[r + 1] = n;
    }
    for (uint32_t r = 0; !rc && r < a->n_rule; r++)
        rc = walk_from(j, &(struct walk){call, first, at, color}, r, &n_left);
    sl_mem_free(first);
    sl_mem_free(call);
    sl_mem_free(at);
    sl_mem_free(seen);
    sl_mem_free(color);
    return rc;
}

static void find_classes(struct sl_automaton *a)
{
    bool begins[257] = {true};

    for (uint32_t i = 0; i < a->n_edge; i++) {
        if (a->edge[i].kind != SL_EDGE_BYTE)
            continue;
        begins[a->edge[i].lo] = true;
        begins[a->edge[i].hi + 1] = true;
    }
    for (uint32_t b = 0; b < 256; b++) {
        if (begins[b])
            a->byte_of[a->n_class++] = (uint8_t)b;
        a->class_of[b] = (uint8_t)(a->n_class - 1);
    }
}

int sl_automaton_open(struct sl_automaton **out, const struct sl_grammar *g,
                      struct sl_err *err)
{
    struct job j = {.g = g, .err = err};
    int rc = sl_grammar_check(g, err);

    if (!rc && g->n_rule == 0)
        rc = sl_fail(err, SL_EARG, "the grammar has no rules");
    if (!rc)
        rc = sl_mem_alloc(&j.a, 1, sizeof(*j.a), "a grammar", err);
    if (!rc)
        rc = build_rules(&j);
    if (!rc)
        rc = sort_edges(&j);
    if (!rc)
        rc = reverse_edges(&j);
    if (!rc)
        rc = find_nullable(&j);
    if (!rc)
        rc = find_ranks(&j);
    if (!rc)
        rc = find_depth(&j);
    if (!rc)
        find_classes(j.a);
    sl_mem_free(j.wire);
    sl_mem_free(j.rev_first);
    sl_mem_free(j.rev);
    sl_mem_free(j.stack);
    if (rc)
        sl_automaton_close(&j.a);
    else
        *out = j.a;
    return rc;
}

size_t sl_automaton_bytes(const struct sl_automaton *a)
{
    return sizeof(*a) + a->n_edge * sizeof(*a->edge) +
           (size_t)a->n_state *
               (sizeof(*a->first) + sizeof(*a->depth) + sizeof(*a->moves)) +
           (size_t)a->n_rule *
               (sizeof(*a->start) + sizeof(*a->rank) + sizeof(*a->at_rank));
}

void sl_automaton_close(struct sl_automaton **a)
{
    if (!*a)
        return;
    sl_mem_free((*a)->first);
    sl_mem_free((*a)->edge);
    sl_mem_free((*a)->depth);
    sl_mem_free((*a)->moves);
    sl_mem_free((*a)->start);
    sl_mem_free((*a)->rank);
    sl_mem_free((*a)->at_rank);
    sl_mem_free(*a);
    *a = NULL;
}
