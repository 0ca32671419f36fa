#!/usr/bin/env python3
"""Writes the weights of one GGUF file as a sentence-transformers folder in f32, for peers that read no GGUF.

usage: dequantise.py FILE.gguf OUT

transformers does the reading (it needs the packages gguf and accelerate), so the peers' numbers owe nothing
to our own reader. A model that came out of a GGUF cannot be saved by transformers as it is: its
values are copied into a fresh one. Pooling is that of `warpgroup embed` for a decoder without a word about
it: the last token, then length 1. The tokenizer goes along.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

MODULES = [("", "", "Transformer"), ("1_Pooling", "1_Pooling", "Pooling"), ("2_Normalize", "2_Normalize", "Normalize")]
BLOCK = 1 << 20  # read in blocks: the caller may report its peak memory


def dequantised(gguf, cache):
    """The folder for this file in `cache`, made by a child process if it is not there."""
    digest = hashlib.sha256(pathlib.Path(__file__).read_bytes())
    with open(gguf, "rb") as f:
        while block := f.read(BLOCK):
            digest.update(block)
    folder = pathlib.Path(cache, "gguf-" + digest.hexdigest()[:16])
    if not folder.exists():
        pathlib.Path(cache).mkdir(parents=True, exist_ok=True)
        done = subprocess.run([sys.executable, os.path.abspath(__file__), str(gguf), str(folder)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"dequantise: {gguf} could not be read:\n{done.stderr[-2000:]}")
    return folder


def write(gguf, out):
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    parent, name = str(gguf.resolve().parent), gguf.name
    read = AutoModelForCausalLM.from_pretrained(parent, gguf_file=name, dtype=torch.float32)
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = type(read)(config)
    fresh.load_state_dict(read.state_dict())
    part = out.with_name(f"{out.name}.part{os.getpid()}")  # whole or not there
    fresh.save_pretrained(part)
    AutoTokenizer.from_pretrained(parent, gguf_file=name).save_pretrained(part)
    pooling = {"word_embedding_dimension": config.hidden_size, "pooling_mode_lasttoken": True,
               "pooling_mode_mean_tokens": False, "pooling_mode_cls_token": False}
    (part / "1_Pooling").mkdir()
    (part / "1_Pooling" / "config.json").write_text(json.dumps(pooling, indent=1) + "\n")
    (part / "2_Normalize").mkdir()
    (part / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
         for i, (_, path, kind) in enumerate(MODULES)], indent=1) + "\n")
    (part / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": config.max_position_embeddings, "do_lower_case": False}) + "\n")
    try:
        part.rename(out)
    except OSError:  # another process was first
        shutil.rmtree(part)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
