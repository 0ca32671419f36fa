#!/usr/bin/env bash
# test_install.sh - what is installed can be used by an outside program: through pkg-config with the
# shared and with the static library, and through find_package.
set -euo pipefail
if [[ -n $WGT_SANITIZE ]]; then
    echo "skipped: an outside program would need the sanitizer too"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$WGT_SOURCE/tests/data/tiny-bert-h32-d8-mean
cmake --install "$WGT_BUILD" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
pc=$(find "$work/prefix" -name warpgroup.pc)
export PKG_CONFIG_PATH=${pc%/*}
library=$(pkg-config --variable=libdir warpgroup)
example=$WGT_SOURCE/examples/embed_two.c

# try NAME COMMAND...: builds NAME with a command and runs it
try()
{
    local name=$1
    shift
    "$@"
    local said
    said=$(LD_LIBRARY_PATH=$library "$work/$name" "$model" "the bat" "the cat")
    echo "$name: $said"
    [[ $said == *"cosine"* ]]
}

# shellcheck disable=SC2046
try with_shared "$WGT_CC" -o "$work/with_shared" "$example" $(pkg-config --cflags --libs warpgroup)
ldd "$work/with_shared" | LD_LIBRARY_PATH=$library grep -q libwarpgroup

mkdir "$work/consumer"
cat >"$work/consumer/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(warpgroup 0.1 REQUIRED)
add_executable(with_package $example)
target_link_libraries(with_package PRIVATE warpgroup::warpgroup)
add_executable(with_package_static $example)
target_link_libraries(with_package_static PRIVATE warpgroup::warpgroup_static)
set_target_properties(with_package with_package_static PROPERTIES RUNTIME_OUTPUT_DIRECTORY $work)
CMAKE
cmake -S "$work/consumer" -B "$work/consumer/build" -G Ninja -DCMAKE_C_COMPILER="$WGT_CC" \
    -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
try with_package cmake --build "$work/consumer/build" --target with_package -- --quiet
try with_package_static cmake --build "$work/consumer/build" --target with_package_static -- --quiet

# Without the shared one in the way, -lwarpgroup is the static one.
rm "$library"/libwarpgroup.so*
# shellcheck disable=SC2046
try with_static "$WGT_CC" -o "$work/with_static" "$example" \
    $(pkg-config --static --cflags --libs warpgroup)

"$work/prefix/bin/warpgroup" --version
test -s "$work/prefix/share/man/man1/warpgroup.1"
