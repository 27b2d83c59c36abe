/* kern/wide/quant_type_tmpl.h - the loops of a product, for one quantised type
 *
 * Included once per type by quant_mul_tmpl.h, which defines TYPE and NAME(x),
 * the name of x for this type. The number of tokens of a block becomes a
 * constant here.
 */

static void NAME(direct)(size_t m, const struct out *o, const uint8_t *w,
                         const struct act *x, size_t cols)
{
    switch (m) {
    case 1:
        direct(TYPE, 1, o, w, *x, cols);
        break;
    case 2:
        direct(TYPE, 2, o, w, *x, cols);
        break;
    case 3:
        direct(TYPE, 3, o, w, *x, cols);
        break;
    case 4:
        direct(TYPE, 4, o, w, *x, cols);
        break;
    }
}

static void NAME(tile)(size_t m, const struct out *o, const struct blk *panel,
                       const struct act *x, size_t cols, bool from_y)
{
    switch (m) {
    case 1:
        tile(TYPE, 1, o, panel, *x, cols, from_y);
        break;
    case 2:
        tile(TYPE, 2, o, panel, *x, cols, from_y);
        break;
    case 3:
        tile(TYPE, 3, o, panel, *x, cols, from_y);
        break;
    case 4:
        tile(TYPE, 4, o, panel, *x, cols, from_y);
        break;
    }
}

/* One strip of rows, columns c0 to c1, tokens t0 to t1. */
static void NAME(strip)(float *restrict y, size_t ldy, const uint8_t *w,
                        const struct sl_qact *x, size_t t0, size_t t1,
                        size_t c0, size_t c1, size_t rows, size_t cols)
{
    struct blk panel[PANEL / 32 * G];

    for (size_t c = c0; c < c1; c += PANEL) {
        size_t n = sl_min(PANEL, c1 - c), m;

        unpack(TYPE, panel, w, rows, c, n, cols);
        for (size_t t = t0; t < t1; t += m) {
            struct out o = {y + t * ldy, ldy, rows};
            struct act a = act_at(x, t, c);

            m = share(t1 - t);
            NAME(tile)(m, &o, panel, &a, n, c > 0);
        }
    }
}

/* One strip of rows, few tokens, or no columns. */
static void NAME(few)(float *restrict y, size_t ldy, const uint8_t *w,
                      const struct sl_qact *x, size_t n_tok, size_t rows,
                      size_t cols)
{
    size_t m;

    for (size_t t = 0; t < n_tok; t += m) {
        struct out o = {y + t * ldy, ldy, rows};
        struct act a = act_at(x, t, 0);

        m = share(n_tok - t);
        NAME(direct)(m, &o, w, &a, cols);
    }
}

static void NAME(mulq)(float *restrict y, size_t ldy, const void *restrict w,
                       const struct sl_qact *x, size_t n_tok, size_t rows,
                       size_t cols)
{
    const size_t strip_bytes =
        cols / (32 * n_sub(TYPE)) * unit_bytes(TYPE) * (STRIP / SL_GROUP);
    const size_t chunk = sl_min(n_tok, CHUNK);
    const size_t span = chunk * cols <= X_BYTES ? sl_max(cols, 1) : PANEL;
    const size_t n_strip = (rows + STRIP - 1) / STRIP;
    const uint8_t *p = w;

    if (n_tok <= MAX_DIRECT || cols == 0) {
        for (size_t i = 0; i < n_strip; i++)
            NAME(few)(y + i * STRIP, ldy, p + i * strip_bytes, x, n_tok,
                      rows - i * STRIP, cols);
        return;
    }
    for (size_t t = 0; t < n_tok; t += chunk) {
        const size_t end = sl_min(t + chunk, n_tok);

        for (size_t c = 0; c < cols; c += span) {
            for (size_t i = 0; i < n_strip; i++)
                NAME(strip)(y + i * STRIP, ldy, p + i * strip_bytes, x, t, end,
                            c, sl_min(c + span, cols), rows - i * STRIP, cols);
        }
    }
}

#undef TYPE
#undef NAME
