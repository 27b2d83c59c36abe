"""Trains the target and its MTP head.

    python train.py --data FILE.npz --out CHECKPOINT --minutes 70

The same command resumes from CHECKPOINT. The schedule follows the minutes used, not the steps, because the speed
of a shared machine varies: warm up, hold, and decay over the last 40 %. The MTP head joins at --mtp-at of the budget
with depth 1 and is trained three deep from --deep-at on.
"""
import argparse
import os
import time

import torch
import torch.nn.functional as F
import torch.multiprocessing as mp
from safetensors.torch import load_file

import parallel
from corpus import MIX
from data import PAD_DOC, Data, T
from model import Config, Pack, Target

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES = [c for c, _ in MIX]


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
    f = model(ids, pack)
    H = f.shape[-1]

    def ce(h, s, least=0.0):
        same = (shift(doc, s, -1) == doc)
        wt = shift(w, s) * same
        wt = wt * (wt >= least)
        sel = wt.view(-1).nonzero()[:, 0]
        lg = model.head(h.reshape(-1, H)[sel])
        y = shift(ids, s).view(-1)[sel]
        l = F.cross_entropy(lg, y, reduction="none")
        return l, wt.view(-1)[sel], sel, lg, y
    l, wt, sel, lg, y = ce(f, 1)
    main = (l * wt).sum()
    with torch.no_grad():
        told = wt >= 1
        c, l = cls.view(-1)[sel][told], l[told]
        per = torch.zeros(len(CLASSES)).index_add_(0, c, l.detach())
        cnt = torch.zeros(len(CLASSES)).index_add_(0, c, torch.ones_like(l))
    extra, hits = 0.0, []
    if depth:
        for s, h in enumerate(model.draft(f, ids, pack, depth), 1):
            l, wt, sel, lg, y = ce(h, s + 1, 1.0)
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
    st = a.state
    step, used, row0 = st["step"], st["used"], st["row"]
    budget = a.minutes * 60
    log = open(a.out + ".log", "a") if rank == 0 else None
    t_saved = t0 = time.time()
    acc = torch.zeros(64)
    seen = 0
    while used < budget:
        x = used / budget
        depth = 0 if x < a.mtp_at else 1 if x < a.deep_at else 3
        if rank == 0:
            sh.next.value = 0
            sh.G.zero_()
        sh.stats[rank].zero_()
        sh.barrier.wait()
        rows = [weigh(data.row(row0 + i), a.prompt_weight) for i in range(a.rows)]
        total = sum(float(r[2].sum()) for r in rows)
        s = sh.stats[rank]
        for i in parallel.take(sh, a.rows):
            main, extra, per, cnt, hits = losses(model, rows[i], depth)
            ((main + a.mtp_weight * extra) / total).backward()
            n = len(CLASSES)
            s[:n] += per
            s[n:2 * n] += cnt
            for d, (h, k) in enumerate(hits):
                s[50 + d] += h
                s[54 + d] += k
        sh.barrier.wait()
        lr = parallel.wsd(x, decay=a.decay) * a.lr
        sh.update(rank, step, lr, lambda n: depth > 0 or not n.startswith("mtp."), 0.1)
        if rank == 0:
            acc += sh.stats.sum(0)
            sh.stats[0, 63] = time.time() - t0
        sh.barrier.wait()
        used = st["used"] + float(sh.stats[0, 63])
        step += 1
        row0 += a.rows
        seen += a.rows * T
        if rank == 0 and step % a.every == 0:
            n = len(CLASSES)
            per = " ".join(f"{c[:5]} {acc[i] / acc[n + i]:.3f}" for i, c in enumerate(CLASSES) if acc[n + i] > 0)
            hit = " ".join(f"d{d + 1} {acc[50 + d] / acc[54 + d]:.3f}" for d in range(3) if acc[54 + d] > 0)
            log.write(f"step {step} min {used / 60:.1f}/{a.minutes:g} lr {lr:.3f} loss {acc[:n].sum() / acc[n:2 * n].sum():.4f} "
                      f"| {per} | mtp {hit or '-'} | {seen / (time.time() - t0):.0f} tok/s epoch {row0 / len(data.rows):.2f}\n")
            log.flush()
            acc.zero_()
        if rank == 0 and (time.time() - t_saved > 180 or used >= budget):
            t_saved = time.time()
            parallel.save(a.out, dict(sh.state(), step=step, used=used, row=row0))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", required=True, help="token files, with commas")
    ap.add_argument("--out", required=True)
    ap.add_argument("--init", help="an exported folder to go on from, with fresh optimiser state")
    ap.add_argument("--config", default=os.path.join(HERE, "target.json"))
    ap.add_argument("--minutes", type=float, default=70)
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--rows", type=int, default=6)
    ap.add_argument("--lr", type=float, default=1.0)
    ap.add_argument("--decay", type=float, default=0.4)
    ap.add_argument("--mtp-at", type=float, default=0.5)
    ap.add_argument("--deep-at", type=float, default=0.8)
    ap.add_argument("--mtp-weight", type=float, default=0.3)
    ap.add_argument("--keep", default="", help="share of the examples of a class to use, as 0=0.5,3=0.2 by class number")
    ap.add_argument("--longest", type=int, default=T, help="leave out examples of more tokens")
    ap.add_argument("--prompt-weight", type=float, default=0.3)
    ap.add_argument("--every", type=int, default=20)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    model = Target(Config.load(a.config))
    print("parameters:", sum(p.numel() for p in model.parameters()))
    if a.init and not os.path.exists(a.out):
        t = load_file(os.path.join(a.init, "model.safetensors"))
        model.load_state_dict({n: x.float() for n, x in t.items()})
    sh = parallel.Shared(model, a.workers)
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
