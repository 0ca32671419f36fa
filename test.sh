#!/usr/bin/env bash
# test.sh - every test, in tiers; the last line is "N passed, N failed, N skipped" over all of them.
#
#   ./test.sh            quick, torture, real model, the same under ASan+UBSan and TSan, fuzz smoke, Python
#   ./test.sh quick      the quick tier alone (under a minute once it is built)
#   ./test.sh python     the Python package alone
#   ./test.sh full       adds the tests that take long
#
# Exit status: 0 when nothing failed and something was run. A skipped test says why in its own words.
set -uo pipefail
cd "$(dirname "$0")" || exit 2
source tools/setup.sh

tier=${1:-default}
case $tier in quick | default | python | full) ;; *)
    wg_say "usage: ./test.sh [quick|python|full]"
    exit 2
    ;;
esac

passed=0 failed=0 skipped=0
fuzz_seconds=${WARPGROUP_FUZZ_SECONDS:-30}
fuzz_runs=${WARPGROUP_FUZZ_RUNS:-1000000} # of each target in "full"
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

# Longer inputs than these take long and show nothing more: texts are cut into short chunks in that build,
# and a small model has all that a large one has.
declare -A fuzz_options=([tokenizer_text]=-max_len=512 [gguf_model]=-max_len=8192)

# fuzz FOLDER RUNS OPTION...: every libFuzzer target from its seeds and what lies in build/fuzz/FOLDER, which
# grows; each must do RUNS runs. What it finds stays in build/fuzz/found.
fuzz()
{
    local folder=$1 runs=$2 target name seeds work found=build/fuzz/found
    shift 2
    mkdir -p "$found"
    local pids=() names=() running=0
    for target in build/fuzz/tests/fuzz_*; do
        [[ -x $target && -f $target ]] || continue
        name=${target##*/fuzz_}
        seeds=tests/data/fuzz/$name
        work=build/fuzz/$folder/$name
        mkdir -p "$work"
        [[ -d $seeds ]] || seeds=
        # Targets that write files write them to memory where that can be: ten times as many runs.
        TMPDIR=$([[ -w /dev/shm ]] && echo /dev/shm || echo "${TMPDIR:-/tmp}") \
            "$target" "$@" ${fuzz_options[$name]:-} -rss_limit_mb=2048 -print_final_stats=1 \
            -artifact_prefix="$found/$name-" "$work" ${seeds:+"$seeds"} \
            >"$logs/fuzz-$name.log" 2>&1 &
        pids+=($!)
        names+=("$name")
        running=$((running + 1))
        if ((running >= jobs)); then
            fuzz_collect "${pids[0]}" "${names[0]}" "$runs"
            pids=("${pids[@]:1}")
            names=("${names[@]:1}")
            running=$((running - 1))
        fi
    done
    while ((running > 0)); do
        fuzz_collect "${pids[0]}" "${names[0]}" "$runs"
        pids=("${pids[@]:1}")
        names=("${names[@]:1}")
        running=$((running - 1))
    done
}

# fuzz_collect PID NAME RUNS
fuzz_collect()
{
    local log=$logs/fuzz-$2.log count
    if ! wait "$1"; then
        tail -n 30 "$log"
        echo "FAILED  fuzz_$2; the log is $log"
        failed=$((failed + 1))
        return
    fi
    count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if ((${count:-0} < $3)); then
        echo "FAILED  fuzz_$2: ${count:-0} runs, not $3, in its time; the log is $log"
        failed=$((failed + 1))
        return
    fi
    echo "passed  fuzz_$2: $count runs"
    passed=$((passed + 1))
}

# Every target for a while.
fuzz_smoke()
{
    heading "fuzz smoke, $fuzz_seconds s each"
    fuzz corpus 1 -max_total_time="$fuzz_seconds" -timeout=10
}

# Every target so many times, from its seeds alone; one that hangs or crawls fails.
fuzz_long()
{
    heading "fuzz, $fuzz_runs runs each"
    rm -rf build/fuzz/corpus-long
    fuzz corpus-long "$fuzz_runs" -runs="$fuzz_runs" -max_total_time=7200 -timeout=60
}

# The package as pip builds it, in an environment with what its users have beside it.
python_tests()
{
    local venv=$WG_CACHE/python-tests log=$logs/python.log junit=$logs/python.xml before=$failed total bad out
    heading "tests of the Python package"
    if ! tools/python_venv.sh "$venv" tests/python/requirements.txt >"$log" 2>&1; then
        tail -n 5 "$log"
        echo "SKIPPED python: its environment could not be made; the log is $log"
        skipped=$((skipped + 1))
        return
    fi
    rm -rf build/python "$junit"
    if ! "$venv/bin/python" -m pip --disable-pip-version-check install --no-deps --no-build-isolation \
        --target build/python . >"$log" 2>&1; then
        tail -n 40 "$log"
        broken "pip install of the Python package; the log is $log"
        return
    fi
    PYTHONPATH=$PWD/build/python PYTHONDONTWRITEBYTECODE=1 WARPGROUP_CLI=$PWD/build/check/warpgroup \
        "$venv/bin/python" -m pytest -q --junitxml "$junit"
    local status=$?
    if [[ ! -s $junit ]]; then
        broken "pytest wrote no result"
        return
    fi
    total=$(attribute "$junit" tests)
    bad=$(($(attribute "$junit" failures) + $(attribute "$junit" errors)))
    out=$(attribute "$junit" skipped)
    passed=$((passed + total - bad - out))
    failed=$((failed + bad))
    skipped=$((skipped + out))
    if ((status != 0 && failed == before)); then broken "pytest"; fi
}

mkdir -p "$logs"
if [[ $tier == python ]]; then
    wg_packages build test || { broken "packages"; finish; }
    wg_model_fetch && export WARPGROUP_MODEL=$WG_MODEL
    build check warpgroup && python_tests
    finish
fi
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
    export WARPGROUP_CACHE=$WG_CACHE
    wg_smollm2_fetch || wg_say "tests with SmolLM2 will be skipped"
    if [[ $tier == full ]]; then
        wg_gemma3_fetch || wg_say "tests with Gemma 3 will be skipped"
    fi
    tests check model
}
python_tests
build asan all unit_tests fuzz_targets && tests asan 'quick|torture'
# Arithmetic has no races, and is ten times slower there.
build tsan all unit_tests fuzz_targets && tests tsan 'quick|stress' -LE numeric
build fuzz fuzz_targets && {
    fuzz_smoke
    if [[ $tier == full ]]; then fuzz_long; fi
}
if [[ $tier == full && -x build/check/warpgroup ]]; then
    timeout=7200
    wg_shape_make || wg_say "the test with a model of 7 billion parameters will be skipped"
    tests check full
    wg_shape_drop
fi
finish
