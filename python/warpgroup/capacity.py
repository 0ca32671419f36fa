"""How many tokens of one bin a device holds, and from which size on it runs no faster.

    capacity = determine_capacity(VarlenModel(model))
    engine = Engine(capacity=capacity.bin_tokens)

The search is the library's (include/warpgroup/capacity.h): x 2 from a safe start until a size does
not fit, then bisection; after that the capacity and its halves are timed, and the smallest size
within 3 % of the best rate is the knee. Here is what it asks: "does a bin of n tokens fit?"

    CUDA   the forward pass itself; torch.OutOfMemoryError says no, and the cache is emptied
    CPU    memory is over-committed and the answer would be a kill, so each try runs in a forked
           child under RLIMIT_DATA that offers itself to the kernel's killer first; killed, or no
           memory: no. OpenMP's threads do not live on after a fork, so a child computes with one
           thread; sizes are timed afterwards, in this process, where they are known to fit
    run=   whatever the caller's function says, for any model and framework

Refused: a formula of activation bytes by model class, which is wrong for the next class.

Threads: the caller's. No other thread should use the model meanwhile.
"""
from __future__ import annotations

import faulthandler
import os
import resource
import select
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from warpgroup import _core
from warpgroup.checks import check_counts

__all__ = ["Capacity", "Try", "determine_capacity"]

# Bins beyond this size gain nothing on a CPU, and a try of them takes long.
_CPU_TOKENS = 16384
_SEQLEN = 8192
_NO_MEMORY_WORDS = ("allocate memory", "not enough memory", "bad_alloc", "out of memory")


@dataclass(frozen=True)
class Try:
    """One size that was run; seconds is 0 where it was not timed."""

    tokens: int
    seconds: float
    fits: bool
    is_for_knee: bool
    reason: str = ""


@dataclass(frozen=True)
class Capacity:
    """What was found; all sizes in tokens of one bin.

    tokens: the most that a bin may have. knee_tokens: the size from which on it runs no faster, or
    0 where it was not measured. fitted_tokens and refused_tokens: the largest size that was seen to
    fit, and the smallest that did not (0: none was met). tries: the evidence, in order.
    """

    tokens: int
    knee_tokens: int
    knee_tokens_per_s: float
    best_tokens_per_s: float
    fitted_tokens: int
    refused_tokens: int
    tries: tuple[Try, ...]

    @property
    def bin_tokens(self) -> int:
        """The size to use: the knee where it is known, as larger bins only take memory."""
        return self.knee_tokens or self.tokens


def determine_capacity(model: Any = None, device: Any = None, *,
                       run: Callable[[int], Any] | None = None, start: int = 256,
                       max_tokens: int | None = None, memory: int | None = None,
                       max_seqlen: int | None = None, mode: str = "double", step: int = 5000,
                       keep: float = 0.9, reserve: int = 0, knee: bool = True,
                       knee_runs: int = 3, timeout: float = 600.0) -> Capacity:
    """Measures the capacity of a bin for a model, or for a function that tries a size.

    model: a VarlenModel, or a transformers model that becomes one for the time of the call.
    device: where the model is expected to be, as a check; a model is not moved.
    run: instead of a model: run(tokens) -> True or None (fits), False (does not), or the seconds
        that it took (fits). MemoryError and torch.OutOfMemoryError mean that it does not fit;
        what else it raises ends the search and is raised here.
    start: tokens of the first try. max_tokens: never tried above; None: 16,384, or max_seqlen where
        that is more, for a model on a CPU, else no limit.
    memory: ceiling for the process in bytes, for a model on a CPU; None: what it holds, and nine
        tenths of what machine, cgroups and limits leave.
    max_seqlen: tokens of the texts of a try; None: the longest that the model takes, at most 8,192.
    mode: "double", or "step": start from 0, step tokens more until it does not fit, and use the
        share `keep` of what fitted.
    reserve: tokens taken off what fitted ("double").
    knee: time the capacity and its halves, knee_runs times each; for a model, none that does not
        hold a text of max_seqlen tokens.
    timeout: seconds that a try on a CPU may take before the search gives up.

    Raises LimitError where not even the first size fits.
    """
    if (model is None) == (run is None):
        raise _core.ArgumentError("give a model, or run=")
    if mode not in ("double", "step"):
        raise _core.ArgumentError(f'mode is "{mode}"; "double" and "step" are known')
    for name, value, least in (("start", start, 1), ("max_tokens", max_tokens, 1),
                               ("memory", memory, 1), ("max_seqlen", max_seqlen, 1),
                               ("step", step, 1), ("reserve", reserve, 0),
                               ("knee_runs", knee_runs, 1)):
        most = 1000 if name == "knee_runs" else 2**62
        if value is None and name in ("max_tokens", "memory", "max_seqlen"):
            continue
        check_counts(**{name: (value, most)})
        if value < least:
            raise _core.ArgumentError(f"{name} is {value}; at least {least} is needed")
    if not 0 < keep <= 1:
        raise _core.ArgumentError(f"keep is {keep}; a share above 0 and at most 1 is needed")
    if not timeout > 0:
        raise _core.ArgumentError(f"timeout is {timeout}; seconds above 0 are needed")
    if run is not None and not callable(run):
        raise TypeError(f"run must be a function of a number of tokens, not {run!r}")
    tries = None
    try:
        if run is not None:
            one = _Callback(run)
        else:
            tries, one, max_tokens = _of_model(model, device, max_tokens, memory, max_seqlen,
                                               timeout)
        found = _core.capacity_measure(one, mode == "step", start, max_tokens or 0, 0.0, reserve,
                                       step, keep, not knee, tries.seqlen if tries else 0,
                                       knee_runs, 0.0)
    finally:
        if tries is not None:
            tries.close()
    *numbers, evidence = found
    tokens, fitted, refused, knee_tokens, knee_rate, best_rate = numbers
    reasons = one.reasons
    return Capacity(tokens, knee_tokens, knee_rate, best_rate, fitted, refused,
                    tuple(Try(*t, "" if t[2] else reasons.get(t[0], "")) for t in evidence))


class _Callback:
    """The caller's function, as the search wants it."""

    def __init__(self, run: Callable[[int], Any]):
        self._run = run
        self.reasons: dict[int, str] = {}

    def __call__(self, tokens: int) -> tuple[bool, float]:
        began = time.perf_counter()
        try:
            answer = self._run(tokens)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            self.reasons[tokens] = _one_line(error)
            return False, 0.0
        if isinstance(answer, np.bool_):
            answer = bool(answer)
        if answer is False:
            self.reasons[tokens] = "run() said no"
            return False, 0.0
        if answer is None or answer is True:
            return True, time.perf_counter() - began
        seconds = float(answer)
        if not 0 < seconds < float("inf"):
            raise _core.ArgumentError(f"run({tokens}) gave {answer!r}; seconds above 0, or whether "
                                      "it fitted, are needed")
        return True, seconds


class _Tries:
    """A model's forward passes over made-up bins."""

    def __init__(self, model: Any, max_seqlen: int | None):
        from warpgroup.varlen import VarlenModel

        self._owned = None
        if not isinstance(model, VarlenModel):
            model = self._owned = VarlenModel(model)
        self.model = model
        limit = min(model.position_limit or _SEQLEN, _SEQLEN)
        self.seqlen = max_seqlen or limit

    def close(self) -> None:
        if self._owned is not None:
            self._owned.close()

    def forward(self, tokens: int) -> None:
        """The worst shape: texts as long as they may be, and pooled as they would be."""
        from warpgroup.varlen import pool

        ids, cu = self.model.made_up_bin(tokens, self.seqlen)
        output = self.model(ids, cu)
        pool(output[next(iter(output))], cu, "mean")


class _OnCuda:
    def __init__(self, tries: _Tries):
        self._tries = tries
        self.reasons: dict[int, str] = {}

    def __call__(self, tokens: int) -> tuple[bool, float]:
        import torch

        device = self._tries.model.device
        began = time.perf_counter()
        try:
            self._tries.forward(tokens)
            torch.cuda.synchronize(device)
            return True, time.perf_counter() - began
        except torch.OutOfMemoryError as error:
            self.reasons[tokens] = _one_line(error)
        # The exception held the frames, and they the tensors: only now can these be given back.
        torch.cuda.empty_cache()
        return False, 0.0


class _OnCpu:
    def __init__(self, tries: _Tries, memory: int | None, timeout: float):
        self._tries = tries
        self._budget = _budget(memory)
        self._timeout = timeout
        self._fitted = 0
        self.reasons: dict[int, str] = {}

    def __call__(self, tokens: int) -> tuple[bool, float]:
        if tokens <= self._fitted:
            return self._timed(tokens)
        reason = try_in_child(lambda: self._tries.forward(tokens), self._budget, self._timeout,
                              f"a bin of {tokens} tokens")
        if reason:
            self.reasons[tokens] = reason
            return False, 0.0
        self._fitted = tokens
        return True, 0.0

    def _timed(self, tokens: int) -> tuple[bool, float]:
        """The search asks again for sizes that fitted only to time them."""
        began = time.perf_counter()
        try:
            self._tries.forward(tokens)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return False, 0.0
        return True, time.perf_counter() - began


def _of_model(model: Any, device: Any, max_tokens: int | None, memory: int | None,
              max_seqlen: int | None, timeout: float) -> tuple[_Tries, Any, int | None]:
    tries = _Tries(model, max_seqlen)
    try:
        here = tries.model.device
        if device is not None:
            import torch

            wanted = torch.device(device)
            if wanted.type != here.type or wanted.index not in (None, here.index):
                raise _core.ArgumentError(
                    f"the model is on {here}, not {wanted}; move it with model.to()")
        if here.type == "cpu":
            one: Any = _OnCpu(tries, memory, timeout)
            return tries, one, max_tokens or max(_CPU_TOKENS, tries.seqlen)
        if memory is not None:
            raise _core.ArgumentError(f"memory= is for models on a CPU; this one is on {here}")
        return tries, _OnCuda(tries), max_tokens
    except BaseException:
        tries.close()
        raise


def _budget(memory: int | None) -> int:
    """Bytes that a try may add to what the process holds."""
    if memory is None:
        return _core.memory_available() // 10 * 9
    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if memory <= held:
        raise _core.LimitError(
            f"memory is {memory} bytes, and the process holds {held} already; give more")
    return memory - held


def is_out_of_memory(error: BaseException) -> bool:
    """MemoryError, torch's own, or what torch and C++ say on a CPU."""
    if isinstance(error, MemoryError):
        return True
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(error, torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, (RuntimeError, OSError)) and any(w in text for w in _NO_MEMORY_WORDS)


def _one_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def try_in_child(work: Callable[[], None], budget: int, timeout: float, what: str) -> str:
    """Runs work() in a forked child that may take `budget` more bytes; "" where it went through,
    else why there was no memory for it.

    Raises what else went wrong in the child as Error, and Error after `timeout` seconds.
    """
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        # Python warns that threads are not copied; the child uses none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(ours)
        _be_child(work, budget, theirs)
    os.close(theirs)
    try:
        said = _read_all(ours, time.monotonic() + timeout)
        if said is None:
            raise _core.Error(f"{what} did not end within {timeout:g} s; lower max_tokens or "
                              "max_seqlen, or give more timeout")
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(ours)
        _, status = os.waitpid(pid, 0)
    if said == b"f":
        return ""
    if said[:1] == b"n":
        return said[1:].decode() or "no memory"
    if said[:1] == b"e":
        raise _core.Error(f"{what} failed for another reason than memory: {said[1:].decode()}")
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with status {os.waitstatus_to_exitcode(status)} and without a word"


def _read_all(descriptor: int, until: float) -> bytes | None:
    """What a pipe gives up to its end; None when the time is up."""
    said = b""
    while True:
        left = until - time.monotonic()
        if left <= 0:
            return None
        if not select.select([descriptor], [], [], left)[0]:
            continue
        chunk = os.read(descriptor, 4096)
        if not chunk:
            return said
        said += chunk


def _be_child(work: Callable[[], None], budget: int, pipe: int) -> None:
    """Never returns: nothing of the parent's (buffers, exit handlers) is to run twice."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        faulthandler.disable()
        # What libraries print when they are out of memory is an answer, no message.
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
        _limit_data(budget)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(1)
        work()
        answer = b"f"
    except BaseException as error:
        kind = b"n" if is_out_of_memory(error) else b"e"
        answer = kind + f"{type(error).__name__}: {_one_line(error)}".encode()
    try:
        os.write(pipe, answer)
    finally:
        os._exit(0)


def _limit_data(budget: int) -> None:
    with open("/proc/self/status", encoding="ascii") as file:
        held = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:"))
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = held + budget
    for old in (soft, hard):
        if old != resource.RLIM_INFINITY:
            limit = min(limit, old)
    resource.setrlimit(resource.RLIMIT_DATA, (min(limit, 2**63 - 1), hard))
