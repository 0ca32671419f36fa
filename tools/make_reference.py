#!/usr/bin/env python3
"""Makes tests/data/minilm-reference.{jsonl,bin}: float64 sentence vectors of all-MiniLM-L6-v2.

usage: make_reference.py MODEL_DIR [OUT]         (OUT: tests/data of this checkout)
       make_reference.py --check TINY_BERT_DIR   (holds this file's arithmetic against reference.bin)

The texts are made here from invented words (seeded), so that nothing is copied and every length
from 2 to 512 tokens, the ends of likely tiles, accents, CJK, numbers and over-long texts occur.
The arithmetic is plain numpy in double, written from the BERT paper (Devlin et al., 2018) and
independent of transformers: make_tiny_bert.py uses the latter, and --check shows that they agree.

minilm-reference.jsonl   {"id", "text", "tokens"}: tokens after truncation to 512, CLS and SEP included
minilm-reference.bin     little-endian: char magic[8] "WGMLREF1"; u32 texts, dim;
                         f32 unit[texts][dim], mean pooling and length 1, rounded from float64
"""
import argparse
import json
import math
import pathlib
import random
import struct

import numpy as np
from safetensors import safe_open
from scipy.special import erf
from tokenizers import Tokenizer

MAX_TOKENS = 512
EDGES = [31, 32, 33, 47, 48, 49, 63, 64, 65, 95, 96, 97, 127, 128, 129, 191, 192, 193, 255, 256, 257,
         383, 384, 385, 510, 511, 512]
TEXTS = 240
OVERLONG = 6


def make_word(rng):
    kind = rng.random()
    if kind < 0.06:
        return rng.choice(["7", "3.14", "1,024", "2031-07-12", "10^6", "50%", "0x1f", "v2.0", "12:45"])
    if kind < 0.08:  # a run of ideographs, each a word of its own for BERT
        return "".join(chr(0x4E00 + rng.randrange(600)) for _ in range(rng.randint(1, 4)))
    word = "".join(rng.choice("b c d f g h l m n p r s t v st tr pl".split()) +
                   rng.choice("a e i o u ea ou".split()) + rng.choice(["", "", "n", "r", "s", "l"])
                   for _ in range(rng.choice([1, 1, 2, 2, 2, 3, 4])))
    if kind < 0.13:
        at = rng.randrange(len(word))
        word = word[:at] + rng.choice("éèüöñçåø") + word[at:]
    if kind > 0.9:
        word = word.capitalize()
    elif kind > 0.88:
        word = word.upper()
    return word


COMMON = """the of and to in is that for it as was on with by at from this be are or an not have which one
all their has would there what will if can more when who so no out up into than them only time new some
could these two may then other its over such our after before first any work must through back years where
much way well down should because each those people state good very make world still see own men long get
here between both life being under never day same another know while last might us great old year off come
since against go came right used take three""".split()


def make_text(rng, words, count_of, target):
    """About half common words, half invented ones, punctuated; `target` tokens with CLS and SEP."""
    left, parts = target - 2, []
    while left:
        word = rng.choice(COMMON) if rng.random() < 0.5 else rng.choice(words)
        if rng.random() < 0.12:
            word += rng.choice([",", ".", ".", ";", "?", "!", ":", ")", "…", "—"])
        cost = count_of(word)
        if cost <= left:
            parts.append(word)
            left -= cost
    return " ".join(parts)


def targets(rng):
    out = list(range(2, 21)) + EDGES * 2
    while len(out) < TEXTS - OVERLONG:
        out.append(int(math.exp(rng.uniform(math.log(3), math.log(MAX_TOKENS)))))
    return out + [MAX_TOKENS + rng.randint(1, 90) for _ in range(OVERLONG)]


def load(folder):
    """Configuration and all tensors, widened to double."""
    config = json.loads((folder / "config.json").read_text())
    tensors = {}
    for file in sorted(folder.glob("model*.safetensors")):
        with safe_open(file, "pt") as f:  # "pt" because numpy has no bfloat16
            tensors.update({k: f.get_tensor(k).double().numpy() for k in f.keys()})
    return config, tensors


ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "gelu_new": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),
    "relu": lambda x: np.maximum(x, 0),
}


def forward(config, w, ids):
    """Hidden states [L+1][n, H] of one text."""
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]
    act = ACTIVATIONS[config["hidden_act"]]

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
        return x * w[name + ".weight"] + w[name + ".bias"]

    def split(x):
        return x.reshape(len(ids), heads, -1).transpose(1, 0, 2)

    e = "embeddings."
    x = (w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][:len(ids)] +
         w[e + "token_type_embeddings.weight"][0])
    states = [norm(x, e + "LayerNorm")]
    for i in range(config["num_hidden_layers"]):
        h, p = states[-1], f"encoder.layer.{i}."
        q, k, v = (split(linear(h, p + "attention.self." + name)) for name in ("query", "key", "value"))
        s = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        s = np.exp(s - s.max(-1, keepdims=True))
        s = s / s.sum(-1, keepdims=True)
        mixed = (s @ v).transpose(1, 0, 2).reshape(len(ids), -1)
        h = norm(linear(mixed, p + "attention.output.dense") + h, p + "attention.output.LayerNorm")
        f = act(linear(h, p + "intermediate.dense"))
        states.append(norm(linear(f, p + "output.dense") + h, p + "output.LayerNorm"))
    return states


def check(folder):
    from make_tiny_bert import read_reference
    config, w = load(folder)
    worst = 0.0
    for ids, hidden, *_ in read_reference(folder / "reference.bin"):
        worst = max(worst, np.abs(np.stack(forward(config, w, list(ids))) - hidden).max())
    print(f"{folder.name}: hidden states differ by at most {worst:.1e}")
    assert worst < 1e-12


def make(model, out):
    config, w = load(model)
    tok = Tokenizer.from_file(str(model / "tokenizer.json"))
    tok.no_padding()
    tok.no_truncation()
    rng = random.Random(2)
    words = [make_word(rng) for _ in range(1200)]

    def count_of(word):
        return len(tok.encode(word, add_special_tokens=False).ids)

    texts = [make_text(rng, words, count_of, n) for n in targets(rng)]
    rng.shuffle(texts)
    tok.enable_truncation(MAX_TOKENS)
    rows, total = [], 0
    with open(out / "minilm-reference.jsonl", "w") as lines:
        for i, text in enumerate(texts):
            ids = tok.encode(text).ids
            mean = forward(config, w, ids)[-1].mean(0)
            rows.append(mean / math.sqrt((mean * mean).sum()))
            total += len(ids)
            record = {"id": i, "text": text, "tokens": len(ids)}
            lines.write(json.dumps(record, ensure_ascii=False) + "\n")
    blob = np.stack(rows).astype("<f4")
    (out / "minilm-reference.bin").write_bytes(
        b"WGMLREF1" + struct.pack("<2I", *blob.shape) + blob.tobytes())
    print(f"{len(texts)} texts, {total} tokens, dim {blob.shape[1]}")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--check", action="store_true")
    ap.add_argument("model", type=pathlib.Path)
    ap.add_argument("out", nargs="?", type=pathlib.Path,
                    default=pathlib.Path(__file__).resolve().parent.parent / "tests/data")
    args = ap.parse_args()
    check(args.model) if args.check else make(args.model, args.out)


if __name__ == "__main__":
    main()
