"""warpgroup: transformer prefill over whole corpora, packed into bins without padding.

    engine = warpgroup.Engine(16384)
    engine.submit([101, 7592, 102])        # token ids, on any thread
    engine.finish()
    for bin in engine:
        ...                                # bin.input_ids [T], bin.cu_seqlens [S + 1]

Needs NumPy alone; names that need more (torch, transformers) are imported on first use.
"""
from __future__ import annotations

import importlib
from typing import Any

from warpgroup._core import (
    ArgumentError,
    Array,
    Bin,
    ClosedError,
    Engine,
    Error,
    FileError,
    FormatError,
    LimitError,
    Model,
    OutOfMemoryError,
    SlotsHeldError,
    UnsupportedError,
    __version__,
)
from warpgroup.attention import attention_varlen
from warpgroup.ingest import Document, Ingest, ingest
from warpgroup.original import (
    finish_input,
    get_next_bin,
    initialize_engine,
    is_queue_empty,
    shutdown,
    submit_sequence,
)
from warpgroup.packing import pack
from warpgroup.tokenizer import Tokenizer

# Name: the module that has it, imported when the name is first asked for.
_LATER: dict[str, str] = {
    "Embedder": "warpgroup.embedder",
    "Failure": "warpgroup.embedder",
    "VarlenModel": "warpgroup.varlen",
    "determine_capacity": "warpgroup.capacity",
    "pool": "warpgroup.varlen",
}

# Modules for other packages, likewise; they do not get in the way of the packages' own names.
_MODULES = ("arrow", "mteb", "ray")

__all__ = [
    "ArgumentError",
    "Array",
    "Bin",
    "ClosedError",
    "Document",
    "Engine",
    "Error",
    "FileError",
    "FormatError",
    "Ingest",
    "LimitError",
    "Model",
    "OutOfMemoryError",
    "SlotsHeldError",
    "Tokenizer",
    "UnsupportedError",
    "__version__",
    "attention_varlen",
    "finish_input",
    "get_next_bin",
    "ingest",
    "initialize_engine",
    "is_queue_empty",
    "pack",
    "shutdown",
    "submit_sequence",
    *_LATER,
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"warpgroup.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'warpgroup' has no attribute '{name}'")
    value = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
