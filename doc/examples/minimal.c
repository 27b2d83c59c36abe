/* minimal.c - an answer from a model, with nothing but sluice.h
 *
 *     cc minimal.c $(pkg-config --cflags --libs sluice) -o minimal
 *     ./minimal models/demo "Tell me a story."
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/sluice.h"

static int fail(const struct sl_err *err)
{
    fprintf(stderr, "minimal: %s\n", err->msg);
    return EXIT_FAILURE;
}

/* Print the answer as it comes. */
static int answer(struct sl_engine *e, const char *prompt, struct sl_err *err)
{
    struct sl_gen_opts o;
    struct sl_gen *g = NULL;
    struct sl_piece p;
    int rc;

    sl_gen_opts_init(&o, e); /* the model's own temperature and so on */
    o.text = prompt;
    o.n_text = strlen(prompt);
    o.max_tokens = 64;
    o.seed = 1;
    o.has_seed = true;
    rc = sl_gen_submit(&g, e, &o, err);
    if (rc)
        return rc;
    while ((rc = sl_gen_next(g, &p, err)) > 0)
        fwrite(p.text, 1, p.n_text, stdout);
    sl_gen_close(&g);
    return rc;
}

int main(int argc, char **argv)
{
    struct sl_engine_opts o;
    struct sl_engine *e = NULL;
    struct sl_err err;
    int rc;

    if (argc != 3) {
        fprintf(stderr, "usage: minimal FOLDER PROMPT\n");
        return EXIT_FAILURE;
    }
    sl_engine_opts_init(&o);
    if (sl_engine_open(&e, argv[1], &o, &err))
        return fail(&err);
    rc = answer(e, argv[2], &err);
    sl_engine_close(&e);
    return rc ? fail(&err) : EXIT_SUCCESS;
}
