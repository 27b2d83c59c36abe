/* text/jinja_text.h - what Python's str can do
 *
 * On UTF-8. White space, case and what is printable are Unicode's, as Python
 * has them.
 */
#ifndef SL_TEXT_JINJA_TEXT_H
#define SL_TEXT_JINJA_TEXT_H

#include "text/jinja_value.h"

bool sl_jinja_is_space(uint32_t cp);
bool sl_jinja_is_printable(uint32_t cp);
bool sl_jinja_is_cased(uint32_t cp);
bool sl_jinja_is_upper(uint32_t cp);
bool sl_jinja_is_lower(uint32_t cp);
bool sl_jinja_is_alpha(uint32_t cp);
bool sl_jinja_is_decimal(uint32_t cp);

/* Cut characters off the ends: those of `chars`, or white space if NULL. */
void sl_jinja_strip(const char **s, size_t *len, const char *chars,
                    size_t n_chars, bool left, bool right);

/* Offset in bytes of the i-th code point, i <= s->n_cp. */
size_t sl_jinja_offset(const struct sl_jstr *s, size_t i);

/* Code points [a, b) of s; a <= b <= s->n_cp. */
struct sl_jval sl_jinja_cut(struct sl_jrun *r, const struct sl_jstr *s,
                            size_t a, size_t b);

/* Emit s in another case: 'u' upper, 'l' lower, 't' title (str.title), 'c'
 * capitalize, 'j' Jinja's title filter. */
void sl_jinja_emit_case(struct sl_jrun *r, const char *p, size_t len,
                        char what);

/* Emit s with at most max (-1: all) occurrences of `old` replaced. */
void sl_jinja_emit_replaced(struct sl_jrun *r, const struct sl_jstr *s,
                            const struct sl_jstr *old,
                            const struct sl_jstr *with, int64_t max);

/* Emit s with & < > " ' escaped as markupsafe does. */
void sl_jinja_emit_escaped(struct sl_jrun *r, const char *p, size_t len);

/* str.split and str.rsplit; sep NULL is white space. */
struct sl_jval sl_jinja_split(struct sl_jrun *r, const struct sl_jstr *s,
                              const struct sl_jstr *sep, int64_t max,
                              bool from_right);

/* str.splitlines. */
struct sl_jval sl_jinja_lines(struct sl_jrun *r, const struct sl_jstr *s,
                              bool keep_ends);

#endif
