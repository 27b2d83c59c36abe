#!/usr/bin/env python3
"""sluice convert, verify and eval kl: every form of the embedded model answers
alike, damage is found, a start from what is kept does not read the source, and
what quantisation costs is told, and a text can make it cost less."""
import fcntl
import json
import math
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(__file__))
import checkpoint  # noqa: E402
from e2e import SLUICE, Run, check, done, test  # noqa: E402
from gguf import Gguf  # noqa: E402

DEMO = "models/demo"
ASK = ["What is 3 + 4?", "--temp", "0", "-n", "24", "--threads", "2",
       "--no-pin"]


def answer(model, *more, **kw):
    r = Run("run", model, *ASK, *more, **kw)
    check(r.rc == 0 and r.out, r)
    return r.out


@test
def every_form_answers_alike():
    with tempfile.TemporaryDirectory() as d:
        want = answer(DEMO, "--weights", "copy")
        a, b, c = f"{d}/a.gguf", f"{d}/b.sluice", f"{d}/c.sluice"
        for src, dst in ((DEMO, a), (a, b), (b, c)):
            r = Run("convert", src, dst, "--threads", "2")
            check(r.rc == 0 and "wrote" in r.err, r)
            check(answer(dst) == want, dst)
            r = Run("verify", dst)
            check(r.rc == 0 and r.out == f"ok   {dst}\n", r)
        check(pathlib.Path(b).read_bytes() == pathlib.Path(c).read_bytes(),
              "a copy differs")
        check(sorted(os.listdir(d)) == ["a.gguf", "b.sluice", "c.sluice"],
              os.listdir(d))


@test
def quantised_forms_answer_alike():
    with tempfile.TemporaryDirectory() as d:
        a, b = f"{d}/a.gguf", f"{d}/b.sluice"
        want = answer(DEMO, "--dtype", "q4")
        for dst in (a, b):
            r = Run("convert", DEMO, dst, "--dtype", "q4")
            check(r.rc == 0, r)
            check(answer(dst) == want, dst)
        r = Run("convert", DEMO, f"{d}/c.gguf", "--dtype", "bfp4")
        check(r.refused(3, "bfp8", "GGUF does not have"), r)
        r = Run("run", b, *ASK, "--dtype", "q8")
        check(r.refused(3, "packed as q4"), r)


@test
def kept_weights_are_used():
    with tempfile.TemporaryDirectory() as d:
        src = f"{d}/m"
        shutil.copytree(DEMO, src)
        want = answer(src, "--packed-dir", f"{d}/p")
        kept = list(pathlib.Path(d, "p/packed").glob("*.sluice"))
        check(len(kept) == 1, kept)
        stamp = kept[0].stat().st_mtime_ns
        check(answer(src, "--packed-dir", f"{d}/p") == want)
        check(kept[0].stat().st_mtime_ns == stamp, "packed again")
        # Damaged at its end, which a start looks at.
        data = bytearray(kept[0].read_bytes())
        data[-1] ^= 1
        kept[0].write_bytes(data)
        r = Run("verify", str(kept[0]))
        check(r.rc == 5 and r.out.startswith("BAD") and
              "is damaged between bytes" in r.err, r)
        r = Run("run", src, *ASK, "--packed-dir", f"{d}/p")
        check(r.rc == 0 and r.out == want and "packed_again" in r.err, r)
        # Another file in the folder: another receipt.
        pathlib.Path(src, "note.txt").write_text("x")
        check(answer(src, "--packed-dir", f"{d}/p") == want)
        check(len(list(pathlib.Path(d, "p/packed").glob("*.sluice"))) == 1)
        check(not list(pathlib.Path(d, "p").rglob("*.tmp")))


@test
def kept_without_a_name():
    """What convert keeps is what run with that --dtype finds."""
    with tempfile.TemporaryDirectory() as d:
        argv = ["--dtype", "q4", "--packed-dir", d]
        r = Run("convert", DEMO, *argv, "--json")
        check(r.rc == 0, r)
        path = json.loads(r.out)["wrote"]
        kept = list(pathlib.Path(d, "packed").glob("*.sluice"))
        check([str(x) for x in kept] == [path], (kept, path))
        stamp = kept[0].stat().st_mtime_ns
        check(answer(DEMO, *argv) == answer(path))
        check(list(pathlib.Path(d, "packed").glob("*.sluice")) == kept and
              kept[0].stat().st_mtime_ns == stamp, "packed again")
        check(Run("convert", path, *argv).refused(2, "packed file"))
        r = Run("convert", DEMO, "-o", f"{d}/x.gguf")
        check(r.rc == 0 and answer(f"{d}/x.gguf"), r)


@test
def what_nothing_opens_goes():
    def kept():
        return sorted(x.name for x in pathlib.Path(d).rglob("*")
                      if x.is_file())

    with tempfile.TemporaryDirectory() as d:
        where = ["--packed-dir", d]
        gc = ["gc", "--packed", *where, "--cache-dir", f"{d}/none"]
        for dtype in ("q8", "q4"):
            r = Run("convert", DEMO, "--dtype", dtype, *where)
            check(r.rc == 0, r)
        old = time.time() - 31 * 86400
        for path in pathlib.Path(d, "packed").rglob("*"):
            os.utime(path, (old, old))
        before = answer(DEMO, "--dtype", "q4", *where)  # opens one of them
        both = kept()
        check(len(both) == 5, both)  # and what its steps take
        r = Run(*gc, "--older-than", "40")
        check(r.rc == 0 and kept() == both, r)
        r = Run(*gc, "--dry-run")
        check(r.rc == 0 and kept() == both and len(r.out.splitlines()) == 2, r)
        r = Run(*gc)
        check(r.rc == 0 and len(r.out.splitlines()) == 2, r)
        left = kept()
        check(len(left) == 3, left)
        check(answer(DEMO, "--dtype", "q4", *where) == before and
              kept() == left, "the one in use is gone")


@test
def what_quantisation_costs():
    problems = pathlib.Path(DEMO, "eval/wordproblems.jsonl").read_text()
    text = "\n".join(m["content"] for line in problems.splitlines()[:12]
                     for m in json.loads(line)["messages"])
    with tempfile.TemporaryDirectory() as d:
        pathlib.Path(d, "text").write_text(text)
        argv = ["eval", "kl", f"{d}/text", "--model", DEMO, "--json",
                "--threads", "2", "--no-pin", "--max-tokens", "300"]
        r = Run(*argv)
        check(r.rc == 0, r)
        rows = {x["dtype"]: x for x in json.loads(r.out)["rows"]}
        check(list(rows) == ["auto", "q8", "q4", "bfp4"], rows)
        kl = {k: x["kl_mean"] for k, x in rows.items()}
        # Only the type of K and V differs from the reference.
        check(0 < kl["auto"] < 1e-4 < kl["q8"] < kl["q4"] < 0.02, kl)
        check(kl["q8"] < kl["bfp4"] < kl["q4"], kl)  # here it is bfp8 alone
        check(rows["q4"]["weight_bytes"] < rows["q8"]["weight_bytes"] <
              rows["auto"]["weight_bytes"], rows)
        check(all(x["tokens"] == 300 and 0.9 < x["top1"] <= 1 and
                  x["pcc_min"] <= x["pcc_median"] <= 1.0000001
                  for x in rows.values()), rows)
        r = Run(*argv, "--kv-dtype", "fp32", "--dtype", "auto")
        check(json.loads(r.out)["rows"][0]["kl_max"] == 0, r)
        # A packed file has the types it has.
        packed = f"{d}/x.sluice"
        r = Run("convert", DEMO, packed, "--dtype", "q8")
        check(r.rc == 0, r)
        argv[3:5] = ["--model", packed]
        argv.remove("--json")
        r = Run(*argv)
        check(r.rc == 0 and r.out.count("\n") == 3 and "auto " in r.out, r)
        r = Run(*argv, "--dtype", "q4")
        check(r.refused(3, "packed as q8"), r)
        # A model that computes no numbers agrees with nothing.
        bad = Gguf(f"{d}/x.gguf") if Run(
            "convert", DEMO, f"{d}/x.gguf").rc == 0 else None
        norm = bad.tensor("output_norm.weight")
        norm.data = struct.pack("<f", 3e38) * norm.dims[0]
        bad.save(f"{d}/nan.gguf")
        for model, other in ((DEMO, f"{d}/nan.gguf"), (f"{d}/nan.gguf", DEMO)):
            r = Run("eval", "kl", f"{d}/text", "--model", model, "--against",
                    other, "--max-tokens", "40")
            check(r.refused(5, "position 0", "nan.gguf' is "), r)
        check(Run("eval", "kl", "--model", DEMO).refused(2, "one file of text"))
        check(Run("eval", "kl", f"{d}/no", "--model", DEMO).refused(4, "no"))


@test
def the_report_has_the_boards_grouping():
    """bfp: the error with the exponent shared along the inputs, which is ours,
    and along the outputs, which is the boards'; and info says what fell back."""
    with tempfile.TemporaryDirectory() as d:
        pathlib.Path(d, "text").write_text("What is three plus four?")
        argv = ["convert", "models/demo-moe", f"{d}/a.sluice", "--dtype",
                "bfp4", "--report", f"{d}/text"]
        r = Run(*argv)
        check(r.rc == 0 and "sixteen outputs" in r.out, r)
        rows = {x["class"]: x for x in json.loads(
            Run(*argv, "--json").out)["report"]["classes"]}
        for name, lo, hi in (("experts", .05, .2), ("attention", .004, .012)):
            x = rows[name]
            check(lo < x["error"] < hi and lo < x["error_along_outputs"] < hi
                  and x["error"] != x["error_along_outputs"], rows)
        check("error_along_outputs" not in rows["small"], rows)
        r = Run("info", f"{d}/a.sluice")
        check("packed as bfp4" in r.out and "fell back" not in r.out, r)
        r = Run("convert", "tests/golden/models/dense-r2", f"{d}/b.sluice",
                "--dtype", "q4")
        check(r.rc == 0, r)
        r = Run("info", f"{d}/b.sluice")
        check("packed as q4" in r.out and
              re.search(r"fell back to q8_0 +\d+ matrices", r.out), r)
        j = json.loads(Run("info", f"{d}/b.sluice", "--json").out)
        check(j["dtype_plan"] == "q4" and j["fell_back_to_q8_0"] == 34, j)


@test
def a_text_says_which_columns_count():
    problems = pathlib.Path(DEMO, "eval/wordproblems.jsonl").read_text()
    texts = [json.loads(line)["messages"][0]["content"]
             for line in problems.splitlines()]
    with tempfile.TemporaryDirectory() as d:
        cal, other = f"{d}/calibration", f"{d}/other"
        pathlib.Path(cal).write_text("\n".join(texts[:8]))
        pathlib.Path(other).write_text("\n".join(texts[50:56]))
        argv = ["--dtype", "q4", "--json"]
        plain = Run("convert", DEMO, f"{d}/a.sluice", *argv, "--report", other)
        told = Run("convert", DEMO, f"{d}/b.sluice", *argv, "--report", other,
                   "--calibrate", cal)
        check(plain.rc == 0 and told.rc == 0, told)
        a, b = (json.loads(r.out)["report"] for r in (plain, told))
        check([x["kv_dtype"] for x in b["rows"]] == ["f32", "bf16", "bfp8"], b)
        # Every weight alone is further away; what comes out is nearer.
        for x, y in zip(a["classes"], b["classes"]):
            check(x["class"] == y["class"] and x["error"] <= y["error"], (x, y))
        check(b["rows"][0]["kl_mean"] < a["rows"][0]["kl_mean"], (a, b))
        r = Run("convert", DEMO, f"{d}/c.sluice", *argv, "--calibrate", cal,
                "--threads", "1")
        check(r.rc == 0 and pathlib.Path(d, "b.sluice").read_bytes() ==
              pathlib.Path(d, "c.sluice").read_bytes(), "threads matter")
        r = Run("convert", DEMO, f"{d}/d.gguf", *argv, "--calibrate", cal)
        check(r.rc == 0 and "event=copied" not in r.err and
              answer(f"{d}/d.gguf") == answer(f"{d}/b.sluice"), r)
        r = Run("convert", f"{d}/d.gguf", f"{d}/f.gguf", *argv, "--calibrate",
                cal)
        n = re.search(r"event=copied matrices=(\d+) of=(\d+)", r.err)
        check(r.rc == 0 and n and 0 < int(n[1]) < int(n[2]), r)
        check(Run("convert", f"{d}/d.gguf", f"{d}/g.gguf").rc == 0)
        check(pathlib.Path(d, "g.gguf").read_bytes() ==
              pathlib.Path(d, "f.gguf").read_bytes(), "changed after all")
        check(Run("convert", DEMO, f"{d}/e.sluice", "--dtype", "q8",
                  "--calibrate", cal).refused(2, "use q4"))
        check(Run("convert", DEMO, f"{d}/e.sluice", "--report", f"{d}/no")
              .refused(4, f"{d}/no"))
        check("e.sluice" not in os.listdir(d), os.listdir(d))
        check(Run("convert", f"{d}/a.sluice", f"{d}/e.sluice", "--dtype", "q4",
                  "--calibrate", cal).refused(3, "with its source"))


@test
def weights_need_not_fit_into_memory():
    """20 MiB of them, and a third of that for the program."""
    conf = {"hidden_size": 512, "intermediate_size": 3072,
            "num_hidden_layers": 2, "full_attention_interval": 2,
            "mtp_num_hidden_layers": 0}
    zero = {name: (shape, bytes(2 * math.prod(shape))) for name, shape in
            checkpoint.shapes({**checkpoint.CONFIG, **conf})}
    total = sum(len(data) for _, data in zero.values())
    few, one = {"data_bytes": total // 3}, ["--threads", "1", "--no-pin"]
    with tempfile.TemporaryDirectory() as d:
        m = checkpoint.make(f"{d}/m", conf, zero)
        if Run("version", **few).rc:
            return print("a sanitizer needs more: nothing was tried")
        # The limit is one: where all of them are in memory it is too low.
        r = Run("run", m, "x", "-n", "1", "--weights", "copy", *one, **few)
        check(r.refused(3, "no more memory to give"), r)
        for src, dst, dtype in (("m", "a.gguf", "q8"), ("m", "b.sluice", "auto"),
                                ("b.sluice", "c.gguf", "auto")):
            r = Run("convert", f"{d}/{src}", f"{d}/{dst}", "--dtype", dtype,
                    *one, **few)
            check(r.rc == 0, r)


@test
def leftovers_of_killed_ones():
    """A conversion begins anew and removes what a killed one left, but not what
    another is writing."""
    with tempfile.TemporaryDirectory() as d:
        left, used = f"{d}/a.sluice.11.tmp", f"{d}/a.sluice.12.tmp"
        others = ["a.sluice.x.tmp", "b.sluice.13.tmp"]
        for path in (left, used, *(f"{d}/{x}" for x in others)):
            pathlib.Path(path).write_bytes(b"half")
        with open(used, "r+b") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            r = Run("convert", DEMO, f"{d}/a.sluice")
            check(r.rc == 0, r)
        check(sorted(os.listdir(d)) == sorted(
            ["a.sluice", os.path.basename(used), *others]), os.listdir(d))


@test
def ended_ones_leave_nothing():
    with tempfile.TemporaryDirectory() as d:
        try:
            os.close(os.open(d, os.O_TMPFILE | os.O_RDWR))
        except OSError:
            return print("no files without a name here: nothing was tried")
        argv = [SLUICE, "convert", DEMO, f"{d}/x.sluice", "--dtype", "q4"]
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for after in (0.02, 0.05, 0.1):
                p = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
                time.sleep(after)
                p.send_signal(sig)
                p.wait()
        check(set(os.listdir(d)) <= {"x.sluice"}, os.listdir(d))


@test
def at_the_same_time():
    with tempfile.TemporaryDirectory() as d:
        argv = [SLUICE, "convert", DEMO, f"{d}/x.sluice", "--threads", "1",
                "--no-pin"]
        all_of = [subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
                  for _ in range(6)]
        for p in all_of:
            _, err = p.communicate()
            check(p.returncode == 0, err)
        check(os.listdir(d) == ["x.sluice"] and answer(f"{d}/x.sluice"))


@test
def refusals():
    with tempfile.TemporaryDirectory() as d:
        check(Run("convert").refused(2, "takes a model and at most one file"))
        check(Run("convert", DEMO, f"{d}/a.gguf", "-o", f"{d}/b.gguf")
              .refused(2, "at most one file"))
        check(Run("convert", DEMO, f"{d}/a.gguf", "--packed-dir", d)
              .refused(2, "remove it or"))
        check(Run("convert", DEMO, "--calibrate", DEMO + "/config.json",
                  "--dtype", "q4", "--packed-dir", d).refused(2, "name a file"))
        check(Run("convert", "nowhere", f"{d}/x.gguf").refused(4, "nowhere"))
        check(Run("convert", DEMO, d).refused(2, "is a folder"))
        check(Run("convert", DEMO, f"{d}/no/x.gguf").refused(4, "x.gguf"))
        os.mkfifo(f"{d}/fifo")
        check(Run("convert", DEMO, f"{d}/fifo").refused(2, "not a regular"))
        pathlib.Path(d, "thesis.txt").write_text("much work")
        check(Run("convert", DEMO, f"{d}/thesis.txt").refused(
            2, "no model that a conversion wrote"))
        check(pathlib.Path(d, "thesis.txt").read_text() == "much work")
        m = f"{d}/m"
        shutil.copytree(DEMO, m)
        check(Run("convert", m, f"{m}/model.safetensors", "--dtype", "q4")
              .refused(2, "remove it, or name another"))
        check(Run("info", m).rc == 0, "the source was damaged")
        conf = json.loads(pathlib.Path(m, "config.json").read_text())
        conf["layer_types"] = ["linear_attention"] * 4
        pathlib.Path(f"{d}/linear").mkdir()
        pathlib.Path(d, "linear/config.json").write_text(json.dumps(conf))
        for verb in (["run", f"{d}/linear", "x"], ["info", f"{d}/linear"]):
            check(Run(*verb).refused(3, "none of the 4 layers"))
        check(Run("convert", DEMO, f"{d}/new.gguf", "--report", f"{d}/fifo2")
              .refused(4, "fifo2"))
        pathlib.Path(d, "bytes").write_bytes(b"\xff\xfe\x00")
        check(Run("convert", DEMO, f"{d}/new.gguf", "--report", f"{d}/bytes")
              .refused(2, "bytes"))
        check(not os.path.exists(f"{d}/new.gguf"), "found after the work")
        check(Run("verify", m, "--quick").refused(2, "--quick is for what"))
        check(Run("verify", m, "--repair").refused(2, "--repair is for what"))
        r = Run("convert", m, f"{d}/bf16.GGUF", "--dtype", "bfloat16",
                "--no-pin")
        check(r.rc == 0 and pathlib.Path(d, "bf16.GGUF").read_bytes()[:4] ==
              b"GGUF", r)
        check(Run("verify", f"{d}/bf16.GGUF", "--threads", "1").rc == 0)
        r = Run("convert", m, f"{d}/q8.gguf", "--dtype", "q8")
        check(r.rc == 0 and Run("convert", f"{d}/q8.gguf", f"{d}/y.gguf",
                                "--dtype", "bfloat16")
              .refused(3, "not bfloat16"), r)
        r = Run("convert", DEMO, f"{d}/x.gguf")
        check(r.rc == 0, r)
        check(Run("convert", f"{d}/x.gguf", f"{d}/x.gguf")
              .refused(2, "the source itself"))
        data = pathlib.Path(d, "x.gguf").read_bytes()
        pathlib.Path(d, "cut.gguf").write_bytes(data[:-1000])
        r = Run("verify", f"{d}/cut.gguf")
        check(r.rc == 5 and "cut short" in r.err, r)
        check(Run("run", f"{d}/cut.gguf", "x").refused(5, "cut short"))
        pathlib.Path(d, "bad.sluice").write_bytes(b"SLUICEPK" + bytes(400))
        check(Run("run", f"{d}/bad.sluice", "x").refused(3, "version 0"))
        pathlib.Path(d, "f").write_text("x")
        r = Run("run", DEMO, "x", "--packed-dir", f"{d}/f")
        check(r.rc != 0 and "--weights copy" in r.err and not r.out, r)


done()
