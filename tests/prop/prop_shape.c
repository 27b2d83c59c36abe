/* tests/prop/prop_shape.c - random schemas, random walks, an independent judge
 *
 * For each random schema: an example that was made with it is accepted; walks
 * that take any token the mask allows, with a real vocabulary, end in JSON that
 * a small validator (below, which knows nothing of grammars) finds valid; the
 * mask agrees with trying tokens one by one; and pushing what it forbids fails.
 *
 * Usage: prop_shape [SEED [CASES]]
 */
#include <inttypes.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/num.h"
#include "sample/jschema.h"
#include "sample/shape.h"
#include "text/tokenizer_json.h"

#define CASES 250
#define WALKS 8     /* of each schema: 2,000 documents */
#define MAX_TOK 600 /* of a walk; then it is asked to come to its end */
#define SEED 1

static int n_passed, n_failed, n_doc, n_cut;
static uint64_t seed0 = SEED;

/* splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", 2014. */
static uint64_t rng;

static uint32_t below(uint32_t n)
{
    uint64_t z = rng += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

static void result(bool ok, const char *what, const json_t *schema,
                   const char *text)
{
    char *s;

    if (ok) {
        n_passed++;
        return;
    }
    n_failed++;
    s = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    printf("FAIL %s (seed %" PRIu64 ")\n  schema %s\n  text %s\n", what, seed0,
           s, text);
    free(s);
}

/* ------------------------------------------------------------ random schemas */

static const char *const names[] = {"a", "b", "ab", "name", "x y", "\xc3\xa4",
                                    "q\"q", "n\nn"};

static json_t *make(int depth, json_t **example, json_t *defs);

static json_t *make_string(json_t **example)
{
    static const struct {
        const char *pattern, *example;
    } some[] = {{"^[a-z]{2,4}$", "abc"},
                {"^\\d+-[A-F\"]*$", "12-\""},
                {"x", "axb"},
                {"^(ab|c)+$", "abc"}};
    uint32_t k = below(4);

    if (k == 0) {
        uint32_t i = below(SL_COUNTOF(some));

        *example = json_string(some[i].example);
        return json_pack("{s:s,s:s}", "type", "string", "pattern",
                         some[i].pattern);
    }
    if (k == 1) {
        *example = json_string("2024-02-28");
        return json_pack("{s:s,s:s}", "type", "string", "format", "date");
    }
    *example = json_string("\xc3\xa4\\x\"");
    return json_pack("{s:s,s:i,s:i}", "type", "string", "minLength",
                     (int)below(5), "maxLength", (int)(4 + below(20)));
}

static json_t *make_number(json_t **example, bool whole)
{
    int lo = (int)below(300) - 150, hi = lo + (int)below(1000);
    json_t *s = json_pack("{s:s}", "type", whole ? "integer" : "number");

    *example = json_integer(hi - (hi > lo));
    if (hi - lo < 3) {
        json_decref(*example);
        *example = json_integer(lo);
        json_object_set_new(s, "const", json_integer(lo));
        return s;
    }
    if (below(3))
        json_object_set_new(s, below(2) ? "minimum" : "exclusiveMinimum",
                            whole ? json_integer(lo) : json_real(lo + 0.25));
    if (below(3))
        json_object_set_new(s, below(2) ? "maximum" : "exclusiveMaximum",
                            whole ? json_integer(hi) : json_real(hi - 0.5));
    return s;
}

static json_t *make_object(int depth, json_t **example, json_t *defs)
{
    json_t *s = json_pack("{s:s}", "type", "object"), *props = json_object();
    json_t *need = json_array(), *x;
    uint32_t n = below(5);

    *example = json_object();
    for (uint32_t i = 0; i < n; i++) {
        const char *name = names[below(SL_COUNTOF(names))];
        json_t *p;

        if (json_object_get(props, name))
            continue;
        p = make(depth - 1, &x, defs);
        json_object_set_new(props, name, p);
        if (below(2))
            json_array_append_new(need, json_string(name));
        else if (below(2)) {
            json_decref(x);
            continue;
        }
        json_object_set_new(*example, name, x);
    }
    json_object_set_new(s, "properties", props);
    json_object_set_new(s, "required", need);
    if (below(2)) {
        json_object_set_new(s, "additionalProperties", json_false());
    } else if (below(2)) {
        json_object_set_new(s, "additionalProperties",
                            make_number(&x, true));
        json_object_set_new(*example, "other", x);
    }
    return s;
}

static json_t *make_array(int depth, json_t **example, json_t *defs)
{
    json_t *s = json_pack("{s:s}", "type", "array"), *x;
    int lo = (int)below(3), hi = lo + (int)below(3);

    *example = json_array();
    if (below(4) == 0) {
        json_t *list = json_array();

        for (int i = 0; i < 2; i++) {
            json_array_append_new(list, make(depth - 1, &x, defs));
            json_array_append_new(*example, x);
        }
        json_object_set_new(s, "prefixItems", list);
        json_object_set_new(s, "items", json_false());
        json_object_set_new(s, "minItems", json_integer(lo));
        return s;
    }
    json_object_set_new(s, "items", make(depth - 1, &x, defs));
    for (int i = 0; i < lo; i++)
        json_array_append(*example, x);
    json_decref(x);
    json_object_set_new(s, "minItems", json_integer(lo));
    json_object_set_new(s, "maxItems", json_integer(hi));
    return s;
}

/* An object with a member that tells what it is; x is given. */
static json_t *tagged(const char *tag, json_t *x)
{
    return json_pack("{s:s,s:{s:{s:s},s:o},s:[s,s]}", "type", "object",
                     "properties", "is", "const", tag, "x", x, "required", "is",
                     "x");
}

static json_t *make_choice(int depth, json_t **example, json_t *defs)
{
    json_t *x = NULL, *list;

    switch (below(4)) {
    case 0:
        list = json_pack("[s,i,n,f,{s:[b]}]", "r\xc3\xa4", 7, 0.25, "k", 1);
        *example = json_incref(json_array_get(list, below(5)));
        return json_pack("{s:o}", "enum", list);
    case 1:
        list = json_array();
        json_array_append_new(list, make(depth - 1, example, defs));
        json_array_append_new(list, make(depth - 1, &x, defs));
        json_decref(x);
        if (below(2))
            return json_pack("{s:o}", "anyOf", list);
        json_array_set_new(list, 0, tagged("a", json_incref(
                                                    json_array_get(list, 0))));
        json_array_set_new(list, 1, tagged("b", json_incref(
                                                    json_array_get(list, 1))));
        *example = json_pack("{s:s,s:o}", "is", "a", "x", *example);
        return json_pack("{s:o}", "oneOf", list);
    case 2:
        *example = json_pack("{s:{}}", "next");
        return json_pack("{s:s}", "$ref", "#/$defs/node");
    default:
        *example = json_null();
        return json_pack("{s:[s,s],s:i}", "type", "string", "null", "maxLength",
                         9);
    }
}

static json_t *make(int depth, json_t **example, json_t *defs)
{
    switch (below(depth > 0 ? 8 : 4)) {
    case 0:
        return make_string(example);
    case 1:
        return make_number(example, true);
    case 2:
        return make_number(example, false);
    case 3:
        *example = json_true();
        return json_pack("{s:s}", "type", "boolean");
    case 4:
    case 5:
        return make_object(depth, example, defs);
    case 6:
        return make_array(depth, example, defs);
    default:
        return make_choice(depth, example, defs);
    }
}

/* ------------------------------------------------------------- the validator */

static size_t n_chars(const char *s)
{
    size_t n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static bool is_type(const char *type, const json_t *v)
{
    return (!strcmp(type, "string") && json_is_string(v)) ||
           (!strcmp(type, "integer") && json_is_integer(v)) ||
           (!strcmp(type, "number") && json_is_number(v)) ||
           (!strcmp(type, "boolean") && json_is_boolean(v)) ||
           (!strcmp(type, "null") && json_is_null(v)) ||
           (!strcmp(type, "array") && json_is_array(v)) ||
           (!strcmp(type, "object") && json_is_object(v));
}

/* The patterns of make_string, by hand. */
static bool fits_pattern(const char *p, const char *s)
{
    size_t n = strlen(s), i;

    if (!strcmp(p, "x"))
        return strchr(s, 'x') != NULL;
    if (p[1] == '[')
        return n >= 2 && n <= 4 && strspn(s, "abcdefghijklmnopqrstuvwxyz") == n;
    if (p[1] == '\\') {
        i = strspn(s, "0123456789");
        return i > 0 && s[i] == '-' &&
               strspn(s + i + 1, "ABCDEF\"") == n - i - 1;
    }
    for (i = 0; i < n;)
        if (s[i] == 'c')
            i++;
        else if (s[i] == 'a' && s[i + 1] == 'b')
            i += 2;
        else
            return false;
    return n > 0;
}

static bool fits_date(const char *s)
{
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int m = 0, d = 0;

    if (strlen(s) != 10 || s[4] != '-' || s[7] != '-')
        return false;
    for (int i = 0; i < 10; i++)
        if (i != 4 && i != 7 && (s[i] < '0' || s[i] > '9'))
            return false;
    m = (s[5] - '0') * 10 + s[6] - '0';
    d = (s[8] - '0') * 10 + s[9] - '0';
    return m >= 1 && m <= 12 && d >= 1 && d <= days[m - 1];
}

static bool valid(const json_t *s, const json_t *v, const json_t *root);

static bool valid_object(const json_t *s, const json_t *v, const json_t *root)
{
    json_t *props = json_object_get(s, "properties"), *x;
    json_t *need = json_object_get(s, "required");
    json_t *more = json_object_get(s, "additionalProperties");
    const char *key;

    for (size_t i = 0; i < json_array_size(need); i++)
        if (!json_object_get(v, json_string_value(json_array_get(need, i))))
            return false;
    json_object_foreach((json_t *)(uintptr_t)v, key, x)
    {
        json_t *p = json_object_get(props, key);

        if (!valid(p ? p : more ? more : json_true(), x, root))
            return false;
    }
    return true;
}

static bool valid_array(const json_t *s, const json_t *v, const json_t *root)
{
    json_t *prefix = json_object_get(s, "prefixItems");
    json_t *item = json_object_get(s, "items");
    json_t *lo = json_object_get(s, "minItems");
    json_t *hi = json_object_get(s, "maxItems");
    size_t n = json_array_size(v);

    if ((lo && n < (size_t)json_integer_value(lo)) ||
        (hi && n > (size_t)json_integer_value(hi)))
        return false;
    for (size_t i = 0; i < n; i++) {
        json_t *p = i < json_array_size(prefix) ? json_array_get(prefix, i)
                                                : item;

        if (p && !valid(p, json_array_get(v, i), root))
            return false;
    }
    return true;
}

static bool valid_scalar(const json_t *s, const json_t *v)
{
    const json_t *k;
    double x = json_number_value(v);

    if (json_is_string(v)) {
        const char *t = json_string_value(v);

        k = json_object_get(s, "minLength");
        if (k && n_chars(t) < (size_t)json_integer_value(k))
            return false;
        k = json_object_get(s, "maxLength");
        if (k && n_chars(t) > (size_t)json_integer_value(k))
            return false;
        k = json_object_get(s, "pattern");
        if (k && !fits_pattern(json_string_value(k), t))
            return false;
        return !json_object_get(s, "format") || fits_date(t);
    }
    if (!json_is_number(v))
        return true;
    k = json_object_get(s, "minimum");
    if (k && x < json_number_value(k))
        return false;
    k = json_object_get(s, "maximum");
    if (k && x > json_number_value(k))
        return false;
    k = json_object_get(s, "exclusiveMinimum");
    if (k && x <= json_number_value(k))
        return false;
    k = json_object_get(s, "exclusiveMaximum");
    return !(k && x >= json_number_value(k));
}

/* Depth is that of the text, which the grammar limits. */
static bool valid(const json_t *s, const json_t *v, const json_t *root)
{
    json_t *k, *list;
    bool ok = false;
    int n = 0;

    if (json_is_boolean(s))
        return json_is_true(s);
    k = json_object_get(s, "$ref");
    if (k)
        return valid(json_object_get(json_object_get(root, "$defs"), "node"), v,
                     root);
    list = json_object_get(s, "anyOf");
    for (size_t i = 0; i < json_array_size(list); i++)
        ok |= valid(json_array_get(list, i), v, root);
    if (list)
        return ok;
    list = json_object_get(s, "oneOf");
    for (size_t i = 0; i < json_array_size(list); i++)
        n += valid(json_array_get(list, i), v, root);
    if (list)
        return n == 1;
    list = json_object_get(s, "enum");
    for (size_t i = 0; i < json_array_size(list); i++)
        ok |= json_equal(json_array_get(list, i), v) != 0;
    if (list)
        return ok;
    k = json_object_get(s, "const");
    if (k && !json_equal(k, v))
        return false;
    k = json_object_get(s, "type");
    if (json_is_string(k) && !is_type(json_string_value(k), v))
        return false;
    for (size_t i = 0; i < json_array_size(k); i++)
        ok |= is_type(json_string_value(json_array_get(k, i)), v);
    if (json_is_array(k) && !ok)
        return false;
    if (json_is_object(v))
        return valid_object(s, v, root);
    if (json_is_array(v))
        return valid_array(s, v, root);
    return valid_scalar(s, v);
}

/* -------------------------------------------------------------------- walks */

static const struct sl_trie *trie;

/* The k-th id that is set, or -1. */
static int32_t nth(const uint64_t *bit, uint32_t n_vocab, uint32_t k)
{
    for (uint32_t id = 0; id < n_vocab; id++)
        if ((bit[id / 64] >> id % 64 & 1) && k-- == 0)
            return (int32_t)id;
    return -1;
}

static uint32_t n_set(const uint64_t *bit, uint32_t n_vocab)
{
    uint32_t n = 0;

    for (size_t w = 0; w < sl_mask_words(n_vocab); w++)
        n += (uint32_t)__builtin_popcountll(bit[w]);
    return n;
}

/* A token that the mask allows: any, or late in a walk one with a quote or a
 * bracket that closes, if one of some tries has it. */
static int32_t choose(const uint64_t *bit, uint32_t n_vocab, bool hurry)
{
    uint32_t n = n_set(bit, n_vocab);
    int32_t id = -1;

    for (int t = 0; n && t < (hurry ? 40 : 1); t++) {
        id = nth(bit, n_vocab, below(n));
        if (memchr(trie->text[id], '"', trie->len[id]) ||
            memchr(trie->text[id], '}', trie->len[id]) ||
            memchr(trie->text[id], ']', trie->len[id]))
            break;
    }
    return id;
}

/* The mask against trying: on some tokens that it allows and some others. */
static bool agrees(struct sl_matcher *m, const uint64_t *mask)
{
    size_t words = sl_mask_words(trie->n_vocab);
    uint64_t *bit = NULL;
    bool ok = true;

    if (sl_mem_alloc(&bit, words, sizeof(*bit), "a mask", NULL))
        return false;
    memcpy(bit, mask, words * sizeof(*bit));
    for (int i = 0; i < 100; i++) {
        uint32_t id = below(trie->n_vocab);

        ok &= (bit[id / 64] >> id % 64 & 1) ==
              sl_matcher_allows(m, (int32_t)id);
    }
    sl_mem_free(bit);
    return ok;
}

static void walk(struct sl_shape *s, const json_t *schema)
{
    struct sl_matcher *m = NULL;
    const uint64_t *bit = NULL;
    struct sl_buf text;
    json_t *v;

    sl_buf_init(&text, SIZE_MAX / 4);
    if (sl_matcher_open(&m, s, NULL))
        return;
    for (int k = 0; k < 2 * MAX_TOK; k++) {
        int32_t id;

        if (sl_matcher_is_done(m) ||
            (sl_matcher_can_end(m) && (k > MAX_TOK || below(4) == 0)))
            break;
        if (sl_matcher_mask(m, &bit, NULL)) {
            result(false, "there is a mask", schema, text.p);
            break;
        }
        id = choose(bit, trie->n_vocab, k > MAX_TOK || below(3) == 0);
        if (id < 0) {
            result(false, "no dead end", schema, text.p);
            break;
        }
        if (k % 16 == 0)
            result(agrees(m, bit), "mask and trying agree", schema, text.p);
        sl_buf_add(&text, trie->text[id], trie->len[id]);
        if (!sl_matcher_push(m, id))
            result(false, "what the mask allows can be pushed", schema, text.p);
    }
    n_doc++;
    if (!sl_matcher_can_end(m)) {
        n_cut++;
    } else {
        json_error_t e;

        v = json_loadb(text.p, text.len, JSON_DECODE_ANY, &e);
        result(v && valid(schema, v, schema), v ? "valid" : e.text, schema,
               text.p);
        json_decref(v);
    }
    sl_matcher_close(&m);
    sl_buf_deinit(&text);
}

static void example_fits(struct sl_shape *s, const json_t *schema,
                         const json_t *example)
{
    char *t = json_dumps(example, JSON_COMPACT | JSON_ENCODE_ANY);
    struct sl_matcher *m = NULL;

    if (!valid(schema, example, schema)) {
        /* What was put together does not fit (limits that cross, say). */
    } else if (!sl_matcher_open(&m, s, NULL)) {
        result(sl_matcher_push_text(m, t, strlen(t)) && sl_matcher_can_end(m),
               "the example is accepted", schema, t);
        sl_matcher_close(&m);
    }
    free(t);
}

static void one_case(void)
{
    json_t *defs = json_pack("{s:{s:s,s:{s:{s:s}},s:b}}", "node", "type",
                             "object", "properties", "next", "$ref",
                             "#/$defs/node", "additionalProperties", 0);
    json_t *example = NULL, *schema = make(3, &example, defs);
    struct sl_jschema *j = NULL;
    struct sl_shape *s = NULL;
    struct sl_grammar g;
    struct sl_err err = {0};
    uint32_t r;

    json_object_set_new(schema, "$defs", defs);
    sl_grammar_init(&g);
    r = sl_grammar_rule(&g, "root", 4);
    if (!sl_jschema_open(&j, &g, schema, &err)) {
        sl_grammar_define(&g, r, sl_jschema_node(j, schema, "$"));
        sl_jschema_finish(j);
        sl_jschema_close(&j);
    }
    if (sl_shape_open(&s, &g, trie, &err)) {
        result(strstr(err.msg, "finite") != NULL, err.msg, schema, "");
    } else {
        example_fits(s, schema, example);
        for (int i = 0; i < WALKS; i++)
            walk(s, schema);
        sl_shape_close(&s);
    }
    sl_grammar_deinit(&g);
    json_decref(schema);
    json_decref(example);
}

static struct sl_trie *open_trie(const struct sl_tokenizer *tok)
{
    size_t n = sl_tokenizer_n_ids(tok);
    const char **text = NULL;
    uint32_t *len = NULL;
    struct sl_trie *t = NULL;

    if (sl_mem_alloc(&text, n, sizeof(*text), "tokens", NULL) ||
        sl_mem_alloc(&len, n, sizeof(*len), "tokens", NULL))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        struct sl_span s = sl_tokenizer_bytes(tok, (int32_t)i);

        if (sl_tokenizer_is_added(tok, (int32_t)i))
            continue;
        text[i] = s.p;
        len[i] = (uint32_t)s.len;
    }
    (void)sl_trie_open(&t, text, len, (uint32_t)n, NULL);
    sl_mem_free(text);
    sl_mem_free(len);
    return t;
}

int main(int argc, char **argv)
{
    int64_t v, n_case = CASES;
    struct sl_tokenizer *tok = NULL;
    struct sl_trie *t = NULL;
    struct sl_err err = {0};

    if (argc > 1 &&
        !sl_num_i64(&v, argv[1], strlen(argv[1]), 0, INT64_MAX, "SEED", NULL))
        seed0 = (uint64_t)v;
    if (argc > 2)
        (void)sl_num_i64(&n_case, argv[2], strlen(argv[2]), 1, INT64_MAX,
                         "CASES", NULL);
    printf("seed %" PRIu64 "\n", seed0);
    if (sl_tokenizer_load(&tok, "models/demo", &err)) {
        printf("%s\n", err.msg);
        return 1;
    }
    t = open_trie(tok);
    trie = t;
    for (int64_t i = 0; t && i < n_case; i++) {
        rng = seed0 * 1000003 + (uint64_t)i;
        one_case();
    }
    result(n_doc > 0 && n_cut * 20 <= n_doc, "19 of 20 come to an end", NULL,
           "");
    sl_trie_close(&t);
    sl_tokenizer_close(&tok);
    printf("%d documents, %d of them cut\n", n_doc, n_cut);
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
