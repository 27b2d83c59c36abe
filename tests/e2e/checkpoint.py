"""Make a small checkpoint folder: random weights, the small tokenizer of
tests/golden, a short chat template. For tests that need a whole model, or one
that is broken in a chosen place."""
import json
import pathlib
import random
import shutil
import struct

TOKENIZER = pathlib.Path("tests/golden/tokenizer-small")
TEMPLATE = """{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking %}<think>
{% endif %}{% endif %}"""

CONFIG = {
    "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text",
    "vocab_size": 1280, "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 4, "full_attention_interval": 4,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
    "mtp_num_hidden_layers": 1, "eos_token_id": 1202, "dtype": "bfloat16",
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                        "partial_rotary_factor": 0.25},
}


def shapes(c):
    """Names and shapes of every tensor."""
    h, f, v = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    q = c["num_attention_heads"] * c["head_dim"]
    kv = c["num_key_value_heads"] * c["head_dim"]
    nv, dv = c["linear_num_value_heads"], c["linear_value_head_dim"]
    conv = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"] + nv * dv
    yield "model.embed_tokens.weight", [v, h]
    yield "model.norm.weight", [h]
    n = c["num_hidden_layers"]
    for i in range(n + c["mtp_num_hidden_layers"]):
        p = f"model.layers.{i}." if i < n else "mtp.layers.0."
        yield p + "input_layernorm.weight", [h]
        yield p + "post_attention_layernorm.weight", [h]
        yield p + "mlp.gate_proj.weight", [f, h]
        yield p + "mlp.up_proj.weight", [f, h]
        yield p + "mlp.down_proj.weight", [h, f]
        if i >= n or (i + 1) % c["full_attention_interval"] == 0:
            yield p + "self_attn.q_proj.weight", [2 * q, h]
            yield p + "self_attn.k_proj.weight", [kv, h]
            yield p + "self_attn.v_proj.weight", [kv, h]
            yield p + "self_attn.o_proj.weight", [h, q]
            yield p + "self_attn.q_norm.weight", [c["head_dim"]]
            yield p + "self_attn.k_norm.weight", [c["head_dim"]]
            continue
        yield p + "linear_attn.in_proj_qkv.weight", [conv, h]
        yield p + "linear_attn.in_proj_z.weight", [nv * dv, h]
        yield p + "linear_attn.in_proj_b.weight", [nv, h]
        yield p + "linear_attn.in_proj_a.weight", [nv, h]
        yield p + "linear_attn.conv1d.weight", [conv, 1, 4]
        yield p + "linear_attn.A_log", [nv]
        yield p + "linear_attn.dt_bias", [nv]
        yield p + "linear_attn.norm.weight", [dv]
        yield p + "linear_attn.out_proj.weight", [h, nv * dv]
    if c["mtp_num_hidden_layers"]:
        yield "mtp.fc.weight", [h, 2 * h]
        yield "mtp.pre_fc_norm_embedding.weight", [h]
        yield "mtp.pre_fc_norm_hidden.weight", [h]
        yield "mtp.norm.weight", [h]


def bf16(x):
    return struct.pack("<f", x)[2:]


def weights(c, seed=1):
    """{name: (shape, bytes)}, values small enough to stay tame."""
    rng = random.Random(seed)
    table = [bf16(rng.gauss(0, 0.15)) for _ in range(4096)]
    out = {}
    for name, shape in shapes(c):
        n = 1
        for d in shape:
            n *= d
        out[name] = (shape, b"".join(rng.choices(table, k=n)))
    return out


def write_safetensors(path, tensors, header=None):
    """header(dict) may change the header before it is written."""
    head, pos = {}, 0
    for name, (shape, data) in tensors.items():
        head[name] = {"dtype": "BF16", "shape": shape,
                      "data_offsets": [pos, pos + len(data)]}
        pos += len(data)
    if header:
        header(head)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)))
        f.write(text)
        for _, data in tensors.values():
            f.write(data)


def make(folder, config=None, tensors=None, header=None, template=TEMPLATE):
    """A whole folder; returns its path as text."""
    c = dict(CONFIG, **(config or {}))
    d = pathlib.Path(folder)
    d.mkdir(parents=True, exist_ok=True)
    (d / "config.json").write_text(json.dumps(c))
    write_safetensors(d / "model.safetensors",
                      weights(c) if tensors is None else tensors, header)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, d)
    if template is not None:
        (d / "chat_template.jinja").write_text(template)
    return str(d)
