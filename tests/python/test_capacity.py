"""determine_capacity: functions whose capacity the test knows, and models under a memory limit."""
from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from conftest import cached_model, requires, run_python, start_python

import warpgroup
from warpgroup import _core
from warpgroup.capacity import Capacity, determine_capacity, is_out_of_memory, try_in_child

MIB = 2**20

# ------------------------------------------------------------------------------- functions


@pytest.mark.parametrize("holds", [300, 4097, 76_500, 1_000_000])
@pytest.mark.parametrize("answer", ["bool", "seconds", "error"])
def test_a_function_that_tries_a_size(holds, answer):
    def run(tokens):
        if tokens <= holds:
            return tokens * 1e-6 if answer == "seconds" else True if answer == "bool" else None
        if answer == "error":
            raise MemoryError("no room")
        return False

    found = determine_capacity(run=run, start=256)
    assert isinstance(found, Capacity)
    assert holds / 1.031 - 1 <= found.tokens <= holds
    assert found.fitted_tokens == found.tokens and found.refused_tokens > holds
    assert [t.tokens for t in found.tries[:2]] == [256, 512]
    refused = [t for t in found.tries if not t.fits]
    assert refused and all(t.reason == ("no room" if answer == "error" else "run() said no")
                           for t in refused)
    if answer == "seconds":  # the rate is the same everywhere, so the least size will do
        assert found.knee_tokens < 512
        assert found.bin_tokens == found.knee_tokens


def test_the_knee_is_where_the_rate_stops_growing():
    found = determine_capacity(run=lambda n: max(n, 2000) * 1e-6, max_tokens=16384)
    assert found.tokens == 16384 and found.refused_tokens == 0
    assert found.knee_tokens == 2048
    assert found.knee_tokens_per_s == pytest.approx(1e6, rel=1e-3)
    without = determine_capacity(run=lambda n: max(n, 2000) * 1e-6, max_tokens=16384, knee=False)
    assert without.knee_tokens == 0 and without.bin_tokens == 16384
    assert not any(t.is_for_knee for t in without.tries)


def test_modes_and_reserve():
    found = determine_capacity(run=lambda n: n <= 76_500, mode="step", knee=False)
    assert (found.fitted_tokens, found.tokens) == (75_000, 67_500)
    found = determine_capacity(run=lambda n: n <= 76_500, mode="step", step=1000, keep=0.5,
                               knee=False)
    assert (found.fitted_tokens, found.tokens) == (76_000, 38_000)
    found = determine_capacity(run=lambda n: n <= 10_000, reserve=500, knee=False)
    assert found.tokens == found.fitted_tokens - 500


def test_nothing_fits():
    with pytest.raises(warpgroup.LimitError, match="256 tokens"):
        determine_capacity(run=lambda n: np.bool_(False))
    with pytest.raises(warpgroup.LimitError, match="256 tokens.*start lower"):
        determine_capacity(run=lambda n: False)


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), KeyboardInterrupt(), SystemExit(3),
                                   RuntimeError("of another kind")])
def test_what_the_function_raises_is_raised(error):
    calls = []

    def run(tokens):
        calls.append(tokens)
        if tokens > 1000:
            raise error
        return True

    with pytest.raises(type(error)) as caught:
        determine_capacity(run=run)
    assert caught.value is error
    assert calls == [256, 512, 1024]


def test_control_c_between_tries():
    calls = []

    def run(tokens):
        calls.append(tokens)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        return True

    with pytest.raises(KeyboardInterrupt):
        determine_capacity(run=run)
    assert calls == [256]


@pytest.mark.parametrize("arguments, match", [
    (dict(), "a model, or run="),
    (dict(model=1, run=bool), "a model, or run="),
    (dict(run=bool, mode="fast"), 'mode is "fast"'),
    (dict(run=bool, start=0), "start is 0"),
    (dict(run=bool, max_tokens=0), "max_tokens is 0"),
    (dict(run=bool, reserve=-1), "reserve is -1"),
    (dict(run=bool, step=2**70), "step is"),
    (dict(run=bool, keep=1.5, mode="step"), "keep is 1.5"),
    (dict(run=lambda n: -1.0), "gave -1.0"),
    (dict(run=lambda n: float("nan")), "gave nan"),
    (dict(run=lambda n: 0), "gave 0; seconds above 0"),
])
def test_arguments(arguments, match):
    with pytest.raises(warpgroup.ArgumentError, match=match):
        determine_capacity(**arguments)


def test_core_wants_pairs():
    def measure(run):
        return _core.capacity_measure(run, False, 0, 0, 0.0, 0, 0, 0.0, True, 0, 0, 0.0)

    assert measure(lambda n: (n <= 300, 0.5))[0] <= 300
    for wrong in (None, True, (), (True,), (True, "x"), [True, 1.0]):
        with pytest.raises(TypeError):
            measure(lambda n, wrong=wrong: wrong)


def test_memory_available():
    assert MIB < _core.memory_available() < 2**50


def test_what_out_of_memory_looks_like():
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(warpgroup.OutOfMemoryError("x"))
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: ..."))
    assert is_out_of_memory(RuntimeError("std::bad_alloc"))
    assert not is_out_of_memory(RuntimeError("size mismatch"))
    assert not is_out_of_memory(ValueError("can't allocate memory"))


# -------------------------------------------------------------------------------- children


def test_a_child_that_goes_through_and_one_that_has_no_memory():
    assert try_in_child(lambda: None, 64 * MIB, 30, "x") == ""
    assert try_in_child(lambda: bytearray(32 * MIB), 64 * MIB, 30, "x") == ""
    assert "MemoryError" in try_in_child(lambda: bytearray(256 * MIB), 64 * MIB, 30, "x")


def test_a_child_that_is_killed_does_not_fit():
    reason = try_in_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 64 * MIB, 30, "x")
    assert reason == "killed by SIGKILL"
    assert "SIGABRT" in try_in_child(os.abort, 64 * MIB, 30, "x")
    assert "status 7" in try_in_child(lambda: os._exit(7), 64 * MIB, 30, "x")


def test_a_child_that_fails_or_hangs_is_an_error():
    with pytest.raises(warpgroup.Error, match="five failed for another reason.*division"):
        try_in_child(lambda: 1 // 0, 64 * MIB, 30, "five")
    began = time.monotonic()
    with pytest.raises(warpgroup.Error, match="five did not end within 0.3 s"):
        try_in_child(lambda: time.sleep(60), 64 * MIB, 0.3, "five")
    assert time.monotonic() - began < 10
    with pytest.raises(ChildProcessError):  # none is left behind
        os.waitpid(-1, os.WNOHANG)


def test_a_child_says_nothing_and_runs_no_exit_handlers():
    out = run_python("""if True:
        import atexit, sys
        from warpgroup.capacity import try_in_child
        atexit.register(lambda: print("bye"))
        sys.stdout.write("once ")
        def work():
            print("noise", flush=True)
            raise MemoryError
        assert try_in_child(work, 1 << 26, 30, "x")
        """)
    assert out == "once bye\n"


def test_control_c_ends_the_child_too():
    child = start_python("""if True:
        import time
        from warpgroup.capacity import try_in_child
        print("ready", flush=True)
        try:
            try_in_child(lambda: time.sleep(60), 1 << 26, 60, "x")
        except KeyboardInterrupt:
            import os
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                print("no child is left")
        """)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (out, child.returncode) == ("no child is left\n", 0), err


# ---------------------------------------------------------------------------------- models


TINY = """if True:
    import os
    import torch, transformers
    from warpgroup.capacity import determine_capacity, _Tries, try_in_child
    from warpgroup.varlen import VarlenModel
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=97, hidden_size=64, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=256, max_position_embeddings=128)
    model = transformers.AutoModel.from_config(config).eval()
    before = model.config._attn_implementation
    torch.ones(300, 300) @ torch.ones(300, 300)  # the threads that a fork does not copy are there
    def held():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    """


def test_a_model_under_a_limit():
    """The answer is close to what fits by trying sizes one by one, and the parent lives on."""
    requires("torch", "transformers")
    out = run_python(TINY + """
    packed = VarlenModel(model)  # what its proof takes is held now
    room = 64 << 20
    found = determine_capacity(packed, "cpu", memory=held() + room, max_tokens=200_000,
                               knee=False, timeout=60)
    assert found.refused_tokens, found
    tries = _Tries(packed, None)
    def fits(tokens):
        return not try_in_child(lambda: tries.forward(tokens), room, 60, "x")
    # An allocator's holes make a size here or there an exception; a third is beyond them.
    assert fits(found.tokens * 2 // 3), found
    assert not fits(found.tokens * 3 // 2), found
    # Sizes are timed in this process, whose heap is another from then on.
    timed = determine_capacity(packed, max_tokens=1024, knee_runs=1, timeout=60)
    assert timed.knee_tokens and [t.tokens for t in timed.tries if t.is_for_knee] == [1024, 512,
                                                                                     256, 128]
    print(found.tokens, any("allocate" in t.reason for t in found.tries))
    """, timeout=300)
    tokens, said = out.split()
    assert 500 < int(tokens) < 100_000 and said == "True"


def test_limits_and_what_is_refused():
    requires("torch", "transformers")
    out = run_python(TINY + """
    import warpgroup
    for arguments in (dict(memory=1 << 20), dict(device="cuda"), dict(model=torch.nn.Linear(2, 2))):
        try:
            determine_capacity(**{"model": model, **arguments})
        except warpgroup.Error as error:
            print(type(error).__name__, error)
        assert model.config._attn_implementation == before
    found = determine_capacity(VarlenModel(model), max_tokens=700, knee=False, timeout=60)
    assert model.config._attn_implementation == "warpgroup"  # the caller's stays as it is
    print(found.tokens, [t.tokens for t in found.tries])
    """, timeout=300)
    taken, device, kind, found = out.splitlines()
    assert taken.startswith("LimitError memory is 1048576 bytes, and the process holds")
    assert device == "ArgumentError the model is on cpu, not cuda; move it with model.to()"
    assert kind == "ArgumentError VarlenModel takes a transformers model, not Linear"
    assert found == "700 [256, 512, 700]"


def test_cuda_out_of_memory(monkeypatch):
    """What is done around the forward pass on CUDA, with a device of 5,000 tokens made up."""
    requires("torch")
    import torch

    from warpgroup import capacity

    emptied = []

    class Tries:
        class model:
            device = torch.device("cuda", 0)

        def __init__(self, model, max_seqlen):
            self.seqlen = 512

        def close(self):
            emptied.append("closed")

        def forward(self, tokens):
            if tokens > 5000:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    monkeypatch.setattr(capacity, "_Tries", Tries)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: emptied.append(device))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append("emptied"))
    found = determine_capacity(object(), "cuda")
    assert 5000 / 1.031 - 1 <= found.tokens <= 5000
    assert emptied.count("emptied") == sum(not t.fits for t in found.tries) > 0
    assert emptied.count(torch.device("cuda", 0)) == sum(t.fits for t in found.tries)
    assert emptied[-1] == "closed"
    assert "Tried to allocate" in next(t.reason for t in found.tries if not t.fits)
    with pytest.raises(warpgroup.ArgumentError, match="memory= is for models on a CPU"):
        determine_capacity(object(), memory=MIB)
    assert determine_capacity(run=lambda n: Tries(0, 0).forward(n), knee=False).tokens <= 5000


def test_other_python_threads_do_not_hang_a_child():
    stop = threading.Event()
    thread = threading.Thread(target=lambda: [stop.wait(0.001) for _ in iter(stop.is_set, True)])
    thread.start()
    try:
        for _ in range(20):
            assert try_in_child(lambda: sum(range(1000)), 64 * MIB, 30, "x") == ""
    finally:
        stop.set()
        thread.join()


def test_minilm_fits_more_than_a_bin():
    requires("torch", "transformers")
    path = cached_model("all-MiniLM-L6-v2")
    out = run_python(f"""if True:
        import transformers
        from warpgroup import determine_capacity
        model = transformers.AutoModel.from_pretrained({str(path)!r}).eval()
        print(determine_capacity(model, max_tokens=1024, knee=False, timeout=120).tokens)
        """, timeout=300)
    assert int(out.splitlines()[-1]) == 1024
