#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_data.c: what each code point is to Hugging Face `tokenizers`.

The package takes its character classes from four libraries of four Unicode versions, so no one
version of the standard gives its answers. This script asks the package itself, one code point at a
time, and writes ranges. Values of combining classes and decompositions stay with utf8proc, which
may be newer; the ranges say which code points the package lets decompose and reorder at all.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tools/make_unicode_tables.py > src/tokenizer/unicode_data.c
"""
import struct
import sys

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

SCALARS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# The same names, in the same order, as in src/tokenizer/unicode.h.
FLAGS = ["CLEANED", "NONSPACING", "MARK", "PUNCTUATION", "WORD", "SPACE", "LOWER", "CANONICAL",
         "COMPAT", "NONSTARTER", "CHINESE", "NUMERIC", "PATTERN_WORD", "JOINS", "PREPENDS", "CONTROL",
         "PICTOGRAPH", "CONSONANT", "LINKER", "CONJUNCT", "CLASS_WORD"]
# General categories, numbered from 0 in bits 24 to 28; the same order as in unicode.h.
CATEGORIES = ["Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi",
              "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"]


def bert(**on):
    options = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    options.update(on)
    return normalizers.BertNormalizer(**options).normalize_str


def pieces(pre_tokenizer, char):
    return [piece for piece, _ in pre_tokenizer.pre_tokenize_str("a" + char + "a")]


def matches(pattern):
    """The characters that a pattern of one character matches in the package's pattern engine."""
    splitter = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return set().union(*(piece for piece, _ in splitter.pre_tokenize_str("".join(SCALARS))))


def charsmap(mapping):
    """A Precompiled normaliser of {key: replacement}: a double array with 256 units a node."""
    nodes, values, blob = [{}], {}, b""
    for key, to in mapping.items():
        node = 0
        for byte in key.encode():
            if byte not in nodes[node]:
                nodes[node][byte] = len(nodes)
                nodes.append({})
            node = nodes[node][byte]
        values[node] = len(blob)
        blob += to.encode() + b"\0"
    units = [0] * (256 * (len(nodes) + 1))

    def unit(at, node, label):
        leaf = 256 if node in values else 0
        units[at] = (at ^ 256 * (node + 1)) << 10 | leaf | label
        if leaf:
            units[256 * (node + 1)] = 1 << 31 | values[node]
        for byte, child in nodes[node].items():
            unit(256 * (node + 1) ^ byte, child, byte)

    unit(0, 0, 0)
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + blob


def replacer(mapping):
    return normalizers.Precompiled(charsmap(mapping)).normalize_str


def measure_graphemes():
    """Grapheme clusters as Precompiled sees them: what stands behind the first key of one is lost."""
    sets = {name: set() for name in ("JOINS", "PREPENDS", "CONTROL", "PICTOGRAPH", "CONSONANT", "LINKER", "CONJUNCT")}
    letter, sign, kha = replacer({"a": "A"}), replacer({"©": "X"}), replacer({"ख": "X"})
    # Marks behind a control are a cluster of their own, of which all but the first is lost.
    mark = replacer({"\u0301": "X"})
    sets["CONTROL"] = {c for c in SCALARS if c != "\u0301" and mark(c + "\u0301\u0301") == c + "X"}
    for begin in range(0, 0x110000, 64):
        chars = [chr(c) for c in range(max(begin, 1), begin + 64) if not 0xD800 <= c < 0xE000]
        each = replacer({c: "X" for c in chars}) if chars else None
        for c in chars:
            if letter("a" + c) == "A":
                sets["JOINS"].add(c)
            if each(c + "b") == "X":
                sets["PREPENDS"].add(c)
            if sign("©\u200d" + c) != "X" + c and c not in sets["JOINS"]:
                sets["PICTOGRAPH"].add(c)
            if len(c.encode()) < 4 and c not in sets["CONTROL"] | sets["JOINS"] and each("क\u094d" + c + "\u0301") != "क\u094dX":
                sets["CONSONANT"].add(c)
            if kha("क" + c + "ख\u0301") != "क" + c + "X" and c not in sets["PREPENDS"] | {"ख"}:
                sets["LINKER"].add(c)
            if kha("क\u094d" + c + "ख\u0301") != "क\u094d" + c + "X" and c not in sets["PREPENDS"]:
                sets["CONJUNCT"].add(c)
    return sets


def measure():
    category, graphemes = {}, measure_graphemes()
    for name in CATEGORIES[1:]:
        category.update(dict.fromkeys(matches(r"\p{%s}" % name), CATEGORIES.index(name)))
    pattern_words, class_words, digits = matches(r"\w"), matches(r"[\w]"), pre_tokenizers.Digits(True)
    if matches(r"\s") != {c for c in SCALARS if len(pieces(pre_tokenizers.BertPreTokenizer(), c)) == 2}:
        sys.exit("the white space of patterns is not that of BertPreTokenizer")
    clean, chinese = bert(clean_text=True), bert(handle_chinese_chars=True)
    accents, lower = bert(strip_accents=True), normalizers.Lowercase().normalize_str
    nfd, nfkd = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str
    marks = normalizers.StripAccents().normalize_str
    split, words = pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Whitespace()
    for char in SCALARS:
        plain = nfd(char) == char
        by_split = pieces(split, char)
        yield char, [
            clean(char) == "",
            plain and accents(char) == "",
            marks(char) == "",
            len(by_split) == 3,
            len(pieces(words, char)) == 1,
            len(by_split) == 2,
            lower(char) != char,
            not plain,
            nfkd(char) != nfd(char),
            # U+0345 has the highest class, 240: anything of a class between moves before it.
            char == "\u0345" or (plain and nfd("\u0345" + char) != "\u0345" + char),
            chinese(char) != char,
            len(pieces(digits, char)) == 3,
            char in pattern_words,
            *(char in graphemes[name] for name in FLAGS[-8:-1]),
            char in class_words,
        ], lower(char), category.get(char, 0)


def lower_runs(pairs):
    """[(first, last, stride, delta)] out of [(code point, its lower case)]."""
    runs = []
    for code, to in pairs:
        delta = to - code
        if runs:
            first, last, stride, run_delta = runs[-1]
            step = code - last
            if delta == run_delta and step in ((1, 2) if first == last else (stride,)):
                runs[-1] = (first, code, step, delta)
                continue
        runs.append((code, code, 1, delta))
    return runs


def rows(name, items, width=100):
    line = "   "
    for item in items:
        if len(line) + 1 + len(item) + 1 > width:
            print(line)
            line = "   "
        line += " " + item + ","
    print(line)


def main():
    ranges, pairs, longer = [], [], []
    for char, answers, low, category in measure():
        code = ord(char)
        flags = category << 24 | sum(1 << i for i, answer in enumerate(answers) if answer)
        if low != char:
            if len(low) == 1:
                pairs.append((code, ord(low)))
            else:
                longer.append((code, low))
        if flags == 0:
            continue
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == flags:
            ranges[-1][1] = code
        else:
            ranges.append([code, code, flags])
    if longer != [(0x130, "i\u0307")]:
        sys.exit(f"only U+0130 is known to have a lower case of two characters: {longer}")
    runs = lower_runs(pairs)
    print(f"""/*
 * unicode_data.c - what each code point is to Hugging Face tokenizers {tokenizers.__version__}; measured and
 * written by tools/make_unicode_tables.py, not by hand. See unicode.h for the flags.
 */
#include "tokenizer/unicode.h"

/* clang-format off */
const wgi_char_range wgi_char_ranges[] = {{""")
    rows("ranges", [f"{{0x{a:X}, 0x{b:X}, 0x{f:X}}}" for a, b, f in ranges])
    print("};")
    print("const size_t wgi_char_range_count = sizeof(wgi_char_ranges) / sizeof(wgi_char_ranges[0]);\n")
    print("const wgi_lower_run wgi_lower_runs[] = {")
    rows("runs", [f"{{0x{a:X}, 0x{b:X}, {s}, {d}}}" for a, b, s, d in runs])
    print("};")
    print("const size_t wgi_lower_run_count = sizeof(wgi_lower_runs) / sizeof(wgi_lower_runs[0]);")
    print("/* clang-format on */")
    print(f"{len(ranges)} ranges, {len(runs)} runs of {len(pairs)} lower cases", file=sys.stderr)


if __name__ == "__main__":
    main()
