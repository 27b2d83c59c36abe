"""The embedded model in PyTorch: qwen3_5 target, MTP head, DFlash 2 drafter.

Written for training, so sequences are whole and packed: several documents may share a row, and `doc`
(an integer per token) keeps them apart in the attention, in the convolution and in the recurrent state.
Parameter names are those of the checkpoint, so that exporting is a copy.

The DeltaNet runs in chunked form here; `delta_recurrent` is the plain form and `test_model.py` compares them.
"""
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

CHUNK = 32
EMBED = 0.4  # a large embedding stays audible in the residual stream;
FINAL = 0.125  # the final norm brings the tied head's logits back to size
RESET = -60.0  # log decay at the first token of a document: e^-60 forgets everything, and stays finite


class Config:
    """The text fields of config.json that the model needs."""

    def __init__(self, d):
        self.d = d
        self.vocab = d["vocab_size"]
        self.H = d["hidden_size"]
        self.I = d["intermediate_size"]
        self.L = d["num_hidden_layers"]
        self.nq = d["num_attention_heads"]
        self.nkv = d["num_key_value_heads"]
        self.hd = d["head_dim"]
        self.nk = d["linear_num_key_heads"]
        self.nv = d["linear_num_value_heads"]
        self.dk = d["linear_key_head_dim"]
        self.dv = d["linear_value_head_dim"]
        self.taps = d["linear_conv_kernel_dim"]
        self.eps = d["rms_norm_eps"]
        rope = d["rope_parameters"]
        self.theta = rope["rope_theta"]
        self.rot = int(self.hd * rope["partial_rotary_factor"])
        self.kinds = d["layer_types"]

    @staticmethod
    def load(path):
        with open(path) as f:
            return Config(json.load(f))


class Norm(nn.Module):
    """RMSNorm; zero-centred in the target, plain in the drafter."""

    def __init__(self, n, eps, plain=False):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n) if plain else torch.zeros(n))
        self.n, self.eps, self.plain = (n,), eps, plain

    def forward(self, x):
        return F.rms_norm(x, self.n, self.weight if self.plain else 1 + self.weight, self.eps)


def linear(n_in, n_out, gain=1.0):
    m = nn.Linear(n_in, n_out, bias=False)
    nn.init.normal_(m.weight, std=gain / math.sqrt(n_in))
    return m


def rope(x, pos, rot, theta):
    """x [B,T,h,d]; the first `rot` channels rotate, halves paired."""
    inv = theta ** (-torch.arange(0, rot, 2, dtype=torch.float32) / rot)
    ang = pos[..., None].float() * inv
    c, s = ang.cos()[:, :, None], ang.sin()[:, :, None]
    half = rot // 2
    a, b = x[..., :half], x[..., half:rot]
    return torch.cat([a * c - b * s, b * c + a * s, x[..., rot:]], -1)


class MLP(nn.Module):
    def __init__(self, H, I, gain):
        super().__init__()
        self.gate_proj = linear(H, I)
        self.up_proj = linear(H, I)
        self.down_proj = linear(I, H, gain)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Attention(nn.Module):
    """Gated attention. `kv` lets a caller supply more keys than its own (chained MTP rows)."""

    def __init__(self, c, gain):
        super().__init__()
        self.c = c
        self.q_proj = linear(c.H, c.nq * c.hd * 2)
        self.k_proj = linear(c.H, c.nkv * c.hd)
        self.v_proj = linear(c.H, c.nkv * c.hd)
        self.o_proj = linear(c.nq * c.hd, c.H, gain)
        self.q_norm = Norm(c.hd, c.eps)
        self.k_norm = Norm(c.hd, c.eps)

    def keys(self, x, pos):
        c = self.c
        B, T, _ = x.shape
        k = rope(self.k_norm(self.k_proj(x).view(B, T, c.nkv, c.hd)), pos, c.rot, c.theta)
        return k.transpose(1, 2), self.v_proj(x).view(B, T, c.nkv, c.hd).transpose(1, 2)

    def forward(self, x, pos, mask, kv=None, rows=None):
        c = self.c
        kv = self.keys(x, pos) if kv is None else kv
        if rows is not None:
            x, pos, mask = x[:, rows], pos[:, rows], mask[:, :, rows]
        B, T, _ = x.shape
        qg = self.q_proj(x).view(B, T, c.nq, 2 * c.hd)
        q, gate = qg[..., :c.hd], qg[..., c.hd:].reshape(B, T, -1)
        q = rope(self.q_norm(q), pos, c.rot, c.theta).transpose(1, 2)
        k, v = kv
        r = c.nq // c.nkv
        k, v = k.repeat_interleave(r, 1), v.repeat_interleave(r, 1)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(a.transpose(1, 2).reshape(B, T, -1) * torch.sigmoid(gate))


def delta_recurrent(q, k, v, beta, g):
    """One token after the other; q, k [B,T,h,dk], v [B,T,h,dv], beta, g [B,T,h]."""
    B, T, h, dk = q.shape
    S = q.new_zeros(B, h, dk, v.shape[-1])
    out = []
    for t in range(T):
        S = S * g[:, t].exp()[..., None, None]
        m = torch.einsum("bhij,bhi->bhj", S, k[:, t])
        d = beta[:, t][..., None] * (v[:, t] - m)
        S = S + k[:, t][..., None] * d[:, :, None]
        out.append(torch.einsum("bhij,bhi->bhj", S, q[:, t]))
    return torch.stack(out, 1)


def delta_chunked(q, k, v, beta, g, C=CHUNK):
    """The same in chunks of C tokens."""
    B, T, h, dk = q.shape
    dv = v.shape[-1]
    pad = -T % C
    if pad:
        q, k, v = (F.pad(x, (0, 0, 0, 0, 0, pad)) for x in (q, k, v))
        beta, g = (F.pad(x, (0, 0, 0, pad)) for x in (beta, g))
    n = (T + pad) // C
    q, k, v = (x.transpose(1, 2).reshape(B * h, n, C, -1) for x in (q, k, v))
    beta, g = (x.transpose(1, 2).reshape(B * h, n, C) for x in (beta, g))
    G = g.cumsum(-1)
    low = torch.ones(C, C, dtype=torch.bool).tril()
    D = (G[..., :, None] - G[..., None, :]).masked_fill(~low, float("-inf")).exp()
    kt = k.transpose(-1, -2)
    bk = k * beta[..., None]
    A = ((bk @ kt) * D).tril(-1)
    eG = G.exp()[..., None]
    UW = torch.linalg.solve_triangular(A + torch.eye(C), torch.cat([v * beta[..., None], bk * eG], -1),
                                       upper=False, unitriangular=True)
    U, W = UW[..., :dv], UW[..., dv:]
    qk = (q @ kt) * D
    qe = q * eG
    ke = (k * (G[..., -1:] - G).exp()[..., None]).transpose(-1, -2)
    last = G[..., -1].exp()[..., None, None]
    S = q.new_zeros(B * h, dk, dv)
    out = []
    for U, W, qk, qe, ke, last in zip(*(x.unbind(1) for x in (U, W, qk, qe, ke, last))):
        N = torch.baddbmm(U, W, S, alpha=-1)
        out.append(torch.baddbmm(qk @ N, qe, S))
        S = torch.baddbmm(last * S, ke, N)
    o = torch.stack(out, 1).view(B, h, n * C, dv).transpose(1, 2)
    return o[:, :T]


class DeltaNorm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.n, self.eps = (n,), eps

    def forward(self, o, z):
        return F.rms_norm(o, self.n, self.weight, self.eps) * F.silu(z)


class DeltaNet(nn.Module):
    def __init__(self, c, gain):
        super().__init__()
        self.c = c
        cc = 2 * c.nk * c.dk + c.nv * c.dv
        self.in_proj_qkv = linear(c.H, cc)
        self.in_proj_z = linear(c.H, c.nv * c.dv)
        self.in_proj_b = linear(c.H, c.nv, 0.5)
        self.in_proj_a = linear(c.H, c.nv, 0.5)
        self.conv1d = nn.Conv1d(cc, cc, c.taps, groups=cc, bias=False)
        nn.init.uniform_(self.conv1d.weight, -0.3, 0.3)
        with torch.no_grad():
            self.conv1d.weight[:, 0, -1] += 0.7
        self.A_log = nn.Parameter(torch.linspace(0.0, math.log(8.0), c.nv))
        dt = torch.exp(torch.linspace(math.log(0.1), math.log(0.004), c.nv))
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.norm = DeltaNorm(c.dv, c.eps)
        self.out_proj = linear(c.nv * c.dv, c.H, gain)

    def forward(self, x, keep, start):
        """keep[j] [B,T,1]: 1 where the token j back is of the same document; start [B,T,1]: first of its document."""
        c = self.c
        B, T, _ = x.shape
        u = self.in_proj_qkv(x)
        w = self.conv1d.weight[:, 0]
        y = u * w[:, -1]
        for j in range(1, c.taps):
            y = y + F.pad(u[:, :-j], (0, 0, j, 0)) * (keep[j] * w[:, -1 - j])
        y = F.silu(y)
        q, k, v = y.split([c.nk * c.dk, c.nk * c.dk, c.nv * c.dv], -1)
        q, k = q.view(B, T, c.nk, c.dk), k.view(B, T, c.nk, c.dk)
        q = q * (torch.rsqrt(q.square().sum(-1, keepdim=True) + 1e-6) * c.dk ** -0.5)
        k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + 1e-6)
        r = c.nv // c.nk
        q, k = q.repeat_interleave(r, 2), k.repeat_interleave(r, 2)
        beta = torch.sigmoid(self.in_proj_b(x))
        g = -self.A_log.exp() * F.softplus(self.in_proj_a(x) + self.dt_bias)
        g = torch.where(start, RESET, g)
        o = delta_chunked(q, k, v.view(B, T, c.nv, c.dv), beta, g)
        z = self.in_proj_z(x).view(B, T, c.nv, c.dv)
        return self.out_proj(self.norm(o, z).reshape(B, T, -1))


class Layer(nn.Module):
    def __init__(self, c, kind, gain):
        super().__init__()
        self.full = kind == "full_attention"
        self.input_layernorm = Norm(c.H, c.eps)
        self.post_attention_layernorm = Norm(c.H, c.eps)
        if self.full:
            self.self_attn = Attention(c, gain)
        else:
            self.linear_attn = DeltaNet(c, gain)
        self.mlp = MLP(c.H, c.I, gain)

    def forward(self, h, p, rows=None):
        """rows: compute these positions only (attention)."""
        x = self.input_layernorm(h)
        if self.full:
            h = (h if rows is None else h[:, rows]) + self.self_attn(x, p.pos, p.mask, rows=rows)
        else:
            h = h + self.linear_attn(x, p.keep, p.start)
        return h + self.mlp(self.post_attention_layernorm(h))


class Pack:
    """What the layers need to know about a batch of packed rows."""

    def __init__(self, doc, taps):
        B, T = doc.shape
        self.doc = doc
        same = [torch.ones(B, T, 1)]
        for j in range(1, taps):
            same.append((F.pad(doc[:, :-j], (j, 0), value=-1) == doc)[..., None].float())
        self.keep = same
        self.start = same[1] == 0
        idx = torch.arange(T).expand(B, T)
        first = torch.where(self.start[..., 0], idx, 0).cummax(1).values
        self.pos = idx - first
        self.same = doc[:, :, None] == doc[:, None, :]
        self.mask = (self.same & torch.ones(T, T, dtype=torch.bool).tril())[:, None]


class Body(nn.Module):
    def __init__(self, c):
        super().__init__()
        gain = 0.25 / math.sqrt(2 * c.L)
        self.embed_tokens = nn.Embedding(c.vocab, c.H)
        nn.init.normal_(self.embed_tokens.weight, std=EMBED)
        self.layers = nn.ModuleList(Layer(c, k, gain) for k in c.kinds)
        self.norm = Norm(c.H, c.eps)
        nn.init.constant_(self.norm.weight, FINAL - 1)


class MTP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc = linear(2 * c.H, c.H)
        self.pre_fc_norm_embedding = Norm(c.H, c.eps)
        self.pre_fc_norm_hidden = Norm(c.H, c.eps)
        self.layers = nn.ModuleList([Layer(c, "full_attention", 0.2)])
        self.norm = Norm(c.H, c.eps)
        nn.init.constant_(self.norm.weight, FINAL - 1)

    def enter(self, e, h):
        return self.fc(torch.cat([self.pre_fc_norm_embedding(e), self.pre_fc_norm_hidden(h)], -1))


class Target(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.model = Body(c)
        self.mtp = MTP(c)

    def forward(self, ids, pack, taps=(), rows=None):
        """Hidden after the final norm, and the residual after the named layers. With rows, the last layer, which must
        be attention, and the norm are computed at these positions only: the others need no prediction."""
        h = self.model.embed_tokens(ids)
        kept = []
        for i, layer in enumerate(self.model.layers):
            h = layer(h, pack, rows if layer is self.model.layers[-1] else None)
            if i in taps:
                kept.append(h)
        f = self.model.norm(h)
        return (f, torch.cat(kept, -1)) if taps else f

    def head(self, f):
        return F.linear(f, self.model.embed_tokens.weight)

    def draft(self, f, ids, pack, depth):
        """MTP hidden states y_1..y_depth. Row i of y_s predicts token i+s+1; its inputs are f_{i} (s = 1) or
        y_{s-1} of row i, and token i+s.

        Row i of step s sits at position i+s-1. It sees the rows that drafting would have left in the cache:
        those of step 1 up to its own start, and those of its own chain.
        """
        B, T = ids.shape
        layer = self.mtp.layers[0]
        att = layer.self_attn
        eye = torch.eye(T, dtype=torch.bool)[None, None].expand(B, 1, T, T)
        h, keys, out = f, [], []
        for s in range(1, depth + 1):
            tok = F.pad(ids[:, s:], (0, s))
            x = self.mtp.enter(self.model.embed_tokens(tok), h)
            n = layer.input_layernorm(x)
            pos = pack.pos + s - 1
            keys.append(att.keys(n, pos))
            if s == 1:
                a = att(n, pos, pack.mask, keys[0])
            else:
                kv = tuple(torch.cat([k[j] for k in keys], 2) for j in (0, 1))
                a = att(n, pos, torch.cat([pack.mask] + [eye] * (s - 1), -1), kv)
            x = x + a
            x = x + layer.mlp(layer.post_attention_layernorm(x))
            h = self.mtp.norm(x)
            out.append(h)
        return out


# ---------------------------------------------------------------------------------------------- DFlash 2


class DraftConv(nn.Module):
    def __init__(self, H, group):
        super().__init__()
        self.group = group
        base = torch.zeros(2, 2, H)
        base[:, 0] = 1
        self.base_kernel = nn.Parameter(base)
        self.kernel_projection = nn.Linear(H, 4 * H // group, bias=False)
        nn.init.normal_(self.kernel_projection.weight, std=0.01 / math.sqrt(H))

    def conv(self, x, side, dyn):
        k = self.base_kernel[side] + dyn.repeat_interleave(self.group, -1)
        return k[..., 0, :] * x + k[..., 1, :] * F.pad(x[..., :-1, :], (0, 0, 1, 0))

    def prepare(self, x):
        dyn = self.kernel_projection(x).view(*x.shape[:-1], 2, 2, x.shape[-1] // self.group)
        return self.conv(x, 0, dyn[..., 0, :, :]), dyn[..., 1, :, :]

    def finish(self, y, dyn):
        return self.conv(y, 1, dyn)


class DraftAttention(nn.Module):
    def __init__(self, d):
        super().__init__()
        H, self.hd = d["hidden_size"], d["head_dim"]
        self.nq, self.nkv = d["num_attention_heads"], d["num_key_value_heads"]
        self.theta, eps = d["rope_theta"], d["rms_norm_eps"]
        self.q_proj = linear(H, self.nq * self.hd)
        self.k_proj = linear(H, self.nkv * self.hd)
        self.v_proj = linear(H, self.nkv * self.hd)
        self.o_proj = linear(self.nq * self.hd, H, 0.3)
        self.q_norm = Norm(self.hd, eps, plain=True)
        self.k_norm = Norm(self.hd, eps, plain=True)

    def keys(self, x, pos):
        B, T, _ = x.shape
        k = rope(self.k_norm(self.k_proj(x).view(B, T, self.nkv, self.hd)), pos, self.hd, self.theta)
        return k.transpose(1, 2), self.v_proj(x).view(B, T, self.nkv, self.hd).transpose(1, 2)

    def forward(self, x, pos, ctx, ctx_pos, mask):
        B, T, _ = x.shape
        q = rope(self.q_norm(self.q_proj(x).view(B, T, self.nq, self.hd)), pos, self.hd, self.theta)
        kc, vc = self.keys(ctx, ctx_pos)
        kb, vb = self.keys(x, pos)
        r = self.nq // self.nkv
        k = torch.cat([kc, kb], 2).repeat_interleave(r, 1)
        v = torch.cat([vc, vb], 2).repeat_interleave(r, 1)
        a = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, attn_mask=mask)
        return self.o_proj(a.transpose(1, 2).reshape(B, T, -1))


class DraftLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        H, eps, group = d["hidden_size"], d["rms_norm_eps"], d["dflash_config"]["conv_group_size"]
        self.input_layernorm = Norm(H, eps, plain=True)
        self.post_attention_layernorm = Norm(H, eps, plain=True)
        self.self_attn = DraftAttention(d)
        self.mlp = MLP(H, d["intermediate_size"], 0.3)
        self.attention_conv = DraftConv(H, group)
        self.mlp_conv = DraftConv(H, group)

    def forward(self, h, pos, ctx, ctx_pos, mask, block):
        B, T, H = h.shape
        blocks = lambda x: x.view(B, T // block, block, H)
        x, fin = self.attention_conv.prepare(blocks(self.input_layernorm(h)))
        a = self.self_attn(x.reshape(B, T, H), pos, ctx, ctx_pos, mask)
        h = h + self.attention_conv.finish(blocks(a), fin).reshape(B, T, H)
        x, fin = self.mlp_conv.prepare(blocks(self.post_attention_layernorm(h)))
        return h + self.mlp_conv.finish(self.mlp(x), fin).reshape(B, T, H)


class Selector(nn.Module):
    def __init__(self, d):
        super().__init__()
        rank = d["dflash_config"]["selector_rank"]
        self.hidden_projection = linear(d["hidden_size"], rank)
        self.predecessor_codebook = nn.Parameter(torch.randn(d["vocab_size"], rank) * 0.1)
        self.successor_codebook = nn.Parameter(torch.randn(d["vocab_size"], rank) * 0.1)


class Drafter(nn.Module):
    """Proposes a block of tokens from the target's residuals. Embedding and head are the target's."""

    def __init__(self, d):
        super().__init__()
        H, eps = d["hidden_size"], d["rms_norm_eps"]
        self.d = d
        self.block = d["block_size"]
        self.taps = d["dflash_config"]["target_layer_ids"]
        self.mask_id = d["dflash_config"]["mask_token_id"]
        self.top_k = d["dflash_config"]["selector_top_k"]
        self.kinds, self.window = d["layer_types"], d["sliding_window"]
        self.fc = linear(H * len(self.taps), H)
        self.hidden_norm = Norm(H, eps, plain=True)
        self.layers = nn.ModuleList(DraftLayer(d) for _ in range(d["num_hidden_layers"]))
        self.norm = Norm(H, eps, plain=True)
        nn.init.constant_(self.norm.weight, FINAL)
        self.candidate_selector = Selector(d)

    def forward(self, emb, tapped, ctx_pos, pos, mask):
        """emb [B,A*block,H]: embedded blocks (anchor, masks); tapped [B,T,ntap*H]; pos [B,A*block]; mask by kind."""
        ctx = self.hidden_norm(self.fc(tapped))
        h = emb
        for layer, kind in zip(self.layers, self.kinds):
            h = layer(h, pos, ctx, ctx_pos, mask[kind], self.block)
        return self.norm(h)

    def scores(self, f, logits, prev, cand):
        """Selector score of each candidate: logit plus the gated pair term. cand [...,k], prev [...]."""
        s = self.candidate_selector
        gate = s.hidden_projection(f)
        pair = (s.predecessor_codebook[prev] * gate)[..., None, :] * s.successor_codebook[cand]
        return logits.gather(-1, cand) + pair.sum(-1)
