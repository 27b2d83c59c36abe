/* text/align.h - the text of an answer, taken apart at its tokens
 *
 * Tags of reasoning and calls are tokens of their own, and a model may also
 * spell them with ordinary ones: then they are words. Only the ids tell. But
 * text comes later than its ids, while it may begin a text that ends the
 * answer, and a piece may end inside of a token's text. So ids wait here until
 * their text has come:
 *
 *     sl_align_init(&a, tag);
 *     ... a piece:
 *     rc = sl_align_put(&a, p.text, p.n_text, p.ids, p.said, p.n_ids,
 *                       p.finish != SL_FINISH_NONE, err);
 *     while (sl_align_next(&a, &step))
 *         rc = sl_align_feed(parse, &step, err), ...
 *     sl_align_deinit(&a);
 *
 * One thread at a time.
 */
#ifndef SL_TEXT_ALIGN_H
#define SL_TEXT_ALIGN_H

#include "base/buf.h"
#include "text/parse.h"

#define SL_ALIGN_TAGS 4 /* of enum sl_parse_tag */

struct sl_align_token {
    int32_t id;
    uint32_t said; /* bytes of the answer where its text ends */
};

struct sl_align {
    int32_t tag[SL_ALIGN_TAGS]; /* ids */
    bool by_id;                 /* all tags have one */
    bool ended;                 /* the answer: no text will follow */
    struct sl_buf text;         /* text.p[at..len) was not given out */
    size_t at;
    uint64_t n_given;           /* bytes of the answer that were */
    struct sl_align_token *tok; /* [cap_tok] from i_tok on they wait */
    size_t n_tok, i_tok, cap_tok;
};

/* tag: the ids by enum sl_parse_tag, -1 for none. If one has none, then all are
 * looked for in the text. Set sl_parse_opts.tags_by_id to by_id. */
void sl_align_init(struct sl_align *a, const int32_t tag[SL_ALIGN_TAGS]);
void sl_align_deinit(struct sl_align *a);

/* More of the answer: text, and tokens with said[i] as in sl_piece. `ended`:
 * this was the rest. SL_ENOMEM, or SL_EARG for too much text. */
int sl_align_put(struct sl_align *a, const char *text, size_t n_text,
                 const int32_t *ids, const uint32_t *said, size_t n_ids,
                 bool ended, struct sl_err *err);

struct sl_align_step {
    const char *text; /* borrowed until the next put */
    size_t len;
    int tag;    /* enum sl_parse_tag; -1: it is text */
    bool token; /* the oldest token that waited has all of its text now */
};

/* The next part, at most the text of one token. False: nothing is ready. */
bool sl_align_next(struct sl_align *a, struct sl_align_step *out);

/* Hand a step to the parser. */
int sl_align_feed(struct sl_parse *p, const struct sl_align_step *s,
                  struct sl_err *err);

#endif
