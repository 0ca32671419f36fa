#!/usr/bin/env python3
"""Exports a BERT folder to ONNX once: model.onnx, and model_fused.onnx with ONNX Runtime's own fusions.

usage: onnx_export.py MODEL OUT

The attention is written out, in the form that ONNX Runtime's and OpenVINO's fusion passes look for.
"""
import hashlib
import math
import os
import pathlib
import subprocess
import sys


def exported(model, cache):
    """The folder of the exported files for this model, made in a child process if it is not there."""
    digest = hashlib.sha256()
    with open(pathlib.Path(model, "model.safetensors"), "rb") as f:
        while block := f.read(1 << 20):  # in blocks: this process reports its peak memory
            digest.update(block)
    folder = pathlib.Path(cache, "onnx-" + digest.hexdigest()[:16])
    if not (folder / "done").exists():
        subprocess.run([sys.executable, os.path.abspath(__file__), model, str(folder)],
                       check=True, stdout=sys.stderr)
    return folder


def export(model_dir, out):
    import torch
    from onnxruntime.transformers import optimizer
    from transformers import AutoModel
    bert = AutoModel.from_pretrained(model_dir, attn_implementation="eager", dtype=torch.float32).eval()
    config = bert.config
    heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = bert

        def split(self, x):
            return x.view(x.size(0), x.size(1), heads, width).permute(0, 2, 1, 3)

        def forward(self, input_ids, attention_mask, token_type_ids):
            bias = (1.0 - attention_mask[:, None, None].to(torch.float32)) * -10000.0
            h = self.bert.embeddings(input_ids=input_ids, token_type_ids=token_type_ids)
            for layer in self.bert.encoder.layer:
                a = layer.attention.self
                q, k, v = (self.split(f(h)) for f in (a.query, a.key, a.value))
                s = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width) + bias, dim=-1)
                mixed = (s @ v).permute(0, 2, 1, 3).contiguous()
                mixed = mixed.view(mixed.size(0), mixed.size(1), heads * width)
                h = layer.attention.output(mixed, h)
                h = layer.output(layer.intermediate(h), h)
            return h

    out.mkdir(parents=True, exist_ok=True)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    ids = torch.randint(5, 1000, (2, 16))
    torch.onnx.export(Encoder(), (ids, torch.ones_like(ids), torch.zeros_like(ids)), str(out / "model.onnx"),
                      input_names=names, output_names=["last_hidden_state"], opset_version=17, dynamo=False,
                      dynamic_axes={n: {0: "batch", 1: "tokens"} for n in names + ["last_hidden_state"]})
    fused = optimizer.optimize_model(str(out / "model.onnx"), model_type="bert", num_heads=heads,
                                     hidden_size=config.hidden_size)
    fused.save_model_to_file(str(out / "model_fused.onnx"))
    (out / "done").write_text(str(fused.get_fused_operator_statistics()) + "\n")


if __name__ == "__main__":
    export(sys.argv[1], pathlib.Path(sys.argv[2]))
