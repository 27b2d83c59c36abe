"""Word lists of the corpus. Everything here was written for this project; compounds are made by rule."""


def _w(s):
    return s.split()


def _p(s):
    """'a b; c d' -> phrases"""
    return [x.strip() for x in s.replace("\n", " ").split(";") if x.strip()]


GIRLS = _w("""Mia Anna Lena Nora Ruth Clara Ivy Rosa Tess Maya Ella Zoe Lucy Emma Ada Hanna Iris June Kira Lily
Marta Nina Olga Paula Rita Sara Tara Uma Vera Wanda Yara Alma Bella Cora Dina Edith Flora Greta Hilda Ines Jana
Kate Lola Mona Nell Opal Petra Sofia Thea Viola Amira Celia Daria Elsa Freya""")
BOYS = _w("""Tom Ben Max Leo Finn Sam Jack Noah Otto Paul Karl Hugo Emil Luis Omar Ravi Theo Adam Bruno Carl Dan
Eric Frank Gus Henry Ian Jonas Kurt Liam Mark Nick Oscar Peter Ralf Simon Tim Urs Victor Will Yusuf Arno Basil
Cyril Dario Elias Felix Gregor Hans Igor Jasper Kofi Lars Milo Nils Pablo Rufus""")
ANIMALS = _w("""fox owl hare mouse bear wolf otter badger hedgehog squirrel frog toad crow raven duck goose swan
heron sparrow robin cat dog pony goat lamb calf mole beaver deer moose rabbit turtle snail lizard seal whale crab
penguin donkey pig hen rooster stork kitten puppy cub lynx weasel ferret rat bat beetle ant bee moth spider
camel monkey parrot elephant tiger panda""")
PEOPLE = _w("""girl boy baker miller sailor farmer tailor painter weaver fisher gardener shepherd potter carpenter
teacher doctor smith cook clerk pilot captain knight princess prince king queen giant dwarf wizard piper drummer
singer dancer juggler hunter miner guard porter""")
THINGS = _w("""lantern map key kite drum bell basket book clock coat cup flute hat ladder lamp mirror needle
ring rope scarf shell shovel spoon stone sword umbrella violin whistle wheel boat candle button coin crown feather
blanket bottle box broom bucket compass diamond doll flag glove hammer horn jar kettle letter marble medal net
oar paddle pearl pebble pen pipe pot puppet purse ribbon saddle sack seed shoe sled stick string teapot ticket
torch trumpet wagon watch acorn anchor brush chest comb jewel locket mask""")
FOODS = _w("""apple pear plum cherry peach bun cake pie cookie carrot onion potato tomato pumpkin melon nut
berry lemon orange banana egg sandwich pancake muffin biscuit waffle grape fig bean radish turnip""")
ITEMS = FOODS + _w("""marble sticker stamp card coin book pencil crayon button shell stone ball balloon flower
feather ribbon bead block badge ticket toy puzzle brick candle bottle cup plate key rose tulip leaf photo
magnet shirt sock scarf pen eraser""")
CONTAINERS = _w("box bag basket jar crate sack tray drawer shelf packet case bucket")
ADJ = _w("""small old young brave clever kind shy quiet proud lonely happy gentle hungry sleepy curious careful lazy
tiny tall merry stubborn patient polite noisy nervous cheerful clumsy honest grumpy wise playful bold humble
restless friendly fearless dreamy busy thoughtful""")
LOOKS = _w("""red blue green yellow golden silver white black brown grey purple orange shiny dusty rusty wooden
heavy broken little round painted wet warm cold soft bright strange plain smooth crooked ancient polished
striped tattered velvet copper woolen leather crystal hollow""")
PLACES = _p("""the dark forest; the quiet valley; the old mill; the river bank; the market square; the high hill;
the green meadow; the sandy beach; the stone bridge; the little harbour; the snowy mountain; the empty castle;
the village school; the apple orchard; the deep cave; the wide marsh; the windy cliff; the sleepy town; the old
library; the narrow street; the frozen lake; the big barn; the hidden garden; the lighthouse; the train station;
the corn field; the rocky island; the pine wood; the bakery; the clock tower; the wheat field; the fishing pier;
the royal palace; the toy shop; the abandoned farm; the desert camp; the night market; the rose garden""")
TIMES = _p("""One morning; One evening; One day; Early one spring; Late one autumn; One cold winter night;
On a warm summer day; On a rainy afternoon; Before sunrise; After the harvest; On the first day of spring;
On the longest night of the year; One windy day; On market day; At noon; Late at night; One foggy morning""")
MOODS = _w("sad glad tired worried hopeful surprised excited calm angry puzzled thankful afraid delighted ashamed")
COLORS = _w("red blue green yellow white black brown grey purple orange pink")
DAYS = _w("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = _w("January February March April May June July August September October November December")
MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
SKIES = _w("sunny cloudy rainy windy foggy snowy clear stormy")

_PRE = _w("""Ash Birch Elm Oak Pine Stone River Lake Hill North South East West Green Red White Black Fair Mill
King Bridge Sand Clear Cold Deer Fox Swan Wind Snow Sun Moon Rose Thorn Wolf Bright Long Silver Honey Copper""")
_SUF = _w("""brook ford ton field wood dale port haven ville burg mouth stead bury worth gate moor crest well
bank ridge""")
TOWNS = [a + b for a in _PRE for b in _SUF]
_SPRE = _w("Gold Silver Stein Har Ber Lind Wal Mar Hol Ber Kel Dor Fen Gar Nor Pel Ros Sten Tor Win Hart Bel Cor")
_SSUF = _w("man berg son ley ner wick low mer ing ham den ster by ard")
SURNAMES = sorted({a + b for a in _SPRE for b in _SSUF})

_IRREG = {"mouse": "mice", "goose": "geese", "leaf": "leaves", "wolf": "wolves", "calf": "calves", "deer": "deer",
          "moose": "moose", "shelf": "shelves", "scarf": "scarves", "potato": "potatoes", "tomato": "tomatoes"}


def plural(w):
    if w in _IRREG:
        return _IRREG[w]
    if w[-1] == "y" and w[-2] not in "aeiou":
        return w[:-1] + "ies"
    if w.endswith(("s", "x", "ch", "sh")):
        return w + "es"
    return w + "s"


def an(w):
    return ("an " if w[0].lower() in "aeiou" or w.startswith("honest") else "a ") + w


ITEMS = sorted(set(ITEMS))

# Past tense and base form of verbs used in stories.
MOVES = _p("""walked;ran;crept;hurried;wandered;marched;climbed;skipped;trotted;stumbled;strolled;rushed;tiptoed;
raced""")
SAID = _p("said;whispered;called;answered;cried;laughed;murmured;shouted;sighed;replied")
ADVERBS = [a + "ly" for a in _w("""slow quick quiet soft brave sad glad kind careful bright proud calm warm polite
nervous cheerful patient bold eager sudden secret firm""")] + _w("gently happily angrily merrily")
