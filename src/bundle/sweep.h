/* bundle/sweep.h - what can be removed, and removing it
 *
 * Weights lie in a cache that other programs use. Of it only blobs are removed
 * that we fetched ourselves, whose revision nothing needs: no installed bundle,
 * no other revision's snapshot, no link that somebody else made. Links go
 * first, then refs, then blobs: a crash leaves garbage and no dangling link.
 */
#ifndef SL_BUNDLE_SWEEP_H
#define SL_BUNDLE_SWEEP_H

#include "bundle/hub.h"
#include "bundle/places.h"

struct sl_sweep {
    const struct sl_places *places;
    bool dry_run;
    const char *except; /* a generation that does not count, or NULL */
    /* Called for each thing that is, or would be, removed. */
    void (*removed)(void *ctx, const char *what, uint64_t bytes);
    /* For what is kept, and why. */
    void (*kept)(void *ctx, const char *what, const char *why);
    void *ctx;
    uint64_t bytes; /* of all that was removed */
};

/* Garbage: generations of a bundle beyond the last two, partial downloads older
 * than `days` that nobody is at (all of them with `partials`), what pulls that
 * were killed left beside them, and with
 * `weights` revisions that are older, superseded and needed by nothing. */
struct sl_sweep_opts {
    int days;
    bool partials, weights;
};
int sl_sweep_garbage(struct sl_sweep *s, const struct sl_sweep_opts *o,
                     struct sl_err *err);

/* The weights of one revision, as far as nothing else needs them: all, or the
 * files that `only` lists. */
int sl_sweep_weights(struct sl_sweep *s, const char *repo, const char *sha,
                     const struct sl_hub_list *only, struct sl_err *err);

#endif
