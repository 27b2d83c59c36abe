"""A server under test: a small random model behind `sluice serve`.

Random weights, with as many rows as the test tokenizer has ids.
"""
import concurrent.futures
import http.client
import json
import pathlib
import re
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time

from e2e import SLUICE, check, environment

GOLD = pathlib.Path(__file__).resolve().parent.parent / "golden"
TEMPLATE = """{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + \
m.content + '<|im_end|>\\n' }}{%- endfor %}{%- if add_generation_prompt %}\
{{ '<|im_start|>assistant\\n' }}{%- if enable_thinking %}{{ '<think>\\n' }}\
{%- endif %}{%- endif %}"""
KEY = {"Authorization": "Bearer secret"}
LIMIT_S = 240  # of anything that should not hang; sanitizers are slow


class Server:
    def __init__(self, *argv, env=None, model=None, files=None, context=512):
        """`model`: what to serve instead of the random one. `files`: that it
        may open, unless it asks for more."""
        self.dir = tempfile.TemporaryDirectory()
        d = pathlib.Path(self.dir.name, "tiny")
        d.mkdir()
        # Random weights, with as many rows as the tokenizer has ids.
        conf = json.loads((GOLD / "models/dense-r2/config.json").read_text())
        conf["vocab_size"] = 960
        conf["max_position_embeddings"] = max(context, 4096)
        (d / "config.json").write_text(json.dumps(conf))
        (d / "tokenizer.json").symlink_to(GOLD / "tokenizer/tokenizer.json")
        (d / "chat_template.jinja").write_text(TEMPLATE)
        what = [model] if model else [str(d), "--load-format", "dummy",
                                      "--max-model-len", str(context)]
        self.p = subprocess.Popen(
            [SLUICE, "serve", *what, "--port", "0", "--threads", "2",
             "--no-pin", *argv],
            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment(),
            preexec_fn=files and (lambda: resource.setrlimit(
                resource.RLIMIT_NOFILE,
                (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))))
        self.log, self.port = [], None
        self.is_ready = threading.Event()
        threading.Thread(target=self.read, daemon=True).start()
        check(self.is_ready.wait(LIMIT_S) and self.port, self.text())

    def read(self):
        for raw in self.p.stderr:
            s = raw.decode("utf-8", "replace")
            self.log.append(s)
            m = re.search(r"listening on http://127\.0\.0\.1:(\d+)", s)
            if m:
                self.port = int(m.group(1))
            if "sluice: ready" in s:
                self.is_ready.set()
        if not self.is_ready.is_set():  # it has ended
            self.port = None
        self.is_ready.set()

    def text(self):
        return "".join(self.log[-40:])

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), LIMIT_S)
        s.settimeout(LIMIT_S)
        return s

    def ask(self, method, path, body=None, headers=KEY):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        head = {"Content-Type": "application/json", **headers}
        c.request(method, path, body, head if body is not None else headers)
        r = c.getresponse()
        data = r.read()
        c.close()
        return r, data

    def post(self, path, body, headers=KEY, status=200):
        r, data = self.ask("POST", path, body, headers)
        check(r.status == status, (path, body, r.status, data))
        check(r.getheader("X-Request-Id"), r.headers)
        return json.loads(data)

    def refused(self, path, body, status, param=None, code=None, words=()):
        e = self.post(path, body, status=status)["error"]
        check(list(e) == ["message", "type", "param", "code"], e)
        check(e["message"] and e["type"], e)
        check(param is None or e["param"] == param, (body, e))
        check(code is None or e["code"] == code, (body, e))
        check(all(w in e["message"] for w in words), e)

    def stream(self, path, body):
        r, data = self.ask("POST", path, {**body, "stream": True})
        check(r.status == 200, data)
        check(r.getheader("Content-Type") ==
              "text/event-stream; charset=utf-8", r.headers)
        check(r.getheader("Cache-Control") == "no-cache", r.headers)
        check(b"\r" not in data and data.endswith(b"data: [DONE]\n\n"), data)
        events = data.decode().split("\n\n")
        check(events[-1] == "" and events[-2] == "data: [DONE]", events[-3:])
        out = []
        for e in events[:-2]:
            e = e.lstrip("\n")  # of a slow one: a blank line every 10 s
            if not e:
                continue
            check(e.startswith("data: {") and "\n" not in e, e)
            check('"usage":null' not in e and '"finish_reason":""' not in e, e)
            out.append(json.loads(e[6:]))
        return out

    def stop(self, sig=signal.SIGTERM):
        self.p.send_signal(sig)
        try:
            return self.p.wait(LIMIT_S)
        finally:
            self.p.kill()
            self.dir.cleanup()

    def metric(self, name):
        """The value of the series that begins so."""
        _, data = self.ask("GET", "/metrics", headers={})
        for s in data.decode().splitlines():
            if s.startswith(name):
                return float(s.split()[-1])
        raise AssertionError(name)


def wait_for(f, what):
    end = time.monotonic() + LIMIT_S
    while not f():
        check(time.monotonic() < end, what)
        time.sleep(0.02)


def gather(events):
    """A stream as one message."""
    out = {"content": "", "reasoning": "", "tool_calls": {}}
    for e in events:
        for c in e["choices"]:
            d = c["delta"]
            out["content"] += d.get("content") or ""
            out["reasoning"] += d.get("reasoning") or ""
            for t in d.get("tool_calls") or []:
                f = out["tool_calls"].setdefault(
                    t["index"], {"name": "", "arguments": ""})
                f["name"] += t["function"].get("name") or ""
                f["arguments"] += t["function"].get("arguments") or ""
            if c["finish_reason"]:
                out["finish"] = c["finish_reason"]
    out["tool_calls"] = list(out["tool_calls"].values())
    return out


def answer(server, path, body, stream):
    """An answer to a chat, the same form for both."""
    if stream:
        return gather(server.stream(path, body))
    c = server.post(path, body)["choices"][0]
    m = c["message"]
    return {"content": m["content"], "reasoning": m.get("reasoning"),
            "finish": c["finish_reason"],
            "tool_calls": [t["function"] for t in m.get("tool_calls") or []]}


def many(server, path, make, n):
    """Answers to make(0) .. make(n - 1), sixteen at once; every other one is
    streamed."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda i: answer(server, path, make(i),
                                              i % 2 == 1), range(n)))
