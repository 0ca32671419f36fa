#!/usr/bin/env bash
# test.sh - every test, in tiers; the last line is "N passed, N failed, N skipped" over all of them.
#
#   ./test.sh            quick, torture, real model, the same under ASan+UBSan and TSan, fuzz smoke
#   ./test.sh quick      the quick tier alone (under a minute once it is built)
#   ./test.sh full       adds the tests that take long
#
# Exit status: 0 when nothing failed and something was run. A skipped test says why in its own words.
set -uo pipefail
cd "$(dirname "$0")" || exit 2
source tools/setup.sh

tier=${1:-default}
case $tier in quick | default | full) ;; *)
    wg_say "usage: ./test.sh [quick|full]"
    exit 2
    ;;
esac

passed=0 failed=0 skipped=0
fuzz_seconds=${WARPGROUP_FUZZ_SECONDS:-30}
jobs=$(nproc)
timeout=300 # seconds for one test; a test that hangs fails
logs=build/test-logs
command -v ccache >/dev/null && export CMAKE_C_COMPILER_LAUNCHER=ccache

heading()
{
    printf '\n== %s\n' "$*"
}

finish()
{
    heading "sum over all tiers"
    if ((passed + failed == 0)); then
        echo "no test was run"
        failed=$((failed + 1))
    fi
    echo "$passed passed, $failed failed, $skipped skipped"
    ((failed == 0))
    exit
}

# A step that is not a test of its own failed: counts as one failure.
broken()
{
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# build PRESET TARGET...
build()
{
    local preset=$1 log=$logs/build-$1.log
    shift
    heading "building $preset"
    if cmake --preset "$preset" >"$log" 2>&1 &&
        cmake --build --preset "$preset" -j "$jobs" --target "$@" -- -k 0 >>"$log" 2>&1; then
        return 0
    fi
    grep -E -A5 'error|FAILED|CMake Error' "$log" | tail -60
    broken "build of preset $preset; the whole log is in $log"
    return 1
}

# attribute FILE NAME: a number out of the first line of a JUnit file that has it
attribute()
{
    grep -o -m 1 "$2=\"[0-9]*\"" "$1" | head -n 1 | tr -cd '0-9'
}

# tests PRESET LABELS [CTEST_OPTION...]: LABELS is a regular expression
tests()
{
    local preset=$1 labels=$2 junit before=$failed total bad out
    shift 2
    junit=$PWD/$logs/$preset-${labels//[^a-z]/_}.xml
    rm -f "$junit"
    heading "tests of preset $preset: $labels"
    ctest --test-dir "build/$preset" -L "^($labels)\$" --output-on-failure --no-tests=error \
        -j "$jobs" --timeout "$timeout" --output-junit "$junit" "$@"
    local status=$?
    if [[ ! -s $junit ]]; then
        broken "ctest of preset $preset ($labels) wrote no result"
        return
    fi
    total=$(attribute "$junit" tests)
    bad=$(attribute "$junit" failures)
    out=$(($(attribute "$junit" skipped) + $(attribute "$junit" disabled)))
    passed=$((passed + total - bad - out))
    failed=$((failed + bad))
    skipped=$((skipped + out))
    if ((status != 0 && failed == before)); then broken "ctest of preset $preset ($labels)"; fi
}

# Every libFuzzer target for a while, from its seeds; what it finds stays in build/fuzz/found.
fuzz_smoke()
{
    local target name seeds work found=build/fuzz/found
    heading "fuzz smoke, $fuzz_seconds s each"
    mkdir -p "$found"
    local pids=() names=() running=0
    for target in build/fuzz/tests/fuzz_*; do
        [[ -x $target && -f $target ]] || continue
        name=${target##*/fuzz_}
        seeds=tests/data/fuzz/$name
        work=build/fuzz/corpus/$name
        mkdir -p "$work"
        [[ -d $seeds ]] || seeds=
        "$target" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
            -artifact_prefix="$found/$name-" "$work" ${seeds:+"$seeds"} \
            >"$logs/fuzz-$name.log" 2>&1 &
        pids+=($!)
        names+=("$name")
        running=$((running + 1))
        if ((running >= jobs)); then
            fuzz_collect "${pids[0]}" "${names[0]}"
            pids=("${pids[@]:1}")
            names=("${names[@]:1}")
            running=$((running - 1))
        fi
    done
    while ((running > 0)); do
        fuzz_collect "${pids[0]}" "${names[0]}"
        pids=("${pids[@]:1}")
        names=("${names[@]:1}")
        running=$((running - 1))
    done
}

# fuzz_collect PID NAME
fuzz_collect()
{
    if wait "$1"; then
        echo "passed  fuzz_$2: $(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/fuzz-$2.log") runs"
        passed=$((passed + 1))
    else
        tail -n 30 "$logs/fuzz-$2.log"
        echo "FAILED  fuzz_$2; the log is $logs/fuzz-$2.log"
        failed=$((failed + 1))
    fi
}

mkdir -p "$logs"
if [[ $tier == quick ]]; then
    wg_packages build test || { broken "packages"; finish; }
    build check all unit_tests fuzz_targets && tests check quick
    finish
fi

wg_packages build test || { broken "packages"; finish; }
build check all unit_tests fuzz_targets && {
    tests check 'quick|torture|stress'
    if wg_model_fetch; then
        export WARPGROUP_MODEL=$WG_MODEL
    else
        # The tests run all the same: each finds no model and says "skipped" by its own name.
        wg_say "tests with the real model will be skipped"
        export WARPGROUP_MODEL=
    fi
    tests check model
}
build asan all unit_tests fuzz_targets && tests asan 'quick|torture'
# Arithmetic has no races, and is ten times slower there.
build tsan all unit_tests fuzz_targets && tests tsan 'quick|stress' -LE numeric
build fuzz fuzz_targets && fuzz_smoke
if [[ $tier == full && -x build/check/warpgroup ]]; then
    timeout=7200
    tests check full
fi
finish
