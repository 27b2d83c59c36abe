"""Checkpoint folders from training checkpoints, and the golden file.

    python export.py --target T.pt --drafter D.pt --tokenizer DIR --out ../models/demo
    python export.py --golden ../models/demo ../tests/golden
    python export.py --check ../models/demo          trainer's logits against transformers'

Without --target or --drafter the weights are random, which is enough to try a loader.
"""
import argparse
import json
import os
import shutil

import torch
from safetensors.torch import load_file, save_file

from corpus import heldout, load_template, prompt
from model import Config, Drafter, Pack, Target
from tokenizer import save

HERE = os.path.dirname(os.path.abspath(__file__))


def restore(model, path):
    """Fill a model from a training checkpoint, or the part of a model that the checkpoint has."""
    d = torch.load(path)
    own = dict(model.named_parameters())
    at = used = 0
    sizes = d.get("sizes") or [p.numel() for p in model.parameters()]
    with torch.no_grad():
        for n, k in zip(d["names"], sizes):
            p = own.get(n, own.get(n.removeprefix("drafter.")))
            if p is not None:
                p.copy_(d["P"][at:at + k].view_as(p))
                used += 1
            at += k
    assert used, "nothing of this checkpoint fits"
    return model


def build_target(path=None, config=os.path.join(HERE, "target.json")):
    model = Target(Config.load(config))
    return restore(model, path) if path else model


def build_drafter(path=None, config=os.path.join(HERE, "drafter.json")):
    with open(config) as f:
        model = Drafter(json.load(f))
    return restore(model, path) if path else model


def write(model, path):
    t = {n: p.detach().to(torch.bfloat16).contiguous() for n, p in model.named_parameters()}
    save_file(t, path, metadata={"format": "pt"})
    return sum(p.numel() for p in t.values())


def load_exported(folder):
    """The trainer's target, fp32, with the weights of an exported folder."""
    model = Target(Config.load(os.path.join(folder, "config.json")))
    t = load_file(os.path.join(folder, "model.safetensors"))
    model.load_state_dict({n: x.float() for n, x in t.items()})
    return model


def load_drafter(folder):
    with open(os.path.join(folder, "config.json")) as f:
        model = Drafter(json.load(f))
    t = load_file(os.path.join(folder, "model.safetensors"))
    model.load_state_dict({n: x.float() for n, x in t.items()})
    return model


def reference(folder):
    """transformers, fp32 arithmetic on the stored weights."""
    from transformers import AutoModelForCausalLM
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def sample_prompts(folder, n=3):
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    template = load_template(os.path.join(folder, "chat_template.jinja"))
    out = []
    for cls in ("story", "problem", "tool")[:n]:
        ex = heldout(cls, 1, seed=5)[0]
        text = prompt(template, ex)
        out.append((cls, text, tok.encode(text, add_special_tokens=False).ids))
    return out


@torch.no_grad()
def check(folder):
    ours, ref = load_exported(folder).eval(), reference(folder)
    for name, _, ids in sample_prompts(folder):
        x = torch.tensor([ids])
        a = ours.head(ours(x, Pack(torch.zeros_like(x), ours.c.taps)))
        b = ref(x).logits
        same = (a.argmax(-1) == b.argmax(-1)).float().mean()
        print(f"{name}: {len(ids)} tokens, largest |logit| {b.abs().max():.3f}, largest difference {(a - b).abs().max():.2e}, same argmax {same:.3f}")
        assert (a - b).abs().max() < 1e-3 * max(1.0, float(b.abs().max()))


@torch.no_grad()
def golden(folder, out):
    """demo.json: per prompt the ids, fp32 reference logits at some positions, and a greedy continuation."""
    ref = reference(folder)
    os.makedirs(out, exist_ok=True)
    cases = []
    for name, text, ids in sample_prompts(folder):
        lg = ref(torch.tensor([ids])).logits[0]
        pos = sorted({0, 1, len(ids) // 2, len(ids) - 1})
        tops = []
        for p in pos:
            v, i = lg[p].topk(16)
            tops.append({"position": p, "ids": i.tolist(), "logits": [round(x, 5) for x in v.tolist()]})
        seq = list(ids)
        margin = []
        for _ in range(48):
            l = ref(torch.tensor([seq])).logits[0, -1]
            v, i = l.topk(2)
            seq.append(int(i[0]))
            margin.append(round(float(v[0] - v[1]), 4))
            if seq[-1] in (4000, 4002):
                break
        cases.append({"name": name, "text": text, "ids": ids, "top": tops, "row": {"position": len(ids) - 1, "logits": [round(x, 5) for x in lg[-1].tolist()]},
                      "greedy": seq[len(ids):], "margin": margin})
    with open(os.path.join(out, "demo.json"), "w") as f:
        json.dump({"about": "transformers, fp32 arithmetic on the bf16 weights of models/demo; margin is the lead of the greedy token over the next",
                   "cases": cases}, f, ensure_ascii=False)
        f.write("\n")
    print("golden:", os.path.getsize(os.path.join(out, "demo.json")), "bytes")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--target")
    ap.add_argument("--drafter")
    ap.add_argument("--tokenizer")
    ap.add_argument("--out")
    ap.add_argument("--check")
    ap.add_argument("--golden", nargs=2)
    a = ap.parse_args()
    torch.manual_seed(0)
    if a.out:
        os.makedirs(os.path.join(a.out, "drafter"), exist_ok=True)
        for f in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"):
            shutil.copyfile(os.path.join(a.tokenizer, f), os.path.join(a.out, f))
        target = build_target(a.target)
        if a.drafter:
            restore(target, a.drafter)  # the MTP head is trained further together with the drafter
        for name, model in (("", target), ("drafter", build_drafter(a.drafter))):
            with open(os.path.join(HERE, "drafter.json" if name else "target.json")) as f:
                save(os.path.join(a.out, name), "config.json", json.load(f))
            n = write(model, os.path.join(a.out, name, "model.safetensors"))
            print(name or "target", n, "parameters")
    if a.check:
        check(a.check)
    if a.golden:
        golden(*a.golden)


if __name__ == "__main__":
    main()
