"""What the trained target itself says to training prompts: the text that drafters learn to foresee.

    python selfgen.py --target T.pt --tokenizer tokenizer.json --out FILE.npz --minutes 4 --seed 5
"""
import argparse
import random
import time

import numpy as np
import torch
import torch.multiprocessing as mp
from tokenizers import Tokenizer

from corpus import CLASSES, MIX, example, load_template, prompt, split
from decode import generate
from export import build_target

WANT = {"story": 10, "problem": 12, "tool": 10}  # the other classes count 1


def work(rank, a, queue):
    try:
        speak(rank, a, queue)
    finally:
        queue.put(None)


def speak(rank, a, queue):
    torch.set_num_threads(1)
    model = build_target(a.target).eval()
    tok = Tokenizer.from_file(a.tokenizer)
    template = load_template()
    stop = {tok.token_to_id("<|im_end|>"), tok.token_to_id("<|endoftext|>")}
    names = [c for c, _ in MIX]
    rng = random.Random(a.seed * 100 + rank)
    t0, k = time.time(), 0
    while time.time() - t0 < a.minutes * 60:
        cls = rng.choices(names, [WANT.get(c, 1) for c in names])[0]
        ex = []
        while len(ex) < a.batch:
            e = example(rng, cls)
            if split(e) == "train":
                ex.append(e)
        ps = [tok.encode(prompt(template, e), add_special_tokens=False).ids for e in ex]
        k += 1
        temp = 0.0 if k % 3 else 0.7
        out = generate(model, ps, stop, 220 if cls == "story" else 160, tok.get_vocab_size(), temperature=temp, seed=rank * 10000 + k)
        queue.put([(p, o, CLASSES.index(cls)) for p, o in zip(ps, out)])


def collect(a):
    """Run the workers and write the token file."""
    queue = mp.Queue()
    ps = [mp.Process(target=work, args=(r, a, queue)) for r in range(a.workers)]
    for p in ps:
        p.start()
    ids, mask, start, cls, done = [], [], [0], [], 0
    while done < a.workers:
        got = queue.get()
        if got is None:
            done += 1
            continue
        for p, o, c in got:
            ids += p + o
            mask += [0] * len(p) + [1] * len(o)
            start.append(len(ids))
            cls.append(c)
    for p in ps:
        p.join()
    np.savez(a.out, ids=np.array(ids, np.uint16), mask=np.array(mask, np.uint8), start=np.array(start, np.int64), cls=np.array(cls, np.uint8))
    print(len(cls), "texts,", len(ids), "tokens,", sum(mask), "written by the model", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--target", required=True)
    ap.add_argument("--tokenizer", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--minutes", type=float, default=4)
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--batch", type=int, default=96)
    ap.add_argument("--seed", type=int, default=5)
    collect(ap.parse_args())


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
