#!/usr/bin/env python3
"""Random small checkpoints and the logits of the reference for them.

    python3 make_models.py [--out DIR] [--only NAME,...] [--check]

Each entry of SPECS becomes a folder models/NAME with config.json and
safetensors, and a file vectors/NAME.gold with what the reference library
(transformers, classes of qwen3_5 and qwen3_5_moe) computes from exactly the
stored values: fp32, eager attention, plain torch gated delta rule, CPU, one
thread. README.md has the table of the .gold format and of the models.

The weights come from numpy's PCG64, so they do not depend on the version of
torch. A checkpoint is written by this script, then loaded back by the
reference's own from_pretrained with no missing and no unexpected tensor but
mtp.* (and vision) ones: the names are therefore the reference's.

The MTP head exists in the reference only as ignored names. Its forward is
assembled here from the reference's decoder layer, norms and rotary embedding:
fc(concat(norm_e(embed(next)), norm_h(h))), one full-attention layer with its
own cache, norm, target head; row i has position i, h is the target's hidden
state after the final norm, and a chained row uses the head's own output after
its norm.

Near ties would turn rounding into a different expert or a different greedy
token. A spec is drawn again with the next seed until the smallest gap between
the last chosen and the first dropped expert is above MIN_ROUTE, and that
between the two best tokens of a greedy step above MIN_GAP, and until prefill
and stepping in the reference differ by less than MAX_DRIFT.
"""

import argparse
import copy
import datetime
import hashlib
import json
import os
import shutil
import struct
import sys

import numpy as np
import torch
import safetensors
import transformers
from safetensors.torch import load_file, save_file
from transformers.cache_utils import DynamicCache
from transformers.models.qwen3_5 import configuration_qwen3_5 as dense_conf
from transformers.models.qwen3_5 import modeling_qwen3_5 as dense
from transformers.models.qwen3_5_moe import (
    configuration_qwen3_5_moe as moe_conf)
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as moe

MAGIC = b"SLGOLD1\n"
LOGITS, DECODE, RESIDUAL, HIDDEN, MTP, MTP_PRIME = 1, 2, 3, 4, 5, 6

N_DECODE = 8        # greedy steps recorded after a prompt
MTP_DEPTH = 3       # chained rows of the MTP head
# Gaps of two logits in units of the row's largest. fp32 rounding is below
# 1e-5; the comparison of logits allows 2e-4.
MIN_GAP = 1e-3
MIN_ROUTE = 1e-4

# How far the reference's chunked prefill may be from its own stepping: a
# tenth of what the comparison allows.
MAX_DRIFT = 2e-5
SHORT = 17          # prompts up to this length keep every row
FP8_BLOCK = 128
FP8_MAX = 448.0     # largest finite e4m3 value

# The positions kept of a long prompt: its start, the page, chunk and block
# boundaries at 64, 128 and 256, and its end.
CUTS = [0, 1, 2, 3, 62, 63, 64, 65, 127, 128, 129, 255, 256, 257]

BASE = dict(V=128, H=64, I=96, L=4, nq=4, nkv=2, hd=32, nk=2, r=1, dk=16,
            full=None, tied=False, dtype="bf16", mtp=False, experts=0, top=0,
            mi=0, si=0, layout="fused", mtp_layout="fused", nest=False,
            fp8=False, f32=(), theta=10000000.0, rope="params", seed=0,
            prompts=())

SPECS = {
    "dense-r1-f32": dict(tied=True, dtype="f32", seed=101, H=32, I=64, nkv=1,
                         hd=16, rope="flat", prompts=(1, 2, 17, 65, 130)),
    "dense-r1": dict(tied=True, seed=102, I=64, nkv=1, hd=16,
                     prompts=(1, 3, 64)),
    "dense-r2": dict(r=2, seed=201, mtp=True, V=96, I=64, nq=2, nkv=1,
                     f32=("linear_attn.A_log", "linear_attn.norm.weight"),
                     prompts=(1, 2, 3, 5, 17, 64, 65, 130, 300)),
    "dense-r3": dict(r=3, seed=301, V=160, H=32, I=64, L=8, nq=6, hd=16,
                     prompts=(2, 5, 17, 300)),
    "moe-r2-f32": dict(r=2, dtype="f32", seed=1401, H=32, L=2, full=2, nq=2,
                       nkv=1, experts=4, top=2, mi=32, si=32,
                       prompts=(1, 5, 65)),
    "moe-r2": dict(r=2, seed=402, H=32, nq=2, nkv=1, experts=6, top=3, mi=32,
                   si=64, mtp=True, mtp_layout="split",
                   prompts=(1, 2, 5, 17, 64, 130, 300)),
    "moe-split": dict(r=2, seed=501, H=32, hd=16, experts=5, top=2, mi=32,
                      si=32, tied=True, layout="split", mtp=True,
                      prompts=(1, 3, 17, 65)),
    "fp8": dict(r=2, seed=601, V=96, H=160, I=96, L=2, full=2, nq=2, nkv=1,
                hd=16, dk=128, tied=True, fp8=True, prompts=(1, 5, 65)),
    "nested": dict(r=2, seed=701, nest=True, V=144, H=32, I=64, nq=1, nkv=1,
                   hd=256, nk=1, dk=128, prompts=(1, 3, 17, 130)),
}


# --- weights ---------------------------------------------------------------

def shapes(s, p, kind, moe_layer, layout):
    """Names and shapes of one decoder layer under the prefix p."""
    H = s["H"]
    out = {p + "input_layernorm.weight": (H,),
           p + "post_attention_layernorm.weight": (H,)}
    if kind == "full_attention":
        a = p + "self_attn."
        out |= {a + "q_proj.weight": (s["nq"] * s["hd"] * 2, H),
                a + "k_proj.weight": (s["nkv"] * s["hd"], H),
                a + "v_proj.weight": (s["nkv"] * s["hd"], H),
                a + "o_proj.weight": (H, s["nq"] * s["hd"]),
                a + "q_norm.weight": (s["hd"],),
                a + "k_norm.weight": (s["hd"],)}
    else:
        a = p + "linear_attn."
        nv = s["nk"] * s["r"]
        conv = 2 * s["nk"] * s["dk"] + nv * s["dk"]
        out |= {a + "in_proj_qkv.weight": (conv, H),
                a + "in_proj_z.weight": (nv * s["dk"], H),
                a + "in_proj_b.weight": (nv, H),
                a + "in_proj_a.weight": (nv, H),
                a + "conv1d.weight": (conv, 1, 4),
                a + "A_log": (nv,),
                a + "dt_bias": (nv,),
                a + "norm.weight": (s["dk"],),
                a + "out_proj.weight": (H, nv * s["dk"])}
    m = p + "mlp."
    if not moe_layer:
        out |= {m + "gate_proj.weight": (s["I"], H),
                m + "up_proj.weight": (s["I"], H),
                m + "down_proj.weight": (H, s["I"])}
        return out
    out |= {m + "gate.weight": (s["experts"], H),
            m + "shared_expert.gate_proj.weight": (s["si"], H),
            m + "shared_expert.up_proj.weight": (s["si"], H),
            m + "shared_expert.down_proj.weight": (H, s["si"]),
            m + "shared_expert_gate.weight": (1, H)}
    if layout == "fused":
        out |= {m + "experts.gate_up_proj": (s["experts"], 2 * s["mi"], H),
                m + "experts.down_proj": (s["experts"], H, s["mi"])}
    else:
        for e in range(s["experts"]):
            x = f"{m}experts.{e}."
            out |= {x + "gate_proj.weight": (s["mi"], H),
                    x + "up_proj.weight": (s["mi"], H),
                    x + "down_proj.weight": (H, s["mi"])}
    return out


def layer_types(s):
    n = s["full"] or 4
    return ["linear_attention" if (i + 1) % n else "full_attention"
            for i in range(s["L"])]


def all_shapes(s):
    """Every text tensor with its name in a text-only export."""
    out = {"model.embed_tokens.weight": (s["V"], s["H"]),
           "model.norm.weight": (s["H"],)}
    if not s["tied"]:
        out["lm_head.weight"] = (s["V"], s["H"])
    for i, kind in enumerate(layer_types(s)):
        out |= shapes(s, f"model.layers.{i}.", kind, s["experts"] > 0,
                      s["layout"])
    if s["mtp"]:
        out |= {"mtp.fc.weight": (s["H"], 2 * s["H"]),
                "mtp.pre_fc_norm_embedding.weight": (s["H"],),
                "mtp.pre_fc_norm_hidden.weight": (s["H"],),
                "mtp.norm.weight": (s["H"],)}
        out |= shapes(s, "mtp.layers.0.", "full_attention", s["experts"] > 0,
                      s["mtp_layout"])
    return out


def draw(rng, name, shape):
    """One tensor, scaled so that the mixers, the state and the MLP all matter.

    Norm weights are far from their neutral value, decays span 0.2 to 0.999
    per token, the softmax of attention is neither flat nor one-hot."""
    normal = lambda std: rng.standard_normal(shape) * std
    uniform = lambda lo, hi: rng.uniform(lo, hi, shape)
    fan = shape[-1]
    last = name.rsplit(".", 1)[-1] if not name.endswith(".weight") \
        else name.rsplit(".", 2)[-2]
    if last == "A_log":
        return np.log(uniform(0.5, 16.0))
    if last == "dt_bias":
        dt = np.exp(uniform(np.log(1e-3), np.log(1e-1)))
        return dt + np.log(-np.expm1(-dt))
    if name.endswith("linear_attn.norm.weight"):
        return 1.0 + uniform(-0.3, 0.3)
    if last in ("q_norm", "k_norm"):
        return uniform(0.0, 0.8)
    if last in ("input_layernorm", "post_attention_layernorm", "norm",
                "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        return uniform(-0.2, 0.2)
    if last == "conv1d":
        return normal(0.5)
    if last == "embed_tokens":
        return normal(0.4)
    if last == "lm_head":
        return normal(2.0 / np.sqrt(fan))
    if last == "in_proj_a":
        return normal(0.7 / np.sqrt(fan))
    if last == "gate" and len(shape) == 2:
        return normal(1.5 / np.sqrt(fan))
    if last == "o_proj":
        return normal(2.5 / np.sqrt(fan))   # softmax and gate made it small
    if last in ("out_proj", "down_proj"):
        return normal(1.3 / np.sqrt(fan))
    return normal(1.0 / np.sqrt(fan))


def draw_all(s, seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    return {name: torch.from_numpy(
                np.ascontiguousarray(draw(rng, name, shape), dtype=np.float32))
            for name, shape in sorted(all_shapes(s).items())}


# --- storing ---------------------------------------------------------------

def is_fp8(name):
    parts = ("q_proj", "k_proj", "v_proj", "o_proj", "in_proj_qkv",
             "in_proj_z", "out_proj", "gate_proj", "up_proj", "down_proj")
    return name.endswith(".weight") and name.rsplit(".", 2)[-2] in parts


def quantise(w):
    """Block-128 e4m3 with a bf16 multiplier: stored bytes, scales, values."""
    a, b = w.shape
    na, nb = -(-a // FP8_BLOCK), -(-b // FP8_BLOCK)
    scale = torch.empty(na, nb)
    for i in range(na):
        for j in range(nb):
            blk = w[i * FP8_BLOCK:(i + 1) * FP8_BLOCK,
                    j * FP8_BLOCK:(j + 1) * FP8_BLOCK]
            scale[i, j] = blk.abs().max() / FP8_MAX
    scale = scale.to(torch.bfloat16)
    wide = scale.float().repeat_interleave(FP8_BLOCK, 0)[:a]
    wide = wide.repeat_interleave(FP8_BLOCK, 1)[:, :b]
    q = (w / wide).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
    return q, scale, q.float() * wide


def store(s, drawn):
    """What goes into the file, and the same values in fp32."""
    stored, exact = {}, {}
    for name, w in drawn.items():
        if s["fp8"] and is_fp8(name):
            q, scale, value = quantise(w)
            stored[name] = q
            stored[name[:-len("weight")] + "weight_scale_inv"] = scale
            exact[name] = value
        elif s["dtype"] == "f32" or name.endswith(tuple(s["f32"])):
            stored[name] = exact[name] = w
        else:
            stored[name] = w.to(torch.bfloat16)
            exact[name] = stored[name].float()
    return stored, exact


def text_config(s):
    """The text fields as the released configs write them."""
    t = {"attention_bias": False,
         "attn_output_gate": True,
         "dtype": "float32" if s["dtype"] == "f32" else "bfloat16",
         "eos_token_id": 0,
         "full_attention_interval": s["full"] or 4,
         "head_dim": s["hd"],
         "hidden_act": "silu",
         "hidden_size": s["H"],
         "layer_types": layer_types(s),
         "linear_conv_kernel_dim": 4,
         "linear_key_head_dim": s["dk"],
         "linear_num_key_heads": s["nk"],
         "linear_num_value_heads": s["nk"] * s["r"],
         "linear_value_head_dim": s["dk"],
         "mamba_ssm_dtype": "float32",
         "max_position_embeddings": 4096,
         "mtp_num_hidden_layers": 1 if s["mtp"] else 0,
         "mtp_use_dedicated_embeddings": False,
         "num_attention_heads": s["nq"],
         "num_hidden_layers": s["L"],
         "num_key_value_heads": s["nkv"],
         "rms_norm_eps": 1e-06,
         "tie_word_embeddings": s["tied"],
         "use_cache": True,
         "vocab_size": s["V"]}
    n_freq = s["hd"] // 8
    if s["rope"] == "flat":
        t |= {"rope_theta": s["theta"], "partial_rotary_factor": 0.25}
    else:
        t["rope_parameters"] = {
            "mrope_interleaved": True,
            "mrope_section": [n_freq - 2 * (n_freq // 3), n_freq // 3,
                              n_freq // 3],
            "partial_rotary_factor": 0.25,
            "rope_theta": s["theta"],
            "rope_type": "default"}
    if s["experts"]:
        t |= {"model_type": "qwen3_5_moe_text",
              "moe_intermediate_size": s["mi"],
              "num_experts": s["experts"],
              "num_experts_per_tok": s["top"],
              "shared_expert_intermediate_size": s["si"],
              "router_aux_loss_coef": 0.001}
    else:
        t |= {"model_type": "qwen3_5_text", "intermediate_size": s["I"],
              "output_gate_type": "swish"}
    if s["dtype"] == "f32":
        del t["layer_types"]     # then full_attention_interval decides
    return dict(sorted(t.items()))


def config(s):
    t = text_config(s)
    name = "Qwen3_5Moe" if s["experts"] else "Qwen3_5"
    if not s["nest"]:
        c = {"architectures": [name + "ForCausalLM"]} | t
    else:
        kind = "qwen3_5_moe" if s["experts"] else "qwen3_5"
        tied = t.pop("tie_word_embeddings")
        c = {"architectures": [name + "ForConditionalGeneration"],
             "image_token_id": 140,
             "model_type": kind,
             "text_config": t,
             "tie_word_embeddings": tied,
             "video_token_id": 141,
             "vision_config": {"depth": 1, "hidden_size": 32, "num_heads": 2,
                               "model_type": kind,
                               "out_hidden_size": s["H"]},
             "vision_end_token_id": 143,
             "vision_start_token_id": 142}
    if s["fp8"]:
        c["quantization_config"] = {
            "activation_scheme": "dynamic",
            "fmt": "e4m3",
            "modules_to_not_convert": ["lm_head", "model.embed_tokens"],
            "quant_method": "fp8",
            "weight_block_size": [FP8_BLOCK, FP8_BLOCK]}
    return c


def write_checkpoint(s, stored, folder, seed):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(folder + "/config.json", "w") as f:
        json.dump(config(s), f, indent=2)
        f.write("\n")
    meta = {"format": "pt"}
    if not s["nest"]:
        save_file(stored, folder + "/model.safetensors", metadata=meta)
        return
    full = {}
    for name, w in stored.items():
        if name.startswith("model."):
            name = "model.language_model." + name[len("model."):]
        full[name] = w
    rng = np.random.Generator(np.random.PCG64(seed + 7))
    for name, shape in (("model.visual.pos_embed.weight", (16, 32)),
                        ("model.visual.merger.norm.bias", (32,))):
        full[name] = torch.from_numpy(rng.standard_normal(
            shape).astype(np.float32)).to(torch.bfloat16)
    names = sorted(full)
    half = [names[::2], names[1::2]]    # layers are torn across the shards
    index = {}
    for i, part in enumerate(half):
        fn = f"model-{i + 1:05}-of-00002.safetensors"
        save_file({k: full[k] for k in part}, f"{folder}/{fn}", metadata=meta)
        index |= {k: fn for k in part}
    total = sum(w.numel() * w.element_size() for w in full.values())
    with open(folder + "/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {"total_size": total},
                   "weight_map": dict(sorted(index.items()))}, f, indent=0)
        f.write("\n")


# --- the reference ---------------------------------------------------------

def load_reference(s, folder, exact):
    """The reference model with the stored values widened to fp32."""
    lib, conf = (moe, moe_conf) if s["experts"] else (dense, dense_conf)
    name = "Qwen3_5Moe" if s["experts"] else "Qwen3_5"
    text = getattr(conf, name + "TextConfig")
    cls = getattr(lib, name + "ForCausalLM")
    c = json.load(open(folder + "/config.json"))
    t = dict(c.get("text_config", c))
    t["tie_word_embeddings"] = c["tie_word_embeddings"]
    t.pop("architectures", None)
    t.pop("quantization_config", None)
    t.pop("model_type")
    t["dtype"] = "float32"
    cfg = text(**t)
    if s["fp8"]:
        model = cls._from_config(cfg, attn_implementation="eager",
                                 dtype=torch.float32)
        missing, extra = model.load_state_dict(
            {k: v for k, v in exact.items() if not k.startswith("mtp.")},
            strict=False)
        missing = [k for k in missing if k != "lm_head.weight"]
        assert not missing and not extra, (missing, extra)
        model.tie_weights()
    else:
        model, info = cls.from_pretrained(
            folder, config=cfg, dtype=torch.float32,
            attn_implementation="eager", output_loading_info=True)
        assert not info["missing_keys"], info
        assert not info["mismatched_keys"], info
        assert not [k for k in info["unexpected_keys"]
                    if not k.startswith(("mtp.", "model.visual."))], info
        check_values(model, exact, s)
    if s["experts"]:
        model.set_experts_implementation("eager")
    return model.eval(), cfg


def fuse(tensors):
    """Per-expert tensors put into the reference's fused form."""
    out, split = {}, {}
    for k, v in tensors.items():
        if ".experts." in k and k.endswith("_proj.weight"):
            head, tail = k.split(".experts.")
            e, part, _ = tail.split(".")
            split.setdefault(head, {})[(int(e), part)] = v
        else:
            out[k] = v
    for head, d in split.items():
        n = max(e for e, _ in d) + 1
        out[head + ".experts.gate_up_proj"] = torch.stack(
            [torch.cat([d[e, "gate_proj"], d[e, "up_proj"]])
             for e in range(n)])
        out[head + ".experts.down_proj"] = torch.stack(
            [d[e, "down_proj"] for e in range(n)])
    return out


def check_values(model, exact, s):
    """from_pretrained must have left exactly the stored values."""
    have = model.state_dict()
    for k, v in fuse(exact).items():
        if not k.startswith("mtp."):
            assert torch.equal(have[k], v), k


class Mtp:
    """The MTP head, of the reference's parts (see the top of the file)."""

    def __init__(self, s, cfg, exact, model):
        lib = moe if s["experts"] else dense
        name = "Qwen3_5Moe" if s["experts"] else "Qwen3_5"
        norm = getattr(lib, name + "RMSNorm")
        one = copy.deepcopy(cfg)
        one.layer_types = ["full_attention"]
        one.num_hidden_layers = 1
        one._attn_implementation = "eager"
        self.layer = getattr(lib, name + "DecoderLayer")(one, 0).eval()
        self.norms = {k: norm(s["H"], eps=cfg.rms_norm_eps) for k in
                      ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")}
        w = fuse({k[4:]: v for k, v in exact.items() if k.startswith("mtp.")})
        for k, m in self.norms.items():
            m.weight.data.copy_(w.pop(k + ".weight"))
        self.fc = w.pop("fc.weight")
        self.layer.load_state_dict({k[len("layers.0."):]: v
                                    for k, v in w.items()})
        if s["experts"]:
            self.layer.mlp.experts.config = model.config
        self.model = model
        self.rows = []

    def feed(self, h, next_id):
        """Append one row; its output after the last norm, and its logits."""
        e = self.model.model.embed_tokens(torch.tensor([next_id]))
        x = torch.cat([self.norms["pre_fc_norm_embedding"](e),
                       self.norms["pre_fc_norm_hidden"](h[None])], -1)
        self.rows.append(x @ self.fc.T)
        x = torch.stack(self.rows, 1)
        n = x.shape[1]
        pos = torch.arange(n).view(1, 1, -1).expand(3, 1, -1)
        mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
        y = self.layer(x, self.model.model.rotary_emb(x, pos),
                       attention_mask=mask)
        y = self.norms["norm"](y)[0, -1]
        return y, self.model.lm_head(y)


class Probe:
    """Residuals after each layer, and the smallest gap of any routing."""

    def __init__(self, model):
        self.resid, self.gap = [], float("inf")
        for layer in model.model.layers:
            layer.register_forward_hook(self.after)
            if hasattr(layer.mlp, "gate") and hasattr(layer.mlp, "experts"):
                layer.mlp.gate.register_forward_hook(self.routed)

    def after(self, module, args, out):
        self.resid.append(out[0].detach())

    def routed(self, module, args, out):
        self.gap = min(self.gap, route_gap(out[0], module.top_k))


def route_gap(logits, k):
    top = logits.float().topk(k + 1, -1).values
    scale = logits.abs().amax(-1)
    return float(((top[..., k - 1] - top[..., k]) / scale).min())


def arg_gap(row):
    top = row.topk(2).values
    return float((top[0] - top[1]) / row.abs().max())


# --- vectors ---------------------------------------------------------------

def record(kind, tok, pos, rows):
    rows = torch.stack(list(rows)).numpy().astype("<f4")
    assert rows.shape[0] == len(pos) and np.isfinite(rows).all()
    return b"".join([
        struct.pack("<II", kind, len(tok)),
        np.asarray(tok, "<i4").tobytes(),
        struct.pack("<I", len(pos)),
        np.asarray(pos, "<u4").tobytes(),
        struct.pack("<I", rows.shape[1]),
        rows.tobytes()])


def prompt(rng, n, V):
    """Random ids; the second half repeats pieces of the first now and then,
    so that what was remembered is of use."""
    tok = rng.integers(0, V, n).tolist()
    for i in range(n // 2, n - 4, 9):
        j = int(rng.integers(0, i - 3)) if i > 3 else 0
        tok[i:i + 4] = tok[j:j + 4]
    return [int(t) for t in tok[:n]]


def capture(s, seed, model, cfg, exact):
    """Every record of one model, and what the manifest says of it."""
    rng = np.random.Generator(np.random.PCG64(seed + 1))
    probe = Probe(model)
    out, gap, drift, top = [], float("inf"), 0.0, 0.0
    for n in s["prompts"]:
        tok = prompt(rng, n, s["V"])
        keep = list(range(n)) if n <= SHORT else \
            [p for p in CUTS if p < n - 1] + [n - 1]
        probe.resid.clear()
        cache = DynamicCache(config=cfg)
        r = model.model(input_ids=torch.tensor([tok]), cache=cache,
                        use_cache=True)
        hidden = r.last_hidden_state[0]
        logits = model.lm_head(hidden)
        resid = [x[-1] for x in probe.resid]
        out.append(record(LOGITS, tok, keep, logits[keep]))
        if n in (2, 3, 5) or n == s["prompts"][-1]:
            out.append(record(RESIDUAL, tok, range(len(resid)), resid))
            out.append(record(HIDDEN, tok, [n - 1], hidden[-1:]))

        seq, rows = list(tok), []
        row = logits[-1]
        for _ in range(N_DECODE):
            gap = min(gap, arg_gap(row))
            seq.append(int(row.argmax()))
            row = model(input_ids=torch.tensor([seq[-1:]]), cache=cache,
                        use_cache=True).logits[0, -1]
            rows.append(row)
        out.append(record(DECODE, seq, range(n, n + N_DECODE), rows))

        # The same rows from one whole prefill: how far the reference's own
        # two forms are apart, the noise below any comparison with it.
        whole = model(input_ids=torch.tensor([seq])).logits[0]
        for p, x in zip(range(n, n + N_DECODE), rows):
            drift = max(drift, float((whole[p] - x).abs().max()
                                     / x.abs().max()))
        top = max(top, float(logits.abs().max()))

        if s["mtp"] and n in (1, 5, 17, 65):
            head = Mtp(s, cfg, exact, model)
            if s["experts"]:
                head.layer.mlp.gate.register_forward_hook(probe.routed)
            prime = [head.feed(hidden[i], tok[i + 1]) for i in range(n - 1)]
            if prime:
                out.append(record(MTP_PRIME, tok, range(n - 1),
                                  [x[1] for x in prime]))
            ids, rows, h = tok + [seq[n]], [], hidden[-1]
            for depth in range(MTP_DEPTH):
                h, row = head.feed(h, ids[-1])
                rows.append(row)
                gap = min(gap, arg_gap(row))
                ids.append(int(row.argmax()))
            out.append(record(MTP, ids[:-1], range(1, MTP_DEPTH + 1), rows))
    info = {"greedy_gap": gap, "reference_drift": drift,
            "largest_logit": top}
    if s["experts"]:
        info["routing_gap"] = probe.gap
    return out, info


def ablate(s, model, tok):
    """How much the last logits change when a part is cut out or the first
    token is another one: none of these may be a bystander."""
    x = torch.tensor([tok])
    base = model(input_ids=x).logits[0, -1]
    rel = lambda y: float((y - base).abs().max() / base.abs().max())
    y = x.clone()
    y[0, 0] = (y[0, 0] + 1) % s["V"]
    res = {"first token": rel(model(input_ids=y).logits[0, -1])}
    for part in ("self_attn.o_proj", "linear_attn.out_proj", "mlp"):
        hooks = [m.register_forward_hook(lambda mod, a, o: o * 0)
                 for k, m in model.named_modules() if k.endswith(part)]
        res[part] = rel(model(input_ids=x).logits[0, -1])
        for h in hooks:
            h.remove()
    return res


def sha(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()


def build(name, out, check):
    s = BASE | SPECS[name]
    folder = f"{out}/models/{name}"
    seed = s["seed"]
    while True:
        drawn = draw_all(s, seed)
        stored, exact = store(s, drawn)
        write_checkpoint(s, stored, folder, seed)
        model, cfg = load_reference(s, folder, exact)
        recs, info = capture(s, seed, model, cfg, exact)
        if info["greedy_gap"] > MIN_GAP \
                and info.get("routing_gap", 1.0) > MIN_ROUTE \
                and info["reference_drift"] < MAX_DRIFT:
            break
        seed += 1000
        print(f"{name}: too close, trying seed {seed}: {info}",
              flush=True)
    os.makedirs(out + "/vectors", exist_ok=True)
    with open(f"{out}/vectors/{name}.gold", "wb") as f:
        f.write(MAGIC)
        f.writelines(recs)
    if check:
        rng = np.random.Generator(np.random.PCG64(5))
        for n in (8, 130):
            print(name, n, {k: round(v, 4) for k, v in ablate(
                s, model, prompt(rng, n, s["V"])).items()})
    files = sorted(os.listdir(folder))
    info = {k: float(f"{v:.3g}") for k, v in info.items()}
    return {"seed": seed, "stored": "fp8" if s["fp8"] else s["dtype"],
            "prompts": list(s["prompts"])} | info | {
            "sha256": {f"models/{name}/{f}": sha(f"{folder}/{f}")
                       for f in files} | {
                f"vectors/{name}.gold": sha(f"{out}/vectors/{name}.gold")}}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default=os.path.dirname(__file__) or ".")
    ap.add_argument("--only", default="")
    ap.add_argument("--check", action="store_true",
                    help="print how much each part of a model matters")
    a = ap.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    path = a.out + "/manifest.json"
    man = json.load(open(path)) if os.path.exists(path) else {}
    man |= {"command": "python3 tests/golden/make_models.py",
            "date": datetime.date.today().isoformat(),
            "implementation": "transformers, qwen3_5 and qwen3_5_moe, eager "
                              "attention, torch gated delta rule, CPU",
            "precision": "fp32, from the stored values widened to fp32",
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "numpy": np.__version__,
            "safetensors": safetensors.__version__}
    models = man.get("models", {})
    for name in a.only.split(",") if a.only else SPECS:
        models[name] = build(name, a.out, a.check)
        print(name, {k: v for k, v in models[name].items()
                     if k not in ("sha256", "prompts")}, flush=True)
    man["models"] = {k: models[k] for k in SPECS if k in models}
    with open(path, "w") as f:
        json.dump(man, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
