/* tests/kern/main.c - the kernel tester (first part: exact products) */
#include <stdio.h>
#include <string.h>

#include "kern/kern.h"

enum { ROWS = 21, COLS = 35, TOKS = 3 };

int main(void)
{
    static uint16_t w[24 * COLS];
    static float x[TOKS * COLS], y[TOKS * ROWS], line[COLS];
    struct sl_kern k;
    int failed = 0;

    sl_kern_init(&k, SL_CPU_ALL);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < COLS; c++) { /* 1 + small / 8 */
            float f = (float)(1 + (r * 7 + c * 3) % 8) / 8;
            uint32_t u;

            memcpy(&u, &f, sizeof(u));
            w[(r / 8 * COLS + c) * 8 + r % 8] = (uint16_t)(u >> 16);
        }
    for (size_t i = 0; i < TOKS * COLS; i++)
        x[i] = (float)(1 + i % 5);
    k.mul[SL_BF16](y, ROWS, w, NULL, x, COLS, TOKS, ROWS, COLS);
    for (size_t t = 0; t < TOKS; t++)
        for (size_t r = 0; r < ROWS; r++) {
            double sum = 0;

            k.row[SL_BF16](line, w, NULL, r, COLS);
            for (size_t c = 0; c < COLS; c++)
                sum += (double)line[c] * (double)x[t * COLS + c];
            failed += (double)y[t * ROWS + r] != sum;
        }
    printf("%d passed, %d failed\n", TOKS * ROWS - failed, failed);
    return failed != 0;
}
