/* text/nfc.h - Unicode normalisation form C in linear time
 *
 * Most text is in NFC already and is returned as it is, at the speed of a
 * scan. What is not is normalised in its own bytes only: a base character and
 * the combining ones behind it.
 */
#ifndef SL_TEXT_NFC_H
#define SL_TEXT_NFC_H

#include "base/buf.h"

/* Work space of one caller; init fills it, run grows it. */
struct sl_nfc {
    struct sl_buf out;
    int32_t *cp, *tmp; /* [cap] */
    size_t cap;
};

void sl_nfc_init(struct sl_nfc *w);
void sl_nfc_deinit(struct sl_nfc *w);

/* *dst, *dst_len = NFC of s[0..len), which is valid UTF-8. Borrowed from s or
 * from `w`, until the next call. `bits` is the table of unidata.h. */
int sl_nfc_run(struct sl_nfc *w, const uint8_t *bits, const char *s, size_t len,
               const char **dst, size_t *dst_len, struct sl_err *err);

#endif
