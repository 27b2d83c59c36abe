/* text/template.h - chat templates: a subset of Jinja
 *
 *     struct sl_template *t;
 *     rc = sl_template_open(&t, text, len, "chat_template.jinja", err);
 *     sl_buf_init(&out, 16 << 20);
 *     rc = sl_template_render(t, vars, &opts, &out, err);
 *     sl_template_close(&t);
 *
 * The text that comes out is the one that Jinja 3.1 with the settings of
 * transformers' apply_chat_template makes, byte for byte, or it is an error:
 * whatever is not supported is refused when the template is opened, with line
 * and column. Templates and messages are untrusted; steps, memory, depth and
 * output are bounded.
 *
 * An open template never changes: any number of threads may render it at the
 * same time.
 */
#ifndef SL_TEXT_TEMPLATE_H
#define SL_TEXT_TEMPLATE_H

#include <jansson.h>

#include "base/buf.h"

struct sl_template;

#define SL_TEMPLATE_MAX_SOURCE ((size_t)1 << 20) /* bytes; real ones: 20 KiB   \
                                                  */

struct sl_template_opts {
    uint64_t max_steps; /* nodes visited and text moved; 10^8 take seconds */
    size_t max_bytes;   /* memory of one rendering, beside the output */
    int64_t now_s;      /* for strftime_now: local time since 1970 */
};

void sl_template_opts_init(struct sl_template_opts *o);

/* Compile. `what` names the text in messages. SL_EFORMAT with line and column
 * for what is wrong or not supported. The text is not needed afterwards. */
int sl_template_open(struct sl_template **out, const char *text, size_t len,
                     const char *what, struct sl_err *err);
void sl_template_close(struct sl_template **t);

/* Append the text for the variables in `vars`, an object, to `out`, whose own
 * ceiling bounds it; after a failure `out` is as before. When the
 * template calls raise_exception the result is SL_EARG and the message is the
 * template's; other failures of a rendering are SL_EARG or SL_EUNSUP with line
 * and column. Any thread; `vars` must not change meanwhile. */
int sl_template_render(const struct sl_template *t, const json_t *vars,
                       const struct sl_template_opts *o, struct sl_buf *out,
                       struct sl_err *err);

/* Its text, with \n at the ends of lines; lives as long as the template. */
const char *sl_template_source(size_t *len, const struct sl_template *t);

/* Does this word occur in the template? Tells whether an option means anything
 * to it. */
bool sl_template_mentions(const struct sl_template *t, const char *word);

#endif
