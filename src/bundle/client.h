/* bundle/client.h - many requests to one hub, with patience
 *
 * A job is one thing to get. Jobs run side by side on the caller's thread; each
 * is tried again after what may pass (a lost connection, a server that is
 * busy), and follows redirections by rules of its own:
 *
 *   - at most five;
 *   - https, or http where the hub itself is reached by http, to its own host
 *     or within this machine;
 *   - no name or password in an address; from a public hub, no private address;
 *   - the token goes to the hub's scheme, host and port, and nowhere else.
 *
 * Addresses behind a redirection are secrets (they are signed) and appear in no
 * message but for their host.
 */
#ifndef SL_BUNDLE_CLIENT_H
#define SL_BUNDLE_CLIENT_H

#include "bundle/address.h"
#include "bundle/places.h"

#define SL_CLIENT_FIELD 1024 /* bytes of one field that is kept */
#define SL_CLIENT_URL SL_ADDRESS

/* What is kept of the head of an answer; "" or -1 when absent. */
struct sl_client_head {
    char etag[SL_CLIENT_FIELD];   /* X-Linked-Etag before ETag, bare */
    char commit[SL_CLIENT_FIELD]; /* X-Repo-Commit */
    char location[SL_CLIENT_URL];
    char link[SL_CLIENT_URL];         /* Link */
    char error_code[SL_CLIENT_FIELD]; /* X-Error-Code */
    char error_text[SL_CLIENT_FIELD]; /* X-Error-Message */
    char range[SL_CLIENT_FIELD];      /* Content-Range */
    char encoding[SL_CLIENT_FIELD];   /* Content-Encoding */
    int64_t length;                   /* Content-Length */
    int64_t linked_size;              /* X-Linked-Size */
    int64_t retry_s;                  /* Retry-After, or RateLimit's t= */
    int64_t date_s;                   /* Date, seconds since 1970 */
    bool linked;                      /* the etag is X-Linked-Etag */
};

struct sl_job;

/* What a call-back may answer besides 0 and a negative code. */
enum {
    SL_JOB_AGAIN = 1, /* start: not yet; head, refused, done: try again */
    SL_JOB_HAVE = 2,  /* start: it is there already */
    SL_JOB_SOON = 3,  /* start: more to do here; the others have a turn first */
};

struct sl_job {
    const char *path; /* behind the endpoint, encoded; begins with '/' */
    const char *what; /* in messages: "t/plain: config.json" */
    char to[SL_CLIENT_URL]; /* instead of path: a whole address, judged by
                               sl_client_follow; or "" */
    const char *post; /* a body makes it a POST; else NULL */
    size_t post_len;  /* bytes */
    const char *post_type;
    bool put;      /* PUT instead */
    bool patient;  /* sl_client_get: not limited in time as a whole */
    uint64_t from; /* the first byte that is wanted; start may set it */
    bool metadata; /* small: limited in time as a whole */
    void *ctx;

    /* Any may be NULL. All run on the thread that runs the jobs. */
    int (*start)(struct sl_job *j, struct sl_err *err);
    int (*hop)(struct sl_job *j, struct sl_err *err);  /* of a redirection */
    int (*head)(struct sl_job *j, struct sl_err *err); /* of a 2xx */
    int (*body)(struct sl_job *j, const char *p, size_t n, struct sl_err *err);
    int (*refused)(struct sl_job *j, struct sl_err *err); /* not 2xx, final */
    int (*done)(struct sl_job *j, struct sl_err *err);

    /* What came. */
    long status;
    bool moved; /* a redirection on the same host: the repository's new name */
    struct sl_client_head in;
    char text[SL_CLIENT_FIELD]; /* the body of a refusal, cut */

    /* Of client.c. */
    struct sl_client *http;
    void *easy, *fields;
    char url[SL_CLIENT_URL], why[256];
    int state, hops, rc;
    int tries; /* start may set it to 0: there was progress */
    uint64_t wake_ns;
    bool asked, private_address;
    struct sl_err err;
};

struct sl_client_opts {
    const struct sl_places *places;            /* borrowed until close */
    const char *agent;                         /* "sluice/0.1" */
    void (*note)(void *ctx, const char *text); /* waits, retries; or NULL */
    bool (*cancelled)(void *ctx);              /* or NULL */
    void *ctx;
};

struct sl_client;

int sl_client_open(struct sl_client **out, const struct sl_client_opts *o,
                   struct sl_err *err);
void sl_client_close(struct sl_client **h);

/* Run all jobs, at most `n_parallel` at a time. The first that fails for good
 * ends the rest, and its code is returned. */
int sl_client_run(struct sl_client *h, struct sl_job *const *job, size_t n,
                  unsigned n_parallel, struct sl_err *err);

/* A whole small answer of at most `max` bytes into `out`. `refused` as above,
 * or NULL. `job` holds what came. */
int sl_client_get(struct sl_client *h, struct sl_job *job, struct sl_buf *out,
                  struct sl_err *err);

const struct sl_places *sl_client_places(const struct sl_client *h);

/* One try, and `meta_s` seconds for a small answer: for questions that are
 * worth no wait. 0 takes it back. */
void sl_client_hurry(struct sl_client *h, unsigned meta_s);

/* Seconds to wait as the fields say, -1 when they say nothing. */
int64_t sl_client_retry_after(const char *value, int64_t now_s);
int64_t sl_client_rate_limit(const char *value);

/* Milliseconds to wait after try number `tries` (from 1 on): what the hub asks
 * for in seconds (-1: nothing), and never less than a growing time of ours,
 * half of which `random` decides. */
uint64_t sl_client_wait_ms(int tries, int64_t retry_s, uint64_t random);

#endif
