#!/usr/bin/env python3
"""sluice info and tokenize: published shapes, bad folders, bad words."""
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from e2e import Run, check, done, test  # noqa: E402

SMALL = "tests/golden/tokenizer-small"

# Published dimensions; the last two are the numbers of parameters of the text
# body with embedding and head, and of the MTP head, as published.
DENSE = {
    "0.8B": (1024, 3584, 24, 8, 2, 16, True, 498113344 + 254279680, 20452864),
    "2B": (2048, 6144, 24, 8, 2, 16, True, 1373265728 + 508559360, 60828160),
    "4B": (2560, 9216, 32, 16, 4, 32, True, 3570052096 + 635699200, 120599552),
    "9B": (4096, 12288, 32, 16, 4, 32, False, 6919565824 + 2034237440,
           243290624),
    "27B": (5120, 17408, 64, 24, 4, 48, False, 24353201664 + 2542796800,
            424699392),
}
MOE_35B = 33643491968 + 1017118720 + 844640768


def text_config(hidden, layers, heads, kv_heads, values):
    return {
        "vocab_size": 248320, "hidden_size": hidden, "hidden_act": "silu",
        "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": 256,
        "attention_bias": False, "attn_output_gate": True,
        "rms_norm_eps": 1e-6, "max_position_embeddings": 262144,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) *
        (layers // 4), "full_attention_interval": 4,
        "linear_num_key_heads": 16, "linear_num_value_heads": values,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000000,
            "partial_rotary_factor": 0.25, "mrope_interleaved": True,
            "mrope_section": [11, 11, 10]},
        "eos_token_id": 248044, "dtype": "bfloat16",
    }


def published(name):
    hidden, ffn, layers, heads, kv, values, tied, _, _ = DENSE[name]
    t = text_config(hidden, layers, heads, kv, values)
    t.update(model_type="qwen3_5_text", intermediate_size=ffn)
    return {"architectures": ["Qwen3_5ForConditionalGeneration"],
            "model_type": "qwen3_5", "text_config": t,
            "tie_word_embeddings": tied, "image_token_id": 248056,
            "vision_config": {"depth": 24, "hidden_size": 1024},
            "transformers_version": "4.57.0.dev0"}


def published_moe():
    t = text_config(2048, 40, 16, 2, 32)
    t.update(model_type="qwen3_5_moe_text", num_experts=256,
             num_experts_per_tok=8, moe_intermediate_size=512,
             shared_expert_intermediate_size=512, output_gate_type="swish",
             mlp_only_layers=[], router_aux_loss_coef=0.001)
    return {"architectures": ["Qwen3_5MoeForConditionalGeneration"],
            "model_type": "qwen3_5_moe", "text_config": t,
            "tie_word_embeddings": False}


def info(config, *more, text=None):
    with tempfile.TemporaryDirectory() as d:
        data = json.dumps(config) if text is None else text
        pathlib.Path(d, "config.json").write_text(data)
        return Run("info", d, *more)


@test
def published_dense():
    for name, row in DENSE.items():
        r = info(published(name), "--json")
        check(r.rc == 0, r)
        j = json.loads(r.out)
        check(j["parameters"] == row[-2] + row[-1], f"{name}: {j}")
        check(not j["weights_found"] and j["mtp"], j)


@test
def published_35b():
    r = info(published_moe(), "--json")
    j = json.loads(r.out)
    check(j["parameters"] == MOE_35B, j)
    # 2.946 G weights of two bytes and the small fp32 ones, per token.
    check(5.89e9 < j["weight_bytes_per_token"] < 5.95e9, j)


@test
def sizes_of_27b():
    j = json.loads(info(published("27B"), "--json").out)
    check(j["kv_bytes_per_token"] == {
        "bf16": 65536, "fp32": 131072, "bfp8": 34816}, j)
    # 48 layers of 48 heads of 128 x 128, and three conv inputs, fp32.
    check(j["state_bytes_per_sequence"] ==
          48 * 4 * (48 * 128 * 128 + 3 * (2 * 16 * 128 + 48 * 128)), j)


@test
def for_people():
    r = info(published("0.8B"))
    check(r.rc == 0 and "24 (18 linear attention, 6 full attention)" in r.out,
          r)
    check("bf16 (no weight files here)" in r.out and r.err == "", r)


@test
def config_path_and_variable():
    with tempfile.TemporaryDirectory() as d:
        p = pathlib.Path(d, "config.json")
        p.write_text(json.dumps(published("0.8B")))
        check(Run("info", str(p)).rc == 0)
        check(Run("info", "--model", d).rc == 0)
        check(Run("info", env={"SLUICE_MODEL": d}).rc == 0)


def broken(**changes):
    c = published("0.8B")
    c["text_config"].update(changes)
    return c


@test
def bad_configs():
    for rc, word, r in (
            (5, "num_attention_heads", info(broken(num_attention_heads=0))),
            (5, "num_hidden_layers", info(broken(num_hidden_layers=-3))),
            (5, "hidden_size", info(broken(hidden_size="big"))),
            (5, "rope_theta", info(broken(rope_parameters={}))),
            (3, "attention_bias", info(broken(attention_bias=True))),
            (5, "not valid JSON", info(None, text="{")),
            (5, "JSON", info(None, text="")),
            (5, "nests deeper", info(None, text="[" * 100000)),
            (5, "not a JSON object", info(None, text="[1]"))):
        check(r.refused(rc, word), r)


@test
def unknown_architecture():
    c = published("0.8B")
    c["architectures"] = ["LlamaForCausalLM"]
    check(info(c).refused(3, "LlamaForCausalLM"), info(c))
    c = published("0.8B")
    c["model_type"] = c["text_config"]["model_type"] = "qwen3_8_flash"
    check(info(c).refused(3, "qwen3_8_flash"), info(c))


@test
def bad_names():
    check(Run("info", "nowhere").refused(4, "no folder 'nowhere'"))
    check(Run("info", "ORG/NAME", "--offline").refused(7, "ORG/NAME", "offline"))
    check(Run("info", "README.md").refused(2, "is a file"))
    check(Run("info", "/dev/null").refused(2, "neither a folder nor a file"))
    check(Run("info", "").refused(2, "no model is named"))
    check(Run("info").refused(2, "no model is named"))
    check(Run("info", SMALL, "x").refused(2, "'x' is one argument too many"))
    check(Run("info", SMALL).refused(4, "config.json"), Run("info", SMALL))
    with tempfile.NamedTemporaryFile(suffix=".gguf") as f:
        check(Run("info", f.name).refused(5, "GGUF"))
    r = Run("info", "a" * 5000)
    check(r.refused(4, "no folder"), r)


# ------------------------------------------------------------- tokenize

@test
def tokens_of_the_vectors():
    lines = pathlib.Path(SMALL, "vectors.tsv").read_text().splitlines()
    for line in lines[::40]:
        text, ids = line.split("\t")
        text = bytes.fromhex(text)
        want = [int(i) for i in ids.replace(",", " ").split()]
        r = Run("tokenize", SMALL, "-", "--json", stdin=text)
        check(r.rc == 0 and json.loads(r.out)["ids"] == want, r)
        n = Run("tokenize", SMALL, "--count", stdin=text).out
        check(int(n) == len(want), n)


@test
def tokens_in_lines():
    r = Run("tokenize", SMALL, 'say "hi"')
    rows = [s.split("\t") for s in r.out.splitlines()]
    check("".join(json.loads(p) for _, p in rows) == 'say "hi"', r)


@test
def special_tokens():
    one = json.loads(Run("tokenize", SMALL, "<|im_end|>", "--json").out)
    many = json.loads(Run("tokenize", SMALL, "<|im_end|>", "--json",
                          "--no-special").out)
    check(one["count"] == 1 and many["count"] > 1, (one, many))
    check("".join(many["pieces"]) == "<|im_end|>", many)


@test
def empty_text():
    check(json.loads(Run("tokenize", SMALL, "", "--json").out)["ids"] == [])


@test
def tokenize_refusals():
    r = Run("tokenize", SMALL, stdin=b"ab\xff")
    check(r.refused(2, "not valid UTF-8", "offset 2"), r)
    r = Run("tokenize", "tests/golden", "x")
    check(r.refused(4, "tokenizer.json"), r)
    r = Run("tokenize", SMALL, "two", "words")
    check(r.refused(2, "quote a text"), r)


done()
