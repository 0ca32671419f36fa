"""Bins for a list of lengths, without an engine: pack."""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from warpgroup import _core
from warpgroup.checks import check_counts


def pack(lengths: Sequence[int] | npt.NDArray[np.integer], capacity: int = 0,
         policy: str = "first_fit", *, max_sequences: int = 0, max_squares: int = 0,
         multiple: int = 1, bins: int = 0, cost: tuple[float, float] = (0.0, 0.0),
         ) -> tuple[list[npt.NDArray[np.int64]], dict[str, float]]:
    """Packs sequences of the given lengths into bins; nothing but arithmetic.

    lengths: tokens of each sequence, at least 1 and at most `capacity`.
    capacity: tokens of a bin; 0 (no limit) only with policy "balanced".
    policy: "first_fit" or "best_fit" (decreasing), or "balanced": `bins` bins, even in cost.
    max_sequences: most sequences of a bin; 0: no limit.
    max_squares: most of the sum of n * n of a bin, attention's share of the work; 0: no limit.
    multiple: a bin's total is rounded up to this before it is held against `capacity`.
    cost: (linear, square) cost of n tokens for "balanced"; (0, 0) counts tokens.

    Returns (bins, stats): for each bin the indices of its sequences, rising; and bin_count,
    bin_count_least (no packing needs fewer), token_count, fill (0 to 1), cost_most, cost_mean.
    ArgumentError for a length of 0 or above the limits, naming its index.

    Threads: any; runs without the interpreter lock.
    """
    most = 2**64 - 1
    check_counts(capacity=(capacity, most), max_sequences=(max_sequences, most),
                 max_squares=(max_squares, most), multiple=(multiple, most), bins=(bins, most))
    if len(cost) != 2 or not all(0 <= part < math.inf for part in cost):
        raise _core.ArgumentError(f"cost is {cost}; two finite numbers of at least 0 are needed")
    raw, stats = _core.pack_lengths(lengths, policy, capacity, max_sequences, max_squares, multiple,
                                    bins, *cost)
    bin_of = np.frombuffer(raw, np.uint32)
    order = np.argsort(bin_of, kind="stable")
    counts = np.bincount(bin_of, minlength=int(stats["bin_count"]))
    return np.split(order, np.cumsum(counts)[:-1]) if len(counts) else [], stats
