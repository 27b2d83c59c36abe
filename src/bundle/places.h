/* bundle/places.h - where things lie and how the hub is reached
 *
 * Everything the environment says, read once, at start. The cache of the
 * ecosystem is shared with other programs; our own state lies beside it, and
 * can be removed at any time without losing anything that cannot be fetched
 * or computed again.
 */
#ifndef SL_BUNDLE_PLACES_H
#define SL_BUNDLE_PLACES_H

#include "base/tree.h"

struct sl_places {
    char hub[SL_TREE_PATH]; /* models--OWNER--NAME/...; others' too */
    char own[SL_TREE_PATH]; /* bundles/, receipts/, partial/, locks/ */
    char run[SL_TREE_PATH]; /* what runs now; may be absent */
    char endpoint[256];     /* "https://huggingface.co", no slash at the end */
    char token_file[SL_TREE_PATH]; /* where 'login' keeps it */
    char token[512];               /* "" for none; never printed */
    bool offline;                  /* open no socket */
    bool proxied;     /* addresses are a proxy's, not the server's */
    unsigned stall_s; /* without a byte, before trying again */
    unsigned meta_s;  /* for a whole answer that is not a file */
};

/* `env` is an array that ends with NULL. Honoured: HF_HUB_CACHE,
 * HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, XDG_DATA_HOME,
 * XDG_RUNTIME_DIR, HOME, HF_ENDPOINT, HF_TOKEN, HUGGING_FACE_HUB_TOKEN,
 * HF_TOKEN_PATH, HF_HUB_DISABLE_IMPLICIT_TOKEN, HF_HUB_OFFLINE,
 * TRANSFORMERS_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT, HF_HUB_ETAG_TIMEOUT. An empty
 * variable counts as unset; `~` in front of a path is the home. */
int sl_places_init(struct sl_places *out, char *const *env, struct sl_err *err);

/* The folders alone, for who needs no hub: its variables may be wrong. */
int sl_places_local(struct sl_places *out, char *const *env,
                    struct sl_err *err);

/* Read the token of a file: trimmed, without control characters. */
int sl_places_token(struct sl_places *p, const char *path, struct sl_err *err);
int sl_places_set_token(struct sl_places *p, const char *s, size_t len,
                        const char *what, struct sl_err *err);

/* Write the token into token_file, for this user alone; or remove it. Both
 * remove what a login that was killed left of one. */
int sl_places_keep_token(const struct sl_places *p, struct sl_err *err);
int sl_places_drop_token(const struct sl_places *p, struct sl_err *err);

#endif
