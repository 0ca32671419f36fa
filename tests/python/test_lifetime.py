"""Who holds what, and for how long: references, threads that wait, fork, exit, leaks."""
from __future__ import annotations

import gc
import os
import sys
import threading
import time
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pytest

from conftest import run_python
from warpgroup import ArgumentError, ClosedError, Engine


def filled(engine: Engine):
    engine.submit([1, 2, 3])
    engine.flush()
    return engine.next(timeout=10)


# ------------------------------------------------------------------------------------- references


def test_references_are_given_back():
    """No call keeps, or loses, a reference to what it was given, whether it succeeds or not."""
    objects = [
        [1000001, 1000002],
        (1000001, 1000002),
        np.array([1, 2], np.int32),
        np.array([1, 2], np.int64),
        [0, 2],
        np.array([0, 2]),
        np.array([1 << 40, 2]),
        [1.5, 2],
        2**40 + 1,
        None,
        "".join(["te", "xt"]),  # not interned: ours alone
        np.float64(30.0),
    ]

    def exercise() -> None:
        with Engine(64, pending_bytes=1 << 16) as engine:
            for one in objects:
                for call in (lambda: engine.submit(one), lambda: engine.submit([1], one),
                             lambda: engine.submit([1], None, one),
                             lambda: engine.submit([1], deadline=one),
                             lambda: engine.submit([1, 2], type_ids=one),
                             lambda: engine.submit_many([1, 2], one),
                             lambda: engine.submit_many(one, [0, 2]),
                             lambda: engine.submit_many([1, 2], [0, 1, 2], one),
                             lambda: engine.next(one), lambda: Engine(one),
                             lambda: Engine(8, window=one), lambda: Engine(8, classes=one)):
                    try:
                        call()
                    except (TypeError, ValueError, TimeoutError, MemoryError):
                        pass
                while True:
                    engine.flush()
                    try:
                        packed = engine.next(timeout=0)
                    except TimeoutError:
                        break
                    touch(packed)

    def touch(packed) -> None:
        for array in (packed.input_ids, packed.token_type_ids, packed.position_ids,
                      packed.cu_seqlens, packed.ids):
            array.numpy(), array.tolist(), array[:1], array.shape, array.dtype, repr(array)
            np.from_dlpack(array), array.__dlpack__(), array.__dlpack__(max_version=(1, 0))
            memoryview(array), list(array), array.__dlpack_device__()
        packed.max_seqlen, packed.token_count, packed.row_count, repr(packed)

    exercise()
    gc.collect()  # what earlier tests left
    parts = [*objects, *objects[0], type(filled(Engine(8))), Engine, np]
    before = [sys.getrefcount(one) for one in parts]
    for _ in range(20):
        exercise()
    gc.collect()
    after = [sys.getrefcount(one) for one in parts]
    changed = [(repr(one)[:40], b, a) for one, b, a in zip(parts, before, after)
               if one is not None and a != b]
    assert not changed


def test_a_bin_and_its_array_have_the_references_one_expects():
    with Engine(64) as engine:
        references = sys.getrefcount(engine)
        packed = filled(engine)
        assert sys.getrefcount(engine) == references  # a bin does not hold the engine object
        assert sys.getrefcount(packed) == 2
        ids = packed.input_ids
        assert sys.getrefcount(ids) == 3  # ours, the bin's, the call's
        seen = np.asarray(ids)
        assert sys.getrefcount(ids) == 4
        packed.release()
        assert sys.getrefcount(ids) == 3
        del seen
        assert sys.getrefcount(ids) == 2


def test_submitting_keeps_no_buffer():
    class Owner(np.ndarray):
        pass

    with Engine(64) as engine:
        for dtype in (np.int32, np.int64):
            ids = np.arange(3, dtype=dtype).view(Owner)
            watch = weakref.ref(ids)
            engine.submit(ids)
            engine.submit_many(ids, [0, 3])
            with pytest.raises(ArgumentError):
                engine.submit_many(ids, [0, 2])
            del ids
            assert watch() is None


# ----------------------------------------------------------------------- engines that are dropped


def test_bins_and_views_outlive_a_dropped_engine():
    engine = Engine(64, slots=4)
    first, second, third = filled(engine), filled(engine), filled(engine)
    array, seen = second.input_ids, np.asarray(third.input_ids)
    second.release()
    del third
    engine.submit([4])
    del engine
    gc.collect()
    assert first.input_ids.tolist() == array.tolist() == seen.tolist() == [1, 2, 3]
    assert first.cu_seqlens.tolist() == [0, 3]
    first.release()
    assert first.is_released


def test_a_dropped_engine_takes_its_work_with_it():
    for _ in range(200):
        engine = Engine(64)
        engine.submit_many(np.arange(640), np.arange(0, 641, 10))
        engine.next(timeout=10)
    threads = len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0
    del engine
    assert threads < 50


def test_an_engine_closed_while_bins_are_out():
    engine = Engine(64)
    packed = filled(engine)
    engine.close()
    assert packed.input_ids.tolist() == [1, 2, 3]
    packed.release()


def test_closing_while_many_threads_are_in_calls():
    for round_number in range(20):
        engine = Engine(64, pending_bytes=1 << 12)
        errors = []

        def work(call) -> None:
            try:
                while True:
                    call()
            except ClosedError as error:
                errors.append(error)

        calls = [engine.next, lambda: engine.submit([1] * 64), engine.stats, engine.flush,
                 lambda: engine.submit_many(np.ones(640, np.int32), np.arange(11) * 64)]
        threads = [threading.Thread(target=work, args=(call,)) for call in calls * 2]
        for thread in threads:
            thread.start()
        time.sleep(0.002 * round_number)
        engine.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        assert len(errors) == len(threads)


# ------------------------------------------------------------------------------------------- fork


FORK = """
import gc, os, signal, threading
import numpy as np
import warpgroup
engine = warpgroup.Engine(8, slots=6, pending_bytes=1 << 16)
spare = warpgroup.Engine(8)
def filled():
    engine.submit([1, 2, 3])
    engine.flush()
    return engine.next(timeout=10)
packed, other = filled(), filled()
array = other.input_ids
view = np.asarray(array)
tensor = np.from_dlpack(array)
other.release()
stop = threading.Event()
def feed():
    while not stop.is_set():
        engine.submit_many(np.ones(8 * 500, np.int32), np.arange(501) * 8)
    engine.finish()
def take():
    for _ in engine: pass
threads = [threading.Thread(target=work, daemon=True) for work in (feed, take)]
for thread in threads: thread.start()
for _ in range(40):  # the child gets the engine's lock in any state
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        count = 0
        for call in (lambda: engine.submit([1]), lambda: engine.submit_many([1], [0, 1]),
                     engine.next, engine.stats, engine.finish, engine.flush, engine.stop,
                     engine.close, lambda: engine.is_drained, lambda: next(iter(engine)), packed.release,
                     packed.fail, lambda: packed.input_ids, packed.__enter__):
            try:
                call()
            except warpgroup.Error as error:
                count += "not valid after fork" in str(error)
        if array.tolist() != [1, 2, 3] or view.tolist() != [1, 2, 3]: os._exit(100)
        packed.__exit__(None, None, None); engine.__exit__(None, None, None)
        del call, spare, packed, other, array, view, tensor, engine
        gc.collect()
        engine = warpgroup.Engine(8)  # an engine of its own works
        if filled().input_ids.tolist() != [1, 2, 3]: os._exit(101)
        engine.close()
        os._exit(count)
    done, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 14, os.waitstatus_to_exitcode(status)
stop.set()
for thread in threads: thread.join()
del array, view, tensor
assert engine.stats()["slots_exported"] == 0
assert packed.input_ids.tolist() == [1, 2, 3]
packed.release()
assert engine.is_drained and engine.stats()["slots_taken"] == 0
engine.close()
print("parent went on")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_gets_errors_and_the_parent_goes_on():
    assert run_python(FORK) == "parent went on\n"


# ------------------------------------------------------------------------------------------- exit


EXIT = """
import atexit, sys, threading, time
import numpy as np
import warpgroup
engine = warpgroup.Engine(64, slots=4, pending_bytes=1 << 14)
engine.submit_many(np.ones(640, np.int32), np.arange(0, 641, 10))
kept = engine.next(timeout=10)
array = np.asarray(kept.input_ids)
idle = warpgroup.Engine(64)
def endless(call):
    while True:
        try: call()
        except warpgroup.SlotsHeldError: pass
for call in (idle.next, lambda: engine.submit([1] * 64), engine.next,
             lambda: engine.submit_many(np.ones(6400, np.int32), np.arange(101) * 64)):
    threading.Thread(target=endless, args=(call,), daemon=True).start()
time.sleep(0.3)
{end}
"""


@pytest.mark.parametrize("end", [
    "", "sys.exit(0)", "warpgroup.kept_for_ever = [engine, kept, array]", "del engine",
    "cycle = [engine, kept]; cycle.append(cycle)",
    "warpgroup.initialize_engine(8); warpgroup.submit_sequence([1])"],
                         ids=["end", "sys.exit", "module", "dropped", "cycle", "original"])
def test_the_interpreter_ends_with_work_in_flight(end):
    begin = time.monotonic()
    run_python(EXIT.format(end=end), timeout=30)
    assert time.monotonic() - begin < 30


# ------------------------------------------------------------------------------------------ leaks


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc here")
def test_a_hundred_thousand_bins_leak_nothing():
    batch = 500
    flat, bounds = np.ones(8 * batch, np.int32), np.arange(batch + 1) * 8

    def run(bins: int) -> None:
        for _ in range(bins // batch):
            engine.submit_many(flat, bounds)
            for _ in range(batch):
                packed = engine.next()
                packed.input_ids.numpy(), packed.cu_seqlens.tolist(), memoryview(packed.ids)
                np.from_dlpack(packed.position_ids), packed.input_ids.__dlpack__()
                packed = None

    with Engine(8, slots=8, pending_bytes=1 << 20) as engine:
        run(5000)
        gc.collect()
        resident = resident_bytes()
        tracemalloc.start()
        run(5000)
        traced = tracemalloc.get_traced_memory()[0]
        run(10_000)
        grown = tracemalloc.get_traced_memory()[0] - traced
        tracemalloc.stop()
        run(85_000)
        gc.collect()
        assert engine.stats()["bins_out"] >= 100_000
        assert grown < 20_000, f"{grown} bytes in 10,000 bins"
        assert resident_bytes() - resident < 8 << 20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc here")
def test_engines_that_come_and_go_leak_nothing():
    def run(count: int) -> None:
        for _ in range(count):
            with Engine(512, pending_bytes=1 << 18) as engine:
                packed = filled(engine)
                del packed

    run(200)
    gc.collect()
    resident = resident_bytes()
    run(1500)
    gc.collect()
    assert resident_bytes() - resident < 8 << 20
