"""Trains the target and its MTP head.

    python train.py --data FILE.npz --out CHECKPOINT --minutes 70 --seed 1

The same command goes on from CHECKPOINT. The schedule follows the minutes used, not the steps, because the speed of a
shared machine varies: warm up, hold, and decay over the last --decay. Only what the model is to say is learned, unless
--prompt-weight says otherwise, and the last layer is computed only where something is learned. The MTP head joins at
--mtp-at of the budget, in one row of every few steps; from --deep-at on it is trained three deep.
"""
import argparse
import os

import torch
import torch.nn.functional as F
import torch.multiprocessing as mp

import parallel
from corpus import CLASSES
from data import PAD_DOC, Data, T
from model import Config, Pack, Target

HERE = os.path.dirname(os.path.abspath(__file__))


def shift(x, s, fill=0):
    return F.pad(x[:, s:], (0, s), value=fill)


def weigh(row, prompt):
    """Give the tokens that are not learned a small weight: there is much to copy and to expect in prompts too."""
    ids, doc, w, cls = row
    return ids, doc, torch.where((w == 0) & (doc < PAD_DOC), prompt, w), cls


def losses(model, row, depth):
    """Weighted sum of the main loss, of the MTP losses, and per-class sums for the log."""
    ids, doc, w, cls = row
    pack = Pack(doc, model.c.taps)

    def told_at(s, least=0.0):
        """Rows whose token s ahead is learned, and its weight."""
        wt = shift(w, s) * (shift(doc, s, -1) == doc)
        sel = (wt * (wt >= least)).view(-1).nonzero()[:, 0]
        return sel, wt.view(-1)[sel]

    def ce(h, s, sel):
        lg, y = model.head(h), shift(ids, s).view(-1)[sel]
        return F.cross_entropy(lg, y, reduction="none"), lg, y
    sel, wt = told_at(1)
    f = model(ids, pack, rows=None if depth else sel)
    l, lg, y = ce(f[0, sel] if depth else f[0], 1, sel)
    main = (l * wt).sum()
    with torch.no_grad():
        told = wt >= 1
        c, l = cls.view(-1)[sel][told], l[told]
        per = torch.zeros(len(CLASSES)).index_add_(0, c, l.detach())
        cnt = torch.zeros(len(CLASSES)).index_add_(0, c, torch.ones_like(l))
    extra, hits = 0.0, []
    if depth:
        for s, h in enumerate(model.draft(f, ids, pack, depth), 1):
            sel, wt = told_at(s + 1, 1.0)
            l, lg, y = ce(h[0, sel], s + 1, sel)
            extra = extra + (l * wt).sum()
            hits.append(((lg.detach().argmax(-1) == y).float().sum(), float(len(y))))
        extra = extra / depth
    return main, extra, per, cnt, hits


def worker(rank, sh, a):
    torch.set_num_threads(1)
    torch.manual_seed(a.seed)
    model = Target(Config.load(a.config))
    sh.attach(model, rank)
    data = Data(a.data, a.seed, a.keep, a.longest)
    n = len(CLASSES)

    def begin(x, step, row0):
        deep = 0 if x < a.mtp_at or step % a.mtp_every else 1 if x < a.deep_at else 3
        rows = [weigh(data.row(row0 + i), a.prompt_weight) for i in range(a.rows)]
        return rows, sum(float(r[2].sum()) for r in rows), deep

    def work(i, task, s):
        rows, total, deep = task
        main, extra, per, cnt, hits = losses(model, rows[i], 0 if i else deep)
        ((main + a.mtp_weight * extra) / total).backward()
        s[:n] += per
        s[n:2 * n] += cnt
        for d, (h, k) in enumerate(hits):
            s[50 + d] += h
            s[54 + d] += k

    def report(s, steps):
        per = " ".join(f"{c[:5]} {s[i] / s[n + i]:.3f}" for i, c in enumerate(CLASSES) if s[n + i] > 0)
        hit = " ".join(f"{s[50 + d] / s[54 + d]:.3f}" for d in range(3) if s[54 + d] > 0)
        return f"loss {s[:n].sum() / s[n:2 * n].sum():.4f} | {per} | mtp {hit or '-'} |"

    parallel.loop(rank, sh, a, begin, work, lambda name, task: task[2] > 0 or not name.startswith("mtp."), report)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", required=True, help="token files, with commas")
    ap.add_argument("--config", default=os.path.join(HERE, "target.json"))
    parallel.options(ap, minutes=70, decay=0.55, seed=1)
    ap.add_argument("--mtp-at", type=float, default=0.5)
    ap.add_argument("--mtp-every", type=int, default=3, help="the first row of every so many steps trains the MTP head, too")
    ap.add_argument("--deep-at", type=float, default=0.8)
    ap.add_argument("--mtp-weight", type=float, default=0.3)
    ap.add_argument("--keep", default="", help="share of the examples of a class to use, as 0=0.5,3=0.2 by class number")
    ap.add_argument("--longest", type=int, default=T, help="leave out examples of more tokens")
    ap.add_argument("--prompt-weight", type=float, default=0.0)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    model = Target(Config.load(a.config))
    print("parameters:", sum(p.numel() for p in model.parameters()))
    parallel.launch(worker, parallel.ready(model, a), a)


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
