#!/usr/bin/env python3
"""GGUF files of others: what they say is kept, and what contradicts itself, is
of a type without arithmetic or means harm is one line."""
import json
import os
import pathlib
import random
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from e2e import Run, check, done, test  # noqa: E402
from gguf import ARR, BOOL, F32, STR, Gguf, array, text  # noqa: E402

DEMO, MOE = "models/demo", "models/demo-moe"
SMALL = "tests/golden/models/dense-r1"
folder = tempfile.TemporaryDirectory()
D = folder.name
ASK = ["What is 3 + 4?", "--temp", "0", "-n", "12", "--threads", "1",
       "--no-pin", "--weights", "copy"]


def convert(src, dst, *more):
    r = Run("convert", src, dst, "--threads", "1", *more)
    check(r.rc == 0, r)
    return dst


def one_line(path, rc, *words):
    """Refused by every verb that opens it, in the words of its own format."""
    r = Run("info", path)
    check(r.refused(rc, *words), r)
    check("config.json" not in r.err and ".jinja" not in r.err, r)


demo = convert(DEMO, f"{D}/demo.gguf")
small = convert(SMALL, f"{D}/small.gguf")


@test
def types_of_files():
    """Every type there is arithmetic for goes through GGUF byte by byte."""
    rng, name = random.Random(5), "blk.0.ffn_up.weight"
    for label, tid, block, size, scales in (
            ("q8_0", 8, 32, 34, [0]), ("q4_k", 12, 256, 144, [0, 2]),
            ("q5_k", 13, 256, 176, [0, 2]), ("q6_k", 14, 256, 210, [208]),
            ("q4_0", 2, 32, 18, [0]), ("q5_0", 6, 32, 22, [0]),
            ("iq4_nl", 20, 32, 18, [0]), ("q3_k", 11, 256, 110, [108]),
            ("mxfp4", 39, 32, 17, []), ("q4_1", 3, 32, 20, [0, 2]),
            ("q5_1", 7, 32, 24, [0, 2]), ("q2_k", 10, 256, 84, [80, 82]),
            ("iq4_xs", 23, 256, 136, [0])):
        g = Gguf(demo)
        t = g.tensor(name)
        t.retype(tid, block, size, scales, rng)
        if label == "mxfp4":  # its exponents
            b = bytearray(t.data)
            b[::size] = bytes(rng.randrange(100, 120)
                              for _ in range(len(b) // size))
            t.data = bytes(b)
        path = g.save(f"{D}/{label}.gguf")
        types = json.loads(Run("info", path, "--json").out)["types"]
        check(label in types, (label, types))
        back = Gguf(convert(path, f"{D}/back.gguf")).tensor(name)
        check(back.type == tid and back.data == t.data, label)
    g = Gguf(demo)
    g.tensor(name).retype(1, 1, 2, [0], rng)
    types = json.loads(Run("info", g.save(f"{D}/f16.gguf"), "--json").out)["types"]
    check(types == ["bf16", "f16"], types)


@test
def types_without_arithmetic():
    g = Gguf(demo)
    rng = random.Random(1)
    g.tensor("blk.0.ffn_up.weight").retype(18, 256, 98, [0], rng)
    g.tensor("blk.1.ffn_up.weight").retype(18, 256, 98, [0], rng)
    g.tensor("blk.0.ffn_gate.weight").retype(22, 256, 82, [0], rng)
    g.tensor("blk.4.nextn.eh_proj.weight").retype(40, 64, 36, [], rng)
    path = g.save(f"{D}/t.gguf")
    words = ["their tensors (3):", "IQ3_XXS (blk.0.ffn_up.weight)",
             "IQ2_S (blk.0.ffn_gate.weight)", "Q4_K", "MXFP4"]
    one_line(path, 3, *words)
    r = Run("run", path, "x")
    check(r.refused(3, *words) and "mtp_off" not in r.err and
          r.err.count("IQ3_XXS") == 1, r)
    check(Run("convert", path, f"{D}/x.sluice", "--dtype", "q8").rc == 3)
    # Of the head that drafts alone: it is left out, and that is said.
    g = Gguf(demo)
    g.tensor("blk.4.nextn.eh_proj.weight").retype(40, 64, 36, [], rng)
    r = Run("info", g.save(f"{D}/t.gguf"), "--json")
    check(r.rc == 0 and not json.loads(r.out)["mtp"] and
          "event=mtp_off missing=0 misshapen=0 unsupported=1" in r.err, r)


@test
def blocks_and_counts():
    """A layer is never lost for a number that is wrong."""
    few = Gguf(demo)
    few.u32("qwen35.block_count", 2)
    del few.kv["qwen35.nextn_predict_layers"]
    one_line(few.save(f"{D}/few.gguf"), 5, "'blk.2.", "block_count")
    drop = Gguf(demo)
    drop.u32("qwen35.block_count", 4)
    drop.tensors = [t for t in drop.tensors if not t.name.startswith("blk.4.")]
    one_line(drop.save(f"{D}/drop.gguf"), 5, "'blk.3.", "nextn_predict_layers")
    del drop.kv["qwen35.nextn_predict_layers"]  # now it is what it says
    r = Run("info", drop.save(f"{D}/drop.gguf"), "--json")
    check(r.rc == 0 and json.loads(r.out)["layers"] == 4, r)
    drop.u32("qwen35.block_count", 5)
    drop.tensors[-1].name = "blk.3.nextn.enorm.weight"
    one_line(drop.save(f"{D}/drop.gguf"), 5, "'blk.3.nextn.enorm.weight'",
             "a layer of the model")


@test
def what_a_file_says_is_kept():
    g = Gguf(demo)
    g.kv["general.name"] = STR, text("Nice")
    g.kv["general.tags"] = ARR, struct.pack("<IQ", STR, 2) + text("a") + text("")
    g.kv["general.license"] = STR, text("apache-2.0")
    g.kv["tokenizer.ggml.seperator_token_id"] = 5, struct.pack("<i", -1)
    g.kv["qwen35.rope.scaling.type"] = STR, text("none")
    for key in ("general.sampling.top_p", "general.sampling.min_p",
                "general.sampling.penalty_repeat", "general.type",
                "tokenizer.ggml.add_bos_token"):
        g.kv.pop(key, None)
    g.u32("tokenizer.ggml.eot_token_id", 300)
    a = g.save(f"{D}/a.gguf")
    for via in (a, convert(a, f"{D}/a.sluice")):
        b = Gguf(convert(via, f"{D}/b.gguf"))
        new = set() if via == a else {"general.type",
                                      "tokenizer.ggml.add_bos_token"}
        check(b.kv.keys() == g.kv.keys() | new, b.kv.keys() ^ g.kv.keys())
        for key, value in g.kv.items():
            check(b.kv[key] == value, (via, key, b.kv[key][1][:40]))
    ends = json.loads(Run("info", f"{D}/b.gguf", "--json").out)["end_tokens"]
    check(300 in ends, ends)


@test
def end_tokens_are_kept():
    """Of a folder, however many there are."""
    had = json.loads(Run("info", DEMO, "--json").out)["end_tokens"]
    for ids in ([*had, 300], [*had, 300, 301, 302], [300], [301, 300]):
        src = pathlib.Path(D, "m")
        src.mkdir(exist_ok=True)
        for f in pathlib.Path(DEMO).iterdir():
            if f.is_file() and not (src / f.name).exists():
                (src / f.name).symlink_to(f.resolve())
        (src / "generation_config.json").unlink()
        (src / "generation_config.json").write_text(
            json.dumps({"eos_token_id": ids}))
        a = convert(str(src), f"{D}/a.gguf")
        for path in (a, convert(a, f"{D}/b.gguf")):
            got = json.loads(Run("info", path, "--json").out)["end_tokens"]
            check(sorted(got) == sorted(ids), (ids, got))
        keys = Gguf(a).kv
        check("tokenizer.ggml.eot_token_id" in keys, ids)
        check(("sluice.tokenizer.end_ids" in keys) ==
              (ids != [*had, 300]), (ids, keys.keys()))
        check(not any(k.startswith("general.sampling") for k in keys), keys)


@test
def which_layers_are_linear():
    """The list of layers goes first; what contradicts it is refused."""
    recurrent = "qwen35.attention.recurrent_layers"
    step, heads = "qwen35.full_attention_interval", "qwen35.attention.head_count_kv"

    def kinds(**keys):
        g = Gguf(small)
        for key, value in keys.items():
            key = {"recurrent": recurrent, "step": step, "heads": heads}[key]
            if value is None:
                del g.kv[key]
            elif isinstance(value, int):
                g.u32(key, value)
            else:
                g.kv[key] = ARR, value
        return g.save(f"{D}/k.gguf")

    yes = array(BOOL, [True, True, True, False])
    for path in (kinds(recurrent=yes), kinds(recurrent=yes, step=None),
                 kinds(heads=array(5, [0, 0, 0, 1]), step=None),
                 kinds(heads=array(4, [1, 1, 1, 1]))):
        r = Run("info", path, "--json")
        check(r.rc == 0 and json.loads(r.out)["full_attention_layers"] == 1, r)
    other = array(BOOL, [True, False, True, False])
    one_line(kinds(recurrent=other), 5, "layer 1", "use another file")
    one_line(kinds(recurrent=array(BOOL, [True, True]), step=None), 5,
             "has 2 entries", "4 layers")
    one_line(kinds(heads=array(5, [-2, 0, 0, 1])), 5, "-2 for layer 0")
    one_line(kinds(heads=array(5, [0, 0, 0, 0])), 5, "layer 3")
    one_line(kinds(heads=array(5, [1, 0, 0, 2]), step=None), 3, "differs")
    # By the list alone the second layer is a full one: its tensors are wrong.
    one_line(kinds(recurrent=other, step=None), 5, "blk.1.attn_q.weight")


@test
def terminals_are_safe():
    for change in ("key", "name", "value"):
        g = Gguf(small)
        if change == "key":
            g.u32("x\x1b[31m", 1)
        elif change == "name":
            g.tensors[3].name = "blk.0\nsluice: fine"
        else:
            g.kv["general.architecture"] = STR, text(b"a\nb\x1b[31m\xff\xc2\x9b")
        r = Run("info", g.save(f"{D}/c.gguf"))
        check(r.refused(3 if change == "value" else 5,
                        "a\\x0ab\\x1b[31m\\xff\\xc2\\x9b" if change == "value"
                        else "control characters"), r)
        check(not any(ord(c) < 32 and c != "\n" for c in r.err), r)


@test
def one_expert():
    g = Gguf(convert(MOE, f"{D}/moe.gguf"))
    n, = struct.unpack("<I", g.kv["qwen35moe.expert_count"][1])
    g.u32("qwen35moe.expert_count", 1)
    g.u32("qwen35moe.expert_used_count", 1)
    for t in g.tensors:
        if "_exps" in t.name or t.name.endswith("ffn_gate_inp.weight"):
            t.data = t.data[:len(t.data) // n]
            t.dims = t.dims[:-1] + [1]
    a = g.save(f"{D}/one.gguf")
    b = convert(a, f"{D}/b.gguf")
    check(all(x.dims == y.dims for x, y in zip(g.tensors, Gguf(b).tensors)))
    for t in g.tensors:  # as a writer leaves them that drops what is 1
        if "_exps" in t.name:
            t.dims = t.dims[:2]
    c = g.save(f"{D}/c.gguf")
    out = {Run("run", x, *ASK).raw for x in (a, b, c)}
    check(len(out) == 1 and out != {b""}, out)


@test
def numbers_at_the_edge():
    g = Gguf(small)
    g.u32("qwen35.rope.dimension_count", 16)  # all of a head
    eps = "qwen35.attention.layer_norm_rms_epsilon"
    g.kv[eps] = F32, struct.pack("<f", 0.1)
    a = g.save(f"{D}/a.gguf")
    for path in (a, convert(a, f"{D}/b.gguf")):
        r = Run("info", path, "--json")
        check(r.rc == 0 and json.loads(r.out)["rotary_dim"] == 16, r)
    check(Gguf(f"{D}/b.gguf").kv[eps] == g.kv[eps], "eps")
    g.kv[eps] = F32, struct.pack("<f", 0.10001)
    one_line(g.save(f"{D}/a.gguf"), 5, eps, "from 0 to 0.1")


@test
def a_name_that_the_count_contradicts():
    g = Gguf(small)
    g.kv["split.no"] = 2, struct.pack("<H", 0)
    g.kv["split.count"] = 2, struct.pack("<H", 3)
    one_line(g.save(f"{D}/y-00001-of-00002.gguf"), 5, "split.count", "of 3",
             "says of 2")


@test
def words_of_the_format():
    """No message about a GGUF file speaks of the files of a folder."""
    for key, v, words in (
            ("embedding_length", 1 << 20, "embedding_length is 1048576"),
            ("context_length", 0, "context_length is 0"),
            ("ssm.state_size", 24, "ssm.state_size is 24"),
            ("ssm.conv_kernel", 3, "ssm.conv_kernel is 3"),
            ("ssm.group_count", 3, "a multiple of ssm.group_count"),
            ("attention.head_count", 0, "attention.head_count is 0"),
            ("attention.head_count_kv", 3, "attention.head_count_kv, which"),
            ("attention.key_length", 17, "key_length"),
            ("rope.dimension_count", 18, "rope.dimension_count"),
            ("rope.dimension_count", 3, "rope.dimension_count"),
            ("full_attention_interval", 0, "full_attention_interval is 0"),
            ("block_count", 2000, "block_count less")):
        g = Gguf(small)
        g.u32(f"qwen35.{key}", v)
        if key == "attention.key_length":
            g.u32("qwen35.attention.value_length", v)
        r = Run("info", g.save(f"{D}/w.gguf"))
        check(r.rc in (3, 5) and r.refused(r.rc, words), (key, r))
        check(".json" not in r.err and "'" + D in r.err, r)
    g = Gguf(demo)
    g.kv["tokenizer.chat_template"] = STR, text("a\n{% if %}")
    r = Run("run", g.save(f"{D}/w.gguf"), "x", "-n", "1", "--weights", "copy")
    check(r.rc and "tokenizer.chat_template" in r.err and
          "jinja" not in r.err.replace("Jinja", ""), r)
    del g.kv["tokenizer.chat_template"]
    r = Run("run", g.save(f"{D}/w.gguf"), "x", "-n", "1", "--weights", "copy",
            "--tools", "/dev/null")
    check(".jinja" not in r.err and ".json" not in r.err, r)


@test
def tensors_of_files():
    """What a GGUF lacks, has besides, or has in another shape is one error."""
    for change, words in (
            ("name", ("1 missing: blk.0.ffn_up.weight;",
                      "1 unknown: blk.0.ffn_up.xeight;")),
            ("dims", ("blk.0.ffn_up.weight is [256, 512] and must be "
                      "[512, 256]", "fetch the file again"))):
        g = Gguf(demo)
        t = g.tensor("blk.0.ffn_up.weight")
        if change == "name":
            t.name = "blk.0.ffn_up.xeight"
        else:
            t.dims.reverse()
        path = g.save(f"{D}/b.gguf")
        check(Run("run", path, "x").refused(5, *words))
        one_line(path, 5, *words)


done()
