#!/usr/bin/env python3
"""Compares token ids of libwarpgroup with those of Hugging Face `tokenizers`, id for id, and texts of ids.

Texts: every Unicode scalar alone, between letters and before a combining mark; runs of random
code points; and lines of real files (documentation, translated manuals, message catalogues). The ids
of each are decoded again, with and without special tokens, and so are ids at random. Each difference
is printed; exit status 1 when there was one. Work is done in pieces, each in a process
of its own with tokenizers of its own, since the package's caches only grow.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tools/compare_tokenizer.py build/release/libwarpgroup.so TOKENIZER.json \\
        --files /usr/share/doc /usr/share/man /usr/share/perl --megabytes 8

TOKENIZER may also be tests/data/tokenizer-families-sample.jsonl: then every family of it is compared,
or those that --families names. --mixed N compares N tokenizers put together at random instead.
"""
import argparse
import ctypes
import gzip
import json
import os
import random
import sys
import tempfile
import time

import tokenizers

SCALARS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HEAD, TAIL = 0, 1


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]


class Encoding(ctypes.Structure):
    _fields_ = [("token_ids", ctypes.POINTER(ctypes.c_int32)), ("type_ids", ctypes.POINTER(ctypes.c_int32)),
                ("token_count", ctypes.c_size_t), ("capacity", ctypes.c_size_t),
                ("is_truncated", ctypes.c_int), ("content_begin", ctypes.c_size_t),
                ("content_end", ctypes.c_size_t), ("scratch", ctypes.c_void_p)]


class Options(ctypes.Structure):
    _fields_ = [("token_count_max", ctypes.c_size_t), ("truncate", ctypes.c_int),
                ("no_special_tokens", ctypes.c_int), ("plain_specials", ctypes.c_int)]


class Decoding(ctypes.Structure):
    _fields_ = [("text", ctypes.c_void_p), ("text_bytes", ctypes.c_size_t), ("scratch", ctypes.c_void_p)]


class Ours:
    def __init__(self, library, path):
        self.lib = ctypes.CDLL(os.path.abspath(library))
        self.lib.wg_tokenizer_encode.argtypes = [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
            ctypes.POINTER(Options), ctypes.POINTER(Encoding), ctypes.POINTER(Error)]
        self.lib.wg_tokenizer_decode.argtypes = [
            ctypes.c_void_p, ctypes.POINTER(ctypes.c_int32), ctypes.c_size_t, ctypes.c_int, ctypes.POINTER(Decoding),
            ctypes.POINTER(Error)]
        self.handle, self.error, self.encoding = ctypes.c_void_p(), Error(), Encoding()
        self.decoding = Decoding()
        self.decoded, self.told = ctypes.byref(self.decoding), ctypes.byref(self.error)
        if self.lib.wg_tokenizer_open(ctypes.byref(self.handle), path.encode(), ctypes.byref(self.error)):
            raise ValueError(self.error.message.decode())

    def run(self, text, pair=None, most=0, truncate=HEAD, no_specials=False, plain=False):
        data, other = text.encode(), None if pair is None else pair.encode()
        options = Options(most, truncate, no_specials, plain)
        status = self.lib.wg_tokenizer_encode(
            self.handle, data, len(data), other, len(other or b""), ctypes.byref(options),
            ctypes.byref(self.encoding), ctypes.byref(self.error))
        if status:
            sys.exit(self.error.message.decode())

    def encode(self, text, pair=None, **options):
        self.run(text, pair, **options)
        count = self.encoding.token_count
        return self.encoding.token_ids[:count], self.encoding.type_ids[:count]

    def decode(self, ids, count, skip):
        """The text of ids, an array of ctypes."""
        if self.lib.wg_tokenizer_decode(self.handle, ids, count, skip, self.decoded, self.told):
            sys.exit(self.error.message.decode())
        return ctypes.string_at(self.decoding.text, self.decoding.text_bytes)


class Comparison:
    def __init__(self, ours, theirs, shown=20):
        self.ours, self.theirs, self.shown = ours, theirs, shown
        self.count = self.wrong = 0
        self.may_panic = False  # in Strip

    def texts_differ(self, array, ids):
        """Whether the texts of ids, which stand in array too, differ, with special tokens or without.

        Short lists, of which there are millions, are decoded with and without them in turn.
        """
        differ = False
        for skip in (False, True) if len(ids) > 8 else ((self.count + len(ids)) % 2 == 0,):
            got = self.ours.decode(array, len(ids), skip)
            if self.may_panic:
                import tokenizer_families
                want = tokenizer_families.decoded(self.theirs, ids, skip)
            else:
                want = self.theirs.decode(ids, skip_special_tokens=skip)
            if want is None or got == want.encode():
                continue
            if not differ and self.wrong < self.shown:
                print(f"different text: skip {skip}, ids {ids[:60]}\n  ours   {got.decode(errors='replace')[:200]!r}"
                      f"\n  theirs {want[:200]!r}")
            differ = True
        return differ

    def random_lists(self, source, count):
        """Texts of ids at random."""
        import tokenizer_families
        vocabulary = self.theirs.get_vocab(with_added_tokens=False)
        picked = tokenizer_families.picked_ids(vocabulary, self.theirs.get_added_tokens_decoder())
        end = max(self.theirs.get_vocab().values()) + 1
        for _ in range(count):
            ids = tokenizer_families.random_ids(source, source.randrange(25), end, picked or [0])
            self.count += 1
            self.wrong += self.texts_differ((ctypes.c_int32 * len(ids))(*ids), ids)

    def one(self, text, pair=None, no_specials=False, **options):
        ids, types = self.ours.encode(text, pair, no_specials=no_specials, **options)
        want = self.theirs.encode(text, pair, add_special_tokens=not no_specials)
        self.count += 1
        if ids == want.ids and types == want.type_ids:
            self.wrong += self.texts_differ(self.ours.encoding.token_ids, ids)
            return
        self.wrong += 1
        if self.wrong <= self.shown:
            print(f"different: {text[:80]!r} {pair and pair[:80]!r} {options}\n  ours   {ids[:40]}"
                  f"\n  theirs {want.ids[:40]}")

    def many(self, texts, what, **options):
        before, wrong, begin = self.count, self.wrong, time.time()
        for text in texts:
            self.one(text, **options)
        print(f"{what}: {self.count - before} texts, {self.wrong - wrong} different, "
              f"{time.time() - begin:.1f} s", flush=True)


class Pieces:
    """Comparisons of one tokenizer.json, in child processes."""

    def __init__(self, library, path):
        self.library, self.path = library, path
        self.count = self.wrong = 0

    def child(self, work):
        """work(comparison) in a process of its own."""
        sys.stdout.flush()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                theirs = tokenizers.Tokenizer.from_file(self.path)
                theirs.no_truncation()
                theirs.no_padding()
                comparison = Comparison(Ours(self.library, self.path), theirs, 5)
                work(comparison)
                os.write(write, json.dumps([comparison.count, comparison.wrong]).encode())
                sys.stdout.flush()
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        if not answer:
            sys.exit(f"{self.path}: a child process failed")
        count, wrong = json.loads(answer)
        self.count += count
        self.wrong += wrong

    def many(self, texts, make, what, step=150_000, **options):
        """make(text) of each of texts."""
        before, wrong, begin = self.count, self.wrong, time.time()
        for at in range(0, len(texts), step):
            def work(comparison, part=texts[at:at + step]):
                comparison.theirs.encode_special_tokens = bool(options.get("plain"))
                for text in part:
                    comparison.one(make(text), **options)
            self.child(work)
        print(f"{what}: {self.count - before} texts, {self.wrong - wrong} different, "
              f"{time.time() - begin:.1f} s", flush=True)


def read_lines(folders, bytes_max, random_source):
    """Lines of up to bytes_max bytes of files below folders, in a random but repeatable order."""
    paths = sorted(os.path.join(root, name) for folder in folders
                   for root, _, names in os.walk(folder) for name in names)
    random_source.shuffle(paths)
    total = 0
    for path in paths:
        if total >= bytes_max:
            return
        try:
            with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
                data = file.read(200_000)
        except OSError:
            continue
        text = data.decode("utf-8", "replace")
        total += len(data)
        yield from text.split("\n")
        yield text[:20_000]


def random_texts(count, random_source):
    groups = [SCALARS, SCALARS[:0x250], SCALARS[0x300:0x700], SCALARS[0x900:0xE00],
              SCALARS[0x1E00:0x2200], SCALARS[0x3000:0x3400], SCALARS[:0x80],
              [c for c in SCALARS[:0x20000] if tokenizers.normalizers.NFD().normalize_str("\u0345" + c)
               != "\u0345" + c] + ["\u0001", "\u00ad", "a", "\u034f"]]
    for _ in range(count):
        parts = random_source.sample(groups, 2)
        yield "".join(random_source.choice(random_source.choice(parts))
                      for _ in range(random_source.randrange(1, 40)))


def compare_truncation(comparison, texts, random_source):
    theirs = comparison.theirs
    for text in texts:
        # Of a pair the package keeps every left-out part of one beside every part of the other.
        pair = random_source.choice([None, random_source.choice(texts)[:300]])
        text = text[:300] if pair is not None else text[:5000]
        most, truncate = random_source.randrange(5, 40), random_source.choice([HEAD, TAIL])
        theirs.enable_truncation(most, direction="left" if truncate == TAIL else "right")
        comparison.one(text, pair, most=most, truncate=truncate)
    theirs.no_truncation()


def compare_parts(library, path, lines, source):
    """The vocabulary of the file with other normalisers, splitters, templates and added tokens."""
    import itertools
    bert = dict(type="BertNormalizer", clean_text=False, handle_chinese_chars=False, strip_accents=None,
                lowercase=False)
    normal = [None, *({"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")),
              *({**bert, name: True} for name in ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")),
              {**bert, "lowercase": True, "strip_accents": False, "handle_chinese_chars": True},
              {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]},
              {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "NFKC"}]}]
    split = [None, *({"type": name} for name in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")),
             {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}]},
             {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "BertPreTokenizer"}]}]
    added = ["the", "The", "<a>", "<a><b>", "\u00c9t\u00e9", "ing", " of ", "o", "[[", "\u4e2d", "<Mixed Case>"]
    with open(path) as file:
        base = json.load(file)
    cls, sep = (next(t["id"] for t in base["added_tokens"] if t["content"] == name) for name in ("[CLS]", "[SEP]"))
    posts = [base["post_processor"], None, {"type": "BertProcessing", "sep": ["[SEP]", sep], "cls": ["[CLS]", cls]}]
    texts = list(random_texts(3000, source)) + source.sample(lines, min(1500, len(lines)))
    for _ in range(3000):
        words = [source.choice([*added, " ", "  ", "a", "\u00e9", "\t", "[SEP]", "\u2003"]) for _ in range(12)]
        texts.append("".join(words))
    wrong = 0
    for normalizer, splitter in itertools.product(normal, split):
        value = {**base, "normalizer": normalizer, "pre_tokenizer": splitter,
                 "post_processor": source.choice(posts), "padding": None, "truncation": None,
                 "added_tokens": list(base["added_tokens"])}
        size = len(base["model"]["vocab"])
        for name in source.sample(added, source.randrange(len(added))):
            flags = {key: source.random() < 0.4 for key in ("single_word", "lstrip", "rstrip", "normalized", "special")}
            known = base["model"]["vocab"].get(name)
            value["added_tokens"].append({"id": size if known is None else known, "content": name, **flags})
            size += known is None
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(value, file)
            file.flush()
            try:
                theirs = tokenizers.Tokenizer.from_file(file.name)
            except BaseException as error:  # a panic of the package is no Exception
                print(f"they refuse {value['added_tokens'][5:]}: {error}")
                continue
            try:
                ours = Ours(library, file.name)
            except ValueError as error:
                # Which of two equal patterns wins there is left to a hash map's order.
                if "the same once normalised" not in str(error):
                    raise
                continue
            comparison = Comparison(ours, theirs, 3)
            comparison.many(texts, f"{normalizer} {splitter}")
            compare_truncation(comparison, texts[::10], source)
            wrong += comparison.wrong
            if comparison.wrong:
                print(value["added_tokens"][5:], value["post_processor"])
    print(f"parts: {wrong} different")
    return 1 if wrong else 0


def compare_whole(library, path, lines, source, has_marks=True):
    """All kinds of texts with one tokenizer.json; the number of differences."""
    pieces = Pieces(library, path)
    pieces.many(SCALARS, lambda c: c, "each scalar alone")
    pieces.many(SCALARS, lambda c: "a" + c + "b", "each between letters")
    if has_marks:
        pieces.many(SCALARS, lambda c: "x" + c + "\u0334\u0345y", "each before two marks")
    pieces.many(list(random_texts(100_000, source)), str, "random code points")
    pieces.many(lines, str, "lines of files", 20_000)
    sample = source.sample(lines, min(20_000, len(lines))) + list(random_texts(2_000, source))
    pieces.many(sample, str, "the same without special tokens", 20_000, no_specials=True)
    specials = ["[CLS] a [SEP]", "[[SEP]]", "x[MASK]", "<s>a</s>", "<mask> <|im_start|>"]
    pieces.many(sample + specials, str, "specials as plain text", 20_000, plain=True)
    before, wrong = pieces.count, pieces.wrong
    pieces.child(lambda comparison: compare_truncation(comparison, sample, source))
    print(f"truncated, alone and in pairs: {pieces.count - before} texts, {pieces.wrong - wrong} different")
    before, wrong = pieces.count, pieces.wrong
    pieces.child(lambda comparison: comparison.random_lists(source, 20_000))
    print(f"ids at random: {pieces.count - before} lists, {pieces.wrong - wrong} different")
    print(f"{path}: {pieces.count} texts in all, {pieces.wrong} different (tokenizers {tokenizers.__version__})",
          flush=True)
    return pieces.wrong


def compare_families(library, path, names, lines, source):
    import tokenizer_families
    wrong = 0
    with open(path) as file:
        entries = [json.loads(line) for line in file]
    for entry in entries:
        if names and entry["family"] not in names:
            continue
        with tempfile.NamedTemporaryFile("w", suffix=f"-{entry['family']}.json") as file:
            json.dump(tokenizer_families.with_decoder(entry["family"], entry["tokenizer"]), file)
            file.flush()
            wrong += compare_whole(library, file.name, lines, source, '"NF' in json.dumps(entry["tokenizer"]))
    return wrong


def compare_mixed(library, count, seed):
    """Tokenizers put together at random: `count` of them, 60 texts each."""
    import tokenizer_families
    charsmap, totals = tokenizer_families.small_charsmap(), {"right": 0, "wrong": 0, "refused": 0}

    def one(number):
        source = random.Random(number)
        value = tokenizer_families.random_tokenizer(source, charsmap)
        decoders = random.Random(f"decoder {number}")  # of their own, so that a number's tokenizer stays what it was
        value["decoder"] = tokenizer_families.random_decoder(decoders)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(value, file)
            file.flush()
            theirs = tokenizers.Tokenizer.from_file(file.name)
            try:
                ours = Ours(library, file.name)
            except ValueError as error:
                print(f"{number} refused: {str(error).split(': ', 1)[-1]}")
                return "refused"
        comparison = Comparison(ours, theirs, 1)
        comparison.may_panic = '"Strip", "content"' in json.dumps(value["decoder"])
        for i in range(60):
            parts = 1 if i < 57 else 300
            comparison.one("".join(tokenizer_families.random_text(source, source.choice([6, 12, 40])) for _ in range(parts)))
        comparison.random_lists(decoders, 20)
        if comparison.wrong:
            print(f"{number} is wrong: {json.dumps({**value, 'model': value['model']['type']})[:2000]}")
        return "wrong" if comparison.wrong else "right"
    for begin in range(seed, seed + count, 200):
        sys.stdout.flush()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            for number in range(begin, min(begin + 200, seed + count)):
                os.write(write, one(number).encode() + b" ")
            sys.stdout.flush()
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            for answer in pipe.read().split():
                totals[answer] += 1
        os.waitpid(child, 0)
    print(f"{count} tokenizers: {totals}")
    return count - totals["right"] - totals["refused"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("tokenizer")
    parser.add_argument("--files", nargs="*", default=[])
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--families", nargs="*", default=[], help="only these of a families file")
    parser.add_argument("--parts", action="store_true", help="other parts with the file's vocabulary instead")
    parser.add_argument("--mixed", type=int, metavar="N", help="N tokenizers put together at random instead")
    given = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    source = random.Random(given.seed)
    path = given.tokenizer
    if os.path.isdir(path):
        path = os.path.join(path, "tokenizer.json")
    if given.mixed:
        return 1 if compare_mixed(given.library, given.mixed, given.seed) else 0
    lines = [line for line in read_lines(given.files, given.megabytes * 1e6, source) if line]
    if given.parts:
        return compare_parts(given.library, path, lines, source)
    if path.endswith(".jsonl"):
        return 1 if compare_families(given.library, path, given.families, lines, source) else 0
    return 1 if compare_whole(given.library, path, lines, source) else 0


if __name__ == "__main__":
    sys.exit(main())
