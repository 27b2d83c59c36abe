#!/usr/bin/env python3
"""Fetching from a hub: every fault that one can have, against a local one.

The tests sleep more than they compute (retries, stalls), so they run side by
side. Each has a cache of its own.
"""
import concurrent.futures
import fcntl
import itertools
import json
import os
import pathlib
import shutil
import struct
import sys
import tempfile
import traceback

from e2e import Run, check, in_namespace, test, tests
from hub import Hub, Repo, git_sha1, sha256

CONFIG = pathlib.Path("models/demo/config.json").read_bytes()
# A file of weights with no tensor, 2 MiB: above the line of git's own files.
BIG = struct.pack("<Q", (2 << 20) - 8) + b"{}" + b" " * ((2 << 20) - 10)
SIDE_BY_SIDE = 24


def files(**more):
    return {"config.json": CONFIG, "tokenizer.json": b"{}",
            "README.md": b"# hello\n", "model.safetensors": BIG,
            **{k.replace("__", "/"): v for k, v in more.items()}}


HUB = Hub()
NUMBER = itertools.count()


class Place:
    """A fresh home, and a repository with a fault."""

    def __init__(self, fault="", data=None, name=None, **kw):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sluice-hub-"))
        self.name = name or f"t/{fault or 'plain'}-{next(NUMBER):04d}"
        self.repo = HUB.add(Repo(self.name, data or files(), fault, **kw))
        self.before = None

    def run(self, *argv, **env):
        if self.repo.fault in ("stall", "never"):  # else no machine is so slow
            env["HF_HUB_DOWNLOAD_TIMEOUT"] = 2
        return Run(*argv, env=HUB.env(self.dir, **env))

    def pull(self, *argv, **env):
        return self.run("pull", self.name, *argv, **env)

    def cache(self):
        return self.dir / "hf/hub" / ("models--" + self.name.replace("/", "--"))

    def snapshot(self, sha=None):
        return self.cache() / "snapshots" / (sha or self.repo.sha())

    def whole(self, r, want=None):
        """It worked, and the snapshot is what the hub has."""
        check(r.rc == 0, r)
        for path, data in (want or self.repo.files).items():
            if path in ("README.md", ".gitattributes"):
                continue
            check((self.snapshot() / path).read_bytes() == data, (path, r))
        parts = list(self.dir.rglob("*.part"))
        check(not parts, parts)
        return self

    def nothing(self, r, rc, *words):
        """It failed with the code and the words; no whole file is there that
        should not be, and no address that is a secret was printed."""
        check(r.rc == rc and all(w in r.err for w in words), r)
        check("Signature" not in r.err and "secret" not in r.err, r)
        check(not (self.snapshot() / "model.safetensors").exists(), r)
        for blob in self.cache().glob("blobs/*"):
            data = blob.read_bytes()
            check(blob.name in (sha256(data), git_sha1(data)), blob)

    def end(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def good(fault, *words, **kw):
    p = Place(fault, **kw)
    r = p.pull()
    p.whole(r)
    check(all(w in r.err for w in words), r)
    p.end()


def bad(fault, rc, *words, **kw):
    env = kw.pop("env", {})
    p = Place(fault, **kw)
    p.nothing(p.pull(**env), rc, *words)
    p.end()


@test
def plain():
    p = Place()
    r = p.pull(HF_TOKEN="good")
    p.whole(r)
    check(r.out.strip() == str(p.snapshot()), r)
    check((p.cache() / "refs/main").read_text() == p.repo.sha(), "refs/main")
    for path in ("config.json", "model.safetensors"):
        link = os.readlink(p.snapshot() / path)
        check(link.startswith("../../blobs/"), link)
    check((p.cache() / "blobs" / sha256(BIG)).is_file(), "blob of a sha256")
    check((p.cache() / "blobs" / git_sha1(CONFIG)).is_file(), "blob of git")
    check(not (p.snapshot() / "README.md").exists(), "only what is used")
    # The token goes to the hub and nowhere else.
    asked = HUB.asked(p.name)
    check(asked and all((h.get("Authorization") == "Bearer good") ==
                        (role == "hub") for role, _, _, h in asked), asked)
    check(all(h["Accept-Encoding"] == "identity" for *_, h in asked), asked)
    # The second time: one question, no file.
    before = len(HUB.asked(p.name))
    p.whole(p.pull())
    again = HUB.asked(p.name)[before:]
    check(not any("/resolve/" in a[2] for a in again), again)
    p.end()


@test
def token_never_shows():
    p = Place("private")
    r = p.pull(HF_TOKEN="hf_TopSecret")
    check(r.rc == 4 and "TopSecret" not in r.err + r.out, r)
    p.whole(p.pull(HF_TOKEN="good"))
    for f in p.dir.rglob("*"):
        check(not f.is_file() or b"good" not in f.read_bytes()
              or f.name == "tokenizer.json", f)
    p.end()


@test
def token_from_files():
    p = Place("private")
    (p.dir / "hf").mkdir()
    (p.dir / "hf/token").write_text("good\n")
    p.whole(p.pull())
    check(p.pull(HF_HUB_DISABLE_IMPLICIT_TOKEN="1").rc == 4, "implicit")
    (p.dir / "mine").write_text("good")
    p.whole(p.pull("--token-file", str(p.dir / "mine"),
                   HF_TOKEN_PATH="/nonexistent"))
    p.end()


@test
def weak():
    good("weak")


@test
def relative_redirect():
    p = Place(name="t/relredir")
    r = p.run("pull", "t/old")
    check(r.rc == 0 and "'t/old' is called 't/relredir' now" in r.err, r)
    p.whole(r)
    p.end()


@test
def loop():
    bad("loop", 7, "redirects more than 5 times")


@test
def evil_redirects():
    for to, word in (("file:///etc/passwd", "refused"),
                     ("gopher://127.0.0.1/x", "refused"),
                     ("http://example.org/x", "only https"),
                     ("https://user:pw@example.org/x", "user's name"),
                     ("ftp://127.0.0.1/x", "only https")):
        bad("evilredir", 5, word, to=to)


@test
def cut():
    p = Place("cut")
    r = p.pull()
    p.whole(r)
    got = [h.get("Range") for *_, h in HUB.asked(p.name, "storage")]
    check(got == [None, f"bytes={len(BIG) // 2}-"], got)
    p.end()


@test
def reset_at_each_quarter():
    p = Place("quarters")
    p.whole(p.pull())
    got = [int(h["Range"][6:-1]) for *_, h in HUB.asked(p.name, "storage")[1:]]
    check(len(got) == 3 and got == sorted(set(got)), got)
    p.end()


@test
def no_range():
    good("norange")


@test
def status_416():
    good("416")


@test
def bad_range():
    bad("badrange", 5, "another range")


@test
def bad_digest():
    p = Place("badsha")
    p.nothing(p.pull(), 5, "digest", "twice")
    check(len(HUB.asked(p.name, "storage")) == 2, "once more from the start")
    check(not list(p.dir.rglob("*.part")), "nothing is left to go on with")
    p.end()


@test
def bad_digest_once():
    good("badonce", "trying again")


@test
def short_body():
    # Half of what is left, each time: it grows, and so it goes on.
    p = Place("short", data=files(**{"model.safetensors": BIG[:9000]}))
    r = p.pull()
    check(r.rc in (0, 7), r)
    check(len(HUB.asked(p.name, "storage")) > 2, r)
    p.end()


@test
def long_body():
    bad("long", 5, "longer")


@test
def encoding():
    bad("gzip", 5, "encoding")


@test
def stall():
    p = Place("stall")
    r = p.pull()
    p.whole(r)
    ranges = [h.get("Range") for *_, h in HUB.asked(p.name, "storage")]
    check(ranges == [None, f"bytes={1 << 20}-"], ranges)
    p.end()


@test
def slow_trickle():
    # Below the stall limit all the time, and longer than it as a whole.
    good("trickle", pace=0.1)


@test
def never_a_byte():
    bad("never", 7, "5 times without progress", "run the same command again")


@test
def too_many_requests():
    p = Place("429")
    r = p.pull()
    p.whole(r)
    check(r.err.count("the hub asks to wait 1 s") == 2 and
          "'sluice login'" in r.err, r)
    p.end()


@test
def storm():
    p = Place("503")
    p.nothing(p.pull(), 7, "status 503", "5 times")
    check(p.repo.tries["503"] == 5, p.repo.tries)
    p.end()


@test
def clock_skew():
    good("skew", "the hub asks to wait 0 s")


@test
def private_repository():
    bad("private", 4, "there is no repository", "or it is private",
        "no token is set")


@test
def gated():
    bad("gated", 4, "gated", "accept its licence")
    bad("gated401", 4, "gated", "sluice login")


@test
def scope():
    bad("scope", 4, "token lacks read scope")


@test
def endless_refusal():
    bad("endless", 4, "the hub forbids", "nothing nothing")


@test
def not_there():
    p = Place()
    r = p.run("pull", "t/nobody-has-this")
    check(r.rc == 4 and "there is no repository 't/nobody-has-this'" in r.err,
          r)
    r = p.run("pull", p.name + "@v9")
    check(r.rc == 4 and "no such revision" in r.err, r)
    p.end()


@test
def no_hub():
    p = Place()
    r = p.pull(HF_ENDPOINT="http://127.0.0.1:1")
    p.nothing(r, 7, "5 times without progress")
    p.end()


@test
def answers_that_are_none():
    bad("notjson", 5, "not valid JSON")
    bad("badsha1", 5, "no proper 'sha'")
    bad("missing", 5, "lists this file and does not have it")
    bad("othercommit", 5, "another commit")
    bad("linked", 5, "another digest")
    bad("otherpage", 5, "another host",
        data={f"f{i}.txt": b"" for i in range(1001)})


@test
def pages():
    data = files(**{f"part{i:04}.txt": b"" for i in range(2500)})
    p = Place("pages", data=data)
    r = p.pull("--dry-run")
    check(r.rc == 0 and "2503 files" in r.err, r)
    check(len(HUB.asked(f"{p.name}/tree")) == 3, "three pages")
    p.end()


@test
def revision_moves():
    p = Place("moved")
    sha, old = p.repo.sha(), dict(p.repo.files)
    r = p.pull()
    check(r.rc == 0, r)
    check((p.snapshot(sha) / "model.safetensors").read_bytes() ==
          old["model.safetensors"], "everything is of the commit that was listed")
    p.end()


@test
def shard_changes_half_way():
    """After a cut the hub serves another commit: not one file of two."""
    bad("halfway", 5, "another commit")


@test
def another_size():
    bad("othersize", 5, "another size")


@test
def links_on_the_hub():
    bad("symlink", 5, "no proper 'type'")


@test
def evil_paths():
    for path in ("../x", "/etc/x", "a\\b", "a/../../x", "CON .", "x\x01y",
                 "d:x", ".git/config", "n" * 300, "d/" * 600 + "x",
                 "CONFIG.json", "e\u0301.txt"):
        evil = [path] + (["\u00e9.txt"] if path == "e\u0301.txt" else [])
        p = Place("evilpath", evil=evil)
        p.nothing(p.pull(), 5, "refused")
        check(not list(p.dir.rglob("x")) and not pathlib.Path("/etc/x").exists(),
              "written outside")
        p.end()


@test
def etag_that_is_a_path():
    bad("etagname", 5, "another tag")


@test
def huge_manifest():
    p = Place("hugejson", data=files(**{"serve_bundle.json": b"{" * 5000}))
    p.nothing(p.pull(), 5, "may have 4194304")
    p.end()


@test
def deep_manifest():
    for text, word in ((b"[" * 40, "deeper than 16"),
                       (b'{"schema_version":"1.0","schema_version":"1.0"}',
                        "duplicate"),
                       (b'{"schema_version":"1.0","name":"' + b"x" * 5000 +
                        b'"}', "4096")):
        p = Place(data=files(**{"serve_bundle.json": text}))
        p.nothing(p.pull(), 5, word)
        p.end()


@test
def unsupported_model_is_told_early():
    p = Place(data=files(**{"config.json": b'{"architectures": ["Llama"]}'}))
    r = p.pull()
    p.nothing(r, 3, "Llama")
    check(not HUB.asked(p.name, "storage"), "its weights were not fetched")
    p.end()


@test
def resume_across_runs():
    # The first run ends because the hub goes silent for good. Its number is
    # somebody else's by now.
    p = Place("cut", pace=0.02)
    p.repo.fault = "never"
    p.repo.files["model.safetensors"] = BIG
    half = p.dir / "data/sluice/partial"
    half.mkdir(parents=True)
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    d = sha256(BIG)
    (half / f"{d}.part").write_bytes(BIG[:1500000])
    (half / f"{d}.json").write_text(json.dumps(
        {"digest": d, "size": len(BIG), "bytes_ok": 0, "boot": boot,
         "pid": os.getpid()}))
    p.repo.fault, p.repo.kw = "", {}
    r = p.pull()
    p.whole(r)
    check("goes on after 1.43 MiB" in r.err, r)
    got = [h.get("Range") for *_, h in HUB.asked(p.name, "storage")]
    check(got == ["bytes=1500000-"], got)
    p.end()


@test
def partial_after_a_crash_of_the_machine():
    # Another boot: only what was known to be on the disk counts.
    p = Place()
    half = p.dir / "data/sluice/partial"
    half.mkdir(parents=True)
    d = sha256(BIG)
    (half / f"{d}.part").write_bytes(BIG[:1000] + bytes(5000))
    (half / f"{d}.json").write_text(json.dumps(
        {"digest": d, "size": len(BIG), "bytes_ok": 1000, "boot": "other",
         "pid": 1}))
    p.whole(p.pull())
    got = [h.get("Range") for *_, h in HUB.asked(p.name, "storage")]
    check(got == ["bytes=1000-"], got)
    p.end()


@test
def partial_of_another():
    """Who is at it has a lock on it, and in a container any number."""
    p = Place()
    half = p.dir / "data/sluice/partial"
    half.mkdir(parents=True)
    path = half / f"{sha256(BIG)}.part"
    path.write_bytes(b"theirs")
    with open(path, "r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        check(p.pull().rc == 0, "pull")
    check(path.read_bytes() == b"theirs" and len(list(half.iterdir())) == 1,
          list(half.iterdir()))
    p.end()


@test
def damaged_partial():
    p = Place()
    half = p.dir / "data/sluice/partial"
    half.mkdir(parents=True)
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    d = sha256(BIG)
    (half / f"{d}.part").write_bytes(b"rubbish" * 1000)
    (half / f"{d}.json").write_text(json.dumps(
        {"digest": d, "size": len(BIG), "bytes_ok": 7000, "boot": boot,
         "pid": 0}))
    p.whole(p.pull())
    p.end()


@test
def damaged_blob_is_fetched_again():
    p = Place()
    p.whole(p.pull())
    blob = p.cache() / "blobs" / sha256(BIG)
    blob.write_bytes(b"x" + BIG[1:])
    inode = blob.stat().st_ino
    p.whole(p.pull())
    check(blob.stat().st_ino != inode, "a blob is replaced, never rewritten")
    p.end()


@test
def links_into_nowhere():
    # A snapshot entry that leads out of the cache is not believed.
    p = Place()
    p.snapshot().mkdir(parents=True)
    secret = p.dir / "secret"
    secret.write_bytes(BIG)
    (p.snapshot() / "model.safetensors").symlink_to(secret)
    blobs = p.cache() / "blobs"
    blobs.mkdir()
    (blobs / sha256(BIG)).symlink_to(secret)
    p.whole(p.pull())
    check(not (blobs / sha256(BIG)).is_symlink(), "the link was replaced")
    check(secret.read_bytes() == BIG, "what it led to is as it was")
    p.end()


@test
def two_at_once():
    p = Place(pace=0.01)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for r in pool.map(lambda _: p.pull(), range(2)):
            p.whole(r)
    got = HUB.asked(p.name, "storage")
    check(len(got) == 1, "one download for both")
    p.end()


@test
def disk_full():
    """A file system of 1 MiB, in a name space of its own."""
    p = Place()
    (p.dir / "hf").mkdir()
    r = Run("pull", p.name, env=HUB.env(p.dir))
    shutil.rmtree(p.dir / "hf")
    (p.dir / "hf").mkdir()
    shutil.rmtree(p.dir / "data")
    q = in_namespace("-Urm", 'mount -t tmpfs -o size=1m none "$2" && '
                     'exec "$1" pull "$3"', str(p.dir / "hf"), p.name,
                     env=HUB.env(p.dir))
    check(not q or q.returncode == 6 and "MiB free" in q.stderr and
          "sluice gc --dry-run" in q.stderr, q)
    check(r.rc == 0, r)
    p.end()


@test
def offline():
    p = Place()
    r = p.pull("--offline")
    check(r.rc == 7 and "sluice pull --with-weights " + p.name in r.err, r)
    p.whole(p.pull())
    before = len(HUB.log)
    for env in ({"HF_HUB_OFFLINE": "1"}, {"TRANSFORMERS_OFFLINE": "Yes"}):
        p.whole(p.pull(**env))
    p.whole(p.run("pull", f"{p.name}@{p.repo.sha()}"))
    mine = [a for a in HUB.log[before:] if p.name in a[2]]
    check(not mine, mine)
    # Without any interface.
    q = in_namespace("-Urn", 'exec "$1" pull "$2" --offline', p.name,
                     env=HUB.env(p.dir))
    check(not q or q.returncode == 0, q)
    (p.snapshot() / "model.safetensors").unlink()
    r = p.pull("--offline")
    check(r.rc == 7 and "model.safetensors" in r.err, r)
    p.end()


@test
def made_by_others():
    """A cache with the layout of the hub's own client, and no receipt."""
    p = Place()
    blobs = p.cache() / "blobs"
    blobs.mkdir(parents=True)
    p.snapshot().mkdir(parents=True)
    for path, data in p.repo.files.items():
        name = sha256(data) if p.repo.is_lfs(path, data) else git_sha1(data)
        (blobs / name).write_bytes(data)
        (p.snapshot() / path).symlink_to(f"../../blobs/{name}")
    (p.cache() / "refs").mkdir()
    (p.cache() / "refs/main").write_text(p.repo.sha())
    p.whole(p.pull("--offline"))
    p.whole(p.pull())
    check(not HUB.asked(f"{p.name}/resolve"), "nothing was downloaded")
    p.end()


@test
def many_files():
    """A snapshot of thousands, that others filled: found, and found again."""
    n = 10000 if os.environ.get("SL_TEST_FULL") == "1" else 2000
    p = Place(data=files(**{f"f{i:05}.txt": b"%d" % (i % 50)
                            for i in range(n)}))
    blobs, snapshot = p.cache() / "blobs", p.snapshot()
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for path, data in p.repo.files.items():
        name = sha256(data) if p.repo.is_lfs(path, data) else git_sha1(data)
        if not (blobs / name).exists():
            (blobs / name).write_bytes(data)
        (snapshot / path).symlink_to(f"../../blobs/{name}")
    (p.cache() / "refs").mkdir()
    (p.cache() / "refs/main").write_text(p.repo.sha())
    for argv in (("pull", p.name), ("pull", p.name), ("verify", p.name),
                 ("rm", p.name, "--weights", "--dry-run")):
        check(p.run(*argv, HF_HUB_OFFLINE=1).rc == 0, argv)
    check(not HUB.asked(p.name), "nothing was asked")
    p.end()


@test
def read_only_cache():
    """Others' cache is read; what is missing goes to ours."""
    p = Place()
    p.whole(p.pull())
    (p.snapshot() / "model.safetensors").unlink()
    (p.cache() / "blobs" / sha256(BIG)).unlink()
    script = 'mount --bind "$2" "$2" && mount -o remount,ro,bind "$2" && ' \
        'exec "$1" pull "$3"'
    for env in ({}, {"HF_HUB_OFFLINE": "1"}):
        q = in_namespace("-Urm", script, str(p.dir / "hf"), p.name,
                         env=HUB.env(p.dir, **env))
        if not q:
            return p.end()
        check(q.returncode == 0, q)
        dir = pathlib.Path(q.stdout.strip())
        check(dir.is_relative_to(p.dir / "data/sluice/hub"), dir)
        check((dir / "model.safetensors").read_bytes() == BIG, dir)
        check((dir / "config.json").read_bytes() == CONFIG, dir)
    check(len(HUB.asked(f"{p.name}/resolve")) ==
          len([f for f in p.repo.files if f != "README.md"]) + 1,
          "only the missing one again")
    p.end()


@test
def places():
    """The variables of the ecosystem, in their order."""
    p = Place()
    env = HUB.env(p.dir)
    for change, where in (
            ({"HF_HUB_CACHE": p.dir / "a", "HUGGINGFACE_HUB_CACHE": "x"}, "a"),
            ({"HUGGINGFACE_HUB_CACHE": p.dir / "b"}, "b"),
            ({"HF_HOME": "~/c"}, "c/hub"),
            ({"HF_HOME": "", "XDG_CACHE_HOME": p.dir / "d"},
             "d/huggingface/hub"),
            ({"HF_HOME": ""}, ".cache/huggingface/hub")):
        r = Run("pull", p.name, env={**env, **{k: str(v) for k, v in
                                               change.items()}})
        want = p.dir / where / p.cache().name / "snapshots" / p.repo.sha()
        check(r.rc == 0 and r.out.strip() == str(want), (r, want))
    r = Run("pull", p.name, "--cache-dir", str(p.dir / "e"), env=env)
    check(r.rc == 0 and r.out.startswith(str(p.dir / "e")), r)
    for endpoint in ("ftp://x", "https://", "https://u@x", "x"):
        r = p.pull(HF_ENDPOINT=endpoint)
        check(r.rc == 2 and "HF_ENDPOINT" in r.err, r)
    p.end()


@test
def dry_run():
    p = Place()
    r = p.pull("--dry-run")
    check(r.rc == 0 and r.out == "" and "3 files" in r.err and
          "to fetch: 3, 2.00 MiB" in r.err, r)
    check(not HUB.asked(p.name + "/resolve"), "nothing was fetched")
    check(not list(p.dir.rglob("blobs")), "nothing was written")
    p.end()


@test
def gguf_choices():
    p = Place(data={"a-Q4_K_M.gguf": BIG, "a-Q8_0.gguf": BIG + b"8",
                    "mmproj-a.gguf": b"x"})
    r = p.pull()
    check(r.rc == 2 and "a-Q4_K_M.gguf, a-Q8_0.gguf" in r.err, r)
    r = p.run("pull", p.name + ":q8_0")
    check(r.rc == 0 and r.out.strip().endswith("/a-Q8_0.gguf"), r)
    check(len(HUB.asked(p.name + "/resolve")) == 1, "one file")
    r = p.run("pull", p.name + ":Q2_K")
    check(r.rc == 2 and "no such GGUF" in r.err, r)
    p.end()
    p = Place(data={"only.gguf": BIG, "mmproj-a.gguf": b"x"})
    r = p.pull()
    check(r.rc == 0 and r.out.strip().endswith("/only.gguf"), r)
    p.end()


@test
def gguf_side_by_side():
    """Two of one commit: each is kept, checked, repaired and removed alone."""
    p = Place(data={"a-Q4_K_M.gguf": BIG, "a-Q8_0.gguf": BIG + b"8"})
    four, eight = p.name + ":Q4_K_M", p.name + ":Q8_0"
    for name in (four, eight):
        check(p.run("pull", name).rc == 0, name)
    asked = len(HUB.asked(p.name))
    for name in (four, eight):
        r = p.run("pull", name, HF_HUB_OFFLINE=1)
        check(r.rc == 0 and len(HUB.asked(p.name)) == asked, r)
    r = p.pull(HF_HUB_OFFLINE=1)
    check(r.rc != 0 and "say which" in r.err, r)
    blob = p.cache() / "blobs" / sha256(BIG)
    blob.unlink()
    blob.write_bytes(b"x" * len(BIG))
    r = p.run("verify", eight)
    check(r.rc == 0, r)
    check(p.run("pull", eight, HF_HUB_OFFLINE=1).rc == 0, "not the other")
    for name in (four, p.name):
        r = p.run("verify", name)
        check(r.rc == 5 and "a-Q4_K_M.gguf' is damaged" in r.err, r)
    r = p.run("verify", p.name, "--repair")
    check(r.rc == 0 and blob.read_bytes() == BIG, r)
    r = p.run("rm", four, "--weights")
    check(r.rc == 0 and "2.00 MiB freed" in r.err and not blob.exists(), r)
    check([f.name for f in p.snapshot().iterdir()] == ["a-Q8_0.gguf"], r)
    check(p.run("pull", eight, HF_HUB_OFFLINE=1).rc == 0, "the other stays")
    # A receipt that lists nothing, or leads elsewhere, is not "ok".
    receipt, = p.dir.rglob("receipts/*/*.json")
    text = receipt.read_text()
    for bad in ({"files": []}, {"files": [{"path": "a-Q8_0.gguf"}]},
                {"files": [dict(json.loads(text)["files"][0], path="../x")]}):
        receipt.write_text(json.dumps({**json.loads(text), **bad}))
        for how in ((), ("--quick",)):
            r = p.run("verify", p.name, *how)
            check(r.rc == 5 and "receipt" in r.err, r)
    receipt.write_text(text)
    r = p.run("rm", p.name, "--weights")
    check(r.rc == 0 and not list(p.cache().glob("blobs/*")), r)
    p.end()


@test
def names():
    for name in ("a", "a/b/c", "a b/c", "a/..", "a--b/c", "../x/y"):
        r = Run("pull", name, env=HUB.env("/nonexistent"))
        check(r.rc == 2 and "ORG/NAME" in r.err, r)


def one(f):
    try:
        f()
        return None
    except Exception as e:  # noqa: BLE001
        text = f"{f.__name__}: {e}"
        if not isinstance(e, AssertionError):
            text += "\n" + traceback.format_exc()
        return text


if __name__ == "__main__":
    only = [f for f in tests if not sys.argv[1:] or f.__name__ in sys.argv[1:]]
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        said = [s for s in pool.map(one, only) if s]
    check(not HUB.leaks or not said.append("the token leaked"), "")
    print("\n".join(said + [f"{len(only) - len(said)} passed, "
                            f"{len(said)} failed"]))
    HUB.close()
    sys.exit(1 if said else 0)
