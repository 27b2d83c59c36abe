"""Everything else: units, sorting, counting, dates, JSON, code, copying, summarising, chat that refers back."""
import json

import problems
import stories
import tools
from words import *
from words import _w

UNITS = [("metre", "centimetre", 100), ("kilometre", "metre", 1000), ("kilogram", "gram", 1000), ("hour", "minute", 60),
         ("minute", "second", 60), ("day", "hour", 24), ("week", "day", 7), ("year", "month", 12), ("dozen", "piece", 12),
         ("centimetre", "millimetre", 10), ("litre", "millilitre", 1000), ("decade", "year", 10)]
NUMBERS = _w("""zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty""")


def units(rng):
    big, lit, f = rng.choice(UNITS)
    n = rng.randint(2, 9 if f not in (10, 100, 1000) else 20)
    q = rng.choice(["How many {1} are {n} {0}?", "Convert {n} {0} to {1}.", "What is {n} {0} in {1}?", "{n} {0} are how many {1}?"])
    q = q.format(plural(big), plural(lit), n=n)
    one = "One " + big + " has " + str(f) + " " + plural(lit) + "."
    return q, one + f" {n} * {f} = {n * f}.", f"{n} {plural(big)} are {n * f} {plural(lit)}.\n#### {n * f}", ("units", big)


def sorting(rng):
    k = rng.randint(3, 5)
    if rng.random() < 0.6:
        xs = rng.sample(range(1, 100), k)
        down = rng.random() < 0.3
        out = sorted(xs, reverse=down)
        q = rng.choice(["Sort these numbers{}: {}", "Put these numbers in order{}: {}", "Order the numbers {1}{0}."])
        how = rng.choice([", largest first", " from large to small"]) if down else rng.choice(["", " from small to large", ", smallest first"])
    else:
        xs = rng.sample(ANIMALS + THINGS, k)
        while len({x[0] for x in xs}) < k:
            xs = rng.sample(ANIMALS + THINGS, k)
        out, how = sorted(xs), rng.choice(["", " by the alphabet"])
        q = rng.choice(["Sort these words{}: {}", "Put these words in order{}: {}"])
    return q.format(how, ", ".join(map(str, xs))), "I sort the list.", ", ".join(map(str, out)), ("sort", q)


def counting(rng):
    kind = rng.randrange(3)
    if kind == 0:
        w = rng.choice(COLORS)
        n = rng.randint(1, 5)
        xs = [w] * n + [rng.choice([c for c in COLORS if c != w]) for _ in range(rng.randint(1, 4))]
        rng.shuffle(xs)
        q = rng.choice(["How often is {} in this list: {}", "Count the word {} in: {}", "How many times do you see {} here: {}"])
        return q.format(w, ", ".join(xs)), "I count " + w + ".", f"The word {w} is there {n} time{'s' if n > 1 else ''}.", ("count", q)
    if kind == 1:
        xs = rng.sample(rng.choice([ANIMALS, FOODS, THINGS]), rng.randint(2, 8))
        q = rng.choice(["How many things are in this list: {}", "Count these: {}", "How many words are here: {}"])
        return q.format(", ".join(xs)), "I count them one by one.", ", ".join(f"{i + 1} {x}" for i, x in enumerate(xs)) + f". That makes {len(xs)}.", ("count", q)
    a = rng.randint(1, 15)
    b = a + rng.randint(2, 6)
    q = rng.choice(["Count from {} to {}.", "Please count from {} to {}.", "List the numbers from {} to {}."])
    words = rng.random() < 0.3
    return q.format(a, b) + (" Use words." if words else ""), "I count.", ", ".join(NUMBERS[i] if words and i <= 20 else str(i) for i in range(a, b + 1)), ("count", q)


def dates(rng):
    kind = rng.randrange(4)
    if kind == 0:
        d, k = rng.randrange(7), rng.randint(1, 6)
        back = rng.random() < 0.3
        q = f"Which day is {k} day{'s' if k > 1 else ''} {'before' if back else 'after'} {DAYS[d]}?"
        walk = [DAYS[(d + (-i if back else i)) % 7] for i in range(1, k + 1)]
        return q, ", ".join(walk) + ".", f"It is {walk[-1]}.", ("dates", back, k % 3)
    if kind == 1:
        m = rng.randrange(12)
        q = rng.choice(["How many days does {} have?", "How long is {}?", "How many days are in {}?"])
        return q.format(MONTHS[m]), "I know the months.", f"{MONTHS[m]} has {MONTH_DAYS[m]} days.", ("dates", q)
    if kind == 2:
        m = rng.randrange(12)
        nxt = rng.random() < 0.5
        q = f"Which month comes {'after' if nxt else 'before'} {MONTHS[m]}?"
        return q, "I know the months.", f"{MONTHS[(m + (1 if nxt else -1)) % 12]} comes {'after' if nxt else 'before'} {MONTHS[m]}.", ("dates", nxt)
    m, d, k = rng.randrange(12), rng.randint(1, 20), rng.randint(2, 8)
    return f"What date is {k} days after {MONTHS[m]} {d}?", f"{d} + {k} = {d + k}.", f"It is {MONTHS[m]} {d + k}.", ("dates", "plus")


FIELDS = [("name", lambda r: r.choice(GIRLS + BOYS)), ("age", lambda r: r.randint(3, 90)), ("city", lambda r: r.choice(TOWNS)),
          ("color", lambda r: r.choice(COLORS)), ("job", lambda r: r.choice(PEOPLE)), ("pet", lambda r: r.choice(ANIMALS)),
          ("count", lambda r: r.randint(2, 60)), ("open", lambda r: r.random() < 0.5), ("day", lambda r: r.choice(DAYS)),
          ("food", lambda r: r.choice(FOODS)), ("price", lambda r: r.randint(1, 20) + 0.5), ("title", lambda r: "The " + r.choice(LOOKS).capitalize() + " " + r.choice(THINGS).capitalize())]


def jsons(rng):
    fs = [(n, f(rng)) for n, f in rng.sample(FIELDS, rng.randint(2, 4))]
    obj = dict(fs)
    text = json.dumps(obj)
    kind = rng.randrange(4)
    if kind == 0:
        q = rng.choice(["Write JSON with {}.", "Make a JSON object: {}.", "Give me this as JSON: {}."])
        return q.format(", ".join(f"{k} {str(v).lower() if isinstance(v, bool) else v}" for k, v in fs)), "I write the object.", text, ("json", q)
    k, v = rng.choice(fs)
    if kind == 1:
        q = rng.choice(["What is the {} in {}?", "Read the {} from {}.", "Which {} is in {}?"])
        return q.format(k, text), f"I look for {k}.", f"The {k} is {json.dumps(v) if not isinstance(v, str) else v}.", ("json", q)
    if kind == 2:
        q = rng.choice(["Remove the {} from {}", "Delete {} in {}"])
        return q.format(k, text), f"I leave out {k}.", json.dumps({a: b for a, b in fs if a != k}), ("json", q)
    xs = rng.sample(rng.choice([ANIMALS, FOODS, THINGS, COLORS]), rng.randint(2, 5))
    q = rng.choice(["Write these as a JSON list: {}", "Make a JSON array of {}"])
    return q.format(", ".join(xs)), "I write a list.", json.dumps(xs), ("json", q)


CODE = [
    ("adds {a} and {b}", "{f}({a}, {b})", "return {a} + {b}", "add"),
    ("subtracts {b} from {a}", "{f}({a}, {b})", "return {a} - {b}", "subtract"),
    ("multiplies {a} and {b}", "{f}({a}, {b})", "return {a} * {b}", "multiply"),
    ("returns the larger of {a} and {b}", "{f}({a}, {b})", "return {a} if {a} > {b} else {b}", "larger"),
    ("returns the smaller of {a} and {b}", "{f}({a}, {b})", "return {a} if {a} < {b} else {b}", "smaller"),
    ("doubles {a}", "{f}({a})", "return {a} * 2", "double"),
    ("adds {n} to {a}", "{f}({a})", "return {a} + {n}", "add_{n}"),
    ("checks if {a} is even", "{f}({a})", "return {a} % 2 == 0", "is_even"),
    ("checks if {a} is larger than {n}", "{f}({a})", "return {a} > {n}", "is_large"),
    ("counts the items of {a}", "{f}({a})", "{t} = 0\n    for item in {a}:\n        {t} += 1\n    return {t}", "count"),
    ("adds up the items of {a}", "{f}({a})", "{t} = 0\n    for item in {a}:\n        {t} += item\n    return {t}", "total"),
    ("prints every item of {a}", "{f}({a})", "for item in {a}:\n        print(item)", "show"),
    ("returns the last item of {a}", "{f}({a})", "return {a}[-1]", "last"),
    ("says hello to {a}", "{f}({a})", "print(\"Hello, \" + {a})", "hello"),
    ("squares {a}", "{f}({a})", "return {a} * {a}", "square"),
]
VARS = _w("x y a b left right value number width height first second price count items values names words score rows cells")


def code(rng):
    what, head, body, name = rng.choice(CODE)
    a, b = rng.sample(VARS, 2)
    e = dict(a=a, b=b, n=rng.randint(2, 20), t=rng.choice(["total", "result", "sum"]))
    f = name.format(**e)
    q = rng.choice(["Write a Python function that {}.", "I need a Python function that {}.", "Show me Python code that {}.", "Write a function {f} that {}."])
    if "{f}" in q:
        f = rng.choice(_w("compute run solve work helper make get check")) + "_" + a
    return (q.format(what.format(**e), f=f), "A short function.",
            "```python\ndef " + head.format(f=f, **e) + ":\n    " + body.format(**e) + "\n```", ("code", name, q))


def passage(rng):
    e = stories.cast(rng)
    text, ids = stories.tell(rng, e)
    return e, text


def copying(rng):
    e, text = passage(rng)
    k = rng.randrange(4)
    sents = text.replace("\n\n", " ").split(". ")
    if k == 0:
        s = sents[rng.randrange(len(sents))].strip(". ") + "."
    elif k == 1:
        s = " ".join(rng.choice(rng.choice([ADJ, LOOKS, ANIMALS, THINGS, FOODS, TOWNS, SURNAMES])) for _ in range(rng.randint(4, 12)))
    elif k == 2:
        s = ". ".join(sents[:2]).strip(". ") + "."
    else:
        s = rng.choice(GIRLS + BOYS) + " " + rng.choice(SURNAMES) + ", " + rng.choice(TOWNS) + " " + "".join(rng.choice("0123456789") for _ in range(rng.randint(3, 8)))
    q = rng.choice(["Repeat this: {}", "Copy this text: {}", "Say exactly this: {}", "Write the same again: {}"])
    return q.format(s), "I copy the text.", s, ("copy", q, k)


def summarise(rng):
    e, text = passage(rng)
    q = rng.choice(["Summarise this story: {}", "What is this story about? {}", "Give me a short summary: {}"])
    return q.format(text), "The story is about " + e["hero"] + ".", stories.summary(rng, e), ("sum", q)


def drills(rng):
    n = rng.randint(3, 8)
    ds = [problems.drill(rng) for _ in range(n)]
    q = rng.choice(["Solve: {}", "Compute: {}", "Work out: {}"])
    return q.format("; ".join(a for a, _ in ds)), "I solve them one by one.", "; ".join(f"{a} = {b}" for a, b in ds), ("drill",)


def steps(rng):
    """As drills, with the sums that occur in problems."""
    ds = [problems.step(rng) for _ in range(rng.randint(4, 9))]
    q = rng.choice(["Solve: {}", "Compute: {}", "Work out: {}"])
    return q.format("; ".join(a for a, _ in ds)), "I solve them one by one.", "; ".join(f"{a} = {b}" for a, b in ds), ("step",)


def fields(rng):
    """Values as the arguments of tools have them, each alone on a line."""
    kind = rng.random()
    if kind < 0.25:
        xs = [plural(f) for f in rng.sample(FOODS, rng.randint(2, 5))]
        q = rng.choice(["A JSON list of {}.", "Order {} as JSON.", "Bring {}, as a list."])
        return q.format(tools.text_of(xs)), "I write a list.", json.dumps(xs), ("fields", q)
    if kind < 0.6:
        xs = [str(rng.choice(tools.VALUES)(rng)) for _ in range(rng.randint(2, 7))]
        q = rng.choice(["Write each on its own line: {}", "One per line: {}", "Put these below each other: {}"])
        return q.format(", ".join(xs) + "."), "I write the lines.", "\n".join(xs), ("fields", q)
    fs = [(p[0], str(p[2](rng))) for p in rng.sample([p for p in tools.PARAMS if p[1] != "boolean"], rng.randint(3, 6))]
    ask = rng.sample(fs, rng.randint(1, len(fs)))
    q = rng.choice(["{}. Write the {}.", "Here are: {}. Give me the {}.", "Known: {}. I need the {}."])
    return (q.format(", ".join(f"{k} {v}" for k, v in fs), " and the ".join(k for k, _ in ask)), "I look for " + ", ".join(k for k, _ in ask) + ".",
            "\n".join(v for _, v in ask), ("fields", q, len(ask)))


def sums(rng):
    a, b = problems.drill(rng)
    q = rng.choice(["What is {}?", "How much is {}?", "Compute {}.", "{} = ?"])
    return q.format(a), f"{a} = {b}.", f"{a} = {b}\n#### {b}", ("sum1", q)


GREET = [("Hello!", "Hello! How can I help you?"), ("Hi", "Hello! How can I help you?"), ("Good morning!", "Good morning! What can I do for you?"),
         ("Who are you?", "I am the small demo model of Sluice."), ("What can you do?", "I can tell stories, solve small word problems and call tools."),
         ("Thank you!", "You are welcome!"), ("Bye!", "Goodbye!"), ("What is your name?", "I am the small demo model of Sluice.")]


def greet(rng):
    q, a = rng.choice(GREET)
    return q, "The user is friendly.", a, ("greet",)


def chat(rng):
    """Turns that refer back: list of (user, assistant), the last with thinking."""
    name, town, pet, food, color = rng.choice(GIRLS + BOYS), rng.choice(TOWNS), rng.choice(ANIMALS), rng.choice(FOODS), rng.choice(COLORS)
    facts = [("name", f"My name is {name}.", f"Hello {name}!", "What is my name?", f"Your name is {name}."),
             ("town", f"I live in {town}.", f"{town} is a nice place.", "Where do I live?", f"You live in {town}."),
             ("pet", f"I have {an(pet)}.", f"I like every {pet}.", "Which animal do I have?", f"You have {an(pet)}."),
             ("food", f"I like {plural(food)}.", f"{plural(food).capitalize()} are good.", "What do I like to eat?", f"You like {plural(food)}."),
             ("color", f"My favourite color is {color}.", f"{color.capitalize()} is a fine color.", "What is my favourite color?", f"Your favourite color is {color}.")]
    k = rng.randrange(3)
    if k == 0:
        fs = rng.sample(facts, rng.randint(1, 3))
        turns = [(f[1], f[2]) for f in fs]
        f = rng.choice(fs)
        turns.append((f[3], f[4]))
        return turns, "I look at what was said.", ("chat", f[0], len(fs))
    if k == 1:
        s = problems.drill(rng)
        b = rng.randint(2, 15)
        turns = [(f"What is {s[0]}?", f"{s[0]} = {s[1]}\n#### {s[1]}"), (rng.choice([f"Add {b} to that.", f"Now add {b}.", f"And {b} more?"]), f"{s[1]} + {b} = {s[1] + b}\n#### {s[1] + b}")]
        return turns, f"{s[1]} + {b} = {s[1] + b}.", ("chat", "plus")
    e, text = passage(rng)
    q, a = rng.choice([("Who was in the story?", "{hero_c} and {friend}."), ("Where was it?", "It was in {town}."), ("What was the thing in the story?", "It was {a_thing}."),
                       ("Who helped?", "{friend_c} helped.")])
    if e["thing"] not in text or (q == "Where was it?" and e["town"] not in text) or e["a_thing"] not in text:
        q, a = "Who helped?", "{friend_c} helped."
    return [(rng.choice(stories.ASKS).format(**e), text), (q, a.format(**e))], "I look at the story.", ("chat", "story", q)
