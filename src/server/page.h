/* server/page.h - the page that browsers get
 *
 * Its three files (src/server/page/) are in the program as arrays, made by
 * scripts/embed. Loop thread.
 */
#ifndef SL_SERVER_PAGE_H
#define SL_SERVER_PAGE_H

#include "server/http.h"

extern const unsigned char sl_page_html[], sl_page_css[], sl_page_js[];
extern const size_t sl_page_html_len, sl_page_css_len, sl_page_js_len;

/* Does the client want a page, rather than data? */
bool sl_page_is_wanted(const struct sl_exchange *x);

/* Answer with the page, or with the part of it that the path names. */
void sl_page_reply(struct sl_exchange *x);

#endif
