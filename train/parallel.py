"""Data-parallel training on the cores of one machine.

Each worker is one process with one thread. The parameters live in shared memory, every worker has a gradient
buffer, and the micro-batches of a step are taken from a common counter, so a core that is busy with something else
simply does less. Each worker updates its share of the parameters with the sum of all gradients: AdamW for vectors,
embeddings and codebooks; Muon (Newton-Schulz orthogonalised momentum) for the matrices of the layers.
"""
import math
import os
import time

import torch
import torch.multiprocessing as mp
from safetensors.torch import load_file

# Coefficients of "Polar Express" (Amsel and others, 2025), four steps.
NS = [(8.28721201814563, -23.595886519098837, 17.300387312530933), (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
      (3.9486908534822946, -2.908902115962949, 0.5518191394370137), (3.3184196573706015, -2.488488024314874, 0.51004894012372)]


def orthogonal(X):
    flip = X.shape[0] > X.shape[1]
    if flip:
        X = X.T
    X = X / (X.norm() * 1.02 + 1e-7)
    for a, b, c in NS:
        A = X @ X.T
        X = torch.addmm(X, torch.addmm(A, A, A, beta=b, alpha=c), X, beta=a)
    return X.T if flip else X


def is_matrix(name, p):
    return p.dim() == 2 and not any(s in name for s in ("embed", "codebook", "in_proj_a", "in_proj_b", "kernel_projection"))


def rates(name):
    """Learning rate of AdamW, and the factor of Muon's step, for a parameter.

    The embedding is tied to the head, and must still be heard in the residual stream that the layers write to: copying
    a word means finding it there. So it is large (rms about 0.5, the final norm makes up for it), and the matrices
    that write to the stream move slowly, else their sum drowns it.
    """
    writer = name.endswith(("out_proj.weight", "o_proj.weight", "down_proj.weight"))
    adam = 0.03 if "embed" in name else 0.0004 if name in FINAL else 0.004 if "codebook" in name else 0.003
    return adam, 0.25 if writer else 1.0


SAVE = 150  # seconds between checkpoints
FINAL = ("model.norm.weight", "mtp.norm.weight", "drafter.norm.weight")


class Shared:
    """The tensors all workers see."""

    def __init__(self, model, workers):
        self.names = [n for n, p in model.named_parameters()]
        sizes = [p.numel() for p in model.parameters()]
        self.sizes, total = sizes, sum(sizes)
        self.P = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).share_memory_()
        self.G = torch.zeros(workers, total).share_memory_()
        self.M1 = torch.zeros(total).share_memory_()
        self.M2 = torch.zeros(total).share_memory_()
        self.live = torch.zeros(len(sizes), dtype=torch.int32).share_memory_()
        self.stats = torch.zeros(workers, 64).share_memory_()
        self.next = mp.Value("i", 0)
        self.barrier = mp.Barrier(workers)
        self.workers = workers

    def attach(self, model, rank):
        """Let the model's parameters and gradients be views of the shared buffers."""
        at, self.items, load = 0, [], [0.0] * self.workers
        for i, (n, p) in enumerate(model.named_parameters()):
            k = p.numel()
            p.data = self.P[at:at + k].view_as(p)
            p.grad = self.G[rank, at:at + k].view_as(p)
            cost = k * (60 if is_matrix(n, p) else 1)
            self.items.append([i, n, at, k, p.shape, cost])
            at += k
        for it in sorted(self.items, key=lambda it: -it[5]):
            w = min(range(self.workers), key=lambda w: load[w])
            load[w] += it[5]
            it.append(w)

    def update(self, rank, step, lr, active, decay=0.0):
        """One optimiser step on the parameters of this rank. `active(name)` says which take part; self.live counts
        the steps each has had."""
        for i, n, at, k, shape, _, owner in self.items:
            if owner != rank or not active(n):
                continue
            g = self.G[:, at:at + k].sum(0)
            p, m, v = self.P[at:at + k], self.M1[at:at + k], self.M2[at:at + k]
            self.live[i] += 1
            base, factor = rates(n)
            t = int(self.live[i])
            if len(shape) == 2 and is_matrix(n, torch.empty(shape, device="meta")):
                m.mul_(0.95).add_(g, alpha=0.05)
                u = orthogonal((g * 0.05 + m * 0.95).view(shape))
                scale = lr * factor * 0.02 * math.sqrt(max(1.0, shape[0] / shape[1]))
                if decay:
                    p.mul_(1 - lr * factor * 0.02 * decay)
                p.add_(u.reshape(-1), alpha=-scale)
            else:
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.98).addcmul_(g, g, value=0.02)
                mh, vh = m / (1 - 0.9 ** t), v / (1 - 0.98 ** t)
                p.addcdiv_(mh, vh.sqrt().add_(1e-8), value=-lr * base)

    def state(self):
        return {"P": self.P, "M1": self.M1, "M2": self.M2, "live": self.live, "names": self.names, "sizes": self.sizes}

    def load(self, d):
        assert d["names"] == self.names, "the checkpoint is of another model"
        for k in ("P", "M1", "M2", "live"):
            getattr(self, k).copy_(d[k])


def take(shared, n):
    """Micro-batch numbers of this step, one at a time."""
    while True:
        with shared.next.get_lock():
            i = shared.next.value
            shared.next.value += 1
        if i >= n:
            return
        yield i


def save(path, obj):
    torch.save(obj, path + ".tmp")
    os.replace(path + ".tmp", path)


def wsd(x, warm=0.01, decay=0.4):
    """Warm up, hold, decay to 2 %; x is the share of the budget that is used."""
    if x < warm:
        return max(x / warm, 0.02)
    if x < 1 - decay:
        return 1.0
    return max(0.02, (1 - x) / decay)


def options(ap, **defaults):
    """The options that every training program has."""
    ap.add_argument("--out", required=True, help="the checkpoint; the same command goes on from it")
    ap.add_argument("--init", help="what to go on from when there is no checkpoint yet, with a new clock: a checkpoint, "
                    "with its optimiser state, or an exported folder")
    ap.add_argument("--minutes", type=float)
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--rows", type=int, default=6, help="rows of a step")
    ap.add_argument("--lr", type=float, default=1.0)
    ap.add_argument("--decay", type=float, help="share of the minutes in which the rate falls")
    ap.add_argument("--every", type=int, default=20, help="steps between lines of the log")
    ap.add_argument("--seed", type=int)
    ap.set_defaults(**defaults)


def ready(model, a, part=""):
    """The shared tensors, with what --init or the checkpoint has; a.state says where it stopped. part: the prefix in
    the model of the names of an exported folder."""
    a.state = {"step": 0, "used": 0.0, "row": 0}
    fresh = a.init and not os.path.exists(a.out)
    if fresh and os.path.isdir(a.init):
        own = model.state_dict()
        own.update((part + n, x.float()) for n, x in load_file(os.path.join(a.init, "model.safetensors")).items())
        model.load_state_dict(own)
    sh = Shared(model, a.workers)
    if fresh and not os.path.isdir(a.init):
        sh.load(torch.load(a.init))
    if os.path.exists(a.out):
        d = torch.load(a.out)
        sh.load(d)
        a.state = {k: d[k] for k in a.state}
        print("resuming at step", d["step"], flush=True)
    return sh


def loop(rank, sh, a, begin, work, active, report):
    """Steps until the minutes are used; each worker runs this.

    begin(x, step, row0): what the micro-batches of a step need, x being the share of the budget that is used.
    work(i, task, stats): forward and backward of micro-batch i; adds its counts to stats.
    active(name, task): whether the parameter takes part. report(sums, steps): the middle of a line of the log.
    """
    step, used, row0 = (a.state[k] for k in ("step", "used", "row"))
    budget = a.minutes * 60
    log = open(a.out + ".log", "a") if rank == 0 else None
    t_saved = t0 = time.time()
    acc = torch.zeros(64)
    while used < budget:
        x = used / budget
        if rank == 0:
            sh.next.value = 0
            sh.G.zero_()
        sh.stats[rank].zero_()
        sh.barrier.wait()
        task = begin(x, step, row0)
        for i in take(sh, a.rows):
            work(i, task, sh.stats[rank])
        sh.barrier.wait()
        lr = wsd(x, decay=a.decay) * a.lr
        sh.update(rank, step, lr, lambda n: active(n, task), 0.1)
        if rank == 0:
            acc += sh.stats.sum(0)
            sh.stats[0, 63] = time.time() - t0
        sh.barrier.wait()
        used = a.state["used"] + float(sh.stats[0, 63])
        step += 1
        row0 += a.rows
        if rank == 0 and step % a.every == 0:
            log.write(f"step {step} min {used / 60:.1f}/{a.minutes:g} lr {lr:.3f} {report(acc, a.every)} row {row0}\n")
            log.flush()
            acc.zero_()
        if rank == 0 and (time.time() - t_saved > SAVE or used >= budget):
            t_saved = time.time()
            save(a.out, dict(sh.state(), step=step, used=used, row=row0))


def launch(fn, shared, args):
    ps = [mp.Process(target=fn, args=(r, shared, args)) for r in range(args.workers)]
    for p in ps:
        p.start()
    for p in ps:
        p.join()
    bad = [p.exitcode for p in ps if p.exitcode]
    if bad:
        raise SystemExit(f"a worker ended with {bad[0]}")
