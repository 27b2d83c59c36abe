/* bundle/shape.h - what a JSON object must look like, as a table
 *
 * A table names every key an object may have, its type and its limits. Walking
 * an object along its table finds the first thing that is wrong and says where:
 *
 *     serve_bundle.json: 'weights.files[3].sha256' is "zz" and must be 64
 *     lower-case hexadecimal digits
 *
 * Tables nest and never form a circle, so the walk is as deep as the tables.
 */
#ifndef SL_BUNDLE_SHAPE_H
#define SL_BUNDLE_SHAPE_H

#include "base/buf.h"
#include "base/json.h"

enum sl_shape_type {
    SL_SHAPE_STR, /* text of at most `hi` bytes, 4096 when 0 */
    SL_SHAPE_SLUG,
    SL_SHAPE_REPO,
    SL_SHAPE_REF, /* commit when published, else branch or tag too */
    SL_SHAPE_SHA256,
    SL_SHAPE_SHA1,
    SL_SHAPE_PATH, /* bundle/name.h; a file of a bundle or of a repository */
    SL_SHAPE_INT,  /* lo to hi */
    SL_SHAPE_NUM,  /* any finite number from lo to hi */
    SL_SHAPE_BOOL,
    SL_SHAPE_WORD,  /* one of `words`, separated by '|' */
    SL_SHAPE_WORDS, /* array of these, 1 to hi */
    SL_SHAPE_STRS,  /* array of at most hi texts */
    SL_SHAPE_INTS,  /* array of at most hi whole numbers from 0 */
    SL_SHAPE_OBJ,   /* object along `sub` */
    SL_SHAPE_OBJS,  /* array of at most hi of them */
    SL_SHAPE_MAP,   /* slug -> object along `sub`, 1 to hi */
    SL_SHAPE_ANY,
    SL_SHAPE_CALL, /* `call` decides */
};

enum {
    SL_SHAPE_NEED = 1 << 0,       /* always */
    SL_SHAPE_NEED_BUILT = 1 << 1, /* in the published form */
    SL_SHAPE_ONLY_BUILT = 1 << 2, /* refused in the authored form */
    SL_SHAPE_STRICT = 1 << 3,     /* unknown keys below are never let pass */
    SL_SHAPE_NULLS = 1 << 4,      /* below, null erases and nothing is needed */
};

struct sl_walk;
struct sl_shape;
typedef int sl_shape_fn(struct sl_walk *w, const struct sl_shape *s,
                        const json_t *v);

struct sl_shape {
    const char *key; /* NULL ends a table */
    enum sl_shape_type type;
    unsigned flags;
    double lo, hi;
    const char *words;
    const struct sl_shape *sub;
    sl_shape_fn *call;
};

#define SL_WALK_PATH 400

struct sl_walk {
    const char *file; /* in front of every message */
    bool built;       /* the published form */
    bool newer;       /* unknown keys are noted instead of refused */
    unsigned inherit; /* STRICT and NULLS of the tables above */
    char path[SL_WALK_PATH];
    size_t len;
    struct sl_buf *unknown; /* keys that were let pass, or NULL */
    enum sl_code code;      /* of what is refused */
    struct sl_err *err;
};

int sl_shape_walk(struct sl_walk *w, const struct sl_shape *table,
                  const json_t *obj);

/* Add ".key" or "[i]" to the path; the old length takes it back. */
size_t sl_walk_key(struct sl_walk *w, const char *key);
size_t sl_walk_index(struct sl_walk *w, size_t i);
void sl_walk_back(struct sl_walk *w, size_t len);

/* "'path' is VALUE and must be WANT"; returns the walk's code. */
int sl_walk_wrong(struct sl_walk *w, const json_t *v, const char *want);

/* "'path' ...", any words. */
int sl_walk_fail(struct sl_walk *w, const char *fmt, ...) SL_PRINTF(2, 3);

/* Is `s` one of "a|b|c"? */
bool sl_shape_is_word(const char *words, const char *s);

#endif
