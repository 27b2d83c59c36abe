/* server/server.h - the server: listen, load, answer, drain
 *
 * The caller's thread becomes the loop and owns every socket and every task.
 * The model is loaded by another thread meanwhile, so that health can be asked
 * from the first moment. SIGTERM or SIGINT drains: what runs may end within
 * drain_ms, what comes is refused; a second one ends the process at once.
 * SIGHUP reads the file of keys and the certificate again; when one of them
 * cannot be used, both stay as they were.
 */
#ifndef SL_SERVER_SERVER_H
#define SL_SERVER_SERVER_H

#include "base/err.h"
#include "server/trust.h"
#include "sluice/sluice.h"

/* Who drafts, in the words of the options, for GET /; method NULL: nobody. */
struct sl_server_draft {
    const char *method, *model, *speculate, *depth, *accept;
};

struct sl_server_opts {
    const char *host;
    uint16_t port; /* 0: any free one */
    uint16_t n_port; /* it and those behind it that will do; 0: it alone */
    struct sl_trust_from trust; /* no keys: everybody may ask */
    bool protect_all; /* a key for all but probes of health and the page */
    const char *const *name; /* [n_name] served model names, n_name > 0 */
    uint32_t n_name;
    /* Where the model comes from: a JSON object for GET /, or NULL. */
    const char *source;
    const char *profile; /* of a bundle, or NULL */
    const char *weights; /* their type, in the words of the option */
    struct sl_server_draft draft;
    uint32_t max_batched; /* rows of a step */
    const char *root; /* what a client can load the tokenizer from */
    uint32_t max_seqs;   /* sequences that run at once */
    uint32_t max_queued; /* sequences that wait beside those that run */
    uint64_t max_queued_tokens; /* of prompts that are not read yet; 0: any */
    uint32_t drain_ms;
    double queue_s;     /* a request may wait so long; 0: no limit */
    uint32_t request_s; /* a request may take so long; 0: no limit */
    uint32_t ready_s; /* loading may take so long; 0: as long as it takes */
    const char *tool_parser; /* "qwen3_coder", ... */

    /* Called once from the thread that loads. */
    int (*open)(void *ctx, struct sl_engine **out, struct sl_err *err);
    /* Called once on the loop, when connections are accepted. */
    void (*listening)(void *ctx, const char *host, uint16_t port);
    /* Called once on the loop, when the model answers. */
    void (*ready)(void *ctx, const struct sl_engine *e);
    /* Called once on the loop when loading took longer than ready_s. It cannot
     * be cut short, so the process ends when this returns. */
    void (*late)(void *ctx);
    void *ctx;
};

/* Serves until a signal; 0 when it drained in time. */
int sl_server_run(const struct sl_server_opts *o, struct sl_err *err);

#endif
