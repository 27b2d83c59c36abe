/* sample/jtext.h - the small parts of JSON texts, as nodes of a grammar
 *
 * What jschema.c, jstring.c, jarray.c and jobject.c share: the state of reading
 * one schema, and what JSON is made of. Strings, numbers, white space and free
 * values have one rule each for the whole grammar, so that the masks of their
 * insides are made once (shape.c).
 *
 * Any thread. Failures stick to the grammar.
 */
#ifndef SL_SAMPLE_JTEXT_H
#define SL_SAMPLE_JTEXT_H

#include <jansson.h>

#include "sample/grammar.h"

#define SL_JTEXT_PATH 160 /* bytes of the name of a part, for messages */

enum sl_jtext {
    SL_JTEXT_WS,
    SL_JTEXT_STRING,
    SL_JTEXT_INTEGER,
    SL_JTEXT_NUMBER,
    SL_JTEXT_VALUE,
    SL_JTEXT_OBJECT,
    SL_JTEXT_ARRAY,
    SL_JTEXT_MEMBER,
    SL_JTEXT_ESCAPE,
    SL_JTEXT_N
};

struct sl_jpart {
    json_t *schema;
    uint32_t rule;
    char path[SL_JTEXT_PATH];
};

struct sl_jschema {
    struct sl_grammar *g;
    json_t *root; /* borrowed */
    json_t *made; /* owned: an array of the schemas that were joined */
    struct sl_jpart *part;
    size_t n_part, cap_part, n_defined;
    uint32_t shared[SL_JTEXT_N]; /* rule and one; 0: not made */
    uint32_t n_joined;
    /* The texts of a schema inside, for those that jschema.c calls. */
    uint32_t (*node)(struct sl_jschema *j, json_t *schema, const char *path);
};

/* Fail: the keyword, where it is, and what to do. Returns 0. */
uint32_t sl_jtext_refuse(struct sl_jschema *j, const char *path,
                         const char *key, const char *why);

/* The name of a part inside of a part. */
void sl_jtext_path(char out[SL_JTEXT_PATH], const char *path, const char *key);

/* A keyword that counts; `none` without it. */
uint32_t sl_jtext_count(struct sl_jschema *j, const json_t *s, const char *key,
                        uint32_t none, const char *path);

/* A new value that is given; lives until close. Returns it; NULL: no memory. */
json_t *sl_jtext_keep(struct sl_jschema *j, json_t *made);

uint32_t sl_jtext_lit(struct sl_jschema *j, const char *s);
uint32_t sl_jtext_optional(struct sl_jschema *j, uint32_t n);
uint32_t sl_jtext_seq(struct sl_jschema *j, uint32_t a, uint32_t b);
uint32_t sl_jtext_character(struct sl_jschema *j); /* one inside of a string */
uint32_t sl_jtext_quoted(struct sl_jschema *j, uint32_t inside);
uint32_t sl_jtext_colon(struct sl_jschema *j);

/* open ws inside ws close. */
uint32_t sl_jtext_enclosed(struct sl_jschema *j, const char *open,
                           uint32_t inside, const char *close);
uint32_t sl_jtext_maybe_empty(struct sl_jschema *j, const char *both,
                              uint32_t n);

/* A call of one of the rules that all share. */
uint32_t sl_jtext_call(struct sl_jschema *j, enum sl_jtext which);

/* The value itself. */
uint32_t sl_jtext_value(struct sl_jschema *j, const json_t *v);

/* The same for a place where "<" could begin markup: it is escaped. */
uint32_t sl_jtext_markup_value(struct sl_jschema *j, const json_t *v);

#endif
