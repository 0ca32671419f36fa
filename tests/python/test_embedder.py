"""Embedder and Model: names, prompts, errors, signals, forks; and the CLI's bytes."""
from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import warpgroup
from conftest import DATA, ROOT, run_python
from warpgroup import Embedder, Model

MEAN = DATA / "tiny-bert-h32-d8-mean"
DENSE = DATA / "tiny-bert-h48-d24-cls-dense"
DECODER = DATA / "tiny-llama-h64-d16-f16-tied"
LAST = DATA / "tiny-qwen3-h48-d32-bf16-embed-lasttoken"

WORDS = "the a cat ran from signal to light over many quiet hills é 日本 and it was good".split()


def make_texts(count: int, longest: int = 60, seed: int = 1) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(1, longest))) for _ in range(count)]


TEXTS = make_texts(80)


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder(MEAN)


@pytest.fixture
def prompted(tmp_path: Path) -> Path:
    """A model directory with prompts."""
    folder = tmp_path / "prompted"
    shutil.copytree(MEAN, folder)
    (folder / "config_sentence_transformers.json").write_text(json.dumps({
        "prompts": {"query": "the query: ", "document": "", "light": "many quiet "},
        "default_prompt_name": "light", "similarity_fn_name": "dot"}))
    return folder


# ------------------------------------------------------------------------------ shapes and order


def test_shapes(embedder: Embedder) -> None:
    many = embedder.encode(TEXTS)
    assert many.shape == (len(TEXTS), embedder.get_embedding_dimension())
    assert many.dtype == np.float32 and many.flags.c_contiguous
    one = embedder.encode(TEXTS[3])
    assert one.shape == (32,) and one.tobytes() == many[3].tobytes()
    assert embedder.encode([]).shape == (0, 32)
    assert embedder.get_sentence_embedding_dimension() == 32
    assert embedder.encode(TEXTS[:2], truncate_dim=5).shape == (2, 5)


def test_a_vector_does_not_depend_on_the_call(embedder: Embedder) -> None:
    whole = embedder.encode(TEXTS)
    assert embedder.encode(TEXTS[::-1])[::-1].tobytes() == whole.tobytes()
    for options in ({"threads": 1}, {"threads": 3}, {"batch_tokens": 700}, {"batch_size": 3}):
        assert embedder.encode(TEXTS, **options).tobytes() == whole.tobytes(), options


def test_what_texts_may_be(embedder: Embedder) -> None:
    whole = embedder.encode(TEXTS).tobytes()
    assert embedder.encode(tuple(TEXTS)).tobytes() == whole
    assert embedder.encode(np.array(TEXTS)).tobytes() == whole
    assert embedder.encode(text for text in TEXTS).tobytes() == whole
    assert embedder.encode([text.encode() for text in TEXTS]).tobytes() == whole


def test_surrogates_count_as_replacement_characters() -> None:
    embedder = Embedder(DECODER)  # The tokenizers of BERT leave U+FFFD out.
    found = embedder.encode(["a \ud800 cat", "a cat \udcff", "\ud83d\ude00 ran"])
    expected = embedder.encode(["a \ufffd cat", "a cat \ufffd", "\U0001f600 ran"])
    assert found.tobytes() == expected.tobytes()
    assert found.tobytes() != embedder.encode(["a  cat", "a cat ", " ran"]).tobytes()


@pytest.mark.parametrize("texts", [[None], ["a", 3], ["a", ["b"]]])
def test_what_is_no_text_is_named(embedder: Embedder, texts: list) -> None:
    with pytest.raises(TypeError, match=f"text {len(texts) - 1} must be a str or bytes"):
        embedder.encode(texts)


# ------------------------------------------------------------------------------ the CLI's bytes


def find_cli() -> str:
    """$WARPGROUP_CLI, or the program of a build in the source tree."""
    found = os.environ.get("WARPGROUP_CLI")
    if found:
        return found
    built = sorted((path for path in ROOT.glob("build/*/warpgroup") if path.is_file()),
                   key=lambda path: path.stat().st_mtime)
    if not built:
        pytest.skip("no program warpgroup: set WARPGROUP_CLI, or build it")
    return str(built[-1])


@pytest.mark.parametrize("model", [MEAN, DENSE, DECODER, LAST], ids=lambda path: path.name)
@pytest.mark.parametrize("flags, options", [
    ([], {}),
    (["--max-length", "16"], {"max_length": 16}),
    (["--max-length", "16", "--truncate", "tail"], {"max_length": 16, "truncate": "tail"}),
    (["--truncate-dim", "12", "--normalize"], {"truncate_dim": 12, "normalize_embeddings": True}),
    (["--prompt", "the cat: ", "--pooling", "max"], {"prompt": "the cat: ", "pooling": "max"}),
], ids=["plain", "short", "tail", "cut", "prompt"])
def test_the_bytes_are_those_of_the_program(tmp_path: Path, model: Path, flags: list[str],
                                            options: dict) -> None:
    corpus = tmp_path / "in.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    subprocess.run([find_cli(), "embed", "-m", str(model), "-o", str(tmp_path / "out"),
                    "--progress", "none", *flags, str(corpus)], check=True)
    expected = np.load(tmp_path / "out" / "embeddings.npy")
    found = Embedder(model).encode(TEXTS, **options)
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def test_a_real_model(tmp_path: Path) -> None:
    """MiniLM, where there is one: the program's bytes, and sentence-transformers' vectors."""
    model = os.environ.get("WARPGROUP_MODEL")
    if not model:
        pytest.skip("no model: set WARPGROUP_MODEL to a directory of all-MiniLM-L6-v2")
    corpus = tmp_path / "in.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    subprocess.run([find_cli(), "embed", "-m", model, "-o", str(tmp_path / "out"), "--progress",
                    "none", str(corpus)], check=True)
    found = Embedder(model).encode(TEXTS)
    assert found.tobytes() == np.load(tmp_path / "out" / "embeddings.npy").tobytes()
    theirs = pytest.importorskip("sentence_transformers").SentenceTransformer(model, device="cpu")
    assert close(found, theirs.encode(TEXTS))


# ----------------------------------------------------------------------- sentence-transformers


@pytest.fixture(scope="module")
def original():
    return pytest.importorskip("sentence_transformers").SentenceTransformer


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("model", [MEAN, DENSE], ids=lambda path: path.name)
@pytest.mark.parametrize("options", [{}, {"normalize_embeddings": True},
                                     {"normalize_embeddings": False}, {"truncate_dim": 7},
                                     {"truncate_dim": 7, "normalize_embeddings": True},
                                     {"prompt": "the cat: "}], ids=str)
def test_as_sentence_transformers(original, model: Path, options: dict) -> None:
    theirs = original(str(model), device="cpu")
    assert close(Embedder(model).encode(TEXTS, **options), theirs.encode(TEXTS, **options))


def test_prompts_as_sentence_transformers(original, prompted: Path) -> None:
    theirs, ours = original(str(prompted), device="cpu"), Embedder(prompted)
    assert ours.prompts == theirs.prompts
    assert ours.similarity_fn_name == theirs.similarity_fn_name
    assert close(ours.encode(TEXTS), theirs.encode(TEXTS))
    assert close(ours.encode_query(TEXTS), theirs.encode_query(TEXTS))
    assert close(ours.encode_document(TEXTS), theirs.encode_document(TEXTS))
    assert close(ours.encode(TEXTS, prompt_name="query"), theirs.encode(TEXTS, prompt_name="query"))


@pytest.mark.parametrize("name", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarity_as_sentence_transformers(original, name: str) -> None:
    theirs = original(str(MEAN), device="cpu", similarity_fn_name=name)
    ours = Embedder(MEAN, similarity_fn_name=name)
    a, b = ours.encode(TEXTS[:9]), ours.encode(TEXTS[9:16])
    assert np.allclose(ours.similarity(a, b), theirs.similarity(a, b).numpy(), atol=1e-4)
    assert np.allclose(ours.similarity(a[0], b), theirs.similarity(a[0], b).numpy(), atol=1e-4)
    assert np.allclose(ours.similarity_pairwise(a[:7], b),
                       theirs.similarity_pairwise(a[:7], b).numpy(), atol=1e-4)


def test_tensors(embedder: Embedder) -> None:
    torch = pytest.importorskip("torch")
    whole = embedder.encode(TEXTS)
    tensor = embedder.encode(TEXTS, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor) and tensor.numpy().tobytes() == whole.tobytes()
    rows = embedder.encode(TEXTS, convert_to_numpy=False)
    assert isinstance(rows, list) and rows[5].numpy().tobytes() == whole[5].tobytes()
    scores = embedder.similarity(tensor, whole)
    assert isinstance(scores, torch.Tensor) and scores.shape == (len(TEXTS), len(TEXTS))


# --------------------------------------------------------------------------------------- prompts


def test_prompts(prompted: Path) -> None:
    embedder = Embedder(prompted)
    plain = embedder.encode([f"many quiet {text}" for text in TEXTS], prompt="")
    assert embedder.encode(TEXTS).tobytes() == plain.tobytes()
    asked = embedder.encode([f"the query: {text}" for text in TEXTS], prompt="")
    assert embedder.encode_query(TEXTS).tobytes() == asked.tobytes()
    assert embedder.encode_document(TEXTS).tobytes() == embedder.encode(TEXTS, prompt="").tobytes()
    own = Embedder(prompted, prompts={"query": "a cat "}, default_prompt_name="query")
    cats = embedder.encode([f"a cat {text}" for text in TEXTS], prompt="")
    assert own.encode(TEXTS).tobytes() == cats.tobytes()
    with pytest.raises(warpgroup.ArgumentError, match="prompt name 'none' is not known"):
        embedder.encode(TEXTS, prompt_name="none")
    with pytest.raises(warpgroup.ArgumentError, match="prompt name 'none' is not known"):
        Embedder(prompted, default_prompt_name="none")


def test_max_seq_length(embedder: Embedder) -> None:
    own = Embedder(MEAN)
    assert own.max_seq_length == embedder.info["token_count_default"]
    own.max_seq_length = 9
    assert own.max_seq_length == 9
    assert own.encode(TEXTS).tobytes() == embedder.encode(TEXTS, max_length=9).tobytes()


# --------------------------------------------------------------------------- texts that fail


LONG = ["a cat", "a cat " * 40, "ran", "the light " * 40, "signal"]


def test_a_text_that_fails_is_named(embedder: Embedder) -> None:
    with pytest.raises(warpgroup.LimitError, match="^text 1: too_long") as caught:
        embedder.encode(LONG, max_length=24, truncate="error")
    assert caught.value.index == 1
    with pytest.raises(ValueError):
        embedder.encode(LONG, max_length=24, truncate="error")


def test_the_others_go_on(embedder: Embedder) -> None:
    failures: list[warpgroup.Failure] = []
    found = embedder.encode(LONG, max_length=24, truncate="error", errors="nan", failures=failures)
    assert [(each.index, each.code) for each in failures] == [(1, "too_long"), (3, "too_long")]
    assert np.isnan(found[[1, 3]]).all()
    expected = embedder.encode([LONG[0], LONG[2], LONG[4]], max_length=24)
    assert found[[0, 2, 4]].tobytes() == expected.tobytes()
    with pytest.warns(UserWarning, match="2 of 5 texts have no vector.*text 1: too_long"):
        embedder.encode(LONG, max_length=24, truncate="error", errors="nan")


@pytest.mark.parametrize("options, sentence", [
    ({"truncate": "middle"}, "truncate 'middle' is not known: head, tail, error"),
    ({"pooling": "best"}, "pooling 'best' is not known"),
    ({"pooling": "none"}, "one vector a text"),
    ({"max_length": 0}, "max_length is 0"),
    ({"max_length": 2**40}, "max_length is 1099511627776"),
    ({"threads": -1}, "threads is -1"),
    ({"truncate_dim": 33}, "cannot be cut to 33"),
    ({"prompt": "a\0b"}, "prompt holds a NUL"),
    ({"errors": "ignore"}, "errors 'ignore' is not known"),
], ids=str)
def test_bad_options(embedder: Embedder, options: dict, sentence: str) -> None:
    with pytest.raises(warpgroup.ArgumentError, match=sentence):
        embedder.encode(TEXTS[:2], **options)


def test_bad_models(tmp_path: Path) -> None:
    with pytest.raises(warpgroup.Error, match="nowhere"):
        Embedder(tmp_path / "nowhere")
    with pytest.raises(warpgroup.UnsupportedError, match="device 'cuda:0'"):
        Embedder(MEAN, device="cuda:0")
    with pytest.raises(warpgroup.ArgumentError, match="isa 'best' is not known"):
        Embedder(MEAN, isa="best")


# ------------------------------------------------------------------------------------ the buffer


@pytest.mark.parametrize("out, error", [
    (np.empty((2, 32), np.float64), warpgroup.ArgumentError),
    (np.empty((2, 31), np.float32), warpgroup.ArgumentError),
    (np.empty((3, 32), np.float32), warpgroup.ArgumentError),
    (np.empty(64, np.float32), warpgroup.ArgumentError),
    (np.empty((2, 64), np.float32)[:, ::2], (BufferError, ValueError)),
    (np.frombuffer(bytes(256), np.float32).reshape(2, 32), (BufferError, ValueError)),
    ([0.0], TypeError),
], ids=["double", "narrow", "long", "flat", "strided", "readonly", "list"])
def test_out_is_checked(out: object, error: type) -> None:
    with pytest.raises(error):
        Model(MEAN).embed(["a", "b"], out)


def test_the_list_may_change_meanwhile() -> None:
    texts = make_texts(3000)
    expected = np.empty((len(texts), 32), np.float32)
    found = np.empty_like(expected)
    model = Model(MEAN)
    model.embed(texts, expected)
    own = list(texts)
    model.embed(own, found, tick=lambda done, count: own.clear())
    assert own == [] and found.tobytes() == expected.tobytes()


def test_references_are_given_back(embedder: Embedder) -> None:
    texts = ["".join(parts) for parts in (("a cat", " é"), ("ra", "n"))]  # not interned: ours alone
    before = [sys.getrefcount(text) for text in texts]
    for _ in range(20):
        embedder.encode(texts)
        with pytest.raises(TypeError):
            embedder.encode([*texts, None])
        with pytest.raises(warpgroup.LimitError):
            embedder.encode([*texts, "a " * 99], max_length=9, truncate="error")
    assert [sys.getrefcount(text) for text in texts] == before


def test_no_leak(embedder: Embedder) -> None:
    texts = ["é " * 2000 + "\ud800", "a " * 2000]
    tracemalloc.start()
    try:
        for turn in range(100):
            embedder.encode(texts)
            with pytest.raises(warpgroup.LimitError):
                embedder.encode(texts, max_length=9, truncate="error")
            if turn == 20:
                before, _ = tracemalloc.get_traced_memory()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100000  # one text a turn would be more than 300,000


# ------------------------------------------------------------------- signals, threads, processes


SLOW = ["the cat ran " * 150] * 60000  # Minutes of work for one thread; the bytes are shared.


def test_ctrl_c() -> None:
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    embedder = Embedder(DENSE)
    timer = threading.Timer(1.0, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        embedder.encode(SLOW, threads=1)
    assert time.monotonic() - sent[0] < 1.0
    timer.join()
    assert embedder.encode("a cat").shape == (embedder.get_embedding_dimension(),)


def test_what_tick_raises_comes_out() -> None:
    out = np.empty((len(SLOW), 32), np.float32)

    def tick(done: int, count: int) -> None:
        assert count == len(SLOW)
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        Model(MEAN).embed(SLOW, out, tick=tick)


def test_the_lock_is_given_up(embedder: Embedder) -> None:
    """Another Python thread runs while texts are embedded."""
    counted = [0]
    is_done = threading.Event()

    def count() -> None:
        while not is_done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    texts = make_texts(6000)
    thread = threading.Thread(target=count)
    thread.start()
    begin, at = time.monotonic(), counted[0]
    embedder.encode(texts, threads=1)
    seconds, turns = time.monotonic() - begin, counted[0] - at
    is_done.set()
    thread.join()
    assert turns > 30 * seconds


def test_threads_share_an_embedder(embedder: Embedder) -> None:
    expected = embedder.encode(TEXTS).tobytes()
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(
        embedder.encode(TEXTS, threads=1).tobytes())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_pickle(prompted: Path) -> None:
    embedder = Embedder(prompted, truncate_dim=9, max_length=12, prompts={"query": "cat "})
    again = pickle.loads(pickle.dumps(embedder))
    assert again.encode_query(TEXTS).tobytes() == embedder.encode_query(TEXTS).tobytes()
    assert again.max_seq_length == 12


def in_child(body) -> int:
    child = os.fork()
    if child == 0:
        code = 9
        try:
            code = body()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork(embedder: Embedder) -> None:
    expected = embedder.encode(TEXTS).tobytes()
    model = embedder.model

    def refused() -> int:
        try:
            model.embed(["a"], np.empty((1, 32), np.float32))
        except warpgroup.Error as error:
            return 0 if "fork" in str(error) else 2
        return 1

    assert in_child(refused) == 0
    assert in_child(lambda: int(embedder.encode(TEXTS).tobytes() != expected)) == 0
    assert embedder.encode(TEXTS).tobytes() == expected


def test_the_interpreter_ends_with_work_in_flight() -> None:
    said = run_python("import threading, time, warpgroup\n"
                      f"embedder = warpgroup.Embedder({str(MEAN)!r})\n"
                      "texts = ['the cat ran ' * 150] * 60000\n"
                      "work = threading.Thread(target=embedder.encode, args=[texts], daemon=True)\n"
                      "work.start()\n"
                      "time.sleep(0.5)\n"
                      "print('leaving')\n")
    assert said.startswith("leaving")


# -------------------------------------------------------------------------------------- progress


def test_progress_bar(embedder: Embedder, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    embedder.encode(TEXTS, show_progress_bar=True)
    assert f"{len(TEXTS)}/{len(TEXTS)}" in capsys.readouterr().err


def test_progress_without_tqdm(embedder: Embedder, capsys: pytest.CaptureFixture[str],
                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    embedder.encode(TEXTS, show_progress_bar=True)
    assert f"warpgroup: {len(TEXTS)} of {len(TEXTS)} texts" in capsys.readouterr().err


def test_import_needs_numpy_only() -> None:
    """torch and the rest are imported by the modules that need them, and no name is shadowed."""
    code = ("import sys, warpgroup\n"
            "warpgroup.Embedder\n"
            "heavy = {'torch', 'transformers', 'ray', 'mteb', 'pyarrow', 'datasets', 'pandas'}\n"
            "print(*sorted(name for name in heavy if sys.modules.get(name)), end='')\n")
    assert run_python(code) == ""
