"""Tool calls: a hand-written catalogue and tools put together from verbs, nouns and parameters."""
import json

from words import *
from words import _w

CITY = lambda r: r.choice(TOWNS)
NAME = lambda r: r.choice(GIRLS + BOYS)
FULL = lambda r: r.choice(GIRLS + BOYS) + " " + r.choice(SURNAMES)
DAY = lambda r: r.choice(DAYS)
THING = lambda r: r.choice(THINGS)
FOOD = lambda r: r.choice(FOODS)
COLOR = lambda r: r.choice(COLORS)
TITLE = lambda r: "The " + r.choice(LOOKS).capitalize() + " " + r.choice(THINGS).capitalize()
N20 = lambda r: r.randint(2, 20)
N90 = lambda r: r.randint(2, 90)
TIME = lambda r: f"{r.randint(6, 22):02d}:{r.choice(['00', '15', '30', '45'])}"
DATE = lambda r: f"2026-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"
NOTE = lambda r: r.choice(["{0} the {1}", "bring the {1}", "call {2}", "{0} the {1} for {2}", "meet {2} at {3}", "look for the {1}"]).format(
    r.choice(_w("buy find clean paint repair sell wash carry")), r.choice(THINGS), NAME(r), r.choice(TOWNS))
PHONE = lambda r: "".join(str(r.randint(0, 9)) for _ in range(6))
TEMP = lambda r: r.randint(15, 26)
HALF = lambda r: r.randint(1, 19) + 0.5

# (name, description, [(param, type, value, required)], [phrases], result or None, answer)
CATALOGUE = [
    ("get_weather", "Weather of a city", [("city", "string", CITY)],
     ["What is the weather in {city}?", "How is the weather in {city} today?", "Is it raining in {city}?", "Tell me the weather in {city}."],
     lambda r, a: {"sky": r.choice(SKIES), "temperature": r.randint(-5, 35)}, "It is {sky} in {city}, with {temperature} degrees."),
    ("set_timer", "Start a timer", [("minutes", "integer", N90)],
     ["Set a timer for {minutes} minutes.", "Start a {minutes} minute timer, please.", "Wake me in {minutes} minutes.", "I need a timer of {minutes} minutes."],
     lambda r, a: {"status": "ok"}, "The timer is set for {minutes} minutes."),
    ("send_message", "Send a text message", [("to", "string", NAME), ("text", "string", NOTE)],
     ["Send {to} a message: {text}", "Write to {to}: {text}", "Text {to} this: {text}", "Please tell {to}: {text}"],
     lambda r, a: {"status": "sent"}, "The message to {to} was sent."),
    ("book_table", "Book a restaurant table", [("day", "string", DAY), ("time", "string", TIME), ("people", "integer", N20)],
     ["Book a table for {people} people on {day} at {time}.", "I need a table on {day} at {time} for {people}.", "Reserve a table for {people}, {day}, {time}."],
     lambda r, a: {"table": r.randint(1, 30)}, "Table {table} is booked for {day} at {time}."),
    ("play_song", "Play a song", [("title", "string", TITLE), ("volume", "integer", N90)],
     ["Play {title} at volume {volume}.", "I want to hear {title} with volume {volume}.", "Put on {title}, volume {volume}."],
     lambda r, a: {"status": "playing"}, "{title} is playing now."),
    ("set_light", "Switch a light", [("room", "string", lambda r: r.choice(_w("kitchen bedroom bathroom hall garage cellar attic office"))), ("on", "boolean", lambda r: r.random() < 0.5)],
     [("Turn on the light in the {room}.", "Turn off the light in the {room}."), ("Light on in the {room}, please.", "Light off in the {room}, please."),
      ("Switch the {room} light on.", "Switch the {room} light off.")],
     lambda r, a: {"status": "ok"}, "The light in the {room} was switched."),
    ("set_heating", "Set the temperature of a room", [("room", "string", lambda r: r.choice(_w("kitchen bedroom bathroom hall office"))), ("degrees", "number", lambda r: r.choice([TEMP(r), TEMP(r) + 0.5]))],
     ["Set the {room} to {degrees} degrees.", "Make it {degrees} degrees in the {room}.", "Heat the {room} to {degrees} degrees."],
     lambda r, a: {"status": "ok"}, "The {room} is set to {degrees} degrees."),
    ("add_event", "Add a calendar event", [("title", "string", NOTE), ("date", "string", DATE)],
     ["Add to my calendar on {date}: {title}", "On {date} I must remember: {title}", "New event for {date}: {title}"],
     lambda r, a: {"status": "added"}, "The event on {date} was added."),
    ("find_person", "Look up a person", [("name", "string", FULL)],
     ["Who is {name}?", "Find {name}.", "Look up {name} for me.", "Give me the number of {name}."],
     lambda r, a: {"phone": PHONE(r)}, "The phone number of {name} is {phone}."),
    ("get_route", "Find a route", [("start", "string", CITY), ("end", "string", CITY), ("by", "string", lambda r: r.choice(["car", "train", "bike"]), ["car", "train", "bike"])],
     ["How do I get from {start} to {end} by {by}?", "Show me the way from {start} to {end} by {by}.", "I want to go to {end} from {start} by {by}."],
     lambda r, a: {"minutes": r.randint(10, 99)}, "The way from {start} to {end} takes {minutes} minutes by {by}."),
    ("convert", "Convert units", [("value", "number", lambda r: r.choice([N90(r), HALF(r)])), ("unit", "string", lambda r: r.choice(_w("miles feet pounds pints"))), ("to", "string", lambda r: r.choice(_w("metres grams litres")))],
     ["Convert {value} {unit} to {to}.", "How much is {value} {unit} in {to}?", "What are {value} {unit} in {to}?"],
     lambda r, a: {"result": r.randint(2, 99)}, "{value} {unit} are {result} {to}."),
    ("order_food", "Order food", [("items", "array", lambda r: r.sample([plural(f) for f in FOODS], r.choice([2, 2, 3]))), ("city", "string", CITY)],
     ["Order {items} to {city}.", "I would like {items} delivered to {city}.", "Please bring {items} to {city}."],
     lambda r, a: {"order": r.randint(10, 99)}, "Your order number is {order}."),
]
VERBS = {
    "add": ["Add", "Please add", "I want to add", "Create"], "delete": ["Delete", "Remove", "Please delete", "Get rid of"],
    "find": ["Find", "Search for", "Look for", "Please find"], "open": ["Open", "Please open", "Show me", "Can you open"],
    "list": ["List", "Show", "Give me a list of"], "update": ["Update", "Change", "Please update"],
    "buy": ["Buy", "Please buy", "I want to buy", "Order"], "rent": ["Rent", "Please rent", "I want to rent"],
    "print": ["Print", "Please print", "Can you print"], "sell": ["Sell", "Please sell", "I want to sell"],
}
NOUNS = _w("""recipe ticket invoice parcel photo song movie file folder report task note contact account product
customer order room flight train hotel car bike garden lesson course book page game player team match score map
route station museum concert doctor bill letter card coupon house shop""")
PARAMS = [
    ("name", "string", NAME, ["named {}", "for {}", "with the name {}"]),
    ("city", "string", CITY, ["in {}", "from {}", "near {}"]),
    ("count", "integer", N20, ["{} times", "with a count of {}", "with count {}"]),
    ("color", "string", COLOR, ["in {}", "in the color {}", "with the color {}"]),
    ("date", "string", DATE, ["on {}", "for {}", "with the date {}"]),
    ("day", "string", DAY, ["on {}", "for {}", "by {}"]),
    ("price", "number", lambda r: r.choice([N90(r), HALF(r)]), ["for {} coins", "at a price of {}", "with price {}"]),
    ("title", "string", TITLE, ["called {}", "with the title {}", "titled {}"]),
    ("limit", "integer", N90, ["with a limit of {}", "up to {}", "limit {}"]),
    ("urgent", "boolean", lambda r: r.random() < 0.5, [("and mark it urgent", "and mark it not urgent"), ("with urgent on", "with urgent off")]),
    ("tag", "string", THING, ["with the tag {}", "tagged {}", "under {}"]),
    ("time", "string", TIME, ["at {}", "with the time {}", "for {}"]),
    ("size", "string", lambda r: r.choice(["small", "medium", "large"]), ["in size {}", "of size {}", "in {}"], ["small", "medium", "large"]),
]


def a_name(rng):
    """The name of some synthetic tool."""
    verb, noun = rng.choice(sorted(VERBS) + ["list"] * len(VERBS)), rng.choice(NOUNS)
    return verb + "_" + (plural(noun) if verb == "list" else noun)


VALUES = [p[2] for p in PARAMS if p[1] != "boolean"] + [FULL, FOOD, NOTE, PHONE, THING, THING, CITY, CITY, NOTE, a_name, a_name, a_name, lambda r: plural(r.choice(FOODS))]


def text_of(v):
    if isinstance(v, list):
        return ", ".join(v[:-1]) + " and " + v[-1]
    return str(v)


class Tool:
    def __init__(self, name, desc, params, say, result, answer, tid):
        self.name, self.desc, self.params, self.say = name, desc, params, say
        self.result, self.answer, self.tid = result, answer, tid

    def schema(self):
        props = {}
        for p in self.params:
            props[p[0]] = {"type": p[1]}
            if p[1] == "array":
                props[p[0]]["items"] = {"type": "string"}
            if len(p) > 3 and isinstance(p[3], list) and p[3]:
                props[p[0]]["enum"] = p[3]
        return {"type": "function", "function": {"name": self.name, "description": self.desc, "parameters": {
            "type": "object", "properties": props, "required": [p[0] for p in self.params]}}}


def from_catalogue(rng):
    i = rng.randrange(len(CATALOGUE))
    name, desc, params, phrases, result, answer = CATALOGUE[i]

    def say(rng, args):
        k = rng.randrange(len(phrases))
        p = phrases[k]
        if isinstance(p, tuple):
            p = p[0 if args["on"] else 1]
        return p.format(**{n: text_of(v) for n, v in args.items()}), k
    return Tool(name, desc, params, say, result, answer, name)


def synthetic(rng, hard=False):
    """hard: more parameters, and more plurals, which are rare else."""
    verb, noun = rng.choice(sorted(VERBS) + ["list"] * 2 * hard), rng.choice(NOUNS)
    full = rng.sample(PARAMS, rng.choice([1, 2, 3, 3] if hard else [1, 2, 2, 3]))
    plural_noun = verb == "list"
    obj = plural(noun) if plural_noun else noun

    def say(rng, args):
        k = rng.randrange(len(VERBS[verb]))
        s, ks = VERBS[verb][k] + (" the " if rng.random() < 0.6 or plural_noun else " " + an(noun)[:-len(noun)]) + obj, [k]
        for p in full:
            j = rng.randrange(len(p[3]))
            ks.append(j)
            ph = p[3][j]
            s += " " + (ph[0 if args[p[0]] else 1] if isinstance(ph, tuple) else ph.format(text_of(args[p[0]])))
        return s + ("?" if s.startswith("Can") else "."), tuple(ks)
    done = {"add": "added", "delete": "deleted", "find": "found", "open": "opened", "list": "listed", "update": "updated",
            "buy": "bought", "rent": "rented", "print": "printed", "sell": "sold"}[verb]
    return Tool(verb + "_" + obj, verb.capitalize() + " " + (obj if plural_noun else an(noun)), [p[:3] + ((p[4],) if len(p) > 4 else ()) for p in full], say,
                lambda r, a: {"id": r.randint(10, 99), "status": "ok"}, "The " + obj + (" were " if plural_noun else " was ") + done + ". The id is {id}.",
                (verb, *(p[0] for p in full)))


def any_tool(rng, hard=False):
    return from_catalogue(rng) if rng.random() < (0.4 if hard else 0.5) else synthetic(rng, hard)


def kit(rng, hard=False):
    """A tool, others beside it, and all of them in the order of the schemas."""
    tool = any_tool(rng, hard)
    others = []
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        t = any_tool(rng, hard)
        if t.name not in [tool.name] + [o.name for o in others]:
            others.append(t)
    tools = others + [tool]
    rng.shuffle(tools)
    return tool, others, tools


def tool_case(rng):
    """As `request`, with the schemas of its tools."""
    tool, others, tools = kit(rng)
    return dict(request(rng, tool, others), tools=[t.schema() for t in tools])


def request(rng, tool, others, twice=0.15, both=0.08):
    """What a user wants of a tool, and now and then of another. dict: messages, call, think, tail (results and the
    answer in words), calls [(name, args)], template id, values"""
    n = 2 if rng.random() < twice else 1
    calls, says, ks = [], [], []
    for _ in range(n):
        args = {p[0]: p[2](rng) for p in tool.params}
        s, k = tool.say(rng, args)
        calls.append((tool.name, args))
        says.append(s)
        ks.append(k)
    if n == 1 and others and rng.random() < both:
        o = others[0]
        args = {p[0]: p[2](rng) for p in o.params}
        s, k = o.say(rng, args)
        calls.append((o.name, args))
        says.append(s)
        ks.append(k)
        results = [tool.result(rng, calls[0][1]), o.result(rng, args)]
        answers = [tool.answer, o.answer]
    else:
        results = [tool.result(rng, a) for _, a in calls]
        answers = [tool.answer] * n
    join = rng.choice([" ", " ", " And: ", " Then: "]) if len(says) > 1 else " "
    messages = [{"role": "user", "content": join.join(says)}]
    call = {"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": [
        {"type": "function", "function": {"name": n_, "arguments": a}} for n_, a in calls]}
    names = [n_ for n_, _ in calls]
    think = "I call " + " and ".join(names) + "." if len(set(names)) > 1 or len(names) == 1 else "I call " + names[0] + " twice."
    final = " ".join(ans.format(**{k: text_of(v) for k, v in {**a, **r}.items()}) for ans, (_, a), r in zip(answers, calls, results))
    tail = [{"role": "tool", "content": json.dumps(r, ensure_ascii=False)} for r in results]
    tail.append({"role": "assistant", "content": final, "reasoning_content": ""})
    return dict(messages=messages, call=call, think=think, tail=tail, calls=calls,
                tid=(tool.tid, tuple(ks)), val=json.dumps([a for _, a in calls]))
