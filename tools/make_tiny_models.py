#!/usr/bin/env python3
"""Makes the tiny models of tests/data/tiny-<family>-*/ (all families but BERT) and their float64 reference.

usage: make_tiny_models.py [--check] [--only TEXT] [OUT]      (OUT: tests/data of this checkout)

Each folder is a model as Hugging Face lays it out, with random weights, beside a reference
that a C test can hold against every step of its own forward pass. config.json is written
first, in the spelling that published models of the family use (some in the older, some in
the newer one), and transformers builds the model from that file; so the reference is what
the stored configuration means, not what this script believes. Weights are rounded to the
stored type first. Same versions, same bytes: everything is seeded.

The forward pass is transformers' own, eager attention, no cache, in float64 throughout.
Model code narrows to float32 by hand in places (softmax, RMSNorm, rotary angles and their
inverse frequencies, Gemma's embedding scale); while the reference runs, everything_double()
makes torch.float32 and Tensor.float() mean float64, and a dispatch mode fails on any
float32 tensor that is made all the same. MPNet's buckets come out of a logarithm: they are
compared with those of the float32 arithmetic, as trained models used.

--check makes no file. It recomputes every tensor and reference and compares them with the files,
runs the folder as from_pretrained loads it (float32, sdpa attention) against the reference
within 1e-4 of the largest value, and asks for no missing and no unexpected tensor. Folders
with modules.json are also run by sentence-transformers, from the text.

reference.jsonl   as in make_tiny_bert.py: {"id", "text", "input_ids"} a line; a record
                  without "text" has no text that gives these ids.
reference.bin     the format of make_tiny_bert.py with a flags field and two optional blocks
                  (little-endian, no alignment, no padding):
    char  magic[8]            "WGTBREF2"
    u32   layers, hidden      L, H
    u32   dim                 width of the sentence vector, 0 = the folder has no modules.json
    u32   texts
    u32   flags               1 = the model has a final norm, 2 = next-token scores
    then for each text:
        u32   tokens          n
        u32   ids[n]
        f64   hidden[L+1][n][H]   what enters layer 0 (after embedding norm, scale or
                              multiplier), then what each layer gives: the residual stream,
                              BEFORE any final norm. (transformers' own output_hidden_states
                              puts the normed states in the place of the last of these.)
        f64   final[n][H]     flag 1: hidden[L] after the final norm; no such block without
                              the flag, and hidden[L] is then the model's output
        f64   logprob[n]      flag 2: log p(ids[i] | ids[0..i-1]) by the model's head, soft
                              cap and scaling included; logprob[0] = 0
        f64   pooled[6][H]    of the model's output: cls, mean, max, sqrt_len,
                              weightedmean, lasttoken
        f64   vector[dim]     the model's own pooling, not normalised
        f64   unit[dim]       the same with length 1
"""
import argparse
import contextlib
import json
import pathlib
import random
import struct
import zlib
from dataclasses import dataclass, field

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch.utils._python_dispatch import TorchDispatchMode

from make_tiny_bert import ALPHABET, POOLING_KEYS, POOLINGS, WORDS, f64, pool_all, write_json

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
FINAL, SCORES = 1, 2
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
DECODER_SPECIAL = ["<s>", "</s>"]
EPS = {"layer_norm_eps": 1e-3}  # where a wrong epsilon is to be seen in the results
VOCAB = 300  # of the decoders: two special tokens, 256 bytes, 42 merges


@dataclass
class Shape:
    name: str
    config: dict  # the whole of config.json, less vocab_size and what CONFIG_COMMON has
    tokens: tuple = (1, 2, 7, 33, 48)  # length of each reference text, special tokens included
    dtype: torch.dtype = F32
    shards: int = 1
    pooling: str = ""  # with modules.json; "" = the folder has none
    special: list = field(default_factory=lambda: DECODER_SPECIAL)
    template: str = "<s> $A"  # the tokenizer's post-processor; "" = ByteLevel
    prefix: bool = True  # tensor names as the class with the head writes them; False = the bare model's


def llama(hidden, heads, kv, layers, inter, kind="llama", arch="LlamaForCausalLM", **more):
    return {"architectures": [arch], "model_type": kind, "hidden_size": hidden,
            "num_attention_heads": heads, "num_key_value_heads": kv, "num_hidden_layers": layers,
            "intermediate_size": inter, "hidden_act": "silu", "rms_norm_eps": 1e-5,
            "max_position_embeddings": 256, "rope_theta": 10000.0, "bos_token_id": 0,
            "eos_token_id": 1, **more}


def gemma3(hidden, heads, kv, layers, inter, **more):
    config = llama(hidden, heads, kv, layers, inter, "gemma3_text", "Gemma3ForCausalLM",
                   rms_norm_eps=1e-6, hidden_activation="gelu_pytorch_tanh",
                   tie_word_embeddings=True, attention_bias=False, pad_token_id=None, **more)
    del config["hidden_act"]
    if "rope_parameters" in more:
        del config["rope_theta"]
    return config


def bert_like(kind, arch, hidden, heads, layers, inter, positions, **more):
    return {"architectures": [arch], "model_type": kind, "hidden_size": hidden,
            "num_attention_heads": heads, "num_hidden_layers": layers,
            "intermediate_size": inter, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
            "max_position_embeddings": positions, "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "pad_token_id": 1,
            "eos_token_id": 2, **more}


def modernbert(arch, hidden, heads, layers, inter, **more):
    return {"architectures": [arch], "model_type": "modernbert", "hidden_size": hidden,
            "num_attention_heads": heads, "num_hidden_layers": layers, "intermediate_size": inter,
            "hidden_activation": "gelu", "norm_eps": 1e-5, "norm_bias": False,
            "attention_bias": False, "mlp_bias": False, "max_position_embeddings": 128,
            "pad_token_id": 0, "cls_token_id": 2, "bos_token_id": 2, "sep_token_id": 3,
            "eos_token_id": 3, "classifier_pooling": "mean", "decoder_bias": True, **more}


SHAPES = [
    # decoders
    Shape("llama-h64-d16-f16-tied", llama(64, 4, 2, 2, 100, tie_word_embeddings=True),
          tokens=(1, 2, 7, 33), dtype=F16),
    # head width given, not hidden / heads; 64 positions before, so that of the 8 frequencies some
    # stay, some are blended and some are divided; the published spelling "rope_scaling"
    Shape("llama-h40-d16-bf16-rope-llama3", llama(
        40, 4, 2, 2, 72, head_dim=16, tie_word_embeddings=False, rope_scaling={
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64, "rope_type": "llama3"}), dtype=BF16),
    # the oldest spelling: "type"
    Shape("llama-h32-d16-rope-linear", llama(
        32, 2, 1, 2, 88, tie_word_embeddings=True,
        rope_scaling={"type": "linear", "factor": 4.0})),
    Shape("qwen2-h48-d16-bf16-shards", llama(
        48, 3, 1, 3, 88, "qwen2", "Qwen2ForCausalLM", rms_norm_eps=1e-6, rope_theta=1000000.0,
        tie_word_embeddings=False, use_sliding_window=False, sliding_window=16,
        max_window_layers=3), tokens=(1, 2, 7, 33), dtype=BF16, shards=2, template=""),
    # an embedder as Qwen3-Embedding is: tensors without "model.", end-of-text token appended,
    # the last token's vector, length 1; the newer spelling "rope_parameters"
    Shape("qwen3-h48-d32-bf16-embed-lasttoken", {
        k: v for k, v in llama(
            48, 3, 1, 2, 72, "qwen3", "Qwen3ForCausalLM", head_dim=32, rms_norm_eps=1e-6,
            attention_bias=False, tie_word_embeddings=True, use_sliding_window=False,
            sliding_window=None, layer_types=["full_attention"] * 2,
            rope_parameters={"rope_theta": 1000000.0, "rope_type": "default"}).items()
        if k != "rope_theta"}, dtype=BF16, pooling="lasttoken", template="$A </s>", prefix=False),
    Shape("mistral-h32-d8-window8", llama(
        32, 4, 2, 2, 72, "mistral", "MistralForCausalLM", sliding_window=8,
        tie_word_embeddings=False), tokens=(1, 2, 7, 8, 9, 33, 48)),
    # layers local, global, local; linear scaling belongs to the global ones alone
    Shape("gemma3-h40-d16-bf16-window6", gemma3(
        40, 4, 1, 3, 72, head_dim=16, query_pre_attn_scalar=20, sliding_window=6,
        sliding_window_pattern=2, rope_theta=1000000.0, rope_local_base_freq=10000.0,
        rope_scaling={"factor": 8.0, "rope_type": "linear"}), tokens=(1, 2, 7, 41), dtype=BF16),
    Shape("gemma3-h32-d8-window5-layer-types", gemma3(
        32, 4, 2, 2, 72, head_dim=8, query_pre_attn_scalar=8, sliding_window=5,
        layer_types=["full_attention", "sliding_attention"], final_logit_softcapping=4.0,
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 500000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}}),
        tokens=(1, 5, 6, 41)),
    # encoders
    Shape("roberta-h32-d8-mean", bert_like(
        "roberta", "RobertaModel", 32, 4, 2, 72, 66, type_vocab_size=1, **EPS), tokens=(1, 2, 7, 33, 64),
        pooling="mean", special=ROBERTA_SPECIAL, template="<s> $A </s>", prefix=False),
    Shape("xlm-roberta-h40-d20-f16-cls", bert_like(
        "xlm-roberta", "XLMRobertaForMaskedLM", 40, 2, 2, 88, 66, type_vocab_size=1),
        dtype=F16, pooling="cls", special=ROBERTA_SPECIAL, template="<s> $A </s>"),
    # 140 tokens: past 128, where the last bucket of the relative bias has long been reached
    Shape("mpnet-h32-d8-mean", bert_like(
        "mpnet", "MPNetModel", 32, 4, 2, 72, 146, relative_attention_num_buckets=32, **EPS),
        tokens=(1, 2, 7, 33, 140), pooling="mean", special=ROBERTA_SPECIAL,
        template="<s> $A </s>", prefix=False),
    # layers global, local, global; 4 keys on each side
    Shape("modernbert-h32-d16-local8-mean", modernbert(
        "ModernBertModel", 32, 2, 3, 72, local_attention=8, global_attn_every_n_layers=2,
        global_rope_theta=160000.0, local_rope_theta=10000.0), tokens=(1, 2, 7, 41),
        pooling="mean", special=BERT_SPECIAL, template="[CLS] $A [SEP]", prefix=False),
    # layers global, local, local (every third by default); an odd width: 9 / 2 is 4
    Shape("modernbert-h40-d20-f16-local9-cls", modernbert(
        "ModernBertForMaskedLM", 40, 2, 3, 56, local_attention=9, norm_eps=1e-3,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"],
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 80000.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}),
        tokens=(1, 2, 7, 41), dtype=F16, pooling="cls", special=BERT_SPECIAL,
        template="[CLS] $A [SEP]"),
    Shape("distilbert-h32-d8-mean", {
        "architectures": ["DistilBertForMaskedLM"], "model_type": "distilbert", "dim": 32,
        "n_heads": 4, "n_layers": 2, "hidden_dim": 72, "activation": "gelu",
        "max_position_embeddings": 64, "sinusoidal_pos_embds": False,
        "dropout": 0.1, "attention_dropout": 0.1, "pad_token_id": 0},
        tokens=(1, 2, 7, 33, 64), pooling="mean", special=BERT_SPECIAL,
        template="[CLS] $A [SEP]"),
    # decoders with fused projections, and with multipliers
    Shape("phi3-h32-d8-f16-window12", llama(
        32, 4, 2, 2, 72, "phi3", "Phi3ForCausalLM", sliding_window=12, pad_token_id=None,
        original_max_position_embeddings=256, tie_word_embeddings=False),
        tokens=(1, 2, 12, 13, 33, 48), dtype=F16, template=""),
    Shape("granite-h32-d8-multipliers", llama(
        32, 4, 1, 2, 72, "granite", "GraniteForCausalLM", tie_word_embeddings=True,
        embedding_multiplier=6.0, attention_multiplier=0.25, residual_multiplier=0.22,
        logits_scaling=3.0), template=""),
]


@contextlib.contextmanager
def everything_double():
    """Where model code asks for float32, it gets float64: torch.float32 and Tensor.float() here."""
    saved = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved[:3]
        torch.set_default_dtype(saved[3])


class NoFloat32(TorchDispatchMode):
    """Fails where a tensor narrower than double is made."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in torch.utils._pytree.tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64:
                raise AssertionError(f"{func} made {x.dtype}")
        return out


def byte_level(shape):
    """A byte-level BPE in the form of GPT-2's: every byte, and merges learnt from WORDS."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=shape.special, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tok.train_from_iterator([" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))], trainer)
    return tok


def word_piece(shape):
    vocab = shape.special + WORDS + list(ALPHABET) + list(".,!?'") + ["##" + c for c in ALPHABET] + ["##ing"]
    unk = shape.special[1] if "[UNK]" in shape.special else "<unk>"
    tok = Tokenizer(models.WordPiece({t: i for i, t in enumerate(vocab)}, unk_token=unk))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in shape.special])
    return tok


def is_decoder(shape):
    return shape.special is DECODER_SPECIAL


def make_tokenizer(shape):
    tok = byte_level(shape) if is_decoder(shape) else word_piece(shape)
    used = [(t, tok.token_to_id(t)) for t in shape.template.split() if t != "$A"]
    tok.post_processor = (processors.TemplateProcessing(single=shape.template, special_tokens=used)
                          if used else processors.ByteLevel(trim_offsets=True))
    return tok


def make_text(rng, tok, count):
    """A text of exactly `count` tokens: words, pieces of words, digits and punctuation."""
    text = ""
    while True:
        left = count - len(tok.encode(text).ids)
        if left == 0:
            return text
        word = rng.choice(WORDS + ["harboring", "drifting", "Fjord", "42", "x7", "w", ",", ".", "?"])
        longer = text + word if word in ",.?" else (text + " " + word).strip()
        if len(tok.encode(longer).ids) <= count:
            text = longer


def make_config(folder, shape, vocab):
    write_json(folder / "config.json", {**shape.config, "vocab_size": vocab, "torch_dtype":
                                        str(shape.dtype).removeprefix("torch.")})


def class_of(shape):
    return getattr(transformers, shape.config["architectures"][0])


def weight_scale(shape, name, p, x):
    """Values far from linear everywhere, and a residual stream that neither dies nor drowns."""
    if "norm" in name.lower() and name.endswith("weight"):
        return 0.2 * x if shape.config["model_type"] == "gemma3_text" else 1 + 0.2 * x
    if p.dim() == 1:
        return 0.2 * x
    if "relative_attention_bias" in name:
        return x
    if "embed" in name:
        scale = shape.config.get("embedding_multiplier", 1)
        if shape.config["model_type"] == "gemma3_text":
            scale = shape.config["hidden_size"] ** 0.5
        return 0.8 * x / scale
    return x * 1.2 / p.shape[1] ** 0.5


def make_model(folder, shape, seed):
    """The model of config.json in double; its weights are exactly what the stored type can hold."""
    config = transformers.AutoConfig.from_pretrained(folder)
    config._attn_implementation = "eager"
    model = class_of(shape)(config).double().eval()
    model.tie_weights()
    gen = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        x = torch.randn(p.shape, generator=gen, dtype=torch.float64)
        p.data.copy_(weight_scale(shape, name, p, x).to(shape.dtype).double())
    for name, b in model.named_buffers():
        assert not b.is_floating_point() or b.dtype == torch.float64, name
    return model


def tensors_of(shape, model):
    """The state to store: what is tied once, and the names of the bare model where shape says so."""
    out, seen = {}, set()
    for name, x in sorted(model.state_dict().items(), key=lambda kv: ("embed" not in kv[0], kv[0])):
        if not x.is_floating_point() or x.data_ptr() in seen:
            continue
        seen.add(x.data_ptr())
        own = name if shape.prefix else name.removeprefix(model.base_model_prefix + ".")
        out[own] = x.to(shape.dtype).contiguous()
    return dict(sorted(out.items()))


def write_weights(folder, shape, model):
    tensors = tensors_of(shape, model)
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


def write_modules(folder, shape, hidden, positions):
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    write_json(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
        for i, (path, kind) in enumerate(modules)])
    write_json(folder / "1_Pooling/config.json", {
        "word_embedding_dimension": hidden,
        **{key: name == shape.pooling for name, key in POOLING_KEYS.items()},
        "include_prompt": True})
    write_json(folder / "sentence_bert_config.json",
               {"max_seq_length": positions, "do_lower_case": False})
    write_json(folder / "tokenizer_config.json",
               {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": positions,
                **({"pad_token": "</s>", "eos_token": "</s>"} if is_decoder(shape) else
                   {"pad_token": next(t for t in shape.special if "pad" in t.lower())})})


def layers_of(body):
    for path in ("layers", "encoder.layer", "transformer.layer"):
        with contextlib.suppress(AttributeError):
            return body.get_submodule(path)
    raise AssertionError("no layers")


@torch.no_grad()
def run(model, ids):
    """hidden [L+1, n, H] before any final norm, the model's output [n, H], logits or None."""
    body, states, hooks = model.base_model, [], []

    def note(x):
        states.append((x[0] if isinstance(x, tuple) else x)[0])

    for i, layer in enumerate(layers_of(body)):
        if i == 0:
            hooks.append(layer.register_forward_pre_hook(
                lambda m, a, k: note(a[0] if a else k["hidden_states"]), with_kwargs=True))
        hooks.append(layer.register_forward_hook(lambda m, a, out: note(out)))
    more = {"use_cache": False} if hasattr(model, "lm_head") and model.can_generate() else {}
    last = []
    hooks.append(body.register_forward_hook(lambda m, a, out: last.append(out[0][0])))
    out = model(input_ids=torch.tensor([ids]), **more)
    for h in hooks:
        h.remove()
    return torch.stack(states), last[0], out.logits[0] if "logits" in out else None


def flags_of(shape, body):
    final = any(hasattr(body, n) for n in ("norm", "final_norm"))
    return FINAL * final | SCORES * is_decoder(shape)


def reference_of(shape, model, ids):
    flags = flags_of(shape, model.base_model)
    with NoFloat32():
        hidden, final, logits = run(model, ids)
    assert torch.isfinite(hidden).all() and torch.isfinite(final).all()
    assert bool(flags & FINAL) != torch.equal(hidden[-1], final)
    blob = struct.pack(f"<{len(ids) + 1}I", len(ids), *ids) + f64(hidden)
    if flags & FINAL:
        blob += f64(final)
    if flags & SCORES:
        logp = torch.log_softmax(logits, -1)
        own = [0.0] + [logp[i - 1, ids[i]].item() for i in range(1, len(ids))]
        blob += f64(torch.tensor(own, dtype=torch.float64))
    pooled = pool_all(final)
    blob += f64(pooled)
    if shape.pooling:
        vector = pooled[POOLINGS.index(shape.pooling)]
        blob += f64(vector) + f64(vector / vector.norm())
    return blob


def check_buckets(body):
    """MPNet's buckets are the same in either precision, and change where this table says."""
    edges = [8, 12, 16, 23, 32, 46, 64, 91]
    want = [n if n < 8 else 7 + sum(n >= e for e in edges) for n in range(0, 4096)]
    n = torch.arange(0, 4096)
    assert body.encoder.relative_position_bucket(-n).tolist() == want
    assert body.encoder.relative_position_bucket(n).tolist() == [0] + [16 + w for w in want[1:]]


def reference_blob(shape, model, records):
    heads = model.config
    blob = b"WGTBREF2" + struct.pack("<5I", heads.num_hidden_layers, heads.hidden_size,
                                     heads.hidden_size if shape.pooling else 0, len(records),
                                     flags_of(shape, model.base_model))
    return blob + b"".join(reference_of(shape, model, r["input_ids"]) for r in records)


def folder_of(root, shape):
    return root / ("tiny-" + shape.name)


def seed_of(shape):
    return zlib.crc32(shape.name.encode())  # its own, whatever else the list holds


def make(root, shape):
    seed, folder = seed_of(shape), folder_of(root, shape)
    folder.mkdir(parents=True, exist_ok=True)
    tok = make_tokenizer(shape)
    tok.save(str(folder / "tokenizer.json"), pretty=False)
    make_config(folder, shape, tok.get_vocab_size())
    rng = random.Random(seed)
    records = []
    for i, count in enumerate(shape.tokens):
        record = {"id": i}
        if count == 1:
            record["input_ids"] = [len(shape.special) + rng.randrange(len(WORDS))]
        else:
            record["text"] = make_text(rng, tok, count)
            record["input_ids"] = tok.encode(record["text"]).ids
        records.append(record)
    with open(folder / "reference.jsonl", "w") as lines:
        lines.writelines(json.dumps(r) + "\n" for r in records)
    with everything_double():
        model = make_model(folder, shape, seed)
        blob = reference_blob(shape, model, records)
    (folder / "reference.bin").write_bytes(blob)
    write_weights(folder, shape, model)
    if shape.pooling:
        margin = 2 if "roberta" in shape.name or "mpnet" in shape.name else 0
        write_modules(folder, shape, model.config.hidden_size,
                      shape.config["max_position_embeddings"] - margin)
    for p in folder.rglob("*.*"):
        p.chmod(0o644)
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    print(f"{folder.name}: {size} bytes")
    assert size < 300_000, f"{folder}: {size} bytes"


def read_reference(path):
    """(ids, hidden, final, logprob or None, pooled, vector, unit) of each text."""
    data = path.read_bytes()
    assert data[:8] == b"WGTBREF2"
    layers, hidden, dim, texts, flags = struct.unpack_from("<5I", data, 8)
    at, out = 28, []

    def take(*dims):
        nonlocal at
        count = int(np.prod(dims))
        x = np.frombuffer(data, "<f8", count, at).reshape(dims)
        at += 8 * count
        return x

    for _ in range(texts):
        n, = struct.unpack_from("<I", data, at)
        ids = struct.unpack_from(f"<{n}I", data, at + 4)
        at += 4 + 4 * n
        states = take(layers + 1, n, hidden)
        final = take(n, hidden) if flags & FINAL else states[-1]
        scores = take(n) if flags & SCORES else None
        out.append((ids, states, final, scores, take(6, hidden), take(dim), take(dim)))
    assert at == len(data)
    return out


def distance(got, want):
    got, want = np.asarray(got, dtype=np.float64), np.asarray(want)
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-300))


def check_float32(folder, shape, records):
    """The folder as a user loads it: float32, sdpa attention."""
    kind = class_of(shape)
    how = "eager" if shape.config["model_type"] == "mpnet" else "sdpa"  # MPNet has no other
    model, info = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation=how,
                                       output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    if how == "eager":
        check_buckets(model.base_model)
    worst = 0.0
    for record, ref in zip(records, read_reference(folder / "reference.bin"), strict=True):
        assert list(ref[0]) == record["input_ids"]
        hidden, final, logits = run(model.eval(), record["input_ids"])
        for layer, want in zip(hidden, ref[1], strict=True):
            worst = max(worst, distance(layer, want))
        worst = max(worst, distance(final, ref[2]))
        if ref[3] is not None and len(ref[0]) > 1:
            logp = torch.log_softmax(logits, -1)
            own = [0.0] + [logp[i - 1, ref[0][i]].item() for i in range(1, len(ref[0]))]
            worst = max(worst, distance(own, ref[3]))
    return worst


def check_sentences(folder, records):
    from sentence_transformers import SentenceTransformer
    st = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    return max(distance(st.encode(r["text"]), ref[6])
               for r, ref in zip(records, read_reference(folder / "reference.bin")) if "text" in r)


def check_stored(folder, shape, model, records):
    """The stored tensors and the stored tokenizer are those of the reference."""
    want, got = tensors_of(shape, model), {}
    for file in sorted(folder.glob("*.safetensors")):
        got |= load_file(file)
    assert got.keys() == want.keys(), folder
    assert all(got[k].dtype == shape.dtype and torch.equal(got[k], want[k]) for k in want), folder
    tok = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert all(tok.encode(r["text"]).ids == r["input_ids"] for r in records if "text" in r), folder


def check(root, shape):
    folder = folder_of(root, shape)
    records = [json.loads(line) for line in open(folder / "reference.jsonl")]
    with everything_double():
        model = make_model(folder, shape, seed_of(shape))
        assert reference_blob(shape, model, records) == (folder / "reference.bin").read_bytes(), folder
        if shape.config["model_type"] == "mpnet":
            check_buckets(model.base_model)
    check_stored(folder, shape, model, records)
    worst = check_float32(folder, shape, records)
    said = f"{folder.name}: same bytes; float32 and sdpa differ by {worst:.1e} of the largest value"
    if shape.pooling:
        st = check_sentences(folder, records)
        said += f", sentence-transformers by {st:.1e}"
        worst = max(worst, st)
    print(said)
    assert worst < 1e-4


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("out", nargs="?", type=pathlib.Path,
                    default=pathlib.Path(__file__).resolve().parent.parent / "tests/data")
    ap.add_argument("--check", action="store_true")
    ap.add_argument("--only", default="", help="folders with this in their name")
    args = ap.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for shape in SHAPES:
        if args.only in shape.name:
            (check if args.check else make)(args.out, shape)


if __name__ == "__main__":
    main()
