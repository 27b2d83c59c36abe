#!/usr/bin/env python3
"""The embedded model: what it says greedily is what the reference library says,
as far as the reference is sure of it."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from e2e import Run, check, done, test  # noqa: E402

MODEL = "models/demo"
SURE = 0.05  # lead in logits of the best token; bf16 inputs move it by less
LEAST = 8  # tokens that must be compared in every case

with open("tests/golden/demo.json") as f:
    CASES = json.load(f)["cases"]


@test
def greedy_as_the_reference():
    check(len(CASES) == 3, CASES)
    for c in CASES:
        r = Run("run", MODEL, c["text"], "--raw", "--json", "--temperature", "0",
                "--max-tokens", str(len(c["greedy"])), "--ignore-eos")
        check(r.rc == 0, r)
        got = json.loads(r.out)
        check(got["usage"]["prompt_tokens"] == len(c["ids"]), (c["name"], got))
        n = next((i for i, m in enumerate(c["margin"]) if m < SURE), len(c["greedy"]))
        check(n >= LEAST and got["ids"][:n] == c["greedy"][:n], (c["name"], n, got["ids"], c["greedy"]))


done()
