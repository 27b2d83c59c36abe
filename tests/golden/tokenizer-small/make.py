#!/usr/bin/env python3
"""Make tokenizer.json, tokenizer_config.json and vectors.tsv beside this file.

Run from the root of the repository; needs the Python package tokenizers, the
reference. The vocabulary is trained on the C sources of the tree and on the
sentences below. A line of vectors.tsv is: the text in hexadecimal, a tab, its
ids. tests/unit/test_tokenize.c compares.
"""
import json
import pathlib
import random
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers, trainers)

HERE = pathlib.Path(__file__).parent
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"
           r"|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SENTENCES = """
The sluice opens and the water runs. It's late; we'll see what they've done.
She said: "I don't know." He didn't, either. You're right, I'm wrong.
Größere Schleusen heben Schiffe über Berge. Straße, Äpfel, übermäßig.
L'écluse s'ouvre, l'eau coule; où êtes-vous allés cet été? Noël à Genève.
Шлюз открывается, и вода бежит. Куда ты идёшь сегодня вечером?
Η πύλη ανοίγει και το νερό τρέχει. Πού πας απόψε;
水门打开了，水流了出来。今天晚上你要去哪里？我们一起去看看吧。
水門が開いて、水が流れる。今夜どこへ行きますか。ありがとうございます。
수문이 열리고 물이 흐릅니다. 오늘 밤 어디로 가십니까? 감사합니다.
जलद्वार खुलता है और पानी बहता है। आज रात तुम कहाँ जा रहे हो?
ประตูน้ำเปิดและน้ำไหล คืนนี้คุณจะไปไหน ขอบคุณมาก
تفتح البوابة ويجري الماء. إلى أين تذهب الليلة؟ شُكْرًا
השער נפתח והמים זורמים. לאן אתה הולך הלילה? תּוֹדָה
Cổng mở và nước chảy. Tối nay bạn đi đâu? Cảm ơn rất nhiều.
😀 😂 👍 👍🏽 🎉 ❤️ 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 🇯🇵
""".strip().splitlines()
ADDED = [("<|endoftext|>", True), ("<|im_start|>", True), ("<|im_end|>", True),
         ("<|im_end|", False), ("<think>", False), ("</think>", False),
         ("<tool_call>", False), ("</tool_call>", False), ("Ġé", False)]

# What was hard to get right, found by comparing random strings.
HARD = [
    "", " ", "\n", "\r\n", "a", "'s", "'S", "'\u017f", "'\u017ft", "'LL",
    "'lL", "it's", "IT'S", "we'LL've", "'", "''s", " 's", "'r", "'re", "'Re",
    "'v", "'l", "don't", "dont't't",
    "  a", "   a", " \n a", " \n\n  a", "a \n", "a  \n  \n  b", "\t\ta",
    "a\u00a0b", "a\u00a0\u00a0b", "a\u180eb", " \u180e b", "a\u200bb",
    "\u2028\u2029", "x \u3000 y", "x\u3000\u3000", "\x0b\x0c\r x", "a\x85b",
    "!\r\n\r\nb", " !?\n \n", "!! !!\n\n\n", ";\n\n\n}", " ...\n",
    "1234567", "12 34", "\u00b2\u00bd\u2167", "1\u0301", "\u0661\u0662",
    "e\u0301", "e\u0323\u0301", "e\u0301\u0323", "\u0301", " \u0301a",
    "!\u0301a", "\n\u0301", "\u0301\u0323\u0345", "q\u0307\u0323",
    "\u1e9b\u0323", "\u212b\u2126\u212a", "\u0344", "\u0958\u0929\u0928\u093c",
    "\uac00\u11a8", "\u1100\u1161\u11a8", "\u1100\u1161", "\u1161\u11a8",
    "\uac01\u11a8", "\u1112\u1175\u11c2x", "\u09c7\u09be", "\u0dd9\u0dcf",
    "\U0001d15e\U0001d1c0", "\U0002f81a", "\uf900", "\u0f71\u0f72\u0f74",
    # newer than the normaliser, or than some regular expression libraries
    "\U00011935\U00011930", "\U000105d2\u0307", "a\u0898\u0301\u07fd",
    "\u1df6\u0301", "\U00016d63\U00016d67", "\U0001e5ee", "\u1c89\ua7cb",
    "\U00010d40\U00010d41", "\U0002ebf0", "\u0897x", "\ua7da1",
    "<|im_end|>", "<|im_end|x", "<|im_end|><|im_end|>", "<|im_end", "<",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>",
    "a<think>b", "a <think> b", "<think", "<<think>>", "<|im_<|im_end|>",
    "Ġé", "G\u0307e\u0301", "x\u0120\u00e9y", "\u0120\u0120e\u0301",
    "\u0120 \u010a", "\ufeffa", "\ufffd", "\ufffe\uffff", "\x00\x01\x7f",
    "a\x00b", "\U0010ffff", "\U000e0100x", "\u0345\u03b1",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "                                                       x",
    "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
]


def train(corpus):
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=1200, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    for text, special in ADDED:
        t = AddedToken(text, special=special, normalized=text == "Ġé")
        (tok.add_special_tokens if special else tok.add_tokens)([t])
    return tok


def pools():
    yield list("aábcdeE'sStTrRvVlLmMdDſ’ \t\n\r")
    yield list(" \t\n\r\x0b\x0c\x85\xa0\u1680\u2003\u2028\u3000\u180e\u200b")
    yield [t for t, _ in ADDED] + list("<|>GĠe\u0301 \n") + ["im_end"]
    yield list("0123456789٣Ⅷ²½a .")
    yield list("!@#$%^&*()_+-=[]{};:,./<>?\\|`~\"' \n\r")
    yield list("e\u0301\u0323\u0308o\u0328\u0316\u0345aΩ\u212b\u212a\u1e9b\u0344")
    yield list("각ᄀ가ᅡᆨ갂한글ㄱㅏᄒ\ud7a3\u11a7\u11c2\u1161\u1175\u1160")
    yield list("नमस्तेकि\u093c\u0958กิ่ก้\u0e33العربية\u064b\u0651\u05b0\u05c1ש")
    yield ["hello", " the", "The", " of", "\n\n    ", "    ", "return", "()",
           ");\n", "ing", "'re", "'LL", " don't", "123", "x", "é", "水", "👍🏽"]
    yield [chr(c) for c in range(0x250)]


def strings(rnd):
    yield from HARD
    yield from SENTENCES
    every = list(pools())
    for _ in range(600):
        n = rnd.choice([1, 2, 3, 5, 8, 13, 21])
        some = rnd.sample(every, rnd.choice([1, 1, 2, 3]))
        yield "".join(rnd.choice(rnd.choice(some)) for _ in range(n))
    for _ in range(60):
        cps = [rnd.choice([rnd.randrange(0x110000), rnd.randrange(0x3000),
                           rnd.randrange(0x20000)]) for _ in range(6)]
        yield "".join(chr(c) for c in cps if not 0xD800 <= c < 0xE000)


def main():
    sources = sorted(pathlib.Path("src/base").glob("*.[ch]"))
    tok = train([p.read_text() for p in sources] + SENTENCES * 4)
    j = json.loads(tok.to_str())
    # The last added token stands only in the other file, as the family has it.
    rest = j["added_tokens"].pop()
    with open(HERE / "tokenizer.json", "w") as f:
        json.dump(j, f, ensure_ascii=False, indent=0)
    with open(HERE / "tokenizer_config.json", "w") as f:
        json.dump({"add_bos_token": False, "bos_token": None,
                   "eos_token": "<|im_end|>",
                   "pad_token": {"content": "<|endoftext|>"},
                   "added_tokens_decoder": {str(rest.pop("id")): rest}},
                  f, ensure_ascii=False, indent=1)
    with open(HERE / "vectors.tsv", "w") as f:
        for s in dict.fromkeys(strings(random.Random(7))):
            ids = tok.encode(s, add_special_tokens=False).ids
            f.write(s.encode().hex() + "\t" + " ".join(map(str, ids)) + "\n")
    print(len(j["model"]["vocab"]), len(j["model"]["merges"]), file=sys.stderr)


main()
