"""Types of the C side; use the package warpgroup.

Letters: T tokens of a bin, S sequences of a bin. Threads: every method of every type may be called
on any thread. After os.fork() the handles of the parent cannot be used in the child: calls raise
Error, dropping them does nothing.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

__version__: str

# What is taken as integers: a list or tuple of ints, or a one-dimensional, C-contiguous int32 or
# int64 array (anything with a buffer: NumPy, array.array, memoryview). Of a torch tensor pass
# tensor.numpy(). TypeError for another type; ArgumentError for a value that does not fit.
Ints = Sequence[int] | npt.NDArray[np.integer] | memoryview

# ------------------------------------------------------------------------------------- exceptions

class Error(RuntimeError):
    """Something in warpgroup failed; the base of its exceptions."""

class ArgumentError(Error, ValueError):
    """An argument cannot be used."""

class FormatError(Error, ValueError):
    """A file is malformed."""

class FileError(Error, OSError):
    """A file could not be read or written."""

class OutOfMemoryError(Error, MemoryError):
    """There is no memory for it."""

class LimitError(Error, ValueError):
    """A limit was exceeded."""

class ClosedError(Error):
    """The handle was closed, or its input is finished."""

class SlotsHeldError(Error):
    """Bins or arrays of them are kept, and no slot is left for the next bin."""

class UnsupportedError(Error, NotImplementedError):
    """Known, but not supported."""

# ----------------------------------------------------------------------------------------- engine

class Array:
    """One array of a bin: one-dimensional, read-only, in the bin's own memory, not copied.

    numpy.asarray(a), memoryview(a), numpy.from_dlpack(a), torch.from_dlpack(a) share that memory.
    While an Array or anything made from it lives, the bin's slot is kept, also after the bin was
    released and the engine closed. torch knows no read-only tensors: one made from an Array must
    not be written to (tensor.clone() may).
    """

    @property
    def shape(self) -> tuple[int]:
        """(length,)"""
    @property
    def dtype(self) -> Literal["int32", "uint64"]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> memoryview:
        """A view, not a copy; it keeps the slot too."""
    def __iter__(self) -> Iterator[int]: ...
    def tolist(self) -> list[int]: ...
    def numpy(self) -> npt.NDArray[Any]:
        """A read-only numpy.ndarray on the same memory."""
    def __buffer__(self, flags: int) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule (array API standard).

        max_version from (1, 0) on: shares memory, flagged read-only; copy=True gives a copy that
        may be written to. Older consumers cannot be told that memory is read-only and get a copy;
        BufferError for copy=False. stream: None or -1, there are none on a CPU. dl_device: None or
        (1, 0), the CPU; BufferError for another.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): the CPU."""

class Bin:
    """Sequences packed end to end: T tokens, S sequences (len(bin)), no padding between them.

    A Bin is given back to the engine by release(), at the end of a with block, by fail(), or when
    it is dropped; then its numbers stay readable, and arrays that were taken from it stay valid
    (each keeps the slot). Arrays of a bin that was given back: ClosedError. BufferError when 16
    exports of the bin are out.
    """

    @property
    def input_ids(self) -> Array:
        """Token ids, int32 [row_count]."""
    @property
    def token_type_ids(self) -> Array:
        """Token types as submitted, else 0; int32 [row_count]."""
    @property
    def position_ids(self) -> Array:
        """From position_offset on, anew in each sequence; int32 [row_count]."""
    @property
    def cu_seqlens(self) -> Array:
        """Where sequences begin, and the end of the last; int32 [S + 1]."""
    @property
    def ids(self) -> Array:
        """Ids of the sequences as submitted; uint64 [S]."""
    @property
    def max_seqlen(self) -> int:
        """Tokens of the longest sequence."""
    @property
    def token_count(self) -> int:
        """T"""
    @property
    def row_count(self) -> int:
        """T rounded up to the engine's `multiple`; rows from T on are nobody's."""
    @property
    def is_released(self) -> bool:
        """Whether the bin was given back."""
    def __len__(self) -> int: ...
    def __bool__(self) -> Literal[True]: ...
    def release(self) -> None:
        """The bin is done. Again: no effect."""
    def fail(self, memory: bool = False) -> bool:
        """The bin could not be done.

        False: it was taken back and its sequences are handed out again; at once in halves for
        memory=True (and bins become smaller for a while), else once more whole, then in halves.
        True: it holds one sequence that fails alone; read its id, report it, release the bin.
        """
    def __enter__(self) -> Bin: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

class Engine:
    """Token ids in, packed bins out.

        with Engine(16384) as engine:
            ...                                    # other threads: engine.submit(ids)
            for bin in engine:                     # ends when drained after finish()
                model(bin.input_ids, bin.cu_seqlens, bin.max_seqlen)

    Submissions and consumers may be on any number of threads. Waiting calls let other Python
    threads run and are ended by Ctrl-C. Memory is taken at opening and bounded. Leaving the with
    block closes the engine, and what was not handed out is dropped.
    """

    def __new__(
        cls,
        capacity: int,
        *,
        slots: int = 0,
        workers: int = 1,
        max_sequences: int = 0,
        lookahead: int = 0,
        pending_bytes: int = 0,
        position_offset: int = 0,
        window: Literal["adaptive"] | tuple[int, float] = "adaptive",
        classes: Sequence[tuple[int] | tuple[int, int] | tuple[int, int, int]] | None = None,
        multiple: int = 1,
    ) -> Engine:
        """Opens an engine and starts its packer thread.

        capacity: tokens of a bin, 1 to 2^31 - 1.
        slots: bins that exist at once, those that the caller keeps included; 0: workers + 1.
        workers: consumers that run at once.
        max_sequences: most sequences of a bin; 0: no limit.
        lookahead: tokens that are packed over at once; 0: 32 bins.
        pending_bytes: ceiling of what waits to be packed; 0: four look-aheads.
        position_offset: position of every sequence's first token.
        window: how long a bin that is not full waits for company: "adaptive" to arrivals and
            service times, or (sequences, milliseconds), whichever comes first.
        classes: what `priority` of a submission is an index into, at most 8: (rank, tokens_per_s,
            burst_ms) each, the last two optional. Rank 0 is served first; a class may use its rate
            even when classes of better rank wait, so that none starves.
        multiple: row_count of a bin is rounded up to this.

        ArgumentError for values that cannot be; OutOfMemoryError.
        """
    def submit(
        self,
        ids: Ints,
        id: int | None = None,
        priority: int = 0,
        deadline: float | None = None,
        type_ids: Ints | None = None,
    ) -> int:
        """Queues one sequence and returns its id; waits while the queue is full.

        ids: 1 to capacity token ids, copied. id: 0 to 2^64 - 1, need not be unique; None: the next
        running number. priority: index of a class. deadline: seconds from now. type_ids: as many
        as ids; None: zeros. ArgumentError; ClosedError after finish(), stop() or close().
        """
    @overload
    def submit_many(
        self,
        ids: Ints,
        cu_seqlens: Ints,
        sequence_ids: None = None,
        priority: int = 0,
        deadline: float | None = None,
        type_ids: Ints | None = None,
    ) -> range:
        """Queues many sequences; the interpreter lock is free meanwhile.

        ids: token ids of all, end to end (int32 is not converted). cu_seqlens: [S + 1], from 0 to
        len(ids), rising; sequence i is ids[cu_seqlens[i]:cu_seqlens[i + 1]]. Returns the running
        numbers. All are checked before the first is taken. ClosedError says how many were taken;
        after KeyboardInterrupt stats()["sequences_in"] does.
        """
    @overload
    def submit_many(
        self,
        ids: Ints,
        cu_seqlens: Ints,
        sequence_ids: Ints,
        priority: int = 0,
        deadline: float | None = None,
        type_ids: Ints | None = None,
    ) -> None:
        """sequence_ids: [S], the caller's."""
    def finish(self) -> None:
        """No more input: what is pending is packed and handed out. Again: no effect."""
    def flush(self) -> None:
        """What is pending goes out without waiting for company."""
    def stop(self) -> None:
        """Gives up: submissions and next() raise ClosedError, who waits is woken."""
    def next(self, timeout: float | None = None) -> Bin | None:
        """Waits for a bin, at most timeout seconds; None when drained.

        TimeoutError; ClosedError after stop() or close(); SlotsHeldError when bins and arrays that
        are kept have held every slot for a second in which nothing was given back.
        """
    def __iter__(self) -> Engine: ...
    def __next__(self) -> Bin: ...
    @property
    def is_drained(self) -> bool:
        """True once the input is finished and the last bin was handed out."""
    @property
    def capacity(self) -> int:
        """Tokens of a bin."""
    @property
    def closed(self) -> bool:
        """Whether close() was called."""
    def stats(self) -> dict[str, Any]:
        """Counters: sequences_in, tokens_in, sequences_out, tokens_out, bins_out, fill (0 to 1),
        sequences_done, sequences_given_up, bins_failed, deadlines_met, deadlines_missed,
        submit_wait_s, next_wait_s, slots, slots_taken, slots_exported, classes, cuts_* and more.
        """
    def close(self) -> None:
        """Stops and frees the engine. Bins and arrays that are held stay valid. Again: no effect.

        Calls that wait on other threads, and a running ingest, end with ClosedError.
        """
    def __enter__(self) -> Engine: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

# ------------------------------------------------------------------------------- files to engine

class Tokenizer:
    """Texts to ids and back; warpgroup.Tokenizer says what for. Read-only; valid after a fork."""

    def __init__(self, path: str | bytes | os.PathLike[Any]) -> None: ...
    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        max_length: int = 0,
        truncate: Literal["head", "tail", "error"] = "head",
        add_special_tokens: bool = True,
    ) -> list[int]:
        """Token ids of one text, or of a pair. LimitError: too long, with "error"."""
    def encode_flat(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int = 0,
        truncate: Literal["head", "tail", "error"] = "head",
        add_special_tokens: bool = True,
    ) -> tuple[bytearray, bytearray]:
        """Ids [T] and cu_seqlens [S + 1], both int32, without the interpreter lock."""
    def decode(self, ids: Ints, skip_special_tokens: bool = True) -> str:
        """The text of token ids. ArgumentError: one is below 0 or above 2^31 - 1."""
    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary, added ones included."""

class Ingest:
    """Files into an engine; use warpgroup.ingest()."""

    def __init__(
        self,
        engine: Engine,
        paths: Sequence[str | bytes | os.PathLike[Any]],
        tokenizer: Tokenizer | None,
        *,
        text_field: str | None = None,
        id_field: str | None = None,
        ids_field: str | None = None,
        max_length: int = 0,
        truncate: Literal["head", "tail", "error"] = "head",
        prompt: str | None = None,
        lines: bool = False,
        format: Literal["auto", "text", "jsonl", "pdf"] = "auto",
        threads: int = 0,
        first_id: int = 0,
        keep_open: bool = False,
        no_special_tokens: bool = False,
        plain_specials: bool = False,
        priority: int = 0,
        pdf_password: str | None = None,
    ) -> None: ...
    def poll(self) -> list[tuple[int, str, str, int, int, int, bool, str, str]]:
        """(sequence id, id as JSON, source as JSON without quotes, kind of place, place, tokens,
        truncated, code, reason) of the documents told since the last call."""
    def wait(self, timeout: float | None = None) -> bool:
        """True once all was submitted; raises what ended it early."""
    def counts(self) -> dict[str, int]: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def closed(self) -> bool: ...

def pack_lengths(
    lengths: Ints,
    policy: str,
    tokens: int,
    sequences: int,
    squares: int,
    multiple: int,
    bins: int,
    cost_linear: float,
    cost_square: float,
    /,
) -> tuple[bytes, dict[str, float]]:
    """What warpgroup.pack stands on: uint32 bin of each length as bytes, and numbers."""

def attention_varlen(
    query_ptr: int,
    key_ptr: int,
    value_ptr: int,
    out_ptr: int,
    query_strides: tuple[int, int],
    key_strides: tuple[int, int],
    value_strides: tuple[int, int],
    out_strides: tuple[int, int],
    cu_seqlens_ptr: int,
    sequence_count: int,
    head_count: int,
    key_head_count: int,
    head_dim: int,
    scale: float = 0.0,
    is_causal: bool = False,
    window: int = 0,
    threads: int = 0,
    isa: int = 0,
) -> None:
    """Attention of packed sequences on addresses, which the caller answers for.

    query and out are float32 [T, head_count, head_dim], key and value [T, key_head_count, head_dim],
    with (row, head) strides in floats; cu_seqlens is int32 [sequence_count + 1]. Zeros: the default.
    """

# ------------------------------------------------------------------------------------------ model

class Model:
    """A model, open and read-only; any number of threads may use it at once.

    path: a Hugging Face or sentence-transformers directory, or one .gguf file. backend: "cpu",
    "reference"; None: the best that this machine has. isa: "auto", "plain", "avx2", "avx512".
    Raises a kind of Error when the model cannot be used.
    """

    def __new__(cls, path: str | bytes | os.PathLike[str], *, backend: str | None = None,
                isa: str | None = None) -> Model: ...
    @property
    def info(self) -> dict[str, Any]:
        """path, architecture, backend, isa, hash, layer_count, head_count, hidden_count,
        feed_forward_count, vocabulary_count, parameter_count, weight_bytes, packed_bytes,
        position_count, token_count_default, dim, pooling, normalize, pooling_rule, normalize_rule,
        length_rule, load_seconds. A new dict."""

    def embed(self, texts: Sequence[str | bytes], out: npt.NDArray[np.float32] | memoryview, *,
              max_length: int | None = None,
              truncate: Literal["head", "tail", "error"] | None = None,
              pooling: str | None = None, normalize: bool | None = None,
              truncate_dim: int | None = None, prompt: str | None = None,
              prompt_name: str | None = None, plain_specials: bool = False,
              batch_tokens: int | None = None, memory: int | None = None, threads: int = 0,
              tick: Callable[[int, int], object] | None = None,
              failures: list[tuple[int, str, str]] | None = None) -> None:
        """Writes the vectors of n texts into out, row i for texts[i], without the interpreter lock.

        texts: str (a lone surrogate counts as U+FFFD) or bytes (UTF-8). out: writable, C-contiguous,
        float32 [n, dim], dim after truncate_dim. max_length: tokens, special ones included.
        normalize: None as the model says, True, False. batch_tokens: None or 0: auto. memory: bytes.
        threads: 0: one a core. tick(done, count): called a few times a second on this thread; what
        it raises stops the call, as Ctrl-C does, and out is then worth nothing. failures: a text
        that fails is appended as (index, code, reason) and its row is NaN; None: the first one
        raises a kind of Error with its place in the attribute `index`.
        """

# --------------------------------------------------------------------------------------- capacity

def capacity_measure(
    run: Callable[[int], tuple[bool, float]],
    is_step: bool,
    start_tokens: int,
    tokens_max: int,
    resolution: float,
    reserve_tokens: int,
    step_tokens: int,
    keep: float,
    skip_knee: bool,
    knee_from_tokens: int,
    knee_runs: int,
    knee_share: float,
) -> tuple[int, int, int, int, float, float, list[tuple[int, float, bool, bool]]]:
    """Searches the largest size for which run(tokens) gives (True, seconds); 0 is the default of
    each number. Use warpgroup.determine_capacity.

    Gives (tokens, fitted_tokens, refused_tokens, knee_tokens, knee_tokens_per_s, best_tokens_per_s,
    tries), a try being (tokens, seconds, did_fit, is_for_knee). What run raises is raised.
    """

def memory_available() -> int:
    """Bytes that this process can still take: the least of what machine, cgroups and limits leave."""
