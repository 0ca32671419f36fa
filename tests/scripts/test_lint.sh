#!/usr/bin/env bash
# test_lint.sh - the tree keeps its own rules, and each rule still catches what it is for.
set -uo pipefail
[[ -n $WGT_SANITIZE ]] && { echo "skipped: the rules do not depend on sanitizers"; exit 77; }
cd "$WGT_SOURCE" || exit 1
tools/lint.sh || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src/base" "$work/src/corpus" "$work/src/cli" "$work/examples"
bad=0

# expect FINDING FILE TEXT...: a file with this text must give this finding
expect()
{
    local finding=$1 file=$work/$2
    shift 2
    printf '%s\n' "$@" >"$file"
    said=$(python3 tools/lint_sources.py "$work" 2>&1) # fails, as it should: not in a pipe
    if [[ $said != *"$finding"* ]]; then
        echo "lint did not say '$finding'"
        bad=1
    fi
    rm "$file"
}
head=$'/*\n * a.c - what for.\n */'
word=TO
expect 'base may not know corpus' src/base/a.c "$head" '#include "corpus/b.h"'
expect 'may not know job' src/corpus/a.c "$head" '#include "job/b.h"'
expect 'knows only the public API' src/cli/a.c "$head" '#include "base/b.h"'
expect 'only the public header' examples/a.c "$head" '#include "b.h"'
expect 'no file head' src/base/a.c 'int a;'
expect 'the head names a.c' src/base/b.c "$head"
expect 'malloc() is not called here' src/corpus/a.c "$head" 'void *p = malloc(3);'
expect 'printf() is not called here' src/cli/a.c "$head" 'int x = printf("a");'
expect 'fopen() is not called here' src/corpus/a.c "$head" 'f = fopen(path, "r");'
expect 'a // comment' src/base/a.c "$head" 'int a; // no'
expect 'blanks at the end' src/base/a.c "$head" 'int a; '
expect 'does not belong' src/base/a.c "$head" "/* ${word}DO */"
expect 'a function of' src/base/a.c "$head" 'int f(void)' '{' "$(yes ';' | head -n 101)" '}'
expect 'lines; 1000 are the most' src/base/a.c "$head" "$(yes ';' | head -n 1000)"
cp src/base/alloc.h "$work/src/base/a.h" && printf '%s\n' "$head" >"$work/src/cli/a.h"
expect 'file names are unique' src/base/x.c "$head"
rm "$work/src/base/a.h" "$work/src/cli/a.h"
# What only looks like a finding.
printf '%s\n' "$head" '/* malloc(3) */ const char *s = "http://x printf(";' 'wgi_free(p);' >"$work/src/base/a.c"
python3 tools/lint_sources.py "$work" || bad=1
exit "$bad"
