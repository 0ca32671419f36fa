"""Embedder: texts in, vectors out, with the names of sentence-transformers.

The vector of a text does not depend on what else is in the call, on the order, or on the number of
threads, and it is byte for byte what ``warpgroup embed`` writes for the same options. The C library
does the work, without the interpreter lock; what is here is names, prompts and arrays.
"""
from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple

import numpy as np

from warpgroup._core import ArgumentError, FormatError, Model, UnsupportedError
from warpgroup.checks import check_counts

SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


class Failure(NamedTuple):
    """A text that got no vector."""

    index: int
    """Its place in the list given to encode()."""
    code: str
    """"too_long", "no_tokens", "not_finite", ...: the codes of failures.jsonl."""
    reason: str
    """A sentence."""


class _Progress:
    """A bar of tqdm where it can be imported, else a line on standard error now and then."""

    LINE_SECONDS = 2.0

    def __init__(self, count: int) -> None:
        self._count = count
        self._bar: Any = None
        self._said = time.monotonic()
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self._bar = tqdm(total=count, desc="Texts", unit="text")

    def tick(self, done: int, count: int) -> None:
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif done == count or time.monotonic() - self._said >= self.LINE_SECONDS:
            self._said = time.monotonic()
            print(f"warpgroup: {done} of {count} texts", file=sys.stderr, flush=True)

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()


def _check_device(device: Any) -> None:
    name = "cpu" if device is None else str(device)
    if name not in ("cpu", "auto"):
        raise UnsupportedError(f"device {name!r}: Embedder runs on the CPU; for a GPU give a "
                               "Hugging Face model to warpgroup.VarlenModel")


def _read_settings(model_dir: str) -> dict[str, Any]:
    """config_sentence_transformers.json of a model directory; {} where there is none."""
    path = os.path.join(model_dir, "config_sentence_transformers.json")
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from error
    return settings if isinstance(settings, dict) else {}


class Embedder:
    """A sentence embedding model.

    model_dir: a Hugging Face or sentence-transformers directory, or one .gguf file.
    device: "cpu" (None and "auto" mean the same).
    prompts: {name: text}, over those of the model directory; default_prompt_name: the one that
        encode() puts before each text when no other is asked for.
    truncate_dim, max_length, batch_tokens, memory, threads: defaults of encode().
    similarity_fn_name: "cosine", "dot", "euclidean" or "manhattan"; None: as the directory says,
        else "cosine".
    backend, isa: as of warpgroup.Model.

    Raises a kind of warpgroup.Error when the model cannot be used. Several threads may call one
    Embedder at once. It can be pickled, and it can be used after fork: the other process opens the
    model again at its first call.
    """

    def __init__(self, model_dir: str | os.PathLike[str], *, device: Any = "cpu",
                 prompts: Mapping[str, str] | None = None, default_prompt_name: str | None = None,
                 truncate_dim: int | None = None, max_length: int | None = None,
                 batch_tokens: int | Literal["auto"] = "auto", memory: int | None = None,
                 threads: int = 0, similarity_fn_name: str | None = None,
                 backend: str | None = None, isa: str | None = None) -> None:
        _check_device(device)
        self.model_dir = os.fspath(model_dir)
        self.truncate_dim = truncate_dim
        self.batch_tokens = batch_tokens
        self.memory = memory
        self.threads = threads
        self._max_length = max_length
        self._open_options = {"backend": backend, "isa": isa}
        self._open()

        settings = _read_settings(self.model_dir)
        self.prompts: dict[str, str] = {"query": "", "document": ""}
        self.prompts.update({name: text or "" for name, text in
                             (settings.get("prompts") or {}).items()})
        self.prompts.update(prompts or {})
        self.default_prompt_name = default_prompt_name or settings.get("default_prompt_name")
        self._prompt_text(None, self.default_prompt_name)
        self.similarity_fn_name = (similarity_fn_name or settings.get("similarity_fn_name")
                                   or "cosine")
        if self.similarity_fn_name not in SIMILARITIES:
            raise ArgumentError(f"similarity_fn_name {self.similarity_fn_name!r} is not known: "
                                f"{', '.join(SIMILARITIES)}")

    # ------------------------------------------------------------------------------- the model

    def _open(self) -> None:
        self._model = Model(self.model_dir, **self._open_options)
        self._process = os.getpid()
        self._info: dict[str, Any] = self._model.info

    @property
    def model(self) -> Model:
        """The open model of this process."""
        if self._process != os.getpid():
            self._open()
        return self._model

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items()
                if name not in ("_model", "_process", "_info")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __repr__(self) -> str:
        return f"Embedder({self.model_dir!r})"

    @property
    def info(self) -> dict[str, Any]:
        """What is known of the model: architecture, sizes, pooling and which rule decided it."""
        return dict(self._info)

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def max_seq_length(self) -> int:
        """Tokens kept of a text, special ones included, when encode() is not told otherwise."""
        return self._max_length or self._info["token_count_default"]

    @max_seq_length.setter
    def max_seq_length(self, value: int | None) -> None:
        self._max_length = value

    def get_embedding_dimension(self) -> int:
        """Floats in one vector."""
        return self.truncate_dim or self._info["dim"]

    def get_sentence_embedding_dimension(self) -> int:
        """The same, under its older name."""
        return self.get_embedding_dimension()

    # --------------------------------------------------------------------------------- encode

    def _prompt_text(self, prompt: str | None, name: str | None) -> str:
        if prompt is not None:
            return prompt
        name = name if name is not None else self.default_prompt_name
        if name is None:
            return ""
        if name not in self.prompts:
            raise ArgumentError(f"prompt name {name!r} is not known; the prompts of this model are "
                                f"{sorted(self.prompts)}")
        return self.prompts[name]

    def _normalize(self, wanted: bool | None) -> bool | None:
        """sentence-transformers' False adds nothing to the model's own modules; it does not take
        their Normalize away. Where no module asks for it (a rule by architecture), False is no."""
        if wanted is False and self._info["normalize_rule"] != "architecture":
            return None
        return wanted

    def encode(self, sentences: str | bytes | Sequence[str | bytes] | Iterable[str | bytes], *,
               prompt_name: str | None = None, prompt: str | None = None,
               batch_size: int | None = None, show_progress_bar: bool | None = False,
               convert_to_numpy: bool = True, convert_to_tensor: bool = False,
               normalize_embeddings: bool | None = None, truncate_dim: int | None = None,
               max_length: int | None = None, truncate: Literal["head", "tail", "error"] = "head",
               pooling: str | None = None, plain_specials: bool = False,
               batch_tokens: int | Literal["auto"] | None = None, memory: int | None = None,
               threads: int | None = None, errors: Literal["raise", "nan"] = "raise",
               failures: list[Failure] | None = None) -> Any:
        """Embeds texts: float32 array [n, dim] in input order, or [dim] for a single text.

        sentences: one text or any iterable of them; str, or bytes of UTF-8. In a str a lone
            surrogate counts as U+FFFD. An empty list gives shape (0, dim).
        prompt, prompt_name: a text put before each, or the name of one in `prompts`; prompt wins.
        batch_size: taken for the sake of code written for sentence-transformers, without effect:
            bins are cut by tokens (batch_tokens), and no vector depends on its bin.
        show_progress_bar: a bar of tqdm, or lines on standard error where tqdm is not installed.
        convert_to_tensor: a torch tensor; convert_to_numpy=False: a list of torch tensors.
        normalize_embeddings: None as the model says (the CLI's default); True always; False adds
            nothing to the model's own modules, as in sentence-transformers: a model with a
            Normalize module gives unit vectors all the same.
        truncate_dim: the first floats of each vector only; dim becomes this.
        max_length: tokens kept of a text, special ones included. truncate: "head" or "tail" keep
            the first or last tokens of a longer one, "error" fails it.
        pooling: None as the model says, or "mean", "cls", "last", "max", "weightedmean",
            "mean_sqrt_len_tokens".
        plain_specials: special tokens written in a text are plain text.
        batch_tokens: tokens of one bin; "auto": what suits the machine. memory: bytes that the
            process may take; None: what the machine leaves. threads: 0: one a core.
        errors: "raise": the first text that fails raises, and the exception's `index` is its place
            in the list. "nan": its row is NaN, the rest go on; a warning says how many, unless
            `failures`, a list, is given: a Failure is appended to it for each.

        Raises ArgumentError, LimitError (a text too long with truncate="error"), OutOfMemoryError,
        TypeError (naming the index), and KeyboardInterrupt within a second of Ctrl-C.
        """
        if errors not in ("raise", "nan"):
            raise ArgumentError(f"errors {errors!r} is not known: raise, nan")
        is_single = isinstance(sentences, (str, bytes))
        texts = [sentences] if is_single else list(sentences)
        truncate_dim = truncate_dim if truncate_dim is not None else self.truncate_dim
        if truncate_dim is not None:
            check_counts(truncate_dim=(truncate_dim, 2**31 - 1))
        if failures is not None and not isinstance(failures, list):
            raise TypeError(f"failures must be a list or None, not {failures!r}")
        tokens = batch_tokens if batch_tokens is not None else self.batch_tokens
        vectors = np.empty((len(texts), truncate_dim or self._info["dim"]), np.float32)
        failed: list[tuple[int, str, str]] | None = [] if errors == "nan" else None

        def run(tick: Callable[[int, int], None] | None) -> None:
            self.model.embed(
                texts, vectors, prompt=self._prompt_text(prompt, prompt_name),
                max_length=max_length if max_length is not None else self._max_length,
                truncate=truncate, pooling=pooling, normalize=self._normalize(normalize_embeddings),
                truncate_dim=truncate_dim, plain_specials=plain_specials,
                batch_tokens=None if tokens == "auto" else tokens,
                memory=memory if memory is not None else self.memory,
                threads=threads if threads is not None else self.threads, tick=tick,
                failures=failed)

        if show_progress_bar:
            with _Progress(len(texts)) as progress:
                run(progress.tick)
        else:
            run(None)
        if failed:
            self._report([Failure(*each) for each in failed], len(texts), failures)
        return _convert(vectors, is_single, convert_to_numpy, convert_to_tensor)

    @staticmethod
    def _report(failed: list[Failure], count: int, failures: list[Failure] | None) -> None:
        if failures is not None:
            failures.extend(failed)
            return
        first = failed[0]
        warnings.warn(f"{len(failed)} of {count} texts have no vector, their rows are NaN; the "
                      f"first is text {first.index}: {first.code}: {first.reason}", stacklevel=3)

    def encode_query(self, sentences: Any, *, prompt_name: str | None = None,
                     prompt: str | None = None, **options: Any) -> Any:
        """encode() with the prompt "query", unless a prompt is asked for."""
        return self.encode(sentences, prompt_name=prompt_name or "query", prompt=prompt, **options)

    def encode_document(self, sentences: Any, *, prompt_name: str | None = None,
                        prompt: str | None = None, **options: Any) -> Any:
        """encode() with the prompt "document", unless a prompt is asked for."""
        return self.encode(sentences, prompt_name=prompt_name or "document", prompt=prompt,
                           **options)

    # ----------------------------------------------------------------------------- similarity

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Scores of all pairs, float32 [n, m], by `similarity_fn_name`; higher is more alike.

        embeddings1: [n, dim] or [dim]; embeddings2: [m, dim] or [dim]; arrays or torch tensors.
        A torch tensor when one of them is one, else an array.
        """
        a, b, back = _matrices(embeddings1, embeddings2)
        if self.similarity_fn_name == "cosine":
            return back(_unit(a) @ _unit(b).T)
        if self.similarity_fn_name == "dot":
            return back(a @ b.T)
        order = 2 if self.similarity_fn_name == "euclidean" else 1
        scores = np.empty((len(a), len(b)), np.float32)
        for row, vector in zip(scores, a):
            row[:] = -np.linalg.norm(b - vector, ord=order, axis=1)
        return back(scores)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Scores of embeddings1[i] with embeddings2[i], float32 [n]; see similarity()."""
        a, b, back = _matrices(embeddings1, embeddings2)
        if self.similarity_fn_name == "cosine":
            a, b = _unit(a), _unit(b)
        if self.similarity_fn_name in ("cosine", "dot"):
            return back(np.einsum("ij,ij->i", a, b))
        order = 2 if self.similarity_fn_name == "euclidean" else 1
        return back(-np.linalg.norm(a - b, ord=order, axis=1))


def _convert(vectors: np.ndarray, is_single: bool, to_numpy: bool, to_tensor: bool) -> Any:
    if to_tensor:
        import torch
        whole = torch.from_numpy(vectors)
        return whole[0] if is_single else whole
    if is_single and to_numpy:
        return vectors[0]
    if to_numpy:
        return vectors
    import torch
    rows = list(torch.from_numpy(vectors))
    return rows[0] if is_single else rows


def _matrices(first: Any, second: Any) -> tuple[np.ndarray, np.ndarray, Callable[[Any], Any]]:
    """Both as float32 [n, dim], and what turns a result back into their kind."""
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and any(isinstance(one, torch.Tensor) for one in (first, second))

    def matrix(one: Any) -> np.ndarray:
        if torch is not None and isinstance(one, torch.Tensor):
            one = one.detach().cpu().float().numpy()
        elif isinstance(one, list) and one and torch is not None \
                and isinstance(one[0], torch.Tensor):
            one = torch.stack(one).detach().cpu().float().numpy()
        return np.atleast_2d(np.asarray(one, np.float32))

    return matrix(first), matrix(second), (torch.from_numpy if is_tensor else lambda scores: scores)


def _unit(matrix: np.ndarray) -> np.ndarray:
    """Rows of length 1; a row of zeros stays as it is."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.maximum(lengths, 1e-12)
