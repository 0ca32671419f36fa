#!/usr/bin/env bash
# demo.sh - from a fresh Debian 12 machine to vectors of the sample corpus: packages, build, model,
# then the same corpus in padded batches of 8 and in packed bins, side by side.
set -euo pipefail
cd "$(dirname "$0")"
source tools/setup.sh

wg_packages build
mkdir -p build
cmake --preset release >build/configure.log 2>&1 || {
    cat build/configure.log >&2
    exit 1
}
cmake --build --preset release --target warpgroup
wg_model_fetch

out=build/demo
rm -rf "$out"
mkdir -p "$out"

# embed NAME OPTION...: exit status 1 says that documents failed and are listed: the corpus holds a
# scanned PDF without text to show it.
embed()
{
    local name=$1 status=0
    shift
    build/release/warpgroup embed -m "$WG_MODEL" --max-length 512 -o "$out/$name" "$@" \
        examples/corpus || status=$?
    ((status <= 1)) || exit "$status"
}

echo "== padded batches of 8, for comparison"
embed padded --padded 8
echo
echo "== packed bins"
embed packed
echo
echo "== failed documents, out of $out/packed/failures.jsonl"
cat "$out/packed/failures.jsonl"
echo
python3 tools/compare_runs.py "$out/padded/report.json" "$out/packed/report.json"
echo
echo "vectors: $out/packed/embeddings.npy, their documents: $out/packed/rows.jsonl"
