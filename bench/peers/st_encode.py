#!/usr/bin/env python3
"""sentence-transformers encode() in fp32; it sorts the texts by length itself.

Padding is not reported by the library: it is worked out from its own order (length of the text in
characters, longest first) and the token counts.
"""
import common

args = common.options(batch=32)
import sentence_transformers
import torch

torch.set_num_threads(args.threads)
model = sentence_transformers.SentenceTransformer(args.model, device="cpu",
                                                  model_kwargs={"dtype": torch.float32})
model.max_seq_length = args.max_length
tok = common.tokenizer(args)
counts = {}


def count(texts):
    """(tokens, rows), once: it is not part of what is measured."""
    if not counts:
        sizes = [len(e.ids) for e in tok.encode_batch(texts)]
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        batches = [order[at:at + args.batch] for at in range(0, len(order), args.batch)]
        counts["tokens"] = sum(sizes)
        counts["rows"] = sum(len(b) * max(sizes[i] for i in b) for b in batches)
    return counts["tokens"], counts["rows"]


def encode(texts):
    vectors = model.encode(texts, batch_size=args.batch, show_progress_bar=False)
    return (vectors, *count(texts))


common.serve(args, f"sentence-transformers-{args.batch}",
             {"torch": torch.__version__, "sentence-transformers": sentence_transformers.__version__},
             encode)
