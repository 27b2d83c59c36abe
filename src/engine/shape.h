/* engine/shape.h - shapes that requests ask for, compiled and kept; and how far
 * one answer is in its own
 */
#ifndef SL_ENGINE_SHAPE_H
#define SL_ENGINE_SHAPE_H

#include "base/thread.h"
#include "sample/shape.h"
#include "sluice/sluice.h"
#include "text/tokenize.h"

/* ---- of an engine; any thread ---- */

struct sl_shapes;

/* Makes the tokens findable by their bytes: ids below n_vocab. Borrows the
 * tokenizer until close. */
int sl_shapes_open(struct sl_shapes **out, const struct sl_tokenizer *tok,
                   uint32_t n_vocab, struct sl_err *err);
void sl_shapes_close(struct sl_shapes **s);

/* For tests: bytes that the kept ones may take together, and how many there
 * are. The newest is always kept. */
void sl_shapes_limit(struct sl_shapes *s, size_t max_bytes);
uint32_t sl_shapes_n_kept(struct sl_shapes *s);

/* ---- of an answer ---- */

struct sl_shaping {
    struct sl_matcher *m; /* NULL: the answer is free */
    bool waits;           /* for the end of the reasoning */
    int32_t end_id;       /* the token of its tag; -1: it is spelled, */
    uint8_t n_tag;        /* and so many of its bytes have come */
    int32_t call_id;      /* a token that ends the reasoning, too; -1: none */
};

/* As the options say. `s` may be NULL, without a tokenizer. SL_EARG and
 * SL_EUNSUP say what is wrong with the shape. Any thread. */
int sl_shaping_open(struct sl_shaping *x, struct sl_shapes *s,
                    const struct sl_gen_opts *o, struct sl_err *err);
void sl_shaping_close(struct sl_shaping *x);

/* Engine thread: a token came that is no end. *whole: nothing can follow.
 * SL_EARG as sl_matcher_check; SL_EFORMAT: the shape does not allow it. */
int sl_shaping_put(struct sl_shaping *x, const struct sl_tokenizer *tok,
                   int32_t id, bool *whole, struct sl_err *err);

/* Engine thread: there will be no more tokens. */
void sl_shaping_stop(struct sl_shaping *x);

#endif
