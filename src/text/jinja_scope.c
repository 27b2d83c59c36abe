/* text/jinja_scope.c - which variable a name means
 *
 * Jinja decides this when it compiles, and templates depend on the outcome:
 *
 *   - The body of a loop, macro, call, with, filter or set block is a scope; if
 *     is not. A scope has a place for each name that is stored in it, and for
 *     each that is loaded in it and known in no outer scope.
 *   - On entry (for a loop: of each pass) a place is filled: with what the
 *     caller passed in or a global (RESOLVE), with the value of the outer place
 *     (ALIAS), or with nothing (MISSING), if the first thing that
 *     happens to the name is an unconditional store.
 *   - So `{% set x = 1 %}` in a loop does not change the x outside, and an x
 *     set in one pass is gone in the next.
 *
 * A scope is first collected (its statements without the bodies of inner
 * scopes), then its names are looked up and inner scopes follow; that order is
 * part of the meaning, because a store after a loop already hides what the
 * caller passed from the body of the loop.
 *
 * The rules are those of jinja2.idtracking, observed through its results.
 */
#include "text/jinja_scope.h"

#include "text/jinja_parse.h"

#define MAX_SYMS 1000 /* names in one scope */

static void collect(struct sl_jrun *r, struct sl_jscope *s, struct sl_jnode *n);
static void resolve(struct sl_jrun *r, struct sl_jscope *s, struct sl_jnode *n);

static bool same(const struct sl_jstr *a, const struct sl_jstr *b)
{
    return a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
}

static struct sl_jsym *own(const struct sl_jscope *s,
                           const struct sl_jstr *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (same(s->sym[i].name, name))
            return &s->sym[i];
    return NULL;
}

/* The nearest place of a name, from s outward. */
static bool find(const struct sl_jscope *s, const struct sl_jstr *name,
                 uint32_t *up, uint32_t *slot)
{
    for (*up = 0; s; s = s->outer, (*up)++) {
        const struct sl_jsym *sym = own(s, name);

        if (sym) {
            *slot = (uint32_t)(sym - s->sym);
            return true;
        }
    }
    return false;
}

static struct sl_jsym *define(struct sl_jrun *r, struct sl_jscope *s,
                              const struct sl_jstr *name, enum sl_jload load)
{
    struct sl_jsym *sym = own(s, name);

    if (r->rc || !sl_jinja_spend(r, s->n))
        return NULL;
    if (sym) {
        sym->load = load;
        return sym;
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 8;

        sym = s->n < MAX_SYMS ? sl_jinja_get(r, cap, sizeof(*sym)) : NULL;
        if (!sym) {
            sl_jinja_fail(r, SL_EFORMAT, "more than %d variables in one scope",
                          MAX_SYMS);
            return NULL;
        }
        if (s->n)
            memcpy(sym, s->sym, s->n * sizeof(*sym));
        s->sym = sym;
        s->cap = cap;
    }
    s->sym[s->n] = (struct sl_jsym){.name = name, .load = load};
    return &s->sym[s->n++];
}

/* Fill from the place outside if there is one, else as `otherwise` says. */
static void alias_or(struct sl_jscope *s, struct sl_jsym *sym,
                     enum sl_jload otherwise)
{
    uint32_t up, slot;

    sym->load = otherwise;
    if (find(s->outer, sym->name, &up, &slot)) {
        sym->load = SL_JLOAD_ALIAS;
        sym->up = up + 1;
        sym->slot = slot;
    }
}

static void load(struct sl_jrun *r, struct sl_jscope *s,
                 const struct sl_jstr *name)
{
    uint32_t up, slot;

    if (!find(s, name, &up, &slot))
        define(r, s, name, SL_JLOAD_RESOLVE);
}

static void store(struct sl_jrun *r, struct sl_jscope *s,
                  const struct sl_jstr *name)
{
    struct sl_jsym *sym = own(s, name);

    if (!sym) {
        sym = define(r, s, name, SL_JLOAD_MISSING);
        if (sym)
            alias_or(s, sym, SL_JLOAD_MISSING);
    }
    if (sym)
        sym->stored = true;
}

static void param(struct sl_jrun *r, struct sl_jscope *s,
                  const struct sl_jstr *name)
{
    struct sl_jsym *sym = define(r, s, name, SL_JLOAD_PARAM);

    if (sym)
        sym->stored = true;
}

static void collect_all(struct sl_jrun *r, struct sl_jscope *s,
                        const struct sl_jnodes *l)
{
    for (size_t i = 0; i < l->n && !r->rc; i++)
        collect(r, s, l->p[i]);
}

/* What only some branch stores must be filled on entry. Each branch starts
 * with what was stored before all of them. */
static void collect_if(struct sl_jrun *r, struct sl_jscope *s,
                       struct sl_jnode *n)
{
    const struct sl_jnodes *branch[] = {&n->x, &n->y, &n->z};
    size_t n_before = s->n;
    bool *before = sl_jinja_get(r, n_before, sizeof(bool));
    bool *any = sl_jinja_get(r, MAX_SYMS, sizeof(bool));

    if (r->rc)
        return;
    memset(any, 0, MAX_SYMS * sizeof(bool));
    for (size_t i = 0; i < n_before; i++)
        before[i] = s->sym[i].stored;
    for (size_t k = 0; k < SL_COUNTOF(branch); k++) {
        collect_all(r, s, branch[k]);
        for (size_t i = 0; i < s->n; i++) {
            any[i] |= s->sym[i].stored;
            s->sym[i].stored = i < n_before && before[i];
        }
    }
    for (size_t i = 0; i < s->n; i++) {
        if (any[i] && !s->sym[i].stored)
            alias_or(s, &s->sym[i], SL_JLOAD_RESOLVE);
        s->sym[i].stored |= any[i];
    }
}

static void collect_children(struct sl_jrun *r, struct sl_jscope *s,
                             struct sl_jnode *n)
{
    collect(r, s, n->a);
    collect(r, s, n->b);
    collect_all(r, s, &n->x);
    collect_all(r, s, &n->y);
    collect_all(r, s, &n->z);
    collect(r, s, n->c);
}

static void collect_node(struct sl_jrun *r, struct sl_jscope *s,
                         struct sl_jnode *n)
{
    switch (n->kind) {
    case SL_JN_NAME:
        if (n->op == SL_JNAME_LOAD)
            load(r, s, n->name);
        else if (n->op == SL_JNAME_STORE)
            store(r, s, n->name);
        else
            param(r, s, n->name);
        break;
    case SL_JN_NSREF:
        load(r, s, n->name);
        break;
    case SL_JN_IF:
        collect(r, s, n->a);
        collect_if(r, s, n);
        break;
    case SL_JN_MACRO:
        store(r, s, n->name);
        break;
    case SL_JN_SET: /* the value is read before the name is written */
        collect(r, s, n->b);
        collect(r, s, n->a);
        break;
    case SL_JN_FOR:
        collect(r, s, n->b);
        break;
    case SL_JN_CALLBLOCK:
        collect(r, s, n->a);
        break;
    case SL_JN_FILTERBLOCK:
        collect(r, s, n->b);
        break;
    case SL_JN_WITH:
        collect_all(r, s, &n->y);
        break;
    case SL_JN_SETBLOCK:
        collect(r, s, n->a);
        break;
    case SL_JN_GENERATION:
        break;
    default:
        collect_children(r, s, n);
    }
}

static void collect(struct sl_jrun *r, struct sl_jscope *s, struct sl_jnode *n)
{
    if (!n || !sl_jinja_spend(r, 1) || !sl_jinja_enter(r))
        return;
    r->at = n->at;
    collect_node(r, s, n);
    sl_jinja_leave(r);
}

/* Is `name` read anywhere below n before something below writes it? Jinja's
 * find_undeclared, for the names that are there only when asked for. */
static void mentions(struct sl_jrun *r, const struct sl_jnode *n,
                     const char *name, bool *found, bool *written)
{
    const struct sl_jnodes *list[] = {NULL, NULL, NULL};

    if (!n || *found || *written || !sl_jinja_spend(r, 1) || !sl_jinja_enter(r))
        return;
    if (n->kind == SL_JN_NAME && n->name->len == strlen(name) &&
        memcmp(n->name->p, name, n->name->len) == 0) {
        if (n->op == SL_JNAME_LOAD)
            *found = true;
        else
            *written = true;
    }
    list[0] = &n->x;
    list[1] = &n->y;
    list[2] = &n->z;
    mentions(r, n->a, name, found, written);
    mentions(r, n->b, name, found, written);
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < list[k]->n; i++)
            mentions(r, list[k]->p[i], name, found, written);
    mentions(r, n->c, name, found, written);
    sl_jinja_leave(r);
}

static bool any_mentions(struct sl_jrun *r, const struct sl_jnodes *l,
                         const char *name)
{
    bool found = false, written = false;

    for (size_t i = 0; i < l->n; i++)
        mentions(r, l->p[i], name, &found, &written);
    return found;
}

static struct sl_jscope *scope(struct sl_jrun *r, struct sl_jscope *outer)
{
    struct sl_jscope *s = sl_jinja_get(r, 1, sizeof(*s));

    if (s)
        *s = (struct sl_jscope){.outer = outer};
    return s;
}

static void resolve_all(struct sl_jrun *r, struct sl_jscope *s,
                        const struct sl_jnodes *l)
{
    for (size_t i = 0; i < l->n && !r->rc; i++)
        resolve(r, s, l->p[i]);
}

static void declare(struct sl_jrun *r, struct sl_jscope *s, const char *name)
{
    struct sl_jval v = sl_jinja_borrow(r, name, strlen(name));

    if (!r->rc)
        param(r, s, v.u.s);
}

/* The targets of a loop belong to its scope, whichever list they are in. */
static void params(struct sl_jrun *r, struct sl_jscope *s, struct sl_jnode *n)
{
    if (n->kind == SL_JN_NAME && n->name->len == 4 &&
        memcmp(n->name->p, "loop", 4) == 0) {
        r->at = n->at;
        sl_jinja_fail(r, SL_EFORMAT, "'loop' cannot be a loop's own variable");
    }
    if (n->kind == SL_JN_NAME)
        param(r, s, n->name);
    for (size_t i = 0; i < n->x.n && !r->rc; i++)
        params(r, s, n->x.p[i]);
}

static bool stores_loop(struct sl_jrun *r, const struct sl_jnodes *l)
{
    bool found = false;

    for (size_t i = 0; i < l->n && !found; i++) {
        const struct sl_jnode *n = l->p[i];

        if (!sl_jinja_enter(r))
            return false;
        if (n->kind == SL_JN_NAME && n->op == SL_JNAME_STORE &&
            n->name->len == 4 && memcmp(n->name->p, "loop", 4) == 0)
            found = true;
        if ((n->kind == SL_JN_SET || n->kind == SL_JN_SETBLOCK) && n->a) {
            struct sl_jnode *one[] = {n->a};
            struct sl_jnodes target = {.p = one, .n = 1};

            found |= stores_loop(r, &target);
        }
        found |= stores_loop(r, &n->x) || stores_loop(r, &n->y) ||
                 stores_loop(r, &n->z);
        sl_jinja_leave(r);
    }
    return found;
}

static void resolve_for(struct sl_jrun *r, struct sl_jscope *s,
                        struct sl_jnode *n)
{
    resolve(r, s, n->b);
    if (stores_loop(r, &n->x))
        sl_jinja_fail(r, SL_EFORMAT, "'loop' cannot be set inside a loop");
    n->scope = scope(r, s);
    n->scope2 = scope(r, s);
    n->scope3 = scope(r, s);
    if (r->rc)
        return;
    /* First the targets, so that they have the same places in the scope of
     * the test; `loop` is not known there. */
    params(r, n->scope, n->a);
    n->out_slot = SL_JINJA_NO_SLOT;
    if (any_mentions(r, &n->x, "loop")) {
        n->out_slot = (uint32_t)n->scope->n;
        declare(r, n->scope, "loop");
    }
    collect_all(r, n->scope, &n->x);
    resolve(r, n->scope, n->a);
    collect_all(r, n->scope2, &n->y);
    resolve_all(r, n->scope2, &n->y);
    if (n->c) {
        params(r, n->scope3, n->a);
        collect(r, n->scope3, n->c);
        resolve(r, n->scope3, n->c);
    }
    resolve_all(r, n->scope, &n->x);
    s->keeps_frame |= n->scope->keeps_frame | n->scope2->keeps_frame;
}

/* MACRO, CALLBLOCK and GENERATION. */
static void resolve_function(struct sl_jrun *r, struct sl_jscope *s,
                             struct sl_jnode *n)
{
    n->scope = scope(r, s);
    s->keeps_frame = true;
    if (r->rc)
        return;
    collect_all(r, n->scope, &n->x);
    collect_all(r, n->scope, &n->y);
    collect_all(r, n->scope, &n->z);
    n->uses_caller = any_mentions(r, &n->z, "caller");
    n->uses_kwargs = any_mentions(r, &n->z, "kwargs");
    n->uses_varargs = any_mentions(r, &n->z, "varargs");
    for (size_t i = 0; i < n->x.n; i++) {
        struct sl_jval v = {.kind = SL_J_STR, .u.s = n->x.p[i]->name};

        if (sl_jinja_is_str(v, "caller") || sl_jinja_is_str(v, "kwargs") ||
            sl_jinja_is_str(v, "varargs")) {
            r->at = n->x.p[i]->at;
            sl_jinja_fail(r, SL_EFORMAT,
                          "a parameter named caller, kwargs or varargs is not "
                          "supported; rename it");
        }
    }
    if (n->uses_caller)
        declare(r, n->scope, "caller");
    if (n->uses_kwargs)
        declare(r, n->scope, "kwargs");
    if (n->uses_varargs)
        declare(r, n->scope, "varargs");
    resolve_all(r, n->scope, &n->x);
    resolve_all(r, n->scope, &n->y);
    resolve_all(r, n->scope, &n->z);
}

static void resolve_with(struct sl_jrun *r, struct sl_jscope *s,
                         struct sl_jnode *n)
{
    resolve_all(r, s, &n->y);
    n->scope = scope(r, s);
    if (r->rc)
        return;
    collect_all(r, n->scope, &n->x);
    collect_all(r, n->scope, &n->z);
    resolve_all(r, n->scope, &n->x);
    resolve_all(r, n->scope, &n->z);
    s->keeps_frame |= n->scope->keeps_frame;
}

/* SETBLOCK and FILTERBLOCK: the filter is applied inside. */
static void resolve_block(struct sl_jrun *r, struct sl_jscope *s,
                          struct sl_jnode *n)
{
    n->scope = scope(r, s);
    if (r->rc)
        return;
    if (n->kind == SL_JN_FILTERBLOCK)
        collect(r, n->scope, n->b);
    else if (n->b) /* Jinja looks the filter's arguments up further out */
        collect(r, s, n->b);
    collect_all(r, n->scope, &n->x);
    resolve(r, n->scope, n->b);
    resolve_all(r, n->scope, &n->x);
    if (n->a)
        resolve(r, s, n->a);
    s->keeps_frame |= n->scope->keeps_frame;
}

static void resolve_name(struct sl_jrun *r, const struct sl_jscope *s,
                         struct sl_jnode *n)
{
    if (!find(s, n->name, &n->up, &n->slot))
        sl_jinja_fail(r, SL_EBUG, "the name '%.*s' has no place",
                      (int)sl_min(n->name->len, 60), n->name->p);
}

static void resolve_children(struct sl_jrun *r, struct sl_jscope *s,
                             struct sl_jnode *n)
{
    resolve(r, s, n->a);
    resolve(r, s, n->b);
    resolve_all(r, s, &n->x);
    resolve_all(r, s, &n->y);
    resolve_all(r, s, &n->z);
    resolve(r, s, n->c);
}

static void resolve_node(struct sl_jrun *r, struct sl_jscope *s,
                         struct sl_jnode *n)
{
    uint32_t up;

    switch (n->kind) {
    case SL_JN_NAME:
    case SL_JN_NSREF:
        resolve_name(r, s, n);
        break;
    case SL_JN_FOR:
        resolve_for(r, s, n);
        break;
    case SL_JN_MACRO:
        if (!find(s, n->name, &up, &n->out_slot) || up != 0)
            sl_jinja_fail(r, SL_EBUG, "a macro has no place");
        resolve_function(r, s, n);
        break;
    case SL_JN_CALLBLOCK:
        resolve(r, s, n->a);
        resolve_function(r, s, n);
        break;
    case SL_JN_GENERATION:
        resolve_function(r, s, n);
        break;
    case SL_JN_WITH:
        resolve_with(r, s, n);
        break;
    case SL_JN_SETBLOCK:
    case SL_JN_FILTERBLOCK:
        resolve_block(r, s, n);
        break;
    default:
        resolve_children(r, s, n);
    }
}

static void resolve(struct sl_jrun *r, struct sl_jscope *s, struct sl_jnode *n)
{
    if (!n || !sl_jinja_spend(r, 1) || !sl_jinja_enter(r))
        return;
    r->at = n->at;
    resolve_node(r, s, n);
    sl_jinja_leave(r);
}

void sl_jinja_scopes(struct sl_jrun *r, struct sl_jnode *tree)
{
    if (r->rc)
        return;
    tree->scope = scope(r, NULL);
    if (r->rc)
        return;
    collect_all(r, tree->scope, &tree->x);
    resolve_all(r, tree->scope, &tree->x);
}
