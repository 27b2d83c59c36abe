/* text/jinja_print.c - values as text: Python's str() and repr()
 *
 * What prints with an address in Python (generators, functions) has no text
 * that could be the same twice; it is refused.
 */
#include "text/jinja_print.h"

#include <stdarg.h>

#include "base/utf8.h"
#include "text/jinja_num.h"
#include "text/jinja_text.h"

static void print_fmt(struct sl_jrun *r, const char *fmt, ...) SL_PRINTF(2, 3);

static void print_fmt(struct sl_jrun *r, const char *fmt, ...)
{
    char out[64];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(out, sizeof(out), fmt, ap);
    va_end(ap);
    sl_jinja_emit_str(r, out);
}

/* One character of a string in quotes `q`. */
static void repr_char(struct sl_jrun *r, const char *p, size_t n, uint32_t cp,
                      char q)
{
    if (cp == (uint32_t)q || cp == '\\')
        print_fmt(r, "\\%c", (char)cp);
    else if (cp == '\n')
        sl_jinja_emit_str(r, "\\n");
    else if (cp == '\r')
        sl_jinja_emit_str(r, "\\r");
    else if (cp == '\t')
        sl_jinja_emit_str(r, "\\t");
    else if (sl_jinja_is_printable(cp))
        sl_jinja_emit(r, p, n);
    else if (cp < 0x100)
        print_fmt(r, "\\x%02x", cp);
    else if (cp < 0x10000)
        print_fmt(r, "\\u%04x", cp);
    else
        print_fmt(r, "\\U%08x", cp);
}

static void repr_str(struct sl_jrun *r, const struct sl_jstr *s)
{
    bool one = s->len && memchr(s->p, '\'', s->len);
    bool two = s->len && memchr(s->p, '"', s->len);
    char q = one && !two ? '"' : '\'';

    if (s->safe)
        sl_jinja_emit_str(r, "Markup(");
    sl_jinja_emit(r, &q, 1);
    sl_jinja_spend(r, s->len / 8);
    for (size_t i = 0; i < s->len && !r->rc;) {
        uint32_t cp;
        size_t n = sl_utf8_get(&cp, s->p + i, s->len - i);

        repr_char(r, s->p + i, n, cp, q);
        i += n;
    }
    sl_jinja_emit(r, &q, 1);
    if (s->safe)
        sl_jinja_emit_str(r, ")");
}

static void repr_items(struct sl_jrun *r, const struct sl_jlist *l,
                       const char *open, const char *close)
{
    sl_jinja_emit_str(r, open);
    for (size_t i = 0; i < l->n && !r->rc; i++) {
        if (i)
            sl_jinja_emit_str(r, ", ");
        sl_jinja_repr(r, l->v[i]);
    }
    sl_jinja_emit_str(r, close);
}

static void repr_dict(struct sl_jrun *r, const struct sl_jdict *d)
{
    sl_jinja_emit_str(r, "{");
    for (size_t i = 0; i < d->n && !r->rc; i++) {
        if (i)
            sl_jinja_emit_str(r, ", ");
        sl_jinja_repr(r, d->p[i].key);
        sl_jinja_emit_str(r, ": ");
        sl_jinja_repr(r, d->p[i].val);
    }
    sl_jinja_emit_str(r, "}");
}

static void repr_view(struct sl_jrun *r, struct sl_jval v)
{
    struct sl_jlist *l = sl_jinja_elements(r, v, "printing");
    char what = v.u.view->what;

    if (r->rc)
        return;
    sl_jinja_emit_str(r, what == 'k'   ? "dict_keys("
                         : what == 'v' ? "dict_values("
                                       : "dict_items(");
    repr_items(r, l, "[", "])");
}

static void repr_range(struct sl_jrun *r, const struct sl_jrange *g)
{
    /* The stop that was given is not kept; it prints only where it is known
     * from the rest. */
    long long stop = (long long)(g->start + (int64_t)g->n * g->step);

    if (g->step == 1 && (g->n || stop == 0))
        print_fmt(r, "range(%lld, %lld)", (long long)g->start, stop);
    else
        sl_jinja_fail(r, SL_EUNSUP,
                      "printing a range is not supported; use |list");
}

static void repr_inner(struct sl_jrun *r, struct sl_jval v)
{
    char text[SL_JINJA_FLOAT_TEXT];

    switch (v.kind) {
    case SL_J_MISSING:
    case SL_J_UNDEF:
        sl_jinja_emit_str(r, "Undefined");
        return;
    case SL_J_NONE:
        sl_jinja_emit_str(r, "None");
        return;
    case SL_J_BOOL:
        sl_jinja_emit_str(r, v.u.b ? "True" : "False");
        return;
    case SL_J_INT:
        print_fmt(r, "%lld", (long long)v.u.i);
        return;
    case SL_J_FLOAT:
        sl_jinja_float_text(text, v.u.f);
        sl_jinja_emit_str(r, text);
        return;
    case SL_J_STR:
        repr_str(r, v.u.s);
        return;
    case SL_J_LIST:
        repr_items(r, v.u.l, "[", "]");
        return;
    case SL_J_TUPLE:
        repr_items(r, v.u.l, "(", v.u.l->n == 1 ? ",)" : ")");
        return;
    case SL_J_DICT:
        repr_dict(r, v.u.d);
        return;
    case SL_J_VIEW:
        repr_view(r, v);
        return;
    case SL_J_RANGE:
        repr_range(r, v.u.range);
        return;
    case SL_J_NS:
    case SL_J_GEN:
    case SL_J_LOOP:
    case SL_J_MACRO:
    case SL_J_FUNC:
    case SL_J_METHOD:
        break;
    }
    sl_jinja_fail(r, SL_EUNSUP,
                  "a %s cannot be printed; was '|list', '|join' or '()' "
                  "forgotten?",
                  sl_jinja_type(v));
}

void sl_jinja_repr(struct sl_jrun *r, struct sl_jval v)
{
    if (!sl_jinja_spend(r, 1) || !sl_jinja_enter(r))
        return;
    repr_inner(r, v);
    sl_jinja_leave(r);
}

void sl_jinja_print(struct sl_jrun *r, struct sl_jval v)
{
    if (v.kind == SL_J_STR)
        sl_jinja_emit(r, v.u.s->p, v.u.s->len);
    else if (v.kind != SL_J_UNDEF)
        sl_jinja_repr(r, v);
}

struct sl_jval sl_jinja_text(struct sl_jrun *r, struct sl_jval v)
{
    size_t mark = sl_jinja_mark(r);

    if (v.kind == SL_J_STR)
        return v;
    sl_jinja_print(r, v);
    return sl_jinja_take(r, mark);
}
