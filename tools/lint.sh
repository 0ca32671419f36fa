#!/usr/bin/env bash
# lint.sh - the rules of the house that a program can check: include arrows, file heads, sizes, names,
# banned calls, words, formatting, shell and Python syntax.
#
#   tools/lint.sh               everything but clang-tidy (a test of the quick tier)
#   tools/lint.sh --tidy BUILD  clang-tidy over the sources that BUILD/compile_commands.json lists
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
bad=0

complain()
{
    echo "lint: $*" >&2
    bad=1
}

if [[ ${1:-} == --tidy ]]; then
    build=${2:?usage: tools/lint.sh --tidy BUILD}
    find src -name '*.c' -print0 | sort -z |
        xargs -0 -n 4 -P "$(nproc)" clang-tidy --quiet -p "$build" 2>/dev/null
    exit
fi

python3 tools/lint_sources.py . || bad=1

sources()
{
    find include src python tests examples bench -name '*.[ch]' -not -path 'tests/data/*' -print0
}
if command -v clang-format >/dev/null; then
    if [[ $(clang-format --version) == *"version 14."* ]]; then
        sources | xargs -0 clang-format --dry-run -Werror || complain "run clang-format -i on the files above"
    else
        echo "lint: formatting was not checked: clang-format 14 is needed" >&2
    fi
else
    echo "lint: formatting was not checked: clang-format is not installed" >&2
fi

while IFS= read -r -d '' script; do
    bash -n "$script" || complain "$script is not valid bash"
done < <(find . -path ./build -prune -o -path ./.git -prune -o \( -name '*.sh' -o -path './.ci/run' \) -print0)
while IFS= read -r -d '' script; do
    python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$script" ||
        complain "$script is not valid Python"
done < <(find bench python tools tests examples -name '*.py' -print0)

exit "$bad"
