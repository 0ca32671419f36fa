"""The encoder for mteb, on two small tasks: the scores of sentence-transformers."""
from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DATA, requires

os.environ.setdefault("HF_HUB_OFFLINE", "1")
requires("mteb", "datasets", "torch")

import datasets
import mteb
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models.models_protocols import EncoderProtocol
from mteb.types import PromptType

import warpgroup
import warpgroup.mteb

MODEL = DATA / "tiny-bert-h32-d8-mean"

COMMON = dict(description="Made for a test.", reference=None,
              dataset={"path": "none", "revision": "none"}, category="t2t", eval_splits=["test"],
              eval_langs=["eng-Latn"], date=("2024-01-01", "2024-01-02"), dialect=[], domains=[],
              task_subtypes=[], license="cc0-1.0", annotations_creators="derived",
              modalities=["text"], sample_creation="created", bibtex_citation="")

PAIRS = [("a cat ran over the hill", "the cat ran over a hill", 5.0),
         ("signal and light", "a light and a signal", 4.0),
         ("the quiet hill", "many cats ran from it", 1.0),
         ("it was good", "it was the light", 3.0),
         ("over and over and over", "a cat", 0.0),
         ("many hills", "many quiet hills", 4.5)]


class SmallSimilarity(AbsTaskSTS):
    metadata = TaskMetadata(name="SmallSimilarity", type="STS", main_score="cosine_spearman",
                            **COMMON)
    min_score, max_score = 0, 5

    def load_data(self, num_proc: int | None = None, **options: Any) -> None:
        first, second, scores = (list(column) for column in zip(*PAIRS))
        self.dataset = datasets.DatasetDict({"test": datasets.Dataset.from_dict(
            {"sentence1": first, "sentence2": second, "score": scores})})
        self.data_loaded = True


class SmallRetrieval(AbsTaskRetrieval):
    metadata = TaskMetadata(name="SmallRetrieval", type="Retrieval", main_score="ndcg_at_10",
                            **COMMON)

    def load_data(self, num_proc: int | None = None, **options: Any) -> None:
        corpus = {f"d{i}": pair[1] for i, pair in enumerate(PAIRS)}
        queries = {f"q{i}": pair[0] for i, pair in enumerate(PAIRS)}
        self.dataset = {"default": {"test": RetrievalSplitData(
            corpus=datasets.Dataset.from_list(
                [{"id": key, "title": "", "text": text} for key, text in corpus.items()]),
            queries=datasets.Dataset.from_list(
                [{"id": key, "text": text} for key, text in queries.items()]),
            relevant_docs={f"q{i}": {f"d{i}": 1} for i in range(len(PAIRS))}, top_ranked=None)}}
        self.data_loaded = True


TASKS = [SmallSimilarity, SmallRetrieval]


@pytest.fixture
def prompted(tmp_path: Path) -> Path:
    """Queries and documents have prompts that change the scores."""
    folder = tmp_path / "prompted"
    shutil.copytree(MODEL, folder)
    (folder / "config_sentence_transformers.json").write_text(json.dumps(
        {"prompts": {"query": "cat light signal: ", "document": "quiet "}}))
    return folder


def evaluate(model: Any, task: type) -> dict[str, float]:
    found = mteb.evaluate(model, task(), cache=None, show_progress_bar=False, co2_tracker=False)
    scores = dict(found.task_results[0].scores["test"][0])
    return {name: value for name, value in scores.items() if isinstance(value, float)}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("has_prompts", [False, True], ids=["plain", "prompts"])
def test_scores_of_sentence_transformers(task: type, has_prompts: bool, prompted: Path) -> None:
    original = pytest.importorskip("sentence_transformers").SentenceTransformer
    model = prompted if has_prompts else MODEL
    ours = evaluate(warpgroup.mteb.Encoder(model), task)
    theirs = evaluate(original(str(model), device="cpu"), task)
    assert ours.keys() == theirs.keys() and len(ours) > 3
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, abs=1e-4, nan_ok=True), name


def test_prompts_change_what_is_encoded(prompted: Path) -> None:
    """What the comparison above rests on."""
    seen: list[str] = []

    class Spy(warpgroup.Embedder):
        def encode(self, sentences: Any, **options: Any) -> Any:
            seen.append(self._prompt_text(options.get("prompt"), options.get("prompt_name")))
            return super().encode(sentences, **options)

    evaluate(warpgroup.mteb.Encoder(Spy(prompted)), SmallRetrieval)
    assert set(seen) == {"cat light signal: ", "quiet "}


def test_vectors_are_those_of_encode() -> None:
    texts = [text for pair in PAIRS for text in pair[:2]]
    encoder = warpgroup.mteb.Encoder(MODEL)
    batches = [{"text": texts[:5]}, {"text": texts[5:]}]
    found = encoder.encode(batches, task_metadata=SmallSimilarity.metadata, hf_split="test",
                           hf_subset="default", batch_size=2)
    assert found.tobytes() == warpgroup.Embedder(MODEL).encode(texts).tobytes()
    with pytest.raises(warpgroup.UnsupportedError, match="int8"):
        encoder.encode(batches, task_metadata=SmallSimilarity.metadata, hf_split="test",
                       hf_subset="default", precision="int8")


def test_protocol_and_description() -> None:
    encoder = warpgroup.mteb.Encoder(MODEL)
    assert isinstance(encoder, EncoderProtocol)
    meta = encoder.mteb_model_meta
    assert meta.name == f"warpgroup/{MODEL.name}"
    assert meta.embed_dim == 32 and meta.max_tokens == encoder.model.max_seq_length
    a, b = encoder.model.encode(["a cat", "light"]), encoder.model.encode(["the cat"])
    assert np.allclose(encoder.similarity(a, b), encoder.model.similarity(a, b), atol=1e-6)


def test_task_prompts() -> None:
    encoder = warpgroup.mteb.Encoder(MODEL, model_prompts={"STS": "light ", "query": "a cat "})
    batches = [{"text": ["the hill"]}]

    def encode(task: type, kind: PromptType | None) -> bytes:
        return encoder.encode(batches, task_metadata=task.metadata, hf_split="test",
                              hf_subset="default", prompt_type=kind).tobytes()

    plain = encoder.model
    assert encode(SmallSimilarity, None) == plain.encode(["light the hill"]).tobytes()
    assert encode(SmallRetrieval, PromptType.query) == plain.encode(["a cat the hill"]).tobytes()
    assert encode(SmallRetrieval, PromptType.document) == plain.encode(["the hill"]).tobytes()


def test_prompts_of_the_model_stand_in(prompted: Path) -> None:
    """Where model_prompts has none for a kind of text, the model's own is used."""
    encoder = warpgroup.mteb.Encoder(prompted, model_prompts={"STS": "light "})
    batches = [{"text": ["the hill"]}]
    for kind, text in ((PromptType.query, "cat light signal: the hill"),
                       (PromptType.document, "quiet the hill"), (None, "the hill")):
        found = encoder.encode(batches, task_metadata=SmallRetrieval.metadata, hf_split="test",
                               hf_subset="default", prompt_type=kind)
        assert found.tobytes() == encoder.model.encode([text], prompt="").tobytes()


def test_the_package_is_not_shadowed() -> None:
    assert mteb.__name__ == "mteb" and warpgroup.mteb.__name__ == "warpgroup.mteb"
    assert mteb is not warpgroup.mteb and hasattr(mteb, "evaluate")
