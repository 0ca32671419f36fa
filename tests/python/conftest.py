"""What the tests of the Python package share: skipping by name, paths, seeds, child processes."""
from __future__ import annotations

import importlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import warpgroup

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
SEED = 6

# A job that a script put into the background starts with SIGINT ignored, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)


def requires(*modules: str) -> None:
    """Skips the test, or the whole file, by name where one of the modules cannot be imported."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            pytest.skip(f"{module} cannot be imported here: {error}", allow_module_level=True)


def tiny_models() -> list[Path]:
    """The two-layer random models of the repository."""
    return sorted(path for path in DATA.glob("tiny-*") if path.is_dir())


def cached_model(name: str) -> Path:
    """A real model that was fetched before; skips by name where it was not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    path = cache / "warpgroup" / "models" / name
    if not path.exists():
        pytest.skip(f"model {name} was not fetched")
    return path


def run_in_threads(work: Callable[[], None], count: int = 4) -> None:
    """The work on several threads at once; what one of them raises is raised here."""
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work) for _ in range(count)]:
            done.result()


def expect_lock_left(work: Callable[[], object]) -> None:
    """While the work runs on a thread of its own, this one has turns of the interpreter lock."""
    turns = 0
    begin = time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        while not done.done():
            time.sleep(0.001)
            turns += 1
        done.result()
    assert time.perf_counter() - begin > 0.05, "too short to see anything"
    assert turns > 10  # one or two where the lock was held for all of it


def python_environment() -> dict[str, str]:
    """The environment of a child that is to import the same warpgroup as this process."""
    package = str(Path(warpgroup.__file__).absolute().parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def start_python(code: str) -> subprocess.Popen[str]:
    """A child that runs the code; its standard output and error can be read as text."""
    return subprocess.Popen([sys.executable, "-X", "dev", "-c", code], env=python_environment(),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_python(code: str, timeout: float = 60.0) -> str:
    """Standard output of a child that must end by itself with status 0."""
    child = start_python(code)
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
        pytest.fail(f"the child hung; it said: {out}{err}")
    assert child.returncode == 0, f"status {child.returncode}: {out}{err}"
    return out


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Every test begins with the same random numbers."""
    random.seed(SEED)
    np.random.seed(SEED)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)
