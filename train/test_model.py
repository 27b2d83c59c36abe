"""Checks of the training code: python test_model.py

The chunked DeltaNet against the recurrent form; packed rows against documents alone; token-by-token decoding against
whole sequences; drafts of one block against blocks side by side; the corpus split.
"""
import json
import os
import random

import torch

from corpus import MIX, example, split
from decode import State, dflash_drafts
from model import Config, Drafter, Pack, Target, delta_chunked, delta_recurrent

HERE = os.path.dirname(os.path.abspath(__file__))


def near(a, b, tol, what):
    d = float((a - b).abs().max())
    print(f"{what}: {d:.1e}")
    assert d < tol, what


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    c = Config.load(os.path.join(HERE, "target.json"))
    q, v = torch.randn(2, 100, 4, 16), torch.randn(2, 100, 4, 16)
    k = torch.nn.functional.normalize(torch.randn(2, 100, 4, 16), dim=-1)
    beta, g = torch.rand(2, 100, 4), -torch.rand(2, 100, 4) * 0.3
    for C in (1, 16, 32, 64):
        near(delta_recurrent(q, k, v, beta, g), delta_chunked(q, k, v, beta, g, C), 1e-4, f"chunks of {C}")

    m = Target(c).eval()
    ids = torch.randint(0, 4000, (1, 90))
    doc = torch.tensor([[0] * 40 + [1] * 50])
    with torch.no_grad():
        f = m(ids, Pack(doc, c.taps))
        a = m(ids[:, :40], Pack(doc[:, :40], c.taps))
        b = m(ids[:, 40:], Pack(doc[:, 40:], c.taps))
        near(f, torch.cat([a, b], 1), 1e-4, "packed documents")
        near(f[:, [3, 50, 88]], m(ids, Pack(doc, c.taps), rows=torch.tensor([3, 50, 88])), 1e-4, "some rows of the last layer")
        y = m.draft(f, ids, Pack(doc, c.taps), 3)
        y2 = m.draft(b, ids[:, 40:], Pack(doc[:, 40:], c.taps), 3)
        near(y[2][:, 40:-3], y2[2][:, :-3], 1e-4, "packed MTP, three deep")
        s = State(m, 1, 40)
        near(a[0], torch.cat([s.step(ids[:, t]) for t in range(40)]), 1e-4, "token by token")
    with open(os.path.join(HERE, "drafter.json")) as fh:
        d = Drafter(json.load(fh)).eval()
    seq = ids[0, :60].tolist()
    many = dflash_drafts(m, d, seq, [20, 30, 41], 4033)
    assert many == [dflash_drafts(m, d, seq, [x], 4033)[0] for x in (20, 30, 41)], "blocks disturb each other"
    cut = dflash_drafts(m, d, seq[:31], [30], 4033)
    assert cut[0] == many[1], "a block sees tokens after its anchor"

    rng, seen = random.Random(3), {"train": set(), "heldout": set()}
    for _ in range(4000):
        ex = example(rng, rng.choice([n for n, _ in MIX[:3]]))
        if split(ex):
            seen[split(ex)].add((ex["cls"], repr(ex["tid"]), repr(ex["val"])))
    for i in (1, 2):
        assert not {(x[0], x[i]) for x in seen["train"]} & {(x[0], x[i]) for x in seen["heldout"]}
    talks = [ex for ex in (example(rng, "talk") for _ in range(400)) if split(ex) == "train"]
    told = {("tool", i, repr(p)) for ex in talks for t in ex["turns"] for i, p in enumerate(t, 1)}
    assert told and not told & {("tool", i, x[i]) for x in seen["heldout"] if x[0] == "tool" for i in (1, 2)}
    print("split:", {k: len(v) for k, v in seen.items()})


if __name__ == "__main__":
    main()
