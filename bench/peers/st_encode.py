#!/usr/bin/env python3
"""sentence-transformers encode(); it sorts the texts by length itself.

Padding is not reported by the library: it is worked out from its own order (length of the text in
characters, longest first) and the token counts.
"""
import common

args = common.options(batch=32)
import os

import sentence_transformers
import torch
from sentence_transformers import models
from torch_side import DTYPES, VERSIONS, memory, pad_right, pooling, touch

torch.set_num_threads(args.threads)
settings = {"dtype": DTYPES[args.dtype]}
modules = None
if not os.path.exists(os.path.join(args.model, "modules.json")):  # a plain transformers folder: pooled like elsewhere
    body = models.Transformer(args.model, model_kwargs=settings)
    how = {"last": "lasttoken"}.get(pooling(args.model), pooling(args.model))
    modules = [body, models.Pooling(body.get_embedding_dimension(), pooling_mode=how)]
model = sentence_transformers.SentenceTransformer(None if modules else args.model, modules=modules,
                                                  device=args.device, model_kwargs=settings)
model.max_seq_length = args.max_length
pad_right(model.tokenizer)
touch(model)
tok = common.tokenizer(args)
counts = {}


def prepare(texts):
    """(tokens, rows) of the corpus: no part of what is measured."""
    sizes = [len(e.ids) for e in tok.encode_batch(texts)]
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    batches = [order[at:at + args.batch] for at in range(0, len(order), args.batch)]
    counts.update(tokens=sum(sizes), rows=sum(len(b) * max(sizes[i] for i in b) for b in batches))


def encode(texts):
    vectors = model.encode(texts, batch_size=args.batch, show_progress_bar=False, normalize_embeddings=True)
    return vectors, counts.get("tokens", 0), counts.get("rows", 0)


common.serve(args, f"sentence-transformers-{args.batch}",
             {**VERSIONS, "sentence-transformers": sentence_transformers.__version__},
             encode, prepare, memory(args))
