/* tests/unit/test_chat.c - conversations, repaired and rendered
 *
 * The template here prints all it is given, so that a test sees what a template
 * sees. Run from the root of the repository.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "text/chat.h"

/* role:content of each message, then the calls, reasoning and tools. */
static const char show[] =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
    "{% for c in m.tool_calls %}[{{ c.function.name }}"
    "{{ c.function.arguments | tojson }}]{% endfor %}|{% endfor %}"
    "{% if tools %}tools={{ tools | length }}|{% endif %}"
    "{% if add_generation_prompt %}>{% endif %}";

/* Speaks of effort as Qwen3.8 does. */
static const char effort[] =
    "{{ enable_thinking }} {{ reasoning_effort | default('xhigh') }}";

static struct sl_chat *open_chat(const char *text)
{
    struct sl_chat *c = NULL;
    struct sl_err err = {.msg = ""};

    if (sl_chat_parse(&c, text, strlen(text), NULL, 0, "text", &err))
        print_error("%s\n", err.msg);
    assert_non_null(c);
    return c;
}

struct one {
    const char *messages, *tools, *kwargs;
    int rc;
    const char *want; /* the prompt, or a part of the message */
};

static void check(struct sl_chat *c, const struct one *t,
                  const struct sl_chat_opts *o)
{
    struct sl_err err = {.msg = ""};
    struct sl_buf out;
    bool ok;
    int rc;

    sl_buf_init(&out, 100000);
    rc =
        sl_chat_render_text(c, t->messages, t->tools, t->kwargs, o, &out, &err);
    ok = rc == t->rc &&
         (rc ? strstr(err.msg, t->want) != NULL : !strcmp(out.p, t->want));
    if (!ok)
        print_error("%s\nwant %d %s\ngot  %d %s\n", t->messages, t->rc, t->want,
                    rc, rc ? err.msg : out.p);
    assert_true(ok);
    sl_buf_deinit(&out);
}

static const struct one repaired[] = {
    {"[{'role':'user','content':'a'}]", NULL, NULL, 0, "user:a|>"},
    {"[{'role':'user','content':'a'}]", "[]", NULL, 0, "user:a|>"},
    {"[{'role':'user','content':'a'}]", "[{'type':'function'}]",
     "{'add_generation_prompt':false}", 0, "user:a|tools=1|"},
    {"[{'role':'developer','content':'s'},{'role':'user','content':'a'},"
     "{'role':'function','content':'r'}]",
     NULL, NULL, 0, "system:s|user:a|tool:r|>"},
    {"[{'role':'user','content':'a'},{'role':'system','content':'s'},"
     "{'role':'user','content':'b'},{'role':'developer','content':'t'}]",
     NULL, NULL, 0, "system:s\n\nt|user:a|user:b|>"},
    {"[{'role':'system','content':'s'}]", NULL, NULL, 0, "system:s|user:|>"},
    {"[{'role':'tool','content':'r'}]", NULL, NULL, 0, "user:|tool:r|>"},
    {"[{'role':'user','content':[{'type':'text','text':'a'},"
     "{'type':'input_text','text':'b'},{'type':'refusal','refusal':'c'}]}]",
     NULL, NULL, 0, "user:abc|>"},
    {"[{'role':'user','content':'q'},{'role':'assistant','content':null,"
     "'reasoning':'r','tool_calls':[{'type':'function','function':{'name':'f',"
     "'arguments':'{\\\"a\\\": [1, 2.0, null]}'}}]}]",
     NULL, NULL, 0, "user:q|assistant:(r)[f{\"a\": [1, 2.0, null]}]|>"},
    {"[{'role':'user','content':'q'},{'role':'assistant','tool_calls':["
     "{'function':{'name':'f','arguments':''}},"
     "{'function':{'name':'f','arguments':{'x':1}}},"
     "{'function':{'name':'f','arguments':'{\\\"cut'}},"
     "{'function':{'name':'g','arguments':'[1]'}},"
     "{'function':{'name':'g'}}]}]",
     "[{'type':'function','function':{'name':'f','parameters':"
     "{'required':['path']}}}]",
     NULL, 0,
     "user:q|assistant:[f{}][f{\"x\": 1}][f{\"path\": \"{\\\"cut\"}]"
     "[g{\"arguments\": \"[1]\"}][g{}]|tools=1|>"},
    /* What cannot be read is not lost, whatever is known of the tool. */
    {"[{'role':'user','content':'q'},{'role':'assistant','tool_calls':["
     "{'function':{'name':'f','arguments':'{\\\"cut'}},"
     "{'function':{'name':'f','arguments':['a',1]}},"
     "{'function':{'name':'f','arguments':null}},"
     "{'function':{'name':'h','arguments':'cut'}},"
     "{'function':{'name':'h','arguments':7}}]}]",
     "[{'type':'function','function':{'name':'f','parameters':"
     "{'properties':{'b':{},'a':{}},'required':[]}}}]",
     NULL, 0,
     "user:q|assistant:[f{\"b\": \"{\\\"cut\"}][f{\"b\": \"[\\\"a\\\",1]\"}]"
     "[f{}][h{\"arguments\": \"cut\"}][h{\"arguments\": \"7\"}]|tools=1|>"},
    /* Numbers beyond 64 bits do not make arguments unreadable. */
    {"[{'role':'user','content':'q'},{'role':'assistant','tool_calls':["
     "{'function':{'name':'f','arguments':'{\\\"id\\\": 18446744073709551615, "
     "\\\"b\\\": [false, 1e2, -1e999, \\\"1\\\\\\\"99999999999999999999\\\"]}'}}]}]",
     NULL, NULL, 0,
     "user:q|assistant:[f{\"id\": \"18446744073709551615\", \"b\": [false, 100.0, "
     "\"-1e999\", \"1\\\"99999999999999999999\"]}]|>"},
    {"[{'role':'user','content':'q'},{'role':'assistant','content':'x',"
     "'tool_calls':[]}]",
     NULL, NULL, 0, "user:q|assistant:x|>"},
    {"[{'role':'user','content':'q'},{'role':'assistant','content':'so  '}]",
     NULL, "{'continue_final_message':true}", 0, "user:q|assistant:so  "},
    {"[{'role':'user','content':'q'}]", NULL, "{'continue_final_message':true}",
     SL_EARG, "role 'user'"},
    {"[{'role':'user','content':'q'}]", NULL,
     "{'continue_final_message':true,'add_generation_prompt':true}", SL_EARG,
     "exclude"},
    {"[]", NULL, NULL, SL_EARG, "at least one"},
    {"{}", NULL, NULL, SL_EARG, "must be an array"},
    {"[1]", NULL, NULL, SL_EARG, "messages[0]"},
    {"[{'role':'user','content':'a'},{'content':'b'}]", NULL, NULL, SL_EARG,
     "messages[1] must be an object with a 'role'"},
    {"[{'role':'user','content':7}]", NULL, NULL, SL_EARG,
     "messages[0].content"},
    {"[{'role':'user','content':[{'type':'text','text':'a'},"
     "{'type':'image_url','image_url':{'url':'x'}}]}]",
     NULL, NULL, SL_EARG, "messages[0].content[1].type is 'image_url'"},
    {"[{'role':'user','content':[{'type':'text'}]}]", NULL, NULL, SL_EARG,
     "text is no text"},
    {"[{'role':'assistant','tool_calls':[{}]}]", NULL, NULL, SL_EARG,
     "tool_calls[0]"},
    {"[{'role':'assistant','tool_calls':7}]", NULL, NULL, SL_EARG,
     "must be an array"},
    {"[{'role':'user','content':'a'}", NULL, NULL, SL_EARG, "messages: line 1"},
    {"[{'role':'user','content':'a'}]", "{}", NULL, SL_EARG, "tools must be"},
    {"[{'role':'user','content':'a'}]", NULL, "[]", SL_EARG,
     "chat_template_kwargs must be an object"},
};

/* ' in the tables stands for ". */
static char *quoted(const char *s)
{
    struct sl_buf b;

    if (!s)
        return NULL;
    sl_buf_init(&b, 10000);
    for (; *s; s++)
        sl_buf_byte(&b, *s == '\'' ? '"' : *s);
    return b.p;
}

static void check_all(struct sl_chat *c, const struct one *t, size_t n,
                      const struct sl_chat_opts *o)
{
    for (size_t i = 0; i < n; i++) {
        char *m = quoted(t[i].messages), *tools = quoted(t[i].tools);
        char *kw = quoted(t[i].kwargs);
        struct one q = {m, tools, kw, t[i].rc, t[i].want};

        check(c, &q, o);
        sl_file_free(m);
        sl_file_free(tools);
        sl_file_free(kw);
    }
}

static char last_line[300];

static void take_line(void *ctx, enum sl_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    snprintf(last_line, sizeof(last_line), "%s", line);
}

/* What a client calls its tools is one value in the log. */
static void log_is_not_forged(void **state)
{
    static const struct one t = {
        "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\","
        "\"tool_calls\":[{\"function\":{\"name\":\"f http=200\","
        "\"arguments\":\"cut\"}}]}]",
        "[{\"type\":\"function\",\"function\":{\"name\":\"f http=200\","
        "\"parameters\":{\"required\":[\"a\\nid=1 key=2\"]}}}]",
        NULL, 0,
        "user:q|assistant:[f http=200{\"a\\nid=1 key=2\": \"cut\"}]|tools=1|>"};
    struct sl_chat *c = open_chat(show);
    struct sl_chat_opts o;

    (void)state;
    sl_chat_opts_init(&o);
    sl_log_set(take_line, NULL, SL_LOG_WARN);
    check(c, &t, &o);
    sl_log_set(NULL, NULL, SL_LOG_WARN);
    assert_string_equal(last_line,
                        "event=arguments_unreadable tool=f\\x20http=200 "
                        "kept_as=a\\x0aid=1\\x20key=2");
    sl_chat_close(&c);
}

static void repairs(void **state)
{
    struct sl_chat *c = open_chat(show);
    struct sl_chat_opts o;

    (void)state;
    sl_chat_opts_init(&o);
    check_all(c, repaired, SL_COUNTOF(repaired), &o);
    sl_chat_close(&c);
}

/* Nothing is repaired; null is dropped and reasoning named as transformers
 * does. */
static void as_is(void **state)
{
    static const struct one t[] = {
        {"[{'role':'system','content':'s'}]", NULL, NULL, 0, "system:s|>"},
        {"[{'role':'developer','content':'s'}]", NULL, NULL, 0,
         "developer:s|>"},
        {"[{'role':'assistant','content':null,'thinking':'t'}]", NULL, NULL, 0,
         "assistant:(t)|>"},
        {"[{'role':'assistant','tool_calls':[{'function':{'name':'f',"
         "'arguments':'{}'}}]}]",
         NULL, NULL, 0, "assistant:[f\"{}\"]|>"},
    };
    struct sl_chat *c = open_chat(show);
    struct sl_chat_opts o;

    (void)state;
    sl_chat_opts_init(&o);
    o.as_is = true;
    check_all(c, t, SL_COUNTOF(t), &o);
    sl_chat_close(&c);
}

static void efforts(void **state)
{
    static const struct {
        const char *effort, *kwargs, *want;
    } t[] = {
        {NULL, NULL, " xhigh"},
        {"none", NULL, "False xhigh"},
        {"minimal", NULL, "True low"},
        {"low", NULL, "True low"},
        {"medium", NULL, "True medium"},
        {"high", NULL, "True xhigh"},
        {"max", "{'enable_thinking':false}", "False xhigh"},
        {NULL, "{'reasoning_effort':'high'}", "True xhigh"},
        {"low", "{'reasoning_effort':'medium'}", "True medium"},
        {NULL, "{'reasoning_effort':'own word'}", " own word"},
    };
    struct sl_chat *c = open_chat(effort);
    struct one q = {"[{\"role\":\"user\",\"content\":\"a\"}]", NULL, NULL,
                    SL_EARG, "must be none, minimal"};
    struct sl_chat_opts o;

    (void)state;
    sl_chat_opts_init(&o);
    for (size_t i = 0; i < SL_COUNTOF(t); i++) {
        char *kw = quoted(t[i].kwargs);
        struct one r = {q.messages, NULL, kw, 0, t[i].want};

        o.reasoning_effort = t[i].effort;
        check(c, &r, &o);
        sl_file_free(kw);
    }
    o.reasoning_effort = "huge";
    check(c, &q, &o);
    o.reasoning_effort = NULL;
    o.enable_thinking = SL_CHAT_OFF;
    q = (struct one){q.messages, NULL, NULL, 0, "False xhigh"};
    check(c, &q, &o);
    sl_chat_close(&c);
}

/* The mark of a continued message: kept blanks, trimmed blanks, parts. */
static void continuing(void **state)
{
    static const char trims[] =
        "{% for m in messages %}<{{ m.content | trim }}>{% endfor %}";
    static const struct one t[] = {
        {"[{'role':'user','content':'q'},{'role':'assistant','content':'so '}]",
         NULL, NULL, 0, "<q><so"},
        {"[{'role':'user','content':'q'},{'role':'assistant','content':["
         "{'type':'text','text':'a'},{'type':'text','text':'b'}]}]",
         NULL, NULL, 0, "<q><ab"},
    };
    static const struct one dropped = {
        "[{\"role\":\"assistant\",\"content\":\"a\"}]", NULL, NULL, SL_EARG,
        "drops the text"};
    struct sl_chat *c = open_chat(trims), *d = open_chat("nothing");
    struct sl_chat_opts o;

    (void)state;
    sl_chat_opts_init(&o);
    o.add_generation_prompt = false;
    o.continue_final_message = true;
    check_all(c, t, SL_COUNTOF(t), &o);
    check(d, &dropped, &o);
    sl_chat_close(&c);
    sl_chat_close(&d);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[300];

    assert_int_equal(sl_path_join(path, sizeof(path), dir, name, NULL), 0);
    if (text)
        assert_int_equal(sl_file_write(path, text, strlen(text), NULL), 0);
    else
        unlink(path);
}

/* Where the template comes from, and the tokens it may name. */
static void folders(void **state)
{
    static const char conf[] =
        "{\"bos_token\": null, \"eos_token\": {\"content\": \"<e>\"},"
        " \"chat_template\": [{\"name\": \"default\", \"template\":"
        " \"plain{{ bos_token }}{{ eos_token }}\"}, {\"name\": \"tool_use\","
        " \"template\": \"tooled\"}]}";
    static const struct one plain = {"[{\"role\":\"user\",\"content\":\"a\"}]",
                                     NULL, NULL, 0, "plain<e>"};
    static const struct one tooled = {"[{\"role\":\"user\",\"content\":\"a\"}]",
                                      "[{}]", NULL, 0, "tooled"};
    static const struct one file = {"[{\"role\":\"user\",\"content\":\"a\"}]",
                                    "[{}]", NULL, 0, "file<e>"};
    char dir[] = "/tmp/sluice-chat-XXXXXX";
    struct sl_chat *c = NULL;
    struct sl_err err = {.msg = ""};
    struct sl_chat_opts o;

    (void)state;
    assert_non_null(mkdtemp(dir));
    sl_chat_opts_init(&o);
    assert_int_equal(sl_chat_load(&c, dir, &err), SL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "--chat-template"));
    write_file(dir, "tokenizer_config.json", conf);
    assert_int_equal(sl_chat_load(&c, dir, &err), 0);
    check(c, &plain, &o);
    check(c, &tooled, &o);
    sl_chat_close(&c);
    write_file(dir, "chat_template.jinja", "file{{ eos_token }}\n");
    assert_int_equal(sl_chat_load(&c, dir, &err), 0);
    check(c, &file, &o);
    assert_true(sl_chat_mentions(c, "eos_token"));
    sl_chat_close(&c);
    write_file(dir, "chat_template.jinja", "a\n{% if %}");
    assert_int_equal(sl_chat_load(&c, dir, &err), SL_EFORMAT);
    assert_non_null(strstr(err.msg, "line 2, column 7"));
    write_file(dir, "chat_template.jinja", NULL);
    write_file(dir, "tokenizer_config.json", "{\"chat_template\": 7}");
    assert_int_equal(sl_chat_load(&c, dir, &err), SL_EFORMAT);
    write_file(dir, "tokenizer_config.json", NULL);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repairs),
        cmocka_unit_test(log_is_not_forged), cmocka_unit_test(as_is),
        cmocka_unit_test(efforts), cmocka_unit_test(continuing),
        cmocka_unit_test(folders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
