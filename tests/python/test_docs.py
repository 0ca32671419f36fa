"""The code in README.md and docs/python.md runs as it stands there."""
from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import ROOT, cached_model, requires


def blocks(page: str) -> list[tuple[int, str]]:
    """Line number and text of each block marked python."""
    text = (ROOT / page).read_text()
    return [(text[:match.start(1)].count("\n"), match[1])
            for match in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)]


def model_directory() -> Path:
    """WARPGROUP_MODEL, or the model where the scripts put it."""
    given = os.environ.get("WARPGROUP_MODEL")
    return Path(given) if given else cached_model("all-MiniLM-L6-v2")


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requires("torch", "transformers", "pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = blocks(page)
    assert found, f"no block of Python in {page}"
    (tmp_path / "all-MiniLM-L6-v2").symlink_to(model_directory())
    (tmp_path / "reports").symlink_to(ROOT / "examples" / "corpus")
    pq.write_table(pa.table({"id": [1, 2], "text": ["a text", "another text"]}), tmp_path / "notes.parquet")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for line, code in found:
        exec(compile("\n" * line + code, page, "exec"), names)  # so that a traceback names the page's line
