#!/usr/bin/env python3
"""Makes a decoder of a given shape with random bf16 weights, as large as the real one.

usage: make_shape_model.py [--shape qwen2.5-7b | qwen2.5-0.5b] OUT

For tests of memory and speed: the file has the names, shapes and type of the real model's, and
values of about the size that real weights have, so that activations stay finite. OUT becomes a
folder with config.json, model.safetensors and a tokenizer.json of one token; records bring ids.
Needs nothing but Python. Same arguments, same bytes.
"""
import argparse
import json
import pathlib
import random
import struct

SHAPES = {  # hidden, layers, heads, key heads, feed-forward, vocabulary
    "qwen2.5-7b": (3584, 28, 28, 4, 18944, 152064),
    "qwen2.5-0.5b": (896, 24, 14, 2, 4864, 151936),
}
BLOCK = 1 << 24


def tensors(hidden, layers, heads, key_heads, inner, vocabulary):
    dim = hidden // heads
    yield "model.embed_tokens.weight", (vocabulary, hidden)
    for i in range(layers):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (hidden,)
        for name, rows in (("q", heads * dim), ("k", key_heads * dim), ("v", key_heads * dim)):
            yield at + f"self_attn.{name}_proj.weight", (rows, hidden)
            yield at + f"self_attn.{name}_proj.bias", (rows,)
        yield at + "self_attn.o_proj.weight", (hidden, heads * dim)
        yield at + "post_attention_layernorm.weight", (hidden,)
        yield at + "mlp.gate_proj.weight", (inner, hidden)
        yield at + "mlp.up_proj.weight", (inner, hidden)
        yield at + "mlp.down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (vocabulary, hidden)


def random_block():
    """bf16 numbers of 2^-7 to 2^-6, either sign: high byte 0x3C or 0xBC, low byte anything."""
    raw = random.Random(1).randbytes(BLOCK)
    high = raw[1::2].translate(bytes(0x3C | (b & 0x80) for b in range(256)))
    out = bytearray(raw)
    out[1::2] = high
    return bytes(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="qwen2.5-7b")
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()
    hidden, layers, heads, key_heads, inner, vocabulary = shape = SHAPES[options.shape]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "config.json").write_text(json.dumps({
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": hidden,
        "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": key_heads, "intermediate_size": inner, "vocab_size": vocabulary,
        "max_position_embeddings": 32768, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6,
        "hidden_act": "silu", "use_sliding_window": False, "tie_word_embeddings": False}))
    (options.out / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False,
                                              "trim_offsets": True, "use_regex": True},
        "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}))
    header, at = {}, 0
    for name, dims in tensors(*shape):
        count = 2
        for n in dims:
            count *= n
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = random_block()
    with open(options.out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for left in range(at, 0, -BLOCK):
            file.write(block[:left])


if __name__ == "__main__":
    main()
