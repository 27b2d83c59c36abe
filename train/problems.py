"""Word problems with worked reasoning, and small drills of the arithmetic they need.

A schema is: openings, events, questions (each with the sentence that answers it), and the steps of the reasoning.
The template of a problem is (schema, opening, event, question); its values are its numbers.
"""
from words import *
from words import _w

# Each question: (question, answer sentence).
HAVE = [("How many {xs} does {A} have now?", "{A} has {r} {xs} now."),
        ("How many {xs} does {he} have now?", "{A} has {r} {xs} now."),
        ("How many {xs} is that in total?", "In total that is {r} {xs}."),
        ("How many {xs} are there altogether?", "Altogether there are {r} {xs}.")]
LEFT = [("How many {xs} are left?", "There are {r} {xs} left."),
        ("How many {xs} does {A} still have?", "{A} still has {r} {xs}."),
        ("How many {xs} does {he} have left?", "{A} has {r} {xs} left."),
        ("How many {xs} remain?", "{r} {xs} remain.")]
START = ["{A} has {a} {xs}.", "{A} owns {a} {xs}.", "{A} found {a} {xs} in the garden.", "{A} collects {xs} and has {a} of them.",
         "In the morning {A} had {a} {xs}.", "There are {a} {xs} in {A}'s {box}."]
GAIN = ["{He} gets {b} more from {B}.", "{B} gives {him} {b} more.", "Then {he} finds {b} more {xs}.", "{He} buys {b} more.",
        "{He} adds {b} more {xs}.", "On {day} {he} gets {b} more."]
LOSE = ["{He} gives {b} of them to {B}.", "{He} loses {b} of them.", "Then {he} sells {b} {xs}.", "{B} takes {b} of them.",
        "{He} gives away {b} {xs}.", "On {day} {he} sells {b} of them."]
GAIN2 = ["Then {B} brings {c} more.", "Later {he} gets {c} more {xs}.", "In the evening {he} finds {c} more.", "After that {he} buys {c} more."]
LOSE2 = ["Then {he} gives {c} to {B}.", "Later {he} loses {c} {xs}.", "In the evening {he} sells {c} of them.", "After that {he} gives {c} away."]
GROUPS = ["{A} has {a} {boxes} with {b} {xs} in each.", "{A} fills {a} {boxes}. There are {b} {xs} in each {box}.",
          "There are {a} {boxes}. Each {box} holds {b} {xs}. {A} owns them all.", "{A} buys {a} {boxes} of {xs}. Every {box} has {b} {xs} in it.",
          "In the shop of {A} there are {a} {boxes}, and in every {box} are {b} {xs}."]
SHARE = ["{A} has {a} {xs}.", "There are {a} {xs} on the table.", "{A} baked or bought {a} {xs}.", "{A} brings {a} {xs} to school."]
SPLIT = [("{A} shares them equally among {b} friends. How many {xs} does each friend get?", "Each friend gets {r} {xs}."),
         ("They are put into {b} {boxes} with the same number in each. How many {xs} are in one {box}?", "One {box} has {r} {xs}."),
         ("{b} children share them fairly. How many {xs} does each child get?", "Each child gets {r} {xs}."),
         ("{A} packs {b} {xs} into each {box}. How many {boxes} are filled?", "{r} {boxes} are filled.")]
PRICE = ["One {x} costs {b} coins.", "A {box} of {xs} costs {b} coins.", "The price of one {x} is {b} coins.", "At the market each {x} costs {b} coins."]

# name: parts (lists of sentences), questions, steps [(text, expression)], ranges
SCHEMAS = {
    "add": ([START, GAIN], HAVE, ["{a} + {b} = {r}"]),
    "sub": ([START, LOSE], LEFT, ["{a} - {b} = {r}"]),
    "mul": ([GROUPS], [("How many {xs} are there in total?", "In total there are {r} {xs}."),
                       ("How many {xs} does {A} have?", "{A} has {r} {xs}."),
                       ("How many {xs} are in all the {boxes} together?", "Together there are {r} {xs}.")],
            ["{a} * {b} = {r}"]),
    "div": ([SHARE], SPLIT, ["{a} / {b} = {r}"]),
    "more": ([["{A} has {a} {xs}.", "{A} picked {a} {xs}.", "{A} counted {a} {xs}."],
              ["{B} has {b} more {xs} than {A}.", "{B} has {b} {xs} more than {A} does.", "{B} beats {A} by {b} {xs}."]],
             [("How many {xs} does {B} have?", "{B} has {r} {xs}."), ("What is the number of {xs} of {B}?", "{B} has {r} {xs}.")],
             ["{a} + {b} = {r}"]),
    "fewer": ([["{A} has {a} {xs}.", "{A} picked {a} {xs}.", "{A} counted {a} {xs}."],
               ["{B} has {b} fewer {xs} than {A}.", "{B} has {b} {xs} less than {A}.", "{B} is {b} {xs} short of that."]],
              [("How many {xs} does {B} have?", "{B} has {r} {xs}."), ("What is the number of {xs} of {B}?", "{B} has {r} {xs}.")],
              ["{a} - {b} = {r}"]),
    "need": ([["{A} wants to have {a} {xs}.", "{A} needs {a} {xs} for the party.", "{A} has to collect {a} {xs}."],
              ["So far {he} has {b}.", "{He} already has {b} of them.", "Until now {he} has found {b} {xs}."]],
             [("How many {xs} are missing?", "{r} {xs} are missing."), ("How many more {xs} does {A} need?", "{A} needs {r} more {xs}.")],
             ["{a} - {b} = {r}"]),
    "both": ([["{A} has {a} {xs} and {B} has {b} {xs}.", "{A} finds {a} {xs}. {B} finds {b} {xs}.", "{A} brings {a} {xs}, and {B} brings {b}."]],
             [("How many {xs} do they have together?", "Together they have {r} {xs}."), ("How many {xs} are there altogether?", "Altogether there are {r} {xs}."),
              ("What is the total number of {xs}?", "The total is {r} {xs}.")],
             ["{a} + {b} = {r}"]),
    "addadd": ([START, GAIN, GAIN2], HAVE, ["{a} + {b} = {p}", "{p} + {c} = {r}"]),
    "addsub": ([START, GAIN, LOSE2], LEFT, ["{a} + {b} = {p}", "{p} - {c} = {r}"]),
    "subadd": ([START, LOSE, GAIN2], HAVE, ["{a} - {b} = {p}", "{p} + {c} = {r}"]),
    "subsub": ([START, LOSE, LOSE2], LEFT, ["{a} - {b} = {p}", "{p} - {c} = {r}"]),
    "muladd": ([GROUPS, GAIN2], HAVE, ["{a} * {b} = {p}", "{p} + {c} = {r}"]),
    "mulsub": ([GROUPS, LOSE2], LEFT, ["{a} * {b} = {p}", "{p} - {c} = {r}"]),
    "cost": ([PRICE, ["{A} buys {a} of them.", "{A} takes {a}.", "{A} wants {a} of them for {B}."]],
             [("How many coins does {he} pay?", "{A} pays {r} coins."), ("How much is that in coins?", "That is {r} coins."),
              ("What does {A} have to pay?", "{A} has to pay {r} coins.")],
             ["{a} * {b} = {r}"]),
    "change": ([PRICE, ["{A} buys {a} of them and has {c} coins.", "{A} has {c} coins and takes {a} of them.", "With {c} coins in {his} purse, {A} buys {a}."]],
               [("How many coins does {he} have left?", "{A} has {r} coins left."), ("How many coins are left?", "{r} coins are left.")],
               ["{a} * {b} = {p}", "{c} - {p} = {r}"]),
    "twice": ([["{A} has {a} {xs}.", "{A} found {a} {xs}."], ["{B} has twice as many.", "{B} has two times as many {xs}."]],
              [("How many {xs} do they have together?", "Together they have {r} {xs}."), ("How many {xs} are there in total?", "In total there are {r} {xs}.")],
              ["{a} * 2 = {p}", "{a} + {p} = {r}"]),
    "divadd": ([SHARE], [("{A} shares them equally among {b} friends. {B} is one of them and already had {c}. How many {xs} does {B} have now?", "{B} has {r} {xs} now."),
                         ("{b} children share them fairly. {B}, one of the children, then gets {c} more. How many {xs} does {B} have?", "{B} has {r} {xs}.")],
               ["{a} / {b} = {p}", "{p} + {c} = {r}"]),
}
NAMES = sorted(SCHEMAS)
HARD = ["addsub", "change", "fewer", "more", "sub", "subadd", "subsub", "twice"]


def numbers(rng, s):
    """Numbers of a problem. They stay small: sums within 50, products within 60."""
    n = rng.randint
    if s in ("add", "more", "both"):
        return n(2, 30), n(2, 12)
    if s in ("sub", "fewer", "need"):
        a = n(5, 40)
        return a, n(2, min(a - 2, 12))
    if s in ("mul", "cost"):
        return n(2, 6), n(2, 10)
    if s == "div":
        b, r = n(2, 6), n(2, 10)
        return b * r, b
    if s == "addadd":
        return n(2, 20), n(2, 12), n(2, 12)
    if s == "addsub":
        return n(5, 25), n(2, 12), n(2, 12)
    if s == "subadd":
        a = n(6, 35)
        return a, n(2, min(a - 2, 12)), n(2, 12)
    if s == "subsub":
        a = n(8, 40)
        b = n(2, min(a - 4, 12))
        return a, b, n(2, min(a - b - 1, 12))
    if s == "muladd":
        return n(2, 5), n(2, 8), n(2, 12)
    if s == "mulsub":
        a, b = n(2, 5), n(2, 8)
        return a, b, n(2, min(a * b - 1, 12))
    if s == "change":
        a, b = n(2, 4), n(2, 8)
        return a, b, a * b + n(2, 10)
    if s == "twice":
        return (n(2, 15),)
    if s == "divadd":
        b, r = n(2, 6), n(2, 9)
        return b * r, b, n(2, 12)
    raise KeyError(s)


WORD = {"+": "Add", "-": "Subtract", "*": "Multiply", "/": "Divide"}
OPS = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x // y}


def problem(rng):
    """messages content, reasoning, answer text, N, template id, values"""
    s = rng.choice(NAMES)
    parts, questions, steps = SCHEMAS[s]
    nums = numbers(rng, s)
    girl = rng.random() < 0.5
    A = rng.choice(GIRLS if girl else BOYS)
    B = rng.choice([n for n in rng.choice([GIRLS, BOYS]) if n != A])
    x, box = rng.choice(ITEMS), rng.choice(CONTAINERS)
    while x == box:
        box = rng.choice(CONTAINERS)
    e = dict(zip("abc", nums), A=A, B=B, x=x, xs=plural(x), box=box, boxes=plural(box), day=rng.choice(DAYS))
    e["he"], e["him"], e["his"] = ("she", "her", "her") if girl else ("he", "him", "his")
    e["He"] = e["he"].capitalize()
    work = worked(steps, e)
    pick = [rng.randrange(len(p)) for p in parts]
    qi = rng.randrange(len(questions))
    q, ans = questions[qi]
    text = " ".join([p[i] for p, i in zip(parts, pick)] + [q]).format(**e)
    think = " ".join(WORD[w.split()[1]] + ": " + w + "." for w in work)
    return text, think, ans.format(**e) + "\n#### " + str(e["r"]), e["r"], (s, *pick, qi), (s, *nums)


def worked(steps, e):
    """The steps with the numbers of e, which gains p and r."""
    work = []
    for i, st in enumerate(steps):
        left, op, right = st.split(" = ")[0].format(**e).split()
        e["r" if i + 1 == len(steps) else "p"] = OPS[op](int(left), int(right))
        work.append(st.format(**e))
    return work


def step(rng):
    """One step of some problem, as a sum and its result: drills over the numbers that problems lead to."""
    s = rng.choice(NAMES + HARD + HARD)
    left, right = rng.choice(worked(SCHEMAS[s][2], dict(zip("abc", numbers(rng, s))))).split(" = ")
    return left, right


def drill(rng):
    """One short sum."""
    s = rng.choice(["add", "add", "sub", "sub", "sub", "mul", "div"])
    a, b = numbers(rng, s)
    op = {"add": "+", "sub": "-", "mul": "*", "div": "/"}[s]
    if s in ("add", "mul") and rng.random() < 0.5:
        a, b = b, a
    return f"{a} {op} {b}", OPS[op](a, b)
