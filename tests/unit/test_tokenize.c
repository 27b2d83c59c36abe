/* tests/unit/test_tokenize.c - text to token ids, against the reference
 *
 * Two small vocabularies with vectors from the reference library: tests/golden/
 * tokenizer has the form of the released files, tokenizer-small what released
 * files do not have, and characters newer than many Unicode libraries. Run from
 * the root of the repository.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "text/nfc.h"
#include "text/pretoken.h"
#include "text/tokenizer_json.h"
#include "text/unidata.h"

#define DIR "tests/golden/tokenizer-small"
#define GOLDEN "tests/golden/tokenizer"

static struct sl_tokenizer *tok;
static struct sl_encoder *enc;
static struct sl_ids ids;

static int set_up(void **state)
{
    struct sl_err err;
    int rc = sl_tokenizer_load(&tok, DIR, &err);

    (void)state;
    if (!rc)
        rc = sl_encoder_open(&enc, tok, &err);
    if (rc)
        print_error("%s\n", err.msg);
    sl_ids_init(&ids, SIZE_MAX);
    return rc;
}

static int tear_down(void **state)
{
    (void)state;
    sl_ids_deinit(&ids);
    sl_encoder_close(&enc);
    sl_tokenizer_close(&tok);
    return 0;
}

/* ids = the tokens of s. */
static void encode(const char *s, size_t len, bool special)
{
    struct sl_err err = {.msg = ""};
    int rc;

    ids.len = 0;
    rc = sl_tokenize_encode(enc, s, len, special, &ids, &err);
    if (rc)
        fail_msg("%s", err.msg);
}

static unsigned nibble(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* One line of vectors.tsv: hexadecimal text, a tab, ids. */
static void check_line(const char *line, size_t len)
{
    const char *tab = memchr(line, '\t', len), *p = tab + 1;
    char text[1024];
    size_t n = 0, k = 0;

    assert_non_null(tab);
    for (const char *h = line; h < tab; h += 2)
        text[n++] = (char)(nibble(h[0]) << 4 | nibble(h[1]));
    encode(text, n, true);
    while (p < line + len) {
        const char *end = memchr(p, ' ', (size_t)(line + len - p));
        int64_t want;

        if (!end)
            end = line + len;
        assert_int_equal(
            sl_num_i64(&want, p, (size_t)(end - p), 0, 1 << 20, "id", NULL), 0);
        if (k >= ids.len || ids.p[k] != want)
            fail_msg("id %zu of '%.*s' differs", k, (int)n, text);
        k++;
        p = end + 1;
    }
    assert_int_equal(k, ids.len);
}

/* Every string twice: the second time words come out of the encoder's table. */
static void equals_reference(void **state)
{
    char *s, *p;
    size_t len, lines = 0;

    (void)state;
    assert_int_equal(sl_file_read(&s, &len, DIR "/vectors.tsv", 1 << 24, NULL),
                     0);
    for (int round = 0; round < 2; round++) {
        for (p = s; p < s + len; lines++) {
            char *eol = memchr(p, '\n', (size_t)(s + len - p));

            assert_non_null(eol);
            check_line(p, (size_t)(eol - p));
            p = eol + 1;
        }
    }
    assert_true(lines >= 2 * 700);
    sl_file_free(s);
}

/* ---- tests/golden/tokenizer: the form of the released files ---- */

static void check_case(struct sl_encoder *e, const char *line, size_t len)
{
    json_t *c = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
    const json_t *s = json_object_get(c, "s"),
                 *want = json_object_get(c, "ids");
    struct sl_ids got;
    bool ok;

    assert_true(json_is_string(s) && json_is_array(want));
    sl_ids_init(&got, SIZE_MAX);
    assert_int_equal(sl_tokenize_encode(e, json_string_value(s),
                                        json_string_length(s), true, &got,
                                        NULL),
                     0);
    ok = got.len == json_array_size(want);
    for (size_t i = 0; i < got.len && ok; i++)
        ok = got.p[i] == json_integer_value(json_array_get(want, i));
    if (!ok)
        fail_msg("the ids of %.*s differ", (int)len, line);
    sl_ids_deinit(&got);
    json_decref(c);
}

static void equals_golden_cases(void **state)
{
    struct sl_tokenizer *t = NULL;
    struct sl_encoder *e = NULL;
    char *s;
    size_t len, n = 0;

    (void)state;
    assert_int_equal(sl_tokenizer_load(&t, GOLDEN, NULL), 0);
    assert_int_equal(sl_encoder_open(&e, t, NULL), 0);
    assert_int_equal(
        sl_file_read(&s, &len, GOLDEN "/cases.jsonl", 1 << 24, NULL), 0);
    for (char *p = s; p < s + len; n++) {
        char *eol = memchr(p, '\n', (size_t)(s + len - p));

        assert_non_null(eol);
        check_case(e, p, (size_t)(eol - p));
        p = eol + 1;
    }
    assert_true(n >= 5000);
    sl_file_free(s);
    sl_encoder_close(&e);
    sl_tokenizer_close(&t);
}

/* ---- threads ---- */

struct shared {
    const struct sl_tokenizer *t;
    size_t n; /* ids of all texts together; 0 after a failure */
};

/* An encoder of its own, texts that others encode at the same time. */
static void *encode_much(void *arg)
{
    struct shared *w = arg;
    struct sl_encoder *e = NULL;
    struct sl_ids out;
    char text[64];

    if (sl_encoder_open(&e, w->t, NULL))
        return NULL;
    sl_ids_init(&out, SIZE_MAX);
    for (int i = 0; i < 500; i++) {
        int n =
            snprintf(text, sizeof(text), "the water %d e\xcc\x81 <think>", i);

        if (sl_tokenize_encode(e, text, (size_t)n, true, &out, NULL))
            out.len = 0;
    }
    w->n = out.len;
    sl_ids_deinit(&out);
    sl_encoder_close(&e);
    return NULL;
}

static void threads_share_a_tokenizer(void **state)
{
    struct sl_thread th[4];
    struct shared w[4];

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(th); i++) {
        w[i] = (struct shared){.t = tok};
        assert_int_equal(
            sl_thread_start(&th[i], encode_much, &w[i], "a test", NULL), 0);
    }
    for (size_t i = 0; i < SL_COUNTOF(th); i++)
        sl_thread_join(&th[i]);
    for (size_t i = 0; i < SL_COUNTOF(th); i++)
        assert_true(w[i].n > 0 && w[i].n == w[0].n);
}

static void looks_up(void **state)
{
    struct sl_span b;
    struct sl_buf text;
    int32_t id, eos, pad;

    (void)state;
    assert_true(sl_tokenizer_find(tok, "<|im_end|>", 10, &id));
    assert_true(sl_tokenizer_eos(tok, &eos));
    assert_int_equal(id, eos);
    assert_true(sl_tokenizer_is_special(tok, id));
    assert_true(sl_tokenizer_is_added(tok, id));
    assert_true(sl_tokenizer_pad(tok, &pad));
    assert_false(sl_tokenizer_bos(tok, &pad));
    assert_true(sl_tokenizer_find(tok, "<think>", 7, &id));
    assert_false(sl_tokenizer_is_special(tok, id));
    assert_true(sl_tokenizer_is_added(tok, id));
    assert_false(sl_tokenizer_find(tok, "no such token", 13, &id));
    /* U+0120 stands for a space, U+010A for a line feed. */
    assert_true(sl_tokenizer_find(tok, "\xc4\xa0the", 5, &id));
    b = sl_tokenizer_bytes(tok, id);
    assert_int_equal(b.len, 4);
    assert_memory_equal(b.p, " the", 4);
    sl_buf_init(&text, 100);
    sl_tokenizer_text(tok, id, &text);
    assert_string_equal(text.p, "\xc4\xa0the");
    sl_buf_deinit(&text);
    assert_int_equal(sl_tokenizer_n_ids(tok), 1209);
    assert_false(sl_tokenizer_has(tok, 1209));
    assert_false(sl_tokenizer_has(tok, -1));
    assert_null(sl_tokenizer_bytes(tok, 1209).p);
}

/* Every byte has a token, and its text finds it. */
static void knows_every_byte(void **state)
{
    bool seen[256] = {false};
    size_t n = 0;

    (void)state;
    for (int32_t id = 0; sl_tokenizer_has(tok, id); id++) {
        struct sl_span b = sl_tokenizer_bytes(tok, id);
        struct sl_buf text;
        int32_t back = -1;

        sl_buf_init(&text, 1000);
        sl_tokenizer_text(tok, id, &text);
        assert_true(sl_tokenizer_find(tok, text.p, text.len, &back));
        assert_int_equal(back, id);
        sl_buf_deinit(&text);
        if (b.len == 1 && !seen[(unsigned char)b.p[0]]) {
            seen[(unsigned char)b.p[0]] = true;
            n++;
        }
    }
    assert_int_equal(n, 256);
}

static void plain_text_forges_nothing(void **state)
{
    static const char s[] = "a<|im_end|>b<think>";

    (void)state;
    encode(s, sizeof(s) - 1, true);
    assert_int_equal(ids.len, 4);
    encode(s, sizeof(s) - 1, false);
    assert_true(ids.len > 4);
    for (size_t i = 0; i < ids.len; i++)
        assert_false(sl_tokenizer_is_added(tok, ids.p[i]));
}

static void refuses_bad_text(void **state)
{
    struct sl_err err;

    (void)state;
    ids.len = 0;
    assert_int_equal(sl_tokenize_encode(enc,
                                        "abc\xff"
                                        "d",
                                        5, true, &ids, &err),
                     SL_EFORMAT);
    assert_non_null(strstr(err.msg, "offset 3"));
    assert_int_equal(
        sl_tokenize_encode(enc, "\xed\xa0\x80", 3, true, &ids, &err),
        SL_EFORMAT);
    assert_int_equal(ids.len, 0);
}

static void obeys_the_ceiling(void **state)
{
    struct sl_ids few;
    struct sl_err err;

    (void)state;
    sl_ids_init(&few, 3);
    assert_int_equal(sl_tokenize_encode(enc, "123", 3, true, &few, &err), 0);
    assert_int_equal(few.len, 3);
    assert_int_equal(sl_tokenize_encode(enc, "4", 1, true, &few, &err),
                     SL_EARG);
    assert_int_equal(few.len, 3);
    sl_ids_deinit(&few);
}

/* ---- speed does not depend on the text ---- */

/* A megabyte of one thing in a second at most: thirty times what it takes, and
 * a thousandth of what the naive ways take. */
static void is_linear(void **state)
{
    static const char *const unit[] = {
        "a",
        " ",
        " \n",
        "\n                ",
        "\xcc\x81\xcc\xa3",
        "'",
        "<|im_end",
        "!?",
        "7",
        "\xe1\x84\x80\xe1\x85\xa1",
        "\xcc\xb4\xcd\x85\xe3\x82\x99",
        "x ",
        "\xf0\x9f\x91\x8d\xe2\x80\x8d",
        "\xc2\xa0",
    };
    size_t len = SL_DEBUG ? 50000 : 1000000;
    char *s;

    (void)state;
    assert_int_equal(sl_mem_alloc(&s, len + 100, 1, "text", NULL), 0);
    for (size_t i = 0; i < SL_COUNTOF(unit); i++) {
        size_t n = strlen(unit[i]), at = 0;
        clock_t t0 = clock(); /* of this process: others may be busy */

        for (; at + n <= len; at += n)
            memcpy(s + at, unit[i], n);
        encode(s, at, true);
        if (!(clock() - t0 < 10 * CLOCKS_PER_SEC))
            fail_msg("a megabyte of '%s' takes too long", unit[i]);
    }
    sl_mem_free(s);
}

/* ---- the hand-written pattern is PCRE2's ---- */

static uint64_t rnd_state;

static uint32_t rnd(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 33) % n);
}

/* A character that all versions of Unicode agree about. */
static uint32_t agreed(void)
{
    static const uint32_t all[] = {
        ' ',     ' ',    ' ',    '\n',   '\r',     '\t',   0x0b,    0x85,
        0xa0,    0x1680, 0x2003, 0x2028, 0x3000,   0x180e, 0x200b,  '\'',
        '\'',    's',    'S',    0x17f,  't',      'r',    'e',     'V',
        'l',     'L',    'M',    'd',    'a',      0xe9,   0x3b1,   0x4e2d,
        0xac00,  0x301,  0x323,  0x93e,  0xe31,    0xfe0f, '1',     0x661,
        0xbd,    0x2167, '!',    '.',    '$',      0x20ac, 0x1f600, 0x200d,
        0x1f44d, 0x00,   0x7f,   0xffff, 0x10ffff,
    };

    return all[rnd(SL_COUNTOF(all))];
}

static void compare_walks(struct sl_pretoken_walk *a,
                          struct sl_pretoken_walk *b, const char *s, size_t len)
{
    size_t at = 0;

    sl_pretoken_walk_reset(a);
    sl_pretoken_walk_reset(b);
    while (at < len) {
        size_t x = 0, y = 0;

        assert_int_equal(sl_pretoken_next(a, s, len, at, &x, NULL), 0);
        assert_int_equal(sl_pretoken_next(b, s, len, at, &y, NULL), 0);
        if (x != y || x <= at)
            fail_msg("at %zu of '%.*s': %zu by hand, %zu by PCRE2", at,
                     (int)len, s, x, y);
        at = x;
    }
}

static void hand_is_pcre2(void **state)
{
    static const char *const pattern[] = {sl_pretoken_qwen2,
                                          sl_pretoken_qwen35};
    uint8_t *bits;

    (void)state;
    assert_int_equal(sl_mem_alloc(&bits, SL_UNI_MAX, 1, "bits", NULL), 0);
    sl_unidata_fill(bits);
    for (size_t p = 0; p < SL_COUNTOF(pattern); p++) {
        size_t len = strlen(pattern[p]);
        struct sl_pretoken hand, pcre;
        struct sl_pretoken_walk a, b;

        assert_int_equal(
            sl_pretoken_init(&hand, pattern[p], len, bits, false, NULL), 0);
        assert_int_equal(
            sl_pretoken_init(&pcre, pattern[p], len, bits, true, NULL), 0);
        assert_null(hand.program);
        assert_non_null(pcre.program);
        assert_int_equal(sl_pretoken_walk_init(&a, &hand, NULL), 0);
        assert_int_equal(sl_pretoken_walk_init(&b, &pcre, NULL), 0);
        for (unsigned i = 0; i < 20000; i++) {
            char s[4 * 16];
            size_t n = 0;

            rnd_state = i;
            for (uint32_t k = rnd(16); k > 0; k--)
                n += sl_utf8_put(s + n, agreed());
            compare_walks(&a, &b, s, n);
        }
        sl_pretoken_walk_deinit(&a);
        sl_pretoken_walk_deinit(&b);
        sl_pretoken_deinit(&hand);
        sl_pretoken_deinit(&pcre);
    }
    sl_mem_free(bits);
}

static void refuses_patterns(void **state)
{
    static const char *const bad[] = {"", "(", "a*", "[^\\S]", "\\C", "a|"};
    struct sl_pretoken p;
    struct sl_err err;

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(bad); i++) {
        err.msg[0] = 0;
        assert_int_equal(
            sl_pretoken_init(&p, bad[i], strlen(bad[i]), NULL, false, &err),
            SL_EUNSUP);
        assert_non_null(strstr(err.msg, "pattern"));
    }
}

/* ---- tokenizer.json ---- */

/* The small tokenizer with one part replaced; returns the code. */
static int parse_with(const char *from, const char *to, struct sl_err *err)
{
    struct sl_tokenizer *t = NULL;
    struct sl_buf b;
    char *s, *at;
    size_t len;
    int rc;

    assert_int_equal(
        sl_file_read(&s, &len, DIR "/tokenizer.json", 1 << 24, NULL), 0);
    at = strstr(s, from);
    if (!at)
        fail_msg("'%s' is not in the file", from);
    sl_buf_init(&b, 1 << 24);
    sl_buf_add(&b, s, (size_t)(at - s));
    sl_buf_str(&b, to);
    sl_buf_str(&b, at + strlen(from));
    err->msg[0] = 0;
    rc = sl_tokenizer_parse(&t, b.p, b.len, NULL, 0, err);
    sl_tokenizer_close(&t);
    sl_buf_deinit(&b);
    sl_file_free(s);
    return rc;
}

static void refuses_what_it_cannot_do(void **state)
{
    static const struct {
        const char *from, *to, *says;
        int rc;
    } c[] = {
        {"\"NFC\"", "\"NFKC\"", "NFKC", SL_EUNSUP},
        {"\"Isolated\"", "\"Removed\"", "Removed", SL_EUNSUP},
        {"\"invert\": false", "\"invert\": true", "invert", SL_EUNSUP},
        {"\"use_regex\": false", "\"use_regex\": true", "use_regex", SL_EUNSUP},
        {"\"add_prefix_space\": false", "\"add_prefix_space\": true",
         "add_prefix_space", SL_EUNSUP},
        {"\"Sequence\"", "\"Whitespace\"", "Whitespace", SL_EUNSUP},
        {"\"BPE\"", "\"Unigram\"", "Unigram", SL_EUNSUP},
        {"\"byte_fallback\": false", "\"byte_fallback\": true", "byte_fallback",
         SL_EUNSUP},
        {"\"ignore_merges\": false", "\"ignore_merges\": true", "ignore_merges",
         SL_EUNSUP},
        {"\"dropout\": null", "\"dropout\": 0.1", "dropout", SL_EUNSUP},
        {"\"lstrip\": false", "\"lstrip\": true", "lstrip", SL_EUNSUP},
        {"\"single_word\": false", "\"single_word\": true", "single_word",
         SL_EUNSUP},
        {"\"post_processor\": null",
         "\"post_processor\": {\"type\": \"TemplateProcessing\"}",
         "TemplateProcessing", SL_EUNSUP},
        {"\"id\": 1200", "\"id\": 12", "12", SL_EFORMAT},
        {"\"id\": 1200", "\"id\": 99999999", "99999999", SL_EFORMAT},
        {"\"a\": 64", "\"a\": 65", "65", SL_EFORMAT},
        {"\"~\": 93", "\"q~q\": 93", "0x7e", SL_EUNSUP},
        {"\"merges\": [", "\"merges\": [ \"x\", ", "merge 0", SL_EFORMAT},
        {"\"merges\": [", "\"merges\": [ [\"zz\", \"q\"], ", "no token",
         SL_EFORMAT},
        {"\"merges\": [", "\"merges\": [ [\"~\", \"~\"], ", "no token",
         SL_EFORMAT},
        {"\"merges\": [", "\"merges\": [ [\"a\"], ", "second token",
         SL_EFORMAT},
        {"\"merges\": [", "\"merges\": [ 7, ", "a merge", SL_EFORMAT},
        {"\"merges\": [", "\"merges\": [ \"a\\ud800 b\", ", "escape",
         SL_EFORMAT},
        {"\"merges\": [", "\"merges\": [ \"a\\u0000 b\", ", "escape",
         SL_EFORMAT},
        {"\"merges\": [", "\"merges\": [ , ", "a merge", SL_EFORMAT},
        {"\"a\": 64", "\"a\" 64", "a colon", SL_EFORMAT},
        {"\"a\": 64", "\"a\": -64", "an id", SL_EFORMAT},
        {"\"a\": 64", "\"a\": 64.5", "a comma", SL_EFORMAT},
        {"\"a\": 64", "\"a\": 6400000000", "nine digits", SL_EFORMAT},
        {"\"a\": 64", "\"a\": 64, \"a\": 2000", "same text", SL_EFORMAT},
        {"\"vocab\"", "\"vocab\": 3, \"vocab_\"", "model.vocab", SL_EFORMAT},
        {"\"vocab\"", "\"vocab_\"", "model.vocab", SL_EFORMAT},
        {"\"merges\"", "\"merges_\"", "model.merges", SL_EFORMAT},
        {"\"model\"", "\"model_\"", "model", SL_EFORMAT},
        {"{", "[", "JSON", SL_EFORMAT},
    };
    struct sl_err err;

    (void)state;
    assert_int_equal(parse_with("{", "{", &err), 0);
    for (size_t i = 0; i < SL_COUNTOF(c); i++) {
        int rc = parse_with(c[i].from, c[i].to, &err);

        if (rc != c[i].rc || !strstr(err.msg, c[i].says))
            fail_msg("%s: %d, '%s'", c[i].to, rc, err.msg);
    }
}

/* Old files write a merge as one string. */
static void reads_old_merges(void **state)
{
    struct sl_err err;

    (void)state;
    assert_int_equal(parse_with("\"merges\": [",
                                "\"merges\": [ \"#version: 0.2\", \"t h\", ",
                                &err),
                     0);
}

static void needs_its_file(void **state)
{
    struct sl_tokenizer *t = NULL;
    struct sl_err err;

    (void)state;
    assert_int_equal(sl_tokenizer_load(&t, "tests/golden", &err), SL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "tokenizer.json"));
}

/* Every allocation fails once; nothing leaks and nothing breaks (Q10). */
static void survives_no_memory(void **state)
{
    static const char s[] = "e\xcc\x81\xcc\xa3<think> the water runs";
    int rc = -1;

    (void)state;
    for (uint64_t n = 1; rc && n < 1000; n++) {
        struct sl_tokenizer *t = NULL;
        struct sl_encoder *e = NULL;
        struct sl_ids out;

        sl_ids_init(&out, 1000);
        sl_mem_fail_nth(n);
        rc = sl_tokenizer_load(&t, DIR, NULL);
        if (!rc)
            rc = sl_encoder_open(&e, t, NULL);
        if (!rc)
            rc = sl_tokenize_encode(e, s, sizeof(s) - 1, true, &out, NULL);
        sl_mem_fail_nth(0);
        assert_true(rc == 0 || rc == SL_ENOMEM);
        assert_true(rc == 0 || out.len == 0);
        sl_ids_deinit(&out);
        sl_encoder_close(&e);
        sl_tokenizer_close(&t);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_reference),
        cmocka_unit_test(equals_golden_cases),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(looks_up),
        cmocka_unit_test(knows_every_byte),
        cmocka_unit_test(plain_text_forges_nothing),
        cmocka_unit_test(refuses_bad_text),
        cmocka_unit_test(obeys_the_ceiling),
        cmocka_unit_test(is_linear),
        cmocka_unit_test(hand_is_pcre2),
        cmocka_unit_test(refuses_patterns),
        cmocka_unit_test(refuses_what_it_cannot_do),
        cmocka_unit_test(reads_old_merges),
        cmocka_unit_test(needs_its_file),
        cmocka_unit_test(survives_no_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
