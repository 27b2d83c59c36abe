#!/usr/bin/env python3
"""Random small DFlash drafters for models/dense-r2, and what the definition of train/model.py computes with them.

    python3 make_flash.py      writes models/flash-v1, models/flash-v2, vectors/flash-v1.bin, vectors/flash-v2.bin

A .bin file, little endian: int32 n_ctx, anchor, block, vocab; float32 taps [n_ctx][n_tap * hidden]; float32 logits
[block - 1][vocab]; int32 drafts [block - 1]. The first generation is the second with convolutions that do nothing and
without the selector.
"""
import json
import os
import sys

import torch
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../train"))
from model import Drafter  # noqa: E402

TARGET = os.path.join(HERE, "models/dense-r2")
N_CTX = 23


def conf(v2):
    flash = {"mask_token_id": 90, "target_layer_ids": [0, 2] if v2 else [1, 2, 3]}
    if v2:
        flash.update(conv_group_size=16, conv_kernel_size=2, selector_rank=8, selector_top_k=5)
    d = {
        "architectures": ["DFlash2DraftModel" if v2 else "DFlashDraftModel"],
        "block_size": 5 if v2 else 6, "dflash_config": flash, "head_dim": 16, "hidden_size": 64,
        "intermediate_size": 48, "layer_types": ["sliding_attention", "full_attention"], "num_attention_heads": 6,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "num_target_layers": 4, "rms_norm_eps": 1e-6,
        "rope_theta": 10000, "sliding_window": 9, "vocab_size": 96,
    }
    if v2:
        d["is_causal"] = False
    return d


def masks(S, B, window, v2):
    """By kind of layer, from model.md 8.6."""
    q, k = S + torch.arange(B), torch.arange(S + B)
    near = k[None] > q[:, None] - window
    causal = k[None] <= q[:, None]
    full = torch.ones(B, S + B, dtype=torch.bool)
    return {"full_attention": full[None, None], "sliding_attention": (near if v2 else near & causal)[None, None]}


def target_tensor(end):
    t = load_file(os.path.join(TARGET, "model.safetensors"))
    return next(v for k, v in t.items() if k.endswith(end)).float()


@torch.no_grad()
def make(name, v2, seed):
    torch.manual_seed(seed)
    d = conf(v2)
    full = json.loads(json.dumps(d))
    full["dflash_config"].setdefault("conv_group_size", 16)
    full["dflash_config"].setdefault("selector_rank", 8)
    full["dflash_config"].setdefault("selector_top_k", 1)
    m = Drafter(full)
    for k, p in m.named_parameters():
        if k.endswith("norm.weight"):
            p.copy_(1 + 0.2 * torch.randn_like(p))
        elif "base_kernel" in k and v2:
            p.add_(0.2 * torch.randn_like(p))
        elif "kernel_projection" in k:
            p.copy_(0.02 * torch.randn_like(p) if v2 else torch.zeros_like(p))
        elif "codebook" in k:
            p.copy_(torch.randn_like(p))
        p.copy_(p.bfloat16().float())
    B, S, H = d["block_size"], N_CTX, d["hidden_size"]
    embed, head = target_tensor("embed_tokens.weight"), target_tensor("lm_head.weight")
    taps = torch.randn(1, S, H * len(m.taps))
    anchor = 17
    ids = torch.full((1, B), m.mask_id)
    ids[0, 0] = anchor
    f = m(embed[ids], taps, torch.arange(S)[None], (S + torch.arange(B))[None], masks(S, B, d["sliding_window"], v2))
    f = f[0, 1:]
    logits = f @ head.T
    drafts, prev = [], torch.tensor([anchor])
    for i in range(B - 1):
        if v2:
            cand = logits[i].topk(m.top_k)[1][None]
            s = m.scores(f[i][None], logits[i][None], prev, cand)
            prev = cand.gather(-1, s.argmax(-1, keepdim=True))[:, 0]
        else:
            prev = logits[i].argmax()[None]
        drafts.append(int(prev))
    out = os.path.join(HERE, "models", name)
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "config.json"), "w") as fp:
        json.dump(d, fp, indent=2)
        fp.write("\n")
    keep = {k: p.bfloat16().contiguous() for k, p in m.named_parameters()
            if v2 or ("conv" not in k and "selector" not in k)}
    save_file(keep, os.path.join(out, "model.safetensors"))
    with open(os.path.join(HERE, "vectors", name + ".bin"), "wb") as fp:
        fp.write(torch.tensor([S, anchor, B, logits.shape[1]], dtype=torch.int32).numpy().tobytes())
        fp.write(taps.numpy().tobytes() + logits.contiguous().numpy().tobytes())
        fp.write(torch.tensor(drafts, dtype=torch.int32).numpy().tobytes())
    print(name, drafts, logits.argmax(-1).tolist())


make("flash-v1", False, 1)
make("flash-v2", True, 2)
