/* text/parse.c - the text of a model to reasoning, content and calls; see
 * parse.h, and parse_state.h for the states
 *
 * Text is appended to one buffer, and the step of the current state consumes
 * what it can; what cannot be decided yet stays. A step decides only what no
 * further text can change, so it does not matter when it runs. Parts:
 *
 *     parse.c        life, and the states REASONING and CONTENT
 *     parse_call.c   the states inside of a call
 *     parse_look.c   what stands at a place: yes, no, or too early to tell
 *     parse_out.c    events
 *     tag.c          spelling of tags       schema.c   types of parameters
 *     coerce.c, scalar.c, literal.c         text of an argument to JSON
 *     tool_json.c    calls written as JSON
 *
 * Each byte is looked at a bounded number of times: the states that wait for
 * an end remember how far they have looked, and the others look ahead for at
 * most a tag, its name and the space in front of it.
 */
#include "text/parse.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/parse_call.h"
#include "text/parse_out.h"

/* Ceilings of buffers, in bytes. An escape makes six bytes of one; a buffer of
 * events may hold those of several feeds. */
#define MAX_IN (SL_PARSE_MAX_FEED * 4)
#define MAX_TEXT (MAX_IN * 8)

/* ---- life ---- */

void sl_parse_opts_init(struct sl_parse_opts *o)
{
    *o = (struct sl_parse_opts){.start = SL_PARSE_THINK_NONE,
                                .style = SL_PARSE_NO_TOOLS};
}

bool sl_parse_style_find(const char *name, enum sl_parse_style *out)
{
    static const struct {
        const char *name;
        enum sl_parse_style style;
    } names[] = {
        {"none", SL_PARSE_NO_TOOLS},
        {"qwen3_coder", SL_PARSE_QWEN3_CODER},
        {"qwen3_xml", SL_PARSE_QWEN3_CODER},
        {"qwen3_hermes", SL_PARSE_QWEN3_HERMES},
        {"hermes", SL_PARSE_QWEN3_HERMES},
    };

    for (size_t i = 0; i < SL_COUNTOF(names); i++) {
        if (strcmp(name, names[i].name) == 0) {
            *out = names[i].style;
            return true;
        }
    }
    return false;
}

/* The last place of `word` in s; len: there is none. */
static size_t last(const char *s, size_t len, const char *word)
{
    size_t n = strlen(word);

    for (size_t i = len; i-- > 0;)
        if (len - i >= n && memcmp(s + i, word, n) == 0)
            return i;
    return len;
}

enum sl_parse_start sl_parse_start_of(const char *prompt, size_t len)
{
    size_t turn = last(prompt, len, "<|im_start|>assistant");
    const char *s = turn < len ? prompt + turn : prompt;
    size_t n = turn < len ? len - turn : len;
    size_t open = last(s, n, "<think>"), closed = last(s, n, "</think>");

    if (closed < n && (open == n || closed > open))
        return SL_PARSE_THINK_CLOSED;
    return open < n ? SL_PARSE_THINK_OPEN : SL_PARSE_THINK_NONE;
}

int sl_parse_open(struct sl_parse **out, const struct sl_parse_opts *o,
                  struct sl_err *err)
{
    struct sl_parse *p;
    int rc = sl_mem_alloc(&p, 1, sizeof(*p), "a parser of output", err);

    if (rc)
        return rc;
    p->style = o->style;
    p->reasoning = o->reasoning;
    p->tags_by_id = o->tags_by_id;
    p->random = o->random;
    p->random_ctx = o->random_ctx;
    if (o->style != SL_PARSE_NO_TOOLS && json_array_size(o->tools))
        p->tools = json_incref(o->tools);
    p->state = SL_PARSE_IN_CONTENT;
    if (o->reasoning && o->start == SL_PARSE_THINK_OPEN)
        p->state = SL_PARSE_IN_REASONING;
    p->skip_space = o->reasoning && o->start != SL_PARSE_THINK_NONE;
    p->may_repeat = true;
    p->line_start = true;
    sl_buf_init(&p->in, MAX_IN);
    sl_buf_init(&p->text, MAX_TEXT);
    sl_buf_init(&p->space, SL_PARSE_MAX_SPACE);
    sl_buf_init(&p->key, MAX_IN);
    sl_buf_init(&p->late, SL_PARSE_MAX_HELD);
    sl_buf_init(&p->work, MAX_TEXT);
    p->keys = json_object();
    if (!p->keys) {
        sl_parse_close(&p);
        return sl_fail(err, SL_ENOMEM, "no memory is left for a parser");
    }
    *out = p;
    return 0;
}

void sl_parse_close(struct sl_parse **pp)
{
    struct sl_parse *p = *pp;

    if (!p)
        return;
    json_decref(p->tools);
    json_decref(p->keys);
    sl_mem_free(p->ev);
    sl_buf_deinit(&p->in);
    sl_buf_deinit(&p->text);
    sl_buf_deinit(&p->space);
    sl_buf_deinit(&p->key);
    sl_buf_deinit(&p->late);
    sl_buf_deinit(&p->work);
    sl_mem_free(p);
    *pp = NULL;
}

/* ---- reasoning and content ---- */

/* Everything up to `to` is text. */
static void text_to(struct sl_parse *p, size_t to)
{
    if (to > p->at) /* or there is no buffer yet, perhaps */
        sl_parse_put(p,
                     p->state == SL_PARSE_IN_REASONING ? SL_PARSE_REASONING
                                                       : SL_PARSE_CONTENT,
                     p->in.p + p->at, to - p->at);
    p->at = to;
}

/* </think>: to content, or nothing in content, where it is a remainder. */
static void end_think(struct sl_parse *p, size_t bytes)
{
    p->at += bytes;
    if (p->state == SL_PARSE_IN_CONTENT && p->said)
        return;
    sl_buf_reset(&p->space);
    p->state = SL_PARSE_IN_CONTENT;
    p->skip_space = true;
    p->line_start = true;
}

/* <think>: a new beginning while nothing was said, otherwise nothing. */
static void start_think(struct sl_parse *p, size_t bytes)
{
    p->at += bytes;
    if (p->state == SL_PARSE_IN_REASONING) {
        p->may_repeat = false;
        return;
    }
    if (p->said || p->n_begun)
        return;
    sl_buf_reset(&p->space);
    p->state = SL_PARSE_IN_REASONING;
    p->skip_space = true;
    p->may_repeat = false;
}

/* A tag of reasoning at p->at. */
static int try_think(struct sl_parse *p)
{
    int a, b = 0;

    if (!p->reasoning)
        return 0;
    a = sl_parse_look_token(p, p->at, SL_PARSE_TAG_THINK_END);
    if (p->state == SL_PARSE_IN_CONTENT || p->may_repeat)
        b = sl_parse_look_token(p, p->at, SL_PARSE_TAG_THINK);
    if (a > 0)
        end_think(p, (size_t)a);
    if (b > 0)
        start_think(p, (size_t)b);
    if (a > 0 || b > 0)
        return 1;
    return a < 0 || b < 0 ? SL_TAG_MORE : 0;
}

/* A tag of calls at p->at. */
static int try_call(struct sl_parse *p)
{
    struct sl_parse_opening o;
    int a = sl_parse_look_call(p, &o), b = 0;

    if (a > 0) {
        sl_parse_call_enter(p, &o);
        return 1;
    }
    if (p->outer_open && p->state == SL_PARSE_IN_CONTENT)
        b = sl_parse_look_token(p, p->at, SL_PARSE_TAG_CALL_END);
    if (b > 0) {
        p->at += (size_t)b;
        p->outer_open = false;
        p->between = false;
        sl_buf_reset(&p->space); /* space in front of a tag is no content */
        return 1;
    }
    return a < 0 || b < 0 ? SL_TAG_MORE : 0;
}

static bool prose(struct sl_parse *p)
{
    size_t i = p->at;
    int a, b;

    while (i < p->in.len && !sl_parse_is_mark(p->in.p[i]))
        i++;
    text_to(p, i);
    if (i == p->in.len)
        return false;
    a = try_think(p);
    if (a > 0)
        return true;
    b = try_call(p);
    if (b > 0)
        return true;
    if ((a < 0 || b < 0) && !p->final)
        return false;
    text_to(p, i + 1);
    return true;
}

/* ---- feeding ---- */

static bool step(struct sl_parse *p)
{
    switch (p->state) {
    case SL_PARSE_IN_REASONING:
    case SL_PARSE_IN_CONTENT:
        return prose(p);
    case SL_PARSE_IN_ARGS:
        return sl_parse_call_args(p);
    case SL_PARSE_IN_VALUE:
        return sl_parse_call_value(p);
    case SL_PARSE_IN_JSON:
        return sl_parse_call_json(p);
    }
    return false;
}

/* Remember what failed, and say it. */
static int check(struct sl_parse *p, struct sl_err *err)
{
    const struct sl_buf *all[] = {&p->in,  &p->text, &p->space,
                                  &p->key, &p->late, &p->work};

    for (size_t i = 0; i < SL_COUNTOF(all) && !p->failed; i++)
        p->failed = all[i]->failed;
    if (!p->failed)
        return 0;
    if (p->failed == SL_ENOMEM)
        return sl_fail(err, SL_ENOMEM,
                       "no memory is left for the text of a reply");
    return sl_fail(err, p->failed,
                   "the text of a reply waits in pieces of more than %zu "
                   "bytes; take its events after each piece",
                   MAX_IN);
}

static int run(struct sl_parse *p, struct sl_err *err)
{
    int rc = check(p, err);

    while (!rc && step(p))
        rc = check(p, err);
    rc = check(p, err);
    if (rc)
        return rc;
    /* What was consumed makes room; what waits is short or does not move. */
    if (p->at) {
        memmove(p->in.p, p->in.p + p->at, p->in.len - p->at);
        p->in.len -= p->at;
        p->in.p[p->in.len] = 0;
        p->scan -= sl_min(p->scan, p->at);
        p->at = 0;
    }
    return 0;
}

/* Room for new events, if the old ones were taken. */
static void forget(struct sl_parse *p)
{
    if (p->i_ev < p->n_ev)
        return;
    p->n_ev = p->i_ev = 0;
    if (!p->text.failed)
        sl_buf_reset(&p->text);
}

int sl_parse_feed(struct sl_parse *p, const char *s, size_t len,
                  struct sl_err *err)
{
    if (len > SL_PARSE_MAX_FEED)
        return sl_fail(err, SL_EARG,
                       "a piece of output has %zu bytes and may have %zu; "
                       "feed it in parts",
                       len, SL_PARSE_MAX_FEED);
    forget(p);
    while (len) {
        size_t n = sl_utf8_valid(s, len);

        sl_buf_add(&p->in, s, n);
        s += n;
        len -= n;
        if (len) {
            sl_buf_str(&p->in, "\xef\xbf\xbd"); /* U+FFFD */
            s++;
            len--;
        }
    }
    return run(p, err);
}

int sl_parse_tag(struct sl_parse *p, enum sl_parse_tag tag, struct sl_err *err)
{
    forget(p);
    if (p->tags_by_id)
        sl_buf_byte(&p->in, (char)(SL_PARSE_MARK + (unsigned)tag));
    else
        sl_buf_str(&p->in, sl_parse_tag_text(tag));
    return run(p, err);
}

int sl_parse_finish(struct sl_parse *p, enum sl_parse_end end,
                    struct sl_err *err)
{
    int rc;

    forget(p);
    p->final = true;
    p->end = end;
    rc = run(p, err);
    if (rc)
        return rc;
    if (p->state == SL_PARSE_IN_ARGS || p->state == SL_PARSE_IN_VALUE)
        sl_parse_call_cut(p);
    if (p->state == SL_PARSE_IN_CONTENT && p->space.len)
        sl_parse_out(p, SL_PARSE_CONTENT, p->space.p, p->space.len);
    sl_parse_out(p, SL_PARSE_DONE, "", 0);
    return check(p, err);
}

bool sl_parse_next(struct sl_parse *p, struct sl_parse_event *ev)
{
    const struct sl_parse_record *e;

    if (p->i_ev == p->n_ev || p->failed)
        return false;
    e = &p->ev[p->i_ev++];
    *ev = (struct sl_parse_event){
        .kind = e->kind,
        .call = e->call,
        .text = p->text.p ? p->text.p + e->off : "",
        .len = e->len,
    };
    memcpy(ev->id, e->id, sizeof(ev->id));
    return true;
}

bool sl_parse_is_reasoning(const struct sl_parse *p)
{
    return p->state == SL_PARSE_IN_REASONING ||
           (p->state == SL_PARSE_IN_JSON &&
            p->json.from == SL_PARSE_IN_REASONING);
}

uint32_t sl_parse_n_calls(const struct sl_parse *p)
{
    return p->n_done;
}

uint32_t sl_parse_n_ignored(const struct sl_parse *p)
{
    return p->n_ignored;
}

size_t sl_parse_held(const struct sl_parse *p)
{
    return p->in.len - p->at + p->space.len;
}
