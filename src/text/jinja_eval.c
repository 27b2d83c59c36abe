/* text/jinja_eval.c - a tree and what the caller passed in -> text
 *
 * A walk over the tree. A frame holds the variables of one scope (see
 * jinja_scope.c) and points to the frame around the place where the scope is
 * written, so a macro sees what stands around its definition, at the time of
 * the call. Frames live until the run ends, because macros may keep them; a
 * loop whose body makes no macro uses one frame for all passes.
 *
 * Output goes straight to r->out. A macro, a set block or a filter block runs
 * its body there too and then takes the text back as a value; so does a call
 * inside an expression, and nothing is written twice.
 *
 * The budget: every node takes a step, every level of nesting counts against
 * SL_JINJA_DEPTH, and whatever is large takes steps by its size.
 */
#include "text/jinja_eval.h"

#include "base/mem.h"
#include "text/jinja_attr.h"
#include "text/jinja_filter.h"
#include "text/jinja_global.h"
#include "text/jinja_method.h"
#include "text/jinja_num.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

#define MAX_REPEAT ((int64_t)1 << 30) /* of text * number; the budget ends it  \
                                       */

struct frame {
    struct frame *up;
    const struct sl_jscope *scope;
    struct sl_jval v[];
};

struct sl_jmacro {
    const struct sl_jnode *n;
    struct frame *up;
};

/* How a statement ended. */
enum flow { NEXT, BREAK, CONTINUE };

struct loop {
    struct sl_jloop base; /* first: the value points here */
    const struct sl_jnode *n;
    struct frame *outer;
    const struct sl_jlist *l; /* what is looped over */
    size_t pos;               /* how many of l were read */
    bool filter;              /* the loop's `if` is still to be asked */
    int64_t index0;
    struct sl_jval before, current, after; /* SL_J_MISSING: none */
    struct sl_jval changed;
};

static struct sl_jval eval(struct sl_jrun *r, struct frame *f,
                           const struct sl_jnode *n);
static enum flow exec_all(struct sl_jrun *r, struct frame *f,
                          const struct sl_jnodes *l);

static struct sl_jval missing(void)
{
    return (struct sl_jval){.kind = SL_J_MISSING};
}

/* ---- frames ---- */

static struct sl_jval resolve(struct sl_jrun *r, const struct sl_jstr *name)
{
    const struct sl_jval *v =
        sl_jinja_lookup_name(r, r->vars, name->p, name->len);

    return v ? *v : sl_jinja_global(name);
}

static struct frame *frame_at(struct frame *f, uint32_t up)
{
    for (; up > 0; up--) {
        SL_ASSERT(f); /* the compiler counted the frames */
        f = f->up;
    }
    return f;
}

static void fill(struct sl_jrun *r, struct frame *f)
{
    for (size_t i = 0; i < f->scope->n; i++) {
        const struct sl_jsym *s = &f->scope->sym[i];

        switch (s->load) {
        case SL_JLOAD_PARAM:
        case SL_JLOAD_MISSING:
            f->v[i] = missing();
            break;
        case SL_JLOAD_RESOLVE:
            f->v[i] = resolve(r, s->name);
            break;
        case SL_JLOAD_ALIAS:
            f->v[i] = frame_at(f, s->up)->v[s->slot];
            break;
        }
    }
}

static struct frame *enter(struct sl_jrun *r, const struct sl_jscope *s,
                           struct frame *up)
{
    struct frame *f =
        sl_jinja_get(r, 1, sizeof(*f) + s->n * sizeof(struct sl_jval));

    if (!f || !sl_jinja_spend(r, s->n))
        return NULL;
    f->up = up;
    f->scope = s;
    fill(r, f);
    return r->rc ? NULL : f;
}

static void set_by_name(struct frame *f, const char *name, struct sl_jval v)
{
    for (size_t i = 0; i < f->scope->n; i++) {
        struct sl_jval s = {.kind = SL_J_STR, .u.s = f->scope->sym[i].name};

        if (sl_jinja_is_str(s, name))
            f->v[i] = v;
    }
}

/* ---- assignment ---- */

static void assign_ns(struct sl_jrun *r, struct frame *f,
                      const struct sl_jnode *n, struct sl_jval v)
{
    struct sl_jval ns = frame_at(f, n->up)->v[n->slot];
    struct sl_jval key = {.kind = SL_J_STR, .u.s = n->attr};

    if (ns.kind != SL_J_NS)
        sl_jinja_fail(r, SL_EARG,
                      "cannot assign attribute on non-namespace object");
    else if (n->attr->p[0] == '_')
        sl_jinja_fail(r, SL_EARG,
                      "a namespace cannot hold names with an underscore in "
                      "front");
    else
        sl_jinja_put(r, ns.u.d, key, v);
}

static void assign(struct sl_jrun *r, struct frame *f, const struct sl_jnode *n,
                   struct sl_jval v)
{
    struct sl_jlist *l;

    if (r->rc)
        return;
    r->at = n->at;
    if (n->kind == SL_JN_NAME) {
        f->v[n->slot] = v;
        return;
    }
    if (n->kind == SL_JN_NSREF) {
        assign_ns(r, f, n, v);
        return;
    }
    l = sl_jinja_elements(r, v, "unpacking");
    if (!r->rc && l->n != n->x.n)
        sl_jinja_fail(r, SL_EARG,
                      "%zu values cannot be unpacked into %zu names", l->n,
                      n->x.n);
    for (size_t i = 0; !r->rc && i < n->x.n; i++)
        assign(r, f, n->x.p[i], l->v[i]);
}

/* ---- calls ---- */

static struct sl_jval macro_default(struct sl_jrun *r, struct frame *f,
                                    const struct sl_jnode *n, size_t i)
{
    size_t first = n->x.n - n->y.n; /* parameter with a default */

    if (i >= first)
        return eval(r, f, n->y.p[i - first]);
    return sl_jinja_undef_name(
        r, (struct sl_jval){.kind = SL_J_STR, .u.s = n->x.p[i]->name},
        SL_J_MISSING);
}

static bool is_param(const struct sl_jnode *n, struct sl_jval key)
{
    for (size_t i = 0; i < n->x.n; i++)
        if (n->x.p[i]->name->len == key.u.s->len &&
            memcmp(n->x.p[i]->name->p, key.u.s->p, key.u.s->len) == 0)
            return true;
    return false;
}

/* Keywords that are no parameter: for `kwargs`, `caller`, or an error. A
 * keyword whose parameter was given by position is one of them, too. */
static void macro_extra(struct sl_jrun *r, struct frame *f,
                        const struct sl_jnode *n, const struct sl_jargs *a)
{
    struct sl_jval kwargs = sl_jinja_dict(r, SL_J_DICT);
    struct sl_jval caller = missing();

    for (size_t i = 0; a->kw && i < a->kw->n && !r->rc; i++) {
        const struct sl_jpair *p = &a->kw->p[i];

        if (is_param(n, p->key) && a->n < n->x.n)
            continue; /* taken, or given twice: the first wins in Jinja too */
        if (n->uses_caller && sl_jinja_is_str(p->key, "caller"))
            caller = p->val;
        else if (n->uses_kwargs)
            sl_jinja_put(r, kwargs.u.d, p->key, p->val);
        else
            sl_jinja_fail(r, SL_EARG,
                          "the macro takes no keyword argument '%.*s'",
                          (int)sl_min(p->key.u.s->len, 60), p->key.u.s->p);
    }
    if (n->uses_caller)
        set_by_name(f, "caller",
                    caller.kind == SL_J_MISSING
                        ? sl_jinja_undef(r, "No caller defined")
                        : caller);
    if (n->uses_kwargs)
        set_by_name(f, "kwargs", kwargs);
}

static void macro_args(struct sl_jrun *r, struct frame *f,
                       const struct sl_jnode *n, const struct sl_jargs *a)
{
    size_t more = a->n > n->x.n ? a->n - n->x.n : 0;

    for (size_t i = 0; i < n->x.n; i++) {
        const struct sl_jstr *name = n->x.p[i]->name;
        const struct sl_jval *v = NULL;

        if (i < a->n)
            v = &a->v[i];
        else if (a->kw)
            v = sl_jinja_lookup_name(r, a->kw, name->p, name->len);
        f->v[n->x.p[i]->slot] = v ? *v : missing();
    }
    macro_extra(r, f, n, a);
    if (n->uses_varargs) {
        struct sl_jval rest = sl_jinja_list(r, SL_J_TUPLE, more);

        for (size_t i = 0; !r->rc && i < more; i++)
            rest.u.l->v[i] = a->v[n->x.n + i];
        set_by_name(f, "varargs", rest);
    } else if (more) {
        sl_jinja_fail(r, SL_EARG, "the macro takes not more than %zu arguments",
                      n->x.n);
    }
    for (size_t i = 0; i < n->x.n && !r->rc; i++) {
        struct sl_jval *v = &f->v[n->x.p[i]->slot];

        if (v->kind == SL_J_MISSING)
            *v = macro_default(r, f, n, i);
    }
}

static struct sl_jval call_macro(struct sl_jrun *r, const struct sl_jmacro *m,
                                 const struct sl_jargs *a)
{
    size_t mark = sl_jinja_mark(r);
    struct frame *f;

    if (!sl_jinja_enter(r))
        return sl_jinja_none();
    f = enter(r, m->n->scope, m->up);
    if (f) {
        macro_args(r, f, m->n, a);
        exec_all(r, f, &m->n->z);
    }
    sl_jinja_leave(r);
    return sl_jinja_take(r, mark);
}

static struct sl_jval loop_call(struct sl_jrun *r, struct loop *lp,
                                const struct sl_jstr *name,
                                const struct sl_jargs *a)
{
    struct sl_jval all;

    SL_ASSERT(lp);
    if (name->len == 5) { /* cycle */
        if (a->n == 0)
            sl_jinja_fail(r, SL_EARG, "loop.cycle() needs values");
        return r->rc ? sl_jinja_none()
                     : a->v[(uint64_t)lp->index0 % (uint64_t)a->n];
    }
    all = sl_jinja_list(r, SL_J_TUPLE, a->n);
    for (size_t i = 0; !r->rc && i < a->n; i++)
        all.u.l->v[i] = a->v[i];
    if (lp->changed.kind != SL_J_MISSING && sl_jinja_eq(r, lp->changed, all))
        return sl_jinja_bool(false);
    lp->changed = all;
    return sl_jinja_bool(true);
}

/* Add the pairs of **dict to the keywords. */
static void spread_dict(struct sl_jrun *r, struct sl_jdict *kw,
                        struct sl_jval more)
{
    if (more.kind != SL_J_DICT) {
        sl_jinja_fail(r, SL_EARG, "'**' needs a mapping, not %s",
                      sl_jinja_type(more));
        return;
    }
    for (size_t i = 0; !r->rc && i < more.u.d->n; i++) {
        if (more.u.d->p[i].key.kind != SL_J_STR)
            sl_jinja_fail(r, SL_EARG, "keywords must be strings");
        sl_jinja_put(r, kw, more.u.d->p[i].key, more.u.d->p[i].val);
    }
}

/* The arguments as written, with *list and **dict spread. */
static void eval_args(struct sl_jrun *r, struct frame *f,
                      const struct sl_jnode *n, struct sl_jargs *a)
{
    struct sl_jlist *star = sl_jinja_list(r, SL_J_LIST, 0).u.l;
    struct sl_jval kw;

    *a = (struct sl_jargs){.who = "the function", .who_len = 12};
    if (n->name) {
        a->who = n->name->p;
        a->who_len = n->name->len;
    } else if (n->a && n->a->name) {
        a->who = n->a->name->p;
        a->who_len = n->a->name->len;
    }
    if (n->b)
        star = sl_jinja_elements(r, eval(r, f, n->b), "*");
    if (r->rc)
        return;
    a->v = sl_jinja_get(r, n->x.n + star->n, sizeof(*a->v));
    for (; a->v && a->n < n->x.n; a->n++)
        a->v[a->n] = eval(r, f, n->x.p[a->n]);
    for (size_t i = 0; a->v && i < star->n; i++)
        a->v[a->n++] = star->v[i];
    if (r->rc || (!n->y.n && !n->c))
        return;
    kw = sl_jinja_dict(r, SL_J_DICT);
    for (size_t i = 0; i < n->y.n && !r->rc; i++)
        sl_jinja_put(r, kw.u.d,
                     (struct sl_jval){.kind = SL_J_STR, .u.s = n->y.p[i]->name},
                     eval(r, f, n->y.p[i]->a));
    if (n->c && !r->rc)
        spread_dict(r, kw.u.d, eval(r, f, n->c));
    a->kw = r->rc ? NULL : kw.u.d;
}

static bool is_loop_method(const struct sl_jnode *callee, struct sl_jval obj)
{
    struct sl_jval s = {.kind = SL_J_STR, .u.s = callee->name};

    return obj.kind == SL_J_LOOP &&
           (sl_jinja_is_str(s, "cycle") || sl_jinja_is_str(s, "changed"));
}

static struct sl_jval call_value(struct sl_jrun *r, struct sl_jval callee,
                                 const struct sl_jargs *a)
{
    switch (callee.kind) {
    case SL_J_MACRO:
        return call_macro(r, callee.u.macro, a);
    case SL_J_FUNC:
        return sl_jinja_global_call(r, callee.u.func, a);
    case SL_J_METHOD:
        return sl_jinja_method_call(r, callee.u.method, a);
    case SL_J_UNDEF:
        sl_jinja_fail_undef(r, callee);
        break;
    default:
        sl_jinja_fail(r, SL_EARG, "a %s cannot be called",
                      sl_jinja_type(callee));
    }
    return sl_jinja_none();
}

/* n is a CALL; caller is the body of a call block, or SL_J_MISSING. */
static struct sl_jval call(struct sl_jrun *r, struct frame *f,
                           const struct sl_jnode *n, struct sl_jval caller)
{
    struct sl_jval callee, obj = missing(), kw;
    struct sl_jargs a;

    if (n->a->kind == SL_JN_ATTR) {
        obj = eval(r, f, n->a->a);
        r->at = n->a->at;
        if (r->rc)
            return obj;
        callee = is_loop_method(n->a, obj) ? missing()
                                           : sl_jinja_attr(r, obj, n->a->name);
    } else {
        callee = eval(r, f, n->a);
    }
    eval_args(r, f, n, &a);
    if (r->rc)
        return sl_jinja_none();
    r->at = n->at;
    if (caller.kind != SL_J_MISSING) {
        kw = sl_jinja_dict(r, SL_J_DICT);
        for (size_t i = 0; a.kw && i < a.kw->n && !r->rc; i++)
            sl_jinja_put(r, kw.u.d, a.kw->p[i].key, a.kw->p[i].val);
        sl_jinja_put(r, kw.u.d, sl_jinja_borrow(r, "caller", 6), caller);
        a.kw = kw.u.d;
    }
    if (callee.kind == SL_J_MISSING)
        return loop_call(r, (struct loop *)obj.u.loop, n->a->name, &a);
    return call_value(r, callee, &a);
}

/* ---- operators ---- */

static void bad_operands(struct sl_jrun *r, char op, struct sl_jval a,
                         struct sl_jval b)
{
    if (a.kind == SL_J_UNDEF || b.kind == SL_J_UNDEF)
        sl_jinja_fail_undef(r, a.kind == SL_J_UNDEF ? a : b);
    else if (op == '%' && a.kind == SL_J_STR)
        sl_jinja_fail(r, SL_EUNSUP,
                      "formatting with '%%' is not supported; "
                      "use '~'");
    else
        sl_jinja_fail(r, SL_EARG, "'%s' is not possible between %s and %s",
                      op == 'f'   ? "//"
                      : op == 'p' ? "**"
                                  : (char[]){op, 0},
                      sl_jinja_type(a), sl_jinja_type(b));
}

static struct sl_jval escaped(struct sl_jrun *r, struct sl_jval v)
{
    size_t mark = sl_jinja_mark(r);

    if (v.u.s->safe)
        return v;
    sl_jinja_emit_escaped(r, v.u.s->p, v.u.s->len);
    return sl_jinja_take(r, mark);
}

static struct sl_jval add_str(struct sl_jrun *r, struct sl_jval a,
                              struct sl_jval b)
{
    bool safe = a.u.s->safe || b.u.s->safe;

    if (safe) {
        a = escaped(r, a);
        b = escaped(r, b);
    }
    if (r->rc)
        return a;
    return sl_jinja_safe(r, sl_jinja_concat(r, a.u.s, b.u.s), safe);
}

static struct sl_jval add_list(struct sl_jrun *r, struct sl_jval a,
                               struct sl_jval b)
{
    size_t n = a.u.l->n;
    struct sl_jval v = sl_jinja_list(r, a.kind, n + b.u.l->n);

    if (r->rc)
        return v;
    for (size_t i = 0; i < v.u.l->n; i++)
        v.u.l->v[i] = i < n ? a.u.l->v[i] : b.u.l->v[i - n];
    return v;
}

static struct sl_jval repeat(struct sl_jrun *r, struct sl_jval a, int64_t times)
{
    size_t mark = sl_jinja_mark(r), n, total;
    struct sl_jval v;

    if (times < 0)
        times = 0;
    if (times > MAX_REPEAT)
        sl_jinja_fail(r, SL_EARG, "'*': too many repetitions");
    if (r->rc)
        return a;
    if (a.kind == SL_J_STR) {
        for (int64_t i = 0; i < times && sl_jinja_spend(r, 1); i++)
            sl_jinja_emit(r, a.u.s->p, a.u.s->len);
        return sl_jinja_safe(r, sl_jinja_take(r, mark), a.u.s->safe);
    }
    n = a.u.l->n;
    if (!sl_mul_size(&total, n, (size_t)times))
        total = SIZE_MAX;
    v = sl_jinja_list(r, a.kind, total);
    for (size_t i = 0; !r->rc && i < total; i++)
        v.u.l->v[i] = a.u.l->v[i % n];
    return v;
}

static bool is_row(struct sl_jval v)
{
    return v.kind == SL_J_STR || v.kind == SL_J_LIST || v.kind == SL_J_TUPLE;
}

static struct sl_jval binary(struct sl_jrun *r, char op, struct sl_jval a,
                             struct sl_jval b)
{
    if (r->rc)
        return a;
    if (sl_jinja_is_number(a) && sl_jinja_is_number(b))
        return sl_jinja_arith(r, op, a, b);
    if (op == '+' && a.kind == SL_J_STR && b.kind == SL_J_STR)
        return add_str(r, a, b);
    if (op == '+' && is_row(a) && a.kind == b.kind)
        return add_list(r, a, b);
    if (op == '*' && is_row(a) && sl_jinja_is_int(b))
        return repeat(r, a, sl_jinja_int_of(b));
    if (op == '*' && sl_jinja_is_int(a) && is_row(b))
        return repeat(r, b, sl_jinja_int_of(a));
    bad_operands(r, op, a, b);
    return a;
}

static bool compare(struct sl_jrun *r, int op, struct sl_jval a,
                    struct sl_jval b)
{
    int c;

    switch (op) {
    case SL_JOP('=', '='):
        return sl_jinja_eq(r, a, b);
    case SL_JOP('!', '='):
        return !sl_jinja_eq(r, a, b);
    case 'i':
        return sl_jinja_in(r, a, b);
    case 'n':
        return !sl_jinja_in(r, a, b);
    case SL_JOP('<', 0):
        return sl_jinja_order(r, a, b, "<") == -1;
    case SL_JOP('>', 0):
        return sl_jinja_order(r, a, b, ">") == 1;
    case SL_JOP('<', '='):
        c = sl_jinja_order(r, a, b, "<=");
        return c == -1 || c == 0;
    default:
        c = sl_jinja_order(r, a, b, ">=");
        return c == 1 || c == 0;
    }
}

/* a < b < c is a < b and b < c, and c is not looked at when a < b fails. */
static struct sl_jval compare_chain(struct sl_jrun *r, struct frame *f,
                                    const struct sl_jnode *n)
{
    struct sl_jval a = eval(r, f, n->a);

    for (size_t i = 0; i < n->x.n && !r->rc; i++) {
        const struct sl_jnode *o = n->x.p[i];
        struct sl_jval b = eval(r, f, o->a);

        r->at = o->at;
        if (r->rc || !compare(r, o->op, a, b))
            return sl_jinja_bool(false);
        a = b;
    }
    return sl_jinja_bool(true);
}

static struct sl_jval sign(struct sl_jrun *r, struct sl_jval v, bool minus)
{
    if (r->rc)
        return v;
    if (v.kind == SL_J_UNDEF)
        sl_jinja_fail_undef(r, v);
    else if (!sl_jinja_is_number(v))
        sl_jinja_fail(r, SL_EARG, "a %s has no sign", sl_jinja_type(v));
    if (r->rc)
        return v;
    if (v.kind == SL_J_FLOAT)
        return sl_jinja_float(minus ? -v.u.f : v.u.f);
    return sl_jinja_arith(r, minus ? '-' : '+', sl_jinja_int(0), v);
}

static struct sl_jval concat(struct sl_jrun *r, struct frame *f,
                             const struct sl_jnode *n)
{
    struct sl_jval v = sl_jinja_text(r, eval(r, f, n->x.p[0])), w;

    for (size_t i = 1; i < n->x.n && !r->rc; i++) {
        w = sl_jinja_text(r, eval(r, f, n->x.p[i]));
        if (!r->rc)
            v = sl_jinja_concat(r, v.u.s, w.u.s);
    }
    return v;
}

/* ---- expressions ---- */

static struct sl_jval name(struct sl_jrun *r, struct frame *f,
                           const struct sl_jnode *n)
{
    struct sl_jval v = frame_at(f, n->up)->v[n->slot];

    if (v.kind != SL_J_MISSING)
        return v;
    return sl_jinja_undef_name(
        r, (struct sl_jval){.kind = SL_J_STR, .u.s = n->name}, SL_J_MISSING);
}

static struct sl_jval list(struct sl_jrun *r, struct frame *f,
                           const struct sl_jnode *n)
{
    struct sl_jval v = sl_jinja_list(
        r, n->kind == SL_JN_LIST ? SL_J_LIST : SL_J_TUPLE, n->x.n);

    for (size_t i = 0; i < n->x.n && !r->rc; i++)
        v.u.l->v[i] = eval(r, f, n->x.p[i]);
    return v;
}

static struct sl_jval dict(struct sl_jrun *r, struct frame *f,
                           const struct sl_jnode *n)
{
    struct sl_jval v = sl_jinja_dict(r, SL_J_DICT);

    for (size_t i = 0; i < n->x.n && !r->rc; i++) {
        struct sl_jval key = eval(r, f, n->x.p[i]);
        struct sl_jval val = eval(r, f, n->y.p[i]);

        sl_jinja_put(r, v.u.d, key, val);
    }
    return v;
}

static struct sl_jval item(struct sl_jrun *r, struct frame *f,
                           const struct sl_jnode *n)
{
    struct sl_jval obj = eval(r, f, n->a), bound[3];
    const struct sl_jnode *s = n->b, *part[3] = {s->a, s->b, s->c};

    if (s->kind != SL_JN_SLICE) {
        bound[0] = eval(r, f, s);
        r->at = n->at;
        return sl_jinja_item(r, obj, bound[0]);
    }
    for (size_t i = 0; i < 3; i++)
        bound[i] = part[i] ? eval(r, f, part[i]) : sl_jinja_none();
    r->at = n->at;
    return sl_jinja_slice(r, obj, bound);
}

/* Parsed where Jinja does not mind, but now it is wanted. */
static bool exists(struct sl_jrun *r, const struct sl_jnode *n)
{
    r->at = n->at;
    if (n->fn < 0)
        sl_jinja_fail(r, SL_EUNSUP, "there is no %s '%.*s' in this engine",
                      n->kind == SL_JN_FILTER ? "filter" : "test",
                      (int)sl_min(n->name->len, 60), n->name->p);
    return r->rc == 0;
}

/* A filter, or a chain of them; `input` is what a block passes in. */
static struct sl_jval filter(struct sl_jrun *r, struct frame *f,
                             const struct sl_jnode *n, struct sl_jval input)
{
    struct sl_jval v = input;
    struct sl_jargs a;

    if (!sl_jinja_enter(r))
        return v;
    if (n->a && n->a->kind == SL_JN_FILTER)
        v = filter(r, f, n->a, input);
    else if (n->a)
        v = eval(r, f, n->a);
    eval_args(r, f, n, &a);
    if (exists(r, n))
        v = sl_jinja_filter(r, n->fn, v, &a);
    sl_jinja_leave(r);
    return v;
}

static struct sl_jval test(struct sl_jrun *r, struct frame *f,
                           const struct sl_jnode *n)
{
    struct sl_jval v = eval(r, f, n->a);
    struct sl_jargs a;

    eval_args(r, f, n, &a);
    return sl_jinja_bool(exists(r, n) && sl_jinja_test(r, n->fn, v, &a));
}

static struct sl_jval cond(struct sl_jrun *r, struct frame *f,
                           const struct sl_jnode *n)
{
    if (sl_jinja_truth(r, eval(r, f, n->a)))
        return eval(r, f, n->b);
    if (n->c)
        return eval(r, f, n->c);
    return sl_jinja_undef(r, "an inline if was false and has no else");
}

static struct sl_jval and_or(struct sl_jrun *r, struct frame *f,
                             const struct sl_jnode *n)
{
    struct sl_jval v = eval(r, f, n->a);

    if (r->rc || sl_jinja_truth(r, v) == (n->kind == SL_JN_OR))
        return v;
    return eval(r, f, n->b);
}

static struct sl_jval eval_node(struct sl_jrun *r, struct frame *f,
                                const struct sl_jnode *n)
{
    struct sl_jval a, b;

    switch (n->kind) {
    case SL_JN_LIT:
        return n->lit;
    case SL_JN_NAME:
        return name(r, f, n);
    case SL_JN_LIST:
    case SL_JN_TUPLE:
        return list(r, f, n);
    case SL_JN_DICT:
        return dict(r, f, n);
    case SL_JN_COND:
        return cond(r, f, n);
    case SL_JN_OR:
    case SL_JN_AND:
        return and_or(r, f, n);
    case SL_JN_NOT:
        return sl_jinja_bool(!sl_jinja_truth(r, eval(r, f, n->a)));
    case SL_JN_COMPARE:
        return compare_chain(r, f, n);
    case SL_JN_BINARY:
        a = eval(r, f, n->a);
        b = eval(r, f, n->b);
        r->at = n->at;
        return binary(r, (char)n->op, a, b);
    case SL_JN_NEG:
    case SL_JN_POS:
        return sign(r, eval(r, f, n->a), n->kind == SL_JN_NEG);
    case SL_JN_CONCAT:
        return concat(r, f, n);
    case SL_JN_ATTR:
        a = eval(r, f, n->a);
        r->at = n->at;
        return sl_jinja_attr(r, a, n->name);
    case SL_JN_ITEM:
        return item(r, f, n);
    case SL_JN_CALL:
        return call(r, f, n, missing());
    case SL_JN_FILTER:
        return filter(r, f, n, sl_jinja_none());
    case SL_JN_TEST:
        return test(r, f, n);
    default:
        break;
    }
    sl_jinja_fail(r, SL_EBUG, "a statement stands where a value is wanted");
    return sl_jinja_none();
}

static struct sl_jval eval(struct sl_jrun *r, struct frame *f,
                           const struct sl_jnode *n)
{
    struct sl_jval v = {.kind = SL_J_UNDEF};

    if (!sl_jinja_spend(r, 1) || !sl_jinja_enter(r))
        return v;
    r->at = n->at;
    v = eval_node(r, f, n);
    sl_jinja_leave(r);
    return v;
}

/* ---- loops ---- */

/* Does the loop's `if` take this element? A tuple of targets makes it a tuple,
 * as Jinja's generator does. */
static bool passes(struct sl_jrun *r, struct loop *lp, struct sl_jval *v)
{
    struct frame *f = enter(r, lp->n->scope3, lp->outer);
    struct sl_jlist *l;

    if (!f)
        return false;
    assign(r, f, lp->n->a, *v);
    if (lp->n->a->kind == SL_JN_TUPLE && v->kind != SL_J_TUPLE && !r->rc) {
        l = sl_jinja_elements(r, *v, "for");
        *v = (struct sl_jval){.kind = SL_J_TUPLE, .u.l = l};
    }
    return sl_jinja_truth(r, eval(r, f, lp->n->c)) && !r->rc;
}

/* The next element that the loop will see, or SL_J_MISSING. */
static struct sl_jval fetch(struct sl_jrun *r, struct loop *lp)
{
    while (lp->pos < lp->l->n && !r->rc) {
        struct sl_jval v = lp->l->v[lp->pos++];

        if (!lp->filter || passes(r, lp, &v))
            return v;
    }
    return missing();
}

static struct sl_jval peek(struct sl_jrun *r, struct loop *lp)
{
    if (lp->after.kind == SL_J_MISSING)
        lp->after = fetch(r, lp);
    return lp->after;
}

/* Without an `if` it is known; with one, everything that is left is asked
 * now. */
static int64_t length(struct sl_jrun *r, struct loop *lp)
{
    struct sl_jval rest;
    size_t n = 0;

    if (lp->filter) {
        rest = sl_jinja_list(r, SL_J_LIST, lp->l->n - lp->pos);
        for (struct sl_jval v = fetch(r, lp); v.kind != SL_J_MISSING;
             v = fetch(r, lp))
            rest.u.l->v[n++] = v;
        if (r->rc)
            return 0;
        rest.u.l->n = n;
        lp->l = rest.u.l;
        lp->pos = 0;
        lp->filter = false;
        /* From here on index0 + 1 (+ 1) + what is left is the length. */
    }
    return lp->index0 + 1 + (lp->after.kind != SL_J_MISSING) +
           (int64_t)(lp->l->n - lp->pos);
}

static struct sl_jval neighbour(struct sl_jrun *r, struct sl_jval v,
                                const char *hint)
{
    return v.kind == SL_J_MISSING ? sl_jinja_undef(r, hint) : v;
}

static struct sl_jval loop_attr(struct sl_jrun *r, struct sl_jloop *base,
                                const struct sl_jstr *attr)
{
    struct loop *lp = (struct loop *)base;
    struct sl_jval s = {.kind = SL_J_STR, .u.s = attr};

    if (sl_jinja_is_str(s, "index0"))
        return sl_jinja_int(lp->index0);
    if (sl_jinja_is_str(s, "index"))
        return sl_jinja_int(lp->index0 + 1);
    if (sl_jinja_is_str(s, "first"))
        return sl_jinja_bool(lp->index0 == 0);
    if (sl_jinja_is_str(s, "last"))
        return sl_jinja_bool(peek(r, lp).kind == SL_J_MISSING);
    if (sl_jinja_is_str(s, "length"))
        return sl_jinja_int(length(r, lp));
    if (sl_jinja_is_str(s, "revindex"))
        return sl_jinja_int(length(r, lp) - lp->index0);
    if (sl_jinja_is_str(s, "revindex0"))
        return sl_jinja_int(length(r, lp) - lp->index0 - 1);
    if (sl_jinja_is_str(s, "previtem"))
        return neighbour(r, lp->before, "there is no previous item");
    if (sl_jinja_is_str(s, "nextitem"))
        return neighbour(r, peek(r, lp), "there is no next item");
    if (sl_jinja_is_str(s, "depth"))
        return sl_jinja_int(1);
    if (sl_jinja_is_str(s, "depth0"))
        return sl_jinja_int(0);
    if (sl_jinja_is_str(s, "cycle") || sl_jinja_is_str(s, "changed"))
        sl_jinja_fail(r, SL_EUNSUP, "loop.%.*s can only be called",
                      (int)attr->len, attr->p);
    return missing();
}

static bool loop_next(struct sl_jrun *r, struct loop *lp)
{
    struct sl_jval v = lp->after;

    lp->after = missing();
    if (v.kind == SL_J_MISSING)
        v = fetch(r, lp);
    if (v.kind == SL_J_MISSING || r->rc)
        return false;
    lp->index0++;
    lp->before = lp->current;
    lp->current = v;
    return true;
}

/* One pass; `f` is made if it is NULL. */
static enum flow pass(struct sl_jrun *r, struct loop *lp, struct frame **f)
{
    const struct sl_jnode *n = lp->n;

    if (!*f || n->scope->keeps_frame)
        *f = enter(r, n->scope, lp->outer);
    else if (sl_jinja_spend(r, n->scope->n))
        fill(r, *f);
    if (!*f || r->rc)
        return BREAK;
    assign(r, *f, n->a, lp->current);
    if (n->out_slot != SL_JINJA_NO_SLOT)
        (*f)->v[n->out_slot] =
            (struct sl_jval){.kind = SL_J_LOOP, .u.loop = &lp->base};
    return exec_all(r, *f, &n->x);
}

static void exec_for(struct sl_jrun *r, struct frame *outer,
                     const struct sl_jnode *n)
{
    struct loop *lp = sl_jinja_get(r, 1, sizeof(*lp));
    struct sl_jval in = eval(r, outer, n->b);
    struct frame *f = NULL;
    bool done = false; /* one pass reached the end of the body */

    if (in.kind == SL_J_LOOP)
        sl_jinja_fail(r, SL_EUNSUP, "looping over 'loop' is not supported");
    if (r->rc || !lp)
        return;
    *lp = (struct loop){.base.attr = loop_attr,
                        .n = n,
                        .outer = outer,
                        .l = sl_jinja_elements(r, in, "for"),
                        .filter = n->c != NULL,
                        .index0 = -1};
    while (!r->rc && loop_next(r, lp)) {
        enum flow how = pass(r, lp, &f);

        if (how == BREAK)
            break;
        done |= how == NEXT;
    }
    /* Jinja's else runs unless some pass reached its end: `continue` and
     * `break` do not count. */
    if (r->rc || done || !n->y.n)
        return;
    f = enter(r, n->scope2, outer);
    if (f)
        exec_all(r, f, &n->y);
}

/* ---- statements ---- */

static enum flow exec_if(struct sl_jrun *r, struct frame *f,
                         const struct sl_jnode *n)
{
    if (sl_jinja_truth(r, eval(r, f, n->a)))
        return exec_all(r, f, &n->x);
    for (size_t i = 0; i < n->y.n && !r->rc; i++)
        if (sl_jinja_truth(r, eval(r, f, n->y.p[i]->a)))
            return exec_all(r, f, &n->y.p[i]->x);
    return r->rc ? NEXT : exec_all(r, f, &n->z);
}

static enum flow exec_block(struct sl_jrun *r, struct frame *f,
                            const struct sl_jnode *n)
{
    size_t mark = sl_jinja_mark(r);
    struct frame *in = enter(r, n->scope, f);
    enum flow how = in ? exec_all(r, in, &n->x) : NEXT;
    struct sl_jval v = sl_jinja_take(r, mark);

    if (r->rc || how != NEXT)
        return how; /* the text so far is dropped, as in Jinja */
    if (n->b)
        v = filter(r, in, n->b, v);
    if (n->kind == SL_JN_SETBLOCK)
        assign(r, f, n->a, v);
    else if (!r->rc)
        sl_jinja_print(r, v);
    return NEXT;
}

static enum flow exec_with(struct sl_jrun *r, struct frame *f,
                           const struct sl_jnode *n)
{
    struct frame *in = enter(r, n->scope, f);

    for (size_t i = 0; in && i < n->x.n && !r->rc; i++)
        assign(r, in, n->x.p[i], eval(r, f, n->y.p[i]));
    return in ? exec_all(r, in, &n->z) : NEXT;
}

static struct sl_jval make_macro(struct sl_jrun *r, struct frame *f,
                                 const struct sl_jnode *n)
{
    struct sl_jmacro *m = sl_jinja_get(r, 1, sizeof(*m));

    if (m)
        *m = (struct sl_jmacro){.n = n, .up = f};
    return (struct sl_jval){.kind = SL_J_MACRO, .u.macro = m};
}

static void exec_generation(struct sl_jrun *r, struct frame *f,
                            const struct sl_jnode *n)
{
    struct frame *in = enter(r, n->scope, f);

    if (in)
        exec_all(r, in, &n->z);
}

static enum flow exec_node(struct sl_jrun *r, struct frame *f,
                           const struct sl_jnode *n)
{
    switch (n->kind) {
    case SL_JN_DATA:
        sl_jinja_emit(r, n->lit.u.s->p, n->lit.u.s->len);
        return NEXT;
    case SL_JN_OUTPUT:
        for (size_t i = 0; i < n->x.n && !r->rc; i++)
            sl_jinja_print(r, eval(r, f, n->x.p[i]));
        return NEXT;
    case SL_JN_FOR:
        exec_for(r, f, n);
        return NEXT;
    case SL_JN_IF:
        return exec_if(r, f, n);
    case SL_JN_SET:
        assign(r, f, n->a, eval(r, f, n->b));
        return NEXT;
    case SL_JN_SETBLOCK:
    case SL_JN_FILTERBLOCK:
        return exec_block(r, f, n);
    case SL_JN_MACRO:
        f->v[n->out_slot] = make_macro(r, f, n);
        return NEXT;
    case SL_JN_CALLBLOCK:
        sl_jinja_print(r, call(r, f, n->a, make_macro(r, f, n)));
        return NEXT;
    case SL_JN_GENERATION:
        exec_generation(r, f, n);
        return NEXT;
    case SL_JN_WITH:
        return exec_with(r, f, n);
    case SL_JN_BREAK:
        return BREAK;
    case SL_JN_CONTINUE:
        return CONTINUE;
    default:
        sl_jinja_fail(r, SL_EBUG, "a value stands where a statement is wanted");
        return NEXT;
    }
}

static enum flow exec_all(struct sl_jrun *r, struct frame *f,
                          const struct sl_jnodes *l)
{
    enum flow how = NEXT;

    if (!sl_jinja_enter(r))
        return NEXT;
    for (size_t i = 0; i < l->n && how == NEXT && sl_jinja_spend(r, 1); i++) {
        r->at = l->p[i]->at;
        how = exec_node(r, f, l->p[i]);
    }
    sl_jinja_leave(r);
    return how;
}

void sl_jinja_eval(struct sl_jrun *r, const struct sl_jnode *tree)
{
    struct frame *f = r->rc ? NULL : enter(r, tree->scope, NULL);

    if (f)
        exec_all(r, f, &tree->x);
}
