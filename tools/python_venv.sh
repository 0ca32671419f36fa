#!/bin/sh
# python_venv.sh - makes a Python virtual environment out of requirements files, torch without its CUDA wheels
# where that can be.
#
#   tools/python_venv.sh VENV REQUIREMENTS...
#
# PyPI's torch for Linux wants some 3 GB of CUDA wheels that a CPU never calls, but does not load without the
# libraries. Where a CUDA 13 toolkit with cuDNN and NCCL is installed, its libraries are linked into the place
# where torch looks for them, and only the three that it lacks are fetched; elsewhere everything is. CUDA_LIB
# names the toolkit's lib64 where it is not in the usual place.
#
# Does nothing when the environment was already made of the same requirements.
set -eu

venv=${1:?usage: python_venv.sh VENV REQUIREMENTS...}
shift
wanted=$(cat "$0" "$@" | sha256sum)
[ "$(cat "$venv/made-of" 2>/dev/null)" != "$wanted" ] || exit 0

if [ -z "${CUDA_LIB:-}" ]; then
    for dir in /usr/local/cuda-13*/lib64; do
        if [ -e "$dir/libcudnn.so.9" ] && [ -e "$dir/libnccl.so.2" ]; then
            CUDA_LIB=$dir
        fi
    done
fi

python3 -m venv --clear "$venv"
pip="$venv/bin/pip --disable-pip-version-check --quiet install"
cat "$@" >"$venv/requirements.txt"
if [ -n "${CUDA_LIB:-}" ] && grep -q '^torch==' "$venv/requirements.txt"; then
    # Packages that ask for torch come after it, so that they find it there.
    $pip filelock typing-extensions sympy networkx jinja2 fsspec setuptools
    $pip --no-deps "$(grep '^torch==' "$venv/requirements.txt")" \
        nvidia-cufile==1.20.0.107 nvidia-cusparselt-cu13==0.8.0 nvidia-nvshmem-cu13==3.4.5
    libs=$("$venv/bin/python" -c 'import nvidia, pathlib; print(pathlib.Path(nvidia.__path__[0], "cu13", "lib"))')
    for lib in "$CUDA_LIB"/*.so.* "$CUDA_LIB"/../extras/CUPTI/lib64/*.so.*; do
        [ -e "$libs/$(basename "$lib")" ] || ln -s "$lib" "$libs/"
    done
    # What torch declares and is served by the toolkit must not be fetched by others who ask for torch.
    grep -E -v '^(torch|sentence-transformers|mteb|accelerate)==' "$venv/requirements.txt" >"$venv/others.txt" || true
    $pip -r "$venv/others.txt"
    late=$(grep -E '^(sentence-transformers|mteb|accelerate)==' "$venv/requirements.txt" || true)
    [ -z "$late" ] || $pip --no-deps $late
else
    $pip -r "$venv/requirements.txt"
fi
printf '%s\n' "$wanted" >"$venv/made-of"
