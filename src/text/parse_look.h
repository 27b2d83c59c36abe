/* text/parse_look.h - what stands at a place of the text; for parse*.c
 *
 * Nothing here consumes or changes anything. Results are as those of tag.h:
 * bytes, 0 or SL_TAG_MORE.
 */
#ifndef SL_TEXT_PARSE_LOOK_H
#define SL_TEXT_PARSE_LOOK_H

#include "text/parse_state.h"
#include "text/tag.h"

/* May a tag start with this byte? */
static inline bool sl_parse_is_mark(char c)
{
    return c == '<' || (unsigned char)c >= SL_PARSE_MARK;
}

/* One of the tags that are tokens. */
int sl_parse_look_token(const struct sl_parse *p, size_t at,
                        enum sl_parse_tag tag);

/* </word> and <word= */
int sl_parse_look_close(const struct sl_parse *p, size_t at, const char *word);
int sl_parse_look_open(const struct sl_parse *p, size_t at, const char *word);

/* A name inside of a tag. */
struct sl_parse_name {
    size_t at, len; /* without blanks around it; len 0: there is none */
    size_t next;    /* what is behind the tag */
    bool ended;     /* false: the text ends inside of it */
};

/* The name that starts at `at` and goes to `>`, or to a line end or `<` when
 * that is missing. False if it is none. */
bool sl_parse_look_name(const struct sl_parse *p, size_t at,
                        struct sl_parse_name *out);

/* The beginning of a call at p->at. */
struct sl_parse_opening {
    bool outer, json;
    struct sl_parse_name name; /* unless json */
    size_t object;             /* json: where the object starts */
};
int sl_parse_look_call(const struct sl_parse *p, struct sl_parse_opening *out);

/* The end of a value at `at`, where a `<` is; behind a line end or not. What
 * comes after the value starts at *next. */
int sl_parse_look_end(const struct sl_parse *p, size_t at, bool line_start,
                      size_t *next);

#endif
