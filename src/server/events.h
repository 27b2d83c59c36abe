/* server/events.h - server-sent events, read: what our clients of an
 * OpenAI-compatible server share
 *
 * Not thread-safe. Source: WHATWG HTML, 9.2, as such servers use it: each event
 * is one line "data: JSON" and ends with an empty line; the last is [DONE].
 */
#ifndef SL_SERVER_EVENTS_H
#define SL_SERVER_EVENTS_H

#include <jansson.h>

#include "base/buf.h"

/* One event: its JSON, NULL when it is none, and its n bytes as they came. */
typedef void sl_on_event(void *ctx, const json_t *j, const char *s, size_t n);

/* Hand over the whole events of b, and remove them from it. Comments and [DONE]
 * are passed over. A text may hold U+0000, as a model may write it. */
void sl_events_take(struct sl_buf *b, sl_on_event *on_event, void *ctx);

#endif
