/* server/form.h - what the answer must look like, as requests say it
 *
 * response_format, structured_outputs, the older guided_* fields, llama.cpp's
 * json_schema and grammar, and tool_choice (serving.md 2.7). Borrows from the
 * request's JSON. Text workers; no engine in here.
 */
#ifndef SL_SERVER_FORM_H
#define SL_SERVER_FORM_H

#include <jansson.h>

#include "server/error.h"
#include "sluice/sluice.h"

struct sl_form {
    enum sl_shape_kind kind; /* FREE, SCHEMA, REGEX, CHOICE or GRAMMAR */
    const char *field;       /* that said so, for messages; NULL: none did */
    json_t *value;           /* a schema, or the strings of a choice; owned */
    const char *text;        /* a pattern or a grammar */
    size_t len;
    const char *tool_choice; /* "none", "auto", "required", or NULL */
    const char *tool;        /* the one that is to be called, or NULL */
};

void sl_form_deinit(struct sl_form *f);

/* One field each; the value is not null. */
typedef int sl_form_fn(struct sl_form *f, const json_t *v,
                       struct sl_refusal *r);
sl_form_fn sl_form_response_format, sl_form_structured, sl_form_guided_json,
    sl_form_guided_regex, sl_form_guided_choice, sl_form_guided_grammar,
    sl_form_json_schema, sl_form_grammar, sl_form_tool_choice;

/* Do the fields fit with each other and with the tools (NULL: none)? */
int sl_form_check(struct sl_form *f, const json_t *tools,
                  struct sl_refusal *r);

/* Must the answer be calls of tools? */
bool sl_form_must_call(const struct sl_form *f);

/* The shape as the library takes it. */
struct sl_form_shape {
    enum sl_shape_kind kind;
    char *text; /* freed with sl_mem_free; NULL for FREE */
    size_t len;
};

/* `many`: more than one call may come; `hermes`: how calls are written. */
int sl_form_shape(struct sl_form_shape *out, const struct sl_form *f,
                  json_t *tools, bool many, bool hermes, struct sl_refusal *r);

#endif
