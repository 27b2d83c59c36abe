/* bundle/instance.c - servers that run on this machine; see instance.h */
#include "bundle/instance.h"

#include "base/json.h"
#include "base/lockfile.h"
#include "base/mem.h"
#include "base/process.h"

#define LOCK_WAIT_MS 5000
#define MAX_FILE ((size_t)1 << 16)

void sl_instance_name(char out[SL_INSTANCE_NAME], const char *want)
{
    const char *slash;
    char word[SL_TREE_PATH];
    size_t n = 0, len;

    snprintf(word, sizeof(word), "%.4000s", want);
    len = strlen(word);
    while (len > 1 && word[len - 1] == '/')
        word[--len] = 0;
    slash = strrchr(word, '/');
    for (const char *s = slash ? slash + 1 : word;
         *s && *s != '@' && *s != '#' && n + 24 < SL_INSTANCE_NAME; s++) {
        bool ok = (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') ||
                  *s == '.' || *s == '_' || *s == '-';

        out[n++] =
            ok ? *s : (char)(*s >= 'A' && *s <= 'Z' ? *s + 'a' - 'A' : '-');
    }
    out[n] = 0;
    if (n == 0 || out[0] == '.')
        snprintf(out, SL_INSTANCE_NAME, "model");
}

static int path_of(char out[SL_TREE_PATH], const struct sl_places *p,
                   const char *name, struct sl_err *err)
{
    char file[SL_INSTANCE_NAME + 8];

    snprintf(file, sizeof(file), "%.63s.json", name);
    return sl_path_join(out, SL_TREE_PATH, p->run, file, err);
}

void sl_instance_address(char *out, size_t cap, const struct sl_instance *i)
{
    /* Who listens everywhere does so on this machine, too. */
    const char *host = !strcmp(i->host, "0.0.0.0") ? "127.0.0.1"
                       : !strcmp(i->host, "::")    ? "::1"
                                                   : i->host;
    bool six = strchr(host, ':') && *host != '[';

    snprintf(out, cap, "http%s://%s%.120s%s:%u", i->tls ? "s" : "",
             six ? "[" : "", host, six ? "]" : "", i->port);
}

bool sl_instance_lives(const struct sl_instance *i)
{
    return i->began > 0 && sl_process_began(i->pid) == i->began;
}

static void text(char *out, size_t cap, const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));

    snprintf(out, cap, "%s", s ? s : "");
}

static int read_one(struct sl_instance *i, const char *path, struct sl_err *err)
{
    json_t *j = NULL;
    int rc = sl_json_load(&j, path, MAX_FILE, err);

    if (rc)
        return rc;
    *i = (struct sl_instance){
        .pid = json_integer_value(json_object_get(j, "pid")),
        .began = (uint64_t)json_integer_value(json_object_get(j, "began")),
        .when_s = json_integer_value(json_object_get(j, "when")),
        .port = (unsigned)json_integer_value(json_object_get(j, "port")),
        .drain_s = (unsigned)json_integer_value(json_object_get(j, "drain_s")),
        .tls = json_is_true(json_object_get(j, "tls"))};
    text(i->name, sizeof(i->name), j, "name");
    text(i->host, sizeof(i->host), j, "host");
    text(i->model, sizeof(i->model), j, "model");
    text(i->profile, sizeof(i->profile), j, "profile");
    text(i->sha, sizeof(i->sha), j, "revision");
    json_decref(j);
    return 0;
}

int sl_instance_list(struct sl_instance **out, size_t *n,
                     const struct sl_places *p, struct sl_err *err)
{
    struct sl_instance *all = NULL;
    struct sl_names names = {.n = 0};
    char path[SL_TREE_PATH];
    size_t k = 0;
    int rc = 0;

    /* Who else writes there could have any process of ours stopped. */
    if (sl_file_kind(p->run) != SL_FILE_NONE)
        rc = sl_process_check_dir(p->run, err);
    if (!rc)
        rc = sl_names_list(&names, p->run, err);
    for (size_t i = 0; !rc && i < names.n; i++) {
        size_t len = strlen(names.name[i]);

        if (len < 6 || strcmp(names.name[i] + len - 5, ".json"))
            continue;
        rc = sl_mem_resize(&all, k + 1, sizeof(*all), "servers", err);
        if (!rc)
            rc = sl_path_join(path, sizeof(path), p->run, names.name[i], err);
        if (rc || read_one(&all[k], path, NULL))
            continue;
        if (sl_instance_lives(&all[k]))
            k++;
        else
            (void)sl_tree_unlink(path, NULL);
    }
    sl_names_deinit(&names);
    if (rc) {
        sl_mem_free(all);
        return rc;
    }
    *out = all;
    *n = k;
    return 0;
}

/* `want`, or with the process behind it when that lives already. */
static int make_unique(struct sl_instance *i, const struct sl_places *p,
                       const char *want, struct sl_err *err)
{
    struct sl_instance *all = NULL;
    size_t n = 0;
    int rc = sl_instance_list(&all, &n, p, err);

    sl_instance_name(i->name, want);
    for (size_t k = 0; !rc && k < n; k++)
        if (!strcmp(all[k].name, i->name)) {
            size_t len = strlen(i->name);

            snprintf(i->name + len, sizeof(i->name) - len, "-%lld",
                     (long long)i->pid);
            break;
        }
    sl_mem_free(all);
    return rc;
}

static int put(struct sl_instance *i, const struct sl_places *p,
               const char *want, struct sl_err *err)
{
    char path[SL_TREE_PATH], *s;
    json_t *j;
    int rc;

    i->pid = sl_process_self();
    i->began = sl_process_began(i->pid);
    i->when_s = (int64_t)time(NULL);
    rc = make_unique(i, p, want, err);
    if (!rc)
        rc = path_of(path, p, i->name, err);
    if (rc)
        return rc;
    j = json_pack("{s:s, s:I, s:I, s:I, s:s, s:i, s:b, s:i, s:s, s:s, s:s}",
                  "name", i->name, "pid", (json_int_t)i->pid, "began",
                  (json_int_t)i->began, "when", (json_int_t)i->when_s, "host",
                  i->host, "port", (int)i->port, "tls", (int)i->tls, "drain_s",
                  (int)i->drain_s, "model", i->model, "profile", i->profile,
                  "revision", i->sha);
    s = j ? json_dumps(j, 0) : NULL;
    json_decref(j);
    if (!s)
        return sl_fail(err, SL_ENOMEM, "no memory is left");
    rc = sl_file_write(path, s, strlen(s), err);
    free(s); /* jansson's own */
    return rc;
}

int sl_instance_put(struct sl_instance *i, const struct sl_places *p,
                    const char *want, struct sl_err *err)
{
    struct sl_lockfile lock = {.fd = -1};
    char path[SL_TREE_PATH];
    int rc = sl_process_own_dir(p->run, err);

    if (!rc)
        rc = sl_path_join(path, sizeof(path), p->run, "lock", err);
    /* Two that begin at once must not take one name. */
    if (!rc)
        rc = sl_lockfile_take(&lock, path, SL_LOCK_ALONE, LOCK_WAIT_MS,
                              "the list of servers", NULL, err);
    if (!rc)
        rc = put(i, p, want, err);
    sl_lockfile_give(&lock);
    return rc;
}

void sl_instance_drop(const struct sl_instance *i, const struct sl_places *p)
{
    char path[SL_TREE_PATH];

    if (i->name[0] && !path_of(path, p, i->name, NULL))
        (void)sl_tree_unlink(path, NULL);
}

int sl_instance_log(char out[SL_TREE_PATH], const struct sl_places *p,
                    const char *name, struct sl_err *err)
{
    char dir[SL_TREE_PATH], file[SL_INSTANCE_NAME + 8];
    int rc = sl_path_join(dir, sizeof(dir), p->own, "logs", err);

    snprintf(file, sizeof(file), "%.63s.log", name);
    if (!rc)
        rc = sl_tree_make(dir, err);
    return rc ? rc : sl_path_join(out, SL_TREE_PATH, dir, file, err);
}
