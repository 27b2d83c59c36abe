/* text/jinja_value.h - the values of a template, which are Python's
 *
 * A value is two words and is passed by value; what it points to lives in the
 * heap of the run (or, for literals, of the template) and never changes, but
 * for namespaces, generators and the spare room behind a growing string.
 * Strings are UTF-8 and count in code points, integers have 64 bits (an
 * overflow is an error, where Python would go on), dictionaries keep the order
 * of insertion.
 */
#ifndef SL_TEXT_JINJA_VALUE_H
#define SL_TEXT_JINJA_VALUE_H

#include "text/jinja_run.h"

enum sl_jkind {
    SL_J_MISSING, /* an empty slot of a frame; never seen by a template */
    SL_J_UNDEF,
    SL_J_NONE,
    SL_J_BOOL,
    SL_J_INT,
    SL_J_FLOAT,
    SL_J_STR,
    SL_J_LIST,
    SL_J_TUPLE,
    SL_J_DICT,
    SL_J_NS,    /* namespace() */
    SL_J_RANGE, /* range() */
    SL_J_GEN,   /* what map, select, items and reverse give: read once */
    SL_J_VIEW,  /* d.keys(), d.values(), d.items() */
    SL_J_LOOP,
    SL_J_MACRO,
    SL_J_FUNC,   /* a global function */
    SL_J_METHOD, /* a method bound to its object */
};

struct sl_jundef;
struct sl_jstr;
struct sl_jlist;
struct sl_jdict;
struct sl_jrange;
struct sl_jview;
struct sl_jloop;
struct sl_jmacro;
struct sl_jmethod;

struct sl_jval {
    enum sl_jkind kind;
    union {
        bool b;
        int64_t i;
        double f;
        int func; /* enum of jinja_eval.c */
        const struct sl_jundef *undef;
        const struct sl_jstr *s;
        struct sl_jlist *l; /* list, tuple, generator */
        struct sl_jdict *d; /* dict, namespace */
        const struct sl_jrange *range;
        const struct sl_jview *view;
        struct sl_jloop *loop;
        const struct sl_jmacro *macro;
        const struct sl_jmethod *method;
    } u;
};

/* Why something is undefined: the hint, or the name and where it was missed. */
struct sl_jundef {
    const char *hint;     /* static text, or NULL */
    struct sl_jval name;  /* string or index */
    enum sl_jkind holder; /* SL_J_MISSING for a variable */
};

/* A buffer with room to spare. The string that ends where it is used up may
 * be prolonged in place: `ns.text = ns.text ~ more` is then linear. */
struct sl_jtail {
    char *p;
    size_t used, cap;
};

struct sl_jstr {
    const char *p; /* not zero-terminated */
    size_t len;    /* bytes */
    size_t n_cp;   /* code points */
    struct sl_jtail *tail;
    bool safe; /* Markup: `+` escapes what is added to it */
};

struct sl_jlist {
    struct sl_jval *v;
    size_t n;
    size_t pos; /* generators: how many were read */
};

struct sl_jpair {
    struct sl_jval key, val;
};

struct sl_jdict {
    struct sl_jpair *p;
    size_t n, cap;
};

struct sl_jrange {
    int64_t start, step;
    size_t n;
};

struct sl_jview {
    const struct sl_jdict *d;
    char what; /* 'k', 'v' or 'i' */
};

/* Makers. After a failure they return undefined. */
struct sl_jval sl_jinja_undef(struct sl_jrun *r, const char *hint);
struct sl_jval sl_jinja_undef_name(struct sl_jrun *r, struct sl_jval name,
                                   enum sl_jkind holder);
struct sl_jval sl_jinja_none(void);
struct sl_jval sl_jinja_bool(bool b);
struct sl_jval sl_jinja_int(int64_t i);
struct sl_jval sl_jinja_float(double f);
struct sl_jval sl_jinja_str(struct sl_jrun *r, const char *p, size_t len);
struct sl_jval sl_jinja_borrow(struct sl_jrun *r, const char *p, size_t len);
struct sl_jval sl_jinja_take(struct sl_jrun *r, size_t mark);
struct sl_jval sl_jinja_safe(struct sl_jrun *r, struct sl_jval v, bool safe);
struct sl_jval sl_jinja_list(struct sl_jrun *r, enum sl_jkind kind, size_t n);
struct sl_jval sl_jinja_pair(struct sl_jrun *r, struct sl_jval a,
                             struct sl_jval b);
struct sl_jval sl_jinja_dict(struct sl_jrun *r, enum sl_jkind kind);

/* Fill a string whose bytes are valid UTF-8. */
void sl_jinja_str_set(struct sl_jstr *s, const char *p, size_t len);

/* a and b, both strings, one after the other; plain text. */
struct sl_jval sl_jinja_concat(struct sl_jrun *r, const struct sl_jstr *a,
                               const struct sl_jstr *b);

bool sl_jinja_is_str(struct sl_jval v, const char *s);
bool sl_jinja_is_number(struct sl_jval v); /* bool, int, float */
bool sl_jinja_is_int(struct sl_jval v);    /* bool, int */
int64_t sl_jinja_int_of(struct sl_jval v);
double sl_jinja_float_of(struct sl_jval v);

/* "str", "list", ... as Python calls the type. */
const char *sl_jinja_type(struct sl_jval v);

bool sl_jinja_truth(struct sl_jrun *r, struct sl_jval v);
bool sl_jinja_eq(struct sl_jrun *r, struct sl_jval a, struct sl_jval b);

/* Below 0, 0, above 0; fails for what Python cannot order. `op` is for the
 * message. A NaN gives SL_JINJA_UNORDERED. */
#define SL_JINJA_UNORDERED 2
int sl_jinja_order(struct sl_jrun *r, struct sl_jval a, struct sl_jval b,
                   const char *op);
bool sl_jinja_in(struct sl_jrun *r, struct sl_jval x, struct sl_jval in);

/* Number of elements, or -1 if len() does not take it (no failure). */
int64_t sl_jinja_len(struct sl_jrun *r, struct sl_jval v);

bool sl_jinja_is_iterable(struct sl_jval v);

/* The elements of an iterable as a list that is not to be changed; a
 * generator is used up. `what` does the asking, for the message. */
struct sl_jlist *sl_jinja_elements(struct sl_jrun *r, struct sl_jval v,
                                   const char *what);

/* The value for key, or NULL. Fails for a key that Python cannot hash. */
const struct sl_jval *sl_jinja_lookup(struct sl_jrun *r,
                                      const struct sl_jdict *d,
                                      struct sl_jval key);
const struct sl_jval *sl_jinja_lookup_name(struct sl_jrun *r,
                                           const struct sl_jdict *d,
                                           const char *p, size_t len);
void sl_jinja_put(struct sl_jrun *r, struct sl_jdict *d, struct sl_jval key,
                  struct sl_jval val);
bool sl_jinja_is_hashable(struct sl_jval v);

/* Fail with what Jinja says about an undefined value. */
void sl_jinja_fail_undef(struct sl_jrun *r, struct sl_jval v);

#endif
