"""Ray Data: the kinds of batches, texts that fail, and a cluster that loses a worker."""
from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import warpgroup
import warpgroup.ray
from conftest import DATA, ROOT, python_environment, requires

MODEL = DATA / "tiny-bert-h32-d8-mean"
LONG = "a cat " * 60
TEXTS = ["a cat", None, LONG, "the light ran", "quiet hills é"]
FAILS = [False, False, True, False, False]
LIMITS = {"max_length": 24, "truncate": "error"}


@pytest.fixture(scope="module")
def worker() -> warpgroup.ray.Embedder:
    return warpgroup.ray.Embedder(MODEL, threads=1, **LIMITS)


@pytest.fixture(scope="module")
def expected(worker: warpgroup.ray.Embedder) -> bytes:
    """Of the rows 0, 3 and 4; the others have no vector."""
    return worker.embedder.encode([TEXTS[0], TEXTS[3], TEXTS[4]]).tobytes()


def test_numpy(worker: warpgroup.ray.Embedder, expected: bytes) -> None:
    batch = {"id": np.arange(5), "text": np.array(TEXTS, object)}
    found = worker(batch)
    assert list(found) == ["id", "text", "embedding", "embedding_error"]
    assert found["embedding"].dtype == np.float32 and found["embedding"].shape == (5, 32)
    assert found["embedding"][[0, 3, 4]].tobytes() == expected
    assert np.isnan(found["embedding"][[1, 2]]).all()
    assert [bool(reason) for reason in found["embedding_error"]] == FAILS
    assert "embedding" not in batch


def test_pandas(worker: warpgroup.ray.Embedder, expected: bytes) -> None:
    requires("pandas")
    import pandas as pd

    for missing in (None, float("nan"), pd.NA):
        texts = [missing if text is None else text for text in TEXTS]
        batch = pd.DataFrame({"text": pd.Series(texts, [7, 5, 3, 2, 9], dtype=object)})
        found = worker(batch)
        cells = list(found["embedding"])
        assert [cell is None for cell in cells] == [False, True, True, False, False]
        assert b"".join(cells[i].tobytes() for i in (0, 3, 4)) == expected
        assert found["embedding_error"].iloc[2].startswith("too_long: ")
        assert list(found.index) == [7, 5, 3, 2, 9] and list(batch.columns) == ["text"]


def test_pyarrow(worker: warpgroup.ray.Embedder, expected: bytes) -> None:
    requires("pyarrow")
    import pyarrow as pa

    found = worker(pa.table({"text": TEXTS}))
    column = found["embedding"]
    assert column.type == pa.list_(pa.float32(), 32)
    assert column.is_valid().to_pylist() == [True, False, False, True, True]
    assert column.drop_null().combine_chunks().flatten().to_numpy().tobytes() == expected
    assert [bool(reason) for reason in found["embedding_error"].to_pylist()] == FAILS


def test_names_and_errors() -> None:
    strict = warpgroup.ray.Embedder(MODEL, text_field="body", embedding_field="vector",
                                    error_field=None, **LIMITS)
    assert list(strict({"body": np.array(["a"])})) == ["body", "vector"]
    with pytest.raises(warpgroup.LimitError, match="text 1: too_long"):
        strict({"body": np.array(["a", LONG])})
    with pytest.raises(warpgroup.ArgumentError, match="no column 'body'; it has"):
        strict({"text": np.array(["a"])})
    with pytest.raises(warpgroup.ArgumentError, match="column 'vector' already"):
        strict({"body": np.array(["a"]), "vector": np.array([1])})
    with pytest.raises(warpgroup.ArgumentError, match="numpy, pandas or pyarrow"):
        strict(["a"])
    with pytest.raises(warpgroup.ArgumentError, match="must be three names"):
        warpgroup.ray.Embedder(MODEL, embedding_field="text")


def test_ray_is_not_shadowed() -> None:
    requires("ray")
    import ray

    assert ray.__name__ == "ray" and warpgroup.ray.__name__ == "warpgroup.ray"
    assert ray is not warpgroup.ray and hasattr(ray, "init")


IN_RAY = """
import os, shutil, sys, tempfile
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled",
                  RAY_DATA_DISABLE_PROGRESS_BARS="1")
import numpy as np, ray, warpgroup, warpgroup.ray
model = sys.argv[1]
folder = tempfile.mkdtemp(prefix="ray")

class Probe(warpgroup.ray.Embedder):
    def __call__(self, batch):
        batch = super().__call__(batch)
        batch["threads"] = np.full(len(batch["id"]), self.embedder.threads)
        return batch

try:
    ray.init(num_cpus=3, object_store_memory=100 * 2**20, include_dashboard=False,
             log_to_driver=False, _temp_dir=folder)
    texts = [f"the cat ran {'the ' * (i % 7)}hills {i}" for i in range(60)]
    texts[13], texts[14] = None, "a cat " * 60
    rows = [{"id": i, "text": text} for i, text in enumerate(texts)]
    kwargs = {"model": model, "max_length": 64, "truncate": "error"}
    dataset = ray.data.from_items(rows, override_num_blocks=4)
    found = dataset.map_batches(Probe, fn_constructor_kwargs=kwargs, concurrency=1, num_cpus=2)
    table = {row["id"]: row for row in found.iter_rows()}
    assert sorted(table) == list(range(60))
    assert {int(row["threads"]) for row in table.values()} == {2}, "not the CPUs of the actor"
    good = [i for i in range(60) if i not in (13, 14)]
    alone = warpgroup.Embedder(model).encode([texts[i] for i in good], max_length=64)
    assert all(np.float32(table[i]["embedding"]).tobytes() == row.tobytes()
               for i, row in zip(good, alone))
    assert np.isnan(table[13]["embedding"]).all() and np.isnan(table[14]["embedding"]).all()
    assert table[14]["embedding_error"].startswith("too_long: ")
    assert not table[13]["embedding_error"]

    # As Arrow: a column of lists with nulls, whichever blocks have some.
    found = dataset.map_batches(warpgroup.ray.Embedder, fn_constructor_kwargs=kwargs, concurrency=1,
                                batch_format="pyarrow", batch_size=None)
    rows = {row["id"]: row for row in found.take_all()}
    assert rows[13]["embedding"] is None and rows[14]["embedding"] is None
    assert all(np.float32(rows[i]["embedding"]).tobytes() == row.tobytes()
               for i, row in zip(good, alone))
finally:
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
print("fine")
"""


def run_script(arguments: list[str], seconds: float) -> str:
    """In a process of its own, so that no cluster outlives its test."""
    done = subprocess.run([sys.executable, *arguments], env=python_environment(), text=True,
                          timeout=seconds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_on_a_cluster(tmp_path: Path) -> None:
    requires("ray.data")
    script = tmp_path / "in_ray.py"
    script.write_text(IN_RAY)
    assert "fine" in run_script([str(script), str(MODEL)], 240)


def test_a_killed_worker_loses_nothing() -> None:
    requires("ray.data")
    begin = time.monotonic()
    said = run_script([str(ROOT / "examples" / "ray_embed.py"), str(MODEL)], 240)
    assert "300 documents by" in said and "one killed; the same bytes as one process" in said
    print(f"{time.monotonic() - begin:.0f} s")
