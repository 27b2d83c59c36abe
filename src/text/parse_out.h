/* text/parse_out.h - how the parser gives out what it has found; for parse*.c
 */
#ifndef SL_TEXT_PARSE_OUT_H
#define SL_TEXT_PARSE_OUT_H

#include "text/parse_state.h"

/* Append s to b with its marks spelled out. */
void sl_parse_spell(struct sl_buf *b, const char *s, size_t len);

/* Begin or go on with an event of this kind; its text is what is appended to
 * p->text until sl_parse_out_end. */
void sl_parse_out_start(struct sl_parse *p, enum sl_parse_kind kind);
void sl_parse_out_end(struct sl_parse *p);

/* A whole event, or more of the last one. */
void sl_parse_out(struct sl_parse *p, enum sl_parse_kind kind, const char *s,
                  size_t len);

/* Text of REASONING or CONTENT. Space at its end waits. */
void sl_parse_put(struct sl_parse *p, enum sl_parse_kind kind, const char *s,
                  size_t len);

#endif
