/* tests/fuzz/fuzz_tokenizer.c - tokenizer.json from anybody, text from anybody
 *
 * The first byte of the input chooses:
 *
 *   even   the rest is tokenizer.json, and behind a zero byte, if there is
 *          one, tokenizer_config.json. What loads must encode and decode ASCII
 *          without loss.
 *   odd    the rest is text for the tokenizer of tests/golden/tokenizer-small.
 *          Invalid UTF-8 is refused; otherwise decoding gives the NFC of the
 *          text, and the same again from the encoder's table of words.
 *
 * Run from the root of the repository.
 */
#include "base/mem.h"
#include "base/utf8.h"
#include "text/detokenize.h"
#include "text/nfc.h"
#include "text/tokenizer_json.h"
#include "text/unidata.h"

#define MAX_TOKENS ((size_t)1 << 20)
#define MAX_TEXT ((size_t)1 << 22)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static struct sl_tokenizer *fixed;
static uint8_t *bits;

static void set_up(void)
{
    struct sl_err err;

    if (fixed)
        return;
    if (sl_tokenizer_load(&fixed, "tests/golden/tokenizer-small", &err)) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    SL_CHECK(!sl_mem_alloc(&bits, SL_UNI_MAX, 1, "bits", NULL));
    sl_unidata_fill(bits);
}

/* Appends the text of ids, pushed one by one, to out: whole characters only,
 * and little held back. */
static void stream(const struct sl_tokenizer *t, const struct sl_ids *ids,
                   struct sl_buf *out)
{
    struct sl_detok d;

    sl_detokenize_init(&d, t, false);
    for (size_t i = 0; i < ids->len; i++) {
        size_t from = out->len;

        SL_CHECK(!sl_detokenize_push(&d, ids->p[i], out, NULL));
        SL_CHECK(d.n_hold <= SL_DETOKENIZE_HOLD);
        SL_CHECK(!out->p || sl_utf8_valid(out->p + from, out->len - from) ==
                                out->len - from);
    }
    sl_detokenize_flush(&d, out);
    SL_CHECK(!sl_buf_check(out, "text", NULL));
}

static bool same(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0);
}

/* The NFC of s[0..len), appended to out. */
static void nfc(struct sl_buf *out, const char *s, size_t len)
{
    struct sl_nfc w;
    const char *to;
    size_t to_len;

    sl_nfc_init(&w);
    SL_CHECK(!sl_nfc_run(&w, bits, s, len, &to, &to_len, NULL));
    sl_buf_add(out, to, to_len);
    sl_nfc_deinit(&w);
}

/* decode(encode(s)) is s, after normalisation where `normal`. With added tokens
 * each segment is normalised alone, so both sides are normalised again. */
static void round_trip(const struct sl_tokenizer *t, struct sl_encoder *e,
                       const char *s, size_t len, bool special, bool normal)
{
    struct sl_buf out, want, got;
    struct sl_ids a, b;

    sl_buf_init(&out, MAX_TEXT);
    sl_buf_init(&want, MAX_TEXT);
    sl_buf_init(&got, MAX_TEXT);
    sl_ids_init(&a, MAX_TOKENS);
    sl_ids_init(&b, MAX_TOKENS);
    SL_CHECK(!sl_tokenize_encode(e, s, len, special, &a, NULL));
    SL_CHECK(!sl_tokenize_encode(e, s, len, special, &b, NULL));
    SL_CHECK(a.len == b.len);
    SL_CHECK(a.len == 0 || !memcmp(a.p, b.p, a.len * sizeof(*a.p)));
    stream(t, &a, &out);
    if (normal) {
        nfc(&want, s, len);
        nfc(&got, out.p, out.len);
        SL_CHECK(same(want.p, want.len, got.p, got.len));
    } else {
        SL_CHECK(same(s, len, out.p, out.len));
    }
    sl_ids_deinit(&a);
    sl_ids_deinit(&b);
    sl_buf_deinit(&out);
    sl_buf_deinit(&want);
    sl_buf_deinit(&got);
}

static void fuzz_json(const char *s, size_t n)
{
    static const char ascii[] = "It's <|im_end|> 42\n\n  x!?\r\n";
    const char *zero = n ? memchr(s, 0, n) : NULL;
    size_t len = zero ? (size_t)(zero - s) : n;
    struct sl_tokenizer *t = NULL;
    struct sl_encoder *e = NULL;
    struct sl_ids ids;
    struct sl_err err = {.msg = ""};
    int rc = sl_tokenizer_parse(&t, s, len, zero ? zero + 1 : NULL,
                                zero ? n - len - 1 : 0, &err);

    SL_CHECK(rc == 0 || (!t && err.msg[0]));
    if (rc)
        return;
    SL_CHECK(!sl_encoder_open(&e, t, NULL));
    /* A pattern may give up, but must not crash; those of the family do not. */
    sl_ids_init(&ids, MAX_TOKENS);
    if (!sl_tokenize_encode(e, ascii, sizeof(ascii) - 1, true, &ids, NULL))
        round_trip(t, e, ascii, sizeof(ascii) - 1, false, false);
    sl_ids_deinit(&ids);
    sl_encoder_close(&e);
    sl_tokenizer_close(&t);
}

static void fuzz_text(const char *s, size_t n)
{
    struct sl_encoder *e = NULL;
    struct sl_ids ids;

    SL_CHECK(!sl_encoder_open(&e, fixed, NULL));
    if (sl_utf8_valid(s, n) == n) {
        round_trip(fixed, e, s, n, false, true);
        /* One added token is found in normalised text and its bytes are other
         * than its text, so its decoding is not the text. */
        if (!memmem(s, n, "\xc4\xa0", 2) && !memmem(s, n, "G\xcc\x87", 3))
            round_trip(fixed, e, s, n, true, true);
    } else {
        sl_ids_init(&ids, MAX_TOKENS);
        SL_CHECK(sl_tokenize_encode(e, s, n, true, &ids, NULL) == SL_EFORMAT);
        sl_ids_deinit(&ids);
    }
    sl_encoder_close(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    set_up();
    if (n == 0)
        return 0;
    if (p[0] & 1)
        fuzz_text((const char *)p + 1, n - 1);
    else
        fuzz_json((const char *)p + 1, n - 1);
    return 0;
}
