/* text/jinja_json.c - JSON <-> values of a template
 *
 * Printing is Python's json.dumps, which is not the shortest JSON: `, ` and
 * `: ` between, floats as repr() gives them, non-ASCII left as it is unless
 * asked for, order of insertion. It is what transformers' tojson calls, and a
 * model has seen exactly these bytes in training.
 */
#include "text/jinja_json.h"

#include "base/json.h"
#include "base/utf8.h"
#include "text/jinja_num.h"

static struct sl_jval from_array(struct sl_jrun *r, const json_t *j)
{
    struct sl_jval v = sl_jinja_list(r, SL_J_LIST, json_array_size(j));

    for (size_t i = 0; !r->rc && i < v.u.l->n; i++)
        v.u.l->v[i] = sl_jinja_from_json(r, json_array_get(j, i));
    return v;
}

/* The keys of an object differ, so none is searched for. */
static struct sl_jval from_object(struct sl_jrun *r, const json_t *j)
{
    struct sl_jval v = sl_jinja_dict(r, SL_J_DICT);
    size_t n = json_object_size(j);
    struct sl_jpair *p = sl_jinja_get(r, n, sizeof(*p));
    json_t *obj, *val;
    const char *key;
    size_t len;

    if (r->rc)
        return v;
    memcpy(&obj, &j, sizeof(obj)); /* jansson's iterator takes no const */
    v.u.d->p = p;
    v.u.d->cap = n;
    for (void *it = json_object_iter(obj); it && !r->rc;
         it = json_object_iter_next(obj, it)) {
        key = json_object_iter_key(it);
        len = json_object_iter_key_len(it);
        val = json_object_iter_value(it);
        p[v.u.d->n] = (struct sl_jpair){.key = sl_jinja_borrow(r, key, len),
                                        .val = sl_jinja_from_json(r, val)};
        v.u.d->n++;
    }
    return v;
}

struct sl_jval sl_jinja_from_json(struct sl_jrun *r, const json_t *j)
{
    struct sl_jval v = sl_jinja_none();

    if (!sl_jinja_spend(r, 1) || !sl_jinja_enter(r))
        return v;
    if (json_is_object(j))
        v = from_object(r, j);
    else if (json_is_array(j))
        v = from_array(r, j);
    else if (json_is_string(j))
        v = sl_jinja_borrow(r, json_string_value(j), json_string_length(j));
    else if (json_is_integer(j))
        v = sl_jinja_int(json_integer_value(j));
    else if (json_is_real(j))
        v = sl_jinja_float(json_real_value(j));
    else if (json_is_boolean(j))
        v = sl_jinja_bool(json_is_true(j));
    sl_jinja_leave(r);
    return v;
}

struct writer {
    struct sl_jrun *r;
    const struct sl_jjson_style *style;
    size_t level;
};

static void write_value(struct writer *w, struct sl_jval v);

static void write_escape(struct writer *w, uint32_t cp)
{
    char out[16];

    if (cp >= 0x10000)
        snprintf(out, sizeof(out), "\\u%04x\\u%04x",
                 0xd800 + ((cp - 0x10000) >> 10),
                 0xdc00 + ((cp - 0x10000) & 0x3ff));
    else
        snprintf(out, sizeof(out), "\\u%04x", cp);
    sl_jinja_emit_str(w->r, out);
}

static void write_char(struct writer *w, const char *p, size_t n, uint32_t cp)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *hit = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
    char out[2] = {'\\', hit ? to[hit - from] : 0};

    if (hit)
        sl_jinja_emit(w->r, out, 2);
    else if (cp < 0x20 || (w->style->ascii && cp > 0x7e))
        write_escape(w, cp);
    else
        sl_jinja_emit(w->r, p, n);
}

/* Is this byte printed as it is? */
static bool plain(const struct writer *w, char c)
{
    return c != '"' && c != '\\' && (unsigned char)c >= 0x20 &&
           (!w->style->ascii || (unsigned char)c < 0x7f);
}

static void write_str(struct writer *w, const struct sl_jstr *s)
{
    sl_jinja_emit_str(w->r, "\"");
    sl_jinja_spend(w->r, s->len / 64);
    for (size_t i = 0, k; i < s->len && !w->r->rc; i = k) {
        uint32_t cp;

        for (k = i; k < s->len && plain(w, s->p[k]);)
            k++;
        sl_jinja_emit(w->r, s->p + i, k - i);
        if (k < s->len) {
            size_t n = sl_utf8_get(&cp, s->p + k, s->len - k);

            write_char(w, s->p + k, n, cp);
            k += n;
        }
    }
    sl_jinja_emit_str(w->r, "\"");
}

static void write_float(struct writer *w, double f)
{
    char text[SL_JINJA_FLOAT_TEXT];

    sl_jinja_float_text(text, f);
    if (f != f)
        sl_jinja_emit_str(w->r, "NaN");
    else if (strchr(text, 'i'))
        sl_jinja_emit_str(w->r, f < 0 ? "-Infinity" : "Infinity");
    else
        sl_jinja_emit_str(w->r, text);
}

static void newline(struct writer *w)
{
    const struct sl_jstr *in = w->style->indent;

    if (!in)
        return;
    sl_jinja_emit_str(w->r, "\n");
    for (size_t i = 0; i < w->level && !w->r->rc; i++)
        sl_jinja_emit(w->r, in->p, in->len);
}

static void between(struct writer *w)
{
    const struct sl_jstr *item = w->style->item;

    if (item)
        sl_jinja_emit(w->r, item->p, item->len);
    else
        sl_jinja_emit_str(w->r, w->style->indent ? "," : ", ");
    newline(w);
}

static void write_list(struct writer *w, const struct sl_jlist *l)
{
    if (l->n == 0) {
        sl_jinja_emit_str(w->r, "[]");
        return;
    }
    sl_jinja_emit_str(w->r, "[");
    w->level++;
    newline(w);
    for (size_t i = 0; i < l->n && !w->r->rc; i++) {
        if (i)
            between(w);
        write_value(w, l->v[i]);
    }
    w->level--;
    newline(w);
    sl_jinja_emit_str(w->r, "]");
}

/* Keys are strings; Python turns some others into strings. */
static void write_key(struct writer *w, struct sl_jval k)
{
    if (k.kind == SL_J_STR) {
        write_str(w, k.u.s);
    } else if (k.kind == SL_J_NONE || sl_jinja_is_number(k)) {
        sl_jinja_emit_str(w->r, "\"");
        write_value(w, k);
        sl_jinja_emit_str(w->r, "\"");
    } else {
        sl_jinja_fail(w->r, SL_EARG, "tojson: a %s cannot be a key",
                      sl_jinja_type(k));
    }
}

/* An order of the pairs by key. */
static const struct sl_jpair **sorted(struct writer *w,
                                      const struct sl_jdict *d)
{
    const struct sl_jpair **p =
        sl_jinja_get(w->r, d->n, sizeof(const struct sl_jpair *));

    for (size_t i = 0; p && i < d->n && !w->r->rc; i++) {
        size_t k = i;

        for (; w->style->sort && k > 0; k--) {
            if (sl_jinja_order(w->r, p[k - 1]->key, d->p[i].key, "<") <= 0)
                break;
            p[k] = p[k - 1];
        }
        p[k] = &d->p[i];
    }
    return p;
}

static void write_dict(struct writer *w, const struct sl_jdict *d)
{
    const struct sl_jpair **p;

    if (d->n == 0) {
        sl_jinja_emit_str(w->r, "{}");
        return;
    }
    p = sorted(w, d);
    sl_jinja_emit_str(w->r, "{");
    w->level++;
    newline(w);
    for (size_t i = 0; i < d->n && !w->r->rc; i++) {
        if (i)
            between(w);
        write_key(w, p[i]->key);
        if (w->style->key)
            sl_jinja_emit(w->r, w->style->key->p, w->style->key->len);
        else
            sl_jinja_emit_str(w->r, ": ");
        write_value(w, p[i]->val);
    }
    w->level--;
    newline(w);
    sl_jinja_emit_str(w->r, "}");
}

static void write_inner(struct writer *w, struct sl_jval v)
{
    char text[32];

    switch (v.kind) {
    case SL_J_NONE:
        sl_jinja_emit_str(w->r, "null");
        return;
    case SL_J_BOOL:
        sl_jinja_emit_str(w->r, v.u.b ? "true" : "false");
        return;
    case SL_J_INT:
        snprintf(text, sizeof(text), "%lld", (long long)v.u.i);
        sl_jinja_emit_str(w->r, text);
        return;
    case SL_J_FLOAT:
        write_float(w, v.u.f);
        return;
    case SL_J_STR:
        write_str(w, v.u.s);
        return;
    case SL_J_LIST:
    case SL_J_TUPLE:
        write_list(w, v.u.l);
        return;
    case SL_J_DICT:
        write_dict(w, v.u.d);
        return;
    case SL_J_UNDEF:
        sl_jinja_fail_undef(w->r, v);
        return;
    case SL_J_MISSING:
    case SL_J_NS:
    case SL_J_RANGE:
    case SL_J_GEN:
    case SL_J_VIEW:
    case SL_J_LOOP:
    case SL_J_MACRO:
    case SL_J_FUNC:
    case SL_J_METHOD:
        break;
    }
    sl_jinja_fail(w->r, SL_EARG, "tojson: a %s has no JSON", sl_jinja_type(v));
}

static void write_value(struct writer *w, struct sl_jval v)
{
    if (!sl_jinja_spend(w->r, 1) || !sl_jinja_enter(w->r))
        return;
    write_inner(w, v);
    sl_jinja_leave(w->r);
}

void sl_jinja_emit_json(struct sl_jrun *r, struct sl_jval v,
                        const struct sl_jjson_style *style)
{
    struct writer w = {.r = r, .style = style};

    write_value(&w, v);
}
