/* text/detokenize.h - token ids to text, as they come
 *
 * Tokens are bytes and may end inside of a character. Text is given out as
 * soon as its characters are whole; at most SL_DETOKENIZE_HOLD bytes wait.
 * Bytes that can no longer become a character are U+FFFD, one for each longest
 * start of a character, as the reference prints them. All pieces together are
 * the text of all ids together.
 *
 * Nothing here allocates but the caller's buffer.
 */
#ifndef SL_TEXT_DETOKENIZE_H
#define SL_TEXT_DETOKENIZE_H

#include "text/tokenize.h"

#define SL_DETOKENIZE_HOLD 3 /* bytes */

/* One generation; one thread. */
struct sl_detok {
    const struct sl_tokenizer *t; /* borrowed */
    bool skip_special;            /* leave special tokens out */
    uint8_t n_hold;
    char hold[SL_DETOKENIZE_HOLD + 1];
};

void sl_detokenize_init(struct sl_detok *d, const struct sl_tokenizer *t,
                        bool skip_special);

/* Continue behind ids[0..n), whose text was given out before: a character that
 * they began will be completed. */
void sl_detokenize_prime(struct sl_detok *d, const int32_t *ids, size_t n);

/* Append the text that is ready now. An id that does not exist is SL_EARG and
 * changes nothing. `out` remembers its own failures (buf.h). */
int sl_detokenize_push(struct sl_detok *d, int32_t id, struct sl_buf *out,
                       struct sl_err *err);

/* No more ids: a character that was begun is U+FFFD now. */
void sl_detokenize_flush(struct sl_detok *d, struct sl_buf *out);

/* The text of all ids, appended. */
int sl_detokenize_all(const struct sl_tokenizer *t, const int32_t *ids,
                      size_t n, bool skip_special, struct sl_buf *out,
                      struct sl_err *err);

#endif
