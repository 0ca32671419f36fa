#!/usr/bin/env bash
# test_exports.sh - the shared library exports what the public headers declare with WG_API and nothing
# else: nothing internal, nothing of a library inside.
set -uo pipefail
library=$WGT_BUILD/libwarpgroup.so
if [[ -n $WGT_SANITIZE ]]; then
    echo "skipped: sanitizers add symbols of their own"
    exit 77
fi
wanted=$(grep -oE '\bwg_[a-z0-9_]+\(' <(grep -v '^ \*' "$WGT_SOURCE"/include/warpgroup/*.h |
    tr -d '\n' | grep -oE 'WG_API [^;]*;' | sed -E 's/\(.*/(/') | tr -d '(' | sort -u)
got=$(nm -D --defined-only "$library" | awk '{print $3}' | sort -u)
if [[ -z $wanted || $wanted != "$got" ]]; then
    echo "exported symbols differ from the public headers (- declared, + exported)"
    diff -u <(echo "$wanted") <(echo "$got") | tail -n +3
    exit 1
fi
echo "$(wc -l <<<"$got") symbols"
