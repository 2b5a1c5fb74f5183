# SPDX-License-Identifier: Apache-2.0
"""Tensors of a call in any library, and results of any library; also on a device,
with a fake driver (core/testdata/fake_cuda.cpp)."""
import gc
import os
import pathlib

import numpy as np
import pytest

import kernels
import qkvet
from qkvet import arrays, dlpack

FAKE = pathlib.Path(os.environ.get("QKVET_HOME", "")) / "core/testdata/fake_cuda.so"


def lent(array):
    return arrays.framework("dlpack").give(array)


def test_numpy_looks_at_the_memory_itself():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4).swapaxes(1, 2)
    seen = np.from_dlpack(lent(array))
    np.testing.assert_array_equal(seen, array)
    assert np.shares_memory(seen, array)
    assert seen.strides == array.strides


def test_what_is_lent_is_given_back():
    array = np.zeros((2, 2), np.float32)
    seen = np.from_dlpack(lent(array))
    assert len(dlpack._exported) == 1
    capsule = lent(array).__dlpack__(max_version=(1, 0))
    assert len(dlpack._exported) == 2
    del seen, capsule  # one was taken, one was not
    gc.collect()
    assert not dlpack._exported


def test_what_cannot_be_lent_is_a_buffer_error():
    one = lent(np.zeros(2, np.float32))
    for words in ({"stream": 1}, {"copy": True}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            one.__dlpack__(**words)
    assert one.__dlpack__(dl_device=(1, 0), copy=False) is not None


def test_what_comes_back_is_looked_at_where_it_lies():
    array = np.arange(12, dtype=np.int64).reshape(3, 4).T
    seen = arrays.host_array(array)
    assert np.shares_memory(seen, array)
    np.testing.assert_array_equal(seen, array)
    with pytest.raises(TypeError, match="lies on cuda:0; expected memory of the"):
        arrays.host_array(dlpack.Tensor(0, (2,), (1,), np.float32, (2, 32), (2, 0)))


def test_bf16_of_jax_goes_both_ways():
    jax = pytest.importorskip("jax", reason="the package jax is not installed")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.arange(8).astype(ml_dtypes.bfloat16)
    there = jax.dlpack.from_dlpack(lent(array))
    assert there.dtype == jax.numpy.bfloat16
    back = arrays.host_array(there)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


class Lender:
    """An array of an unknown library."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape

    def __dlpack__(self, **words):
        return self.array.__dlpack__(**words)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@qkvet.kernel(arrays="dlpack")
def lends(q, k, v):
    return Lender(kernels.attention(*map(np.from_dlpack, (q, k, v))))


@qkvet.kernel(arrays="dlpack")
def lends_wrong(q, k, v):
    return Lender(kernels.forgets_scale(*map(np.from_dlpack, (q, k, v))))


@qkvet.kernel(arrays="dlpack")
def lends_input(q, k, v):
    return v if v.shape == q.shape else lends(q, k, v)


def jax_for_numpy(q, k, v):
    import jax
    return jax.numpy.asarray(kernels.attention(q, k, v))


def test_a_callable_of_any_library_is_judged():
    assert qkvet.check(lends, cases=100).ok
    report = qkvet.check(lends_wrong, cases=60, laws="agrees_with_oracle")
    assert report.failures[0].cause == "no_scale", report.text
    report = qkvet.check(lends_input, cases=60, diagnose=0,
                         laws="agrees_with_oracle")
    assert "o is a view of the input v" in report.text


def test_a_numpy_callable_may_return_what_another_library_made():
    pytest.importorskip("jax", reason="the package jax is not installed")
    report = qkvet.check(jax_for_numpy, cases=60)
    assert report.ok, report.text


@pytest.fixture
def fake(monkeypatch):
    if not FAKE.exists():
        pytest.skip("the driver of the tests is not built")
    monkeypatch.setenv("QKVET_CUDA_DRIVER", str(FAKE))


def test_a_callable_on_a_device_is_judged(fake):
    report = qkvet.check("device_arrays:attention", cases=100)
    assert report.ok, report.text
    assert report.law("lse_counts_equal_keys").verdict == "passed"
    wrong = qkvet.check("device_arrays:forgets_scale", cases=60, diagnose=0,
                        laws="agrees_with_oracle")
    assert wrong.verdict == "failed", wrong.text


def test_a_result_is_wanted_on_the_stream_of_the_call(fake):
    import device_arrays
    device_arrays.streams.clear()
    report = qkvet.check(device_arrays.attention, cases=60, isolated=False)
    assert report.ok, report.text
    # The default one, which is 1 in DLPack, and one that QKVet made.
    assert len(set(device_arrays.streams)) == 2 and 1 in device_arrays.streams
    assert None not in device_arrays.streams


def test_a_result_on_the_host_is_one_line(fake):
    report = qkvet.check("device_arrays:stays_on_host", cases=20, diagnose=0,
                         laws="agrees_with_oracle")
    assert "o lies on cpu:0; expected cuda:0" in report.text


@pytest.mark.parametrize("words,said", [
    ({"device": "gpu"}, "device = 'gpu'; allowed: cpu, cuda"),
    ({"device": "cuda"}, 'with arrays = "numpy"')])
def test_a_device_that_cannot_be_is_one_line(words, said):
    with pytest.raises(qkvet.WrongUse, match=said):
        qkvet.check(kernels.attention, cases=1, isolated=False, **words)
