/* cli/ready.h - what a user calls a model -> a folder that can be opened
 *
 *   demo          the embedded model
 *   DIR, x/config.json    a checkpoint folder
 *   ORG/NAME      on a hub: fetched, verified, kept
 *   NAME          an installed bundle
 *
 * A bundle sets options, too: its profile ranks below the command line and the
 * environment.
 */
#ifndef SL_CLI_READY_H
#define SL_CLI_READY_H

#include "base/lockfile.h"
#include "base/option.h"
#include "bundle/pull.h"
#include "cli/bars.h"

#define SL_CLI_NAMES 17 /* a bundle's id and its aliases: bundle/fields.c */

struct sl_cli_ready {
    char path[SL_TREE_PATH];  /* what is opened */
    const char *name[SL_CLI_NAMES]; /* what clients call it; borrowed of hub */
    uint32_t n_name;                /* 0 if nobody says */
    struct sl_ready hub;
    bool from_hub;
    const char *profile_name;    /* of the bundle, or NULL */
    json_t *profile, *flat;      /* merged; as options. Owned */
    char template[SL_TREE_PATH]; /* of the bundle, or "" */
    struct sl_lockfile in_use;   /* the generation that is served */

    struct sl_places places;
    struct sl_bars bars;
    int phase; /* the one that runs, or -1 */
    double phase_s[SL_N_PULL_PHASE];
    uint64_t phase_ns;
    bool say_phases;
};

enum sl_cli_want {
    SL_WANT_ALL,     /* weights, and the options of the profile */
    SL_WANT_WEIGHTS, /* without them */
    SL_WANT_SMALL,   /* what describes the model */
    SL_WANT_PLAN,    /* that, and the options of the profile */
};

/* The model that --model or the first argument names; *n_used is how many
 * arguments that took. With SL_WANT_ALL a bundle's profile is written into `o`,
 * which must not outlive `r`. */
int sl_cli_ready_init(struct sl_cli_ready *r, struct sl_opts *o,
                      enum sl_cli_want want, uint32_t *n_used,
                      struct sl_err *err);
void sl_cli_ready_deinit(struct sl_cli_ready *r);

/* The folder alone, of a model with its weights; 'bench' sets its own options.
 */
int sl_cli_model(char path[SL_TREE_PATH], const struct sl_opts *o,
                 uint32_t *n_used, struct sl_err *err);

/* The manifest of a bundle: NAME, ORG/NAME, or a folder with serve_bundle.json
 * or bundle.json. The caller ends *out with sl_manifest_deinit. */
int sl_cli_manifest(struct sl_manifest *out, const struct sl_opts *o,
                    const char *name, struct sl_err *err);

/* Places of the environment, with the options of the command line. */
int sl_cli_places(struct sl_places *p, const struct sl_opts *o,
                  struct sl_err *err);

/* What is served and from where, and what getting it took: JSON; NULL for a
 * model that lies here. */
json_t *sl_cli_ready_source(const struct sl_cli_ready *r);

/* Options of a pull whose call-backs write to the terminal. */
void sl_cli_pull_opts(struct sl_pull_opts *po, struct sl_cli_ready *r,
                      const struct sl_opts *o);

/* Ctrl-C sets a flag that downloads look at, until this is called with false.
 */
void sl_cli_catch_interrupt(bool on);

/* The last phase is over. */
void sl_cli_ready_end(struct sl_cli_ready *r);

#endif
