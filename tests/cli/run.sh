#!/usr/bin/env bash
# run.sh - runs one command line test: NAME.sh in an empty folder, then compares
#   NAME.stdout.exact  standard output, byte for byte (absent: not looked at)
#   NAME.stderr.glob   standard error, line by line; each line is a bash pattern, "..." is any number of
#                      lines (absent: standard error must be empty)
#   NAME.exit          the exit status (absent: 0)
# The script sees $WGT_CLI (the program; also the function warpgroup), $DATA (tests/data) and $MODEL
# (a tiny model). WGT_REFRESH=1 rewrites the files instead: read what changed before committing it.
set -uo pipefail

script=$1
base=${script%.sh}
name=${base##*/}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

export DATA=$WGT_SOURCE/tests/data
export MODEL=$DATA/tiny-bert-h32-d8-mean
export LC_ALL=C
export XDG_CACHE_HOME=$work/cache # what was measured on this machine does not count
mkdir "$work/here" && cd "$work/here" || exit 1

warpgroup()
{
    "$WGT_CLI" "$@"
}
export -f warpgroup

bash -u "$script" >"$work/stdout" 2>"$work/stderr.raw" </dev/null
status=$?
# The place of the checkout is no part of an expectation.
sed "s|$WGT_SOURCE|SOURCE|g" "$work/stderr.raw" >"$work/stderr"
sed -i "s|$WGT_SOURCE|SOURCE|g" "$work/stdout"

if [[ ${WGT_REFRESH:-} == 1 ]]; then
    cp "$work/stdout" "$base.stdout.exact"
    rm -f "$base.stderr.glob" "$base.exit"
    # What a bash pattern would take for a wildcard is quoted.
    [[ -s $work/stderr ]] && sed 's/[][*?\\]/\\&/g' "$work/stderr" >"$base.stderr.glob"
    ((status)) && echo "$status" >"$base.exit"
    echo "$name: rewritten"
    exit 0
fi

bad=0
wanted=0
[[ -f $base.exit ]] && read -r wanted <"$base.exit"
if [[ $status != "$wanted" ]]; then
    echo "$name: exit status $status, wanted $wanted"
    bad=1
fi
if [[ -f $base.stdout.exact ]] && ! cmp -s "$base.stdout.exact" "$work/stdout"; then
    echo "$name: standard output differs (- wanted, + got)"
    diff -u --label wanted --label got "$base.stdout.exact" "$work/stdout" | tail -n +3 | head -40
    bad=1
fi

# matches: lines of $patterns from index $1 on against $lines from index $2 on
matches()
{
    local i=$1 j=$2
    while ((i < ${#patterns[@]})); do
        if [[ ${patterns[i]} == ... ]]; then
            while ((j <= ${#lines[@]})); do
                matches $((i + 1)) "$j" && return 0
                j=$((j + 1))
            done
            return 1
        fi
        # shellcheck disable=SC2053
        ((j < ${#lines[@]})) && [[ ${lines[j]} == ${patterns[i]} ]] || return 1
        i=$((i + 1))
        j=$((j + 1))
    done
    ((j == ${#lines[@]}))
}
patterns=()
[[ -f $base.stderr.glob ]] && mapfile -t patterns <"$base.stderr.glob"
mapfile -t lines <"$work/stderr"
if ! matches 0 0; then
    echo "$name: standard error does not match; wanted"
    printf '    %s\n' "${patterns[@]}"
    echo "got"
    printf '    %s\n' "${lines[@]}"
    bad=1
fi
exit "$bad"
