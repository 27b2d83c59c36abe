/* sample/japart.c - can a value be valid under two schemas? See japart.h
 *
 * Each test below looks at one reason; any will do. What is written for a
 * schema is less than what is valid under it: without additionalProperties an
 * object has the members that its schema names. But only for a schema as it
 * stands: a part of allOf is joined with the others, and `written` is false.
 */
#include "sample/japart.h"

#include <math.h>

#include "base/utf8.h"
#include "sample/jlogic.h"
#include "sample/jmerge.h"
#include "sample/jschema.h"

#define MAX_DEPTH 8 /* schemas in each other; chosen */
#define ALL_TYPES 127

struct pair {
    struct sl_jschema *j;
    const json_t *a, *b;
    bool written;
    int depth;
};

static bool apart(const struct pair *p);

static bool apart_of(const struct pair *p, const json_t *a, const json_t *b,
                     bool written)
{
    struct pair next = {p->j, a, b, written, p->depth + 1};

    return apart(&next);
}

/* Does nothing in the schema speak of another one for the same value? */
static bool is_plain(const json_t *s)
{
    return !json_object_get(s, "$ref") && !json_object_get(s, "allOf") &&
           !json_object_get(s, "anyOf") && !json_object_get(s, "oneOf") &&
           !sl_jlogic_has(s);
}

/* ------------------------------------------------------------ types and values
 */

/* Types of values that are valid, or written. Integers are numbers. */
static int types(const json_t *s, bool written)
{
    int bits = sl_jmerge_types(json_object_get(s, "type"));

    if (bits == 0 && written && is_plain(s))
        bits = sl_jschema_implied(s);
    if (bits <= 0)
        return ALL_TYPES;
    return bits & SL_JTYPE_NUMBER ? bits | SL_JTYPE_INTEGER : bits;
}

/* One that is rounded tells nothing apart. */
static double limit(const json_t *s, const char *key, double none)
{
    const json_t *v = json_object_get(s, key);
    double x = json_number_value(v);

    return json_is_number(v) && fabs(x) < 0x1p53 ? x : none;
}

/* The numbers that are allowed lie from *lo to *hi, or between. */
static void range(const json_t *s, double *lo, double *hi, bool *open_lo,
                  bool *open_hi)
{
    double below = limit(s, "exclusiveMinimum", -HUGE_VAL);
    double above = limit(s, "exclusiveMaximum", HUGE_VAL);

    *lo = limit(s, "minimum", -HUGE_VAL);
    *hi = limit(s, "maximum", HUGE_VAL);
    *open_lo = below >= *lo && below > -HUGE_VAL;
    *open_hi = above <= *hi && above < HUGE_VAL;
    *lo = *open_lo ? below : *lo;
    *hi = *open_hi ? above : *hi;
}

static bool numbers_apart(const json_t *a, const json_t *b)
{
    double lo[2], hi[2];
    bool open_lo[2], open_hi[2];

    range(a, &lo[0], &hi[0], &open_lo[0], &open_hi[0]);
    range(b, &lo[1], &hi[1], &open_lo[1], &open_hi[1]);
    return hi[0] < lo[1] || hi[1] < lo[0] ||
           (hi[0] == lo[1] && (open_hi[0] || open_lo[1])) ||
           (hi[1] == lo[0] && (open_hi[1] || open_lo[0]));
}

static bool counts_apart(const json_t *a, const json_t *b, const char *least,
                         const char *most)
{
    return limit(a, least, 0) > limit(b, most, HUGE_VAL) ||
           limit(b, least, 0) > limit(a, most, HUGE_VAL);
}

/* The values that a schema lists: *n of them, of its enum or one. */
static const json_t *listed(const json_t *s, size_t i, size_t *n)
{
    const json_t *one = json_object_get(s, "const");
    const json_t *list = json_object_get(s, "enum");

    *n = one ? 1 : json_array_size(list);
    return one ? one : json_array_get(list, i);
}

static bool breaks(struct sl_jschema *j, const json_t *v, const json_t *s)
{
    size_t n = 1, n_same = 0;

    if (!(types(s, false) & sl_jmerge_type_of(v)))
        return true;
    (void)listed(s, 0, &n);
    if (n == 0 || !sl_grammar_spend(j->g, n))
        return false;
    for (size_t i = 0; i < n; i++)
        n_same += json_equal(listed(s, i, &n), v) != 0;
    return n_same == 0;
}

/* All values that a lists break b. */
static bool values_apart(struct sl_jschema *j, const json_t *a, const json_t *b)
{
    size_t n = 0;

    (void)listed(a, 0, &n);
    if (n == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!breaks(j, listed(a, i, &n), b))
            return false;
    return true;
}

/* --------------------------------------------------------------------- objects
 */

static bool requires(const json_t *s, const char *name)
{
    const json_t *list = json_object_get(s, "required");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *x = json_string_value(json_array_get(list, i));

        if (x && !strcmp(x, name))
            return true;
    }
    return false;
}

/* Has no object of this schema such a member? */
static bool lacks(const json_t *s, const char *name, bool written)
{
    const json_t *props = json_object_get(s, "properties");
    const json_t *more = json_object_get(s, "additionalProperties");
    const json_t *mine = json_object_get(props, name);

    if (mine || json_object_get(s, "patternProperties"))
        return json_is_false(mine);
    if (json_is_false(more))
        return true;
    return written && !more && is_plain(s) && !requires(s, name) &&
           json_object_size(props) +
                   json_array_size(json_object_get(s, "required")) >
               0;
}

/* Members that `of` requires tell the two apart. */
static bool members_apart(const struct pair *p, const json_t *of)
{
    const json_t *list = json_object_get(of, "required");
    bool as_is = p->written && is_plain(p->a) &&
                 !json_object_get(p->a, "patternProperties");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        const json_t *x, *y;

        if (!name || !sl_grammar_spend(p->j->g, 1))
            continue;
        if (lacks(of == p->a ? p->b : p->a, name, of == p->b && as_is))
            return true;
        x = json_object_get(json_object_get(p->a, "properties"), name);
        y = json_object_get(json_object_get(p->b, "properties"), name);
        if (x && y && apart_of(p, x, y, as_is))
            return true;
    }
    return false;
}

/* -------------------------------------------------------------------- together
 */

/* The list `key` of the first or the second schema: are all of its schemas
 * apart from the other one, or, of allOf, is one? */
static bool list_apart(const struct pair *p, bool first, const char *key)
{
    const json_t *list = json_object_get(first ? p->a : p->b, key);
    bool one = !strcmp(key, "allOf");
    size_t n = json_array_size(list), n_apart = 0;

    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(list, i);

        n_apart += first ? apart_of(p, x, p->b, false)
                         : apart_of(p, p->a, x, p->written);
    }
    return one ? n_apart > 0 : n > 0 && n_apart == n;
}

static bool parts_apart(const struct pair *p)
{
    static const char *const key[] = {"allOf", "anyOf", "oneOf"};

    for (size_t i = 0; i < SL_COUNTOF(key); i++)
        if (list_apart(p, true, key[i]) || list_apart(p, false, key[i]))
            return true;
    return false;
}

/* What stands at the reference of a schema, or the schema. */
static const json_t *follow(const struct pair *p, const json_t *s, bool *alone)
{
    const json_t *ref = json_object_get(s, "$ref");

    if (!ref)
        return s;
    *alone = *alone && json_object_size(s) == 1;
    return sl_jschema_resolve(p->j, ref, "$");
}

static bool kinds_apart(const struct pair *p)
{
    int a = types(p->a, p->written), b = types(p->b, false);

    if (!(a & b) || values_apart(p->j, p->a, p->b) ||
        values_apart(p->j, p->b, p->a))
        return true;
    if (!(a & ~(SL_JTYPE_INTEGER | SL_JTYPE_NUMBER)))
        return numbers_apart(p->a, p->b);
    if (a == SL_JTYPE_STRING)
        return counts_apart(p->a, p->b, "minLength", "maxLength");
    if (a == SL_JTYPE_ARRAY)
        return counts_apart(p->a, p->b, "minItems", "maxItems");
    return a == SL_JTYPE_OBJECT &&
           (members_apart(p, p->a) || members_apart(p, p->b));
}

static bool apart(const struct pair *p)
{
    struct pair q = *p;
    bool as_is = p->written, alone = true;

    if (p->depth > MAX_DEPTH || !sl_grammar_spend(p->j->g, 1))
        return false;
    q.a = follow(p, p->a, &as_is);
    q.b = follow(p, p->b, &alone);
    if (!q.a || !q.b)
        return false;
    if (q.a != p->a || q.b != p->b) {
        /* What stands beside a reference says something, too. */
        return apart_of(p, q.a, q.b, as_is) ||
               (json_object_size(p->a) > 1 && q.a != p->a &&
                kinds_apart(&(struct pair){p->j, p->a, q.b, false, p->depth}));
    }
    if (json_is_boolean(p->a) || json_is_boolean(p->b))
        return json_is_false(p->a) || json_is_false(p->b);
    return kinds_apart(p) || parts_apart(p);
}

bool sl_japart(struct sl_jschema *j, const json_t *a, const json_t *b)
{
    struct pair p = {j, a, b, true, 0};

    return apart(&p);
}
