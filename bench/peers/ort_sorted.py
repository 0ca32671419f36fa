#!/usr/bin/env python3
"""ONNX Runtime on the CPU in fp32: batches sorted by length.

--graph plain | fused (ONNX Runtime's own BERT fusions). --streams 1 gives all threads to one batch,
--streams N runs N batches at once on threads/N each.
"""
import common

args = common.options(batch=1, extra=[
    ("--graph", {"choices": ["plain", "fused"], "default": "fused"}),
    ("--streams", {"type": int, "default": 1})])
import numpy as np
import onnxruntime as ort
from onnx_export import exported

settings = ort.SessionOptions()
settings.intra_op_num_threads = args.threads // args.streams
settings.inter_op_num_threads = 1
file = "model.onnx" if args.graph == "plain" else "model_fused.onnx"
session = ort.InferenceSession(str(exported(args.model, args.cache) / file), settings,
                               providers=["CPUExecutionProvider"])


def forward(x, mask):
    return session.run(None, {"input_ids": x, "attention_mask": mask, "token_type_ids": np.zeros_like(x)})[0]


name = f"onnxruntime-{args.graph}-sorted-{args.batch}" + (f"-streams{args.streams}" if args.streams > 1 else "")
common.serve(args, name, {"onnxruntime": ort.__version__},
             common.encode_sorted(common.tokenizer(args), args.batch, args.streams, forward))
