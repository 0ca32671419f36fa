#!/usr/bin/env python3
"""Makes a folder of PDF files, one document a file, with the lengths of the published comparison.

usage: make_pdfs.py stress|uniform OUT [--documents 400] [--seed 7] [--package NAME]...

    stress     45-130 and 1,820-2,000 words in turn: worst for padded batches
    uniform    50-1,900 words
    long       45-400 words, and 5,900-6,300 in the first of each eight: for the run without a length limit

The words are those of make_corpus.py (real prose, every word of the sources used once, so that no two
documents are alike), except the few that the standard fonts of PDF cannot show. Plain paragraphs, Helvetica,
A4, as many pages as it takes. Fewer documents are the first ones of more. The same packages, Python,
reportlab and seed give the same bytes: the files hold no date and no random id (reportlab's invariant=1).

Beside the PDFs, manifest.json has sources, words of each document and a sha256 over all files.
"""
import argparse
import hashlib
import json
import pathlib
import random
import sys
from xml.sax.saxutils import escape

import make_corpus

KINDS = ("stress", "uniform", "long")
PARAGRAPH_WORDS = 90


def length(kind, i, rng):
    if kind == "stress":
        return rng.randint(45, 130) if i % 2 == 0 else rng.randint(1820, 2000)
    if kind == "long":
        return rng.randint(5900, 6300) if i % 8 == 0 else rng.randint(45, 400)
    return rng.randint(50, 1900)


def plan(kind, documents, seed):
    """make_corpus.texts asks it for the lengths. A generator of its own: more documents leave the first as they are."""
    rng = random.Random(f"{kind} {seed}")
    return lambda _: {kind: [length(kind, i, rng) for i in range(documents)]}


def showable(word):
    """The word without what the standard fonts (WinAnsi) lack, and nothing of a lone dash, which at the end of a
    line is read as hyphenation: the text that is read is then the text that was written."""
    word = word.encode("cp1252", "ignore").decode("cp1252")
    return "" if word == "-" else word


def write_pdf(path, text):
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import Paragraph, SimpleDocTemplate
    style = getSampleStyleSheet()["BodyText"]
    words = text.split()
    parts = [" ".join(words[at:at + PARAGRAPH_WORDS]) for at in range(0, len(words), PARAGRAPH_WORDS)]
    SimpleDocTemplate(str(path), pagesize=A4, invariant=1).build([Paragraph(escape(p), style) for p in parts])


def make(kind, out, documents=400, seed=7, packages=make_corpus.PACKAGES):
    """Writes the files and gives the manifest; `out` must not hold PDFs of another making."""
    import reportlab
    made, source = make_corpus.texts(seed, packages, plan(kind, documents, seed))
    out.mkdir(parents=True, exist_ok=True)
    if any(out.glob("*.pdf")):
        sys.exit(f"make_pdfs: {out} holds PDF files already; name a new folder")
    digest, words = hashlib.sha256(), []
    for i, text in enumerate(made[kind]):
        text = " ".join(filter(None, map(showable, text.split())))
        words.append(len(text.split()))
        path = out / f"{kind}-{i:05}.pdf"
        write_pdf(path, text)
        digest.update(path.read_bytes())
    manifest = {"kind": kind, "documents": documents, **source, "reportlab": reportlab.__version__,
                "words": words, "sha256": digest.hexdigest()}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("kind", choices=KINDS)
    ap.add_argument("out", type=pathlib.Path)
    ap.add_argument("--documents", type=int, default=400)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--package", action="append", help="Debian package to read; replaces the default list")
    args = ap.parse_args()
    made = make(args.kind, args.out, args.documents, args.seed, args.package or make_corpus.PACKAGES)
    print(f"{made['documents']} files, {sum(made['words'])} words, sha256 {made['sha256']}")


if __name__ == "__main__":
    main()
