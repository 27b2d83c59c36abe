#!/usr/bin/env python3
"""The library as a stranger meets it: the example of the manual, make install
into a folder, the shared library through pkg-config, make uninstall."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
import checkpoint  # noqa: E402
from e2e import SLUICE, check, done, test  # noqa: E402

TMP = tempfile.TemporaryDirectory()
MODEL = checkpoint.make(os.path.join(TMP.name, "model"))
BUILD = os.path.dirname(os.path.abspath(SLUICE))
V = os.path.basename(BUILD) if os.path.basename(BUILD) != "build" else "rel"


def run(*argv, env=None):
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True,
                       env=dict(os.environ, **(env or {})), timeout=600)
    return p.returncode, p.stdout, p.stderr


def make(*targets):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    p = subprocess.run(["make", "-s", f"V={V}", *targets], env=env,
                       stdin=subprocess.DEVNULL, capture_output=True)
    check(p.returncode == 0, p.stderr.decode())


@test
def example():
    exe = os.path.join(BUILD, "minimal")
    first = run(exe, MODEL, "The loop")
    check(first[0] == 0 and first[1], first)
    check(run(exe, MODEL, "The loop")[1] == first[1], "same seed, same text")
    rc, out, err = run(exe, "/nowhere", "x")
    check(rc == 1 and not out and b"/nowhere" in err, err)
    text = pathlib.Path("doc/examples/minimal.c").read_text()
    check(len(text.splitlines()) <= 60)
    check('#include "sluice/sluice.h"' in text)
    check('#include "base' not in text)


@test
def install_and_uninstall():
    dest = os.path.join(TMP.name, "dest")
    make("install", f"DESTDIR={dest}", "PREFIX=/opt/sl")
    root = pathlib.Path(dest, "opt/sl")
    for name in ("bin/sluice", "lib/libsluice.a", "lib/libsluice.so",
                 "lib/pkgconfig/sluice.pc", "include/sluice/sluice.h",
                 "include/sluice/err.h", "share/man/man1/sluice-run.1"):
        check((root / name).exists(), name)
    rc, out, err = run(str(root / "bin/sluice"), "version")
    check(rc == 0, err)

    # Everything that a program needs comes from sluice.pc.
    pc = {"PKG_CONFIG_PATH": str(root / "lib/pkgconfig")}
    rc, flags, err = run("pkg-config", "--define-variable", f"prefix={root}",
                         "--cflags", "--libs", "sluice", env=pc)
    check(rc == 0, err)
    if V == "rel":
        exe = os.path.join(TMP.name, "shared")
        rc, _, err = run("cc", "doc/examples/minimal.c",
                         *flags.decode().split(), "-o", exe)
        check(rc == 0, err)
        rc, out, err = run(exe, MODEL, "The loop",
                           env={"LD_LIBRARY_PATH": str(root / "lib")})
        want = run(os.path.join(BUILD, "minimal"), MODEL, "The loop")[1]
        check(rc == 0 and out == want, err)

    make("uninstall", f"DESTDIR={dest}", "PREFIX=/opt/sl")
    left = [p for p in pathlib.Path(dest).rglob("*") if not p.is_dir()]
    check(not left, left)


@test
def header_in_cplusplus():
    rc = run("c++", "--version")[0] if run("which", "c++")[0] == 0 else 1
    if rc:
        print("skip header_in_cplusplus: no C++ compiler here")
        return
    exe = os.path.join(TMP.name, "x.o")
    src = os.path.join(TMP.name, "x.cc")
    pathlib.Path(src).write_text('#include "sluice/sluice.h"\n')
    rc, _, err = run("c++", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-c",
                     src, "-o", exe)
    check(rc == 0, err)


done()
