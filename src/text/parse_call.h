/* text/parse_call.h - the parser inside of a tool call; for parse*.c
 *
 * The steps consume what they can of p->in and return true if there may be
 * more to do, false when they wait for text.
 */
#ifndef SL_TEXT_PARSE_CALL_H
#define SL_TEXT_PARSE_CALL_H

#include "text/parse_look.h"

/* Enter a call whose opening is at p->at. */
void sl_parse_call_enter(struct sl_parse *p, const struct sl_parse_opening *o);

bool sl_parse_call_args(struct sl_parse *p);  /* SL_PARSE_IN_ARGS */
bool sl_parse_call_value(struct sl_parse *p); /* SL_PARSE_IN_VALUE */
bool sl_parse_call_json(struct sl_parse *p);  /* SL_PARSE_IN_JSON */

/* The output was ended by its length inside of ARGS or VALUE. */
void sl_parse_call_cut(struct sl_parse *p);

#endif
