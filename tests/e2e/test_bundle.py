#!/usr/bin/env python3
"""From a name to an answer: bundles and plain checkpoints, out of a local hub,
with the embedded model. Set SL_TEST_KILLS to kill more often."""
import fcntl
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import checkpoint
from e2e import LIMIT_S, SLUICE, Run, check, done, environment, \
    in_namespace, test
from hub import Hub, Repo, git_sha1, sha256
from hub import LFS_BYTES

DEMO = pathlib.Path("models/demo")
FULL = os.environ.get("SL_TEST_FULL") == "1"
KILLS = int(os.environ.get("SL_TEST_KILLS", "20" if FULL else "3"))
ASK = ["What is 2 + 3?", "--max-tokens", "4", "--seed", "1", "--threads", "2",
       "--no-pin", "--temperature", "0"]
HUB = Hub()


def demo_files():
    names = ("config.json", "tokenizer.json", "tokenizer_config.json",
             "generation_config.json", "chat_template.jinja",
             "model.safetensors")
    return {n: (DEMO / n).read_bytes() for n in names}


def listed(data):
    out = []
    for path in sorted(data):
        e = {"path": path, "size": len(data[path])}
        if len(data[path]) > LFS_BYTES:
            e["sha256"] = sha256(data[path])
        else:
            e["git_sha1"] = git_sha1(data[path])
        out.append(e)
    return out


def manifest(_w, **change):
    """A published bundle of the embedded model."""
    m = {
        "schema_version": "1.0", "kind": "native", "name": "demo-bundle",
        "license": "Apache-2.0",
        "model": {"id": "t/demo", "aliases": ["tiny"],
                  "architecture": "qwen3_5", "context_length": 32768},
        "weights": {"repo": _w.name, "revision": _w.sha(),
                    "files": listed(_w.files)},
        "engine": {"name": "sluice", "min_version": "0.0.1"},
        "serve": {"engine": {"max_model_len": 512},
                  "requires": {"backend": ["cpu"], "cores": 1}},
        "profiles": {"spec-decode": {"spec": {"speculate": "all"}},
                     "plain": {"spec": {"speculate": "off"},
                               "engine": {"max_num_seqs": 2}}},
        "default_profile": "spec-decode",
        "renamed_profiles": {"fast": "spec-decode"},
        "sampling": {"temperature": 1.9, "source": "bundle"},
        "built": {"tool": "sluice", "tool_version": "0.1.0"},
    }
    m.update(change)
    return m


def bundle(_name, _w, _more=(), **change):
    m = manifest(_w, **change)
    data = {"README.md": b"# demo\n", **dict(_more)}
    m["files"] = [{"path": p, "size": len(d), "sha256": sha256(d),
                   "mode": "0644"} for p, d in sorted(data.items())]
    data["serve_bundle.json"] = json.dumps(m, indent=1).encode()
    data[".gitattributes"] = b"* text\n"
    return HUB.add(Repo(_name, data))


SIZE = f"{sum(map(len, demo_files().values())) / 2**20:.2f} MiB"
WEIGHTS = HUB.add(Repo("t/demo-weights", demo_files()))
BUNDLE = bundle("t/demo-bundle", WEIGHTS)


class Home:
    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sluice-home-"))
        (self.dir / "run").mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *a):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, *argv, **env):
        return Run(*argv, env=HUB.env(self.dir, **env))

    def start(self, *argv, **env):
        return subprocess.Popen([SLUICE, *argv],
                                env=environment(**HUB.env(self.dir, **env)),
                                stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def snapshot(self, repo):
        return (self.dir / "hf/hub" / ("models--" + repo.name.replace("/", "--"))
                / "snapshots" / repo.sha())


def want():
    r = Run("run", str(DEMO), *ASK)
    check(r.rc == 0, r)
    return r.out


WANT = want()


@test
def bundle_to_first_token():
    with Home() as h:
        r = h.run("run", "t/demo-bundle", *ASK)
        check(r.rc == 0 and r.out == WANT, r)
        # And again: only one question is asked, whether there is a newer one.
        before = len(HUB.log)
        r = h.run("run", "t/demo-bundle", *ASK)
        check(r.rc == 0 and r.out == WANT, r)
        check(len(HUB.log) == before + 1, HUB.log[before:])
        # By the name it was installed under, and without a network.
        r = h.run("run", "demo-bundle", *ASK, HF_HUB_OFFLINE="1")
        check(r.rc == 0 and r.out == WANT and len(HUB.log) == before + 1, r)


@test
def checkpoint_to_first_token():
    with Home() as h:
        r = h.run("run", "t/demo-weights", *ASK)
        check(r.rc == 0 and r.out == WANT, r)
        r = h.run("run", "t/demo-weights", *ASK, HF_HUB_OFFLINE="1")
        check(r.rc == 0 and r.out == WANT, r)


@test
def served_bundle():
    """Its profile, its names; the command line wins."""
    with Home() as h:
        p = h.start("serve", "t/demo-bundle", "--port", "0", "--threads", "2",
                    "--no-pin", "--profile", "plain", "--max-num-seqs", "3")
        log, port = "", None
        for raw in p.stderr:
            log += raw.decode()
            if "listening on" in log and port is None:
                port = int(log.split("127.0.0.1:")[1].split()[0])
            if "sluice: ready" in log:
                break
        check("512 tokens of context" in log, log)
        for phase in ("resolve", "plan", "verify", "download", "install",
                      "convert"):
            check(f"sluice: {phase}: " in log, log)
        import http.client
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        # The bundle's sampling is the default: 1.9 is not greedy.
        texts = []
        for extra in ({}, {"temperature": 1.9}, {"temperature": 0}):
            c.request("POST", "/v1/completions", json.dumps(
                {"prompt": "One day", "max_tokens": 30, "seed": 11, **extra}),
                {"Content-Type": "application/json"})
            texts.append(json.loads(c.getresponse().read())
                         ["choices"][0]["text"])
        check(texts[0] == texts[1] != texts[2], texts)
        c.request("GET", "/v1/models")
        names = [m["id"] for m in json.loads(c.getresponse().read())["data"]]
        check(names == ["t/demo", "tiny"], names)
        # GET / says what exactly it is, and what starting took.
        c.request("GET", "/", headers={"Accept": "application/json"})
        i = json.loads(c.getresponse().read())
        check(i["source"]["bundle"] == {
            "name": "demo-bundle", "repo": "t/demo-bundle", "profile": "plain",
            "revision": BUNDLE.sha(),
            "digest": sha256(BUNDLE.files["serve_bundle.json"])}, i)
        check(i["mode"] == "plain" and i["drafter"] is None and
              i["profile"]["name"] == "plain", i)
        check(i["source"]["weights"] == {"repo": WEIGHTS.name,
                                         "revision": WEIGHTS.sha()}, i)
        check(set(i["source"]["fetching_s"]) == {
            "resolve", "plan", "verify", "download", "install"} and
            set(i["loading_s"]) == {"convert", "map", "calibrate", "all"} and
            0 <= i["loading_s"]["map"] <= i["loading_s"]["all"], i)
        p.send_signal(signal.SIGTERM)
        check(p.wait(LIMIT_S) == 0, p.stderr.read())


@test
def profiles():
    with Home() as h:
        r = h.run("run", "t/demo-bundle", *ASK, "--profile", "slow")
        check(r.rc == 2 and "choose one of spec-decode, plain" in r.err, r)
        r = h.run("run", "t/demo-bundle", *ASK, "--profile", "fast")
        check(r.rc == 0 and "'fast' is called 'spec-decode' now" in r.err, r)
    # A folder has none; what is no bundle on a hub has two.
    with Home() as h:
        r = h.run("run", str(DEMO), "hi", "--profile", "plain")
        check(r.rc == 2 and "is no bundle" in r.err, r)
        for argv in (("pull", WEIGHTS.name), ("run", WEIGHTS.name, "hi")):
            r = h.run(*argv, "--profile", "fast")
            check(r.rc == 2 and "there are spec-decode and plain" in r.err, r)
        check(not h.snapshot(WEIGHTS).exists(), "refused before it is fetched")
        for profile in ("spec-decode", "plain"):
            r = h.run("run", WEIGHTS.name, *ASK, "--profile", profile)
            check(r.rc == 0 and r.out == WANT, r)
        r = h.run("serve", WEIGHTS.name, "--print", "--profile", "plain")
        check(r.rc == 0 and "--speculate off  (profile)" in r.out, r)
    conf = json.loads(WEIGHTS.files["config.json"])
    conf["mtp_num_hidden_layers"] = 0
    w = HUB.add(Repo("t/headless", {**demo_files(), "config.json":
                                    json.dumps(conf).encode()}))
    with Home() as h:
        r = h.run("run", w.name, *ASK, "--profile", "spec-decode")
        check(r.rc == 3 and "has no draft head" in r.err, r)


@test
def embedded():
    """'demo' is a bundle, too: its profiles, its names."""
    with Home() as h:
        for profile in ((), ("--profile", "plain"), ("--speculate", "off")):
            r = h.run("run", "demo", *ASK, *profile, HF_ENDPOINT="nonsense")
            check(r.rc == 0 and r.out == WANT, r)
        r = h.run("run", "demo", *ASK, "--profile", "p4d4")
        check(r.rc == 2 and "choose one of spec-decode, plain" in r.err, r)
        r = h.run("profiles", "demo", "--json")
        p = json.loads(r.out)
        check(all(v["can_serve"] for v in p.values()) and
              set(p) == {"spec-decode", "plain"}, r)


@test
def variables():
    """A profile's variables of another verb are let be; of the hub's variables
    a model that lies here knows nothing."""
    bundle("t/env", WEIGHTS, name="env-bundle", serve={
        "engine": {"max_model_len": 512},
        "env": {"SLUICE_PORT": "1", "SLUICE_MAX_MODEL_LEN": "8"}})
    with Home() as h:
        r = h.run("run", "t/env", *ASK)
        check(r.rc == 0 and r.out == WANT, r)
        r = h.run("run", str(DEMO), *ASK, HF_ENDPOINT="nonsense")
        check(r.rc == 0 and r.out == WANT, r)
        r = h.run("run", WEIGHTS.name, *ASK, HF_ENDPOINT="nonsense")
        check(r.rc == 2 and "HF_ENDPOINT" in r.err, r)


@test
def what_this_machine_cannot_do():
    cases = [
        ("t/cores", {"serve": {"requires": {"cores": 100000}}}, 3,
         "needs 100000 cores"),
        ("t/split", {"serve": {"mode": "split"}}, 3,
         "splits prefill and decode"),
        ("t/newer", {"engine": {"name": "sluice", "min_version": "9.0.0"}}, 3,
         "needs version 9.0.0"),
        ("t/older", {"engine": {"name": "sluice", "min_version": "0.0.1",
                                "max_version": "0.0.2"}}, 3,
         "for versions before 0.0.2"),
        ("t/zero", {"x_a": 1, "model": {"id": "t/demo",
                                        "architecture": "qwen3_5",
                                        "context_length": 512},
                    "serve": {}, "profiles": {"p": {}}, "default_profile": "p",
                    "renamed_profiles": {},
                    "weights": {"repo": WEIGHTS.name, "revision": "0" * 40,
                                "files": listed(WEIGHTS.files)}}, 5,
         "'weights.revision' is zero"),
    ]
    for name, change, rc, word in cases:
        bundle(name, WEIGHTS, **change)
        with Home() as h:
            r = h.run("run", name, *ASK)
            check(r.rc == rc and word in r.err, r)
    with Home() as h:
        r = h.run("run", "t/cores", *ASK, "--force")
        check(r.rc == 0 and r.out == WANT, r)
        r = h.run("pull", "t/cores")
        check(r.rc == 0 and "warning: profile" in r.err, r)


def engine(**more):
    return {"name": "sluice", "min_version": "0.0.1", **more}


@test
def doctor():
    """Where the cache is, whether locks hold, whether the hub is there."""
    with Home() as h:
        h.run("pull", WEIGHTS.name)
        r = h.run("doctor", "--json", "t/demo-bundle", HF_TOKEN="hush")
        checks = {c["check"]: c for c in json.loads(r.out)["checks"]}
        check(r.rc == 0 and "hush" not in r.out + r.err, r)
        for name, word in (("cache", "hf/hub"), ("locks", "hold"),
                           ("token", "there is one"), ("hub", "answers"),
                           ("clock", "agrees"), ("state", "data/sluice"),
                           ("bundle", "has what it requires")):
            check(checks[name]["state"] == "ok" and
                  word in checks[name]["found"], checks[name])
        r = h.run("doctor", "--offline")
        check(r.rc == 0 and "not asked: offline" in r.out, r)
        r = h.run("doctor", HF_ENDPOINT="http://127.0.0.1:1")
        check(r.rc == 0 and "warn  hub " in r.out, r)
        check(not list((h.dir / "hf").rglob(".sluice-doctor")), "left behind")
        bundle("t/many-cores", WEIGHTS, serve={"requires": {"cores": 100000}})
        r = h.run("doctor", "t/many-cores")
        check(r.rc == 3 and "needs 100000 cores" in r.out, r)


@test
def printed():
    """serve --print: what it would be, without the weights."""
    with Home() as h:
        r = h.run("serve", "t/demo-bundle", "--print", "--profile", "plain",
                  "--max-num-seqs", "3", "--api-key", "hush",
                  SLUICE_PORT="99")
        check(r.rc == 0 and "hush" not in r.out + r.err, r)
        d = sha256(BUNDLE.files["serve_bundle.json"])
        for line in ("--max-num-seqs 3  (command line)",
                     "--speculate off  (profile)", "--port 99  (environment)",
                     "--max-model-len 512  (profile)", "--api-key (hidden)",
                     f"manifest {d}), profile plain",
                     f"weights {WEIGHTS.name}@{WEIGHTS.sha()}"):
            check(line in r.out, (line, r))
        check(not (h.snapshot(WEIGHTS) / "model.safetensors").exists(), r)
        r = h.run("serve", str(DEMO), "--print")
        check(r.rc == 0 and r.out.startswith(f"model {DEMO}\n"), r)


@test
def no_key_is_ignored():
    """What a bundle needs is looked at; what cannot be had is refused."""
    mtp = {"id": "mtp", "role": "mtp", "embedded": True,
           "required_by": ["spec-decode"]}
    cases = [
        ("kind", {"kind": "native-bin"}, 3, "brings a program of its own"),
        ("feature", {"engine": engine(features=["kv.bfp8", "pd.ucx"])}, 3,
         "needs the feature 'pd.ucx'"),
        ("modality", {"capabilities": {"modalities": ["text", "image"]}}, 3,
         "is for 'image'"),
        ("stream", {"capabilities": {"streaming": False}}, 3,
         "forbids streaming"),
        ("logprobs", {"capabilities": {"max_logprobs": 21}}, 3,
         "at most 20"),
        ("arch", {"model": {"id": "t/demo", "architecture": "qwen3_5_moe",
                            "context_length": 32768}}, 5,
         "for the architecture 'qwen3_5_moe' and its weights are "
         "'qwen3_5_text'"),
        ("head", {"drafters": [{**mtp, "tensors": {"prefix": "mtp.",
                                                   "count": 3}}]}, 5,
         "3 tensors that begin with 'mtp.'"),
        ("disk", {"serve": {"requires": {"disk_bytes": 1 << 52}}}, 6,
         "GiB of disk for packed weights"),
    ]
    for name, change, rc, word in cases:
        bundle("t/key-" + name, WEIGHTS, **change)
        with Home() as h:
            r = h.run("run", "t/key-" + name, *ASK)
            check(r.rc == rc and word in r.err, r)
    for name, change, word in (
            ("force", {"serve": {"requires": {"disk_bytes": 1 << 52}}}, ""),
            ("pages", {"serve": {"requires": {"hugepages_1g": 1 << 20}}},
             "advises 1048576 huge pages"),
            ("ok", {"engine": engine(features=["kv.bfp8", "spec.mtp"]),
                    "drafters": [{**mtp, "tensors": {"prefix": "mtp."}}],
                    "capabilities": {"modalities": ["text"], "streaming": True,
                                     "max_logprobs": 20}}, "")):
        bundle("t/key-" + name, WEIGHTS, **change)
        with Home() as h:
            r = h.run("run", "t/key-" + name, *ASK, "--force")
            check(r.rc == 0 and r.out == WANT and word in r.err, r)
    for argv in (("run", str(DEMO)), ("run", "demo")):
        for flag in ("--update", "--force"):
            with Home() as h:
                r = h.run(*argv, *ASK, flag)
                check(r.refused(2, flag, "lies here"), r)
    with Home() as h:
        r = h.run("run", WEIGHTS.name, *ASK, "--force")
        check(r.rc == 2 and "is no bundle" in r.err, r)


@test
def gguf_weights():
    """A bundle of one GGUF file."""
    with Home() as h:
        r = h.run("convert", str(DEMO), str(h.dir / "demo.gguf"), "--dtype",
                  "q8")
        check(r.rc == 0, r)
        w = HUB.add(Repo("t/gguf-weights", {
            "demo-Q8_0.gguf": (h.dir / "demo.gguf").read_bytes()}))
        want = Run("run", str(h.dir / "demo.gguf"), *ASK)
    bundle("t/gguf", w, name="gguf-bundle", weights={
        "repo": w.name, "revision": w.sha(), "format": "gguf",
        "files": listed(w.files)})
    with Home() as h:
        r = h.run("run", "t/gguf", *ASK)
        check(r.rc == 0 and r.out == want.out, f"{r}\n{want}")


@test
def not_ready_in_time():
    """timeouts.ready_s ends a server whose model does not come: it is held up
    while it loads, longer than it may."""
    with Home() as h:
        d = h.dir / "slow"
        checkpoint.make(d, tensors={})
        conf = {**checkpoint.CONFIG, "hidden_size": 1024,
                "intermediate_size": 4096, "num_hidden_layers": 8}
        (d / "config.json").write_text(json.dumps(conf))
        for _ in range(20):  # it may be ready before it is held up
            p = h.start("serve", str(d), "--port", "0", "--threads", "2",
                        "--no-pin", "--load-format", "dummy",
                        "--max-model-len", "512", "--ready-timeout", "1")
            err = p.stderr.readline()
            p.send_signal(signal.SIGSTOP)
            time.sleep(1.2)
            p.send_signal(signal.SIGCONT)
            for line in p.stderr:
                err += line
                if b"sluice: ready" in line:
                    p.kill()
            if p.wait(LIMIT_S) == 1:
                break
        check(p.returncode == 1 and b"not ready within 1 s" in err, err)


@test
def hostile_bundles():
    b = bundle("t/extra", WEIGHTS)
    b.files["evil.py"] = b"import os\n"
    b = bundle("t/changed", WEIGHTS)
    b.files["README.md"] = b"# DEMO\n"
    other = listed(WEIGHTS.files)
    other[0]["size"] += 1
    bundle("t/otherweights", WEIGHTS, weights={
        "repo": WEIGHTS.name, "revision": WEIGHTS.sha(), "files": other})
    for name, word in (("t/extra", "'evil.py', which its manifest does not"),
                       ("t/changed", "was changed"),
                       ("t/otherweights", "another size or digest")):
        with Home() as h:
            r = h.run("run", name, *ASK)
            check(r.rc == 5 and word in r.err, r)
            check(not list(h.dir.rglob("evil.py")), r)
            check("current" not in [p.name for p in h.dir.rglob("*")] or
                  name != "t/extra", r)


@test
def source_of_a_program():
    """code/ is what `built` says that it is, or the bundle is refused."""
    code = {"code/a.c": b"int a;\n", "code/b.c": b"int b;\n"}
    text = b"".join(n[5:].encode() + b"\0" + sha256(d).encode() + b"\n"
                    for n, d in sorted(code.items()))
    for digest, rc in ((sha256(text), 0), ("a" * 64, 5)):
        bundle("t/source", WEIGHTS, code, name="source", built={
            "tool": "sluice", "tool_version": "0.1.0",
            "source_digest": digest})
        with Home() as h:
            r = h.run("pull", "t/source")
            check(r.rc == rc and ("code/ holds" in r.err) == (rc != 0), r)


@test
def pinned_digest():
    d = sha256(BUNDLE.files["serve_bundle.json"])
    with Home() as h:
        r = h.run("pull", f"t/demo-bundle#sha256:{d}")
        check(r.rc == 0, r)
        for verb in ("pull", "profiles"):
            r = h.run(verb, f"t/demo-bundle#sha256:{'0' * 64}")
            check(r.rc == 5 and "was asked for" in r.err, r)
    # No manifest has no digest: it is not taken as a checkpoint instead.
    with Home() as h:
        for verb in ("pull", "profiles"):
            r = h.run(verb, f"{WEIGHTS.name}#sha256:{d}")
            check(r.rc == 5 and "was asked for" in r.err, r)
        check(h.run("pull", WEIGHTS.name).rc == 0, "pull")
        for verb in ("pull", "run"):
            r = h.run(verb, f"{WEIGHTS.name}#sha256:{d}")
            check(r.rc == 5 and "was asked for" in r.err, r)


@test
def weights_beside_others():
    """That one file of a commit is here says nothing of a bundle's weights."""
    w = HUB.add(Repo("t/beside", dict(demo_files(), **{
        "a-Q4.gguf": b"x" * (LFS_BYTES + 1)})))
    bundle("t/beside-bundle", w, name="beside", weights={
        "repo": w.name, "revision": w.sha(), "files": listed(demo_files())})
    with Home() as h:
        check(h.run("pull", w.name + ":Q4").rc == 0, "pull")
        r = h.run("run", "t/beside-bundle", *ASK)
        check(r.rc == 0 and r.out == WANT, r)


KERNELS = b"binary of another machine"
FOREIGN = {
    "3": {"schema_version": "3", "name": "cache", "arch": "blackhole",
          "tt_metal_version": "0.70", "device_count": 1, "kernel_count": 1,
          "build_key": 123, "producer": {"tt_kernel_version": "0.1",
                                         "created_at": "2026-01-01"},
          "files": [{"path": "kernels/a.o", "size": len(KERNELS),
                     "sha256": sha256(KERNELS)}]},
    "4": {"schema_version": "4", "name": "qwen", "arch": "blackhole",
          "tt_metal_version": "unknown", "device_count": 4,
          "weights": {"repo": "Qwen/Qwen3.6-35B-A3B", "revision": "main"},
          "target": "p150x4", "mesh": {"devices": 4, "topology": "1x4"},
          "runtime": {"kind": "vllm", "version": ">=0.24"},
          "resources": {"max_model_len": 262144, "max_num_seqs": 32},
          "capabilities": {"tool_parser": "qwen3_coder"},
          "env": {"QWEN36_MTP": "1"}, "files": []},
    "5": {"schema_version": 5, "name": "self", "arch": "blackhole",
          "weights": {"repo_id": "t/w", "revision": "r"}, "device_count": 1},
    "5.1": {"schema_version": 5.1, "name": "image", "arch": "blackhole",
            "weights": {"repo_id": "Qwen/Qwen3.8-27B", "revision": "a"},
            "device_count": 8, "profiles": {
                "spec-decode": {"description": "drafts"}, "plain": {}},
            "built": {"code_sha256": "ab"}},
    "6": {"schema_version": "6", "name": "thin", "device_count": 2,
          "weights": {"repo_id": "Qwen/Qwen3.8-27B", "revision": "r"},
          "profiles": {"p300": {}}},
}


@test
def foreign_bundles():
    """Manifests of other tools are shown, verified, and never run."""
    for version, m in FOREIGN.items():
        tool = "tt-kernel" if version < "5" else "tt-model"
        name = f"t/foreign{version.replace('.', '-')}"
        path = "serve_bundle.json" if version == "5" else \
            "tt_kernel_manifest.json"
        HUB.add(Repo(name, {path: json.dumps(m).encode()}))
        with Home() as h:
            r = h.run("run", name, *ASK)
            check(r.rc == 3 and f"is a bundle of {tool} (schema {version})"
                  in r.err, r)
            r = h.run("serve", name)
            check(r.rc == 3 and f"is a bundle of {tool}" in r.err, r)
            r = h.run("info", name)
            w = m.get("weights", {})
            check(r.rc == 0 and f"served by            {tool}" in r.out and
                  str(w.get("repo_id", w.get("repo", ""))) in r.out and
                  str(m.get("arch", "")) in r.out, r)
            r = h.run("profiles", name)
            check(r.rc == 0 and all(p in r.out for p in
                                    m.get("profiles", {"no profiles": 0})), r)
            r = h.run("profiles", name, "--json")
            check(json.loads(r.out)["profiles"] == m.get("profiles"), r)
            r = h.run("list", "--json")
            check([(e["kind"], e["can_serve"]) for e in
                   json.loads(r.out)["models"]] == [("foreign", "no")], r)
            r = h.run("verify", name)
            check(r.rc == 0 and r.out.startswith("ok "), r)
            # And as a folder, with what it lists.
            d = h.dir / "folder"
            (d / "kernels").mkdir(parents=True)
            (d / path).write_text(json.dumps(m))
            (d / "kernels/a.o").write_bytes(KERNELS)
            for argv in (("info",), ("profiles",), ("verify",)):
                check(h.run(*argv, str(d)).rc == 0, argv)
            (d / "kernels/a.o").write_bytes(KERNELS[:-1] + b"!")
            r = h.run("verify", str(d))
            check(r.rc == (5 if m.get("files") else 0), r)


@test
def freshness():
    """What is installed serves; that there is newer is said; --update."""
    w = HUB.add(Repo("t/fresh-weights", demo_files()))
    b = bundle("t/fresh", w, name="fresh")
    old = b.sha()
    with Home() as h:
        check(h.run("pull", "t/fresh", "--with-weights").rc == 0, "pull")
        m = json.loads(b.files["serve_bundle.json"])
        m["title"] = "new"
        b.change("serve_bundle.json", json.dumps(m).encode())
        r = h.run("run", "t/fresh", *ASK)
        check(r.rc == 0 and r.out == WANT and
              f"commit {old[:12]} is here and the hub has {b.sha()[:12]}"
              in r.err, r)
        r = h.run("run", "t/fresh", *ASK, HF_ENDPOINT="http://127.0.0.1:1")
        check(r.rc == 0 and "not checked for a newer version" in r.err, r)
        r = h.run("run", f"t/fresh@{old}", *ASK)
        check(r.rc == 0 and "hub has" not in r.err, r)
        r = h.run("run", "t/fresh", *ASK, "--update")
        check(r.rc == 0 and "is here and the hub has" not in r.err, r)
        r = h.run("run", "t/fresh", *ASK)
        check(r.rc == 0 and "hub has" not in r.err, r)
        gens = [p.name for p in
                (h.dir / "data/sluice/bundles/fresh").glob("gen-*/")]
        check(len(gens) == 2, gens)
        check(h.run("pull", "t/fresh", "--pin-revision").rc == 0, "pin")
        m["title"] = "newest"
        b.change("serve_bundle.json", json.dumps(m).encode())
        r = h.run("run", "t/fresh", *ASK)
        check(r.rc == 0 and "hub has" not in r.err, r)
        check(h.run("pull", "t/fresh", "--no-pin-revision").rc == 0, "unpin")
        r = h.run("run", "t/fresh@" + "9" * 40, *ASK)
        check(r.rc == 4, r)


@test
def drafter_of_its_own():
    """A profile's drafter is part of the plan; a missing licence is told before
    anything is fetched."""
    d = HUB.add(Repo("t/drafter", {"model.safetensors": b"d" * 5000}))
    bundle("t/drafted", WEIGHTS, name="drafted",
           drafters=[{"id": "block", "role": "dflash", "repo": d.name,
                      "revision": d.sha(), "files": listed(d.files)}],
           profiles={"p": {"spec": {"draft_model": "block"}}, "plain": {}},
           default_profile="p", renamed_profiles={})
    with Home() as h:
        r = h.run("pull", "t/drafted", "--with-weights")
        check(r.rc == 0 and "t/drafter@" in r.err, r)
        check((h.snapshot(d) / "model.safetensors").exists(), r)
    with Home() as h:
        r = h.run("pull", "t/drafted", "--with-weights", "--profile", "plain")
        check(r.rc == 0 and "t/drafter@" not in r.err, r)
    # It reaches the engine: without it --drafter dflash is refused.
    d = HUB.add(Repo("t/real-drafter", {
        f.name: f.read_bytes() for f in (DEMO / "drafter").iterdir()}))
    bundle("t/flash", WEIGHTS, name="flash",
           drafters=[{"id": "block", "role": "dflash", "repo": d.name,
                      "revision": d.sha(), "files": listed(d.files)}],
           profiles={"p": {"spec": {"draft_model": "block",
                                    "drafter": "dflash", "draft_depth": 3,
                                    "spec_ladder": [[4, 4], [8, 64], [9, 0]],
                                    "dflash_max_context": 4096}}},
           default_profile="p", renamed_profiles={})
    with Home() as h:
        # Rows that no drafter gives are nobody's mistake here, but told.
        r = h.run("run", "t/flash", *ASK)
        check(r.rc == 0 and r.out == WANT and "spec_ladder_cut" in r.err, r)
        # What the profile says of drafters falls away with them.
        for argv in (("--speculate", "off"), ("--drafter", "none"),
                     ("--drafter", "mtp"), ("--drafter", "ngram")):
            r = h.run("run", "t/flash", *ASK, *argv)
            check(r.rc == 0 and r.out == WANT, r)
    bundle("t/head", WEIGHTS, name="head",
           drafters=[{"id": "h", "role": "mtp", "repo": d.name,
                      "revision": d.sha(), "files": listed(d.files)}],
           profiles={"p": {"spec": {"draft_model": "h"}}},
           default_profile="p", renamed_profiles={})
    with Home() as h:
        r = h.run("run", "t/head", *ASK)
        check(r.rc == 3 and "a head in a repository of its own" in r.err, r)
    gated = HUB.add(Repo("t/gated-weights", demo_files(), "gated"))
    bundle("t/behind", gated, name="behind")
    with Home() as h:
        r = h.run("run", "t/behind", *ASK)
        check(r.rc == 4 and "accept its licence" in r.err, r)
        check(not (h.dir / "data/sluice/bundles").exists(), r)


@test
def shown():
    """list, profiles, info, verify: of a bundle, a model, a foreign bundle."""
    with Home() as h:
        r = h.run("list")
        check(r.rc == 0 and "nothing was fetched yet" in r.out, r)
        check(h.run("pull", "t/demo-bundle", "--with-weights").rc == 0, "pull")
        check(h.run("pull", "t/demo-weights").rc == 0, "pull")
        r = h.run("list", "--json")
        rows = json.loads(r.out)["models"]
        check([(m["name"], m["kind"], m["can_serve"]) for m in rows] ==
              [("demo-bundle", "bundle", "yes"),
               ("t/demo-weights", "model", "yes")], rows)
        check(all(m["weight_bytes"] == sum(map(len, demo_files().values()))
                  for m in rows), rows)
        r = h.run("list")
        check(r.rc == 0 and "demo-bundle" in r.out and SIZE in r.out, r)
        for name in ("demo-bundle", "t/demo-bundle"):
            r = h.run("profiles", name, "--json")
            p = json.loads(r.out)
            check(list(p) == ["spec-decode", "plain"] and
                  p["spec-decode"]["default"] and p["plain"]["can_serve"] and
                  p["plain"]["settings"]["engine"] ==
                  {"max_model_len": 512, "max_num_seqs": 2}, r)
        r = h.run("info", "demo-bundle")
        check(r.rc == 0 and "weights              t/demo-weights" in r.out and
              "intact" in r.out, r)
        r = h.run("info", "t/demo-bundle", "--json")
        check(json.loads(r.out)["manifest"]["name"] == "demo-bundle", r)
        r = h.run("verify", "demo-bundle", "t/demo-weights")
        check(r.rc == 0 and r.out.count("ok ") == 2, r)
        # A bit that fell over in the weights, one in a file of the bundle.
        blob = (h.snapshot(WEIGHTS) / "model.safetensors").resolve()
        data = bytearray(blob.read_bytes())
        data[-1] ^= 1
        st = blob.stat()
        blob.write_bytes(data)
        os.utime(blob, ns=(st.st_atime_ns, st.st_mtime_ns))
        r = h.run("verify", "--weights")
        check(r.rc == 5 and "model.safetensors' is damaged" in r.err, r)
        r = h.run("verify", "--weights", "--repair")
        check(r.rc == 0 and "repaired" in r.err, r)
        check(h.run("verify", "--weights").rc == 0, r)
        readme = next((h.dir / "data/sluice/bundles").rglob("README.md"))
        readme.write_bytes(b"# DEMO\n")
        r = h.run("verify")
        check(r.rc == 5 and "was changed" in r.err, r)
        (readme.parent / "extra").write_bytes(b"")
        readme.write_bytes(b"# demo\n")
        r = h.run("verify", "--quick")
        check(r.rc == 5 and "2 files and the manifest lists 1" in r.err, r)
    HUB.add(Repo("t/foreign-x", {"serve_bundle.json":
                                 b'{"schema_version": 5.1, "name": "q", '
                                 b'"profiles": {"spec-decode": {}}}'}))
    with Home() as h:
        r = h.run("info", "t/foreign-x")
        check(r.rc == 0 and "served by            tt-model" in r.out, r)
        r = h.run("profiles", "t/foreign-x")
        check(r.rc == 0 and "spec-decode" in r.out, r)
        r = h.run("profiles", "t/demo-weights")
        check(r.rc == 4 and "is no bundle" in r.err, r)
        r = h.run("profiles", "bundles/qwen3.8-27b")
        check(r.rc == 0 and "splits prefill and decode" in r.out, r)


@test
def removed():
    """rm and gc take what is ours and nothing else needs."""
    w = HUB.add(Repo("t/rm-weights", demo_files()))
    bundle("t/rm-a", w, name="rm-a")
    bundle("t/rm-b", w, name="rm-b")
    model = lambda h: h.snapshot(w) / "model.safetensors"
    with Home() as h:
        for name in ("t/rm-a", "t/rm-b"):
            check(h.run("pull", name, "--with-weights").rc == 0, name)
        r = h.run("rm", "rm-a", "--weights")
        check(r.rc == 0 and "an installed bundle needs it" in r.err, r)
        check(model(h).exists() and "rm-a" not in h.run("list").out, r)
        r = h.run("rm", "rm-b", "--weights", "--dry-run")
        check(r.rc == 0 and SIZE + " would go" in r.err, r)
        check(model(h).exists() and h.run("verify", "rm-b").rc == 0, r)
        r = h.run("rm", "rm-b", "--weights")
        check(r.rc == 0 and SIZE + " freed" in r.err, r)
        check(not model(h).exists(), r)
        check("nothing was fetched" in h.run("list").out.replace("t/rm", ""),
              h.run("list"))
        check(h.run("rm", "rm-b").rc == 4, "it is gone")
        # Another revision with the same weights.
        check(h.run("pull", w.name).rc == 0, "pull")
        old = h.snapshot(w)
        w.change("config.json", w.files["config.json"] + b"\n")
        check(h.run("pull", w.name).rc == 0, "pull")
        r = h.run("gc", "--weights", "--older-than", "0")
        check(r.rc == 0 and "another revision uses it" in r.err, r)
        check(not old.exists() and model(h).exists(), r)
        r = h.run("rm", w.name)
        check(r.rc == 2 and "say --weights" in r.err, r)
        # Another program's file beside ours.
        (h.snapshot(w) / "theirs.txt").write_text("x")
        r = h.run("rm", w.name, "--weights")
        check(r.rc == 0 and "another program" in r.err and model(h).exists(),
              r)
        (h.snapshot(w) / "theirs.txt").unlink()
        r = h.run("rm", w.name, "--weights")
        check(r.rc == 0 and not model(h).exists(), r)
        # A download that nobody is at.
        half = h.dir / "data/sluice/partial"
        half.mkdir(exist_ok=True)
        # Its number is somebody's: of a container that ended, say.
        state = json.dumps({"pid": os.getpid()})
        (half / ("a" * 64 + ".json")).write_text(state)
        (half / ("a" * 64 + ".part")).write_bytes(b"x" * (1000 - len(state)))
        (half / ("b" * 64 + ".part")).write_bytes(b"x" * 500)
        (half / ("b" * 64 + ".json")).write_text('{"pid": 1}')
        held = open(half / ("b" * 64 + ".part"), "r+")
        fcntl.flock(held, fcntl.LOCK_EX)
        r = h.run("gc", "--dry-run")
        check(r.rc == 0 and "0 B would go" in r.err, r)
        # While something is fetched nothing is collected.
        lock = open(h.dir / "data/sluice/locks/store", "r+")
        fcntl.flock(lock, fcntl.LOCK_SH)
        r = h.run("gc", "--partials")
        check(r.rc == 8 and f"process {os.getpid()}" in r.err, r)
        lock.close()
        r = h.run("gc", "--partials", "--dry-run")
        check(r.rc == 0 and "1000 B would go" in r.err, r)
        r = h.run("gc", "--partials")
        check(r.rc == 0 and "1000 B freed" in r.err and
              sorted(p.name[0] for p in half.iterdir()) == ["b", "b"], r)
        held.close()


@test
def partials_beside_the_cache():
    """Where the cache is another disk, partial files lie there, and go."""
    w = HUB.add(Repo("t/other-disk", demo_files(), "stall"))
    script = """mount -t tmpfs none "$2/hf" || exit 9
"$1" pull t/other-disk &
until ls "$2"/hf/hub/models--*/.sluice/$3.part; do sleep 0.05; done
sleep 0.5; kill -9 $!; wait
"$1" gc; ls "$2"/hf/hub/models--*/.sluice/*.part || exit 8
"$1" gc --partials; ls "$2"/hf/hub/models--*/.sluice/*.part && exit 7
"$1" pull t/other-disk"""
    with Home() as h:
        (h.dir / "hf").mkdir()
        digest = sha256(w.files["model.safetensors"])
        r = in_namespace("-Urm", script, str(h.dir), digest,
                         env=HUB.env(h.dir))
        check(not r or r.returncode == 0 and "0 B freed" in r.stderr and
              not list(h.dir.rglob("data/sluice/partial/*")), r)


@test
def running_servers_keep_their_files():
    w = HUB.add(Repo("t/run-weights", demo_files()))
    b = bundle("t/running", w, name="running")
    with Home() as h:
        p = h.start("serve", "t/running", "--port", "0", "--threads", "2",
                    "--no-pin")
        for raw in p.stderr:
            if b"sluice: ready" in raw:
                break
        r = h.run("rm", "running")
        check(r.rc == 8 and f"process {p.pid}" in r.err, r)
        for i in range(3):
            m = json.loads(b.files["serve_bundle.json"])
            m["title"] = str(i)
            b.change("serve_bundle.json", json.dumps(m).encode())
            check(h.run("pull", "t/running").rc == 0, "pull")
        r = h.run("gc")
        gens = sorted(x.name[:5] for x in
                      (h.dir / "data/sluice/bundles/running").glob("gen-*/"))
        check(r.rc == 0 and gens == ["gen-1", "gen-3", "gen-4"], (r, gens))
        p.send_signal(signal.SIGTERM)
        check(p.wait(LIMIT_S) == 0, "drained")
        r = h.run("gc")
        gens = sorted(x.name[:5] for x in
                      (h.dir / "data/sluice/bundles/running").glob("gen-*/"))
        check(gens == ["gen-3", "gen-4"], (r, gens))


@test
def authored():
    """init, build, and what was built is pulled and answers."""
    with Home() as h:
        d = h.dir / "mine"
        r = h.run("init", str(d), "--model", "t/demo-weights")
        check(r.rc == 0, r)
        m = json.loads((d / "bundle.json").read_text())
        check(list(m["profiles"]) == ["plain", "spec-decode"] and
              m["weights"]["revision"] == "main" and
              m["model"]["context_length"] == 32768, m)
        r = h.run("init", str(d), "--model", "t/demo-weights")
        check(r.rc == 2 and "is there already" in r.err, r)
        (d / "README.md").write_text("# mine\n")
        (d / "logs").mkdir()
        (d / "logs/a.txt").write_text("1\n")
        (d / ".hidden").write_text("x")
        when = {"SOURCE_DATE_EPOCH": "1796083200"}
        r = h.run("build", str(d), **when)
        check(r.rc == 0 and r.out == f"{d}-built\n", r)
        out = pathlib.Path(r.out.strip())
        first = (out / "serve_bundle.json").read_bytes()
        m = json.loads(first)
        check(m["weights"]["revision"] == WEIGHTS.sha() and
              m["weights"]["files"] == listed(WEIGHTS.files), m)
        check([f["path"] for f in m["files"]] == ["README.md", "logs/a.txt"] and
              m["drafters"][0]["required_by"] == ["spec-decode"] and
              m["built"]["built_at"] == "2026-12-01T00:00:00Z", m)
        check(list(m)[:4] == ["schema_version", "kind", "name", "license"], m)
        check(str(h.dir).encode() not in first, "no path of this machine")
        # Another folder, written in another order: the same bytes.
        e = h.dir / "again"
        e.mkdir()
        for name in ("logs/a.txt", "README.md", "bundle.json"):
            (e / name).parent.mkdir(exist_ok=True)
            shutil.copy(d / name, e / name)
        r = h.run("build", str(e), "--out", str(h.dir / "o"), **when)
        check(r.rc == 0 and (h.dir / "o/serve_bundle.json").read_bytes() ==
              first, r)
        # It replaces an earlier result, and nothing else.
        check(h.run("build", str(d), **when).rc == 0, "again")
        (h.dir / "full").mkdir()
        r = h.run("build", str(d), "-o", str(h.dir / "full"))
        check(r.rc == 2 and "is no built bundle" in r.err, r)
        data = {str(f.relative_to(out)): f.read_bytes()
                for f in out.rglob("*") if f.is_file()}
        HUB.add(Repo("t/mine", data))
        r = h.run("run", "t/mine", *ASK)
        check(r.rc == 0 and r.out == WANT, r)
        # What the author got wrong is a bad command, with its path.
        m = json.loads((d / "bundle.json").read_text())
        m["profiles"]["plain"]["engine"] = {"max_model_lenn": 1}
        (d / "bundle.json").write_text(json.dumps(m))
        r = h.run("build", str(d))
        check(r.rc == 2 and "'profiles.plain.engine.max_model_lenn'" in r.err,
              r)
        (d / "bundle.json").write_text(
            json.dumps(json.loads(first) | {"files": None}))
        r = h.run("build", str(d), "--offline")
        check(r.rc == 2 and "'sluice build' alone" in r.err, r)


@test
def pushed():
    """build, push, pull: the same bundle; one commit; nobody's work is lost."""
    with Home() as h:
        d = h.dir / "mine"
        h.run("init", str(d), "--model", "t/demo-weights")
        (d / "README.md").write_text("# mine\n")
        (d / "log.txt").write_bytes(b"x" * (LFS_BYTES + 1))
        check(h.run("build", str(d)).rc == 0, "build")
        out = str(d) + "-built"
        r = h.run("push", out, "t/pushed")
        check(r.rc == 4 and "needs a token" in r.err, r)
        r = h.run("push", out, "t/pushed", HF_TOKEN="bad")
        check(r.rc == 4 and "may not write" in r.err, r)
        r = h.run("push", str(d), "t/pushed", HF_TOKEN="good")
        check(r.rc == 2 and "it was not built" in r.err, r)
        r = h.run("push", out, "t/pushed", "--dry-run", HF_TOKEN="good")
        check(r.rc == 0 and r.err.count("send ") == 3 and
              "t/pushed" not in HUB.repos, r)
        r = h.run("push", out, "t/pushed", HF_TOKEN="good")
        check(r.rc == 0, r)
        repo = HUB.repos["t/pushed"]
        first = repo.sha()
        check(r.out == first + "\n" and repo.kw["private"], r)
        check(set(repo.files) == {".gitattributes", "README.md", "log.txt",
                                  "serve_bundle.json"}, repo.files.keys())
        puts = [a for a in HUB.log if a[1] == "PUT"]
        check(len(puts) == 1, "one object, once")
        r = h.run("run", "t/pushed", *ASK)
        check(r.rc == 0 and r.out == WANT, r)
        # Again: nothing to do.
        r = h.run("push", out, "t/pushed", HF_TOKEN="good")
        check(r.rc == 0 and r.out == first + "\n" and
              "has all of it already" in r.err, r)
        # One file changes, one goes.
        (d / "README.md").write_text("# MINE\n")
        (d / "log.txt").unlink()
        check(h.run("build", str(d)).rc == 0, "build")
        r = h.run("push", out, "t/pushed", "--expect-parent", "9" * 40,
                  HF_TOKEN="good")
        check(r.rc == 8 and f"is at commit {first[:12]}" in r.err and
              repo.sha() == first, r)
        repo.fault = "moves"
        r = h.run("push", out, "t/pushed", HF_TOKEN="good")
        check(r.rc == 8 and "has moved" in r.err and
              repo.files["other.txt"] == b"theirs", r)
        r = h.run("push", out, "t/pushed", "--json", HF_TOKEN="good")
        j = json.loads(r.out)
        check((j["sent"], j["removed"]) == (2, 2) and
              repo.sha() == j["revision"] and
              repo.files["README.md"] == b"# MINE\n" and
              "log.txt" not in repo.files, (r, repo.files.keys()))
        check([a[2] for a in HUB.log if a[1] == "POST"].count(
            "/api/models/t/pushed/commit/main") == 3, "one commit each")
        # What is not as it was built, or has yet to be built.
        pathlib.Path(out, "README.md").write_text("# Mine\n")
        r = h.run("push", out, "t/pushed", HF_TOKEN="good")
        check(r.rc == 5 and "was changed" in r.err, r)
        check(not HUB.leaks, HUB.leaks)


@test
def instances():
    """serve --detach, ps, logs, stop: by name, and bounded."""
    with Home() as h:
        check("no server of yours" in h.run("ps").out, h.run("ps"))
        r = h.run("serve", "t/demo-bundle", "--detach", "--port", "0",
                  "--threads", "2", "--no-pin")
        check(r.rc == 0 and "'demo-bundle' is ready" in r.err, r)
        s, = json.loads(h.run("ps", "--json").out)["servers"]
        check((s["name"], s["state"], s["profile"], s["revision"]) ==
              ("demo-bundle", "ready", "spec-decode", BUNDLE.sha()), s)
        r = h.run("logs", "demo-bundle")
        check("sluice: ready" in r.out and
              f"weights t/demo-weights@{WEIGHTS.sha()}" in r.out, r)
        r = h.run("logs", "demo-bundle", "-n", "1")
        check(r.out.count("\n") == 1, r)
        # A name that is taken; a port that is taken fails, and says so.
        r = h.run("serve", "t/demo-bundle", "--detach", "--port",
                  str(s["port"]), "--threads", "2", "--no-pin")
        check(r.rc != 0 and f"port {s['port']} is taken" in r.err, r)
        r = h.run("stop", "other")
        check(r.rc == 4 and "no server 'other'" in r.err, r)
        follow = h.start("logs", "-f", "t/demo-bundle")
        r = h.run("stop", "t/demo-bundle")
        check(r.rc == 0 and "'demo-bundle' ended" in r.err, r)
        out, _ = follow.communicate(timeout=LIMIT_S)
        check(follow.returncode == 0, out)
        check("no server of yours" in h.run("ps").out, h.run("ps"))
        # A file of a process that is gone, or another one by now.
        stale = h.dir / "run/sluice/x.json"
        stale.write_text(json.dumps({"name": "x", "pid": os.getpid(),
                                     "began": 1}))
        check("no server of yours" in h.run("ps").out, "stale")
        check(not stale.exists() and h.run("stop", "x").rc == 4, "stale")
        check(h.run("stop").rc == 2 and h.run("stop", "--all").rc == 0, "all")
    # Where others may write, a file could name any process of ours.
    with Home() as h:
        (h.dir / "run/sluice").mkdir()
        (h.dir / "run/sluice").chmod(0o777)
        victim = subprocess.Popen(["sleep", "1000"])
        began = pathlib.Path(f"/proc/{victim.pid}/stat").read_text()
        (h.dir / "run/sluice/x.json").write_text(json.dumps(
            {"name": "x", "pid": victim.pid,
             "began": int(began.rsplit(")")[1].split()[19])}))
        r = h.run("stop", "--all")
        check(r.rc == 1 and "no folder of yours alone" in r.err, r)
        check(victim.poll() is None, "a stranger's word stopped a process")
        (h.dir / "run/sluice").chmod(0o700)
        check(h.run("stop", "--all").rc == 0 and victim.wait(LIMIT_S) == -15, "ours")


@test
def account():
    with Home() as h:
        r = Run("login", stdin="good\n", env=HUB.env(h.dir))
        check(r.rc == 0 and "token of 'tester'" in r.err, r)
        f = h.dir / "hf/token"
        check(f.read_text() == "good" and f.stat().st_mode & 0o777 == 0o600, r)
        r = Run("login", stdin="bad", env=HUB.env(h.dir))
        check(r.rc == 4 and "does not know this token" in r.err and
              f.read_text() == "good", r)
        r = h.run("search", "demo-b")
        check(r.rc == 0 and r.out.startswith("t/demo-bundle "), r)
        r = h.run("search", "no such thing")
        check(r.rc == 0 and r.out == "nothing was found\n", r)
        check(h.run("logout").rc == 0 and not f.exists(), "logout")


@test
def two_at_once():
    w = HUB.add(Repo("t/two-weights", demo_files(), pace=0.002))
    bundle("t/two", w, name="two")
    with Home() as h:
        both = [h.start("run", "t/two", *ASK) for _ in range(2)]
        for p in both:
            out, err = p.communicate(timeout=LIMIT_S)
            check(p.returncode == 0 and out.decode() == WANT, err)
        got = HUB.asked("t/two-weights", "storage")
        check(len(got) == len({r[2] for r in got}), "one download for both")


@test
def shipped_bundles():
    """Both, built against repositories of their names that hold the embedded
    model: spec-decode and plain answer, p4d4 is refused."""
    drafter = {f.name: f.read_bytes() for f in (DEMO / "drafter").iterdir()}
    flash = HUB.add(Repo("z-lab/Qwen3.8-27B-DFlash2", drafter))
    for name in ("qwen3.6-35b-a3b", "qwen3.8-27b"):
        m = json.loads(pathlib.Path("bundles", name, "bundle.json").read_text())
        w = HUB.add(Repo(m["weights"]["repo"], demo_files()))
        m["weights"]["revision"] = w.sha()
        m["model"]["architecture"] = "qwen3_5"
        for d in m["drafters"]:
            if "repo" in d:
                d["revision"] = flash.sha()
            elif "tensors" in d:
                d["tensors"].pop("count", 0)
        with Home() as h:
            (h.dir / "b").mkdir()
            (h.dir / "b/bundle.json").write_text(json.dumps(m))
            shutil.copy(pathlib.Path("bundles", name, "README.md"), h.dir / "b")
            r = h.run("build", str(h.dir / "b"))
            check(r.rc == 0, r)
            out = pathlib.Path(r.out.strip())
            HUB.add(Repo("example/" + name, {
                f.name: f.read_bytes() for f in out.iterdir()}))
            small = ("--max-model-len", "512", "--kv-pool-tokens", "2048",
                     "--force")
            r = h.run("run", "example/" + name, *ASK)
            check(r.rc in (0, 3), r)  # for want of cores, or 27B's memory
            for profile in ((), ("--profile", "plain")):
                r = h.run("run", "example/" + name, *ASK, *small, *profile)
                check(r.rc == 0 and r.out.strip(), r)
            check(name != "qwen3.8-27b" or h.snapshot(flash).exists(), r)
            r = h.run("run", "example/" + name, *ASK, *small, "--profile",
                      "p4d4")
            check(r.rc == 3 and "splits prefill and decode" in r.err, r)


@test
def two_servers_at_once():
    """One download, two servers."""
    w = HUB.add(Repo("t/twin-weights", demo_files(), pace=0.002))
    bundle("t/twin", w, name="twin")
    with Home() as h:
        # Both want port 8000, and the second takes the next one.
        both = [h.start("serve", "t/twin", "--threads", "1", "--no-pin")
                for _ in range(2)]
        ports = []
        for p in both:
            log = ""
            for raw in p.stderr:
                log += raw.decode()
                if "sluice: ready" in log:
                    break
            check("sluice: ready" in log, log)
            ports.append(int(log.split("127.0.0.1:")[1].split()[0]))
        check(len(set(ports)) == 2 and all(8000 <= n < 8032 for n in ports),
              ports)
        r = h.run("serve", "t/twin", "--port", str(ports[0]))
        check(r.rc == 8 and "taken by another program" in r.err, r)
        got = HUB.asked("t/twin-weights", "storage")
        check(len(got) == len({r[2] for r in got}), "one download for both")
        names = [s["name"] for s in
                 json.loads(h.run("ps", "--json").out)["servers"]]
        check(len(set(names)) == 2, names)
        for p in both:
            p.send_signal(signal.SIGTERM)
        for p in both:
            check(p.wait(LIMIT_S) == 0, "drained")


@test
def without_network_or_disk():
    """Once pulled: no interface at all, and then nothing that can be
    written."""
    data, want = gguf_of_demo()
    g = HUB.add(Repo("t/off-gguf", {"demo-Q8_0.gguf": data}))
    sh = {"network": 'exec "$@"',
          "read-only": 'mount --bind "$HOME" "$HOME" && mount -o '
                       'remount,ro,bind "$HOME" && exec "$@"'}
    for name, out in (("t/demo-bundle", WANT), (WEIGHTS.name, WANT),
                      (g.name, want)):
        with Home() as h:
            argv = ("--with-weights",) if "bundle" in name else ()
            check(h.run("pull", name, *argv).rc == 0, name)

            def offline(script, *more):
                return in_namespace("-Urmn", script, "run", name, *ASK, *more,
                                    env=HUB.env(h.dir))

            for how, script in sh.items():
                r = offline(script, "--offline")
                if not r:
                    return
                check(r.returncode == 0 and r.stdout == out, (how, name, r))
                # And asking for a newer one only says that it could not.
                r = offline(script)
                check(r.returncode == 0 and r.stdout == out and
                      "not checked for a newer" in r.stderr, (how, name, r))


def gguf_of_demo():
    with Home() as h:
        out = h.dir / "demo.gguf"
        r = h.run("convert", str(DEMO), str(out), "--dtype", "q8")
        check(r.rc == 0, r)
        return out.read_bytes(), Run("run", str(out), *ASK).out


def kill_once(h, target, rng, where, word):
    """Some time after it said the word, or after it was started."""
    p = h.start("run", target, *ASK)
    err = b""
    while word not in err:
        more = p.stderr.readline()
        if not more:
            break
        err += more
    time.sleep(rng.uniform(0.01, 0.5))
    p.kill()
    err += p.communicate()[1]
    at = "answer" if b"[prompt" in err else "convert" if b"loading" in err \
        else "download" if b"to fetch" in err else "start, verify"
    where[at] = where.get(at, 0) + 1


def kill_all_the_time(repo, target, want, rng):
    """Start, kill somewhere, start again: while it is fetched, then while what
    is here is verified anew, or packed. In the end it answers, nothing is
    damaged, and little was fetched twice."""
    total = sum(len(d) for d in repo.files.values())
    where, n_late = {}, max(KILLS * 2 // 5, 2)
    big = repo.name.encode() + b"@"  # the plan of the large files
    with Home() as h:
        start = HUB.served
        for k in range(KILLS):
            if k >= KILLS - n_late:
                r = h.run("run", target, *ASK)
                check(r.rc == 0 and r.out == want, r)
                shutil.rmtree(h.dir / "data/sluice/receipts" if k % 2 else
                              h.dir / ".cache/sluice")
            kill_once(h, target, rng, where,
                      b"" if k % 4 == 3 else b"loading" if
                      k >= KILLS - n_late and k % 2 == 0 else big)
            for blob in h.dir.rglob("blobs/*"):
                check(blob.stat().st_size in map(len, repo.files.values()) or
                      blob.stat().st_size < LFS_BYTES, blob)
        r = h.run("run", target, *ASK)
        check(r.rc == 0 and r.out == want, r)
        again = HUB.served - start - total
        check(again <= (KILLS + 1) << 20, (again, where))
        for blob in h.dir.rglob("blobs/*"):
            data = blob.read_bytes()
            check(blob.name in (sha256(data), git_sha1(data)), blob)
        check(not list(h.dir.rglob("*.part")), list(h.dir.rglob("*.part")))
    if FULL:
        print(f"{target}: killed {KILLS} times in {where}; {total >> 20} MiB, "
              f"{max(again, 0) / KILLS / 2**10:.0f} KiB a kill fetched again")


@test
def killed_at_random():
    """A bundle, a checkpoint and a GGUF file, with a large file beside."""
    seed = int(os.environ.get("SEED", "7"))
    rng = random.Random(seed)
    beside = b"".join(rng.randbytes(1 << 20)
                      for _ in range(256 if FULL else 3))
    pace = 0.0014 if FULL else 0.004
    files = dict(demo_files(), **{"extra/more.json": b"{}",
                                  "notes.txt": beside})
    w = HUB.add(Repo("t/killed-weights", files, pace=pace))
    bundle("t/killed", w, name="killed")
    kill_all_the_time(w, "t/killed", WANT, rng)
    plain = {k: v for k, v in files.items() if "/" not in k}
    w = HUB.add(Repo("t/killed-plain", plain, pace=pace))
    kill_all_the_time(w, w.name, WANT, rng)
    data, want = gguf_of_demo()
    # The reader lets be what lies behind the last tensor.
    w = HUB.add(Repo("t/killed-gguf", {"demo-Q8_0.gguf": data + beside},
                     pace=pace))
    kill_all_the_time(w, w.name, want, rng)


if __name__ == "__main__":
    done()
