/* text/align.c - the text of an answer, taken apart at its tokens; see align.h
 */
#include "text/align.h"

#include "base/mem.h"

#define MAX_TEXT ((size_t)256 << 20) /* bytes; as much as an engine keeps */

void sl_align_init(struct sl_align *a, const int32_t tag[SL_ALIGN_TAGS])
{
    *a = (struct sl_align){.by_id = true};
    for (int i = 0; i < SL_ALIGN_TAGS; i++) {
        a->tag[i] = tag[i];
        a->by_id = a->by_id && tag[i] >= 0;
    }
    sl_buf_init(&a->text, MAX_TEXT);
}

void sl_align_deinit(struct sl_align *a)
{
    sl_buf_deinit(&a->text);
    sl_mem_free(a->tok);
}

/* What was given out makes room. */
static void compact(struct sl_align *a)
{
    if (a->at > 0) {
        memmove(a->text.p, a->text.p + a->at, a->text.len - a->at);
        a->text.len -= a->at;
        a->text.p[a->text.len] = 0;
        a->at = 0;
    }
    if (a->i_tok > 0)
        memmove(a->tok, a->tok + a->i_tok,
                (a->n_tok - a->i_tok) * sizeof(*a->tok));
    a->n_tok -= a->i_tok;
    a->i_tok = 0;
}

static int grow(struct sl_align *a, size_t more, struct sl_err *err)
{
    size_t cap = sl_max(2 * a->cap_tok, a->n_tok + more);
    int rc;

    if (a->n_tok + more <= a->cap_tok)
        return 0;
    rc = sl_mem_resize(&a->tok, cap, sizeof(*a->tok), "tokens that wait", err);
    if (!rc)
        a->cap_tok = cap;
    return rc;
}

int sl_align_put(struct sl_align *a, const char *text, size_t n_text,
                 const int32_t *ids, const uint32_t *said, size_t n_ids,
                 bool ended, struct sl_err *err)
{
    int rc;

    compact(a);
    rc = grow(a, n_ids, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < n_ids; i++)
        a->tok[a->n_tok++] = (struct sl_align_token){ids[i], said[i]};
    sl_buf_add(&a->text, text, n_text);
    a->ended = ended;
    return sl_buf_check(&a->text, "the text of an answer", err);
}

/* Which tag the oldest token is, given `len` bytes of text up to its end; -1:
 * none. One that ends the answer is a tag without text, and is not shown. */
static int tag_of(const struct sl_align *a, int32_t id, size_t len)
{
    for (int i = 0; a->by_id && i < SL_ALIGN_TAGS; i++)
        if (a->tag[i] == id)
            return len >= strlen(sl_parse_tag_text((enum sl_parse_tag)i)) ? i
                                                                          : -1;
    return -1;
}

static bool give(struct sl_align *a, struct sl_align_step *out, size_t len,
                 bool token)
{
    *out = (struct sl_align_step){.text = a->text.p ? a->text.p + a->at : "",
                                  .len = len,
                                  .tag = -1,
                                  .token = token};
    a->at += len;
    a->n_given += len;
    a->i_tok += token;
    return len > 0 || token;
}

bool sl_align_next(struct sl_align *a, struct sl_align_step *out)
{
    size_t have = a->text.len - a->at, need, n_tag;
    int tag;

    if (a->i_tok == a->n_tok)
        return give(a, out, have, false);
    need = (size_t)(a->tok[a->i_tok].said - a->n_given);
    tag = tag_of(a, a->tok[a->i_tok].id, need);
    if (tag < 0 && have >= need)
        return give(a, out, need, true);
    if (a->ended && have < need) /* the answer was cut inside of it */
        return give(a, out, have, true);
    if (tag < 0)
        return give(a, out, have, false);
    n_tag = strlen(sl_parse_tag_text((enum sl_parse_tag)tag));
    if (need > n_tag) /* the rest of a character in front of it */
        return give(a, out, sl_min(have, need - n_tag), false);
    if (have < need)
        return false;
    (void)give(a, out, need, true);
    out->tag = tag;
    return true;
}

int sl_align_feed(struct sl_parse *p, const struct sl_align_step *s,
                  struct sl_err *err)
{
    if (s->tag >= 0)
        return sl_parse_tag(p, (enum sl_parse_tag)s->tag, err);
    return s->len ? sl_parse_feed(p, s->text, s->len, err) : 0;
}
