/* tests/unit/test_base_option.c - the table of options and its sources */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/option.h"

#define LINE(o, ...)                                                           \
    line(o, (const char *[]){__VA_ARGS__},                                     \
         SL_COUNTOF(((const char *[]){__VA_ARGS__})))

static struct sl_err err;

static int line(struct sl_opts *o, const char **argv, size_t n)
{
    sl_opts_init(o, SL_VERB_RUN);
    return sl_opts_line(o, (int)n, (char *const *)(uintptr_t)argv, &err);
}

static void refused(const char *flag, const char *value, const char *message)
{
    struct sl_opts o;
    int rc = value ? LINE(&o, flag, value) : LINE(&o, flag);

    assert_int_equal(rc, SL_EARG);
    if (!strstr(err.msg, message))
        print_message("got: %s\n", err.msg);
    assert_non_null(strstr(err.msg, message));
}

/* Every line of the table is well formed. */
static void table_is_sound(void **s)
{
    char a[SL_OPT_ENV_LEN], b[SL_OPT_ENV_LEN];

    (void)s;
    for (int i = 0; i < SL_N_OPT; i++) {
        const struct sl_opt *d = sl_opt_get((enum sl_opt_id)i);
        struct sl_opts o;

        assert_true(strlen(d->name) <= 48 && strlen(d->name) > 1);
        assert_true(d->verbs != 0);
        assert_true(d->help[strlen(d->help) - 1] == '.');
        /* Verbs that have nothing in common may use one name. */
        for (int k = 0; k < i; k++) {
            if (!(d->verbs & sl_opt_get((enum sl_opt_id)k)->verbs))
                continue;
            sl_opt_env_name(a, (enum sl_opt_id)i);
            sl_opt_env_name(b, (enum sl_opt_id)k);
            assert_string_not_equal(a, b);
            /* There is one list. */
            assert_false(d->type == SL_VAL_TEXTS &&
                         sl_opt_get((enum sl_opt_id)k)->type == SL_VAL_TEXTS);
        }
        /* A default is a value that the option itself accepts, or a word. */
        if (d->type == SL_VAL_TEXT || d->type == SL_VAL_TEXTS ||
            d->type == SL_VAL_BOOL ||
            (d->type != SL_VAL_CHOICE && !strchr("-0123456789", d->def[0])))
            continue;
        sl_opts_init(&o, (enum sl_verb)(d->verbs & (~d->verbs + 1)));
        snprintf(a, sizeof(a), "--%s", d->name);
        if (sl_opts_line(&o, 2, (char *[]){a, (char *)(uintptr_t)d->def}, &err))
            fail_msg("--%s: %s", d->name, err.msg);
    }
}

static void types(void **s)
{
    struct sl_opts o;

    (void)s;
    assert_int_equal(LINE(&o, "--threads", "3", "--temperature=0.5", "--seed",
                          "9223372036854775807", "--no-pin", "--raw",
                          "--kv-dtype", "fp32", "--stop", "a", "--stop", "b",
                          "--max-tokens", "2k", "-c", "4K"),
                     0);
    assert_int_equal(o.value[SL_OPT_THREADS].i, 3);
    assert_true(o.value[SL_OPT_TEMPERATURE].f == 0.5);
    assert_true(o.value[SL_OPT_SEED].i == INT64_MAX);
    assert_int_equal(o.value[SL_OPT_PIN].i, 0);
    assert_int_equal(o.value[SL_OPT_RAW].i, 1);
    assert_int_equal(o.value[SL_OPT_KV_DTYPE].i, 1);
    assert_int_equal(o.value[SL_OPT_MAX_TOKENS].i, 2000);
    assert_int_equal(o.value[SL_OPT_MAX_MODEL_LEN].i, 4096);
    assert_int_equal(o.n_list, 2);
    assert_string_equal(o.list[1], "b");
    assert_true(sl_opts_has(&o, SL_OPT_SEED));
    assert_false(sl_opts_has(&o, SL_OPT_TOP_P));
}

static void spellings(void **s)
{
    struct sl_opts o;

    (void)s;
    assert_int_equal(LINE(&o, "--kv_cache_dtype", "auto"), SL_EARG);
    assert_int_equal(LINE(&o, "--kv-cache-dtype", "auto"), 0);
    assert_int_equal(o.value[SL_OPT_KV_DTYPE].i, 0);
    assert_int_equal(LINE(&o, "--kv-cache-dtype", "bfloat16"), 0);
    assert_int_equal(LINE(&o, "--max_model_len", "100"), 0);
    assert_int_equal(o.value[SL_OPT_MAX_MODEL_LEN].i, 100);
    assert_int_equal(LINE(&o, "-np", "4"), 0);
    assert_int_equal(o.value[SL_OPT_MAX_NUM_SEQS].i, 4);
    assert_int_equal(LINE(&o, "--no_think"), 0);
    assert_int_equal(o.value[SL_OPT_THINK].i, 0);
    assert_true(sl_opts_has(&o, SL_OPT_THINK));
    assert_int_equal(LINE(&o, "--block-size", "64"), 0);
    assert_true(sl_opt_is_always(SL_OPT_BLOCK_SIZE));
}

static void arguments(void **s)
{
    struct sl_opts o;

    (void)s;
    assert_int_equal(LINE(&o, "demo", "-", "--raw", "--", "--seed"), 0);
    assert_int_equal(o.n_arg, 3);
    assert_string_equal(o.arg[0], "demo");
    assert_string_equal(o.arg[1], "-");
    assert_string_equal(o.arg[2], "--seed");
}

static void refusals(void **s)
{
    (void)s;
    refused("--temprature", "1", "did you mean '--temperature'?");
    refused("--xyzzy", NULL, "'sluice run --help' lists them");
    refused("-Q", NULL, "unknown option '-Q'");
    refused("--special", NULL, "unknown option"); /* tokenize has it */
    refused("--threads", NULL, "--threads needs a value: N");
    refused("--threads", "many", "--threads: 'many' is not a number");
    refused("--threads", "1025", "outside 0 to 1024");
    refused("--temperature", "2.5", "outside 0 to 2");
    refused("--temperature", "nan", "not a number");
    refused("--top-p", "0", "outside");
    refused("--kv-dtype", "int8", "'int8' is not offered; choose one of");
    refused("--block-size", "16", "'16' is not offered; choose 64");
    refused("--max-tokens", "999G", "outside");
    refused("--max-tokens", "K", "not a number");
    refused("--no-pin=on", NULL, "takes no value");
    refused("--raw=maybe", NULL, "neither on nor off");
    refused("--no-threads", NULL, "unknown option");
}

static void list_is_bounded(void **s)
{
    const char *argv[2 * (SL_OPT_MAX_LIST + 1)];
    struct sl_opts o;

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(argv); i++)
        argv[i] = i % 2 ? "x" : "--stop";
    assert_int_equal(line(&o, argv, SL_COUNTOF(argv)), SL_EARG);
    assert_int_equal(line(&o, argv, SL_COUNTOF(argv) - 2), 0);
    for (size_t i = 0; i < SL_COUNTOF(argv); i++)
        argv[i] = "word";
    assert_int_equal(line(&o, argv, SL_COUNTOF(argv)), 0);
}

/* The source of the higher rank wins, whatever the order of the calls. */
static void precedence(void **s)
{
    static const char profile[] =
        "{\"threads\":2,\"seed\":2,\"max_tokens\":2,\"stop\":[\"p\",\"q\"],"
        "\"block_size\":64,\"pin\":false,\"temperature\":1}";
    static const char *const env[] = {
        "SLUICE_THREADS=3", "SLUICE_SEED=3", "SLUICE_STOP=e",
        "SLUICE_TOP_P=",    "OTHER=1",       NULL};
    static const char *const argv[] = {"--threads", "4", "--stop", "l"};
    json_t *j = NULL;

    (void)s;
    assert_int_equal(sl_json_parse(&j, profile, strlen(profile), "p", &err), 0);
    for (int order = 0; order < 6; order++) {
        static const int perm[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                       {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        struct sl_opts o;

        sl_opts_init(&o, SL_VERB_RUN);
        for (int k = 0; k < 3; k++) {
            int rc = -1;

            if (perm[order][k] == 0)
                rc = sl_opts_line(&o, 4, (char *const *)(uintptr_t)argv, &err);
            if (perm[order][k] == 1)
                rc = sl_opts_env(&o, (char *const *)(uintptr_t)env, &err);
            if (perm[order][k] == 2)
                rc = sl_opts_profile(&o, j, &err);
            assert_int_equal(rc, 0);
        }
        assert_int_equal(o.value[SL_OPT_THREADS].i, 4);
        assert_int_equal(o.value[SL_OPT_SEED].i, 3);
        assert_int_equal(o.value[SL_OPT_MAX_TOKENS].i, 2);
        assert_int_equal(o.value[SL_OPT_PIN].i, 0);
        assert_true(o.value[SL_OPT_TEMPERATURE].f == 1);
        assert_false(sl_opts_has(&o, SL_OPT_TOP_P));
        assert_int_equal(o.n_list, 1);
        assert_string_equal(o.list[0], "l");
    }
    json_decref(j);
}

static void variables(void **s)
{
    static const char *const typo[] = {"SLUICE_MAX_TOKEN=3", NULL};
    static const char *const none[] = {"SLUICE_QWERTYUIOP=3", NULL};
    static const char *const bad[] = {"SLUICE_THREADS=x", NULL};
    static const char *const other[] = {"SLUICE_COUNT=1", NULL};
    struct sl_opts o;

    (void)s;
    sl_opts_init(&o, SL_VERB_RUN);
    assert_int_equal(sl_opts_env(&o, (char *const *)(uintptr_t)typo, &err),
                     SL_EARG);
    assert_non_null(strstr(err.msg, "did you mean 'SLUICE_MAX_TOKENS'?"));
    assert_int_equal(sl_opts_env(&o, (char *const *)(uintptr_t)none, &err),
                     SL_EARG);
    assert_int_equal(sl_opts_env(&o, (char *const *)(uintptr_t)bad, &err),
                     SL_EARG);
    assert_non_null(strstr(err.msg, "SLUICE_THREADS"));
    assert_int_equal(sl_opts_env(&o, (char *const *)(uintptr_t)other, &err), 0);
}

static void profiles(void **s)
{
    static const char *const bad[] = {
        "{\"threds\":1}",      "{\"threads\":\"x\"}", "{\"threads\":[1]}",
        "{\"threads\":1.5}",   "{\"system\":7}",      "{\"stop\":[7]}",
        "{\"block_size\":16}",
    };
    struct sl_opts o;
    json_t *j = NULL;

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(bad); i++) {
        assert_int_equal(sl_json_parse(&j, bad[i], strlen(bad[i]), "p", &err),
                         0);
        sl_opts_init(&o, SL_VERB_RUN);
        assert_int_equal(sl_opts_profile(&o, j, &err), SL_EARG);
        json_decref(j);
    }
    j = json_pack("{s:n, s:s}", "threads", "kv_dtype", "fp32");
    assert_int_equal(sl_opts_profile(&o, j, &err), 0);
    assert_int_equal(o.value[SL_OPT_KV_DTYPE].i, 1);
    json_decref(j);
}

static void pages(void **s)
{
    struct sl_buf b;

    (void)s;
    sl_buf_init(&b, 1 << 20);
    sl_opts_help(&b, SL_VERB_RUN);
    assert_int_equal(sl_buf_check(&b, "help", &err), 0);
    assert_non_null(strstr(b.p, "--[no-]think"));
    assert_non_null(strstr(b.p, "--kv-dtype bf16|fp32|bfp8, --kv-cache-dtype"));
    assert_null(strstr(b.p, "--special"));
    for (char *p = b.p, *e; *p; p = e + 1) {
        e = strchr(p, '\n');
        assert_true(e - p <= 79);
    }
    sl_buf_reset(&b);
    sl_opts_man(&b, SL_VERB_RUN);
    assert_int_equal(sl_buf_check(&b, "page", &err), 0);
    assert_non_null(strstr(b.p, "SLUICE_MAX_MODEL_LEN"));
    sl_buf_deinit(&b);
}

/* vLLM's switch for a choice of ours. */
static void switches_for_a_choice(void **s)
{
    struct sl_opts o;

    (void)s;
    assert_int_equal(LINE(&o, "--no-enable-prefix-caching"), 0);
    assert_int_equal(o.value[SL_OPT_PREFIX_CACHE].i, 1);
    assert_int_equal(LINE(&o, "--prefix-cache=off", "--enable_prefix_caching"),
                     0);
    assert_int_equal(o.value[SL_OPT_PREFIX_CACHE].i, 0);
    refused("--no-enable-prefix-caching=on", NULL, "takes no value");
    refused("--enable-prefix-caching=off", NULL, "takes no value");
    refused("--no-prefix-cache", NULL, "unknown option");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sound), cmocka_unit_test(types),
        cmocka_unit_test(spellings),      cmocka_unit_test(arguments),
        cmocka_unit_test(refusals),       cmocka_unit_test(list_is_bounded),
        cmocka_unit_test(precedence),     cmocka_unit_test(variables),
        cmocka_unit_test(switches_for_a_choice),
        cmocka_unit_test(profiles),       cmocka_unit_test(pages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
