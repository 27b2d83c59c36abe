/* cli/paint.c - an answer on a terminal; see paint.h
 *
 * What the model writes goes through the parser that the server uses. Control
 * characters in it are left out but for line ends and tabs: a model is not to
 * steer the terminal.
 */
#include "cli/paint.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/term.h"
#include "text/align.h"

#define DIM "\033[2m"
#define PLAIN "\033[0m"
#define MAX_LINE ((size_t)1 << 24) /* bytes of a piece, painted */

struct sl_paint {
    struct sl_parse *parse;
    struct sl_align align;
    json_t *tools;
    struct sl_buf out;
    bool dim;
};

static void open_align(struct sl_paint *p, const struct sl_engine *e)
{
    const int32_t tag[SL_ALIGN_TAGS] = {
        [SL_PARSE_TAG_THINK] = sl_token_named(e, SL_TOKEN_THINK),
        [SL_PARSE_TAG_THINK_END] = sl_token_named(e, SL_TOKEN_THINK_END),
        [SL_PARSE_TAG_CALL] = sl_token_named(e, SL_TOKEN_CALL),
        [SL_PARSE_TAG_CALL_END] = sl_token_named(e, SL_TOKEN_CALL_END),
    };

    sl_align_init(&p->align, tag);
}

static int open_parse(struct sl_paint *p, struct sl_engine *e,
                      const struct sl_gen_opts *o, struct sl_err *err)
{
    struct sl_parse_opts po;
    char *prompt = NULL;
    size_t len = 0;
    int rc = sl_render(&prompt, &len, e, o->messages, o->tools,
                       o->template_kwargs, err);

    if (rc)
        return rc;
    sl_parse_opts_init(&po);
    po.start = sl_parse_start_of(prompt, len);
    po.reasoning = true;
    po.tags_by_id = p->align.by_id;
    if (o->tools) {
        p->tools = json_loads(o->tools, 0, NULL);
        po.tools = p->tools;
        po.style = SL_PARSE_QWEN3_CODER;
    }
    sl_free(prompt);
    return sl_parse_open(&p->parse, &po, err);
}

int sl_paint_open(struct sl_paint **out, struct sl_engine *e,
                  const struct sl_gen_opts *opts, struct sl_err *err)
{
    struct sl_paint *p = NULL;
    int rc;

    *out = NULL;
    if (!opts->messages || !sl_term_is_tty(SL_STDOUT))
        return 0;
    rc = sl_mem_alloc(&p, 1, sizeof(*p), "an answer", err);
    if (rc)
        return rc;
    sl_buf_init(&p->out, MAX_LINE);
    open_align(p, e);
    rc = open_parse(p, e, opts, err);
    if (rc)
        sl_paint_close(&p);
    else
        *out = p;
    return rc;
}

void sl_paint_close(struct sl_paint **p)
{
    if (!*p)
        return;
    sl_parse_close(&(*p)->parse);
    sl_align_deinit(&(*p)->align);
    json_decref((*p)->tools);
    sl_buf_deinit(&(*p)->out);
    sl_mem_free(*p);
    *p = NULL;
}

static void add_text(struct sl_paint *p, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if ((c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t')
            sl_buf_byte(&p->out, s[i]);
    }
}

static void set_dim(struct sl_paint *p, bool dim)
{
    if (p->dim != dim)
        sl_buf_str(&p->out, dim ? DIM : PLAIN "\n");
    p->dim = dim;
}

static void add_event(struct sl_paint *p, const struct sl_parse_event *e)
{
    set_dim(p, e->kind == SL_PARSE_REASONING ||
                   (p->dim && e->kind == SL_PARSE_DONE));
    switch (e->kind) {
    case SL_PARSE_BEGIN:
        sl_buf_str(&p->out, "\n-> ");
        add_text(p, e->text, e->len);
        sl_buf_byte(&p->out, ' ');
        break;
    case SL_PARSE_END:
        sl_buf_byte(&p->out, '\n');
        break;
    case SL_PARSE_DONE:
        if (p->dim)
            sl_buf_str(&p->out, PLAIN);
        break;
    case SL_PARSE_REASONING:
    case SL_PARSE_CONTENT:
    case SL_PARSE_ARGS:
    case SL_PARSE_CUT:
        add_text(p, e->text, e->len);
        break;
    }
}

/* What the parser has goes out. */
static int flush(struct sl_paint *p, struct sl_err *err)
{
    struct sl_parse_event e;
    int rc;

    sl_buf_reset(&p->out);
    while (sl_parse_next(p->parse, &e))
        add_event(p, &e);
    rc = sl_buf_check(&p->out, "the answer", err);
    return rc || p->out.len == 0 ? rc
                                 : sl_out_write(p->out.p, p->out.len, err);
}

int sl_paint_put(struct sl_paint *p, const struct sl_piece *piece,
                 struct sl_err *err)
{
    struct sl_align_step s;
    int rc = sl_align_put(&p->align, piece->text, piece->n_text, piece->ids,
                          piece->said, piece->n_ids,
                          piece->finish != SL_FINISH_NONE, err);

    while (!rc && sl_align_next(&p->align, &s))
        rc = sl_align_feed(p->parse, &s, err);
    return rc ? rc : flush(p, err);
}

int sl_paint_finish(struct sl_paint *p, struct sl_err *err)
{
    int rc = sl_parse_finish(p->parse, SL_PARSE_STOP, err);

    return rc ? rc : flush(p, err);
}
