/* text/template.c - chat templates: a subset of Jinja
 *
 * The way of a template through the files of this folder:
 *
 *   jinja_lex    text -> tokens; white space control
 *   jinja_parse  tokens -> tree (jinja_ast.h)
 *   jinja_scope  which variable each name is
 *   jinja_eval   tree + variables -> text, with the help of
 *     jinja_value, _num, _text, _print, _json   Python's values
 *     jinja_attr, _method, _global              what they can do
 *     jinja_filter, _seq, _test                 x|name, x is name
 *   jinja_run    memory, budget, first error of one rendering
 *
 * No C library for Jinja exists, and the sentences of a template must reach the
 * model byte for byte, so this is ours. The measure is the reference: what
 * differs from it is a bug, what is missing is refused.
 */
#include "text/template.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/jinja_eval.h"
#include "text/jinja_json.h"
#include "text/jinja_parse.h"
#include "text/jinja_scope.h"

/* Chosen, not measured: a thousand messages take some 10^5 steps and a few
 * hundred KiB. */
#define DEFAULT_STEPS ((uint64_t)50000000)
#define DEFAULT_BYTES ((size_t)256 << 20)
#define COMPILE_STEPS ((uint64_t)50000000)
#define COMPILE_BYTES ((size_t)64 << 20)

struct sl_template {
    struct sl_jheap heap; /* source, tree, literals */
    const char *src;
    size_t src_len;
    const struct sl_jnode *tree;
};

void sl_template_opts_init(struct sl_template_opts *o)
{
    *o = (struct sl_template_opts){.max_steps = DEFAULT_STEPS,
                                   .max_bytes = DEFAULT_BYTES};
}

/* "\r\n" and "\r" become "\n", as Jinja does first of all. */
static void take_source(struct sl_jrun *r, const char *text, size_t len)
{
    char *p = sl_jinja_get(r, len, 1);
    size_t n = 0;

    for (size_t i = 0; p && i < len; i++) {
        if (text[i] == '\r' && i + 1 < len && text[i + 1] == '\n')
            continue;
        p[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    r->src = p;
    r->src_len = n;
}

static int check(const char *text, size_t len, struct sl_err *err)
{
    if (len > SL_TEMPLATE_MAX_SOURCE)
        return sl_fail(err, SL_EFORMAT,
                       "it has %zu bytes, and %zu is the limit; this is no "
                       "chat template",
                       len, SL_TEMPLATE_MAX_SOURCE);
    return sl_utf8_check(text, len, "its text", err);
}

int sl_template_open(struct sl_template **out, const char *text, size_t len,
                     const char *what, struct sl_err *err)
{
    struct sl_template *t = NULL;
    struct sl_jrun r = {.err = err, .steps_left = COMPILE_STEPS};
    struct sl_jnode *tree;
    int rc = check(text, len, err);

    if (!rc)
        rc = sl_mem_alloc(&t, 1, sizeof(*t), "a template", err);
    if (rc)
        return sl_wrap(err, rc, "template '%s'", what);
    sl_jheap_init(&r.heap, COMPILE_BYTES);
    take_source(&r, text, len);
    tree = r.rc ? NULL : sl_jinja_parse(&r);
    if (tree)
        sl_jinja_scopes(&r, tree);
    t->heap = r.heap;
    t->src = r.src;
    t->src_len = r.src_len;
    t->tree = tree;
    if (r.rc) {
        sl_template_close(&t);
        return sl_wrap(err, r.rc, "template '%s'", what);
    }
    *out = t;
    return 0;
}

void sl_template_close(struct sl_template **t)
{
    if (!*t)
        return;
    sl_jheap_deinit(&(*t)->heap);
    sl_mem_free(*t);
    *t = NULL;
}

int sl_template_render(const struct sl_template *t, const json_t *vars,
                       const struct sl_template_opts *o, struct sl_buf *out,
                       struct sl_err *err)
{
    struct sl_jrun r = {.out = out,
                        .err = err,
                        .src = t->src,
                        .src_len = t->src_len,
                        .steps_left = o->max_steps,
                        .now_s = o->now_s};
    size_t mark = out->len;
    struct sl_jval v;

    sl_jheap_init(&r.heap, o->max_bytes);
    v = sl_jinja_from_json(&r, vars);
    if (!r.rc && v.kind != SL_J_DICT)
        sl_jinja_fail(&r, SL_EBUG, "the variables of a template are no object");
    if (!r.rc) {
        r.vars = v.u.d;
        sl_jinja_eval(&r, t->tree);
    }
    sl_jheap_deinit(&r.heap);
    if (r.rc) {
        out->failed = SL_OK;
        sl_jinja_drop(&r, mark);
    }
    return r.rc;
}

static bool is_word_byte(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

const char *sl_template_source(size_t *len, const struct sl_template *t)
{
    *len = t->src_len;
    return t->src;
}

bool sl_template_mentions(const struct sl_template *t, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = 0; n <= t->src_len && i <= t->src_len - n; i++)
        if (memcmp(t->src + i, word, n) == 0 &&
            (i == 0 || !is_word_byte(t->src[i - 1])) &&
            (i + n == t->src_len || !is_word_byte(t->src[i + n])))
            return true;
    return false;
}
