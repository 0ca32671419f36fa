#!/usr/bin/env python3
"""Makes the tiny BERT models of tests/data/tiny-bert-*/ and their float64 reference.

usage: make_tiny_bert.py [--check] [OUT]        (OUT: tests/data of this checkout)

Each folder is a sentence-transformers model with random weights, beside a reference that a
C test can hold against every step of its own forward pass. One shape per folder, so that a
wrong stride, head width, activation or pooling has an address. The forward pass is
transformers' BertModel in double; weights stored as F16 or BF16 are rounded first, so the
reference belongs to the file as stored. Same versions, same bytes: everything is seeded.

--check loads the finished folders with sentence-transformers and compares encode() with the
reference; it makes nothing.

reference.jsonl   one line a text, in the order of reference.bin: {"id", "text", "input_ids"};
                  a record without "text" has no text that gives these ids.
reference.bin     little-endian, no alignment, no padding:
    char  magic[8]            "WGTBREF1"
    u32   layers, hidden      L, H
    u32   dim                 width of the sentence vector (H, or the output of 2_Dense)
    u32   texts
    then for each text:
        u32   tokens          n
        u32   ids[n]
        f64   hidden[L+1][n][H]   output of the embeddings (after LayerNorm), then of each layer
        f64   pooled[6][H]    cls, mean, max, sqrt_len (sum / sqrt(n)),
                              weightedmean (weights 1..n), lasttoken
        f64   vector[dim]     what the model's own pooling and 2_Dense give, not normalised
        f64   unit[dim]       the same with length 1
Whether the model itself normalises is said by its modules.json.
"""
import argparse
import json
import math
import pathlib
import random
import struct
from dataclasses import dataclass

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

POOLINGS = ("cls", "mean", "max", "sqrt_len", "weightedmean", "lasttoken")
POOLING_KEYS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "sqrt_len": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
LAYOUT6_POOLING = {"sqrt_len": "mean_sqrt_len_tokens"}
LAYOUT6_TYPES = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """amber basin candle drift ember fjord gravel harbor inlet jetty kettle lantern meadow
needle orchard pebble quarry ripple saddle timber valley willow""".split()
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass
class Shape:
    name: str
    hidden: int
    heads: int
    layers: int
    inter: int
    act: str
    pooling: str
    tokens: tuple  # length of each reference text, special tokens included
    positions: int = 64
    types: int = 2
    eps: float = 1e-12
    dtype: torch.dtype = torch.float32
    shards: int = 1
    dense: int = 0  # output width of 2_Dense, 0 = none
    normalize: bool = True
    pooler: bool = False  # keep BERT's pooler: tensors that an encoder must leave alone
    layout6: bool = False  # the folder as sentence-transformers 6 saves it


SHAPES = [
    Shape("h32-d8-mean", 32, 4, 2, 72, "gelu", "mean", (1, 2, 7, 33, 64), pooler=True),
    Shape("h48-d24-cls-dense", 48, 2, 1, 100, "relu", "cls", (1, 2, 7, 33, 48), dense=36),
    Shape("h80-d16-f16-weightedmean", 80, 5, 1, 136, "gelu_new", "weightedmean",
          (1, 2, 7, 16, 33), types=1, dtype=torch.float16),
    Shape("h40-d20-bf16-shards-max", 40, 2, 3, 88, "gelu", "max", (1, 2, 7, 16, 33),
          dtype=torch.bfloat16, shards=2),
    Shape("h128-d64-f16-mean", 128, 2, 1, 36, "gelu", "mean", (1, 2, 7, 16),
          dtype=torch.float16, eps=1e-5),
    Shape("h32-pos512-lasttoken", 32, 4, 1, 72, "gelu_new", "lasttoken", (1, 2, 7, 257),
          positions=512, normalize=False),
    Shape("h24-d8-sqrt-len", 24, 3, 1, 40, "relu", "sqrt_len", (1, 2, 7, 33, 48), types=1,
          layout6=True),
]


def make_tokenizer():
    """A WordPiece tokenizer in the form of BERT's own: a few words, and every letter and digit."""
    vocab = SPECIAL + WORDS + list(ALPHABET) + list(".,!?'") + ["##" + c for c in ALPHABET] + ["##ing"]
    tok = Tokenizer(models.WordPiece({t: i for i, t in enumerate(vocab)}, unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tok


def make_text(rng, tok, count):
    """A text of exactly `count` tokens: words, pieces of words, digits and punctuation."""
    text = ""
    while True:
        left = count - len(tok.encode(text).ids)
        if left == 0:
            return text
        word = rng.choice(WORDS + ["harboring", "drifting", "Fjord", "42", "x7", "w", ",", ".", "?"])
        longer = (text + " " + word).strip()
        if len(tok.encode(longer).ids) <= count:
            text = longer


def make_model(shape, vocab, seed):
    """BertModel in double whose weights are exactly what the stored type can hold."""
    config = transformers.BertConfig(
        vocab_size=vocab, hidden_size=shape.hidden, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, intermediate_size=shape.inter, hidden_act=shape.act,
        max_position_embeddings=shape.positions, type_vocab_size=shape.types,
        layer_norm_eps=shape.eps, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config._attn_implementation = "eager"
    model = transformers.BertModel(config, add_pooling_layer=shape.pooler).double().eval()
    gen = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        x = torch.randn(p.shape, generator=gen, dtype=torch.float64)
        if "LayerNorm.weight" in name:
            x = 1 + 0.2 * x
        elif p.dim() == 1:
            x = 0.2 * x
        elif "embeddings" in name:
            x = 0.5 * x
        else:
            x = x * 1.2 / math.sqrt(p.shape[1])  # 0.21 at width 32: far from linear everywhere
        p.data.copy_(x.to(shape.dtype).double())
    return model


def make_dense(shape, seed):
    gen = torch.Generator().manual_seed(seed)
    weight = torch.randn(shape.dense, shape.hidden, generator=gen) / math.sqrt(shape.hidden)
    return {"linear.weight": weight, "linear.bias": 0.2 * torch.randn(shape.dense, generator=gen)}


def pool_all(h):
    """The six poolings of [n, H], in the order of POOLINGS."""
    n = h.shape[0]
    w = torch.arange(1, n + 1, dtype=h.dtype)[:, None]
    return torch.stack([h[0], h.mean(0), h.max(0).values, h.sum(0) / math.sqrt(n),
                        (h * w).sum(0) / w.sum(), h[-1]])


def f64(x):
    return np.ascontiguousarray(x.numpy(), dtype="<f8").tobytes()


@torch.no_grad()
def reference_of(shape, model, dense, ids):
    out = model(input_ids=torch.tensor([ids]), output_hidden_states=True)
    hidden = torch.stack([h[0] for h in out.hidden_states])
    assert hidden.dtype == torch.float64 and hidden.shape[0] == shape.layers + 1
    pooled = pool_all(hidden[-1])
    vector = pooled[POOLINGS.index(shape.pooling)]
    if dense:
        vector = torch.tanh(dense["linear.weight"].double() @ vector + dense["linear.bias"].double())
    return (struct.pack(f"<{len(ids) + 1}I", len(ids), *ids) + f64(hidden) + f64(pooled) +
            f64(vector) + f64(vector / vector.norm()))


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_weights(folder, shape, model):
    tensors = {k: v.to(shape.dtype).contiguous() for k, v in sorted(model.state_dict().items())
               if v.is_floating_point()}
    if shape.shards == 1:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return
    names, weight_map = list(tensors), {}
    for i in range(shape.shards):
        part = names[i * len(names) // shape.shards:(i + 1) * len(names) // shape.shards]
        file = f"model-{i + 1:05}-of-{shape.shards:05}.safetensors"
        save_file({k: tensors[k] for k in part}, folder / file, {"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    write_json(folder / "model.safetensors.index.json",
               {"metadata": {"total_size": total}, "weight_map": weight_map})


def write_config(folder, shape, vocab):
    write_json(folder / "config.json", {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads, "num_hidden_layers": shape.layers,
        "intermediate_size": shape.inter, "max_position_embeddings": shape.positions,
        "vocab_size": vocab, "type_vocab_size": shape.types, "layer_norm_eps": shape.eps,
        "hidden_act": shape.act, "pad_token_id": 0, "position_embedding_type": "absolute"})
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    if shape.dense:
        modules.append(("2_Dense", "Dense"))
        write_json(folder / "2_Dense/config.json", {
            "in_features": shape.hidden, "out_features": shape.dense, "bias": True,
            "activation_function": "torch.nn.modules.activation.Tanh"})
    if shape.normalize:
        modules.append((f"{len(modules)}_Normalize", "Normalize"))
    types = LAYOUT6_TYPES if shape.layout6 else {}
    write_json(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": path,
         "type": types.get(kind, "sentence_transformers.models." + kind)}
        for i, (path, kind) in enumerate(modules)])
    if shape.layout6:
        write_json(folder / "1_Pooling/config.json", {
            "embedding_dimension": shape.hidden,
            "pooling_mode": LAYOUT6_POOLING.get(shape.pooling, shape.pooling),
            "include_prompt": True})
        write_json(folder / "sentence_bert_config.json", {
            "transformer_task": "feature-extraction",
            "modality_config": {"text": {"method": "forward",
                                         "method_output_name": "last_hidden_state"}},
            "module_output_name": "token_embeddings"})
        write_json(folder / "tokenizer_config.json", {
            "tokenizer_class": "BertTokenizer", "model_max_length": shape.positions})
        return
    write_json(folder / "1_Pooling/config.json", {
        "word_embedding_dimension": shape.hidden,
        **{key: name == shape.pooling for name, key in POOLING_KEYS.items()},
        "include_prompt": True})
    write_json(folder / "sentence_bert_config.json",
               {"max_seq_length": shape.positions, "do_lower_case": False})


def make(root, shape, seed):
    folder = root / ("tiny-bert-" + shape.name)
    folder.mkdir(parents=True, exist_ok=True)
    tok = make_tokenizer()
    tok.save(str(folder / "tokenizer.json"), pretty=False)
    vocab = tok.get_vocab_size()
    model = make_model(shape, vocab, seed)
    dense = make_dense(shape, seed + 1) if shape.dense else None
    write_config(folder, shape, vocab)
    write_weights(folder, shape, model)
    if dense:
        save_file(dense, folder / "2_Dense/model.safetensors", {"format": "pt"})
    rng = random.Random(seed)
    blob = b"WGTBREF1" + struct.pack("<4I", shape.layers, shape.hidden,
                                     shape.dense or shape.hidden, len(shape.tokens))
    with open(folder / "reference.jsonl", "w") as lines:
        for i, count in enumerate(shape.tokens):
            record = {"id": i}
            if count == 1:  # CLS and SEP make two, so one token can only be given as an id
                record["input_ids"] = [len(SPECIAL) + rng.randrange(len(WORDS))]
            else:
                record["text"] = make_text(rng, tok, count)
                record["input_ids"] = tok.encode(record["text"]).ids
            blob += reference_of(shape, model, dense, record["input_ids"])
            lines.write(json.dumps(record) + "\n")
    (folder / "reference.bin").write_bytes(blob)
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    assert size < 300_000, f"{folder}: {size} bytes"
    print(f"{folder.name}: {size} bytes")


def read_reference(path):
    """(ids, hidden, pooled, vector, unit) of each text; the same few reads a C program makes."""
    data = path.read_bytes()
    assert data[:8] == b"WGTBREF1"
    layers, hidden, dim, texts = struct.unpack_from("<4I", data, 8)
    at, out = 24, []

    def take(*dims):
        nonlocal at
        count = math.prod(dims)
        x = np.frombuffer(data, "<f8", count, at).reshape(dims)
        at += 8 * count
        return x

    for _ in range(texts):
        n, = struct.unpack_from("<I", data, at)
        ids = struct.unpack_from(f"<{n}I", data, at + 4)
        at += 4 + 4 * n
        out.append((ids, take(layers + 1, n, hidden), take(6, hidden), take(dim), take(dim)))
    assert at == len(data)
    return out


def check(root, shape):
    from sentence_transformers import SentenceTransformer
    folder = root / ("tiny-bert-" + shape.name)
    st = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    worst = 0.0
    records = [json.loads(line) for line in open(folder / "reference.jsonl")]
    for record, ref in zip(records, read_reference(folder / "reference.bin")):
        assert list(ref[0]) == record["input_ids"]
        if "text" in record:
            want = ref[4] if shape.normalize else ref[3]
            got = st.encode(record["text"]).astype(np.float64)
            worst = max(worst, np.abs(got - want).max() / np.abs(want).max())
    print(f"{folder.name}: sentence-transformers float32 differs by {worst:.1e} of the largest value")
    assert worst < 2e-5


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("out", nargs="?", type=pathlib.Path,
                    default=pathlib.Path(__file__).resolve().parent.parent / "tests/data")
    ap.add_argument("--check", action="store_true")
    args = ap.parse_args()
    torch.set_num_threads(1)
    for i, shape in enumerate(SHAPES):
        check(args.out, shape) if args.check else make(args.out, shape, 1000 + 10 * i)


if __name__ == "__main__":
    main()
