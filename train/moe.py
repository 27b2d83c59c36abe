"""An untrained qwen3_5_moe checkpoint for tests: random weights, shared expert, fused experts, MTP layer.

    python moe.py CORPUS.txt OUT

Rows of 256 and 512 and of 32 and 64 occur, so both K-quants and the fallback type are met. Its tokenizer has the same parts as
the demo's, and few merges.
"""
import os
import sys

import torch
from safetensors.torch import save_file

from tokenizer import HERE, save, train, write

CONFIG = {
    "architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text", "attention_bias": False, "attention_dropout": 0.0,
    "attn_output_gate": True, "bos_token_id": None, "dtype": "bfloat16", "eos_token_id": 351, "full_attention_interval": 2,
    "head_dim": 32, "hidden_act": "silu", "hidden_size": 256, "initializer_range": 0.02,
    "layer_types": ["linear_attention", "full_attention"], "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32,
    "linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_value_head_dim": 32, "mamba_ssm_dtype": "float32",
    "max_position_embeddings": 4096, "moe_intermediate_size": 32, "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False,
    "num_attention_heads": 2, "num_experts": 5, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 1,
    "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06,
    "rope_parameters": {"mrope_interleaved": True, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.25, "rope_theta": 100000,
                        "rope_type": "default"},
    "shared_expert_intermediate_size": 64, "tie_word_embeddings": True, "use_cache": True, "vocab_size": 384,
}


def main():
    text, out = sys.argv[1:]
    with open(text) as f:
        docs = f.read().split("\0")[:3000]
    with open(os.path.join(HERE, "chat_template.jinja")) as f:
        write(train(docs, 351), out, f.read())
    c = CONFIG
    save(out, "config.json", c)
    g = torch.Generator().manual_seed(11)
    H, mi, si, E, hd, nq, nkv = 256, c["moe_intermediate_size"], c["shared_expert_intermediate_size"], c["num_experts"], 32, 2, 1
    nk, nv, d = 1, 2, 32
    cc = 2 * nk * d + nv * d
    w = {}

    def mat(name, *shape, gain=1.0):
        w[name] = (torch.randn(*shape, generator=g) * gain / shape[-1] ** 0.5).to(torch.bfloat16)

    def vec(name, n, mean=0.0, std=0.1):
        w[name] = (mean + std * torch.randn(n, generator=g)).to(torch.bfloat16)

    def layer(p, full):
        vec(p + "input_layernorm.weight", H)
        vec(p + "post_attention_layernorm.weight", H)
        if full:
            a = p + "self_attn."
            mat(a + "q_proj.weight", nq * hd * 2, H)
            mat(a + "k_proj.weight", nkv * hd, H)
            mat(a + "v_proj.weight", nkv * hd, H)
            mat(a + "o_proj.weight", H, nq * hd)
            vec(a + "q_norm.weight", hd)
            vec(a + "k_norm.weight", hd)
        else:
            a = p + "linear_attn."
            mat(a + "in_proj_qkv.weight", cc, H)
            mat(a + "in_proj_z.weight", nv * d, H)
            mat(a + "in_proj_b.weight", nv, H)
            mat(a + "in_proj_a.weight", nv, H)
            mat(a + "conv1d.weight", cc, 1, 4)
            vec(a + "A_log", nv, 0.5, 0.5)
            vec(a + "dt_bias", nv, -2.0, 0.5)
            vec(a + "norm.weight", d, 1.0)
            mat(a + "out_proj.weight", H, nv * d)
        m = p + "mlp."
        mat(m + "gate.weight", E, H, gain=2.0)
        mat(m + "experts.gate_up_proj", E, 2 * mi, H)
        mat(m + "experts.down_proj", E, H, mi)
        for n, shape in (("gate_proj", (si, H)), ("up_proj", (si, H)), ("down_proj", (H, si))):
            mat(m + f"shared_expert.{n}.weight", *shape)
        mat(m + "shared_expert_gate.weight", 1, H)
    mat("model.embed_tokens.weight", c["vocab_size"], H, gain=4.0)
    vec("model.norm.weight", H)
    for i, kind in enumerate(c["layer_types"]):
        layer(f"model.layers.{i}.", kind == "full_attention")
    mat("mtp.fc.weight", H, 2 * H)
    for n in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        vec(f"mtp.{n}.weight", H)
    layer("mtp.layers.0.", True)
    path = os.path.join(out, "model.safetensors")
    save_file(w, path, metadata={"format": "pt"})
    print(sum(t.numel() for t in w.values()), "parameters,", sum(os.path.getsize(os.path.join(out, f)) for f in os.listdir(out)), "bytes")


if __name__ == "__main__":
    main()
