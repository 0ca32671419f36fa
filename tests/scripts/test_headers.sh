#!/usr/bin/env bash
# test_headers.sh - each public header stands alone, as C99 and as C++, without a warning.
set -uo pipefail
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror -fsyntax-only"
bad=0 count=0
for header in "$WGT_SOURCE"/include/warpgroup/*.h; do
    count=$((count + 1))
    line="#include <warpgroup/${header##*/}>"
    # shellcheck disable=SC2086
    echo "$line" | "$WGT_CC" -std=c99 $warnings -I"$WGT_SOURCE/include" -x c - || bad=1
    if command -v c++ >/dev/null; then
        for standard in c++11 c++17; do
            # shellcheck disable=SC2086
            echo "$line" | c++ -std=$standard $warnings -I"$WGT_SOURCE/include" -x c++ - || bad=1
        done
    else
        echo "no C++ compiler: headers were checked as C99 only"
    fi
done
((count > 0 && bad == 0))
