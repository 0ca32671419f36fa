"""The bins of an engine on several threads: VarlenModel.embed and run_bins."""
from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from conftest import requires

requires("torch", "transformers")

import torch
from transformers import BertConfig, BertModel

import warpgroup
from warpgroup.varlen import VarlenModel, pool
from warpgroup.workers import run_bins


@pytest.fixture(scope="module")
def model() -> VarlenModel:
    torch.manual_seed(3)
    config = BertConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=48, max_position_embeddings=64)
    return VarlenModel(BertModel(config).eval())


def texts(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    return [rng.integers(1, 97, rng.integers(1, 60)).astype(np.int32) for _ in range(count)]


def filled(sequences: list[np.ndarray], workers: int, capacity: int = 128) -> warpgroup.Engine:
    engine = warpgroup.Engine(capacity, workers=workers)
    for number, ids in enumerate(sequences):
        engine.submit(ids, id=number)
    engine.finish()
    return engine


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_sequence_gets_its_vector(model: VarlenModel, rng: np.random.Generator,
                                        workers: int) -> None:
    sequences = texts(rng, 80)
    cores = torch.get_num_threads()
    with filled(sequences, workers) as engine:
        found = list(model.embed(engine, "mean", workers=workers))
        assert engine.is_drained
    assert sorted(number for number, _ in found) == list(range(80))
    for number, vector in found:
        alone = pool(model(sequences[number], [0, len(sequences[number])]).last_hidden_state,
                     [0, len(sequences[number])])[0]
        assert torch.allclose(vector, alone, rtol=0, atol=1e-5 * float(alone.abs().max())), number
    assert torch.get_num_threads() == cores


def test_zero_workers_are_those_of_the_engine(model: VarlenModel, rng: np.random.Generator) -> None:
    with filled(texts(rng, 20), workers=1) as engine:
        assert len(list(model.embed(engine))) == 20
    with filled(texts(rng, 20), workers=1) as engine, pytest.raises(warpgroup.ArgumentError, match="2 slots"):
        next(model.embed(engine, workers=2))


def test_bins_run_at_the_same_time(rng: np.random.Generator) -> None:
    meet = threading.Barrier(2, timeout=20)  # breaks where one thread runs all
    with filled([np.full(100, 5, np.int32)] * 2, workers=2) as engine:
        assert sorted(run_bins(engine, lambda bin: meet.wait() >= 0 and len(bin), 2, True)) == [1, 1]


def test_an_error_ends_the_run_and_is_raised(rng: np.random.Generator) -> None:
    ran = []

    def run(bin: warpgroup.Bin) -> None:
        if len(ran) == 3:
            raise ZeroDivisionError("bin 3")
        ran.append(bin.ids.tolist())

    with filled(texts(rng, 200), workers=2) as engine:
        with pytest.raises(ZeroDivisionError, match="bin 3"):
            for _ in run_bins(engine, run, 2, False):
                pass
        assert 3 <= len(ran) < 40, "the rest went on running"
        assert not [t for t in threading.enumerate() if t.name.startswith("wg-bin-")]
        left = sum(len(bin) for bin in engine)
    assert left == 200 - sum(map(len, ran)), "bins that were not run, or that failed, were lost"


def test_leaving_the_loop_ends_the_workers(rng: np.random.Generator) -> None:
    with filled(texts(rng, 400), workers=2) as engine:
        running = run_bins(engine, lambda bin: bin.ids.tolist(), 2, False)
        taken = len(next(running))
        assert taken > 0
        running.close()
        assert not [t for t in threading.enumerate() if t.name.startswith("wg-bin-")]
        assert sum(len(bin) for bin in engine) > 200


def test_a_slow_caller_holds_the_workers_back(rng: np.random.Generator) -> None:
    ran = []
    with filled(texts(rng, 400), workers=2) as engine:
        running = run_bins(engine, lambda bin: ran.append(1), 2, False)
        next(running)
        time.sleep(0.5)
        assert len(ran) <= 1 + 2 + 2, "results pile up"
        running.close()


def test_ctrl_c_in_the_loop_ends_it(rng: np.random.Generator) -> None:
    import _thread

    once = iter([_thread.interrupt_main])

    def run(bin: warpgroup.Bin) -> None:
        time.sleep(0.2)
        next(once, lambda: None)()

    with filled(texts(rng, 200), workers=2) as engine, pytest.raises(KeyboardInterrupt):
        for _ in run_bins(engine, run, 2, False):
            pass
    assert not [t for t in threading.enumerate() if t.name.startswith("wg-bin-")]
