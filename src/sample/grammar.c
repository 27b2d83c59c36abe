/* sample/grammar.c - the shape of an answer, as rules; see grammar.h */
#include "sample/grammar.h"

#include <stdarg.h>

#include "base/mem.h"

/* Ranges of one set; classes of all letters of Unicode have some hundreds. */
#define MAX_RANGES (1u << 17)

void sl_grammar_init(struct sl_grammar *g)
{
    *g = (struct sl_grammar){.n_node = 1};
    sl_buf_init(&g->bytes, SL_GRAMMAR_MAX_BYTES);
}

void sl_grammar_deinit(struct sl_grammar *g)
{
    sl_mem_free(g->node);
    sl_mem_free(g->rule);
    sl_mem_free(g->range);
    sl_mem_free(g->arc);
    sl_buf_deinit(&g->bytes);
    *g = (struct sl_grammar){0};
}

uint32_t sl_grammar_fail(struct sl_grammar *g, enum sl_code code,
                         const char *fmt, ...)
{
    va_list ap;

    if (g->failed)
        return 0;
    va_start(ap, fmt);
    vsnprintf(g->err.msg, sizeof(g->err.msg), fmt, ap);
    va_end(ap);
    g->err.code = code;
    g->failed = code;
    return 0;
}

bool sl_grammar_spend(struct sl_grammar *g, size_t n)
{
    if (!g->failed && n > SL_GRAMMAR_MAX_WORK - g->work)
        sl_grammar_fail(g, SL_EARG,
                        "reading the schema takes more than %zu steps, with "
                        "all that it lists, joins and refers to; make it "
                        "simpler",
                        SL_GRAMMAR_MAX_WORK);
    if (!g->failed)
        g->work += n;
    return !g->failed;
}

int sl_grammar_check(const struct sl_grammar *g, struct sl_err *err)
{
    int rc = g->failed;

    if (rc)
        return sl_fail(err, g->err.code, "%s", g->err.msg);
    rc = sl_buf_check(&g->bytes, "the literals of a grammar", err);
    for (uint32_t i = 0; !rc && i < g->n_rule; i++)
        if (!g->rule[i].node)
            rc = sl_fail(err, SL_EARG,
                         "the grammar uses the rule '%.*s' and does not define "
                         "it; add it, or correct its name",
                         (int)g->rule[i].n_name, g->bytes.p + g->rule[i].name);
    return rc;
}

/* Room for one more in an array that doubles. */
static bool grow(struct sl_grammar *g, void *p, uint32_t n, uint32_t *cap,
                 size_t size, uint32_t max, const char *what)
{
    uint32_t want = *cap ? *cap * 2 : 64;

    if (n < *cap)
        return true;
    if (n >= max) {
        sl_grammar_fail(g, SL_EARG,
                        "the shape of the answer needs more than %u %s; make "
                        "it simpler",
                        max, what);
        return false;
    }
    if (sl_mem_resize(p, want, size, "a grammar", &g->err)) {
        g->failed = SL_ENOMEM;
        return false;
    }
    *cap = want;
    return true;
}

static uint32_t node(struct sl_grammar *g, struct sl_node n)
{
    if (g->failed || !grow(g, &g->node, g->n_node, &g->cap_node,
                           sizeof(*g->node), SL_GRAMMAR_MAX_NODES, "nodes"))
        return 0;
    g->node[g->n_node] = n;
    return g->n_node++;
}

/* A parent of a child; too high a tower is a failure, because automaton.c
 * walks it by recursion. */
static uint32_t height(struct sl_grammar *g, uint32_t child)
{
    uint32_t h = g->failed ? 0 : g->node[child].height + 1;

    if (h > SL_GRAMMAR_MAX_HEIGHT)
        sl_grammar_fail(g, SL_EARG,
                        "the shape of the answer has more than %d groups in "
                        "each other; use rules",
                        SL_GRAMMAR_MAX_HEIGHT);
    return h;
}

uint32_t sl_grammar_bytes(struct sl_grammar *g, const char *p, size_t len)
{
    size_t at = g->bytes.len;

    if (g->failed)
        return 0;
    sl_buf_add(&g->bytes, p, len);
    if (g->bytes.failed)
        return sl_grammar_fail(g, g->bytes.failed,
                               "the literals of the shape have more than %zu "
                               "bytes; make it simpler",
                               SL_GRAMMAR_MAX_BYTES);
    return node(g, (struct sl_node){.kind = SL_NODE_BYTES,
                                    .a = (uint32_t)at,
                                    .b = (uint32_t)len});
}

static void add_range(struct sl_grammar *g, uint32_t lo, uint32_t hi)
{
    if (lo > hi || g->failed ||
        !grow(g, &g->range, g->n_range, &g->cap_range, sizeof(*g->range),
              MAX_RANGES, "ranges of characters"))
        return;
    g->range[g->n_range++] = (struct sl_range){lo, hi};
}

uint32_t sl_grammar_set(struct sl_grammar *g, const struct sl_range *r,
                        size_t n)
{
    uint32_t at = g->n_range;

    for (size_t i = 0; i < n; i++) {
        add_range(g, r[i].lo, (uint32_t)sl_min(r[i].hi, 0xd7ff));
        add_range(g, (uint32_t)sl_max(r[i].lo, 0xe000),
                  (uint32_t)sl_min(r[i].hi, SL_GRAMMAR_MAX_CODE));
    }
    return node(g, (struct sl_node){
                       .kind = SL_NODE_SET, .a = at, .b = g->n_range - at});
}

uint32_t sl_grammar_seq(struct sl_grammar *g)
{
    return node(g, (struct sl_node){.kind = SL_NODE_SEQ});
}

uint32_t sl_grammar_alt(struct sl_grammar *g)
{
    return node(g, (struct sl_node){.kind = SL_NODE_ALT});
}

void sl_grammar_add(struct sl_grammar *g, uint32_t list, uint32_t child)
{
    uint32_t h;

    if (g->failed)
        return;
    h = height(g, child);
    if (g->node[list].b)
        g->node[g->node[list].b].next = child;
    else
        g->node[list].a = child;
    g->node[list].b = child;
    if (h > g->node[list].height)
        g->node[list].height = h;
}

uint32_t sl_grammar_repeat(struct sl_grammar *g, uint32_t child, uint32_t lo,
                           uint32_t hi)
{
    if (g->failed)
        return 0;
    if (lo > SL_GRAMMAR_MAX_REPEAT ||
        (hi > SL_GRAMMAR_MAX_REPEAT && hi != SL_GRAMMAR_MANY))
        return sl_grammar_fail(g, SL_EARG,
                               "a part of the shape is repeated %u times, and "
                               "%d are supported; lower the limit or leave it "
                               "out",
                               lo > SL_GRAMMAR_MAX_REPEAT ? lo : hi,
                               SL_GRAMMAR_MAX_REPEAT);
    return node(g, (struct sl_node){.kind = SL_NODE_REPEAT,
                                    .height = height(g, child),
                                    .a = child,
                                    .lo = lo,
                                    .hi = hi});
}

uint32_t sl_grammar_call(struct sl_grammar *g, uint32_t rule)
{
    return node(g, (struct sl_node){.kind = SL_NODE_CALL, .a = rule});
}

uint32_t sl_grammar_token(struct sl_grammar *g, int32_t id)
{
    return node(g,
                (struct sl_node){.kind = SL_NODE_TOKEN, .a = (uint32_t)id});
}

uint32_t sl_grammar_machine(struct sl_grammar *g, uint32_t n)
{
    return node(g, (struct sl_node){
                       .kind = SL_NODE_MACHINE, .a = g->n_arc, .lo = n});
}

void sl_grammar_arc(struct sl_grammar *g, uint32_t machine, struct sl_arc a)
{
    uint32_t h;

    if (g->failed || !grow(g, &g->arc, g->n_arc, &g->cap_arc, sizeof(*g->arc),
                           SL_GRAMMAR_MAX_ARCS, "steps of a machine"))
        return;
    h = a.node ? height(g, a.node) : 0;
    g->node[machine].height = (uint32_t)sl_max(g->node[machine].height, h);
    g->arc[g->n_arc++] = a;
    g->node[machine].b++;
}

uint32_t sl_grammar_rule(struct sl_grammar *g, const char *name, size_t len)
{
    size_t at = g->bytes.len;

    if (g->failed || !grow(g, &g->rule, g->n_rule, &g->cap_rule,
                           sizeof(*g->rule), SL_GRAMMAR_MAX_RULES, "rules"))
        return 0;
    sl_buf_add(&g->bytes, name, len);
    if (g->bytes.failed)
        return sl_grammar_fail(g, g->bytes.failed,
                               "the rules of the shape have too long names");
    g->rule[g->n_rule] =
        (struct sl_rule){.name = (uint32_t)at, .n_name = (uint32_t)len};
    return g->n_rule++;
}

void sl_grammar_define(struct sl_grammar *g, uint32_t rule, uint32_t n)
{
    if (!g->failed)
        g->rule[rule].node = n;
}

/* ------------------------------------------------------------------- ranges */

static int by_lo(const void *a, const void *b)
{
    const struct sl_range *x = a, *y = b;

    return (x->lo > y->lo) - (x->lo < y->lo);
}

size_t sl_ranges_join(struct sl_range *r, size_t n)
{
    size_t k = 0;

    if (n == 0)
        return 0;
    qsort(r, n, sizeof(*r), by_lo);
    for (size_t i = 1; i < n; i++) {
        if (r[i].lo <= r[k].hi || r[i].lo - r[k].hi == 1)
            r[k].hi = (uint32_t)sl_max(r[k].hi, r[i].hi);
        else
            r[++k] = r[i];
    }
    return k + 1;
}

size_t sl_ranges_invert(struct sl_range *out, const struct sl_range *r,
                        size_t n)
{
    uint32_t from = 0;
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        if (r[i].lo > from)
            out[k++] = (struct sl_range){from, r[i].lo - 1};
        from = r[i].hi + 1;
    }
    if (from <= SL_GRAMMAR_MAX_CODE)
        out[k++] = (struct sl_range){from, SL_GRAMMAR_MAX_CODE};
    return k;
}
