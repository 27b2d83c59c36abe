#!/usr/bin/env python3
"""The random models of models/ as GGUF: tests/golden/gguf/NAME.gguf.

By the conventions alone (names, norms + 1, -exp(A_log), the order of value
heads), with the writer of the `gguf` package (version 0.19) and none of our
code, so that a mistake of ours cannot be in both. Needs gguf and numpy; run in
the root of the repository. Tests need neither.
"""
import json
import struct

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter

PLAIN = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
         "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
         "mlp.shared_expert.up_proj": "ffn_up_shexp",
         "mlp.shared_expert.down_proj": "ffn_down_shexp",
         "mlp.shared_expert_gate": "ffn_gate_inp_shexp"}
PLUS_ONE = {"input_layernorm": "attn_norm",
            "post_attention_layernorm": "post_attention_norm",
            "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
MTP = {"pre_fc_norm_embedding": "nextn.enorm", "pre_fc_norm_hidden":
       "nextn.hnorm", "norm": "nextn.shared_head_norm"}


def load(folder):
    d = open(f"{folder}/model.safetensors", "rb").read()
    n, = struct.unpack_from("<Q", d)
    out = {}
    for name, t in json.loads(d[8:8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            kind = {"BF16": np.uint16, "F32": np.float32}[t["dtype"]]
            out[name] = np.frombuffer(d[8 + n + a:8 + n + b], kind).reshape(
                t["shape"])
    return out


def f32(x):
    return x if x.dtype == np.float32 else (
        x.astype(np.uint32) << 16).view(np.float32)


class Writer:
    def __init__(self, name):
        folder = f"tests/golden/models/{name}"
        c = json.load(open(f"{folder}/config.json"))
        self.c, self.t = c, load(folder)
        self.nk, self.nv = (c["linear_num_key_heads"],
                            c["linear_num_value_heads"])
        self.dv = c["linear_value_head_dim"]
        self.qk = 2 * self.nk * c["linear_key_head_dim"]
        moe = c.get("num_experts", 0)
        self.w = GGUFWriter(f"tests/golden/gguf/{name}.gguf",
                            "qwen35moe" if moe else "qwen35")
        self.meta(moe)
        self.put("token_embd.weight", self.t["model.embed_tokens.weight"])
        self.put("output_norm.weight", self.one("model.norm.weight"))
        if not c["tie_word_embeddings"]:
            self.put("output.weight", self.t["lm_head.weight"])
        for i in range(c["num_hidden_layers"]):
            self.layer(f"model.layers.{i}.", f"blk.{i}.")
        if c.get("mtp_num_hidden_layers"):
            to = f"blk.{c['num_hidden_layers']}."
            self.layer("mtp.layers.0.", to)
            self.put(to + "nextn.eh_proj.weight", self.t["mtp.fc.weight"])
            for a, b in MTP.items():
                self.put(f"{to}{b}.weight", self.one(f"mtp.{a}.weight"))
        self.w.write_header_to_file()
        self.w.write_kv_data_to_file()
        self.w.write_tensors_to_file()
        self.w.close()

    def meta(self, moe):
        c, w, a = self.c, self.w, self.w.arch
        rope = c.get("rope_parameters") or c
        mtp = c.get("mtp_num_hidden_layers", 0)
        rot = int(c["head_dim"] * rope["partial_rotary_factor"])
        for key, v in (
                ("block_count", c["num_hidden_layers"] + mtp),
                ("context_length", c["max_position_embeddings"]),
                ("embedding_length", c["hidden_size"]),
                ("feed_forward_length", c.get("intermediate_size", 0)),
                ("attention.head_count", c["num_attention_heads"]),
                ("attention.head_count_kv", c["num_key_value_heads"]),
                ("attention.key_length", c["head_dim"]),
                ("attention.value_length", c["head_dim"]),
                ("rope.dimension_count", rot),
                ("full_attention_interval", c["full_attention_interval"]),
                ("ssm.conv_kernel", 4), ("ssm.group_count", self.nk),
                ("ssm.state_size", c["linear_key_head_dim"]),
                ("ssm.time_step_rank", self.nv),
                ("ssm.inner_size", self.nv * self.dv)):
            w.add_uint32(f"{a}.{key}", v)
        if mtp:
            w.add_uint32(f"{a}.nextn_predict_layers", mtp)
        w.add_float32(f"{a}.attention.layer_norm_rms_epsilon",
                      c["rms_norm_eps"])
        w.add_float32(f"{a}.rope.freq_base", rope["rope_theta"])
        w.add_uint32("tokenizer.ggml.eos_token_id", c["eos_token_id"])
        if moe:
            w.add_uint32(f"{a}.expert_count", moe)
            w.add_uint32(f"{a}.expert_used_count", c["num_experts_per_tok"])
            w.add_uint32(f"{a}.expert_feed_forward_length",
                         c["moe_intermediate_size"])
            w.add_uint32(f"{a}.expert_shared_feed_forward_length",
                         c["shared_expert_intermediate_size"])

    def one(self, name):
        return f32(self.t[name]) + np.float32(1)

    def put(self, name, x):
        if x.dtype == np.uint16:
            self.w.add_tensor(name, np.ascontiguousarray(x).view(np.uint8),
                              raw_dtype=T.BF16)
        else:
            self.w.add_tensor(name, np.ascontiguousarray(x))

    def heads(self, x, unit, start=0):
        """Rows behind `start`: from key head by key head to tiled."""
        v = x[start:].reshape(self.nk, self.nv // self.nk, unit, *x.shape[1:])
        return np.concatenate([x[:start],
                               v.swapaxes(0, 1).reshape(x[start:].shape)])

    def linear(self, p, to):
        t = self.t
        self.put(to + "attn_qkv.weight",
                 self.heads(t[p + "in_proj_qkv.weight"], self.dv, self.qk))
        self.put(to + "attn_gate.weight",
                 self.heads(t[p + "in_proj_z.weight"], self.dv))
        self.put(to + "ssm_beta.weight", self.heads(t[p + "in_proj_b.weight"], 1))
        self.put(to + "ssm_alpha.weight",
                 self.heads(t[p + "in_proj_a.weight"], 1))
        self.put(to + "ssm_out.weight",
                 self.heads(t[p + "out_proj.weight"].T, self.dv).T)
        conv = f32(t[p + "conv1d.weight"])
        self.put(to + "ssm_conv1d.weight",
                 self.heads(conv.reshape(len(conv), 4), self.dv, self.qk))
        a = -np.exp(f32(t[p + "A_log"]).astype(np.float64))
        self.put(to + "ssm_a", self.heads(a.astype(np.float32), 1))
        self.put(to + "ssm_dt.bias", self.heads(f32(t[p + "dt_bias"]), 1))
        self.put(to + "ssm_norm.weight", f32(t[p + "norm.weight"]))

    def experts(self, p, to):
        t, n = self.t, self.c["num_experts"]
        if p + "gate_up_proj" in t:
            gu = t[p + "gate_up_proj"]
            half = gu.shape[1] // 2
            parts = gu[:, :half], gu[:, half:], t[p + "down_proj"]
        else:
            parts = [np.stack([t[f"{p}{e}.{x}_proj.weight"] for e in range(n)])
                     for x in ("gate", "up", "down")]
        for x, data in zip(("gate", "up", "down"), parts):
            self.put(f"{to}ffn_{x}_exps.weight", data)

    def layer(self, p, to):
        for a, b in PLAIN.items():
            if f"{p}{a}.weight" in self.t:
                x = self.t[f"{p}{a}.weight"]
                self.put(f"{to}{b}.weight",
                         x[0] if a == "mlp.shared_expert_gate" else x)
        for a, b in PLUS_ONE.items():
            if f"{p}{a}.weight" in self.t:
                self.put(f"{to}{b}.weight", self.one(f"{p}{a}.weight"))
        if p + "linear_attn.A_log" in self.t:
            self.linear(p + "linear_attn.", to)
        if f"{p}mlp.gate.weight" in self.t:
            self.experts(p + "mlp.experts.", to)


for name in ("dense-r1", "dense-r2", "dense-r3", "moe-r2"):
    Writer(name)
