/* text/jinja_args.c - arguments of calls; see jinja_args.h */
#include "text/jinja_args.h"

#define WHO(a) (int)sl_min((a)->who_len, 60), (a)->who

/* The i-th of the names, or NULL. */
static const char *nth(const char *names, size_t i, size_t *len)
{
    while (*names) {
        *len = strcspn(names, " ");
        if (i-- == 0)
            return names;
        names += *len;
        names += *names == ' ';
    }
    return NULL;
}

static void bind_keyword(struct sl_jrun *r, const struct sl_jargs *a,
                         const char *names, const struct sl_jpair *kw,
                         struct sl_jval *out)
{
    const struct sl_jstr *key = kw->key.u.s;
    const char *name;
    size_t len;

    for (size_t i = 0; (name = nth(names, i, &len)) != NULL; i++) {
        if (len != key->len || memcmp(name, key->p, len) != 0)
            continue;
        if (out[i].kind != SL_J_MISSING)
            sl_jinja_fail(r, SL_EARG, "%.*s() got two values for '%.*s'",
                          WHO(a), (int)len, name);
        out[i] = kw->val;
        return;
    }
    sl_jinja_fail(r, SL_EARG, "%.*s() takes no argument '%.*s'", WHO(a),
                  (int)sl_min(key->len, 60), key->p);
}

bool sl_jinja_bind(struct sl_jrun *r, const struct sl_jargs *a,
                   const char *names, size_t need, struct sl_jval *out)
{
    size_t n = 0, len;

    if (r->rc)
        return false;
    for (; nth(names, n, &len); n++)
        out[n] = (struct sl_jval){.kind = SL_J_MISSING};
    if (a->n > n) {
        sl_jinja_fail(r, SL_EARG,
                      "%.*s() takes at most %zu arguments, %zu were given",
                      WHO(a), n, a->n);
        return false;
    }
    for (size_t i = 0; i < a->n; i++)
        out[i] = a->v[i];
    for (size_t i = 0; a->kw && i < a->kw->n; i++)
        bind_keyword(r, a, names, &a->kw->p[i], out);
    for (size_t i = 0; i < need; i++) {
        const char *name = nth(names, i, &len);

        if (out[i].kind == SL_J_MISSING && name)
            sl_jinja_fail(r, SL_EARG, "%.*s() needs the argument '%.*s'",
                          WHO(a), (int)len, name);
    }
    return r->rc == 0;
}

void sl_jinja_arg_int(struct sl_jrun *r, const struct sl_jargs *a,
                      struct sl_jval v, int64_t *out)
{
    if (v.kind == SL_J_MISSING)
        return;
    if (v.kind == SL_J_UNDEF)
        sl_jinja_fail_undef(r, v);
    else if (!sl_jinja_is_int(v))
        sl_jinja_fail(r, SL_EARG, "%.*s() needs an integer, not %s", WHO(a),
                      sl_jinja_type(v));
    else
        *out = sl_jinja_int_of(v);
}

void sl_jinja_arg_bool(struct sl_jrun *r, struct sl_jval v, bool *out)
{
    if (v.kind != SL_J_MISSING)
        *out = sl_jinja_truth(r, v);
}

const struct sl_jstr *
sl_jinja_arg_str(struct sl_jrun *r, const struct sl_jargs *a, struct sl_jval v)
{
    if (v.kind == SL_J_STR)
        return r->rc ? NULL : v.u.s;
    if (v.kind == SL_J_UNDEF)
        sl_jinja_fail_undef(r, v);
    else
        sl_jinja_fail(r, SL_EARG, "%.*s() needs a string, not %s", WHO(a),
                      sl_jinja_type(v));
    return NULL;
}
