"""What the end-to-end tests share: run the program, judge one error line.

A test is a function marked @test; done() runs them all and prints the counts.
The program under test is $SLUICE, or build/sluice.
"""
import os
import resource
import signal
import subprocess
import sys
import traceback

SLUICE = os.environ.get("SLUICE", "build/sluice")
LIMIT_S = 300
CACHE = os.path.abspath("build/e2e-cache")
os.makedirs(CACHE, exist_ok=True)
tests = []


def environment(**more):
    """Ours, without what would change the program, and no home of anybody's:
    packed weights do not go into the cache of whoever runs the tests."""
    mine = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    return {**mine, "HOME": CACHE, "XDG_CACHE_HOME": CACHE, **more}


def in_namespace(flags, script, *argv, env):
    """The shell script in name spaces of its own, with the program as "$1"; None
    where they are not allowed, and then nothing is tried."""
    if subprocess.run(["unshare", flags, "true"], stderr=subprocess.DEVNULL
                      ).returncode:
        print(f"unshare {flags} is not allowed here: nothing was tried")
        return None
    return subprocess.run(
        ["unshare", flags, "sh", "-c", script, "sh", os.path.abspath(SLUICE),
         *argv], env=environment(**env), capture_output=True, text=True,
        timeout=LIMIT_S)


class Run:
    """One run to its end. stdout: None (captured), "closed", "broken" (a pipe
    whose reader left) or a path. data_bytes: all the memory of its own that it
    gets, which files that it maps are not."""

    def __init__(self, *argv, stdin="", env=None, stdout=None, cwd=None,
                 limit_s=LIMIT_S, data_bytes=None):
        self.argv = [SLUICE, *argv]
        full = environment(**(env or {}))
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        if stdout is None:
            target, prepare = subprocess.PIPE, None
        elif stdout == "closed":
            target, prepare = None, lambda: os.close(1)
        elif stdout == "broken":
            r, target = os.pipe()
            os.close(r)
            prepare = None
        else:
            target, prepare = open(stdout, "wb"), None
        # Python ignores SIGPIPE and children inherit that.
        def child():
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            if data_bytes:
                resource.setrlimit(resource.RLIMIT_DATA,
                                   (data_bytes, data_bytes))
            if prepare:
                prepare()

        p = subprocess.run(self.argv, input=data, stdout=target,
                           stderr=subprocess.PIPE, env=full, cwd=cwd,
                           timeout=limit_s, preexec_fn=child)
        if isinstance(target, int) and target >= 0:
            os.close(target)
        self.rc = p.returncode
        self.raw = p.stdout or b""
        self.out = self.raw.decode("utf-8", "replace")
        self.err = p.stderr.decode("utf-8", "replace")

    def refused(self, rc, *words):
        """The exit code, one line that names the program and has the words,
        and nothing on standard output."""
        lines = [s for s in self.err.splitlines() if s.startswith("sluice: ")]
        return (self.rc == rc and self.out == "" and len(lines) == 1 and
                self.err.endswith(lines[0] + "\n") and
                all(w in lines[0] for w in words))

    def __str__(self):
        return (f"{' '.join(self.argv)}\n  exit {self.rc}\n"
                f"  out {self.out[:600]!r}\n  err {self.err[:1200]!r}")


def check(ok, what=""):
    if not ok:
        raise AssertionError(str(what))


def test(f):
    tests.append(f)
    return f


def done():
    only = sys.argv[1:]
    passed = failed = 0
    for f in tests:
        if only and f.__name__ not in only:
            continue
        try:
            f()
            passed += 1
        except Exception as e:  # noqa: BLE001
            failed += 1
            print(f"{f.__name__}: {e}")
            if not isinstance(e, AssertionError):
                traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
