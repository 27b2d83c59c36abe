/* text/tag.h - the tags of tool calls, found in text that may be cut anywhere
 *
 * A match is the number of bytes the tag has, 0 when it is not there, or
 * SL_TAG_MORE when the text ends before that is known.
 */
#ifndef SL_TEXT_TAG_H
#define SL_TEXT_TAG_H

#include "base/base.h"

#define SL_TAG_MORE (-1)
#define SL_TAG_MAX_BLANK 8 /* spaces and tabs at one place inside of a tag */

/* Exactly this text at s. */
int sl_tag_exact(const char *s, size_t len, const char *tag);

/* `<word` or `</word`, then `end`, with blanks around each part: the model
 * writes `< parameter = x >` at times. */
int sl_tag_loose(const char *s, size_t len, bool close, const char *word,
                 char end);

#endif
