/* cli/account.c - sluice search, login, logout: the hub and we */
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/mem.h"
#include "base/term.h"
#include "bundle/hub.h"

#define MAX_TOKEN ((size_t)4096)
#define MAX_TEXT ((size_t)1 << 20)

static int open_client(struct sl_client **c, struct sl_places *p,
                       struct sl_err *err)
{
    const struct sl_client_opts co = {.places = p,
                                      .agent = "sluice/" SL_VERSION};

    return sl_client_open(c, &co, err);
}

static int print_found(const json_t *found, struct sl_err *err)
{
    struct sl_buf b;
    json_t *v;
    size_t i;

    sl_buf_init(&b, MAX_TEXT);
    json_array_foreach(found, i, v)
    {
        const char *id = json_string_value(json_object_get(v, "id"));
        const char *day = json_string_value(json_object_get(v, "lastModified"));

        /* What is no name of ours could not be pulled, nor safely shown. */
        if (!id || !sl_name_is_repo(id))
            continue;
        sl_buf_fmt(
            &b, "%-56s %10lld  %.10s\n", id,
            (long long)json_integer_value(json_object_get(v, "downloads")),
            day && strspn(day, "0123456789-T") >= 10 ? day : "");
    }
    if (!b.len)
        sl_buf_str(&b, "nothing was found\n");
    return sl_cli_print(&b, "what was found", err);
}

int sl_cli_search(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_client *c = NULL;
    struct sl_places p;
    json_t *found = NULL;
    int rc = sl_cli_max_args(o, 1, "quote words that have spaces", err);

    if (!rc)
        rc = sl_cli_places(&p, o, err);
    if (!rc)
        rc = open_client(&c, &p, err);
    if (!rc)
        rc = sl_hub_search(c, &found, o->n_arg ? o->arg[0] : "",
                           o->value[SL_OPT_TAG].s,
                           (unsigned)o->value[SL_OPT_LIMIT].i, err);
    sl_client_close(&c);
    if (rc)
        return rc;
    if (o->value[SL_OPT_JSON].i)
        return sl_cli_print_json(json_pack("{s:o}", "found", found), err);
    rc = print_found(found, err);
    json_decref(found);
    return rc;
}

int sl_cli_login(const struct sl_opts *o, struct sl_err *err)
{
    char name[SL_NAME_REPO + 1], *text = NULL;
    struct sl_client *c = NULL;
    struct sl_places p;
    size_t n = 0;
    int rc = sl_cli_max_args(o, 0,
                             "a token is read from standard input, not "
                             "from the command line, which others see",
                             err);

    if (!rc)
        rc = sl_cli_places(&p, o, err);
    if (rc)
        return rc;
    if (!o->value[SL_OPT_TOKEN_FILE].s) {
        if (sl_term_is_tty(SL_STDIN))
            sl_note("A token of %s/settings/tokens, then Ctrl-D:\n",
                    p.endpoint);
        rc = sl_in_read(&text, &n, MAX_TOKEN, err);
        if (!rc)
            rc = sl_places_set_token(&p, text, n, "standard input", err);
        sl_mem_free(text);
    }
    if (!rc && !*p.token)
        rc = sl_fail(err, SL_EARG, "the token is empty");
    if (!rc)
        rc = open_client(&c, &p, err);
    if (!rc)
        rc = sl_hub_whoami(c, name, err);
    sl_client_close(&c);
    if (!rc)
        rc = sl_places_keep_token(&p, err);
    if (!rc)
        sl_note("sluice: the token of '%s' is kept in %s\n", name,
                p.token_file);
    return rc;
}

int sl_cli_logout(const struct sl_opts *o, struct sl_err *err)
{
    struct sl_places p;
    int rc = sl_cli_max_args(o, 0, "'sluice logout' takes no argument", err);

    if (!rc)
        rc = sl_cli_places(&p, o, err);
    return rc ? rc : sl_places_drop_token(&p, err);
}
