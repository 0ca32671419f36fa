"""Engine: what comes out is what went in, waiting and its ends, priorities, arguments, speed."""
from __future__ import annotations

import array
import hashlib
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import warpgroup
from conftest import requires, start_python
from warpgroup import ArgumentError, ClosedError, Engine, SlotsHeldError

CAPACITY = 256


def texts(rng: np.random.Generator, count: int, longest: int = CAPACITY) -> list[np.ndarray]:
    return [rng.integers(0, 30000, rng.integers(1, longest + 1), dtype=np.int32)
            for _ in range(count)]


def collect(engine: Engine) -> dict[int, np.ndarray]:
    """Id to token ids of all that the engine hands out."""
    found: dict[int, np.ndarray] = {}
    for packed in engine:
        ids, bounds = packed.input_ids.numpy(), packed.cu_seqlens.tolist()
        positions = packed.position_ids.numpy()
        assert bounds[0] == 0 and bounds[-1] == packed.token_count <= CAPACITY
        assert packed.max_seqlen == max(np.diff(bounds))
        assert len(packed) == len(packed.ids) == len(bounds) - 1
        for i, number in enumerate(packed.ids):
            assert number not in found
            found[number] = ids[bounds[i]:bounds[i + 1]].copy()
            assert positions[bounds[i]:bounds[i + 1]].tolist() == list(range(len(found[number])))
    return found


def same(found: dict[int, np.ndarray], expected: dict[int, np.ndarray]) -> None:
    assert sorted(found) == sorted(expected)
    for number, ids in expected.items():
        assert np.array_equal(found[number], ids), number


def in_thread(function, *args) -> threading.Thread:
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread


# ------------------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("form", [list, tuple, np.asarray, lambda a: a.astype(np.int64),
                                  lambda a: array.array("i", a.tolist()),
                                  lambda a: memoryview(a.astype("<i4"))],
                         ids=["list", "tuple", "int32", "int64", "array.array", "memoryview"])
def test_every_form_of_ids_comes_out_as_it_went_in(rng, form):
    sent = texts(rng, 50)
    with Engine(CAPACITY) as engine:
        numbers = [engine.submit(form(ids)) for ids in sent]
        assert numbers == list(range(50))
        engine.finish()
        same(collect(engine), dict(enumerate(sent)))
        assert engine.next() is None and engine.is_drained


def test_submit_many_is_submit_in_a_loop(rng):
    sent = texts(rng, 300)
    flat = np.concatenate(sent)
    bounds = np.cumsum([0, *map(len, sent)])
    with Engine(CAPACITY, pending_bytes=1 << 22) as engine:
        assert engine.submit_many(flat, bounds) == range(300)
        assert engine.submit_many(flat.astype(np.int64), bounds.astype(np.int32),
                                  np.arange(1000, 1300)) is None
        assert engine.submit_many(flat.tolist(), bounds.tolist()) == range(300, 600)
        engine.finish()
        expected = {i: ids for i, ids in enumerate(sent * 2)}
        expected.update({1000 + i: ids for i, ids in enumerate(sent)})
        same(collect(engine), expected)


def test_type_ids_multiple_and_position_offset():
    with Engine(64, multiple=16, position_offset=2) as engine:
        engine.submit([5, 6, 7], id=2**64 - 1, type_ids=[0, 1, 1])
        engine.submit_many([8, 9, 8, 9], [0, 2, 4], [4, 3], type_ids=np.array([0, 0, 1, 0]))
        engine.finish()
        packed = engine.next()
        assert packed.row_count == 16 and packed.token_count == 7
        assert packed.input_ids.shape == (16,)
        rows = dict(zip(packed.ids, packed.cu_seqlens))
        first, second = rows[2**64 - 1], rows[3]
        assert packed.token_type_ids[first:first + 3].tolist() == [0, 1, 1]
        assert packed.token_type_ids[second:second + 2].tolist() == [1, 0]
        assert packed.position_ids[first:first + 3].tolist() == [2, 3, 4]


def test_many_submitters_and_consumers_lose_nothing(rng):
    parts = [texts(rng, 400, 60) for _ in range(4)]
    found: list[tuple[int, bytes]] = []
    with Engine(CAPACITY, workers=3, pending_bytes=1 << 16) as engine:

        def submit(part: int) -> None:
            for i, ids in enumerate(parts[part]):
                engine.submit(ids, id=part * 1000 + i)

        def consume() -> list[tuple[int, bytes]]:
            mine = []
            for packed in engine:
                ids, bounds = packed.input_ids.numpy(), packed.cu_seqlens
                mine += [(number, ids[bounds[i]:bounds[i + 1]].tobytes())
                         for i, number in enumerate(packed.ids)]
            return mine

        with ThreadPoolExecutor(7) as pool:
            consumers = [pool.submit(consume) for _ in range(3)]
            for future in [pool.submit(submit, part) for part in range(4)]:
                future.result()
            engine.finish()
            for future in consumers:
                found += future.result()
    expected = {part * 1000 + i: ids.tobytes() for part in range(4)
                for i, ids in enumerate(parts[part])}
    assert len(found) == len(expected) and dict(found) == expected


# ----------------------------------------------------------------------------------------- waiting


def test_next_waits_for_a_bin_and_times_out():
    with Engine(CAPACITY) as engine:
        begin = time.monotonic()
        with pytest.raises(TimeoutError):
            engine.next(timeout=0.2)
        assert 0.2 <= time.monotonic() - begin < 5
        with pytest.raises(TimeoutError):
            engine.next(timeout=0)
        in_thread(lambda: (time.sleep(0.2), engine.submit([1, 2]), engine.flush()))
        assert len(engine.next(timeout=30)) == 1


def test_drained_is_known_only_after_the_last_bin():
    with Engine(4) as engine:
        engine.submit_many([1] * 12, [0, 4, 8, 12])
        assert not engine.is_drained
        engine.finish()
        for _ in range(3):
            assert not engine.is_drained
            assert engine.next() is not None
        assert engine.is_drained and engine.next() is None and engine.next() is None


def test_a_full_queue_waits_and_a_consumer_ends_the_wait():
    with Engine(CAPACITY, pending_bytes=1 << 12) as engine:
        done = threading.Event()

        def submit() -> None:
            engine.submit_many(np.ones(CAPACITY * 100, np.int32), range_of(101, CAPACITY))
            done.set()

        in_thread(submit)
        assert not done.wait(0.5)
        taken = 0
        while taken < 100:
            taken += len(engine.next(timeout=30))
        assert done.wait(30)


def range_of(count: int, step: int) -> np.ndarray:
    return np.arange(count) * step


@pytest.mark.parametrize("end", ["stop", "close"])
def test_stop_and_close_wake_who_waits(end):
    engine = Engine(CAPACITY, pending_bytes=1 << 12)
    errors = []

    def run(call, *args) -> None:
        try:
            call(*args)
        except ClosedError as error:
            errors.append(str(error))

    idle = Engine(CAPACITY)
    waiting = [in_thread(run, engine.submit_many, np.ones(CAPACITY * 100, np.int32),
                         range_of(101, CAPACITY)),
               in_thread(run, idle.next), in_thread(run, idle.next, 60)]
    time.sleep(0.3)
    for one in (engine, idle):
        getattr(one, end)()
    for thread in waiting:
        thread.join(10)
        assert not thread.is_alive()
    assert len(errors) == 3 and any("of 100 sequences were taken" in error for error in errors)


def test_after_finish_stop_and_close_calls_are_refused():
    engine = Engine(CAPACITY)
    engine.submit([1])
    engine.finish()
    engine.finish()
    with pytest.raises(ClosedError):
        engine.submit([2])
    with pytest.raises(ClosedError):
        engine.submit_many([2], [0, 1])
    engine.stop()
    with pytest.raises(ClosedError):
        engine.next()
    engine.close()
    engine.close()
    assert engine.closed
    for call in (engine.next, engine.finish, engine.flush, engine.stats, engine.stop):
        with pytest.raises(ClosedError, match="closed"):
            call()


CTRL_C = """
import signal, sys, time, threading
import numpy as np
import warpgroup
engine = warpgroup.Engine(64, pending_bytes=1 << 12)
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    engine.close()
"""


@pytest.mark.parametrize("call", [
    "engine.next()",
    "engine.next(timeout=600)",
    "for packed in engine: pass",
    "while True: engine.submit([1] * 64)",
    "engine.submit_many(np.ones(6400, np.int32), np.arange(101) * 64)",
])
def test_ctrl_c_ends_a_call_that_waits(call):
    child = start_python(CTRL_C.format(call=call))
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        watchdog = threading.Timer(20, child.kill)
        watchdog.start()
        child.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert child.stdout.readline() == "interrupted\n"
        assert time.monotonic() - begin < 1.0
        assert child.wait(30) == 0
        watchdog.cancel()
    finally:
        child.kill()
        child.communicate()


# -------------------------------------------------------------------------------------- held slots


def test_slots_that_run_out_are_said_instead_of_a_dead_lock():
    with Engine(4) as engine:
        engine.submit_many([1] * 16, [0, 4, 8, 12, 16])
        engine.finish()
        kept = engine.next()
        array_kept = engine.next().input_ids
        begin = time.monotonic()
        with pytest.raises(SlotsHeldError, match="all 2 slots.*1 by bins.*1 by arrays.*slots="):
            engine.next(timeout=20)
        assert 0.9 < time.monotonic() - begin < 5
        assert kept.input_ids.tolist() == array_kept.tolist() == [1] * 4
        del kept
        assert len(engine.next()) == 1
        del array_kept
        assert len(engine.next()) == 1 and engine.next() is None


def test_a_slot_given_back_meanwhile_ends_the_wait():
    with Engine(4) as engine:
        engine.submit_many([1] * 12, [0, 4, 8, 12])
        engine.finish()
        kept = [engine.next(), engine.next()]
        in_thread(lambda: (time.sleep(0.5), kept.pop()))
        assert len(engine.next(timeout=20)) == 1


def test_kept_slots_are_no_error_while_nothing_is_pending():
    with Engine(4) as engine:
        engine.submit_many([1] * 8, [0, 4, 8])
        kept = [engine.next(timeout=20), engine.next(timeout=20)]
        with pytest.raises(TimeoutError):
            engine.next(timeout=1.5)
        engine.submit([1])
        with pytest.raises(SlotsHeldError):
            engine.next(timeout=20)
        kept.clear()
        assert len(engine.next(timeout=20)) == 1


def test_more_slots_keep_more_bins():
    with Engine(4, slots=5) as engine:
        engine.submit_many([1] * 16, [0, 4, 8, 12, 16])
        engine.finish()
        kept = list(engine)
        assert len(kept) == 4 and engine.stats()["slots_taken"] == 4


def test_failed_bins_come_again_and_a_culprit_is_found_alone():
    done, culprits = [], []
    with Engine(64) as engine:
        for i in range(10):
            engine.submit([i] * 6)
        engine.finish()
        while (packed := engine.next()) is not None:
            if 7 in packed.ids.tolist():
                if packed.fail():
                    assert packed.ids.tolist() == [7]
                    culprits += packed.ids.tolist()
                    packed.release()
                else:
                    with pytest.raises(ClosedError, match="given back"):
                        packed.fail()
            else:
                done += packed.ids.tolist()
            packed = None
        stats = engine.stats()
    assert culprits == [7] and sorted(done) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert stats["sequences_given_up"] == 1 and stats["bins_failed"] > 4


def test_a_bin_too_large_for_memory_comes_in_halves():
    with Engine(64) as engine:
        engine.submit_many([1] * 64, [0, 16, 32, 48, 64])
        engine.finish()
        packed = engine.next()
        assert len(packed) == 4 and packed.fail(memory=True) is False
        assert len(engine.next()) == 2 and engine.stats()["capacity_tokens"] < 64


# ------------------------------------------------------------------------------------ order of work


def test_a_better_class_goes_first():
    with Engine(8, classes=[(1,), (0,)]) as engine:
        for i in range(40):
            engine.submit([1] * 8, id=i, priority=0)
        for i in range(100, 105):
            engine.submit([1] * 8, id=i, priority=1)
        engine.finish()
        order = [number for packed in engine for number in packed.ids]
        stats = engine.stats()
    urgent = [order.index(number) for number in range(100, 105)]
    assert max(urgent) < 16, order  # what was cut before they came, and the others' small share
    assert [one["sequences"] for one in stats["classes"]] == [40, 5]


def test_deadlines_are_counted():
    with Engine(64) as engine:
        engine.submit([1, 2, 3], deadline=60)
        engine.next(timeout=5).release()
        engine.submit_many([1, 2, 3], [0, 3])
        engine.next(timeout=5).release()
        engine.submit([1, 2, 3], deadline=0.05)
        packed = engine.next(timeout=5)
        time.sleep(0.2)
        packed.release()
        stats = engine.stats()
    assert stats["deadlines_met"] == 1 and stats["deadlines_missed"] == 1


def test_a_fixed_window_cuts_after_its_count():
    with Engine(64, window=(3, 60000.0)) as engine:
        engine.submit([1])
        engine.submit([2])
        with pytest.raises(TimeoutError):
            engine.next(timeout=0.2)
        engine.submit([3])
        assert len(engine.next(timeout=5)) == 3


# --------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize("arguments, error, match", [
    (([],), ArgumentError, "empty"),
    (([1] * (CAPACITY + 1),), ArgumentError, "a bin holds 256"),
    (([1, 2.5],), TypeError, r"ids\[1\] is not an int"),
    (([1, 1 << 31],), ArgumentError, r"ids\[1\] is not within 32 bits"),
    (([1, 1 << 70],), ArgumentError, r"ids\[1\]"),
    ((np.array([0, -(1 << 40)]),), ArgumentError, r"ids\[1\] is not within 32 bits"),
    (("text",), TypeError, "not str"),
    ((b"text",), TypeError, "int32 or int64"),
    ((np.ones(4, np.float32),), TypeError, "int32 or int64"),
    ((np.ones(4, np.uint32),), TypeError, "int32 or int64"),
    ((np.ones(4, ">i4"),), TypeError, "int32 or int64"),
    ((np.ones((2, 2), np.int32),), TypeError, "2 dimensions"),
    ((np.ones(8, np.int32)[::2],), TypeError, "not contiguous"),
    ((np.frombuffer(bytes(9), np.int32, offset=1),), TypeError, "not aligned"),
    (([1], -1), ArgumentError, "id -1"),
    (([1], 1 << 64), ArgumentError, "id 18446744073709551616"),
    (([1], None, 1), ArgumentError, "priority 1: the engine has 1 class"),
    (([1], None, -1), ArgumentError, "priority -1"),
    (([1], None, 0, -0.1), ArgumentError, "deadline"),
    (([1], None, 0, float("nan")), ArgumentError, "deadline"),
    (([1], None, 0, "soon"), TypeError, "deadline"),
    (([1], None, 0, None, [1, 2]), ArgumentError, "type_ids has 2 items, ids has 1"),
])
def test_a_bad_submission_is_refused_by_name(arguments, error, match):
    with Engine(CAPACITY) as engine:
        with pytest.raises(error, match=match):
            engine.submit(*arguments)
        assert engine.submit([1]) == 0  # nothing was taken, not even a number


@pytest.mark.parametrize("arguments, match", [
    (([1, 2], []), "begin with 0"),
    (([1, 2], [1, 2]), "begin with 0"),
    (([1, 2], [0, 1]), "number of ids, 2"),
    (([1, 2], [0, 0, 2]), "sequence 0 is empty"),
    (([1, 2, 3], [0, 2, 1, 3]), "below the one before, at sequence 1"),
    (([1, 2], [0, -1, 2]), r"cu_seqlens\[1\]"),
    (([1, 2], [0, 1, 2], [1]), "sequence_ids has 1 items for 2"),
    (([1, 2], [0, 1, 2], [1, -1]), r"sequence_ids\[1\]"),
    (([1] * 300, [0, 1, 300]), "299 tokens, a bin holds 256"),
])
def test_a_bad_bulk_submission_takes_nothing(arguments, match):
    with Engine(CAPACITY) as engine:
        with pytest.raises(ArgumentError, match=match):
            engine.submit_many(*arguments)
        assert engine.stats()["sequences_in"] == 0
        assert engine.submit_many([1], [0, 1]) == range(1)
        assert engine.submit_many([], [0]) == range(1, 1)


@pytest.mark.parametrize("arguments, keywords, error, match", [
    ((0,), {}, ArgumentError, "bin of 0 tokens"),
    ((-1,), {}, ArgumentError, "capacity is -1"),
    ((1 << 31,), {}, ArgumentError, "2147483648"),
    (("many",), {}, TypeError, "capacity must be an int"),
    ((8,), {"slots": 1 << 32}, ArgumentError, "slots is 4294967296"),
    ((8,), {"multiple": 16}, ArgumentError, "smaller than its multiple"),
    ((8,), {"window": "now"}, TypeError, "window must be"),
    ((8,), {"window": (0, 1.0)}, ArgumentError, "window"),
    ((8,), {"classes": [0]}, TypeError, r"classes\[0\]"),
    ((8,), {"classes": [(0,)] * 9}, ArgumentError, "9 classes"),
    ((8,), {"classes": [(-1,)]}, ArgumentError, r"classes\[0\]"),
    ((8, 2), {}, TypeError, "positional"),
])
def test_a_bad_engine_is_refused_by_name(arguments, keywords, error, match):
    with pytest.raises(error, match=match):
        Engine(*arguments, **keywords)


# ------------------------------------------------------------------------------------------ packing


@pytest.mark.parametrize("policy", ["first_fit", "best_fit"])
def test_pack_puts_each_length_in_one_bin(rng, policy):
    lengths = rng.integers(1, 500, 1000)
    bins, stats = warpgroup.pack(lengths, 1000, policy)
    assert sorted(np.concatenate(bins)) == list(range(1000))
    assert max(lengths[members].sum() for members in bins) <= 1000
    assert stats["bin_count_least"] <= len(bins) == stats["bin_count"]
    assert stats["fill"] == pytest.approx(lengths.sum() / (len(bins) * 1000))


def test_pack_balances_and_refuses():
    bins, stats = warpgroup.pack([8, 1, 1, 1, 5], policy="balanced", bins=2)
    assert [members.tolist() for members in bins] == [[0], [1, 2, 3, 4]]
    assert stats["cost_most"] == stats["cost_mean"] == 8.0
    assert warpgroup.pack([], 10)[0] == []
    with pytest.raises(ArgumentError, match="policy 'worst'"):
        warpgroup.pack([1], 10, "worst")
    with pytest.raises(ArgumentError, match="1"):
        warpgroup.pack([3, 0], 10)
    with pytest.raises(ArgumentError, match="capacity"):
        warpgroup.pack([3], -1)


# -------------------------------------------------------------------------------------------- speed


def bulk(rng: np.random.Generator, count: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    bounds = np.concatenate(([0], np.cumsum(rng.integers(1, longest, count))))
    return rng.integers(0, 30000, bounds[-1], dtype=np.int32), bounds


def run_bulk(flat: np.ndarray, bounds: np.ndarray) -> None:
    """submit_many on one thread, bins on another; what was packed while this one waited for the
    interpreter lock (5 ms, while another computes) is taken at one go."""
    with Engine(16384, slots=64) as engine:
        feeder = in_thread(lambda: (engine.submit_many(flat, bounds), engine.finish()))
        count = 0
        for packed in engine:
            count += len(packed)
        feeder.join()
    assert count == len(bounds) - 1


def test_a_sequence_costs_less_than_two_microseconds_in_bulk(rng):
    count = 200_000
    flat, bounds = bulk(rng, count, 64)
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        run_bulk(flat, bounds)
        best = min(best, time.perf_counter() - begin)
    assert best / count < 2e-6, f"{best / count * 1e9:.0f} ns a sequence"


def free_cores() -> bool:
    """Whether two threads that need no lock run side by side on this machine just now."""
    data = bytes(1 << 22)

    def work() -> None:
        for _ in range(10):
            hashlib.sha256(data)

    begin = time.perf_counter()
    work()
    alone = time.perf_counter() - begin
    begin = time.perf_counter()
    other = in_thread(work)
    work()
    other.join()
    return time.perf_counter() - begin < 1.15 * alone


def test_python_works_while_the_engine_packs(rng):
    """Both at once take at most 0.6 of the time of one after the other, and no more of the CPU.

    The engine's half is one core's work: a full queue is packed, and a thread takes the bins. The
    other half is a tokenizer and a loop in Python, for as long.
    """
    requires("tokenizers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = [f"w{i}" for i in range(500)]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    text = " ".join(words)
    flat, bounds = bulk(rng, 2_000_000, 24)

    def tokenise(rounds: int) -> None:
        for _ in range(rounds):
            sum(tokenizer.encode(text).ids)

    def timed(rounds: int, packs: bool) -> tuple[float, float]:
        with Engine(1 << 16, slots=64, max_sequences=1 << 14, pending_bytes=1 << 29) as engine:
            if packs:
                engine.submit_many(flat, bounds)
                engine.finish()
            begin, cpu = time.perf_counter(), time.process_time()
            if packs:
                taker = in_thread(lambda: [None for _ in engine])
            tokenise(rounds)
            if packs:
                taker.join()
            return time.perf_counter() - begin, time.process_time() - cpu

    results: list[tuple[float, float]] = []
    until = time.monotonic() + 15
    while time.monotonic() < until and len(results) < 5:
        if not free_cores():
            time.sleep(0.5)
            continue
        pack_wall, pack_cpu = timed(0, True)
        rounds = max(1, int(200 * pack_wall / timed(200, False)[0]))
        python_wall, python_cpu = timed(rounds, False)
        wall, cpu = timed(rounds, True)
        if pack_wall > 1.4 * pack_cpu or python_wall > 1.2 * python_cpu:
            continue  # a half alone had to wait for a core, so the sum says nothing
        answer = wall / (pack_wall + python_wall), cpu / (pack_cpu + python_cpu)
        if answer[0] <= 0.6 and answer[1] <= 1.1:
            return
        if free_cores():  # else others disturbed it
            results.append(answer)
    if not results:
        pytest.skip("two free cores are needed, and this machine had none just now")
    pytest.fail(f"(wall, cpu) of both at once by the sum of each alone: {results}")
