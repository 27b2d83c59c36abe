/* sample/calls.h - calls of tools, in the model's own markup, as a grammar
 *
 * What serving.md 4.1 shows: parameters typed by the tools' schemas, in any
 * order where there are few. Text in a parameter is free but for what would be
 * read as markup. Any thread.
 */
#ifndef SL_SAMPLE_CALLS_H
#define SL_SAMPLE_CALLS_H

#include <jansson.h>

#include "sample/grammar.h"

#define SL_CALLS_MAX 64 /* calls of one answer; chosen */

struct sl_calls {
    json_t *tools;    /* the array of a request, or the flat form */
    const char *only; /* the tool that is called, or NULL: any */
    bool must;        /* an answer without a call is not one */
    bool many;        /* more than one call */
    bool hermes;      /* a call is a JSON object */
    json_t *content;  /* without `must`: the schema of an answer that is no
                         call; NULL: any text, and calls behind it, which are
                         held to their schemas where a tool is strict */
    int32_t open, close; /* tokens <tool_call> and </tool_call>; -1: spelled */
};

/* Add the rules; `root` is defined. Failures stick to `g`. */
void sl_calls_read(struct sl_grammar *g, uint32_t root,
                   const struct sl_calls *c);

#endif
