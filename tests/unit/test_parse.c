/* tests/unit/test_parse.c - output of a model to reasoning, content and calls
 *
 * What a text gives is written as one line: [R] reasoning, [C] content, [name]
 * and the arguments of a call, [/] its end, [~] its cut with what closes it,
 * [.] the end. Every text is fed whole, cut once at every place, and character
 * by character, and must give the same line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/align.h"
#include "text/coerce.h"
#include "text/parse.h"
#include "text/reply.h"

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"read\",\"parameters\":"
    "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},"
    "\"limit\":{\"type\":\"integer\"},\"deep\":{\"type\":\"object\","
    "\"properties\":{\"n\":{\"type\":\"integer\"}}},"
    "\"any\":{\"type\":[\"integer\",\"string\"]}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}},"
    "{\"name\":\"flat\",\"parameters\":{\"properties\":{\"x\":{\"type\":"
    "\"boolean\"}}}}]";

static json_t *tools;

static int set_up(void **state)
{
    (void)state;
    tools = json_loads(tools_json, 0, NULL);
    return tools ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    json_decref(tools);
    return 0;
}

static uint64_t counter(void *ctx)
{
    return ++*(uint64_t *)ctx;
}

/* Reasoning and calls; the prompt ends inside of the thinking. */
static struct sl_parse_opts thinking(void)
{
    static uint64_t n;
    struct sl_parse_opts o;

    sl_parse_opts_init(&o);
    o.start = SL_PARSE_THINK_OPEN;
    o.reasoning = true;
    o.style = SL_PARSE_QWEN3_CODER;
    o.tools = tools;
    o.random = counter;
    o.random_ctx = &n;
    return o;
}

/* The prompt ends with a closed block. */
static struct sl_parse_opts closed(void)
{
    struct sl_parse_opts o = thinking();

    o.start = SL_PARSE_THINK_CLOSED;
    return o;
}

struct line {
    struct sl_buf text;
    enum sl_parse_kind last;
    bool any;
};

static void take(struct line *l, struct sl_parse *p)
{
    struct sl_parse_event ev;

    while (sl_parse_next(p, &ev)) {
        bool more = l->any && l->last == ev.kind;

        assert_int_equal(sl_utf8_valid(ev.text, ev.len), ev.len);
        switch (ev.kind) {
        case SL_PARSE_REASONING:
            sl_buf_str(&l->text, more ? "" : "[R]");
            break;
        case SL_PARSE_CONTENT:
            sl_buf_str(&l->text, more ? "" : "[C]");
            break;
        case SL_PARSE_BEGIN:
            sl_buf_str(&l->text, "[");
            break;
        case SL_PARSE_ARGS:
            break;
        case SL_PARSE_END:
            sl_buf_str(&l->text, "[/]");
            break;
        case SL_PARSE_CUT:
            sl_buf_str(&l->text, "[~]");
            break;
        case SL_PARSE_DONE:
            sl_buf_str(&l->text, "[.]");
            break;
        }
        if (ev.kind <= SL_PARSE_ARGS || ev.kind == SL_PARSE_CUT)
            assert_true(ev.len > 0);
        sl_buf_add(&l->text, ev.text, ev.len);
        if (ev.kind == SL_PARSE_BEGIN) {
            sl_buf_str(&l->text, "]");
            assert_int_equal(strlen(ev.id), 29);
            assert_int_equal(strncmp(ev.id, "call_", 5), 0);
        }
        l->last = ev.kind;
        l->any = true;
    }
}

/* The line for s, cut before each place for which cut[place] is set. */
static struct sl_buf line_of(const struct sl_parse_opts *o, const char *s,
                             size_t len, const bool *cut, enum sl_parse_end end)
{
    struct line l = {.any = false};
    struct sl_parse *p = NULL;

    sl_buf_init(&l.text, 1 << 24);
    assert_int_equal(sl_parse_open(&p, o, NULL), 0);
    for (size_t i = 0, k; i < len; i = k) {
        for (k = i + 1; k < len && !cut[k];)
            k++;
        assert_int_equal(sl_parse_feed(p, s + i, k - i, NULL), 0);
        take(&l, p);
    }
    assert_int_equal(sl_parse_finish(p, end, NULL), 0);
    take(&l, p);
    sl_parse_close(&p);
    assert_null(p);
    return l.text;
}

static void cuts(const struct sl_parse_opts *o, const char *s,
                 enum sl_parse_end end, const char *want)
{
    size_t len = strlen(s);
    bool *cut;

    assert_int_equal(sl_mem_alloc(&cut, len + 1, 1, "cuts", NULL), 0);
    for (size_t at = 0; at <= len + 1; at++) {
        struct sl_buf got;

        if (at <= len && ((unsigned char)s[at] & 0xc0) == 0x80)
            continue; /* inside of a character */
        memset(cut, 0, len + 1);
        if (at <= len)
            cut[at] = true;
        for (size_t i = 0; at == len + 1 && i < len; i++)
            cut[i] = ((unsigned char)s[i] & 0xc0) != 0x80;
        got = line_of(o, s, len, cut, end);
        if (strcmp(got.p, want) != 0)
            print_error("cut at %zu of: %s\n", at, s);
        assert_string_equal(got.p, want);
        sl_buf_deinit(&got);
    }
    sl_mem_free(cut);
}

static void gives(struct sl_parse_opts o, const char *s, const char *want)
{
    cuts(&o, s, SL_PARSE_STOP, want);
}

static void gives_cut(struct sl_parse_opts o, const char *s, const char *want)
{
    cuts(&o, s, SL_PARSE_LENGTH, want);
}

#define CALL(body) "<tool_call>\n" body "\n</tool_call>"
#define READ(body) CALL("<function=read>\n" body "</function>")
#define PARAM(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"

/* The example of serving.md, 3.4. */
static void worked_example(void **state)
{
    (void)state;
    gives(thinking(),
          "Need the file.\n</think>\n\nReading it.\n\n" READ(
              PARAM("path", "a.txt") PARAM("limit", "20")) "\n",
          "[R]Need the file.[C]Reading it.[read]{\"path\": \"a.txt\", "
          "\"limit\": 20}[/][.]");
}

/* ---- one case per row of serving.md, 4.3 ---- */

static void reasoning(void **state)
{
    struct sl_parse_opts o = thinking();

    (void)state;
    gives(o, "", "[.]");
    gives(o, "<think>\nhm\n</think>\n\nYes.", "[R]hm[C]Yes.[.]");
    gives(o, "\n a <think> b </think> c", "[R]a <think> b[C]c[.]");
    gives(o, "all of it, <b>never</ ended",
          "[R]all of it, <b>never</ ended[.]");
    gives(o, "a</think", "[R]a</think[.]");
    gives(o, "</think>\n\nx", "[C]x[.]");
    gives(o, "hm " READ("") " ", "[R]hm[read]{}[/][.]");
    gives(o, "hm <tool_call> is a tag</think>x",
          "[R]hm <tool_call> is a tag[C]x[.]");
    gives(o, "h\xc3\xa9 \xf0\x9f\x91\x8d</think>\xe2\x82\xac",
          "[R]h\xc3\xa9 \xf0\x9f\x91\x8d[C]\xe2\x82\xac[.]");
    o.reasoning = false;
    gives(o, "a</think>b<think>", "[C]a</think>b<think>[.]");
    o.reasoning = true;
    o.tools = NULL;
    gives(o, "hm " READ("") "</think>x", "[R]hm " READ("") "[C]x[.]");
}

static void content(void **state)
{
    struct sl_parse_opts o = closed();

    (void)state;
    gives(o, "\n\nHello.\n", "[C]Hello.\n[.]");
    gives(o, "Hello </think>world", "[C]Hello world[.]");
    gives(o, "</think>\n\nHello", "[C]Hello[.]");
    gives(o, "<think>hm</think>\nx", "[R]hm[C]x[.]");
    gives(o, "x<think>hm</think>\ny", "[C]xhm\ny[.]");
    gives(o, "a < b </tool_call> <tool", "[C]a < b </tool_call> <tool[.]");
    gives(o, "  \n" READ(""), "[read]{}[/][.]");
    gives(o, "a  b \n\n" READ(""), "[C]a  b[read]{}[/][.]");
    o.start = SL_PARSE_THINK_NONE;
    gives(o, " x", "[C] x[.]");
    gives(o, " <think>a</think> x", "[R]a[C]x[.]");
    o.tools = NULL;
    gives(o, "x " READ(""), "[C]x " READ("") "[.]");
}

static void missing_outer_tag(void **state)
{
    struct sl_parse_opts o = closed();

    (void)state;
    gives(o, "<function=now>\n</function>\n</tool_call>",
          "[now]{}[/][C]</tool_call>[.]");
    gives(o, "Ok.\n<function=now></function>", "[C]Ok.[now]{}[/][.]");
    gives(o, "Ok. <function=now></function>",
          "[C]Ok. <function=now></function>[.]");
    gives(o, "Ok.\n<function=nowhere>", "[C]Ok.\n<function=nowhere>[.]");
    gives(o, "Ok.\n<function=no", "[C]Ok.\n<function=no[.]");
    gives(o, "Ok.\n<function=now", "[C]Ok.[now]{}[/][.]");
    gives_cut(o, "Ok.\n<function=now", "[C]Ok.\n<function=now[.]");
    o.style = SL_PARSE_QWEN3_HERMES;
    gives(o, "<function=now></function>", "[C]<function=now></function>[.]");
}

static void preamble(void **state)
{
    struct sl_parse_opts o = closed();

    (void)state;
    gives(o, "<tool_call> \n\t <function=now></function></tool_call>",
          "[now]{}[/][.]");
    gives(o, "<tool_call>", "[C]<tool_call>[.]");
    gives(o, "a <tool_call>\n", "[C]a <tool_call>\n[.]");
    gives(o, "a <tool_call>\nfoo</tool_call> b",
          "[C]a <tool_call>\nfoo</tool_call> b[.]");
    gives(o, "<tool_call><function>", "[C]<tool_call><function>[.]");
    gives(o, "<tool_call>x" READ(""), "[C]<tool_call>x[read]{}[/][.]");
    gives(o, "<tool_call><function=>", "[C]<tool_call><function=>[.]");
}

static void name(void **state)
{
    struct sl_parse_opts o = closed();

    (void)state;
    gives(o, CALL("<function=made up>\n</function>"), "[made up]{}[/][.]");
    gives(o, CALL("<function= read \n" PARAM("path", "x") "</function>"),
          "[read]{\"path\": \"x\"}[/][.]");
    gives(o, CALL("<function=read<parameter=path>x</parameter></function>"),
          "[read]{\"path\": \"x\"}[/][.]");
    gives(o,
          CALL("< function = read >\n< parameter = path >\nx\n"
               "< / parameter >\n</ function>"),
          "[read]{\"path\": \"x\"}[/][.]");
    gives(o, "<tool_call>\n<function=read", "[read]{}[/][.]");
    gives(o, "<tool_call>\n<function=rea", "[C]<tool_call>\n<function=rea[.]");
    gives_cut(o, "<tool_call>\n<function=read",
              "[C]<tool_call>\n<function=read[.]");
    gives_cut(o, "<tool_call>\n<function=read>\n", "[read][~]{}[.]");
}

static void between_parameters(void **state)
{
    struct sl_parse_opts o = closed();

    (void)state;
    gives(o, READ(PARAM("path", "a") PARAM("path", "b") PARAM("limit", "1")),
          "[read]{\"path\": \"a\", \"limit\": 1}[/][.]");
    gives(o, "<tool_call><function=read>" PARAM("limit", "1") "</tool_call>",
          "[read]{\"limit\": 1}[/][.]");
    gives(o, "<tool_call><function=read>" PARAM("limit", "1") READ(""),
          "[read]{\"limit\": 1}[/][read]{}[/][.]");
    gives(o,
          "<tool_call><function=now>\n<function=read></function></tool_call>",
          "[now]{}[/][read]{}[/][.]");
    gives(o, READ("</parameter>\n" PARAM("limit", "1")),
          "[read]{\"limit\": 1}[/][.]");
    gives(o, READ("so: <b>" PARAM("limit", "1")),
          "[read]{\"limit\": 1}[/][C]so: <b>[.]");
    gives(o, "<tool_call><function=read>\n<parameter=li", "[read]{}[/][.]");
    gives(o, "<tool_call><function=read>\n<", "[read]{}[/][.]");
}

static void values(void **state)
{
    struct sl_parse_opts o = closed();

    (void)state;
    gives(o, READ(PARAM("path", "\n a \n")),
          "[read]{\"path\": \"\\n a \\n\"}[/][.]");
    gives(o, READ("<parameter=path>\n</parameter>\n"),
          "[read]{\"path\": \"\"}[/][.]");
    gives(o, READ("<parameter=path></parameter>\n"),
          "[read]{\"path\": \"\"}[/][.]");
    gives(o, READ(PARAM("path", "a\n\n")),
          "[read]{\"path\": \"a\\n\\n\"}[/][.]");
    gives(o, READ(PARAM("path", "if (a < b && c</d>) \"q\" \\ \t\x01")),
          "[read]{\"path\": \"if (a < b && c</d>) \\\"q\\\" \\\\ "
          "\\t\\u0001\"}[/][.]");
    /* An end tag that is none: the call does not go on behind it. */
    gives(o, READ(PARAM("path", "x</parameter> y\n</parameter>\nz")),
          "[read]{\"path\": \"x</parameter> y\\n</parameter>\\nz\"}[/][.]");
    gives(o, READ(PARAM("path", "<tool_call> </function> </tool_call")),
          "[read]{\"path\": \"<tool_call> </function> </tool_call\"}[/][.]");
    /* Missing end tags. */
    gives(o, READ("<parameter=path>\na\n" PARAM("limit", "3")),
          "[read]{\"path\": \"a\", \"limit\": 3}[/][.]");
    gives(o, READ("<parameter=path>\na\n" PARAM("other", "3")),
          "[read]{\"path\": \"a\\n<parameter=other>\\n3\"}[/][.]");
    gives(o, READ("<parameter=path>\na <parameter=limit>\n"),
          "[read]{\"path\": \"a <parameter=limit>\"}[/][.]");
    gives(o, READ("<parameter=limit>\n7\n"), "[read]{\"limit\": 7}[/][.]");
    /* A value of a type that is held. */
    gives(o, READ(PARAM("deep", "{'n': '5', 'm': None}")),
          "[read]{\"deep\": {\"n\": 5, \"m\": null}}[/][.]");
    gives(o, READ(PARAM("any", "5") PARAM("new", "6")),
          "[read]{\"any\": 5, \"new\": \"6\"}[/][.]");
}

static void ends_inside(void **state)
{
    struct sl_parse_opts o = closed();
    const char *open = "<tool_call>\n<function=read>\n<parameter=path>\nab\n";

    (void)state;
    gives(o, open, "[read]{\"path\": \"ab\"}[/][.]");
    gives_cut(o, open, "[read]{\"path\": \"ab[~]\"}[.]");
    gives(o, "<tool_call><function=read><parameter=path>a</para",
          "[read]{\"path\": \"a\"}[/][.]");
    gives(o, "<tool_call><function=read><parameter=path>a<",
          "[read]{\"path\": \"a<\"}[/][.]");
    gives(o, "<tool_call><function=read><parameter=path>a</parameter>\n</func",
          "[read]{\"path\": \"a\"}[/][.]");
    gives(o, "<tool_call><function=read><parameter=path>",
          "[read]{\"path\": \"\"}[/][.]");
    gives(o, "<tool_call><function=read><parameter=limit>4",
          "[read]{\"limit\": 4}[/][.]");
    gives_cut(o, "<tool_call><function=read><parameter=limit>4",
              "[read][~]{}[.]");
    gives_cut(o, "<tool_call><function=read>" PARAM("path", "a"),
              "[read]{\"path\": \"a[~]\"}[.]");
    gives_cut(o, "<tool_call><function=read>" PARAM("limit", "1") "</fu",
              "[read][~]{}[.]");
    gives_cut(o, READ("x" PARAM("limit", "1")) "<to",
              "[read]{\"limit\": 1}[/][C]x<to[.]");
    gives_cut(o, "<tool_call><function=read>" PARAM("limit", "1") "</function>",
              "[read]{\"limit\": 1}[/][.]");
}

static void behind_a_call(void **state)
{
    struct sl_parse_opts o = closed();

    (void)state;
    gives(o, READ("") "\n" READ(PARAM("limit", "2")) "\n",
          "[read]{}[/][read]{\"limit\": 2}[/][.]");
    gives(o,
          "<tool_call><function=now></function>\n<function=x></function>\n"
          "</tool_call>",
          "[now]{}[/][x]{}[/][.]");
    gives(o, "<tool_call><function=now></function>" READ(""),
          "[now]{}[/][read]{}[/][.]");
    gives(o, READ("") "\n\nDone. \n", "[read]{}[/][C]Done. \n[.]");
    gives(o, "<tool_call><function=now></function>\nx</tool_call>y",
          "[now]{}[/][C]xy[.]");
    gives(o, READ("") "<think>x</think>y", "[read]{}[/][C]xy[.]");
    gives(o, READ("") "a" READ("") "b", "[read]{}[/][C]a[read]{}[/][C]b[.]");
}

/* ---- calls written as JSON ---- */

static void json_calls(void **state)
{
    struct sl_parse_opts o = closed();

    (void)state;
    for (int k = 0; k < 2; k++) {
        gives(o,
              CALL("{\"name\": \"read\", \"arguments\": {\"path\": \"a}\", "
                   "\"limit\": \"3\"}}") "\n",
              "[read]{\"path\": \"a}\", \"limit\": 3}[/][.]");
        gives(o,
              CALL("{\"arguments\": {}, \"name\": \"now\"}") " " CALL(
                  "{'name': 'x', 'arguments': None}"),
              "[now]{}[/][x]{}[/][.]");
        gives(o,
              CALL("{\"name\": \"read\", \"arguments\": "
                   "\"{\\\"limit\\\": 4}\"}"),
              "[read]{\"limit\": 4}[/][.]");
        gives(o, CALL("{\"name\": \"now\"}"), "[now]{}[/][.]");
        /* Brackets that are missing. */
        gives(o, CALL("{\"name\": \"read\", \"arguments\": {\"limit\": 4}"),
              "[read]{\"limit\": 4}[/][.]");
        gives(o, "<tool_call>{\"name\": \"read\", \"arguments\": {\"limit\": 4",
              "[read]{\"limit\": 4}[/][.]");
        gives_cut(o, "<tool_call>{\"name\": \"now\"",
                  "[C]<tool_call>{\"name\": \"now\"[.]");
        /* A tag in a string is data. */
        gives(o,
              CALL("{\"name\": \"now\", \"arguments\": "
                   "{\"a\": \"x</tool_call>y\"}}"),
              "[now]{\"a\": \"x</tool_call>y\"}[/][.]");
        /* None of these is a call. */
        gives(o, CALL("{\"a\": 1}"), "[C]" CALL("{\"a\": 1}") "[.]");
        gives(o, CALL("{x}"), "[C]" CALL("{x}") "[.]");
        gives(o, "a " CALL("{\"name\": \"now\", ]}") " b",
              "[C]a " CALL("{\"name\": \"now\", ]}") " b[.]");
        gives(o, "<tool_call>{\"name\": <tool_call>{\"name\": \"now\"}",
              "[C]<tool_call>{\"name\":[now]{}[/][.]");
        gives(o, CALL("{\"name\": \"now") READ(""),
              "[C]" CALL("{\"name\": \"now") "[read]{}[/][.]");
        o.style = SL_PARSE_QWEN3_HERMES;
    }
    o = thinking();
    gives(o, "as in <tool_call>{\"name\" of it.</think>x",
          "[R]as in <tool_call>{\"name\" of it.[C]x[.]");
    gives(o, "hm " CALL("{\"name\": \"now\"}"), "[R]hm[now]{}[/][.]");
}

/* ---- tags by id ---- */

static void feed_all(struct sl_parse *p, struct line *l, const char *s)
{
    assert_int_equal(sl_parse_feed(p, s, strlen(s), NULL), 0);
    take(l, p);
}

static void tag(struct sl_parse *p, struct line *l, enum sl_parse_tag t)
{
    assert_int_equal(sl_parse_tag(p, t, NULL), 0);
    take(l, p);
}

static void tags_by_id(void **state)
{
    struct sl_parse_opts o = thinking();

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct line l = {.any = false};
        struct sl_parse *p = NULL;

        sl_buf_init(&l.text, 10000);
        o.tags_by_id = k == 0;
        assert_int_equal(sl_parse_open(&p, &o, NULL), 0);
        feed_all(p, &l, k ? "x\n" : "say </think>, <tool_call>\n");
        tag(p, &l, SL_PARSE_TAG_THINK_END);
        feed_all(p, &l, k ? "\ny" : "\n<tool_call><function=now>");
        tag(p, &l, SL_PARSE_TAG_CALL);
        feed_all(p, &l, "\n<function=read>\n<parameter=path>\na");
        tag(p, &l, SL_PARSE_TAG_THINK);
        tag(p, &l, SL_PARSE_TAG_CALL);
        feed_all(p, &l, "\n</parameter>\n</function>\n");
        tag(p, &l, SL_PARSE_TAG_CALL_END);
        tag(p, &l, SL_PARSE_TAG_CALL);
        feed_all(p, &l, "oh");
        assert_int_equal(sl_parse_finish(p, SL_PARSE_STOP, NULL), 0);
        take(&l, p);
        assert_string_equal(
            l.text.p,
            k ? "[R]x[C]y[read]{\"path\": \"a<think><tool_call>\"}[/]"
                "[C]<tool_call>oh[.]"
              : "[R]say </think>, <tool_call>[C]<tool_call><function=now>"
                "[read]{\"path\": \"a<think><tool_call>\"}[/]"
                "[C]<tool_call>oh[.]");
        sl_parse_close(&p);
        sl_buf_deinit(&l.text);
    }
}

/* Tokens of an answer, of which some are tags; their ids are 1 to 4. */
static const struct {
    int32_t id;
    const char *text;
} said[] = {
    {9, "say "},         {8, "</th"},
    {8, "ink>"},         {7, ", "},
    {8, "<tool_call>"},  {2, "</think>"},
    {9, "\n\nyes "},     {9, "<think>"},
    {9, " or "},         {6, ""},
    {3, "<tool_call>"},  {9, "\n<function=read>\n<parameter=path>\na<"},
    {4, "</tool_call>"}, {9, ">\n</parameter>\n</function>\n"},
    {4, "</tool_call>"}, {2, ""},
};

/* As an engine gives it: ids at once, text `late` bytes later, in two pieces
 * that part at token `mid`. A stop text took what is
 * behind `keep` bytes. */
static void aligned(struct line *l, size_t late, size_t mid, size_t keep)
{
    static const int32_t tag[SL_ALIGN_TAGS] = {1, 2, 3, 4};
    struct sl_parse_opts o = thinking();
    int32_t ids[SL_COUNTOF(said)];
    uint32_t end[SL_COUNTOF(said)];
    size_t n = SL_COUNTOF(said), n_token = 0;
    char text[1000];
    size_t len = 0;
    struct sl_align a;
    struct sl_align_step s;
    struct sl_parse *p = NULL;

    for (size_t i = 0; i < n; i++) {
        memcpy(text + len, said[i].text, strlen(said[i].text));
        len += strlen(said[i].text);
        ids[i] = said[i].id;
        end[i] = (uint32_t)len;
    }
    len = sl_min(len, keep);
    sl_align_init(&a, tag);
    o.tags_by_id = a.by_id;
    assert_int_equal(sl_parse_open(&p, &o, NULL), 0);
    for (size_t k = 0, from = 0, to, at = 0; k < 2; k++, from = to, at = mid) {
        to = k ? len : sl_min(end[mid - 1], len);
        to -= k ? 0 : sl_min(late, to);
        assert_int_equal(sl_align_put(&a, text + from, to - from, ids + at,
                                      end + at, k ? n - mid : mid, k, NULL),
                         0);
        while (sl_align_next(&a, &s)) {
            assert_int_equal(sl_align_feed(p, &s, NULL), 0);
            n_token += s.token;
            take(l, p);
        }
    }
    assert_int_equal(n_token, n);
    assert_int_equal(sl_parse_finish(p, SL_PARSE_STOP, NULL), 0);
    take(l, p);
    sl_parse_close(&p);
    sl_align_deinit(&a);
}

static void tags_of_tokens(void **state)
{
    (void)state;
    for (size_t mid = 1; mid < SL_COUNTOF(said); mid++)
        for (size_t late = 0; late < 30; late++) {
            struct line l = {.any = false};

            sl_buf_init(&l.text, 10000);
            aligned(&l, late, mid, SIZE_MAX);
            assert_string_equal(l.text.p,
                                "[R]say </think>, <tool_call>[C]yes <think> or"
                                "[read]{\"path\": \"a<</tool_call>>\"}[/][.]");
            sl_buf_deinit(&l.text);
        }
}

/* Half a tag is text, and what follows is no tag. */
static void tag_is_cut(void **state)
{
    (void)state;
    for (size_t late = 0; late < 30; late++) {
        struct line l = {.any = false};

        sl_buf_init(&l.text, 10000);
        aligned(&l, late, 12, 29);
        assert_string_equal(l.text.p, "[R]say </think>, <tool_call></th[.]");
        sl_buf_deinit(&l.text);
    }
}

/* ---- types ---- */

static void coerced(const char *schema, const char *text, const char *want)
{
    json_t *s = json_loads(schema, 0, NULL);
    struct sl_buf out;

    assert_non_null(s);
    sl_buf_init(&out, 10000);
    sl_coerce_text(&out, text, strlen(text), (struct sl_schema){s, s});
    assert_string_equal(out.p, want);
    sl_buf_deinit(&out);
    json_decref(s);
}

#define T(type) "{\"type\": \"" type "\"}"

/* The table of serving.md, 4.5. */
static void coercion_scalars(void **state)
{
    static const char int_null[] = "{\"type\": [\"integer\", \"null\"]}";

    (void)state;
    coerced(T("string"), "null", "\"null\"");
    coerced(T("string"), "02134", "\"02134\"");
    coerced(T("string"), "1e5", "\"1e5\"");
    coerced(T("string"), "true", "\"true\"");
    coerced(T("string"), "", "\"\"");
    coerced("{}", "5", "\"5\"");
    coerced(T("made up"), "5", "\"5\"");
    coerced(int_null, "None", "null");
    coerced(int_null, "NIL", "null");
    coerced(int_null, "", "null");
    coerced(int_null, "-7", "-7");
    coerced(T("integer"), "", "\"\"");
    coerced(T("integer"), "null", "\"null\"");
    coerced(T("integer"), " +5 ", "5");
    coerced(T("integer"), "007", "7");
    coerced(T("integer"), "-0", "0");
    coerced(T("integer"), "3.0", "3");
    coerced(T("integer"), "3.5", "\"3.5\"");
    coerced(T("integer"), "3.", "\"3.\"");
    coerced(T("integer"), "12345678901234567890123", "12345678901234567890123");
    coerced(T("integer"), "five", "\"five\"");
    coerced(T("number"), "1.50", "1.50");
    coerced(T("number"), "2.0", "2");
    coerced(T("number"), "1e3", "1000");
    coerced(T("number"), "1e400", "\"1e400\"");
    coerced(T("number"), "1e300", "1e300");
    coerced(T("number"), "nan", "\"nan\"");
    coerced(T("number"), "-inf", "\"-inf\"");
    coerced(T("number"), ".5", "\".5\"");
    coerced(T("number"), "0x10", "\"0x10\"");
    coerced(T("boolean"), "TRUE", "true");
    coerced(T("boolean"), "False", "false");
    coerced(T("boolean"), "1", "true");
    coerced(T("boolean"), "0", "false");
    coerced(T("boolean"), "yes", "\"yes\"");
}

static void coercion_nested(void **state)
{
    static const char deep[] =
        "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}, "
        "\"s\": {\"type\": \"string\"}, \"l\": {\"type\": \"array\", \"items\": "
        "{\"type\": \"number\"}}, \"b\": {\"type\": \"boolean\"}}}";

    (void)state;
    coerced(T("object"), "{\"a\": [1, 2.50, \"\\u00e9\\n\"]}",
            "{\"a\": [1, 2.50, \"\xc3\xa9\\n\"]}");
    coerced(T("object"), "{'a': True, 'b': (1,), 'c': 'it\\'s \"x\"',}",
            "{\"a\": true, \"b\": [1], \"c\": \"it's \\\"x\\\"\"}");
    coerced(T("object"), "{}", "{}");
    coerced(T("object"), "[1]", "\"[1]\"");
    coerced(T("object"), "{\"a\": 1} x", "\"{\\\"a\\\": 1} x\"");
    coerced(T("object"), "{\"a\": }", "\"{\\\"a\\\": }\"");
    coerced(T("object"), "{\"a\": NaN}", "\"{\\\"a\\\": NaN}\"");
    coerced(T("array"), "[\n 'a',\n None\n]", "[\"a\", null]");
    coerced(T("array"), "[,]", "\"[,]\"");
    coerced(T("array"), "a, b", "\"a, b\"");
    coerced(deep,
            "{\"n\": \"4\", \"s\": 5, \"l\": [\"1.5\", \"x\", 2], \"b\": 1, "
            "\"z\": \"9\"}",
            "{\"n\": 4, \"s\": \"5\", \"l\": [1.5, \"x\", 2], \"b\": true, "
            "\"z\": \"9\"}");
    coerced(deep, "{'n': 4.0, 's': False, 'b': 'no'}",
            "{\"n\": 4, \"s\": \"false\", \"b\": \"no\"}");
}

static void coercion_unions(void **state)
{
    static const char refs[] =
        "{\"$defs\": {\"a/b\": {\"anyOf\": [{\"type\": \"integer\"}, {\"$ref\": "
        "\"#/$defs/c\"}]}, \"c\": {\"const\": null}}, \"$ref\": "
        "\"#/$defs/a~1b\"}";

    (void)state;
    coerced("{\"type\": [\"string\", \"integer\"]}", "5", "5");
    coerced("{\"type\": [\"string\", \"integer\"]}", "x", "\"x\"");
    coerced("{\"type\": [\"string\", \"null\"]}", "", "\"\"");
    coerced("{\"type\": [\"string\", \"null\"]}", "null", "null");
    coerced("{\"anyOf\": [{\"type\": \"boolean\"}, {\"type\": \"number\"}]}",
            "1", "1");
    coerced("{\"enum\": [1, 2, \"auto\"]}", "2", "2");
    coerced("{\"enum\": [1, 2, \"auto\"]}", "auto", "\"auto\"");
    coerced("{\"enum\": [\"1\", \"2\"]}", "2", "\"2\"");
    coerced("{\"const\": true}", "True", "true");
    coerced("{\"allOf\": [{\"type\": \"integer\"}]}", "2", "2");
    coerced("{\"type\": \"integer\", \"nullable\": true}", "null", "null");
    coerced(refs, "7", "7");
    coerced(refs, "none", "null");
    coerced("{\"$ref\": \"#\"}", "7", "\"7\"");
    coerced("{\"$ref\": \"http://x/y\"}", "7", "\"7\"");
}

/* ---- limits ---- */

/* Text of n bytes between two others. */
static void long_text(struct sl_buf *b, const char *before, char c, size_t n,
                      const char *after)
{
    sl_buf_reset(b);
    sl_buf_str(b, before);
    for (size_t i = 0; i < n; i++)
        sl_buf_byte(b, c);
    sl_buf_str(b, after);
}

static void limits(void **state)
{
    const char *open = "<tool_call><function=read><parameter=deep>{\"a\":\"";
    struct sl_parse_opts o = closed();
    struct sl_buf s, want;
    struct sl_reply r;
    struct sl_parse *p = NULL;
    struct sl_err err;

    (void)state;
    sl_buf_init(&s, 1 << 24);
    sl_buf_init(&want, 1 << 24);
    /* Names and gaps. */
    long_text(&s, "<tool_call><function=", 'a', SL_PARSE_MAX_NAME + 1, ">");
    long_text(&want, "[C]<tool_call><function=", 'a', SL_PARSE_MAX_NAME + 1,
              ">[.]");
    gives(o, s.p, want.p);
    long_text(&s, "<tool_call>", ' ', SL_PARSE_MAX_GAP + 1, "<function=now>");
    long_text(&want, "[C]<tool_call>", ' ', SL_PARSE_MAX_GAP + 1,
              "<function=now>[.]");
    gives(o, s.p, want.p);
    /* Space behind content. */
    long_text(&s, "a", ' ', SL_PARSE_MAX_SPACE + 9, READ(""));
    long_text(&want, "[C]a", ' ', SL_PARSE_MAX_SPACE, "[read]{}[/][.]");
    gives(o, s.p, want.p);
    /* A value that is too long to wait for becomes a string. */
    long_text(&s, open, 'x', SL_PARSE_MAX_HELD,
              "\"}</parameter></function></tool_call>");
    for (size_t step = s.len; step > 1000; step = step / 5 - 1) {
        sl_reply_init(&r);
        assert_int_equal(sl_parse_open(&p, &o, NULL), 0);
        for (size_t i = 0; i < s.len; i += step) {
            assert_int_equal(
                sl_parse_feed(p, s.p + i, sl_min(step, s.len - i), NULL), 0);
            assert_true(sl_parse_held(p) <= SL_PARSE_MAX_HELD + 1000);
            assert_int_equal(sl_reply_take(&r, p, NULL), 0);
        }
        assert_int_equal(sl_parse_finish(p, SL_PARSE_STOP, NULL), 0);
        assert_int_equal(sl_reply_take(&r, p, NULL), 0);
        assert_true(r.ended && r.n_call == 1 && r.call[0].complete);
        assert_int_equal(
            strncmp(r.call[0].args.p, "{\"deep\": \"{\\\"a\\\":\\\"xxx", 22),
            0);
        assert_int_equal(r.call[0].args.len, SL_PARSE_MAX_HELD + 24);
        sl_parse_close(&p);
        sl_reply_deinit(&r);
    }
    /* A piece that is too long. */
    assert_int_equal(sl_parse_open(&p, &o, NULL), 0);
    assert_int_equal(sl_parse_feed(p, s.p, SL_PARSE_MAX_FEED + 1, &err),
                     SL_EARG);
    assert_non_null(strstr(err.msg, "16777216"));
    sl_parse_close(&p);
    sl_buf_deinit(&s);
    sl_buf_deinit(&want);
}

/* Strings come as they are written, and little waits. */
static void streams_strings(void **state)
{
    struct sl_parse_opts o = closed();
    struct sl_parse *p = NULL;
    struct line l = {.any = false};

    (void)state;
    sl_buf_init(&l.text, 1000);
    assert_int_equal(sl_parse_open(&p, &o, NULL), 0);
    feed_all(p, &l, "<tool_call>\n<function=read>");
    assert_string_equal(l.text.p, "[read]");
    feed_all(p, &l, "\n<parameter=path>");
    assert_string_equal(l.text.p, "[read]{\"path\": \"");
    feed_all(p, &l, "\nab");
    assert_string_equal(l.text.p, "[read]{\"path\": \"ab");
    feed_all(p, &l, " c\n</par");
    assert_string_equal(l.text.p, "[read]{\"path\": \"ab c");
    assert_int_equal(sl_parse_held(p), 6);
    feed_all(p, &l, "t\n");
    assert_string_equal(l.text.p, "[read]{\"path\": \"ab c\\n</part");
    assert_int_equal(sl_parse_n_calls(p), 0);
    feed_all(p, &l, "</parameter></function>");
    assert_string_equal(l.text.p, "[read]{\"path\": \"ab c\\n</part\"}[/]");
    assert_int_equal(sl_parse_n_calls(p), 1);
    sl_parse_close(&p);
    sl_buf_deinit(&l.text);
}

/* Pieces of markup and of text in any order: cut in any way, the same. */
static void soup(void **state)
{
    static const char *const bits[] = {
        "<tool_call>",
        "</tool_call>",
        "\n",
        "<function=read>",
        "</function>",
        "<function=now",
        ">",
        "<parameter=path>",
        "<parameter=limit>\n",
        "<parameter=deep>",
        "</parameter>",
        "</parameter>\n",
        "<think>",
        "</think>",
        " ",
        "#",
        "<",
        "/",
        "\xc3\xa9",
        "7",
        "{",
        "}",
        "\"",
        "'",
        "{\"name\": \"read\", \"arguments\": ",
        "{'n': '1'}",
        "\\",
        ", ",
        ":",
        "<tool_call>\n<function=read>\n",
        "</function>\n</tool_call>\n",
        "null",
        "<parameter=",
        "< / parameter >",
        "</par",
        "<tool_c",
        "text ",
        "\n\n",
    };
    struct sl_buf s;
    uint64_t x = 1;
    bool cut[1024];

    (void)state;
    sl_buf_init(&s, sizeof(cut));
    for (int c = 0; c < 4000; c++) {
        struct sl_parse_opts o = c & 1 ? thinking() : closed();
        enum sl_parse_end end = c & 2 ? SL_PARSE_STOP : SL_PARSE_LENGTH;
        struct sl_buf want;

        o.style = c & 4 ? SL_PARSE_QWEN3_CODER : SL_PARSE_QWEN3_HERMES;
        sl_buf_reset(&s);
        for (int i = 0; i < 1 + c % 30; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            sl_buf_str(&s, bits[(x >> 33) % SL_COUNTOF(bits)]);
        }
        memset(cut, 0, sizeof(cut));
        want = line_of(&o, s.p, s.len, cut, end);
        for (int k = 0; k < 4; k++) {
            struct sl_buf got;

            for (size_t i = 0; i < s.len; i++) {
                x = x * 6364136223846793005u + 1442695040888963407u;
                cut[i] = ((unsigned char)s.p[i] & 0xc0) != 0x80 &&
                         (k == 0 || (x >> 40) % (uint64_t)(4 * k) == 0);
            }
            got = line_of(&o, s.p, s.len, cut, end);
            if (strcmp(got.p, want.p) != 0)
                print_error("case %d, cut %d: %s\n", c, k, s.p);
            assert_string_equal(got.p, want.p);
            sl_buf_deinit(&got);
        }
        sl_buf_deinit(&want);
    }
    sl_buf_deinit(&s);
}

/* ---- small things ---- */

static void starts(void **state)
{
    static const struct {
        const char *prompt;
        enum sl_parse_start want;
    } rows[] = {
        {"", SL_PARSE_THINK_NONE},
        {"<|im_start|>user\n<think><|im_end|>\n<|im_start|>assistant\n",
         SL_PARSE_THINK_NONE},
        {"<|im_start|>assistant\n<think>\n", SL_PARSE_THINK_OPEN},
        {"<|im_start|>assistant\n<think>\n\n</think>\n\n",
         SL_PARSE_THINK_CLOSED},
        {"<|im_start|>assistant\n<think>\na\n</think>\n\nx<|im_end|>\n"
         "<|im_start|>assistant\n<think>\n",
         SL_PARSE_THINK_OPEN},
        {"<think>", SL_PARSE_THINK_OPEN},
        {"</think>x", SL_PARSE_THINK_CLOSED},
    };
    enum sl_parse_style style;

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(rows); i++)
        assert_int_equal(
            sl_parse_start_of(rows[i].prompt, strlen(rows[i].prompt)),
            rows[i].want);
    assert_true(sl_parse_style_find("qwen3_xml", &style));
    assert_int_equal(style, SL_PARSE_QWEN3_CODER);
    assert_false(sl_parse_style_find("qwen4", &style));
}

static void whole_reply(void **state)
{
    static const char s[] =
        "hm</think>a" READ(PARAM("limit", "1")) "<tool_call>\n<function=read>\n"
                                                "<parameter=path>\nx";
    struct sl_parse_opts o = thinking();
    struct sl_parse *p = NULL;
    struct sl_reply r;

    (void)state;
    sl_reply_init(&r);
    assert_int_equal(sl_parse_open(&p, &o, NULL), 0);
    assert_true(sl_parse_is_reasoning(p));
    assert_int_equal(sl_parse_feed(p, s, sizeof(s) - 1, NULL), 0);
    assert_false(sl_parse_is_reasoning(p));
    assert_int_equal(sl_parse_finish(p, SL_PARSE_LENGTH, NULL), 0);
    assert_int_equal(sl_reply_take(&r, p, NULL), 0);
    assert_string_equal(r.reasoning.p, "hm");
    assert_string_equal(r.content.p, "a");
    assert_int_equal(r.n_call, 2);
    assert_string_equal(r.call[0].args.p, "{\"limit\": 1}");
    assert_true(r.call[0].complete);
    assert_string_equal(r.call[1].args.p, "{\"path\": \"x\"}");
    assert_false(r.call[1].complete);
    assert_string_not_equal(r.call[0].id, r.call[1].id);
    assert_true(r.ended);
    assert_int_equal(sl_parse_n_calls(p), 1);
    sl_parse_close(&p);
    sl_reply_deinit(&r);
}

/* What is no character becomes U+FFFD; what was left out is counted. */
static void replaces_and_counts(void **state)
{
    static const char s[] =
        "a\xff\xc3" READ(PARAM("limit", "1") PARAM("limit", "2"));
    struct sl_parse_opts o = closed();
    struct sl_parse *p = NULL;
    struct sl_reply r;

    (void)state;
    sl_reply_init(&r);
    assert_int_equal(sl_parse_open(&p, &o, NULL), 0);
    assert_int_equal(sl_parse_feed(p, s, sizeof(s) - 1, NULL), 0);
    assert_int_equal(sl_parse_finish(p, SL_PARSE_STOP, NULL), 0);
    assert_int_equal(sl_reply_take(&r, p, NULL), 0);
    assert_string_equal(r.content.p, "a\xef\xbf\xbd\xef\xbf\xbd");
    assert_int_equal(sl_parse_n_ignored(p), 1);
    sl_parse_close(&p);
    sl_reply_deinit(&r);
}

/* The n-th allocation fails, for every n, until none does. */
static void out_of_memory(void **state)
{
    static const char s[] =
        "hm</think>a " READ(PARAM("limit", "1") PARAM("deep", "{'a': '1'}"))
            CALL("{\"name\": \"now\", \"arguments\": {}}");
    struct sl_parse_opts o = thinking();
    int rc = -1;

    (void)state;
    for (uint64_t n = 1; rc; n++) {
        struct sl_parse *p = NULL;
        struct sl_reply r;
        struct sl_err err = {.code = SL_OK};

        assert_true(n < 1000);
        sl_reply_init(&r);
        sl_mem_fail_nth(n);
        rc = sl_parse_open(&p, &o, &err);
        if (!rc)
            rc = sl_parse_feed(p, s, sizeof(s) - 1, &err);
        if (!rc)
            rc = sl_reply_take(&r, p, &err);
        if (!rc)
            rc = sl_parse_finish(p, SL_PARSE_STOP, &err);
        if (!rc)
            rc = sl_reply_take(&r, p, &err);
        sl_mem_fail_nth(0);
        if (rc)
            assert_int_equal(rc, SL_ENOMEM);
        else
            assert_true(r.ended);
        sl_parse_close(&p);
        sl_reply_deinit(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_example),
        cmocka_unit_test(reasoning),
        cmocka_unit_test(content),
        cmocka_unit_test(missing_outer_tag),
        cmocka_unit_test(preamble),
        cmocka_unit_test(name),
        cmocka_unit_test(between_parameters),
        cmocka_unit_test(values),
        cmocka_unit_test(ends_inside),
        cmocka_unit_test(behind_a_call),
        cmocka_unit_test(json_calls),
        cmocka_unit_test(tags_by_id),
        cmocka_unit_test(tags_of_tokens),
        cmocka_unit_test(tag_is_cut),
        cmocka_unit_test(coercion_scalars),
        cmocka_unit_test(coercion_nested),
        cmocka_unit_test(coercion_unions),
        cmocka_unit_test(limits),
        cmocka_unit_test(streams_strings),
        cmocka_unit_test(soup),
        cmocka_unit_test(starts),
        cmocka_unit_test(whole_reply),
        cmocka_unit_test(replaces_and_counts),
        cmocka_unit_test(out_of_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
