"""Small tokenizers with the pipeline of each family of models, trained on made-up text.

A family's tokenizer.json is taken apart here into what is trained (vocabulary, merges, scores) and
what is written down (normalizer, pre_tokenizer, post_processor, options of the model), so that the
stages are exactly those of the real files. Used by make_tokenizer_sample.py and
compare_tokenizer.py; the character map of SentencePiece comes from a file given there.
"""
import json
import os

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

MARK = "\u2581"
LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
# Of newer models; no scanner knows it, so the pattern itself is run.
O200K_SPLIT = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
               r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
               r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **options}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def template(before, after, names, double=False):
    """before A after, and for two texts before A after (after) B after."""
    def special(name, kind=0):
        return {"SpecialToken": {"id": name, "type_id": kind}}
    single = [special(n) for n in before] + [{"Sequence": {"id": "A", "type_id": 0}}] + [special(n) for n in after]
    second = [special(n) for n in (after if double else before)] + [{"Sequence": {"id": "B", "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": single, "pair": single + second + [special(n) for n in after],
            "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in names.items() if n in before + after}}


def special(token, number, **flags):
    return {"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **flags}


def train_bpe(texts, size, normalizer=None, pre_tokenizer=None, alphabet=None):
    """(pieces in order, merges)"""
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=alphabet or [])
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), model["merges"]


def bpe_model(pieces, merges, **options):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, **options,
            "vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": merges}


def whole(model, added, normalizer, pre_tokenizer, post_processor):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": None, "model": model}


def byte_families(texts, size):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces, merges = train_bpe(texts, size, pre_tokenizer=plain, alphabet=alphabet)
    first = [special(name, i) for i, name in enumerate(names)]
    last = len(names) + len(pieces)
    ids = {name: i for i, name in enumerate(names)}
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True,
               "add_prefix_space": False}
    yield "roberta", whole(bpe_model(names + pieces, merges), first + [special("<mask>", last, lstrip=True)], None,
                           byte_level(), roberta)
    # 21 of the 256 bytes have no token in SmolLM2.
    few = [p for p in pieces if p not in pre_tokenizers.ByteLevel.alphabet() or p.isascii() or p > "\u0120"]
    known = set(few)
    yield "smollm2", whole(bpe_model(names + few, [m for m in merges if known >= {*m, "".join(m)}]), first, None,
                           {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True},
                                                                  byte_level()]}, None)
    for name, pattern, normalizer, post, options in [
            ("llama3", LLAMA3_SPLIT, None, {"type": "Sequence", "processors": [byte_level(), template(["<s>"], [], ids)]},
             {"ignore_merges": True}),
            ("qwen2", QWEN2_SPLIT, {"type": "NFC"}, byte_level(trim_offsets=False), {}),
            ("o200k", O200K_SPLIT, None, template(["<s>"], ["</s>"], ids), {"ignore_merges": True})]:
        trained = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                           pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        pieces, merges = train_bpe(texts, size, pre_tokenizer=trained, alphabet=alphabet)
        words = [w for w in ("Ġzikaru", "kazoru", "Ġ12345", "'LL") if w not in pieces]  # ignore_merges finds them alone
        added = first + [special("<|im_start|>", len(names) + len(pieces) + len(words)),
                         special("<|x|>", len(names) + len(pieces) + len(words) + 1, special=False, single_word=True)]
        yield name, whole(bpe_model(names + pieces + words, merges, **options), added, normalizer,
                          {"type": "Sequence", "pretokenizers": [split({"Regex": pattern}),
                                                                 byte_level(use_regex=False)]}, post)


def sentencepiece_bpe_families(texts, size):
    names = ["<unk>", "<s>", "</s>"]
    octets = [f"<0x{i:02X}>" for i in range(256)]
    ids = {name: i for i, name in enumerate(names)}
    marks = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    pieces, merges = train_bpe(texts, size, normalizer=marks,
                               pre_tokenizer=pre_tokenizers.Split(MARK, "merged_with_next"))
    # Rare characters have no piece, so that bytes and the unknown token have something to do.
    dropped = {p for p in pieces if len(p) == 1 and ord(p) > 0x2500 and p != MARK}
    pieces = [p for p in pieces if not dropped & set(p)]
    merges = [m for m in merges if not dropped & set("".join(m))]
    runs = [MARK * n for n in (2, 3, 4, 8)]
    merges += [[MARK, MARK], [MARK * 2, MARK], [MARK, MARK * 2], [MARK * 2, MARK * 2], [MARK * 4, MARK * 4]]
    pieces += [r for r in runs if r not in pieces]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    added = [special(name, i) for i, name in enumerate(names)]
    options = dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    everything = names + octets + pieces
    extra = [*added, special("\u00e9t\u00e9 <b>", len(everything), special=False, normalized=True)]
    yield "llama2", whole(bpe_model(everything, merges, **options), extra,
                          {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, replace]}, None,
                          template(["<s>"], [], ids))
    yield "mistral", whole(bpe_model(everything, merges, **options), added, None,
                           {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": False},
                           template(["<s>"], [], ids))
    yield "gemma", whole(bpe_model(everything, merges, **options), added, replace,
                         split({"String": " "}, "MergedWithPrevious"), template(["<s>"], [], ids))
    # Without bytes, or with some of them: the unknown token, fused and not.
    yield "bpe-unk", whole(bpe_model(names + octets[:0xC4] + pieces, merges, **{**options, "fuse_unk": False}), added,
                           replace, None, None)


def unigram_families(texts, size, charsmap):
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    ids = {name: i for i, name in enumerate(names)}
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=size, special_tokens=names, unk_token="<unk>",
                                                                 show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    model["vocab"] = [entry for entry in model["vocab"] if len(entry[0]) > 1 or ord(entry[0]) < 0x2600]
    added = [special(name, i) for i, name in enumerate(names)] + [special("<mask>", len(model["vocab"]), lstrip=True)]
    metaspace = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}
    post = template(["<s>"], ["</s>"], ids, double=True)
    precompiled = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    yield "xlm-roberta", whole({**model, "unk_id": 3}, added, precompiled,
                               {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]}, post)
    # As newer converters write them: blanks folded and cut off by the normaliser.
    rest = [{"type": "Strip", "strip_left": False, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": MARK}]
    yield "t5", whole({**model, "unk_id": 3}, added, {"type": "Sequence", "normalizers": [{"type": "NFKC"}, *rest]},
                      metaspace, template([], ["</s>"], ids))
    octets = {**model, "vocab": model["vocab"] + [[f"<0x{i:02X}>", -20.0 - i / 7] for i in range(256)]}
    yield "unigram-bytes", whole({**octets, "unk_id": 3, "byte_fallback": True}, added[:4],
                                 {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}]},
                                 {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "never", "split": False},
                                 None)


def families(texts, size, charsmap):
    """(name, tokenizer.json as a dict) of each."""
    yield from byte_families(texts, size)
    yield from sentencepiece_bpe_families(texts, size)
    yield from unigram_families(texts, size, charsmap)


# ------------------------------------------------------------------- any parts, put together at random

PATTERNS = [r"\s+", r"\d+", r"\p{N}{1,3}", r"[^\p{L}\s]+", r"\w+|[^\w\s]+", r"(?i:'s|'re)|\p{L}+", r" {2,}", r"a+?b|b", r"[\r\n]+",
            r"(?:ab|a)(?=c)|.", r"\p{Lu}?\p{Ll}+", r"(?:[\p{P}\p{S}]{2})+", r"\S++", r"(?:a|b){2,3}", r"\p{M}", r"[a-f\-]", LLAMA3_SPLIT]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
POOL = ["a", "b", "ab", "abc", "c", "A", "B", "\u00e9", "e\u0301", "1", "12", "\u2167", "\u00b2", " ", "  ", "\n", "\r\n", "\t", "\u00a0",
        ".", "!?", "'s", "'RE", "$", MARK, MARK * 2, "\u4e2d", "\u4e2d\u6587", "\U0001f600", "\ufb01", "\u0130", "<b>", "<0x41>", "[UNK]",
        "\u0301", "\u0903", "\u0600", "\u200d", "\u00a9\u200d\u2122", "\u0915\u094d\u0916\u0301", "\u1100\u1161", "\uac00\u0301", "\u0001",
        "\u0120", "ab ab", "\u017f", "-"]


def random_normalizers(source, charsmap):
    def one():
        pattern = source.choice([{"String": source.choice([" ", "a", "ab", "\u00e9", MARK, "  "])},
                                 {"Regex": source.choice(PATTERNS)}])
        return source.choice([
            {"type": "Replace", "pattern": pattern, "content": source.choice([MARK, "", " ", "xy", "b"])},
            {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
            {"type": "Prepend", "prepend": source.choice([MARK, "ab", " "])},
            {"type": "Strip", "strip_left": source.random() < 0.5, "strip_right": source.random() < 0.5},
            *({"type": name} for name in ("Nmt", "NFKC", "NFC", "NFD", "Lowercase", "ByteLevel", "StripAccents")),
            {"type": "Precompiled", "precompiled_charsmap": charsmap}])
    steps = [one() for _ in range(source.choice([0, 0, 1, 1, 2, 3]))]
    return {"type": "Sequence", "normalizers": steps} if len(steps) != 1 else steps[0]


def random_splitters(source):
    def one():
        pattern = source.choice([{"String": source.choice([" ", "a", "ab", MARK, "."])}, {"Regex": source.choice(PATTERNS)}])
        flag = source.random() < 0.5
        return source.choice([
            split(pattern, source.choice(BEHAVIORS), source.random() < 0.3), split(pattern, source.choice(BEHAVIORS)),
            {"type": "Digits", "individual_digits": flag}, {"type": "Punctuation", "behavior": source.choice(BEHAVIORS)},
            byte_level(add_prefix_space=flag, use_regex=source.random() < 0.5),
            {"type": "Metaspace", "replacement": source.choice([MARK, MARK, "_"]), "split": source.random() < 0.7,
             "prepend_scheme": source.choice(["always", "first", "never"])},
            *({"type": name} for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer"))])
    steps = [one() for _ in range(source.choice([0, 1, 1, 2, 3]))]
    return {"type": "Sequence", "pretokenizers": steps} if len(steps) != 1 else steps[0]


def random_bpe(source):
    prefix, suffix = source.choice([None, None, "##"]), source.choice([None, None, "</w>"])
    letters = [c for c in dict.fromkeys("".join(POOL)) if source.random() < 0.8]
    letters += [chr(0x100 + i) for i in range(0x44) if source.random() < 0.5] + [chr(c) for c in range(0xa1, 0xff)]
    pieces = dict.fromkeys(["<unk>", *letters])
    pieces.update(dict.fromkeys((prefix or "") + c + (suffix or "") for c in letters))
    pieces.update(dict.fromkeys((prefix or "") + c for c in letters))
    pieces.update(dict.fromkeys(c + (suffix or "") for c in letters))
    pieces.update(dict.fromkeys(f"<0x{i:02X}>" for i in range(256) if source.random() < 0.9))
    merges = []
    for _ in range(60):
        names = list(pieces)
        left, right = source.choice(names), source.choice(names[len(names) // 2:] if source.random() < 0.5 else names)
        if prefix and not right.startswith(prefix):
            continue
        if left.startswith("<") or right.startswith("<") or (suffix and left.endswith(suffix)):
            continue
        if len(left) + len(right) > 12:
            continue
        pieces[left + (right[len(prefix):] if prefix else right)] = None
        merges.append([left, right])
    for left, right in (("a", "b"), ("\u0120", "a"), (MARK, "a"), ("ab", "c"), (MARK, MARK)):
        if not prefix and not suffix and left in pieces and right in pieces:
            pieces[left + right] = None
            merges.insert(source.randrange(len(merges) + 1), [left, right])
    ids = {piece: i for i, piece in enumerate(pieces)}
    flags = {name: source.random() < 0.4 for name in ("fuse_unk", "byte_fallback", "ignore_merges")}
    return {"type": "BPE", "dropout": None, "unk_token": source.choice([None, "<unk>"]), "continuing_subword_prefix": prefix,
            "end_of_word_suffix": suffix, **flags, "vocab": ids,
            "merges": merges if source.random() < 0.5 or any(" " in p for m in merges for p in m) else [" ".join(m) for m in merges]}


def random_unigram(source):
    names = ["<unk>", *(c for c in dict.fromkeys("".join(POOL)) if source.random() < 0.6)]
    for _ in range(60):
        names.append("".join(source.choice(POOL) for _ in range(source.choice([1, 2, 2, 3]))))
    names += [f"<0x{i:02X}>" for i in range(256) if source.random() < 0.95]
    scores = [source.choice([-1.0, -2.0, -2.5, -source.random() * 10, -source.randrange(100) / 10]) for _ in names]
    return {"type": "Unigram", "unk_id": source.choice([0, 0, 0, 5]), "vocab": [list(p) for p in zip(names, scores)],
            "byte_fallback": source.random() < 0.4}


def random_wordpiece(source):
    names = dict.fromkeys(["[UNK]", *(c for c in "".join(POOL) if source.random() < 0.8)])
    names.update(dict.fromkeys("##" + c for c in "".join(POOL) if source.random() < 0.6))
    return {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 8,
            "vocab": {name: i for i, name in enumerate(names)}}


def random_tokenizer(source, charsmap):
    model = source.choice([random_bpe, random_bpe, random_unigram, random_wordpiece])(source)
    size = len(model["vocab"])
    known = {entry[0]: i for i, entry in enumerate(model["vocab"])} if isinstance(model["vocab"], list) else model["vocab"]
    added = []
    for name in source.sample(["<b>", "ab c", "\u00e9t\u00e9", "!?", MARK + "a", "12"], source.choice([0, 1, 2])):
        flags = {key: source.random() < 0.4 for key in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        added.append({"id": known.get(name, size), "content": name, **flags})
        size += name not in known
    roberta = {"type": "RobertaProcessing", "sep": ["ab", 1], "cls": ["c", 2], "trim_offsets": True, "add_prefix_space": True}
    post = source.choice([None, byte_level(), roberta, template(["a"], ["b", "c"], {"a": 1, "b": 2, "c": 3}),
                          {"type": "Sequence", "processors": [byte_level(), roberta]}])
    return whole(model, added, random_normalizers(source, charsmap), random_splitters(source), post)


def random_text(source, parts=12):
    return "".join(source.choice(POOL) for _ in range(source.randrange(1, parts)))


# -------------------------------------------------------------------------------------- decoders

def replace_back(pattern, content=" "):
    return {"type": "Replace", "pattern": pattern, "content": content}


def strip_back(content, start, stop):
    return {"type": "Strip", "content": content, "start": start, "stop": stop}


def chain(*decoders):
    return {"type": "Sequence", "decoders": list(decoders)}


def metaspace_back(scheme, replacement=MARK, **options):
    return {"type": "Metaspace", "replacement": replacement, "prepend_scheme": scheme, **options}


def word_pieces(prefix="##", cleanup=True):
    return {"type": "WordPiece", "prefix": prefix, "cleanup": cleanup}


BLANKS, OCTETS, FUSE = replace_back({"String": MARK}), {"type": "ByteFallback"}, {"type": "Fuse"}
SENTENCEPIECE = chain(BLANKS, OCTETS, FUSE, strip_back(" ", 1, 0))

# The first of each is the one that models of the family are published with.
DECODERS = {
    "roberta": [byte_level(add_prefix_space=True)],
    "smollm2": [byte_level(add_prefix_space=True), chain(byte_level(), replace_back({"Regex": r"\s+"}, "_"), FUSE)],
    "llama3": [byte_level(add_prefix_space=True)],
    "qwen2": [byte_level(trim_offsets=False, use_regex=False)],
    "o200k": [byte_level(add_prefix_space=True), chain(FUSE, byte_level(use_regex=False))],
    "llama2": [SENTENCEPIECE, chain(OCTETS, BLANKS)],
    "mistral": [SENTENCEPIECE],
    "gemma": [chain(BLANKS, OCTETS, FUSE), chain(FUSE, replace_back({"Regex": MARK + "+|[0-9]{2}"}, "-"))],
    "bpe-unk": [chain(BLANKS, OCTETS, FUSE), {"type": "BPEDecoder", "suffix": MARK}, None],
    "xlm-roberta": [metaspace_back("always", split=True), metaspace_back("never", split=False)],
    "t5": [metaspace_back("always", split=True), metaspace_back("first", split=True),
           chain(metaspace_back("first"), strip_back("a", 2, 0), replace_back({"String": " "}, ""))],
    "unigram-bytes": [chain(OCTETS, metaspace_back("never", split=False)), chain(OCTETS, FUSE, strip_back(MARK, 3, 1)),
                      replace_back({"Regex": r"\p{Lu}|\d"}, "?")],
    "small": [word_pieces(), word_pieces(cleanup=False), word_pieces(""), word_pieces("k")],
}


def with_decoder(name, tokenizer):
    """The family's tokenizer.json with the decoder of its published models."""
    return {**tokenizer, "decoder": DECODERS[name][0]}


# Pieces that decoders look into: what WordPiece tidies, bytes that are and are not UTF-8 or bytes at
# all, blanks and marks at either end, letters of ByteLevel, ends of words.
ODD_PIECES = ["n't", "'s", "'m", "'ve", "'re", "do not", ".", "?", "!", ",", "'", "a", "##a", "##", "####a", "a##a", " ", "  ", " a ",
              "   a", MARK, MARK + "a", MARK * 2, "a" + MARK + "b", "<0x41>", "<0xC3>", "<0xA9>", "<0xF0>", "<0x9F>", "<0x98>",
              "<0x80>", "<0xe9>", "<0x+1>", "<0x-1>", "<0x4G>", "<0x\u00e9>", "<0x00>", "<0xED>", "<0xA0>", "<0xEF>", "<0xBB>",
              "<0xBF>", "<0x041>", "\u00e9", "\U0001f600", "\u0120a", "\u00c3", "\u00a9", "\u00f0", "\u0141", "\u013a", "\u0122",
              "a</w>", "</w>", "</w></w>", "b</w>c", "\u0000", "ab", "aab", "aaa", "\n", " \n ", " .", " n't", " ' ", "' ",
              "do not do not", "x do not 's", "A1b22", "e\u0301", "\u200d"]


def odd_tokenizer(normalizer):
    """WordPiece with those pieces, and added tokens with every mix of flags that decoding asks about."""
    vocabulary = {piece: i for i, piece in enumerate(["[UNK]", *ODD_PIECES])}
    size, added = len(vocabulary), [special("[UNK]", 0)]
    for i, name in enumerate(["<s>", "FOO", "Bar b", "\u00c9t\u00e9", "##Q", "<0x42>", MARK + "S"]):
        added.append(special(name, size + i, special=i in (0, 1, 5), normalized=i in (1, 3, 4, 6)))
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
             "vocab": vocabulary}
    return whole(model, added, normalizer, None, None)


ODD_DECODERS = [
    word_pieces(), word_pieces("a", True), word_pieces("", True), None, byte_level(), {"type": "BPEDecoder", "suffix": "</w>"},
    OCTETS, chain(OCTETS, metaspace_back("first"), FUSE, strip_back(" ", 9, 0)),
    strip_back("a", 2, 0), chain(replace_back({"Regex": r"[a-z]+(?=\d|>)|\d+|\s"}, "<>"), word_pieces("<>", True)),
    chain(chain(), {"type": "BPEDecoder", "suffix": "a"}, chain(FUSE, replace_back({"String": "  "}, ""))),
    chain(word_pieces(), byte_level())]


def random_decoder(source):
    def one():
        pattern = source.choice([{"String": source.choice([" ", "a", "ab", MARK, "  ", "\u00e9"])}, {"Regex": source.choice(PATTERNS)}])
        return source.choice([
            BLANKS, OCTETS, OCTETS, FUSE, byte_level(), replace_back(pattern, source.choice([" ", "", "xy", MARK, "\u00e9"])),
            metaspace_back(source.choice(["always", "first", "never"]), source.choice([MARK, MARK, "_", "a"])),
            word_pieces(source.choice(["##", "##", "a", ""]), source.random() < 0.5),
            {"type": "BPEDecoder", "suffix": source.choice(["</w>", "</w>", "b", MARK])},
            strip_back(source.choice([" ", MARK, "a"]), source.randrange(4), source.choice([0, 0, 1]))])
    steps = [one() for _ in range(source.choice([0, 1, 1, 1, 2, 3, 4]))]
    return chain(*steps) if len(steps) > 1 else steps[0] if steps else None


def decoded(tokenizer, ids, skip):
    """tokenizer.decode, or None where the package panics (Strip from the end of an empty token), quietly."""
    kept, silence = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    try:
        return tokenizer.decode(ids, skip_special_tokens=skip)
    except BaseException as error:  # a panic of the package is no Exception
        if type(error).__name__ != "PanicException":
            raise
        return None
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(silence)


def random_ids(source, count, end, picked):
    """A list of ids, some of them out of `picked`, some twice in a row, few beyond the last one."""
    ids = []
    while len(ids) < count:
        kind = source.random()
        ids.append(source.choice(ids or picked) if kind < 0.1 else source.choice(picked) if kind < 0.5 else
                   end + source.choice([0, 1, 7, 2 ** 31 - 1 - end]) if kind > 0.97 else source.randrange(end))
        if kind < 0.02:
            ids.append(ids[-1])
    return ids


def picked_ids(vocabulary, added):
    """Ids that decoders treat in their own way: bytes, marks, single letters, specials, added tokens."""
    named = [i for piece, i in sorted(vocabulary.items(), key=lambda entry: entry[1])
             if piece.startswith(("<0x", "##")) or len(piece) == 1 or MARK in piece[1:]]
    return named + sorted(added) * max(1, len(named) // (8 * max(1, len(added))))


# -------------------------------------------------------------------------------- character maps

def sentencepiece_charsmap():
    """The character map nmt_nfkc, base64, out of a model that the package sentencepiece trains."""
    import base64
    import io

    import sentencepiece
    model = io.BytesIO()
    lines = iter([f"hello world abc def {i}" for i in range(500)])
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, model_writer=model, vocab_size=40, minloglevel=2,
                                             normalization_rule_name="nmt_nfkc", num_threads=1)

    def fields(data):  # of a protocol buffer: (number, bytes) of those with a length
        at = 0

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(data):
            key = varint()
            if key & 7 == 0:
                varint()
            elif key & 7 == 2:
                count = varint()
                yield key >> 3, data[at:at + count]
                at += count
            else:
                at += 4 if key & 7 == 5 else 8
    (spec,) = (value for number, value in fields(model.getvalue()) if number == 3)
    (found,) = (value for number, value in fields(spec) if number == 2)
    return base64.b64encode(found).decode()


def small_charsmap():
    """A map with keys of one character and more, one that is dropped, one that begins another."""
    import base64

    from make_unicode_tables import charsmap
    keys = {"\u00e9": "e", "e\u0301": "E!", "\u0001": "", "\r": " ", "\ufb01": "fi", "\u2167": "VIII", "\u0600": "N", "\u2122": "TM",
            "\u0916": "kh", "ab": "Q", "\u4e2d": " ", "\u00a0": " ", "\u00a9": "(c)", "c": "c"}
    return base64.b64encode(charsmap(keys)).decode()
