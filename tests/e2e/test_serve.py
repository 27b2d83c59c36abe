#!/usr/bin/env python3
"""The server on the wire: every endpoint, framing to the byte, errors, clients
that leave, draining. Python's standard library only; a small random model."""
import hashlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(__file__))
from e2e import check, done, test  # noqa: E402
from serving import GOLD, KEY, LIMIT_S, TEMPLATE, Server, wait_for  # noqa: E402

S = None
C, P = "/v1/chat/completions", "/v1/completions"
HI = [{"role": "user", "content": "hello"}]


def chat(**kw):
    return {"messages": HI, "max_tokens": 8, "seed": 7, **kw}


def text(**kw):
    return {"prompt": "hello", "max_tokens": 8, "seed": 7, **kw}


def spent(r):
    """Usage but for what the cache happened to know, and what was drafted."""
    u = {k: v for k, v in r["usage"].items() if k != "prompt_tokens_details"}
    d = u.get("completion_tokens_details", {})
    return u | {"completion_tokens_details": d.get("reasoning_tokens")}


@test
def public_pages():
    for path in ("/health", "/ping", "/ready", "/version", "/load", "/metrics",
                 "/", "/tokenizer_info", "//health/"):
        r, data = S.ask("GET", path, headers={})
        check(r.status == 200, (path, r.status, data))
    r, data = S.ask("GET", "/", headers={})
    info = json.loads(data)
    check(info["object"] == "server.info", data)
    check(info["status"] == "ready" and info["mode"] == "speculative" and
          info["build"] and info["drafter"] == {
              "method": "auto", "model": None, "speculate": "all",
              "draft_depth": "auto", "accept": "exact"}, info)
    check(info["model"]["id"] == "org/tiny" and info["model"]["aliases"] ==
          ["alias"] and info["model"]["quantization"] == "auto" and
          info["model"]["max_model_len"] == 512, info)
    check(info["profile"]["name"] is None and
          info["profile"]["max_num_batched_tokens"] == 512 and
          info["profile"]["kv_blocks"] * 64 ==
          info["profile"]["kv_pool_tokens"] > 0, info)
    check(info["limits"]["max_request_bytes"] == 64 << 20 and
          "/v1/chat/completions" in info["endpoints"] and
          "/health" in info["endpoints"], info)
    check(all(s["drafter"] in ("mtp", "ngram", "dflash", "none")
              for s in info["speculation"]), info)
    check("secret" not in data.decode() and str(GOLD) not in data.decode())
    r, data = S.ask("HEAD", "/", headers={})
    check(r.status == 200 and data == b"")
    r, data = S.ask("OPTIONS", C, headers={
        "Access-Control-Request-Headers": "authorization, content-type"})
    check(r.status == 204 and r.getheader("Access-Control-Allow-Headers") ==
          "authorization, content-type", r.headers)


@test
def the_page():
    """A browser gets a page that is whole in itself and may load nothing
    else; a program gets JSON at the same address."""
    html = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    r, data = S.ask("GET", "/", headers={"Accept": html})
    text = data.decode()
    check(r.status == 200 and r.getheader("Content-Type") ==
          "text/html; charset=utf-8" and r.getheader("Vary") == "Accept",
          r.headers)
    policy = r.getheader("Content-Security-Policy")
    check("default-src 'none'" in policy and "unsafe" not in policy and
          "frame-ancestors 'none'" in policy, policy)
    parts = re.findall(r'(?:src|href)="([^"]*)"', text)
    check(sorted(parts) == ["data:,", "page.css", "page.js"], parts)
    check("<script>" not in text and "style=" not in text and
          not re.search(r"\son\w+=", text), text)
    for part, kind in (("page.css", "text/css"), ("page.js",
                                                  "text/javascript")):
        r, data = S.ask("GET", "/" + part, headers={})
        check(r.status == 200 and r.getheader("Content-Type") ==
              kind + "; charset=utf-8", r.headers)
        here = pathlib.Path(__file__).resolve().parent.parent.parent
        check(data == (here / "src/server/page" / part).read_bytes(), part)
        check(b"http:" not in data and b"https:" not in data, part)
        # Text of a model never becomes markup.
        check(b"innerHTML" not in data and b"insertAdjacent" not in data and
              b"document.write" not in data and b"eval(" not in data, part)
    for accept in (None, "*/*", "application/json"):
        r, data = S.ask("GET", "/", headers={"Accept": accept} if accept
                        else {})
        check(json.loads(data)["object"] == "server.info", data)
    check(S.ask("POST", "/page.js", {})[0].status == 405)


@test
def keys_and_routes():
    r, data = S.ask("GET", "/v1/models", headers={})
    check(r.status == 401 and r.getheader("WWW-Authenticate") == "Bearer")
    check(json.loads(data)["error"]["code"] == "invalid_api_key", data)
    for h in ({"Authorization": "bearer  secret"}, {"X-Api-Key": "secret"},
              {"Authorization": "Bearer second"}, {"X-Api-Key": "from-file"},
              {"Authorization": "Basic eA==", "X-Api-Key": "secret"}):
        check(S.ask("GET", "/v1/models", headers=h)[0].status == 200, h)
    for h in ({"Authorization": "Bearer secret,second"},
              {"Authorization": "Bearer wrong", "X-Api-Key": "secret"},
              {"Authorization": "Bearer secret", "X-Api-Key": "second"}):
        check(S.ask("GET", "/v1/models", headers=h)[0].status == 401, h)
    r, data = S.ask("GET", "/v1/nothing")
    check(r.status == 404 and "error" in json.loads(data), data)
    r, data = S.ask("GET", C)
    check(r.status == 405 and r.getheader("Allow") == "POST", r.headers)
    check(json.loads(data)["error"]["code"] == "method_not_allowed", data)
    check(S.ask("POST", "/v1/embeddings", {})[0].status == 404)


@test
def hang_up_reads_again():
    """SIGHUP ends nothing: not the server, not a stream."""
    def works(key):
        return S.ask("GET", "/v1/models",
                     headers={"X-Api-Key": key})[0].status == 200

    body = json.dumps(text(max_tokens=200, ignore_eos=True, stream=True))
    c = S.connect()
    c.sendall((f"POST {P} HTTP/1.0\r\nX-Api-Key: from-file\r\n"
               f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
    data = c.recv(1000)
    KEYS.write_text("# for the next ones\n\nnew-key\n")
    S.p.send_signal(signal.SIGHUP)
    wait_for(lambda: works("new-key"), S.text)
    check(not works("from-file") and works("secret"))
    while more := c.recv(65536):
        data += more
    check(data.endswith(b"data: [DONE]\n\n"), data[-200:])
    KEYS.unlink()
    S.p.send_signal(signal.SIGHUP)
    wait_for(lambda: re.search(r' action=reload error="[^"]+"$', S.text(), re.M),
             S.text)
    check(works("new-key"))
    KEYS.write_text("from-file")
    S.p.send_signal(signal.SIGHUP)
    wait_for(lambda: works("from-file"), S.text)


@test
def a_line_for_each_request():
    """All that is known of a request is in one line, at its end; the key only
    as a part of its hash."""
    trace = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
    S.ask("POST", C, {**chat(n=2, ignore_eos=True), "request_id": "mine-too"},
          {**KEY, "traceparent": trace})
    line = None

    def found():
        nonlocal line
        line = next((s for s in S.log if "request=chatcmpl-mine" in s), None)
        return line
    wait_for(found, "no line")
    got = dict(w.split("=", 1) for w in line.split() if "=" in w)
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", got["time"]),
          line)
    key = hashlib.sha256(b"secret").hexdigest()[:8]
    want = {"http": "200", "method": "POST", "path": C, "peer": "127.0.0.1",
            "key": key, "trace": trace, "model": "org/tiny", "stream": "0",
            "n": "2", "finish": "length", "output": "16", "reasoning": "0",
            "seed": "7", "request": "chatcmpl-mine-too"}
    check({k: got[k] for k in want} == want, (line, want))
    check(float(got["ttft_ms"]) > 0 and float(got["tpot_ms"]) > 0 and
          0 <= int(got["accepted"]) <= int(got["draft"]) and
          float(got["queue_ms"]) <= float(got["ms"]) and
          int(got["prompt"]) >= int(got["cached"]), line)
    S.ask("GET", "/health")
    S.ask("GET", "/version")
    wait_for(lambda: any("path=/version" in s for s in S.log), S.text)
    check(not any("path=/health" in s for s in S.log), "probes are quiet")


@test
def log_lines_cannot_be_forged():
    S.ask("GET", "/x%0asluice:%20info:%20http=200%1b[m")
    wait_for(lambda: any("path=/x\\x0asluice:\\x20info:\\x20http=200\\x1b[m "
                         in s for s in S.log), S.text)
    check(not any(s.startswith("sluice: info: http=200\x1b") for s in S.log))


@test
def models():
    r, data = S.ask("GET", "/v1/models")
    m = json.loads(data)
    check(m["object"] == "list" and [x["id"] for x in m["data"]] ==
          ["org/tiny", "alias"], m)
    check(m["data"][0]["max_model_len"] == 512, m)
    for path in ("/v1/models/org/tiny", "/v1/models/org%2Ftiny",
                 "/models/alias"):
        r, data = S.ask("GET", path)
        check(r.status == 200 and json.loads(data)["object"] == "model", path)
    r, data = S.ask("GET", "/v1/models/other")
    check(r.status == 404 and json.loads(data)["error"]["code"] ==
          "model_not_found", data)
    S.refused(P, text(model="other"), 404, "model", "model_not_found")
    check(S.post(P, text(model="alias"))["model"] == "org/tiny")
    check(S.post(P, text(model=""))["model"] == "org/tiny")


@test
def tokenize():
    t = S.post("/tokenize", {"prompt": "hello \u00e9 <|im_start|>",
                             "return_token_strs": True,
                             "add_special_tokens": False}, headers={})
    check(t["count"] == len(t["tokens"]) == len(t["token_strs"]), t)
    back = S.post("/detokenize", {"tokens": t["tokens"]}, headers={})
    check(back["prompt"] == "hello \u00e9 <|im_start|>", back)
    m = S.post("/tokenize", {"messages": HI}, headers={})
    check(m["count"] > 3 and m["max_model_len"] == 512, m)
    S.refused("/detokenize", {"tokens": [10 ** 7]}, 400, "tokens[0]")
    S.refused("/tokenize", {"prompt": 3}, 400, "prompt")
    S.refused("/tokenize", {"prompt": "a", "model": 3}, 400, "model")
    # null is absent, and what has nothing to do with a prompt is not read.
    for more in ({"prompt": None}, {"add_special_tokens": None, "tools": None,
                 "model": None, "return_token_strs": None,
                 "add_generation_prompt": None}, {"max_tokens": "many"}):
        n = S.post("/tokenize", {"messages": HI, **more}, headers={})
        check(n == m, (n, m))
    S.refused("/tokenize", {"prompt": None, "messages": None}, 400, "messages")
    S.refused("/tokenize", {"prompt": None}, 400, "prompt")
    S.refused("/detokenize", {"tokens": None}, 400, "tokens")


@test
def tokenizer_info():
    _, data = S.ask("GET", "/tokenizer_info", headers={})
    info = json.loads(data)
    check(info["chat_template"] == TEMPLATE, info)


@test
def fingerprints():
    """The same in every event and reply of a server."""
    seen = {S.post(P, text())["system_fingerprint"],
            S.post(C, chat())["system_fingerprint"]}
    for path, body in ((P, text()), (C, chat())):
        seen |= {e["system_fingerprint"] for e in S.stream(path, {
            **body, "stream_options": {"include_usage": True}})}
    check(len(seen) == 1 and seen.pop().startswith("fp_"), seen)


@test
def completion():
    r = S.post(P, text())
    check(r["object"] == "text_completion" and r["id"].startswith("cmpl-"), r)
    c = r["choices"][0]
    check(c["finish_reason"] in ("length", "stop"), c)
    check(r["usage"]["completion_tokens"] <= 8, r)
    check(r["usage"]["total_tokens"] == r["usage"]["prompt_tokens"] +
          r["usage"]["completion_tokens"], r)
    # Lenient values, null, and what nobody knows.
    same = S.post(P, text(max_tokens="8", seed=7.0, stop=None, n=None,
                          logprobs=None, unknown={"a": 1}, user="u"))
    check(same["choices"][0]["text"] == c["text"], (same, r))
    events = S.stream(P, text(stream_options={"include_usage": True}))
    check("".join(e["choices"][0]["text"] for e in events if e["choices"]) ==
          c["text"], events)
    check(events[-1]["choices"] == [] and spent(events[-1]) == spent(r),
          events[-1])
    check(all("usage" not in e for e in events[:-1]), events)
    check([e["choices"][0]["finish_reason"] for e in events[:-1]][-1] ==
          c["finish_reason"], events)
    check(all(e["id"] == events[0]["id"] for e in events))


@test
def batches_and_choices():
    ids = S.post("/tokenize", {"prompt": "hello"}, headers={})["tokens"]
    one = S.post(P, text())["choices"][0]["text"]
    r = S.post(P, text(prompt=["hello", "world"]))
    check([c["index"] for c in r["choices"]] == [0, 1], r)
    check(r["choices"][0]["text"] == one, r)
    check(S.post(P, text(prompt=ids))["choices"][0]["text"] == one)
    r = S.post(P, text(prompt=[ids, ids], n=2, temperature=1))
    check([c["index"] for c in r["choices"]] == [0, 1, 2, 3], r)
    t = [c["text"] for c in r["choices"]]
    check(t[0] == t[2] and t[1] == t[3], t)
    events = S.stream(C, chat(n=3))
    done_ = {e["choices"][0]["index"] for e in events
             if e["choices"][0]["finish_reason"]}
    check(done_ == {0, 1, 2}, events)


@test
def echo_and_logprobs():
    r = S.post(P, text(echo=True, max_tokens=0))
    check(r["choices"][0]["text"] == "hello", r)
    check(r["usage"]["completion_tokens"] == 0, r)
    r = S.post(P, text(echo=True))
    check(r["choices"][0]["text"].startswith("hello"), r)
    lp = S.post(P, text(logprobs=3, ignore_eos=True))["choices"][0]["logprobs"]
    check(len(lp["tokens"]) == len(lp["token_logprobs"]) ==
          len(lp["top_logprobs"]) == len(lp["text_offset"]) == 8, lp)
    for t, v, top in zip(lp["tokens"], lp["token_logprobs"],
                         lp["top_logprobs"]):
        check(t in top and top[t] >= v and 1 <= len(top) <= 4, lp)
    c = S.post(C, chat(logprobs=True, top_logprobs=2,
                       ignore_eos=True))["choices"][0]
    check(len(c["logprobs"]["content"]) == 8, c)
    e = c["logprobs"]["content"][0]
    check(set(e) == {"token", "logprob", "bytes", "top_logprobs"}, e)
    check(len(e["top_logprobs"]) == 2, e)


@test
def prompts_are_scored():
    """echo with logprobs, as harnesses read them: a value per token of the
    prompt but the first, then those of the answer, bit for bit what they are
    when the tokens are drawn."""
    ids = [(31 * i) % 900 for i in range(70)]
    one = S.post(P, text(prompt=ids, max_tokens=20, logprobs=2,
                         ignore_eos=True, return_token_ids=True))["choices"][0]
    both = ids + one["token_ids"]
    for n in (1, 0):
        r = S.post(P, text(prompt=[both, ids[:1]], max_tokens=n, logprobs=2,
                           echo=True, temperature=0))
        for c, p in zip(r["choices"], (both, ids[:1])):
            lp = c["logprobs"]
            check(len(lp["tokens"]) == len(lp["token_logprobs"]) ==
                  len(lp["top_logprobs"]) == len(lp["text_offset"]) ==
                  len(p) + n, lp)
            check(lp["token_logprobs"][0] is None and
                  lp["top_logprobs"][0] is None and lp["text_offset"][0] == 0)
            check(lp["text_offset"] == sorted(lp["text_offset"]), lp)
            for t, v, top in list(zip(lp["tokens"], lp["token_logprobs"],
                                      lp["top_logprobs"]))[1:]:
                check(t in top and top[t] >= v and 1 <= len(top) <= 3, top)
        check(r["usage"]["completion_tokens"] == 2 * n, r["usage"])
        lp = r["choices"][0]["logprobs"]
        check(lp["token_logprobs"][70:90] == one["logprobs"]["token_logprobs"],
              (lp, one))
    events = S.stream(P, text(prompt=ids, max_tokens=3, logprobs=2, echo=True,
                              ignore_eos=True))
    got = [v for e in events for v in
           e["choices"][0]["logprobs"]["token_logprobs"]]
    want = S.post(P, text(prompt=ids, max_tokens=3, logprobs=2, echo=True,
                          ignore_eos=True))["choices"][0]
    check(got == want["logprobs"]["token_logprobs"], (got, want))
    check("".join(e["choices"][0]["text"] for e in events) == want["text"])
    # vLLM's form, on both endpoints.
    c = S.post(P, text(prompt=ids, prompt_logprobs=2))["choices"][0]
    check(len(c["prompt_logprobs"]) == 70 and c["prompt_logprobs"][0] is None)
    for i in range(1, 70):
        e = c["prompt_logprobs"][i]
        mine = e[str(ids[i])]
        check(set(mine) == {"logprob", "rank", "decoded_token"} and
              mine["rank"] >= 1 and 2 <= len(e) <= 3, e)
        check(mine["logprob"] == want["logprobs"]["token_logprobs"][i], e)
    r = S.post(C, chat(prompt_logprobs=0))
    check(len(r["prompt_logprobs"]) == r["usage"]["prompt_tokens"], r)
    S.refused(P, text(prompt_logprobs=1, stream=True), 400, "prompt_logprobs")


@test
def chat_events():
    r = S.post(C, chat())
    check(r["object"] == "chat.completion", r)
    m = r["choices"][0]["message"]
    check(m["role"] == "assistant" and isinstance(m["content"], str), m)
    events = S.stream(C, chat(stream_options={"include_usage": True}))
    first = events[0]["choices"][0]
    check(first["delta"] == {"role": "assistant", "content": ""}, first)
    check(sum("role" in e["choices"][0]["delta"] for e in events
              if e["choices"]) == 1, events)
    text_ = "".join(e["choices"][0]["delta"].get("content", "")
                    for e in events if e["choices"])
    check(text_ == m["content"], (text_, m))
    last = events[-2]["choices"][0]
    check(last["delta"] == {} and last["finish_reason"] in
          ("stop", "length"), last)
    check(events[-1]["choices"] == [] and spent(events[-1]) == spent(r))
    u = r["usage"]["completion_tokens_details"]
    check(0 <= u["accepted_draft_tokens"] <= u["draft_tokens"], u)
    # Thinking: the prompt opens the block, all of a short answer is reasoning.
    m = S.post(C, chat(chat_template_kwargs={"enable_thinking": True},
                       ignore_eos=True))
    check(m["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0, m)


@test
def stops():
    full = S.post(P, text(max_tokens=40, ignore_eos=True,
                          temperature=0))["choices"][0]["text"]
    stop = full[5:7] if len(full) > 8 else full[:1]
    c = S.post(P, text(max_tokens=40, ignore_eos=True, temperature=0,
                       stop=["never seen", stop]))["choices"][0]
    check(c["finish_reason"] == "stop" and c["stop_reason"] == stop, c)
    check(c["text"] == full[:full.index(stop)], (c, full))


@test
def wrong_fields():
    """One of each kind; test_fields.py has the table."""
    S.refused(P, text(prompt=[1, 10 ** 8]), 400, "prompt[1]")
    S.refused(P, text(prompt=["a", 1]), 400, "prompt[1]")
    S.refused(P, text(temperature=5), 400, "temperature")
    for body, param in (
            (chat(messages=[{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "x"}}]}]),
             "messages[0].content[0].type"),
            (chat(tools=[{}]), "tools[0].type"),
            (chat(tool_choice="auto"), "tool_choice"),
            (chat(top_logprobs=2), "top_logprobs"),
            (chat(continue_final_message=True), "continue_final_message")):
        S.refused(C, body, 400, param)


@test
def overflow():
    ids = [1] * 500
    S.refused(P, text(prompt=ids, max_tokens=13), 400, "prompt",
              "context_length_exceeded",
              ["maximum context length is 512 tokens", "13", "500",
               "reduce the length"])
    r = S.post(P, text(prompt=ids, max_tokens=12, ignore_eos=True))
    check(r["usage"]["completion_tokens"] == 12, r)
    S.refused(P, text(prompt=[1] * 512), 400, None, "context_length_exceeded")
    r = S.post(P, text(prompt=[1] * 600, max_tokens=4,
                       truncate_prompt_tokens=100))
    check(r["usage"]["prompt_tokens"] == 100, r)


@test
def envelope():
    r, data = S.ask("POST", P, json.dumps(text()),
                    {**KEY, "Content-Type": "text/plain"})
    check(r.status == 400, data)
    r, data = S.ask("POST", P, json.dumps(text()),
                    {**KEY, "Content-Encoding": "gzip"})
    check(r.status == 415, data)
    for kind, status in (("application/jsonfoo", 400),
                         ("application/json+x", 400),
                         ("Application/JSON ; charset=utf-8", 200)):
        r, data = S.ask("POST", P, json.dumps(text()),
                        {**KEY, "Content-Type": kind})
        check(r.status == status, (kind, data))
    body = b"\xef\xbb\xbf" + json.dumps(text()).encode()
    r, data = S.ask("POST", P, body)
    check(r.status == 200, data)
    r = S.post(P, '{"prompt":"a\\ud800b","max_tokens":1,"max_tokens":2,'
                  '"ignore_eos":true}')
    check(r["usage"]["completion_tokens"] == 2, r)
    r, _ = S.ask("POST", P, text(), {**KEY, "X-Request-Id": "mine-1"})
    check(r.getheader("X-Request-Id") == "mine-1")


@test
def client_leaves():
    abort = 'vllm:request_success_total{model_name="org/tiny",engine="0",' \
            'finished_reason="abort"}'
    before = S.metric(abort)
    for stream in (True, False):
        body = json.dumps(text(max_tokens=400, ignore_eos=True, n=4,
                               stream=stream))
        s = S.connect()
        s.sendall((f"POST {P} HTTP/1.1\r\nAuthorization: Bearer secret\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        if stream:
            s.recv(10)
        s.close()
    wait_for(lambda: S.ask("GET", "/load", headers={})[1] ==
             b'{"server_load":0}', "places are not given back")
    # Four of the stream, and of the other as many or, if it was still being
    # read, one.
    wait_for(lambda: S.metric(abort) > before + 4, "abort")
    check(S.post(P, text())["choices"], "others go on")
    # One that would have been refused has no answer that could be aborted;
    # that is known when the client leaves while it is read, not before. An
    # answer says that it was read before anybody saw that.
    load = lambda: S.ask("GET", "/load", headers={})[1]  # noqa: E731
    for _ in range(20):
        before = S.metric(abort)
        body = json.dumps(text(n=-1)) + " " * 30_000_000
        s = S.connect()
        s.sendall((f"POST {P} HTTP/1.1\r\nAuthorization: Bearer secret\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        wait_for(lambda: load() == b'{"server_load":1}' or
                 select.select([s], [], [], 0)[0], "it is read")
        is_late = select.select([s], [], [], 0)[0]
        s.close()
        wait_for(lambda: load() == b'{"server_load":0}',
                 "places are not given back")
        if not is_late and S.metric(abort) == before:
            break
    check(not is_late and S.metric(abort) == before, "a refusal is no abort")


@test
def many_at_once():
    want = [S.post(P, text(seed=i, temperature=1))["choices"][0]["text"]
            for i in range(12)]
    got = [None] * 12

    def one(i):
        got[i] = S.post(P, text(seed=i, temperature=1))["choices"][0]["text"]

    t = [threading.Thread(target=one, args=(i,)) for i in range(12)]
    for x in t:
        x.start()
    for x in t:
        x.join(LIMIT_S)
    check(got == want, (got, want))


NAMES = """num_requests_running num_requests_waiting
num_requests_waiting_by_reason kv_cache_usage_perc num_preemptions_total
request_success_total prefix_cache_queries_total prefix_cache_hits_total
prompt_tokens_total generation_tokens_total prompt_tokens_cached_total
prompt_tokens_by_source_total corrupted_requests_total cache_config_info
time_to_first_token_seconds inter_token_latency_seconds
request_time_per_output_token_seconds e2e_request_latency_seconds
request_queue_time_seconds request_inference_time_seconds
request_prefill_time_seconds request_decode_time_seconds request_prompt_tokens
request_generation_tokens request_max_num_generation_tokens
request_params_max_tokens request_params_n iteration_tokens_total
request_prefill_kv_computed_tokens spec_decode_num_drafts_total
spec_decode_num_draft_tokens_total spec_decode_num_accepted_tokens_total
spec_decode_num_accepted_tokens_per_pos_total""".split()


def scrape():
    """All series, after what a strict parser would refuse."""
    _, data = S.ask("GET", "/metrics", headers={})
    series, types = {}, {}
    for s in data.decode().splitlines():
        if s.startswith("# "):
            m = re.match(r"^# (HELP|TYPE) ([a-z0-9_:]+) (.+)$", s)
            check(m, s)
            if m[1] == "TYPE":
                check(m[2] not in types, s)
                types[m[2]] = m[3]
            continue
        m = re.match(r"^([a-z0-9_:]+)(\{[^}]*\})? (\S+)$", s)
        check(m and m[1] + (m[2] or "") not in series, s)
        family = re.sub("_(bucket|sum|count)$", "", m[1])
        check(m[1] in types or types.get(family) == "histogram", s)
        series[m[1] + (m[2] or "")] = float(m[3])
    return series, types


@test
def metrics():
    before, types = scrape()
    for name in ("draft_tokens_total", "accepted_draft_tokens_total"):
        check(types["sluice:" + name] == "counter", name)
    for name in NAMES:
        check("vllm:" + name in types, name)
    for name in ("http_requests_total", "http_request_duration_seconds"):
        check(name in types, name)
    S.post(P, text(max_tokens=20, ignore_eos=True, n=2))
    after, _ = scrape()
    gauges = {n for n, t in types.items() if t == "gauge"}
    for k, v in before.items():
        check(k.split("{")[0] in gauges or after[k] >= v, k)
    l = '{model_name="org/tiny",engine="0"}'

    def grew(name, by):
        check(after[name] - before.get(name, 0) == by, name)

    grew("vllm:generation_tokens_total" + l, 40)
    grew("vllm:request_params_n_sum" + l, 2)
    grew("vllm:request_time_per_output_token_seconds_count" + l, 2)
    grew('http_requests_total{handler="/completions",method="POST",'
         'status="2xx"}', 1)
    # What is taken together has no gap: an answer long enough is not.
    gaps = "vllm:inter_token_latency_seconds_count" + l
    for _ in range(20):
        after, _ = scrape()
        if after[gaps] > before[gaps]:
            break
        S.post(P, text(max_tokens=400, ignore_eos=True))
    check(after[gaps] > before[gaps], "gaps")
    check(0 < after["vllm:kv_cache_usage_perc" + l] < 1, "what is kept")
    check(after["sluice:rows_total" + l] > before["sluice:rows_total" + l])
    for k, v in after.items():
        m = re.match(r"(.*)_bucket\{(.*),le=\"\+Inf\"\}", k)
        if m:
            check(after[f"{m[1]}_count{{{m[2]}}}"] == v, k)


@test
def one_call_at_most():
    """The embedded model calls twice when it is asked to; parallel_tool_calls
    false ends the answer with the first call, to the token."""
    tool = {"type": "function", "function": {
        "name": "get_weather", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}}}}
    d = Server("--api-key", "secret", model="demo")
    calls = 0
    try:
        for q in ("Call get_weather for Paris. Then call get_weather for Rome.",
                  "What is the weather in Paris and in Rome?"):
            kw = dict(messages=[{"role": "user", "content": q}], tools=[tool],
                      temperature=0, max_tokens=200)
            full = d.post(C, kw)
            one = d.post(C, {**kw, "parallel_tool_calls": False})
            # Whoever has the answer finds nothing of it in the engine.
            check(d.metric("vllm:num_requests_running{") == 0, one)
            a, b = (r["choices"][0]["message"].get("tool_calls", [])
                    for r in (full, one))
            calls = max(calls, len(a))
            check([x["function"] for x in a[:1]] == [x["function"] for x in b],
                  (a, b))
            n = one["usage"]["completion_tokens"]
            check(n <= full["usage"]["completion_tokens"], (full, one))
            check(not b or one["choices"][0]["finish_reason"] == "tool_calls",
                  one)
            events = d.stream(C, {**kw, "parallel_tool_calls": False,
                                  "stream_options": {"include_usage": True}})
            deltas = [x for e in events if e["choices"]
                      for x in e["choices"][0]["delta"].get("tool_calls", [])]
            check({x["index"] for x in deltas} == ({0} if b else set()),
                  deltas)
            check("".join(x["function"]["arguments"] for x in deltas) ==
                  "".join(x["function"]["arguments"] for x in b), deltas)
            check(events[-1]["usage"]["completion_tokens"] == n, events[-1])
        check(calls > 1, "the model never calls twice: the test shows nothing")
        for mode, n in (("streaming", 2), ("non_streaming", 4)):
            name = ('vllm:tool_call_parser_invocations_total{model_name="demo",'
                    f'mode="{mode}",outcome="%s",request_type='
                    '"chat_completions"}')
            check(d.metric(name % "tool_call") > 0 and n == sum(
                d.metric(name % x) for x in ("tool_call", "no_tool_call")),
                mode)
    finally:
        d.stop(signal.SIGKILL)


@test
def z_drain():
    """Last: running streams end, new requests are refused, exit code 0."""
    body = json.dumps(text(max_tokens=300, ignore_eos=True, stream=True))
    s = S.connect()
    s.sendall((f"POST {P} HTTP/1.1\r\nAuthorization: Bearer secret\r\n"
               f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
    data = b""
    while b"data: {" not in data:  # headers come before it runs
        more = s.recv(1000)
        check(more, data)
        data += more
    S.p.send_signal(signal.SIGTERM)
    while True:
        more = s.recv(65536)
        if not more:
            break
        data += more
    check(b"data: [DONE]\n\n" in data and b'"error"' not in data, data[-400:])
    check(S.p.wait(LIMIT_S) == 0, S.text())


@test
def z_queue_full_and_errors_while_starting():
    s = Server("--max-num-queued-reqs", "0", "--max-num-seqs", "1", "--api-key",
               "secret", "--protect", "all", files=64)
    try:
        for path, status in (("/health", 200), ("/ready", 200), ("/ping", 200),
                             ("/page.js", 200), ("/metrics", 401), ("/", 401),
                             ("/version", 401), ("/tokenizer_info", 401)):
            r, data = s.ask("GET", path, headers={})
            check(r.status == status, (path, r.status, data))
            check(s.ask("GET", path)[0].status == 200, path)
        check(s.ask("POST", "/tokenize", {}, {})[0].status == 401)
        check(s.ask("GET", "/", headers={"Accept": "text/html"})[0].status == 200)
        check(s.ask("OPTIONS", "/", headers={})[0].status == 204)
        limits = pathlib.Path(f"/proc/{s.p.pid}/limits").read_text()
        soft, hard = re.search(r"Max open files +(\S+) +(\S+)", limits).groups()
        check(soft == hard != "64", limits)
        # More answers than there can ever be places.
        r, data = s.ask("POST", P, text(prompt=["a", "b"], max_tokens=1))
        check(r.status == 400 and b"ask for fewer" in data, data)
        # One after the other there is always a place.
        for _ in range(30):
            for n, status in ((1, 200), (0, 400)):
                r, data = s.ask("POST", P, text(max_tokens=n))
                check(r.status == status, data)
        r, data = s.ask("POST", P, text(prompt="a" * 30_000_000))
        check(r.status == 400 and b"maximum context length" in data, data)
        body = json.dumps(text(max_tokens=400, ignore_eos=True, stream=True))
        c = s.connect()
        c.sendall((f"POST {P} HTTP/1.1\r\nX-Api-Key: secret\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        c.recv(10)
        r, data = s.ask("POST", P, text())
        check(r.status in (200, 503), data)
        if r.status == 503:
            check(int(r.getheader("Retry-After")) >= 1, r.headers)
            check(json.loads(data)["error"]["code"] == "overloaded", data)
        c.close()
    finally:
        s.stop(signal.SIGINT)


@test
def z_places_of_several():
    """Who asks for several answers has his places when he is the first who
    asks; those behind him, whose requests are not read yet, hold none."""
    s = Server("--max-num-queued-reqs", "0", "--max-num-seqs", "8")

    def ask(n_request, n):
        """Their statuses, in order. They are whole at the same time, and
        reading one takes long enough for all of them to be there."""
        body = json.dumps(text(n=n, max_tokens=400, ignore_eos=True))
        data = (f"POST {P} HTTP/1.0\r\nContent-Length: "
                f"{len(body) + 1000000}\r\n\r\n{body}" + " " * 999999)
        all = [s.connect() for _ in range(n_request)]
        for c in all:
            c.sendall(data.encode())
        for c in all:
            c.sendall(b" ")
        return [int(c.makefile("rb").readline().split()[1]) for c in all]
    try:
        got = ask(6, 8)
        check(200 in got[:5], got)  # the last may come when that has ended
        got = ask(3, 4)
        check(got.count(200) >= 2, got)
        wait_for(lambda: ask(1, 4) == [200], s.text)
    finally:
        s.stop()


@test
def z_tokens_that_wait():
    """Tokens of prompts that nobody has read yet have a limit; one prompt may
    be longer when it is alone."""
    s = Server("--max-num-queued-tokens", "100", "--max-num-seqs", "1",
               "--queue-timeout", "0.5")

    def send(body):
        c = s.connect()
        body = json.dumps(body)
        c.sendall((f"POST {P} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
                   f"{body}").encode())
        return c

    def whole(c):
        data = b""
        while more := c.recv(65536):
            data += more
        return data
    try:
        ids = [(7 * i) % 900 for i in range(300)]
        s.post(P, text(prompt=ids))
        refused = 0
        for _ in range(20):  # until one waits while another one comes
            first = send(text(prompt=ids[:60], max_tokens=400, stream=True,
                              ignore_eos=True))
            data = b""
            while b"data: {" not in data:  # it is read
                data += first.recv(65536) or check(False, data)
            second = send(text(prompt=ids[:60], stream=True))
            check(b"200" in second.recv(20))  # it has its place
            r, data = s.ask("POST", P, text(prompt=ids[:60]))
            check(r.status in (200, 503), data)
            check(b"[DONE]" in whole(first) and b"[DONE]" in whole(second))
            if r.status == 503:
                refused += 1
                check(json.loads(data)["error"]["code"] == "overloaded" and
                      1 <= int(r.getheader("Retry-After")) <= 30, data)
                break
        check(refused, "nobody had to wait: the test shows nothing")
        s.post(P, text(prompt=ids))
        check(s.metric("vllm:num_requests_waiting{") == 0)
        # And nobody waits for longer than the operator wants.
        first = send(text(max_tokens=400, ignore_eos=True, n=100, stream=True))
        data = b""
        while b"data: {" not in data:
            data += first.recv(65536) or check(False, data)
        r, data = s.ask("POST", P, text())
        check(r.status == 503 and b"--queue-timeout" in data and
              json.loads(data)["error"]["code"] == "overloaded", data)
        first.close()
        wait_for(lambda: s.ask("POST", P, text())[0].status == 200, "gone")
    finally:
        s.stop(signal.SIGKILL)


@test
def z_waiting_counts_from_the_whole_request():
    """And so it does while the request is read: one that had no turn until then
    is refused before its stream begins. But not where nobody else is: the
    server's own time to read is no queue."""
    s = Server("--max-num-seqs", "1", "--queue-timeout", "0.00001",
               context=65536)
    try:
        for _ in range(20):
            s.post(P, text(max_tokens=1))
        for _ in range(5):  # until one is there that takes all the time
            c = s.connect()
            body = json.dumps(text(max_tokens=60000, ignore_eos=True,
                                   stream=True))
            c.sendall((f"POST {P} HTTP/1.0\r\nContent-Length: {len(body)}\r\n"
                       f"\r\n{body}").encode())
            data = b""
            while b"data: {" not in data:  # it has the place
                data += c.recv(65536) or check(False, data)
            body = json.dumps(text(stream=True, metadata=[0] * 200_000))
            r, data = s.ask("POST", P, body)
            c.close()
            if r.status == 503:
                break
            wait_for(lambda: s.ask("GET", "/load")[1] == b'{"server_load":0}',
                     "it is gone")
        check(r.status == 503 and b"--queue-timeout" in data, data[:200])
    finally:
        s.stop(signal.SIGKILL)


tmp = tempfile.TemporaryDirectory()
KEYS = pathlib.Path(tmp.name, "keys")
KEYS.write_text("# one\n\nfrom-file\n")
S = Server("--api-key", "secret", "--served-model-name", "org/tiny,alias",
           "--api-key", "second", "--api-key-file", str(KEYS))
try:
    done()
finally:
    S.p.kill()
    S.dir.cleanup()
