#!/usr/bin/env python3
"""sluice bench serve --replay: three agents' conversations, of which the server
reads what is new and little else; the accounts agree with the server's own."""
import json
import os
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from e2e import Run, check, done, test  # noqa: E402
from serving import Server  # noqa: E402

FILE = "doc/examples/agents.jsonl"
PAGE = 64


def replay(s, path=FILE, *argv, rc=0):
    r = Run("bench", "serve", "--replay", path, "--port", str(s.port),
            "--json", *argv)
    check(r.rc == rc, r)
    return json.loads(r.out) if rc == 0 else r


def longest(s):
    """Tokens of the longest message of the recording."""
    texts = [m["content"] for line in open(FILE)
             for m in json.loads(line).get("messages",
                                           json.loads(line).get("add"))]
    return max(s.post("/tokenize", {"prompt": t})["count"]
               for t in sorted(texts, key=len)[-3:])


WARM = Server(model="models/demo")
COLD = Server("--prefix-cache", "off", model="models/demo")


@test
def little_is_read_twice():
    before = WARM.metric("vllm:prompt_tokens_cached_total")
    j = replay(WARM)
    turns = j["turns"]
    check(len(turns) == sum(1 for _ in open(FILE)), len(turns))
    limit = PAGE + longest(WARM)
    for t in turns:
        check(t["read_tokens"] == t["prompt_tokens"] - t["cached_tokens"], t)
        check(1 <= t["least_tokens"] <= t["new_tokens"] <= t["prompt_tokens"],
              t)
        check(t["again_tokens"] == t["read_tokens"] - t["least_tokens"], t)
        check(t["again_tokens"] <= limit, (t, limit))
        check(0 < t["ttft_ms"] <= t["e2el_ms"], t)
    # What is only added to is read up to the last turn of the template.
    for t in turns:
        if t["conversation"] == "thoughts":
            check(t["again_tokens"] <= PAGE, t)
    check(j["again_tokens"] == sum(t["again_tokens"] for t in turns), j)
    check(j["most_again_tokens"] == max(t["again_tokens"] for t in turns), j)
    check(WARM.metric("vllm:prompt_tokens_cached_total") - before ==
          j["cached_tokens"] > j["prompt_tokens"] // 2, j)


@test
def without_a_cache_all_is_read():
    j = replay(COLD)
    check(j["cached_tokens"] == 0 and j["read_tokens"] == j["prompt_tokens"],
          j)
    check(j["again_tokens"] == j["prompt_tokens"] - j["least_tokens"] > 0, j)
    text = Run("bench", "serve", "--replay", FILE, "--port", str(COLD.port))
    check(text.rc == 0 and "18 turns:" in text.out, text)
    check(len(text.out.splitlines()) == 20, text)


@test
def calls_are_a_part_of_the_history():
    tool = {"type": "function", "function": {
        "name": "get_weather", "parameters": {
            "type": "object", "required": ["city"],
            "properties": {"city": {"type": "string", "maxLength": 12}}}}}
    lines = [{"tools": [tool], "tool_choice": "required", "max_tokens": 200,
              "messages": [{"role": "user", "content": "weather " * 150}]},
             {"add": [{"role": "tool", "content": "sunny"}],
              "tool_choice": "none", "max_tokens": 4}]
    with tempfile.NamedTemporaryFile("w") as f:
        f.write("\n".join(json.dumps(x) for x in lines))
        f.flush()
        first, second = replay(WARM, f.name)["turns"]
    # The call is in the second prompt, behind all of the first.
    check(second["prompt_tokens"] > first["prompt_tokens"] +
          first["output_tokens"], (first, second))


@test
def choices_are_read_once():
    ids = [300 + 7 * i % 500 for i in range(400)]
    name = 'vllm:prompt_tokens_by_source_total{model_name="demo",engine="0",' \
           'source="local_compute"}'
    for n, read in ((1, 400), (4, 400 + 3)):
        before = WARM.metric(name)
        ids[0] += 1
        j = WARM.post("/v1/completions", {"prompt": ids, "n": n, "seed": 1,
                                          "max_tokens": 3})
        check(len(j["choices"]) == n, j)
        check(j["usage"]["prompt_tokens_details"]["cached_tokens"] == 0, j)
        check(j["usage"]["prompt_tokens"] == 400, j)
        check(WARM.metric(name) - before == read, (n, j["usage"]))


@test
def recordings_that_are_none():
    for lines, word in (("", "no turn"), ("{}\n", "line 1"),
                        ('{"messages":[],"add":[]}', "line 1"),
                        ('{"add":[]}', "nothing yet to add to"),
                        ('\n{"messages":[]', "line 2"),
                        ('{"messages":[{"role":"nobody","content":"x"}]}',
                         "turn 1")):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write(lines)
            f.flush()
            r = Run("bench", "serve", "--replay", f.name, "--port",
                    str(COLD.port))
            check(r.rc != 0 and word in r.err, (lines, r))
    r = replay(COLD, FILE, "--num-prompts", "3", rc=2)
    check("--num-prompts" in r.err, r)
    r = Run("bench", "serve", "--replay", FILE, "--port", "1")
    check(r.rc != 0 and "turn 1" in r.err, r)


try:
    done()
finally:
    WARM.stop(signal.SIGKILL)
    COLD.stop(signal.SIGKILL)
