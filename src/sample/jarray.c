/* sample/jarray.c - arrays of a JSON schema */
#include "sample/jarray.h"

#include "sample/jmerge.h"

#define MAX_UNIQUE 8    /* values of unique items: 256 rules; chosen */
#define MAX_COUNTED 512 /* items beside contains; chosen */
#define MAX_PREFIX 64   /* items of prefixItems; they nest in the grammar */

/* The items behind the prefix, each with its comma. */
static uint32_t further(struct sl_jschema *j, json_t *item, uint32_t lo,
                        uint32_t hi, const char *path)
{
    char at[SL_JTEXT_PATH];
    uint32_t one;

    sl_jtext_path(at, path, "items");
    one = item ? j->node(j, item, at) : sl_jtext_call(j, SL_JTEXT_VALUE);
    return sl_grammar_repeat(
        j->g,
        sl_jtext_seq(j, sl_jtext_lit(j, ","),
                     sl_jtext_seq(j, sl_jtext_call(j, SL_JTEXT_WS), one)),
        lo, hi);
}

/* Items 0 to n - 1 of a prefix, then `tail`; those from lo on may be left out,
 * with all behind them. */
static uint32_t prefixed(struct sl_jschema *j, json_t *prefix, uint32_t lo,
                         uint32_t hi, uint32_t tail, const char *path)
{
    char at[SL_JTEXT_PATH];

    for (size_t i = sl_min(json_array_size(prefix), hi); i-- > 0;) {
        uint32_t one;

        sl_jtext_path(at, path, "prefixItems");
        one = sl_jtext_seq(j, j->node(j, json_array_get(prefix, i), at), tail);
        if (i > 0)
            one = sl_jtext_seq(
                j, sl_jtext_lit(j, ","),
                sl_jtext_seq(j, sl_jtext_call(j, SL_JTEXT_WS), one));
        tail = i >= lo && i > 0 ? sl_jtext_optional(j, one) : one;
    }
    return tail;
}

static uint32_t comma(struct sl_jschema *j, uint32_t n)
{
    return sl_jtext_seq(j, sl_jtext_lit(j, ","),
                        sl_jtext_seq(j, sl_jtext_call(j, SL_JTEXT_WS), n));
}

/* ---- items that differ */

struct unique {
    const json_t *value[MAX_UNIQUE];
    uint32_t n, lo, hi;
    uint32_t rule[1 << MAX_UNIQUE]; /* by the values that were written */
};

static bool add_unique(struct unique *u, const json_t *v)
{
    for (uint32_t i = 0; i < u->n; i++)
        if (json_equal(u->value[i], v))
            return true;
    if (u->n == MAX_UNIQUE)
        return false;
    u->value[u->n++] = v;
    return true;
}

/* The values of items, if they are few and listed. */
static bool read_unique(struct sl_jschema *j, struct unique *u,
                        const json_t *item, const char *path)
{
    const json_t *list = json_object_get(item, "enum");
    const json_t *type = json_object_get(item, "type");
    static const char *const other[] = {"$ref",   "anyOf",   "oneOf",
                                        "allOf",  "not",     "if",
                                        "format", "pattern", "multipleOf"};

    for (size_t i = 0; i < SL_COUNTOF(other); i++)
        if (json_object_get(item, other[i]))
            return false;
    if (json_is_string(type) && !strcmp(json_string_value(type), "boolean") &&
        !list)
        return add_unique(u, json_true()) && add_unique(u, json_false());
    for (size_t i = 0; i < json_array_size(list); i++)
        if (sl_jmerge_allows(j->g, item, json_array_get(list, i), path) &&
            !add_unique(u, json_array_get(list, i)))
            return false;
    return json_is_array(list);
}

/* What may follow the values in `have`. */
static uint32_t unique_rest(struct sl_jschema *j, const struct unique *u,
                            uint32_t have)
{
    uint32_t c = (uint32_t)__builtin_popcount(have), alt = sl_grammar_alt(j->g);

    if (c >= u->lo)
        sl_grammar_add(j->g, alt, sl_jtext_lit(j, ""));
    for (uint32_t i = 0; i < u->n && c < u->hi; i++) {
        uint32_t one;

        if (have >> i & 1)
            continue;
        one = sl_jtext_seq(j, sl_jtext_value(j, u->value[i]),
                           sl_grammar_call(j->g, u->rule[have | 1u << i]));
        sl_grammar_add(j->g, alt, have ? comma(j, one) : one);
    }
    return alt;
}

static uint32_t unique(struct sl_jschema *j, const json_t *item, uint32_t lo,
                       uint32_t hi, const char *path)
{
    struct unique u = {.lo = (uint32_t)sl_max(lo, 1), .hi = hi};
    uint32_t n;

    if (!item || !read_unique(j, &u, item, path))
        return sl_jtext_refuse(j, path, "uniqueItems",
                               "is supported for items with an enum of up to 8 "
                               "values; leave it out, or set maxItems to 1");
    for (uint32_t have = 1u << u.n; have-- > 1;) {
        u.rule[have] = sl_grammar_rule(j->g, "items", 5);
        sl_grammar_define(j->g, u.rule[have], unique_rest(j, &u, have));
    }
    n = sl_jtext_enclosed(j, "[", unique_rest(j, &u, 0), "]");
    return lo == 0 ? sl_jtext_maybe_empty(j, "[]", n) : n;
}

/* ---- items one of which is special */

/* Rules by the number of items and whether it was among them. */
static uint32_t containing(struct sl_jschema *j, json_t *item, json_t *special,
                           uint32_t lo, uint32_t hi, const char *path)
{
    uint32_t top = (uint32_t)sl_max(hi == SL_GRAMMAR_MANY ? lo : hi, 1);
    uint32_t rule[MAX_COUNTED + 1][2];
    struct sl_grammar *g = j->g;
    char at[SL_JTEXT_PATH];
    json_t *both;

    if (top > MAX_COUNTED)
        return sl_jtext_refuse(j, path, "contains",
                               "beside more than 512 items is not supported");
    sl_jtext_path(at, path, "contains");
    both =
        sl_jtext_keep(j, item ? json_pack("{s:[O,O]}", "allOf", item, special)
                              : json_incref(special));
    for (uint32_t c = 0; c <= top; c++)
        for (int has = 0; has < 2; has++)
            rule[c][has] = sl_grammar_rule(g, "items", 5);
    for (uint32_t c = 0; c <= top && !g->failed; c++) {
        uint32_t next =
            hi == SL_GRAMMAR_MANY ? (uint32_t)sl_min(c + 1, top) : c + 1;

        for (int has = 0; has < 2; has++) {
            uint32_t alt = sl_grammar_alt(g);

            if (has && c >= lo)
                sl_grammar_add(g, alt, sl_jtext_lit(j, ""));
            for (int k = has; k < 2 && next <= top; k++) {
                uint32_t one = has || k == 0
                                   ? (item ? j->node(j, item, at)
                                           : sl_jtext_call(j, SL_JTEXT_VALUE))
                                   : j->node(j, both, at);

                one = sl_jtext_seq(j, one,
                                   sl_grammar_call(g, rule[next][has | k]));
                sl_grammar_add(g, alt, c ? comma(j, one) : one);
            }

            sl_grammar_define(g, rule[c][has], alt);
        }
    }
    return sl_jtext_enclosed(j, "[", sl_grammar_call(g, rule[0][0]), "]");
}

uint32_t sl_jarray_node(struct sl_jschema *j, const json_t *s, const char *path)
{
    json_t *item = json_object_get(s, "items");
    json_t *prefix = json_object_get(s, "prefixItems");
    uint32_t lo = sl_jtext_count(j, s, "minItems", 0, path), n, inside;
    uint32_t hi = sl_jtext_count(j, s, "maxItems", SL_GRAMMAR_MANY, path);

    if (json_is_array(item)) { /* before draft 2020-12 */
        prefix = item;
        item = json_object_get(s, "additionalItems");
    }
    n = (uint32_t)json_array_size(prefix);
    if (n > MAX_PREFIX)
        return sl_jtext_refuse(
            j, path, "prefixItems",
            "has more than 64 items, which is not supported");
    if (n > 0 && !item && lo <= n)
        item = json_false(); /* what is not described is not written */
    if (json_is_false(item))
        hi = (uint32_t)sl_min(hi, n);
    if (hi < lo)
        return sl_grammar_alt(j->g);
    if (json_object_get(s, "contains") && hi > 0) {
        if (n > 0 || json_is_true(json_object_get(s, "uniqueItems")))
            return sl_jtext_refuse(j, path, "contains",
                                   "beside prefixItems or uniqueItems is not "
                                   "supported; leave it out");
        return containing(j, item, json_object_get(s, "contains"), lo, hi,
                          path);
    }
    if (json_object_get(s, "contains"))
        return sl_grammar_alt(j->g);
    if (hi == 0)
        return sl_jtext_lit(j, "[]");
    if (json_is_true(json_object_get(s, "uniqueItems")) && hi > 1)
        return n > 0 ? sl_jtext_refuse(j, path, "uniqueItems",
                                       "beside prefixItems is not supported; "
                                       "leave it out")
                     : unique(j, item, lo, hi, path);
    if (n > 0) {
        uint32_t tail =
            hi <= n ? sl_grammar_seq(j->g)
                    : further(j, item, lo > n ? lo - n : 0,
                              hi == SL_GRAMMAR_MANY ? hi : hi - n, path);

        inside = prefixed(j, prefix, lo, hi, tail, path);
    } else {
        char at[SL_JTEXT_PATH];

        sl_jtext_path(at, path, "items");
        inside = item ? j->node(j, item, at) : sl_jtext_call(j, SL_JTEXT_VALUE);
        inside =
            sl_jtext_seq(j, inside,
                         further(j, item, lo ? lo - 1 : 0,
                                 hi == SL_GRAMMAR_MANY ? hi : hi - 1, path));
    }
    inside = sl_jtext_enclosed(j, "[", inside, "]");
    return lo == 0 ? sl_jtext_maybe_empty(j, "[]", inside) : inside;
}
