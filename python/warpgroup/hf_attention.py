"""Attention over packed texts for Hugging Face models: the implementation "warpgroup".

Models of transformers that go through its AttentionInterface look their attention function up by
name. Here is one for texts that lie end to end in one row:

    ids            a a a b b c c c c          one row of T tokens
    cu_seqlens     0     3   5       9        where each text begins, and the end of the last
    attends to     a only a, b only b, c only c

The caller passes the boundaries as the keyword arguments that transformers has for flash attention
(cu_seq_lens_q, ...); they reach every layer untouched, and no mask is built: transformers makes
none for a name that is not in its table of mask functions, and so "warpgroup" is kept out of that
table. Refused: one dense block mask, which takes T x T memory and, with position_ids that many
encoders do not hand on, lets texts attend to each other without a word.

On a CPU the rows go to wg_attention_varlen (include/warpgroup/attention.h), on CUDA to
torch.nn.attention.varlen. What neither can do (dropout, soft caps, sinks, biases, a cache) is
refused by name.

Windows: transformers passes sliding_window = w, and a row sees those with |distance| < w on the
sides that it may look to. Causal models count their own row into w; encoders that look both ways
(ModernBERT) pass half their window + 1.

Threads: any; what a call needs is passed along or kept for the thread (`calls`).
"""
from __future__ import annotations

import functools
import inspect
import threading
from typing import Any, Callable, NamedTuple

import torch

from warpgroup import _core

NAME = "warpgroup"

# What attention functions of transformers may be given and cannot do over packed texts.
_REFUSED = ("softcap", "s_aux", "sinks", "position_bias", "attn_bias", "block_table")


class KwargNames(NamedTuple):
    """What this version of transformers calls the boundaries of packed texts."""

    cu_q: str
    cu_k: str
    max_q: str
    max_k: str


@functools.cache
def kwarg_names() -> KwargNames:
    """Reads the names off FlashAttentionKwargs, as they are not the same in every version."""
    from transformers.modeling_flash_attention_utils import FlashAttentionKwargs

    known = list(FlashAttentionKwargs.__annotations__)

    def pick(head: str, tail: str) -> str:
        for name in known:
            if name.startswith(head) and name.endswith(tail):
                return name
        raise _core.UnsupportedError(
            f"this version of transformers has no argument {head}*{tail} for packed texts "
            f"(it has {', '.join(known)}); 5.x has one")

    return KwargNames(pick("cu_seq", "_q"), pick("cu_seq", "_k"), pick("max_", "_q"),
                      pick("max_", "_k"))


class _Calls(threading.local):
    """Of the running thread: how many layers attended so far, and the threads of the kernel."""

    layers = 0
    threads = 0


calls = _Calls()


def attention(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor,
              value: torch.Tensor, attention_mask: torch.Tensor | None = None,
              dropout: float = 0.0, scaling: float | None = None,
              sliding_window: int | None = None, is_causal: bool | None = None,
              **kwargs: Any) -> tuple[torch.Tensor, None]:
    """transformers' attention function: query [1, N, T, D], key and value [1, M, T, D], M divides
    N; gives [1, T, N, D] and no weights.

    Raises UnsupportedError naming what cannot be computed over packed texts.
    """
    _refuse(module, query, key, attention_mask, dropout, kwargs)
    names = kwarg_names()
    cu, longest = kwargs.get(names.cu_q), kwargs.get(names.max_q)
    if cu is None or longest is None:
        raise _core.UnsupportedError(
            f"{_name(module)}: the boundaries of the texts ({names.cu_q}, {names.max_q}) did not "
            "reach its attention; packed texts would attend to each other")
    if is_causal is None:
        is_causal = bool(getattr(module, "is_causal", True))
    if scaling is None:
        scaling = query.shape[-1] ** -0.5
    calls.layers += 1
    dim, value_dim = query.shape[-1], value.shape[-1]
    if value_dim < dim:
        value = torch.nn.functional.pad(value, (0, dim - value_dim))
    run = _on_cpu if query.device.type == "cpu" else _on_cuda
    out = run(query[0], key[0], value[0], cu, int(longest), scaling, is_causal,
              int(sliding_window or 0))
    if value_dim < dim:
        out = out[..., :value_dim]
    return out.unsqueeze(0), None


def _name(module: torch.nn.Module) -> str:
    return type(module).__name__


def _refuse(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor,
            attention_mask: torch.Tensor | None, dropout: float, kwargs: dict[str, Any]) -> None:
    def refuse(what: str) -> None:
        raise _core.UnsupportedError(f"{_name(module)}: {what}")

    if attention_mask is not None:
        refuse("it made an attention mask of its own; packed texts are told apart by cu_seqlens")
    if query.shape[0] != 1 or query.shape[2] != key.shape[2]:
        refuse(f"queries {list(query.shape)} and keys {list(key.shape)}: packed texts are one row, "
               "attend to themselves, and have no cache")
    if dropout:
        refuse(f"dropout {dropout:g} in attention; call model.eval()")
    if torch.is_grad_enabled() and any(x.requires_grad for x in (query, key)):
        refuse("attention over packed texts has no gradient; run it under torch.no_grad()")
    for name in _REFUSED:
        if kwargs.get(name) is not None:
            refuse(f"{name} in its attention is not supported over packed texts by "
                   f'attention="{NAME}"')


def _on_cpu(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cu: torch.Tensor,
            longest: int, scale: float, is_causal: bool, window: int) -> torch.Tensor:
    """[N, T, D] and [M, T, D] to [T, N, D]. Other dtypes than float32 go through copies."""
    dtype = query.dtype
    query, key, value = _rows(query), _rows(key), _rows(value)
    if cu.dtype != torch.int32 or cu.device.type != "cpu" or not cu.is_contiguous():
        cu = cu.to("cpu", torch.int32).contiguous()
    heads, rows, dim = query.shape
    out = torch.empty(rows, heads, dim)
    _core.attention_varlen(
        query.data_ptr(), key.data_ptr(), value.data_ptr(), out.data_ptr(), _strides(query),
        _strides(key), _strides(value), (heads * dim, dim), cu.data_ptr(), cu.numel() - 1, heads,
        key.shape[0], dim, scale, is_causal, window, calls.threads or torch.get_num_threads())
    return out if dtype == torch.float32 else out.to(dtype)


def _rows(x: torch.Tensor) -> torch.Tensor:
    """float32 with the numbers of a head side by side; a view where it is so already."""
    x = x.float()
    return x if x.stride(2) == 1 else x.contiguous()


def _strides(x: torch.Tensor) -> tuple[int, int]:
    """From row to row and from head to head, in floats."""
    return x.stride(1), x.stride(0)


def _on_cuda(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cu: torch.Tensor,
             longest: int, scale: float, is_causal: bool, window: int) -> torch.Tensor:
    """As _on_cpu, through torch.nn.attention.varlen, which is of float16 and bfloat16."""
    if query.dtype not in (torch.float16, torch.bfloat16):
        raise _core.UnsupportedError(
            f"attention over packed texts on {query.device} is of float16 and bfloat16, not "
            f"{str(query.dtype).removeprefix('torch.')}; use model.to(torch.bfloat16)")
    if cu.device != query.device:
        cu = cu.to(query.device)
    query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    return call_varlen(varlen_function(), query, key, value, cu, longest, scale, is_causal, window)


@functools.cache
def varlen_function() -> Callable[..., torch.Tensor]:
    """torch's function; UnsupportedError where torch is older than it."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        raise _core.UnsupportedError(
            f"attention over packed texts on a GPU needs torch 2.10 or later (this is "
            f"{torch.__version__}), or the package flash-attn") from None
    return varlen_attn


@functools.cache
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def call_varlen(function: Callable[..., torch.Tensor], query: torch.Tensor, key: torch.Tensor,
                value: torch.Tensor, cu: torch.Tensor, longest: int, scale: float,
                is_causal: bool, window: int) -> torch.Tensor:
    """Calls torch's varlen_attn with the arguments that this version of it has.

    query [T, N, D], key and value [T, M, D]. 2.10 has is_causal and no window; from 2.11 on both
    are window_size=(left, right), each side counted without the row itself, -1 for no limit; 2.12
    wants to be told of fewer key heads.
    """
    known = _parameters(function)
    left = window - 1 if window else -1
    options: dict[str, Any] = {}
    if "window_size" in known:
        options["window_size"] = (left, 0 if is_causal else left)
    elif window:
        raise _core.UnsupportedError(
            f"sliding windows over packed texts on a GPU need torch 2.11 or later (this is "
            f"{torch.__version__}), or the package flash-attn")
    elif "is_causal" in known:
        options["is_causal"] = is_causal
    elif is_causal:
        raise _core.UnsupportedError(
            f"varlen_attn of torch {torch.__version__} has neither window_size nor is_causal")
    if "enable_gqa" in known and query.shape[1] != key.shape[1]:
        options["enable_gqa"] = True
    return function(query, key, value, cu_seq_q=cu, cu_seq_k=cu, max_q=longest, max_k=longest,
                    scale=scale, **options)


def register() -> None:
    """Makes the name "warpgroup" known to transformers. Again: no effect."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attention)
