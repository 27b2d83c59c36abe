/* tests/prop/prop_bpe.c - merging with a heap is merging by the book
 *
 * The book: of all neighbours that merge, the pair of lowest rank, of equals
 * the leftmost; again, until none merges. Done literally it takes n^2 steps, so
 * only here, on random vocabularies in which one merge makes each token (see
 * bpe.c for the others).
 */
#include "text/bpe.h"

#define MAX_PIECE 400
#define N_LETTER 3     /* of the random vocabularies */
#define MAX_RANDOM 120 /* their tokens */
#define MAX_LEN 64     /* bytes of one of them */

static uint64_t state;
static int passed, failed;

static uint32_t rnd(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static size_t by_the_book(const struct sl_vocab *v, int32_t *id, size_t n)
{
    for (;;) {
        const struct sl_merge_slot *best = NULL;
        size_t at = 0;

        for (size_t i = 0; i + 1 < n; i++) {
            const struct sl_merge_slot *m = sl_vocab_merge(v, id[i], id[i + 1]);

            if (m && (!best || m->rank < best->rank)) {
                best = m;
                at = i;
            }
        }
        if (!best)
            return n;
        id[at] = best->id;
        memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof(*id));
        n--;
    }
}

static void check(struct sl_bpe *w, const struct sl_vocab *v, const char *s,
                  size_t len)
{
    int32_t want[MAX_PIECE], got[MAX_PIECE];
    size_t n, m = 0;

    for (size_t i = 0; i < len; i++)
        want[i] = v->byte[(unsigned char)s[i]];
    n = by_the_book(v, want, len);
    if (!sl_bpe_merge(w, v, s, len, got, &m, NULL) && m == n &&
        !memcmp(want, got, n * sizeof(*got))) {
        passed++;
        return;
    }
    failed++;
    printf("'%.*s' differs\n", (int)len, s);
}

/* A vocabulary of random tokens over few letters, each made by one merge. */
static int random_vocab(struct sl_vocab *v, struct sl_err *err)
{
    static char text[MAX_RANDOM][MAX_LEN];
    struct sl_span span[MAX_RANDOM];
    struct sl_merge_ids merge[MAX_RANDOM];
    uint8_t kind[MAX_RANDOM];
    size_t n = 0, n_merge = 0;
    struct sl_vocab_spec spec = {
        .text = span, .kind = kind, .merge_ids = merge};

    for (; n < N_LETTER; n++) {
        text[n][0] = (char)('a' + n);
        span[n] = (struct sl_span){text[n], 1};
    }
    for (int tries = 0; n < MAX_RANDOM && tries < 1000; tries++) {
        uint32_t a = rnd((uint32_t)n), b = rnd((uint32_t)n);
        size_t len = span[a].len + span[b].len, k = 0;

        if (len > MAX_LEN)
            continue;
        memcpy(text[n], span[a].p, span[a].len);
        memcpy(text[n] + span[a].len, span[b].p, span[b].len);
        while (k < n && (span[k].len != len || memcmp(span[k].p, text[n], len)))
            k++;
        if (k < n)
            continue;
        span[n] = (struct sl_span){text[n], len};
        n++;
        merge[n_merge++] = (struct sl_merge_ids){(int32_t)a, (int32_t)b};
    }
    /* Ranks in another order than tokens: some real ones are. */
    for (size_t i = n_merge; i > 1; i--) {
        uint32_t j = rnd((uint32_t)i);
        struct sl_merge_ids m = merge[j];

        merge[j] = merge[i - 1];
        merge[i - 1] = m;
    }
    memset(kind, SL_TOK_EXISTS, sizeof(kind));
    spec.n_ids = n;
    spec.n_merges = n_merge;
    return sl_vocab_init(v, &spec, err);
}

int main(void)
{
    struct sl_bpe w = {0};
    struct sl_err err;

    for (uint64_t c = 0; c < 300; c++) {
        struct sl_vocab v;

        state = c;
        if (random_vocab(&v, &err)) {
            printf("case %d: %s\n", (int)c, err.msg);
            failed++;
            continue;
        }
        for (int k = 0; k < 20; k++) {
            char s[MAX_PIECE];
            size_t len = rnd(k < 15 ? 30 : MAX_PIECE - 1) + 1;

            for (size_t i = 0; i < len; i++)
                s[i] = (char)('a' + rnd(N_LETTER));
            check(&w, &v, s, len);
        }
        sl_vocab_deinit(&v);
    }
    sl_bpe_deinit(&w);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
