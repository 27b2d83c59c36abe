/* sample/trie.h - the tokens of a vocabulary by their bytes
 *
 * Nodes lie in the order of a walk from the top, a node before those below it,
 * so that a walk is one pass, and what a prefix rules out is skipped in one
 * step. Made once per model; read-only from then on, any number of threads.
 *
 * Most tokens are plain: whole characters, none of them a control character or
 * one of " \ <, which is where strings of all kinds end. In a string they are
 * all alike but for their length, so they are listed by that, and what is left
 * has nodes of its own.
 */
#ifndef SL_SAMPLE_TRIE_H
#define SL_SAMPLE_TRIE_H

#include "base/err.h"

#define SL_TRIE_MAX_DEPTH 4096 /* bytes of a token; longer ones are left out */

#define SL_TRIE_PLAIN 32 /* characters of a plain token, at most; chosen */

struct sl_nodes {
    uint32_t n;      /* none stands for no bytes */
    uint8_t *byte;   /* [n] */
    uint16_t *depth; /* [n] 0 for a token's first byte */
    int32_t *id;     /* [n] the token that ends here, or -1 */
    uint32_t *end;   /* [n] behind the last node below */
};

struct sl_trie {
    uint32_t n_vocab; /* ids are below it */
    struct sl_nodes all, rest; /* rest: of the tokens that are not plain */
    int32_t *plain;            /* ids by rising number of characters */
    uint32_t n_plain[SL_TRIE_PLAIN + 1]; /* of them with at most so many */
    uint64_t *plain_bit;                 /* [n_vocab / 64 + 1] all of them */
    const char **text; /* [n_vocab] bytes of a token, borrowed; NULL: it is not
                          spelled in bytes and cannot be drawn by them */
    uint32_t *len;     /* [n_vocab] */
};

/* text[id] of len[id] bytes is borrowed until close; NULL leaves it out. Of
 * tokens with the same bytes the lowest id counts. */
int sl_trie_open(struct sl_trie **out, const char *const *text,
                 const uint32_t *len, uint32_t n_vocab, struct sl_err *err);
void sl_trie_close(struct sl_trie **t);

/* Is this byte, below 0x80, one of a plain token? */
static inline bool sl_trie_is_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != '<';
}

#endif
