/* tests/fuzz/fuzz_grammar.c - grammars, patterns and schemas from outside
 *
 * Byte 0 says which: 'g' GBNF, 'r' a pattern, 'f' a pattern to find in JSON,
 * 's' a schema; the rest is its text. It is refused with a message, or it
 * compiles, and then a walk through its masks never comes to a dead end, the
 * mask says what trying says, and what is written for a schema is JSON.
 */
#include <jansson.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "sample/gbnf.h"
#include "sample/jschema.h"
#include "sample/regex.h"
#include "sample/shape.h"

#define N_VOCAB 260
#define STEPS 64

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static struct sl_trie *open_trie(void)
{
    static char byte[256];
    static const char *const more[4] = {"ab", "\": ", "[[[[[[[[", "\xc3\xa4"};
    const char *text[N_VOCAB];
    uint32_t len[N_VOCAB];
    struct sl_trie *t = NULL;

    for (int i = 0; i < N_VOCAB; i++) {
        if (i < 256)
            byte[i] = (char)i;
        text[i] = i < 256 ? &byte[i] : more[i - 256];
        len[i] = i < 256 ? 1 : (uint32_t)strlen(more[i - 256]);
    }
    SL_CHECK(!sl_trie_open(&t, text, len, N_VOCAB, NULL));
    return t;
}

static void schema(struct sl_grammar *g, const char *s, size_t n)
{
    json_t *root = json_loadb(s, n, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES,
                              NULL);
    struct sl_jschema *j = NULL;
    uint32_t r = sl_grammar_rule(g, "root", 4);

    if (!root) {
        sl_grammar_fail(g, SL_EARG, "no JSON");
        return;
    }
    SL_CHECK(!sl_jschema_open(&j, g, root, NULL));
    sl_grammar_define(g, r, sl_jschema_node(j, root, "$"));
    sl_jschema_finish(j);
    sl_jschema_close(&j);
    json_decref(root);
}

/* A small generator, so that the walk depends on the input alone. */
static uint32_t next(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u; /* Numerical Recipes */
    return *x >> 8;
}

static void walk(struct sl_shape *s, uint32_t seed, bool json)
{
    struct sl_matcher *m = NULL;
    struct sl_buf text;

    sl_buf_init(&text, 1 << 20);
    SL_CHECK(!sl_matcher_open(&m, s, NULL));
    for (int k = 0; k < STEPS && !sl_matcher_is_done(m); k++) {
        const uint64_t *bit = NULL;
        uint64_t copy[(N_VOCAB + 63) / 64];
        int32_t id = -1;
        uint32_t at = next(&seed) % N_VOCAB;

        if (sl_matcher_mask(m, &bit, NULL))
            break; /* too ambiguous */
        memcpy(copy, bit, sizeof(copy));
        for (uint32_t i = 0; i < N_VOCAB; i++) {
            uint32_t t = (at + i) % N_VOCAB;
            bool in = copy[t / 64] >> t % 64 & 1;

            SL_CHECK(in == sl_matcher_allows(m, (int32_t)t));
            if (in && id < 0)
                id = (int32_t)t;
        }
        SL_CHECK(id >= 0 || sl_matcher_can_end(m));
        if (id < 0)
            break;
        if (id < 256)
            sl_buf_byte(&text, (char)id);
        SL_CHECK(sl_matcher_push(m, id));
        if (id >= 256)
            json = false; /* its bytes are not known here */
    }
    if (sl_matcher_can_end(m) && json) {
        json_t *v = json_loadb(text.p ? text.p : "", text.len,
                               JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

        SL_CHECK(v);
        json_decref(v);
    }
    sl_matcher_close(&m);
    sl_buf_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static struct sl_trie *trie;
    const char *s = (const char *)p + 1;
    struct sl_grammar g;
    struct sl_shape *shape = NULL;
    struct sl_err err = {0};
    uint32_t r, seed = (uint32_t)n;

    if (n == 0)
        return 0;
    if (!trie)
        trie = open_trie();
    sl_grammar_init(&g);
    if (*p == 'g') {
        sl_gbnf_read(&g, s, n - 1);
    } else if (*p == 's') {
        schema(&g, s, n - 1);
    } else {
        r = sl_grammar_rule(&g, "root", 4);
        sl_grammar_define(
            &g, r,
            sl_regex_node(&g, s, n - 1,
                          *p == 'f' ? SL_REGEX_FIND : SL_REGEX_WHOLE,
                          *p == 'f' ? SL_REGEX_JSON : SL_REGEX_RAW));
    }
    if (sl_shape_open(&shape, &g, trie, &err)) {
        SL_CHECK(err.msg[0]);
        SL_CHECK(err.code == SL_EARG || err.code == SL_EUNSUP);
        SL_CHECK(sl_utf8_valid(err.msg, strlen(err.msg)) == strlen(err.msg));
    } else {
        for (uint32_t i = 0; i < 3; i++)
            walk(shape, seed + i, *p == 's');
        sl_shape_close(&shape);
    }
    sl_grammar_deinit(&g);
    return 0;
}
