#!/usr/bin/env python3
"""The same transformers AutoModel on warpgroup's bins: texts end to end, no padding.

The road is that of the package: ingest() reads and tokenises on threads of the C library, an Engine packs, and
VarlenModel.embed runs the bins, on a CPU one a core, and pools by segment. --bin-tokens 0 measures the size of a bin
from which on the model runs no faster (determine_capacity), before anything is counted. On a CPU that is a small
size, so none beyond --probe-tokens is tried. A bin always holds the longest text, so with texts of more tokens
than that nothing is measured.
"""
import common

args = common.options(batch=0, extra=[
    ("--bin-tokens", {"type": int, "default": 0}),
    ("--probe-tokens", {"type": int, "default": 2048, "help": "largest bin that is tried for it on a CPU"})])
import json
import os
import tempfile

import torch
import torch_side
import warpgroup
from warpgroup.ingest import ingest
from warpgroup.tokenizer import Tokenizer

model = warpgroup.VarlenModel(torch_side.open_model(args, attention=None)[0])
tokenizer = Tokenizer(args.model)
how = torch_side.pooling(args.model)
folder = tempfile.TemporaryDirectory(prefix="warpgroup-bench-")
facts = {}
rows = []  # of each forward pass, as the model saw them
model.model.register_forward_pre_hook(lambda module, args, kwargs: rows.append(kwargs["input_ids"].numel()),
                                      with_kwargs=True)


def bin_tokens():
    most = args.probe_tokens if args.device == "cpu" else None
    if not args.bin_tokens and (most is None or most > args.max_length):
        found = warpgroup.determine_capacity(model, max_tokens=most, max_seqlen=args.max_length)
        args.bin_tokens = found.bin_tokens
    return max(args.bin_tokens, args.max_length)


def prepare(texts):
    """The texts as the file that ingest() reads."""
    path = os.path.join(folder.name, "corpus.jsonl")
    with open(path, "w") as f:
        f.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    facts.update(texts=texts, path=path, bin_tokens=bin_tokens() if len(texts) > 1 else args.max_length)


@torch.inference_mode()
def encode(texts):
    if facts.get("texts") is not texts:
        prepare(texts)
    rows.clear()
    threads = 1 if args.device == "cpu" else 0  # on a CPU the cores are the model's
    with warpgroup.Engine(facts["bin_tokens"], workers=args.threads) as engine:
        with ingest(engine, facts["path"], tokenizer, max_length=args.max_length, threads=threads) as files:
            found = sorted(model.embed(engine, how), key=lambda pair: pair[0])
            for document in files.failures:
                raise SystemExit(f"document {document.sequence_id}: {document.reason}")
        tokens = engine.stats()["tokens_out"]
    facts["bins"] = len(rows)
    assert [number for number, _ in found] == list(range(len(texts)))
    vectors = torch.nn.functional.normalize(torch.stack([vector for _, vector in found]).float(), dim=1)
    return vectors.cpu().numpy(), tokens, sum(rows)


common.serve(args, "warpgroup-hf", {**torch_side.VERSIONS, "warpgroup": warpgroup.__version__}, encode, prepare,
             torch_side.memory(args), lambda: {"bin_tokens": facts["bin_tokens"], "bins": facts["bins"]})
