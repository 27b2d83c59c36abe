/* cli/answer.c - one answer, from submission to its last piece; see answer.h */
#include "cli/answer.h"

#include "base/term.h"
#include "cli/paint.h"

/* Bytes of one answer: a full context of the longest tokens is below it. */
#define MAX_ANSWER ((size_t)1 << 30)

/* In a signal handler, on the thread that waits for pieces. */
static void cancel(void *gen)
{
    sl_gen_cancel(gen);
}

static int take(struct sl_answer *a, const struct sl_piece *p, bool stream,
                struct sl_paint *paint, struct sl_err *err)
{
    sl_buf_add(&a->text, p->text, p->n_text);
    for (size_t i = 0; i < p->n_ids; i++)
        json_array_append_new(a->ids, json_integer(p->ids[i]));
    if (p->finish != SL_FINISH_NONE)
        a->finish = p->finish;
    if (stream && paint)
        return sl_paint_put(paint, p, err);
    return stream ? sl_out_write(p->text, p->n_text, err) : 0;
}

static int gather(struct sl_answer *a, struct sl_gen *g, bool stream,
                  struct sl_paint *paint, struct sl_err *err)
{
    struct sl_piece p;
    int rc;

    for (;;) {
        rc = sl_gen_next(g, &p, err);
        if (rc <= 0)
            break;
        rc = take(a, &p, stream, paint, err);
        if (rc)
            return rc;
    }
    if (!rc && paint)
        rc = sl_paint_finish(paint, err);
    return rc ? rc : sl_buf_check(&a->text, "the answer", err);
}

int sl_answer_get(struct sl_answer *out, struct sl_engine *e,
                  const struct sl_gen_opts *opts, bool stream,
                  struct sl_err *err)
{
    struct sl_on_interrupt before;
    struct sl_paint *paint = NULL;
    struct sl_gen *g = NULL;
    int rc;

    *out = (struct sl_answer){.ids = json_array()};
    sl_buf_init(&out->text, MAX_ANSWER);
    rc = stream ? sl_paint_open(&paint, e, opts, err) : 0;
    if (!rc)
        rc = sl_gen_submit(&g, e, opts, err);
    if (rc) {
        sl_paint_close(&paint);
        return rc;
    }
    out->seed = sl_gen_seed(g);
    before = sl_term_on_interrupt((struct sl_on_interrupt){cancel, g});
    rc = gather(out, g, stream, paint, err);
    sl_term_on_interrupt(before);
    sl_paint_close(&paint);
    sl_gen_stats(g, &out->stats);
    sl_gen_close(&g);
    return rc;
}

void sl_answer_deinit(struct sl_answer *a)
{
    sl_buf_deinit(&a->text);
    json_decref(a->ids);
    a->ids = NULL;
}

const char *sl_finish_name(enum sl_finish f)
{
    switch (f) {
    case SL_FINISH_NONE:
        return "none";
    case SL_FINISH_STOP:
        return "stop";
    case SL_FINISH_LENGTH:
        return "length";
    case SL_FINISH_CANCEL:
        return "cancel";
    case SL_FINISH_ERROR:
        return "error";
    }
    return "?";
}

static double rate(uint32_t n, double s)
{
    return s > 0 ? n / s : 0;
}

void sl_answer_note(const struct sl_answer *a)
{
    const struct sl_gen_stats *s = &a->stats;
    /* The first token comes out of the prompt's last row. */
    uint32_t decoded = s->n_output > 0 ? s->n_output - 1 : 0;

    char rounds[200] = "";

    if (s->n_draft > 0)
        snprintf(rounds, sizeof(rounds), ", %.2f a round, %.0f %% of drafts",
                 (double)s->n_output / s->n_round,
                 100.0 * s->n_accept / s->n_draft);
    if (s->n_draft > 0 && s->plain_s > 0 && s->round_s > 0) {
        size_t n = strlen(rounds);

        snprintf(rounds + n, sizeof(rounds) - n,
                 ", break-even %.2f, plain %.1f/s", s->round_s / s->plain_s,
                 1 / s->plain_s);
    }
    if (s->n_judged > 0) {
        size_t n = strlen(rounds);

        snprintf(rounds + n, sizeof(rounds) - n,
                 ", off by %.4f a draft (total variation)",
                 s->tv / s->n_judged);
    }
    sl_note("[prompt %u tokens, %.1f/s; answer %u tokens, %.1f/s%s; %s; seed "
            "%llu]\n",
            s->n_prompt, rate(s->n_prompt - s->n_cached, s->prefill_s),
            s->n_output, rate(decoded, s->decode_s), rounds,
            sl_finish_name(a->finish), (unsigned long long)a->seed);
}
