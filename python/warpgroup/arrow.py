"""Arrow tables, Parquet files and Hugging Face datasets: a column of text in, one of vectors out.

The vectors are those of Embedder.encode, byte for byte. A text that is null has a vector that is
null. Needs pyarrow.
"""
from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from warpgroup._core import ArgumentError, Error
from warpgroup.embedder import Embedder, Failure

Errors = Literal["raise", "null"]
_Path = str | os.PathLike[str]


class EmbeddedRows(NamedTuple):
    """What embed_rows gives, one entry a row."""

    vectors: np.ndarray
    """float32 [n, dim]; NaN where there is no vector."""
    has_vector: np.ndarray
    """bool [n]"""
    reasons: list[str | None]
    """Why a row that has a text has no vector."""


def embed_rows(embedder: Embedder, texts: Sequence[str | bytes | None], *,
               errors: Errors = "raise", first_row: int = 0, **options: Any) -> EmbeddedRows:
    """Embeds the texts of a column; None stands for no text.

    errors: "raise", naming the row; "null": a text that fails has no vector, `reasons` says why.
    first_row: what messages count from, for a part of a longer column.
    options: of Embedder.encode.
    """
    if errors not in ("raise", "null"):
        raise ArgumentError(f"errors {errors!r} is not known: raise, null")
    rows = [row for row, text in enumerate(texts) if text is not None]
    failures: list[Failure] = []
    try:
        found = embedder.encode([texts[row] for row in rows],
                                errors="nan" if errors == "null" else "raise", failures=failures,
                                **options)
    except Error as error:
        raise _with_row(error, first_row, rows) from error
    vectors = found
    if len(rows) < len(texts):
        vectors = np.full((len(texts), found.shape[1]), np.nan, np.float32)
        vectors[rows] = found
    has_vector = np.zeros(len(texts), bool)
    has_vector[rows] = True
    reasons: list[str | None] = [None] * len(texts)
    for failure in failures:
        has_vector[rows[failure.index]] = False
        reasons[rows[failure.index]] = f"{failure.code}: {failure.reason}"
    return EmbeddedRows(vectors, has_vector, reasons)


def _with_row(error: Error, first_row: int, rows: list[int]) -> Error:
    """The index among the texts that are not null becomes the row."""
    index = getattr(error, "index", None)
    if index is None:
        return error
    row = first_row + rows[index]
    named = type(error)(re.sub(r"^text \d+", f"row {row}", str(error)))
    named.index = row
    return named


def vector_array(vectors: np.ndarray, has_vector: np.ndarray) -> pa.FixedSizeListArray:
    """float32 [n, dim] as FixedSizeList<float>[dim], null where has_vector is False."""
    dim = vectors.shape[1]
    mask = None if has_vector.all() else pa.array(~has_vector)
    values = pa.array(np.ascontiguousarray(vectors).reshape(-1), pa.float32())
    return pa.FixedSizeListArray.from_arrays(values, dim, mask=mask)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    checks = ("is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary",
              "is_binary_view", "is_null")
    return any(getattr(pa.types, check)(kind) for check in checks if hasattr(pa.types, check))


def _check_columns(schema: pa.Schema, text_column: str, added: list[str], where: str) -> None:
    if text_column not in schema.names:
        raise ArgumentError(f"{where} has no column {text_column!r}; it has {schema.names}")
    if schema.names.count(text_column) > 1:
        raise ArgumentError(f"{where} has more than one column {text_column!r}")
    kind = schema.field(text_column).type
    if not _is_text(kind):
        raise ArgumentError(f"column {text_column!r} of {where} is of type {kind}, not text")
    if len(set(added)) < len(added):
        raise ArgumentError(f"vectors and errors cannot both be column {added[0]!r}")
    for name in added:
        if name in schema.names:
            raise ArgumentError(f"{where} has a column {name!r} already; choose another name")


def embed_table(embedder: Embedder, table: pa.Table, text_column: str = "text",
                embedding_column: str = "embedding", *, errors: Errors = "raise",
                error_column: str | None = None, **options: Any) -> pa.Table:
    """The table with one more column: FixedSizeList<float>[dim], null where the text is.

    text_column: string, large_string, string_view, or binary that holds UTF-8, in any number of
        chunks; dictionary-encoded too.
    errors: "raise", naming the row, or "null": a null vector for a text that fails.
    error_column: name of a column of strings that says why, null where nothing failed.
    options: of Embedder.encode.
    """
    added = [embedding_column] + ([error_column] if error_column else [])
    _check_columns(table.schema, text_column, added, "the table")
    return _append(embedder, table, text_column, added, errors=errors, **options)


def _append(embedder: Embedder, table: pa.Table, text_column: str, added: list[str],
            **options: Any) -> pa.Table:
    """added: names of the column of vectors and, perhaps, of the column of reasons."""
    found = embed_rows(embedder, table.column(text_column).to_pylist(), **options)
    table = table.append_column(added[0], vector_array(found.vectors, found.has_vector))
    for name in added[1:]:
        table = table.append_column(name, pa.array(found.reasons, pa.string()))
    return table


# ----------------------------------------------------------------------------------- Parquet files


class ParquetSummary(NamedTuple):
    """What embed_parquet did."""

    rows: int
    nulls: int
    """Rows without a text."""
    failures: int
    """Rows whose text got no vector (errors="null")."""


def _read_batches(paths: list[str], batch_rows: int, text_column: str,
                  added: list[str]) -> Iterator[pa.Table]:
    """Tables of at most batch_rows rows; first an empty one, for the schema."""
    import pyarrow.parquet as pq

    schema = None
    for path in paths:
        with pq.ParquetFile(path, memory_map=True) as file:
            own = file.schema_arrow
            if schema is None:
                _check_columns(own, text_column, added, path)
                schema = own
                yield schema.empty_table()
            elif not own.equals(schema):
                raise ArgumentError(f"{path} has other columns than {paths[0]}:\n{own}\nand\n"
                                    f"{schema}")
            for batch in file.iter_batches(batch_size=batch_rows):
                yield pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata)


def _output_schema(schema: pa.Schema) -> pa.Schema:
    """Without the description that Hugging Face's datasets keeps of the columns: it would be wrong
    now, and is made anew from the types when it is not there."""
    metadata = {key: value for key, value in (schema.metadata or {}).items()
                if key != b"huggingface"}
    return schema.with_metadata(metadata or None)


def embed_parquet(embedder: Embedder, inputs: _Path | Sequence[_Path], output: _Path, *,
                  text_column: str = "text",
                  embedding_column: str = "embedding", errors: Errors = "raise",
                  error_column: str | None = None, batch_rows: int = 4096,
                  compression: str = "zstd", overwrite: bool = False,
                  **options: Any) -> ParquetSummary:
    """Parquet files in, one Parquet file out: all their columns and rows, and the vectors.

    inputs: a file or a list of files with the same columns. output: appears under its name when it
        is whole (it is written beside it first); an existing one is refused unless overwrite.
    batch_rows: rows in memory at once, and rows of one row group of the output.
    The other arguments are those of embed_table; a row in a message is counted over all inputs.
    """
    import pyarrow.parquet as pq

    paths = [os.fspath(inputs)] if isinstance(inputs, (str, os.PathLike)) \
        else [os.fspath(path) for path in inputs]
    output = os.fspath(output)
    if not paths:
        raise ArgumentError("there is no input file")
    if batch_rows < 1:
        raise ArgumentError(f"batch_rows is {batch_rows}, it must be at least 1")
    if os.path.exists(output):
        if any(os.path.samefile(path, output) for path in paths if os.path.exists(path)):
            raise ArgumentError(f"{output} is an input too")
        if not overwrite:
            raise ArgumentError(f"{output} exists; overwrite=True replaces it")

    added = [embedding_column] + ([error_column] if error_column else [])
    part = f"{output}.{os.getpid()}.part"
    rows = nulls = failures = 0
    writer = None
    try:
        for table in _read_batches(paths, batch_rows, text_column, added):
            found = _append(embedder, table, text_column, added, errors=errors, first_row=rows,
                            **options)
            if writer is None:
                writer = pq.ParquetWriter(part, _output_schema(found.schema),
                                          compression=compression)
            rows += len(found)
            texts_null = found.column(text_column).null_count
            nulls += texts_null
            failures += found.column(embedding_column).null_count - texts_null
            if len(found):
                writer.write_table(found.cast(writer.schema))
        writer.close()
        _sync(part)
        os.replace(part, output)
    except BaseException:
        if writer is not None:
            writer.close()
        if os.path.exists(part):
            os.unlink(part)
        raise
    return ParquetSummary(rows, nulls, failures)


def _sync(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


# ---------------------------------------------------------------------------- Hugging Face datasets


class Mapper:
    """What mapper() gives: a function of a batch, which can be pickled."""

    def __init__(self, embedder: Embedder, text_column: str, embedding_column: str, errors: Errors,
                 error_column: str | None, options: dict[str, Any]) -> None:
        self.embedder = embedder
        self.text_column = text_column
        self.embedding_column = embedding_column
        self.errors: Errors = errors
        self.error_column = error_column
        self.options = options

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        found = embed_rows(self.embedder, list(batch[self.text_column]), errors=self.errors,
                           **self.options)
        vectors: Any = found.vectors
        if not found.has_vector.all():
            vectors = [row if has else None for row, has in zip(found.vectors, found.has_vector)]
        columns = {self.embedding_column: vectors}
        if self.error_column:
            columns[self.error_column] = found.reasons
        return columns


def mapper(embedder: Embedder, text_column: str = "text", embedding_column: str = "embedding", *,
           errors: Errors = "raise", error_column: str | None = None, **options: Any) -> Mapper:
    """For Hugging Face datasets: dataset.map(mapper(embedder), batched=True, batch_size=4096).

    It adds the column of vectors (None where the text is None). It can be pickled, so num_proc
    works (give the Embedder threads=cores // num_proc then), and datasets finds what it has cached.
    The arguments are those of embed_table.
    """
    return Mapper(embedder, text_column, embedding_column, errors, error_column, options)
