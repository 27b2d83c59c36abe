/* sample/sample.c - logits to a token
 *
 * The order of operations is vLLM's, which is what users of the OpenAI surface
 * tune against (serving.md 2.2). z is a logit, c(t) the number of times t was
 * generated, "seen" is prompt or generated; the tentative tokens of a draw
 * count as generated.
 *
 *     shape           z = -inf for what the grammar does not allow here
 *     allowed ids     z = -inf for all others
 *     bad words       z = -inf for the last token of a sequence whose others
 *                     are the last generated tokens (as in vLLM the prompt does
 *                     not count)
 *     min_tokens      z = -inf for end ids while fewer are generated
 *     logit bias      z = z + bias
 *     repetition      seen:      z = z > 0 ? z / r : z * r
 *     frequency       generated: z = z - frequency * c
 *     presence        generated: z = z - presence
 *     temperature     0: the largest z, lowest id of equal ones, and done
 *                     T: w = exp(z / T - max / T); 0 < T < 0.01 counts as 0.01
 *     top-k           the first k of the order
 *     min-p           w >= min_p (the largest w is 1)
 *     top-p           the smallest prefix of the order of what is left whose
 *                     weight reaches p times the weight of what is left
 *     draw            weigh.c, with u of (seed, choice, position), stream 0
 *
 * "The order" is that of rank.h on z before the division: dividing does not
 * reorder tokens, it can only make neighbours equal, and they keep their order.
 * vLLM has min-p before top-k; both keep the upper part of the order, so that
 * they commute, and k weights are cheaper than 248,320 of them.
 *
 * A NaN is -inf. If nothing above -inf is left the draw fails. Logits above
 * 2^119 count as 2^119, so that nothing overflows in the division.
 *
 * Raw log-probabilities are those of the model: z - max - log(sum of exp(z -
 * max)), before everything above, sums as in weigh.c.
 *
 * Cost. Greedy is one search for the largest value. Top-k is one pass for block
 * maxima and k weights. Without top-k all weights are needed, because top-p and
 * the draw both depend on their sum; top-p then looks for its prefix only among
 * the tokens that can be in it. Edits touch the tokens they name, but allowed
 * ids, which rewrite the row.
 *
 * The mask of a shape is applied last of the edits, which makes no difference
 * (an edit never raises -inf), so that it can be applied by halves: mostly the
 * likeliest tokens are all allowed, and nothing else matters. So a few rounds
 * ask about these alone, mask those that are not allowed, and look again; only
 * then the mask of the whole vocabulary is made. The draw is the same.
 *
 * All work space is taken at _open; a draw allocates nothing. The result
 * depends on nothing that an earlier draw left there.
 */
#include "sample/sample.h"

#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "kern/math.h"
#include "sample/history.h"
#include "sample/philox.h"
#include "sample/rank.h"
#include "sample/shape.h"
#include "sample/weigh.h"

#define MIN_TEMP 0.01f       /* vLLM's */
#define MAX_LOGIT 0x1p119f   /* / MIN_TEMP is still below FLT_MAX */
#define MAX_VOCAB (1u << 23) /* of sl_rank_cut; ten times what exists */

/* Top-p first looks at tokens of at least 1/1024 of the weight that may be cut
 * off; those below rarely add up to it. If they do, it looks at 16 times
 * smaller ones, and so on: a list a little too long costs less than one that is
 * as long as the vocabulary. Chosen, not measured; the result is the same with
 * any values. */
#define TAIL_PARTS 1024
#define TAIL_STEP 16

/* Rounds in which the likeliest tokens alone are held against a shape, and how
 * many they may be; chosen, not measured. */
#define SHAPE_ROUNDS 4
#define SHAPE_TOP 64

/* What the last draw drew from, for sl_sampler_prob. */
enum shape { SHAPE_NONE, SHAPE_POINT, SHAPE_LIST, SHAPE_ARRAY };

struct sl_sampler {
    const struct sl_kern *kern; /* borrowed until close */
    size_t n_vocab, n_block;
    size_t n_row;        /* logits of a row; those behind n_vocab are padding */
    float *max, *sum;    /* [blocks of n_row] of logits, of weights */
    float *w;            /* [n_row] weights; work space of the edits */
    float *raw;          /* [n_row] logits before the edits */
    uint64_t *mark;      /* a bit per id; all clear between uses */
    struct sl_list list; /* room for n_vocab + 1 */
    struct sl_rank rank;

    enum shape shape;
    int32_t point;
    float total; /* of the weights drawn from */
};

/* One draw, as its steps see it. */
struct job {
    struct sl_sampler *s;
    float *z; /* [n_vocab] */
    const struct sl_sample_opts *o;
    const struct sl_history *h;
    const int32_t *tent;
    size_t n_tent;
    uint64_t pos;
};

void sl_sample_opts_init(struct sl_sample_opts *o)
{
    *o = (struct sl_sample_opts){.temperature = 1, .top_p = 1, .repetition = 1};
}

/* Written so that a NaN fails. */
static int in_range(float v, float lo, float hi, const char *name,
                    struct sl_err *err)
{
    if (v >= lo && v <= hi)
        return 0;
    return sl_fail(err, SL_EARG, "%s is %g and must be from %g to %g", name,
                   (double)v, (double)lo, (double)hi);
}

static int check_numbers(const struct sl_sample_opts *o, struct sl_err *err)
{
    int rc;

    rc = in_range(o->temperature, 0, 2, "temperature", err);
    if (rc)
        return rc;
    if (!(o->top_p > 0 && o->top_p <= 1))
        return sl_fail(err, SL_EARG,
                       "top_p is %g and must be above 0 and at most 1; 1 "
                       "switches it off",
                       (double)o->top_p);
    if (o->top_k < -1)
        return sl_fail(err, SL_EARG,
                       "top_k is %d and must be at least -1; 0 and -1 switch "
                       "it off",
                       o->top_k);
    rc = in_range(o->min_p, 0, 1, "min_p", err);
    if (rc)
        return rc;
    rc = in_range(o->presence, -2, 2, "presence_penalty", err);
    if (rc)
        return rc;
    rc = in_range(o->frequency, -2, 2, "frequency_penalty", err);
    if (rc)
        return rc;
    if (!(o->repetition > 0 && o->repetition < INFINITY))
        return sl_fail(err, SL_EARG,
                       "repetition_penalty is %g and must be above 0 and "
                       "finite; 1 switches it off",
                       (double)o->repetition);
    if (o->n_logprob > SL_MAX_LOGPROB)
        return sl_fail(err, SL_EARG,
                       "%u alternatives with log-probabilities are more than "
                       "%d; ask for fewer",
                       o->n_logprob, SL_MAX_LOGPROB);
    return 0;
}

static int check_id(int32_t id, uint32_t n_vocab, const char *name,
                    struct sl_err *err)
{
    if (id >= 0 && (uint32_t)id < n_vocab)
        return 0;
    return sl_fail(err, SL_EARG,
                   "%s names token %d, and the ids of this model are 0 to %u",
                   name, id, n_vocab - 1);
}

int sl_sample_opts_check(const struct sl_sample_opts *o, uint32_t n_vocab,
                         struct sl_err *err)
{
    int rc = check_numbers(o, err);

    for (uint32_t i = 0; !rc && i < o->n_bias; i++) {
        rc = check_id(o->bias[i].id, n_vocab, "logit_bias", err);
        if (!rc)
            rc = in_range(o->bias[i].value, -100, 100, "a logit_bias", err);
    }
    if (!rc && o->allowed && o->n_allowed == 0)
        rc = sl_fail(err, SL_EARG,
                     "allowed_token_ids is empty, so that no token could be "
                     "drawn; leave it out to allow all");
    for (uint32_t i = 0; !rc && o->allowed && i < o->n_allowed; i++)
        rc = check_id(o->allowed[i], n_vocab, "allowed_token_ids", err);
    for (uint32_t i = 0; !rc && i < o->n_bad; i++) {
        if (o->bad[i].n == 0)
            rc = sl_fail(err, SL_EARG,
                         "item %u of bad_words is empty; remove it", i);
        for (uint32_t j = 0; !rc && j < o->bad[i].n; j++)
            rc = check_id(o->bad[i].ids[j], n_vocab, "bad_words", err);
    }
    return rc;
}

int sl_sampler_open(struct sl_sampler **out, const struct sl_kern *kern,
                    uint32_t n_vocab, struct sl_err *err)
{
    return sl_sampler_open_padded(out, kern, n_vocab, n_vocab, err);
}

int sl_sampler_open_padded(struct sl_sampler **out, const struct sl_kern *kern,
                           uint32_t n_vocab, uint32_t n_row,
                           struct sl_err *err)
{
    const char *what = "the sampler's work space";
    struct sl_sampler *s = NULL;
    size_t n = n_row, n_block = (n + SL_RANK_BLOCK - 1) / SL_RANK_BLOCK;
    int rc;

    if (n_vocab == 0 || n > MAX_VOCAB || n_vocab > n_row)
        return sl_fail(err, SL_EARG,
                       "a vocabulary of %u tokens is not between 1 and %u; the "
                       "model's config is damaged or not supported",
                       n_vocab, (uint32_t)sl_min(n_row, MAX_VOCAB));
    rc = sl_mem_alloc(&s, 1, sizeof(*s), what, err);
    if (rc)
        return rc;
    s->kern = kern;
    s->n_vocab = n_vocab;
    s->n_block = (s->n_vocab + SL_RANK_BLOCK - 1) / SL_RANK_BLOCK;
    s->n_row = n;
    rc = sl_mem_alloc(&s->max, n_block, sizeof(float), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->sum, n_block, sizeof(float), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->w, n, sizeof(float), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->raw, n, sizeof(float), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->mark, n / 64 + 1, sizeof(uint64_t), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->list.id, n + 1, sizeof(int32_t), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->list.z, n + 1, sizeof(float), what, err);
    if (!rc)
        rc = sl_mem_alloc(&s->list.w, n + 1, sizeof(float), what, err);
    if (rc)
        sl_sampler_close(&s);
    else
        *out = s;
    return rc;
}

void sl_sampler_close(struct sl_sampler **s)
{
    if (!*s)
        return;
    sl_mem_free((*s)->max);
    sl_mem_free((*s)->sum);
    sl_mem_free((*s)->w);
    sl_mem_free((*s)->raw);
    sl_mem_free((*s)->mark);
    sl_mem_free((*s)->list.id);
    sl_mem_free((*s)->list.z);
    sl_mem_free((*s)->list.w);
    sl_mem_free(*s);
    *s = NULL;
}

/* Where the logit of `id` is; NULL if the model cannot draw it: prompts and
 * end ids may name rows beyond the vocabulary. */
static float *logit(const struct job *j, int32_t id)
{
    return id >= 0 && (size_t)id < j->s->n_vocab ? &j->z[id] : NULL;
}

static void mask(const struct job *j, int32_t id)
{
    float *z = logit(j, id);

    if (z)
        *z = -INFINITY;
}

static void edit_allowed(const struct job *j)
{
    float *keep = j->s->w;

    if (!j->o->allowed)
        return;
    for (size_t i = 0; i < j->s->n_vocab; i++)
        keep[i] = -INFINITY;
    for (uint32_t i = 0; i < j->o->n_allowed; i++) {
        const float *z = logit(j, j->o->allowed[i]);

        if (z)
            keep[j->o->allowed[i]] = *z;
    }
    memcpy(j->z, keep, j->s->n_vocab * sizeof(*keep));
}

static size_t n_generated(const struct job *j)
{
    return sl_history_n_out(j->h) + j->n_tent;
}

/* Generated token i, tentative ones last. */
static int32_t generated(const struct job *j, size_t i)
{
    size_t n = sl_history_n_out(j->h);

    return i < n ? sl_history_out(j->h)[i] : j->tent[i - n];
}

static void edit_bad_words(const struct job *j)
{
    size_t n = n_generated(j);

    for (uint32_t b = 0; b < j->o->n_bad; b++) {
        const struct sl_bad_word *bad = &j->o->bad[b];
        size_t len = bad->n ? bad->n - 1 : 0; /* tokens before the last */
        size_t i = 0;

        if (bad->n == 0 || len > n)
            continue;
        while (i < len && bad->ids[i] == generated(j, n - len + i))
            i++;
        if (i == len)
            mask(j, bad->ids[len]);
    }
}

static void edit_min_tokens(const struct job *j)
{
    if (n_generated(j) >= j->o->min_tokens && !j->o->never_end)
        return;
    for (uint32_t i = 0; i < j->o->n_end; i++)
        mask(j, j->o->end[i]);
}

static void edit_bias(const struct job *j)
{
    for (uint32_t i = 0; i < j->o->n_bias; i++) {
        float *z = logit(j, j->o->bias[i].id);

        if (z)
            *z += j->o->bias[i].value;
    }
}

/* The three penalties for a token that was seen, `n_out` times as output. */
static void penalise(const struct job *j, int32_t id, size_t n_out)
{
    const struct sl_sample_opts *o = j->o;
    float *z = logit(j, id);

    if (!z)
        return;
    if (o->repetition != 1)
        *z = *z > 0 ? *z / o->repetition : *z * o->repetition;
    if (n_out == 0)
        return;
    *z -= o->frequency * (float)n_out;
    *z -= o->presence;
}

/* The tentative tokens are laid over the history: they are marked, left out of
 * the walk over what was seen, and then done once each with both counts. */
static void edit_penalties(const struct job *j)
{
    uint64_t *bits = j->s->mark;
    const struct sl_seen *seen;
    size_t n_seen;

    if (j->o->repetition == 1 && j->o->frequency == 0 && j->o->presence == 0)
        return;
    for (size_t i = 0; i < j->n_tent; i++)
        if (logit(j, j->tent[i]))
            bits[j->tent[i] / 64] |= 1ull << j->tent[i] % 64;

    seen = sl_history_seen(j->h, &n_seen);
    for (size_t i = 0; i < n_seen; i++) {
        int32_t id = seen[i].id;

        if (logit(j, id) && !(bits[id / 64] >> id % 64 & 1))
            penalise(j, id, seen[i].n_out);
    }

    for (size_t i = 0; i < j->n_tent; i++) {
        int32_t id = j->tent[i];
        const struct sl_seen *old = sl_history_get(j->h, id);
        size_t n_out = old ? old->n_out : 0;

        if (!logit(j, id) || !(bits[id / 64] >> id % 64 & 1))
            continue; /* done with an earlier one */
        for (size_t k = i; k < j->n_tent; k++)
            n_out += j->tent[k] == id;
        penalise(j, id, n_out);
        bits[id / 64] &= ~(1ull << id % 64);
    }
}

/* Block maxima of z [n], and its largest value, at most MAX_LOGIT. */
static float find_max(struct sl_sampler *s, float *z, size_t n)
{
    float max = sl_rank_max(s->max, z, n);

    if (max <= MAX_LOGIT)
        return max;
    for (size_t i = 0; i < n; i++)
        if (z[i] > MAX_LOGIT)
            z[i] = MAX_LOGIT;
    return sl_rank_max(s->max, z, n);
}

/* The first k of the order, 0 < k, into the list. */
static void list_top(struct sl_sampler *s, const float *z, size_t k)
{
    float least = -INFINITY;

    if (k <= s->n_block)
        least = sl_rank_cut(&s->rank, s->max, NULL, s->n_block, k).z;
    sl_rank_collect(&s->list, z, s->max, s->n_vocab, least);
    sl_rank_keep(&s->list, sl_rank_cut(&s->rank, s->list.z, NULL, s->list.n, k),
                 false);
}

/* ------------------------------------------------------------------ shapes */

static bool is_end(const struct job *j, int32_t id)
{
    for (uint32_t i = 0; i < j->o->n_end; i++)
        if (j->o->end[i] == id)
            return true;
    return false;
}

static bool fits(const struct job *j, int32_t id)
{
    return sl_matcher_allows(j->o->shape, id) ||
           (sl_matcher_can_end(j->o->shape) && is_end(j, id));
}

/* Is the largest logit one that fits? A few of those that do not are masked. */
static bool fit_largest(const struct job *j)
{
    float max;

    for (int r = 0; r < SHAPE_ROUNDS; r++) {
        int32_t id =
            (int32_t)j->s->kern->argmax(&max, j->z, j->s->n_vocab);

        if (!(max > -INFINITY) || fits(j, id))
            return true;
        mask(j, id);
    }
    return false;
}

/* The same for the first top_k of the order, all of them. */
static bool fit_top(const struct job *j)
{
    for (int r = 0; r < SHAPE_ROUNDS; r++) {
        const struct sl_list *l = &j->s->list;
        bool all = true;

        (void)find_max(j->s, j->z, j->s->n_vocab);
        list_top(j->s, j->z, (size_t)j->o->top_k);
        for (size_t i = 0; i < l->n; i++) {
            if (fits(j, l->id[i]))
                continue;
            all = false;
            mask(j, l->id[i]);
        }
        if (all)
            return true;
    }
    return false;
}

static int mask_all(const struct job *j, struct sl_err *err)
{
    const uint64_t *bit = NULL;
    uint32_t n_end = (uint32_t)sl_min(j->o->n_end, j->s->n_vocab);
    float *keep = j->s->w;
    int rc = sl_matcher_mask(j->o->shape, &bit, err);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < n_end; i++) {
        const float *z = logit(j, j->o->end[i]);

        keep[i] = z ? *z : -INFINITY;
    }
    for (size_t i = 0; i < j->s->n_vocab; i++)
        if (!(bit[i / 64] >> i % 64 & 1))
            j->z[i] = -INFINITY;
    for (uint32_t i = 0; sl_matcher_can_end(j->o->shape) && i < n_end; i++) {
        float *z = logit(j, j->o->end[i]);

        if (z)
            *z = keep[i];
    }
    return 0;
}

static int edit_shape(const struct job *j, struct sl_err *err)
{
    bool done;
    int rc;

    if (!j->o->shape)
        return 0;
    done = j->o->temperature > 0
               ? j->o->top_k > 0 && j->o->top_k <= SHAPE_TOP && fit_top(j)
               : fit_largest(j);
    rc = sl_matcher_check(j->o->shape, err);
    return rc || done ? rc : mask_all(j, err);
}

/* Drop what has no weight; the weights are in list.w. Mostly all have. */
static void list_drop(struct sl_list *l)
{
    size_t i = 0, n;

    while (i < l->n && l->w[i] > 0)
        i++;
    for (n = i; i < l->n; i++) {
        if (!(l->w[i] > 0))
            continue;
        l->id[n] = l->id[i];
        l->z[n] = l->z[i];
        l->w[n++] = l->w[i];
    }
    l->n = n;
}

/* The mass that a prefix must reach to hold p of the total. */
static uint64_t mass_needed(float p, float total)
{
    uint64_t need = (uint64_t)((double)p * (double)total * SL_RANK_ONE);

    return need ? need : 1;
}

/* Top-p of the list. */
static void list_top_p(struct sl_sampler *s, float p)
{
    struct sl_list *l = &s->list;
    uint64_t need = mass_needed(p, sl_weigh_list_sum(l));

    sl_rank_keep(l, sl_rank_cut(&s->rank, l->z, l->w, l->n, need), true);
}

/* Top-p of all weights, which become a list. */
static void array_top_p(struct sl_sampler *s, const float *z, float max,
                        float temp, float p, float total)
{
    struct sl_list *l = &s->list;
    uint64_t need = mass_needed(p, total);
    float most = TAIL_STEP * (float)s->n_vocab;
    struct sl_cut cut;

    for (float parts = TAIL_PARTS;; parts *= TAIL_STEP) {
        float tail = (1 - p) * total / parts; /* a weight */
        bool last = parts > most;

        if (tail >= 1 && !last)
            continue;
        sl_rank_collect(l, z, s->max, s->n_vocab,
                        last ? -INFINITY : max + temp * sl_ln(tail));
        for (size_t i = 0; i < l->n; i++)
            l->w[i] = s->w[l->id[i]];
        cut = sl_rank_cut(&s->rank, l->z, l->w, l->n, need);
        if (cut.found || last)
            break;
    }
    sl_rank_keep(l, cut, true);
    list_drop(l);
}

static int32_t draw_from_list(struct sl_sampler *s, float u)
{
    s->shape = SHAPE_LIST;
    s->total = sl_weigh_list_sum(&s->list);
    return s->list.id[sl_weigh_list_walk(&s->list, s->total, u)];
}

/* Temperature, truncation and draw; `max` is above -inf. */
static int32_t draw_sampled(const struct job *j, float max)
{
    const struct sl_sample_opts *o = j->o;
    struct sl_sampler *s = j->s;
    float temp = o->temperature < MIN_TEMP ? MIN_TEMP : o->temperature;
    float u = sl_philox_u(o->seed, o->choice, j->pos, SL_STREAM_DRAW);

    if (o->top_k > 0 && (size_t)o->top_k < s->n_vocab) {
        list_top(s, j->z, (size_t)o->top_k);
        sl_weigh(s->kern, s->list.w, s->list.z, s->list.n, max, temp, o->min_p);
        list_drop(&s->list);
        if (o->top_p < 1)
            list_top_p(s, o->top_p);
        return draw_from_list(s, u);
    }
    s->total = sl_weigh_sum(s->kern, s->w, s->sum, j->z, s->n_vocab, max, temp,
                            o->min_p);
    if (o->top_p < 1) {
        array_top_p(s, j->z, max, temp, o->top_p, s->total);
        return draw_from_list(s, u);
    }
    s->shape = SHAPE_ARRAY;
    return sl_weigh_walk(s->sum, s->w, s->n_vocab, s->total, u);
}

/* The best n tokens of the list's prefix by falling value, by insertion: n is
 * at most SL_MAX_LOGPROB. */
static void sort_top(struct sl_draw *d, const struct sl_list *l)
{
    d->n_top = 0;
    for (size_t i = 0; i < l->n; i++) {
        uint32_t at = d->n_top++;

        for (; at > 0 && l->z[i] > d->top_logprob[at - 1]; at--) {
            d->top_id[at] = d->top_id[at - 1];
            d->top_logprob[at] = d->top_logprob[at - 1];
        }
        d->top_id[at] = l->id[i];
        d->top_logprob[at] = l->z[i];
    }
}

/* Keep the raw logits, and fill the alternatives. *base and *log_sum are what
 * logprob() needs. */
static void take_raw(struct sl_sampler *s, struct sl_draw *d, const float *z,
                     uint32_t n_top, float *base, float *log_sum)
{
    memcpy(s->raw, z, s->n_row * sizeof(*z));
    *base = find_max(s, s->raw, s->n_row);
    if (!(*base > -INFINITY))
        return; /* the draw will fail */
    *log_sum = sl_ln(
        sl_weigh_sum(s->kern, s->w, s->sum, s->raw, s->n_row, *base, 1, 0));
    if (n_top == 0)
        return;
    (void)find_max(s, s->raw, s->n_vocab); /* the maxima of tokens alone */
    list_top(s, s->raw, sl_min(n_top, SL_MAX_LOGPROB));
    sort_top(d, &s->list);
    for (uint32_t i = 0; i < d->n_top; i++)
        d->top_logprob[i] = d->top_logprob[i] - *base - *log_sum;
}

/* Nothing can be drawn: is the model to blame, or the masks? */
static int fail_draw(const struct job *j, struct sl_err *err)
{
    for (size_t i = 0; i < j->s->n_vocab; i++)
        if (!(j->z[i] <= MAX_LOGIT))
            return sl_fail(err, SL_EFORMAT,
                           "no token can follow at position %" PRIu64
                           ": logits are NaN; check the model's weights",
                           j->pos);
    return sl_fail(err, SL_EARG,
                   "no token may follow at position %" PRIu64
                   ": the shape of the answer, allowed_token_ids, bad_words "
                   "and min_tokens together forbid every one; relax one of "
                   "them",
                   j->pos);
}

int sl_sampler_draw(struct sl_sampler *s, struct sl_draw *out, float *logits,
                    const struct sl_sample_opts *o, const struct sl_history *h,
                    const int32_t *tent, size_t n_tent, uint64_t pos,
                    struct sl_err *err)
{
    const struct job j = {s, logits, o, h, tent, n_tent, pos};
    bool want = o->want_logprob || o->n_logprob > 0;
    struct sl_draw d = {.id = -1};
    float max, base = 0, log_sum = 0;
    int rc;

    s->shape = SHAPE_NONE;
    if (want)
        take_raw(s, &d, logits, o->n_logprob, &base, &log_sum);
    edit_allowed(&j);
    edit_bad_words(&j);
    edit_min_tokens(&j);
    edit_bias(&j);
    edit_penalties(&j);
    rc = edit_shape(&j, err);
    if (rc)
        return rc;

    if (o->temperature > 0)
        max = find_max(s, logits, s->n_vocab);
    else
        d.id = (int32_t)s->kern->argmax(&max, logits, s->n_vocab);
    if (!(max > -INFINITY))
        return fail_draw(&j, err);
    if (o->temperature > 0) {
        d.id = draw_sampled(&j, max);
    } else {
        s->shape = SHAPE_POINT;
        s->point = d.id;
    }
    if (want)
        d.logprob = s->raw[d.id] - base - log_sum;
    *out = d;
    return 0;
}

int sl_sampler_score(struct sl_sampler *s, struct sl_draw *out, uint32_t *rank,
                     const float *logits, int32_t id, uint32_t n_top,
                     struct sl_err *err)
{
    struct sl_draw d = {.id = id};
    float base = 0, log_sum = 0, z;
    uint32_t n = 0;

    s->shape = SHAPE_NONE;
    take_raw(s, &d, logits, n_top, &base, &log_sum);
    if (!(base > -INFINITY))
        return sl_fail(err, SL_EFORMAT,
                       "every logit behind a token of the prompt is NaN; check "
                       "the model's weights");
    z = s->raw[id];
    for (size_t i = 0; i < s->n_vocab; i++)
        n += s->raw[i] >= z;
    d.logprob = z - base - log_sum;
    *rank = n;
    *out = d;
    return 0;
}

/* The weight of `id` in the list, by bisection. */
static float list_weight(const struct sl_list *l, int32_t id)
{
    size_t lo = 0, hi = l->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (l->id[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < l->n && l->id[lo] == id ? l->w[lo] : 0;
}

float sl_sampler_prob(const struct sl_sampler *s, int32_t id, float *max)
{
    bool known = id >= 0 && (size_t)id < s->n_vocab;

    switch (s->shape) {
    case SHAPE_NONE:
        break;
    case SHAPE_POINT:
        *max = 1;
        return id == s->point ? 1 : 0;
    case SHAPE_LIST:
        *max = 1 / s->total; /* the largest weight is 1, and it survives */
        return list_weight(&s->list, id) / s->total;
    case SHAPE_ARRAY:
        *max = 1 / s->total;
        return known ? s->w[id] / s->total : 0;
    }
    *max = 0;
    return 0;
}
