#!/usr/bin/env python3
"""hf_corpus.py - a folder of PDFs to vectors with a Hugging Face model: one vector a document, the
mean over its tokens. Files are read and tokenised while the model runs; nothing is padded.

    python3 hf_corpus.py MODEL_DIRECTORY FOLDER OUT.npz"""
import os
import sys

import numpy as np
import torch
from transformers import AutoModel

import warpgroup
from warpgroup.varlen import VarlenModel


def main(model_dir: str, folder: str, out: str) -> int:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = VarlenModel(AutoModel.from_pretrained(model_dir, dtype=dtype).eval().to(device))
    capacity = warpgroup.determine_capacity(model, device, max_tokens=4096, knee_runs=1)
    print(f"bins of {capacity.bin_tokens} tokens; {capacity.tokens} would fit")

    with warpgroup.Engine(capacity=capacity.bin_tokens, workers=os.cpu_count()) as engine:
        with warpgroup.ingest(engine, [folder], model_dir, max_length=model.position_limit) as files:
            vectors = {id: vector.float().cpu().numpy() for id, vector in model.embed(engine, "mean")}

    order = sorted(vectors)
    np.savez(out, sources=[files.documents[i].source for i in order],
             vectors=[vectors[i] for i in order])
    for document in files.failures:
        print(f"{document.source}: {document.reason}", file=sys.stderr)
    print(f"{len(order)} documents, {len(files.failures)} failed")
    return 1 if files.failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
