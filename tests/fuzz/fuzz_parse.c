/* tests/fuzz/fuzz_parse.c - output of a model, cut where the input says
 *
 * Byte 0 chooses the options, byte 1 says how many bytes behind it decide where
 * to cut; the rest is the text. It is fed whole and in pieces, and must give
 * the same. Besides: events come in their order, what they hold is UTF-8, the
 * arguments of a call are the JSON of an object, complete or cut, little waits,
 * and no mark ('#') of the text is lost.
 */
#include "base/mem.h"
#include "base/utf8.h"
#include "text/parse.h"
#include "text/reply.h"

#define MAX_TEXT ((size_t)1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const char schema[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":"
    "{\"properties\":{\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},"
    "\"o\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":[\"number\","
    "\"null\"]},\"l\":{\"items\":{\"type\":\"boolean\"}}}},"
    "\"a\":{\"anyOf\":[{\"type\":\"array\"},{\"type\":\"null\"}]}}}}}]";

struct input {
    struct sl_parse_opts o;
    enum sl_parse_end end;
    const uint8_t *cut; /* [n_cut] */
    size_t n_cut;
    const char *s; /* valid UTF-8 */
    size_t len;
};

/* Take what has come and look at the order of its kinds. */
static void take(struct sl_reply *r, struct sl_parse *p)
{
    size_t n_call = r->n_call;

    SL_CHECK(!r->ended);
    SL_CHECK(!sl_reply_take(r, p, NULL));
    SL_CHECK(r->n_call >= n_call && r->n_call <= SL_PARSE_MAX_CALLS);
}

/* The next character boundary at or behind i. */
static size_t boundary(const char *s, size_t len, size_t i)
{
    while (i < len && ((unsigned char)s[i] & 0xc0) == 0x80)
        i++;
    return sl_min(i, len);
}

static uint32_t parse(const struct input *in, bool whole, struct sl_reply *r)
{
    struct sl_parse *p = NULL;
    size_t i = 0, k = 0;
    uint32_t ignored;

    SL_CHECK(!sl_parse_open(&p, &in->o, NULL));
    while (i < in->len) {
        size_t step = in->n_cut ? in->cut[k++ % in->n_cut] % 16 + 1u : 1;
        size_t to = whole ? in->len : boundary(in->s, in->len, i + step);

        SL_CHECK(!sl_parse_feed(p, in->s + i, to - i, NULL));
        take(r, p);
        SL_CHECK(sl_parse_held(p) <= MAX_TEXT);
        i = to;
    }
    SL_CHECK(!sl_parse_finish(p, in->end, NULL));
    take(r, p);
    SL_CHECK(r->ended);
    ignored = sl_parse_n_ignored(p);
    sl_parse_close(&p);
    SL_CHECK(!p);
    return ignored;
}

static void same(const struct sl_buf *a, const struct sl_buf *b)
{
    SL_CHECK(a->len == b->len);
    SL_CHECK(a->len == 0 || memcmp(a->p, b->p, a->len) == 0);
    SL_CHECK(a->len == 0 || sl_utf8_valid(a->p, a->len) == a->len);
}

static size_t count(const struct sl_buf *b)
{
    size_t n = 0;

    for (size_t i = 0; i < b->len; i++)
        n += b->p[i] == '#';
    return n;
}

static void check_call(const struct sl_reply_call *a,
                       const struct sl_reply_call *b)
{
    json_t *args;

    same(&a->name, &b->name);
    same(&a->args, &b->args);
    SL_CHECK(a->name.len && a->args.len);
    SL_CHECK(a->complete == b->complete);
    args = json_loadb(a->args.p, a->args.len,
                      JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    SL_CHECK(json_is_object(args));
    json_decref(args);
}

static void compare(const struct input *in)
{
    struct sl_reply a, b;
    size_t marks = 0, seen = 0;
    uint32_t ignored;

    sl_reply_init(&a);
    sl_reply_init(&b);
    ignored = parse(in, true, &a);
    SL_CHECK(parse(in, false, &b) == ignored);
    same(&a.reasoning, &b.reasoning);
    same(&a.content, &b.content);
    SL_CHECK(a.n_call == b.n_call);
    for (size_t i = 0; i < a.n_call; i++) {
        check_call(&a.call[i], &b.call[i]);
        seen += count(&a.call[i].name) + count(&a.call[i].args);
    }
    for (size_t i = 0; i < in->len; i++)
        marks += in->s[i] == '#';
    seen += count(&a.reasoning) + count(&a.content);
    if (in->end == SL_PARSE_STOP && !ignored)
        SL_CHECK(seen >= marks);
    if (!in->o.reasoning && !in->o.tools) {
        SL_CHECK(a.content.len == in->len);
        SL_CHECK(in->len == 0 || !memcmp(a.content.p, in->s, in->len));
    }
    sl_reply_deinit(&a);
    sl_reply_deinit(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct input in = {.end = SL_PARSE_STOP};
    json_t *tools = json_loads(schema, 0, NULL);
    char *s = NULL;

    SL_CHECK(tools);
    if (n < 2 || (size_t)p[1] + 2 > n || n > MAX_TEXT / 8) {
        json_decref(tools);
        return 0;
    }
    sl_parse_opts_init(&in.o);
    in.o.reasoning = p[0] & 1;
    in.o.start = (enum sl_parse_start)((p[0] >> 1 & 3) % 3);
    in.o.style = p[0] & 8 ? SL_PARSE_QWEN3_HERMES : SL_PARSE_QWEN3_CODER;
    in.o.tools = p[0] & 16 ? NULL : tools;
    in.end = p[0] & 32 ? SL_PARSE_LENGTH : SL_PARSE_STOP;
    in.n_cut = p[1];
    in.cut = p + 2;
    in.len = n - 2 - in.n_cut;
    SL_CHECK(!sl_mem_dup(&s, (const char *)p + 2 + in.n_cut, in.len, NULL));
    for (size_t i = sl_utf8_valid(s, in.len); i < in.len;) {
        s[i] = '?';
        i += sl_utf8_valid(s + i, in.len - i);
    }
    in.s = s;
    compare(&in);
    sl_mem_free(s);
    json_decref(tools);
    return 0;
}
