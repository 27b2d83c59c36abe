/* bundle/address.c - addresses of the hub and of what it redirects to; see
 * address.h */
#include "bundle/address.h"

#include <arpa/inet.h>
#include <curl/curl.h>

bool sl_address_is_private(const unsigned char *ip, size_t n)
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0,    0,
                                             0, 0, 0, 0, 0xff, 0xff};
    static const unsigned char none[16] = {0};

    if (n == 16 && !memcmp(ip, mapped, sizeof(mapped)))
        return sl_address_is_private(ip + 12, 4);
    if (n == 16)
        return !memcmp(ip, none, 15) ||                   /* :: and ::1 */
               (ip[0] & 0xfe) == 0xfc ||                  /* fc00::/7 */
               (ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80); /* fe80::/10 */
    return ip[0] == 0 || ip[0] == 10 || ip[0] == 127 ||
           (ip[0] == 169 && ip[1] == 254) ||
           (ip[0] == 172 && (ip[1] & 0xf0) == 16) ||
           (ip[0] == 192 && ip[1] == 168) ||
           (ip[0] == 100 && (ip[1] & 0xc0) == 64);
}

/* The host part of an address is this machine, or not public. */
bool sl_address_private_host(const char *host)
{
    unsigned char ip[16];
    char bare[256];

    snprintf(bare, sizeof(bare), "%s", host[0] == '[' ? host + 1 : host);
    bare[strcspn(bare, "]")] = 0;
    if (inet_pton(AF_INET, bare, ip) == 1)
        return sl_address_is_private(ip, 4);
    if (inet_pton(AF_INET6, bare, ip) == 1)
        return sl_address_is_private(ip, 16);
    return !strcmp(bare, "localhost");
}

static bool is_loopback_host(const char *host)
{
    unsigned char ip[4];

    return !strcmp(host, "localhost") || !strcmp(host, "[::1]") ||
           (inet_pton(AF_INET, host, ip) == 1 && ip[0] == 127);
}

/* A part of an address into out; "" when absent. */
static void part(char *out, size_t cap, CURLU *u, CURLUPart what)
{
    char *s = NULL;

    out[0] = 0;
    if (curl_url_get(u, what, &s,
                     what == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0) ==
        CURLUE_OK)
        snprintf(out, cap, "%s", s);
    curl_free(s);
}

struct origin {
    char scheme[16], host[256], port[8];
};

static void get_origin(struct origin *o, CURLU *u)
{
    part(o->scheme, sizeof(o->scheme), u, CURLUPART_SCHEME);
    part(o->host, sizeof(o->host), u, CURLUPART_HOST);
    part(o->port, sizeof(o->port), u, CURLUPART_PORT);
}

static bool origin_of(struct origin *o, const char *url)
{
    CURLU *u = curl_url();
    bool ok = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK;

    if (ok)
        get_origin(o, u);
    curl_url_cleanup(u);
    return ok;
}

bool sl_address_host(char out[256], const char *url)
{
    struct origin o;

    out[0] = 0;
    if (!origin_of(&o, url))
        return false;
    memcpy(out, o.host, sizeof(o.host));
    return true;
}

bool sl_address_same_origin(const char *a, const char *b)
{
    struct origin x, y;

    return origin_of(&x, a) && origin_of(&y, b) &&
           !strcmp(x.scheme, y.scheme) && !strcmp(x.host, y.host) &&
           !strcmp(x.port, y.port);
}

static int judge(const struct origin *to, const struct origin *hub,
                 const char *user, struct sl_err *err)
{
    bool plain = !strcmp(to->scheme, "http") && !strcmp(hub->scheme, "http");

    if (*user)
        return sl_fail(err, SL_EFORMAT,
                       "the hub redirects to an address with a user's name in "
                       "it, which is refused");
    /* Without encryption only where the hub itself has none: to its own host,
     * or within this machine. */
    plain =
        plain && (!strcmp(to->host, hub->host) ||
                  (is_loopback_host(hub->host) && is_loopback_host(to->host)));
    if (strcmp(to->scheme, "https") && !plain)
        return sl_fail(err, SL_EFORMAT,
                       "the hub redirects to %.20s://%.100s, which is refused: "
                       "only https is followed",
                       to->scheme, to->host);
    if (!sl_address_private_host(hub->host) && sl_address_private_host(to->host))
        return sl_fail(err, SL_EFORMAT,
                       "the hub redirects to %.100s, an address of a private "
                       "network, which is refused",
                       to->host);
    return 0;
}

int sl_address_follow(char out[SL_ADDRESS], const char *from,
                     const char *location, const char *endpoint,
                     struct sl_err *err)
{
    struct origin to, hub;
    char user[64], full[SL_ADDRESS];
    CURLU *u = curl_url();
    int rc = 0;

    if (!u || curl_url_set(u, CURLUPART_URL, from, 0) != CURLUE_OK ||
        !origin_of(&hub, endpoint))
        rc = sl_fail(err, SL_ENOMEM, "no memory is left for an address");
    else if (curl_url_set(u, CURLUPART_URL, location, 0) != CURLUE_OK)
        rc = sl_fail(err, SL_EFORMAT,
                     "the hub redirects to something that is no address of "
                     "https, which is refused");
    if (!rc) {
        get_origin(&to, u);
        part(user, sizeof(user), u, CURLUPART_USER);
        part(full, sizeof(full), u, CURLUPART_URL);
        rc = judge(&to, &hub, user, err);
    }
    if (!rc)
        memcpy(out, full, SL_ADDRESS);
    curl_url_cleanup(u);
    return rc;
}

void sl_address_encode(struct sl_buf *b, const char *s, bool slashes)
{
    static const char digit[] = "0123456789ABCDEF";

    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            (c >= '0' && c <= '9') || strchr("-._~", c) ||
            (slashes && c == '/')) {
            sl_buf_byte(b, *s);
        } else {
            sl_buf_byte(b, '%');
            sl_buf_byte(b, digit[c >> 4]);
            sl_buf_byte(b, digit[c & 15]);
        }
    }
}
