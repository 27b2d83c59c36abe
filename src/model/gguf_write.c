/* model/gguf_write.c - weights in memory -> a GGUF file; see gguf_write.h
 *
 * Two passes over the model: the first lists the tensors with their names and
 * shapes and so fixes where each begins; the second writes their bytes, eight
 * rows at a time. Names are those of model.md 10.3. The experts of a layer are
 * one tensor per projection. Of the metadata nothing is invented: a default of
 * ours is not written as the authors' word, and what a GGUF source says besides
 * is copied.
 */
#include "model/gguf_write.h"

#include "base/mem.h"
#include "base/out.h"
#include "kern/kern.h"
#include "kern/quantise.h"
#include "model/conf_gguf.h"
#include "model/meta_gguf.h"

#define G SL_GROUP
#define QUANT_VERSION 2 /* of ggml's block formats */

/* A tensor: n_mat matrices of one shape behind each other, or a vector. */
struct ten {
    const struct sl_mat *mat;
    size_t n_mat, stride; /* bytes from one struct sl_mat to the next */
    const float *vec;
    size_t n;    /* of vec */
    bool conv;   /* vec is [head][4][width], to be written as [channel][4] */
    uint64_t at; /* in the data */
};

struct writer {
    const struct sl_weights *w;
    const struct sl_conf *c;
    struct sl_gguf_out head;
    char prefix[32];
    struct ten *ten;
    size_t n_ten, cap;
    struct sl_out file;
    uint64_t data;       /* where the data begins in the file */
    unsigned char *room; /* of eight rows of any matrix, and of a convolution */
    size_t room_bytes;
    sl_progress_fn *progress;
    void *ctx;
    int rc;
    struct sl_err *err;
};

/* --- which tensors there are --- */

static void add(struct writer *w, const char *name, enum sl_gguf_type type,
                uint32_t n_dim, const size_t *dim, struct ten t)
{
    size_t cap = w->cap ? 2 * w->cap : 256;
    char full[128];

    if (w->rc)
        return;
    if (w->n_ten == w->cap) {
        w->rc = sl_mem_resize(&w->ten, cap, sizeof(*w->ten),
                              "the list of tensors", w->err);
        if (w->rc)
            return;
        w->cap = cap;
    }
    snprintf(full, sizeof(full), "%s%s", w->prefix, name);
    t.at = sl_gguf_out_ten(&w->head, full, type, n_dim, dim);
    w->ten[w->n_ten++] = t;
}

/* n matrices, `stride` bytes apart: three dimensions, also of one; stride 0: it
 * has two. */
static void mats(struct writer *w, const char *name, const struct sl_mat *m,
                 size_t n, size_t stride)
{
    size_t dim[3] = {n, m->rows, m->cols};
    size_t row = sl_dtype_bytes(m->type, m->cols);
    enum sl_gguf_type type;

    if (w->rc)
        return;
    if (!sl_gguf_type_of(&type, m->type)) {
        w->rc = sl_fail(w->err, SL_EUNSUP,
                        "%s%s is %s, which GGUF does not have; convert with "
                        "--dtype q8 or q4",
                        w->prefix, name, sl_dtype_get(m->type)->name);
        return;
    }
    w->room_bytes = sl_max(w->room_bytes, G * row);
    add(w, name, type, stride ? 3 : 2, stride ? dim : dim + 1,
        (struct ten){.mat = m, .n_mat = n, .stride = stride});
}

static void mat(struct writer *w, const char *name, const struct sl_mat *m)
{
    mats(w, name, m, 1, 0);
}

static void vec(struct writer *w, const char *name, const float *v, size_t n)
{
    w->room_bytes = sl_max(w->room_bytes, n * sizeof(float));
    add(w, name, SL_GGUF_F32, 1, &n, (struct ten){.vec = v, .n = n});
}

static void attention(struct writer *w, const struct sl_attn_w *a)
{
    mat(w, "attn_q.weight", &a->q);
    mat(w, "attn_k.weight", &a->k);
    mat(w, "attn_v.weight", &a->v);
    mat(w, "attn_output.weight", &a->o);
    vec(w, "attn_q_norm.weight", a->q_norm, w->c->head_dim);
    vec(w, "attn_k_norm.weight", a->k_norm, w->c->head_dim);
}

static void linear(struct writer *w, const struct sl_lin_w *l)
{
    size_t n = w->c->conv_dim, dim[2] = {n, SL_CONV};

    mat(w, "attn_qkv.weight", &l->qkv);
    mat(w, "attn_gate.weight", &l->z);
    mat(w, "ssm_beta.weight", &l->b);
    mat(w, "ssm_alpha.weight", &l->a);
    mat(w, "ssm_out.weight", &l->out);
    w->room_bytes = sl_max(w->room_bytes, n * SL_CONV * sizeof(float));
    add(w, "ssm_conv1d.weight", SL_GGUF_F32, 2, dim,
        (struct ten){.vec = l->conv, .n = n * SL_CONV, .conv = true});
    vec(w, "ssm_a", l->a_neg, w->c->n_val);
    vec(w, "ssm_dt.bias", l->dt, w->c->n_val);
    vec(w, "ssm_norm.weight", l->norm, w->c->val_dim);
}

static void experts(struct writer *w, const struct sl_moe_w *m)
{
    size_t n = w->c->n_expert, step = sizeof(*m->expert);

    mat(w, "ffn_gate_inp.weight", &m->router);
    mats(w, "ffn_gate_exps.weight", &m->expert[0].gate, n, step);
    mats(w, "ffn_up_exps.weight", &m->expert[0].up, n, step);
    mats(w, "ffn_down_exps.weight", &m->expert[0].down, n, step);
    if (w->c->shared_ffn == 0)
        return;
    mat(w, "ffn_gate_shexp.weight", &m->shared.gate);
    mat(w, "ffn_up_shexp.weight", &m->shared.up);
    mat(w, "ffn_down_shexp.weight", &m->shared.down);
    mat(w, "ffn_gate_inp_shexp.weight", &m->shared_gate);
}

static void layer(struct writer *w, const struct sl_layer_w *l)
{
    vec(w, "attn_norm.weight", l->in_norm, w->c->hidden);
    if (l->kind == SL_LAYER_FULL)
        attention(w, &l->attn);
    else
        linear(w, &l->lin);
    vec(w, "post_attention_norm.weight", l->post_norm, w->c->hidden);
    if (!l->dense) {
        experts(w, &l->moe);
        return;
    }
    mat(w, "ffn_gate.weight", &l->mlp.gate);
    mat(w, "ffn_up.weight", &l->mlp.up);
    mat(w, "ffn_down.weight", &l->mlp.down);
}

static void list_tensors(struct writer *w)
{
    const struct sl_weights *m = w->w;

    mat(w, "token_embd.weight", &m->embed);
    vec(w, "output_norm.weight", m->norm, w->c->hidden);
    if (!w->c->tied)
        mat(w, "output.weight", &m->head);
    for (uint32_t i = 0; i < w->c->n_layer; i++) {
        snprintf(w->prefix, sizeof(w->prefix), "blk.%u.", i);
        layer(w, &m->layer[i]);
    }
    if (!m->has_mtp)
        return;
    snprintf(w->prefix, sizeof(w->prefix), "blk.%u.", w->c->n_layer);
    layer(w, &m->mtp.layer);
    mat(w, "nextn.eh_proj.weight", &m->mtp.fc);
    vec(w, "nextn.enorm.weight", m->mtp.norm_embed, w->c->hidden);
    vec(w, "nextn.hnorm.weight", m->mtp.norm_hidden, w->c->hidden);
    vec(w, "nextn.shared_head_norm.weight", m->mtp.norm, w->c->hidden);
}

/* --- metadata --- */

static void put_u32(struct writer *w, const char *key, uint32_t v)
{
    char name[128];

    snprintf(name, sizeof(name), "%s.%s",
             w->c->n_expert ? "qwen35moe" : "qwen35", key);
    sl_gguf_out_u32(&w->head, name, v);
}

static void put_f32(struct writer *w, const char *key, float v)
{
    char name[128];

    snprintf(name, sizeof(name), "%s.%s",
             w->c->n_expert ? "qwen35moe" : "qwen35", key);
    sl_gguf_out_f32(&w->head, name, v);
}

/* Every k-th layer is a full one; anything else has no key that all know. */
static void put_kinds(struct writer *w)
{
    const struct sl_conf *c = w->c;
    uint32_t step = 0;

    while (step < c->n_layer && c->kind[step] != SL_LAYER_FULL)
        step++;
    step++;
    for (uint32_t i = 0; !w->rc && i < c->n_layer; i++)
        if ((c->kind[i] == SL_LAYER_FULL) != ((i + 1) % step == 0) ||
            c->dense[i] != (c->n_expert == 0))
            w->rc = sl_fail(w->err, SL_EUNSUP,
                            "layer %u breaks the pattern of its kind, which "
                            "GGUF cannot say",
                            i);
    put_u32(w, "full_attention_interval", step);
}

/* The family's sections for three coordinates; a text has one position in all
 * three, so they change nothing. */
static void put_sections(struct writer *w, const struct sl_source *src)
{
    const json_t *text = json_object_get(src->config, "text_config");
    const json_t *rope =
        json_object_get(text ? text : src->config, "rope_parameters");
    const json_t *list = json_object_get(rope, "mrope_section");
    int32_t n = (int32_t)w->c->rot_dim / 2, third = n * 11 / 32;
    int32_t part[4] = {third, third, n - 2 * third, 0};
    char name[128];

    snprintf(name, sizeof(name), "%s.rope.dimension_sections",
             w->c->n_expert ? "qwen35moe" : "qwen35");
    if (src->meta && sl_gguf_find(src->meta, name))
        return; /* will be copied */
    sl_gguf_out_arr(&w->head, name, SL_GGUF_I32_, 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *v = json_array_get(list, i);

        sl_gguf_out_arr_i32(&w->head, json_is_integer(v)
                                          ? (int32_t)json_integer_value(v)
                                          : part[i]);
    }
}

static void put_shape(struct writer *w)
{
    const struct sl_conf *c = w->c;
    bool mtp = w->w->has_mtp;

    put_u32(w, "block_count", c->n_layer + mtp);
    if (mtp)
        put_u32(w, "nextn_predict_layers", 1);
    put_u32(w, "context_length", c->max_pos);
    put_u32(w, "embedding_length", c->hidden);
    put_u32(w, "feed_forward_length", c->ffn ? c->ffn : c->expert_ffn);
    put_u32(w, "attention.head_count", c->n_head);
    put_u32(w, "attention.head_count_kv", c->n_kv_head);
    put_u32(w, "attention.key_length", c->head_dim);
    put_u32(w, "attention.value_length", c->head_dim);
    put_f32(w, "attention.layer_norm_rms_epsilon", c->eps);
    put_u32(w, "rope.dimension_count", c->rot_dim);
    put_f32(w, "rope.freq_base", (float)c->theta);
    put_u32(w, "ssm.conv_kernel", SL_CONV);
    put_u32(w, "ssm.state_size", c->key_dim);
    put_u32(w, "ssm.group_count", c->n_key);
    put_u32(w, "ssm.time_step_rank", c->n_val);
    put_u32(w, "ssm.inner_size", c->n_val * c->val_dim);
    put_kinds(w);
    if (c->n_expert == 0)
        return;
    put_u32(w, "expert_count", c->n_expert);
    put_u32(w, "expert_used_count", c->n_used);
    put_u32(w, "expert_feed_forward_length", c->expert_ffn);
    put_u32(w, "expert_shared_feed_forward_length", c->shared_ffn);
}

/* Did the source not say it? */
static bool is_ours(const json_t *gen, const char *field)
{
    const json_t *v;
    size_t i;

    json_array_foreach(json_object_get(gen, SL_CONF_OURS), i, v)
    {
        if (!strcmp(json_string_value(v) ? json_string_value(v) : "", field))
            return true;
    }
    return false;
}

/* Sampling that the authors recommend, where they say so. */
static void put_sampling(struct writer *w, const json_t *gen)
{
    static const char *const keys[][2] = {
        {"temperature", "general.sampling.temp"},
        {"top_p", "general.sampling.top_p"},
        {"min_p", "general.sampling.min_p"},
        {"repetition_penalty", "general.sampling.penalty_repeat"}};
    const json_t *k = json_object_get(gen, "top_k");

    for (size_t i = 0; i < SL_COUNTOF(keys); i++) {
        const json_t *v = json_object_get(gen, keys[i][0]);

        if (json_is_number(v) && !is_ours(gen, keys[i][0]))
            sl_gguf_out_f32(&w->head, keys[i][1], (float)json_number_value(v));
    }
    if (json_is_integer(k) && json_integer_value(k) >= 0 &&
        !is_ours(gen, "top_k"))
        sl_gguf_out_u32(&w->head, "general.sampling.top_k",
                        (uint32_t)json_integer_value(k));
}

/* Tokenizer, end tokens, template. A GGUF source says itself, or not, what a
 * tokenizer leaves out and which ends there are. */
static int put_text(struct writer *w, const struct sl_source *src)
{
    bool say = src->form != SL_SOURCE_GGUF;
    struct sl_tokenizer *t = NULL;
    struct sl_err why = {0};
    int rc = sl_source_tokenizer(&t, src, &why);

    if (rc && rc != SL_ENOTFOUND)
        return sl_fail(w->err, (enum sl_code)rc, "%s", why.msg);
    rc = 0;
    if (t && sl_tokenizer_n_ids(t) > w->c->vocab)
        rc = sl_fail(w->err, SL_EFORMAT,
                     "the tokenizer has %zu ids and the embedding %u rows",
                     sl_tokenizer_n_ids(t), w->c->vocab);
    if (!rc && t)
        rc = sl_meta_put_tokenizer(&w->head, t, w->c->vocab, true, w->err);
    if (!rc && t && say)
        sl_gguf_out_bool(&w->head, "tokenizer.ggml.add_bos_token", false);
    if (!rc && say)
        sl_meta_put_ends(&w->head, t, w->c->eos, w->c->n_eos);
    if (!rc && t)
        rc = sl_source_put_chat(&w->head, src, w->err);
    sl_tokenizer_close(&t);
    return rc;
}

static void put_meta(struct writer *w, const struct sl_source *src)
{
    const char *arch = w->c->n_expert ? "qwen35moe" : "qwen35";

    if (w->c->out_gate != SL_GATE_SILU)
        w->rc = sl_fail(w->err, SL_EUNSUP,
                        "output_gate_type is sigmoid, which GGUF cannot say");
    sl_gguf_out_str(&w->head, "general.architecture", arch, strlen(arch));
    if (src->form != SL_SOURCE_GGUF)
        sl_gguf_out_str(&w->head, "general.type", "model", 5);
    sl_gguf_out_u32(&w->head, "general.quantization_version", QUANT_VERSION);
    put_shape(w);
    put_sections(w, src);
    put_sampling(w, src->generation);
    if (!w->rc)
        w->rc = put_text(w, src);
    sl_source_put_rest(&w->head, src);
}

/* --- bytes --- */

static void write_at(struct writer *w, uint64_t at, const void *p, size_t n)
{
    if (!w->rc)
        w->rc = sl_out_at(&w->file, w->data + at, p, n, w->err);
}

/* Element (r, c) of eight interleaved rows -> rows. */
static void deinterleave(unsigned char *dst, const unsigned char *src,
                         size_t cols, size_t size)
{
    for (size_t r = 0; r < G; r++)
        for (size_t c = 0; c < cols; c++)
            memcpy(dst + (r * cols + c) * size, src + (c * G + r) * size, size);
}

static void write_mat(struct writer *w, const struct sl_mat *m, uint64_t at)
{
    size_t row = sl_dtype_bytes(m->type, m->cols);

    for (size_t r = 0; r < m->rows && !w->rc; r += G) {
        const unsigned char *g = (const unsigned char *)m->w + r * row;

        if (sl_quant_is(m->type))
            for (size_t i = 0; i < G; i++)
                sl_quant_unpack(m->type, w->room + i * row, g, i, m->cols);
        else
            deinterleave(w->room, g, m->cols, row / m->cols);
        write_at(w, at + r * row, w->room, sl_min(G, m->rows - r) * row);
    }
}

/* [head][4][width] -> [channel][4]; q and k heads first. */
static void write_conv(struct writer *w, const struct ten *t)
{
    const struct sl_conf *c = w->c;
    size_t qk = 2 * (size_t)c->n_key * c->key_dim;
    float *out = (float *)(void *)w->room;

    for (size_t i = 0; i < c->conv_dim; i++) {
        size_t from = i < qk ? 0 : qk;
        size_t width = i < qk ? c->key_dim : c->val_dim;
        size_t first = from + (i - from) / width * width;

        for (size_t k = 0; k < SL_CONV; k++)
            out[i * SL_CONV + k] =
                t->vec[first * SL_CONV + k * width + (i - first)];
    }
    write_at(w, t->at, out, t->n * sizeof(float));
}

static void write_ten(struct writer *w, const struct ten *t)
{
    const unsigned char *m = (const unsigned char *)t->mat;

    if (t->conv)
        write_conv(w, t);
    else if (t->vec)
        write_at(w, t->at, t->vec, t->n * sizeof(float));
    for (size_t i = 0; i < t->n_mat && !w->rc; i++) {
        const struct sl_mat *one = (const void *)(m + i * t->stride);
        size_t bytes = one->rows * sl_dtype_bytes(one->type, one->cols);

        write_mat(w, one, t->at + i * bytes);
    }
}

static int write_file(struct writer *w, const char *path)
{
    struct sl_buf head;

    sl_buf_init(&head, (size_t)2 << 30);
    w->rc = sl_gguf_out_head(&w->head, &head, w->err);
    if (!w->rc)
        w->rc =
            sl_mem_alloc(&w->room, w->room_bytes, 1, "room for rows", w->err);
    if (!w->rc)
        w->rc = sl_out_open(&w->file, path, head.len + w->head.bytes, w->err);
    write_at(w, 0, head.p, head.len);
    w->data = head.len;
    sl_buf_deinit(&head);
    for (size_t i = 0; i < w->n_ten && !w->rc; i++) {
        write_ten(w, &w->ten[i]);
        if (w->progress)
            w->progress(w->ctx,
                        i + 1 < w->n_ten ? w->ten[i + 1].at : w->head.bytes,
                        w->head.bytes);
    }
    return sl_out_close(&w->file, w->rc, w->err);
}

int sl_gguf_write(const char *path, const struct sl_weights *weights,
                  const struct sl_source *src, sl_progress_fn *progress,
                  void *ctx, struct sl_err *err)
{
    struct writer w = {.w = weights,
                       .c = &weights->conf,
                       .progress = progress,
                       .ctx = ctx,
                       .err = err};

    sl_gguf_out_init(&w.head);
    put_meta(&w, src);
    if (!w.rc)
        list_tensors(&w);
    if (!w.rc)
        w.rc = write_file(&w, path);
    sl_gguf_out_deinit(&w.head);
    sl_mem_free(w.ten);
    sl_mem_free(w.room);
    return sl_wrap(err, w.rc, "writing '%.300s'", path);
}
