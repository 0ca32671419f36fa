#!/usr/bin/env python3
"""lint_sources.py - rules about sources: who may include whom, heads, sizes, names, calls, words.

usage: lint_sources.py ROOT     prints one line a finding; exit 1 when there is one
"""
import os
import pathlib
import re
import sys

# Who may include whom, as docs/architecture.md draws it. A stop may always include itself.
ARROWS = {
    "base": "",
    "corpus": "base",
    "tokenizer": "base",
    "engine": "base",
    "backend": "base engine",
    "model": "base engine backend",
    "task": "base engine backend model",
    "output": "base",
    "job": "base corpus tokenizer engine backend model task output",
    "cli": "",
}
# Calls that only these files may make. The heap lives in one file; a library must not end its host,
# and the unbounded string functions have no place at all.
HEAP = {"malloc", "calloc", "realloc", "free", "strdup", "strndup", "posix_memalign", "aligned_alloc"}
NEVER = {"strcpy", "strcat", "sprintf", "vsprintf", "gets", "strtok", "atoi", "atol", "atof", "alloca",
         "abort", "exit", "printf", "puts", "assert_fail"}
SYSTEM = {"open", "openat", "close", "read", "write", "pread", "pwrite", "mmap", "munmap", "madvise",
          "fork", "vfork", "execv", "execve", "execvp", "posix_spawn", "posix_spawnp", "waitpid", "kill",
          "pipe", "pipe2", "dup2", "stat", "fstat", "lstat", "opendir", "readdir", "closedir", "fsync",
          "ftruncate", "unlink", "rename", "mkdir", "fopen", "fdopen", "fclose", "fread", "fwrite",
          "fflush", "sysconf", "getrusage", "clock_gettime", "nanosleep", "usleep", "getrlimit",
          "setrlimit", "sched_getaffinity", "poll", "pthread_create"}
LINES_MOST = 1000      # of a source file; tables made by a script are exempt
FUNCTION_MOST = 100    # lines; clang-tidy watches 70
# Paths of one machine, and what says that work was left undone.
WORDS = re.compile(r"(?<![\w.])/(?:work|root|home|tmp|Users)/|\b(?:TODO|FIXME|XXX|HACK)\b"
                   r"|\b(?:pypi\.org|huggingface\.co|registry\.npmjs)\b")
TEXT_SUFFIXES = {".c", ".h", ".md", ".txt", ".sh", ".py", ".pyi", ".toml", ".cmake", ".1", ".in", ".glob",
                 ".exact"}

findings = []


def found(path, line, message):
    findings.append(f"{path}:{line}: {message}" if line else f"{path}: {message}")


def blank(match):
    """The same number of lines, nothing else."""
    return "\n" * match.group().count("\n") or " "


def code_of(text):
    """Sources without comments and without what is inside quotes; lines stay where they are."""
    token = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return token.sub(lambda m: '""' if m.group()[0] in "\"'" else blank(m), text)


def stop_of(path):
    parts = path.parts
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def check_includes(path, text):
    stop = stop_of(path)
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        if not match:
            continue
        name = match.group(1)
        head = name.split("/")[0]
        if path.parts[0] == "include":
            if name not in ("stddef.h", "stdint.h") and head != "warpgroup":
                found(path, number, f"a public header may not include {name}")
        elif path.parts[0] == "examples" and line.strip().split()[-1][0] == '"':
            found(path, number, f"an example includes only the public header, not {name}")
        elif path.parts[0] == "python" and "/" in name and head in ARROWS:
            found(path, number, f"the Python package knows only the public API, not {name}")
        elif stop == "cli" and "/" in name and head in ARROWS:
            found(path, number, f"the command line program knows only the public API, not {name}")
        elif stop and head in ARROWS and head != stop and head not in ARROWS[stop].split():
            found(path, number, f"{stop} may not know {head} (include of {name})")


def check_own_header_first(path, text):
    """Each .c includes its own header first, where it has one."""
    own = path.with_suffix(".h")
    if path.suffix != ".c" or path.parts[0] != "src" or not (root / own).exists():
        return
    first = re.search(r'^\s*#\s*include\s+["<]([^">]+)[">]', text, re.M)
    if first and pathlib.Path(first.group(1)).name != own.name:
        found(path, 0, f"includes {first.group(1)} before its own header {own.name}")


def check_head(path, text):
    if path.suffix in (".c", ".h"):
        match = re.match(r"/\*\n \* (\S+) - ", text)
        if not match:
            found(path, 1, f"no file head; it starts with '/*' and ' * {path.name} - what it is for'")
        elif match.group(1) != path.name:
            found(path, 2, f"the head names {match.group(1)}")
    elif path.suffix in (".sh", ".py", ".cmake") or path.name == "CMakeLists.txt":
        head = "\n".join(text.split("\n")[:3])
        is_list = path.name == "CMakeLists.txt" and text.count("\n") < 20
        if text and not is_list and not re.search(r'^(?:#(?!!)|""")', head, re.M):
            found(path, 1, "no head that says what the file is for")


def check_sizes(path, text, code):
    lines = code.split("\n")
    is_table = path.stem.endswith(("_data", "_table"))
    if len(lines) > LINES_MOST and not is_table:
        found(path, 0, f"{len(lines)} lines; {LINES_MOST} are the most")
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line.startswith("}") and start:
            if number - start > FUNCTION_MOST and not is_table:
                found(path, start, f"a function of {number - start} lines; {FUNCTION_MOST} are the most")
            start = None
    for number, line in enumerate(text.split("\n"), 1):
        if "\t" in line or line != line.rstrip():
            found(path, number, "a tab or blanks at the end of the line")


def check_calls(path, code):
    name = path.as_posix()
    banned = set(NEVER)
    if name not in ("src/base/alloc.c", "python/core/plain.c"):
        banned |= HEAP
    if not re.match(r"src/(base/(os_|thread|crew|log)|cli/)|python/core/plain\.c", name):
        banned |= SYSTEM
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(sorted(banned)) + r")\s*\(")
    for number, line in enumerate(code.split("\n"), 1):
        for match in pattern.finditer(line):
            found(path, number, f"{match.group(1)}() is not called here (see tools/lint_sources.py)")
    for number, line in enumerate(code.split("\n"), 1):
        if "//" in line:
            found(path, number, "a // comment; /* */ is the one form")


def check_words(path, text):
    if path.name == "lint_sources.py":
        return
    for number, line in enumerate(text.split("\n"), 1):
        match = WORDS.search(line)
        if match:
            found(path, number, f"'{match.group()}' does not belong in the repository")


def files():
    for folder, names, entries in os.walk(root):
        here = pathlib.Path(folder).relative_to(root)
        names[:] = sorted(n for n in names if n not in (".git", "build", "__pycache__"))
        if here.as_posix() == "tests/data":
            names[:] = []
        for entry in sorted(entries):
            yield here / entry


def main():
    seen = {}
    for path in files():
        is_source = path.suffix in (".c", ".h") and path.parts[0] in (
            "include", "src", "tests", "examples", "bench", "python")
        if not (is_source or path.suffix in TEXT_SUFFIXES or path.name == "CMakeLists.txt"):
            continue
        text = (root / path).read_text(encoding="utf-8")
        check_words(path, text)
        check_head(path, text)
        if not is_source:
            continue
        code = code_of(text)
        house = "python" if path.parts[0] == "python" else "library"
        if (house, path.name) in seen:
            found(path, 0, f"has the name of {seen[house, path.name]}; file names are unique")
        seen[house, path.name] = path
        check_includes(path, text)
        check_own_header_first(path, text)
        check_sizes(path, text, code)
        if path.parts[0] in ("src", "python"):
            check_calls(path, code)
    print("\n".join(findings), file=sys.stderr, end="\n" if findings else "")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    main()
