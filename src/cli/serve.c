/* cli/serve.c - `sluice serve MODEL`: options -> a running server */
#include "cli/open.h"
#include "cli/ready.h"
#include "cli/verb.h"

#include "base/mem.h"
#include "base/process.h"
#include "base/term.h"
#include "bundle/instance.h"
#include "server/server.h"

#define MAX_LIST 17 /* names of the model */
_Static_assert(MAX_LIST >= SL_CLI_NAMES, "every bundle can be served");
#define DEFAULT_SEQS 32
#define WORD 48 /* bytes of a choice's longest word */
#define MAX_PORTS 32 /* that are tried; bundles.md 1.5 */

struct serve {
    struct sl_opts o; /* with what a bundle adds */
    struct sl_cli_ready r;
    struct sl_instance me; /* what 'sluice ps' shows */
    const char *asked;     /* MODEL, as the user wrote it */
    const char *name[MAX_LIST];
    char *words; /* owned: what name points into */
    char *source;   /* jansson's own, or NULL */
    char weights[WORD], method[WORD], speculate[WORD], depth[WORD],
        accept[WORD]; /* words for GET / */
};

static int open_model(void *ctx, struct sl_engine **out, struct sl_err *err)
{
    struct serve *s = ctx;
    double load_s;

    return sl_cli_open(out, &load_s, &s->o, s->r.path, err);
}

static void listening(void *ctx, const char *host, uint16_t port)
{
    struct serve *s = ctx;
    bool six = strchr(host, ':') != NULL;
    struct sl_err err;

    sl_note("sluice: listening on %s://%s%s%s:%u\n",
            s->o.value[SL_OPT_SSL_CERTFILE].s ? "https" : "http",
            six ? "[" : "", host, six ? "]" : "", port);
    snprintf(s->me.host, sizeof(s->me.host), "%.120s", host);
    s->me.port = port;
    /* Serving does not depend on being seen. */
    if (sl_instance_put(&s->me, &s->r.places, s->asked, &err))
        sl_note("sluice: 'sluice ps' will not show this server: %s\n", err.msg);
}

static void ready(void *ctx, const struct sl_engine *e)
{
    struct sl_engine_info i;

    (void)ctx;
    sl_engine_info(e, &i);
    sl_note("sluice: convert: %.1f s, map: %.1f s, calibrate: %.1f s\n",
            i.convert_s, i.map_s, i.calibrate_s);
    sl_note("sluice: ready: %s, %u tokens of context, loaded in %.1f s\n",
            i.arch, i.max_model_len, i.load_s);
    sl_process_ready();
}

static void late(void *ctx)
{
    struct serve *s = ctx;

    sl_note("sluice: the model was not ready within %lld s; give it longer with "
            "--ready-timeout\n",
            (long long)s->o.value[SL_OPT_READY_TIMEOUT].i);
    sl_instance_drop(&s->me, &s->r.places);
}

/* What exactly is served, for whoever reads the log later. */
static void say_what(const struct serve *s)
{
    const struct sl_ready *h = &s->r.hub;

    if (!s->r.from_hub)
        return;
    if (h->has_bundle)
        sl_note("sluice: bundle %s (%s@%.12s, manifest %.12s), profile %s\n",
                h->install.name, h->install.repo, h->install.sha,
                h->manifest.digest, s->r.profile_name);
    sl_note("sluice: weights %s@%s\n", h->repo, h->sha);
    if (s->o.value[SL_OPT_DRAFT_MODEL].s)
        sl_note("sluice: drafter %s\n", s->o.value[SL_OPT_DRAFT_MODEL].s);
}

/* The word of a choice that was made; other spellings have '=' in them and no
 * number. */
static void put_word(char *out, size_t cap, const struct sl_opts *o,
                     enum sl_opt_id id)
{
    const char *word = sl_opt_get(id)->arg;

    for (int64_t n = o->value[id].i; *word; word += strspn(word, "|")) {
        size_t len = strcspn(word, "|");

        if (!memchr(word, '=', len) && n-- == 0)
            break;
        word += len;
    }
    snprintf(out, cap, "%.*s", (int)strcspn(word, "|"), word);
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

/* How it is served, for whoever asks at GET /. */
static void tell_settings(struct serve *s, struct sl_server_opts *so)
{
    const struct sl_opt_value *v = s->o.value;

    put_word(s->weights, WORD, &s->o, SL_OPT_DTYPE);
    put_word(s->method, WORD, &s->o, SL_OPT_DRAFTER);
    put_word(s->speculate, WORD, &s->o, SL_OPT_SPECULATE);
    put_word(s->depth, WORD, &s->o, SL_OPT_DRAFT_DEPTH);
    put_word(s->accept, WORD, &s->o, SL_OPT_ACCEPT);
    so->weights = s->weights;
    so->max_batched = (uint32_t)v[SL_OPT_MAX_NUM_BATCHED_TOKENS].i;
    if (s->r.from_hub && s->r.hub.has_bundle)
        so->profile = s->r.profile_name;
    if (!strcmp(s->speculate, "off") || !strcmp(s->method, "none"))
        return;
    so->draft = (struct sl_server_draft){
        .method = s->method,
        .model = v[SL_OPT_DRAFT_MODEL].s ? short_name(v[SL_OPT_DRAFT_MODEL].s)
                                         : NULL,
        .speculate = s->speculate,
        .depth = s->depth,
        .accept = s->accept,
    };
}

static void describe(struct serve *s, struct sl_server_opts *so)
{
    const struct sl_opt_value *v = s->o.value;
    const struct sl_ready *h = &s->r.hub;

    tell_settings(s, so);
    s->asked = s->o.n_arg ? s->o.arg[0] : v[SL_OPT_MODEL].s;
    snprintf(s->me.model, sizeof(s->me.model), "%.4000s", s->asked);
    s->me.tls = v[SL_OPT_SSL_CERTFILE].s != NULL;
    s->me.drain_s = (unsigned)v[SL_OPT_DRAIN_TIMEOUT].i;
    if (s->r.from_hub && h->has_bundle) {
        snprintf(s->me.profile, sizeof(s->me.profile), "%.96s",
                 s->r.profile_name);
        snprintf(s->me.sha, sizeof(s->me.sha), "%s", h->install.sha);
    } else if (s->r.from_hub) {
        snprintf(s->me.sha, sizeof(s->me.sha), "%s", h->sha);
    }
}

/* Of the servers that run: the one of this name, or (pid) of this process; its
 * name into `name`. */
static bool runs(const struct serve *s, char name[SL_INSTANCE_NAME],
                 int64_t pid)
{
    struct sl_instance *all = NULL;
    bool found = false;
    size_t n = 0;

    if (sl_instance_list(&all, &n, &s->r.places, NULL))
        return false;
    for (size_t i = 0; i < n && !found; i++) {
        found = pid ? all[i].pid == pid : !strcmp(all[i].name, name);
        if (found)
            snprintf(name, SL_INSTANCE_NAME, "%s", all[i].name);
    }
    sl_mem_free(all);
    return found;
}

/* The log's place; what was there before stays as FILE.1. A server that runs
 * under the name keeps its log: *shared, and ours has a place for the start. */
static int place_log(const struct serve *s, char log[SL_TREE_PATH],
                     char name[SL_INSTANCE_NAME], bool *shared,
                     struct sl_err *err)
{
    char old[SL_TREE_PATH + 4], start[SL_INSTANCE_NAME];
    int rc;

    *shared = runs(s, name, 0);
    snprintf(start, sizeof(start), "%.40s-start-%lld", name,
             (long long)sl_process_self());
    rc = sl_instance_log(log, &s->r.places, *shared ? start : name, err);
    if (rc || sl_file_kind(log) != SL_FILE_REGULAR)
        return rc;
    snprintf(old, sizeof(old), "%s.1", log);
    (void)sl_tree_rename(log, old, NULL);
    return 0;
}

/* 1 in the process that was started from, which has nothing left to do. */
static int detach(struct serve *s, struct sl_err *err)
{
    char log[SL_TREE_PATH], own[SL_TREE_PATH], name[SL_INSTANCE_NAME];
    bool shared = false;
    int64_t pid = 0;
    int status = 0, rc;

    if (!s->o.value[SL_OPT_DETACH].i)
        return 0;
    sl_instance_name(name, s->asked);
    rc = place_log(s, log, name, &shared, err);
    if (rc)
        return rc;
    rc = sl_process_detach(log, &pid, &status, err);
    if (rc == 1 && shared && runs(s, name, pid) &&
        !sl_instance_log(own, &s->r.places, name, NULL) &&
        !sl_tree_rename(log, own, NULL))
        snprintf(log, sizeof(log), "%s", own);
    if (rc == 1) {
        sl_note("sluice: '%s' is ready, process %lld; log: %s\n", name,
                (long long)pid, log);
    } else if (rc == SL_EIO && pid) {
        char *text = NULL;
        size_t n = 0;

        if (!sl_file_read(&text, &n, log, (size_t)1 << 20, NULL)) {
            sl_note("%s", text);
            sl_file_free(text);
        }
        if (shared)
            (void)sl_tree_unlink(log, NULL); /* it has been shown */
    }
    return rc;
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

static int fill(struct serve *s, struct sl_server_opts *so, struct sl_err *err)
{
    static const char *const parser[] = {"qwen3_coder", "qwen3_hermes"};
    const struct sl_opt_value *v = s->o.value;
    const char *name = v[SL_OPT_SERVED_MODEL_NAME].s;
    int rc = 0;

    if (!sl_opts_has(&s->o, SL_OPT_MAX_NUM_SEQS))
        s->o.value[SL_OPT_MAX_NUM_SEQS].i = DEFAULT_SEQS;
    *so = (struct sl_server_opts){
        .host = v[SL_OPT_HOST].s ? v[SL_OPT_HOST].s : "127.0.0.1",
        .port = (uint16_t)v[SL_OPT_PORT].i,
        /* Who names a port wants that one. */
        .n_port = v[SL_OPT_PORT].from < SL_FROM_ENV ? MAX_PORTS : 1,
        .protect_all = v[SL_OPT_PROTECT].i,
        .trust = {.keys = {s->o.list, s->o.n_list, v[SL_OPT_API_KEY_FILE].s},
                  .cert = v[SL_OPT_SSL_CERTFILE].s,
                  .key = v[SL_OPT_SSL_KEYFILE].s},
        .name = s->name,
        .source = s->source,
        .root = s->r.from_hub ? s->r.hub.repo : short_name(s->r.path),
        .max_seqs = (uint32_t)v[SL_OPT_MAX_NUM_SEQS].i,
        .max_queued = (uint32_t)v[SL_OPT_MAX_NUM_QUEUED_REQS].i,
        .max_queued_tokens = (uint64_t)v[SL_OPT_MAX_NUM_QUEUED_TOKENS].i,
        .drain_ms = (uint32_t)v[SL_OPT_DRAIN_TIMEOUT].i * 1000,
        .ready_s = (uint32_t)v[SL_OPT_READY_TIMEOUT].i,
        .queue_s = v[SL_OPT_QUEUE_TIMEOUT].f,
        .request_s = (uint32_t)v[SL_OPT_REQUEST_TIMEOUT].i,
        .late = late,
        .tool_parser = parser[v[SL_OPT_TOOL_CALL_PARSER].i],
        .open = open_model,
        .listening = listening,
        .ready = ready,
        .ctx = s,
    };
    if (so->protect_all && !so->trust.keys.n && !so->trust.keys.file)
        return sl_fail(err, SL_EARG,
                       "--protect all needs --api-key or --api-key-file");
    if (!so->trust.cert != !so->trust.key)
        return sl_fail(err, SL_EARG,
                       "--ssl-certfile and --ssl-keyfile belong together");
    /* A name of a bundle's may have a comma in it. */
    memcpy(s->name, s->r.name, s->r.n_name * sizeof(*s->name));
    so->n_name = s->r.n_name;
    if (!name && so->n_name == 0)
        s->name[so->n_name++] = short_name(s->r.path);
    if (name)
        rc = split(s->name, &so->n_name, &s->words, name,
                   "--served-model-name", err);
    if (!rc && so->n_name == 0)
        rc = sl_fail(err, SL_EARG, "--served-model-name has no word in it");
    return rc;
}

/* An option as on a command line; secrets are not shown. */
static void put_option(struct sl_buf *b, const struct sl_opts *o,
                       enum sl_opt_id id)
{
    static const char *const from[] = {"default", "profile", "environment",
                                       "command line"};
    const struct sl_opt *d = sl_opt_get(id);
    const struct sl_opt_value *v = &o->value[id];
    char word[WORD];

    sl_buf_fmt(b, "  --%s%s", d->type == SL_VAL_BOOL && !v->i ? "no-" : "",
               d->name);
    if (d->type == SL_VAL_CHOICE) {
        put_word(word, sizeof(word), o, id);
        sl_buf_fmt(b, " %s", word);
    } else if (d->type == SL_VAL_FLOAT) {
        sl_buf_fmt(b, " %g", v->f);
    } else if (d->type == SL_VAL_TEXT || d->type == SL_VAL_TEXTS) {
        sl_buf_fmt(b, " %s", id == SL_OPT_API_KEY ? "(hidden)" : v->s);
    } else if (d->type != SL_VAL_BOOL) {
        sl_buf_fmt(b, " %lld", (long long)v->i);
    }
    sl_buf_fmt(b, "  (%s)\n", from[v->from]);
}

/* --print: all but the serving. */
static int print(const struct serve *s, struct sl_err *err)
{
    const struct sl_ready *h = &s->r.hub;
    struct sl_buf b;

    sl_buf_init(&b, 65536);
    sl_buf_fmt(&b, "model %s\n", s->r.path);
    if (s->r.from_hub && h->has_bundle)
        sl_buf_fmt(&b, "bundle %s (%s@%s, manifest %s), profile %s\n",
                   h->install.name, h->install.repo, h->install.sha,
                   h->manifest.digest, s->r.profile_name);
    if (s->r.from_hub)
        sl_buf_fmt(&b, "weights %s@%s\n", h->repo, h->sha);
    sl_buf_str(&b, "options\n");
    for (int i = 0; i < SL_N_OPT; i++)
        if (i != SL_OPT_PRINT && i != SL_OPT_MODEL &&
            sl_opts_has(&s->o, (enum sl_opt_id)i))
            put_option(&b, &s->o, (enum sl_opt_id)i);
    return sl_cli_print(&b, "the options", err);
}

int sl_cli_serve(const struct sl_opts *o, struct sl_err *err)
{
    struct serve s = {.o = *o};
    bool only_print = o->value[SL_OPT_PRINT].i;
    struct sl_server_opts so;
    json_t *source;
    uint32_t n_used;
    int rc = sl_cli_ready_init(&s.r, &s.o,
                               only_print ? SL_WANT_PLAN : SL_WANT_ALL,
                               &n_used, err);

    if (!rc)
        rc = sl_cli_max_args(o, n_used, "serve takes one model", err);
    if (!rc && only_print) {
        rc = print(&s, err);
        sl_cli_ready_deinit(&s.r);
        return rc;
    }
    source = rc ? NULL : sl_cli_ready_source(&s.r);
    s.source = source ? json_dumps(source, JSON_COMPACT) : NULL;
    json_decref(source);
    if (!rc)
        rc = fill(&s, &so, err);
    if (!rc)
        describe(&s, &so);
    if (!rc)
        rc = detach(&s, err);
    if (!rc) {
        say_what(&s);
        sl_process_open_many(); /* a connection is one */
        rc = sl_server_run(&so, err);
        sl_instance_drop(&s.me, &s.r.places);
    }
    if (rc == 1)
        rc = 0; /* the other process serves */
    sl_mem_free(s.words);
    free(s.source); /* jansson's own */
    sl_cli_ready_deinit(&s.r);
    return rc;
}
