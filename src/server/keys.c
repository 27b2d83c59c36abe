/* server/keys.c - who may ask, and who does; see keys.h */

/* First: OpenSSL's headers use names that are banned behind base.h. */
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "server/keys.h"

#include <arpa/inet.h>
#include <strings.h>

#include "base/file.h"

#define MAX_FILE ((size_t)1 << 20) /* bytes of a file of keys. Chosen. */
#define MAX_HASHES ((size_t)1 << 20) /* bytes, for 32,768 keys. Chosen. */
#define BLANK " \t\r"
#define MARK "\xef\xbb\xbf" /* some editors begin a file with it */

_Static_assert(SL_KEYS_HASH == SHA256_DIGEST_LENGTH, "keys are SHA-256");

/* ------------------------------------------------------------------ loading */

static void hash(unsigned char out[SL_KEYS_HASH], const char *s, size_t n)
{
    SHA256((const unsigned char *)s, n, out);
}

/* Bytes without the blanks in front, which *s leaves behind, and at the end. */
static size_t trim(const char **s, size_t n)
{
    size_t skip = sl_min(strspn(*s, BLANK), n);

    *s += skip;
    n -= skip;
    while (n > 0 && strchr(BLANK, (*s)[n - 1]))
        n--;
    return n;
}

static int add(struct sl_keys *k, const char *s, size_t n, struct sl_err *err)
{
    char h[SL_KEYS_HASH];

    hash((unsigned char *)h, s, n);
    for (size_t i = 0; i < k->n; i++)
        if (!memcmp(k->hash.p + i * sizeof(h), h, sizeof(h)))
            return 0;
    sl_buf_add(&k->hash, h, sizeof(h));
    if (k->hash.failed)
        return sl_fail(err, SL_EARG, "there are more than %u API keys", k->n);
    k->n++;
    return 0;
}

/* The keys between two separators; a line may be a comment. */
static int add_all(struct sl_keys *k, const char *s, char sep, struct sl_err *err)
{
    int rc = 0;

    while (!rc && *s) {
        const char *end = strchrnul(s, sep), *p = s;
        size_t n = trim(&p, (size_t)(end - s));

        if (n > 0 && !(sep == '\n' && *p == '#'))
            rc = add(k, p, n, err);
        s = *end ? end + 1 : end;
    }
    return rc;
}

/* What stands behind a zero would be lost unseen, and keys in UTF-16 are none
 * that a client can send. */
static int add_lines(struct sl_keys *k, const char *text, size_t n,
                     struct sl_err *err)
{
    if (strlen(text) != n)
        return sl_fail(err, SL_EARG,
                       "the file of keys has a byte zero in it; write it as "
                       "plain text, a key in a line");
    if (!strncmp(text, MARK, strlen(MARK)))
        text += strlen(MARK);
    return add_all(k, text, '\n', err);
}

static int add_file(struct sl_keys *k, const char *path, struct sl_err *err)
{
    char *text = NULL;
    size_t n = 0;
    int rc = sl_file_read(&text, &n, path, MAX_FILE, err);

    if (rc)
        return sl_wrap(err, rc, "--api-key-file");
    rc = add_lines(k, text, n, err);
    sl_file_free(text);
    if (!rc && k->n == 0)
        rc = sl_fail(err, SL_EARG,
                     "the file '%.300s' has no key in it; write one in a line",
                     path);
    return rc;
}

int sl_keys_load(struct sl_keys *k, const struct sl_keys_from *from,
                 struct sl_err *err)
{
    struct sl_keys new = {0};
    int rc = 0;

    sl_buf_init(&new.hash, MAX_HASHES);
    for (uint32_t i = 0; !rc && i < from->n; i++)
        rc = add_all(&new, from->text[i], ',', err);
    if (!rc && from->n && !new.n)
        rc = sl_fail(err, SL_EARG,
                     "--api-key is empty; leave it out to let everybody ask");
    if (!rc && from->file)
        rc = add_file(&new, from->file, err);
    if (rc) {
        sl_keys_deinit(&new);
        return rc;
    }
    sl_keys_deinit(k);
    *k = new;
    return 0;
}

void sl_keys_deinit(struct sl_keys *k)
{
    sl_buf_deinit(&k->hash);
    *k = (struct sl_keys){0};
}

/* ------------------------------------------------------------------ looking */

static uint64_t find(const struct sl_keys *k, const char *given)
{
    unsigned char got[SL_KEYS_HASH];
    uint64_t found = 0;
    size_t n = trim(&given, strlen(given));

    hash(got, given, n);
    for (size_t i = 0; i < k->n; i++)
        if (CRYPTO_memcmp(got, k->hash.p + i * sizeof(got), sizeof(got)) ==
            0)
            for (int b = 0; b < 8; b++)
                found = found << 8 | got[b];
    return found;
}

/* The key that a header line shows, or NULL. */
static const char *shown(const char *name, const char *value)
{
    if (!strcasecmp(name, "X-Api-Key"))
        return value;
    if (!strcasecmp(name, "Authorization") &&
        !strncasecmp(value, "Bearer ", sizeof("Bearer ") - 1))
        return value + sizeof("Bearer ") - 1;
    return NULL;
}

uint64_t sl_keys_find(const struct sl_keys *k, const struct sl_message *m)
{
    uint64_t all = 0;
    bool first = true;

    for (uint32_t i = 0; i < m->n_line; i++) {
        const char *s = shown(m->head.p + m->line[i].name,
                              m->head.p + m->line[i].value);
        uint64_t id = s ? find(k, s) : 0;

        if (s && !first && id != all)
            return 0;
        if (s)
            all = id;
        first = first && !s;
    }
    return all;
}

uint64_t sl_keys_client(uint64_t key, const char *peer)
{
    struct in6_addr v6;
    struct in_addr v4;
    uint64_t id = 0;

    if (key > 0)
        id = key;
    else if (inet_pton(AF_INET, peer, &v4) == 1)
        id = v4.s_addr;
    else if (inet_pton(AF_INET6, peer, &v6) != 1)
        id = 0;
    else if (IN6_IS_ADDR_V4MAPPED(&v6))
        memcpy(&id, v6.s6_addr + 12, 4);
    else
        memcpy(&id, v6.s6_addr, sizeof(id));
    return id;
}
