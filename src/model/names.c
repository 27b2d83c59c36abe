/* model/names.c - the tensors of a checkpoint, by name; see names.h
 *
 * Names are those of model.md section 2. What varies between checkpoints:
 *
 *   - the prefix of the text model (found by its embedding), and whether
 *     lm_head and mtp stand at the top or behind a part of that prefix
 *   - experts: one tensor for all (published), one per expert, or one for all
 *     per projection ("switch_mlp"); each layer and each projection may differ
 *   - FP8: a tensor with NAME_scale_inv beside it; decided per tensor (plan.c)
 *   - checkpoints converted for MLX, whose convolutions are [channels, 4, 1]
 *     and whose norms already hold 1 + weight
 *   - GGUF: other names (the table below), norms hold 1 + weight, ssm_a is
 *     -exp(A_log), and value heads are in the internal order already; so
 *     everything there is taken as it is
 *
 * Vision tensors are skipped. An incomplete MTP head costs the head, not the
 * model.
 */
#include "model/names.h"

#include "base/log.h"
#include "base/mem.h"
#include "model/blocks.h"

#define EMBED "embed_tokens.weight"
#define MAX_PREFIX 200

struct walk {
    struct sl_plan *p;
    const struct sl_conf *c;
    char text[MAX_PREFIX];      /* before "embed_tokens", "layers", "norm" */
    char top[MAX_PREFIX];       /* before "lm_head" and "mtp" */
    char layer[2 * MAX_PREFIX]; /* before the names of one layer */
    char name[SL_ST_MAX_NAME];
    bool shifted; /* norms already hold 1 + weight */
    bool in_mtp;
    bool gguf;
};

/* Suffixes of the published names, and what GGUF calls them. */
static const struct {
    const char *suffix, *gguf;
} gguf_names[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight"},
    {"linear_attn.in_proj_z.weight", "attn_gate.weight"},
    {"linear_attn.in_proj_b.weight", "ssm_beta.weight"},
    {"linear_attn.in_proj_a.weight", "ssm_alpha.weight"},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
    {"linear_attn.A_log", "ssm_a"},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.norm.weight", "ssm_norm.weight"},
    {"linear_attn.out_proj.weight", "ssm_out.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"mlp.switch_mlp.gate_proj.weight", "ffn_gate_exps.weight"},
    {"mlp.switch_mlp.up_proj.weight", "ffn_up_exps.weight"},
    {"mlp.switch_mlp.down_proj.weight", "ffn_down_exps.weight"},
    {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
    {"fc.weight", "nextn.eh_proj.weight"},
    {"pre_fc_norm_embedding.weight", "nextn.enorm.weight"},
    {"pre_fc_norm_hidden.weight", "nextn.hnorm.weight"},
    {EMBED, "token_embd.weight"},
    {"lm_head.weight", "output.weight"},
};

static const char *gguf_name(const struct walk *w, const char *suffix)
{
    if (!strcmp(suffix, "norm.weight"))
        return w->in_mtp ? "nextn.shared_head_norm.weight"
                         : "output_norm.weight";
    for (size_t i = 0; i < SL_COUNTOF(gguf_names); i++)
        if (!strcmp(suffix, gguf_names[i].suffix))
            return gguf_names[i].gguf;
    return suffix; /* of a layout that GGUF does not have */
}

static const char *name_of(struct walk *w, const char *prefix,
                           const char *suffix)
{
    snprintf(w->name, sizeof(w->name), "%s%s", prefix,
             w->gguf ? gguf_name(w, suffix) : suffix);
    return w->name;
}

static enum sl_weight_class class_of(const struct walk *w,
                                     enum sl_weight_class class)
{
    return w->in_mtp ? SL_W_MTP : class;
}

/* A whole two-dimensional tensor of this layer. */
static struct sl_src whole(struct walk *w, const char *suffix, size_t rows,
                           size_t cols)
{
    return (struct sl_src){
        .name = name_of(w, w->layer, suffix), .n_dim = 2, .dim = {rows, cols}};
}

static void mat(struct walk *w, struct sl_mat *out, enum sl_weight_class class,
                const char *suffix, size_t rows, size_t cols)
{
    struct sl_src s = whole(w, suffix, rows, cols);

    sl_plan_mat(w->p, out, class_of(w, class), &s, rows, cols);
}

/* A zero-centred norm. */
static void norm(struct walk *w, const float **out, const char *prefix,
                 const char *suffix, size_t n)
{
    struct sl_src s = {.name = name_of(w, prefix, suffix),
                       .n_dim = 1,
                       .dim = {n},
                       .rule = w->shifted ? SL_PACK_PLAIN : SL_PACK_ONE_PLUS,
                       .dummy_lo = -0.05f,
                       .dummy_hi = 0.05f};

    sl_plan_vec(w->p, out, class_of(w, SL_W_SMALL), &s, n);
}

static void walk_attn(struct walk *w, struct sl_attn_w *a)
{
    const struct sl_conf *c = w->c;
    size_t q = (size_t)c->n_head * c->head_dim;
    size_t kv = (size_t)c->n_kv_head * c->head_dim;

    mat(w, &a->q, SL_W_ATTN, "self_attn.q_proj.weight", 2 * q, c->hidden);
    mat(w, &a->k, SL_W_ATTN, "self_attn.k_proj.weight", kv, c->hidden);
    mat(w, &a->v, SL_W_ATTN, "self_attn.v_proj.weight", kv, c->hidden);
    mat(w, &a->o, SL_W_ATTN, "self_attn.o_proj.weight", c->hidden, q);
    norm(w, &a->q_norm, w->layer, "self_attn.q_norm.weight", c->head_dim);
    norm(w, &a->k_norm, w->layer, "self_attn.k_norm.weight", c->head_dim);
}

/* Value heads move to the internal order, in units of `unit` after `start`. */
static struct sl_perm heads(const struct walk *w, size_t start, size_t unit)
{
    const struct sl_conf *c = w->c;

    return (struct sl_perm){.start = start,
                            .unit = unit,
                            .n_key = c->n_key,
                            .r = w->gguf ? 1 : c->n_val / c->n_key};
}

static void rows_by_head(struct walk *w, struct sl_mat *out,
                         enum sl_weight_class class, const char *suffix,
                         size_t rows, struct sl_perm perm)
{
    struct sl_src s = whole(w, suffix, rows, w->c->hidden);

    s.row_perm = perm;
    sl_plan_mat(w->p, out, class_of(w, class), &s, rows, w->c->hidden);
}

/* One value per value head, A_log and dt_bias. Dummies have the ranges of the
 * reference's initial values: A is 1 to 16, a step of the recurrence 0.001 to
 * 0.1 after the softplus. */
static void per_head(struct walk *w, struct sl_lin_w *l)
{
    struct sl_src s = {.name = name_of(w, w->layer, "linear_attn.A_log"),
                       .n_dim = 1,
                       .dim = {w->c->n_val},
                       .row_perm = heads(w, 0, 1),
                       .rule = w->gguf ? SL_PACK_PLAIN : SL_PACK_NEG_EXP,
                       .dummy_lo = 0,
                       .dummy_hi = 2.77f};

    sl_plan_vec(w->p, &l->a_neg, SL_W_SMALL, &s, w->c->n_val);
    s.name = name_of(w, w->layer, "linear_attn.dt_bias");
    s.rule = SL_PACK_PLAIN;
    s.dummy_lo = -6.9f;
    s.dummy_hi = -2.25f;
    sl_plan_vec(w->p, &l->dt, SL_W_SMALL, &s, w->c->n_val);
}

/* The short convolution, its channels in the order of in_proj_qkv; and the
 * norm of the output, which is not zero-centred. */
static void conv_and_norm(struct walk *w, struct sl_lin_w *l)
{
    const struct sl_conf *c = w->c;
    size_t qk = 2 * (size_t)c->n_key * c->key_dim;
    struct sl_src s = {.name =
                           name_of(w, w->layer, "linear_attn.conv1d.weight"),
                       .n_dim = 3,
                       .dim = {c->conv_dim, 1, SL_CONV},
                       .n_alt = w->gguf ? 2 : 3,
                       .alt = {c->conv_dim, SL_CONV, 1},
                       .row_perm = heads(w, qk, c->val_dim),
                       .rule = SL_PACK_CONV,
                       .dummy_lo = -0.5f,
                       .dummy_hi = 0.5f};

    sl_plan_vec(w->p, &l->conv, SL_W_SMALL, &s, c->conv_dim);
    s = (struct sl_src){.name = name_of(w, w->layer, "linear_attn.norm.weight"),
                        .n_dim = 1,
                        .dim = {c->val_dim},
                        .dummy_lo = 0.95f,
                        .dummy_hi = 1.05f};
    sl_plan_vec(w->p, &l->norm, SL_W_SMALL, &s, c->val_dim);
}

static void walk_linear(struct walk *w, struct sl_lin_w *l)
{
    const struct sl_conf *c = w->c;
    size_t v = (size_t)c->n_val * c->val_dim, qk = c->conv_dim - v;
    struct sl_src s;

    rows_by_head(w, &l->qkv, SL_W_LINEAR, "linear_attn.in_proj_qkv.weight",
                 c->conv_dim, heads(w, qk, c->val_dim));
    rows_by_head(w, &l->z, SL_W_LINEAR, "linear_attn.in_proj_z.weight", v,
                 heads(w, 0, c->val_dim));
    rows_by_head(w, &l->b, SL_W_SMALL, "linear_attn.in_proj_b.weight", c->n_val,
                 heads(w, 0, 1));
    rows_by_head(w, &l->a, SL_W_SMALL, "linear_attn.in_proj_a.weight", c->n_val,
                 heads(w, 0, 1));
    s = whole(w, "linear_attn.out_proj.weight", c->hidden, v);
    s.col_perm = heads(w, 0, c->val_dim);
    sl_plan_mat(w->p, &l->out, SL_W_LINEAR, &s, c->hidden, v);
    conv_and_norm(w, l);
    per_head(w, l);
}

static void walk_mlp(struct walk *w, struct sl_mlp_w *m,
                     enum sl_weight_class class, const char *part, size_t ffn)
{
    char suffix[80];

    snprintf(suffix, sizeof(suffix), "%s.gate_proj.weight", part);
    mat(w, &m->gate, class, suffix, ffn, w->c->hidden);
    snprintf(suffix, sizeof(suffix), "%s.up_proj.weight", part);
    mat(w, &m->up, class, suffix, ffn, w->c->hidden);
    snprintf(suffix, sizeof(suffix), "%s.down_proj.weight", part);
    mat(w, &m->down, class, suffix, w->c->hidden, ffn);
}

/* How a projection of all experts is stored in this layer. */
enum expert_layout {
    ONE_FUSED, /* experts.NAME [experts, rows, cols] */
    ONE_STACK, /* switch_mlp.NAME.weight, the same */
    PER_EXPERT /* experts.N.NAME.weight [rows, cols] */
};

static enum expert_layout layout_of(struct walk *w, const char *fused,
                                    const char *stack)
{
    if (sl_plan_has(w->p, name_of(w, w->layer, fused)))
        return ONE_FUSED;
    if (sl_plan_has(w->p, name_of(w, w->layer, stack)))
        return ONE_STACK;
    if (sl_plan_has(w->p,
                    name_of(w, w->layer, "mlp.experts.0.down_proj.weight")))
        return PER_EXPERT;
    return w->gguf ? ONE_STACK : ONE_FUSED; /* what a message should ask for */
}

/* One projection of all experts. In a fused tensor its rows begin at row0 of
 * the slice_rows rows of each expert. */
struct proj {
    enum expert_layout layout;
    const char *fused, *name;
    size_t row0, slice_rows, rows, cols;
};

static void expert_mat(struct walk *w, struct sl_mat *out, const struct proj *p,
                       size_t e)
{
    char suffix[80];
    struct sl_src s;

    if (p->layout == PER_EXPERT)
        snprintf(suffix, sizeof(suffix), "mlp.experts.%zu.%s.weight", e,
                 p->name);
    else if (p->layout == ONE_STACK)
        snprintf(suffix, sizeof(suffix), "mlp.switch_mlp.%s.weight", p->name);
    else
        snprintf(suffix, sizeof(suffix), "mlp.experts.%s", p->fused);
    s = whole(w, suffix, p->rows, p->cols);
    if (p->layout != PER_EXPERT) {
        s.n_dim = 3;
        s.dim[0] = w->c->n_expert;
        s.dim[1] = p->layout == ONE_FUSED ? p->slice_rows : p->rows;
        s.dim[2] = p->cols;
        s.slice = e;
        s.row0 = p->layout == ONE_FUSED ? p->row0 : 0;
    }
    sl_plan_mat(w->p, out, class_of(w, SL_W_EXPERT), &s, p->rows, p->cols);
}

/* A layer without any layout misses two tensors, not 3 x n_expert. */
static bool has_experts(struct walk *w, enum expert_layout gate_up,
                        enum expert_layout down)
{
    bool ok = true;

    if (!w->p->ckpt)
        return true;
    if (gate_up == ONE_FUSED &&
        !sl_plan_has(w->p, name_of(w, w->layer, "mlp.experts.gate_up_proj"))) {
        sl_plan_missing(w->p, w->name);
        ok = false;
    }
    if (down == ONE_FUSED &&
        !sl_plan_has(w->p, name_of(w, w->layer, "mlp.experts.down_proj"))) {
        sl_plan_missing(w->p, w->name);
        ok = false;
    }
    return ok;
}

static void walk_experts(struct walk *w, struct sl_mlp_w *expert)
{
    const struct sl_conf *c = w->c;
    size_t f = c->expert_ffn, h = c->hidden;
    enum expert_layout gu = layout_of(w, "mlp.experts.gate_up_proj",
                                      "mlp.switch_mlp.gate_proj.weight");
    enum expert_layout d = layout_of(w, "mlp.experts.down_proj",
                                     "mlp.switch_mlp.down_proj.weight");
    struct proj gate = {gu, "gate_up_proj", "gate_proj", 0, 2 * f, f, h};
    struct proj up = {gu, "gate_up_proj", "up_proj", f, 2 * f, f, h};
    struct proj down = {d, "down_proj", "down_proj", 0, h, h, f};

    if (!has_experts(w, gu, d))
        return;
    for (size_t e = 0; e < c->n_expert && !w->p->rc; e++) {
        expert_mat(w, &expert[e].gate, &gate, e);
        expert_mat(w, &expert[e].up, &up, e);
        expert_mat(w, &expert[e].down, &down, e);
    }
}

static void walk_moe(struct walk *w, struct sl_moe_w *m)
{
    const struct sl_conf *c = w->c;
    struct sl_src s;

    mat(w, &m->router, SL_W_SMALL, "mlp.gate.weight", c->n_expert, c->hidden);
    walk_experts(w, m->expert);
    if (c->shared_ffn == 0)
        return;
    walk_mlp(w, &m->shared, SL_W_FFN, "mlp.shared_expert", c->shared_ffn);
    s = whole(w, "mlp.shared_expert_gate.weight", 1, c->hidden);
    s.n_alt = 1;
    s.alt[0] = c->hidden;
    sl_plan_mat(w->p, &m->shared_gate, class_of(w, SL_W_SMALL), &s, 1,
                c->hidden);
}

static void walk_layer(struct walk *w, struct sl_layer_w *l)
{
    const struct sl_conf *c = w->c;

    norm(w, &l->in_norm, w->layer, "input_layernorm.weight", c->hidden);
    if (l->kind == SL_LAYER_FULL)
        walk_attn(w, &l->attn);
    else
        walk_linear(w, &l->lin);
    norm(w, &l->post_norm, w->layer, "post_attention_layernorm.weight",
         c->hidden);
    if (l->dense)
        walk_mlp(w, &l->mlp, SL_W_FFN, "mlp", c->ffn);
    else
        walk_moe(w, &l->moe);
}

/* --- what stands where --- */

static bool starts_with(const char *s, const char *with)
{
    return !strncmp(s, with, strlen(with));
}

static bool ends_with(const char *s, const char *with)
{
    size_t n = strlen(s), k = strlen(with);

    return n >= k && !strcmp(s + n - k, with);
}

static bool is_vision(const char *name)
{
    return starts_with(name, "visual.") || strstr(name, ".visual.");
}

static bool is_mtp(const struct walk *w, const char *name)
{
    if (w->gguf)
        return sl_block_of(name) >= (int64_t)w->c->n_layer;
    return starts_with(name, "mtp.") ||
           (starts_with(name, w->top) &&
            starts_with(name + strlen(w->top), "mtp."));
}

/* Buffers that some exports write out and nobody needs. */
static bool is_buffer(const char *name)
{
    return ends_with(name, "rotary_emb.inv_freq") ||
           !strcmp(name, "rope_freqs.weight");
}

/* The prefix: what precedes the only embedding that is not of the MTP head. */
static int find_prefix(struct walk *w, struct sl_err *err)
{
    const struct sl_ckpt *ck = w->p->ckpt;
    size_t n = 0;

    if (w->gguf)
        return 0; /* without a prefix */
    for (size_t i = 0; ck && i < sl_ckpt_n_tensor(ck); i++) {
        const char *s = sl_ckpt_get(ck, i)->name;
        size_t len = strlen(s) - strlen(EMBED);

        if (!ends_with(s, EMBED) || strstr(s, "mtp.") || is_vision(s) ||
            (len > 0 && s[len - 1] != '.'))
            continue;
        if (++n > 1)
            return sl_fail(err, SL_EFORMAT,
                           "both '%.100s" EMBED "' and '%.200s' could be the "
                           "embedding; this is not one model",
                           w->text, s);
        if (len >= sizeof(w->text))
            return sl_fail(err, SL_EFORMAT,
                           "the prefix of '%.100s...' has %zu bytes; the "
                           "limit is %d",
                           s, len, MAX_PREFIX - 1);
        memcpy(w->text, s, len);
        w->text[len] = 0;
    }
    if (ck && n == 0)
        return sl_fail(err, SL_EFORMAT,
                       "no tensor is named ..." EMBED
                       "; these are not the weights of a text model");
    return 0;
}

/* "language_model.model." -> "language_model.", when lm_head or mtp are there;
 * they usually stand at the very top. */
static void find_top(struct walk *w)
{
    const char *m = ends_with(w->text, "model.")
                        ? w->text + strlen(w->text) - strlen("model.")
                        : w->text;
    size_t len = (size_t)(m - w->text);
    char top[MAX_PREFIX];

    memcpy(top, w->text, len);
    top[len] = 0;
    if (!sl_plan_has(w->p, "lm_head.weight") &&
        !sl_plan_has(w->p, "mtp.fc.weight") &&
        (sl_plan_has(w->p, name_of(w, top, "lm_head.weight")) ||
         sl_plan_has(w->p, name_of(w, top, "mtp.fc.weight"))))
        memcpy(w->top, top, len + 1);
}

/* Mean of all input norms: near 0 when zero-centred, near 1 when shifted. */
static double norm_mean(const struct walk *w)
{
    const struct sl_ckpt *ck = w->p->ckpt;
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < sl_ckpt_n_tensor(ck); i++) {
        const struct sl_ten *t = sl_ckpt_get(ck, i);

        if (!ends_with(t->name, ".input_layernorm.weight") || t->n_dim != 1 ||
            (t->type != SL_F32 && t->type != SL_BF16 && t->type != SL_F16))
            continue;
        for (size_t k = 0; k < t->dim[0]; k++)
            sum += (double)sl_pack_f32(sl_ckpt_data(ck, i), t->type, k);
        n += t->dim[0];
    }
    return n ? sum / (double)n : 0;
}

/* Converted for MLX? (model.md 2.8: convolutions [channels, 4, 1] and no MTP.)
 * The norms themselves have to agree. */
static int find_shift(struct walk *w, struct sl_err *err)
{
    const struct sl_ckpt *ck = w->p->ckpt;
    bool mlx = false, mtp = false;
    double mean;

    if (w->gguf) {
        w->shifted = true;
        return 0;
    }
    for (size_t i = 0; ck && i < sl_ckpt_n_tensor(ck); i++) {
        const struct sl_ten *t = sl_ckpt_get(ck, i);

        mtp |= is_mtp(w, t->name);
        mlx |= ends_with(t->name, "conv1d.weight") && t->n_dim == 3 &&
               t->dim[1] == SL_CONV && t->dim[2] == 1;
    }
    if (!mlx)
        return 0;
    w->shifted = !mtp;
    mean = norm_mean(w);
    if (w->shifted != (mean > 0.5))
        return sl_fail(err, SL_EUNSUP,
                       "its convolutions are stored as MLX does, %s MTP "
                       "tensors, but its input norms average %.3g, so whether "
                       "they hold weight or 1 + weight is not clear; use the "
                       "original checkpoint",
                       mtp ? "with" : "without", mean);
    return 0;
}

/* --- the parts of the model --- */

static void walk_model(struct walk *w)
{
    struct sl_weights *out = w->p->w;
    const struct sl_conf *c = w->c;
    struct sl_src s = {.n_dim = 2, .dim = {c->vocab, c->hidden}};
    size_t i;

    s.name = name_of(w, w->text, EMBED);
    sl_plan_mat(w->p, &out->embed, SL_W_EMBED, &s, c->vocab, c->hidden);
    for (uint32_t k = 0; k < c->n_layer && !w->p->rc; k++) {
        if (w->gguf)
            snprintf(w->layer, sizeof(w->layer), "blk.%u.", k);
        else
            snprintf(w->layer, sizeof(w->layer), "%slayers.%u.", w->text, k);
        walk_layer(w, &out->layer[k]);
    }
    norm(w, &out->norm, w->text, "norm.weight", c->hidden);
    s.name = name_of(w, w->top, "lm_head.weight");
    if (!c->tied) {
        sl_plan_mat(w->p, &out->head, SL_W_HEAD, &s, c->vocab, c->hidden);
    } else if (w->p->ckpt && sl_ckpt_find(w->p->ckpt, s.name, &i)) {
        sl_log(SL_LOG_INFO,
               "event=head_ignored why=\"tie_word_embeddings is true, so the "
               "embedding is the head\"");
        w->p->seen[i] = SL_SEEN_USED;
    }
}

/* GGUF may leave it out: then it is that of the model. */
static void mtp_norm(struct walk *w, const float **out)
{
    w->in_mtp =
        !w->gguf || sl_plan_has(w->p, name_of(w, w->layer, "norm.weight"));
    norm(w, out, w->in_mtp ? w->layer : "", "norm.weight", w->c->hidden);
    w->in_mtp = true;
}

static void walk_mtp_head(struct walk *w, struct sl_mtp_w *m)
{
    const struct sl_conf *c = w->c;

    if (w->gguf)
        snprintf(w->layer, sizeof(w->layer), "blk.%u.", c->n_layer);
    else
        snprintf(w->layer, sizeof(w->layer), "%smtp.", w->top);
    mat(w, &m->fc, SL_W_MTP, "fc.weight", c->hidden, 2 * (size_t)c->hidden);
    norm(w, &m->norm_embed, w->layer, "pre_fc_norm_embedding.weight",
         c->hidden);
    norm(w, &m->norm_hidden, w->layer, "pre_fc_norm_hidden.weight", c->hidden);
    mtp_norm(w, &m->norm);
    if (!w->gguf)
        snprintf(w->layer, sizeof(w->layer), "%smtp.layers.0.", w->top);
    walk_layer(w, &m->layer);
}

static bool any_mtp(const struct walk *w)
{
    const struct sl_ckpt *ck = w->p->ckpt;

    for (size_t i = 0; ck && i < sl_ckpt_n_tensor(ck); i++)
        if (is_mtp(w, sl_ckpt_get(ck, i)->name))
            return true;
    return !ck;
}

/* The MTP head is taken as a whole or not at all. */
static void walk_mtp(struct walk *w)
{
    struct sl_plan *p = w->p;
    struct sl_plan before = *p;

    if (w->c->n_mtp == 0 || !any_mtp(w) ||
        (p->packed && !(p->packed->flags & SL_PACKED_MTP)))
        return;
    w->in_mtp = true;
    walk_mtp_head(w, &p->w->mtp);
    w->in_mtp = false;
    if (p->missing.n == before.missing.n && p->wrong.n == before.wrong.n &&
        p->unsup.n == before.unsup.n) {
        p->w->has_mtp = true;
        return;
    }
    if (!sl_plan_is_bad(&before)) /* else the model is refused */
        sl_log(SL_LOG_WARN,
               "event=mtp_off missing=%zu misshapen=%zu unsupported=%zu "
               "why=\"the MTP tensors are incomplete\" cost=\"no drafts from "
               "the model itself\"",
               p->missing.n - before.missing.n, p->wrong.n - before.wrong.n,
               p->unsup.n - before.unsup.n);
    p->n_item = before.n_item;
    p->bytes = before.bytes;
    memcpy(p->class_bytes, before.class_bytes, sizeof(p->class_bytes));
    p->missing = before.missing;
    p->wrong = before.wrong;
    p->unsup = before.unsup;
    p->want = before.want;
}

static void find_extra(struct walk *w)
{
    const struct sl_ckpt *ck = w->p->ckpt;

    for (size_t i = 0; ck && i < sl_ckpt_n_tensor(ck); i++) {
        const char *name = sl_ckpt_get(ck, i)->name;

        if (w->p->seen[i] == SL_SEEN_NOT && !is_vision(name) &&
            !is_mtp(w, name) && !is_buffer(name))
            sl_plan_extra(w->p, name);
    }
}

int sl_names_walk(struct sl_plan *p, struct sl_err *err)
{
    struct walk w = {
        .p = p, .c = &p->w->conf, .gguf = p->ckpt && sl_ckpt_gguf(p->ckpt)};
    int rc = sl_plan_init(p, err);

    if (!rc)
        rc = find_prefix(&w, err);
    if (rc)
        return rc;
    find_top(&w);
    rc = find_shift(&w, err);
    if (rc)
        return rc;
    walk_model(&w);
    walk_mtp(&w);
    find_extra(&w);
    return sl_plan_check(p, err);
}
