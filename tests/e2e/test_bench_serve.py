#!/usr/bin/env python3
"""sluice bench serve: what it sends, what it counts, what it says of failures.
Times are not looked at but for their arithmetic."""
import json
import os
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from e2e import Run, check, done, test  # noqa: E402
from serving import Server  # noqa: E402

S = None


def bench(*argv, rc=0):
    r = Run("bench", "serve", "--port", str(S.port), "--api-key", "secret",
            "--json", *argv)
    check(r.rc == rc, r)
    return json.loads(r.out) if rc == 0 else r


@test
def random_prompts():
    before = S.metric("vllm:prompt_tokens_total")
    j = bench("--num-prompts", "9", "--max-concurrency", "4",
              "--random-input-len", "33", "--random-output-len", "7")
    check((j["completed"], j["failed"]) == (9, 0), j)
    check((j["total_input_tokens"], j["total_output_tokens"]) == (297, 63), j)
    check(1 <= j["max_concurrent_requests"] <= 4, j)
    check(S.metric("vllm:prompt_tokens_total") - before == 297, "prompts")
    for k in ("ttft", "tpot", "itl", "e2el"):
        mean, median, std, p90, p99 = (
            j[f"{s}_{k}_ms"] for s in ("mean", "median", "std", "p90", "p99"))
        check(0 <= median <= p90 <= p99 and mean >= 0 and std >= 0, j)
    # 0 where this process was kept waiting and then read all at once.
    check(abs(j["tokens_per_s_per_user"] * j["mean_tpot_ms"] - 1000) < 1e-6 or
          j["mean_tpot_ms"] == j["tokens_per_s_per_user"] == 0, j)
    check(abs(j["output_throughput"] * j["duration"] - 63) < 1e-6, j)
    check(j["mean_ttft_ms"] <= j["mean_e2el_ms"], j)


@test
def prompts_of_a_file():
    with tempfile.NamedTemporaryFile("w") as f:
        f.write('one\n\n{"prompt": "two \\u00e9"}\n')
        f.flush()
        for backend in ("openai", "openai-chat"):
            j = bench("--num-prompts", "4", "--dataset-path", f.name,
                      "--backend", backend, "--request-rate", "200",
                      "--random-output-len", "3")
            check((j["completed"], j["total_output_tokens"]) == (4, 12), j)
        f.write("{}\n")
        f.flush()
        check("line 4" in bench("--dataset-path", f.name, rc=5).err)


@test
def failures_are_told():
    r = bench("--num-prompts", "2", "--random-input-len", "5000", rc=1)
    check("none of 2" in r.err and "maximum context length" in r.err, r)
    r = Run("bench", "serve", "--port", str(S.port))
    check(r.rc == 1 and "API key" in r.err, r)
    check(bench("--backend", "openai-chat", rc=2).err, "no texts")


S = Server("--api-key", "secret")
try:
    done()
finally:
    S.stop(signal.SIGKILL)
