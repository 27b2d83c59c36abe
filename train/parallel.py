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


def launch(fn, shared, args, workers):
    ps = [mp.Process(target=fn, args=(r, shared, args)) for r in range(workers)]
    for p in ps:
        p.start()
    for p in ps:
        p.join()
    bad = [p.exitcode for p in ps if p.exitcode]
    if bad:
        raise SystemExit(f"a worker ended with {bad[0]}")
