/* sample/japart.h - can a value be valid under two schemas?
 *
 * oneOf asks for values that are valid under one of its schemas and no other,
 * and a grammar can only say "or". Where no text of one alternative is valid
 * under another, as with other types, or another const in a member that both
 * have, that is the same. Any thread.
 */
#ifndef SL_SAMPLE_JAPART_H
#define SL_SAMPLE_JAPART_H

#include "sample/jtext.h"

/* True: no text that is written for schema `a` (jschema.h) is valid under `b`.
 * False: it may be so, or not. Work of the grammar; a reference that leads
 * nowhere is a failure. */
bool sl_japart(struct sl_jschema *j, const json_t *a, const json_t *b);

#endif
