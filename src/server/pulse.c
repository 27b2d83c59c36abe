/* server/pulse.c - does the engine move; see pulse.h */
#include "server/pulse.h"

#include "base/clock.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double part(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void tell(struct sl_buf *b, const struct sl_pulse *p,
                 const struct sl_engine_stats *e,
                 const struct sl_pulse_counts *c, double s)
{
    const struct sl_engine_stats *l = &p->last;
    uint64_t n_round = e->n_round - l->n_round;

    sl_buf_fmt(b,
               "status=busy running=%u waiting=%u kv=%.3f states=%u rows_s=%.1f "
               "output_s=%.1f cached=%.3f draft_length=%.2f",
               e->n_run, c->n_waiting,
               part((double)e->kv_used, (double)e->kv_total), e->n_state,
               (double)(e->n_row - l->n_row) / s,
               (double)(c->n_out - p->n_out) / s,
               part((double)(c->n_cached - p->n_cached),
                    (double)(c->n_prompt - p->n_prompt)),
               n_round ? 1 + part((double)(e->n_accept - l->n_accept),
                                  (double)n_round)
                       : 1);
}

static void tell_death(struct sl_buf *b, const struct sl_pulse *p,
                       const struct sl_engine_stats *e)
{
    sl_buf_fmt(b, "engine=dead running=%u note=\"no step for %.0f s\"",
               e->n_run, p->still_s);
}

void sl_pulse_look(struct sl_pulse *p, const struct sl_engine_stats *e,
                   const struct sl_pulse_counts *c, uint64_t now_ns,
                   struct sl_buf *line)
{
    uint64_t n = e->n_step - p->last.n_step;
    double s = sl_clock_s(p->last_ns, now_ns), most;
    bool was_dead = p->is_dead;

    if (n > 0)
        p->longest_s =
            larger(p->longest_s, (e->step_s - p->last.step_s) / (double)n);
    if (n > 0 || !c->has_work || !p->begun)
        p->still_s = 0;
    else
        p->still_s += s < SL_PULSE_GAP_S ? s : SL_PULSE_GAP_S;
    most = larger(SL_PULSE_DEAD_S, SL_PULSE_STEPS * p->longest_s);
    p->is_dead = p->still_s > most;
    if (p->is_dead && !was_dead)
        tell_death(line, p, e);
    else if (n > 0 && p->begun && s > 0)
        tell(line, p, e, c, s);
    p->last = *e;
    p->last_ns = now_ns;
    p->n_out = c->n_out;
    p->n_prompt = c->n_prompt;
    p->n_cached = c->n_cached;
    p->begun = true;
}

uint32_t sl_pulse_retry_s(double answer_s, uint32_t n_seq)
{
    double s = answer_s / (n_seq ? n_seq : 1);

    return s >= SL_PULSE_RETRY_S ? SL_PULSE_RETRY_S : 1 + (uint32_t)s;
}
