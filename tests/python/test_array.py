"""Array: one memory for all who look at it, read-only where that can be said, and kept for them."""
from __future__ import annotations

import ctypes
import io
import threading

import numpy as np
import pytest

from conftest import requires
from warpgroup import Array, Bin, ClosedError, Engine


@pytest.fixture
def engine():
    with Engine(64, slots=4) as one:
        yield one


def filled(engine: Engine) -> Bin:
    engine.submit([11, 12, 13], id=7)
    engine.submit([21, 22], id=2**63 + 1)
    engine.flush()
    return engine.next(timeout=10)


def address(memory) -> int:
    return np.asarray(memory).__array_interface__["data"][0]


class Versioned:
    """A tensor as consumers of DLPack see it, with the arguments that they give."""

    def __init__(self, array: Array, **given) -> None:
        self.array, self.given = array, given

    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**{**asked, **self.given})

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Old(Versioned):
    """A consumer that asks as before DLPack 1.0."""

    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**self.given)


# --------------------------------------------------------------------------------- like a sequence


def test_an_array_is_a_sequence_of_ints(engine):
    packed = filled(engine)
    ids = packed.input_ids
    rows = dict(zip(packed.ids.tolist(), packed.cu_seqlens))
    begin = rows[7]
    assert isinstance(ids, Array) and len(ids) == 5 and ids.shape == (5,) and ids.dtype == "int32"
    assert ids[begin] == 11 and ids[begin - 5] == 11
    assert ids[begin:begin + 3].tolist() == [11, 12, 13]
    assert list(ids) == ids.tolist() and sorted(ids) == [11, 12, 13, 21, 22]
    assert packed.ids.dtype == "uint64" and set(packed.ids) == {7, 2**63 + 1}
    bounds = packed.cu_seqlens
    assert repr(bounds) == f"Array({bounds.tolist()}, shape=(3,), dtype=int32)"
    for index in (5, -6):
        with pytest.raises(IndexError):
            ids[index]
    with pytest.raises(TypeError):
        ids["a"]
    with pytest.raises(TypeError):
        ids[0] = 1
    with pytest.raises(TypeError):
        Array()


def test_a_long_array_is_shown_short(engine):
    engine.submit(range_list(20))
    engine.flush()
    shown = repr(engine.next(timeout=10).input_ids)
    assert shown == "Array([0, 1, 2, 3, 4, 5, 6, 7, ...], shape=(20,), dtype=int32)"


def range_list(count: int) -> list[int]:
    return list(range(count))


def test_arrays_are_made_once(engine):
    packed = filled(engine)
    assert packed.input_ids is packed.input_ids
    assert packed.input_ids is not packed.position_ids


# -------------------------------------------------------------------------------------- one memory


def test_numpy_and_memoryview_share_the_memory(engine):
    packed = filled(engine)
    ids = packed.input_ids
    for seen in (ids.numpy(), np.asarray(ids), np.frombuffer(ids, np.int32), np.from_dlpack(ids)):
        assert seen.dtype == np.int32 and seen.tolist() == ids.tolist()
        assert address(seen) == address(ids) and not seen.flags.writeable
    assert packed.ids.numpy().dtype == np.uint64
    view = memoryview(ids)
    assert (view.readonly, view.ndim, view.format, view.itemsize) == (True, 1, "i", 4)
    assert memoryview(packed.ids).format in "LQ" and memoryview(packed.ids).nbytes == 16
    assert bytes(ids) == ids.numpy().tobytes()


def test_memory_is_read_only_for_those_who_ask_to_write(engine):
    ids = filled(engine).input_ids
    with pytest.raises(ValueError):
        ids.numpy()[0] = 1
    with pytest.raises((BufferError, TypeError), match="read-only|not writable"):
        ctypes.c_int.from_buffer(ids)
    with pytest.raises(TypeError, match="read-write"):
        io.BytesIO(bytes(20)).readinto(ids)


# ------------------------------------------------------------------------------------------ DLPack


def test_versioned_capsules_share_and_say_read_only(engine):
    ids = filled(engine).input_ids
    assert ids.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(ids.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" in repr(ids.__dlpack__(max_version=(2, 3)))
    for stream in (None, -1):
        shared = np.from_dlpack(Versioned(ids, stream=stream))
        assert address(shared) == address(ids) and not shared.flags.writeable


def test_a_copy_may_be_written_to(engine):
    ids = filled(engine).input_ids
    copied = np.from_dlpack(Versioned(ids, copy=True))
    assert copied.flags.writeable and address(copied) != address(ids)
    before = ids.tolist()
    copied[:] = -1
    assert ids.tolist() == before


def test_consumers_before_version_one_get_a_copy_or_an_error(engine):
    ids = filled(engine).input_ids
    capsule = ids.__dlpack__()
    assert '"dltensor"' in repr(capsule)
    for version in (None, (0, 8)):
        copied = np.from_dlpack(Old(ids, max_version=version))
        assert copied.tolist() == ids.tolist() and address(copied) != address(ids)
    with pytest.raises(BufferError, match="read-only.*max_version"):
        ids.__dlpack__(copy=False)
    assert "versioned" in repr(ids.__dlpack__(max_version=(1, 0), copy=False))


@pytest.mark.parametrize("given, error, match", [
    ({"stream": 1}, BufferError, "stream must be None or -1"),
    ({"stream": 0}, BufferError, "stream must be None or -1"),
    ({"stream": 1 << 80}, BufferError, "stream must be None or -1"),
    ({"stream": "main"}, BufferError, "stream must be None or -1"),
    ({"dl_device": (2, 0)}, BufferError, r"device \(2, 0\)"),
    ({"dl_device": (1, 1)}, BufferError, r"device \(1, 1\)"),
    ({"dl_device": 1}, TypeError, "dl_device"),
    ({"max_version": 1}, TypeError, "max_version"),
    ({"max_version": (1,)}, TypeError, "max_version"),
    ({"unknown": 1}, TypeError, "unknown"),
])
def test_dlpack_refuses_by_name(engine, given, error, match):
    ids = filled(engine).input_ids
    with pytest.raises(error, match=match):
        ids.__dlpack__(**given)
    assert ids.__dlpack__(dl_device=(1, 0), stream=-1, max_version=(1, 2)) is not None


def test_an_unused_capsule_frees_what_it_holds(engine):
    packed = filled(engine)
    capsules = [packed.input_ids.__dlpack__(max_version=(1, 0)) for _ in range(100)]
    capsules += [packed.input_ids.__dlpack__() for _ in range(100)]
    del packed
    assert engine.stats()["slots_exported"] == 1
    del capsules
    assert engine.stats()["slots_exported"] == 0


def test_torch_shares_the_memory_and_keeps_the_slot(engine):
    requires("torch")
    import torch

    packed = filled(engine)
    ids = packed.input_ids
    tensor = torch.from_dlpack(ids)
    assert tensor.dtype == torch.int32 and tensor.tolist() == ids.tolist()
    assert tensor.data_ptr() == address(ids)
    assert torch.from_dlpack(packed.ids).dtype == torch.uint64
    copied = torch.from_dlpack(ids, copy=True)
    assert copied.data_ptr() != address(ids)
    expected = ids.tolist()
    packed.release()
    del packed, ids
    assert engine.stats()["slots_exported"] == 1 and tensor.tolist() == expected
    del tensor
    assert engine.stats()["slots_exported"] == 0
    assert copied.tolist() == expected


def test_a_tensor_may_die_on_any_thread(engine):
    requires("torch")
    import torch

    def kill(box: list) -> None:
        box.clear()

    for _ in range(50):
        box = [torch.from_dlpack(filled(engine).input_ids)]
        thread = threading.Thread(target=kill, args=(box,))
        thread.start()
        thread.join()
        assert engine.stats()["slots_exported"] == 0


@pytest.mark.parametrize("module, call", [("jax", "jax.dlpack.from_dlpack"),
                                          ("cupy", "cupy.from_dlpack")])
def test_other_consumers(engine, module, call):
    requires(module)
    import importlib

    function = importlib.import_module(module)
    for name in call.split(".")[1:]:
        function = getattr(function, name)
    ids = filled(engine).input_ids
    if module == "cupy":
        with pytest.raises(Exception):
            function(ids)  # the memory is the CPU's
    else:
        assert np.asarray(function(ids)).tolist() == ids.tolist()


def test_sixteen_arrays_of_a_slot_are_the_most(engine):
    """A bin that fails is handed out again, while arrays of the time before are kept."""
    engine.submit([1, 2, 3])
    engine.finish()
    kept = []
    with pytest.raises(BufferError, match="16 exports of this bin are out.*drop some"):
        while True:
            packed = engine.next(timeout=10)
            kept += [packed.input_ids, packed.token_type_ids, packed.position_ids,
                     packed.cu_seqlens, packed.ids]
            assert not packed.fail()
    assert len(kept) == 15 and all(array.tolist() for array in kept)


# ----------------------------------------------------------------------------------- held memory


def test_views_outlive_release_engine_and_names(engine):
    packed = filled(engine)
    expected = packed.input_ids.tolist()
    views = [packed.input_ids, np.asarray(packed.input_ids), memoryview(packed.input_ids),
             np.from_dlpack(packed.input_ids), packed.input_ids[1:]]
    packed.release()
    del packed
    engine.submit([99] * 64)
    engine.submit([98] * 64)
    engine.finish()
    for other in engine:
        assert other.input_ids[0] in (98, 99)
    engine.close()
    for view in views:
        assert view.tolist() in (expected, expected[1:])


def test_each_kind_of_view_keeps_the_slot_by_itself(engine):
    for make in (lambda array: array, np.asarray, memoryview, np.from_dlpack, lambda a: a[1:2],
                 iter, lambda a: np.asarray(a)[::2]):
        packed = filled(engine)
        view = make(packed.input_ids)
        packed.release()
        del packed
        assert engine.stats()["slots_exported"] == 1, make
        del view
        assert engine.stats()["slots_exported"] == 0, make


def test_arrays_of_a_bin_that_was_given_back_are_refused(engine):
    packed = filled(engine)
    ids = packed.input_ids
    packed.release()
    packed.release()
    assert packed.is_released and len(packed) == 2 and packed.token_count == 5
    with pytest.raises(ClosedError, match="given back"):
        packed.input_ids
    with pytest.raises(ClosedError, match="given back"):
        packed.__enter__()
    assert len(ids) == 5
    with filled(engine) as other:
        assert not other.is_released
    assert other.is_released
