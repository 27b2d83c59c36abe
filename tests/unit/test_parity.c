/* Parity: small random models against the reference library.
 *
 * The reference ran in fp32 on exactly the stored values (tests/golden). Logits
 * agree within 2e-4 of the largest of their row, at every position, fed whole
 * and token by token. The reference's own two ways to compute a prompt differ
 * by up to 1.5e-5 (manifest.json, reference_drift); 2e-4 is the goal of the
 * project's plan, not fitted to these runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "../golden/gold.h"
#include "../help/rig.h"
#include "model/mtp.h"

#define TOLERANCE 2e-4

static double worst; /* of the model that runs */

/* Largest |a - b| / max|b|; written so that a NaN is not small. */
static double distance(const float *a, const float *b, size_t n)
{
    double diff = 0, mag = 0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);

        if (!(d <= diff))
            diff = d;
        if (fabs((double)b[i]) > mag)
            mag = fabs((double)b[i]);
    }
    return diff / mag;
}

static void compare(const char *what, const struct gold_rec *g, size_t i,
                    const float *got)
{
    double d = distance(got, g->data + i * g->n_col, g->n_col);

    if (!(d <= worst))
        worst = d;
    if (!(d <= TOLERANCE))
        fail_msg("%s of %u tokens, row %u: off by %g of the largest", what,
                 g->n_tok, g->pos[i], d);
}

static void check_logits(struct rig *r, const struct gold_rec *g,
                         uint32_t chunk)
{
    uint32_t vocab = r->w->conf.vocab;
    float *logits = calloc((size_t)g->n_tok * vocab, sizeof(float));
    struct sl_seq *q = rig_seq(r);

    assert_int_equal(g->n_col, vocab);
    rig_feed(r, q, g->tok, g->n_tok, chunk, logits);
    for (size_t i = 0; i < g->n_row; i++)
        compare("logits", g, i, logits + (size_t)g->pos[i] * vocab);
    sl_seq_close(&q);
    free(logits);
}

/* The prompt in one step, then one step per token. */
static void check_decode(struct rig *r, const struct gold_rec *g)
{
    uint32_t vocab = r->w->conf.vocab, prompt = g->n_tok - 8;
    float *logits = calloc((size_t)g->n_tok * vocab, sizeof(float));
    struct sl_seq *q = rig_seq(r);

    rig_feed(r, q, g->tok, prompt, 0, logits);
    rig_feed(r, q, g->tok + prompt, 8, 1, logits + (size_t)prompt * vocab);
    for (size_t i = 0; i < g->n_row; i++)
        compare("decode", g, i, logits + (size_t)g->pos[i] * vocab);
    sl_seq_close(&q);
    free(logits);
}

/* Residual of the last token after each layer, and the final hidden row. */
static void check_inside(struct rig *r, const struct gold_rec *g)
{
    uint32_t n_layer = r->w->conf.n_layer, hidden = r->w->conf.hidden;
    uint32_t n = g->n_tok, *tap = calloc(n_layer, sizeof(*tap));
    float *res = calloc((size_t)n_layer * n * hidden, sizeof(float));
    float *last = calloc((size_t)n * hidden, sizeof(float));
    struct sl_seq *q = rig_seq(r);
    struct sl_step s = {.seq = &q, .n_seq = 1, .tok = g->tok, .n_row = n};

    for (uint32_t i = 0; i < n_layer; i++)
        tap[i] = i;
    s.hidden = last;
    s.tap = tap;
    s.n_tap = n_layer;
    s.tap_out = res;
    assert_int_equal(sl_seq_begin(q, n, 0, NULL), 0);
    sl_forward(r->m, &s);
    sl_seq_end(q, 0);
    for (size_t i = 0; i < g->n_row; i++)
        if (g->kind == GOLD_RESIDUAL)
            compare("residual", g, i,
                    res + ((size_t)g->pos[i] * n + n - 1) * hidden);
        else
            compare("hidden", g, i, last + (size_t)g->pos[i] * hidden);
    sl_seq_close(&q);
    free(tap);
    free(res);
    free(last);
}

/* Rows that are only to be remembered leave out most of the layer: the others get
 * the same bits. */
static void check_tail(struct rig *r, struct sl_mtp_step d, uint32_t vocab)
{
    size_t n = vocab * sizeof(float);
    float *want = malloc(n * 2);

    if (d.n_row < 2) {
        free(want);
        return;
    }
    memcpy(want, d.logits + (size_t)(d.n_row - 2) * vocab, 2 * n);
    d.n_logit = 0;
    sl_mtp_forward(r->m, &d);
    d.logit_row += d.n_row - 2;
    d.n_logit = 2;
    sl_mtp_forward(r->m, &d);
    assert_memory_equal(d.logits, want, 2 * n);
    free(want);
}

/* The draft head: primed over a prompt of n tokens in two steps, then, if the
 * record goes on, chained to depth 3. */
static void check_mtp(struct rig *r, const struct gold_rec *g, uint32_t n)
{
    uint32_t hidden = r->w->conf.hidden, pos = 0, k = n - 1;
    float *h = calloc((size_t)n * hidden, sizeof(float));
    float *y = calloc((size_t)n * hidden, sizeof(float));
    uint32_t *row = calloc(n, sizeof(*row));
    struct sl_seq *q = rig_seq(r);
    struct sl_step s = {
        .seq = &q, .n_seq = 1, .tok = g->tok, .n_row = n, .hidden = h};
    struct sl_mtp_step d = {.seq = &q, .n_seq = 1, .n = &k, .pos = &pos,
                            .n_row = k, .tok = g->tok + 1, .hidden = h,
                            .logit_row = row, .n_logit = k};

    for (uint32_t i = 0; i < n; i++)
        row[i] = i;
    assert_int_equal(sl_seq_begin(q, n, 0, NULL), 0);
    sl_forward(r->m, &s);
    sl_seq_end(q, 0);
    sl_mtp_forward(r->m, &d);
    for (size_t i = 0; g->kind == GOLD_MTP_PRIME && i < g->n_row; i++)
        compare("mtp prime", g, i, d.logits + (size_t)g->pos[i] * g->n_col);
    check_tail(r, d, r->w->conf.vocab);
    k = d.n_row = d.n_logit = 1;
    row[0] = 0;
    d.y = y;
    d.hidden = h + (size_t)(n - 1) * hidden;
    for (uint32_t depth = 1; g->kind == GOLD_MTP && depth <= 3; depth++) {
        pos = n - 2 + depth;
        d.tok = g->tok + n - 1 + depth;
        sl_mtp_forward(r->m, &d);
        compare("mtp chain", g, depth - 1, d.logits);
        d.hidden = y;
    }
    sl_seq_close(&q);
    free(row);
    free(h);
    free(y);
}

static void check_record(struct rig *r, const struct gold_rec *g)
{
    switch (g->kind) {
    case GOLD_LOGITS:
        check_logits(r, g, 0);
        check_logits(r, g, 1);
        break;
    case GOLD_DECODE:
        check_decode(r, g);
        break;
    case GOLD_RESIDUAL:
    case GOLD_HIDDEN:
        check_inside(r, g);
        break;
    case GOLD_MTP:
        check_mtp(r, g, g->n_tok - 3);
        break;
    case GOLD_MTP_PRIME:
        check_mtp(r, g, g->n_tok);
        break;
    }
}

static void test_model(void **state)
{
    const char *name = *state;
    char dir[200], path[200], why[200];
    struct rig_opts o;
    struct rig r;
    struct gold g;

    snprintf(dir, sizeof(dir), "tests/golden/models/%s", name);
    snprintf(path, sizeof(path), "tests/golden/vectors/%s.gold", name);
    if (gold_open(&g, path, why, sizeof(why)))
        fail_msg("%s", why);
    rig_opts_init(&o);
    rig_open(&r, dir, NULL, &o);
    worst = 0;
    assert_true(g.n_rec > 0);
    /* From the inside out, so that a fault is seen where it begins. */
    for (size_t i = 0; i < g.n_rec; i++)
        if (g.rec[i].kind == GOLD_RESIDUAL)
            check_record(&r, &g.rec[i]);
    for (size_t i = 0; i < g.n_rec; i++)
        if (g.rec[i].kind != GOLD_RESIDUAL)
            check_record(&r, &g.rec[i]);
    print_message("%s: at most %.2g of the largest logit\n", name, worst);
    rig_close(&r);
    gold_close(&g);
}

int main(void)
{
    static char name[][16] = {"dense-r1-f32", "dense-r1",  "dense-r2",
                              "dense-r3",     "moe-r2-f32", "moe-r2",
                              "moe-split",    "fp8",       "nested"};
    struct CMUnitTest tests[SL_COUNTOF(name)];

    for (size_t i = 0; i < SL_COUNTOF(name); i++)
        tests[i] = (struct CMUnitTest){.name = name[i],
                                       .test_func = test_model,
                                       .initial_state = name[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
