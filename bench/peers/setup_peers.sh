#!/bin/sh
# Makes the virtual environment of the peers, and VENV/bin/peer-python to run them with.
#
#   bench/peers/setup_peers.sh VENV
#
# PyPI's torch for Linux wants some 3 GB of CUDA wheels that a CPU benchmark never calls, but does not load without
# the libraries. Where a CUDA 13 toolkit with cuDNN and NCCL is installed, its libraries serve, and only the three that it lacks
# are fetched; elsewhere everything is. CUDA_LIB names the toolkit's lib64 where it is not in the usual place.
set -eu

venv=${1:?usage: setup_peers.sh VENV}
here=$(cd "$(dirname "$0")" && pwd)
pin() { grep "^$1==" "$here/requirements.txt"; }

if [ -z "${CUDA_LIB:-}" ]; then
    for dir in /usr/local/cuda-13*/lib64; do
        if [ -e "$dir/libcudnn.so.9" ] && [ -e "$dir/libnccl.so.2" ]; then
            CUDA_LIB=$dir
        fi
    done
fi

python3 -m venv "$venv"
pip="$venv/bin/pip --disable-pip-version-check --quiet install"
if [ -n "${CUDA_LIB:-}" ]; then
    grep -v -e '^torch==' -e '^sentence-transformers==' "$here/requirements.txt" > "$venv/without-torch.txt"
    $pip -r "$venv/without-torch.txt" filelock typing-extensions sympy networkx jinja2 fsspec tqdm
    $pip --no-deps "$(pin torch)" "$(pin sentence-transformers)" \
        nvidia-cufile==1.20.0.107 nvidia-cusparselt-cu13==0.8.0 nvidia-nvshmem-cu13==3.4.5
    libs="$CUDA_LIB:$CUDA_LIB/../extras/CUPTI/lib64"
else
    $pip -r "$here/requirements.txt"
    libs=
fi

cat > "$venv/bin/peer-python" <<END
#!/bin/sh
LD_LIBRARY_PATH="$libs\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" exec "$(cd "$venv" && pwd)/bin/python" "\$@"
END
chmod +x "$venv/bin/peer-python"
"$venv/bin/peer-python" -c 'import onnxruntime, openvino, sentence_transformers, torch; print("torch", torch.__version__, "ready")'
