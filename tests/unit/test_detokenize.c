/* tests/unit/test_detokenize.c - token ids to text, as they come */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/detokenize.h"
#include "text/tokenizer_json.h"

#define DIR "tests/golden/tokenizer-small"
#define FFFD "\xef\xbf\xbd"

static struct sl_tokenizer *tok;
static int32_t byte_id[256]; /* the token of each single byte */

static int set_up(void **state)
{
    struct sl_err err;
    int rc = sl_tokenizer_load(&tok, DIR, &err);

    (void)state;
    if (rc) {
        print_error("%s\n", err.msg);
        return rc;
    }
    for (int32_t id = (int32_t)sl_tokenizer_n_ids(tok) - 1; id >= 0; id--) {
        struct sl_span b = sl_tokenizer_bytes(tok, id);

        if (b.len == 1)
            byte_id[(unsigned char)b.p[0]] = id;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sl_tokenizer_close(&tok);
    return 0;
}

static int32_t find(const char *text)
{
    int32_t id = -1;

    assert_true(sl_tokenizer_find(tok, text, strlen(text), &id));
    return id;
}

/* Each byte of s is a token of its own; what comes out is `want`. */
static void bytes_give(const char *s, const char *want)
{
    struct sl_detok d;
    struct sl_buf out;

    sl_buf_init(&out, 1000);
    sl_detokenize_init(&d, tok, false);
    for (size_t i = 0; s[i]; i++)
        assert_int_equal(
            sl_detokenize_push(&d, byte_id[(unsigned char)s[i]], &out, NULL),
            0);
    sl_detokenize_flush(&d, &out);
    assert_string_equal(out.p, want);
    sl_buf_deinit(&out);
}

/* Expected values: what Python's bytes.decode("utf-8", "replace") and the
 * reference print. */
static void replaces_what_is_no_character(void **state)
{
    (void)state;
    bytes_give("a\xc3\xa9z", "a\xc3\xa9z");
    bytes_give("\xf0\x9f\x91\x8d", "\xf0\x9f\x91\x8d");
    bytes_give("\xe2\x82\x41", FFFD "A");
    bytes_give("\xe2\x82", FFFD);
    bytes_give("\xf0\x9f\x91", FFFD);
    bytes_give("\xe0\x80\x41", FFFD FFFD "A");
    bytes_give("\xed\xa0\x80", FFFD FFFD FFFD);
    bytes_give("\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD);
    bytes_give("\xc0\xaf\xff", FFFD FFFD FFFD);
    bytes_give("\xc3\xc3\xa9", FFFD "\xc3\xa9");
    bytes_give("\xf0\x9f\xe2\x82\xac", FFFD "\xe2\x82\xac");
    bytes_give("\x80\x80", FFFD FFFD);
}

/* Nothing is held longer than needed, and never half a character comes out. */
static void streams_whole_characters(void **state)
{
    static const char s[] = "x\xf0\x9f\x91\x8dy";
    static const size_t len_after[] = {1, 1, 1, 1, 5, 6};
    struct sl_detok d;
    struct sl_buf out;

    (void)state;
    sl_buf_init(&out, 100);
    sl_detokenize_init(&d, tok, false);
    for (size_t i = 0; s[i]; i++) {
        assert_int_equal(
            sl_detokenize_push(&d, byte_id[(unsigned char)s[i]], &out, NULL),
            0);
        assert_int_equal(out.len, len_after[i]);
    }
    sl_buf_deinit(&out);
}

static void leaves_special_tokens_out(void **state)
{
    int32_t ids[4];
    struct sl_buf out;

    (void)state;
    ids[0] = byte_id[0xc3];
    ids[1] = find("<|im_end|>");
    ids[2] = byte_id[0xa9];
    ids[3] = find("<think>");
    sl_buf_init(&out, 100);
    assert_int_equal(sl_detokenize_all(tok, ids, 4, true, &out, NULL), 0);
    assert_string_equal(out.p, "\xc3\xa9<think>");
    sl_buf_reset(&out);
    assert_int_equal(sl_detokenize_all(tok, ids, 4, false, &out, NULL), 0);
    assert_string_equal(out.p, FFFD "<|im_end|>" FFFD "<think>");
    sl_buf_deinit(&out);
}

static void refuses_unknown_ids(void **state)
{
    struct sl_detok d;
    struct sl_buf out;
    struct sl_err err;

    (void)state;
    sl_buf_init(&out, 100);
    sl_detokenize_init(&d, tok, false);
    assert_int_equal(sl_detokenize_push(&d, 5000, &out, &err), SL_EARG);
    assert_non_null(strstr(err.msg, "5000"));
    assert_int_equal(sl_detokenize_push(&d, -1, &out, &err), SL_EARG);
    assert_int_equal(out.len, 0);
    sl_buf_deinit(&out);
}

/* A character that the prompt began is completed. */
static void continues_a_prompt(void **state)
{
    int32_t ids[6];
    struct sl_detok d;
    struct sl_buf out;

    (void)state;
    ids[0] = find("<|im_end|>");
    ids[1] = byte_id['a'];
    ids[2] = byte_id['b'];
    ids[3] = byte_id[0xf0];
    ids[4] = byte_id[0x9f];
    ids[5] = byte_id[0x91];
    sl_buf_init(&out, 100);
    sl_detokenize_init(&d, tok, true);
    sl_detokenize_prime(&d, ids, 6);
    assert_int_equal(sl_detokenize_push(&d, byte_id[0x8d], &out, NULL), 0);
    assert_string_equal(out.p, "\xf0\x9f\x91\x8d");
    sl_buf_deinit(&out);
}

/* Any ids in any order: pieces are valid UTF-8, and together they are the whole
 * text; at most three bytes wait; nothing is allocated but the buffer. */
static void pieces_are_the_whole(void **state)
{
    uint64_t x = 1;
    struct sl_buf whole, out;

    (void)state;
    sl_buf_init(&whole, 1 << 20);
    sl_buf_init(&out, 1 << 20);
    for (int c = 0; c < 2000; c++) {
        int32_t ids[40];
        struct sl_detok d;
        uint64_t n_alloc;

        for (size_t i = 0; i < SL_COUNTOF(ids); i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            /* Half of them single bytes, to break characters. */
            ids[i] = x >> 63 ? byte_id[x >> 40 & 0xff]
                             : (int32_t)((x >> 33) % sl_tokenizer_n_ids(tok));
        }
        sl_buf_reset(&whole);
        sl_buf_reset(&out);
        assert_int_equal(
            sl_detokenize_all(tok, ids, SL_COUNTOF(ids), c & 1, &whole, NULL),
            0);
        n_alloc = sl_mem_count();
        sl_detokenize_init(&d, tok, c & 1);
        for (size_t i = 0; i < SL_COUNTOF(ids); i++) {
            size_t from = out.len;

            assert_int_equal(sl_detokenize_push(&d, ids[i], &out, NULL), 0);
            assert_int_equal(sl_utf8_valid(out.p + from, out.len - from),
                             out.len - from);
            assert_true(d.n_hold <= SL_DETOKENIZE_HOLD);
        }
        sl_detokenize_flush(&d, &out);
        assert_int_equal(out.len, whole.len);
        assert_memory_equal(out.p, whole.p, whole.len);
        assert_true(c == 0 || sl_mem_count() - n_alloc <= 4);
    }
    sl_buf_deinit(&whole);
    sl_buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_what_is_no_character),
        cmocka_unit_test(streams_whole_characters),
        cmocka_unit_test(leaves_special_tokens_out),
        cmocka_unit_test(refuses_unknown_ids),
        cmocka_unit_test(continues_a_prompt),
        cmocka_unit_test(pieces_are_the_whole),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
