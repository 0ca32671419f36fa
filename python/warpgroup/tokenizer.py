"""Tokenizer: text to token ids and back by the C library, and what it can be made of."""
from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from warpgroup import _core
from warpgroup._core import UnsupportedError

Truncate = Literal["head", "tail", "error"]

# transformers says "no limit" with 10^30.
_LIMIT_MAX = 2**31 - 1


class Tokenizer(_core.Tokenizer):
    """Text to token ids and back; equal to what Hugging Face ``tokenizers`` gives.

    ``path`` is a model directory that holds tokenizer.json, that file, or a GGUF file. What the
    file asks for and is not implemented is refused by name (UnsupportedError); a file that is
    malformed is a FormatError. Read-only: threads may share it.

    ``encode(text, pair=None, *, max_length=0, truncate="head", add_special_tokens=True)`` gives
    the ids of one text, or of a pair, as a list. ``max_length`` counts special tokens; 0 is no
    limit. ``truncate`` says what is kept of a longer text: its ``"head"``, its ``"tail"``, or
    nothing, which is a LimitError.

    ``decode(ids, skip_special_tokens=True)`` gives the text that token ids stand for: a list or
    tuple of ints, or an array of int32 or int64 [T]. An id below 0 or above 2^31 - 1 is an
    ArgumentError that names its place; one that no token has gives nothing. A decoder that is not
    implemented is refused when it is used (UnsupportedError), not when the file is opened.
    """

    def encode_batch(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int = 0,
        truncate: Truncate = "head",
        add_special_tokens: bool = True,
    ) -> list[npt.NDArray[np.int32]]:
        """The ids of each text, int32; without the interpreter lock. Errors name the text."""
        ids, cu_seqlens = self.encode_packed(
            texts,
            pairs,
            max_length=max_length,
            truncate=truncate,
            add_special_tokens=add_special_tokens,
        )
        return np.split(ids, cu_seqlens[1:-1]) if len(cu_seqlens) > 1 else []

    def encode_packed(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int = 0,
        truncate: Truncate = "head",
        add_special_tokens: bool = True,
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """``(ids [T], cu_seqlens [S + 1])``, int32, as ``Engine.submit_many()`` takes them."""
        ids, cu_seqlens = self.encode_flat(
            texts,
            pairs,
            max_length=max_length,
            truncate=truncate,
            add_special_tokens=add_special_tokens,
        )
        return np.frombuffer(ids, np.int32), np.frombuffer(cu_seqlens, np.int32)

    def decode_batch(
        self,
        sequences: Iterable[Sequence[int] | npt.NDArray[np.integer[Any]]],
        skip_special_tokens: bool = True,
    ) -> list[str]:
        """The text of each sequence of ids, as ``decode()`` gives it."""
        return [self.decode(ids, skip_special_tokens) for ids in sequences]


def open_tokenizer(tokenizer: Any) -> tuple[_core.Tokenizer, int | None]:
    """A tokenizer of ours for ``tokenizer``, and the limit in tokens that comes with it, if any.

    ``tokenizer`` is a Tokenizer, a path as Tokenizer takes it, a fast tokenizer of transformers or
    one of ``tokenizers``. Truncation and padding that are set in one of the latter do not apply.
    Raises UnsupportedError where it does something that is not implemented here.
    """
    if isinstance(tokenizer, _core.Tokenizer):
        return tokenizer, None
    if isinstance(tokenizer, (str, bytes, os.PathLike)):
        return _open(tokenizer), _limit_of_directory(os.fspath(tokenizer))
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    to_str = getattr(backend, "to_str", None)
    if to_str is None:
        if hasattr(tokenizer, "convert_tokens_to_ids"):
            raise UnsupportedError(
                f"{type(tokenizer).__name__} is written in Python (a slow tokenizer): use the fast "
                "one, or tokenise yourself and hand the ids to engine.submit()"
            )
        raise TypeError(
            "tokenizer must be a warpgroup.Tokenizer, a path, a fast tokenizer of transformers or "
            f"a tokenizers.Tokenizer, not {type(tokenizer).__name__}"
        )
    with tempfile.TemporaryDirectory(prefix="warpgroup-") as folder:
        path = os.path.join(folder, "tokenizer.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(to_str())
        return _open(path, type(tokenizer).__name__), _limit(
            getattr(tokenizer, "model_max_length", None)
        )


def _open(path: str | bytes | os.PathLike[Any], name: str | None = None) -> Tokenizer:
    try:
        return Tokenizer(path)
    except UnsupportedError as error:
        whose = f"{name}: " if name else ""
        raise UnsupportedError(
            f"{whose}{error}; tokenise yourself and hand the ids to engine.submit()"
        ) from error


def _limit(value: Any) -> int | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= _LIMIT_MAX:
        return int(value)
    return None


def _limit_of_directory(path: str | bytes) -> int | None:
    """model_max_length, as transformers would take it from the same directory."""
    name = os.path.join(os.fsdecode(path), "tokenizer_config.json")
    try:
        with open(name, encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    return _limit(config.get("model_max_length")) if isinstance(config, dict) else None
