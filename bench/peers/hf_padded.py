#!/usr/bin/env python3
"""transformers AutoModel: batches in arrival order, padded to the longest, pooled as the folder says.

What most people write first, and what the model card shows. A decoder keeps no cache (use_cache=False):
nothing is generated, and the cache of a batch would be most of its memory.
"""
import inspect

import common

args = common.options(batch=8, extra=[("--attention", {"default": "sdpa", "help": "transformers' name of it"})])
import torch
from torch_side import VERSIONS, memory, open_model, pooled, pooling

model, tok = open_model(args, args.attention)
how = pooling(args.model)
settings = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}


@torch.inference_mode()
def encode(texts):
    out, tokens, rows = [], 0, 0
    for at in range(0, len(texts), args.batch):
        batch = tok(texts[at:at + args.batch], padding=True, truncation=True,
                    max_length=args.max_length, return_tensors="pt")
        tokens += int(batch["attention_mask"].sum())
        rows += batch["attention_mask"].numel()
        batch = batch.to(args.device)
        hidden = model(**batch, **settings).last_hidden_state
        out.append(pooled(hidden, batch["attention_mask"], how).cpu())
    return torch.cat(out).numpy(), tokens, rows


common.serve(args, f"hf-padded-{args.batch}", VERSIONS, encode, memory=memory(args))
