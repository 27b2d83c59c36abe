/* text/jinja_text.c - what Python's str can do; see jinja_text.h
 *
 * Simple case mappings and categories come from utf8proc; the hundred
 * characters whose capital is several characters are in a table, and the Greek
 * final sigma is the one mapping that looks at its neighbours (Unicode 3.13,
 * Final_Sigma).
 */
#include "text/jinja_text.h"

#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja_case_table.h"

#define BYTES_PER_STEP 64

bool sl_jinja_is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x20) || cp == 0x85 ||
           cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f ||
           cp == 0x3000;
}

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool sl_jinja_is_printable(uint32_t cp)
{
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return cp == ' ';
    default:
        return true;
    }
}

bool sl_jinja_is_upper(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LU ||
           (cp >= 0x2160 && cp <= 0x216f) || (cp >= 0x24b6 && cp <= 0x24cf) ||
           (cp >= 0x1f130 && cp <= 0x1f149) ||
           (cp >= 0x1f150 && cp <= 0x1f169) || (cp >= 0x1f170 && cp <= 0x1f189);
}

/* Ll and the few that Unicode lists as Other_Lowercase. */
bool sl_jinja_is_lower(uint32_t cp)
{
    static const struct {
        uint32_t a, b;
    } other[] = {
        {0xaa, 0xaa},     {0xba, 0xba},     {0x2b0, 0x2b8},   {0x2c0, 0x2c1},
        {0x2e0, 0x2e4},   {0x345, 0x345},   {0x37a, 0x37a},   {0x1d2c, 0x1d6a},
        {0x1d78, 0x1d78}, {0x1d9b, 0x1dbf}, {0x2071, 0x2071}, {0x207f, 0x207f},
        {0x2090, 0x209c}, {0x2170, 0x217f}, {0x24d0, 0x24e9}, {0x2c7c, 0x2c7d},
        {0xa69c, 0xa69d}, {0xa770, 0xa770}, {0xa7f8, 0xa7f9}, {0xab5c, 0xab5f}};

    if (category(cp) == UTF8PROC_CATEGORY_LL)
        return true;
    for (size_t i = 0; i < SL_COUNTOF(other); i++)
        if (cp >= other[i].a && cp <= other[i].b)
            return true;
    return false;
}

bool sl_jinja_is_cased(uint32_t cp)
{
    return sl_jinja_is_upper(cp) || sl_jinja_is_lower(cp) ||
           category(cp) == UTF8PROC_CATEGORY_LT;
}

bool sl_jinja_is_alpha(uint32_t cp)
{
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return true;
    default:
        return false;
    }
}

bool sl_jinja_is_decimal(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

static bool is_case_ignorable(uint32_t cp)
{
    static const uint32_t marks[] = {
        0x27,   0x2e,   0x3a,   0xb7,   0x387,  0x55f,  0x5f4,  0x2018, 0x2019,
        0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};

    switch (category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        break;
    }
    for (size_t i = 0; i < SL_COUNTOF(marks); i++)
        if (marks[i] == cp)
            return true;
    return false;
}

static bool in_set(const char *chars, size_t n, const char *c, size_t len)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t k = sl_utf8_get(&cp, chars + i, n - i);

        if (k == len && memcmp(chars + i, c, len) == 0)
            return true;
        i += k;
    }
    return false;
}

static bool to_strip(const char *c, size_t len, const char *chars, size_t n)
{
    uint32_t cp;

    if (chars)
        return in_set(chars, n, c, len);
    sl_utf8_get(&cp, c, len);
    return sl_jinja_is_space(cp);
}

static size_t last_char(const char *s, size_t len)
{
    size_t n = 1;

    while (n < len && ((unsigned char)s[len - n] & 0xc0) == 0x80)
        n++;
    return n;
}

void sl_jinja_strip(const char **s, size_t *len, const char *chars,
                    size_t n_chars, bool left, bool right)
{
    uint32_t cp;

    while (left && *len) {
        size_t n = sl_utf8_get(&cp, *s, *len);

        if (!to_strip(*s, n, chars, n_chars))
            break;
        *s += n;
        *len -= n;
    }
    while (right && *len) {
        size_t n = last_char(*s, *len);

        if (!to_strip(*s + *len - n, n, chars, n_chars))
            break;
        *len -= n;
    }
}

size_t sl_jinja_offset(const struct sl_jstr *s, size_t i)
{
    size_t at = 0;

    SL_ASSERT(i <= s->n_cp);
    if (s->n_cp == s->len)
        return i;
    if (i == s->n_cp)
        return s->len;
    for (; i > 0; i--)
        do
            at++;
        while (at < s->len && ((unsigned char)s->p[at] & 0xc0) == 0x80);
    return at;
}

struct sl_jval sl_jinja_cut(struct sl_jrun *r, const struct sl_jstr *s,
                            size_t a, size_t b)
{
    size_t from, to;

    if (s->n_cp != s->len && !sl_jinja_spend(r, s->len / BYTES_PER_STEP))
        return sl_jinja_none();
    from = sl_jinja_offset(s, a);
    to = sl_jinja_offset(s, b);
    return sl_jinja_safe(r, sl_jinja_borrow(r, s->p + from, to - from),
                         s->safe);
}

static void emit_cp(struct sl_jrun *r, uint32_t cp)
{
    char out[4];

    sl_jinja_emit(r, out, sl_utf8_put(out, cp));
}

static void emit_capital(struct sl_jrun *r, uint32_t cp, bool title)
{
    for (size_t i = 0; cp > 0x7f && i < SL_COUNTOF(special_case); i++) {
        const uint32_t *to =
            title ? special_case[i].title : special_case[i].upper;

        if (special_case[i].cp != cp)
            continue;
        for (size_t k = 0; k < 3 && to[k]; k++)
            emit_cp(r, to[k]);
        return;
    }
    emit_cp(r, (uint32_t)(title ? utf8proc_totitle((utf8proc_int32_t)cp)
                                : utf8proc_toupper((utf8proc_int32_t)cp)));
}

/* Is the sigma that ends at `at` the last letter of a word? */
static bool final_sigma(const char *p, size_t len, size_t start, size_t at)
{
    uint32_t cp = 0;
    size_t i = start;
    bool before = false;

    while (i > 0 && !before) {
        size_t n = last_char(p, i);

        sl_utf8_get(&cp, p + i - n, n);
        if (!is_case_ignorable(cp))
            break;
        i -= n;
    }
    before = i > 0 && sl_jinja_is_cased(cp);
    for (i = at; i < len;) {
        i += sl_utf8_get(&cp, p + i, len - i);
        if (!is_case_ignorable(cp))
            return before && !sl_jinja_is_cased(cp);
    }
    return before;
}

static void emit_lower(struct sl_jrun *r, const char *p, size_t len, size_t at,
                       uint32_t cp, size_t n)
{
    if (cp == 0x3a3)
        emit_cp(r, final_sigma(p, len, at, at + n) ? 0x3c2 : 0x3c3);
    else if (cp == 0x130) /* I with a dot: i and a combining dot */
        sl_jinja_emit(r, "i\xcc\x87", 3);
    else
        emit_cp(r, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
}

/* One run of characters, all but the first in lower case. Jinja lowers the
 * rest on its own, so a sigma does not see the first character. */
static void emit_word(struct sl_jrun *r, const char *p, size_t len)
{
    uint32_t cp;
    size_t n = sl_utf8_get(&cp, p, len);

    emit_capital(r, cp, false);
    sl_jinja_emit_case(r, p + n, len - n, 'l');
}

/* Jinja's title: words begin after one of - ( { [ < and white space. */
static void emit_title_words(struct sl_jrun *r, const char *p, size_t len)
{
    size_t start = 0;
    int was = -1;

    for (size_t i = 0; i < len && !r->rc;) {
        uint32_t cp;
        size_t n = sl_utf8_get(&cp, p + i, len - i);
        int sep = sl_jinja_is_space(cp) ||
                  (cp && cp < 0x80 && strchr("-({[<", (int)cp));

        if (was >= 0 && sep != was) {
            emit_word(r, p + start, i - start);
            start = i;
        }
        was = sep;
        i += n;
    }
    if (start < len)
        emit_word(r, p + start, len - start);
}

void sl_jinja_emit_case(struct sl_jrun *r, const char *p, size_t len, char what)
{
    bool cased = false;

    if (what == 'j') {
        emit_title_words(r, p, len);
        return;
    }
    sl_jinja_spend(r, len);
    for (size_t i = 0; i < len && !r->rc;) {
        uint32_t cp;
        size_t n = sl_utf8_get(&cp, p + i, len - i);

        if (what == 'u')
            emit_capital(r, cp, false);
        else if ((what == 't' && !cased) || (what == 'c' && i == 0))
            emit_capital(r, cp, true);
        else
            emit_lower(r, p, len, i, cp, n);
        cased = what == 't' && sl_jinja_is_cased(cp);
        i += n;
    }
}

/* An empty `old` matches before every character and at the end. */
static void replace_empty(struct sl_jrun *r, const struct sl_jstr *s,
                          const struct sl_jstr *with, int64_t max)
{
    size_t at = 0;

    while (!r->rc) {
        uint32_t cp;
        size_t n;

        if (max == 0)
            break;
        sl_jinja_emit(r, with->p, with->len);
        if (max > 0)
            max--;
        if (at >= s->len)
            return;
        n = sl_utf8_get(&cp, s->p + at, s->len - at);
        sl_jinja_emit(r, s->p + at, n);
        sl_jinja_spend(r, 1);
        at += n;
    }
    if (!r->rc)
        sl_jinja_emit(r, s->p + at, s->len - at);
}

void sl_jinja_emit_replaced(struct sl_jrun *r, const struct sl_jstr *s,
                            const struct sl_jstr *old,
                            const struct sl_jstr *with, int64_t max)
{
    const char *p = s->p, *end = s->p + s->len;

    sl_jinja_spend(r, s->len / BYTES_PER_STEP);
    if (old->len == 0) {
        replace_empty(r, s, with, max);
        return;
    }
    while (!r->rc && max != 0 && p < end) {
        const char *hit = memmem(p, (size_t)(end - p), old->p, old->len);

        if (!hit)
            break;
        sl_jinja_emit(r, p, (size_t)(hit - p));
        sl_jinja_emit(r, with->p, with->len);
        sl_jinja_spend(r, 1);
        p = hit + old->len;
        if (max > 0)
            max--;
    }
    if (!r->rc)
        sl_jinja_emit(r, p, (size_t)(end - p));
}

void sl_jinja_emit_escaped(struct sl_jrun *r, const char *p, size_t len)
{
    for (size_t i = 0; i < len && !r->rc; i++) {
        switch (p[i]) {
        case '&':
            sl_jinja_emit_str(r, "&amp;");
            break;
        case '<':
            sl_jinja_emit_str(r, "&lt;");
            break;
        case '>':
            sl_jinja_emit_str(r, "&gt;");
            break;
        case '"':
            sl_jinja_emit_str(r, "&#34;");
            break;
        case '\'':
            sl_jinja_emit_str(r, "&#39;");
            break;
        default:
            sl_jinja_emit(r, p + i, 1);
        }
    }
}

/* A list whose length is not known before. */
struct pieces {
    struct sl_jval *v;
    size_t n, cap;
    bool safe;
};

static void add_piece(struct sl_jrun *r, struct pieces *l, const char *p,
                      size_t len)
{
    if (!sl_jinja_spend(r, 1))
        return;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 8;
        struct sl_jval *v = sl_jinja_get(r, cap, sizeof(*v));

        if (!v)
            return;
        if (l->n)
            memcpy(v, l->v, l->n * sizeof(*v));
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = sl_jinja_safe(r, sl_jinja_borrow(r, p, len), l->safe);
}

static struct sl_jval finish(struct sl_jrun *r, struct pieces *l, bool reverse)
{
    struct sl_jval v = sl_jinja_list(r, SL_J_LIST, 0);

    if (r->rc)
        return v;
    for (size_t i = 0; reverse && i < l->n / 2; i++) {
        struct sl_jval t = l->v[i];

        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
    v.u.l->v = l->v;
    v.u.l->n = l->n;
    return v;
}

static void split_space(struct sl_jrun *r, struct pieces *l, const char *p,
                        size_t len, int64_t max)
{
    while (!r->rc) {
        size_t n = 0;

        sl_jinja_strip(&p, &len, NULL, 0, true, false);
        if (!len)
            return;
        if (max == 0) {
            sl_jinja_strip(&p, &len, NULL, 0, false, true);
            add_piece(r, l, p, len);
            return;
        }
        while (n < len) {
            uint32_t cp;
            size_t k = sl_utf8_get(&cp, p + n, len - n);

            if (sl_jinja_is_space(cp))
                break;
            n += k;
        }
        add_piece(r, l, p, n);
        p += n;
        len -= n;
        max -= max > 0;
    }
}

static void rsplit_space(struct sl_jrun *r, struct pieces *l, const char *p,
                         size_t len, int64_t max)
{
    while (!r->rc) {
        size_t n = 0;

        sl_jinja_strip(&p, &len, NULL, 0, false, true);
        if (!len)
            return;
        if (max == 0) {
            sl_jinja_strip(&p, &len, NULL, 0, true, false);
            add_piece(r, l, p, len);
            return;
        }
        while (n < len) {
            uint32_t cp;
            size_t k = last_char(p, len - n);

            sl_utf8_get(&cp, p + len - n - k, k);
            if (sl_jinja_is_space(cp))
                break;
            n += k;
        }
        add_piece(r, l, p + len - n, n);
        len -= n;
        max -= max > 0;
    }
}

static void split_sep(struct sl_jrun *r, struct pieces *l, const char *p,
                      size_t len, const struct sl_jstr *sep, int64_t max)
{
    for (; max != 0 && !r->rc && len; max -= max > 0) {
        const char *hit = memmem(p, len, sep->p, sep->len);

        if (!hit)
            break;
        add_piece(r, l, p, (size_t)(hit - p));
        len -= (size_t)(hit - p) + sep->len;
        p = hit + sep->len;
    }
    add_piece(r, l, p, len);
}

static void rsplit_sep(struct sl_jrun *r, struct pieces *l, const char *p,
                       size_t len, const struct sl_jstr *sep, int64_t max)
{
    size_t at = len >= sep->len ? len - sep->len + 1 : 0;

    for (; max != 0 && !r->rc && at > 0; max -= max > 0) {
        while (at > 0 && memcmp(p + at - 1, sep->p, sep->len) != 0 &&
               sl_jinja_spend(r, sep->len / BYTES_PER_STEP))
            at--;
        if (r->rc)
            return;
        if (at == 0)
            break;
        at--; /* the separator is at `at` */
        add_piece(r, l, p + at + sep->len, len - at - sep->len);
        len = at;
        at = len >= sep->len ? len - sep->len + 1 : 0;
    }
    add_piece(r, l, p, len);
}

struct sl_jval sl_jinja_split(struct sl_jrun *r, const struct sl_jstr *s,
                              const struct sl_jstr *sep, int64_t max,
                              bool from_right)
{
    struct pieces l = {.safe = s->safe};

    sl_jinja_spend(r, s->len / BYTES_PER_STEP);
    if (sep && sep->len == 0) {
        sl_jinja_fail(r, SL_EARG, "split: empty separator");
        return sl_jinja_none();
    }
    if (sep && from_right)
        rsplit_sep(r, &l, s->p, s->len, sep, max);
    else if (sep)
        split_sep(r, &l, s->p, s->len, sep, max);
    else if (from_right)
        rsplit_space(r, &l, s->p, s->len, max);
    else
        split_space(r, &l, s->p, s->len, max);
    return finish(r, &l, from_right);
}

static bool is_line_end(uint32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 ||
           cp == 0x2028 || cp == 0x2029;
}

struct sl_jval sl_jinja_lines(struct sl_jrun *r, const struct sl_jstr *s,
                              bool keep_ends)
{
    struct pieces l = {.safe = s->safe};
    size_t start = 0;

    sl_jinja_spend(r, s->len / BYTES_PER_STEP);
    for (size_t i = 0; i < s->len && !r->rc;) {
        uint32_t cp;
        size_t n = sl_utf8_get(&cp, s->p + i, s->len - i);

        if (!is_line_end(cp)) {
            i += n;
            continue;
        }
        if (cp == '\r' && i + 1 < s->len && s->p[i + 1] == '\n')
            n = 2;
        add_piece(r, &l, s->p + start, i + (keep_ends ? n : 0) - start);
        i += n;
        start = i;
    }
    if (start < s->len)
        add_piece(r, &l, s->p + start, s->len - start);
    return finish(r, &l, false);
}
