"""Byte-level BPE over the corpus with the family's normaliser, pre-tokenizer and added tokens.

    python tokenizer.py CORPUS.txt OUTDIR

Writes tokenizer.json, tokenizer_config.json, generation_config.json and chat_template.jinja. Base ids come first,
then the family's added tokens in the family's order.
"""
import json
import os
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = 4000
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
# (text, special)
ADDED = [("<|endoftext|>", 1), ("<|im_start|>", 1), ("<|im_end|>", 1), ("<|object_ref_start|>", 1), ("<|object_ref_end|>", 1),
         ("<|box_start|>", 1), ("<|box_end|>", 1), ("<|quad_start|>", 1), ("<|quad_end|>", 1), ("<|vision_start|>", 1),
         ("<|vision_end|>", 1), ("<|vision_pad|>", 1), ("<|image_pad|>", 1), ("<|video_pad|>", 1), ("<tool_call>", 0),
         ("</tool_call>", 0), ("<|fim_prefix|>", 0), ("<|fim_middle|>", 0), ("<|fim_suffix|>", 0), ("<|fim_pad|>", 0),
         ("<|repo_name|>", 0), ("<|file_sep|>", 0), ("<tool_response>", 0), ("</tool_response>", 0), ("<think>", 0),
         ("</think>", 0), ("<|audio_start|>", 1), ("<|audio_end|>", 1), ("<tts_pad>", 1), ("<tts_text_bos>", 1),
         ("<tts_text_eod>", 1), ("<tts_text_bos_single>", 1), ("<|audio_pad|>", 1)]


def shell(model):
    t = Tokenizer(model)
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    t.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    return t


def train(texts, base):
    t = shell(models.BPE())
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=base, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                     show_progress=False))
    t.add_tokens([AddedToken(s, special=bool(sp), normalized=False) for s, sp in ADDED])
    return t


def write(t, out, template):
    os.makedirs(out, exist_ok=True)
    t.save(os.path.join(out, "tokenizer.json"))
    ids = {s: t.token_to_id(s) for s, _ in ADDED}
    end, eot = ids["<|im_end|>"], ids["<|endoftext|>"]
    added = {str(ids[s]): {"content": s, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": bool(sp)}
             for s, sp in ADDED}
    config = {"add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": added, "bos_token": None,
              "chat_template": template, "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "errors": "replace",
              "model_max_length": 32768, "pad_token": "<|endoftext|>", "split_special_tokens": False,
              "tokenizer_class": "Qwen2Tokenizer", "unk_token": None}
    save(out, "tokenizer_config.json", config)
    save(out, "generation_config.json", {"bos_token_id": eot, "do_sample": True, "eos_token_id": [end, eot], "pad_token_id": eot,
                                         "temperature": 0.7, "top_k": 20, "top_p": 0.95})
    with open(os.path.join(out, "chat_template.jinja"), "w") as f:
        f.write(template)


def save(out, name, obj):
    with open(os.path.join(out, name), "w") as f:
        json.dump(obj, f, indent=2, ensure_ascii=False)
        f.write("\n")


def main():
    with open(sys.argv[1]) as f:
        docs = f.read().split("\0")
    strip = [s for s, _ in ADDED]

    def texts():
        for d in docs:
            for s in strip:
                d = d.replace(s, "\n")
            yield d
    t = train(texts(), BASE)
    with open(os.path.join(HERE, "chat_template.jinja")) as f:
        write(t, sys.argv[2], f.read())
    print("tokens:", t.get_vocab_size())


if __name__ == "__main__":
    main()
