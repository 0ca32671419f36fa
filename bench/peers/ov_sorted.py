#!/usr/bin/env python3
"""OpenVINO on the CPU in fp32: batches sorted by length (the fastest peer known to us).

--streams 1 gives all threads to one batch, --streams N runs N batches at once on threads/N each.
"""
import common

args = common.options(batch=4, extra=[("--streams", {"type": int, "default": 1})])
import threading

import numpy as np
import openvino as ov
from onnx_export import exported

compiled = ov.Core().compile_model(str(exported(args.model, args.cache) / "model.onnx"), "CPU", {
    "INFERENCE_NUM_THREADS": args.threads, "NUM_STREAMS": args.streams, "INFERENCE_PRECISION_HINT": "f32"})
requests = threading.local()


def forward(x, mask):
    if not hasattr(requests, "mine"):
        requests.mine = compiled.create_infer_request()
    feed = {"input_ids": x, "attention_mask": mask, "token_type_ids": np.zeros_like(x)}
    return requests.mine.infer(feed, share_inputs=True, share_outputs=True)[0]


name = f"openvino-sorted-{args.batch}" + (f"-streams{args.streams}" if args.streams > 1 else "")
common.serve(args, name, {"openvino": ov.__version__},
             common.encode_sorted(common.tokenizer(args), args.batch, args.streams, forward))
