#!/usr/bin/env python3
"""Makes tests/data/tiny-heads/*/: classifiers with random weights, and their scores in float64.

usage: make_tiny_heads.py [OUT]        (OUT: tests/data/tiny-heads of this checkout)
needs: torch, transformers, tokenizers, safetensors

Each folder is what save_pretrained writes of one FAMILYForSequenceClassification, and a tokenizer.
Labels, problem types and the ways to leave them out differ from folder to folder.

reference.jsonl   one line a text: {"text", "scores"}, the logits of the original in float64
"""
import json
import pathlib
import random
import sys

import torch
import transformers

from make_tiny_bert import SPECIAL, make_text
from make_tiny_models import BERT_SPECIAL, ROBERTA_SPECIAL, Shape, make_tokenizer, weight_scale

SIZES = dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=2, intermediate_size=24)
BERT = dict(SIZES, max_position_embeddings=40, pad_token_id=0)
ROBERTA = dict(SIZES, max_position_embeddings=42, pad_token_id=1, type_vocab_size=1)


def labels(*names):
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


# name, class, arguments of its configuration, stored type
HEADS = [
    ("bert-3", "BertForSequenceClassification",
     dict(BERT, **labels("negative", "neutral", "positive"), problem_type="single_label_classification"), torch.float32),
    # two labels: the configuration leaves them out
    ("bert-default", "BertForSequenceClassification", dict(BERT), torch.float16),
    ("roberta-4-multi", "RobertaForSequenceClassification",
     dict(ROBERTA, **labels("joy", "anger", "sorrow", "\u00e9tonnement"), problem_type="multi_label_classification"),
     torch.float32),
    # a reranker: one score, and no problem type
    ("xlm-roberta-1", "XLMRobertaForSequenceClassification", dict(ROBERTA, **labels("LABEL_0")), torch.bfloat16),
    ("distilbert-2", "DistilBertForSequenceClassification",
     dict(dim=16, n_heads=2, n_layers=2, hidden_dim=24, max_position_embeddings=40, pad_token_id=0,
          **labels("NEGATIVE", "POSITIVE")), torch.float32),
    ("mpnet-5-regression", "MPNetForSequenceClassification",
     dict(ROBERTA, **labels("a", "b", "c", "d", "e"), problem_type="regression"), torch.float32),
    ("modernbert-3-mean", "ModernBertForSequenceClassification",
     dict(SIZES, max_position_embeddings=40, pad_token_id=0, cls_token_id=2, bos_token_id=2, sep_token_id=3,
          eos_token_id=3, classifier_pooling="mean", local_attention=8, global_attn_every_n_layers=2,
          **labels("x", "y", "z")), torch.float32),
    ("modernbert-2-bias", "ModernBertForSequenceClassification",
     dict(SIZES, max_position_embeddings=40, pad_token_id=0, cls_token_id=2, bos_token_id=2, sep_token_id=3,
          eos_token_id=3, classifier_pooling="cls", classifier_bias=True, norm_bias=True,
          classifier_activation="silu", local_attention=8, global_attn_every_n_layers=2), torch.float32),
]


def make(out, name, kind, options, dtype, seed):
    is_roberta = options["pad_token_id"] == 1
    shape = Shape(name, {"model_type": ""}, special=ROBERTA_SPECIAL if is_roberta else BERT_SPECIAL,
                  template="<s> $A </s>" if is_roberta else "[CLS] $A [SEP]")
    tokenizer = make_tokenizer(shape)
    cls = getattr(transformers, kind)
    config = cls.config_class(vocab_size=tokenizer.get_vocab_size(), **options)
    config._attn_implementation = "eager"
    model = cls(config).double().eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter, p in sorted(model.named_parameters()):
        x = torch.randn(p.shape, generator=generator, dtype=torch.float64)
        p.data.copy_(weight_scale(shape, parameter, p, x).to(dtype).double())
    rng = random.Random(seed)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "reference.jsonl").open("w", encoding="utf-8") as file:
        for count in (3, 7, 15, 38):
            text = make_text(rng, tokenizer, count)
            ids = torch.tensor([tokenizer.encode(text).ids])
            with torch.no_grad():
                scores = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0].tolist()
            file.write(json.dumps({"text": text, "scores": scores}) + "\n")
    model.to(dtype).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)


def main():
    assert BERT_SPECIAL == SPECIAL
    out = (pathlib.Path(sys.argv[1]) if len(sys.argv) > 1
           else pathlib.Path(__file__).parent.parent / "tests/data/tiny-heads")
    for seed, head in enumerate(HEADS):
        make(out, *head, seed)


if __name__ == "__main__":
    main()
