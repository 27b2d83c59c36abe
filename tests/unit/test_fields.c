/* The fields of a request: what is taken, what is refused and by which name.
 * Each case is a body; the server's end-to-end tests send more of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "server/json_in.h"
#include "server/json_out.h"
#include "server/keys.h"
#include "server/request.h"

#define P SL_REQUEST_COMPLETION
#define C SL_REQUEST_CHAT

/* 0, or the status of the refusal. */
static int read_request(struct sl_request *q, enum sl_request_kind kind,
                        const char *body, struct sl_refusal *r)
{
    json_t *root = NULL;
    char *text = strdup(body);

    *r = (struct sl_refusal){0};
    *q = (struct sl_request){0};
    if (!sl_json_in(&root, text, strlen(text), r))
        (void)sl_request_init(q, kind, root, r);
    free(text);
    return r->status;
}

static void lenient(void **state)
{
    struct sl_refusal r;
    struct sl_request q;

    (void)state;
    assert_int_equal(
        read_request(&q, P,
                     "{\"prompt\": \"a\", \"max_tokens\": \"12\", \"n\": 2.0,"
                     "\"temperature\": \"0.5\", \"top_k\": 5e0, \"seed\": -1,"
                     "\"stop\": [null, \"x\"], \"logprobs\": null,"
                     "\"logit_bias\": {\"7\": 500, \"8\": \"-1\"},"
                     "\"stop_token_ids\": [\"3\"], \"whatever\": {}}",
                     &r),
        0);
    assert_true(q.max_tokens.has && q.max_tokens.v == 12);
    assert_true(q.n.has && q.n.v == 2);
    assert_true(q.temperature.has && q.temperature.v == 0.5);
    assert_true(q.top_k.has && q.top_k.v == 5);
    assert_false(q.seed.has);
    assert_false(q.logprobs.has);
    assert_int_equal(q.n_stop, 1);
    assert_string_equal(q.stop[0], "x");
    assert_int_equal(q.n_bias, 2);
    assert_true(q.bias[0] == 100 && q.bias[1] == -1);
    assert_int_equal(q.n_stop_ids, 1);
    assert_int_equal(q.stop_ids[0], 3);
    assert_int_equal(q.n_prompt, 1);
    sl_request_deinit(&q);
    assert_int_equal(read_request(&q, P, "{\"prompt\": [[1, 2], [3]],"
                                         "\"max_completion_tokens\": 4,"
                                         "\"max_tokens\": 9}",
                                  &r),
                     0);
    assert_int_equal(q.n_prompt, 2);
    assert_null(q.prompt[0].text);
    assert_int_equal(q.max_tokens.v, 4);
    sl_request_deinit(&q);
}

static const struct {
    enum sl_request_kind kind;
    const char *fields; /* beside the prompt or the messages */
    const char *param;
} refused[] = {
    {P, "\"temperature\": true", "temperature"},
    {P, "\"temperature\": 2.01", "temperature"},
    {P, "\"top_p\": 0", "top_p"},
    {P, "\"n\": 129", "n"},
    {P, "\"max_tokens\": 0", "max_tokens"},
    {P, "\"max_tokens\": 1.5", "max_tokens"},
    {P, "\"logprobs\": 21", "logprobs"},
    {P, "\"logprobs\": true", "logprobs"},
    {P, "\"stop\": \"\"", "stop"},
    {P, "\"stop\": [\"a\", 1]", "stop[1]"},
    {P, "\"stop\": \"a\\u0000b\"", "stop"},
    {P, "\"logit_bias\": {\"x\": 1}", "logit_bias.x"},
    {P, "\"logit_bias\": {\"1\": true}", "logit_bias.1"},
    {P, "\"logit_bias\": {\"01\": 1}", "logit_bias.01"},
    {P, "\"stream_options\": {}", "stream_options"},
    {P, "\"stream\": true, \"stream_options\": {\"include_usage\": 1}",
     "stream_options.include_usage"},
    {P, "\"suffix\": \"x\"", "suffix"},
    {P, "\"best_of\": 2", "best_of"},
    {P, "\"prompt_logprobs\": -1", "prompt_logprobs"},
    {C, "\"prompt_logprobs\": 1, \"stream\": true", "prompt_logprobs"},
    {P, "\"bad_words\": [\"a\", \"  \"]", "bad_words[1]"},
    {P, "\"request_id\": \"a\\nb\"", "request_id"},
    {P, "\"cache_salt\": \"\"", "cache_salt"},
    {P, "\"truncate_prompt_tokens\": 0", "truncate_prompt_tokens"},
    {C, "\"echo\": true", "echo"},
    {C, "\"logprobs\": 1", "logprobs"},
    {C, "\"top_logprobs\": 1", "top_logprobs"},
    {C, "\"tools\": []", "tools"},
    {C, "\"tools\": [{\"type\": \"x\"}]", "tools[0].type"},
    {C, "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a\"}},"
        "{\"type\": \"function\", \"function\": {\"name\": \"a\"}}]",
     "tools[1].function.name"},
    {C, "\"tool_choice\": \"auto\"", "tool_choice"},
    {C, "\"reasoning\": {\"effort\": \"no\"}", "reasoning.effort"},
    {C, "\"response_format\": {\"type\": \"json_schema\"}",
     "response_format.json_schema.schema"},
    {C, "\"grammar\": \"a\", \"guided_regex\": \"a\"", "grammar"},
    {C, "\"tool_choice\": \"required\"", "tool_choice"},
    {C, "\"continue_final_message\": true", "continue_final_message"},
    {C, "\"chat_template_kwargs\": 1", "chat_template_kwargs"},
    {C, "\"functions\": []", "functions"},
};

static void refusals(void **state)
{
    struct sl_refusal r;
    struct sl_request q;
    char body[1000];

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(refused); i++) {
        snprintf(body, sizeof(body), "{%s, %s}",
                 refused[i].kind == P
                     ? "\"prompt\": \"a\""
                     : "\"messages\": [{\"role\": \"user\", \"content\": \"\"}]",
                 refused[i].fields);
        if (read_request(&q, refused[i].kind, body, &r) != 400 ||
            strcmp(r.param, refused[i].param))
            fail_msg("%s: %d %s %s", body, r.status, r.param, r.message);
        assert_true(strlen(r.message) > 10);
        sl_request_deinit(&q);
    }
}

static void template_variables(void **state)
{
    struct sl_refusal r;
    struct sl_request q;

    (void)state;
    assert_int_equal(
        read_request(&q, C,
                     "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}],"
                     "\"reasoning_effort\": \"none\","
                     "\"chat_template_kwargs\": {\"a\": 1}}",
                     &r),
        0);
    assert_true(json_is_false(json_object_get(q.kwargs, "enable_thinking")));
    assert_int_equal(json_integer_value(json_object_get(q.kwargs, "a")), 1);
    sl_request_deinit(&q);
}

static void json(void **state)
{
    struct sl_refusal r = {0};
    json_t *j = NULL;
    char lone[] = "\xef\xbb\xbf{\"a\":\"\\ud83d x\",\"b\":\"\\ud83d\\ude00\","
                  "\"c\":\"\\\\ud800\",\"a2\":1,\"a2\":2}";
    char deep[400] = "";

    (void)state;
    assert_int_equal(sl_json_in(&j, lone, strlen(lone), &r), 0);
    assert_string_equal(json_string_value(json_object_get(j, "a")),
                        "\xef\xbf\xbd x");
    assert_string_equal(json_string_value(json_object_get(j, "b")),
                        "\xf0\x9f\x98\x80");
    assert_string_equal(json_string_value(json_object_get(j, "c")), "\\ud800");
    assert_int_equal(json_integer_value(json_object_get(j, "a2")), 2);
    json_decref(j);
    memset(deep, '[', 200);
    memset(deep + 200, ']', 199);
    assert_int_equal(sl_json_in(&j, deep, strlen(deep), &r), -1);
    assert_int_equal(r.status, 400);
}

static void numbers(void **state)
{
    static const struct {
        double x;
        const char *want;
    } cases[] = {{0, "0.0"},     {1, "1.0"},      {-0.1f, "-0.1"},
                 {1e-20f, "1e-20"}, {-INFINITY, "-9999.0"}};
    struct sl_buf b;

    (void)state;
    sl_buf_init(&b, 1000);
    for (size_t i = 0; i < SL_COUNTOF(cases); i++) {
        sl_buf_reset(&b);
        sl_json_put_float(&b, (float)cases[i].x);
        assert_string_equal(b.p, cases[i].want);
    }
    sl_buf_reset(&b);
    sl_json_put_str(&b, "a\n\"\\\x01\xff\xc3\xa9", 8);
    assert_string_equal(b.p, "\"a\\n\\\"\\\\\\u0001\xef\xbf\xbd\xc3\xa9\"");
    sl_buf_deinit(&b);
}

/* Whose request one with these header lines is. */
static uint64_t whose(const struct sl_keys *k, const char *headers)
{
    static struct sl_message m;
    char text[300];
    uint64_t id;

    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n%s\r\n", headers);
    sl_message_init(&m, 0);
    sl_message_feed(&m, text, strlen(text));
    assert_int_equal(m.state, SL_MESSAGE_DONE);
    id = sl_keys_find(k, &m);
    sl_message_deinit(&m);
    return id;
}

static uint64_t key_id(const struct sl_keys *k, const char *key)
{
    char line[100];
    uint64_t id;

    snprintf(line, sizeof(line), "X-Api-Key: %s\r\n", key);
    id = whose(k, line);
    assert_int_not_equal(id, 0);
    return id;
}

static void keys(void **state)
{
    static const char *const text[] = {"one,two", "three", ",one"};
    static const struct {
        const char *headers, *whose; /* NULL: nobody's */
    } cases[] = {
        {"Authorization: Bearer two\r\n", "two"},
        {"authorization: bEARER  one \t\r\n", "one"},
        {"X-Api-Key: three\r\n", "three"},
        {"X-Api-Key: four\r\nHost: h\r\n", "four"},
        {"Authorization: Bearer six six\r\n", "six six"},
        {"X-Api-Key: seven\r\n", "seven"}, /* behind the file's mark */
        {"Authorization: Basic b25l\r\nX-Api-Key: one\r\n", "one"},
        {"X-Api-Key: one\r\nAuthorization: Bearer one\r\n", "one"},
        {"Host: h\r\n", NULL},
        {"Authorization: Bearer five\r\n", NULL},
        {"Authorization: Bearer # four\r\n", NULL},
        {"Authorization: Basic one\r\n", NULL},
        {"Authorization: Bearer \r\n", NULL},
        {"Authorization: Bearer\r\n", NULL},
        /* Two that differ, in any order: nobody can say whose it is. */
        {"Authorization: Bearer five\r\nX-Api-Key: one\r\n", NULL},
        {"X-Api-Key: one\r\nAuthorization: Bearer five\r\n", NULL},
        {"Authorization: Bearer one\r\nX-Api-Key: five\r\n", NULL},
        {"Authorization: Bearer one\r\nX-Api-Key: two\r\n", NULL},
        {"X-Api-Key: five\r\nX-Api-Key: one\r\n", NULL},
    };
    char path[] = "/tmp/sluice-keys-XXXXXX";
    struct sl_keys_from from = {text, 3, path}, none = {text + 3, 0, NULL};
    struct sl_keys k = {0};
    struct sl_err err;
    uint32_t n;

    (void)state;
    close(mkstemp(path));
    assert_int_equal(sl_file_write(path,
                                   "\xef\xbb\xbf"
                                   "seven\n# four\n\n\tfour\r\nsix six",
                                   31, &err),
                     0);
    assert_int_equal(sl_keys_load(&k, &none, &err), 0);
    assert_int_equal(k.n, 0);
    assert_int_equal(sl_keys_load(&k, &from, &err), 0);
    assert_int_equal(k.n, 6);
    for (size_t i = 0; i < SL_COUNTOF(cases); i++)
        if (whose(&k, cases[i].headers) !=
            (cases[i].whose ? key_id(&k, cases[i].whose) : 0))
            fail_msg("case %zu: %s", i, cases[i].headers);
    /* What cannot be read changes nothing; nor does what would let all in. */
    n = k.n;
    unlink(path);
    assert_int_equal(sl_keys_load(&k, &from, &err), SL_ENOTFOUND);
    from = (struct sl_keys_from){(const char *const[]){" ,"}, 1, NULL};
    assert_int_equal(sl_keys_load(&k, &from, &err), SL_EARG);
    assert_int_equal(sl_file_write(path, "# none\n", 7, &err), 0);
    from = (struct sl_keys_from){NULL, 0, path};
    assert_int_equal(sl_keys_load(&k, &from, &err), SL_EARG);
    /* A zero would end the text, and the keys behind it be lost unseen. */
    assert_int_equal(sl_file_write(path, "one\n\0two\n", 9, &err), 0);
    assert_int_equal(sl_keys_load(&k, &from, &err), SL_EARG);
    assert_int_equal(k.n, n);
    unlink(path);
    sl_keys_deinit(&k);
}

static void clients(void **state)
{
    (void)state;
    /* A key, wherever it is used; else an address, in whatever form. */
    assert_int_equal(sl_keys_client(2, "10.0.0.1"), sl_keys_client(2, "::1"));
    assert_int_not_equal(sl_keys_client(1, "::1"), sl_keys_client(2, "::1"));
    assert_int_not_equal(sl_keys_client(0, "10.0.0.1"),
                         sl_keys_client(0, "10.0.0.2"));
    assert_int_equal(sl_keys_client(0, "10.0.0.1"),
                     sl_keys_client(0, "::ffff:10.0.0.1"));
    assert_int_equal(sl_keys_client(0, "2001:db8:0:7::1"),
                     sl_keys_client(0, "2001:db8:0:7:8::2"));
    assert_int_not_equal(sl_keys_client(0, "2001:db8:0:7::1"),
                         sl_keys_client(0, "2001:db8:0:8::1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lenient),  cmocka_unit_test(refusals),
        cmocka_unit_test(template_variables),
        cmocka_unit_test(json),     cmocka_unit_test(numbers),
        cmocka_unit_test(keys),     cmocka_unit_test(clients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
