/* engine/forced.c - a model that reads a text as it stands; see forced.h */
#include "engine/forced.h"

int sl_forced_open(struct sl_forced *r, const char *path,
                   const struct sl_forced_opts *o, struct sl_err *err)
{
    struct sl_load_opts lo = {.pool = o->pool, .plan = o->plan};
    struct sl_kv_plane plane[SL_MODEL_PLANES];
    struct sl_memory_opts m = {.planes = plane,
                               .kv_type = o->kv,
                               .n_page = SL_FORCED_WINDOW / SL_KV_PAGE + 1,
                               .max_tok = SL_FORCED_WINDOW,
                               .n_seq = 1,
                               .n_draft = 1,
                               .n_slot = 2};
    struct sl_model_opts mo = {.max_row = SL_FORCED_ROWS,
                               .max_seq = 1,
                               .max_logit = SL_FORCED_ROWS,
                               .watch = o->watch,
                               .watch_ctx = o->watch_ctx};
    int rc = sl_weights_open(&r->w, path, &lo, err);

    if (rc)
        return rc;
    m.n_plane = sl_model_planes(&r->w->conf, false, plane);
    sl_model_rec_shape(&r->w->conf, 0, &m.rec);
    rc = sl_memory_open(&r->mem, &m, err);
    if (!rc)
        rc = sl_model_open(&r->model, r->w, o->pool, o->kern, &mo, err);
    return rc;
}

void sl_forced_close(struct sl_forced *r)
{
    sl_seq_close(&r->seq);
    sl_model_close(&r->model);
    sl_memory_close(&r->mem);
    sl_weights_close(&r->w);
}

int sl_forced_restart(struct sl_forced *r, struct sl_err *err)
{
    sl_seq_close(&r->seq);
    return sl_seq_open(&r->seq, r->mem, err);
}

int sl_forced_step(struct sl_forced *r, const int32_t *tok, uint32_t n,
                   const float **logits, struct sl_err *err)
{
    uint32_t row[SL_FORCED_ROWS];
    struct sl_step step = {.seq = &r->seq,
                           .n_seq = 1,
                           .tok = tok,
                           .n_row = n,
                           .logit_row = row,
                           .n_logit = n};
    int rc = sl_seq_begin(r->seq, n, 0, err);

    for (uint32_t i = 0; i < n; i++)
        row[i] = i;
    if (rc)
        return rc;
    sl_forward(r->model, &step);
    sl_seq_end(r->seq, 0);
    *logits = step.logits;
    return 0;
}

int sl_forced_text(struct sl_ids *ids, uint32_t *n_vocab, const char *model,
                   const char *text, size_t n_text, uint32_t max,
                   struct sl_err *err)
{
    struct sl_source *src = NULL;
    struct sl_tokenizer *t = NULL;
    struct sl_encoder *enc = NULL;
    int rc = sl_source_open(&src, model, err);

    sl_ids_init(ids, SL_TOKENIZE_MAX_TEXT);
    if (!rc)
        rc = sl_source_tokenizer(&t, src, err);
    if (!rc)
        rc = sl_encoder_open(&enc, t, err);
    if (!rc)
        rc = sl_tokenize_encode(enc, text, n_text, false, ids, err);
    if (!rc)
        *n_vocab = (uint32_t)sl_min(sl_tokenizer_n_ids(t), src->conf.vocab);
    if (max)
        ids->len = sl_min(ids->len, max);
    if (!rc && ids->len < 2)
        rc = sl_fail(err, SL_EARG,
                     "the text has %zu tokens; give some hundred at least",
                     ids->len);
    sl_encoder_close(&enc);
    sl_tokenizer_close(&t);
    sl_source_close(&src);
    return rc;
}
