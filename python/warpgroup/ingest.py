"""Files into an engine: ``ingest()``.

    with warpgroup.Engine(capacity=16384) as engine:
        with warpgroup.ingest(engine, ["corpus/"], tokenizer=model_dir) as files:
            for bin in engine:
                vectors = run(bin)
                for row, sequence_id in zip(vectors, bin.ids):
                    store(files.documents[sequence_id].id, row)
            for document in files.failures:
                print(document.source, document.code, document.reason)

Reading, PDF extraction and tokenising are done by threads of the C library, without the interpreter
lock; a full engine holds them back, so memory does not grow with the corpus, except for what is
kept of each document here (``documents``).
"""
from __future__ import annotations

import json
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeAlias

from warpgroup import _core
from warpgroup.checks import check_counts
from warpgroup.tokenizer import Truncate, open_tokenizer

Path: TypeAlias = str | bytes | os.PathLike[Any]
Format = Literal["auto", "text", "jsonl", "pdf"]

_PLACES = (None, "line", "page", "offset")


class Document(NamedTuple):
    """What became of a document."""

    sequence_id: int
    """Its id in the engine: ``first_id`` plus its place in the input."""
    id: Any
    """The id of its record, or one made of file and place: a str or a number."""
    source: str
    """Its file."""
    place_kind: str | None
    """What ``place`` counts: ``"line"``, ``"page"`` (both from 1), ``"offset"`` (bytes), None."""
    place: int
    tokens: int
    """Tokens submitted; 0 when it failed."""
    is_truncated: bool
    code: str
    """Why it failed: ``"no_text_layer"``, ``"bad_json"``, ``"too_long"``, ...; ``""``: it did not."""
    reason: str
    """The same as a sentence."""


class Ingest:
    """A running ``ingest()``. Any thread may call it; it keeps engine and tokenizer alive.

    As a context manager it is closed at the end of the block, and what ended it early (memory, an
    engine that was stopped) is raised there.
    """

    def __init__(self, core: _core.Ingest) -> None:
        self._core = core
        self._documents: dict[int, Document] = {}
        self._failures: list[Document] = []
        self._sources: dict[str, str] = {}
        self._is_stop_asked = False

    @property
    def engine(self) -> _core.Engine:
        return self._core.engine

    @property
    def documents(self) -> dict[int, Document]:
        """Documents so far by sequence id, failed ones too; all of every bin handed out.

        The dict is yours to pop from, where a corpus is too large to keep it whole.
        """
        self.poll()
        return self._documents

    @property
    def failures(self) -> list[Document]:
        """Documents that failed so far, in input order."""
        self.poll()
        return self._failures

    @property
    def counts(self) -> dict[str, int]:
        """documents (read), submitted, failed, truncated, tokens (submitted), unreadable (failed
        while they were read), warnings, files, files_skipped, bytes."""
        return self._core.counts()

    @property
    def closed(self) -> bool:
        return self._core.closed

    def poll(self) -> list[Document]:
        """The documents told since the last look, in input order. Does not wait."""
        told = [self._document(*item) for item in self._core.poll()]
        for document in told:
            self._documents[document.sequence_id] = document
            if document.code:
                self._failures.append(document)
        return told

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until every document was submitted, at most ``timeout`` seconds.

        True once that is so, False when the time was up. Somebody must take bins meanwhile, since
        an engine holds only so much. Raises ClosedError when the engine was stopped or finished
        before all was submitted, Error after stop(), OutOfMemoryError when reading or tokenising
        cannot go on. Bad input is never an exception: see ``failures``.
        """
        return self._core.wait(timeout)

    def stop(self) -> None:
        """Asks it to stop, and returns at once: what was not submitted by then is not."""
        self._is_stop_asked = True
        self._core.stop()

    def close(self) -> None:
        """Stops it and waits for its threads. What was told can still be asked for."""
        self._is_stop_asked = True
        self._core.close()

    def __enter__(self) -> Ingest:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and not self._is_stop_asked:
                self._core.wait(0)
        finally:
            self.close()

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"<warpgroup.Ingest: {counts['submitted']} documents submitted, "
            f"{counts['failed']} failed{', closed' if self.closed else ''}>"
        )

    def _document(
        self,
        sequence_id: int,
        id_json: str,
        source_json: str,
        place_kind: int,
        place: int,
        tokens: int,
        is_truncated: bool,
        code: str,
        reason: str,
    ) -> Document:
        source = self._sources.get(source_json)
        if source is None:
            source = self._sources[source_json] = json.loads(f'"{source_json}"')
        return Document(
            sequence_id,
            _id(id_json),
            source,
            _PLACES[place_kind],
            place,
            tokens,
            is_truncated,
            code,
            reason,
        )


def _id(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # a number of more digits than Python converts
        return text


def ingest(
    engine: _core.Engine,
    paths: Path | Sequence[Path],
    tokenizer: Any = None,
    *,
    text_field: str = "text",
    id_field: str = "id",
    ids_field: str | None = None,
    max_length: int | None = None,
    truncate: Truncate = "head",
    prompt: str | None = None,
    lines: bool = False,
    format: Format = "auto",
    threads: int = 0,
    first_id: int = 0,
    keep_open: bool = False,
    add_special_tokens: bool = True,
    priority: int = 0,
    pdf_password: str | None = None,
) -> Ingest:
    """Begins to read files into ``engine`` and returns at once.

    Document k of the input, failed ones counted, becomes the engine's sequence ``first_id + k``.

    paths: files, directories, ``"-"`` for standard input: text, JSON lines, PDF; plain or gzip.
    tokenizer: a ``warpgroup.Tokenizer``, a path as it takes it, a fast tokenizer of transformers, or
        a ``tokenizers.Tokenizer``, whose own settings for truncation and padding do not apply. None
        only where records carry ids.
    text_field, id_field, ids_field: fields of JSON records; with ``ids_field`` they carry ready
        token ids, and nothing is tokenised.
    max_length: tokens of a document, special ones included. None: model_max_length of the
        tokenizer or its directory where there is one. Never more than a bin of the engine holds.
    truncate: of a longer document ``"head"`` keeps the first tokens, ``"tail"`` the last; with
        ``"error"`` it fails with too_long.
    prompt: put before each text.
    lines: of text files, each line is a document.
    format: forced for every input.
    threads: that tokenise, at most 16; 0: as many as there are cores, at most 8.
    keep_open: however an ingest ends, it finishes the engine's input, so that ``for bin in engine``
        ends; True leaves that to the caller, as it must be where several feed one engine.
    priority: the class of the sequences, as in ``Engine.submit``.

    Raises UnsupportedError where the tokenizer does something that is not implemented here, and
    what opening its file raises. An input that does not exist is a failed document.
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = [paths]
    check_counts(max_length=(max_length or 0, 2**31 - 1), threads=(threads, 2**32 - 1),
                 first_id=(first_id, 2**64 - 1), priority=(priority, 2**32 - 1))
    core_tokenizer = None
    if tokenizer is not None:
        core_tokenizer, limit = open_tokenizer(tokenizer)
        if max_length is None:
            max_length = limit
    elif ids_field is None:
        raise _core.ArgumentError("texts need a tokenizer; records with ready ids need ids_field")
    return Ingest(
        _core.Ingest(
            engine,
            paths,
            core_tokenizer,
            text_field=text_field,
            id_field=id_field,
            ids_field=ids_field,
            max_length=max_length or 0,
            truncate=truncate,
            prompt=prompt,
            lines=lines,
            format=format,
            threads=threads,
            first_id=first_id,
            keep_open=keep_open,
            no_special_tokens=not add_special_tokens,
            priority=priority,
            pdf_password=pdf_password,
        )
    )
