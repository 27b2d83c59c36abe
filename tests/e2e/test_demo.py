#!/usr/bin/env python3
"""The embedded model: what it says greedily is what the reference library says,
as far as the reference is sure of it."""
import json
import os
import shlex
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


@test
def the_first_question_of_the_readme_ends():
    """To a question it was not made for, this model can repeat itself until its
    context is full."""
    with open("README.md") as f:
        line = next(s for s in f if "build/sluice run DIR" in s)
    argv = shlex.split(line, comments=True)[1:]
    check("-n" in argv, line)
    argv[argv.index("DIR")] = MODEL
    for seed in range(1, 9):
        r = Run(*argv, "--seed", str(seed), "--json")
        check(r.rc == 0 and json.loads(r.out)["finish"] == "stop", r)


ASK = ["run", MODEL, "Tell me a story about a fox and a river.", "--json",
       "--temperature", "0", "--max-tokens", "48"]


def drafts(*more):
    r = Run(*ASK, *more)
    check(r.rc == 0, r)
    j = json.loads(r.out)
    return j["drafts"], j["ids"], r


@test
def a_ladder_says_how_many():
    plain, ids, _ = drafts("--speculate", "off")
    check(plain["proposed"] == 0, plain)
    for ladder, depth in (("1:3", 2), ("1:8", 7), ("1:1", 0)):
        d, got, _ = drafts("--spec-ladder", ladder, "--drafter", "mtp")
        check(got == ids, ladder)
        # Every round but the first, and those near the end, has so many.
        check(depth * (d["rounds"] - 2 - depth) <= d["proposed"]
              <= depth * d["rounds"], (ladder, d))
        check((d["proposed"] > 0) == (depth > 0), d)
        check(d["plain_tokens_per_s"] > 0 and d["break_even"] > 0, d)
    # Where the named drafter's context ends the head goes on, as deep.
    d, got, _ = drafts("--spec-ladder", "1:5:dflash", "--dflash-max-context",
                       "40", "--dflash-hysteresis", "5")
    check(got == ids and d["proposed"] >= 4 * (d["rounds"] - 6), d)


@test
def a_block_drafter_has_a_limit():
    block = ("--drafter", "dflash", "--draft-depth", "7")
    free, ids, _ = drafts(*block)
    cut, got, _ = drafts(*block, "--dflash-max-context", "40",
                         "--dflash-hysteresis", "5")
    none, got2, _ = drafts(*block, "--dflash-max-context", "40",
                           "--dflash-hysteresis", "39")
    check(ids == got == got2, "the text changed")
    check(free["proposed"] > cut["proposed"] > none["proposed"] == 0,
          (free, cut, none))


@test
def rounds_in_the_log():
    d, _, r = drafts("--draft-depth", "2", "--drafter", "mtp", "--log-level",
                     "info", "--spec-log-rounds", "4")
    check(r.err.count("speculation rounds=4") >= (d["rounds"] - 2) // 4 > 0, r)
    check("speculation" not in drafts("--log-level", "info")[2].err)


@test
def drafting_that_cannot_be():
    for argv, word in (
            (("--spec-ladder", "2:8,1:8"), "must rise"),
            (("--spec-ladder", "8"), "users:rows"),
            (("--spec-ladder", "1:99"), "64"),
            (("--spec-ladder", "1:16"), "lower it to 8 rows"),
            (("--spec-ladder", "1:4:mtp", "--drafter", "ngram"), "leaves out"),
            (("--spec-ladder", "1:2", "--speculate", "off"), "nobody drafts"),
            (("--accept", "relaxed", "--speculate", "off"), "--accept"),
            (("--mtp-prime", "5", "--drafter", "ngram"), "--mtp-prime"),
            (("--draft-dtype", "q8", "--drafter", "none"), "--drafter none"),
            (("--draft-depth", "99"), "draft-depth"),
            (("--spec-disable-ratio", "-1"), "spec-disable-ratio"),
            (("--spec-log-rounds", "x"), "spec-log-rounds"),
            (("--accept", "lenient", "--lenience", "0"), "lenience"),
            (("--accept", "lenient", "--lenience", "-1"), "lenience"),
            (("--dflash-max-context", "1000"), "must be below"),
            (("--dflash-hysteresis", "10"), "nothing uses it"),
            (("--dflash-max-context", "5000", "--drafter", "mtp"),
             "no block drafter")):
        r = Run(*ASK, *argv)
        check(r.rc == 2 and word in r.err and not r.out, (argv, r))


done()
