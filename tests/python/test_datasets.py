"""Hugging Face datasets: map with the bytes of encode, in one process and in two, and Parquet."""
from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from conftest import DATA, requires

requires("datasets", "pyarrow")

import datasets

import warpgroup
from warpgroup.arrow import embed_parquet, mapper

MODEL = DATA / "tiny-bert-h32-d8-mean"
TEXTS = [f"the cat ran over {'many ' * (i % 9)}quiet hills {i}" for i in range(60)]


@pytest.fixture(autouse=True)
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


@pytest.fixture(scope="module")
def embedder() -> warpgroup.Embedder:
    return warpgroup.Embedder(MODEL, threads=1)


def vectors(dataset) -> bytes:
    return np.stack(dataset.with_format("numpy")["embedding"][:]).astype(np.float32).tobytes()


def test_map(embedder: warpgroup.Embedder) -> None:
    dataset = datasets.Dataset.from_dict({"id": range(60), "text": TEXTS})
    found = dataset.map(mapper(embedder), batched=True, batch_size=17)
    assert found.column_names == ["id", "text", "embedding"]
    assert found.features["embedding"].feature.dtype == "float32"
    assert vectors(found) == embedder.encode(TEXTS).tobytes()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_map_in_processes(embedder: warpgroup.Embedder) -> None:
    dataset = datasets.Dataset.from_dict({"text": TEXTS})
    found = dataset.map(mapper(embedder), batched=True, batch_size=9, num_proc=2)
    assert vectors(found) == embedder.encode(TEXTS).tobytes()


def test_nulls_and_failures(embedder: warpgroup.Embedder) -> None:
    texts = ["a cat", None, "long " * 80, "ran"]
    dataset = datasets.Dataset.from_dict({"text": texts})
    add = mapper(embedder, errors="null", error_column="why", max_length=24, truncate="error")
    found = dataset.map(add, batched=True)
    assert [row is None for row in found["embedding"]] == [False, True, True, False]
    assert [reason is None for reason in found["why"]] == [True, True, False, True]
    kept = np.array([found["embedding"][0], found["embedding"][3]], np.float32)
    assert kept.tobytes() == embedder.encode(["a cat", "ran"]).tobytes()
    with pytest.raises(warpgroup.LimitError, match="row 2: too_long"):
        dataset.map(mapper(embedder, max_length=24, truncate="error"), batched=True)


def test_iterable(embedder: warpgroup.Embedder) -> None:
    dataset = datasets.Dataset.from_dict({"text": TEXTS}).to_iterable_dataset()
    rows = list(dataset.map(mapper(embedder), batched=True, batch_size=25))
    found = np.array([row["embedding"] for row in rows], np.float32)
    assert found.tobytes() == embedder.encode(TEXTS).tobytes()


def test_the_same_work_is_found_again(embedder: warpgroup.Embedder) -> None:
    """datasets' cache goes by the pickled function: equal for equal work, else not."""
    from datasets.fingerprint import Hasher

    again = warpgroup.Embedder(MODEL, threads=1)
    assert Hasher.hash(mapper(embedder)) == Hasher.hash(mapper(again))
    assert Hasher.hash(mapper(embedder)) != Hasher.hash(mapper(embedder, max_length=9))
    again = pickle.loads(pickle.dumps(mapper(embedder, "text", "vector")))
    assert again({"text": TEXTS})["vector"].tobytes() == embedder.encode(TEXTS).tobytes()


def test_parquet_in_and_out(embedder: warpgroup.Embedder, tmp_path: Path) -> None:
    """What datasets wrote is embedded, and datasets reads it again."""
    datasets.Dataset.from_dict({"id": range(60), "text": TEXTS}).to_parquet(tmp_path / "in.parquet")
    embed_parquet(embedder, tmp_path / "in.parquet", tmp_path / "out.parquet", batch_rows=25)
    found = datasets.Dataset.from_parquet(str(tmp_path / "out.parquet"),
                                          cache_dir=str(tmp_path / "cache"))
    assert found.column_names == ["id", "text", "embedding"]
    assert found["text"][:] == TEXTS
    assert vectors(found) == embedder.encode(TEXTS).tobytes()
