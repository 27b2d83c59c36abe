"""Stories from a grammar. A story is: opening, wish or find, trouble, help, solution, end.

Text in [a|b|c] is a choice; {name} is a slot; "a_ x" becomes "a x" or "an x".
"""
import re

from words import *
from words import _w

_ALT = re.compile(r"\[([^\[\]]*)\]")


def expand(rng, text, env):
    """Choices from the inside out, then slots, then articles and sentence starts."""
    while True:
        m = _ALT.search(text)
        if not m:
            break
        text = text[:m.start()] + rng.choice(m.group(1).split("|")) + text[m.end():]
    text = text.format(**env)
    return re.sub(r"\b([Aa])_ (\w)", lambda m: m.group(1) + ("n " if m.group(2) in "aeiouAEIOU" else " ") + m.group(2), text)


def cap(s):
    return s[0].upper() + s[1:]


OPEN = [
    "{time} {a_hero} {moved} to {place}.",
    "There was once {a_hero} who lived near {place}.",
    "Once upon a time {a_hero} lived [close to|next to|not far from] {place}.",
    "{a_hero_c} lived alone near {place}. {time}, {he} woke up very {mood}.",
    "{time} {a_hero} sat [by the window|by the door|under a tree] and looked at {place}.",
    "In {place} there lived {a_hero}. Everybody said that {he} was the most {adj} {kind} in {town}.",
    "{time} the people of {town} saw {a_hero} near {place}.",
    "Far away, beyond {place}, lived {a_hero}.",
    "{a_hero_c} had never left {town}. {time} that changed.",
    "{time} {a_hero} packed {his} bag and left {town} for {place}.",
]
FIND = [
    "There {he} found {a_thing} [in the grass|under a bush|behind a wall|between two rocks|in the mud].",
    "On the way {he} saw {a_thing} [beside the path|in a tree|on a flat stone|in the water].",
    "In {his} pocket {he} carried {a_thing}, a gift from {his} {relative}.",
    "More than anything, {hero} wanted {a_thing}.",
    "{hero_c} owned only one thing: {a_thing}.",
    "{His} {relative} had given {him} {a_thing} and said: \"[Take good care of it|Never lose it|It will help you one day].\"",
    "At the market {he} bought {a_thing} for [two|three|four|five] coins.",
    "An old {helper_kind} gave {him} {a_thing} and asked {him} to bring it to {place2}.",
    "Under the floor {he} discovered {a_thing}. [Nobody knew who had put it there|It was covered with dust|It looked very old].",
]
TROUBLE = [
    ("But [a strong wind|a sudden storm|the river] carried the {thing} away.",
     "Together they followed the [wind|river|trail] and found the {thing} [at last|again|in a bush] near {place2}."),
    ("But the {thing} was broken, and nobody in {town} could mend it.",
     "{friend_c} knew how to mend it. They worked all night, and in the morning the {thing} was as good as new."),
    ("Then {a_rival} came and stole the {thing}.",
     "They waited until the {rival} was asleep. Then {hero} took the {thing} back, very {adv}."),
    ("Soon it grew dark, and {hero} lost {his} way.",
     "With the {thing} they made a [sign|light|signal], and [a kind|an old|a tall] {helper_kind} showed them the way home."),
    ("Suddenly the ground shook, and a big rock blocked the road.",
     "They pushed [with all their strength|as hard as they could] until the rock rolled away."),
    ("But the bridge to {place2} was gone.",
     "They built a small raft from old wood and crossed the water {adv}."),
    ("Then {he} heard somebody crying behind {place2}.",
     "It was a lost {small}. They gave it {a_food} and brought it back to its mother."),
    ("But the {rival} of {town} said that the {thing} was [his|not real|worth nothing].",
     "{friend_c} told the truth to everybody, and the {rival} had to say sorry."),
    ("That night a fire started near {place2}.",
     "They ran to the well, filled [ten|twenty|thirty] buckets and put the fire out."),
    ("But {he} was too {adj2} to [ask for help|tell anybody|go any further].",
     "\"You do not have to be {adj2},\" said {friend}. So they tried once more, and this time it worked."),
    ("Then snow began to fall, and there was no shelter anywhere.",
     "They dug a cave in the snow, shared {a_food} and waited until the sun came back."),
    ("When {he} touched the {thing}, it began to [glow|sing|speak|hum].",
     "They listened {adv}. The {thing} told them about a treasure in {place2}, and they found it."),
    ("But the {thing} was so heavy that {he} could not carry it.",
     "They put the {thing} on a cart and pulled it home, step by step."),
    ("Then all the {food_s} in {town} were gone, and everybody was hungry.",
     "They traded the {thing} for {n} {food_s} and gave one to each child in {town}."),
    ("But {a_rival} stood in the way and did not let anybody pass.",
     "They asked the {rival} a riddle. The {rival} thought and thought, and they walked past {adv}."),
    ("But the well of {town} was dry.",
     "They dug [for three days|all week|from morning to evening] until clear water came up."),
]
MEET = [
    "Just then {friend_full} came along. \"{ask}\" {said} {friend}.",
    "{friend_full_c} {moved} by and stopped. \"{ask}\" {said} {friend}.",
    "So {hero} went to {friend_full}. \"Please help me,\" {he} {said}.",
    "Near {place2} {he} met {friend_full}. \"{ask}\" {said} {friend} {adv}.",
    "\"{cry}\" {said} {hero}. {friend_full_c} heard it and came at once.",
    "Luckily {friend_full} was [not far away|close by|on the same road]. \"{ask}\" {said} {friend}.",
]
ASK = ["Why are you so {mood}?", "What is the matter?", "Can I help you?", "Where are you going?",
       "May I come with you?", "What happened to you?", "Do you need a friend?"]
CRY = ["Oh no!", "Help me, please!", "What shall I do now?", "This is terrible!", "I will never give up!"]
AGREE = ["[They|The two] {moved} [on|along|off] together.", "{hero_c} told {friend} everything.",
         "\"[Two are better than one|We can do it together|I have a plan|Follow me],\" {said} {friend}.",
         "{friend_c} thought for a [moment|while] and smiled.", "{hero_c} was {mood2}, but {he} nodded.", ""]
END = [
    "From that day on {hero} and {friend} were the best of friends.",
    "In the evening everybody in {town} ate {food_s} and danced.",
    "{hero_c} went home, {adj} as ever, and slept until noon.",
    "And the {thing}? It still hangs over the door of {hero}.",
    "That day {hero} learned to be {adj3}.",
    "\"Thank you,\" {said} {hero}. \"[Without you I would be lost|You are a true friend|I will never forget this].\"",
    "{hero_c} gave the {thing} to {friend}, and both were {mood3}.",
    "Since then nobody in {town} has been {mood} on a [rainy|cold|dark] day.",
    "And if you go to {place} today, you may still see {hero} and {friend} there.",
    "{hero_c} was {mood3} and {he} never went to {place2} alone again.",
]
RELATIVES = _w("grandmother grandfather mother father aunt uncle sister brother cousin neighbour")
SMALL = _w("kitten puppy lamb duckling cub calf chick foal")
RIVALS = ANIMALS[:30] + ["giant", "dwarf", "wizard", "guard", "robber", "merchant", "troll", "dragon", "goblin"]
GOOD_MOODS = _w("glad happy hopeful excited calm thankful delighted proud")

ASKS = [
    "Tell me a story about {a_kind} and {a_bare}.", "Write a story about {a_kind} and {a_bare}.",
    "Please write a short story about {a_kind} and {a_bare}.", "Can you tell me a story about {a_kind} and {a_bare}?",
    "I would like to hear a story about {a_kind} and {a_bare}.", "Tell a short story with {a_kind} and {a_bare} in it.",
    "Tell me a story about {a_hero_ask}.", "Write a short story about {a_hero_ask} and {a_bare}.",
    "Tell me a bedtime story about {a_kind}.", "Make up a story about {a_kind} and {a_friend}.",
    "Write a story that happens in {place}.", "Tell me a story about {a_kind} near {place}.", "Tell me a story.",
    "A story about {a_bare}, please.", "Write a story about {a_hero_ask} in {town}.",
]


def cast(rng):
    """Who and what the story is about."""
    e = {}
    animal = rng.random() < 0.6
    girl = rng.random() < 0.5
    named = rng.random() < 0.65
    kind = rng.choice(ANIMALS if animal else PEOPLE)
    if kind in ("girl", "princess", "queen"):
        girl = True
    if kind in ("boy", "prince", "king"):
        girl = False
    adj = rng.choice(ADJ)
    name = rng.choice(GIRLS if girl else BOYS)
    e["kind"], e["adj"], e["town"] = kind, adj, rng.choice(TOWNS)
    e["he"], e["him"], e["his"] = ("she", "her", "her") if girl else ("he", "him", "his")
    e["His"] = cap(e["his"])
    ref = "the " + kind
    e["a_hero"] = an(adj + " " + kind)
    e["a_hero_ask"] = e["a_hero"]
    if named:
        e["a_hero"] = rng.choice([an(adj + " " + kind) + " named " + name, an(kind) + " called " + name,
                                  name + " the " + kind, an(adj + " " + kind) + " named " + name])
        e["a_hero_ask"] += " named " + name
        ref = name
    e["hero"], e["hero_c"] = ref, cap(ref)
    e["a_hero_c"] = cap(e["a_hero"])
    fkind = rng.choice([k for k in (ANIMALS if rng.random() < 0.7 else PEOPLE) if k != kind])
    fadj = rng.choice(ADJ)
    e["friend"], e["friend_c"] = "the " + fkind, "The " + fkind
    e["friend_full"] = an(fadj + " " + fkind)
    if rng.random() < 0.3:
        fname = rng.choice([n for n in rng.choice([GIRLS, BOYS]) if n != name])
        e["friend_full"] = fname + " the " + fkind
        e["friend"] = e["friend_c"] = fname
    e["friend_full_c"] = cap(e["friend_full"])
    thing, look = rng.choice(THINGS), rng.choice(LOOKS)
    e["thing"], e["a_bare"], e["a_thing"] = thing, an(thing), an(look + " " + thing)
    e["a_kind"], e["a_friend"] = an(kind), an(fkind)
    e["place"], e["place2"] = rng.sample(PLACES, 2)
    rival = rng.choice([k for k in RIVALS if k not in (kind, fkind)])
    e["rival"], e["a_rival"] = rival, an(rng.choice(["big", "mean", "greedy", "wild", "sly", "strong"]) + " " + rival)
    food = rng.choice(FOODS)
    e["food"], e["a_food"], e["food_s"] = food, an(food), plural(food)
    e["helper_kind"], e["small"] = rng.choice(PEOPLE), rng.choice(SMALL)
    e["relative"], e["time"] = rng.choice(RELATIVES), rng.choice(TIMES)
    e["adj2"], e["adj3"] = rng.choice(_w("shy proud tired small afraid young slow nervous")), rng.choice(ADJ)
    e["mood2"], e["mood3"] = rng.choice(MOODS), rng.choice(GOOD_MOODS)
    e["mood"] = rng.choice(_w("sad tired worried angry puzzled afraid ashamed lonely nervous"))
    e["n"] = rng.randint(5, 40)
    return e


def tell(rng, e, beats=None):
    """The story text, and the indices of the templates used (the template id)."""
    i = [rng.randrange(len(x)) for x in (OPEN, FIND, TROUBLE, MEET, AGREE, END)]
    trouble, solution = TROUBLE[i[2]]
    parts = [OPEN[i[0]], FIND[i[1]], trouble, MEET[i[3]], AGREE[i[4]], solution, END[i[5]]]
    if rng.random() < 0.35:
        j = rng.randrange(len(END))
        if j != i[5]:
            parts.append(END[j])
    out = []
    for p in parts:
        if p:
            env = dict(e, said=rng.choice(SAID), moved=rng.choice(MOVES), adv=rng.choice(ADVERBS))
            env["ask"], env["cry"] = rng.choice(ASK).format(**env), rng.choice(CRY)
            s = expand(rng, p, env)
            out.append(cap(s))
    if len(out) > 4 and rng.random() < 0.4:
        k = rng.choice([2, 3])
        return " ".join(out[:k]) + "\n\n" + " ".join(out[k:]), i
    return " ".join(out), i


def summary(rng, e):
    return expand(rng, rng.choice([
        "{hero_c} had {a_thing}. {friend_c} helped {him}.",
        "It is about {hero}, {a_thing} and {friend}, who helps.",
        "{hero_c} had trouble near {place}, and {friend} helped {him}.",
    ]), e)


def story(rng):
    e = cast(rng)
    text, ids = tell(rng, e)
    q = rng.randrange(len(ASKS))
    return e, ASKS[q].format(**e), text, (q, ids[0], ids[2], ids[5])
