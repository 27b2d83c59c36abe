/* kern/wide/quant_type_tmpl.h - the loops of a product, for one quantised type
 *
 * Included once per type by quant_mul_tmpl.h, which defines TYPE and NAME(x),
 * the name of x for this type. The number of tokens of a block becomes a
 * constant here.
 */

/* Columns c to c + n - 1 of a strip, m tokens. */
static void NAME(direct)(size_t m, const struct out *o, const uint8_t *w,
                         const struct act *x, size_t c, size_t n, size_t cols)
{
    switch (m) {
    case 1:
        direct(TYPE, 1, o, w, *x, c, n, cols);
        break;
    case 2:
        direct(TYPE, 2, o, w, *x, c, n, cols);
        break;
    case 3:
        direct(TYPE, 3, o, w, *x, c, n, cols);
        break;
    case 4:
        direct(TYPE, 4, o, w, *x, c, n, cols);
        break;
#if REGS == 32
    case 5:
        direct(TYPE, 5, o, w, *x, c, n, cols);
        break;
    case 6:
        direct(TYPE, 6, o, w, *x, c, n, cols);
        break;
    case 7:
        direct(TYPE, 7, o, w, *x, c, n, cols);
        break;
    case 8:
        direct(TYPE, 8, o, w, *x, c, n, cols);
        break;
#endif
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
#if REGS == 32
    case 5:
        tile(TYPE, 5, o, panel, *x, cols, from_y);
        break;
    case 6:
        tile(TYPE, 6, o, panel, *x, cols, from_y);
        break;
    case 7:
        tile(TYPE, 7, o, panel, *x, cols, from_y);
        break;
    case 8:
        tile(TYPE, 8, o, panel, *x, cols, from_y);
        break;
#endif
    }
}

/* One strip of rows, all tokens of x, columns c to c + n - 1, which are at most a
 * panel. While it is used the same of the next strip comes from memory, evenly:
 * asked for at once its lines would be more than a core can wait for. */
static void NAME(strip)(const struct out *o, const uint8_t *w,
                        const struct act *x, size_t n_tok, size_t c, size_t n,
                        size_t cols)
{
    const size_t part = unit_bytes(TYPE) / n_sub(TYPE);
    const size_t group_bytes = cols / 32 * part;
    const uint8_t *next = w + STRIP / SL_GROUP * group_bytes + c / 32 * part;
    struct blk panel[PANEL / 32 * G];

    unpack(TYPE, panel, w, o->rows, c, n, cols);
    for (size_t t = 0, m; t < n_tok; t += m) {
        struct out to = {o->y + t * o->ldy, o->ldy, o->rows};
        struct act a = act_at(x, t);

        m = share(n_tok - t);
        for (size_t g = 0; g < STRIP / SL_GROUP; g++)
            fetch(next + g * group_bytes + t * n / 32 * part / n_tok,
                  m * n / 32 * part / n_tok);
        NAME(tile)(m, &to, panel, &a, n, c > 0);
    }
}

/* One strip of rows, few tokens, or no columns. */
static void NAME(few)(const struct out *o, const uint8_t *w,
                      const struct act *x, size_t n_tok, size_t c, size_t n,
                      size_t cols)
{
    size_t m;

    for (size_t t = 0; t < n_tok; t += m) {
        struct out to = {o->y + t * o->ldy, o->ldy, o->rows};
        struct act a = act_at(x, t);

        m = share(n_tok - t);
        NAME(direct)(m, &to, w, &a, c, n, cols);
    }
}

static void NAME(mulq)(float *restrict y, size_t ldy, const void *restrict w,
                       const struct sl_qact *x, size_t n_tok, size_t rows,
                       size_t cols)
{
    const size_t strip_bytes =
        cols / (32 * n_sub(TYPE)) * unit_bytes(TYPE) * (STRIP / SL_GROUP);
    const bool is_few = n_tok <= MAX_DIRECT || cols == 0;
    /* What is prepared at once, in whole units. */
    const size_t span =
        n_tok && n_tok <= MAX_DIRECT ? N_PREP / n_tok / 8 * 256 : PANEL;
    /* These, and a panel, are beyond what a function should have on its stack
     * (rule O1): a kernel cannot allocate. */
    int32_t off[2 * N_PREP];
    float min[N_PREP];

    for (size_t t = 0, n_t; t < n_tok; t += n_t) {
        n_t = sl_min(n_tok - t, CHUNK);
        for (size_t c = 0; c == 0 || c < cols; c += span) {
            const size_t n = sl_min(span, cols - c);
            struct act a = {x->q + t * x->ld + c,
                            x->scale + (t * x->ld + c) / 32,
                            min,
                            off,
                            x->ld,
                            x->ld / 32,
                            n / 32};

            prepare(TYPE, off, min, x, t, n_t, c, n);
            for (size_t r = 0; r < rows; r += STRIP) {
                struct out o = {y + t * ldy + r, ldy, rows - r};
                const uint8_t *p = (const uint8_t *)w + r / STRIP * strip_bytes;

                (is_few ? NAME(few) : NAME(strip))(&o, p, &a, n_t, c, n, cols);
            }
        }
    }
}

#undef TYPE
#undef NAME
