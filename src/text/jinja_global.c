/* text/jinja_global.c - the functions that every template can call
 *
 * range, dict and namespace are Jinja's, raise_exception and strftime_now those
 * of transformers. The time is passed in, so that a rendering is a function of
 * its inputs.
 */
#include "text/jinja_global.h"

#include "text/jinja_print.h"

#define MAX_RANGE 100000 /* elements; the sandbox of Jinja has this limit */
#define MAX_TIME_TEXT 256

enum { F_RANGE, F_DICT, F_NAMESPACE, F_RAISE, F_STRFTIME, F_UNSUPPORTED };

static const struct {
    const char *name;
    int func;
} globals[] = {
    {"range", F_RANGE},           {"dict", F_DICT},
    {"namespace", F_NAMESPACE},   {"raise_exception", F_RAISE},
    {"strftime_now", F_STRFTIME}, {"lipsum", F_UNSUPPORTED},
    {"cycler", F_UNSUPPORTED},    {"joiner", F_UNSUPPORTED},
    {"self", F_UNSUPPORTED},
};

struct sl_jval sl_jinja_global(const struct sl_jstr *name)
{
    struct sl_jval v = {.kind = SL_J_MISSING};

    for (size_t i = 0; i < SL_COUNTOF(globals); i++)
        if (strlen(globals[i].name) == name->len &&
            memcmp(globals[i].name, name->p, name->len) == 0)
            v = (struct sl_jval){.kind = SL_J_FUNC, .u.func = globals[i].func};
    return v;
}

static struct sl_jval range(struct sl_jrun *r, const struct sl_jargs *a)
{
    struct sl_jrange *g = sl_jinja_get(r, 1, sizeof(*g));
    int64_t start = 0, stop = 0, step = 1;
    uint64_t n = 0;

    if (a->n < 1 || a->n > 3 || (a->kw && a->kw->n))
        sl_jinja_fail(r, SL_EARG, "range() takes one to three integers");
    if (r->rc)
        return sl_jinja_none();
    sl_jinja_arg_int(r, a, a->v[0], a->n == 1 ? &stop : &start);
    if (a->n > 1)
        sl_jinja_arg_int(r, a, a->v[1], &stop);
    if (a->n > 2)
        sl_jinja_arg_int(r, a, a->v[2], &step);
    if (step == 0)
        sl_jinja_fail(r, SL_EARG, "range(): the step must not be 0");
    if (r->rc)
        return sl_jinja_none();
    if (step > 0 && start < stop)
        n = ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step + 1;
    else if (step < 0 && start > stop)
        n = ((uint64_t)start - (uint64_t)stop - 1) / (0 - (uint64_t)step) + 1;
    if (n > MAX_RANGE)
        sl_jinja_fail(r, SL_EARG, "range() of more than %d elements",
                      MAX_RANGE);
    *g = (struct sl_jrange){.start = start, .step = step, .n = (size_t)n};
    return (struct sl_jval){.kind = SL_J_RANGE, .u.range = g};
}

static void put(struct sl_jrun *r, struct sl_jval d, struct sl_jval key,
                struct sl_jval val)
{
    if (d.kind == SL_J_NS && key.kind == SL_J_STR && key.u.s->len &&
        key.u.s->p[0] == '_')
        sl_jinja_fail(r, SL_EARG,
                      "a namespace cannot hold '%.*s': names with an "
                      "underscore in front are not for templates",
                      (int)sl_min(key.u.s->len, 60), key.u.s->p);
    sl_jinja_put(r, d.u.d, key, val);
}

/* One argument: a mapping, or pairs. */
static void put_all(struct sl_jrun *r, struct sl_jval d, struct sl_jval from)
{
    struct sl_jlist *l, *pair;

    if (from.kind == SL_J_DICT) {
        for (size_t i = 0; i < from.u.d->n && !r->rc; i++)
            put(r, d, from.u.d->p[i].key, from.u.d->p[i].val);
        return;
    }
    l = sl_jinja_elements(r, from, "dict");
    for (size_t i = 0; !r->rc && i < l->n; i++) {
        pair = sl_jinja_elements(r, l->v[i], "dict");
        if (!r->rc && pair->n != 2)
            sl_jinja_fail(r, SL_EARG, "dict() takes pairs");
        if (!r->rc)
            put(r, d, pair->v[0], pair->v[1]);
    }
}

static struct sl_jval dict(struct sl_jrun *r, const struct sl_jargs *a,
                           enum sl_jkind kind)
{
    struct sl_jval d = sl_jinja_dict(r, kind);

    if (a->n > 1)
        sl_jinja_fail(r, SL_EARG,
                      "dict() and namespace() take one mapping and "
                      "keywords");
    if (r->rc)
        return d;
    if (a->n == 1)
        put_all(r, d, a->v[0]);
    for (size_t i = 0; a->kw && i < a->kw->n && !r->rc; i++)
        put(r, d, a->kw->p[i].key, a->kw->p[i].val);
    return d;
}

/* The template refuses the conversation; its words are the message. */
static struct sl_jval raise(struct sl_jrun *r, const struct sl_jargs *a)
{
    struct sl_jval o[1];

    if (!sl_jinja_bind(r, a, "message", 1, o))
        return sl_jinja_none();
    o[0] = sl_jinja_text(r, o[0]);
    if (r->rc)
        return o[0];
    r->rc = sl_fail(r->err, SL_EARG, "%.*s",
                    (int)sl_min(o[0].u.s->len, sizeof(r->err->msg) - 1),
                    o[0].u.s->p);
    return o[0];
}

/* Days since 1970-01-01 to a date of the Gregorian calendar (Hinnant,
 * "chrono-Compatible Low-Level Date Algorithms", civil_from_days). */
static void civil(int64_t days, struct tm *t)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153, year = yoe + era * 400 + (mp >= 10);
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    t->tm_mday = (int)(doy - (153 * mp + 2) / 5 + 1);
    t->tm_mon = (int)(mp < 10 ? mp + 2 : mp - 10);
    t->tm_year = (int)(year - 1900);
    /* doy counts from March 1st. */
    t->tm_yday = (int)(mp >= 10 ? doy - 306 : doy + 59 + leap);
    t->tm_wday = (int)(((days % 7) + 11) % 7);
}

static struct sl_jval strftime_now(struct sl_jrun *r, const struct sl_jargs *a)
{
    char out[MAX_TIME_TEXT], fmt[MAX_TIME_TEXT];
    int64_t day, s;
    struct sl_jval o[1];
    struct tm t = {0};
    size_t n;

    if (!sl_jinja_bind(r, a, "format", 1, o))
        return sl_jinja_none();
    if (!sl_jinja_arg_str(r, a, o[0]))
        return sl_jinja_none();
    if (o[0].u.s->len >= sizeof(fmt))
        sl_jinja_fail(r, SL_EARG, "strftime_now: the format is too long");
    if (r->rc || o[0].u.s->len == 0)
        return o[0];
    memcpy(fmt, o[0].u.s->p, o[0].u.s->len);
    fmt[o[0].u.s->len] = 0;
    s = ((r->now_s % 86400) + 86400) % 86400;
    day = (r->now_s - s) / 86400;
    civil(day, &t);
    t.tm_hour = (int)(s / 3600);
    t.tm_min = (int)(s / 60 % 60);
    t.tm_sec = (int)(s % 60);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    n = strftime(out, sizeof(out), fmt, &t);
#pragma GCC diagnostic pop
    if (n == 0)
        sl_jinja_fail(r, SL_EARG, "strftime_now: the format gives no text");
    return sl_jinja_str(r, out, n);
}

struct sl_jval sl_jinja_global_call(struct sl_jrun *r, int func,
                                    const struct sl_jargs *a)
{
    if (r->rc)
        return sl_jinja_none();
    switch (func) {
    case F_RANGE:
        return range(r, a);
    case F_DICT:
        return dict(r, a, SL_J_DICT);
    case F_NAMESPACE:
        return dict(r, a, SL_J_NS);
    case F_RAISE:
        return raise(r, a);
    case F_STRFTIME:
        return strftime_now(r, a);
    default:
        sl_jinja_fail(r, SL_EUNSUP, "%.*s() is not supported",
                      (int)sl_min(a->who_len, 60), a->who);
        return sl_jinja_none();
    }
}
