#!/usr/bin/env python3
"""A download that dies at each of its steps in turn, that meets a full disk,
and that shares a cache with others that no lock keeps away."""
import concurrent.futures
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from e2e import LIMIT_S, SLUICE, check, done, environment, test
from hub import Hub, Repo, git_sha1, sha256

HERE = pathlib.Path(__file__).resolve().parent
DIR = pathlib.Path(tempfile.mkdtemp(prefix="sluice-steps-"))
CONFIG = pathlib.Path("models/demo/config.json").read_bytes()
HUB = Hub()
EVERY = 1 if os.environ.get("SL_TEST_FULL") == "1" else 7


def weights(n):
    """A file of weights with no tensor."""
    return struct.pack("<Q", n - 8) + b"{}" + b" " * (n - 10)


def repo(name, n, **kw):
    return HUB.add(Repo(name, {"config.json": CONFIG, "tokenizer.json": b"{}",
                               "model.safetensors": weights(n)}, **kw))


def preload():
    out = DIR / "steps.so"
    if not out.exists():
        subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o",
                        str(out), str(HERE / "steps.c"), "-ldl"], check=True)
    return str(out)


class Place:
    def __init__(self, r):
        self.repo = r
        self.dir = pathlib.Path(tempfile.mkdtemp(dir=DIR))
        (self.dir / "run").mkdir()

    def pull(self, *argv, **env):
        if env:
            env["LD_PRELOAD"] = preload()
        return subprocess.run(
            [SLUICE, "pull", self.repo.name, *argv], capture_output=True,
            env=environment(**HUB.env(self.dir, **env)), text=True,
            timeout=LIMIT_S)

    def sound(self, *more):
        """No blob that is not what its name says."""
        for blob in self.dir.rglob("blobs/*"):
            data = blob.read_bytes()
            check(blob.name in (sha256(data), git_sha1(data)), (blob, more))

    def whole(self, r, *more):
        check(r.returncode == 0, (r, more))
        name = "models--" + self.repo.name.replace("/", "--")
        at = self.dir / "hf/hub" / name / "snapshots" / self.repo.sha()
        for path, data in self.repo.files.items():
            check((at / path).read_bytes() == data, (path, r, more))
        self.sound(*more)
        left = list(self.dir.rglob("*.part"))
        check(not left, (left, more))

    def end(self):
        shutil.rmtree(self.dir)


@test
def dies_at_each_step():
    r = repo("t/steps", 20000)
    n = 1
    while True:
        p = Place(r)
        dead = p.pull(STEPS_DIE=n)
        if dead.returncode == 0:
            break
        check(dead.returncode == -9, dead)
        p.sound(n)
        p.whole(p.pull(), n)
        p.end()
        n += EVERY
    check(n > 20, f"only {n} steps: the test shows nothing")
    p.whole(dead)
    p.end()


@test
def no_lock_holds():
    """Where flock lets everybody through the result is right, too."""
    r = repo("t/nolock", 2 << 20, pace=0.004)
    p = Place(r)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for q in pool.map(lambda _: p.pull(STEPS_NO_LOCK=1), range(4)):
            check(q.returncode == 0, q)
    p.whole(p.pull())
    p.end()


@test
def disk_full_in_mid_write():
    """What came stays, and the next try goes on behind it."""
    r = repo("t/full", 2 << 20)
    p = Place(r)
    q = p.pull(STEPS_FULL=1000000)
    check(q.returncode == 6 and "No space left" in q.stderr, q)
    p.sound()
    part, = p.dir.rglob("*.part")
    n = part.stat().st_size
    check(900000 < n <= 1000000, n)
    p.whole(p.pull())
    asked = [h.get("Range") for *_, h in HUB.asked(r.name, "storage")]
    check(asked == [None, f"bytes={n}-"], asked)
    p.end()


@test
def eight_at_once_and_gc():
    """Eight fetch one repository while garbage is collected: one download."""
    r = repo("t/eight", 2 << 20, pace=0.1)
    p = Place(r)
    env = environment(**HUB.env(p.dir))
    said, before = [], HUB.served
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        all = [pool.submit(p.pull) for _ in range(8)]
        while not all[0].done():
            q = subprocess.run([SLUICE, "gc", "--partials", "--weights",
                                "--older-than", "0"], env=env,
                               capture_output=True, text=True, timeout=LIMIT_S)
            said.append(q.returncode)
            check(q.returncode in (0, 8), q)
        for f in all:
            check(f.result().returncode == 0, f.result())
    check(8 in said, f"gc met no pull: {said}")
    p.whole(p.pull("--offline"))
    served = HUB.served - before
    want = sum(map(len, r.files.values()))
    check(served <= want * 1.05, (served, want))
    p.end()


if __name__ == "__main__":
    if any(v in SLUICE for v in ("asan", "tsan")):
        tests = sys.modules["e2e"].tests
        tests[:] = [eight_at_once_and_gc]  # preloading does not go with them
    try:
        done()
    finally:
        HUB.close()
        shutil.rmtree(DIR, ignore_errors=True)
