#!/usr/bin/env python3
"""Bytes of text a second that one thread turns into ids: libwarpgroup beside Hugging Face tokenizers.

usage: tokenizer_speed.py LIBRARY TOKENIZER.json CORPUS.jsonl [--megabytes N] [--rounds N]
needs: tokenizers (the version is printed)

Each text of the corpus is one call, both read the same tokenizer.json, and the ids of every text are
compared before anything is timed. In every round both encode all texts, in turns; what is printed is
the median of the rounds and the median of their ratios. With --letters the texts are one letter, 1, 2, 4
and 8 MB of it, and only ours is timed: the time should be in proportion.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))

import tokenizers  # noqa: E402
from compare_tokenizer import Ours  # noqa: E402


def read_texts(path, bytes_max):
    texts, total = [], 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            text = json.loads(line)["text"]
            texts.append(text)
            total += len(text.encode())
            if total >= bytes_max:
                break
    return texts, total


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def time_letters(ours, rounds):
    first = None
    for megabytes in (1, 2, 4, 8):
        text = "a" * (megabytes * 1_000_000)
        took = min(seconds(lambda: ours.run(text, no_specials=True)) for _ in range(rounds))
        first = first or took
        print(f"{megabytes} MB of one letter: {took:.3f} s, {took / first:.2f} times the first")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("tokenizer")
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--letters", action="store_true")
    given = parser.parse_args()
    ours = Ours(given.library, given.tokenizer)
    if given.letters:
        return time_letters(ours, given.rounds)
    theirs = tokenizers.Tokenizer.from_file(given.tokenizer)
    theirs.no_truncation()
    theirs.no_padding()
    texts, total = read_texts(given.corpus, given.megabytes * 1e6)
    for text in texts:
        if ours.encode(text)[0] != theirs.encode(text).ids:
            sys.exit(f"different ids: {text[:80]!r}")

    def ours_all():
        for text in texts:
            ours.run(text)

    def theirs_all():
        for text in texts:
            theirs.encode(text)
    pairs = []
    for turn in range(given.rounds + 1):  # the first is warm-up
        order = (ours_all, theirs_all) if turn % 2 else (theirs_all, ours_all)
        took = {work: seconds(work) for work in order}
        pairs.append((took[ours_all], took[theirs_all]))
    pairs = pairs[1:]
    rates = [total / 1e6 / statistics.median(pair[i] for pair in pairs) for i in (0, 1)]
    ratios = sorted(theirs / ours for ours, theirs in pairs)
    print(f"{len(texts)} texts, {total / 1e6:.1f} MB, {given.rounds} rounds: warpgroup {rates[0]:.1f} MB/s, tokenizers "
          f"{tokenizers.__version__} {rates[1]:.2f} MB/s, {statistics.median(ratios):.1f} times "
          f"({ratios[0]:.1f}-{ratios[-1]:.1f})")


if __name__ == "__main__":
    main()
