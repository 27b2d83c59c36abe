/* tests/fuzz/fuzz_weights.c - a whole checkpoint from anybody
 *
 * The input is, behind each other: two bytes n, n bytes of config.json, and a
 * safetensors file. It is written into a folder of its own and loaded. What is
 * refused must say why; what loads must be finite everywhere, because a weight
 * that is not is the file's fault and must have been named.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "kern/kern.h"
#include "model/weights.h"

/* Larger models say nothing new and take long to look through. */
#define MAX_BYTES ((size_t)1 << 22)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static struct sl_pool *pool;
static struct sl_kern kern;
static char dir[] = "/tmp/sluice-fuzz-XXXXXX";
static char config[64], tensors[64];

static void clean_up(void)
{
    (void)unlink(config);
    (void)unlink(tensors);
    (void)rmdir(dir);
}

static void set_up(void)
{
    if (pool)
        return;
    sl_kern_init(&kern, 0);
    SL_CHECK(!sl_pool_open(&pool, 1, false, NULL));
    SL_CHECK(mkdtemp(dir) != NULL);
    snprintf(config, sizeof(config), "%s/config.json", dir);
    snprintf(tensors, sizeof(tensors), "%s/model.safetensors", dir);
    atexit(clean_up);
}

static void write_file(const char *path, const uint8_t *p, size_t n)
{
    FILE *f = fopen(path, "wb");

    SL_CHECK(f != NULL);
    SL_CHECK(fwrite(p, 1, n, f) == n);
    SL_CHECK(!fclose(f));
}

static void check_mat(const struct sl_mat *m)
{
    float row[4096];

    if (m->cols > SL_COUNTOF(row))
        return;
    for (size_t r = 0; r < m->rows; r++) {
        kern.row[m->type](row, m->w, m->scale, r, m->cols);
        for (size_t c = 0; c < m->cols; c++)
            SL_CHECK(row[c] - row[c] == 0.0f);
    }
}

static void check_vec(const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        SL_CHECK(v[i] - v[i] == 0.0f);
}

static void check_mlp(const struct sl_mlp_w *m)
{
    check_mat(&m->gate);
    check_mat(&m->up);
    check_mat(&m->down);
}

static void check_layer(const struct sl_conf *c, const struct sl_layer_w *l)
{
    check_vec(l->in_norm, c->hidden);
    check_vec(l->post_norm, c->hidden);
    if (l->kind == SL_LAYER_FULL) {
        check_mat(&l->attn.q);
        check_mat(&l->attn.k);
        check_mat(&l->attn.v);
        check_mat(&l->attn.o);
    } else {
        check_mat(&l->lin.qkv);
        check_mat(&l->lin.z);
        check_mat(&l->lin.out);
        check_vec(l->lin.conv, SL_CONV * (size_t)c->conv_dim);
        check_vec(l->lin.a_neg, c->n_val);
    }
    if (l->dense) {
        check_mlp(&l->mlp);
        return;
    }
    check_mat(&l->moe.router);
    check_mlp(&l->moe.shared);
    for (uint32_t e = 0; e < c->n_expert; e++)
        check_mlp(&l->moe.expert[e]);
}

static void check_weights(const struct sl_weights *w)
{
    SL_CHECK(w->embed.rows == w->conf.vocab);
    SL_CHECK(w->head.cols == w->conf.hidden);
    check_mat(&w->embed);
    check_mat(&w->head);
    check_vec(w->norm, w->conf.hidden);
    for (uint32_t i = 0; i < w->conf.n_layer; i++)
        check_layer(&w->conf, &w->layer[i]);
    if (w->has_mtp) {
        check_mat(&w->mtp.fc);
        check_layer(&w->conf, &w->mtp.layer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sl_weights *w = NULL;
    struct sl_load_opts o = {0};
    struct sl_err err = {0};
    size_t head;
    int rc;

    set_up();
    if (n < 2)
        return 0;
    head = sl_min(n - 2, p[0] + 256u * p[1]);
    write_file(config, p + 2, head);
    write_file(tensors, p + 2 + head, n - 2 - head);
    o.pool = pool;
    rc = sl_weights_open(&w, dir, &o, &err);
    SL_CHECK(rc == 0 || rc == SL_EFORMAT || rc == SL_EUNSUP || rc == SL_ENOMEM);
    if (rc)
        SL_CHECK(*err.msg && !w);
    else if (w->bytes < MAX_BYTES)
        check_weights(w);
    sl_weights_close(&w);
    return 0;
}
