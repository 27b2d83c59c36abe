/* base/mem.h - the one way to memory
 *
 * Everything ours is allocated here, so that a test can count allocations
 * (none in the token loop) and make the n-th one fail.
 */
#ifndef SL_BASE_MEM_H
#define SL_BASE_MEM_H

#include "base/err.h"

/* n * size zeroed bytes, aligned for any type; the caller owns them and ends
 * them with sl_mem_free. Fails with SL_ENOMEM, also when n * size overflows;
 * `what` names the thing in the message. n * size == 0 gives a valid pointer
 * to nothing. */
int sl_mem_alloc(void *out, size_t n, size_t size, const char *what,
                 struct sl_err *err);

/* Grow or shrink; *p may be NULL. On failure *p is untouched. New bytes are
 * not cleared. */
int sl_mem_resize(void *p, size_t n, size_t size, const char *what,
                  struct sl_err *err);

void sl_mem_free(void *p); /* NULL allowed */

/* Zeroed memory for what lives as long as a model: whole pages, aligned to
 * 64 bytes at least, with huge pages where the system gives them. */
int sl_mem_map(void *out, size_t bytes, const char *what, struct sl_err *err);
void sl_mem_unmap(void *p, size_t bytes);

/* The whole pages of a part of it are given back, and zero from then on. */
void sl_mem_forget(void *p, size_t bytes);

/* For a program that runs for weeks: what is freed goes back to the system, and
 * what was never touched takes no memory, at the price of a system call for each
 * large block. Once, before there are threads. */
void sl_mem_give_back(void);

/* A copy of len bytes with a zero behind them. */
int sl_mem_dup(char **out, const char *s, size_t len, struct sl_err *err);

/* *out = a * b; false on overflow, and *out is untouched. */
bool sl_mul_size(size_t *out, size_t a, size_t b);
bool sl_add_size(size_t *out, size_t a, size_t b);

/* Blocks that were allocated and not freed; any thread. */
uint64_t sl_mem_live(void);

/* Tests only. Allocations so far in this process; and: let the n-th from now
 * fail (0 = none). */
uint64_t sl_mem_count(void);
void sl_mem_fail_nth(uint64_t n);

#endif
