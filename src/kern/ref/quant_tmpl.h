/* kern/ref/quant_tmpl.h - the table's entries for one quantised type
 *
 * Included once per type by quant_mul.c, which defines TYPE and NAME(x), the
 * name of x for this type. */

static void NAME(mulq)(float *restrict y, size_t ldy, const void *restrict w,
                       const struct sl_qact *x, size_t n_tok, size_t rows,
                       size_t cols)
{
    mulq(TYPE, NAME(step), y, ldy, w, x, n_tok, rows, cols);
}

static void NAME(row)(float *restrict y, const void *restrict w,
                      const float *restrict scale, size_t r, size_t cols)
{
    (void)scale;
    row(TYPE, NAME(value), y, w, r, cols);
}

#undef TYPE
#undef NAME
