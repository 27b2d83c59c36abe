"""Token files as packed rows."""
import random

import numpy as np
import torch

T = 512
EOT = 4000
PAD_DOC = 1 << 20


class Data:
    def __init__(self, paths, seed=0, keep="", longest=T):
        """keep: shares of classes to use, as "0=0.5,3=0.2" by class number; the others are used whole."""
        zs = [np.load(p) for p in paths.split(",")]
        self.ids, self.mask, self.cls = (np.concatenate([z[k] for z in zs]) for k in ("ids", "mask", "cls"))
        self.start = np.concatenate([[0]] + [np.diff(z["start"]) for z in zs]).cumsum()
        order = [i for i in range(len(self.start) - 1) if self.start[i + 1] - self.start[i] <= longest]
        share = {int(k): float(v) for k, v in (x.split("=") for x in keep.split(",") if x)}
        pick = random.Random(seed + 1)
        order = [i for i in order if pick.random() < share.get(int(self.cls[i]), 1.0)]
        random.Random(seed).shuffle(order)
        self.rows, open_rows = [], []
        for i in order:  # best fit among a few open rows
            n = int(self.start[i + 1] - self.start[i])
            fit = [r for r in open_rows if r[0] + n <= T]
            if fit:
                r = max(fit, key=lambda r: r[0])
            else:
                r = [0, []]
                open_rows.append(r)
                if len(open_rows) > 12:
                    full = max(open_rows, key=lambda r: r[0])
                    open_rows.remove(full)
                    self.rows.append(full[1])
            r[0] += n
            r[1].append(i)
        self.rows += [r[1] for r in open_rows]

    def row(self, k):
        """ids, doc, weight, class of row k (wraps around); each [1,T]."""
        ids = np.full(T, EOT, np.int64)
        doc = np.full(T, PAD_DOC, np.int64)
        w = np.zeros(T, np.float32)
        cls = np.zeros(T, np.int64)
        at = 0
        for j, e in enumerate(self.rows[k % len(self.rows)]):
            a, b = int(self.start[e]), int(self.start[e + 1])
            n = b - a
            ids[at:at + n] = self.ids[a:b]
            doc[at:at + n] = j
            w[at:at + n] = self.mask[a:b]
            cls[at:at + n] = self.cls[e]
            at += n
        if at < T:
            doc[at:] = PAD_DOC + np.arange(T - at) // 64
        return tuple(torch.from_numpy(x)[None] for x in (ids, doc, w, cls))
