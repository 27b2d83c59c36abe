/* tests/kern/quant_tmpl.h - the checks of one quantised type
 *
 * Included once per type by quant.c, which defines TYPE and NAME(x), the name
 * of x for this type. */

static void NAME(check_mulq)(struct check *c)
{
    check_mulq(c, TYPE);
}

static void NAME(check_qrow)(struct check *c)
{
    check_qrow(c, TYPE);
}

#undef TYPE
#undef NAME
