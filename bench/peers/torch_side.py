"""What the peers built on torch share: threads, device, dtype, the model of a folder, and its pooling.

The model is the bare transformer (AutoModel): no head computes logits that nobody reads. Pooling is what
the folder says (1_Pooling/config.json), else the last token of a causal model and the mean of others;
every vector is scaled to length 1.
"""
import json
import pathlib

import torch
import transformers

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
POOLINGS = {"pooling_mode_lasttoken": "last", "pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
VERSIONS = {"torch": torch.__version__, "transformers": transformers.__version__}
if torch.cuda.is_available():
    VERSIONS["device"] = torch.cuda.get_device_name()


class DeviceMemory:
    """torch's CUDA allocator, in MB."""

    def used(self):
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated() / 2**20

    def reset(self):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()

    def peak(self):
        return torch.cuda.max_memory_allocated() / 2**20


def memory(args):
    return DeviceMemory() if args.device == "cuda" else None


def pooling(folder):
    path = pathlib.Path(folder, "1_Pooling", "config.json")
    said = json.loads(path.read_text()) if path.exists() else {}
    names = json.loads(pathlib.Path(folder, "config.json").read_text()).get("architectures") or [""]
    default = "last" if names[0].endswith("ForCausalLM") else "mean"
    return next((name for key, name in POOLINGS.items() if said.get(key)), default)


def open_model(args, attention="sdpa"):
    """(model, tokenizer); attention None leaves the implementation to the caller."""
    torch.set_num_threads(args.threads)
    settings = {"attn_implementation": attention} if attention else {}
    model = transformers.AutoModel.from_pretrained(args.model, dtype=DTYPES[args.dtype], **settings)
    tok = transformers.AutoTokenizer.from_pretrained(args.model)
    pad_right(tok)
    touch(model)
    return model.to(args.device).eval(), tok


@torch.inference_mode()
def touch(model):
    """Reads every weight: files are mapped, and what came in later would pass for activations."""
    for weight in model.parameters():
        weight.sum()


def pad_right(tok):
    """Which token pads makes no difference, as it is masked; one there must be."""
    tok.padding_side = "right"
    if tok.pad_token is None:
        tok.pad_token = tok.eos_token or tok.convert_ids_to_tokens(0)


def pooled(hidden, mask, how):
    """[B, T, H] states and a [B, T] mask, padded on the right, to [B, H] vectors of length 1, in f32."""
    if how == "mean":
        out = (hidden.float() * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
    elif how == "cls":
        out = hidden[:, 0].float()
    else:
        out = hidden[torch.arange(len(hidden), device=hidden.device), mask.sum(1) - 1].float()
    return torch.nn.functional.normalize(out, dim=1)
