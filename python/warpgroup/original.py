"""The six calls of the original, on one engine a process.

    initialize_engine(16384)
    submit_sequence(token_ids)              # any thread, any number of times
    finish_input()
    while True:
        token_ids, cu_seqlens = get_next_bin()
        if len(token_ids) == 0:
            break
        ...

They are for programs that have them already; `warpgroup.Engine` is the same without a global, with
ids of sequences, priorities and deadlines. Differences: bins are not padded to multiples of 16, and
a misuse raises instead of doing nothing.

The queue holds QUEUE_BYTES of sequences, so that one thread may submit a corpus and then take the
bins; memory is used only as sequences come. A submission to a full queue waits.

Threads: all calls may be made on any thread. A forked child begins without an engine.
"""
from __future__ import annotations

import operator
import os
import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from warpgroup._core import Engine, Error

QUEUE_BYTES = 1 << 30
SLOTS = 4  # two bins with the caller, one ready, one being filled

_lock = threading.Lock()
_engine: Engine | None = None


def _forget() -> None:
    """In a forked child, where the engine of the parent is of no use, and the lock may be held."""
    global _engine, _lock
    _lock = threading.Lock()
    _engine = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _current() -> Engine:
    engine = _engine
    if engine is None:
        raise Error("there is no engine: call initialize_engine(capacity) first")
    return engine


def initialize_engine(capacity: int) -> None:
    """Opens the engine: bins of at most `capacity` tokens. Error if one is open."""
    global _engine
    with _lock:
        if _engine is not None:
            raise Error("the engine is initialized already: call shutdown() before another one")
        try:
            tokens = min(operator.index(capacity), 2**31)
        except TypeError:
            tokens = 0  # the engine refuses it by name
        # Of large bins as much as the engine's own default.
        _engine = Engine(capacity, slots=SLOTS, pending_bytes=max(QUEUE_BYTES, tokens * 1024))


def submit_sequence(ids: Sequence[int] | npt.NDArray[np.integer]) -> None:
    """Queues one sequence of 1 to `capacity` token ids, which are copied.

    Waits while the queue is full. ClosedError after finish_input().
    """
    _current().submit(ids)


def finish_input() -> None:
    """No more sequences will come: what is pending is packed and handed out."""
    _current().finish()


def get_next_bin() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Waits for a bin: (token_ids [T], cu_seqlens [S + 1]), both int32, without padding.

    Sequence i of the bin is token_ids[cu_seqlens[i]:cu_seqlens[i + 1]]. Both arrays are read-only
    views of the engine's memory; a bin's slot is used again when both were dropped. SlotsHeldError
    when every slot is kept for a second. Both arrays have length 0 once the input is finished and
    all bins were handed out.
    """
    packed = _current().next()
    if packed is None:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    return packed.input_ids.numpy(), packed.cu_seqlens.numpy()


def is_queue_empty() -> bool:
    """True after finish_input() and after the last bin was handed out, never before."""
    return _current().is_drained


def shutdown() -> None:
    """Closes the engine; what was not handed out is dropped. Who waits in a call gets ClosedError.

    Arrays stay valid. initialize_engine() may be called again.
    """
    global _engine
    with _lock:
        engine = _current()
        _engine = None
    engine.close()
