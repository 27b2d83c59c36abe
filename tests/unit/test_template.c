/* tests/unit/test_template.c - chat templates against the reference
 *
 * The cases of tests/golden/templates were rendered by Jinja with the settings
 * of transformers. Where a case is marked as not needed we may refuse, but not
 * differ. Run from the root of the repository.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/template.h"

#define DIR "tests/golden/templates/"
#define MAX_FILE ((size_t)16 << 20)

/* Render `text`; the result is in out or err. */
static int render(const char *text, size_t len, const json_t *vars,
                  struct sl_buf *out, struct sl_err *err)
{
    struct sl_template_opts o;
    struct sl_template *t = NULL;
    int rc = sl_template_open(&t, text, len, "test", err);

    sl_template_opts_init(&o);
    o.now_s = 1700000000; /* 2023-11-14 22:13:20 */
    if (!rc)
        rc = sl_template_render(t, vars, &o, out, err);
    sl_template_close(&t);
    return rc;
}

/* The source of a case: in it, or in a file beside it. */
static int source(const json_t *c, char **text, size_t *len)
{
    const json_t *s = json_object_get(c, "source");
    const char *name = json_string_value(json_object_get(c, "template"));
    char path[200];
    struct sl_err err;

    if (s) {
        *len = json_string_length(s);
        return sl_mem_dup(text, json_string_value(s), *len, &err);
    }
    assert_int_equal(sl_path_join(path, sizeof(path), DIR, name, &err), 0);
    return sl_file_read(text, len, path, MAX_FILE, &err);
}

static json_t *variables(const json_t *c)
{
    json_t *v = json_pack("{s:[],s:n,s:n,s:b}", "messages", "tools",
                          "documents", "add_generation_prompt", 0);
    json_t *own = json_object_get(c, "vars");

    assert_non_null(v);
    if (own)
        assert_int_equal(json_object_update(v, own), 0);
    return v;
}

static bool one_case(const json_t *c, size_t n)
{
    const json_t *want = json_object_get(c, "out");
    const char *error = json_string_value(json_object_get(c, "error"));
    bool raised = json_is_true(json_object_get(c, "raised"));
    json_t *vars = variables(c);
    struct sl_err err = {.msg = ""};
    struct sl_buf out;
    char *text = NULL;
    size_t len = 0;
    bool ok;
    int rc;

    assert_int_equal(source(c, &text, &len), 0);
    sl_buf_init(&out, MAX_FILE);
    rc = render(text, len, vars, &out, &err);
    if (want && rc == 0)
        ok = out.len == json_string_length(want) &&
             (out.len == 0 ||
              memcmp(out.p, json_string_value(want), out.len) == 0);
    else if (want)
        ok = !json_is_true(json_object_get(c, "need"));
    else
        ok = rc != 0 && (!raised || strcmp(err.msg, error) == 0);
    if (!ok)
        print_error(
            "line %zu: %.*s\nwant %s\ngot  %s\n", n + 1, (int)sl_min(len, 300),
            text, want ? json_string_value(want) : error, rc ? err.msg : out.p);
    sl_mem_free(text);
    sl_buf_deinit(&out);
    json_decref(vars);
    return ok;
}

static void golden_cases(void **state)
{
    char *text, *p, *end;
    size_t len, n = 0, bad = 0;
    json_error_t je;

    (void)state;
    assert_int_equal(
        sl_file_read(&text, &len, DIR "cases.jsonl", MAX_FILE, NULL), 0);
    for (p = text; p < text + len; p = end + 1, n++) {
        json_t *c;

        end = strchr(p, '\n');
        assert_non_null(end);
        c = json_loadb(p, (size_t)(end - p), JSON_ALLOW_NUL, &je);
        assert_non_null(c);
        bad += !one_case(c, n);
        json_decref(c);
    }
    sl_mem_free(text);
    print_message("%zu cases, %zu differ\n", n, bad);
    assert_int_equal(bad, 0);
}

/* What goes wrong, and what the message must hold. */
static void refusals(void **state)
{
    static const struct {
        const char *text;
        int rc;
        const char *part;
    } bad[] = {
        {"a\n  {% foo %}", SL_EFORMAT, "line 2, column 6"},
        {"{{ x|nofilter }}", SL_EFORMAT, "no filter 'nofilter'"},
        {"{{ x is notest }}", SL_EFORMAT, "no test 'notest'"},
        {"{% if a %}", SL_EFORMAT, "'elif' is missing"},
        {"{% for x in y %}", SL_EFORMAT, "'endfor' is missing"},
        {"{{ 'abc }}", SL_EFORMAT, "no end"},
        {"{# abc", SL_EFORMAT, "no end"},
        {"{% raw %} abc", SL_EFORMAT, "no end"},
        {"{% break %}", SL_EFORMAT, "no loop"},
        {"{% block a %}{% endblock %}", SL_EFORMAT, "not supported"},
        {"{{ ) }}", SL_EFORMAT, "closes nothing"},
        {"{{ 1", SL_EFORMAT, "'}}' is wanted"},
        {"{{ x.y }}", SL_EARG, "line 1, column 5: 'x' is undefined"},
        {"{{ {}.a.b }}", SL_EARG, "'dict object' has no attribute 'a'"},
        {"\n{{ 1 // 0 }}", SL_EARG, "line 2, column 6: division by zero"},
        {"{{ raise_exception('no ' ~ 1) }}", SL_EARG, "no 1"},
        /* What failed was once looked into by the expression around it. */
        {"{{ not 1|list|string }}", SL_EARG, "not iterable"},
        {"{{ 9223372036854775807 + 1 }}", SL_EUNSUP, "63 bits"},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", SL_EARG,
         "nests deeper"},
        {"{% for a in range(99999) %}{% for b in range(100) %}{% if b * b %}{% endif %}{% endfor %}"
         "{% endfor %}",
         SL_EARG, "too many steps"},
        {"{% set ns = namespace(s='0123456789abcdef') %}"
         "{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
         SL_EARG, "bytes of memory"},
        {"{% for i in range(99999) %}{{ '0123456789abcdef' * 20 }}"
         "{% endfor %}",
         SL_EARG, "longer than"},
    };
    json_t *vars = json_object();

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(bad); i++) {
        struct sl_err err = {.msg = ""};
        struct sl_buf out;
        int rc;

        sl_buf_init(&out, MAX_FILE);
        rc = render(bad[i].text, strlen(bad[i].text), vars, &out, &err);
        if (rc != bad[i].rc || !strstr(err.msg, bad[i].part))
            print_error("%s\nwant %d %s\ngot  %d %s\n", bad[i].text, bad[i].rc,
                        bad[i].part, rc, err.msg);
        assert_int_equal(rc, bad[i].rc);
        assert_non_null(strstr(err.msg, bad[i].part));
        assert_int_equal(out.len, 0);
        sl_buf_deinit(&out);
    }
    json_decref(vars);
}

/* Brackets, statements, operators: too deep is refused, not a crash. */
static void depth(void **state)
{
    static const struct {
        const char *before, *open, *mid, *close;
    } form[] = {
        {"{{ ", "(", "1", ")"},
        {"{{ ", "[", "", "]"},
        {"{{ ", "{1:", "1", "}"},
        {"{{ ", "-", "1", ""},
        {"{{ ", "not ", "1", ""},
        {"{{ 1", " + 1", "", ""},
        {"{{ 1", "|abs", "", ""},
        {"{{ a", ".a", "", ""},
        {"{{ 1", " if 1 else 1", "", ""},
        {"{{ '", "\\x41", "'", ""},
        {"", "{% if 1 %}", "", "{% endif %}"},
        {"", "{% for a in b %}", "", "{% endfor %}"},
        {"", "{% macro a() %}", "", "{% endmacro %}"},
        {"", "{% set a %}", "", "{% endset %}"},
        {"", "{% with %}", "", "{% endwith %}"},
    };
    json_t *vars = json_object();

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(form); i++) {
        struct sl_buf text, out;
        struct sl_err err;

        sl_buf_init(&text, MAX_FILE);
        sl_buf_init(&out, MAX_FILE);
        sl_buf_str(&text, form[i].before);
        for (int k = 0; k < 20000; k++)
            sl_buf_str(&text, form[i].open);
        sl_buf_str(&text, form[i].mid);
        for (int k = 0; k < 20000; k++)
            sl_buf_str(&text, form[i].close);
        if (form[i].before[0])
            sl_buf_str(&text, " }}");
        (void)render(text.p, text.len, vars, &out, &err);
        sl_buf_deinit(&text);
        sl_buf_deinit(&out);
    }
    json_decref(vars);
}

static void clock_and_mentions(void **state)
{
    static const char text[] = "{{ strftime_now('%Y-%m-%d %H:%M:%S %j %a') }}"
                               "{% if not_this %}{{ thinking_on }}{% endif %}";
    struct sl_template *t = NULL;
    struct sl_template_opts o;
    json_t *vars = json_object();
    struct sl_buf out;
    struct sl_err err;

    (void)state;
    sl_template_opts_init(&o);
    o.now_s = 1709164800 + 3661; /* a leap day */
    sl_buf_init(&out, 1000);
    sl_buf_str(&out, "before:");
    assert_int_equal(sl_template_open(&t, text, sizeof(text) - 1, "test", &err),
                     0);
    assert_int_equal(sl_template_render(t, vars, &o, &out, &err), 0);
    assert_string_equal(out.p, "before:2024-02-29 01:01:01 060 Thu");
    assert_true(sl_template_mentions(t, "not_this"));
    assert_true(sl_template_mentions(t, "thinking_on"));
    assert_false(sl_template_mentions(t, "thinking"));
    sl_template_close(&t);
    sl_buf_deinit(&out);
    json_decref(vars);
}

/* Every allocation fails once; nothing leaks, nothing crashes. */
static void no_memory(void **state)
{
    static const char text[] =
        "{% macro m(a) %}{{ a|upper }}{% endmacro %}"
        "{% for x in xs %}{{ loop.index }}{{ m(x ~ 'y') }}{% endfor %}";
    json_t *vars = json_pack("{s:[s,s]}", "xs", "a", "b");
    int rc = SL_ENOMEM;

    (void)state;
    for (uint64_t n = 1; rc; n++) {
        struct sl_err err = {.msg = ""};
        struct sl_buf out;

        sl_buf_init(&out, 1000);
        sl_mem_fail_nth(n);
        rc = render(text, sizeof(text) - 1, vars, &out, &err);
        sl_mem_fail_nth(0);
        if (rc)
            assert_int_equal(rc, SL_ENOMEM);
        else
            assert_string_equal(out.p, "1AY2BY");
        sl_buf_deinit(&out);
        assert_true(n < 10000);
    }
    json_decref(vars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_cases), cmocka_unit_test(refusals),
        cmocka_unit_test(depth),        cmocka_unit_test(clock_and_mentions),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
