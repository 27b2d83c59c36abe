/* text/messages.h - the messages of a request -> what a template can take
 *
 * Clients send more than templates accept: other names for roles, contents in
 * parts, arguments as text, system messages in the middle. A template answers
 * that with an exception, so it is put right before.
 */
#ifndef SL_TEXT_MESSAGES_H
#define SL_TEXT_MESSAGES_H

#include <jansson.h>

#include "base/err.h"

/* A new array of messages; the caller ends *out with json_decref. SL_EARG,
 * for what is no conversation or holds pictures and the like; it begins with the
 * place, as in "messages[3].content[0].type is ...", and a space. Always: keys with null are dropped and reasoning gets the names that
 * templates look for, as transformers does. With `repair` besides:
 *
 *   developer is system, function is tool;
 *   text parts become one string, no content the empty one;
 *   arguments as text become the object they spell, and what spells none the
 *   value of the first parameter that the tool requires, or takes, or of one
 *   that is called "arguments";
 *   system messages are merged into one at the front;
 *   a conversation without a user gets an empty user turn.
 *
 * `tools` may be NULL. Any thread; the input is not changed. */
int sl_messages_prepare(json_t **out, const json_t *messages,
                        const json_t *tools, bool repair, struct sl_err *err);

#endif
