/* engine/ngram.h - drafts from the text itself: what followed last time
 *
 * The tokens of a prompt and its answer so far are indexed by what the last few
 * of them were. When the end of the text occurred before, the tokens behind
 * that place are proposed. (Saxena, "Prompt Lookup Decoding", 2023.) It costs
 * next to nothing and is right where a text quotes: code that is edited, facts
 * that are repeated, loops.
 *
 * O(1) per token; memory is taken when it is opened and bounded. One thread at a
 * time.
 */
#ifndef SL_ENGINE_NGRAM_H
#define SL_ENGINE_NGRAM_H

#include "base/err.h"

struct sl_ngram;

/* For texts of up to max_tok tokens. */
int sl_ngram_open(struct sl_ngram **out, uint32_t max_tok, struct sl_err *err);
void sl_ngram_close(struct sl_ngram **g);

/* tok[0 .. n) is the text, which only ever grows. Writes up to `most` tokens
 * that may follow to draft, and returns how many; *match is how many tokens at
 * the end of the text were found before. */
uint32_t sl_ngram_find(struct sl_ngram *g, const int32_t *tok, uint32_t n,
                       uint32_t most, int32_t *draft, uint32_t *match);

#endif
