/* sluice/err.h - how a function of Sluice fails
 *
 * It returns a negative enum sl_code and fills the struct sl_err it was given:
 * one line that names the thing, the value and what to do.
 */
#ifndef SLUICE_ERR_H
#define SLUICE_ERR_H

/* Each code is a different action for the caller. */
enum sl_code {
    SL_OK = 0,
    SL_EARG = -1,      /* the caller asked for something out of range */
    SL_EFORMAT = -2,   /* bytes from outside break the rules of their format */
    SL_ENOMEM = -3,    /* not enough memory */
    SL_EIO = -4,       /* reading or writing failed */
    SL_EBUSY = -5,     /* try again later */
    SL_ECANCEL = -6,   /* the caller cancelled it */
    SL_EUNSUP = -7,    /* well formed, but this engine cannot do it */
    SL_EBUG = -8,      /* our mistake */
    SL_ENOTFOUND = -9, /* no such file, model or name, or no permission */
    SL_ENOSPACE = -10, /* the disk is full */
    SL_ENET = -11,     /* the network failed, or is not to be used */
};

struct sl_err {
    enum sl_code code;
    char msg[1000]; /* UTF-8, one line, ends with zero */
};

#endif
