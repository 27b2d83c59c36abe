/* sample/number_range.h - decimal numbers between limits, as a node
 *
 * Any thread. Failures stick to the grammar.
 */
#ifndef SL_SAMPLE_NUMBER_RANGE_H
#define SL_SAMPLE_NUMBER_RANGE_H

#include "sample/grammar.h"

/* Digits of a whole part and of a fraction: what a double holds. */
#define SL_NUMBER_DIGITS 15

struct sl_limit {
    bool has;
    bool excluded; /* the limit itself is not allowed */
    double value;
};

/* JSON numbers from lo to hi, without exponents; with `whole`, integers. SL_EARG
 * when a limit has more digits than can be told apart, or nothing lies between.
 */
uint32_t sl_number_range(struct sl_grammar *g, struct sl_limit lo,
                         struct sl_limit hi, bool whole);

/* Any JSON number, with exponents of two digits; any integer. */
uint32_t sl_number_any(struct sl_grammar *g, bool whole);

#endif
