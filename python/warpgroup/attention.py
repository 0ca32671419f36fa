"""Variable-length attention over packed sequences, on NumPy arrays.

Sequences lie end to end in T rows, and a row attends within its own sequence only. The result of
a row, to the bit, does not depend on the sequences around it, on its place, or on the number of
threads.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from warpgroup import _core
from warpgroup._core import ArgumentError
from warpgroup.checks import check_counts

__all__ = ["attention_varlen"]

_FLOAT_BYTES = 4
_MOST_SCALE = float(np.finfo(np.float32).max)
_LEAST_SCALE = float(np.finfo(np.float32).smallest_subnormal)


def _heads(name: str, value: Any) -> np.ndarray:
    """The array as float32 [T, heads, dim], with the floats of a head side by side."""
    array = np.asarray(value)
    if array.dtype != np.float32:
        raise TypeError(f"{name} is {array.dtype}; it must be float32")
    if array.ndim != 3:
        raise ArgumentError(f"{name} has {array.ndim} axes; it must be [T, heads, dim]")
    strides = array.strides
    is_plain = (
        array.flags.aligned
        and array.dtype.isnative
        and (array.shape[2] < 2 or strides[2] == _FLOAT_BYTES)
        and all(stride >= 0 and stride % _FLOAT_BYTES == 0 for stride in strides[:2])
    )
    # Anything else (reversed, unaligned, floats of a head apart) is copied into plain order.
    return array if is_plain else np.array(array, dtype=np.float32, order="C")


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _strides(array: np.ndarray) -> tuple[int, int]:
    return array.strides[0] // _FLOAT_BYTES, array.strides[1] // _FLOAT_BYTES


def _sequences(cu_seqlens: Any, rows: int) -> np.ndarray:
    """A copy as int32 [S + 1], so that nobody changes it during the call; the last one is T."""
    given = np.asarray(cu_seqlens)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise ArgumentError("cu_seqlens must be whole numbers [S + 1]: 0 and where sequences end")
    if int(given[-1]) != rows:
        raise ArgumentError(f"cu_seqlens ends at {int(given[-1])}, but query has {rows} rows")
    if int(given.min()) < 0 or int(given.max()) > np.iinfo(np.int32).max:
        raise ArgumentError("cu_seqlens must be from 0 to 2**31 - 1")
    return np.array(given, dtype=np.int32)


def attention_varlen(
    query: Any,
    key: Any,
    value: Any,
    cu_seqlens: Any,
    *,
    causal: bool = False,
    window: int = 0,
    scale: float | None = None,
    threads: int = 0,
) -> np.ndarray:
    """Attention of each sequence with itself: softmax(scale query key^T) value.

    query is float32 [T, N, D]; key and value are float32 [T, K, D], where K divides N and query
    head i goes with key head i // (N // K). cu_seqlens is [S + 1]: sequence s is the rows from
    cu_seqlens[s] on and before cu_seqlens[s + 1]; empty ones are fine. Arrays are read where they
    are, at any strides, when the floats of a head stand side by side; others are copied.

    causal: a row sees no later rows. window: a row sees rows fewer than this many away (0: any
    distance). scale: on the scores, above 0 (None: 1 / sqrt(D)). threads: the most, the calling one
    included (0: as many as the process has cores). Other Python threads run meanwhile; the call is
    not interrupted by signals.

    Returns a new float32 array [T, N, D]. Raises TypeError for arrays of another type,
    ArgumentError (a ValueError) for shapes that do not fit together and values that cannot be.
    """
    query, key, value = _heads("query", query), _heads("key", key), _heads("value", value)
    rows, head_count, head_dim = query.shape
    if key.shape != value.shape:
        raise ArgumentError(f"key is {key.shape} and value {value.shape}; they must be alike")
    if key.shape[0] != rows or key.shape[2] != head_dim:
        raise ArgumentError(
            f"key is {key.shape}; with query {query.shape} it must be ({rows}, heads, {head_dim})"
        )
    for name, number in (("window", window), ("threads", threads)):
        check_counts(**{name: (number, 2**64 - 1)})
    # As the kernels will see it.
    if scale is not None and not _LEAST_SCALE <= scale <= _MOST_SCALE:
        raise ArgumentError(f"scale is {scale}; it must be finite and above 0, or None for "
                            "1 / sqrt(D)")
    sequences = _sequences(cu_seqlens, rows)
    out = np.empty((rows, head_count, head_dim), dtype=np.float32)
    _core.attention_varlen(
        _address(query),
        _address(key),
        _address(value),
        _address(out),
        _strides(query),
        _strides(key),
        _strides(value),
        _strides(out),
        _address(sequences),
        sequences.size - 1,
        head_count,
        key.shape[1],
        head_dim,
        scale=0.0 if scale is None else scale,
        is_causal=causal,
        window=min(window, 2**31),
        threads=min(threads, 2**31),
    )
    return out
