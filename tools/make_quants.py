#!/usr/bin/env python3
"""make_quants.py - blocks of every quantised type that is read, with the floats they stand for.

usage: make_quants.py OUT.jsonl                 (needs gguf 0.19.0 and numpy)
       make_quants.py --sums MODEL.gguf OUT.jsonl

First form: one object a line: type, ggml_type, block_elems, block_bytes, bytes_hex, f32. The bytes are random, all
of them, but for the 16-bit scales: these are replaced where they are infinite or NaN, and the last
blocks of each type have chosen ones (zero, minus zero, the least and the greatest half). The floats
are those of gguf.quants.dequantize, written so that they read back exactly. The same call gives the
same bytes.

Second form: one object a tensor of a real model: name, type, shape (row-major), sum. The sum is over
the floats' bits times their odd position, sum of bits[i] * (2 i + 1) mod 2^64, so that both a wrong
value and a value at a wrong place change it.
"""
import json
import sys

import numpy as np
import gguf

RANDOM_BLOCKS = 3
SCALES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF]

# Where the 16-bit floats stand in a block.
TYPES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
         "Q5_K": [0, 2], "Q6_K": [208]}


def sums(model, path):
    with open(path, "w", encoding="ascii") as out:
        for tensor in gguf.GGUFReader(model).tensors:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            bits = np.ascontiguousarray(values, dtype=np.float32).reshape(-1).view(np.uint32)
            total = 0
            for at in range(0, bits.size, 1 << 22):
                part = bits[at:at + (1 << 22)].astype(np.uint64)
                places = np.arange(at, at + part.size, dtype=np.uint64)
                total += int(np.sum(part * (2 * places + 1), dtype=np.uint64))
            out.write(json.dumps({"name": tensor.name, "type": tensor.tensor_type.name,
                                  "shape": [int(n) for n in reversed(tensor.shape)],
                                  "sum": total % (1 << 64)}) + "\n")


def samples(path):
    random = np.random.default_rng(20)
    with open(path, "w", encoding="ascii") as out:
        for name, places in TYPES.items():
            kind = gguf.GGMLQuantizationType[name]
            elements, size = gguf.GGML_QUANT_SIZES[kind]
            scales = SCALES if elements == 32 else SCALES[3::3]  # large blocks make long lines
            count = RANDOM_BLOCKS + len(scales)
            blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
            for row, block in enumerate(blocks):
                for at in places:
                    half = int(block[at]) | int(block[at + 1]) << 8
                    if row >= RANDOM_BLOCKS:
                        half = scales[row - RANDOM_BLOCKS]
                    if half >> 10 & 31 == 31:
                        half ^= 0x4000
                    block[at], block[at + 1] = half & 255, half >> 8
            values = gguf.quants.dequantize(blocks.reshape(-1), kind).reshape(-1)
            out.write(json.dumps({"type": name, "ggml_type": int(kind), "block_elems": elements,
                                  "block_bytes": size, "bytes_hex": blocks.tobytes().hex(),
                                  "f32": [float(v) for v in values]}) + "\n")


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--sums":
        sums(sys.argv[2], sys.argv[3])
    elif len(sys.argv) == 2:
        samples(sys.argv[1])
    else:
        sys.exit(__doc__)


main()
