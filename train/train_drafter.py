"""Trains the DFlash 2 drafter, and the MTP head further, on the frozen target's own text.

    python train_drafter.py --target T.pt --tokenizer tokenizer.json --data SELF.npz --out CHECKPOINT --minutes 15

If SELF.npz does not exist the target first writes it (selfgen.py). Resumes like train.py. The drafter learns by
cross-entropy on blocks at random anchors, its selector by cross-entropy over the candidates; the MTP head, in every
other row, by cross-entropy three deep.
"""
import argparse
import json
import os

import torch
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

import parallel
import selfgen
from data import Data, T
from decode import draft_mask
from export import build_drafter, build_target
from model import Pack
from train import shift


class Heads(nn.Module):
    def __init__(self, drafter, mtp):
        super().__init__()
        self.drafter, self.mtp = drafter, mtp


def losses(target, drafter, row, anchors, depth, gen):
    ids, doc, w, _ = row
    pack = Pack(doc, target.c.taps)
    B = drafter.block
    with torch.no_grad():
        f, tapped = target(ids, pack, drafter.taps)
    T, H = ids.shape[1], f.shape[-1]
    out = {"mtp": [], "draft": []}
    loss = f.new_zeros(())
    for s, h in enumerate(target.draft(f, ids, pack, depth) if depth else [], 1):
        ok = ((shift(w, s + 1) > 0) & (shift(doc, s + 1, -1) == doc)).view(-1).nonzero()[:, 0]
        lg, y = target.head(h.reshape(-1, H)[ok]), shift(ids, s + 1).view(-1)[ok]
        loss = loss + F.cross_entropy(lg, y, reduction="sum") / depth
        out["mtp"].append(((lg.detach().argmax(-1) == y).float().sum().item(), len(y)))
    # Anchors: tokens after which something learned follows.
    can = ((w > 0) & (shift(w, 1) > 0) & (shift(doc, 1, -1) == doc))[0].nonzero()[:, 0]
    if not len(can):
        return loss, out
    an = can[torch.randperm(len(can), generator=gen)[:anchors]].sort().values
    A = len(an)
    at = an[:, None] + torch.arange(B)
    inside = at < T
    at = at.clamp(max=T - 1)
    block = ids[0][at]
    good = inside & (doc[0][at] == doc[0][an][:, None]) & (w[0][at] > 0)
    x = torch.full((A, B), drafter.mask_id)
    x[:, 0] = block[:, 0]
    pos = (pack.pos[0][an][:, None] + torch.arange(B)).view(1, -1)
    mask = draft_mask(an[None], doc, doc[0][an][None], B, drafter.window)
    emb = target.model.embed_tokens(x).detach().view(1, A * B, H)
    fd = drafter(emb, tapped, pack.pos, pos, mask).view(A, B, H)[:, 1:]
    sel = good[:, 1:].reshape(-1).nonzero()[:, 0]
    h, y, prev = fd.reshape(-1, H)[sel], block[:, 1:].reshape(-1)[sel], block[:, :-1].reshape(-1)[sel]
    lg = target.head(h)
    place = torch.arange(B - 1).expand(A, -1).reshape(-1)[sel]
    wt = 0.9 ** place.float()
    ce = F.cross_entropy(lg, y, reduction="none")
    U, cand = lg.detach().topk(drafter.top_k)
    score = drafter.scores(h, lg.detach(), prev, cand)
    hit = (cand == y[:, None])
    has = hit.any(-1)
    se = F.cross_entropy(score[has], hit[has].float().argmax(-1), reduction="none")
    loss = loss + (ce * wt).sum() + (se * wt[has]).sum()
    right = torch.zeros(len(y))
    right[has] = (score[has].detach().argmax(-1) == hit[has].float().argmax(-1)).float()
    for i in range(B - 1):
        out["draft"].append((right[place == i].sum().item(), int((place == i).sum())))
    return loss, out


def worker(rank, sh, a):
    torch.set_num_threads(1)
    target = build_target(a.target)
    target.model.requires_grad_(False)
    heads = Heads(build_drafter(), target.mtp)
    sh.attach(heads, rank)
    data = Data(",".join(x for x in (a.data, a.more) if x), a.seed, a.keep)
    gen = torch.Generator().manual_seed(a.seed + rank)

    def begin(x, step, row0):
        return row0

    def work(i, row0, s):
        loss, out = losses(target, heads.drafter, data.row(row0 + i), a.anchors, 3 * ((row0 + i) % 2), gen)
        if loss.requires_grad:
            (loss / (a.rows * T)).backward()
        s[0] += loss.item()
        for j, (h, n) in enumerate((out["mtp"] or [(0, 0)] * 3) + out["draft"]):
            s[2 + 2 * j] += h
            s[3 + 2 * j] += n

    def report(s, steps):
        r = [f"{s[2 + 2 * j] / max(1.0, s[3 + 2 * j]):.3f}" for j in range(10)]
        return f"loss {s[0] / steps / a.rows / T:.4f} | mtp {' '.join(r[:3])} | draft {' '.join(r[3:])} | rows {len(data.rows)},"

    parallel.loop(rank, sh, a, begin, work, lambda name, task: True, report)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--target", required=True)
    ap.add_argument("--data", required=True)
    ap.add_argument("--more", default="", help="token files of the corpus to learn from besides, with commas")
    ap.add_argument("--keep", default="", help="as in train.py")
    ap.add_argument("--tokenizer")
    ap.add_argument("--self-minutes", type=float, default=4)
    ap.add_argument("--anchors", type=int, default=40)
    parallel.options(ap, minutes=15, decay=0.5, seed=2)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    if not os.path.exists(a.data):
        selfgen.collect(argparse.Namespace(target=a.target, tokenizer=a.tokenizer, out=a.data, minutes=a.self_minutes,
                                           workers=a.workers, batch=96, seed=5))
    heads = Heads(build_drafter(), build_target(a.target).mtp)
    parallel.launch(worker, parallel.ready(heads, a, "drafter."), a)


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
