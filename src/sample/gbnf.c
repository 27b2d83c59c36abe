/* sample/gbnf.c - grammars as llama.cpp writes them; see gbnf.h
 *
 * A descent by recursion, one level per pair of parentheses, limited by
 * MAX_PARENS. Names are found in a hash table of the call, with a seed that
 * whoever wrote the grammar does not know.
 */
#include "sample/gbnf.h"

#include "base/machine.h"
#include "base/mem.h"
#include "base/utf8.h"

#define MAX_PARENS 100     /* in each other; chosen */
#define MAX_SET_RANGES 512 /* in one pair of brackets */
#define N_SLOT (2 * SL_GRAMMAR_MAX_RULES)

struct text {
    struct sl_grammar *g;
    const char *start, *p, *end;
    uint32_t *slot; /* [N_SLOT] rule and one, by its name; 0: empty */
    uint64_t seed;
    int depth;
};

static uint32_t bad(struct text *t, const char *what)
{
    unsigned line = 1;
    int show = (int)sl_min(20, (size_t)(t->end - t->p));

    for (const char *c = t->start; c < t->p; c++)
        line += *c == '\n';
    for (int i = 0; i < show; i++)
        if (t->p[i] == '\n')
            show = i;
    show -= (int)sl_utf8_partial(t->p, (size_t)show);
    return sl_grammar_fail(t->g, SL_EARG,
                           "line %u of the grammar, at '%.*s': %s", line, show,
                           t->p, what);
}

static bool at(const struct text *t, char c)
{
    return t->p < t->end && *t->p == c;
}

static void skip_space(struct text *t)
{
    while (t->p < t->end) {
        if (*t->p == '#')
            while (t->p < t->end && *t->p != '\n')
                t->p++;
        else if (*t->p == ' ' || *t->p == '\t' || *t->p == '\n' ||
                 *t->p == '\r')
            t->p++;
        else
            break;
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static size_t word_len(const struct text *t)
{
    size_t n = 0;

    while (t->p + n < t->end && is_word(t->p[n]))
        n++;
    return n;
}

/* Does "name ::=" begin here? */
static bool at_rule(const struct text *t)
{
    struct text u = *t;
    size_t n = word_len(&u);

    if (n == 0)
        return false;
    u.p += n;
    skip_space(&u);
    return u.end - u.p >= 3 && memcmp(u.p, "::=", 3) == 0;
}

static uint32_t rule_of(struct text *t, const char *p, size_t n)
{
    struct sl_grammar *g = t->g;
    uint64_t h = t->seed;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * 0x100000001b3u; /* FNV-1a */
    h ^= h >> 32;
    for (; !g->failed && t->slot[h % N_SLOT]; h++) {
        uint32_t r = t->slot[h % N_SLOT] - 1;

        if (g->rule[r].n_name == n &&
            !memcmp(g->bytes.p + g->rule[r].name, p, n))
            return r;
    }
    if (!g->failed)
        t->slot[h % N_SLOT] = sl_grammar_rule(g, p, n) + 1;
    return g->failed ? 0 : g->n_rule - 1;
}

/* ---------------------------------------------------------------- characters */

static bool hex(struct text *t, int n, uint32_t *out)
{
    uint32_t v = 0;

    for (int i = 0; i < n; i++) {
        char c = t->p + i < t->end ? t->p[i] : 0;

        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            v = v << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return false;
    }
    t->p += n;
    *out = v;
    return v <= SL_GRAMMAR_MAX_CODE && (v < 0xd800 || v > 0xdfff);
}

/* A character of a literal or a set. */
static bool character(struct text *t, uint32_t *cp)
{
    static const char from[] = "nrt\\\"[]-^'/", to[] = "\n\r\t\\\"[]-^'/";
    const char *c;

    if (t->p >= t->end)
        return false;
    if (*t->p != '\\') {
        t->p += sl_utf8_get(cp, t->p, (size_t)(t->end - t->p));
        return true;
    }
    t->p++;
    if (t->p >= t->end)
        return false;
    c = *t->p ? strchr(from, *t->p) : NULL;
    if (c) {
        *cp = (unsigned char)to[c - from];
        t->p++;
        return true;
    }
    switch (*t->p++) {
    case 'x':
        return hex(t, 2, cp);
    case 'u':
        return hex(t, 4, cp);
    case 'U':
        return hex(t, 8, cp);
    default:
        return false;
    }
}

static uint32_t literal(struct text *t)
{
    uint32_t list = sl_grammar_seq(t->g), cp = 0;
    char one[4];

    t->p++;
    while (!at(t, '"')) {
        if (t->p >= t->end || *t->p == '\n' || !character(t, &cp))
            return bad(t, "a literal ends with '\"', and knows \\n \\r \\t \\\\ "
                          "\\\" \\xHH \\uHHHH \\UHHHHHHHH");
        sl_grammar_add(t->g, list,
                       sl_grammar_bytes(t->g, one, sl_utf8_put(one, cp)));
    }
    t->p++;
    return list;
}

static uint32_t set(struct text *t)
{
    struct sl_range r[MAX_SET_RANGES], inv[MAX_SET_RANGES + 1];
    bool negated;
    size_t n = 0;

    t->p++;
    negated = at(t, '^');
    t->p += negated;
    while (!at(t, ']')) {
        uint32_t lo = 0, hi;

        if (n == MAX_SET_RANGES)
            return bad(t, "a set has more than 512 parts");
        if (!character(t, &lo))
            return bad(t, "a set ends with ']', and knows \\n \\r \\t \\\\ \\] "
                          "\\xHH \\uHHHH \\UHHHHHHHH");
        hi = lo;
        if (at(t, '-') && t->end - t->p > 1 && t->p[1] != ']') {
            t->p++;
            if (!character(t, &hi) || hi < lo)
                return bad(t, "a range of a set rises, as in [a-z]");
        }
        r[n++] = (struct sl_range){lo, hi};
    }
    t->p++;
    n = sl_ranges_join(r, n);
    if (!negated)
        return sl_grammar_set(t->g, r, n);
    n = sl_ranges_invert(inv, r, n);
    return sl_grammar_set(t->g, inv, n);
}

/* ----------------------------------------------------------------- structure */

static uint32_t alternatives(struct text *t);

static uint32_t group(struct text *t)
{
    uint32_t x;

    if (++t->depth > MAX_PARENS)
        return bad(t, "more than 100 pairs of parentheses in each other");
    t->p++;
    x = alternatives(t);
    t->depth--;
    skip_space(t);
    if (!t->g->failed && !at(t, ')'))
        return bad(t, "a ')' is missing");
    t->p++;
    return x;
}

static bool number(struct text *t, uint32_t *out)
{
    uint32_t v = 0;
    bool any = false;

    for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++) {
        v = v > SL_GRAMMAR_MAX_REPEAT ? v : v * 10 + (uint32_t)(*t->p - '0');
        any = true;
    }
    *out = v;
    return any;
}

static uint32_t braces(struct text *t, uint32_t x)
{
    uint32_t lo = 0, hi;
    bool has;

    t->p++;
    skip_space(t);
    has = number(t, &lo);
    hi = lo;
    skip_space(t);
    if (at(t, ',')) {
        t->p++;
        skip_space(t);
        if (!number(t, &hi))
            hi = SL_GRAMMAR_MANY;
        has = true;
        skip_space(t);
    }
    if (!has || !at(t, '}') || hi < lo)
        return bad(t, "a repetition is {m}, {m,} or {m,n} with m <= n");
    t->p++;
    return sl_grammar_repeat(t->g, x, lo, hi);
}

static uint32_t repeats(struct text *t, uint32_t x)
{
    for (; !t->g->failed; skip_space(t)) {
        if (at(t, '*'))
            x = sl_grammar_repeat(t->g, x, 0, SL_GRAMMAR_MANY);
        else if (at(t, '+'))
            x = sl_grammar_repeat(t->g, x, 1, SL_GRAMMAR_MANY);
        else if (at(t, '?'))
            x = sl_grammar_repeat(t->g, x, 0, 1);
        else if (at(t, '{')) {
            x = braces(t, x);
            continue;
        } else
            break;
        t->p++;
    }
    return x;
}

/* One item, or false at the end of a sequence. */
static bool item(struct text *t, uint32_t *out)
{
    static const struct sl_range any = {0, SL_GRAMMAR_MAX_CODE};
    size_t n;

    skip_space(t);
    if (t->p >= t->end || *t->p == '|' || *t->p == ')' || at_rule(t))
        return false;
    n = word_len(t);
    if (*t->p == '"') {
        *out = literal(t);
    } else if (*t->p == '[') {
        *out = set(t);
    } else if (*t->p == '(') {
        *out = group(t);
    } else if (*t->p == '.') {
        t->p++;
        *out = sl_grammar_set(t->g, &any, 1);
    } else if (n > 0) {
        *out = sl_grammar_call(t->g, rule_of(t, t->p, n));
        t->p += n;
    } else {
        *out = bad(t, "a literal, a set, a rule or '(' is expected");
    }
    skip_space(t);
    *out = repeats(t, *out);
    return true;
}

static uint32_t alternatives(struct text *t)
{
    uint32_t alt = sl_grammar_alt(t->g), seq = sl_grammar_seq(t->g), x = 0;

    while (!t->g->failed) {
        if (item(t, &x)) {
            sl_grammar_add(t->g, seq, x);
            continue;
        }
        sl_grammar_add(t->g, alt, seq);
        skip_space(t);
        if (!at(t, '|'))
            break;
        t->p++;
        seq = sl_grammar_seq(t->g);
    }
    return alt;
}

static void rule(struct text *t)
{
    uint32_t r = rule_of(t, t->p, word_len(t)), x;

    if (t->g->failed)
        return;
    if (t->g->rule[r].node) {
        bad(t, "this rule is defined twice");
        return;
    }
    t->p += word_len(t);
    skip_space(t);
    t->p += 3;
    x = alternatives(t);
    sl_grammar_define(t->g, r, x);
    if (t->p < t->end && !t->g->failed && !at_rule(t))
        bad(t, "a ')' without '('");
}

void sl_gbnf_read(struct sl_grammar *g, const char *s, size_t len)
{
    struct text t = {.g = g,
                     .start = s,
                     .p = s,
                     .end = s + len,
                     .seed = sl_machine_random()};

    if (sl_mem_alloc(&t.slot, N_SLOT, sizeof(*t.slot), "a grammar", NULL))
        sl_grammar_fail(g, SL_ENOMEM, "no memory is left for a grammar");
    else if (len > SL_GBNF_MAX_TEXT)
        sl_grammar_fail(g, SL_EARG,
                        "the grammar has %zu bytes, and %zu are read; make it "
                        "shorter",
                        len, SL_GBNF_MAX_TEXT);
    else if (sl_utf8_valid(s, len) < len)
        sl_grammar_fail(g, SL_EARG, "the grammar is not valid UTF-8");
    rule_of(&t, "root", 4);
    while (!g->failed) {
        skip_space(&t);
        if (t.p >= t.end)
            break;
        if (at_rule(&t))
            rule(&t);
        else
            bad(&t, "a rule begins with its name and '::='");
    }
    if (!g->failed && !g->rule[0].node)
        sl_grammar_fail(g, SL_EARG,
                        "the grammar has no rule 'root'; name the rule of the "
                        "whole answer so");
    sl_mem_free(t.slot);
}
