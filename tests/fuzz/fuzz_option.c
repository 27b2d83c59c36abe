/* tests/fuzz/fuzz_option.c - the command line, the variables and a profile
 *
 * The first byte says which verb and which source; the rest is lines (arguments
 * or variables) or the JSON of a profile. Asserted: a value that was taken is
 * inside its range, a refusal says something, and the same input gives the same
 * answer twice. */
#include "base/option.h"

#define MAX_LINES 100

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

struct input {
    char *text; /* lines, each ended with zero */
    char *line[MAX_LINES + 1];
    int n_line;
    json_t *json; /* or NULL */
};

static int feed(struct sl_opts *o, const struct input *in, uint8_t how,
                struct sl_err *err)
{
    static const enum sl_verb verb[] = {SL_VERB_RUN, SL_VERB_INFO,
                                        SL_VERB_TOKENIZE, SL_VERB_DOCTOR};

    *err = (struct sl_err){0};
    sl_opts_init(o, verb[how % 4]);
    if (in->json)
        return sl_opts_profile(o, in->json, err);
    if (how / 4 % 2)
        return sl_opts_env(o, in->line, err);
    return sl_opts_line(o, in->n_line, in->line, err);
}

static void check(const struct sl_opts *o)
{
    for (int i = 0; i < SL_N_OPT; i++) {
        const struct sl_opt *d = sl_opt_get((enum sl_opt_id)i);
        const struct sl_opt_value *v = &o->value[i];

        if (v->from == SL_FROM_DEFAULT)
            continue;
        SL_CHECK((d->verbs & (uint32_t)o->verb) != 0);
        if (d->type == SL_VAL_BOOL)
            SL_CHECK(v->i == 0 || v->i == 1);
        if (d->type == SL_VAL_INT || d->type == SL_VAL_COUNT)
            SL_CHECK((double)v->i >= d->lo && (double)v->i <= d->hi);
        if (d->type == SL_VAL_FLOAT)
            SL_CHECK(v->f >= d->lo && v->f <= d->hi);
        if (d->type == SL_VAL_TEXT)
            SL_CHECK(v->s != NULL);
    }
    SL_CHECK(o->n_list <= SL_OPT_MAX_LIST);
    SL_CHECK(o->n_arg <= SL_OPT_MAX_ARG);
}

static void cut_lines(struct input *in, const uint8_t *p, size_t n)
{
    char *text = malloc(n + 1);

    SL_CHECK(text != NULL);
    memcpy(text, p, n);
    text[n] = 0;
    in->text = text;
    for (char *q = text; q < text + n && in->n_line < MAX_LINES;) {
        char *e = memchr(q, '\n', (size_t)(text + n - q));

        in->line[in->n_line++] = q;
        if (!e)
            break;
        *e = 0;
        q = e + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct input in = {0};
    struct sl_opts a, b;
    struct sl_err ea, eb;
    int rc;

    if (n < 1)
        return 0;
    cut_lines(&in, p + 1, n - 1);
    if (p[0] / 8 % 2 &&
        sl_json_parse(&in.json, (const char *)p + 1, n - 1, "a profile", &ea))
        in.json = NULL;
    rc = feed(&a, &in, p[0], &ea);
    if (rc == 0)
        check(&a);
    else
        SL_CHECK(rc == SL_EARG && ea.msg[0] != 0);
    SL_CHECK(feed(&b, &in, p[0], &eb) == rc);
    SL_CHECK(strcmp(ea.msg, eb.msg) == 0);
    SL_CHECK(memcmp(a.arg, b.arg, sizeof(a.arg)) == 0);
    json_decref(in.json);
    free(in.text);
    return 0;
}
