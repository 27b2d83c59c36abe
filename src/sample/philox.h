/* sample/philox.h - random numbers that are a function, not a state
 *
 * Any thread.
 */
#ifndef SL_SAMPLE_PHILOX_H
#define SL_SAMPLE_PHILOX_H

#include "base/base.h"

/* What a number is drawn for; numbers of different streams are unrelated. */
enum sl_stream {
    SL_STREAM_DRAW = 0,   /* the token at a position */
    SL_STREAM_ACCEPT = 1, /* the lossy acceptance rules */
};

/* Philox4x32-10: out = f(ctr, key). */
void sl_philox(uint32_t out[4], const uint32_t ctr[4], const uint32_t key[2]);

/* A multiple of 2^-24 with 0 <= u < 1. */
float sl_philox_u(uint64_t seed, uint32_t choice, uint64_t pos,
                  enum sl_stream stream);

#endif
