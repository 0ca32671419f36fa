"""ingest() and Tokenizer: every document once, ids as Hugging Face's, ends, threads, Ctrl-C."""
from __future__ import annotations

import gc
import gzip
import json
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpgroup
from conftest import (DATA, ROOT, expect_lock_left, requires, run_in_threads, run_python,
                      start_python)
from warpgroup import ArgumentError, ClosedError, Engine, Error, Tokenizer, UnsupportedError, ingest

MODEL = DATA / "tiny-bert-h32-d8-mean"
CORPUS = ROOT / "examples" / "corpus"
BIN = 256
WORDS = ["a", "cat", "the", "signal", "ran", "of", "1", "zebra", "naïve", "東京"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(MODEL)


def text_of(rng: np.random.Generator, longest: int) -> str:
    return " ".join(WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(1, longest)))


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def take_all(engine: Engine) -> dict[int, list[int]]:
    """Sequence id to token ids of all that the engine hands out."""
    found: dict[int, list[int]] = {}
    for packed in engine:
        ids, bounds = packed.input_ids.numpy(), packed.cu_seqlens.tolist()
        for i, number in enumerate(packed.ids):
            assert number not in found
            found[int(number)] = ids[bounds[i]:bounds[i + 1]].tolist()
        packed.release()
    return found


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Text, records, compressed records, a PDF and one that was only scanned."""
    (tmp_path / "a-note.txt").write_text("a cat ran\n", encoding="utf-8")
    write_lines(tmp_path / "b-records.jsonl",
                [{"id": i, "text": text_of(rng, 60)} for i in range(50)]
                + [{"id": "without text"}, {"id": "long", "text": "cat " * 1000}])
    packed = "".join(json.dumps({"id": f"gz-{i}", "text": text_of(rng, 9)}) + "\n"
                     for i in range(5))
    (tmp_path / "c-packed.jsonl.gz").write_bytes(gzip.compress(packed.encode()))
    shutil.copy(CORPUS / "papers" / "bakery-2.pdf", tmp_path / "d-paper.pdf")
    shutil.copy(CORPUS / "papers" / "scanned-page.pdf", tmp_path / "e-scan.pdf")
    return tmp_path


# --------------------------------------------------------------------------------- tokenizer

def test_tokenizer_forms_agree(tokenizer: Tokenizer, rng: np.random.Generator) -> None:
    texts = [text_of(rng, 40) for _ in range(30)] + ["", "a"]
    ids, cu_seqlens = tokenizer.encode_packed(texts)
    rows = tokenizer.encode_batch(texts)
    assert ids.dtype == cu_seqlens.dtype == np.int32
    assert len(rows) == len(texts) == len(cu_seqlens) - 1
    for i, text in enumerate(texts):
        alone = tokenizer.encode(text)
        assert rows[i].dtype == np.int32 and rows[i].tolist() == alone
        assert ids[cu_seqlens[i]:cu_seqlens[i + 1]].tolist() == alone
        assert max(alone) < tokenizer.vocab_size
    assert tokenizer.encode_batch([]) == []


def test_tokenizer_options(tokenizer: Tokenizer) -> None:
    whole = tokenizer.encode("the signal of a cat ran")
    plain = tokenizer.encode("the signal of a cat ran", add_special_tokens=False)
    assert whole[1:-1] == plain
    head = tokenizer.encode("the signal of a cat ran", max_length=5)
    tail = tokenizer.encode("the signal of a cat ran", max_length=5, truncate="tail")
    assert head == [whole[0], *plain[:3], whole[-1]]
    assert tail == [whole[0], *plain[-3:], whole[-1]]
    pair = tokenizer.encode("a cat", "ran")
    assert pair == [*tokenizer.encode("a cat"), *tokenizer.encode("ran")[1:]]
    assert tokenizer.encode_batch(["a cat"], ["ran"])[0].tolist() == pair


def test_tokenizer_refusals(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(warpgroup.LimitError, match="text 1"):
        tokenizer.encode_batch(["a", "a cat " * 9], max_length=5, truncate="error")
    with pytest.raises(ArgumentError, match="'middle'"):
        tokenizer.encode("a", truncate="middle")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="-1"):
        tokenizer.encode("a", max_length=-1)
    with pytest.raises(ArgumentError, match="2 texts and 1 pairs"):
        tokenizer.encode_batch(["a", "b"], ["c"])
    with pytest.raises(TypeError, match=r"texts\[1\]"):
        tokenizer.encode_batch(["a", 1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="not one str"):
        tokenizer.encode_batch("a cat")
    with pytest.raises(warpgroup.FileError, match="nobody"):
        Tokenizer(tmp_path / "nobody")


def test_many_threads_share_a_tokenizer(tokenizer: Tokenizer, rng: np.random.Generator) -> None:
    texts = [text_of(rng, 200) for _ in range(200)]
    expected = [tokenizer.encode(text) for text in texts]
    wrong: list[str] = []

    def work() -> None:
        for text, ids in zip(texts, expected):
            if tokenizer.encode(text) != ids:
                wrong.append(text)
        if [row.tolist() for row in tokenizer.encode_batch(texts)] != expected:
            wrong.append("batch")

    run_in_threads(work)
    assert not wrong


def test_tokenizing_leaves_the_lock(tokenizer: Tokenizer) -> None:
    texts = ["the signal of a cat ran " * 4000] * 80
    expect_lock_left(lambda: tokenizer.encode_flat(texts))


# ------------------------------------------------------------------------------------- ingest

def check(files: warpgroup.Ingest, found: dict[int, list[int]], first_id: int = 0) -> None:
    documents = files.documents
    assert sorted(documents) == list(range(first_id, first_id + len(documents)))
    assert [d for d in documents.values() if d.code] == files.failures
    assert set(found) == {number for number, d in documents.items() if not d.code}
    for number, ids in found.items():
        assert documents[number].tokens == len(ids) and documents[number].reason == ""
    counts = files.counts
    assert counts["documents"] == len(documents)
    assert counts["submitted"] == len(found) and counts["failed"] == len(files.failures)
    assert counts["tokens"] == sum(map(len, found.values()))


def test_every_document_once(folder: Path, tokenizer: Tokenizer) -> None:
    with Engine(BIN) as engine, ingest(engine, folder, MODEL, first_id=100) as files:
        found = take_all(engine)
        assert files.wait()
        check(files, found, first_id=100)
        documents = list(files.documents.values())
        assert [d.id for d in documents[1:51]] == list(range(50))
        assert [d.id for d in documents[53:58]] == [f"gz-{i}" for i in range(5)]
        assert documents[0].source == str(folder / "a-note.txt")
        assert (documents[7].place_kind, documents[7].place) == ("line", 7)
        assert {d.id: d.code for d in files.failures} == {
            "without text": "no_text", str(folder / "e-scan.pdf"): "no_text_layer"}
        assert all(d.reason for d in files.failures)
        assert documents[52].is_truncated and documents[52].tokens == BIN
        lines = (folder / "b-records.jsonl").read_text(encoding="utf-8").splitlines()
        for i, line in enumerate(lines[:50]):
            assert found[101 + i] == tokenizer.encode(json.loads(line)["text"])
        assert len(found[158]) > 20  # the PDF
    assert files.closed and files.counts["submitted"] == len(found)
    assert files.documents[100].id == str(folder / "a-note.txt")  # also after the end


@pytest.mark.parametrize("truncate", ["head", "tail", "error"])
def test_limits_and_prompt(folder: Path, tokenizer: Tokenizer, truncate: Any) -> None:
    path = folder / "b-records.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    with Engine(BIN) as engine:
        files = ingest(engine, [path], tokenizer, max_length=16, truncate=truncate, prompt="of a: ")
        found = take_all(engine)
        assert files.wait(10)
        for i, record in enumerate(records):
            whole = tokenizer.encode("of a: " + record.get("text", ""))
            if "text" not in record:
                assert files.documents[i].code == "no_text"
            elif truncate == "error" and len(whole) > 16:
                assert files.documents[i].code == "too_long" and i not in found
            else:
                assert found[i] == tokenizer.encode("of a: " + record["text"], max_length=16,
                                                    truncate=truncate)
                assert files.documents[i].is_truncated == (len(whole) > 16)


def test_ready_ids(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "ids.jsonl", [
        {"key": "a", "tokens": [1, 2, 3]}, {"key": "b", "tokens": []}, {"key": "c", "tokens": [-1]}])
    with Engine(BIN) as engine:
        files = ingest(engine, path, ids_field="tokens", id_field="key")
        assert take_all(engine) == {0: [1, 2, 3]}
        assert [d.id for d in files.documents.values()] == ["a", "b", "c"]
        assert [d.code for d in files.failures] == ["no_tokens", "bad_json"]
        with pytest.raises(ArgumentError, match="ids_field"):
            ingest(engine, path)


def test_several_feed_one_engine(folder: Path, tokenizer: Tokenizer) -> None:
    with Engine(BIN, slots=4) as engine:
        found: dict[int, list[int]] = {}
        taker = threading.Thread(target=lambda: found.update(take_all(engine)))
        taker.start()
        several = [ingest(engine, folder, tokenizer, first_id=1000 * i, keep_open=True)
                   for i in range(3)]
        for files in several:
            assert files.wait(60)
        engine.finish()
        taker.join()
        each = [{number: ids for number, ids in found.items() if number // 1000 == i}
                for i in range(3)]
        for i, files in enumerate(several):
            check(files, each[i], first_id=1000 * i)
            assert sorted(each[i].values()) == sorted(each[0].values())
            files.close()


def test_documents_of_a_bin_are_known(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = write_lines(tmp_path / "many.jsonl", [{"id": i, "text": "a cat"} for i in range(3000)])
    with Engine(16, pending_bytes=1) as engine, ingest(engine, path, tokenizer) as files:
        for packed in engine:
            for number in packed.ids:
                assert files.documents.pop(int(number)).id == number
            packed.release()
        assert files.documents == {}


# --------------------------------------------------------------------------------------- ends

@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """More than an engine takes in while nobody takes bins."""
    path = tmp_path / "endless.jsonl"
    path.write_text(json.dumps({"text": "the signal of a cat ran " * 20}) + "\n", encoding="utf-8")
    line = path.read_text(encoding="utf-8")
    path.write_text(line * 20000, encoding="utf-8")
    return path


def test_waiting_leaves_the_lock(endless: Path, tokenizer: Tokenizer) -> None:
    with Engine(BIN, pending_bytes=1) as engine, ingest(engine, endless, tokenizer) as files:
        thread = threading.Thread(target=files.wait, args=(0.5,))
        turns = 0
        thread.start()
        while thread.is_alive():
            time.sleep(0.001)
            turns += 1
        assert turns > 50  # about ten, one a slice, where the lock was held


def test_timeout_then_stop(endless: Path, tokenizer: Tokenizer) -> None:
    with Engine(BIN, pending_bytes=1) as engine:
        files = ingest(engine, endless, tokenizer)
        begin = time.monotonic()
        assert not files.wait(0.1)
        assert 0.09 < time.monotonic() - begin < 5
        files.stop()
        with pytest.raises(Error, match="stopped"):
            files.wait(10)
        found = take_all(engine)  # the input was finished by the stop
        assert 0 < len(found) == files.counts["submitted"] < 20000
        files.close()
        with pytest.raises(Error, match="stopped"):
            files.wait()


def test_engine_is_stopped(endless: Path, tokenizer: Tokenizer) -> None:
    engine = Engine(BIN, pending_bytes=1)
    files = ingest(engine, endless, tokenizer)
    assert not files.wait(0.02)
    engine.close()
    with pytest.raises(ClosedError):
        files.wait(10)
    with pytest.raises(ClosedError), ingest(Engine(BIN), endless, tokenizer) as files:
        files.engine.stop()
        while not files.wait(0.01):
            pass
    with pytest.raises(ClosedError):
        ingest(engine, endless, tokenizer)


def test_end_of_the_block_tells(endless: Path, tokenizer: Tokenizer) -> None:
    engine = Engine(BIN, pending_bytes=1)
    with pytest.raises(ClosedError):
        with ingest(engine, endless, tokenizer) as files:
            engine.stop()
            time.sleep(0.5)
    assert files.closed


def test_dropped_while_it_runs(endless: Path, tokenizer: Tokenizer) -> None:
    engine = Engine(BIN, pending_bytes=1)
    before = sys.getrefcount(engine), sys.getrefcount(tokenizer)
    for _ in range(10):
        files = ingest(engine, endless, tokenizer, keep_open=True)
        assert sys.getrefcount(engine) == before[0] + 1
        del files
    gc.collect()
    assert (sys.getrefcount(engine), sys.getrefcount(tokenizer)) == before
    files = ingest(engine, endless, tokenizer)
    del engine  # the ingest keeps it
    assert not files.wait(0.02)
    packed = files.engine.next(timeout=10)
    assert packed is not None and len(packed) > 0
    packed.release()


def test_closed_under_a_wait(endless: Path, tokenizer: Tokenizer) -> None:
    engine = Engine(BIN, pending_bytes=1)
    files = ingest(engine, endless, tokenizer)
    ends: list[BaseException] = []

    def work() -> None:
        try:
            files.wait()
        except Error as error:
            ends.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.05)
    files.close()
    thread.join(10)
    assert not thread.is_alive() and len(ends) == 1


CHILD = f"""
import os, signal, sys, time, warpgroup
def start(path):
    return warpgroup.ingest(warpgroup.Engine({BIN}, pending_bytes=1), path, {str(MODEL)!r})
"""


def test_ctrl_c_in_wait(endless: Path) -> None:
    child = start_python(CHILD + f"""
files = start({str(endless)!r})
print("ready", flush=True)
try:
    files.wait()
except KeyboardInterrupt:
    print("interrupted", time.monotonic())
print(files.wait(0))
""")
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    time.sleep(0.2)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    try:
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 0, out + err
    word, seen, done = out.split()
    assert (word, done) == ("interrupted", "False")
    assert float(seen) - sent < 1.0  # a slice is 0.05 s; the rest is for a busy machine


def test_exit_while_it_runs(endless: Path) -> None:
    assert run_python(CHILD + f"files = start({str(endless)!r}); print('end')") == "end\n"


def test_fork(endless: Path) -> None:
    out = run_python(CHILD + f"""
import warnings
warnings.simplefilter("ignore")
files = start({str(endless)!r})
tokenizer = warpgroup.Tokenizer({str(MODEL)!r})
expected = tokenizer.encode("a cat")
child = os.fork()
if child == 0:
    try:
        files.wait(1)
    except warpgroup.Error as error:
        print("fork" in str(error), tokenizer.encode("a cat") == expected, flush=True)
    del files
    os._exit(0)
os.waitpid(child, 0)
print(files.wait(0), flush=True)
""")
    assert out == "True True\nFalse\n"


def test_refusals(tmp_path: Path, tokenizer: Tokenizer) -> None:
    engine = Engine(BIN)
    for keywords, word in [({"truncate": "middle"}, "middle"), ({"format": "docx"}, "docx"),
                           ({"max_length": -1}, "-1"), ({"prompt": "a\0b"}, "NUL"),
                           ({"priority": 3}, "class 3")]:
        with pytest.raises(ArgumentError, match=word):
            ingest(engine, tmp_path, tokenizer, **keywords)
    with pytest.raises(TypeError, match="Engine"):
        ingest("engine", tmp_path, tokenizer)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tokenizer"):
        ingest(engine, tmp_path, 3)
    with pytest.raises(TypeError, match="text_field"):
        ingest(engine, tmp_path, tokenizer, text_field=3)  # type: ignore[arg-type]
    files = ingest(engine, tmp_path / "nobody.txt", tokenizer)
    assert files.wait(10) and [d.code for d in files.failures] == ["io"]


# ------------------------------------------------------------------------------- Hugging Face

def test_as_hugging_face_tokenizers(folder: Path) -> None:
    requires("tokenizers")
    import tokenizers

    theirs = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    theirs.enable_truncation(4)
    theirs.enable_padding(length=300)
    with Engine(BIN) as engine:
        files = ingest(engine, folder / "b-records.jsonl", theirs)
        found = take_all(engine)
        assert files.wait(10)
    theirs.no_padding()
    theirs.enable_truncation(BIN)
    for i, line in enumerate((folder / "b-records.jsonl").read_text(encoding="utf-8").splitlines()):
        record = json.loads(line)
        if "text" in record:
            assert found[i] == theirs.encode(record["text"]).ids


def test_a_tokenizer_of_transformers(folder: Path, tmp_path: Path) -> None:
    requires("transformers")
    import transformers

    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(MODEL / "tokenizer.json"), model_max_length=20)
    own = tmp_path / "saved"
    theirs.save_pretrained(own)
    for given in (theirs, own):
        with Engine(BIN) as engine:
            files = ingest(engine, folder / "b-records.jsonl", given)
            found = take_all(engine)
        assert files.documents[51].tokens == 20
        assert found[51] == theirs("cat " * 1000, truncation=True)["input_ids"]
    theirs.model_max_length = int(1e30)
    with Engine(BIN) as engine:
        files = ingest(engine, folder / "b-records.jsonl", theirs)
        take_all(engine)
    assert files.documents[51].tokens == BIN


def test_what_is_not_implemented_is_refused_by_name(tmp_path: Path) -> None:
    pipeline = json.loads((MODEL / "tokenizer.json").read_text(encoding="utf-8"))
    pipeline["pre_tokenizer"] = {"type": "Clairvoyant"}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(pipeline), encoding="utf-8")
    for given in (path, FakeTokenizer(json.dumps(pipeline))):
        with pytest.raises(UnsupportedError, match=r"Clairvoyant.*tokenise yourself.*submit"):
            ingest(Engine(BIN), tmp_path, given)


class FakeTokenizer:
    """Has what is asked of a tokenizers.Tokenizer."""

    def __init__(self, text: str) -> None:
        self._text = text

    def to_str(self) -> str:
        return self._text


def test_a_slow_tokenizer_is_refused(tmp_path: Path) -> None:
    class Slow:
        def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]:
            return []

    with pytest.raises(UnsupportedError, match="Slow.*slow tokenizer"):
        ingest(Engine(BIN), tmp_path, Slow())
