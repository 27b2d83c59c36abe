/* sample/shape.h - which tokens an answer of a given shape may go on with
 *
 * A shape is a compiled grammar with a vocabulary. A matcher is where one
 * answer is in it:
 *
 *     rc = sl_shape_open(&shape, &grammar, trie, err);
 *     rc = sl_matcher_open(&m, shape, err);
 *     ... draw a token that sl_matcher_allows, or
 *         whose bit is set in sl_matcher_mask ...
 *     sl_matcher_push(m, id);
 *     if (sl_matcher_is_done(m)) ... nothing can follow ...
 *     sl_matcher_stop(m);
 *     sl_matcher_close(&m);
 *     sl_shape_close(&shape);
 *
 * What was worked out for one answer serves all others of the same shape, and
 * changes no result, refusals among them.
 *
 * Opening and closing: any thread. What lies between, for all matchers of a
 * shape: one thread. It stops a matcher before another one may close it.
 */
#ifndef SL_SAMPLE_SHAPE_H
#define SL_SAMPLE_SHAPE_H

#include "sample/grammar.h"
#include "sample/trie.h"

struct sl_shape;
struct sl_matcher;

/* The caller has one reference to *out and ends it with sl_shape_close; `trie`
 * is borrowed until the last one ends. SL_EARG as automaton.h says. */
int sl_shape_open(struct sl_shape **out, const struct sl_grammar *g,
                  const struct sl_trie *trie, struct sl_err *err);
struct sl_shape *sl_shape_acquire(struct sl_shape *s); /* returns s */
void sl_shape_close(struct sl_shape **s);

/* Memory that the shape holds; as it was when the last matcher was stopped. Any
 * thread. */
size_t sl_shape_bytes(const struct sl_shape *s);

/* At the beginning of an answer. Takes a reference. A matcher that was used and
 * not stopped is closed by the thread that used it. */
int sl_matcher_open(struct sl_matcher **out, struct sl_shape *s,
                    struct sl_err *err);
void sl_matcher_close(struct sl_matcher **m);

/* It is not used any more; closing it is all that is left. */
void sl_matcher_stop(struct sl_matcher *m);

/* May the token come next? Tokens that end an answer are not asked about here,
 * see sl_matcher_can_end. */
bool sl_matcher_allows(struct sl_matcher *m, int32_t id);

/* A bit per id: the tokens that may come next. *out is borrowed until the next
 * call for any matcher of the shape. SL_EARG when that takes too much work:
 * the shape is too ambiguous. */
int sl_matcher_mask(struct sl_matcher *m, const uint64_t **out,
                    struct sl_err *err);

/* The token came next. False, and nothing happened, when it may not. */
bool sl_matcher_push(struct sl_matcher *m, int32_t id);

/* The same for text. */
bool sl_matcher_push_text(struct sl_matcher *m, const char *p, size_t len);

/* Is what it says right so far? After a failure, which is SL_EARG as above, a
 * token may have been said not to be allowed that is. */
int sl_matcher_check(const struct sl_matcher *m, struct sl_err *err);

bool sl_matcher_can_end(struct sl_matcher *m); /* the answer is whole */
bool sl_matcher_is_done(struct sl_matcher *m); /* and nothing can follow */

/* How many of ids[n], from the first on, could come one after the other; it
 * stays where it is. */
uint32_t sl_matcher_n_fit(struct sl_matcher *m, const int32_t *ids, uint32_t n);

/* Places that the last operation looked at, or would have if nothing had been
 * known; an operation that looks at too many is refused. For tests. */
uint64_t sl_shape_work(const struct sl_shape *s);

/* Words of a mask. */
static inline size_t sl_mask_words(uint32_t n_vocab)
{
    return ((size_t)n_vocab + 63) / 64;
}

#endif
