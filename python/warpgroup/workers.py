"""The bins of an engine through a model, on a CPU one bin a core.

A model that computes one bin with all cores waits for the slowest of them in every operation, and torch has
hundreds of them in a forward pass. One bin a core waits for nobody, and a bin's activations stay in that core's
cache. That is also what the C engine does. Refused:
processes, which would each hold the weights.

The end of the interpreter: a thread that is in torch then is ended where it stands, which aborts
the process. So runs that nobody finished are ended before, by a function given to atexit.

Threads: each worker is a thread of its own, in which torch computes on one core; results come out on the caller's.
"""
from __future__ import annotations

import atexit
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from warpgroup import _core
from warpgroup.checks import check_counts

Result = TypeVar("Result")

_runs: dict[threading.Event, list[threading.Thread]] = {}
_is_leaving = False


def _leave() -> None:
    global _is_leaving
    _is_leaving = True
    runs = list(_runs.items())
    for is_over, _ in runs:
        is_over.set()
    for _, threads in runs:
        _join(threads)


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        if thread.ident is not None:
            thread.join()


atexit.register(_leave)


class _End:
    """A worker ended, with the error that ended it or None."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def worker_count(engine: _core.Engine, device: torch.device, wanted: int) -> int:
    """0: on a CPU as many as torch uses threads and the engine has slots for; one on a GPU, which
    computes a bin with all of itself."""
    if not isinstance(engine, _core.Engine):
        raise TypeError(f"engine must be a warpgroup.Engine, not {engine!r}")
    slots = engine.stats()["slots"]
    check_counts(workers=(wanted, 2**32 - 1))
    if wanted >= slots:
        raise _core.ArgumentError(
            f"workers is {wanted}, and the engine has {slots} slots, enough for 1 to {slots - 1}: open "
            "it with as many workers=, or give 0")
    if wanted:
        return wanted
    return min(torch.get_num_threads(), slots - 1) if device.type == "cpu" else 1


def run_bins(engine: _core.Engine, run: Callable[[_core.Bin], Result], workers: int,
             one_core_each: bool) -> Iterator[Result]:
    """Yields run(bin) for every bin until the engine is drained, in order of completion.

    run is called on the workers' threads; a bin is given back when run has returned, so a result must not
    need its arrays. At most `workers` results wait. What a worker raises ends the run and is raised here; so does
    leaving the loop end it. Bins that were not run, or whose run raised, stay with the engine.
    """
    if workers < 1:
        raise _core.ArgumentError(f"workers is {workers}; at least 1 is needed")
    results: queue.Queue[Any] = queue.Queue(workers)
    is_over = threading.Event()

    def put(item: Any) -> bool:
        while not is_over.is_set():
            try:
                results.put(item, timeout=0.05)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        error: BaseException | None = None
        try:
            if one_core_each:
                torch.set_num_threads(1)
            while not is_over.is_set():
                try:
                    bin = engine.next(timeout=0.1)
                except TimeoutError:
                    continue
                if bin is None:
                    break
                with bin:
                    try:
                        result = run(bin)
                    except BaseException:
                        bin.fail()  # its sequences are the engine's again
                        raise
                del bin
                if not put(result):
                    break
        except BaseException as caught:  # raised again where the results are taken
            error = caught
        put(_End(error))

    cores = torch.get_num_threads()
    # A run that is dropped at the end of the interpreter may find the module's names gone.
    runs, join, set_threads = _runs, _join, torch.set_num_threads
    threads = [threading.Thread(target=work, name=f"wg-bin-{i}", daemon=True) for i in range(workers)]
    try:
        _runs[is_over] = threads
        if _is_leaving:
            raise _core.ClosedError("the interpreter ends, no bin can be run")
        for thread in threads:
            thread.start()
        left = workers
        while left:
            item = results.get()
            if not isinstance(item, _End):
                yield item
                continue
            left -= 1
            if item.error is not None:
                raise item.error
    finally:
        is_over.set()
        join(threads)
        runs.pop(is_over, None)
        set_threads(cores)  # what threads to come begin with
