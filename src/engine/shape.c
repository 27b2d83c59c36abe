/* engine/shape.c - shapes that requests ask for, compiled and kept
 *
 * Compiling happens in the thread that submits; the newest shapes are kept by
 * their text, since agents send the same tools with every request, and several
 * choices of one request share theirs. What a shape learns about masks is kept
 * with it and belongs to the engine thread (sample/shape.h). A shape may take
 * 58 MB, so what is kept is bounded in bytes, too: looked at with each request,
 * since shapes grow while they are used.
 *
 * Reasoning comes first and is free, but for its end: an answer that ends
 * inside of its reasoning would have no shape. Its end tag is a token, and what
 * spells it is reasoning; where a tokenizer lacks one of the tags, they are
 * found in the bytes (text/align.h does the same).
 */
#include "engine/shape.h"

#include <inttypes.h>

#include "base/json.h"
#include "base/mem.h"
#include "sample/calls.h"
#include "sample/gbnf.h"
#include "sample/jschema.h"
#include "sample/regex.h"

#define KEPT 16 /* shapes; chosen: tools of some agents at once */
#define KEPT_BYTES ((size_t)256 << 20) /* of them together; chosen */
#define MAX_TEXT SL_JSCHEMA_MAX_TEXT
#define MAX_CHOICES 10000

static const char think[] = "<think>", think_end[] = "</think>";
static const char call_open[] = "<tool_call>", call_close[] = "</tool_call>";

struct kept {
    enum sl_shape_kind kind;
    bool after_think;
    char *text;
    size_t len;
    struct sl_shape *shape; /* NULL: free */
    uint64_t used;
};

struct sl_shapes {
    struct sl_trie *trie;
    int32_t call_open, call_close; /* -1: no such token */
    int32_t think_end;             /* -1: tags are found in the text */
    struct sl_mutex mu;
    struct kept kept[KEPT]; /* guarded by mu */
    size_t max_bytes;       /* guarded by mu */
    uint64_t clock;         /* guarded by mu */
};

static int32_t find_tag(const struct sl_tokenizer *tok, const char *text)
{
    int32_t id;

    return sl_tokenizer_find(tok, text, strlen(text), &id) &&
                   sl_tokenizer_is_added(tok, id)
               ? id
               : -1;
}

static int open_trie(struct sl_shapes *s, const struct sl_tokenizer *tok,
                     uint32_t n, struct sl_err *err)
{
    const char **text = NULL;
    uint32_t *len = NULL;
    int rc = sl_mem_alloc(&text, n, sizeof(*text), "tokens", err);

    if (!rc)
        rc = sl_mem_alloc(&len, n, sizeof(*len), "tokens", err);
    for (uint32_t i = 0; !rc && i < n; i++) {
        struct sl_span b = sl_tokenizer_bytes(tok, (int32_t)i);

        /* Added tokens mean something; a grammar names them or goes without. */
        if (!b.p || sl_tokenizer_is_added(tok, (int32_t)i))
            continue;
        text[i] = b.p;
        len[i] = (uint32_t)b.len;
    }
    if (!rc)
        rc = sl_trie_open(&s->trie, text, len, n, err);
    sl_mem_free(text);
    sl_mem_free(len);
    return rc;
}

int sl_shapes_open(struct sl_shapes **out, const struct sl_tokenizer *tok,
                   uint32_t n_vocab, struct sl_err *err)
{
    struct sl_shapes *s = NULL;
    int rc = sl_mem_alloc(&s, 1, sizeof(*s), "shapes of answers", err);

    if (rc)
        return rc;
    sl_mutex_init(&s->mu, SL_RANK_SHAPE);
    s->max_bytes = KEPT_BYTES;
    s->call_open = find_tag(tok, call_open);
    s->call_close = find_tag(tok, call_close);
    s->think_end = find_tag(tok, think_end);
    if (find_tag(tok, think) < 0 || s->call_open < 0 || s->call_close < 0)
        s->think_end = -1;
    rc = open_trie(s, tok, n_vocab, err);
    if (rc)
        sl_shapes_close(&s);
    else
        *out = s;
    return rc;
}

void sl_shapes_close(struct sl_shapes **s)
{
    if (!*s)
        return;
    for (int i = 0; i < KEPT; i++) {
        sl_shape_close(&(*s)->kept[i].shape);
        sl_mem_free((*s)->kept[i].text);
    }
    sl_trie_close(&(*s)->trie);
    sl_mutex_deinit(&(*s)->mu);
    sl_mem_free(*s);
    *s = NULL;
}

/* ---------------------------------------------------------------- compiling */

static void read_schema(struct sl_grammar *g, uint32_t root, json_t *v)
{
    struct sl_jschema *j = NULL;
    struct sl_err err = {0};

    if (sl_jschema_open(&j, g, v, &err)) {
        sl_grammar_fail(g, err.code, "%s", err.msg);
        return;
    }
    sl_grammar_define(g, root, sl_jschema_node(j, v, "$"));
    sl_jschema_finish(j);
    sl_jschema_close(&j);
}

static void read_choice(struct sl_grammar *g, uint32_t root, const json_t *v)
{
    uint32_t alt = sl_grammar_alt(g);

    if (json_array_size(v) == 0 || json_array_size(v) > MAX_CHOICES)
        sl_grammar_fail(g, SL_EARG,
                        "a choice is an array of 1 to %d strings", MAX_CHOICES);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *s = json_array_get(v, i);

        if (!json_is_string(s))
            sl_grammar_fail(g, SL_EARG, "item %zu of a choice is no string", i);
        else
            sl_grammar_add(g, alt,
                           sl_grammar_bytes(g, json_string_value(s),
                                            json_string_length(s)));
    }
    sl_grammar_define(g, root, alt);
}

static void read_calls(struct sl_grammar *g, uint32_t root,
                       const struct sl_shapes *s, const json_t *v)
{
    struct sl_calls c = {
        .tools = json_object_get(v, "tools"),
        .only = json_string_value(json_object_get(v, "name")),
        .must = json_is_true(json_object_get(v, "must")),
        .many = json_is_true(json_object_get(v, "many")),
        .hermes = json_is_true(json_object_get(v, "hermes")),
        .content = json_object_get(v, "content"),
        .open = s->call_open,
        .close = s->call_close,
    };

    if (!json_is_array(c.tools) || json_array_size(c.tools) == 0)
        sl_grammar_fail(g, SL_EARG, "a shape of calls needs tools");
    else
        sl_calls_read(g, root, &c);
}

/* The model puts an empty line behind its reasoning. */
static void read_start(struct sl_grammar *g, uint32_t root, uint32_t real)
{
    uint32_t seq = sl_grammar_seq(g);

    sl_grammar_add(g, seq,
                   sl_grammar_repeat(g, sl_grammar_bytes(g, "\n", 1), 0, 2));
    sl_grammar_add(g, seq, sl_grammar_call(g, real));
    sl_grammar_define(g, root, seq);
}

static void read_grammar(struct sl_grammar *g, const struct sl_shapes *s,
                         const struct sl_gen_opts *o, const json_t *v)
{
    uint32_t root = 0;

    if (o->shape != SL_SHAPE_GRAMMAR)
        root = sl_grammar_rule(g, "root", 4);
    if (o->shape_after_think && o->shape != SL_SHAPE_GRAMMAR) {
        uint32_t real = sl_grammar_rule(g, "answer", 6);

        read_start(g, root, real);
        root = real;
    }
    switch (o->shape) {
    case SL_SHAPE_FREE:
        break;
    case SL_SHAPE_SCHEMA:
        read_schema(g, root, (json_t *)(uintptr_t)v);
        break;
    case SL_SHAPE_REGEX:
        sl_grammar_define(g, root,
                          sl_regex_node(g, o->shape_text, o->n_shape_text,
                                        SL_REGEX_WHOLE, SL_REGEX_RAW));
        break;
    case SL_SHAPE_CHOICE:
        read_choice(g, root, v);
        break;
    case SL_SHAPE_GRAMMAR:
        sl_gbnf_read(g, o->shape_text, o->n_shape_text);
        if (o->shape_after_think && !g->failed) {
            /* Its root stays, since its rules may call it. */
            uint32_t real = g->root;

            g->root = sl_grammar_rule(g, "start", 5);
            read_start(g, g->root, real);
        }
        break;
    case SL_SHAPE_CALLS:
        read_calls(g, root, s, v);
        break;
    }
}

static int compile(struct sl_shape **out, const struct sl_shapes *s,
                   const struct sl_gen_opts *o, struct sl_err *err)
{
    bool is_json = o->shape == SL_SHAPE_SCHEMA || o->shape == SL_SHAPE_CHOICE ||
                   o->shape == SL_SHAPE_CALLS;
    struct sl_grammar g;
    json_t *v = NULL;
    int rc = 0;

    if (is_json)
        rc = sl_json_parse(&v, o->shape_text, o->n_shape_text,
                           "the shape of the answer", err);
    if (rc)
        return rc;
    sl_grammar_init(&g);
    read_grammar(&g, s, o, v);
    rc = sl_shape_open(out, &g, s->trie, err);
    sl_grammar_deinit(&g);
    json_decref(v);
    return rc;
}

/* ------------------------------------------------------------------ keeping */

/* mu is held: what was used last stays, of the others the oldest go while all
 * are too large together. */
static void shrink(struct sl_shapes *s)
{
    for (;;) {
        struct kept *oldest = NULL;
        size_t all = 0;

        for (int i = 0; i < KEPT; i++) {
            struct kept *k = &s->kept[i];

            if (!k->shape)
                continue;
            all += sl_shape_bytes(k->shape) + k->len;
            if (k->used < s->clock && (!oldest || k->used < oldest->used))
                oldest = k;
        }
        if (all <= s->max_bytes || !oldest)
            return;
        sl_shape_close(&oldest->shape);
        sl_mem_free(oldest->text);
        *oldest = (struct kept){.text = NULL};
    }
}

void sl_shapes_limit(struct sl_shapes *s, size_t max_bytes)
{
    sl_lock(&s->mu);
    s->max_bytes = max_bytes;
    shrink(s);
    sl_unlock(&s->mu);
}

uint32_t sl_shapes_n_kept(struct sl_shapes *s)
{
    uint32_t n = 0;

    sl_lock(&s->mu);
    for (int i = 0; i < KEPT; i++)
        n += s->kept[i].shape != NULL;
    sl_unlock(&s->mu);
    return n;
}

static struct sl_shape *find(struct sl_shapes *s, const struct sl_gen_opts *o)
{
    for (int i = 0; i < KEPT; i++) {
        struct kept *k = &s->kept[i];

        if (!k->shape || k->kind != o->shape || k->len != o->n_shape_text ||
            k->after_think != o->shape_after_think ||
            memcmp(k->text, o->shape_text, k->len) != 0)
            continue;
        k->used = ++s->clock;
        shrink(s);
        return sl_shape_acquire(k->shape);
    }
    return NULL;
}

/* The oldest one makes room; it lives on in the answers that use it. */
static void keep(struct sl_shapes *s, const struct sl_gen_opts *o, char *text,
                 struct sl_shape *shape)
{
    struct kept *k = &s->kept[0], old;

    sl_lock(&s->mu);
    for (int i = 1; i < KEPT; i++)
        if (s->kept[i].used < k->used)
            k = &s->kept[i];
    old = *k;
    *k = (struct kept){.kind = o->shape,
                       .after_think = o->shape_after_think,
                       .text = text,
                       .len = o->n_shape_text,
                       .shape = sl_shape_acquire(shape),
                       .used = ++s->clock};
    shrink(s);
    sl_unlock(&s->mu);
    sl_shape_close(&old.shape);
    sl_mem_free(old.text);
}

static int get(struct sl_shape **out, struct sl_shapes *s,
               const struct sl_gen_opts *o, struct sl_err *err)
{
    char *text = NULL;
    int rc;

    if (!s)
        return sl_fail(err, SL_EUNSUP,
                       "the model has no tokenizer, so that answers cannot be "
                       "shaped");
    if (!o->shape_text || o->n_shape_text > MAX_TEXT)
        return sl_fail(err, SL_EARG,
                       "the shape of the answer has %zu bytes and %zu are "
                       "read; make it shorter",
                       o->n_shape_text, MAX_TEXT);
    sl_lock(&s->mu);
    *out = find(s, o);
    sl_unlock(&s->mu);
    if (*out)
        return 0;
    rc = sl_mem_dup(&text, o->shape_text, o->n_shape_text, err);
    if (!rc)
        rc = compile(out, s, o, err);
    if (rc)
        sl_mem_free(text);
    else
        keep(s, o, text, *out);
    return rc;
}

/* ------------------------------------------------------------- of one answer */

int sl_shaping_open(struct sl_shaping *x, struct sl_shapes *s,
                    const struct sl_gen_opts *o, struct sl_err *err)
{
    struct sl_shape *shape = NULL;
    int rc;

    *x = (struct sl_shaping){.call_id = -1, .end_id = -1};
    if (o->shape == SL_SHAPE_FREE)
        return 0;
    rc = get(&shape, s, o, err);
    if (!rc)
        rc = sl_matcher_open(&x->m, shape, err);
    sl_shape_close(&shape);
    if (rc)
        return rc;
    x->waits = o->shape_after_think;
    x->end_id = s->think_end;
    if (o->shape == SL_SHAPE_CALLS)
        x->call_id = s->call_open;
    return 0;
}

void sl_shaping_close(struct sl_shaping *x)
{
    sl_matcher_close(&x->m);
}

void sl_shaping_stop(struct sl_shaping *x)
{
    if (x->m)
        sl_matcher_stop(x->m);
}

/* Look for the end tag; behind it the shape begins, with what else the token
 * holds. */
static void wait_for(struct sl_shaping *x, struct sl_span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];

        x->n_tag = c == think_end[x->n_tag] ? (uint8_t)(x->n_tag + 1)
                   : c == think_end[0]      ? 1
                                            : 0;
        if (think_end[x->n_tag])
            continue;
        x->waits = false;
        (void)sl_matcher_push_text(x->m, text.p + i + 1, text.len - i - 1);
        return;
    }
}

int sl_shaping_put(struct sl_shaping *x, const struct sl_tokenizer *tok,
                   int32_t id, bool *whole, struct sl_err *err)
{
    bool fits = true;
    int rc;

    *whole = false;
    if (!x->m)
        return 0;
    if (x->waits && (id == x->end_id || id == x->call_id)) {
        x->waits = false; /* a call does so, too, as for the parser */
        if (id == x->end_id)
            return 0;
    }
    if (x->waits && x->end_id >= 0)
        return 0;
    if (x->waits) {
        /* What else the end tag's token holds need not fit. */
        wait_for(x, sl_tokenizer_bytes(tok, id));
        return sl_matcher_check(x->m, err);
    }
    fits = sl_matcher_push(x->m, id);
    rc = sl_matcher_check(x->m, err);
    if (rc)
        return rc;
    if (!fits)
        return sl_fail(err, SL_EFORMAT,
                       "token %" PRId32 " was drawn, which the shape of the "
                       "answer does not allow here",
                       id);
    *whole = sl_matcher_is_done(x->m);
    return 0;
}
