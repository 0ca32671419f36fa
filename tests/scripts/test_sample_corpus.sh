#!/usr/bin/env bash
# test_sample_corpus.sh - examples/corpus is what its script writes, and stays small.
set -uo pipefail
[[ -n $WGT_SANITIZE ]] && { echo "skipped: nothing here is compiled"; exit 77; }
python3 "$WGT_SOURCE/tools/make_sample_corpus.py" --check || exit 1
bytes=$(find "$WGT_SOURCE/examples/corpus" -type f -printf '%s\n' | awk '{sum += $1} END {print sum}')
echo "$bytes bytes"
((bytes < 1500000))
