/* text/unidata.h - what the tokenizer knows about code points
 *
 * A table of our own, although PCRE2 and utf8proc know all this, because each
 * of them, and each version of each, knows another Unicode. Token ids would
 * then depend on the distribution. The reference has one answer: letters,
 * marks and numbers as of Unicode 16, normalisation as of Unicode 9. (The
 * normalisation of a character never changes once it is assigned, so for
 * what the reference knows, any utf8proc gives the right mapping. What it does
 * not know has no NFC bit here, and is never shown to utf8proc.)
 */
#ifndef SL_TEXT_UNIDATA_H
#define SL_TEXT_UNIDATA_H

#include <stdint.h>

#define SL_UNI_MAX 0x110000 /* code points */

enum sl_uni {
    SL_UNI_LETTER = 1,
    SL_UNI_MARK = 2,
    SL_UNI_NUMBER = 4,
    SL_UNI_SPACE = 8,       /* White_Space */
    SL_UNI_NFC_BASE = 16,   /* may compose with what follows */
    SL_UNI_NFC_ACTIVE = 32, /* may reorder, change, or join what precedes */
};

/* bits [SL_UNI_MAX], cleared by the caller: one mask per code point. */
void sl_unidata_fill(uint8_t *bits);

#endif
