#!/usr/bin/env python3
"""sluice run: answers, the same ones whatever the threads; interrupts, closed
outputs, a conversation on a terminal."""
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(__file__))
import checkpoint  # noqa: E402
from e2e import SLUICE, Run, check, done, environment, test  # noqa: E402

TMP = tempfile.TemporaryDirectory()
MODEL = checkpoint.make(os.path.join(TMP.name, "model"))
RAW = ["run", MODEL, "The loop", "--raw", "--max-tokens", "24"]
LIMIT_S = 300  # for anything that is waited for


def answer(*more, **how):
    r = Run(*RAW, *more, **how)
    check(r.rc == 0, r)
    return r.raw


def parse(*more, **how):
    r = Run(*RAW, "--json", *more, **how)
    check(r.rc == 0 and r.out.count("\n") == 1, r)
    return json.loads(r.out)


@test
def answer_only_on_stdout():
    r = Run(*RAW, "--temperature", "0")
    j = parse("--temperature", "0")
    check(r.rc == 0 and r.out == j["text"] and r.out, r)
    check("tokens" in r.err and "loading" in r.err, r)


@test
def same_bits_everywhere():
    for sampler in (["--temperature", "0"],
                    ["--temperature", "1.2", "--top-p", "0.9", "--seed", "7"]):
        want = parse(*sampler)["ids"]
        check(len(want) == 24, want)
        for how in (["--threads", "1"], ["--threads", "3"], ["--no-pin"],
                    ["--cpu-mask", "ref"], ["--max-num-batched-tokens", "1"],
                    ["--max-num-seqs", "4"], ["--max-model-len", "200"],
                    ["--speculate", "off"], ["--draft-depth", "1"],
                    ["--draft-depth", "7"], ["--prefix-cache", "off"]):
            check(parse(*sampler, *how)["ids"] == want, how)


@test
def instruction_sets():
    """Each level runs and gives the same text, or is refused by name."""
    want = parse("--temperature", "0")["ids"]
    ran = []
    for level in ("ref", "avx2", "avx-vnni", "avx512-vnni", "neon",
                  "neon-dotprod", "neon-i8mm"):
        r = Run(*RAW, "--cpu-mask", level)
        if r.refused(3, level, "does not have it"):
            continue
        ran.append(level)
        check(parse("--temperature", "0", "--cpu-mask", level)["ids"] == want,
              level)
    check("ref" in ran and len(ran) < 6, ran)


@test
def seeds():
    a = parse("--temperature", "1")
    b = parse("--temperature", "1", "--seed", str(a["seed"]))
    c = parse("--temperature", "1", "--seed", str(a["seed"] ^ 1))
    check(a["ids"] == b["ids"] and a["seed"] == b["seed"], (a, b))
    check(a["ids"] != c["ids"], (a, c))


@test
def json_object():
    j = parse("--seed", "3", "--ignore-eos")
    check(j["finish"] == "length" and j["seed"] == 3, j)
    check(len(j["ids"]) == j["usage"]["completion_tokens"] == 24, j)
    n = Run("tokenize", MODEL, "The loop", "--count").out
    check(j["usage"]["prompt_tokens"] == int(n), j)
    check(j["drafts"]["accepted"] <= j["drafts"]["proposed"], j)
    off = parse("--seed", "3", "--ignore-eos", "--speculate", "off")
    check(off["ids"] == j["ids"] and off["drafts"]["proposed"] == 0, off)
    check(all(j["timings"][k] >= 0 for k in
              ("load_s", "queue_s", "prefill_s", "decode_s")), j)


@test
def prompt_from_stdin():
    want = answer("--temperature", "0")
    base = ["run", MODEL, "--raw", "--max-tokens", "24", "--temperature", "0"]
    check(Run(*base, "-", stdin="The loop").raw == want)
    check(Run(*base, stdin="The loop").raw == want)
    check(Run("run", "The loop", *base[2:], "--model", MODEL).raw == want)


@test
def variables_and_profile_names():
    want = parse("--temperature", "0")["ids"]
    env = {"SLUICE_TEMPERATURE": "0", "SLUICE_MAX_TOKENS": "5"}
    check(parse(env=env)["ids"] == want)  # --max-tokens on the line wins
    r = Run("run", MODEL, "The loop", "--raw", "--json", env=env)
    check(json.loads(r.out)["ids"] == want[:5], r)


@test
def stop_text():
    j = parse("--temperature", "0")
    cut = j["text"][3:6]
    s = parse("--temperature", "0", "--stop", cut)
    check(s["finish"] == "stop" and cut not in s["text"], s)
    check(j["text"].startswith(s["text"]), s)


@test
def full_context():
    j = parse("--max-model-len", "16", "--ignore-eos", "--max-tokens", "0")
    total = j["usage"]["prompt_tokens"] + len(j["ids"])
    check(j["finish"] == "length" and 15 <= total <= 17, j)


@test
def kv_types():
    a = parse("--temperature", "0", "--kv-dtype", "fp32")
    b = parse("--temperature", "0", "--kv-cache-dtype", "float32")
    check(a["ids"] == b["ids"] and len(a["ids"]) == 24, (a, b))


@test
def dtype_option():
    check(parse("--dtype", "bfloat16")["ids"])
    r = Run("run", "tests/golden/models/fp8", "x", "--raw", "--dtype",
            "bfloat16")
    check(r.refused(3, "not bfloat16", "--dtype auto"), r)


@test
def always_options_are_logged_once():
    r = Run(*RAW, "--block-size", "64", "--log-level", "info")
    check(r.rc == 0 and r.err.count("option=block-size") == 1, r)
    check("option=" not in Run(*RAW, "--block-size", "64").err)


@test
def dummy_weights():
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "config.json"), "w") as f:
            json.dump(checkpoint.CONFIG, f)
        r = Run("run", d, "any words", "--load-format", "dummy", "--raw",
                "--max-tokens", "5", "--ignore-eos", "--json")
        check(r.rc == 0 and len(json.loads(r.out)["ids"]) == 5, r)
        r = Run("run", d, "any words")
        check(r.refused(4, "tokenizer.json"), r)


# ---------------------------------------------------------- messages

def chat(*more, **how):
    r = Run("run", MODEL, *more, "--max-tokens", "12", "--temperature", "0",
            "--json", **how)
    check(r.rc == 0, r)
    return json.loads(r.out)


def raw(text):
    r = Run("run", MODEL, "-", "--raw", "--max-tokens", "12", "--temperature",
            "0", "--json", stdin=text)
    check(r.rc == 0, r)
    return json.loads(r.out)


@test
def template():
    user = "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n"
    system = "<|im_start|>system\nBe brief<|im_end|>\n"
    check(chat("Hi there")["ids"] == raw(user)["ids"])
    check(chat("Hi there", "--system", "Be brief")["ids"] ==
          raw(system + user)["ids"])
    check(chat("Hi there", "--think")["ids"] == raw(user + "<think>\n")["ids"])
    check(chat("Hi there", "--no-think")["ids"] == raw(user)["ids"])


@test
def own_template():
    path = os.path.join(TMP.name, "own.jinja")
    with open(path, "w") as f:
        f.write("{{ messages[0].content | upper }}")
    check(chat("hi", "--chat-template", path)["ids"] == raw("HI")["ids"])
    with open(path, "w") as f:
        f.write("{{ messages[0].content | nothing }}")
    r = Run("run", MODEL, "hi", "--chat-template", path)
    check(r.rc in (3, 5) and "nothing" in r.err and "line 1" in r.err, r)
    r = Run("run", MODEL, "hi", "--chat-template", "/nowhere.jinja")
    check(r.rc == 4 and "/nowhere.jinja" in r.err, r)


@test
def template_refuses():
    d = checkpoint.make(os.path.join(TMP.name, "raise"),
                        template="{{ raise_exception('no roles here') }}")
    r = Run("run", d, "hi")
    check(r.rc == 2 and "no roles here" in r.err, r)
    d = checkpoint.make(os.path.join(TMP.name, "none"), template=None)
    r = Run("run", d, "hi")
    check(r.rc == 3 and "chat template" in r.err, r)


@test
def tools_file():
    path = os.path.join(TMP.name, "tools.json")
    with open(path, "w") as f:
        f.write('[{"type":"function","function":{"name":"f"}}]')
    own = os.path.join(TMP.name, "tools.jinja")
    with open(own, "w") as f:
        f.write("{{ tools[0].function.name }}")
    check(chat("hi", "--tools", path, "--chat-template", own)["ids"] ==
          raw("f")["ids"])
    with open(path, "w") as f:
        f.write("{}")
    r = Run("run", MODEL, "hi", "--tools", path)
    check(r.refused(5, "--tools", "array"), r)


# ------------------------------------------------- refusals, no model

@test
def refusals():
    for rc, words, argv in (
            (2, ["prompt is empty"], [""]),
            (2, ["quote a prompt"], ["two", "words"]),
            (2, ["--raw", "--system"], ["x", "--raw", "--system", "y"]),
            (2, ["--raw", "--think"], ["x", "--raw", "--no-think"]),
            (2, ["--stop is empty"], ["x", "--stop", ""]),
            (2, ["did you mean '--temperature'"], ["x", "--temprature", "1"]),
            (2, ["--temperature", "0 to 2"], ["x", "--temperature", "3"]),
            (2, ["--block-size", "choose 64"], ["x", "--block-size", "16"]),
            (2, ["--dtype", "float16"], ["x", "--dtype", "float16"]),
            (2, ["--max-model-len", "4096"],
             ["x", "--max-model-len", "100000"]),
            (4, ["nowhere.json"], ["x", "--tools", "nowhere.json"])):
        r = Run("run", MODEL, *argv)
        check(r.rc == rc and all(w in r.err for w in words) and not r.out, r)
        check(len([s for s in r.err.splitlines() if
                   s.startswith("sluice: ")]) == 1, r)


@test
def bad_prompt_bytes():
    r = Run("run", MODEL, "-", stdin=b"good \xf0\x28 bad")
    check(r.refused(2, "not valid UTF-8", "offset 5"), r)
    r = Run("run", MODEL, "-", stdin=b"")
    check(r.refused(2, "prompt is empty"), r)


@test
def prompt_longer_than_context():
    r = Run("run", MODEL, "-", "--raw", "--max-model-len", "64",
            stdin="many words " * 200)
    check(r.rc == 2 and "64" in r.err and r.out == "", r)


# ------------------------------------------------------------ outputs

@test
def outputs_that_end():
    long = [*RAW[:4], "--max-tokens", "3000", "--ignore-eos"]
    r = Run(*long, stdout="broken")
    check(r.rc == 1 and "closed by its reader" in r.err, r)
    r = Run(*long, stdout="/dev/full")
    check(r.rc == 6 and "the disk is full" in r.err, r)
    r = Run(*long, stdout="closed")
    check(r.rc == 1 and "not open" in r.err, r)


def wait_for(f, what):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if f():
            return
        time.sleep(0.01)
    check(False, f"no {what} within {LIMIT_S} s")


@test
def interrupt_one_shot():
    p = subprocess.Popen([SLUICE, *RAW[:4], "--max-tokens", "4000",
                          "--ignore-eos", "--cpu-mask", "ref"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=environment())
    check(p.stdout.read(1))  # it has begun
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=LIMIT_S)
    lines = [s for s in err.decode().splitlines() if s.startswith("sluice:")]
    check(p.returncode == 130, (p.returncode, err))
    check(len(lines) == 1 and "interrupted" in lines[0], err)


class Terminal:
    """The program with a terminal for standard input and error; standard
    output is a pipe, so that what goes where can be seen."""

    def __init__(self, *argv, all_tty=False):
        self.master, slave = pty.openpty()
        self.read_out, out = os.pipe()
        self.out = self.screen = b""

        def own_terminal():
            import fcntl
            import termios
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.p = subprocess.Popen([SLUICE, *argv], stdin=slave,
                                  stdout=slave if all_tty else out,
                                  stderr=slave, preexec_fn=own_terminal,
                                  env=environment(TERM="xterm"))
        os.close(slave)
        os.close(out)

    def pump(self):
        fds = [self.master, self.read_out]
        for fd in select.select(fds, [], [], 0.01)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                data = b""
            if fd == self.master:
                self.screen += data
            else:
                self.out += data

    def expect(self, text, n=1):
        def there():
            self.pump()
            return self.screen.count(text) >= n
        wait_for(there, f"{text!r} on {self.screen[-300:]!r}")
        # What was written to the pipe before is there, maybe unread.
        while select.select([self.read_out], [], [], 0)[0]:
            data = os.read(self.read_out, 65536)
            if not data:
                break
            self.out += data

    def type(self, data):
        os.write(self.master, data)

    def line(self, data):
        """Type a line once the program asks for it: what is typed earlier is
        lost when the line editor takes the terminal over."""
        marks = (b"seed", b"anew", b"Ctrl-C again", b"temperature ",
                 b"system prompt", b"messages ", b"nowhere'")

        def asked():
            self.pump()
            return self.screen.rfind(b">>> ") > max(
                self.screen.rfind(m) for m in marks)
        wait_for(asked, f"a prompt on {self.screen[-300:]!r}")
        self.type(data)

    def end(self):
        def gone():
            self.pump()
            return self.p.poll() is not None
        wait_for(gone, "end")
        os.close(self.master)
        os.close(self.read_out)
        return self.p.returncode


@test
def conversation():
    t = Terminal("run", MODEL, "--max-tokens", "12", "--temperature", "0")
    t.expect(b">>> ")
    t.line(b"Hi there\n")
    t.expect(b"[prompt")
    first = t.out
    t.line("grün\\\n".encode())
    t.expect(b"... ")
    t.type(b"more\n")
    t.expect(b"[prompt", 2)
    t.line(b"/clear\n")
    t.expect(b"anew")
    t.line(b"Hi there\n")
    t.expect(b"[prompt", 3)
    check(t.out.endswith(first) and len(t.out) > 2 * len(first), t.out)
    t.line(b"\x04")
    check(t.end() == 0)
    check(first.decode() == chat("Hi there")["text"] + "\n", first)


@test
def conversation_interrupts():
    t = Terminal("run", MODEL, "--ignore-eos", "--cpu-mask", "ref")
    t.expect(b">>> ")
    t.line(b"count\n")
    wait_for(lambda: t.pump() or t.out, "answer")
    t.type(b"\x03")
    t.expect(b"cancel")
    t.line(b"again\n")
    n = len(t.out)
    wait_for(lambda: t.pump() or len(t.out) > n, "second answer")
    t.type(b"\x03")
    t.expect(b"cancel", 2)
    t.line(b"\x03")
    t.expect(b"Ctrl-C again")
    t.line(b"\x03")
    check(t.end() == 0)


@test
def conversation_settings():
    """Reasoning is dimmed on a terminal, and only there; what /save writes
    /load reads."""
    t = Terminal("run", "models/demo", "--seed", "1", "--max-tokens", "60",
                 all_tty=True)
    t.expect(b">>> ")
    t.line(b"/temperature 0.25\n")
    t.expect(b"temperature 0.25\r\n")
    t.line(b"/system Be kind.\n")
    t.expect(b"system prompt set")
    t.line(b"Why is the sky blue?\n")
    t.expect(b"[prompt")
    check(b"\x1b[2m" in t.screen and b"\x1b[0m" in t.screen and
          b"</think>" not in t.screen, t.screen)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "talk.json")
        t.line(f"/save {path}\n".encode())
        t.expect(b"3 messages in")
        kept = json.load(open(path))
        check([m["role"] for m in kept] == ["system", "user", "assistant"] and
              kept[0]["content"] == "Be kind.", kept)
        t.line(b"/clear\n")
        t.expect(b"anew")
        t.line(f"/load {path}\n".encode())
        t.expect(b"3 messages from")
        t.line(b"/load /nowhere\n")
        t.expect(b"opening '/nowhere'")
    t.line(b"/exit\n")
    check(t.end() == 0)


done()
