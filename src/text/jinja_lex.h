/* text/jinja_lex.h - the text of a template -> tokens
 *
 * With the settings that chat templates are written for: trim_blocks,
 * lstrip_blocks, and no newline at the very end.
 */
#ifndef SL_TEXT_JINJA_LEX_H
#define SL_TEXT_JINJA_LEX_H

#include "text/jinja_ast.h"

enum sl_jtok_kind {
    SL_JTOK_EOF,
    SL_JTOK_DATA,
    SL_JTOK_VAR_BEGIN,
    SL_JTOK_VAR_END,
    SL_JTOK_BLOCK_BEGIN,
    SL_JTOK_BLOCK_END,
    SL_JTOK_NAME,
    SL_JTOK_LITERAL, /* string, integer or float, in val */
    SL_JTOK_OP,
};

struct sl_jtok {
    enum sl_jtok_kind kind;
    int op;      /* SL_JOP of an operator; b is 0 for one character */
    uint32_t at; /* offset in the source */
    uint32_t len;
    const char *p; /* text of data and names, borrowed from the source */
    struct sl_jval val;
};

struct sl_jtoks {
    struct sl_jtok *p; /* sl_mem; the last is SL_JTOK_EOF */
    size_t n, cap;
};

/* Cut r->src, whose newlines are '\n' already and which is valid UTF-8.
 * Strings live in the heap of r. Errors stick to r; *out is to be freed in
 * any case. */
void sl_jinja_lex(struct sl_jtoks *out, struct sl_jrun *r);
void sl_jinja_lex_free(struct sl_jtoks *t);

#endif
