/* text/vocab_json.h - the two large lists of tokenizer.json
 *
 * The vocabulary and the merges are a quarter of a million short strings each.
 * They are cut out of the text here and read one by one, without a tree; what
 * remains is small and goes through base/json.h like any other file.
 */
#ifndef SL_TEXT_VOCAB_JSON_H
#define SL_TEXT_VOCAB_JSON_H

#include "text/vocab.h"

/* Where the values of "model"."vocab" and "model"."merges" are in s; {NULL, 0}
 * for one that is not there. Borrowed from s. */
void sl_vocab_json_find(const char *s, size_t len, struct sl_span *vocab,
                        struct sl_span *merges);

/* A reader of one of them. */
struct sl_vocab_json {
    const char *what; /* for messages */
    const char *start, *p, *end;
    char *text;  /* strings without their escapes, [end - start] */
    size_t used; /* of text */
    bool begun;
};

int sl_vocab_json_init(struct sl_vocab_json *r, struct sl_span value,
                       const char *what, struct sl_err *err);
void sl_vocab_json_deinit(struct sl_vocab_json *r);

/* The next one. 1 when there was one, 0 at the end of the list, SL_EFORMAT
 * when this is not JSON, or not such a list. Texts are borrowed from the value
 * and from `r`, until deinit; they hold no zero byte. */
int sl_vocab_json_token(struct sl_vocab_json *r, struct sl_span *text,
                        int64_t *id, struct sl_err *err);

/* "a b" gives m->a = "a b" and an empty m->b, ["a", "b"] gives both. */
int sl_vocab_json_merge(struct sl_vocab_json *r, struct sl_merge_text *m,
                        struct sl_err *err);

#endif
