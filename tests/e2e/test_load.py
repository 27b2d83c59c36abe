#!/usr/bin/env python3
"""Many at once, and clients that misbehave: every answer that is completed is
the one that is given alone, to the bit, and nobody else notices a fault.

$SL_TEST_FULL asks for 200 requests instead of 40."""
import http.client
import json
import os
import random
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(__file__))
from e2e import check, done, test  # noqa: E402
from serving import LIMIT_S, Server, wait_for  # noqa: E402

C, P = "/v1/chat/completions", "/v1/completions"
N = 200 if os.environ.get("SL_TEST_FULL") else 40
AT_ONCE = 32
S = None


def requests():
    """(path, body) of N requests of every kind; always the same ones."""
    r = random.Random(20261129)
    out = []
    for i in range(N):
        body = {"max_tokens": r.choice([1, 5, 20, 40]), "seed": i,
                "temperature": r.choice([0, 0.7, 1, 1.5]),
                "ignore_eos": r.random() < 0.7}
        body.update(r.choice([
            {}, {"top_p": 0.8}, {"top_k": 5}, {"min_p": 0.1},
            {"presence_penalty": 1.5}, {"frequency_penalty": -1},
            {"repetition_penalty": 1.3}, {"logit_bias": {"7": 4}},
            {"bad_words": ["a"]}, {"n": 2}, {"stop": ["e", "\u00e9"]},
            {"priority": 3}, {"cache_prompt": False}, {"min_tokens": 1}]))
        if r.random() < 0.3:
            text = " ".join(r.choice(["red", "green", "x1", "\u4e2d"])
                            for _ in range(r.choice([1, 10, 60])))
            body["messages"] = [{"role": "user", "content": text}]
            body.update(r.choice([{}, {"logprobs": True, "top_logprobs": 3}]))
            out.append((C, body))
        else:
            body["prompt"] = [r.randrange(900)
                              for _ in range(r.choice([1, 9, 64, 130, 300]))]
            body.update(r.choice([{}, {"logprobs": 3},
                                  {"echo": True, "logprobs": 1},
                                  {"prompt_logprobs": 2}]))
            out.append((P, body))
    return out


def answer(path, body):
    """What may not depend on who else is there."""
    r = S.post(path, body)
    # What was known and how much was drafted depends on who else is there.
    usage = {k: v for k, v in r["usage"].items()
             if not k.endswith("_details")}
    details = r["usage"].get("completion_tokens_details", {})
    usage["reasoning_tokens"] = details.get("reasoning_tokens")
    return json.dumps([r["choices"], r.get("prompt_logprobs"), usage])


def send(body, head="", length=None, to=None):
    """A request whose reply is left to the caller."""
    s = (to or S).connect()
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    s.sendall((f"POST {P} HTTP/1.1\r\n{head}Content-Length: "
               f"{len(data) if length is None else length}\r\n\r\n").encode() +
              data)
    return s


def leave(body, r):
    """Ask, read a random part of the answer, and go."""
    s = send({**body, "stream": True, "max_tokens": 100, "ignore_eos": True})
    time.sleep(r.random() * 0.05)
    if r.random() < 0.5:
        s.recv(r.choice([1, 200, 2000]))
    if r.random() < 0.5:  # a reset instead of an end
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.close()


def idle():
    return S.ask("GET", "/load", headers={})[1] == b'{"server_load":0}'


@test
def bits_under_load():
    asked = requests()
    alone = [answer(*x) for x in asked]
    order = list(range(N))
    r = random.Random(1)
    r.shuffle(order)
    bad, mu = [], threading.Lock()

    def worker():
        while True:
            with mu:
                if not order:
                    return
                i = order.pop()
                cancel, rr = r.random() < 0.25, random.Random(r.random())
            try:
                if cancel:
                    leave({"prompt": [i % 900] * 50}, rr)
                got = answer(*asked[i])
            except Exception as e:  # noqa: BLE001
                got = repr(e)
            if got != alone[i]:
                with mu:
                    bad.append((i, asked[i], alone[i], got))

    t = [threading.Thread(target=worker) for _ in range(AT_ONCE)]
    for x in t:
        x.start()
    for x in t:
        x.join()
    check(not bad, f"{len(bad)} of {N} differ: {bad[:1]}")
    wait_for(idle, "places are not given back")


LONG = {"prompt": [3] * 400, "max_tokens": 100, "ignore_eos": True}
# Ten seconds on a fast machine, and no test reads it to its end.
CONTEXT = 65536
ENDLESS = {"prompt": [3], "max_tokens": 60000, "ignore_eos": True}


@test
def clients_that_leave():
    """In the queue, while the prompt is read, while the answer runs, in the
    middle of an event, streamed or not: its place is free soon, and those who
    wait behind it are served."""
    other = {"prompt": [5, 6, 7], "max_tokens": 30, "seed": 3,
             "ignore_eos": True}
    want = answer(P, other)
    for stream in (True, False):
        held = [send({**LONG, "stream": stream, "seed": i})
                for i in range(AT_ONCE + 10)]  # some run, some wait
        for s in held[::2]:
            s.close()
        check(answer(P, other) == want, "others")
        for s in held[1::2]:
            if stream:
                s.recv(37)
            s.close()
        wait_for(idle, "places are not given back")
    check(answer(P, other) == want, "others, afterwards")


@test
def half_a_request():
    want = answer(P, {"prompt": [1], "max_tokens": 3, "seed": 1})
    half = [S.connect() for _ in range(4)]
    half[0].sendall(b"POST /v1/comp")
    half[1].sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Le")
    half[2].sendall(b"POST /v1/completions HTTP/1.1\r\n"
                    b"Content-Length: 100\r\n\r\n{\"prompt\"")
    check(answer(P, {"prompt": [1], "max_tokens": 3, "seed": 1}) == want)
    for s in half[1:3]:
        s.close()
    # Slow headers are refused, with a reason, not waited for.
    t0 = time.monotonic()
    data = half[0].recv(1000)
    check(b" 408 " in data and time.monotonic() - t0 < 30, data)
    check(answer(P, {"prompt": [1], "max_tokens": 3, "seed": 1}) == want)


@test
def a_body_of_100_megabytes():
    s = send(b"", length=100 << 20)
    data = s.recv(4000)
    check(b" 413 " in data and b"request_too_large" in data, data)
    s.close()
    # Without a length it is found out while it comes.
    s = S.connect()
    s.sendall(f"POST {P} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
              .encode())
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    try:
        for _ in range(100):
            s.sendall(chunk)
    except OSError:
        pass
    try:
        data = s.recv(4000)
        check(b" 413 " in data, data[:200])
    except OSError:
        pass  # the reply was dropped with what we still had to send
    s.close()
    wait_for(idle, "idle")
    check(S.post(P, {"prompt": [1], "max_tokens": 1})["choices"])


@test
def slow_readers():
    """Twenty streams that nobody reads do not hold up another client."""
    other = {"prompt": [9, 8], "max_tokens": 20, "seed": 2,
             "ignore_eos": True}
    want = answer(P, other)
    held = [send({"prompt": [i + 1], "max_tokens": 200, "stream": True,
                  "ignore_eos": True, "logprobs": 20}) for i in range(20)]
    for _ in range(3):
        check(answer(P, other) == want, "others")
    for s in held:
        s.close()
    wait_for(idle, "places are not given back")


@test
def out_of_pages():
    """A pool for two whole contexts and eight sequences: some have to give way
    and start again, and each says the same."""
    s = Server("--kv-pool-tokens", "1024", "--max-num-seqs", "8")
    try:
        body = {"max_tokens": 200, "ignore_eos": True, "seed": 1}
        prompts = [[i + 1] * 200 for i in range(6)]

        def ask(prompt):
            got = s.post(P, {**body, "prompt": prompt})["choices"]
            return [(c["text"], c["finish_reason"]) for c in got]

        want = sum((ask(p) for p in prompts), [])
        check(s.metric("vllm:num_preemptions_total") == 0, "alone")
        # They come together, and have to give way if they do.
        for _ in range(20):
            got = ask(prompts)
            check(got == want, (got, want))
            if s.metric("vllm:num_preemptions_total") > 0:
                return
        check(False, "nobody gave way: the test shows nothing")
    finally:
        s.stop(signal.SIGKILL)


@test
def deadlines():
    """Waiting or running, streamed or not: over is over, and the place is
    free."""
    s = Server(context=CONTEXT)
    try:
        held = []
        for n in (0, 2 * AT_ONCE):  # of others before it
            held += [send({**ENDLESS, "seed": i}, to=s) for i in range(n)]
            for late in ({"timeout": 0.1}, {"timeout": 100, "deadline_ms": 50},
                         {"timeout": 0.00001}):
                s.refused(P, {**ENDLESS, **late}, 504, code="deadline_exceeded",
                          words=("timeout",))
            r, data = s.ask("POST", P, {**ENDLESS, "stream": True,
                                        "timeout": 0.2})
            check(r.status in (200, 504) and
                  b'"code":"deadline_exceeded"' in data and
                  data.endswith(b"data: [DONE]\n\n" if r.status == 200 else
                                b"}"), data)
        for x in held:
            x.close()
        got = s.post(P, {"prompt": [1], "max_tokens": 1, "timeout": LIMIT_S})
        check(got["usage"]["completion_tokens"] == 1, got)
    finally:
        s.stop(signal.SIGKILL)


@test
def deadline_of_the_server():
    """--request-timeout bounds requests that say nothing, or more."""
    s = Server("--request-timeout", "1", context=CONTEXT)
    try:
        for more in ({}, {"timeout": 1000}):
            s.refused(P, {**ENDLESS, **more}, 504, code="deadline_exceeded",
                      words=("--request-timeout",))
    finally:
        s.stop(signal.SIGKILL)


def begin(s):
    """Read until its answer has begun."""
    data = b""
    while b"\ndata: {" not in data:
        more = s.recv(65536)
        check(more, data)
        data += more
    return data


def rest_of(s, data=b""):
    while True:
        more = s.recv(65536)
        if not more:
            return data
        data += more


def sigterm_with_a_queue(drain_s):
    """Two run and four wait. Returns what the runners read to their end."""
    s = Server("--max-num-seqs", "2", "--drain-timeout", drain_s,
               context=CONTEXT)
    try:
        # Two seconds on a fast machine, where they have to end; the others
        # come meanwhile.
        body = {**ENDLESS, **({"max_tokens": 12000} if drain_s != "0" else {})}
        runs = [send({**body, "stream": True}, to=s) for _ in range(2)]
        first = [begin(x) for x in runs]
        wait = [send({**body, "stream": k % 2 == 0}, to=s) for k in range(4)]
        wait_for(lambda: s.ask("GET", "/load", headers={})[1] ==
                 b'{"server_load":6}', "they wait")
        s.p.send_signal(signal.SIGTERM)
        for k, x in enumerate(wait):
            data = rest_of(x)
            check(b'"code":"draining"' in data and b"not begun" in data, data)
            # A stream may have begun, with nothing in it, or not.
            check((b" 503 " in data and b"Retry-After" in data) or
                  (b" 200 " in data and k % 2 == 0), data)
        got = [rest_of(*x) for x in zip(runs, first)]
        check(s.p.wait(LIMIT_S) == 0, s.text())
        return got
    finally:
        s.stop(signal.SIGKILL)


@test
def sigterm_refuses_who_waits():
    for data in sigterm_with_a_queue("3600"):
        check(data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n") and
              b'"error"' not in data, data[-300:])


@test
def sigterm_when_time_is_over():
    for data in sigterm_with_a_queue("0"):
        check(b'"code":"draining"' in data and b"is over" in data and
              data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), data[-300:])


def later_is_not_last(server, one, other):
    """`one` sends a dozen requests that are long, for four places; `other` then
    sends a short one, and has its answer while most of the dozen still wait."""
    held = []
    for i in range(12):
        s = socket.create_connection(("127.0.0.1", server.port), LIMIT_S,
                                     source_address=(one[0], 0))
        data = json.dumps({**ENDLESS, "prompt": [i + 1], "max_tokens": 4000})
        s.sendall((f"POST {P} HTTP/1.1\r\nAuthorization: Bearer {one[1]}\r\n"
                   f"Content-Length: {len(data)}\r\n\r\n{data}").encode())
        held.append(s)
    load = lambda: json.loads(  # noqa: E731
        server.ask("GET", "/load", headers={})[1])["server_load"]
    wait_for(lambda: load() == 12, "they are here")
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT_S,
                                   source_address=(other[0], 0))
    c.request("POST", P, json.dumps({"prompt": [7], "max_tokens": 5}),
              {"Authorization": f"Bearer {other[1]}"})
    r = c.getresponse()
    check(r.status == 200, r.read())
    left = load()
    check(left >= 7, f"{left} of 12 were left when the other had its answer")
    for s in held + [c]:
        s.close()
    wait_for(lambda: load() == 0, "places are not given back")


@test
def clients_have_equal_shares():
    """Who they are: addresses, and keys where there are several of them."""
    for keys in (["a"], ["a,b"]):
        s = Server("--max-num-seqs", "4", "--api-key", *keys, context=CONTEXT)
        try:
            if keys == ["a"]:
                later_is_not_last(s, ("127.0.0.1", "a"), ("127.0.0.2", "a"))
            else:
                later_is_not_last(s, ("127.0.0.1", "a"), ("127.0.0.1", "b"))
        finally:
            s.stop(signal.SIGKILL)


@test
def scores_for_several():
    """With n choices the prompt is scored once, for all of them."""
    body = {"prompt": [5] * 100, "max_tokens": 3, "seed": 1, "echo": True,
            "logprobs": 2, "prompt_logprobs": 1}
    one = S.post(P, body)["choices"][0]
    for n in (2, 5):
        got = S.post(P, {**body, "n": n})["choices"]
        check(got[0] == one, (got[0], one))
        for c in got:
            check(c["prompt_logprobs"] == one["prompt_logprobs"], c)
            check(c["logprobs"]["token_logprobs"][:100] ==
                  one["logprobs"]["token_logprobs"][:100], c)
    text = ["".join(e["choices"][0]["text"] for e in
                    S.stream(P, {**body, "n": 3, "prompt_logprobs": None})
                    if e["choices"][0]["index"] == i) for i in range(3)]
    check(text == [c["text"] for c in S.post(P, {**body, "n": 3})["choices"]])


@test
def z_sigterm():
    """Under load: what runs comes to its end, what comes is refused, exit 0."""
    held = [send({"prompt": [i + 1], "max_tokens": 150, "stream": True,
                  "stream_options": {"include_usage": True},
                  "ignore_eos": True}) for i in range(8)]
    first = [begin(s) for s in held]
    S.p.send_signal(signal.SIGTERM)
    for s, data in zip(held, first):
        data = rest_of(s, data)
        check(b"data: [DONE]\n\n" in data and b'"error"' not in data,
              data[-300:])
        check(b'"completion_tokens":150' in data, data[-300:])
    check(S.p.wait(LIMIT_S) == 0, S.text())


S = Server()
try:
    done()
finally:
    S.stop(signal.SIGKILL)
