"""Arrow tables and Parquet files: the bytes of encode, and every other column kept."""
from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from conftest import DATA, requires

requires("pyarrow", "pyarrow.parquet")

import pyarrow as pa
import pyarrow.parquet as pq

import warpgroup
from warpgroup.arrow import embed_parquet, embed_table

MODEL = DATA / "tiny-bert-h32-d8-mean"
WORDS = "the a cat ran from signal to light over many quiet hills é 日本 and it was good".split()


def make_texts(count: int, seed: int = 1) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(1, 40))) for _ in range(count)]


TEXTS = make_texts(50)
WITH_NULLS = [None if i % 7 == 3 else text for i, text in enumerate(TEXTS)]
LONG = "a cat " * 60


@pytest.fixture(scope="module")
def embedder() -> warpgroup.Embedder:
    return warpgroup.Embedder(MODEL)


def check(column: pa.ChunkedArray, texts: list[str | None], embedder: warpgroup.Embedder) -> None:
    """The bytes of encode where there is a text, null where there is none."""
    assert column.type == pa.list_(pa.float32(), 32)
    assert column.is_valid().to_pylist() == [text is not None for text in texts]
    rows = [row for row, text in enumerate(texts) if text is not None]
    expected = embedder.encode([texts[row] for row in rows])
    flat = column.combine_chunks().take(pa.array(rows)).flatten().to_numpy()
    assert flat.tobytes() == expected.tobytes()


TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
         pa.dictionary(pa.int32(), pa.string())]
if hasattr(pa, "string_view"):
    TYPES.append(pa.string_view())


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_kinds_of_text(embedder: warpgroup.Embedder, kind: pa.DataType) -> None:
    array = pa.array(WITH_NULLS, pa.string())
    array = array.dictionary_encode() if pa.types.is_dictionary(kind) else array.cast(kind)
    table = pa.table({"id": range(50), "text": array})
    found = embed_table(embedder, table)
    assert found.column_names == ["id", "text", "embedding"]
    assert found.select(["id", "text"]).equals(table)
    check(found["embedding"], WITH_NULLS, embedder)


def test_chunks(embedder: warpgroup.Embedder) -> None:
    chunks = [WITH_NULLS[:1], [], WITH_NULLS[1:30], WITH_NULLS[30:]]
    table = pa.table({"body": pa.chunked_array(chunks, pa.string())})
    found = embed_table(embedder, table, "body", "vector", threads=2)
    check(found["vector"], WITH_NULLS, embedder)
    sliced = embed_table(embedder, table.slice(11, 21), "body", "vector")
    check(sliced["vector"], WITH_NULLS[11:32], embedder)


@pytest.mark.parametrize("texts", [[], [None, None]], ids=["empty", "nulls"])
def test_nothing_to_do(embedder: warpgroup.Embedder, texts: list) -> None:
    for kind in (pa.string(), pa.null()):
        found = embed_table(embedder, pa.table({"text": pa.array(texts, kind)}))
        assert found["embedding"].type == pa.list_(pa.float32(), 32)
        assert found["embedding"].null_count == len(texts) == found.num_rows


def test_failing_rows(embedder: warpgroup.Embedder) -> None:
    texts = [None, "a cat", LONG, "ran", None, LONG]
    table = pa.table({"text": texts})
    options = {"max_length": 24, "truncate": "error"}
    with pytest.raises(warpgroup.LimitError, match="^row 2: too_long") as caught:
        embed_table(embedder, table, **options)
    assert caught.value.index == 2
    found = embed_table(embedder, table, errors="null", error_column="why", **options)
    check(found["embedding"], [None, "a cat", None, "ran", None, None], embedder)
    why = found["why"].to_pylist()
    assert [reason is None for reason in why] == [True, True, False, True, True, False]
    assert why[2].startswith("too_long: ")


@pytest.mark.parametrize("arguments, sentence", [
    ({"text_column": "none"}, "no column 'none'; it has"),
    ({"text_column": "id"}, "column 'id' of the table is of type int64, not text"),
    ({"embedding_column": "id"}, "a column 'id' already"),
    ({"error_column": "embedding"}, "both be column 'embedding'"),
    ({"errors": "skip"}, "errors 'skip' is not known"),
], ids=str)
def test_bad_arguments(embedder: warpgroup.Embedder, arguments: dict, sentence: str) -> None:
    table = pa.table({"id": [1, 2], "text": ["a", "b"]})
    with pytest.raises(warpgroup.ArgumentError, match=sentence):
        embed_table(embedder, table, **arguments)


# ----------------------------------------------------------------------------------- Parquet files


def write_inputs(folder: Path) -> tuple[list[Path], pa.Table]:
    """Two files with row groups of several sizes, and what is in both."""
    table = pa.table({
        "id": pa.array(range(50), pa.int64()),
        "text": pa.array(WITH_NULLS, pa.large_string()),
        "tags": pa.array([["x"] * (i % 3) for i in range(50)], pa.list_(pa.string())),
        "when": pa.array(range(50), pa.timestamp("us", "UTC")),
    }).replace_schema_metadata({"made": "for a test", "huggingface": "{}"})
    paths = [folder / "a.parquet", folder / "b.parquet"]
    pq.write_table(table.slice(0, 31), paths[0], row_group_size=9)
    pq.write_table(table.slice(31), paths[1])
    return paths, table


@pytest.mark.parametrize("batch_rows", [1, 7, 4096])
def test_parquet(embedder: warpgroup.Embedder, tmp_path: Path, batch_rows: int) -> None:
    paths, table = write_inputs(tmp_path)
    output = tmp_path / "out.parquet"
    summary = embed_parquet(embedder, paths, output, batch_rows=batch_rows)
    found = pq.read_table(output)
    assert summary == (50, WITH_NULLS.count(None), 0)
    assert found.drop_columns(["embedding"]).equals(table)
    check(found["embedding"], WITH_NULLS, embedder)
    assert found.schema.metadata == {b"made": b"for a test"}
    groups = pq.ParquetFile(output).metadata
    assert max(groups.row_group(i).num_rows for i in range(groups.num_row_groups)) <= batch_rows
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "b.parquet", "out.parquet"]


def test_parquet_without_rows(embedder: warpgroup.Embedder, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "in.parquet")
    assert embed_parquet(embedder, tmp_path / "in.parquet", tmp_path / "out.parquet").rows == 0
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.num_rows == 0
    assert found.schema.field("embedding").type == pa.list_(pa.float32(), 32)


def test_an_output_is_whole_or_not_there(embedder: warpgroup.Embedder, tmp_path: Path) -> None:
    texts = ["a cat"] * 30 + [None, LONG] + ["ran"] * 4
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    output = tmp_path / "out.parquet"
    options = {"batch_rows": 8, "max_length": 24, "truncate": "error"}
    with pytest.raises(warpgroup.LimitError, match="^row 31: too_long") as caught:
        embed_parquet(embedder, tmp_path / "in.parquet", output, **options)
    assert caught.value.index == 31
    assert os.listdir(tmp_path) == ["in.parquet"]
    summary = embed_parquet(embedder, tmp_path / "in.parquet", output, errors="null",
                            error_column="why", **options)
    assert summary == (36, 1, 1)
    assert pq.read_table(output)["why"].null_count == 35


def test_outputs_that_are_refused(embedder: warpgroup.Embedder, tmp_path: Path) -> None:
    paths, _ = write_inputs(tmp_path)
    with pytest.raises(warpgroup.ArgumentError, match="is an input too"):
        embed_parquet(embedder, paths, paths[1], overwrite=True)
    output = tmp_path / "out.parquet"
    output.write_bytes(b"mine")
    with pytest.raises(warpgroup.ArgumentError, match="exists; overwrite=True"):
        embed_parquet(embedder, paths, output)
    assert output.read_bytes() == b"mine"
    embed_parquet(embedder, paths, output, overwrite=True)
    assert pq.read_table(output).num_rows == 50
    with pytest.raises(warpgroup.ArgumentError, match="no input file"):
        embed_parquet(embedder, [], tmp_path / "other.parquet")


def test_files_that_do_not_fit_together(embedder: warpgroup.Embedder, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["b"], "id": [1]}), tmp_path / "b.parquet")
    with pytest.raises(warpgroup.ArgumentError, match="b.parquet has other columns"):
        embed_parquet(embedder, [tmp_path / "a.parquet", tmp_path / "b.parquet"],
                      tmp_path / "out.parquet")
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "b.parquet"]
