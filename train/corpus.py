"""The corpus: examples by class, the split, rendering through the chat template, token files.

    python corpus.py OUT --seed 1 --count 60000

A held-out example has a template that training never saw and values that it never saw; training has neither.
"""
import argparse
import json
import os
import random
import re
import zlib

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

import misc
import problems
import stories
import tools

HERE = os.path.dirname(os.path.abspath(__file__))
# Share of examples of each class; the weights are for examples, not tokens.
MIX = [("story", 20), ("problem", 30), ("tool", 14), ("sums", 8), ("drills", 6), ("units", 3), ("sorting", 3), ("counting", 3), ("dates", 3),
       ("jsons", 4), ("code", 3), ("copying", 4), ("summarise", 2), ("chat", 4), ("greet", 1)]
# The second mix: more of what the first left unlearned, and of that the dense kinds.
FOCUS = [("talk", 140), ("tool", 12), ("problem", 150), ("story", 45), ("steps", 75), ("fields", 150), ("copying", 40), ("sums", 12), ("units", 10),
         ("sorting", 12), ("counting", 12), ("dates", 10), ("jsons", 30), ("code", 10), ("summarise", 3), ("chat", 10), ("greet", 4)]
CLASSES = [c for c, _ in MIX] + ["talk", "fields", "steps"]


def _raise(message):
    raise jinja2.exceptions.TemplateError(message)


def load_template(path=os.path.join(HERE, "chat_template.jinja")):
    """The template in an environment like that of transformers."""
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda x, **k: json.dumps(x, ensure_ascii=False)
    env.globals["raise_exception"] = _raise
    with open(path) as f:
        return env.from_string(f.read())


def held(x, part):
    return zlib.crc32(repr(x).encode()) % part == 0


def part(tid, val):
    t, v = held(tid, 12), held(val, 8)
    return "train" if not t and not v else "heldout" if t and v else None


def split(ex):
    """The part that all turns of an example belong to; None if it may not be used."""
    parts = {part(t, v) for t, v in ex.get("turns", [(ex["tid"], ex["val"])])}
    return parts.pop() if len(parts) == 1 else None


def example(rng, cls):
    """dict: cls, think, tools, messages (to the last user turn), answer (messages), tid, val, and what a test needs."""
    think = rng.random() < 0.5
    ex = {"cls": cls, "tools": None, "think": think}
    if cls == "story":
        e, q, text, tid = stories.story(rng)
        plan = "A story about " + e["a_kind"] + " and " + e["a_bare"] + "."
        ex.update(messages=[user(q)], answer=[bot(text, plan, think)], tid=tid, val=(e["kind"], e["thing"], e["place"]))
    elif cls == "problem":
        think = ex["think"] = rng.random() < 0.85
        text, why, ans, n, tid, val = problems.problem(rng)
        ex.update(messages=[user(text)], answer=[bot(ans if think else why + " " + ans, why, think)], tid=tid, val=val, number=n)
    elif cls == "tool":
        c = tools.tool_case(rng)
        call = dict(c["call"], reasoning_content=c["think"] if think else "")
        answer = [call]
        if rng.random() < 0.5:
            answer += c["tail"][:-1] + [bot(c["tail"][-1]["content"], "I have the result.", think)]
        ex.update(messages=c["messages"], tools=c["tools"], answer=answer, tid=c["tid"], val=c["val"], calls=c["calls"])
        if rng.random() < 0.06:  # tools at hand, but nothing to call
            q, why, text, tid = rng.choice([misc.greet, misc.sums, misc.units])(rng)
            ex.update(messages=[user(q)], answer=[bot(text, why, think)], tid=("none", tid), val=q, calls=[])
    elif cls == "talk":
        ex.update(talk(rng, think))
    elif cls == "chat":
        turns, why, tid = misc.chat(rng)
        ms = []
        for q, a in turns[:-1]:
            ms += [user(q), {"role": "assistant", "content": a}]
        ex.update(messages=ms + [user(turns[-1][0])], answer=[bot(turns[-1][1], why, think)], tid=tid, val=repr(turns))
    else:
        q, why, text, tid = getattr(misc, cls)(rng)
        ex.update(messages=[user(q)], answer=[bot(text, why, think)], tid=tid, val=q)
    if cls not in ("tool", "talk") and rng.random() < 0.04:
        ex["messages"].insert(0, {"role": "system", "content": rng.choice(["You are a helpful assistant.", "You are Sluice.", "Answer briefly.", "Be kind."])})
    return ex


def talk(rng, think):
    """Several requests to the same tools, one after the other, all learned: most of a tool call's tokens are schemas."""
    _, _, kit = tools.kit(rng, hard=True)
    messages, turns = [], []
    for _ in range(rng.choice([2, 3, 3, 4])):
        if rng.random() < 0.05:
            q, why, text, tid = rng.choice([misc.greet, misc.sums, misc.units])(rng)
            messages += [user(q), bot(text, why, think)]
            turns.append((("none", tid), q))
            continue
        tool = rng.choice(kit)
        c = tools.request(rng, tool, [t for t in kit if t is not tool], 0.22, 0.14)
        messages += c["messages"] + [dict(c["call"], reasoning_content=c["think"] if think else "")]
        if rng.random() < 0.3:
            messages += c["tail"][:-1] + [bot(c["tail"][-1]["content"], "I have the result.", think)]
        turns.append((c["tid"], c["val"]))
    return dict(messages=messages[:1], answer=messages[1:], tools=[t.schema() for t in kit], turns=turns, tid=turns[0][0], val=turns[0][1])


def user(text):
    return {"role": "user", "content": text}


def bot(text, why, think):
    return {"role": "assistant", "content": text, "reasoning_content": why if think else ""}


def prompt(template, ex):
    return template.render(messages=ex["messages"], tools=ex["tools"], add_generation_prompt=True, enable_thinking=ex["think"])


_TURN = re.compile(r"<\|im_start\|>assistant\n(?:<think>\n\n</think>\n\n|<think>\n)")


def pieces(template, ex):
    """The rendered example as [(text, learned)]: what the model writes is learned, what it is given is not."""
    text = template.render(messages=ex["messages"] + ex["answer"], tools=ex["tools"], add_generation_prompt=False, preserve_thinking="turns" in ex)
    assert text.startswith(prompt(template, ex)), text
    out, at = [], 0
    for m in _TURN.finditer(text):
        end = text.index("<|im_end|>", m.end()) + len("<|im_end|>")
        out += [(text[at:m.end()], False), (text[m.end():end], True)]
        at = end
    out.append((text[at:], False))
    return [p for p in out if p[0]]


def examples(seed, which, only=(), mix=MIX):
    """Endless examples of one part of the split. FOCUS halves the problems of easy schemas."""
    rng = random.Random(seed)
    names, weights = zip(*[m for m in mix if not only or m[0] in only])
    while True:
        ex = example(rng, rng.choices(names, weights)[0])
        if mix is FOCUS and ex["cls"] == "problem" and ex["tid"][0] not in problems.HARD and rng.random() < 0.5:
            continue
        if split(ex) == which:
            yield ex


def heldout(cls, n, seed=99):
    rng = random.Random(seed)
    out = []
    while len(out) < n:
        ex = example(rng, cls)
        if split(ex) == "heldout":
            out.append(ex)
    return out


def encode(tok, template, ex):
    """ids and a mask of the learned ones. Pieces start and end at added tokens or newlines, so they may be encoded apart."""
    ids, mask = [], []
    for text, learn in pieces(template, ex):
        t = tok.encode(text, add_special_tokens=False).ids
        ids += t
        mask += [int(learn)] * len(t)
    return ids, mask


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    ap.add_argument("--tokenizer", help="tokenizer.json; without it the text for training one is written")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--count", type=int, default=60000)
    ap.add_argument("--part", default="train")
    ap.add_argument("--focus", action="store_true", help="the second mix of classes")
    ap.add_argument("--only", default="", help="these classes only, with commas")
    a = ap.parse_args()
    template = load_template()
    source = examples(a.seed, a.part, a.only.split(",") if a.only else (), FOCUS if a.focus else MIX)
    if not a.tokenizer:
        with open(a.out, "w") as f:
            for _ in range(a.count):
                f.write("".join(t for t, _ in pieces(template, next(source))) + "\0")
        return
    import numpy as np
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(a.tokenizer)
    ids, mask, start, per, cls = [], [], [0], {}, []
    for _ in range(a.count):
        ex = next(source)
        i, m = encode(tok, template, ex)
        ids += i
        mask += [x * (1 if ex["cls"] == "story" else 2) for x in m]  # loss weights: stories are long
        start.append(len(ids))
        cls.append(CLASSES.index(ex["cls"]))
        c = per.setdefault(ex["cls"], [0, 0, 0])
        c[0] += 1
        c[1] += len(i)
        c[2] += sum(m)
    np.savez(a.out, ids=np.array(ids, np.uint16), mask=np.array(mask, np.uint8), start=np.array(start, np.int64), cls=np.array(cls, np.uint8))
    print("examples, tokens, learned tokens:", len(start) - 1, len(ids), sum(mask))
    for c, v in sorted(per.items()):
        print(f"  {c:10} {v[0]:7} {v[1]:9} {v[2]:9}  {v[1] / v[0]:.0f} per example")


if __name__ == "__main__":
    main()
