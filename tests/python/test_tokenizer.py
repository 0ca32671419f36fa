"""Tokenizer.decode(): the text of token ids as Hugging Face's, what is refused, threads."""
from __future__ import annotations

import array
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import DATA, cached_model, expect_lock_left, requires, run_in_threads
from warpgroup import ArgumentError, Tokenizer, UnsupportedError

BERT = DATA / "tiny-bert-h32-d8-mean" / "tokenizer.json"
BYTE_LEVEL = DATA / "cases" / "tok-llama3like.tokenizer.json"
LLAMA2 = DATA / "cases" / "tok-llama2like.tokenizer.json"
TEXTS = ["", "the cat ran", "Don't stop . It's 3 , 4 ! we 're", "naïve 東京\u0301 \U0001f600 x",
         "  two  spaces\n\ttab ", "a\0b", "<s> the </s> <mask> [SEP] [CLS] <extra>"]
MARK = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
SPACE = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
DECODERS: list[dict[str, Any] | None] = [
    None,
    {"type": "Sequence", "decoders": [MARK, {"type": "ByteFallback"}, {"type": "Fuse"}, SPACE]},
    {"type": "Sequence", "decoders": [MARK, SPACE, {"type": "ByteFallback"}]},
    {"type": "Sequence", "decoders": []},
    {"type": "Replace", "pattern": {"Regex": "[a-e]+|\u2581"}, "content": "-"},
    {"type": "Strip", "content": "\u2581", "start": 2, "stop": 0},
    {"type": "Strip", "content": "e", "start": 0, "stop": 1},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
    {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": False},
    {"type": "WordPiece", "prefix": "\u2581", "cleanup": True},
    {"type": "WordPiece", "prefix": "##", "cleanup": False},
    {"type": "BPEDecoder", "suffix": "\u2581"},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(BYTE_LEVEL)


def with_decoder(path: Path, decoder: dict[str, Any] | None, folder: Path) -> Path:
    """The tokenizer of path, with another decoder."""
    pipeline = json.loads(path.read_text(encoding="utf-8"))
    pipeline["decoder"] = decoder
    made = folder / "tokenizer.json"
    made.write_text(json.dumps(pipeline), encoding="utf-8")
    return made


def check_as_theirs(path: Path, rng: np.random.Generator) -> None:
    """Decodes what texts give and what chance gives, as Hugging Face tokenizers do."""
    import tokenizers

    theirs = tokenizers.Tokenizer.from_file(str(path))
    theirs.no_truncation()
    theirs.no_padding()
    ours = Tokenizer(path)
    count = theirs.get_vocab_size()
    sequences = [theirs.encode(text).ids for text in TEXTS]
    sequences += [rng.integers(0, count, int(rng.integers(1, 40))).tolist() for _ in range(200)]
    sequences += [[0], [count], [2**31 - 1, 5, count + 7], list(range(min(count, 300)))]
    for skip in (True, False):
        expected = [theirs.decode(ids, skip_special_tokens=skip) for ids in sequences]
        for ids, text in zip(sequences, expected):
            assert ours.decode(ids, skip_special_tokens=skip) == text, ids
        assert ours.decode_batch(sequences, skip_special_tokens=skip) == expected
    expected = theirs.decode_batch(sequences)  # the same defaults
    assert [ours.decode(ids) for ids in sequences] == ours.decode_batch(sequences) == expected


@pytest.mark.parametrize("path", [BERT, BYTE_LEVEL, LLAMA2], ids=lambda path: path.name)
def test_as_hugging_face_tokenizers(path: Path, rng: np.random.Generator) -> None:
    requires("tokenizers")
    check_as_theirs(path, rng)


def test_minilm_as_hugging_face_tokenizers(rng: np.random.Generator) -> None:
    requires("tokenizers")
    check_as_theirs(cached_model("all-MiniLM-L6-v2") / "tokenizer.json", rng)


@pytest.mark.parametrize("decoder", DECODERS, ids=json.dumps)
def test_every_decoder_as_hugging_face_tokenizers(
    decoder: dict[str, Any] | None, tmp_path: Path, rng: np.random.Generator
) -> None:
    requires("tokenizers")
    check_as_theirs(with_decoder(LLAMA2, decoder, tmp_path), rng)


def test_texts_come_back(tokenizer: Tokenizer) -> None:
    for text in TEXTS[:-1]:  # the last one spells special tokens
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode(ids, False) == "<s>" + text
    bert = Tokenizer(BERT)
    ids = bert.encode("the cat ran")
    assert bert.decode(ids) == "the cat ran"
    assert bert.decode(ids, skip_special_tokens=False) == "[CLS] the cat ran [SEP]"
    rows = bert.encode_batch(["the cat", "", "ran"])
    assert bert.decode_batch(rows) == ["the cat", "", "ran"]
    assert bert.decode_batch([]) == []


@pytest.mark.parametrize("times", [1, 100])  # few ids, and enough for the lock to be given up
def test_ids_of_any_form(tokenizer: Tokenizer, times: int) -> None:
    text = "the cat ran naïve 東京 " * times
    ids = tokenizer.encode(text)
    for dtype in (np.int32, np.int64):
        row = np.array(ids, dtype)
        assert tokenizer.decode(row) == text
        assert row.tolist() == ids
    assert tokenizer.decode(tuple(ids)) == text
    assert tokenizer.decode(array.array("i", ids)) == text


def test_no_ids(tokenizer: Tokenizer) -> None:
    for none in ([], (), np.zeros(0, np.int32), np.zeros(0, np.int64)):
        assert tokenizer.decode(none) == ""
        assert tokenizer.decode(none, False) == ""


@pytest.mark.parametrize("before", [2, 600])  # likewise
def test_ids_are_checked(tokenizer: Tokenizer, before: int) -> None:
    good = [5] * before
    for bad in (-1, -(2**31), 2**31, 2**70):
        with pytest.raises(ArgumentError, match=rf"\b{before}\b") as caught:
            tokenizer.decode([*good, bad, 5])
        assert isinstance(caught.value, ValueError)
    for dtype, bad in ((np.int32, -7), (np.int64, -7), (np.int64, 2**31)):
        with pytest.raises(ArgumentError, match=rf"\b{before}\b"):
            tokenizer.decode(np.array([*good, bad, 5], dtype))
    for wrong in ("ids", 5, None, [1.0], np.zeros(3), np.zeros(3, np.uint32), {1: 2}):
        with pytest.raises(TypeError, match="^ids"):
            tokenizer.decode(wrong)  # type: ignore[arg-type]
    assert tokenizer.decode(tokenizer.encode("the cat")) == "the cat"  # and goes on


def test_a_decoder_that_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    tokenizer = Tokenizer(with_decoder(BERT, {"type": "Clairvoyant"}, tmp_path))
    ids = tokenizer.encode("the cat")
    assert ids == Tokenizer(BERT).encode("the cat")
    with pytest.raises(UnsupportedError, match="Clairvoyant"):
        tokenizer.decode(ids)


def test_many_threads_share_a_tokenizer(tokenizer: Tokenizer, rng: np.random.Generator) -> None:
    rows = [rng.integers(0, tokenizer.vocab_size, 60 * i).astype(np.int32) for i in range(30)]
    expected = [(tokenizer.decode(row), tokenizer.decode(row, False)) for row in rows]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(20):
            for i, row in enumerate(rows):
                if (tokenizer.decode(row), tokenizer.decode(row, False)) != expected[i]:
                    wrong.append(i)

    run_in_threads(work)
    assert len({text for text, _ in expected}) == len(rows)
    assert not wrong


def test_decoding_leaves_the_lock(tokenizer: Tokenizer) -> None:
    row = np.array(tokenizer.encode("the signal of a cat ran " * 4000) * 80, np.int32)
    expect_lock_left(lambda: tokenizer.decode(row))
