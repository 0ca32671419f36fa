#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_data.c: what each code point is to Hugging Face `tokenizers`.

The package takes its character classes from four libraries of four Unicode versions, so no one
version of the standard gives its answers. This script asks the package itself, one code point at a
time, and writes ranges. Values of combining classes and decompositions stay with utf8proc, which
may be newer; the ranges say which code points the package lets decompose and reorder at all.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3
    venv/bin/python tools/make_unicode_tables.py > src/tokenizer/unicode_data.c
"""
import sys

import tokenizers
from tokenizers import normalizers, pre_tokenizers

SCALARS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# The same names, in the same order, as in src/tokenizer/unicode.h.
FLAGS = ["CLEANED", "NONSPACING", "MARK", "PUNCTUATION", "WORD", "SPACE", "LOWER", "CANONICAL",
         "COMPAT", "NONSTARTER", "CHINESE"]


def bert(**on):
    options = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    options.update(on)
    return normalizers.BertNormalizer(**options).normalize_str


def pieces(pre_tokenizer, char):
    return [piece for piece, _ in pre_tokenizer.pre_tokenize_str("a" + char + "a")]


def measure():
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
        ], lower(char)


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
    for char, answers, low in measure():
        code = ord(char)
        flags = sum(1 << i for i, answer in enumerate(answers) if answer)
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
