/* bundle/places.c - where things lie; see places.h */
#include "bundle/places.h"

#include <unistd.h>

#include "base/num.h"
#include "base/out.h"

#define MAX_TOKEN 4096 /* bytes of the file */
#define STALL_S 30     /* bundles.md 4.2; meta likewise */
#define META_S 10
#define MAX_S 3600

struct source {
    char *const *env;
    const char *home;
};

/* The value, or NULL when it is absent or empty. */
static const char *get(const struct source *s, const char *name)
{
    size_t n = strlen(name);

    for (char *const *e = s->env; *e; e++)
        if (!strncmp(*e, name, n) && (*e)[n] == '=' && (*e)[n + 1])
            return *e + n + 1;
    return NULL;
}

static bool is_on(const struct source *s, const char *name)
{
    static const char *const yes[] = {"1", "on", "yes", "true"};
    const char *v = get(s, name);

    for (size_t i = 0; v && i < SL_COUNTOF(yes); i++) {
        size_t k = 0;

        while (v[k] && (v[k] | 0x20) == (yes[i][k] | 0x20))
            k++;
        if (!v[k] && !yes[i][k])
            return true;
    }
    return false;
}

/* dir/tail, where ~ in front of dir is the home. */
static int put(char out[SL_TREE_PATH], const struct source *s, const char *dir,
               const char *tail, struct sl_err *err)
{
    bool home = dir[0] == '~' && (dir[1] == 0 || dir[1] == '/');
    int n = snprintf(out, SL_TREE_PATH, "%s%s%s", home ? s->home : "",
                     home ? dir + 1 : dir, tail);

    if (n < 0 || n >= SL_TREE_PATH)
        return sl_fail(err, SL_EARG, "the path '%.100s...' is too long", dir);
    while (n > 1 && out[n - 1] == '/')
        out[--n] = 0;
    return 0;
}

/* The first variable that is set, with its tail; else ~ and `rest`. */
static int choose(char out[SL_TREE_PATH], const struct source *s,
                  const char *const (*list)[2], size_t n, const char *rest,
                  struct sl_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *v = get(s, list[i][0]);

        if (v)
            return put(out, s, v, list[i][1], err);
    }
    return put(out, s, "~", rest, err);
}

static int find_dirs(struct sl_places *p, const struct source *s,
                     struct sl_err *err)
{
    static const char *const hub[][2] = {
        {"HF_HUB_CACHE", ""},
        {"HUGGINGFACE_HUB_CACHE", ""},
        {"HF_HOME", "/hub"},
        {"XDG_CACHE_HOME", "/huggingface/hub"}};
    static const char *const own[][2] = {{"XDG_DATA_HOME", "/sluice"}};
    static const char *const token[][2] = {
        {"HF_TOKEN_PATH", ""},
        {"HF_HOME", "/token"},
        {"XDG_CACHE_HOME", "/huggingface/token"}};
    const char *run = get(s, "XDG_RUNTIME_DIR");
    int rc =
        choose(p->hub, s, hub, SL_COUNTOF(hub), "/.cache/huggingface/hub", err);

    if (!rc)
        rc = choose(p->own, s, own, SL_COUNTOF(own), "/.local/share/sluice",
                    err);
    if (!rc)
        rc = choose(p->token_file, s, token, SL_COUNTOF(token),
                    "/.cache/huggingface/token", err);
    if (!rc && run)
        rc = put(p->run, s, run, "/sluice", err);
    else if (!rc)
        snprintf(p->run, sizeof(p->run), "/tmp/sluice-%ld", (long)getuid());
    return rc;
}

static int find_endpoint(struct sl_places *p, const struct source *s,
                         struct sl_err *err)
{
    const char *v = get(s, "HF_ENDPOINT"), *host;
    size_t n;

    if (!v)
        v = "https://huggingface.co";
    n = strlen(v);
    while (n > 0 && v[n - 1] == '/')
        n--;
    host = strstr(v, "://");
    if ((strncmp(v, "https://", 8) && strncmp(v, "http://", 7)) || !host ||
        n <= (size_t)(host - v) + 3 || n >= sizeof(p->endpoint) ||
        memchr(v, '@', n) || memchr(v, '?', n) || memchr(v, '#', n) ||
        strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                  "0123456789:/.-_[]") < n)
        return sl_fail(err, SL_EARG,
                       "HF_ENDPOINT is '%.100s' and must be like "
                       "https://huggingface.co",
                       v);
    snprintf(p->endpoint, sizeof(p->endpoint), "%.*s", (int)n, v);
    return 0;
}

int sl_places_set_token(struct sl_places *p, const char *s, size_t n,
                        const char *what, struct sl_err *err)
{
    while (n > 0 && ((unsigned char)s[n - 1] <= ' '))
        n--;
    while (n > 0 && ((unsigned char)s[0] <= ' ')) {
        s++;
        n--;
    }
    if (n >= sizeof(p->token))
        return sl_fail(err, SL_EARG, "%s: the token has more than %zu bytes",
                       what, sizeof(p->token) - 1);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] <= ' ' || (unsigned char)s[i] >= 0x7f)
            return sl_fail(err, SL_EARG,
                           "%s: the token has a character that no token has",
                           what);
    memcpy(p->token, s, n);
    p->token[n] = 0;
    return 0;
}

int sl_places_token(struct sl_places *p, const char *path, struct sl_err *err)
{
    char *text = NULL;
    size_t n = 0;
    int rc = sl_file_read(&text, &n, path, MAX_TOKEN, err);

    if (!rc)
        rc = sl_places_set_token(p, text, n, path, err);
    sl_file_free(text);
    return rc;
}

int sl_places_keep_token(const struct sl_places *p, struct sl_err *err)
{
    char dir[SL_TREE_PATH];
    size_t n = strlen(p->token);
    struct sl_out out;
    int rc;

    snprintf(dir, sizeof(dir), "%s", p->token_file);
    if (!strrchr(dir, '/'))
        return sl_fail(err, SL_EARG, "HF_TOKEN_PATH is no path of a file");
    *strrchr(dir, '/') = 0;
    rc = sl_tree_make(dir, err);
    if (rc)
        return rc;
    rc = sl_out_open_secret(&out, p->token_file, err);
    if (!rc)
        rc = sl_out_at(&out, 0, p->token, n, err);
    return sl_out_close(&out, rc, err);
}

int sl_places_drop_token(const struct sl_places *p, struct sl_err *err)
{
    sl_out_sweep(p->token_file);
    return sl_tree_unlink(p->token_file, err);
}

static int find_token(struct sl_places *p, const struct source *s,
                      struct sl_err *err)
{
    const char *v = get(s, "HF_TOKEN");

    if (is_on(s, "HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return 0;
    if (!v)
        v = get(s, "HUGGING_FACE_HUB_TOKEN");
    if (v)
        return sl_places_set_token(p, v, strlen(v), "HF_TOKEN", err);
    if (sl_file_kind(p->token_file) == SL_FILE_REGULAR)
        return sl_places_token(p, p->token_file, err);
    return 0;
}

static int seconds(unsigned *out, const struct source *s, const char *name,
                   unsigned def, struct sl_err *err)
{
    const char *v = get(s, name);
    double x = def;
    int rc = v ? sl_num_f64(&x, v, strlen(v), 0, MAX_S, name, err) : 0;

    *out = x < 1 ? 1 : (unsigned)x;
    return rc;
}

static struct source source_of(char *const *env)
{
    struct source s = {.env = env};

    s.home = get(&s, "HOME");
    if (!s.home)
        s.home = "/";
    return s;
}

int sl_places_local(struct sl_places *out, char *const *env, struct sl_err *err)
{
    const struct source s = source_of(env);

    *out = (struct sl_places){.offline = true};
    return find_dirs(out, &s, err);
}

int sl_places_init(struct sl_places *out, char *const *env, struct sl_err *err)
{
    static const char *const proxy[] = {"https_proxy", "HTTPS_PROXY",
                                        "http_proxy", "all_proxy", "ALL_PROXY"};
    const struct source s = source_of(env);
    int rc;

    *out = (struct sl_places){.hub = ""};
    out->offline =
        is_on(&s, "HF_HUB_OFFLINE") || is_on(&s, "TRANSFORMERS_OFFLINE");
    for (size_t i = 0; i < SL_COUNTOF(proxy); i++)
        out->proxied |= get(&s, proxy[i]) != NULL;
    rc = find_dirs(out, &s, err);
    if (!rc)
        rc = find_endpoint(out, &s, err);
    if (!rc)
        rc = find_token(out, &s, err);
    if (!rc)
        rc =
            seconds(&out->stall_s, &s, "HF_HUB_DOWNLOAD_TIMEOUT", STALL_S, err);
    if (!rc)
        rc = seconds(&out->meta_s, &s, "HF_HUB_ETAG_TIMEOUT", META_S, err);
    return rc;
}
