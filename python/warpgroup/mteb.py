"""An encoder for the package mteb (2.x): mteb.evaluate(warpgroup.mteb.Encoder(model_dir), tasks).

Each call of a task is one list of texts, packed by tokens; mteb's batch_size has no effect on the
vectors. Needs mteb.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from mteb.models.abs_encoder import AbsEncoder, get_prompt_name
from mteb.models.model_meta import ModelMeta, ScoringFunction
from mteb.types import PromptType

from warpgroup._core import UnsupportedError
from warpgroup.embedder import Embedder

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.types import BatchedInput
    from torch.utils.data import DataLoader

_SCORES = {"cosine": ScoringFunction.COSINE, "dot": ScoringFunction.DOT_PRODUCT}


class Encoder(AbsEncoder):
    """mteb's protocol of an encoder on an Embedder.

    model: a model directory, or an Embedder.
    revision: of the model, for mteb's result files; None: the hash that warpgroup gives it.
    model_prompts: {task name, task type or "query"/"document": text}; None: the prompts of the
        model directory. mteb's order applies: task and kind of text before task, before type.
    name: "organisation/model" for mteb's result files; None: the last part of the directory's name.
    options: of Embedder.
    """

    def __init__(self, model: str | os.PathLike[str] | Embedder, revision: str | None = None, *,
                 device: str | None = None, model_prompts: dict[str, str] | None = None,
                 name: str | None = None, **options: Any) -> None:
        self.model = model if isinstance(model, Embedder) \
            else Embedder(model, device=device, **options)
        self.model_prompts = {key: text for key, text in self.model.prompts.items() if text} \
            if model_prompts is None else self.validate_task_to_prompt_name(model_prompts)
        self.mteb_model_meta = self._describe(name, revision)

    def _describe(self, name: str | None, revision: str | None) -> ModelMeta:
        info = self.model.info
        folder = os.path.basename(os.path.abspath(self.model.model_dir))
        return ModelMeta.create_empty({
            "loader": Encoder,
            "name": name or f"warpgroup/{folder}",
            "revision": revision or info["hash"],
            "n_parameters": info["parameter_count"],
            "memory_usage_mb": info["weight_bytes"] / 2**20,
            "max_tokens": self.model.max_seq_length,
            "embed_dim": self.model.get_embedding_dimension(),
            "similarity_fn_name": _SCORES.get(self.model.similarity_fn_name),
        })

    def encode(self, inputs: DataLoader[BatchedInput], *, task_metadata: TaskMetadata,
               hf_split: str, hf_subset: str, prompt_type: PromptType | None = None,
               precision: str = "float32", batch_size: int | None = None,
               **options: Any) -> np.ndarray:
        """float32 [n, dim] for the texts of all batches; options: of Embedder.encode.

        The prompt is the one that mteb's order finds in `model_prompts`; without one, queries and
        documents are encoded as encode_query and encode_document do.
        """
        if precision not in (None, "float32"):
            raise UnsupportedError(f"precision {precision!r}: vectors are float32")
        texts = [text for batch in inputs for text in batch["text"]]
        name = get_prompt_name(self.model_prompts, task_metadata, prompt_type)
        if name is not None:
            return self.model.encode(texts, prompt=self.model_prompts[name], **options)
        if prompt_type == PromptType.query:
            return self.model.encode_query(texts, **options)
        if prompt_type == PromptType.document:
            return self.model.encode_document(texts, **options)
        return self.model.encode(texts, **options)
