#!/usr/bin/env python3
"""A small tokenizer of the family's form, and the ids of the reference.

    python3 make_text.py                    write tokenizer/ beside this file
    python3 make_text.py --real TOKENIZER_JSON --out FILE [--count N]

The first form trains a byte-level BPE on the samples below with the family's
pre-tokenizer, NFC and added tokens, saves it as tokenizer/tokenizer.json, and
writes tokenizer/cases.jsonl: one {"s": text, "ids": [...]} per line, ids as
the tokenizers library gives them without adding special tokens.

The second form writes cases for a real tokenizer.json, for use during
development; they are not kept.

Most code points are drawn from those that Python's Unicode has assigned, a
few from the rest, since the reference knows two other versions: its classes
are those of Unicode 16, while its NFC has the tables of Unicode 9 and leaves
younger marks where they stand. Both show in the cases.
"""

import argparse
import datetime
import hashlib
import json
import os
import random
import sys
import unicodedata

import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers, processors, trainers)

SEED = 20260101
N_VOCAB = 900       # with the 256 bytes, without the added tokens
N_CASES = 5000
MAX_BYTES = 480000  # of cases.jsonl

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"
           r"|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

# (text, special), in the family's order; ids follow the vocabulary.
ADDED = [(f"<|{n}|>", True) for n in (
    "endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end",
    "box_start", "box_end", "quad_start", "quad_end", "vision_start",
    "vision_end", "vision_pad", "image_pad", "video_pad")]
ADDED += [("<tool_call>", False), ("</tool_call>", False)]
ADDED += [(f"<|{n}|>", False) for n in (
    "fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name",
    "file_sep")]
ADDED += [(t, False) for t in ("<tool_response>", "</tool_response>",
                               "<think>", "</think>")]
ADDED += [(t, True) for t in (
    "<|audio_start|>", "<|audio_end|>", "<tts_pad>", "<tts_text_bos>",
    "<tts_text_eod>", "<tts_text_bos_single>", "<|audio_pad|>")]

# In the vocabulary but made by no merge: never the result of encoding, as two
# hundred entries of the real vocabulary.
UNREACHABLE = [" zebra", "quux", "\n\n\n\n"]

WHITE = [0x9, 0xA, 0xB, 0xC, 0xD, 0x20, 0x85, 0xA0, 0x1680, *range(
    0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
# Look like white space, are not: separators of other classes, joiners, and
# the one that some regex libraries count.
NOT_WHITE = [0x180E, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x1C, 0x1D, 0x1E,
             0x1F, 0x00, 0x7F, 0x8, 0x84, 0x86, 0xAD, 0x2800, 0x3164]

SAMPLES = [
    "The river was slow that morning, and nobody had told the heron. It stood "
    "on one leg and thought about the other. We didn't stop; they're always "
    "late, she'd said, and I've no doubt that it's true. You'll see, I'm sure.",
    "If the lamp is out, fill it; if the wick is short, replace it. There are "
    "three rules of the house, and the second one is the most important.",
    "Der Fluß war träge, und über der Brücke hing Nebel. Größe, Übung, schön.",
    "L'été dernier, nous avons mangé des pêches où l'eau était fraîche; ça "
    "alors, quel goût! Noël approche déjà.",
    "El niño corrió por la montaña. ¿Dónde está el camión? ¡Allí, señor!",
    "Não há pão, mas temos maçãs e limões. Amanhã será melhor.",
    "Zażółć gęślą jaźń. Wczoraj padał śnieg, dziś świeci słońce.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy nad řekou.",
    "Bugün hava güzel, İstanbul'da ığıl ığıl akıyor. Şişli'ye gidiyoruz.",
    "Hôm nay trời đẹp, chúng tôi đi chợ mua cá và rau. Đường phố rất đông.",
    "Река текла медленно, и никто не говорил с цаплей. Объём, ёлка, подъезд.",
    "Річка текла повільно. Їжак і ґава сиділи під деревом.",
    "Το ποτάμι κυλούσε αργά και κανείς δεν μίλησε στον ερωδιό. Ήταν πρωί.",
    "הנהר זרם לאט, ואיש לא דיבר אל האנפה. שָׁלוֹם עֲלֵיכֶם.",
    "كان النهر بطيئا في ذلك الصباح، ولم يخبر أحد مالك الحزين. السَّلَامُ عَلَيْكُمْ.",
    "رودخانه آهسته می‌رفت و کسی به حواصیل نگفت. می‌خواهم کتاب‌ها را ببینم.",
    "نदी धीमी थी और किसी ने बगुले को नहीं बताया। क्षत्रिय, श्री, ज्ञान, हिन्दी में।",
    "নদীটা সেদিন সকালে ধীর ছিল। কেউ বককে বলেনি। ক্ষমা করো।",
    "நதி மெதுவாக ஓடியது. யாரும் கொக்கிடம் சொல்லவில்லை. கொக்கு நின்றது.",
    "నది నెమ్మదిగా ప్రవహించింది. ఎవరూ కొంగకు చెప్పలేదు.",
    "แม่น้ำไหลช้าในเช้าวันนั้น และไม่มีใครบอกนกกระสา น้ำใสมาก",
    "ແມ່ນ້ຳໄຫຼຊ້າໃນຕອນເຊົ້າ ແລະບໍ່ມີໃຜບອກ",
    "မြစ်သည် ဖြည်းဖြည်းစီးဆင်းသည်။",
    "ទន្លេហូរយឺតៗនៅព្រឹកនោះ។",
    "མི་དམངས་ཀྱི་ཆུ་བོ་དལ་པོར་འབབ།",
    "মণিপুর ꯃꯅꯤꯄꯨꯔ, ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ, ሰላም ለዓለም, გამარჯობა, Բարեւ ձեզ",
    "那天早上河水很慢，没有人告诉苍鹭。它单脚站着，想着另一只脚。第三条规则最重要！",
    "那天早上河水很慢，沒有人告訴蒼鷺。它單腳站著。",
    "その朝、川はゆっくり流れていた。誰も鷺に言わなかった。カタカナとひらがな、ｶﾀｶﾅ。",
    "그날 아침 강은 느렸고 아무도 왜가리에게 말하지 않았다. 한국어 띄어쓰기.",
    "def area(w, h=2.5):\n    \"\"\"Width times height.\"\"\"\n    if w < 0:\n"
    "        raise ValueError(f'bad width {w!r}')\n    return w * h  # m²\n",
    "int main(void)\n{\n\tfor (int i = 0; i < 10; i++)\n\t\tprintf(\"%d\\n\", "
    "i);\n\treturn 0;\n}\n",
    "const f = async (x) => { await g(x ?? 0); return `${x}px`; };\r\n",
    "{\"name\": \"lamp\", \"size\": [1, 2, 3.5e-7], \"on\": true, \"x\": null}",
    "SELECT name, COUNT(*) FROM lamps WHERE size >= 12 GROUP BY name;",
    "<div class=\"row\"><a href='https://example.org/?q=1&r=2#top'>x</a></div>",
    "# Heading\n\n- item one\n- item two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
    "3.14159, 2026-01-31, 1,000,000 km², ½ cup, Ⅳ, x₂, ٣٤٥, १२३, ①②, 50 % off",
    "👍 ok 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 1️⃣ ❤️ ☕︎ 🤷🏽‍♀️ ✨✨✨",
    "∀x∈ℝ: x² ≥ 0, ∑_{i=1}^{n} i = n(n+1)/2, α → β ⇒ γ, 5 °C ± 0.1",
]

# Each becomes a case as it is.
EDGES = [
    "", " ", "  ", "   ", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\t", " \n",
    "\n ", " \n ", "  \n  x", "\t\tfoo", "x  ", "x \n", "x\n ", "a\n\n b",
    "a \n\n b", "a  b", "a   b", "a\tb", "a\t\tb", "a \tb", "a\t b", "\u00a0a",
    "a\u00a0 b", "a \u00a0b", " \u00a0\n\u00a0x", "\x0b\x0ca", "a\x0b\nb",
    "\r\r\na", "\n\r a", ".\n", ".\r\n\r\nx", " .\n", "  .\n x", "...\n\n\n",
    "!?\r", "- \n-", "a.\n b", "\n.", "1\n", "12 345", "a1b2", "1a", "1.5",
    "x²", "½x", " 1", "  1", "\n1", "٣a", "Ⅳa", "一二三4", "a_b", "_a", "__a",
    ".a", "..a", " .a", "/a", "a/b/c", "-a", "--a", " -a", "\"a\"", "'a'",
    "(a)", "$a", "€5", "#tag", "@me", "a@b.c", "a=b", "a==b", "a+=1;", "=>",
    " =>", "  =>", "\t=>", "\t a", " \ta", "'", "''", "'s", "'S", "'\u017f",
    "it's", "IT'S", "it'\u017f", "it's's", "don't", "DON'T", "we're", "WE'RE",
    "We'Re", "I've", "I'VE", "I'm", "I'M", "we'll", "WE'LL", "we'lL", "he'd",
    "HE'D", "'sx", "'tis", "'twas", "'reap", "'vent", "'men", "'llama", "'dog",
    " 's", "  's", "\n's", "1's", "!'s", "''s", "'''s", "it\u2019s",
    "it\u02bcs", "'\u00df", "'\ufb06", "'\u0149", "'l", "'le", "'v", "'r",
    "'\u212a", "'\u0131", "'\u0130", "x'\u017ft", "'s\u0301", "'t\u0308",
    "'re\u0301", "'d9", "'m!", "y'all'd've", "\u0301", " \u0301", "\u0301a",
    "a\u0301", "1\u0301", " 1\u0301", "\n\u0301", "\t\u0301", ".\u0301",
    ".\u0301.", "!\u0301a", "a\u0301\u0301", "\u0301\u0302\u0303", "\u20dd",
    "a\u20dd", "1\u20e3", "#\ufe0f\u20e3", "\u200d", "a\u200db", "\u200ba",
    "a\u200b", " \u200b ", "\ufeffa", "\ufeff", "a\u180eb", " \u180e ",
    "\u180e\u180ea", "\u0085", "a\u0085b", "a\u0085\n", "\u0085\u0085a",
    "\u2028a", "a\u2029\n", "a\u3000b", "\u3000\u3000a", "\x00", "a\x00b",
    "\x00\x00", "\x1f", "a\x7fb", "\x80", "\x9f", "\x1b[31mred\x1b[0m",
    "\ufffd", "\uffff", "\ufffe", "\U0010ffff", "\U000e0041", "\ue000",
    "\uf8ff", "\U0001f468\u200d\U0001f469", "\u212b", "\u2126", "\u2329",
    "e\u0301", "E\u0302\u0301", "a\u0323\u0307", "a\u0307\u0323", "q\u0307"
    "\u0323", "\u1e9b\u0323", "\ufb01", "\u1100\u1161\u11a8", "\uac00\u11a8",
    "\u1100\u1161", "\u1161", "\u0928\u093c", "\u0929", "\u0958", "\u0915"
    "\u093c", "\u09c7\u09be", "\u0b47\u0b57", "\u0cc6\u0cc2", "\u30ab\u3099",
    "\uff76\uff9e", "\u304b\u3099", "\U0001d15e", "\U000110ba", "\u0344",
    "\u0340", "\u0f73", "\u0f71\u0f72", "\u2adc", "\ufb1d", "\U0002f800",
    "\uf900", "\u0060\u0300", "\u1fef", "\u037e", "\u00b7", "\u0387",
    # Marks younger than Unicode 9: the reference's NFC does not know them.
    "a\u0301\u08d3\u0323", "a\u08d3\u0301", "\u1ac4\u0301\u0323", "q\u09fe"
    "\u0323", "\u0d3b\u0301\u0d3c", "\U00011935\U00011930", "\U00011938",
    "e\u1df6\u0301", "\u0301\U00010f46\u0323", "a\U0001e130\u0327\u0301",
    "<|im_start", "|im_start|>", "<|im_start|>", "<|im_start|><|im_end|>",
    "<|im_start|>user\nHi<|im_end|>\n", "a<|im_end|>b", "a <|im_end|> b",
    "<<think>>", "<think></think>", "<think>\n\n</think>\n\n", "< think>",
    "<think >", "<THINK>", "<thi\u0301nk>", "<think>\u0301", "\u0301<think>",
    "e<think>\u0301", "</think", "</think>>", "<</think>", "<tool_call>\n",
    "  <tool_call>  ", "\n\n<tool_call>\n<function=f>\n", "<tool_response>x"
    "</tool_response>", "<tool_<tool_call>call>", "<|im_<|im_end|>end|>",
    "<|endoftext|><|endoftext|>", "<tts_text_bos", "<tts_text_bos>",
    "<tts_text_bos_single>", "<tts_text_bos><_single>", "<tts_pad><tts_pad>",
    "<|fim_prefix|>a<|fim_suffix|>c<|fim_middle|>b", " zebra", "a zebra",
    "quux", "\n\n\n\n", "quuxquux", "the the the", "The THE tHe",
    "\U0001f1e9\U0001f1ea\U0001f1eb", "\U0001f44d\U0001f3fd", "a\U00020000b",
]

FRAMES = ["{}", " {}", "{} ", "a{}b", "a {} b", "a {}b", "{0}{0}a", "\n{}\n",
          "{}\nx", "x{}\n\n{}y", "  {}  ", ".{}.", "1{}2", "\u0301{}\u0301",
          "'{}s", "{0} {0}"]


def assigned():
    """Code points in groups of one class; "Cn" has those that this Python
    does not know, in the planes where newer ones were added."""
    groups = {}
    for c in range(0x110000):
        k = unicodedata.category(chr(c))
        if k not in ("Cs", "Co") and (k != "Cn" or c < 0x33480):
            groups.setdefault(k[0] if k[0] in "LMN" else k, []).append(c)
    return groups


def train(path):
    tok = Tokenizer(models.BPE(fuse_unk=False, byte_fallback=False))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated",
                             invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=N_VOCAB - len(UNREACHABLE), min_frequency=2,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    # The plain spaces and line ends of code are rare in the samples.
    extra = [" " * n + "x" for n in (2, 3, 4, 5, 8, 9)] * 4
    extra += ["\n\n", "\r\n", "\t\t\t", "....", "----"] * 6
    tok.train_from_iterator(SAMPLES * 3 + extra, trainer)
    doc = json.loads(tok.to_str())
    letters = bytes_to_letters()
    vocab = doc["model"]["vocab"]
    for t in UNREACHABLE:
        vocab["".join(letters[b] for b in t.encode())] = len(vocab)
    for i, (text, special) in enumerate(ADDED):
        doc["added_tokens"].append({
            "id": len(vocab) + i, "content": text, "single_word": False,
            "lstrip": False, "rstrip": False, "normalized": False,
            "special": special})
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(doc, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    return Tokenizer.from_file(path)


def bytes_to_letters():
    """The byte-level alphabet: printable bytes stand for themselves, the
    others for 256, 257, ... in ascending order."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out, n = {}, 256
    for b in range(256):
        if b in keep:
            out[b] = chr(b)
        else:
            out[b] = chr(n)
            n += 1
    return out


def fixed_cases():
    """Everything that is listed, not drawn."""
    yield from EDGES
    for c in WHITE + NOT_WHITE:
        for f in FRAMES:
            yield f.format(*[chr(c)] * 2)
        yield chr(c) + "\n" + chr(c) + "x"
    for c in WHITE:
        for d in WHITE:
            yield f"a{chr(c)}{chr(d)}b"
    for t, _ in ADDED:
        for f in ("{}", "a{}b", " {} ", "\n{0}{0}\n", t[:-1] + "{}", "x{}s'"):
            yield f.format(*[t] * 2)
        yield t[1:]
        yield t[:-1]
    for n in (7, 16, 33, 64, 100):
        for x in ("a", " ", "\n", "\t", ".", "the ", " the", "9", "字", "\r\n",
                  "\u0301", "ab", "\u00a0"):
            yield x * n
            yield x * n + "b"


def drawn_cases(rng, n_max):
    """Endless random strings from every kind of source."""
    groups = assigned()
    kinds = sorted(k for k in groups if k != "Cn")
    marks = groups["M"]
    common = [c for c in marks if c < 0x370]
    short = [" ", "  ", "\n", "\r\n", "\t", "'", "'s", "'LL", ".", ",", "!",
             "-", "_", "(", ")", "\"", "1", "42", "\u0301", "\u200d", "\ufe0f",
             "the", "The", " a", "\u3000", "\u00a0", "e\u0301", "\u0645",
             "\u0e19\u0e49", "\u0928\u093f", "字", "한", "\u1112\u1161\u11ab"]
    added = [t for t, _ in ADDED]

    def cut():
        t = rng.choice(SAMPLES)
        i = rng.randrange(len(t))
        return t[i:i + rng.randint(1, n_max)]

    def anything():
        return "".join(chr(rng.choice(groups[rng.choice(kinds)]))
                       for _ in range(rng.randint(1, max(2, n_max // 3))))

    def plane():
        """Neighbours in one block, as a text of one script has them."""
        g = groups[rng.choice(["L", "M", "N", "So", "Po", "Sm"])]
        i = rng.randrange(len(g))
        return "".join(chr(rng.choice(g[max(0, i - 30):i + 30]))
                       for _ in range(rng.randint(1, max(2, n_max // 3))))

    def newer():
        return "".join(chr(rng.choice(groups["Cn"])) if rng.random() < 0.5
                       else rng.choice(["a", " ", ".", "1", "\n", "'s", "e"])
                       for _ in range(rng.randint(1, max(2, n_max // 4))))

    def glue():
        return "".join(rng.choice(short)
                       for _ in range(rng.randint(1, max(2, n_max // 3))))

    def marked():
        out = []
        for ch in cut()[:max(2, n_max // 2)]:
            out.append(ch)
            while rng.random() < 0.3:
                out.append(chr(rng.choice(common if rng.random() < 0.7
                                          else marks)))
        return "".join(out)

    def spaced():
        return "".join(
            chr(rng.choice(WHITE + [0x20] * 8 + [0xA] * 6))
            if rng.random() < 0.6 else rng.choice(["a", "Z", "1", ".", "é"])
            for _ in range(rng.randint(2, max(3, n_max // 2))))

    def with_added():
        parts = [rng.choice([cut, glue])()[:n_max // 2]
                 for _ in range(rng.randint(1, 3))]
        return rng.choice(added).join(parts) + rng.choice(["", added[2]])

    def decomposed():
        return unicodedata.normalize(rng.choice(["NFD", "NFKD"]), cut())

    def cased():
        return "".join(rng.choice([c.upper(), c.lower()]) for c in cut())

    makers = [cut, cut, anything, plane, glue, marked, spaced, with_added,
              decomposed, cased, newer]
    while True:
        t = rng.choice(makers)()
        if rng.random() < 0.25:
            t += rng.choice(makers)()
        yield t


def cases(rng, count, n_max):
    seen = set()

    def fresh(source):
        for s in source:
            if s not in seen:
                seen.add(s)
                yield s
    yield from fresh(fixed_cases())
    for s in fresh(drawn_cases(rng, n_max)):
        if len(seen) > count:
            return
        yield s


def write_cases(tok, path, count, n_max, limit):
    rng = random.Random(SEED)
    n = total = 0
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        for s in cases(rng, count, n_max):
            ids = tok.encode(s, add_special_tokens=False).ids
            line = json.dumps({"s": s, "ids": ids}, ensure_ascii=False,
                              separators=(",", ":")) + "\n"
            total += len(line.encode())
            assert total <= limit, "the file grows too large"
            f.write(line)
            n += 1
    print(f"{path}: {n} cases, {total} bytes")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--real", help="a real tokenizer.json")
    ap.add_argument("--out", help="with --real: the file to write")
    ap.add_argument("--count", type=int, default=24000)
    a = ap.parse_args()
    here = os.path.dirname(os.path.abspath(__file__)) + "/tokenizer"
    if a.real:
        tok = Tokenizer.from_file(a.real)
        write_cases(tok, a.out, a.count, 120, 1 << 30)
        return
    tok = train(here + "/tokenizer.json")
    write_cases(tok, here + "/cases.jsonl", N_CASES, 24, MAX_BYTES)
    note(here)


def note(here):
    """The entry of manifest.json."""
    path = os.path.dirname(here) + "/manifest.json"
    man = json.load(open(path)) if os.path.exists(path) else {}
    man["tokenizer"] = {
        "command": "python3 tests/golden/make_text.py",
        "date": datetime.date.today().isoformat(),
        "implementation": "tokenizers " + tokenizers.__version__,
        "python": f"{sys.version.split()[0]}, Unicode "
                  f"{unicodedata.unidata_version}",
        "seed": SEED,
        "sha256": {f"tokenizer/{f}": hashlib.sha256(
            open(f"{here}/{f}", "rb").read()).hexdigest()
            for f in ("tokenizer.json", "cases.jsonl")}}
    with open(path, "w") as f:
        json.dump(man, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
