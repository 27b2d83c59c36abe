/* base/cur.h - a reader over bytes we do not trust
 *
 * After the first failure every later read returns zero, so a parser checks
 * `bad` once, at the end. All numbers are little endian.
 */
#ifndef SL_BASE_CUR_H
#define SL_BASE_CUR_H

#include "base/base.h"

struct sl_cur {
    const unsigned char *p, *end;
    bool bad;
};

void sl_cur_init(struct sl_cur *c, const void *p, size_t len);
size_t sl_cur_left(const struct sl_cur *c);
uint8_t sl_cur_u8(struct sl_cur *c);
uint16_t sl_cur_u16(struct sl_cur *c);
uint32_t sl_cur_u32(struct sl_cur *c);
uint64_t sl_cur_u64(struct sl_cur *c);

/* Borrow the next n bytes; NULL and `bad` when fewer are left. */
const void *sl_cur_take(struct sl_cur *c, size_t n);

#endif
