/* text/added.h - finding added tokens in text
 *
 * Leftmost first, of those that start there the longest. Read-only after
 * init; any number of threads.
 */
#ifndef SL_TEXT_ADDED_H
#define SL_TEXT_ADDED_H

#include "text/vocab.h"

struct sl_added_tok {
    struct sl_span text;
    int32_t id;
};

struct sl_added {
    struct sl_added_tok *tok; /* [n] sorted by text */
    size_t n;
    uint32_t first[257]; /* tokens that start with byte b: first[b] on */
    struct sl_buf text;  /* what tok[].text borrows */
};

/* Takes the added tokens of `v` whose NORMALIZED bit is `normalized`. `bits`,
 * the table of unidata.h, normalises their text then; NULL leaves it. */
int sl_added_init(struct sl_added *a, const struct sl_vocab *v, bool normalized,
                  const uint8_t *bits, struct sl_err *err);
void sl_added_deinit(struct sl_added *a);

/* The first token in s at or behind `from`: s[*at..*end) is token *id. False
 * if there is none. */
bool sl_added_next(const struct sl_added *a, const char *s, size_t len,
                   size_t from, size_t *at, size_t *end, int32_t *id);

#endif
