#!/usr/bin/env python3
"""Hashes for tests/unit/test_quantise.c: what the blocks of GGUF's types mean
according to the `gguf` package. Blocks are bytes of splitmix64 with small
scales put in, so that the test makes the same ones.

Usage: make_quant.py        (needs numpy and gguf; prints rows of the table)
"""
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize

MASK = (1 << 64) - 1
#        type    blocks bytes  offsets of f16 scales
TYPES = [("Q8_0", 8, 34, [0]), ("Q6_K", 2, 210, [208]),
         ("Q5_K", 2, 176, [0, 2]), ("Q4_K", 2, 144, [0, 2]),
         ("Q4_0", 8, 18, [0])]


def splitmix(state):
    while True:
        state = (state + 0x9e3779b97f4a7c15) & MASK
        z = state
        z = ((z ^ z >> 30) * 0xbf58476d1ce4e5b9) & MASK
        z = ((z ^ z >> 27) * 0x94d049bb133111eb) & MASK
        yield z ^ z >> 31


def fnv(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = (h ^ b) * 0x100000001b3 & MASK
    return h


for name, n, size, scales in TYPES:
    r = splitmix(size)
    b = np.array([next(r) & 255 for _ in range(n * size)],
                 dtype=np.uint8).reshape(n, size)
    for k in range(n):
        for at in scales:  # halves of 2^-10 to 2^-3, either sign
            h = 0x1400 + next(r) % 0x1c00 | (next(r) & 1) << 15
            b[k, at:at + 2] = h & 255, h >> 8
    y = dequantize(b.reshape(1, -1), getattr(T, name)).astype("<f4").ravel()
    print(f"{{SL_{name}, {n}, {{{scales[0]}, {scales[-1]}}}, "
          f"{fnv(y.tobytes()):#018x}, {y[0]!s}f, {y[-1]!s}f}},")
