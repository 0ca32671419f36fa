#!/usr/bin/env python3
"""Makes the benchmark corpora out of text that a Debian machine already holds.

usage: make_corpus.py OUT [--seed 7] [--package NAME]...

Speed depends on the lengths of the texts and hardly on their words, but invented words would be split
into many more tokens than English. So the texts are real technical prose: info manuals, licences, pod,
README files of the Debian packages below, and the docstrings of the Python that runs this. Nothing is
copied into the repository, and nothing is fetched. Paragraphs are told apart by their first words and
each is used at most once over all three corpora, so a cache of texts or prefixes gains nothing.

    stress.jsonl    400 documents, 45-130 and 1820-2000 words alternating: worst for padded batches
    uniform.jsonl   400 documents of 50-1900 words
    short.jsonl    2000 documents of 5-60 words, log-normal
    manifest.json  packages and versions, seed, words and sha256 of each corpus

The same packages, Python and seed give the same bytes.
"""
import argparse
import ast
import gzip
import hashlib
import json
import pathlib
import platform
import random
import re
import subprocess
import sys
import sysconfig

PACKAGES = """base-files bash coreutils diffutils findutils gettext git gnupg grep perl-modules
readline-common sed wget""".split()
FOLDERS = ("/usr/share/info/", "/usr/share/common-licenses/", "/usr/share/perl/", "/usr/share/doc/")
WANTED = re.compile(r"(\.info(-\d+)?\.gz|\.pod|\.pm|\.txt|\.rst|\.txt\.gz|/README[^/]*|/[A-Z][A-Za-z0-9-]*(\.gz)?)$")
UNWANTED = re.compile(r"test|changelog|copyright|NEWS|unicode|Unihan", re.I)
FILE_BYTES_MAX = 4_000_000


def packages_found(names):
    """{installed package: version}; a name also finds NAME-<version>, as in perl-modules-5.36."""
    found = {}
    listing = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n"],
                             capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        package, version, status = line.split(" ")
        base = re.sub(r"-\d[\d.]*$", "", package)
        if status == "installed" and (package in names or base in names):
            found[package] = version
    return found


def package_files(packages):
    out = []
    for package in packages:
        listing = subprocess.run(["dpkg-query", "-L", package], capture_output=True, text=True, check=True)
        for name in listing.stdout.splitlines():
            if name.startswith(FOLDERS) and WANTED.search(name) and not UNWANTED.search(name):
                if pathlib.Path(name).is_file():
                    out.append(name)
    return sorted(set(out))


def python_files():
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    names = (p.relative_to(root).as_posix() for p in root.rglob("*.py"))
    return [str(root / n) for n in sorted(names) if "-packages" not in n and not UNWANTED.search(n)]


def docstrings(source):
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    return "\n\n".join(t for t in texts if t)


def text_of(name):
    with (gzip.open if name.endswith(".gz") else open)(name, "rb") as f:
        text = f.read(FILE_BYTES_MAX).decode("utf-8", "ignore")
    if name.endswith(".py"):
        return docstrings(text)
    return pod_text(text) if name.endswith((".pod", ".pm")) else text


def pod_text(source):
    """The prose of Perl documentation: between =word and =cut, without directives and markup."""
    text = "\n".join(re.findall(r"(?ms)^=[a-z].*?(?:^=cut|\Z)", source))
    text = re.sub(r"(?m)^=\w+.*$", "", text)
    for _ in range(3):  # nested markup, innermost first
        text = re.sub(r"\b[A-Z]<+\s?([^<>]*?)\s?>+", r"\1", text)
    return text


def is_prose(words, text):
    """Whether a paragraph is sentences, not a table, code or a list of names."""
    if len(words) < 12:
        return False
    letters = sum(c.isalpha() or c in " ,.'" for c in text)
    plain = sum(1 for w in words if re.fullmatch(r"[A-Za-z'-]+[,.;:]?", w))
    return letters >= 0.93 * len(text) and plain >= 0.8 * len(words)


def paragraphs(files):
    """Words of each distinct paragraph; licences and manuals repeat one another, so many are met again."""
    seen = set()
    for name in files:
        for paragraph in re.split(r"\n\s*\n", text_of(name)):
            words = paragraph.split()
            text = " ".join(words)
            key = text[:80].lower()
            if is_prose(words, text) and key not in seen:
                seen.add(key)
                yield words


def lengths(rng):
    """Words of each document, by corpus."""
    short = []
    while len(short) < 2000:
        n = int(rng.lognormvariate(2.9, 0.6))
        if 5 <= n <= 60:
            short.append(n)
    return {
        "stress": [rng.randint(45, 130) if i % 2 == 0 else rng.randint(1820, 2000) for i in range(400)],
        "uniform": [rng.randint(50, 1900) for _ in range(400)],
        "short": short,
    }


def texts(seed, names=PACKAGES, plan_of=lengths):
    """({corpus: [text of each document]}, where the words came from); the same seed gives the same texts.

    plan_of(rng) says how many words each document of each corpus has; no word of the sources is used twice.
    """
    found = packages_found(names)
    rng = random.Random(seed)
    files = package_files(found) + python_files()
    rng.shuffle(files)
    stream = [word for words in paragraphs(files) for word in words]
    plan = plan_of(rng)
    need = sum(map(sum, plan.values()))
    if len(stream) < need:
        missing = [n for n in names if not any(p == n or p.startswith(n + "-") for p in found)]
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {len(stream)} words found, {need} needed. Not installed: "
                 f"{' '.join(missing) or 'none'}. Add others with --package, and see whether dpkg was "
                 "told to leave out /usr/share/doc or /usr/share/info.")
    at, out = 0, {}
    for name, sizes in plan.items():
        out[name] = []
        for n in sizes:
            out[name].append(" ".join(stream[at:at + n]))
            at += n
    return out, {"seed": seed, "python": platform.python_version(), "packages": found, "words_found": len(stream)}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("out", type=pathlib.Path)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--package", action="append", help="Debian package to read; replaces the default list")
    args = ap.parse_args()
    made, manifest = texts(args.seed, args.package or PACKAGES)
    args.out.mkdir(parents=True, exist_ok=True)
    corpora = {}
    for name, documents in made.items():
        lines = "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(documents)).encode()
        (args.out / (name + ".jsonl")).write_bytes(lines)
        corpora[name] = {"documents": len(documents), "words": sum(len(text.split()) for text in documents),
                         "sha256": hashlib.sha256(lines).hexdigest()}
    manifest = {**manifest, "corpora": corpora}
    (args.out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main()
