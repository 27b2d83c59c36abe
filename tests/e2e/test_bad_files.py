#!/usr/bin/env python3
"""Checkpoints that are broken: one clear line, the right exit code, nothing
left behind."""
import json
import os
import pathlib
import shutil
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
import checkpoint  # noqa: E402
from e2e import Run, check, done, test  # noqa: E402

TMP = tempfile.TemporaryDirectory()
GOOD = checkpoint.make(os.path.join(TMP.name, "good"))
TENSORS = checkpoint.weights(checkpoint.CONFIG)
count = 0


def copy():
    """A fresh copy of the good folder."""
    global count
    count += 1
    d = os.path.join(TMP.name, f"copy{count}")
    shutil.copytree(GOOD, d)
    return pathlib.Path(d)


def refused(d, rc, *words):
    before = sorted(os.listdir(d))
    r = Run("run", str(d), "x", "--raw", "--max-tokens", "1")
    lines = r.err.splitlines()
    errors = [s for s in lines if s.startswith("sluice: ")]
    check(r.rc == rc and r.out == "" and len(errors) == 1 and
          lines[-1] == errors[0] and all(w in errors[0] for w in words), r)
    check(sorted(os.listdir(d)) == before, "something was left behind")


def with_header(change, tensors=None):
    d = copy()
    checkpoint.write_safetensors(d / "model.safetensors",
                                 tensors or TENSORS, change)
    return d


@test
def good_one():
    r = Run("run", GOOD, "x", "--raw", "--max-tokens", "1")
    check(r.rc == 0, r)


@test
def truncated():
    size = os.path.getsize(os.path.join(GOOD, "model.safetensors"))
    for n in (0, 1, 7, 8, 100, size // 2, size - 1):
        d = copy()
        os.truncate(d / "model.safetensors", n)
        refused(d, 5, "model.safetensors")


@test
def too_long():
    d = copy()
    with open(d / "model.safetensors", "ab") as f:
        f.write(b"\0" * 8)
    refused(d, 5, "model.safetensors")


@test
def huge_header():
    for n in (2**63, 2**64 - 1, 2**63 - 1, 10**12):
        d = copy()
        with open(d / "model.safetensors", "r+b") as f:
            f.write(struct.pack("<Q", n))
        refused(d, 5, "header")


@test
def overlapping_offsets():
    def change(head):
        a, b = list(head)[:2]
        n = head[b]["data_offsets"][1] - head[b]["data_offsets"][0]
        head[b]["data_offsets"] = [0, n]
        check(head[a]["data_offsets"][0] == 0)
    refused(with_header(change), 5, "model.safetensors")


@test
def offsets_outside():
    def beyond(head):
        name = list(head)[-1]
        a, b = head[name]["data_offsets"]
        head[name]["data_offsets"] = [a + 2**40, b + 2**40]
    refused(with_header(beyond), 5)

    def backwards(head):
        name = list(head)[3]
        head[name]["data_offsets"].reverse()
    refused(with_header(backwards), 5)

    def negative(head):
        head[list(head)[0]]["data_offsets"][0] = -8
    refused(with_header(negative), 5)


@test
def nan_and_infinity():
    for bits in (b"\xc0\x7f", b"\x80\x7f", b"\x80\xff"):
        name = "model.layers.2.mlp.up_proj.weight"
        shape, data = TENSORS[name]
        tensors = dict(TENSORS)
        tensors[name] = (shape, data[:10] + bits + data[12:])
        refused(with_header(None, tensors), 5, name)


@test
def missing_extra_misshapen_are_one_error():
    tensors = dict(TENSORS)
    del tensors["model.norm.weight"]
    del tensors["model.layers.1.linear_attn.A_log"]
    shape, data = tensors["model.layers.0.mlp.up_proj.weight"]
    tensors["model.layers.0.mlp.up_proj.weight"] = (shape[::-1], data)
    tensors["model.layers.9.surprise.weight"] = ([2], b"\0" * 4)
    refused(with_header(None, tensors), 5, "model.norm.weight", "A_log",
            "up_proj.weight", "surprise")


@test
def header_that_is_no_json():
    d = copy()
    with open(d / "model.safetensors", "r+b") as f:
        f.seek(8)
        f.write(b"]]]]")
    refused(d, 5, "JSON")


@test
def unknown_type():
    def change(head):
        head[list(head)[0]]["dtype"] = "Q4_Q"
    refused(with_header(change), 5, "Q4_Q")


@test
def missing_shard():
    d = copy()
    os.rename(d / "model.safetensors", d / "part-1.safetensors")
    names = {n: "part-1.safetensors" for n in TENSORS}
    index = d / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    check(Run("run", str(d), "x", "--raw", "--max-tokens", "1").rc == 0)
    names["model.norm.weight"] = "part-2.safetensors"
    index.write_text(json.dumps({"weight_map": names}))
    refused(d, 4, "part-2.safetensors")
    names["model.norm.weight"] = "../part-1.safetensors"
    index.write_text(json.dumps({"weight_map": names}))
    refused(d, 5, "../part-1.safetensors")


@test
def configs():
    for rc, word, change in (
            (5, "num_attention_heads", {"num_attention_heads": 0}),
            (3, "LlamaForCausalLM", {"architectures": ["LlamaForCausalLM"]}),
            (5, "hidden_size", {"hidden_size": 2**40}),
            (3, "yarn", {"rope_parameters": {"rope_type": "yarn",
                                             "rope_theta": 1e4}})):
        d = copy()
        (d / "config.json").write_text(json.dumps(
            dict(checkpoint.CONFIG, **change)))
        refused(d, rc, word)


@test
def no_tokenizer():
    d = copy()
    os.remove(d / "tokenizer.json")
    refused(d, 4, "tokenizer.json")


@test
def broken_tokenizer():
    for rc, text in ((5, ""), (5, "{"), (5, "[]"), (5, '{"model":{}}')):
        d = copy()
        (d / "tokenizer.json").write_text(text)
        refused(d, rc, "tokenizer")
    d = copy()
    j = json.loads((d / "tokenizer.json").read_text())
    j["model"]["type"] = "Unigram"
    (d / "tokenizer.json").write_text(json.dumps(j))
    refused(d, 3, "Unigram")


@test
def folders():
    d = pathlib.Path(TMP.name, "empty")
    d.mkdir()
    refused(d, 4, "config.json")
    d = copy()
    os.remove(d / "model.safetensors")
    refused(d, 4, "safetensors")


done()
