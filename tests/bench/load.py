#!/usr/bin/env python3
"""A server under load: four figures, each beside its goal.

    make load                                  all of them, 10 to 30 minutes
    tests/bench/load.py [users] [gap] [first] [shares] [--model 0.8b|demo]
                        [--threads N] [--turns N] [--json]

users   32 of them, 128 tokens in and 128 out, as `sluice bench serve` sends
        them: rows per second of the server against as many threads that call
        the library (callers.c), turn by turn; and the part of the time that
        was spent in steps and drafters.
gap     8 answers run; then a prompt of 16,384 tokens is read beside them: the
        99th percentile of the gaps in each answer meanwhile, against their
        median before.
first   the first token for a prompt of 50 tokens while one of 16,384 is read,
        of the same client and of another one, against the same alone.
shares  four clients send prompts, one of them with six times as many streams as
        the others: the rows of whoever has most, against a fourth of all.

"0.8b" has the dimensions of that model and random weights in 4 bits, "demo" is
the embedded model. Without --model, users takes both, the others 0.8b. The exit
status is 1 when a goal was missed. These are times: no test, and nothing else
may run on the machine. `make load` builds what it needs; or else
$SLUICE is the program and $CALLERS the other one."""
import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../e2e"))
import serving  # noqa: E402
from e2e import CACHE, SLUICE, Run, check, environment  # noqa: E402
from serving import GOLD, Server, wait_for  # noqa: E402

serving.LIMIT_S = 1800  # a prompt of 16,384 tokens on a slow machine, and more
CALLERS = os.environ.get("CALLERS", "build/rel/tests/bench/callers")
KEYS = "abcd"  # a client each
VOCAB = 768  # random ids below: every tokenizer has so many
CONTEXT = 20480  # a long prompt, or an answer that does not end before its time
LONG, SHORT, ENDLESS = 16384, 50, 16000  # tokens
USERS, IN, OUT = 32, 128, 128
REQUESTS = {"0.8b": 96, "demo": 160}  # of a turn
TALKERS, BEFORE_S, READ_S = 8, 15, 60
TRIES = 5
STREAMS, SHARE_IN, SHARE_S = {"a": 12, "b": 2, "c": 2, "d": 2}, 128, 20
SHAPE = {"architectures": ["Qwen3_5ForCausalLM"], "vocab_size": 248320,
         "max_position_embeddings": 262144, "hidden_size": 1024,
         "num_hidden_layers": 24, "num_attention_heads": 8,
         "num_key_value_heads": 2, "linear_num_value_heads": 16,
         "intermediate_size": 3584, "tie_word_embeddings": True,
         "rope_parameters": {"rope_theta": 1e7}}
ARGS = None
rows = []


def tell(figure, model, value, goal, **more):
    """`goal` is an upper bound, or a lower one below 1."""
    sign, met = ("<=", value <= goal) if goal >= 1 else (">=", value >= goal)
    rows.append({"figure": figure, "model": model, "value": value, "goal": goal,
                 "met": met, **more})
    if not ARGS.json:
        said = ", ".join(f"{k} {show(v)}" for k, v in more.items())
        print(f"{figure:<26} {model:<5} {value:6.3f}  {sign} {goal:<4} "
              f"{'met' if met else 'MISSED':<7} {said}", flush=True)


def show(v):
    return " ".join(map(show, v)) if isinstance(v, list) else f"{v:.4g}"


class Stream(threading.Thread):
    """One request. `times`: when its events came."""

    def __init__(self, server, n_in, n_out, key="a"):
        super().__init__(daemon=True)
        body = json.dumps({"prompt": [random.randrange(VOCAB)
                                      for _ in range(n_in)],
                           "max_tokens": n_out, "ignore_eos": True,
                           "stream": True}).encode()
        self.times, self.begun = [], time.monotonic()
        self.s = server.connect()
        self.s.sendall(b"POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer "
                       b"%s\r\nContent-Type: application/json\r\nConnection: "
                       b"close\r\nContent-Length: %d\r\n\r\n%s"
                       % (key.encode(), len(body), body))
        self.start()

    def run(self):
        try:
            for line in self.s.makefile("rb"):
                if line.startswith(b"data: {") and b'"error"' not in line:
                    self.times.append(time.monotonic())
        except OSError:
            pass  # we left

    def first(self):
        """Seconds until its first token."""
        self.join(serving.LIMIT_S)
        check(self.times, "a request has no answer")
        return self.times[0] - self.begun

    def leave(self):
        self.s.shutdown(2)
        self.join()
        self.s.close()


def settle(s, streams):
    for x in streams:
        x.leave()
    wait_for(lambda: not s.metric("vllm:num_requests_running"),
             "requests do not end")


class Callers:
    """The library without a server; see callers.c."""

    def __init__(self, path, model):
        self.p = subprocess.Popen(
            [CALLERS, path, os.path.join(CACHE, "sluice"), str(CONTEXT),
             str(ARGS.threads), "stored" if model == "demo" else "dummy"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment())

    def turn(self, requests):
        self.p.stdin.write(f"{USERS} {requests} {IN} {OUT}\n")
        self.p.stdin.flush()
        said = self.p.stdout.readline()
        check(said, f"{CALLERS} has ended")
        return requests * (IN + OUT) / float(said)


def served(s, requests):
    """Rows per second, and the parts of the time in the model and in drafters."""
    names = "sluice:step_seconds_total", "sluice:draft_seconds_total"
    before = [s.metric(n) for n in names]
    r = Run("bench", "serve", "--port", str(s.port), "--api-key", "a", "--json",
            "--num-prompts", str(requests), "--max-concurrency", str(USERS),
            "--random-input-len", str(IN), "--random-output-len", str(OUT),
            limit_s=serving.LIMIT_S)
    check(r.rc == 0, r)
    j = json.loads(r.out)
    check(j["completed"] == requests and
          j["total_output_tokens"] == requests * OUT, j)
    return [requests * (IN + OUT) / j["duration"],
            *((s.metric(n) - b) / j["duration"] for n, b in zip(names, before))]


def users(s, model, path):
    lib, n = Callers(path, model), REQUESTS[model]
    got = [[*served(s, n), lib.turn(n)]  # the first one is for warming up
           for _ in range(1 + ARGS.turns)]
    lib.p.communicate()
    server, steps, drafts, library = map(list, zip(*got[1:]))
    each = [a / b for a, b in zip(server, library)]
    tell("users: of the library", model, statistics.median(each), 0.9,
         server_rows_per_s=server, library_rows_per_s=library)
    both = [a + b for a, b in zip(steps, drafts)]
    tell("users: steps and drafters", model, statistics.median(both), 0.9,
         turns=both, drafters=drafts)


def gaps(streams, t0, t1):
    """Of each, those that ended between the two times; in milliseconds."""
    return sorted((b - a) * 1e3 for x in streams
                  for a, b in zip(x.times, x.times[1:]) if t0 < b <= t1)


def gap(s, model, _):
    talk = [Stream(s, IN, ENDLESS) for _ in range(TALKERS)]
    wait_for(lambda: all(x.times for x in talk), "answers do not begin")
    turns = []
    for _ in range(ARGS.turns):
        t0 = time.monotonic()
        time.sleep(BEFORE_S)
        t1 = time.monotonic()
        long = Stream(s, LONG, 1)
        long.join(READ_S)
        t2 = long.times[0] if long.times else time.monotonic()
        check(all(x.is_alive() for x in talk), "an answer ended too early")
        long.leave()
        before, beside = gaps(talk, t0, t1), gaps(talk, t1, t2)
        check(before and beside, "no token came in time")
        turns.append([beside[len(beside) * 99 // 100],
                      statistics.median(before), statistics.median(beside),
                      before[len(before) * 99 // 100], t2 - t1])
    settle(s, talk)
    late, before, beside, late_before, read = map(list, zip(*turns))
    each = [a / b for a, b in zip(late, before)]
    tell("gap: p99 of median before", model, statistics.median(each), 2,
         turns=each, median_before_ms=before, p99_before_ms=late_before,
         median_ms=beside, p99_ms=late, for_s=read)


def behind(s, key):
    """The first token of a short prompt while a long one of "a" is read."""
    long = Stream(s, LONG, 1)
    time.sleep(random.uniform(0.5, 1))
    t = Stream(s, SHORT, 1, key).first()
    check(not long.times, "the long prompt was read too soon")
    settle(s, [long])
    return t


def first(s, model, _):
    Stream(s, SHORT, 1).first()
    alone = [Stream(s, SHORT, 1).first() for _ in range(2 * TRIES)]
    unit = statistics.median(alone)
    got = {"a": [], "b": []}
    for _ in range(TRIES):
        for key in got:
            got[key].append(behind(s, key) / unit)
    for key, who in ("a", "same"), ("b", "other"):
        tell(f"first: {who} client", model, statistics.median(got[key]), 3,
             worst=max(got[key]), tries=got[key], alone_ms=unit * 1e3)


def shares(s, model, _):
    """Prompts, as all of them want whole steps; an answer wants a row."""
    had, over = dict.fromkeys(KEYS, 0), threading.Event()

    def client(key):
        while not over.is_set():
            Stream(s, SHARE_IN, 1, key).first()
            if not over.is_set():
                had[key] += SHARE_IN

    t = [threading.Thread(target=client, args=[k])
         for k, n in STREAMS.items() for _ in range(n)]
    for x in t:
        x.start()
    time.sleep(SHARE_S)
    over.set()
    for x in t:
        x.join()
    tell("shares: most of a fourth", model,
         max(had.values()) * len(had) / max(1, sum(had.values())), 2,
         rows_per_s=[n / SHARE_S for n in had.values()])


def measure(model, parts, tmp):
    path, more = "models/demo", []
    if model != "demo":
        path, more = tmp, ["--load-format", "dummy", "--dtype", "q4"]
        pathlib.Path(tmp, "config.json").write_text(json.dumps(SHAPE))
        pathlib.Path(tmp, "tokenizer.json").symlink_to(
            GOLD / "tokenizer/tokenizer.json")
    s = Server("--threads", str(ARGS.threads), "--pin", "--api-key",
               ",".join(KEYS), "--max-model-len", str(CONTEXT), *more,
               model=path)
    try:
        for part in parts:
            part(s, model, path)
    finally:
        s.stop(signal.SIGKILL)


def main():
    global ARGS
    all_parts = {f.__name__: f for f in (users, gap, first, shares)}
    # Whoever ends this ends what it started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("part", nargs="*", help=", ".join(all_parts) + "; or all")
    p.add_argument("--model", choices=["0.8b", "demo"])
    p.add_argument("--threads", type=int, default=0, help="0: one per core")
    p.add_argument("--turns", type=int, default=3, help="of users and gap")
    p.add_argument("--json", action="store_true")
    ARGS = p.parse_args()
    for name in ARGS.part:
        if name not in all_parts:
            p.error(f"'{name}' is not one of {', '.join(all_parts)}")
    names = ARGS.part or list(all_parts)
    if not ARGS.json:
        print(subprocess.run([SLUICE, "version"], capture_output=True, text=True,
                             env=environment()).stdout, end="")
        print(f"cores      {os.cpu_count()}, load before {os.getloadavg()[0]}")
    for model, some in ((ARGS.model or "0.8b", names),
                        ("demo", [] if ARGS.model else ["users"])):
        parts = [all_parts[n] for n in some if n in names]
        if parts:
            with tempfile.TemporaryDirectory() as tmp:
                measure(model, parts, tmp)
    if ARGS.json:
        print(json.dumps(rows))
    sys.exit(0 if all(r["met"] for r in rows) else 1)


main()
