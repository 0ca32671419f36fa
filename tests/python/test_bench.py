"""The published comparison (bench/padded_vs_packed.py) on a tiny model: what it says is so."""
from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from conftest import DATA, ROOT, python_environment, requires

requires("matplotlib", "reportlab", "sentence_transformers", "torch", "transformers")

BENCH = ROOT / "bench"
ENCODER = DATA / "tiny-bert-h32-d8-mean"
DECODER = DATA / "tiny-llama-h64-d16-f16-tied"
WORDS = "the bins hold texts of any length and none is padded".split()
# Words of each document: with 10 documents a padded run has a batch of 8 and one of 2.
SIZES = [3, 11, 2, 9, 1, 10, 4, 8, 2, 7]


@pytest.fixture(scope="module")
def modules():
    """The modules of bench/, which import one another by plain name."""
    sys.path.insert(0, str(BENCH))
    try:
        yield Namespace(**{name: importlib.import_module(name) for name in
                           ("make_corpus", "make_pdfs", "packed_report", "padded_memory",
                            "padded_vs_packed")})
    finally:
        sys.path.remove(str(BENCH))


@pytest.fixture(scope="module")
def program() -> str:
    """$WARPGROUP_CLI, or the program on PATH."""
    found = os.environ.get("WARPGROUP_CLI") or shutil.which("warpgroup")
    if not found:
        pytest.skip("no program warpgroup: set WARPGROUP_CLI, or build it")
    return found


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "ten.jsonl"
    texts = [" ".join(WORDS[(i + k) % len(WORDS)] for k in range(n)) for i, n in enumerate(SIZES)]
    path.write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(texts)))
    return path


def compare(*options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BENCH / "padded_vs_packed.py"), "--threads", "1",
                           "--rounds", "1", *map(str, options)], capture_output=True, text=True,
                          env=python_environment(), timeout=900)


def lengths_of(model: Path, corpus: Path, max_length: int) -> list[int]:
    import warpgroup.tokenizer
    tokenizer = warpgroup.tokenizer.Tokenizer(model)
    return [len(tokenizer.encode(json.loads(line)["text"], max_length=max_length))
            for line in corpus.read_text().splitlines()]


@pytest.fixture(scope="module")
def result(program, corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    done = compare("--model", ENCODER, "--corpus", corpus, "--max-length", 24, "--bin-tokens", 64,
                   "--warpgroup", program, "--out", out)
    assert done.returncode == 0, done.stderr[-3000:]
    return Namespace(out=out, printed=done.stdout,
                     json=json.loads((out / "results.json").read_text()))


def test_systems_agree(result):
    agreement = result.json["agreement"]
    assert set(agreement) == {"hf", "st", "wrapper", "engine"}
    for name, found in agreement.items():
        assert found["difference_max"] < 1e-5, name
        assert found["cosine_min"] > 1 - 1e-6, name


def test_counts_are_those_by_hand(result, corpus):
    lengths = lengths_of(ENCODER, corpus, 24)
    assert max(lengths) == 24, "some text has to be cut for this to say something"
    # Batches of 8 in the order of the file, each as wide as its longest text.
    rows = 8 * max(lengths[:8]) + 2 * max(lengths[8:])
    by_name = {row["system"]: row for row in result.json["summary"]}
    for row in by_name.values():
        assert (row["tokens"], row["documents"]) == (sum(lengths), 10)
    assert by_name["hf"]["padding"] == pytest.approx(1 - sum(lengths) / rows, abs=1e-9)
    # sentence-transformers: one batch of 32.
    assert by_name["st"]["rows"] == 10 * max(lengths)
    assert by_name["wrapper"]["padding"] == by_name["engine"]["padding"] == 0
    counted = sum(bucket["count"] for bucket in result.json["lengths"]["histogram"])
    assert (counted, result.json["lengths"]["tokens"]) == (10, sum(lengths))


def test_files_and_fields(result):
    for name in ("results.json", "results.md", "results.png", "results.svg"):
        assert (result.out / name).stat().st_size > 0
    assert (result.out / "results.png").read_bytes().startswith(b"\x89PNG")
    assert (result.out / "results.md").read_text() == result.printed
    record = result.json
    assert {"cpu", "cpus", "cpu_flags", "kernel", "load", "memory_mb", "python", "compiler", "commit",
            "changed"} <= set(record["machine"])
    assert {"corpus", "documents", "seed", "max_length", "device", "dtype", "threads",
            "rounds"} <= set(record["settings"])
    for name, runs in record["runs"].items():
        assert len(runs) == 1
        for run in runs:
            assert run["seconds"] > 0 and run["versions"] and run["load"] >= 0
            assert run["rss_mb"] >= run["loaded_mb"] > 0, name
            assert run["tokens_per_s"] == pytest.approx(run["tokens"] / run["seconds"], rel=0.02)
    for word in ("real tokens/s", "padding", "peak memory", "wall time", "Vectors"):
        assert word in result.printed


def test_no_limit(program, corpus, modules, tmp_path):
    done = compare("--no-limit", "--model", DECODER, "--corpus", corpus, "--warpgroup", program,
                   "--out", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads((tmp_path / "results.json").read_text())
    config = json.loads((DECODER / "config.json").read_text())
    lengths = lengths_of(DECODER, corpus, config["max_position_embeddings"])
    assert result["settings"]["max_length"] == config["max_position_embeddings"]
    assert set(result["left_out"]) == {"hf", "st"}
    found = result["no_limit"]
    assert (found["batch"], found["longest"]) == (8, max(lengths[:8]))
    shape = modules.padded_memory.shape(config, "f32")
    want = modules.padded_memory.padded(shape, 8, max(lengths[:8]))["peak"] / 2**20
    assert found["padded_computed_mb"] == pytest.approx(want)
    cache = 2 * config["num_hidden_layers"] * 8 * max(lengths[:8]) * shape["key_heads"]
    assert found["cache_computed_mb"] == pytest.approx(cache * shape["head_dim"] * 4 / 2**20)
    assert set(found["ratios"]) == {"wrapper", "engine"}
    assert "computed, not run" in done.stdout and "Formula" in done.stdout


def test_formula_by_hand(modules):
    shape = {"hidden": 4, "feed_forward": 10, "heads": 2, "key_heads": 1, "head_dim": 2, "bytes": 4,
             "gated": True}
    # 2 texts of 3 tokens: 6 rows, a mask of 2 x 3 x 3.
    found = modules.padded_memory.padded(shape, 2, 3)
    assert found["attention"] == 18 * 5 + 6 * 4 * (8 + 16 + 4)
    assert found["feed_forward"] == 18 + 6 * 4 * (8 + 30)
    assert found["peak"] == found["feed_forward"]
    # Keys and values of 2 x 3 rows in 5 layers.
    causal = {**shape, "layers": 5, "causal": True}
    assert modules.padded_memory.cache(causal, 2, 3) == 2 * 5 * 6 * 1 * 2 * 4
    assert modules.padded_memory.cache({**causal, "causal": False}, 2, 3) == 0


def test_a_padded_batch_takes_at_least_the_formula(modules, tmp_path):
    """A batch large enough to be seen beside what torch holds anyway, so that the formula claims
    no more than is so; libraries and the allocator add to it, up to its double in what was seen."""
    wide = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256,
            "intermediate_size": 1024, "num_attention_heads": 4, "num_key_value_heads": 2,
            "num_hidden_layers": 1, "max_position_embeddings": 1024, "vocab_size": 300}
    import torch
    from transformers import LlamaConfig, LlamaModel
    torch.manual_seed(6)
    LlamaModel(LlamaConfig(**wide)).save_pretrained(tmp_path / "model")
    shutil.copy(DECODER / "tokenizer.json", tmp_path / "model")
    text = " ".join(WORDS * 200)
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": t}) + "\n" for t in [text, *WORDS[:7]]))
    done = subprocess.run(
        [sys.executable, str(BENCH / "peers" / "hf_padded.py"), "--model", str(tmp_path / "model"),
         "--corpus", str(texts), "--max-length", "1024", "--runs", "2", "--threads", "1"],
        capture_output=True, text=True, timeout=900, env=python_environment())
    assert done.returncode == 0, done.stderr[-3000:]
    measured = json.loads(done.stdout.splitlines()[-1])["growth_mb"]
    shape = modules.padded_memory.shape(wide, "f32")
    computed = modules.padded_memory.padded(shape, 8, 1024)["peak"] / 2**20
    assert computed < measured < 3 * computed


class Vectors:
    """A system that has run."""

    def __init__(self, name, values):
        self.name, self.values = name, np.asarray(values, np.float32)

    def save(self, path):
        np.save(path, self.values)


def test_disagreement_ends_the_run(modules, tmp_path):
    good = Vectors("hf", [[1, 0], [0, 1]])
    off = Vectors("engine", [[1, 0], [0.6, 0.8]])
    with pytest.raises(SystemExit, match="engine and hf disagree.*document 1"):
        modules.padded_vs_packed.compare_vectors([good, off], "hf", "f32", str(tmp_path))
    with pytest.raises(SystemExit, match="gave 1 vectors"):
        modules.padded_vs_packed.compare_vectors([good, Vectors("st", [[1, 0]])], "hf", "f32",
                                                 str(tmp_path))


def test_other_counts_end_the_run(modules):
    row = {"system": "hf", "tokens": 8, "documents": 2, "rows": 10}
    modules.padded_vs_packed.check_counts([row], [3, 5])
    for wrong in ({"tokens": 9}, {"documents": 3}, {"rows": 8}):
        with pytest.raises(SystemExit):
            modules.padded_vs_packed.check_counts([{**row, **wrong}], [3, 5])


def test_engine_is_left_out_by_name(modules):
    args = Namespace(systems="hf,engine", device="cuda", dtype="bf16", warpgroup="warpgroup",
                     no_limit=False, run_padded=False)
    names, left_out = modules.padded_vs_packed.chosen(args)
    assert names == ["hf"] and "bf16 on cuda" in left_out["engine"]
    args.systems = "hf,tei"
    with pytest.raises(SystemExit, match="'tei' is unknown"):
        modules.padded_vs_packed.chosen(args)


def test_pdfs_hold_the_texts(program, modules, tmp_path):
    """Same bytes twice, distinct texts of the lengths that were asked for, read as written."""
    try:
        first = modules.make_pdfs.make("stress", tmp_path / "a", 4)
    except (SystemExit, FileNotFoundError) as error:
        pytest.skip(f"the words of the corpora are not on this machine: {error}")
    again = modules.make_pdfs.make("stress", tmp_path / "b", 2)
    assert again["words"] == first["words"][:2]
    for path in sorted((tmp_path / "b").glob("*.pdf")):
        assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes()
    read = subprocess.run([program, "read", str(tmp_path / "a")], capture_output=True, text=True)
    assert read.returncode == 0, read.stderr
    texts = [json.loads(line)["text"].split() for line in read.stdout.splitlines()]
    made, _ = modules.make_corpus.texts(7, plan_of=modules.make_pdfs.plan("stress", 4, 7))
    want = [list(filter(None, map(modules.make_pdfs.showable, t.split()))) for t in made["stress"]]
    assert texts == want
    assert [len(t) for t in texts] == first["words"]
    assert all(45 <= n <= 130 for n in first["words"][::2])
    assert all(1800 <= n <= 2000 for n in first["words"][1::2])
    assert len({" ".join(t) for t in texts}) == 4
    with pytest.raises(SystemExit, match="holds PDF files already"):
        modules.make_pdfs.make("stress", tmp_path / "a", 1)
