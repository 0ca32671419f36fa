"""The bins of an engine through a model, on a CPU one bin a core.

A model that computes one bin with all cores waits for the slowest of them in every operation, and torch has
hundreds of them in a forward pass. One bin a core waits for nobody, and a bin's activations stay in that core's
cache: with MiniLM it ran 1.3 times as fast (docs/benchmarks.md). That is also what the C engine does. Refused:
processes, which would each hold the weights.

Threads: each worker is a thread of its own, in which torch computes on one core; results come out on the caller's.
"""
from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from warpgroup import _core

Result = TypeVar("Result")


class _End:
    """A worker ended, with the error that ended it or None."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def worker_count(engine: _core.Engine, device: torch.device, wanted: int) -> int:
    """0: on a CPU as many as torch uses threads and the engine has slots for; one on a GPU, which
    computes a bin with all of itself."""
    slots = engine.stats()["slots"]
    if wanted < 0 or wanted >= slots:
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
    leaving the loop end it. Bins that were not run stay with the engine.
    """
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
                    result = run(bin)
                del bin
                if not put(result):
                    break
        except BaseException as caught:  # raised again where the results are taken
            error = caught
        put(_End(error))

    cores = torch.get_num_threads()
    threads = [threading.Thread(target=work, name=f"wg-bin-{i}", daemon=True) for i in range(workers)]
    try:
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
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        torch.set_num_threads(cores)  # what threads to come begin with
