/* server/page.c - the page that browsers get; see page.h
 *
 * A strict content security policy: the page loads its own script and style,
 * talks to this server, and nothing else; nothing inline runs, so that what a
 * model writes could not become a script even if it were put into the page as
 * markup, which it is not (page.js). Nobody may frame it.
 */
#include "server/page.h"

#include <strings.h>

#define POLICY                                                                 \
    "default-src 'none'; script-src 'self'; style-src 'self'; "                \
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; " \
    "frame-ancestors 'none'"

/* "text/html" in Accept, whatever its weight; programs say "*" and browsers
 * say this. */
bool sl_page_is_wanted(const struct sl_exchange *x)
{
    const char *accept = sl_message_header(x->msg, "Accept");

    return accept && strcasestr(accept, "text/html");
}

void sl_page_reply(struct sl_exchange *x)
{
    const unsigned char *p = sl_page_html;
    const char *type = "text/html; charset=utf-8";
    size_t len = sl_page_html_len, n = strlen(x->path);

    if (n > 4 && !strcmp(x->path + n - 4, ".css")) {
        p = sl_page_css;
        len = sl_page_css_len;
        type = "text/css; charset=utf-8";
    } else if (n > 3 && !strcmp(x->path + n - 3, ".js")) {
        p = sl_page_js;
        len = sl_page_js_len;
        type = "text/javascript; charset=utf-8";
    }
    sl_http_header(x, "Content-Security-Policy", POLICY);
    sl_http_header(x, "X-Content-Type-Options", "nosniff");
    sl_http_header(x, "Referrer-Policy", "no-referrer");
    sl_http_header(x, "Cache-Control", "no-cache");
    sl_http_reply(x, 200, type, (const char *)p, len);
}
