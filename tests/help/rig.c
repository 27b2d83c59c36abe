/* tests/help/rig.c - a model ready to step; see rig.h */
#include "rig.h"

void rig_opts_init(struct rig_opts *o)
{
    *o = (struct rig_opts){.n_thread = 1,
                           .cpu_mask = SL_CPU_ALL,
                           .kv_type = SL_F32,
                           .max_row = 512,
                           .max_seq = 40,
                           .max_tent = 0,
                           .max_tok = 512,
                           .n_slot = 0};
}

static void die_on(int rc, const struct sl_err *err)
{
    if (rc == 0)
        return;
    fprintf(stderr, "rig: %s\n", err->msg);
    exit(1);
}

void rig_open(struct rig *r, const char *dir, const struct rig *share,
              const struct rig_opts *o)
{
    struct sl_err err = {0};
    struct sl_load_opts load = {0};
    struct sl_kv_plane plane[SL_MODEL_PLANES];
    struct sl_memory_opts mem = {.planes = plane,
                                 .kv_type = o->kv_type,
                                 .max_tok = o->max_tok,
                                 .n_seq = o->max_seq,
                                 .n_draft = o->max_seq};
    struct sl_model_opts model = {.max_row = o->max_row,
                                  .max_seq = o->max_seq,
                                  .max_logit = o->max_row};

    *r = (struct rig){.borrowed = share != NULL};
    die_on(sl_pool_open(&r->pool, o->n_thread, false, &err), &err);
    sl_kern_init(&r->kern, o->cpu_mask);
    load.pool = r->pool;
    load.plan = o->plan;
    if (share)
        r->w = share->w;
    else
        die_on(sl_weights_open(&r->w, dir, &load, &err), &err);
    die_on(sl_model_open(&r->m, r->w, r->pool, &r->kern, &model, &err), &err);
    mem.n_plane = sl_model_planes(&r->w->conf, r->w->has_mtp, plane);
    sl_model_rec_shape(&r->w->conf, o->max_tent, &mem.rec);
    mem.n_page = o->max_seq * ((o->max_tok + SL_KV_PAGE - 1) / SL_KV_PAGE);
    mem.n_slot = o->n_slot ? o->n_slot : o->max_seq + 1;
    die_on(sl_memory_open(&r->mem, &mem, &err), &err);
}

void rig_close(struct rig *r)
{
    sl_memory_close(&r->mem);
    sl_model_close(&r->m);
    if (!r->borrowed)
        sl_weights_close(&r->w);
    sl_pool_close(&r->pool);
}

struct sl_seq *rig_seq(struct rig *r)
{
    struct sl_err err = {0};
    struct sl_seq *q = NULL;

    die_on(sl_seq_open(&q, r->mem, &err), &err);
    return q;
}

void rig_feed(struct rig *r, struct sl_seq *q, const int32_t *tok, uint32_t n,
              uint32_t chunk, float *logits)
{
    uint32_t vocab = r->w->conf.vocab;
    struct sl_err err = {0};
    uint32_t *row = calloc(n + 1, sizeof(*row));

    for (uint32_t i = 0; i < n; i++)
        row[i] = i;
    for (uint32_t at = 0; at < n;) {
        uint32_t k = chunk ? chunk : n;
        struct sl_step s = {.seq = &q, .n_seq = 1, .tok = tok + at};

        k = k < n - at ? k : n - at;
        s.n_row = k;
        s.logit_row = row;
        s.n_logit = logits ? k : 0;
        die_on(sl_seq_begin(q, k, 0, &err), &err);
        sl_forward(r->m, &s);
        sl_seq_end(q, 0);
        if (logits)
            memcpy(logits + (size_t)at * vocab, s.logits,
                   (size_t)k * vocab * sizeof(*logits));
        at += k;
    }
    free(row);
}

static float *logits_of(struct rig *r, const int32_t *tok, uint32_t n)
{
    float *y = calloc((size_t)n * r->w->conf.vocab, sizeof(*y));
    struct sl_seq *q = rig_seq(r);

    rig_feed(r, q, tok, n, 0, y);
    sl_seq_close(&q);
    return y;
}

bool rig_same_logits(struct rig *a, struct rig *b)
{
    static const int32_t tok[] = {3, 1, 4, 1, 5, 9, 2, 6, 5};
    uint32_t n = SL_COUNTOF(tok);
    float *x = logits_of(a, tok, n), *y = logits_of(b, tok, n);
    bool same = !memcmp(x, y, (size_t)n * a->w->conf.vocab * sizeof(*x));

    free(x);
    free(y);
    return same;
}

uint64_t rig_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
