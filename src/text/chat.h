/* text/chat.h - a conversation -> the text of a prompt
 *
 *     rc = sl_chat_load(&chat, "models/x", err);
 *     sl_chat_opts_init(&o);
 *     sl_buf_init(&out, max_prompt_bytes);
 *     rc = sl_chat_render(chat, messages, tools, &o, &out, err);
 *     sl_chat_close(&chat);
 *
 * The model's own template does the work (text/template.h). An open chat never
 * changes; any thread may render with it.
 */
#ifndef SL_TEXT_CHAT_H
#define SL_TEXT_CHAT_H

#include <jansson.h>

#include "base/buf.h"

struct sl_chat;

/* What a switch of a template is set to. */
enum sl_chat_switch { SL_CHAT_UNSET, SL_CHAT_OFF, SL_CHAT_ON };

struct sl_chat_opts {
    bool add_generation_prompt;  /* open the turn of the assistant */
    bool continue_final_message; /* leave the last turn open instead */
    bool as_is; /* no repairs: what the template refuses is refused */
    enum sl_chat_switch enable_thinking, preserve_thinking;

    /* none, minimal, low, medium, high, xhigh or max; NULL: not given. Turns
     * thinking on or off unless that is said elsewhere, and reaches templates
     * that know it in their own words. */
    const char *reasoning_effort;

    /* Further variables of the template, or NULL; they win over the switches
     * above. The keys add_generation_prompt and continue_final_message set the
     * fields of that name. Borrowed during the call. */
    const json_t *kwargs;
    int64_t now_s; /* what the template may print: local time since 1970 */
};

/* add_generation_prompt, the clock of the system in UTC, the rest unset. */
void sl_chat_opts_init(struct sl_chat_opts *o);

/* From the contents of chat_template.jinja and of tokenizer_config.json; one
 * of them may be NULL. The first wins; the second has the tokens that
 * templates name, and may have the template, or several with names, of which
 * 'default' and 'tool_use' count. SL_ENOTFOUND when neither has one, SL_EFORMAT
 * with line and column for a template that cannot be run, which `what` names.
 * The texts are not needed afterwards. */
int sl_chat_parse(struct sl_chat **out, const char *jinja, size_t len,
                  const char *conf, size_t conf_len, const char *what,
                  struct sl_err *err);

/* From a model's folder. */
int sl_chat_load(struct sl_chat **out, const char *dir, struct sl_err *err);
void sl_chat_close(struct sl_chat **c);

/* Append the prompt to `out`; its own ceiling bounds it, and after a failure
 * it is as before. `messages` is an array, `tools` an array or NULL. SL_EARG
 * says which message is wrong, or is what the template says about it. */
int sl_chat_render(const struct sl_chat *c, const json_t *messages,
                   const json_t *tools, const struct sl_chat_opts *o,
                   struct sl_buf *out, struct sl_err *err);

/* The same from JSON text: tools and kwargs may be NULL. o->kwargs is not
 * looked at. */
int sl_chat_render_text(const struct sl_chat *c, const char *messages,
                        const char *tools, const char *kwargs,
                        const struct sl_chat_opts *o, struct sl_buf *out,
                        struct sl_err *err);

/* The template for requests without tools, as sl_template_source. */
const char *sl_chat_source(size_t *len, const struct sl_chat *c);

/* Does the template (any of them) speak of this word? */
bool sl_chat_mentions(const struct sl_chat *c, const char *word);

#endif
