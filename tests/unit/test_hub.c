/* bundle/client, hub, store, pull: what decides, without a network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sink.h"
#include "base/tree.h"
#include "bundle/choose.h"
#include "bundle/client.h"
#include "bundle/fetch.h"
#include "bundle/hub.h"
#include "bundle/instance.h"
#include "bundle/pull.h"
#include "bundle/store.h"
#include "bundle/sweep.h"

#define HUB "https://huggingface.co"
#define LOCAL "http://127.0.0.1:8080"

static void redirections(void **s)
{
    static const struct {
        const char *hub, *from, *location, *to; /* to NULL: refused */
    } all[] = {
        {HUB, HUB "/a/b", "/c", HUB "/c"},
        {HUB, HUB "/a/b", "https://cdn.example.org/x?s=1",
         "https://cdn.example.org/x?s=1"},
        {HUB, HUB "/a/b", "//cdn.example.org/x", "https://cdn.example.org/x"},
        {HUB, HUB "/a", "http://huggingface.co/a", NULL},
        {HUB, HUB "/a", "http://cdn.example.org/x", NULL},
        {HUB, HUB "/a", "file:///etc/passwd", NULL},
        {HUB, HUB "/a", "ftp://x/y", NULL},
        {HUB, HUB "/a", "https://u:p@cdn.example.org/", NULL},
        {HUB, HUB "/a", "https://127.0.0.1/x", NULL},
        {HUB, HUB "/a", "https://localhost/x", NULL},
        {HUB, HUB "/a", "https://[::1]/x", NULL},
        {HUB, HUB "/a", "https://10.0.0.1/x", NULL},
        {HUB, HUB "/a", "https://169.254.169.254/latest", NULL},
        {HUB, HUB "/a", "https://0x7f.1/x", NULL},
        {HUB, HUB "/a", "", NULL},
        {LOCAL, LOCAL "/a", "http://127.0.0.1:9/x", "http://127.0.0.1:9/x"},
        {LOCAL, LOCAL "/a", "http://localhost:9/x", "http://localhost:9/x"},
        {LOCAL, LOCAL "/a", "http://example.org/x", NULL},
        {LOCAL, LOCAL "/a", "https://example.org/x", "https://example.org/x"},
        {"http://hub.lan", "http://hub.lan/a", "http://hub.lan/b",
         "http://hub.lan/b"},
        {"http://hub.lan", "http://hub.lan/a", "http://other.lan/b", NULL},
    };
    static char out[SL_CLIENT_URL];

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(all); i++) {
        struct sl_err err = {.code = SL_OK};
        int rc = sl_address_follow(out, all[i].from, all[i].location, all[i].hub,
                                  &err);

        /* An empty one leads to where it came from, which is no harm. */
        if (!*all[i].location)
            continue;
        if (all[i].to ? rc || strcmp(out, all[i].to) : rc != SL_EFORMAT)
            fail_msg("%s from %s: %d %s %s", all[i].location, all[i].hub, rc,
                     rc ? err.msg : out, all[i].to ? all[i].to : "");
    }
}

static void private_addresses(void **s)
{
    static const unsigned char yes[][4] = {
        {127, 0, 0, 1},   {10, 1, 2, 3},    {172, 16, 0, 1}, {172, 31, 9, 9},
        {192, 168, 1, 1}, {169, 254, 1, 1}, {0, 0, 0, 0},    {100, 64, 0, 1}};
    static const unsigned char no[][4] = {
        {8, 8, 8, 8}, {172, 32, 0, 1}, {192, 169, 0, 1}, {100, 128, 0, 1}};
    unsigned char six[16] = {0};

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(yes); i++)
        assert_true(sl_address_is_private(yes[i], 4));
    for (size_t i = 0; i < SL_COUNTOF(no); i++)
        assert_false(sl_address_is_private(no[i], 4));
    six[15] = 1;
    assert_true(sl_address_is_private(six, 16)); /* ::1 */
    six[10] = six[11] = 0xff;
    memcpy(six + 12, yes[1], 4);
    assert_true(sl_address_is_private(six, 16)); /* ::ffff:10.1.2.3 */
    memcpy(six + 12, no[0], 4);
    assert_false(sl_address_is_private(six, 16));
    memset(six, 0, sizeof(six));
    six[0] = 0xfe;
    six[1] = 0x80;
    assert_true(sl_address_is_private(six, 16));
    six[0] = 0x20;
    assert_false(sl_address_is_private(six, 16));
}

static void waits(void **s)
{
    (void)s;
    assert_int_equal(sl_client_retry_after("7", 0), 7);
    assert_int_equal(sl_client_retry_after("99999", 0), 600);
    assert_int_equal(sl_client_retry_after("-1", 0), -1);
    assert_int_equal(sl_client_retry_after("soon", 0), -1);
    /* 784111777 is RFC 9110's example of a date. */
    assert_int_equal(
        sl_client_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", 784111770), 7);
    assert_int_equal(
        sl_client_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", 784111780), 0);
    assert_int_equal(sl_client_rate_limit("\"api\";r=0;t=55"), 55);
    assert_int_equal(sl_client_rate_limit("\"api\";r=0"), -1);
    assert_int_equal(sl_client_rate_limit("\"api\";t=x"), -1);
    /* Five tries at once are no patience, whatever the hub says. */
    for (int64_t asks = -1; asks <= 0; asks++) {
        assert_int_equal(sl_client_wait_ms(1, asks, 0), 500);
        assert_int_equal(sl_client_wait_ms(2, asks, 0), 1000);
        assert_int_equal(sl_client_wait_ms(9, asks, 4000), 8000);
    }
    assert_int_equal(sl_client_wait_ms(1, 7, 0), 7000);
    assert_int_equal(sl_client_wait_ms(9, 1, 0), 4000);
}

static void listings(void **s)
{
    static const struct {
        const char *text, *says; /* NULL: accepted */
    } all[] = {
        {"[]", NULL},
        {"[{\"type\":\"directory\",\"path\":\"d\"}]", NULL},
        {"[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"oid\":"
         "\"1111111111111111111111111111111111111111\"}]",
         NULL},
        {"{}", "no proper 'list'"},
        {"[1]", "no proper 'type'"},
        {"[{\"type\":\"link\",\"path\":\"a\"}]", "no proper 'type'"},
        {"[{\"type\":\"file\",\"path\":\"../a\",\"size\":1}]",
         "part '.' or '..'"},
        {"[{\"type\":\"file\",\"path\":\"a\",\"size\":-1}]",
         "no proper 'size'"},
        {"[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"oid\":\"x\"}]",
         "no proper digest"},
        {"[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"oid\":"
         "\"1111111111111111111111111111111111111111\",\"lfs\":{\"size\":5,"
         "\"oid\":\"1111111111111111111111111111111111111111\"}}]",
         "no proper digest"},
    };

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(all); i++) {
        struct sl_hub_list l = {.n = 0};
        struct sl_err err = {.code = SL_OK};
        json_t *j = NULL;
        int rc;

        assert_int_equal(
            sl_json_parse(&j, all[i].text, strlen(all[i].text), "t", &err), 0);
        rc = sl_hub_list_page(&l, j, "t/x", &err);
        if (all[i].says ? rc != SL_EFORMAT || !strstr(err.msg, all[i].says)
                        : rc)
            fail_msg("%s: %d %s", all[i].text, rc, err.msg);
        sl_hub_list_deinit(&l);
        json_decref(j);
    }
}

static void next_pages(void **s)
{
    static char out[SL_CLIENT_URL];
    struct sl_err err;

    (void)s;
    assert_int_equal(sl_hub_next_page(out, "", HUB, "t/x", &err), 0);
    assert_string_equal(out, "");
    assert_int_equal(sl_hub_next_page(out, "<" HUB "/api/x?c=2>; rel=\"next\"",
                                      HUB, "t/x", &err),
                     0);
    assert_string_equal(out, "/api/x?c=2");
    assert_int_equal(sl_hub_next_page(out,
                                      "<" HUB "/p>; rel=\"prev\", <" HUB
                                      "/n>; rel=\"next\"",
                                      HUB, "t/x", &err),
                     0);
    assert_string_equal(out, "/n");
    assert_int_equal(sl_hub_next_page(out, "<" HUB ".evil.org/x>; rel=\"next\"",
                                      HUB, "t/x", &err),
                     SL_EFORMAT);
    assert_int_equal(sl_hub_next_page(out, "rel=\"next\"", HUB, "t/x", &err),
                     SL_EFORMAT);
}

/* Which files make a checkpoint, which a GGUF model. */
static void choices(void **s)
{
    static const char *const path[] = {"README.md",
                                       "config.json",
                                       "drafter/model.safetensors",
                                       "model-Q4_K_M-00001-of-00002.gguf",
                                       "model-Q4_K_M-00002-of-00002.gguf",
                                       "model-Q8_0.gguf",
                                       "model.safetensors",
                                       "onnx/model.safetensors",
                                       "original/consolidated.safetensors"};
    struct sl_hub_list l = {.n = 0};
    char file[SL_NAME_PATH + 1];
    bool keep[SL_COUNTOF(path)] = {false};
    struct sl_err err;

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(path); i++)
        assert_int_equal(sl_hub_list_add(&l, path[i], 1, "d", &err), 0);
    assert_int_equal(sl_choose(keep, file, &l, "t/x", "", &err), 0);
    for (size_t i = 0; i < SL_COUNTOF(path); i++)
        assert_int_equal(keep[i], i == 1 || i == 2 || i == 6);
    memset(keep, 0, sizeof(keep));
    assert_int_equal(sl_choose(keep, file, &l, "t/x", "q4_k_m", &err), 0);
    assert_string_equal(file, path[3]);
    for (size_t i = 0; i < SL_COUNTOF(path); i++)
        assert_int_equal(keep[i], i == 3 || i == 4);
    assert_int_equal(sl_choose(keep, file, &l, "t/x", "Q2_K", &err),
                     SL_EARG);
    assert_int_equal(sl_choose(keep, file, &l, "t/x", "Q", &err), SL_EARG);
    assert_non_null(strstr(err.msg, "several such"));
    assert_int_equal(
        sl_choose(keep, file, &l, "t/x", "model-Q8_0.gguf", &err), 0);
    assert_string_equal(file, "model-Q8_0.gguf");
    sl_hub_list_deinit(&l);
}

static void strangers_words(void **s)
{
    char out[32];

    (void)s;
    sl_hub_plain(out, sizeof(out), "a\033[31mb\nc");
    assert_string_equal(out, "a [31mb c");
    sl_hub_plain(out, 4, "ab\xc3\xa9"); /* no half characters */
    assert_string_equal(out, "ab");
    sl_hub_plain(out, sizeof(out), "ok\xff");
    assert_string_equal(out, "ok");
}

static void digests(void **s)
{
    char hex[SL_DIGEST_HEX + 1];

    (void)s;
    /* FIPS 180-2's "abc", and what git hash-object says of "hello\n". */
    assert_int_equal(sl_digest_bytes(hex, SL_DIGEST_SHA256, "abc", 3, NULL), 0);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb"
                             "410ff61f20015ad");
    assert_int_equal(sl_digest_bytes(hex, SL_DIGEST_GIT, "hello\n", 6, NULL),
                     0);
    assert_string_equal(hex, "ce013625030ba8dba906f756967f9e9ca394464a");
}

/* Where no lock holds two may have one partial file open. When the first has
 * given it its name, the second must not cut it. */
static void named_by_another(void **s)
{
    char dir[] = "/tmp/sluice-sink-XXXXXX", part[64], blob[64], *text;
    struct sl_sink a, b;
    struct sl_err err;
    size_t n;

    (void)s;
    assert_non_null(mkdtemp(dir));
    snprintf(part, sizeof(part), "%s/part", dir);
    snprintf(blob, sizeof(blob), "%s/blob", dir);
    assert_int_equal(sl_sink_open(&a, part, &err), 0);
    assert_int_equal(sl_sink_add(&a, "whole", 5, &err), 0);
    assert_int_equal(sl_sink_open(&b, part, &err), 0);
    assert_int_equal(sl_sink_finish(&a, &err), 0);
    assert_int_equal(sl_tree_adopt(part, blob, &err), 0);
    assert_int_equal(sl_sink_cut(&b, 0, &err), 0);
    assert_int_equal(sl_sink_add(&b, "new", 3, &err), 0);
    sl_sink_close(&b);
    assert_int_equal(sl_file_read(&text, &n, blob, 100, &err), 0);
    assert_int_equal(n, 5);
    assert_memory_equal(text, "whole", 5);
    sl_file_free(text);
    assert_int_equal(sl_file_read(&text, &n, part, 100, &err), 0);
    assert_int_equal(n, 3);
    sl_file_free(text);
    assert_int_equal(sl_tree_remove(dir, &err), 0);
}

/* Room for a whole file is given back by an orderly end; what a killed process
 * left is known, so that the same bytes are not asked of the disk twice. */
static void room_is_counted_once(void **s)
{
    enum { ALL = 1 << 20 };
    static const char digest[] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct sl_places *p = calloc(1, sizeof(*p));
    struct sl_store *store = calloc(1, sizeof(*store));
    struct sl_hub_file f = {.size = ALL};
    char dir[] = "/tmp/sluice-room-XXXXXX", part[SL_TREE_PATH];
    struct sl_sink a;
    struct sl_stat st;
    struct sl_err err;
    uint64_t reserved;

    (void)s;
    assert_non_null(mkdtemp(dir));
    snprintf(p->own, sizeof(p->own), "%s/own", dir);
    snprintf(store->root[0], sizeof(store->root[0]), "%s/hub", dir);
    store->places = p;
    snprintf(f.digest, sizeof(f.digest), "%s", digest);
    assert_int_equal(sl_tree_make(store->root[0], &err), 0);
    assert_int_equal(sl_fetch_partial(store, "t/x", &f, &reserved), 0);
    assert_int_equal(reserved, 0);
    snprintf(part, sizeof(part), "%s/own/partial/%s.part", dir, digest);
    assert_int_equal(sl_sink_open(&a, part, &err), 0);
    assert_int_equal(sl_sink_add(&a, "begun", 5, &err), 0);
    assert_int_equal(sl_sink_reserve(&a, ALL, &err), 0);
    assert_true(sl_tree_stat(&st, part, false));
    if (st.held >= ALL) { /* else the file system reserves nothing */
        assert_int_equal(sl_fetch_partial(store, "t/x", &f, &reserved), 5);
        assert_int_equal(reserved, ALL - 5);
    }
    sl_sink_close(&a);
    assert_int_equal(sl_fetch_partial(store, "t/x", &f, &reserved), 5);
    assert_in_range(reserved, 0, 65536); /* the rest of a block */
    assert_true(sl_tree_stat(&st, part, false));
    assert_int_equal(st.size, 5);
    assert_int_equal(sl_tree_remove(dir, &err), 0);
    free(p);
    free(store);
}

/* A partial file of n zeros that only has to be digested, as a file to fetch.
 */
static void whole_partial(struct sl_hub_file *f, const char *dir, char *name,
                          size_t n)
{
    static const char state[] = "{\"bytes_ok\": 1000000000}";
    char path[SL_TREE_PATH], *zeros = calloc(1, n);
    struct sl_digest d;

    assert_non_null(zeros);
    *f = (struct sl_hub_file){.path = name, .size = n};
    assert_int_equal(sl_digest_init(&d, SL_DIGEST_SHA256, n, NULL), 0);
    sl_digest_add(&d, zeros, n);
    sl_digest_take(&d, f->digest);
    sl_digest_deinit(&d);
    snprintf(path, sizeof(path), "%s/own/partial/%s.part", dir, f->digest);
    assert_int_equal(sl_file_write(path, zeros, n, NULL), 0);
    snprintf(path, sizeof(path), "%s/own/partial/%s.json", dir, f->digest);
    assert_int_equal(sl_file_write(path, state, strlen(state), NULL), 0);
    free(zeros);
}

static void note_order(void *ctx, const struct sl_fetch_step *s)
{
    char *order = ctx;

    if (s->finished)
        order[strlen(order)] = *s->path;
}

/* A large partial file is digested in turns: what is beside it does not wait.
 */
static void others_have_their_turn(void **s)
{
    struct sl_places *p = calloc(1, sizeof(*p));
    struct sl_store *store = calloc(1, sizeof(*store));
    char dir[] = "/tmp/sluice-turn-XXXXXX", order[8] = "", own[SL_TREE_PATH],
         large[] = "L", small[] = "S";
    struct sl_client_opts co = {.places = p, .agent = "test"};
    struct sl_fetch_opts o = {
        .store = store, .n_parallel = 2, .step = note_order, .ctx = order};
    struct sl_hub_file f[2];
    const struct sl_hub_file *file[2] = {&f[0], &f[1]};
    bool bad[2] = {false};
    struct sl_err err = {0};

    (void)s;
    assert_non_null(mkdtemp(dir));
    snprintf(p->own, sizeof(p->own), "%s/own", dir);
    snprintf(p->endpoint, sizeof(p->endpoint), "http://127.0.0.1:9");
    snprintf(store->root[0], sizeof(store->root[0]), "%s/hub", dir);
    store->places = p;
    snprintf(own, sizeof(own), "%s/own/partial", dir);
    assert_int_equal(sl_tree_make(own, &err), 0);
    assert_int_equal(sl_tree_make(store->root[0], &err), 0);
    whole_partial(&f[0], dir, large, (size_t)40 << 20);
    whole_partial(&f[1], dir, small, 100);
    assert_int_equal(sl_client_open(&o.http, &co, &err), 0);
    if (sl_fetch_run(&o, "t/x", "0123456789012345678901234567890123456789",
                     file, bad, 2, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(order, "SL");
    sl_client_close(&o.http);
    assert_int_equal(sl_tree_remove(dir, &err), 0);
    free(p);
    free(store);
}

static void addresses_of_servers(void **s)
{
    static const char *const t[][2] = {
        {"127.0.0.1", "http://127.0.0.1:80"},
        {"0.0.0.0", "http://127.0.0.1:80"},
        {"::1", "http://[::1]:80"},
        {"::", "http://[::1]:80"},
        {"[fd00::2]", "http://[fd00::2]:80"},
        {"box", "http://box:80"},
    };

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(t); i++) {
        struct sl_instance x = {.port = 80};
        char out[200];

        snprintf(x.host, sizeof(x.host), "%s", t[i][0]);
        sl_instance_address(out, sizeof(out), &x);
        assert_string_equal(out, t[i][1]);
    }
}

/* The garbage of a pull that was killed while it asked about a model: what
 * nobody holds, whatever number its name has. */
static void checks_are_garbage(void **s)
{
    struct sl_places *p = calloc(1, sizeof(*p));
    struct sl_sweep sweep = {.places = p};
    struct sl_sweep_opts o = {.days = 30};
    char dir[] = "/tmp/sluice-gc-XXXXXX", held[SL_TREE_PATH],
         left[SL_TREE_PATH], other[SL_TREE_PATH];
    struct sl_lockfile l;
    struct sl_stat st;
    struct sl_err err;

    (void)s;
    assert_non_null(mkdtemp(dir));
    snprintf(p->own, sizeof(p->own), "%s", dir);
    snprintf(p->hub, sizeof(p->hub), "%s/hub", dir);
    /* Two containers may have the same number for two processes. */
    snprintf(held, sizeof(held), "%s/check-0123456789abcdef", dir);
    snprintf(left, sizeof(left), "%s/check-%d", dir, (int)getpid());
    snprintf(other, sizeof(other), "%s/check-list", dir);
    assert_int_equal(sl_tree_make(held, &err), 0);
    assert_int_equal(sl_tree_make(left, &err), 0);
    assert_int_equal(sl_tree_make(other, &err), 0);
    assert_int_equal(sl_lockfile_try(&l, held), SL_LOCK_TAKEN);
    sweep.dry_run = true;
    assert_int_equal(sl_sweep_garbage(&sweep, &o, &err), 0);
    assert_true(sl_tree_stat(&st, left, false));
    sweep.dry_run = false;
    assert_int_equal(sl_sweep_garbage(&sweep, &o, &err), 0);
    assert_false(sl_tree_stat(&st, left, false));
    assert_true(sl_tree_stat(&st, held, false));
    assert_true(sl_tree_stat(&st, other, false));
    sl_lockfile_give(&l);
    assert_int_equal(sl_sweep_garbage(&sweep, &o, &err), 0);
    assert_false(sl_tree_stat(&st, held, false));
    assert_int_equal(sl_tree_remove(dir, &err), 0);
    free(p);
}

/* A file or a folder is held by one at a time, and by nobody behind that. */
static void one_holds_it(void **s)
{
    char dir[] = "/tmp/sluice-held-XXXXXX", none[64];
    struct sl_lockfile a, b;
    struct sl_err err;

    (void)s;
    assert_non_null(mkdtemp(dir));
    snprintf(none, sizeof(none), "%s/none", dir);
    assert_int_equal(sl_lockfile_try(&a, none), SL_LOCK_TAKEN);
    assert_int_equal(a.fd, -1);
    assert_int_equal(sl_lockfile_try(&a, dir), SL_LOCK_TAKEN);
    assert_int_equal(sl_lockfile_try(&b, dir), SL_LOCK_HELD);
    assert_int_equal(b.fd, -1);
    sl_lockfile_give(&a);
    assert_int_equal(sl_lockfile_try(&b, dir), SL_LOCK_TAKEN);
    sl_lockfile_give(&b);
    assert_int_equal(sl_tree_remove(dir, &err), 0);
}

static void count_name(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
}

/* A token that cannot be kept leaves nothing of it behind. */
static void a_token_goes_or_stays(void **s)
{
    struct sl_places *p = calloc(1, sizeof(*p));
    char dir[] = "/tmp/sluice-token-XXXXXX";
    struct sl_err err;
    int n = 0;

    (void)s;
    assert_non_null(mkdtemp(dir));
    snprintf(p->token, sizeof(p->token), "hf_secret");
    snprintf(p->token_file, sizeof(p->token_file), "%s/folder", dir);
    assert_int_equal(sl_tree_make(p->token_file, &err), 0);
    assert_true(sl_places_keep_token(p, &err) < 0);
    assert_int_equal(sl_dir_each(dir, count_name, &n, &err), 0);
    assert_int_equal(n, 1);
    snprintf(p->token_file, sizeof(p->token_file), "%s/token", dir);
    assert_int_equal(sl_places_keep_token(p, &err), 0);
    n = 0;
    assert_int_equal(sl_dir_each(dir, count_name, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(sl_tree_remove(dir, &err), 0);
    free(p);
}

/* In the middle of the token. */
static void killed_login(const struct sl_places *p)
{
    const struct rlimit none = {0}, half = {.rlim_cur = 4, .rlim_max = 4};
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        (void)signal(SIGXFSZ, SIG_DFL);
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)setrlimit(RLIMIT_FSIZE, &half);
        (void)sl_places_keep_token(p, NULL);
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
}

/* As where files without a name are not to be had. */
static void left(const char *dir)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/token.17.tmp", dir);
    assert_int_equal(sl_file_write(path, "hf_", 3, NULL), 0);
}

static void killed_logins_leave_no_token(void **s)
{
    struct sl_places *p = calloc(1, sizeof(*p));
    char dir[] = "/tmp/sluice-token-XXXXXX";
    struct stat st;
    int n = 0;

    (void)s;
    assert_non_null(mkdtemp(dir));
    snprintf(p->token, sizeof(p->token), "hf_secret");
    snprintf(p->token_file, sizeof(p->token_file), "%s/token", dir);
    killed_login(p);
    left(dir);
    assert_int_equal(sl_places_keep_token(p, NULL), 0);
    assert_int_equal(sl_dir_each(dir, count_name, &n, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(stat(p->token_file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, 9);
    killed_login(p);
    left(dir);
    assert_int_equal(sl_places_drop_token(p, NULL), 0);
    assert_int_equal(rmdir(dir), 0);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redirections),
        cmocka_unit_test(private_addresses),
        cmocka_unit_test(waits),
        cmocka_unit_test(listings),
        cmocka_unit_test(named_by_another),
        cmocka_unit_test(room_is_counted_once),
        cmocka_unit_test(checks_are_garbage),
        cmocka_unit_test(one_holds_it),
        cmocka_unit_test(a_token_goes_or_stays),
        cmocka_unit_test(killed_logins_leave_no_token),
        cmocka_unit_test(addresses_of_servers),
        cmocka_unit_test(others_have_their_turn),
        cmocka_unit_test(next_pages),
        cmocka_unit_test(choices),
        cmocka_unit_test(strangers_words),
        cmocka_unit_test(digests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
