/* text/jinja_parse.c - tokens -> tree
 *
 * Recursive descent in the order of Jinja 3.1's own parser, whose precedence
 * differs from Python's in places that templates rely on: `~` binds tighter
 * than `+`, filters and tests bind tighter than arithmetic and, after a
 * unary minus, apply to the result; `a if b else c` is the loosest.
 *
 * What is not here is refused with its name and place: block, extends, include,
 * import, from, autoescape (a chat template is one file), recursive loops.
 */
#include "text/jinja_parse.h"

#include <stdarg.h>

#include "text/jinja_filter.h"
#include "text/jinja_lex.h"

#define NEST 150 /* brackets and statements open at a time; 2 KiB stack each   \
                  */

struct parse {
    struct sl_jrun *r;
    const struct sl_jtok *t; /* the current token */
    int nest;
    int loops; /* open in this function, for break and continue */
};

static struct sl_jnode *expression(struct parse *p);
static void statements(struct parse *p, struct sl_jnodes *out,
                       const char *const *ends);

static void fail(struct parse *p, const char *fmt, ...) SL_PRINTF(2, 3);

static void fail(struct parse *p, const char *fmt, ...)
{
    char msg[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    p->r->at = p->t->at;
    sl_jinja_fail(p->r, SL_EFORMAT, "%s", msg);
}

/* The current token in words, for messages. */
static const char *describe(const struct sl_jtok *t, char out[64])
{
    switch (t->kind) {
    case SL_JTOK_EOF:
        return "the end of the template";
    case SL_JTOK_DATA:
        return "text";
    case SL_JTOK_VAR_BEGIN:
    case SL_JTOK_BLOCK_BEGIN:
        return "a new tag";
    case SL_JTOK_VAR_END:
    case SL_JTOK_BLOCK_END:
        return "the end of the tag";
    case SL_JTOK_NAME:
    case SL_JTOK_LITERAL:
    case SL_JTOK_OP:
        break;
    }
    snprintf(out, 64, "'%.*s'", (int)sl_min(t->len, 40), t->p);
    return out;
}

static void unexpected(struct parse *p, const char *want)
{
    char buf[64];

    fail(p, "%s is wanted here, not %s", want, describe(p->t, buf));
}

static bool ok(const struct parse *p)
{
    return p->r->rc == 0;
}

static void next(struct parse *p)
{
    if (p->t->kind != SL_JTOK_EOF)
        p->t++;
}

static bool is_op(const struct parse *p, char a, char b)
{
    return p->t->kind == SL_JTOK_OP && p->t->op == SL_JOP(a, b);
}

static bool tok_is_word(const struct sl_jtok *t, const char *word)
{
    return t->kind == SL_JTOK_NAME && t->len == strlen(word) &&
           memcmp(t->p, word, t->len) == 0;
}

static bool is_word(const struct parse *p, const char *word)
{
    return tok_is_word(p->t, word);
}

static bool skip_op(struct parse *p, char a, char b)
{
    bool yes = ok(p) && is_op(p, a, b);

    if (yes)
        next(p);
    return yes;
}

static bool skip_word(struct parse *p, const char *word)
{
    bool yes = ok(p) && is_word(p, word);

    if (yes)
        next(p);
    return yes;
}

static void expect_op(struct parse *p, char a)
{
    char want[4] = {'\'', a, '\'', 0};

    if (ok(p) && !skip_op(p, a, 0))
        unexpected(p, want);
}

static void expect_kind(struct parse *p, enum sl_jtok_kind kind,
                        const char *want)
{
    if (!ok(p))
        return;
    if (p->t->kind != kind)
        unexpected(p, want);
    else
        next(p);
}

static struct sl_jnode *node(struct parse *p, enum sl_jnode_kind kind)
{
    struct sl_jnode *n = sl_jinja_get(p->r, 1, sizeof(*n));

    if (n)
        *n = (struct sl_jnode){.kind = kind, .at = p->t->at};
    return n;
}

void sl_jinja_push(struct sl_jrun *r, struct sl_jnodes *l, struct sl_jnode *n)
{
    if (r->rc || !n)
        return;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 4;
        struct sl_jnode **v = sl_jinja_get(r, cap, sizeof(struct sl_jnode *));

        if (!v)
            return;
        if (l->n)
            memcpy(v, l->p, l->n * sizeof(struct sl_jnode *));
        l->p = v;
        l->cap = cap;
    }
    l->p[l->n++] = n;
}

/* The name at the current token, which is taken. */
static const struct sl_jstr *name(struct parse *p)
{
    struct sl_jval v;

    if (!ok(p))
        return NULL;
    if (p->t->kind != SL_JTOK_NAME) {
        unexpected(p, "a name");
        return NULL;
    }
    v = sl_jinja_borrow(p->r, p->t->p, p->t->len);
    next(p);
    return ok(p) ? v.u.s : NULL;
}

static struct sl_jnode *name_node(struct parse *p, int op)
{
    struct sl_jnode *n = node(p, SL_JN_NAME);

    if (!n)
        return NULL;
    n->name = name(p);
    n->op = op;
    return ok(p) ? n : NULL;
}

static struct sl_jnode *literal(struct parse *p, struct sl_jval v)
{
    struct sl_jnode *n = node(p, SL_JN_LIT);

    if (n)
        n->lit = v;
    next(p);
    return n;
}

/* 'a' "b" is one string. */
static struct sl_jnode *string(struct parse *p)
{
    struct sl_jnode *n = literal(p, p->t->val);

    while (n && ok(p) && p->t->kind == SL_JTOK_LITERAL &&
           p->t->val.kind == SL_J_STR) {
        n->lit = sl_jinja_concat(p->r, n->lit.u.s, p->t->val.u.s);
        next(p);
    }
    return n;
}

static struct sl_jnode *name_or_const(struct parse *p)
{
    if (is_word(p, "true") || is_word(p, "True"))
        return literal(p, sl_jinja_bool(true));
    if (is_word(p, "false") || is_word(p, "False"))
        return literal(p, sl_jinja_bool(false));
    if (is_word(p, "none") || is_word(p, "None"))
        return literal(p, sl_jinja_none());
    return name_node(p, SL_JNAME_LOAD);
}

static bool tuple_end(const struct parse *p, const char *end_word)
{
    return p->t->kind == SL_JTOK_VAR_END || p->t->kind == SL_JTOK_BLOCK_END ||
           is_op(p, ')', 0) || (end_word && is_word(p, end_word));
}

static struct sl_jnode *or_expr(struct parse *p);

/* Expressions with commas between them are a tuple. */
static struct sl_jnode *tuple(struct parse *p, bool cond, const char *end_word,
                              bool parens)
{
    struct sl_jnode *t = node(p, SL_JN_TUPLE);
    bool is_tuple = false;

    while (t && ok(p)) {
        if (t->x.n)
            expect_op(p, ',');
        if (tuple_end(p, end_word))
            break;
        sl_jinja_push(p->r, &t->x, cond ? expression(p) : or_expr(p));
        if (!is_op(p, ',', 0))
            break;
        is_tuple = true;
    }
    if (!ok(p) || !t)
        return NULL;
    if (!is_tuple && t->x.n)
        return t->x.p[0];
    if (!is_tuple && !parens)
        unexpected(p, "an expression");
    return t;
}

static struct sl_jnode *list(struct parse *p)
{
    struct sl_jnode *n = node(p, SL_JN_LIST);

    next(p);
    while (n && ok(p) && !is_op(p, ']', 0)) {
        if (n->x.n)
            expect_op(p, ',');
        if (is_op(p, ']', 0))
            break;
        sl_jinja_push(p->r, &n->x, expression(p));
    }
    expect_op(p, ']');
    return n;
}

static struct sl_jnode *dict(struct parse *p)
{
    struct sl_jnode *n = node(p, SL_JN_DICT);

    next(p);
    while (n && ok(p) && !is_op(p, '}', 0)) {
        if (n->x.n)
            expect_op(p, ',');
        if (is_op(p, '}', 0))
            break;
        sl_jinja_push(p->r, &n->x, expression(p));
        expect_op(p, ':');
        sl_jinja_push(p->r, &n->y, expression(p));
    }
    expect_op(p, '}');
    return n;
}

static struct sl_jnode *primary(struct parse *p)
{
    struct sl_jnode *n;

    if (!ok(p))
        return NULL;
    if (p->t->kind == SL_JTOK_NAME)
        return name_or_const(p);
    if (p->t->kind == SL_JTOK_LITERAL)
        return p->t->val.kind == SL_J_STR ? string(p) : literal(p, p->t->val);
    if (is_op(p, '[', 0))
        return list(p);
    if (is_op(p, '{', 0))
        return dict(p);
    if (!skip_op(p, '(', 0)) {
        unexpected(p, "an expression");
        return NULL;
    }
    n = tuple(p, true, NULL, true);
    expect_op(p, ')');
    return n;
}

/* (args), with keywords, *list and **dict. */
static void call_args(struct parse *p, struct sl_jnode *n)
{
    bool more = false;

    expect_op(p, '(');
    while (n && ok(p) && !is_op(p, ')', 0)) {
        if (more)
            expect_op(p, ',');
        if (is_op(p, ')', 0))
            break;
        more = true;
        if ((is_op(p, '*', 0) && (n->b || n->c)) ||
            (is_op(p, '*', '*') && n->c)) {
            unexpected(p, "only one '*' and one '**'");
        } else if (skip_op(p, '*', 0)) {
            n->b = expression(p);
        } else if (skip_op(p, '*', '*')) {
            n->c = expression(p);
        } else if (p->t->kind == SL_JTOK_NAME && p->t[1].kind == SL_JTOK_OP &&
                   p->t[1].op == SL_JOP('=', 0)) {
            struct sl_jnode *k = node(p, SL_JN_KEYWORD);

            if (n->c)
                unexpected(p, "no keyword after '**'");
            if (k)
                k->name = name(p);
            next(p);
            if (k)
                k->a = expression(p);
            sl_jinja_push(p->r, &n->y, k);
        } else {
            if (n->b || n->c || n->y.n)
                unexpected(p, "no plain argument after a keyword or '*'");
            sl_jinja_push(p->r, &n->x, expression(p));
        }
    }
    expect_op(p, ')');
}

static struct sl_jnode *call(struct parse *p, struct sl_jnode *callee)
{
    struct sl_jnode *n = node(p, SL_JN_CALL);

    if (n)
        n->a = callee;
    call_args(p, n);
    return n;
}

/* a:b:c inside [ ], with `first` before the first colon or NULL. */
static struct sl_jnode *slice(struct parse *p, struct sl_jnode *first)
{
    struct sl_jnode *n = node(p, SL_JN_SLICE);

    if (!n)
        return NULL;
    n->a = first;
    expect_op(p, ':');
    if (!is_op(p, ':', 0) && !is_op(p, ']', 0))
        n->b = expression(p);
    if (skip_op(p, ':', 0) && !is_op(p, ']', 0))
        n->c = expression(p);
    return n;
}

static struct sl_jnode *subscript(struct parse *p, struct sl_jnode *obj)
{
    struct sl_jnode *n = node(p, SL_JN_ITEM), *first = NULL;

    next(p);
    if (!n)
        return NULL;
    n->a = obj;
    if (!is_op(p, ':', 0))
        first = expression(p);
    n->b = ok(p) && is_op(p, ':', 0) ? slice(p, first) : first;
    if (ok(p) && is_op(p, ',', 0))
        fail(p, "an index of several values is not supported");
    expect_op(p, ']');
    return n;
}

static struct sl_jnode *attribute(struct parse *p, struct sl_jnode *obj)
{
    struct sl_jnode *n = node(p, SL_JN_ATTR);

    next(p);
    if (!n)
        return NULL;
    n->a = obj;
    if (p->t->kind == SL_JTOK_LITERAL && p->t->val.kind == SL_J_INT) {
        n->kind = SL_JN_ITEM; /* x.0 is x[0] */
        n->b = literal(p, p->t->val);
        return n;
    }
    n->name = name(p);
    return n;
}

static struct sl_jnode *postfix(struct parse *p, struct sl_jnode *n)
{
    while (ok(p)) {
        if (is_op(p, '.', 0))
            n = attribute(p, n);
        else if (is_op(p, '[', 0))
            n = subscript(p, n);
        else if (is_op(p, '(', 0))
            n = call(p, n);
        else
            break;
    }
    return n;
}

/* The name of a filter or test, and its number. */
static struct sl_jnode *named(struct parse *p, enum sl_jnode_kind kind,
                              struct sl_jnode *arg)
{
    struct sl_jnode *n = node(p, kind);
    const struct sl_jtok *at = p->t;
    bool filter = kind == SL_JN_FILTER;

    if (!n)
        return NULL;
    n->a = arg;
    n->name = name(p);
    if (!ok(p))
        return NULL;
    n->fn = filter ? sl_jinja_filter_find(n->name->p, n->name->len)
                   : sl_jinja_test_find(n->name->p, n->name->len);
    if (is_op(p, '.', 0)) {
        p->t = at;
        fail(p, "names of filters and tests have no dots here");
    }
    return n;
}

/* `filter` or `|filter|filter`, from its name; arg may be NULL. */
static struct sl_jnode *filter(struct parse *p, struct sl_jnode *arg)
{
    struct sl_jnode *n = named(p, SL_JN_FILTER, arg);

    if (ok(p) && is_op(p, '(', 0))
        call_args(p, n);
    return n;
}

static bool begins_test_arg(const struct parse *p)
{
    if (p->t->kind == SL_JTOK_LITERAL || is_op(p, '[', 0) || is_op(p, '{', 0))
        return true;
    return p->t->kind == SL_JTOK_NAME && !is_word(p, "else") &&
           !is_word(p, "or") && !is_word(p, "and");
}

static struct sl_jnode *test(struct parse *p, struct sl_jnode *arg)
{
    struct sl_jnode *n, *not_node = NULL;

    next(p);
    if (is_word(p, "not")) {
        not_node = node(p, SL_JN_NOT);
        next(p);
    }
    n = named(p, SL_JN_TEST, arg);
    if (ok(p) && is_op(p, '(', 0)) {
        call_args(p, n);
    } else if (ok(p) && begins_test_arg(p)) {
        if (is_word(p, "is"))
            fail(p, "tests cannot be chained with 'is'");
        sl_jinja_push(p->r, &n->x, postfix(p, primary(p)));
    }
    if (!not_node)
        return n;
    not_node->a = n;
    return not_node;
}

static struct sl_jnode *filters(struct parse *p, struct sl_jnode *n)
{
    while (ok(p)) {
        if (skip_op(p, '|', 0))
            n = filter(p, n);
        else if (is_word(p, "is"))
            n = test(p, n);
        else if (is_op(p, '(', 0))
            n = call(p, n);
        else
            break;
    }
    return n;
}

static bool nest(struct parse *p)
{
    if (!ok(p))
        return false;
    if (p->nest == NEST) {
        fail(p, "this nests deeper than %d levels", NEST);
        return false;
    }
    p->nest++;
    return true;
}

static struct sl_jnode *unary(struct parse *p, bool with_filter)
{
    struct sl_jnode *n;

    if (!nest(p))
        return NULL;
    if (is_op(p, '-', 0) || is_op(p, '+', 0)) {
        n = node(p, is_op(p, '-', 0) ? SL_JN_NEG : SL_JN_POS);
        next(p);
        if (n)
            n->a = unary(p, false);
    } else {
        n = primary(p);
    }
    n = postfix(p, n);
    if (with_filter)
        n = filters(p, n);
    p->nest--;
    return n;
}

static struct sl_jnode *binary(struct parse *p, int op, struct sl_jnode *a)
{
    struct sl_jnode *n = node(p, SL_JN_BINARY);

    next(p);
    if (n) {
        n->op = op;
        n->a = a;
    }
    return n;
}

static struct sl_jnode *pow_expr(struct parse *p)
{
    struct sl_jnode *n = unary(p, true);

    while (ok(p) && is_op(p, '*', '*')) {
        n = binary(p, 'p', n);
        if (n)
            n->b = unary(p, true);
    }
    return n;
}

static struct sl_jnode *mul_expr(struct parse *p)
{
    struct sl_jnode *n = pow_expr(p);

    while (ok(p)) {
        int op = is_op(p, '*', 0)     ? '*'
                 : is_op(p, '/', 0)   ? '/'
                 : is_op(p, '/', '/') ? 'f'
                 : is_op(p, '%', 0)   ? '%'
                                      : 0;

        if (!op)
            break;
        n = binary(p, op, n);
        if (n)
            n->b = pow_expr(p);
    }
    return n;
}

static struct sl_jnode *concat_expr(struct parse *p)
{
    struct sl_jnode *n, *first = mul_expr(p);

    if (!ok(p) || !is_op(p, '~', 0))
        return first;
    n = node(p, SL_JN_CONCAT);
    if (!n)
        return NULL;
    sl_jinja_push(p->r, &n->x, first);
    while (skip_op(p, '~', 0))
        sl_jinja_push(p->r, &n->x, mul_expr(p));
    return n;
}

static struct sl_jnode *add_expr(struct parse *p)
{
    struct sl_jnode *n = concat_expr(p);

    while (ok(p) && (is_op(p, '+', 0) || is_op(p, '-', 0))) {
        n = binary(p, is_op(p, '+', 0) ? '+' : '-', n);
        if (n)
            n->b = concat_expr(p);
    }
    return n;
}

/* The comparison at the current token, taken, or 0: 'i' is in, 'n' not in. */
static int compare_op(struct parse *p)
{
    static const struct {
        char a, b;
    } ops[] = {{'=', '='}, {'!', '='}, {'<', '='},
               {'>', '='}, {'<', 0},   {'>', 0}};

    for (size_t i = 0; i < SL_COUNTOF(ops); i++)
        if (skip_op(p, ops[i].a, ops[i].b))
            return SL_JOP(ops[i].a, ops[i].b);
    if (skip_word(p, "in"))
        return 'i';
    if (is_word(p, "not") && tok_is_word(p->t + 1, "in")) {
        next(p);
        next(p);
        return 'n';
    }
    return 0;
}

static struct sl_jnode *compare_expr(struct parse *p)
{
    struct sl_jnode *first = add_expr(p), *n = NULL;

    while (ok(p)) {
        struct sl_jnode *o = node(p, SL_JN_OPERAND);
        int op = compare_op(p);

        if (!op)
            break;
        if (!n)
            n = node(p, SL_JN_COMPARE);
        if (!n || !o)
            break;
        n->a = first;
        o->op = op;
        o->a = add_expr(p);
        sl_jinja_push(p->r, &n->x, o);
    }
    return n ? n : first;
}

static struct sl_jnode *not_expr(struct parse *p)
{
    struct sl_jnode *n;

    if (!ok(p) || !is_word(p, "not"))
        return compare_expr(p);
    if (!nest(p))
        return NULL;
    n = node(p, SL_JN_NOT);
    next(p);
    if (n)
        n->a = not_expr(p);
    p->nest--;
    return n;
}

static struct sl_jnode *two(struct parse *p, enum sl_jnode_kind kind,
                            struct sl_jnode *a)
{
    struct sl_jnode *n = node(p, kind);

    next(p);
    if (n)
        n->a = a;
    return n;
}

static struct sl_jnode *and_expr(struct parse *p)
{
    struct sl_jnode *n = not_expr(p);

    while (ok(p) && is_word(p, "and")) {
        n = two(p, SL_JN_AND, n);
        if (n)
            n->b = not_expr(p);
    }
    return n;
}

static struct sl_jnode *or_expr(struct parse *p)
{
    struct sl_jnode *n = and_expr(p);

    while (ok(p) && is_word(p, "or")) {
        n = two(p, SL_JN_OR, n);
        if (n)
            n->b = and_expr(p);
    }
    return n;
}

static struct sl_jnode *expression(struct parse *p)
{
    struct sl_jnode *then = or_expr(p), *n;

    if (!nest(p))
        return NULL;
    while (ok(p) && is_word(p, "if")) {
        n = node(p, SL_JN_COND);
        next(p);
        if (!n)
            break;
        n->b = then;
        n->a = or_expr(p);
        if (skip_word(p, "else"))
            n->c = expression(p);
        then = n;
    }
    p->nest--;
    return then;
}

/* ---- statements ---- */

/* A name, or namespace.name where `ns` allows. */
static struct sl_jnode *target_one(struct parse *p, bool ns)
{
    struct sl_jnode *n;

    if (is_op(p, '(', 0)) {
        fail(p, "targets in brackets are not supported");
        return NULL;
    }
    n = name_node(p, SL_JNAME_STORE);
    if (!n)
        return NULL;
    if (sl_jinja_is_str((struct sl_jval){.kind = SL_J_STR, .u.s = n->name},
                        "true") ||
        sl_jinja_is_str((struct sl_jval){.kind = SL_J_STR, .u.s = n->name},
                        "false") ||
        sl_jinja_is_str((struct sl_jval){.kind = SL_J_STR, .u.s = n->name},
                        "none"))
        fail(p, "a constant cannot be assigned to");
    if (ns && skip_op(p, '.', 0)) {
        n->kind = SL_JN_NSREF;
        n->attr = name(p);
    }
    return ok(p) ? n : NULL;
}

static struct sl_jnode *target(struct parse *p, bool ns, const char *end_word)
{
    struct sl_jnode *t = node(p, SL_JN_TUPLE);
    bool is_tuple = false;

    while (t && ok(p)) {
        if (t->x.n)
            expect_op(p, ',');
        if (tuple_end(p, end_word))
            break;
        sl_jinja_push(p->r, &t->x, target_one(p, ns));
        if (!is_op(p, ',', 0))
            break;
        is_tuple = true;
    }
    if (!ok(p) || !t)
        return NULL;
    if (!is_tuple && t->x.n)
        return t->x.p[0];
    if (!is_tuple)
        unexpected(p, "a name");
    return t;
}

static void body(struct parse *p, struct sl_jnodes *out,
                 const char *const *ends)
{
    skip_op(p, ':', 0);
    expect_kind(p, SL_JTOK_BLOCK_END, "the end of the tag");
    if (!nest(p))
        return;
    statements(p, out, ends);
    p->nest--;
}

static struct sl_jnode *for_(struct parse *p)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    static const char *const end[] = {"endfor", NULL};
    struct sl_jnode *n = node(p, SL_JN_FOR);

    next(p);
    if (!n)
        return NULL;
    n->a = target(p, false, "in");
    if (ok(p) && !skip_word(p, "in"))
        unexpected(p, "'in'");
    n->b = tuple(p, false, "recursive", false);
    if (skip_word(p, "if"))
        n->c = expression(p);
    if (ok(p) && is_word(p, "recursive"))
        fail(p, "recursive loops are not supported; use a macro");
    p->loops++;
    body(p, &n->x, ends);
    p->loops--;
    if (skip_word(p, "else"))
        body(p, &n->y, end);
    skip_word(p, "endfor");
    return n;
}

static struct sl_jnode *if_(struct parse *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const end[] = {"endif", NULL};
    struct sl_jnode *top = node(p, SL_JN_IF), *n = top;

    next(p);
    while (n && ok(p)) {
        n->a = tuple(p, false, NULL, false);
        body(p, &n->x, ends);
        if (!ok(p) || !is_word(p, "elif"))
            break;
        n = node(p, SL_JN_IF);
        next(p);
        sl_jinja_push(p->r, &top->y, n);
    }
    if (skip_word(p, "else"))
        body(p, &top->z, end);
    skip_word(p, "endif");
    return top;
}

static struct sl_jnode *set(struct parse *p)
{
    static const char *const end[] = {"endset", NULL};
    struct sl_jnode *n = node(p, SL_JN_SET);

    next(p);
    if (!n)
        return NULL;
    n->a = target(p, true, NULL);
    if (skip_op(p, '=', 0)) {
        n->b = tuple(p, true, NULL, false);
        return n;
    }
    n->kind = SL_JN_SETBLOCK;
    while (skip_op(p, '|', 0))
        n->b = filter(p, n->b);
    body(p, &n->x, end);
    skip_word(p, "endset");
    return n;
}

static void signature(struct parse *p, struct sl_jnode *n)
{
    expect_op(p, '(');
    while (ok(p) && !is_op(p, ')', 0)) {
        if (n->x.n)
            expect_op(p, ',');
        sl_jinja_push(p->r, &n->x, name_node(p, SL_JNAME_PARAM));
        if (skip_op(p, '=', 0))
            sl_jinja_push(p->r, &n->y, expression(p));
        else if (ok(p) && n->y.n)
            fail(p, "a parameter without default follows one with");
    }
    expect_op(p, ')');
}

/* A body that becomes a function of its own: no break out of it. */
static void function_body(struct parse *p, struct sl_jnode *n,
                          const char *const *ends)
{
    int loops = p->loops;

    p->loops = 0;
    body(p, &n->z, ends);
    p->loops = loops;
    if (ok(p))
        next(p);
}

static struct sl_jnode *macro(struct parse *p)
{
    static const char *const end[] = {"endmacro", NULL};
    struct sl_jnode *n = node(p, SL_JN_MACRO);

    next(p);
    if (!n)
        return NULL;
    n->name = name(p);
    signature(p, n);
    function_body(p, n, end);
    return n;
}

static struct sl_jnode *call_block(struct parse *p)
{
    static const char *const end[] = {"endcall", NULL};
    struct sl_jnode *n = node(p, SL_JN_CALLBLOCK);

    next(p);
    if (!n)
        return NULL;
    if (is_op(p, '(', 0))
        signature(p, n);
    n->a = expression(p);
    if (ok(p) && n->a->kind != SL_JN_CALL)
        fail(p, "a call block needs a call, such as {%% call f() %%}");
    function_body(p, n, end);
    return n;
}

static struct sl_jnode *generation(struct parse *p)
{
    static const char *const end[] = {"endgeneration", NULL};
    struct sl_jnode *n = node(p, SL_JN_GENERATION);

    next(p);
    if (!n)
        return NULL;
    function_body(p, n, end);
    return n;
}

static struct sl_jnode *filter_block(struct parse *p)
{
    static const char *const end[] = {"endfilter", NULL};
    struct sl_jnode *n = node(p, SL_JN_FILTERBLOCK);

    next(p);
    if (!n)
        return NULL;
    n->b = filter(p, NULL);
    while (skip_op(p, '|', 0))
        n->b = filter(p, n->b);
    body(p, &n->x, end);
    skip_word(p, "endfilter");
    return n;
}

static struct sl_jnode *with(struct parse *p)
{
    static const char *const end[] = {"endwith", NULL};
    struct sl_jnode *n = node(p, SL_JN_WITH);

    next(p);
    while (n && ok(p) && p->t->kind != SL_JTOK_BLOCK_END) {
        struct sl_jnode *t;

        if (n->x.n)
            expect_op(p, ',');
        t = target_one(p, false);
        if (t)
            t->op = SL_JNAME_PARAM;
        sl_jinja_push(p->r, &n->x, t);
        expect_op(p, '=');
        sl_jinja_push(p->r, &n->y, expression(p));
    }
    if (!n)
        return NULL;
    body(p, &n->z, end);
    skip_word(p, "endwith");
    return n;
}

static struct sl_jnode *print(struct parse *p)
{
    struct sl_jnode *n = node(p, SL_JN_OUTPUT);

    next(p);
    while (n && ok(p) && p->t->kind != SL_JTOK_BLOCK_END) {
        if (n->x.n)
            expect_op(p, ',');
        sl_jinja_push(p->r, &n->x, expression(p));
    }
    return n;
}

static struct sl_jnode *jump(struct parse *p, enum sl_jnode_kind kind)
{
    struct sl_jnode *n = node(p, kind);

    if (!p->loops)
        fail(p, "there is no loop here to leave or to go on with");
    next(p);
    return n;
}

static struct sl_jnode *unknown(struct parse *p)
{
    static const char *const known[] = {"block",  "extends", "include",
                                        "import", "from",    "autoescape",
                                        "trans",  "do",      "debug"};
    char buf[64];

    for (size_t i = 0; i < SL_COUNTOF(known); i++)
        if (is_word(p, known[i])) {
            fail(p, "the tag '%s' is not supported in chat templates",
                 known[i]);
            return NULL;
        }
    if (p->t->kind == SL_JTOK_NAME)
        fail(p,
             "there is no tag %s, or it has no beginning; was something "
             "closed in the wrong order?",
             describe(p->t, buf));
    else
        unexpected(p, "the name of a tag");
    return NULL;
}

static struct sl_jnode *statement(struct parse *p)
{
    if (is_word(p, "for"))
        return for_(p);
    if (is_word(p, "if"))
        return if_(p);
    if (is_word(p, "set"))
        return set(p);
    if (is_word(p, "macro"))
        return macro(p);
    if (is_word(p, "call"))
        return call_block(p);
    if (is_word(p, "generation"))
        return generation(p);
    if (is_word(p, "filter"))
        return filter_block(p);
    if (is_word(p, "with"))
        return with(p);
    if (is_word(p, "print"))
        return print(p);
    if (is_word(p, "break"))
        return jump(p, SL_JN_BREAK);
    if (is_word(p, "continue"))
        return jump(p, SL_JN_CONTINUE);
    return unknown(p);
}

static struct sl_jnode *data(struct parse *p)
{
    struct sl_jnode *n = node(p, SL_JN_DATA);

    if (n)
        n->lit = sl_jinja_borrow(p->r, p->t->p, p->t->len);
    next(p);
    return n;
}

static struct sl_jnode *output(struct parse *p)
{
    struct sl_jnode *n = node(p, SL_JN_OUTPUT);

    next(p);
    if (n)
        sl_jinja_push(p->r, &n->x, tuple(p, true, NULL, false));
    expect_kind(p, SL_JTOK_VAR_END, "'}}'");
    return n;
}

/* Until a tag named in `ends` (NULL: the end of the template), whose name is
 * then the current token. */
static void statements(struct parse *p, struct sl_jnodes *out,
                       const char *const *ends)
{
    while (ok(p) && p->t->kind != SL_JTOK_EOF) {
        if (p->t->kind == SL_JTOK_DATA) {
            sl_jinja_push(p->r, out, data(p));
            continue;
        }
        if (p->t->kind == SL_JTOK_VAR_BEGIN) {
            sl_jinja_push(p->r, out, output(p));
            continue;
        }
        next(p);
        for (size_t i = 0; ends && ends[i]; i++)
            if (is_word(p, ends[i]))
                return;
        sl_jinja_push(p->r, out, statement(p));
        expect_kind(p, SL_JTOK_BLOCK_END, "the end of the tag");
    }
    if (ok(p) && ends)
        fail(p, "the template ends but '%s' is missing", ends[0]);
}

static void check(struct sl_jrun *r, const struct sl_jnode *n, bool soft);

static void check_all(struct sl_jrun *r, const struct sl_jnodes *l, bool soft)
{
    for (size_t i = 0; i < l->n && !r->rc; i++)
        check(r, l->p[i], soft);
}

static bool opens_scope(enum sl_jnode_kind k)
{
    return k == SL_JN_FOR || k == SL_JN_SETBLOCK || k == SL_JN_MACRO ||
           k == SL_JN_CALLBLOCK || k == SL_JN_GENERATION ||
           k == SL_JN_FILTERBLOCK || k == SL_JN_WITH;
}

/* Unknown filters and tests are an error, but where Jinja lets them pass
 * until they are reached, so do we: directly in an if or an inline if.
 * Templates ask there whether a filter of another engine exists. */
static void check(struct sl_jrun *r, const struct sl_jnode *n, bool soft)
{
    bool inner = soft || n->kind == SL_JN_IF || n->kind == SL_JN_COND;
    bool named_ = n->kind == SL_JN_FILTER || n->kind == SL_JN_TEST;
    const struct sl_jnode *one[] = {n->a, n->b, n->c};

    if (!sl_jinja_enter(r))
        return;
    r->at = n->at;
    if (named_ && n->fn < 0 && !soft)
        sl_jinja_fail(r, SL_EFORMAT, "there is no %s '%.*s' in this engine",
                      n->kind == SL_JN_FILTER ? "filter" : "test",
                      (int)sl_min(n->name->len, 60), n->name->p);
    for (size_t i = 0; i < SL_COUNTOF(one); i++)
        if (one[i])
            check(r, one[i], inner);
    if (opens_scope(n->kind))
        inner = false;
    check_all(r, &n->x, inner);
    check_all(r, &n->y, inner);
    check_all(r, &n->z, inner);
    sl_jinja_leave(r);
}

struct sl_jnode *sl_jinja_parse(struct sl_jrun *r)
{
    struct sl_jtoks toks;
    struct parse p = {.r = r};
    struct sl_jnode *n = NULL;

    sl_jinja_lex(&toks, r);
    if (!r->rc) {
        p.t = toks.p;
        n = node(&p, SL_JN_TEMPLATE);
    }
    if (n)
        statements(&p, &n->x, NULL);
    sl_jinja_lex_free(&toks);
    if (!r->rc)
        check(r, n, false);
    return r->rc ? NULL : n;
}
