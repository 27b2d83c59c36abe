#!/usr/bin/env python3
"""sluice bench: the report's arithmetic, and what it refuses. Times are not
tested."""
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from e2e import Run, check, done, test  # noqa: E402

TMP = tempfile.TemporaryDirectory()


def bench(*args):
    r = Run("bench", *args, "--json")
    check(r.rc == 0, r)
    return json.loads(r.out)


@test
def forward():
    j = bench("forward", "demo", "--rows", "1,4,8,9", "--samples", "1")
    rows = j["rows"]
    check([r["rows"] for r in rows] == [1, 4, 8, 9], rows)
    check(rows[0]["cost"] == 1, rows)
    for r in rows:
        check(abs(r["rows_per_s"] * r["ms"] - 1e3 * r["rows"]) < 1, r)
        check(r["best_ms"] <= r["ms"] and r["peak_fraction"] > 0, r)
        # Weights are read once whatever the rows; 2 bytes each, in bf16.
        check(rows[0]["bytes"] <= r["bytes"] < j["weight_bytes"], r)
    per_row = [r["gmac_per_s"] * r["ms"] / r["rows"] for r in rows]
    check(max(per_row) - min(per_row) < 1e-6 * max(per_row), per_row)
    check(all(r["experts"] == 0 for r in rows), rows)


@test
def experts_are_counted():
    with open("models/demo-moe/config.json") as f:
        conf = json.load(f)
    conf = conf.get("text_config", conf)
    used, of = conf["num_experts_per_tok"], conf["num_experts"]
    rows = bench("forward", "models/demo-moe", "--rows", "1,8", "--samples",
                 "1")["rows"]
    check(rows[0]["experts"] == used < rows[1]["experts"]
          <= min(of, 8 * used), rows)
    check(rows[0]["bytes"] < rows[1]["bytes"], rows)
    # It was trained for less context than is usual.
    j = bench("speculate", "models/demo-moe", "--samples", "1", "--max-tokens",
              "16", "--num-prompts", "1", "--drafter", "mtp")
    ways = {w["depth"]: w["experts"] for w in j["ways"]}
    check(ways[0] == used < ways[1] < ways[7] <= min(of, 8 * used), ways)


@test
def depth_reads_keys_and_values():
    def bytes_at(depth, kv):
        return bench("forward", "demo", "--rows", "1", "--samples", "1",
                     "--depth", str(depth), "--kv-dtype", kv)["rows"][0]["bytes"]

    # One full layer, 2 heads of 64, keys and values.
    check(bytes_at(1000, "bf16") - bytes_at(0, "bf16") == 1000 * 512, "bf16")
    check(bytes_at(1000, "fp32") - bytes_at(0, "fp32") == 1000 * 1024, "fp32")


@test
def roofline():
    j = bench("roofline")
    for name in ("read_gbs", "int8_gmacs", "fp32_gmacs"):
        check(len(j[name]) == 2 and min(j[name]) > 0, j)


@test
def load():
    j = bench("load", "demo")
    check(j["model"] == "demo" and j["bytes"] > 1e6 and j["seconds"] > 0, j)


@test
def refusals():
    for want, *args in (
            ("'forward'",),
            ("'nothing'", "nothing"),
            ("--load-format dummy", "forward", "--shape", "qwen3.5-0.8b"),
            ("qwen3.8-27b", "forward", "--shape", "x", "--load-format", "dummy"),
            ("no model", "forward"),
            ("--rows", "forward", "demo", "--rows", "1,,2"),
            ("--rows", "forward", "demo", "--rows", "0"),
            ("--rows", "forward", "demo", "--rows", ",".join("1" * 17)),
            ("--depth", "forward", "demo", "--depth", "40000"),
            ("too many", "roofline", "x"),
            ("--rows means nothing", "roofline", "--rows", "3"),
            ("--dtype means nothing", "serve", "--dtype", "q4"),
            ("--num-prompts means nothing", "forward", "demo",
             "--num-prompts", "3"),
            ("shape", "load", "--shape", "qwen3.5-0.8b", "--load-format",
             "dummy")):
        r = Run("bench", *args)
        check(r.rc == 2 and want in r.err and r.out == "", r)


@test
def speculate():
    """Counts are checked, times are not."""
    small = ("--samples", "1", "--max-tokens", "24", "--num-prompts", "2",
             "--threads", "1")
    j = bench("speculate", "demo", *small)
    ways = {(w["drafter"], w["depth"]): w for w in j["ways"]}
    check(("plain", 0) in ways and ("auto", 0) in ways and
          {d for d, _ in ways} == {"plain", "mtp", "ngram", "dflash", "auto"},
          ways.keys())
    check(ways["plain", 0]["tokens_per_round"] == 1 ==
          ways["plain", 0]["break_even"] == ways["plain", 0]["speedup"], j)
    for w in j["ways"]:
        check(1 <= w["tokens_per_round"] <= 1 + max(w["depth"], 15), w)
        at = w["accept_by_position"]
        check(len(at) >= w["depth"] and all(0 <= a <= 1 for a in at), w)
        check(abs(w["ms_per_token"] * w["tokens_per_s"] - 1e3) < 1e-6, w)
        check((w["step"] > 0) == (w["depth"] > 0), w)
        check(w["speedups"] == [w["speedup"]] and 0 < w["beside"] < 1, w)
        check((w["pass"] > 0) == (w["drafter"] in ("mtp", "dflash")), w)
    rules = {(r["drafter"], r["rule"]): r for r in j["rules"]}
    check(len(rules) == 9, j["rules"])
    for d in ("mtp", "ngram", "dflash"):
        exact, len_, rel = (rules[d, r] for r in
                            ("exact", "lenient 0.7", "relaxed 0.3"))
        check(exact["mean_tv"] == 0 < exact["pairs"], exact)
        check(exact["pairs"] == len_["pairs"] == rel["pairs"], rules)
        check(len_["tokens_per_round"] >= exact["tokens_per_round"] <=
              rel["tokens_per_round"], rules)
    # A block of four drafts three: one way, not two alike.
    short = os.path.join(TMP.name, "short")
    shutil.copytree("models/demo/drafter", short)
    with open(os.path.join(short, "config.json")) as f:
        conf = json.load(f)
    conf["block_size"] = 4
    with open(os.path.join(short, "config.json"), "w") as f:
        json.dump(conf, f)
    j = bench("speculate", "demo", *small, "--drafter", "dflash",
              "--draft-model", short)
    check([(w["drafter"], w["depth"]) for w in j["ways"]] ==
          [("plain", 0), ("dflash", 3)], j)
    # An oracle that is always right keeps all that it drafts, one that is
    # always wrong nothing.
    for a, keep in (("1", 1), ("0", 0)):
        j = bench("speculate", "demo", *small, "--synthetic-acceptance", a)
        check(j["synthetic"] and not j["rules"], j)
        for w in j["ways"]:
            check(w["drafter"] != "ngram" and
                  all(x == keep for x in w["accept_by_position"]), (a, w))
    r = Run("bench", "speculate", "demo", *small, "--synthetic-acceptance",
            "0.5")
    check("SYNTHETIC" in r.out, r)
    # The controller against plain: several users, random prompts.
    j = bench("speculate", "demo", *small, "--drafter", "auto",
              "--max-concurrency", "3", "--random-input-len", "20",
              "--temperature", "1.5")
    check([w["drafter"] for w in j["ways"]] == ["plain", "auto"] and
          not j["rules"], j)
    j = bench("speculate", "demo", *small, "--drafter", "mtp")
    check({w["drafter"] for w in j["ways"]} == {"plain", "mtp"}, j)
    path = os.path.join(TMP.name, "prompts")
    for text, word in (("{}\n", "neither text nor"), ("\n", "no prompt")):
        with open(path, "w") as f:
            f.write(text)
        r = Run("bench", "speculate", "demo", "--dataset-path", path)
        check(r.rc != 0 and word in r.err and not r.out, r)
    # Answers that end at once, all of them, or one of two.
    ends = os.path.join(TMP.name, "ends")
    shutil.copytree("models/demo", ends)
    r = Run("run", "demo", "Why?", "--temp", "0", "--json", "--max-tokens", "1")
    with open(os.path.join(ends, "generation_config.json"), "w") as f:
        json.dump({"eos_token_id": json.loads(r.out)["ids"][0]}, f)
    natural = (*small, "--drafter", "mtp", "--no-ignore-eos",
               "--dataset-path", path)
    with open(path, "w") as f:
        f.write("Why?\n")
    r = Run("bench", "speculate", ends, *natural)
    check(r.rc == 2 and "longer than a token" in r.err and not r.out, r)
    with open(path, "a") as f:
        f.write("Tell me a story about a fox and a river.\n")
    j = bench("speculate", ends, *natural)
    check(all(0 < w["tokens_per_s"] < 1e7 and w["speedup"] > 0
              for w in j["ways"]), j)
    for argv, word in ((("--synthetic-acceptance", "2"), "synthetic"),
                       (("--max-tokens", "2"), "less than 8"),
                       (("--samples", "101"), "100"),
                       (("--max-concurrency", "65"), "users"),
                       (("--random-input-len", "5000"), "random"),
                       (("--synthetic-acceptance", "0.5",
                         "--max-concurrency", "2"), "one user"),
                       (("--synthetic-acceptance", "0.5", "--temperature",
                         "1"), "greedy"),
                       (("--synthetic-acceptance", "0.5", "--drafter",
                         "ngram"), "--drafter ngram"),
                       (("--drafter", "none"), "nothing to compare"),
                       (("--rows", "4"), "rows")):
        r = Run("bench", "speculate", "demo", *argv)
        check(r.rc == 2 and word in r.err and not r.out, (argv, r))


done()
