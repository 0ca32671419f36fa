#!/usr/bin/env python3
"""Writes seeds of tests/fuzz/fuzz_gguf_model.c: for each GGUF architecture a model of one layer that
is as small as can be (a few KB), so that most of what the fuzzer changes is of consequence.

    python3 tools/make_fuzz_gguf.py tests/data/fuzz/gguf_model

Weights are numbers of a fixed sequence; running it again gives the same bytes.
"""
import os
import struct
import sys

HIDDEN, HEADS, KEY_HEADS, HEAD, WIDE, WORDS, POSITIONS = 8, 2, 1, 4, 8, 4, 4
UINT32, FLOAT32, STRING = 4, 6, 8
ALIGNMENT = 32
MATRICES = {"attn_q": (HEADS * HEAD, HIDDEN), "attn_output": (HIDDEN, HEADS * HEAD), "ffn_up": (WIDE, HIDDEN),
            "ffn_down": (HIDDEN, WIDE)}
NORMS = {"llama": ["attn_norm", "ffn_norm"], "qwen2": ["attn_norm", "ffn_norm"], "qwen3": ["attn_norm", "ffn_norm"],
         "gemma3": ["attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"],
         "bert": ["attn_output_norm", "layer_output_norm"]}


def tensors(architecture):
    """Name to shape, rows first."""
    is_bert = architecture == "bert"
    key_rows = HEADS * HEAD if is_bert else KEY_HEADS * HEAD
    layer = dict(MATRICES, attn_k=(key_rows, HIDDEN), attn_v=(key_rows, HIDDEN))
    if not is_bert:
        layer["ffn_gate"] = (WIDE, HIDDEN)
    shapes = {"token_embd.weight": (WORDS, HIDDEN)}
    if is_bert:
        shapes |= {"token_types.weight": (2, HIDDEN), "position_embd.weight": (POSITIONS, HIDDEN),
                   "token_embd_norm.weight": (HIDDEN,), "token_embd_norm.bias": (HIDDEN,)}
    else:
        shapes["output_norm.weight"] = (HIDDEN,)
    for name, shape in layer.items():
        shapes[f"blk.0.{name}.weight"] = shape
        if is_bert or (architecture == "qwen2" and name in ("attn_q", "attn_k", "attn_v")):
            shapes[f"blk.0.{name}.bias"] = shape[:1]
    for name in NORMS[architecture]:
        shapes[f"blk.0.{name}.weight"] = (HIDDEN,)
        if is_bert:
            shapes[f"blk.0.{name}.bias"] = (HIDDEN,)
    if architecture in ("qwen3", "gemma3"):
        shapes |= {"blk.0.attn_q_norm.weight": (HEAD,), "blk.0.attn_k_norm.weight": (HEAD,)}
    return shapes


def keys(architecture):
    is_bert = architecture == "bert"
    counts = {"block_count": 1, "context_length": POSITIONS, "embedding_length": HIDDEN, "feed_forward_length": WIDE,
              "attention.head_count": HEADS, "attention.head_count_kv": HEADS if is_bert else KEY_HEADS,
              "attention.key_length": HEAD}
    if architecture == "gemma3":
        counts["attention.sliding_window"] = 2
    epsilon = "attention.layer_norm_epsilon" if is_bert else "attention.layer_norm_rms_epsilon"
    return ([("general.architecture", STRING, architecture)] +
            [(f"{architecture}.{key}", UINT32, value) for key, value in counts.items()] +
            [(f"{architecture}.{epsilon}", FLOAT32, 1e-5)])


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def gguf(architecture):
    pairs, shapes = keys(architecture), tensors(architecture)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(pairs))
    for key, kind, value in pairs:
        header += string(key) + struct.pack("<I", kind)
        header += string(value) if kind == STRING else struct.pack("<I" if kind == UINT32 else "<f", value)
    data, at = b"", 1
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        header += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], 0, len(data))
        for _ in range(count):
            at = at * 48271 % 0x7FFFFFFF  # Park and Miller's sequence
            data += struct.pack("<f", at / 0x7FFFFFFF - 0.5)
        data += bytes(-len(data) % ALIGNMENT)
    return header + bytes(-len(header) % ALIGNMENT) + data


for name in NORMS:
    with open(os.path.join(sys.argv[1], f"smallest-{name}"), "wb") as out:
        out.write(gguf(name))
