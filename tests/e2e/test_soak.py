#!/usr/bin/env python3
"""A thousand connections, two hundred of them streams that are read slowly: no
error, memory that does not grow, and a loop that is nearly idle.

Always: the same streams again and again leave nothing behind, counted in blocks.
With $SL_TEST_FULL: for $SL_SOAK_S seconds (60), with the embedded model; growth
is judged from 300 seconds on, as the first fifth is for caches to fill. The claim
of ten minutes is SL_TEST_FULL=1 SL_SOAK_S=600."""
import json
import os
import pathlib
import resource
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
from e2e import SLUICE, check, done, test  # noqa: E402
from serving import LIMIT_S, Server, wait_for  # noqa: E402

DURATION_S = float(os.environ.get("SL_SOAK_S", "60"))
FULL = bool(os.environ.get("SL_TEST_FULL"))
IDLE, SLOW = (800, 200) if FULL else (80, 20)
LONG_S = 300  # from here on growth can be told from noise
ROUNDS = 4
SETTLE_S = 60
KEEP_S = 40  # below the server's idle limit
TICK_S = 0.1
READ = 1024  # bytes that a slow reader takes at a time, once a second in the
#            long run: below a stream's pace
MOST_GROWTH, MOST_LOOP = 0.01, 0.2
S = None


class Stream:
    """One slow reader: asks, reads a little at a time, asks again."""

    def __init__(self, i, again=True):
        self.i, self.n, self.s, self.again = i, 0, None, again
        self.ask()

    def ask(self):
        self.s = S.connect()
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        body = json.dumps({
            "prompt": [(self.i * 7 + self.n) % 900 + 1] * (20 + self.i % 50),
            "max_tokens": 40 + 60 * (self.i % 8), "stream": True, "seed": self.i,
            "ignore_eos": True, "temperature": 0.8}).encode()
        self.s.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d"
                       b"\r\n\r\n%s" % (len(body), body))
        self.s.setblocking(False)
        self.head, self.tail = b"", b""

    def read(self):
        """Whether a stream came to its end."""
        try:
            data = self.s.recv(READ)
        except BlockingIOError:
            return False
        if len(self.head) < 12:
            self.head += data[:12]
            check(self.head[:12] == b"HTTP/1.1 200"[:len(self.head)], data)
        check(data and b'"error"' not in self.tail + data, self.tail + data)
        self.tail = (self.tail + data)[-40:]
        if not self.tail.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
            return False
        self.s.close()
        if self.again:
            self.n += 1
            self.ask()
        return True


def rss_kb():
    text = pathlib.Path(f"/proc/{S.p.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0])


def loop_s():
    """Time that the thread of the loop has computed."""
    path = pathlib.Path(f"/proc/{S.p.pid}/task/{S.p.pid}/stat")
    part = path.read_text().rpartition(")")[2].split()
    return (int(part[11]) + int(part[12])) / os.sysconf("SC_CLK_TCK")


def stay(idle):
    """Connections that wait for nothing say something now and then."""
    for s in idle:
        s.sendall(b"GET /health HTTP/1.1\r\n\r\n")
    for s in idle:
        check(s.recv(1000).startswith(b"HTTP/1.1 200"), "an idle connection")


def blocks():
    return S.metric("sluice:memory_blocks")


def is_quiet():
    return not any(S.metric(f"vllm:num_requests_{w}")
                   for w in ("running", "waiting"))


def round_of_streams():
    """Idle connections and streams, the third of which leaves early."""
    idle = [S.connect() for _ in range(IDLE)]
    slow = [Stream(i, again=False) for i in range(SLOW)]
    stay(idle)
    for s in slow[::3]:
        s.s.close()
    left = [s for i, s in enumerate(slow) if i % 3]
    end = time.monotonic() + LIMIT_S
    while left:
        check(time.monotonic() < end, f"{len(left)} streams do not end")
        left = [s for s in left if not s.read()]
        time.sleep(0.01)
    for s in idle:
        s.close()


def settle(least):
    """Blocks when all is over: the fewest that are seen, for what was closed is
    freed a little later. Not longer than until there are `least`."""
    end = time.monotonic() + SETTLE_S
    wait_for(is_quiet, "requests do not end")
    n = blocks()
    while n > least and time.monotonic() < end:
        time.sleep(0.05)
        n = min(n, blocks())
    return n


@test
def nothing_stays():
    """What one round leaves behind is all that further rounds leave. They may make
    something that is kept for reuse, which the first did not need; but not a
    block for each stream."""
    if FULL:
        return
    round_of_streams()
    wait_for(is_quiet, "requests do not end")
    time.sleep(1)
    first = blocks()
    for _ in range(ROUNDS):
        round_of_streams()
    last = settle(first)
    check(last < first + SLOW, f"{first:.0f} blocks after a round, {last:.0f} after "
          f"{ROUNDS} more")


def trend(points):
    """The slope of the line that is nearest to them."""
    n = len(points)
    mx, my = (sum(p[i] for p in points) / n for i in (0, 1))
    return (sum((x - mx) * (y - my) for x, y in points) /
            sum((x - mx) ** 2 for x, _ in points))


@test
def many_connections_for_long():
    if not FULL:
        return
    idle = [S.connect() for _ in range(IDLE)]
    slow = [Stream(i) for i in range(SLOW)]
    t0 = time.monotonic()
    said, ended, rss = t0, 0, []
    loop0, turn = loop_s(), 0
    while time.monotonic() - t0 < DURATION_S:
        for s in slow[turn % 10::10]:
            ended += s.read()
        turn += 1
        if turn % 10 == 0:
            rss.append((time.monotonic() - t0, rss_kb()))
        if time.monotonic() - said > KEEP_S:
            said = time.monotonic()
            stay(idle)
        time.sleep(max(0, t0 + turn * TICK_S - time.monotonic()))
    loop = (loop_s() - loop0) / (time.monotonic() - t0)
    late = [(t, kb) for t, kb in rss if t >= DURATION_S / 5]
    mean = sum(kb for _, kb in late) / len(late)
    grown = trend(late) * DURATION_S * 4 / 5 / mean
    print(f"{ended} streams ended in {DURATION_S:.0f} s; memory "
          f"{mean / 1024:.1f} MiB after a fifth, grown by {100 * grown:.2f} % "
          f"till the end; loop {100 * loop:.1f} % of a core; memory by tenths " +
          " ".join(str(rss[len(rss) * k // 10][1]) for k in range(10)),
          flush=True)
    check(ended > 0, "no stream came to its end")
    check(loop <= MOST_LOOP, f"the loop took {loop:.3f} of a core")
    # A sanitizer keeps what was freed.
    if DURATION_S >= LONG_S and "san/" not in SLUICE:
        check(grown <= MOST_GROWTH, f"memory grew by {grown:.4f}")


if not FULL:  # without a cache that may keep more or less of who leaves early
    S = Server("--prefix-cache", "off")
else:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = IDLE + SLOW + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, want), hard))
    # A cache that is full within the first fifth: it is not what may not grow.
    S = Server("--prefix-cache-gib", "0.03", model="demo")
try:
    done()
finally:
    S.stop(signal.SIGKILL)
