"""Embedder: the callable class for Ray Data's map_batches.

    ds.map_batches(warpgroup.ray.Embedder, fn_constructor_kwargs={"model": model_dir},
                   batch_size=4096, concurrency=4, num_cpus=8)

Each actor opens the model once and computes with as many threads as Ray gave it CPUs. A vector does
not depend on the batch that its row is in, so a batch that runs again after a worker was lost gives
the same bytes. Ray itself is imported by whoever uses this; the class also works without it.
"""
from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

import warpgroup.embedder
from warpgroup._core import ArgumentError
from warpgroup.embedder import Failure


def assigned_threads() -> int:
    """CPUs that Ray gave this worker, at least 1; 0 (one thread a core) outside of Ray."""
    try:
        import ray
    except ImportError:
        return 0
    if not ray.is_initialized():
        return 0
    context = ray.get_runtime_context()
    if context.worker.mode != ray.WORKER_MODE:
        return 0
    return max(1, math.floor(context.get_assigned_resources().get("CPU", 1)))


def _is_missing(text: Any) -> bool:
    """None, or the NaN and NA that pandas puts in its place."""
    if text is None or type(text).__name__ == "NAType":
        return True
    return isinstance(text, float) and math.isnan(text)


class Embedder:
    """Adds a column of vectors to a batch: numpy (a dict of arrays), pandas or pyarrow.

    model: a model directory that every node can read.
    text_field: the column of texts. A text that is missing (None, null, NaN) gets no vector.
    embedding_field: the new column, of the kind of the batch: float32 [n, dim] for numpy, where a
        row without a vector is NaN; 1-D float32 arrays or None for pandas;
        FixedSizeList<float>[dim] with nulls for pyarrow.
    error_field: the new column that says why a text got no vector, "" where nothing failed; such a
        text never ends the job. None: no such column, and the first text that fails raises.
    threads: None: as many as Ray gave the actor CPUs.
    embedder_options: of warpgroup.Embedder; the rest goes to its encode().
    """

    def __init__(self, model: str | os.PathLike[str], *, text_field: str = "text",
                 embedding_field: str = "embedding", error_field: str | None = "embedding_error",
                 threads: int | None = None, embedder_options: dict[str, Any] | None = None,
                 **options: Any) -> None:
        if len({text_field, embedding_field, error_field}) < 3:
            raise ArgumentError(f"text_field, embedding_field and error_field must be three names: "
                                f"{text_field!r}, {embedding_field!r}, {error_field!r}")
        self.text_field = text_field
        self.embedding_field = embedding_field
        self.error_field = error_field
        self.options = options
        threads = assigned_threads() if threads is None else threads
        self.embedder = warpgroup.embedder.Embedder(
            model, **{"threads": threads, **(embedder_options or {})})

    def __call__(self, batch: Any) -> Any:
        if isinstance(batch, dict):
            return self._numpy(batch)
        if hasattr(batch, "to_pylist"):
            return self._arrow(batch)
        if hasattr(batch, "iloc"):
            return self._pandas(batch)
        raise ArgumentError(f"a batch must be numpy, pandas or pyarrow, not {type(batch)}")

    def _embed(self, names: list[str],
               texts: list[Any]) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Vectors [n, dim], which rows have one [n], and why others have none [n]."""
        for name in (self.embedding_field, self.error_field):
            if name in names:
                raise ArgumentError(f"the batch has a column {name!r} already")
        rows = [row for row, text in enumerate(texts) if not _is_missing(text)]
        failures: list[Failure] = []
        found = self.embedder.encode([texts[row] for row in rows], failures=failures,
                                     errors="nan" if self.error_field else "raise", **self.options)
        vectors = np.full((len(texts), found.shape[1]), np.nan, np.float32)
        vectors[rows] = found
        has_vector = np.zeros(len(texts), bool)
        has_vector[rows] = True
        reasons = [""] * len(texts)
        for failure in failures:
            has_vector[rows[failure.index]] = False
            reasons[rows[failure.index]] = f"{failure.code}: {failure.reason}"
        return vectors, has_vector, reasons

    def _texts(self, batch: Any, names: list[str]) -> Any:
        if self.text_field not in names:
            raise ArgumentError(f"the batch has no column {self.text_field!r}; it has {names}")
        return batch[self.text_field]

    def _numpy(self, batch: dict[str, Any]) -> dict[str, Any]:
        names = list(batch)
        vectors, _, reasons = self._embed(names, list(self._texts(batch, names)))
        batch = {**batch, self.embedding_field: vectors}
        if self.error_field:
            batch[self.error_field] = np.array(reasons, dtype=object)
        return batch

    def _pandas(self, batch: Any) -> Any:
        import pandas as pd

        names = list(batch.columns)
        vectors, has_vector, reasons = self._embed(names, list(self._texts(batch, names)))
        cells = [row if has else None for row, has in zip(vectors, has_vector)]
        batch = batch.assign(**{self.embedding_field: pd.Series(cells, batch.index, dtype=object)})
        if self.error_field:
            batch[self.error_field] = pd.Series(reasons, batch.index, dtype=object)
        return batch

    def _arrow(self, batch: Any) -> Any:
        import pyarrow as pa

        from warpgroup.arrow import vector_array

        names = batch.schema.names
        vectors, has_vector, reasons = self._embed(names, self._texts(batch, names).to_pylist())
        batch = batch.append_column(self.embedding_field, vector_array(vectors, has_vector))
        if self.error_field:
            batch = batch.append_column(self.error_field, pa.array(reasons, pa.string()))
        return batch
