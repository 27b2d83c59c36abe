/* tests/fuzz/fuzz_gguf_model.c - a GGUF file from anybody, used as a model
 *
 * The input is a whole file. Its metadata becomes a configuration, a tokenizer
 * and a template; its tensors become weights; an engine with tiny limits is
 * asked for two tokens. What is refused must say why, in one plain line that
 * does not speak of files which are not there; what opens must answer. The
 * corpus is one tiny model, written by `sluice convert` and changed in one place
 * each.
 */
#include <unistd.h>

#include "base/mem.h"
#include "model/source.h"
#include "sluice/sluice.h"

/* Larger models say nothing new and take long. */
#define MAX_INPUT ((size_t)1 << 18)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static char path[] = "/tmp/sluice-fuzz-XXXXXX";

static void clean_up(void)
{
    (void)unlink(path);
}

static void write_input(const uint8_t *p, size_t n)
{
    static bool made;
    FILE *f;

    if (!made) {
        int fd = mkstemp(path);

        SL_CHECK(fd >= 0);
        close(fd);
        atexit(clean_up);
        made = true;
    }
    f = fopen(path, "wb");
    SL_CHECK(f != NULL);
    SL_CHECK(fwrite(p, 1, n, f) == n);
    SL_CHECK(!fclose(f));
}

/* A message that a person may read. */
static void check_refusal(int rc, const struct sl_err *err)
{
    SL_CHECK(rc == SL_EFORMAT || rc == SL_EUNSUP || rc == SL_ENOTFOUND ||
             rc == SL_EARG || rc == SL_ENOMEM);
    SL_CHECK(*err->msg);
    for (const char *s = err->msg; *s; s++)
        SL_CHECK((unsigned char)*s >= 0x20 && *s != 0x7f);
    SL_CHECK(!strstr(err->msg, "config.json"));
}

/* The parts, each by itself: an engine stops at the first that is refused. */
static bool check_source(void)
{
    struct sl_source *s = NULL;
    struct sl_tokenizer *t = NULL;
    struct sl_chat *chat = NULL;
    struct sl_err err = {0};
    int rc = sl_source_open(&s, path, &err);

    if (rc) {
        SL_CHECK(!s);
        check_refusal(rc, &err);
        return false;
    }
    rc = sl_source_tokenizer(&t, s, &err);
    SL_CHECK(!t == (rc != 0));
    if (rc)
        check_refusal(rc, &err);
    rc = sl_source_chat(&chat, s, NULL, 0, &err);
    SL_CHECK(!chat == (rc != 0));
    if (rc)
        check_refusal(rc, &err);
    sl_chat_close(&chat);
    sl_tokenizer_close(&t);
    sl_source_close(&s);
    return true;
}

static void answer(struct sl_engine *e)
{
    static const int32_t tok[] = {0, 0};
    struct sl_gen_opts o;
    struct sl_gen *g = NULL;
    struct sl_piece piece;
    struct sl_err err = {0};

    sl_gen_opts_init(&o, e);
    o.ids = tok;
    o.n_ids = SL_COUNTOF(tok);
    o.max_tokens = 2;
    o.temperature = 0;
    if (sl_gen_submit(&g, e, &o, &err)) {
        SL_CHECK(*err.msg);
        return;
    }
    while (sl_gen_next(g, &piece, &err) > 0)
        SL_CHECK(piece.n_output <= 2);
    sl_gen_close(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sl_engine_opts o;
    struct sl_engine *e = NULL;
    struct sl_err err = {0};
    int rc;

    if (n > MAX_INPUT)
        return 0;
    write_input(p, n);
    if (!check_source())
        return 0;
    sl_engine_opts_init(&o);
    o.n_thread = 1;
    o.pin = false;
    o.max_model_len = 64;
    o.max_num_seqs = 1;
    o.max_num_batched_tokens = 8;
    o.kv_pool_tokens = 64;
    o.prefix_cache = false;
    rc = sl_engine_open(&e, path, &o, &err);
    SL_CHECK(!e == (rc != 0));
    if (rc)
        check_refusal(rc, &err);
    else
        answer(e);
    sl_engine_close(&e);
    return 0;
}
