#!/usr/bin/env python3
"""Makes the tokenizer samples in tests/data out of made-up text, with ids of Hugging Face `tokenizers`.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3
    venv/bin/python tools/make_tokenizer_sample.py MINILM/tokenizer.json tests/data
    venv/bin/python tools/make_tokenizer_sample.py --decode tests/data      (the last file alone)

writes  tokenizer-minilm-sample.jsonl    texts and ids with the real all-MiniLM-L6-v2 vocabulary
        tokenizer-small.json             a WordPiece tokenizer trained here on made-up words
        tokenizer-small-sample.jsonl     texts and ids with it
        tokenizer-parts-sample.jsonl     one small tokenizer a line, with other parts, and its texts
        normalizer-sample.jsonl          a normaliser, a text and what becomes of it
        tokenizer-families-sample.jsonl  a line for each family of tokenizer_families.py: name, file, cases
        tokenizer-mixed-sample.jsonl     small tokenizers with any parts at all, and their texts
        decode-sample.jsonl              decoders for the families, and what ids become with them

Training breaks ties at random, so tokenizers that are there already are kept; sentencepiece is needed
only to make the families anew.

Nothing is copied: words are syllables drawn at random (fixed seed) from the letters of a script.
"""
import json
import os
import random
import sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

ALPHABETS = {
    "latin": ("bcdfghklmnprstvw", "aeiou"), "accented": ("bcdfgñçšžłđß", "áèîõüåæøıİ"),
    "greek": ("βγδθκλμνξπρστφχψς", "αεηιουωάέή"), "cyrillic": ("бвгджзклмнпрстфхцчшщйЙё", "аеиоуыэюяЁ"),
    "hebrew": ("אבגדהוזחטיכלמנסעפצקרשת", "ָֹּׁ"), "arabic": ("ابتثجحخدذرزسشصضطظعغفقكلمنهوي", "َُِّ"),
    "devanagari": ("कखगघचछजटडतदनपबमयरलवशसह", "ािीुूेो्ं"), "thai": ("กขคงจชดตทนบปพมยรลวสหอ", "ะาิีุูเโ"),
    "tamil": ("கஙசஞடணதநபமயரலவ", "ாிீுூெே்"), "kana": ("かきくけこさしすせそがぎぐパピプ", "ーんっアイウ"),
    "hangul": ("가나다라마바사한국어안녕", "각난달람"), "han": ("中文你好世界我爱北京一二三", "𠀀㐀豈日月"),
    "georgian": ("ბგდვზთკლმნპრსტ", "აეიოუᲐᲑ"), "armenian": ("բգդզթժլխծկհձ", "աեիոու"),
}
PUNCTUATION = list(".,;:!?-'\"()[]{}/\\@#$%^&*_+=<>|~`") + list("—–…“”‘’«»¿¡、。「」؟।·‰€£¥©®°§¶†→∀≠½²①")
ODD = ["\u0000", "\u0001", "\u007f", "\u0085", "\u00a0", "\u00ad", "\u200b", "\u200d", "\u2028", "\u3000", "\ufeff", "\ufffd",
       "\ue000", "\u0378", "\U000e0100", "\u0301", "\u0327\u0301", "\u0334", "\u302a", "😀", "👨‍👩‍👧", "🇫🇷", "❤️", "ﬁ", "Ａ１",
       "K", "Å", "ẞ", "ǅ", "\U0001d400", "\u1e9e", "\u0345"]
SPECIALS = ["[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "[mask]", "##ing", "[", "]"]


def word(source, script):
    consonants, vowels = ALPHABETS[script]
    made = "".join(source.choice(consonants) + (source.choice(vowels) if source.random() < 0.8 else "")
                   for _ in range(source.randrange(1, 5)))
    return source.choice([made, made, made, made.upper(), made.capitalize()])


def line(source, words_max=24):
    scripts = source.sample(sorted(ALPHABETS), source.choice([1, 1, 1, 2, 3]))
    parts = []
    for _ in range(source.randrange(1, words_max)):
        kind = source.random()
        if kind < 0.72:
            parts.append(word(source, source.choice(scripts)))
        elif kind < 0.84:
            parts.append(source.choice(PUNCTUATION))
        elif kind < 0.90:
            parts.append(str(source.randrange(10 ** source.randrange(1, 7))))
        elif kind < 0.96:
            parts.append(source.choice(ODD))
        else:
            parts.append(source.choice(SPECIALS))
        parts.append(source.choice([" ", " ", " ", " ", "", "  ", "\n", "\t", "\u00a0"]))
    return "".join(parts)


def english(source, vocabulary):
    return " ".join(source.choice(vocabulary) + source.choice(["", "", "", ",", ".", "s", "'s", "-"])
                    for _ in range(source.randrange(1, 30)))


def cases(tokenizer, source, count, vocabulary, words_max=24):
    """Plain texts, pairs, limits from both ends, and specials kept out or plain."""
    for i in range(count):
        text = english(source, vocabulary) if i % 4 == 0 else line(source, words_max)
        case = {"text": text}
        kind = i % 10
        if kind in (7, 8, 9):
            most = source.randrange(5 if words_max < 24 else 3, 24)
            if kind > 7:
                case["pair"] = line(source, words_max)
            case["max_length"] = most
            case["truncate"] = source.choice(["head", "tail"])
            tokenizer.enable_truncation(most, direction="left" if case["truncate"] == "tail" else "right")
        if kind == 5:
            case["plain_specials"] = True
        if kind == 6:
            case["no_special_tokens"] = True
        if kind == 4:
            case["pair"] = line(source, words_max)
        tokenizer.encode_special_tokens = "plain_specials" in case
        made = tokenizer.encode(text, case.get("pair"), add_special_tokens="no_special_tokens" not in case)
        tokenizer.encode_special_tokens = False
        tokenizer.no_truncation()
        case["ids"] = made.ids
        if "pair" in case:
            case["type_ids"] = made.type_ids
        yield case


def write(path, rows):
    with open(path, "w") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def small_tokenizer(source):
    """WordPiece, lower case, about 2,500 pieces."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words = {script: [word(source, script) for _ in range(60)] for script in sorted(ALPHABETS)}
    texts = [" ".join(source.choice(words[script]) for _ in range(20)) + source.choice(PUNCTUATION)
             for script in sorted(words) for _ in range(60)]
    trainer = trainers.WordPieceTrainer(vocab_size=2500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
                                        show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]"))])
    return tokenizer


def part_choices():
    bert = {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": None,
            "lowercase": False}
    normal = [None, *({"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")),
              *({**bert, name: True} for name in ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")),
              {**bert, "lowercase": True, "strip_accents": False}, {**bert, "clean_text": True, "lowercase": True,
                                                                    "handle_chinese_chars": True},
              {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]},
              {"type": "Sequence", "normalizers": [{"type": "Lowercase"},
                                                   {"type": "Sequence", "normalizers": [{"type": "NFKC"}]}]}]
    split = [None, *({"type": name} for name in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")),
             {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}]},
             {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "BertPreTokenizer"}]}]
    return normal, split


def parts_samples(source, count):
    normal, split = part_choices()
    letters = sorted({c for group in ALPHABETS.values() for part in group for c in part} | set("xyzABCXYZ0123"))
    names = ["<a>", "<a><b>", "été", "Mixed Case", "ka", " of ", "[[", "中", "o", "  "]
    for i in range(count):
        vocabulary = {}
        for piece in ["[UNK]", "[CLS]", "[SEP]", *source.sample(letters, 60), "##a", "##e", "##і", "ab", "##ab", ".", "!",
                      "##\u0301", "e\u0301", "é", "##é", "fi", "ﬁ", "1", "##1", "**", " ", "[SEP]."]:
            vocabulary.setdefault(piece, len(vocabulary))
        for piece in source.sample(letters, 40):
            vocabulary.setdefault("##" + piece, len(vocabulary))
        added, size = [], len(vocabulary)
        plain = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
        for name in ["[UNK]", "[CLS]", "[SEP]"]:
            added.append({"id": vocabulary[name], "content": name, **plain})
        for name in source.sample(names, source.randrange(6)):
            flags = {key: source.random() < 0.4 for key in plain}
            known = vocabulary.get(name)
            added.append({"id": size if known is None else known, "content": name, **flags})
            size += known is None
        post = source.choice([None, {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
                              {"type": "TemplateProcessing",
                               "single": [{"SpecialToken": {"id": "s", "type_id": 3}}, {"Sequence": {"id": "A", "type_id": 4}}],
                               "pair": [{"Sequence": {"id": "B", "type_id": 7}}, {"SpecialToken": {"id": "s", "type_id": 0}},
                                        {"Sequence": {"id": "A", "type_id": 2}}],
                               "special_tokens": {"s": {"id": "s", "ids": [2, 1, 2], "tokens": ["[SEP]", "[CLS]", "[SEP]"]}}}])
        value = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
                 "normalizer": normal[i % len(normal)], "pre_tokenizer": split[source.randrange(len(split))],
                 "post_processor": post, "decoder": None,
                 "model": {"type": "WordPiece", "unk_token": "[UNK]",
                           "continuing_subword_prefix": source.choice(["##", "##", "##", ""]),
                           "max_input_chars_per_word": source.choice([5, 100, 100]), "vocab": vocabulary}}
        tokenizer = Tokenizer.from_str(json.dumps(value))
        pool = [*names, "a", "é", "e\u0301", " ", "  ", "\t", "[SEP]", "\u2003", "1", "ab", ".", "İ"]
        made = list(cases(tokenizer, source, 20, pool))
        for _ in range(10):
            text = "".join(source.choice(pool) for _ in range(12))
            made.append({"text": text, "ids": tokenizer.encode(text).ids})
        yield {"tokenizer": value, "cases": made}


# Order and composition of marks: what each list draws from is put together at random.
MARKS = ["\u0301", "\u0323", "\u0327", "\u0334", "\u0345", "\u0315", "\u05ae", "\u0338", "\u0308", "\u0344", "\u302a", "\u302e",
         "\u302f", "\U0001d165", "\U0001d16d", "\u05b0", "\u034f", "\u0001", "\u3099", "\u093c"]
STARTERS = ["a", "e", "A", "=", "é", "ế", "Å", "\u1100", "\u1161", "\u11a8", "가", "각", "ﬁ", "ẛ", "\u0390", "か", "\u0915", "中",
            "\ufa6c", "\U0001d15e", " ", "x", "İ", "㌀", "㋿", "\U00011935", "\U00011930"]


def normalizer_samples(source, count):
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": True,
            "lowercase": True}
    kinds = [bert, *({"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD"))]
    makers = [normalizers.BertNormalizer(True, True, True, True), normalizers.NFC(), normalizers.NFD(),
              normalizers.NFKC(), normalizers.NFKD()]
    for i in range(count):
        text = "".join(source.choice(STARTERS) + "".join(source.choice(MARKS) for _ in range(source.choice([0, 1, 2, 3, 40])))
                       for _ in range(source.randrange(1, 5)))
        which = i % len(kinds)
        yield {"normalizer": kinds[which], "text": text, "out": makers[which].normalize_str(text)}


FAMILY_WORDS = ["the", "The", "of", "zikaru", "kazoru", "they'll", "We'RE", "it's", "12345", "x=1;", "\n\n", "  ", "\t", "\u2581",
                "<s>", "</s>", "<mask>", "<|im_start|>", "<|x|>", "\u00e9t\u00e9 <b>", "<0x41>", "\u2167", "\u00b2", "'\u017f"]


def family_samples(path, count):
    """The families of the file that is there, else newly trained ones."""
    import tokenizer_families
    if os.path.exists(path):
        with open(path) as file:
            made = [(entry["family"], entry["tokenizer"]) for entry in map(json.loads, file)]
    else:
        source = random.Random(25)
        texts = [line(source) for _ in range(1500)] + [english(source, FAMILY_WORDS) for _ in range(500)]
        made = list(tokenizer_families.families(texts, 1200, tokenizer_families.sentencepiece_charsmap()))
    for name, value in made:
        tokenizer = Tokenizer.from_str(json.dumps(value))
        yield {"family": name, "tokenizer": value,
               "cases": list(cases(tokenizer, random.Random(name), count, FAMILY_WORDS, 9))}


def mixed_samples(source, count):
    import tokenizer_families
    charsmap = tokenizer_families.small_charsmap()
    for _ in range(count):
        value = tokenizer_families.random_tokenizer(source, charsmap)
        # Refused with some normalisers; two tokens may become one.
        if '"first"' in json.dumps(value) or sum(token["normalized"] for token in value["added_tokens"]) > 1:
            continue
        tokenizer = Tokenizer.from_str(json.dumps(value))
        texts = [tokenizer_families.random_text(source) for _ in range(24)]
        yield {"tokenizer": value, "cases": [{"text": text, "ids": tokenizer.encode(text).ids} for text in texts]}


DECODE_WORDS = ["the", "The", "zikaru", "n't", "do not", "they'll", "it's", " .", "12345", "\n\n", "  ", "\t", "\u2581", "\U0001f600",
                "\u00e9t\u00e9 <b>", "\u4e2d\u6587", "<0x41>", "<s>", "</s>", "<mask>", "<|im_start|>", "<|x|>", "[MASK]", "!?", " ,",
                "Ka", "\u0939\u093f", "\u0000", "\U0001f468\u200d\U0001f469", "'"]


def decode_cases(tokenizer, source, count, has_texts):
    """Ids at random, and of texts, whole and with tokens left out, so that characters are cut in half."""
    import tokenizer_families
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    picked = tokenizer_families.picked_ids(vocabulary, tokenizer.get_added_tokens_decoder())
    end = max(tokenizer.get_vocab().values()) + 1
    tried = [[], [picked[0]], [picked[-1]], [end], [end, 2 ** 31 - 1]]
    while len(tried) < count:
        if has_texts and len(tried) % 2:
            text = source.choice(["", " "]).join(source.choice(DECODE_WORDS) for _ in range(source.randrange(1, 7)))
            text += line(source, 3) if source.random() < 0.3 else ""
            ids = tokenizer.encode(text).ids
            if source.random() < 0.6:
                ids = [i for i in ids if source.random() < 0.8]
            tried.append(ids[:24])
        else:
            tried.append(tokenizer_families.random_ids(source, source.choice([1, 3, 8, 16]), end, picked))
    for i, ids in enumerate(tried):
        skip = i % 3 == 0
        text = tokenizer_families.decoded(tokenizer, ids, skip)
        if text is not None:
            yield {"ids": ids, "skip": skip, "text": text}


def decode_samples(folder, count):
    """{"family", "decoder", "cases"}; tokenizers made for decoding alone stand there as "tokenizer"."""
    import tokenizer_families
    with open(os.path.join(folder, "tokenizer-families-sample.jsonl")) as file:
        known = {entry["family"]: entry["tokenizer"] for entry in map(json.loads, file)}
    with open(os.path.join(folder, "tokenizer-small.json")) as file:
        known["small"] = json.load(file)
    entries = [({"family": name}, known[name], decoder)
               for name, decoders in tokenizer_families.DECODERS.items() for decoder in decoders]
    for i, decoder in enumerate(tokenizer_families.ODD_DECODERS):
        value = tokenizer_families.odd_tokenizer([None, {"type": "Lowercase"}][i % 2])
        entries.append(({"tokenizer": value}, value, decoder))
    for i, (entry, value, decoder) in enumerate(entries):
        tokenizer = Tokenizer.from_str(json.dumps({**value, "decoder": decoder}))
        yield {**entry, "decoder": decoder, "cases": list(decode_cases(tokenizer, random.Random(2700 + i), count, "family" in entry))}


def main():
    minilm, folder = sys.argv[1:3]
    if minilm != "--decode":
        write_encodings(minilm, folder)
    write(os.path.join(folder, "decode-sample.jsonl"), decode_samples(folder, 75))


def write_encodings(minilm, folder):
    with open(minilm) as file:
        real_words = [w for w in json.load(file)["model"]["vocab"] if w.isascii() and w.isalpha() and len(w) > 2]
    tokenizer = Tokenizer.from_file(minilm)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    source = random.Random(20)
    write(os.path.join(folder, "tokenizer-minilm-sample.jsonl"), cases(tokenizer, source, 600, real_words))
    source = random.Random(21)
    small = os.path.join(folder, "tokenizer-small.json")
    if not os.path.exists(small):  # training breaks ties at random, so a file that is there is kept
        small_tokenizer(random.Random(23)).save(small, pretty=False)
    tokenizer = Tokenizer.from_file(small)
    words = [w for w in tokenizer.get_vocab() if not w.startswith("[")]
    write(os.path.join(folder, "tokenizer-small-sample.jsonl"), cases(tokenizer, source, 600, sorted(words)))
    write(os.path.join(folder, "normalizer-sample.jsonl"), normalizer_samples(random.Random(24), 500))
    write(os.path.join(folder, "tokenizer-parts-sample.jsonl"), parts_samples(random.Random(22), 45))
    families = os.path.join(folder, "tokenizer-families-sample.jsonl")
    write(families, list(family_samples(families, 520)))
    write(os.path.join(folder, "tokenizer-mixed-sample.jsonl"), list(mixed_samples(random.Random(26), 60)))


if __name__ == "__main__":
    main()
