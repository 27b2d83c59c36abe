/* sample/regex.h - patterns
 *
 * What the pattern languages of JSON Schema (ECMA 262), Python and PCRE have in
 * common: characters, ., sets with \d \w \s and their opposites, groups with
 * and without name, |, * + ? {m,n} (also lazy, which means the same here), \n
 * \t \r \f \v \0 \xHH \uHHHH \u{H..}, and ^ and $ at the ends. \d, \w and \s
 * are ASCII, \S is what is no space in all of Unicode, and "." is all but the ends of lines, as in ECMA 262. Refused by
 * name: looking around, back references, \b, \p, inline flags.
 *
 * Any thread.
 */
#ifndef SL_SAMPLE_REGEX_H
#define SL_SAMPLE_REGEX_H

#include "sample/grammar.h"

#define SL_REGEX_MAX_TEXT 65536 /* bytes; chosen */

enum sl_regex_what {
    SL_REGEX_WHOLE, /* the text is what the pattern matches */
    SL_REGEX_FIND,  /* the text holds it somewhere, unless ^ and $ say more */
};

/* How a character is written in the answer. */
enum sl_regex_write {
    SL_REGEX_RAW,
    SL_REGEX_JSON, /* as in a JSON string: some are escaped, and zero does not
                      occur */
};

/* The node of a pattern; on failure 0, and `g` keeps it: SL_EARG with the
 * offset. */
uint32_t sl_regex_node(struct sl_grammar *g, const char *s, size_t len,
                       enum sl_regex_what what, enum sl_regex_write how);

/* One character of joined ranges, written so. */
uint32_t sl_regex_set(struct sl_grammar *g, const struct sl_range *r, size_t n,
                      enum sl_regex_write how);

/* Does JSON escape this character in a string? */
bool sl_regex_is_escaped(uint32_t cp);

#endif
