/* text/tokenize.h - text to token ids
 *
 * A tokenizer is made once per model, from a file (tokenizer_json.h) or from
 * arrays, and is read-only from then on: any number of threads. Each thread
 * that encodes has an encoder, its work space and its memory of words.
 *
 *     struct sl_ids ids;
 *
 *     sl_ids_init(&ids, max_tokens);
 *     rc = sl_encoder_open(&enc, tok, err);
 *     rc = sl_tokenize_encode(enc, text, len, true, &ids, err);
 *
 * The ids are those of the reference, the tokenizers library of Hugging Face.
 */
#ifndef SL_TEXT_TOKENIZE_H
#define SL_TEXT_TOKENIZE_H

#include "text/vocab.h"

/* Bytes of one text to encode. */
#define SL_TOKENIZE_MAX_TEXT ((size_t)256 << 20)

/* All that makes a tokenizer; borrowed for the call of open. */
struct sl_tokenizer_spec {
    struct sl_vocab_spec vocab;
    struct sl_span pattern; /* of the pre-tokenizer */
    bool nfc;               /* normalise text first */
    int32_t eos, pad, bos;  /* -1: none */
};

struct sl_tokenizer;

/* SL_EFORMAT, SL_EUNSUP or SL_ENOMEM; a byte without a token is SL_EUNSUP. The
 * caller closes *out. */
int sl_tokenizer_open(struct sl_tokenizer **out,
                      const struct sl_tokenizer_spec *spec, struct sl_err *err);
void sl_tokenizer_close(struct sl_tokenizer **t);

/* ---- looking up; any thread ---- */

/* The highest id and one. A model's matrix may have more rows than that; they
 * are padding. Not every id below it need exist. */
size_t sl_tokenizer_n_ids(const struct sl_tokenizer *t);
bool sl_tokenizer_has(const struct sl_tokenizer *t, int32_t id);

/* The bytes that a token stands for, perhaps not whole characters; {NULL, 0}
 * when the id does not exist. Borrowed from `t`. */
struct sl_span sl_tokenizer_bytes(const struct sl_tokenizer *t, int32_t id);

/* Append the text of a token as tokenizer.json writes it. The id exists. */
void sl_tokenizer_text(const struct sl_tokenizer *t, int32_t id,
                       struct sl_buf *out);

/* What it was made of: the pattern of the pre-tokenizer, whether text is
 * normalised, the kind of an id (enum sl_tok), and the merges (see
 * sl_vocab_merges). */
struct sl_span sl_tokenizer_pattern(const struct sl_tokenizer *t);
bool sl_tokenizer_nfc(const struct sl_tokenizer *t);
unsigned sl_tokenizer_kind(const struct sl_tokenizer *t, int32_t id);
int sl_tokenizer_merges(struct sl_merge_slot **out, size_t *n,
                        const struct sl_tokenizer *t, struct sl_err *err);

/* Find a token by its text in tokenizer.json, such as "<|im_end|>". */
bool sl_tokenizer_find(const struct sl_tokenizer *t, const char *text,
                       size_t len, int32_t *id);

/* Special tokens are left out of decoded text on request. Added tokens are
 * found in text before everything else; the special ones are among them. */
bool sl_tokenizer_is_special(const struct sl_tokenizer *t, int32_t id);
bool sl_tokenizer_is_added(const struct sl_tokenizer *t, int32_t id);

/* False when the files name none. */
bool sl_tokenizer_eos(const struct sl_tokenizer *t, int32_t *id);
bool sl_tokenizer_pad(const struct sl_tokenizer *t, int32_t *id);
bool sl_tokenizer_bos(const struct sl_tokenizer *t, int32_t *id);

/* ---- encoding ---- */

/* A growing list of ids with a ceiling. */
struct sl_ids {
    int32_t *p;
    size_t len, cap;
    size_t max; /* more is SL_EARG */
};

void sl_ids_init(struct sl_ids *ids, size_t max);
void sl_ids_deinit(struct sl_ids *ids);
int sl_ids_push(struct sl_ids *ids, int32_t id, struct sl_err *err);

struct sl_encoder; /* one thread at a time */

/* Borrows `t` until close. */
int sl_encoder_open(struct sl_encoder **out, const struct sl_tokenizer *t,
                    struct sl_err *err);
void sl_encoder_close(struct sl_encoder **e);

/* Append the ids of s[0..len). Without parse_special the text of an added
 * token is encoded like any other text, so that a user's words cannot forge
 * a turn. Invalid UTF-8 is SL_EFORMAT with its offset. On failure `ids` is as
 * before. */
int sl_tokenize_encode(struct sl_encoder *e, const char *s, size_t len,
                       bool parse_special, struct sl_ids *ids,
                       struct sl_err *err);

#endif
