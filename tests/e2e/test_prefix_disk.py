#!/usr/bin/env python3
"""A server with --prefix-cache-dir is ended in every way there is, and starts
again; two share the folder; it cannot be written. The answer is that of a
server without a cache, always."""
import json
import os
import pathlib
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from e2e import Run, check, done, test  # noqa: E402
from serving import Server, wait_for  # noqa: E402

TEXT = " ".join(f"item {i} of the list" for i in range(100))


class Folder(tempfile.TemporaryDirectory):
    def __enter__(self):
        return pathlib.Path(self.name, "cache")


def ask(s, text=TEXT, **more):
    j = s.post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": text}], "seed": 5,
        "max_tokens": 6, "ignore_eos": True, "logprobs": True, **more})
    c = j["choices"][0]
    return (c["message"], c["logprobs"]), \
        j["usage"]["prompt_tokens_details"]["cached_tokens"]


def server(d, *argv):
    return Server("--max-model-len", "2048", "--prefix-cache-dir", str(d),
                  *argv, model="models/demo")


def dropped(s, word):
    return any("event=prefix_dropped" in x and word in x for x in s.log)


def plain():
    s = Server("--max-model-len", "2048", "--prefix-cache", "off",
               model="models/demo")
    answers = {t: ask(s, t)[0] for t in (TEXT, TEXT + " and more")}
    check(ask(s)[1] == 0, "off means off")
    s.stop()
    return answers


WANT = plain()


@test
def a_second_start_is_warm():
    with Folder() as d:
        s = server(d)
        check(ask(s) == (WANT[TEXT], 0), "cold")
        check(s.stop() == 0, s.text())
        s = server(d)
        a, n = ask(s)
        check(a == WANT[TEXT] and n > 400, n)
        # Of a longer message what comes before it is known.
        check(ask(s, TEXT + " and more")[0] == WANT[TEXT + " and more"], "b")
        s.stop()
        modes = {os.stat(d / f).st_mode & 0o777 for f in os.listdir(d)}
        check(modes == {0o600}, modes)


@test
def the_decision_is_shown():
    with Folder() as d:
        s = server(d)
        ask(s)
        s.stop()
        s = server(d)
        n = [ask(s)[1] for _ in range(2)]
        j = json.loads(s.ask("GET", "/", headers={})[1])["prefix_cache"]
        check(j["enabled"] and j["hits"] == 2 and j["misses"] == 0, j)
        check(j["tokens_saved"] == sum(n), (j, n))
        check(all(j["bytes"][k] > 0 for k in ("pages", "states", "disk")), j)
        check(j["disk"]["loads"] == 1 and j["disk"]["dropped"] == 0, j)
        check(j["disk"]["tokens"] == n[0], j)
        got = {k: s.metric("sluice:prefix_cache_" + k) for k in (
            'prompts_total{', 'tokens_saved_total{', 'disk_loads_total{',
            'disk_tokens_total{', 'evictions_total{', 'prefixes{', 'bytes{')}
        check(got['prompts_total{'] == 2, got)
        check(got['tokens_saved_total{'] == sum(n), got)
        check(got['disk_tokens_total{'] == n[0], got)
        check(got['bytes{'] == j["bytes"]["pages"], got)
        s.stop()
        s = Server("--no-enable-prefix-caching")
        ask(s, "hello"), ask(s, "hello")
        j = json.loads(s.ask("GET", "/", headers={})[1])["prefix_cache"]
        check(not j["enabled"] and j["disk"] is None, j)
        check(j["tokens_saved"] == j["bytes"]["pages"] == 0, j)
        s.stop()


@test
def a_salt_survives():
    with Folder() as d:
        s = server(d)
        ask(s, cache_salt="one")
        s.stop()
        s = server(d)
        check(ask(s, cache_salt="two")[1] == 0, "others do not profit")
        check(ask(s, cache_salt="one")[1] > 400, "its owner does")
        s.stop()


@test
def killed_while_it_writes():
    with Folder() as d:
        for i in range(4):
            s = server(d)
            # Something new each time, so that there is something to write.
            ask(s, f"{i} " + TEXT)
            s.stop(signal.SIGKILL)
        (d / (("0" * 16) + "-torn.page.1.tmp")).write_bytes(b"torn")
        for f in d.glob("*.tmp"):  # what is younger may be in work
            os.utime(f, (0, 0))
        s = server(d)
        wait_for(lambda: dropped(s, "was ended"), s.text())
        check(not list(d.glob("*.tmp")), os.listdir(d))
        for i in range(4):
            ask(s, f"{i} " + TEXT)
        check(ask(s)[0] == WANT[TEXT], "right")
        s.stop()
        s = server(d)
        a, n = ask(s)
        check(a == WANT[TEXT] and n > 400, n)
        check(not dropped(s, ""), s.text())
        s.stop()


@test
def a_turned_bit():
    with Folder() as d:
        s = server(d)
        ask(s)
        s.stop()
        for f in d.glob("*.page"):
            b = bytearray(f.read_bytes())
            b[len(b) // 2] ^= 1
            f.write_bytes(b)
        s = server(d)
        check(ask(s) == (WANT[TEXT], 0), "cold again")
        wait_for(lambda: dropped(s, "digest"), s.text())
        s.stop()


@test
def two_at_once():
    with Folder() as d:
        two = [server(d, "--prefix-cache-dir-gib", "0.004")
               for _ in range(2)]
        for i in range(6):
            for s in two:
                ask(s, f"{i % 4} " + TEXT)
                check(ask(s)[0] == WANT[TEXT], "right")
        for s in two:
            s.stop()
        check(not list(d.glob("*.tmp")), os.listdir(d))
        n = sum(f.stat().st_size for f in d.iterdir())
        check(0 < n <= 2 * 0.004 * 2**30, n)


@test
def a_folder_that_may_only_be_read():
    with Folder() as d:
        s = server(d)
        ask(s)
        s.stop()
        for f in d.iterdir():
            f.chmod(0o644)
        before = sorted(os.listdir(d))
        d.chmod(0o555)
        if os.getuid() == 0:  # who may write everywhere but there
            s = server("/proc/sluice")
            check(ask(s) == (WANT[TEXT], 0), "cold")
        else:
            s = server(d)
            a, n = ask(s)
            check(a == WANT[TEXT] and n > 400, n)
            check(ask(s, TEXT + " and more")[0] == WANT[TEXT + " and more"],
                  "b")
        check(any("nothing will be kept" in x for x in s.log), s.text())
        wait_for(lambda: dropped(s, "not written"), s.text())
        s.stop()
        check(sorted(os.listdir(d)) == before, os.listdir(d))
        d.chmod(0o755)


@test
def what_contradicts_is_refused():
    r = Run("run", "models/demo", "x", "--prefix-cache", "off",
            "--prefix-cache-dir", "/tmp/x")
    check(r.refused(2, "--prefix-cache off"), r)
    r = Run("run", "models/demo", "x", "--prefix-cache-dir-gib", "1")
    check(r.refused(2, "--prefix-cache-dir"), r)


done()
