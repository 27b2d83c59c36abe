/* callers.c - the engine under many users, without a server
 *
 * What a server costs is seen beside threads that call the library: as many as
 * there are users, each with one generation at a time, of random prompts and
 * answers of a fixed length, as `sluice bench serve` sends them. The options of
 * the engine are those of `sluice serve`. tests/bench/load.py starts it, and asks
 * for a turn by a line on standard input, "USERS REQUESTS IN OUT"; it answers
 * with the seconds that the turn took. Nothing but the public header is used.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sluice/sluice.h"

enum {
    VOCAB = 768, /* random ids below, as `sluice bench serve` has them */
    MAX_IN = 4096,
    MAX_USERS = 256
};

struct turn {
    struct sl_engine *engine;
    unsigned users, requests, in, out;
    atomic_uint begun; /* requests that some thread has taken */
};

static void must(int rc, const struct sl_err *err)
{
    if (rc < 0) {
        fprintf(stderr, "callers: %s\n", err->msg);
        exit(EXIT_FAILURE);
    }
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* SplitMix64: prompts differ in every turn, or they would be known. */
static int32_t random_id(void)
{
    static atomic_ullong state;
    static const unsigned long long odd = 0x9e3779b97f4a7c15u;
    unsigned long long z = atomic_fetch_add(&state, odd) + odd;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int32_t)((z ^ (z >> 31)) % VOCAB);
}

static void answer(const struct turn *t)
{
    int32_t ids[MAX_IN];
    struct sl_gen_opts o;
    struct sl_gen *g = NULL;
    struct sl_piece p = {0};
    struct sl_err err;
    int rc;

    for (unsigned i = 0; i < t->in; i++)
        ids[i] = random_id();
    sl_gen_opts_init(&o, t->engine);
    o.ids = ids;
    o.n_ids = t->in;
    o.max_tokens = t->out;
    o.ignore_eos = true;
    o.repetition_penalty = 1;
    must(sl_gen_submit(&g, t->engine, &o, &err), &err);
    do {
        rc = sl_gen_next(g, &p, &err);
        must(rc, &err);
    } while (rc > 0 && p.finish == SL_FINISH_NONE);
    if (p.n_output != t->out) {
        fprintf(stderr, "callers: an answer of %u tokens, not %u\n", p.n_output,
                t->out);
        exit(EXIT_FAILURE);
    }
    sl_gen_close(&g);
}

static void *user(void *arg)
{
    struct turn *t = arg;

    while (atomic_fetch_add(&t->begun, 1) < t->requests)
        answer(t);
    return NULL;
}

static double run(struct turn *t)
{
    pthread_t thread[MAX_USERS];
    double t0 = now_s();

    for (unsigned i = 0; i < t->users; i++)
        if (pthread_create(&thread[i], NULL, user, t)) {
            fprintf(stderr, "callers: no thread for user %u\n", i);
            exit(EXIT_FAILURE);
        }
    for (unsigned i = 0; i < t->users; i++)
        pthread_join(thread[i], NULL);
    return now_s() - t0;
}

int main(int argc, char **argv)
{
    struct sl_engine_opts o;
    struct turn t = {0};
    struct sl_err err;

    if (argc != 6) {
        fprintf(stderr, "usage: callers MODEL PACKED-DIR CONTEXT THREADS "
                        "stored|dummy\n");
        return EXIT_FAILURE;
    }
    sl_engine_opts_init(&o);
    o.cache_dir = argv[2];
    o.max_model_len = (uint32_t)strtoul(argv[3], NULL, 10);
    o.n_thread = (uint32_t)strtoul(argv[4], NULL, 10);
    o.dummy = !strcmp(argv[5], "dummy");
    o.weights = o.dummy ? SL_WEIGHTS_Q4 : SL_WEIGHTS_AUTO;
    o.max_num_seqs = 32; /* as serve's default */
    must(sl_engine_open(&t.engine, argv[1], &o, &err), &err);
    while (scanf("%u %u %u %u", &t.users, &t.requests, &t.in, &t.out) == 4) {
        if (t.users > MAX_USERS || t.in > MAX_IN) {
            fprintf(stderr, "callers: at most %d users and %d tokens\n",
                    MAX_USERS, MAX_IN);
            return EXIT_FAILURE;
        }
        atomic_store(&t.begun, 0);
        printf("%.6f\n", run(&t));
        fflush(stdout);
    }
    sl_engine_close(&t.engine);
    return EXIT_SUCCESS;
}
