"""The calls of the original: the main flow, the end of it, and misuse."""
from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import warpgroup
from warpgroup import (ArgumentError, ClosedError, Error, SlotsHeldError, finish_input,
                       get_next_bin, initialize_engine, is_queue_empty, shutdown, submit_sequence)


@pytest.fixture(autouse=True)
def no_engine_is_left():
    yield
    try:
        shutdown()
    except Error:
        pass


def take_all() -> list[bytes]:
    found = []
    while True:
        token_ids, cu_seqlens = get_next_bin()
        assert token_ids.dtype == cu_seqlens.dtype == np.int32
        if len(token_ids) == 0:
            assert len(cu_seqlens) == 0
            return found
        assert cu_seqlens[0] == 0 and cu_seqlens[-1] == len(token_ids)
        found += [token_ids[a:b].tobytes() for a, b in zip(cu_seqlens, cu_seqlens[1:])]


def test_the_main_flow_with_a_producer_thread(rng):
    sent = [rng.integers(0, 1000, rng.integers(1, 101), dtype=np.int32) for _ in range(2000)]
    initialize_engine(100)

    def produce() -> None:
        for i, ids in enumerate(sent):
            submit_sequence(ids.tolist() if i % 2 else ids)
        finish_input()

    thread = threading.Thread(target=produce)
    thread.start()
    found = take_all()
    thread.join()
    assert sorted(found) == sorted(ids.tobytes() for ids in sent)
    assert is_queue_empty()


def test_one_thread_may_submit_everything_and_then_take_it():
    initialize_engine(64)
    for i in range(50_000):
        submit_sequence([i] * 20)
    finish_input()
    assert len(take_all()) == 50_000


def test_bins_are_not_padded():
    initialize_engine(100)
    submit_sequence([1, 2, 3])
    finish_input()
    token_ids, cu_seqlens = get_next_bin()
    assert token_ids.tolist() == [1, 2, 3] and cu_seqlens.tolist() == [0, 3]


def test_empty_only_after_finish_and_the_last_bin():
    initialize_engine(4)
    assert not is_queue_empty()
    for _ in range(3):
        submit_sequence([1, 1, 1, 1])
    finish_input()
    for _ in range(3):
        assert not is_queue_empty()
        assert len(get_next_bin()[0]) == 4
    assert is_queue_empty()
    for _ in range(3):
        assert len(get_next_bin()[0]) == 0


def test_empty_never_lies_to_a_consumer_beside_a_producer():
    """Once it says so, no bin comes."""
    for _ in range(30):
        initialize_engine(8)

        def produce() -> None:
            for _ in range(50):
                submit_sequence([1, 2, 3])
            finish_input()

        thread = threading.Thread(target=produce)
        thread.start()
        count = 0
        while not is_queue_empty():
            count += max(0, len(get_next_bin()[1]) - 1)
        assert count == 50 and len(get_next_bin()[0]) == 0
        thread.join()
        shutdown()


def test_get_next_bin_waits():
    initialize_engine(8)

    def later() -> None:
        time.sleep(0.3)
        submit_sequence([5])
        finish_input()

    threading.Thread(target=later).start()
    begin = time.monotonic()
    assert get_next_bin()[0].tolist() == [5]
    assert time.monotonic() - begin > 0.25


def test_arrays_stay_when_the_engine_goes():
    initialize_engine(8)
    submit_sequence([5, 6])
    finish_input()
    token_ids, cu_seqlens = get_next_bin()
    shutdown()
    assert token_ids.tolist() == [5, 6] and cu_seqlens.tolist() == [0, 2]


def test_kept_bins_are_said():
    initialize_engine(4)
    for _ in range(8):
        submit_sequence([1] * 4)
    finish_input()
    kept = [get_next_bin()[0] for _ in range(4)]
    with pytest.raises(SlotsHeldError, match="all 4 slots"):
        get_next_bin()
    del kept
    assert len(take_all()) == 4


@pytest.mark.parametrize("call", [lambda: submit_sequence([1]), finish_input, get_next_bin,
                                  is_queue_empty, shutdown])
def test_calls_before_initialize_are_refused(call):
    with pytest.raises(Error, match="initialize_engine"):
        call()


def test_misuse_is_refused():
    with pytest.raises(ArgumentError):
        initialize_engine(0)
    initialize_engine(8)
    with pytest.raises(Error, match="initialized already"):
        initialize_engine(8)
    with pytest.raises(ArgumentError, match="empty"):
        submit_sequence([])
    with pytest.raises(ArgumentError, match="a bin holds 8"):
        submit_sequence([1] * 9)
    finish_input()
    with pytest.raises(ClosedError):
        submit_sequence([1])
    shutdown()
    with pytest.raises(Error, match="initialize_engine"):
        shutdown()


def test_a_second_engine_after_the_first():
    for capacity in (8, 16):
        initialize_engine(capacity)
        submit_sequence([1] * capacity)
        finish_input()
        assert len(take_all()) == 1
        shutdown()


def test_shutdown_wakes_a_consumer():
    initialize_engine(8)
    errors = []

    def consume() -> None:
        try:
            get_next_bin()
        except ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=consume)
    thread.start()
    time.sleep(0.2)
    shutdown()
    thread.join(10)
    assert len(errors) == 1


def test_the_calls_are_of_the_package():
    for name in ("initialize_engine", "submit_sequence", "finish_input", "get_next_bin",
                 "is_queue_empty", "shutdown"):
        assert getattr(warpgroup, name).__doc__
