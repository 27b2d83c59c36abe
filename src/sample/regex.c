/* sample/regex.c - patterns; see regex.h
 *
 * A descent by recursion, one level per group, limited by MAX_GROUPS. The
 * result is a node of a grammar, so nothing here matches anything: a pattern
 * cannot take exponential time, only too many states, which automaton.c
 * refuses.
 *
 * ^ and $ are found at the ends of the alternatives of the top level, or of a
 * group that is all of the pattern, where they change whether anything may come
 * before and behind; elsewhere they are refused.
 */
#include "sample/regex.h"

#include "base/utf8.h"

#define MAX_GROUPS 100 /* in each other; chosen */
#define MAX_SET 240    /* ranges of one set before they are joined: 2 KB */

struct regex {
    struct sl_grammar *g;
    const char *start, *p, *end;
    enum sl_regex_what what;
    enum sl_regex_write how;
    int depth;
};

/* A set that is being read. */
struct set {
    struct sl_range r[MAX_SET];
    size_t n;
};

static uint32_t bad(struct regex *x, const char *why)
{
    int show = (int)sl_min(20, (size_t)(x->end - x->p));

    show -= (int)sl_utf8_partial(x->p, (size_t)show);
    return sl_grammar_fail(x->g, SL_EARG,
                           "the pattern '%.*s%s' at byte %zu, '%.*s': %s",
                           (int)sl_utf8_valid(
                               x->start,
                               sl_min(60, (size_t)(x->end - x->start))),
                           x->start, x->end - x->start > 60 ? "..." : "",
                           (size_t)(x->p - x->start), show, x->p, why);
}

static bool at(const struct regex *x, char c)
{
    return x->p < x->end && *x->p == c;
}

static bool at_text(const struct regex *x, const char *s)
{
    size_t n = strlen(s);

    return (size_t)(x->end - x->p) >= n && !memcmp(x->p, s, n);
}

/* --------------------------------------------------------- how it is written */

bool sl_regex_is_escaped(uint32_t cp)
{
    return cp < 0x20 || cp == '"' || cp == '\\';
}

/* A character that JSON escapes. */
static void add_escape(struct sl_grammar *g, uint32_t alt, uint32_t cp)
{
    static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
    static const char digit[] = "0123456789abcdef";
    char s[6] = {'\\', 'u', '0', '0', digit[cp >> 4 & 15], digit[cp & 15]};
    const char *c = strchr(from, (int)cp);

    if (cp == 0)
        return; /* many readers of JSON refuse it */
    if (c)
        s[1] = to[c - from];
    sl_grammar_add(g, alt, sl_grammar_bytes(g, s, c ? 2 : 6));
}

uint32_t sl_regex_set(struct sl_grammar *g, const struct sl_range *r, size_t n,
                      enum sl_regex_write how)
{
    struct sl_range plain[MAX_SET + 8];
    size_t k = 0;
    uint32_t alt;

    if (how == SL_REGEX_RAW)
        return sl_grammar_set(g, r, n);
    SL_ASSERT(n <= MAX_SET + 1);
    alt = sl_grammar_alt(g);
    for (size_t i = 0; i < n; i++) {
        uint32_t lo = r[i].lo;

        /* Cut at what is escaped; all of that is below 0x5d. */
        for (uint32_t c = lo; c <= r[i].hi && c <= '\\'; c++) {
            if (!sl_regex_is_escaped(c))
                continue;
            add_escape(g, alt, c);
            if (c > lo)
                plain[k++] = (struct sl_range){lo, c - 1};
            lo = c + 1;
        }
        if (lo <= r[i].hi)
            plain[k++] = (struct sl_range){lo, r[i].hi};
    }
    if (k > 0)
        sl_grammar_add(g, alt, sl_grammar_set(g, plain, k));
    return alt;
}

static uint32_t one(struct regex *x, uint32_t cp)
{
    struct sl_range r = {cp, cp};

    return sl_regex_set(x->g, &r, 1, x->how);
}

/* Anything at all, any number of times. */
static uint32_t anything(struct regex *x)
{
    static const struct sl_range r = {0, SL_GRAMMAR_MAX_CODE};

    return sl_grammar_repeat(x->g, sl_regex_set(x->g, &r, 1, x->how), 0,
                             SL_GRAMMAR_MANY);
}

/* ---------------------------------------------------------------- characters */

static bool hex_digit(char c, uint32_t *v)
{
    if (c >= '0' && c <= '9')
        *v = *v << 4 | (uint32_t)(c - '0');
    else if ((c | 32) >= 'a' && (c | 32) <= 'f')
        *v = *v << 4 | (uint32_t)((c | 32) - 'a' + 10);
    else
        return false;
    return true;
}

static bool hex(struct regex *x, int n, uint32_t *cp)
{
    *cp = 0;
    for (int i = 0; i < n; i++, x->p++)
        if (x->p >= x->end || !hex_digit(*x->p, cp))
            return false;
    return true;
}

/* Behind \u: HHHH, a pair of surrogates, or {H...}. */
static bool unicode(struct regex *x, uint32_t *cp)
{
    uint32_t low = 0;

    if (at(x, '{')) {
        *cp = 0;
        for (x->p++; x->p < x->end && *x->p != '}'; x->p++)
            if (!hex_digit(*x->p, cp) || *cp > SL_GRAMMAR_MAX_CODE)
                return false;
        if (!at(x, '}'))
            return false;
        x->p++;
        return *cp < 0xd800 || *cp > 0xdfff;
    }
    if (!hex(x, 4, cp))
        return false;
    if (*cp < 0xd800 || *cp > 0xdfff)
        return true;
    if (*cp > 0xdbff || !at_text(x, "\\u"))
        return false;
    x->p += 2;
    if (!hex(x, 4, &low) || low < 0xdc00 || low > 0xdfff)
        return false;
    *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static void add_range(struct set *s, uint32_t lo, uint32_t hi)
{
    if (s->n < MAX_SET)
        s->r[s->n] = (struct sl_range){lo, hi};
    s->n++;
}

/* \d \w \s and, negated, \D \W \S; false for another letter. */
static bool class(struct set *s, char c)
{
    static const struct sl_range digit[] = {{'0', '9'}},
                                 word[] = {{'0', '9'},
                                           {'A', 'Z'},
                                           {'_', '_'},
                                           {'a', 'z'}},
                                 space[] = {{9, 13}, {' ', ' '}},
                                 /* ECMA 262: WhiteSpace, LineTerminator. */
                                 all_space[] = {
                                     {9, 13},          {' ', ' '},
                                     {0xa0, 0xa0},     {0x1680, 0x1680},
                                     {0x2000, 0x200a}, {0x2028, 0x2029},
                                     {0x202f, 0x202f}, {0x205f, 0x205f},
                                     {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    struct sl_range inv[12];
    const struct sl_range *r = digit;
    size_t n = 1;

    switch (c | 32) {
    case 'd':
        break;
    case 'w':
        r = word;
        n = SL_COUNTOF(word);
        break;
    case 's':
        r = c < 'a' ? all_space : space;
        n = c < 'a' ? SL_COUNTOF(all_space) : SL_COUNTOF(space);
        break;
    default:
        return false;
    }
    if (c < 'a') {
        n = sl_ranges_invert(inv, r, n);
        r = inv;
    }
    for (size_t i = 0; i < n; i++)
        add_range(s, r[i].lo, r[i].hi);
    return true;
}

/* Behind a backslash: one character. */
static bool escape(struct regex *x, uint32_t *cp)
{
    static const char from[] = "nrtfv0", to[] = "\n\r\t\f\v";
    char c = x->p < x->end ? *x->p : 0;
    const char *k = c ? strchr(from, c) : NULL;

    if (!c)
        return false;
    if (k) {
        *cp = (unsigned char)to[k - from];
        x->p++;
        return !(c == '0' && x->p < x->end && *x->p >= '0' && *x->p <= '9');
    }
    if (c == 'x' || c == 'u') {
        x->p++;
        return c == 'x' ? hex(x, 2, cp) : unicode(x, cp);
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
        (c >= 'A' && c <= 'Z'))
        return false; /* a back reference, \b, \p, ... */
    x->p += sl_utf8_get(cp, x->p, (size_t)(x->end - x->p));
    return true;
}

static const char no_escape[] =
    "this escape is not supported; \\d \\w \\s \\n \\t \\r \\f \\v \\0 \\xHH "
    "\\uHHHH and escaped punctuation are";

/* One member of a set: false when it was a class, which cannot begin a range.
 */
static bool set_char(struct regex *x, struct set *s, uint32_t *cp)
{
    if (!at(x, '\\')) {
        x->p += sl_utf8_get(cp, x->p, (size_t)(x->end - x->p));
        return true;
    }
    x->p++;
    if (x->p < x->end && class(s, *x->p)) {
        x->p++;
        return false;
    }
    if (at(x, 'b')) {
        x->p++;
        *cp = 8; /* in a set it is the backspace */
        return true;
    }
    if (!escape(x, cp))
        bad(x, no_escape);
    return true;
}

static uint32_t set(struct regex *x)
{
    struct sl_range inv[MAX_SET + 1];
    struct set s = {.n = 0};
    bool negated;

    x->p++;
    negated = at(x, '^');
    x->p += negated;
    while (!at(x, ']') && !x->g->failed) {
        uint32_t lo = 0, hi = 0;

        if (x->p >= x->end)
            return bad(x, "a set ends with ']'");
        if (at_text(x, "[:"))
            return bad(x, "named classes are not supported; write ranges");
        if (!set_char(x, &s, &lo))
            continue;
        hi = lo;
        if (at(x, '-') && x->end - x->p > 1 && x->p[1] != ']') {
            x->p++;
            if (!set_char(x, &s, &hi)) {
                add_range(&s, '-', '-');
                hi = lo;
            } else if (hi < lo) {
                return bad(x, "a range of a set rises, as in [a-z]");
            }
        }
        add_range(&s, lo, hi);
        if (s.n > MAX_SET)
            return bad(x, "a set has more than 240 parts");
    }
    x->p++;
    if (s.n > MAX_SET)
        return bad(x, "a set has more than 240 parts");
    s.n = sl_ranges_join(s.r, s.n);
    if (!negated)
        return sl_regex_set(x->g, s.r, s.n, x->how);
    return sl_regex_set(x->g, inv, sl_ranges_invert(inv, s.r, s.n), x->how);
}

/* All but the ends of lines. */
static uint32_t dot(struct regex *x)
{
    static const struct sl_range ends[] = {
        {'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    struct sl_range inv[SL_COUNTOF(ends) + 1];

    x->p++;
    return sl_regex_set(
        x->g, inv, sl_ranges_invert(inv, ends, SL_COUNTOF(ends)), x->how);
}

/* ----------------------------------------------------------------- structure */

static uint32_t alternatives(struct regex *x, bool outer);

/* Behind "(?": what the group is; bad() when it cannot be. */
static void group_head(struct regex *x)
{
    x->p++;
    if (at(x, ':')) {
        x->p++;
        return;
    }
    if (at(x, 'P'))
        x->p++;
    if (at(x, '<') && !at_text(x, "<=") && !at_text(x, "<!")) {
        while (x->p < x->end && *x->p != '>')
            x->p++;
        if (at(x, '>')) {
            x->p++;
            return;
        }
    }
    bad(x, "looking around, conditions and inline flags are not supported");
}

/* Is the group that begins here the whole pattern? Then ^ and $ in it mean the
 * same as outside. */
static bool is_whole(const struct regex *x)
{
    int depth = 0;
    bool in_set = false;

    if (x->p != x->start || x->depth > 0)
        return false;
    for (const char *c = x->p; c < x->end; c++) {
        if (*c == '\\')
            c++;
        else if (in_set)
            in_set = *c != ']';
        else if (*c == '[')
            in_set = true;
        else if (*c == '(')
            depth++;
        else if (*c == ')' && --depth == 0)
            return c + 1 == x->end;
    }
    return false;
}

static uint32_t group(struct regex *x, bool outer)
{
    uint32_t n;

    if (++x->depth > MAX_GROUPS)
        return bad(x, "more than 100 groups in each other");
    x->p++;
    if (at(x, '?'))
        group_head(x);
    n = alternatives(x, outer);
    x->depth--;
    if (!x->g->failed && !at(x, ')'))
        return bad(x, "a ')' is missing");
    x->p++;
    return n;
}

/* {m}, {m,} or {m,n} at x->p; false, and nothing is read, when it is not one:
 * then it is a character. */
static bool braces(struct regex *x, uint32_t *lo, uint32_t *hi)
{
    const char *p = x->p + 1;
    uint32_t v[2] = {0, 0};
    bool any[2] = {false, false};
    int k = 0;

    for (; p < x->end && *p != '}'; p++) {
        if (*p == ',' && k == 0) {
            k = 1;
        } else if (*p >= '0' && *p <= '9') {
            if (v[k] <= SL_GRAMMAR_MAX_REPEAT)
                v[k] = v[k] * 10 + (uint32_t)(*p - '0');
            any[k] = true;
        } else {
            return false;
        }
    }
    if (p >= x->end || (!any[0] && !any[1]))
        return false;
    *lo = v[0];
    *hi = k == 0 ? v[0] : any[1] ? v[1] : SL_GRAMMAR_MANY;
    x->p = p + 1;
    return true;
}

static uint32_t repeats(struct regex *x, uint32_t n)
{
    bool many = false;

    while (!x->g->failed && x->p < x->end) {
        uint32_t lo = 0, hi = SL_GRAMMAR_MANY;

        if (*x->p == '*') {
            x->p++;
        } else if (*x->p == '+') {
            x->p++;
            lo = 1;
        } else if (*x->p == '?') {
            x->p++;
            hi = 1;
        } else if (*x->p != '{' || !braces(x, &lo, &hi)) {
            break;
        }
        if (many)
            return bad(x, "a repetition of a repetition; use a group");
        if (hi < lo)
            return bad(x, "a repetition is {m}, {m,} or {m,n} with m <= n");
        n = sl_grammar_repeat(x->g, n, lo, hi);
        if (at(x, '?'))
            x->p++; /* lazy: the same texts match */
        else if (at(x, '+'))
            return bad(x, "possessive repetitions are not supported");
        many = true;
    }
    return n;
}

/* Outside of a set, behind a backslash. */
static uint32_t escaped(struct regex *x)
{
    struct set s = {.n = 0};
    uint32_t cp = 0;

    if (x->p < x->end && class(&s, *x->p)) {
        x->p++;
        return sl_regex_set(x->g, s.r, s.n, x->how);
    }
    return escape(x, &cp) ? one(x, cp) : bad(x, no_escape);
}

static uint32_t atom(struct regex *x, bool whole)
{
    uint32_t cp = 0;

    switch (*x->p) {
    case '(':
        return group(x, whole);
    case '[':
        return set(x);
    case '.':
        return dot(x);
    case '*':
    case '+':
    case '?':
        return bad(x, "there is nothing to repeat; escape it with \\");
    case '^':
    case '$':
        return bad(x, "^ and $ are supported at the ends of the pattern");
    case '\\':
        x->p++;
        return escaped(x);
    default:
        x->p += sl_utf8_get(&cp, x->p, (size_t)(x->end - x->p));
        return one(x, cp);
    }
}

static bool at_end(const struct regex *x)
{
    return x->p >= x->end || *x->p == '|' || *x->p == ')';
}

/* One alternative. Of the whole pattern it may have ^ and $, and without them
 * anything around it. */
static uint32_t sequence(struct regex *x, bool outer)
{
    uint32_t seq = sl_grammar_seq(x->g);
    bool find = outer && x->what == SL_REGEX_FIND, closed = false;
    bool whole = outer && is_whole(x);

    if (outer && at(x, '^'))
        x->p++;
    else if (find && !whole)
        sl_grammar_add(x->g, seq, anything(x));
    while (!x->g->failed && !at_end(x)) {
        uint32_t n;

        if (outer && at(x, '$') &&
            (x->p + 1 == x->end || x->p[1] == '|' || x->p[1] == ')')) {
            x->p++;
            closed = true;
            break;
        }
        n = atom(x, whole);
        sl_grammar_add(x->g, seq, repeats(x, n));
    }
    if (find && !closed && !whole)
        sl_grammar_add(x->g, seq, anything(x));
    return seq;
}

static uint32_t alternatives(struct regex *x, bool outer)
{
    uint32_t alt = sl_grammar_alt(x->g);

    while (!x->g->failed) {
        sl_grammar_add(x->g, alt, sequence(x, outer));
        if (!at(x, '|'))
            break;
        x->p++;
    }
    return alt;
}

uint32_t sl_regex_node(struct sl_grammar *g, const char *s, size_t len,
                       enum sl_regex_what what, enum sl_regex_write how)
{
    struct regex x = {
        .g = g, .start = s, .p = s, .end = s + len, .what = what, .how = how};
    uint32_t n;

    if (len > SL_REGEX_MAX_TEXT)
        return sl_grammar_fail(g, SL_EARG,
                               "the pattern has %zu bytes, and %d are read; "
                               "make it shorter",
                               len, SL_REGEX_MAX_TEXT);
    if (sl_utf8_valid(s, len) < len)
        return sl_grammar_fail(g, SL_EARG, "the pattern is not valid UTF-8");
    n = alternatives(&x, true);
    if (!g->failed && x.p < x.end)
        return bad(&x, "a ')' without '('");
    return n;
}
