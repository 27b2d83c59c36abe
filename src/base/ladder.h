/* base/ladder.h - how far a ladder of drafts may go
 *
 * A bundle's ladder becomes the text of --spec-ladder, so who reads a bundle and
 * who reads the option have the same limits.
 */
#ifndef SL_BASE_LADDER_H
#define SL_BASE_LADDER_H

enum {
    SL_LADDER_RUNGS = 64,
    SL_LADDER_USERS = 65536, /* chosen: more than a server ever has */
    SL_LADDER_ROWS = 64 /* that a bundle may ask for: no drafter here has as
                           many, and who opens it decides what becomes of it */
};

#endif
