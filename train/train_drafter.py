"""Trains the DFlash 2 drafter, and the MTP head further, on the frozen target's own text.

    python train_drafter.py --target T.pt --tokenizer tokenizer.json --data SELF.npz --out CHECKPOINT --minutes 15

If SELF.npz does not exist the target first writes it (selfgen.py). Resumes like train.py. The drafter learns by cross-entropy on blocks at random anchors, its selector by cross-entropy
over the candidates; the MTP head by cross-entropy three deep.
"""
import argparse
import json
import os
import time

import torch
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file

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
    data = Data(a.data, a.seed)
    gen = torch.Generator().manual_seed(a.seed + rank)
    st = a.state
    step, used, row0 = st["step"], st["used"], st["row"]
    budget = a.minutes * 60
    log = open(a.out + ".log", "a") if rank == 0 else None
    t0 = t_saved = time.time()
    acc = torch.zeros(64)
    while used < budget:
        if rank == 0:
            sh.next.value = 0
            sh.G.zero_()
        sh.stats[rank].zero_()
        sh.barrier.wait()
        s = sh.stats[rank]
        for i in parallel.take(sh, a.rows):
            loss, out = losses(target, heads.drafter, data.row(row0 + i), a.anchors, 3 * ((row0 + i) % 2), gen)
            if loss.requires_grad:
                (loss / (a.rows * T)).backward()
            s[0] += loss.item()
            for j, (h, n) in enumerate((out["mtp"] or [(0, 0)] * 3) + out["draft"]):
                s[2 + 2 * j] += h
                s[3 + 2 * j] += n
        sh.barrier.wait()
        lr = parallel.wsd(used / budget, decay=0.5) * a.lr
        sh.update(rank, step, lr, lambda n: True, 0.1)
        if rank == 0:
            acc += sh.stats.sum(0)
            sh.stats[0, 63] = time.time() - t0
        sh.barrier.wait()
        used = st["used"] + float(sh.stats[0, 63])
        step += 1
        row0 += a.rows
        if rank == 0 and step % a.every == 0:
            r = [acc[2 + 2 * j] / max(1.0, acc[3 + 2 * j]) for j in range(10)]
            log.write(f"step {step} min {used / 60:.1f}/{a.minutes:g} lr {lr:.3f} loss {acc[0] / a.every / a.rows / T:.4f} | mtp "
                      + " ".join(f"{x:.3f}" for x in r[:3]) + " | draft " + " ".join(f"{x:.3f}" for x in r[3:]) + f" | epoch {row0 / len(data.rows):.2f}\n")
            log.flush()
            acc.zero_()
        if rank == 0 and (time.time() - t_saved > 120 or used >= budget):
            t_saved = time.time()
            parallel.save(a.out, dict(sh.state(), step=step, used=used, row=row0))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--target", required=True)
    ap.add_argument("--data", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--tokenizer")
    ap.add_argument("--self-minutes", type=float, default=4)
    ap.add_argument("--init", help="an exported drafter folder to go on from")
    ap.add_argument("--minutes", type=float, default=15)
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--rows", type=int, default=6)
    ap.add_argument("--anchors", type=int, default=40)
    ap.add_argument("--lr", type=float, default=1.0)
    ap.add_argument("--every", type=int, default=20)
    ap.add_argument("--seed", type=int, default=2)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    if not os.path.exists(a.data):
        selfgen.collect(argparse.Namespace(target=a.target, tokenizer=a.tokenizer, out=a.data, minutes=a.self_minutes,
                                           workers=a.workers, batch=96, seed=5))
    heads = Heads(build_drafter(), build_target(a.target).mtp)
    if a.init and not os.path.exists(a.out):
        t = load_file(os.path.join(a.init, "model.safetensors"))
        heads.drafter.load_state_dict({n: x.float() for n, x in t.items()})
    sh = parallel.Shared(heads, a.workers)
    a.state = {"step": 0, "used": 0.0, "row": 0}
    if os.path.exists(a.out):
        d = torch.load(a.out)
        sh.load(d)
        a.state = {k: d[k] for k in a.state}
        print("resuming at step", d["step"])
    parallel.launch(worker, sh, a, a.workers)


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
