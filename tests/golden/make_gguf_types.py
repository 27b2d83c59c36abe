#!/usr/bin/env python3
"""Vectors of the block formats of GGUF: tests/golden/quant/TYPE.bin.

Each file is four random blocks, then what the `gguf` package (its numpy
dequantiser, version 0.19) makes of them as little-endian fp32. Needs gguf and
numpy; run in the root of the repository. Tests need neither.
"""
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

N = 4
# Where a block has f16 numbers: random bits there would often be NaN.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0],
          "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
          "MXFP4": []}
rng = np.random.default_rng(5)
for name, at in HALVES.items():
    t = T[name]
    _, size = GGML_QUANT_SIZES[t]
    b = rng.integers(0, 256, size=(N, size), dtype=np.uint8)
    for k in at:
        v = np.float16(rng.standard_normal(N) * 0.01)
        b[:, k:k + 2] = v.view(np.uint8).reshape(N, 2)
    if name == "MXFP4":
        b[:, 0] = [0, 1, 117, 249]
    y = dequantize(b, t).astype("<f4")
    with open(f"tests/golden/quant/{name.lower()}.bin", "wb") as f:
        f.write(b.tobytes() + y.tobytes())
