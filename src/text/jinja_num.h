/* text/jinja_num.h - Python's numbers
 *
 * Text of floats as repr() gives it, numbers from text as int() and float()
 * take them, and arithmetic. Integers have 64 bits; what does not fit is an
 * error that says so.
 */
#ifndef SL_TEXT_JINJA_NUM_H
#define SL_TEXT_JINJA_NUM_H

#include "text/jinja_value.h"

/* Bytes that any float takes, with the zero: "-1.7976931348623157e+308". */
#define SL_JINJA_FLOAT_TEXT 32

void sl_jinja_float_text(char out[SL_JINJA_FLOAT_TEXT], double f);

/* The text rounded to `digits` decimals, half to even on the exact value. */
bool sl_jinja_float_round(double *out, double f, int64_t digits);

/* The integer at or below f; false when it has more than 63 bits. */
bool sl_jinja_float_floor(int64_t *out, double f);

/* int(text, base) and float(text); false when Python raises ValueError or the
 * number has more than 63 bits. */
bool sl_jinja_int_parse(int64_t *out, const char *s, size_t len, int64_t base);
bool sl_jinja_float_parse(double *out, const char *s, size_t len);

/* -1, 0, 1 or SL_JINJA_UNORDERED; exact also between int and float. */
int sl_jinja_order_num(struct sl_jval a, struct sl_jval b);

/* a op b for numbers; op is one of + - * / % and 'f' for //, 'p' for **. */
struct sl_jval sl_jinja_arith(struct sl_jrun *r, char op, struct sl_jval a,
                              struct sl_jval b);

#endif
