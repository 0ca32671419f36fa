"""attention_varlen against plain NumPy in double precision, and what it refuses."""
from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import warpgroup
from warpgroup import _core, attention_varlen


def plain(query, key, value, cu_seqlens, causal=False, window=0, scale=None):
    """The textbook: one softmax over all keys of the sequence."""
    query, key, value = (a.astype(np.float64) for a in (query, key, value))
    group = query.shape[1] // key.shape[1]
    key, value = np.repeat(key, group, axis=1), np.repeat(value, group, axis=1)
    out = np.zeros(query.shape)
    for begin, end in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        scores = np.einsum("qhd,khd->hqk", query[begin:end], key[begin:end])
        scores *= scale if scale else 1 / np.sqrt(query.shape[2])
        away = np.arange(end - begin)[None, :] - np.arange(end - begin)[:, None]
        if causal:
            scores[:, away > 0] = -np.inf
        if window:
            scores[:, abs(away) >= window] = -np.inf
        if end == begin:
            continue
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        out[begin:end] = np.einsum("hqk,khd->qhd", weights, value[begin:end])
    return out


def make(rows, heads, key_heads, dim, seed=1):
    random = np.random.default_rng(seed)
    return (
        random.standard_normal((rows, heads, dim), dtype=np.float32),
        random.standard_normal((rows, key_heads, dim), dtype=np.float32),
        random.standard_normal((rows, key_heads, dim), dtype=np.float32),
    )


@pytest.mark.parametrize("heads, key_heads, dim", [(1, 1, 5), (12, 12, 32), (9, 3, 64), (4, 1, 80)])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": 9}, {"scale": 0.3}])
def test_right(heads, key_heads, dim, options):
    cu_seqlens = np.array([0, 7, 7, 8, 600, 640])
    tensors = make(640, heads, key_heads, dim)
    got = attention_varlen(*tensors, cu_seqlens, **options)
    assert got.dtype == np.float32 and got.shape == tensors[0].shape
    np.testing.assert_allclose(got, plain(*tensors, cu_seqlens, **options), rtol=0, atol=2e-5)


def test_same_bytes_alone_and_on_threads():
    query, key, value = make(700, 4, 2, 20)
    cu_seqlens = [0, 13, 600, 700]
    packed = attention_varlen(query, key, value, cu_seqlens, threads=1)
    for threads in (0, 2, 3):
        again = attention_varlen(query, key, value, cu_seqlens, threads=threads)
        assert again.tobytes() == packed.tobytes()
    for begin, end in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        rows = slice(begin, end)
        alone = attention_varlen(query[rows], key[rows], value[rows], [0, end - begin])
        assert alone.tobytes() == packed[rows].tobytes()


def test_any_strides():
    cu_seqlens = [0, 20, 50]
    query, key, value = make(50, 4, 4, 16)
    want = attention_varlen(query, key, value, cu_seqlens).tobytes()
    heads_first = query.transpose(1, 0, 2).copy().transpose(1, 0, 2)  # [H, T, D] in memory
    fused = np.stack([query, key, value], axis=1)  # [T, 3, H, D], as a fused projection gives it
    assert attention_varlen(heads_first, key, value, cu_seqlens).tobytes() == want
    parts = (fused[:, 0], fused[:, 1], fused[:, 2])
    assert attention_varlen(*parts, cu_seqlens).tobytes() == want
    # What has to be copied: floats of a head not side by side, or rows that run backwards.
    scattered = np.asfortranarray(query)
    assert attention_varlen(scattered, key, value, cu_seqlens).tobytes() == want
    backwards = key[::-1].copy()[::-1]
    assert attention_varlen(query, backwards, value, cu_seqlens).tobytes() == want
    bytes_ = bytearray(query.nbytes + 1)
    unaligned = np.frombuffer(bytes_, dtype=np.float32, offset=1, count=query.size)
    unaligned = unaligned.reshape(query.shape)
    unaligned[:] = query
    assert attention_varlen(unaligned, key, value, cu_seqlens).tobytes() == want
    broadcast = np.broadcast_to(key[:1], key.shape)
    np.testing.assert_allclose(
        attention_varlen(query, broadcast, value, cu_seqlens),
        plain(query, broadcast, value, cu_seqlens),
        atol=1e-5,
    )


def test_nothing_to_do():
    query, key, value = make(0, 2, 1, 8)
    assert attention_varlen(query, key, value, [0]).shape == (0, 2, 8)
    assert attention_varlen(query, key, value, [0, 0, 0]).shape == (0, 2, 8)


def _zeros(*shape):
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    "change, part",
    [
        ({"cu_seqlens": [0, 4]}, "ends at 4"),
        ({"cu_seqlens": [1, 9]}, "cu_seqlens[0] is 1"),
        ({"cu_seqlens": [0, 6, 5, 9]}, "cu_seqlens[2] is 5"),
        ({"cu_seqlens": [0, 2**40, 9]}, "2**31"),
        ({"cu_seqlens": [0, -1, 9]}, "from 0"),
        ({"cu_seqlens": [[0, 9]]}, "[S + 1]"),
        ({"cu_seqlens": [0.0, 9.0]}, "whole numbers"),
        ({"cu_seqlens": []}, "[S + 1]"),
        ({"key": _zeros(9, 3, 8), "value": _zeros(9, 3, 8)}, "divide"),
        ({"key": _zeros(9, 2, 7)}, "alike"),
        ({"key": _zeros(8, 2, 8), "value": _zeros(8, 2, 8)}, "key is"),
        ({"query": _zeros(9, 32)}, "2 axes"),
        ({"query": _zeros(9, 0, 8)}, "head_count is 0"),
        ({"scale": 0.0}, "scale"),
        ({"scale": -1.0}, "scale"),
        ({"scale": float("nan")}, "scale"),
        ({"scale": 1e-60}, "scale"),
        ({"scale": float("inf")}, "scale"),
        ({"window": -1}, "window"),
        ({"threads": -1}, "threads"),
    ],
)
def test_refused(change, part):
    query, key, value = make(9, 4, 2, 8)
    call = {"query": query, "key": key, "value": value, "cu_seqlens": [0, 4, 9], **change}
    with pytest.raises(warpgroup.ArgumentError) as caught:
        attention_varlen(**call)
    assert part in str(caught.value)


def test_refused_types():
    query, key, value = make(9, 4, 2, 8)
    with pytest.raises(TypeError, match="key is float64"):
        attention_varlen(query, key.astype(np.float64), value, [0, 9])
    wide = np.zeros((4, 2, 513), np.float32)
    with pytest.raises(warpgroup.ArgumentError, match="head_dim is 513"):
        attention_varlen(wide, wide, wide, [0, 4])
    addresses = [array.__array_interface__["data"][0] for array in (query, key, value)]
    with pytest.raises(warpgroup.ArgumentError, match="cu_seqlens is NULL"):
        _core.attention_varlen(*addresses, 0, (32, 8), (16, 8), (16, 8), (32, 8), 0, 1, 4, 2, 8)
    with pytest.raises(OverflowError):
        _core.attention_varlen(-(2**70), 0, 0, 0, (32, 8), (16, 8), (16, 8), (32, 8), 0, 1, 4, 2, 8)
    with pytest.raises(OverflowError):
        _core.attention_varlen(*addresses, 0, (-32, 8), (16, 8), (16, 8), (32, 8), 0, 1, 4, 2, 8)
    with pytest.raises(OverflowError):
        _core.attention_varlen(*addresses, 0, (32, 8), (16, 8), (16, 8), (32, 8), 0, 2**32, 4, 2, 8)


def test_callers_on_threads():
    query, key, value = make(400, 4, 4, 32)
    want = attention_varlen(query, key, value, [0, 100, 400], threads=1).tobytes()
    wrong = []

    def call():
        for _ in range(10):
            if attention_varlen(query, key, value, [0, 100, 400], threads=3).tobytes() != want:
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork():
    query, key, value = make(400, 4, 4, 32)
    want = attention_varlen(query, key, value, [0, 100, 400], threads=3).tobytes()
    child = os.fork()
    if child == 0:
        again = attention_varlen(query, key, value, [0, 100, 400], threads=3).tobytes()
        os._exit(0 if again == want else 1)
    _, state = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(state) == 0
