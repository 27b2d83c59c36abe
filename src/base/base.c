/* base/base.c - the end of the program when an invariant is broken */
#include "base/base.h"

/* Only our own mistakes come here, never anything that a file, a request or a
 * user can cause (rule A2), so printing and ending is right. */
_Noreturn void sl_assert_fail(const char *cond, const char *file, int line)
{
    fprintf(stderr, "sluice: bug: '%s' is false at %s:%d\n", cond, file, line);
    abort();
}
