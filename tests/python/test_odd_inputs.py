"""What nobody should give, and gets a sentence for: numbers that C would cut off, odd buffers,
names that are no UTF-8, values that would give a wrong result without a word."""
from __future__ import annotations

import os
import time

import numpy as np
import pytest
from conftest import DATA, requires, run_python

import warpgroup

MODEL = DATA / "tiny-bert-h32-d8-mean"


@pytest.mark.parametrize("ids", [np.zeros(3, dtype=[]), np.zeros(3, "V0"), np.zeros(3, np.uint32),
                                 np.arange(10)[::2]])
def test_odd_buffers_are_refused_by_name(ids: np.ndarray) -> None:
    # A dtype without fields has items of no bytes; its own process, as it ended this one once.
    with pytest.raises(TypeError, match="^ids must be"):
        warpgroup.Engine(8).submit(ids)


def test_items_of_no_bytes_end_no_process() -> None:
    run_python("import numpy as np, warpgroup\n"
               "try: warpgroup.Engine(8).submit_many([1], np.zeros(3, dtype=[]))\n"
               "except TypeError: pass\n")


@pytest.mark.parametrize(("options", "match"), [
    ({"workers": 2**32 - 1}, "workers are too many"),
    ({"position_offset": 2**31 - 1}, "positions from 2147483647"),
    ({"window": (2**64 + 5, 1.0)}, "window: sequences is"),
    ({"classes": [(0, -1)]}, r"classes\[0\]: tokens per second is -1"),
    ({"classes": [(0, 2**64 + 1)]}, r"classes\[0\]: tokens per second"),
])
def test_engine_numbers_are_not_cut_off(options: dict, match: str) -> None:
    with pytest.raises(warpgroup.ArgumentError, match=match):
        warpgroup.Engine(64, **options)


@pytest.mark.parametrize(("options", "match"), [({"id": "a"}, "^id must be"),
                                                ({"priority": None}, "^priority must")])
def test_a_wrong_type_names_its_argument(options: dict, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        warpgroup.Engine(8).submit([1], **options)


@pytest.mark.parametrize("path", [b"/nowhere/\xff",
                                  os.fsencode("/nowhere/" + ("\u00e9" * 100 + "/") * 20)])
@pytest.mark.parametrize("what", [warpgroup.Tokenizer, warpgroup.Model])
def test_names_that_are_no_utf8_or_cut_are_shown(what: type, path: bytes) -> None:
    with pytest.raises(warpgroup.FileError, match="nowhere"):
        what(path)


def test_a_lone_surrogate_names_its_text() -> None:
    with pytest.raises(warpgroup.ArgumentError, match=r"texts\[1\] holds a lone surrogate"):
        warpgroup.Tokenizer(MODEL).encode_batch(["a", "\ud800"])


@pytest.mark.parametrize("options", [{"threads": -1}, {"threads": 2**32 + 1}, {"first_id": -1},
                                     {"first_id": 2**64 + 5}, {"priority": 2**32}])
def test_ingest_numbers_are_not_cut_off(options: dict) -> None:
    with pytest.raises(warpgroup.ArgumentError, match=next(iter(options))):
        warpgroup.ingest(warpgroup.Engine(64), [], MODEL, **options)


@pytest.mark.parametrize("cost", [(float("nan"), 0), (-1, 0), (1,)])
def test_costs_of_pack(cost: tuple) -> None:
    with pytest.raises(warpgroup.ArgumentError, match="cost is"):
        warpgroup.pack([1, 2], 8, "balanced", bins=2, cost=cost)


@pytest.mark.parametrize("options", [{"knee_runs": 2**32}, {"keep": float("nan")}, {"keep": -1}])
def test_numbers_of_determine_capacity(options: dict) -> None:
    with pytest.raises(warpgroup.ArgumentError, match=next(iter(options))):
        warpgroup.determine_capacity(run=lambda tokens: tokens < 1000, **options)


@pytest.mark.parametrize(("options", "error"), [
    ({"truncate_dim": -1}, warpgroup.ArgumentError), ({"failures": 5}, TypeError),
    ({"max_length": "x"}, TypeError)])
def test_options_of_encode_are_named(options: dict, error: type) -> None:
    with pytest.raises(error, match=next(iter(options))):
        warpgroup.Embedder(MODEL).encode(["a"], **options)


def test_a_forked_child_begins_without_an_engine() -> None:
    run_python("import os, warpgroup\n"
               "warpgroup.initialize_engine(8)\n"
               "pid = os.fork()\n"
               "if pid == 0:\n"
               "    warpgroup.initialize_engine(8); warpgroup.shutdown(); os._exit(0)\n"
               "assert os.waitpid(pid, 0)[1] == 0\n"
               "warpgroup.shutdown()\n")


def test_kept_slots_are_said_to_who_asks_again_and_again() -> None:
    engine = warpgroup.Engine(8)
    for _ in range(8):
        engine.submit([1] * 8)
    kept = [engine.next(timeout=5) for _ in range(engine.stats()["slots"])]
    until = time.monotonic() + 20
    with pytest.raises(warpgroup.SlotsHeldError):
        while time.monotonic() < until:
            try:
                engine.next(timeout=0.05)
            except TimeoutError:
                pass
    assert kept


def _model() -> warpgroup.VarlenModel:
    requires("torch", "transformers")
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(3)
    return warpgroup.VarlenModel(BertModel(BertConfig(
        vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=64)).eval())


@pytest.mark.parametrize("options", [{"position_offset": 2}, {"multiple": 16}])
def test_a_bin_means_the_same_whatever_its_engine(options: dict) -> None:
    model = _model()
    engine = warpgroup.Engine(64, **options)
    engine.submit([5, 6, 7])
    engine.finish()
    got = model(engine.next()).last_hidden_state
    assert got.equal(model([5, 6, 7], [0, 3]).last_hidden_state)


def test_token_types_of_a_bin_are_used() -> None:
    model = _model()
    engine = warpgroup.Engine(64)
    engine.submit([5, 6, 7], type_ids=[0, 1, 1])
    engine.finish()
    got = model(engine.next()).last_hidden_state
    assert got.equal(model([5, 6, 7], [0, 3], token_type_ids=[0, 1, 1]).last_hidden_state)
    assert not got.equal(model([5, 6, 7], [0, 3]).last_hidden_state)


def test_tensors_of_fractions_or_unknown_ids_are_refused() -> None:
    model = _model()
    import torch

    with pytest.raises(warpgroup.ArgumentError, match="integers are needed"):
        model(torch.tensor([1.5]), [0, 1])
    with pytest.raises(warpgroup.ArgumentError, match="token id 97"):
        model(torch.tensor([97]), [0, 1])


RUN = """
import torch, warpgroup
from warpgroup.workers import run_bins
a = torch.zeros(200, 200)
def run(bin):
    for _ in range(200): a @ a
def filled(finish):
    engine = warpgroup.Engine(8, workers=2)
    for _ in range(100): engine.submit([1] * 7)
    if finish: engine.finish()
    return engine
"""


@pytest.mark.parametrize("code", [
    "run_of_bins = run_bins(filled(False), run, 2, True); next(run_of_bins)",
    """
import threading, time
def consume():
    while True: list(run_bins(filled(True), run, 2, True))
threading.Thread(target=consume, daemon=True).start(); time.sleep(0.3)
"""])
def test_the_interpreter_ends_with_bins_in_the_workers(code: str) -> None:
    requires("torch")
    for _ in range(3):
        run_python(RUN + code)


@pytest.mark.parametrize("workers", [0, -1])
def test_no_workers_run_no_bins_without_a_word(workers: int) -> None:
    requires("torch")
    from warpgroup.workers import run_bins

    with pytest.raises(warpgroup.ArgumentError, match="workers"):
        list(run_bins(warpgroup.Engine(8), lambda bin: None, workers, False))
