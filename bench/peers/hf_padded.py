#!/usr/bin/env python3
"""transformers AutoModel in fp32: batches in arrival order, padded to the longest, mean pooling.

What most people write first, and what the model card shows.
"""
import common

args = common.options(batch=8)
import torch
import transformers

torch.set_num_threads(args.threads)
tok = transformers.AutoTokenizer.from_pretrained(args.model)
model = transformers.AutoModel.from_pretrained(args.model, attn_implementation="sdpa",
                                               dtype=torch.float32).eval()


@torch.inference_mode()
def encode(texts):
    out, tokens, rows = [], 0, 0
    for at in range(0, len(texts), args.batch):
        batch = tok(texts[at:at + args.batch], padding=True, truncation=True,
                    max_length=args.max_length, return_tensors="pt")
        mask = batch["attention_mask"]
        hidden = model(**batch).last_hidden_state
        mean = (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        out.append(torch.nn.functional.normalize(mean, dim=1))
        tokens += int(mask.sum())
        rows += mask.numel()
    return torch.cat(out).numpy(), tokens, rows


common.serve(args, f"hf-padded-{args.batch}",
             {"torch": torch.__version__, "transformers": transformers.__version__}, encode)
