/* sample/gbnf.h - grammars as llama.cpp writes them
 *
 *     root  ::= "[" item ("," item)* "]"   # a comment
 *     item  ::= [a-z0-9_]{1,8} | [^\x00-\x7f]+ | .
 *
 * Literals and sets know \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH. Repetition
 * is * + ? {m} {m,} {m,n}. A rule goes on over lines until another name with
 * "::=" begins. The answer is what the rule root matches. Any thread.
 */
#ifndef SL_SAMPLE_GBNF_H
#define SL_SAMPLE_GBNF_H

#include "sample/grammar.h"

#define SL_GBNF_MAX_TEXT ((size_t)1 << 20) /* bytes; chosen */

/* Add the rules of s[0..len); rule 0 becomes the root. `g` has just been
 * initialised and keeps the failure, SL_EARG with the line. */
void sl_gbnf_read(struct sl_grammar *g, const char *s, size_t len);

#endif
