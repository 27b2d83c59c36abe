/* sample/jarray.c - arrays of a JSON schema */
#include "sample/jarray.h"

#define MAX_PREFIX 64 /* items of prefixItems; they nest in the grammar */

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
    if (hi == 0)
        return sl_jtext_lit(j, "[]");
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
