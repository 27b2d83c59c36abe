/* bundle/instance.h - servers of this user that run on this machine
 *
 * Each writes a small file when it listens and removes it when it ends. A file
 * whose process is gone, or is another one by now, counts for nothing and is
 * removed by whoever meets it.
 */
#ifndef SL_BUNDLE_INSTANCE_H
#define SL_BUNDLE_INSTANCE_H

#include "bundle/name.h"
#include "bundle/places.h"

#define SL_INSTANCE_NAME 64

struct sl_instance {
    char name[SL_INSTANCE_NAME]; /* unique; letters, digits, '.', '_', '-' */
    int64_t pid;
    uint64_t began;
    int64_t when_s; /* since 1970 */
    char host[128];
    unsigned port;
    bool tls;
    unsigned drain_s;
    char model[SL_TREE_PATH]; /* as the user named it */
    char profile[SL_NAME_SLUG + 1], sha[SL_NAME_COMMIT + 1]; /* or "" */
};

/* Fill in name (from `want`, made unique), pid, began and when; write. */
int sl_instance_put(struct sl_instance *i, const struct sl_places *p,
                    const char *want, struct sl_err *err);
void sl_instance_drop(const struct sl_instance *i, const struct sl_places *p);

/* Those that live, by name; *out is ended with sl_mem_free. */
int sl_instance_list(struct sl_instance **out, size_t *n,
                     const struct sl_places *p, struct sl_err *err);

/* Where this machine reaches it: "http://[::1]:8000". */
void sl_instance_address(char *out, size_t cap, const struct sl_instance *i);

bool sl_instance_lives(const struct sl_instance *i);

/* The name that `want` becomes: "Org/Name" is "name". */
void sl_instance_name(char out[SL_INSTANCE_NAME], const char *want);

/* The log of a detached server of this name. Makes the folder. */
int sl_instance_log(char out[SL_TREE_PATH], const struct sl_places *p,
                    const char *name, struct sl_err *err);

#endif
