"""Scores of an exported model on held-out examples, by this reference implementation.

    python eval.py ../models/demo [--problems 200] [--tools 200] [--texts 60] [--samples 10]

Word problems and tool calls are decoded greedily. Drafting is measured on the model's own greedy text after held-out
prompts, by class: MTP by position (a draft at depth d counts when it and all before it are what the model says), DFlash 2
by rounds (tokens per round = accepted drafts + the one the target adds, at most 8).
"""
import argparse
import json
import os
import re

import torch
from tokenizers import Tokenizer

from corpus import heldout, load_template, prompt
from decode import dflash_rounds, generate, mtp_hits
from export import load_drafter, load_exported

_CALL = re.compile(r"<tool_call>\n<function=([^>\n]+)>\n(.*?)</function>\n</tool_call>", re.S)
_PARAM = re.compile(r"<parameter=([^>\n]+)>\n(.*?)\n</parameter>\n", re.S)


class Bench:
    def __init__(self, folder):
        self.model = load_exported(folder).eval()
        self.tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.template = load_template(os.path.join(folder, "chat_template.jinja"))
        self.real = self.tok.get_vocab_size()
        self.stop = {self.tok.token_to_id("<|im_end|>"), self.tok.token_to_id("<|endoftext|>")}
        path = os.path.join(folder, "drafter")
        self.drafter = load_drafter(path).eval() if os.path.exists(path) else None

    def prompts(self, examples):
        return [self.tok.encode(prompt(self.template, e), add_special_tokens=False).ids for e in examples]

    def text(self, ids):
        return self.tok.decode([i for i in ids if i not in self.stop], skip_special_tokens=False)

    def run(self, examples, limit, **k):
        p = self.prompts(examples)
        return p, generate(self.model, p, self.stop, limit, self.real, **k)


def answer_of(text):
    m = re.findall(r"####\s*(-?\d+)", text)
    return int(m[-1]) if m else None


def parse_calls(text, tools):
    """[(name, arguments)] typed by the schemas, or None if the text is not well formed."""
    body = text.split("</think>")[-1]
    schemas = {t["function"]["name"]: t["function"]["parameters"]["properties"] for t in tools}
    rest = _CALL.sub("", body).strip()
    if "tool_call" in rest or "<function" in rest:
        return None
    out = []
    for name, inner in _CALL.findall(body):
        if name not in schemas or _PARAM.sub("", inner):
            return None
        args = {}
        for key, value in _PARAM.findall(inner):
            kind = schemas[name].get(key, {}).get("type", "string")
            try:
                args[key] = value if kind == "string" else json.loads(value)
            except ValueError:
                return None
        out.append((name, args))
    return out


def problems(b, n):
    ex = [dict(e, think=True) for e in heldout("problem", n, seed=21)]
    _, out = b.run(ex, 96)
    right = [answer_of(b.text(o)) == e["number"] for e, o in zip(ex, out)]
    per = {}
    for e, r in zip(ex, right):
        per.setdefault(e["tid"][0], []).append(r)
    bad = [(e["messages"][-1]["content"], b.text(o)) for e, o, r in zip(ex, out, right) if not r]
    return sum(right) / n, {k: f"{sum(v)}/{len(v)}" for k, v in sorted(per.items())}, bad


def tool_calls(b, n):
    ex = [e for e in heldout("tool", n, seed=22)]
    _, out = b.run(ex, 160)
    form = good = 0
    bad = []
    for e, o in zip(ex, out):
        got = parse_calls(b.text(o), e["tools"])
        form += got is not None
        ok = got == [(n_, a) for n_, a in e["calls"]]
        good += ok
        if not ok:
            bad.append((e["messages"][-1]["content"], e["calls"], b.text(o)))
    return form / n, good / n, bad


def drafting(b, n, depth=3, temperature=0.0):
    res = {}
    for cls, limit in (("story", 200), ("problem", 96), ("tool", 160)):
        ps, out = b.run(heldout(cls, n, seed=23), limit, temperature=temperature)
        hits, rounds = [], []
        for p, o in zip(ps, out):
            hits += mtp_hits(b.model, p, o, depth, b.real)
            if b.drafter:
                rounds += dflash_rounds(b.model, b.drafter, p, o, b.real)
        r = {f"mtp{d}": sum(h >= d for h in hits) / len(hits) for d in range(1, depth + 1)}
        for d in range(2, depth + 1):
            r[f"mtp{d}_given"] = r[f"mtp{d}"] / max(r[f"mtp{d - 1}"], 1e-9)
        if rounds:
            r["dflash_drafts"] = sum(rounds) / len(rounds)
            r["dflash_tokens"] = r["dflash_drafts"] + 1
            r["rounds"] = len(rounds)
        res[cls] = {k: round(v, 3) for k, v in r.items()}
    return res


def other(b, n=40):
    """Exact answers of the remaining classes, greedy."""
    res = {}
    for cls in ("sums", "drills", "units", "sorting", "counting", "dates", "jsons", "code", "copying", "summarise", "chat"):
        ex = heldout(cls, n, seed=24)
        _, out = b.run(ex, 160)
        res[cls] = sum(b.text(o).split("</think>")[-1].strip() == e["answer"][-1]["content"] for e, o in zip(ex, out)) / n
    return res


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("--problems", type=int, default=200)
    ap.add_argument("--tools", type=int, default=200)
    ap.add_argument("--texts", type=int, default=60)
    ap.add_argument("--samples", type=int, default=0)
    ap.add_argument("--others", type=int, default=0)
    ap.add_argument("--show", type=int, default=3, help="wrong answers to print")
    ap.add_argument("--export-problems", help="write the held-out word problems for `sluice eval wordproblems`")
    a = ap.parse_args()
    if a.export_problems:
        with open(a.export_problems, "w") as f:
            for e in heldout("problem", a.problems, seed=21):
                f.write(json.dumps({"messages": e["messages"], "answer": e["number"]}, ensure_ascii=False) + "\n")
        return
    torch.set_num_threads(1)
    b = Bench(a.folder)
    if a.problems:
        score, per, bad = problems(b, a.problems)
        print(f"word problems: {score:.3f} of {a.problems}  {per}")
        for q, t in bad[:a.show]:
            print("   wrong:", q, "->", repr(t))
    if a.tools:
        form, good, bad = tool_calls(b, a.tools)
        print(f"tool calls: well-formed {form:.3f}, right {good:.3f} of {a.tools}")
        for q, want, t in bad[:a.show]:
            print("   wrong:", q, want, "->", repr(t))
    if a.texts:
        for cls, r in drafting(b, a.texts).items():
            print(f"drafting, {cls}: {r}")
    if a.others:
        print("exact answers:", other(b, a.others))
    if a.samples:
        ex = heldout("story", a.samples, seed=25)
        _, out = b.run(ex, 260, temperature=0.7, seed=3)
        for e, o in zip(ex, out):
            print(f"\n> {e['messages'][-1]['content']}\n{b.text(o).split('</think>')[-1].strip()}")


if __name__ == "__main__":
    main()
