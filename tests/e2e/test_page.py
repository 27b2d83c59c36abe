#!/usr/bin/env python3
"""The page at /, in headless Chromium where there is one: ask, see it stream, stop
it, ask again, a call of a tool, reload; by keyboard, on a phone's width, and what
is written is text.

SL_TEST_SHOTS=DIR keeps page.png and page-phone.png there.
"""
import base64
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(__file__))
from e2e import check, done, test  # noqa: E402
import serving  # noqa: E402
from serving import Server  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
S = B = None


class Browser:
    """A page over the DevTools protocol: JSON in frames of a WebSocket."""

    def __init__(self):
        # Its children may still write when it has ended.
        self.dir = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.p = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage",
             "--remote-debugging-port=0", "--no-first-run",
             "--user-data-dir=" + self.dir.name, "about:blank"],
            stderr=subprocess.PIPE, text=True)
        for line in self.p.stderr:
            m = re.search(r"ws://127\.0\.0\.1:(\d+)/", line)
            if m:
                break
        threading.Thread(target=self.p.stderr.read, daemon=True).start()
        port = int(m[1])
        r = serving.http.client.HTTPConnection("127.0.0.1", port)
        r.request("GET", "/json/list")
        pages = json.loads(r.getresponse().read())
        url = next(p for p in pages if p["type"] == "page")
        self.open(port, url["webSocketDebuggerUrl"].split(str(port))[1])
        self.n, self.errors = 0, []

    def open(self, port, path):
        self.s = socket.create_connection(("127.0.0.1", port), 60)
        self.s.sendall((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                        "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                        "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        self.f = self.s.makefile("rb")
        while self.f.readline() != b"\r\n":
            pass

    def receive(self):
        text = b""
        while True:
            a, b = self.f.read(2)
            n = b & 127
            if n > 125:
                n = int.from_bytes(self.f.read(2 if n == 126 else 8), "big")
            text += self.f.read(n)
            if a & 0x80:
                return json.loads(text)

    def call(self, method, **params):
        self.n += 1
        data = json.dumps({"id": self.n, "method": method,
                           "params": params}).encode()
        head = (struct.pack(">BBH", 0x81, 0xfe, len(data)) if len(data) < 65536
                else struct.pack(">BBQ", 0x81, 0xff, len(data)))
        self.s.sendall(head + b"\0\0\0\0" + data)  # masked with nothing
        while True:
            m = self.receive()
            if m.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.errors.append(m["params"])
            if m.get("id") == self.n:
                check("error" not in m, m)
                return m["result"]

    def js(self, text):
        r = self.call("Runtime.evaluate", expression=text, awaitPromise=True,
                      returnByValue=True)
        check("exceptionDetails" not in r, r)
        return r["result"].get("value")

    def until(self, text, limit_s=120):
        for _ in range(limit_s * 10):
            try:
                if self.js(f"!!({text})"):
                    return
            except AssertionError:  # between two pages
                pass
            time.sleep(0.1)
        raise AssertionError(f"never: {text}; " + self.js("document.body.innerText"))

    def key(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=code,
                      **({"text": "\r"} if key == "Enter" else {}))

    def ask(self, text):
        self.call("Input.insertText", text=text)
        self.key("Enter", 13)

    def size(self, width, height, mobile):
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=1, mobile=mobile)

    def shot(self, name):
        if os.environ.get("SL_TEST_SHOTS"):
            png = self.call("Page.captureScreenshot")["data"]
            pathlib.Path(os.environ["SL_TEST_SHOTS"], name).write_bytes(
                base64.b64decode(png))

    def close(self):
        self.p.terminate()
        self.p.wait(60)
        self.dir.cleanup()


@test
def the_policy_is_strict():
    r, data = S.ask("GET", "/", headers={"Accept": "text/html"})
    policy = r.getheader("Content-Security-Policy")
    check("default-src 'none'" in policy and "unsafe" not in policy, policy)
    check(b"<script src=" in data and b"onclick" not in data, data)
    js = S.ask("GET", "/page.js")[1]
    check(b"innerHTML" not in js and b"eval(" not in js, "text only")


@test
def a_conversation():
    """From the first key to a reload; nothing is clicked."""
    answered = "!running && document.querySelectorAll('.assistant').length == "
    B.size(1100, 760, False)
    B.call("Page.navigate", url=f"http://127.0.0.1:{S.port}/")
    B.until("document.readyState == 'complete' && "
            "document.activeElement && document.activeElement.id == 'text'")
    # Escape with the first piece: a fast answer would end before we looked.
    B.js("new MutationObserver((_, o) => { if (running && document."
         "querySelector('.assistant .content, .assistant .reasoning')) { "
         "o.disconnect(); document.dispatchEvent(new KeyboardEvent('keydown', "
         "{key: 'Escape'})); } }).observe($('log'), {childList: true, "
         "subtree: true, characterData: true})")
    B.ask("Tell me a long story about the sea, with many ships in it.")
    B.until(answered + "1")
    check("stopped" in B.js("document.querySelector('.assistant').innerText"),
          "it says so")
    # Drawn at random, an answer may fill the context, and the next is refused.
    B.js("$('think').checked = false; $('temperature').value = '0'; "
         "$('max').value = '300'")
    B.ask("Say <img src=x onerror=alert(1)> and <b>hello</b>.")
    B.until(answered + "2")
    check(B.js("document.querySelectorAll('#log img, #log b').length") == 0,
          "markup is text")
    check("<b>hello</b>" in B.js("$('log').textContent"), "as it was written")
    B.js("$('settings').open = true; $('example').focus()")
    B.key("Enter", 13)
    B.js("$('settings').open = false; $('text').focus()")
    B.ask("What is the weather in Paris? Call the get_weather tool.")
    B.until(answered + "3")
    call = B.js("(d => d && [d.open, d.querySelector('summary').textContent, "
                "d.querySelector('pre').textContent])"
                "(document.querySelector('details.call'))")
    check(call and not call[0] and "get_weather" in call[1], call)
    check("city" in json.loads(call[2]), call)
    before = B.js("$('log').innerText.replace(/^.*per second.*$/gm, '')")
    B.js("document.querySelector('details.call').open = true; "
         "$('log').scrollTop = 1e9")
    B.until("$('drafts').textContent.includes('%')")
    B.shot("page.png")
    B.js("document.querySelector('details.call').open = false")
    B.js("window.old = true")
    B.call("Page.reload")
    B.until("!window.old && document.readyState == 'complete' && "
            "document.querySelectorAll('article').length == 6")
    after = B.js("$('log').innerText")
    for line in before.split("\n"):
        check(line.strip() in after or line.strip() == "stopped", line)


@test
def a_phone():
    B.size(390, 780, True)
    check(B.js("document.documentElement.scrollWidth") <= 390, "it is wider")
    check(B.js("$('send').getBoundingClientRect().bottom") <= 780, "send hides")
    B.shot("page-phone.png")
    errors = [e for e in B.errors
              if e.get("entry", {}).get("level") in (None, "error")]
    check(not errors, errors)


def main():
    global S, B
    if not CHROMIUM:
        print("skipped: no Chromium is installed\n0 passed, 0 failed")
        return
    S = Server("--max-model-len", "2048", "--spec-ladder", "8:3", model="models/demo")
    try:
        B = Browser()
        for domain in ("Page", "Runtime", "Log"):
            B.call(domain + ".enable")
        done()
    finally:
        if B:
            B.close()
        S.stop(signal.SIGTERM)


main()
