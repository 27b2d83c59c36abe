/* bundle/name.c - names that come from outside; see name.h
 *
 * The rules of paths are those of the strictest file system a cache may lie
 * on, so that a repository that passes here is the same set of files
 * everywhere: no case twins, no device of another system, no trailing dot.
 */
#include "bundle/name.h"

#include <utf8proc.h>

#include "base/mem.h"
#include "base/utf8.h"

#define MAX_PART 255 /* bytes of one component of a path */

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

bool sl_name_is_hex(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
            return false;
    return s[n] == 0;
}

bool sl_name_is_zero(const char *s, size_t n)
{
    return strlen(s) == n && strspn(s, "0") == n;
}

/* Letters, digits, '.', '_', '-'; the first is a letter or a digit. */
static bool is_word(const char *s, size_t n)
{
    if (n == 0 || !is_alnum(s[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_alnum(s[i]) && s[i] != '.' && s[i] != '_' && s[i] != '-')
            return false;
    return true;
}

bool sl_name_is_slug(const char *s)
{
    size_t n = strlen(s);

    if (n > SL_NAME_SLUG || !is_word(s, n) || strstr(s, "..") ||
        strstr(s, "--"))
        return false;
    for (size_t i = 0; i < n; i++)
        if (is_upper(s[i]))
            return false;
    return true;
}

bool sl_name_is_repo(const char *s)
{
    const char *slash = strchr(s, '/');
    size_t n = strlen(s);

    if (!slash || n > SL_NAME_REPO || strstr(s, "--") || strstr(s, ".."))
        return false;
    if (!is_word(s, (size_t)(slash - s)) ||
        !is_word(slash + 1, strlen(slash + 1)))
        return false;
    if (s[n - 1] == '.' || s[n - 1] == '-' || slash[-1] == '.' ||
        slash[-1] == '-')
        return false;
    return n < 4 || strcmp(s + n - 4, ".git") != 0;
}

bool sl_name_is_rev(const char *s)
{
    size_t n = strlen(s);

    if (n == 0 || n > SL_NAME_REV || strstr(s, "..") || s[0] == '-' ||
        s[0] == '/' || s[n - 1] == '/' || s[n - 1] == '.' || strstr(s, "//") ||
        strstr(s, "@{"))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_alnum(s[i]) && !strchr("._-/+@", s[i]))
            return false;
    /* A component that begins with a dot would hide, or be "." itself. */
    return s[0] != '.' && !strstr(s, "/.");
}

static const char *part_flaw(const char *s, size_t n)
{
    if (n == 0)
        return "has an empty part";
    if (n > MAX_PART)
        return "has a part of more than 255 bytes";
    if (s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')))
        return "has a part '.' or '..'";
    if (s[n - 1] == '.' || s[n - 1] == ' ')
        return "has a part that ends with a dot or a space";
    return NULL;
}

const char *sl_name_path_flaw(const char *s)
{
    size_t n = strlen(s), begin = 0;

    if (n == 0)
        return "is empty";
    if (n > SL_NAME_PATH)
        return "has more than 1024 bytes";
    if (sl_utf8_valid(s, n) != n)
        return "is not UTF-8";
    if (s[0] == '/')
        return "begins with '/'";
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return "has a control character";
        if (s[i] == '\\')
            return "has a '\\'";
    }
    if (s[1] == ':')
        return "begins with a drive";
    for (size_t i = 0; i <= n; i++)
        if (i == n || s[i] == '/') {
            const char *flaw = part_flaw(s + begin, i - begin);

            if (flaw)
                return flaw;
            begin = i + 1;
        }
    return strncmp(s, ".git/", 5) && strcmp(s, ".git")
               ? NULL
               : "lies in the folder .git";
}

/* ------------------------------------------------------------- twins */

struct folded {
    const char *path;
    char *text; /* utf8proc's own */
};

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct folded *)a)->text,
                  ((const struct folded *)b)->text);
}

static bool fold(struct folded *f, const char *path)
{
    utf8proc_uint8_t *text = NULL;

    f->path = path;
    if (utf8proc_map((const utf8proc_uint8_t *)path, 0, &text,
                     UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE) <
        0)
        return false;
    f->text = (char *)text;
    for (char *p = f->text; *p; p++)
        if (is_upper(*p))
            *p = (char)(*p + 'a' - 'A');
    return true;
}

bool sl_name_twins(const char **a, const char **b, const char *const *path,
                   size_t n)
{
    struct folded *f = NULL;
    bool found = false;
    size_t n_ok = 0;

    if (n < 2)
        return false;
    *a = *b = path[0];
    /* Without memory for the question the answer is the safe one. */
    if (sl_mem_alloc(&f, n, sizeof(*f), "the names of files", NULL))
        return true;
    while (n_ok < n && fold(&f[n_ok], path[n_ok]))
        n_ok++;
    if (n_ok == n)
        qsort(f, n, sizeof(*f), by_text);
    else
        found = true;
    for (size_t i = 1; !found && i < n; i++)
        if (by_text(&f[i - 1], &f[i]) == 0) {
            *a = f[i - 1].path;
            *b = f[i].path;
            found = true;
        }
    for (size_t i = 0; i < n_ok; i++)
        free(f[i].text);
    sl_mem_free(f);
    return found;
}

/* -------------------------------------------------------------- glob */

/* One character of `s` against one item of the pattern; *len is the item's. */
static bool one(const char *p, char c, size_t *len)
{
    size_t i = 1;
    bool no, hit = false;

    *len = 1;
    if (*p == '?')
        return true;
    if (*p != '[' || !strchr(p, ']'))
        return *p == c;
    no = p[i] == '!';
    i += no;
    for (; p[i] && p[i] != ']'; i++) {
        if (p[i + 1] == '-' && p[i + 2] && p[i + 2] != ']') {
            hit |= p[i] <= c && c <= p[i + 2];
            i += 2;
        } else {
            hit |= p[i] == c;
        }
    }
    *len = i + (p[i] == ']');
    return hit != no;
}

/* The last star is where to go back to; earlier ones need not be tried again,
 * so this is len(s) * len(p) at most. */
bool sl_name_glob(const char *p, const char *s)
{
    const char *star = NULL, *mark = NULL;
    size_t len;

    while (*s) {
        if (*p == '*') {
            star = p++;
            mark = s;
        } else if (*p && one(p, *s, &len)) {
            p += len;
            s++;
        } else if (star) {
            p = star + 1;
            s = ++mark;
        } else {
            return false;
        }
    }
    while (*p == '*')
        p++;
    return !*p;
}

/* ------------------------------------------------------------ targets */

bool sl_target_is(const char *s)
{
    const char *slash = strchr(s, '/');
    size_t n = strcspn(s, ":@#");

    return slash && slash != s && slash < s + n && slash[1] && s[0] != '.' &&
           s[0] != '~' && !memchr(slash + 1, '/', (size_t)(s + n - slash) - 1);
}

/* The part of *s before the first of `stop`; moves *s there. */
static bool take(char *out, size_t cap, const char **s, const char *stop)
{
    size_t n = strcspn(*s, stop);

    if (n == 0 || n >= cap)
        return false;
    memcpy(out, *s, n);
    out[n] = 0;
    *s += n;
    return true;
}

int sl_target_parse(struct sl_target *out, const char *s, struct sl_err *err)
{
    static const char digest[] = "#sha256:";
    struct sl_target t = {.repo = ""};
    const char *p = s;

    if (!take(t.repo, sizeof(t.repo), &p, ":@#") || !sl_name_is_repo(t.repo))
        return sl_fail(err, SL_EARG,
                       "'%.120s' is no name on a hub; one is ORG/NAME of "
                       "letters, digits, '.', '_' and '-'",
                       s);
    if (*p == ':') {
        p++;
        if (!take(t.pick, sizeof(t.pick), &p, "@#") ||
            sl_name_path_flaw(t.pick))
            return sl_fail(err, SL_EARG,
                           "'%.120s': behind ':' stands the name of a GGUF "
                           "file or of a quantisation",
                           s);
    }
    if (*p == '@') {
        p++;
        if (!take(t.rev, sizeof(t.rev), &p, "#") || !sl_name_is_rev(t.rev))
            return sl_fail(err, SL_EARG,
                           "'%.120s': behind '@' stands a branch, a tag or a "
                           "commit",
                           s);
    }
    if (*p) {
        if (strncmp(p, digest, sizeof(digest) - 1) ||
            strlen(p) != sizeof(digest) - 1 + SL_NAME_SHA256 ||
            !sl_name_is_hex(p + sizeof(digest) - 1, SL_NAME_SHA256))
            return sl_fail(err, SL_EARG,
                           "'%.120s': behind '#' stands sha256: and 64 "
                           "lower-case hexadecimal digits",
                           s);
        memcpy(t.sha256, p + sizeof(digest) - 1, SL_NAME_SHA256);
    }
    *out = t;
    return 0;
}

void sl_name_folder(char out[SL_NAME_FOLDER], const char *repo)
{
    const char *slash = strchr(repo, '/');

    SL_CHECK(slash && strlen(repo) <= SL_NAME_REPO);
    snprintf(out, SL_NAME_FOLDER, "models--%.*s--%s", (int)(slash - repo), repo,
             slash + 1);
}
