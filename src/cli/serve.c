/* cli/serve.c - `sluice serve MODEL`: options -> a running server */
#include "cli/open.h"
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/mem.h"
#include "base/term.h"
#include "server/server.h"

#define MAX_LIST 16 /* names of the model, or keys */
#define DEFAULT_SEQS 32

struct serve {
    struct sl_opts o; /* with what a bundle adds */
    struct sl_cli_ready r;
    const char *name[MAX_LIST], *key[MAX_LIST];
    char *words[2]; /* owned: what name and key point into */
};

static int open_model(void *ctx, struct sl_engine **out, struct sl_err *err)
{
    struct serve *s = ctx;
    double load_s;

    return sl_cli_open(out, &load_s, &s->o, s->r.path, err);
}

static void listening(void *ctx, const char *host, uint16_t port)
{
    const struct serve *s = ctx;

    sl_note("sluice: listening on %s://%s:%u\n",
            s->o.value[SL_OPT_SSL_CERTFILE].s ? "https" : "http", host, port);
}

static void ready(void *ctx, const struct sl_engine *e)
{
    struct sl_engine_info i;

    (void)ctx;
    sl_engine_info(e, &i);
    sl_note("sluice: ready: %s, %u tokens of context, loaded in %.1f s\n",
            i.arch, i.max_model_len, i.load_s);
}

/* "a,b" -> list; the words stay in *words. */
static int split(const char **list, uint32_t *n, char **words, const char *s,
                 const char *what, struct sl_err *err)
{
    int rc = sl_mem_dup(words, s, strlen(s), err);
    char *p = *words;

    *n = 0;
    while (!rc && p && *p) {
        char *comma = strchr(p, ',');

        if (*n == MAX_LIST)
            return sl_fail(err, SL_EARG, "%s has more than %d words", what,
                           MAX_LIST);
        if (comma)
            *comma = 0;
        if (*p)
            list[(*n)++] = p;
        p = comma ? comma + 1 : NULL;
    }
    return rc;
}

/* What the model is called when nobody says: the last part of its path. */
static const char *short_name(const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    return path + n;
}

static int fill(struct serve *s, struct sl_server_opts *so, struct sl_err *err)
{
    static const char *const parser[] = {"qwen3_coder", "qwen3_hermes"};
    const struct sl_opt_value *v = s->o.value;
    const char *name = v[SL_OPT_SERVED_MODEL_NAME].s;
    const char *own = *s->r.names ? s->r.names : short_name(s->r.path);
    int rc;

    if (!sl_opts_has(&s->o, SL_OPT_MAX_NUM_SEQS))
        s->o.value[SL_OPT_MAX_NUM_SEQS].i = DEFAULT_SEQS;
    *so = (struct sl_server_opts){
        .host = v[SL_OPT_HOST].s ? v[SL_OPT_HOST].s : "127.0.0.1",
        .port = (uint16_t)v[SL_OPT_PORT].i,
        .key = s->key,
        .name = s->name,
        .root = s->r.from_hub ? s->r.hub.repo : short_name(s->r.path),
        .max_seqs = (uint32_t)v[SL_OPT_MAX_NUM_SEQS].i,
        .max_queued = (uint32_t)v[SL_OPT_MAX_NUM_QUEUED_REQS].i,
        .drain_ms = (uint32_t)v[SL_OPT_DRAIN_TIMEOUT].i * 1000,
        .tls_cert = v[SL_OPT_SSL_CERTFILE].s,
        .tls_key = v[SL_OPT_SSL_KEYFILE].s,
        .tool_parser = parser[v[SL_OPT_TOOL_CALL_PARSER].i],
        .open = open_model,
        .listening = listening,
        .ready = ready,
        .ctx = s,
    };
    if (!so->tls_cert != !so->tls_key)
        return sl_fail(err, SL_EARG,
                       "--ssl-certfile and --ssl-keyfile belong together");
    rc = split(s->name, &so->n_name, &s->words[0],
               name ? name : own, "--served-model-name", err);
    if (!rc && so->n_name == 0)
        rc = sl_fail(err, SL_EARG, "--served-model-name has no word in it");
    if (!rc && v[SL_OPT_API_KEY].s)
        rc = split(s->key, &so->n_key, &s->words[1], v[SL_OPT_API_KEY].s,
                   "--api-key", err);
    if (!rc && v[SL_OPT_API_KEY].s && so->n_key == 0)
        rc = sl_fail(err, SL_EARG, "--api-key is empty; leave it out to let "
                                   "everybody ask");
    return rc;
}

int sl_cli_serve(const struct sl_opts *o, struct sl_err *err)
{
    struct serve s = {.o = *o};
    struct sl_server_opts so;
    uint32_t n_used;
    int rc = sl_cli_ready_init(&s.r, &s.o, SL_WANT_ALL, &n_used, err);

    if (!rc)
        rc = sl_cli_max_args(o, n_used, "serve takes one model", err);
    if (!rc)
        rc = fill(&s, &so, err);
    if (!rc)
        rc = sl_server_run(&so, err);
    sl_mem_free(s.words[0]);
    sl_mem_free(s.words[1]);
    sl_cli_ready_deinit(&s.r);
    return rc;
}
