"""Token-by-token decoding of many sequences at once, in plain PyTorch, and the measures of drafting quality.

Every sequence starts at position 0 and advances by one token per step: prompt tokens first, drawn tokens after them.
So sequences of different lengths need no padding.
"""
import torch
import torch.nn.functional as F

from model import Pack, rope


class State:
    """Recurrent, convolution and KV state of n sequences."""

    def __init__(self, model, n, room):
        c = model.c
        self.model, self.n, self.room, self.pos = model, n, room, 0
        self.layers = []
        for k in c.kinds:
            if k == "full_attention":
                self.layers.append([torch.zeros(n, c.nkv, room, c.hd), torch.zeros(n, c.nkv, room, c.hd)])
            else:
                self.layers.append([torch.zeros(n, c.taps - 1, 2 * c.nk * c.dk + c.nv * c.dv), torch.zeros(n, c.nv, c.dk, c.dv)])

    def keep(self, rows):
        """Drop sequences."""
        self.n = len(rows)
        self.layers = [[t[rows] for t in s] for s in self.layers]

    def step(self, ids):
        """One token per sequence -> hidden after the final norm [n,H]."""
        m, c = self.model, self.model.c
        h = m.model.embed_tokens(ids)
        for layer, s in zip(m.model.layers, self.layers):
            x = layer.input_layernorm(h)
            h = h + (self.attend(layer.self_attn, x, s) if layer.full else self.delta(layer.linear_attn, x, s))
            h = h + layer.mlp(layer.post_attention_layernorm(h))
        self.pos += 1
        return m.model.norm(h)

    def attend(self, a, x, s):
        c, n, p = self.model.c, self.n, self.pos
        pos = torch.full((n, 1), p)
        qg = a.q_proj(x).view(n, 1, c.nq, 2 * c.hd)
        q = rope(a.q_norm(qg[..., :c.hd]), pos, c.rot, c.theta)[:, 0]
        k, v = a.keys(x[:, None], pos)
        s[0][:, :, p], s[1][:, :, p] = k[:, :, 0], v[:, :, 0]
        K, V = s[0][:, :, :p + 1], s[1][:, :, :p + 1]
        q = q.view(n, c.nkv, c.nq // c.nkv, c.hd)
        w = torch.softmax(q @ K.transpose(-1, -2) * c.hd ** -0.5, -1)
        o = (w @ V).reshape(n, -1)
        return a.o_proj(o * torch.sigmoid(qg[..., c.hd:].reshape(n, -1)))

    def delta(self, a, x, s):
        c, n = self.model.c, self.n
        u = torch.cat([s[0], a.in_proj_qkv(x)[:, None]], 1)
        s[0] = u[:, 1:]
        y = F.silu((u * a.conv1d.weight[:, 0].T).sum(1))
        q, k, v = y.split([c.nk * c.dk, c.nk * c.dk, c.nv * c.dv], -1)
        q, k, v = q.view(n, c.nk, c.dk), k.view(n, c.nk, c.dk), v.view(n, c.nv, c.dv)
        q = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + 1e-6) * c.dk ** -0.5
        k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + 1e-6)
        r = c.nv // c.nk
        q, k = q.repeat_interleave(r, 1), k.repeat_interleave(r, 1)
        beta = torch.sigmoid(a.in_proj_b(x))
        g = torch.exp(-a.A_log.exp() * F.softplus(a.in_proj_a(x) + a.dt_bias))
        S = s[1] * g[..., None, None]
        d = beta[..., None] * (v - (k[:, :, None] @ S)[:, :, 0])
        S = S + k[..., None] * d[:, :, None]
        s[1] = S
        o = (q[:, :, None] @ S)[:, :, 0]
        return a.out_proj(a.norm(o, a.in_proj_z(x).view(n, c.nv, c.dv)).reshape(n, -1))


@torch.no_grad()
def generate(model, prompts, stop, limit, real_vocab, temperature=0.0, top_k=20, seed=0, longest=0):
    """Continuations of token-id prompts, each without the prompt and with its stop token if it came."""
    gen = torch.Generator().manual_seed(seed)
    n = len(prompts)
    length = [len(p) for p in prompts]
    room = max(length) + limit
    seqs = [list(p) for p in prompts]
    state = State(model, n, room)
    live = list(range(n))
    for t in range(room - 1):
        x = torch.tensor([seqs[i][t] for i in live])
        f = state.step(x)
        need = [j for j, i in enumerate(live) if len(seqs[i]) == t + 1]
        drop = set()
        if need:
            lg = model.head(f[need])[:, :real_vocab]
            if temperature:
                v, ix = (lg / temperature).topk(top_k)
                pick = ix.gather(1, torch.multinomial(torch.softmax(v, -1), 1, generator=gen))[:, 0]
            else:
                pick = lg.argmax(-1)
            for j, tok in zip(need, pick.tolist()):
                i = live[j]
                seqs[i].append(tok)
                if tok in stop or len(seqs[i]) - length[i] >= limit:
                    drop.add(j)
        if drop:
            rows = [j for j in range(len(live)) if j not in drop]
            if not rows:
                break
            state.keep(rows)
            live = [live[j] for j in rows]
    return [s[k:] for s, k in zip(seqs, length)]


@torch.no_grad()
def mtp_hits(model, prompt, cont, depth, real_vocab):
    """For every position of the continuation from which `depth` drafts have known answers: how many of the first
    drafts agree, as a list. The continuation must be what the target would say."""
    ids = torch.tensor([prompt + cont])
    pack = Pack(torch.zeros_like(ids), model.c.taps)
    f = model(ids, pack)
    ys = model.draft(f, ids, pack, depth)
    draft = [model.head(y[0])[:, :real_vocab].argmax(-1) for y in ys]
    out = []
    n, p = ids.shape[1], len(prompt)
    # Row i has token i+1 as its newest: the first draft is for i+2. The newest token is part of the continuation.
    for i in range(p - 1, n - 1):
        k = 0
        while k < depth and i + 2 + k < n and draft[k][i] == ids[0, i + 2 + k]:
            k += 1
        if i + 1 + depth < n:
            out.append(k)
    return out


@torch.no_grad()
def dflash_drafts(model, drafter, ids, anchors, real_vocab):
    """The drafted block after each anchor position of one sequence, all anchors at once [A][block-1]."""
    B = drafter.block
    x = torch.tensor([ids])
    _, tapped = model(x, Pack(torch.zeros_like(x), model.c.taps), drafter.taps)
    T, A = len(ids), len(anchors)
    block = torch.full((A, B), drafter.mask_id)
    block[:, 0] = x[0, anchors]
    an = torch.tensor(anchors)
    pos = (an[:, None] + torch.arange(B)).view(1, -1)
    mask = draft_mask(an[None], torch.zeros_like(x), torch.zeros(1, A, dtype=torch.long), B, drafter.window)
    f = drafter(model.model.embed_tokens(block).view(1, A * B, -1), tapped, torch.arange(T)[None], pos, mask)
    f = f.view(A, B, -1)[:, 1:]
    lg = model.head(f)[..., :real_vocab]
    U, cand = lg.topk(drafter.top_k)
    prev = x[0, anchors]
    out = []
    for i in range(B - 1):
        s = drafter.scores(f[:, i], lg[:, i], prev, cand[:, i])
        prev = cand[:, i].gather(-1, s.argmax(-1, keepdim=True))[:, 0]
        out.append(prev)
    return torch.stack(out, 1).tolist()


def draft_mask(anchor, doc, adoc, block, window):
    """[B,1,A*block,T+A*block]: a block sees the tokens before its anchor in the same document, and itself. Returned
    per kind of layer: full, and sliding with keys newer than position - window."""
    Bn, T = doc.shape
    A = anchor.shape[1]
    u = torch.arange(T)
    q = (anchor[:, :, None] + torch.arange(block)).view(Bn, -1)
    ctx = (u[None, None] < anchor.repeat_interleave(block, 1)[..., None]) & (doc[:, None] == adoc.repeat_interleave(block, 1)[..., None])
    own = torch.arange(A).repeat_interleave(block)
    own = (own[:, None] == own[None]).expand(Bn, -1, -1)
    full = torch.cat([ctx, own], -1)[:, None]
    near = (u[None, None] > (q - window)[..., None]) & ctx
    return {"full_attention": full, "sliding_attention": torch.cat([near, own], -1)[:, None]}


@torch.no_grad()
def dflash_rounds(model, drafter, prompt, cont, real_vocab):
    """Drafts accepted in each round while the continuation is produced with the drafter."""
    ids = prompt + cont
    p, n = len(prompt), len(ids)
    anchors = list(range(p, n - 1))
    if not anchors:
        return []
    drafts = dict(zip(anchors, dflash_drafts(model, drafter, ids, anchors, real_vocab)))
    out, s = [], p
    while s < n - 1:
        k = 0
        while k < drafter.block - 1 and s + 1 + k < n and drafts[s][k] == ids[s + 1 + k]:
            k += 1
        if s + drafter.block <= n:  # rounds cut short by the end say nothing
            out.append(k)
        s += k + 1
    return out
