#!/usr/bin/env python3
"""make_gemma_reference.py - tests/data/gemma3-270m-embed.jsonl: last hidden states of Gemma 3 270M.

usage: make_gemma_reference.py MODEL.gguf OUT.jsonl     (needs gguf 0.19.0, torch, transformers 5)

One object a line: ids, last (the first 16 values of the last token's final hidden state), largest
(the largest magnitude of all its values). The ids are random ones (seeded) behind the begin token;
two of the sequences are longer than the sliding window of 512 tokens. The weights are the file's,
dequantised by gguf-py; a GGUF file holds 1 + w for each norm weight w, which is undone here. The
hidden states are those of transformers' Gemma3TextModel in float64, without a cache; the same in
float32 with eager attention has to agree within 1e-4 of the largest value, or nothing is written.
What the file does not say is what Gemma 3 has: rotary base 10000 in local layers, every sixth layer
global, scores scaled by 1 / sqrt(256).
"""
import json
import random
import sys

import gguf
import torch
from transformers import Gemma3TextConfig, Gemma3TextModel

LENGTHS = [2, 37, 513, 600]
SHOWN = 16
BEGIN = 2
NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
         "post_attention_norm": "post_attention_layernorm",
         "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "token_embd": "embed_tokens", "output_norm": "norm"}


def name_of(name):
    parts = name.removesuffix(".weight").split(".")
    layer = f"layers.{parts[1]}." if parts[0] == "blk" else ""
    return layer + NAMES[parts[-1]] + ".weight"


def read_weights(reader):
    weights = {}
    for tensor in reader.tensors:
        values = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
        weights[name_of(tensor.name)] = values - 1 if tensor.name.endswith("norm.weight") else values
    return weights


def read_config(reader, vocabulary):
    def of(key):
        return reader.fields["gemma3." + key].contents()

    layers = of("block_count")
    return Gemma3TextConfig(
        vocab_size=vocabulary, hidden_size=of("embedding_length"), num_hidden_layers=layers,
        intermediate_size=of("feed_forward_length"), num_attention_heads=of("attention.head_count"),
        num_key_value_heads=of("attention.head_count_kv"), head_dim=of("attention.key_length"),
        rms_norm_eps=of("attention.layer_norm_rms_epsilon"), query_pre_attn_scalar=256,
        sliding_window=of("attention.sliding_window"), hidden_activation="gelu_pytorch_tanh",
        max_position_embeddings=of("context_length"),
        layer_types=["sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(layers)],
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": of("rope.freq_base")},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})


def last_states(model, sequences):
    with torch.no_grad():
        return [model(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state[0, -1].double()
                for ids in sequences]


def main(path, out_path):
    reader = gguf.GGUFReader(path)
    weights = read_weights(reader)
    vocabulary = weights["embed_tokens.weight"].shape[0]
    rng = random.Random(270)
    sequences = [[BEGIN] + [rng.randrange(4, vocabulary) for _ in range(n - 1)] for n in LENGTHS]
    states = {}
    for dtype, attention in ((torch.float32, "eager"), (torch.float64, "sdpa")):
        config = read_config(reader, vocabulary)
        config._attn_implementation = attention
        model = Gemma3TextModel(config).eval()
        model.load_state_dict(weights, strict=True)
        states[attention] = last_states(model.to(dtype), sequences)
        del model
    with open(out_path, "w", encoding="ascii") as out:
        for ids, want, other in zip(sequences, states["sdpa"], states["eager"]):
            largest = float(want.abs().max())
            apart = float((want - other).abs().max()) / largest
            print(f"{len(ids)} tokens: largest {largest:.6g}, float32 apart by {apart:.3g} of it")
            if not apart <= 1e-4:
                sys.exit("the two computations disagree")
            out.write(json.dumps({"ids": ids, "last": [float(f"{v:.9g}") for v in want[:SHOWN].tolist()],
                                  "largest": float(f"{largest:.9g}")}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
