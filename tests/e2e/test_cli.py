#!/usr/bin/env python3
"""The command line without a model: verbs, help, refusals, exit codes."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from e2e import Run, check, done, test  # noqa: E402


@test
def no_verb():
    r = Run()
    check(r.rc == 2 and r.out == "" and "usage: sluice" in r.err, r)


@test
def help_goes_to_stdout():
    for argv in (["help"], ["--help"], ["-h"]):
        r = Run(*argv)
        check(r.rc == 0 and "usage: sluice" in r.out and r.err == "", r)


def complete(*line):
    """What bash offers for the last word."""
    words = " ".join(f"'{w}'" for w in ("sluice", *line))
    script = f"""source <(sed '' doc/completion/sluice)
COMP_WORDS=({words}); COMP_CWORD={len(line)}; _sluice
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    r = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    check(r.returncode == 0 and r.stderr == "", r)
    return r.stdout.split()


@test
def completion_of_the_shell():
    check(complete("ser") == ["serve"], complete("ser"))
    check({"run", "help", "gc"} < set(complete("")), complete(""))
    check(complete("serve", "--kv-d") == ["--kv-dtype"], "flag")
    check("--kv-dtype" not in complete("pull", "--"), "of another verb")
    check(complete("serve", "x", "--kv-dtype", "b") == ["bf16", "bfp8"],
          complete("serve", "x", "--kv-dtype", "b"))
    check(complete("serve", "--port", "") == [], "a number")
    check(complete("run", "dem") == ["demo"], complete("run", "dem"))
    check("README.md" in complete("run", "READ"), complete("run", "READ"))
    if shutil.which("zsh"):
        r = subprocess.run(["zsh", "-n", "doc/completion/_sluice"])
        check(r.returncode == 0, "zsh")


@test
def help_of_every_verb():
    for verb in ("doctor", "version"):
        for argv in (["help", verb], [verb, "--help"], [verb, "-h"]):
            r = Run(*argv)
            check(r.rc == 0 and f"usage: sluice {verb}" in r.out, r)
            check("--[no-]json" in r.out, r)


@test
def unknown_verb():
    r = Run("rnu")
    check(r.refused(2, "'rnu' is no verb"), r)


@test
def unknown_option():
    r = Run("doctor", "--jsn")
    check(r.refused(2, "did you mean '--json'?"), r)


@test
def unknown_variable():
    r = Run("version", env={"SLUICE_JSN": "1"})
    check(r.refused(2, "did you mean 'SLUICE_JSON'?"), r)


@test
def too_many_arguments():
    r = Run("version", "now")
    check(r.refused(2, "'now' is one argument too many"), r)


@test
def version():
    r = Run("version")
    check(r.rc == 0 and r.out.startswith("sluice ") and "jansson" in r.out, r)
    for argv in (["version", "--json"], ["--version"]):
        check(Run(*argv).rc == 0, argv)
    v = json.loads(Run("version", "--json").out)
    check(v["version"] == open("VERSION").read().strip(), v)
    check({"jansson", "pcre2", "utf8proc", "hwloc"} <= set(v["libraries"]), v)


@test
def variable_counts():
    r = Run("version", env={"SLUICE_JSON": "on"})
    check(json.loads(r.out)["version"], r)
    r = Run("version", "--no-json", env={"SLUICE_JSON": "on"})
    check(r.out.startswith("sluice "), r)


@test
def doctor():
    r = Run("doctor", "--json")
    found = {c["check"]: c["state"] for c in json.loads(r.out)["checks"]}
    check(r.rc == 0 and found["cores"] == "ok" and "reading" in found, r)


@test
def printed_choices():
    for name, word in (("prefix-cache", "off"), ("dtype", "bfp4"),
                       ("load-format", "dummy"), ("accept", "relaxed"),
                       ("speculate", "greedy"), ("dtype", "auto")):
        r = Run("serve", "models/demo", "--print", f"--{name}", word)
        check(r.rc == 0 and f"  --{name} {word}  (command line)\n" in r.out, r)


@test
def closed_stdout():
    r = Run("version", stdout="closed")
    check(r.refused(1, "standard output is not open"), r)


@test
def broken_pipe():
    r = Run("version", stdout="broken")
    check(r.refused(1, "standard output was closed by its reader"), r)


@test
def full_disk():
    r = Run("version", stdout="/dev/full")
    check(r.refused(6, "the disk is full"), r)


done()
