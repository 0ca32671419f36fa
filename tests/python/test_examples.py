"""The Python programs of examples/ do what they say."""
from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from conftest import DATA, ROOT, cached_model, python_environment, requires

import warpgroup

PAPERS = ROOT / "examples" / "corpus" / "papers"


def run_example(name, *arguments, timeout=600):
    return subprocess.run([sys.executable, ROOT / "examples" / name, *map(str, arguments)],
                          env=python_environment(), cwd=ROOT, capture_output=True, text=True,
                          timeout=timeout, check=False)


def alone(model_dir):
    """{source: vector} by transformers' own attention, each document by itself."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(model_dir, dtype=torch.float32,
                                      attn_implementation="eager").eval()
    limit = 512 if "MiniLM" in str(model_dir) else 64
    found = {}
    with warpgroup.Engine(capacity=4096) as engine, warpgroup.ingest(
            engine, PAPERS, model_dir, max_length=limit) as files, torch.no_grad():
        for bin in engine:
            cu = bin.cu_seqlens.tolist()
            for i, start, end in zip(bin.ids.tolist(), cu, cu[1:]):
                ids = torch.tensor(bin.input_ids[start:end].tolist())
                hidden = model(input_ids=ids[None]).last_hidden_state[0]
                found[files.documents[i].source] = hidden.double().mean(0).numpy()
    return found


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", "tiny-xlm-roberta-h40-d20-f16-cls"])
def test_hf_corpus(model, tmp_path):
    requires("torch", "transformers")
    model_dir = DATA / model if model.startswith("tiny") else cached_model(model)
    out = tmp_path / "vectors.npz"
    done = run_example("hf_corpus.py", model_dir, PAPERS, out)
    # One of the papers is a scan without text, which is told and not hidden.
    assert done.returncode == 1, done.stderr
    assert "6 documents, 1 failed" in done.stdout
    assert "scanned-page.pdf: no text layer" in done.stderr
    got, want = np.load(out), alone(model_dir)
    assert len(want) == 6
    assert sorted(want) == sorted(str(PAPERS / source.split("/")[-1]) for source in got["sources"])
    for source, vector in zip(got["sources"], got["vectors"]):
        assert np.abs(vector - want[source]).max() <= 1e-5 * np.abs(want[source]).max()


def test_hf_corpus_is_short():
    lines = (ROOT / "examples" / "hf_corpus.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 40
