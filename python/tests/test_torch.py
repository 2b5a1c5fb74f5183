# SPDX-License-Identifier: Apache-2.0
"""Functions, modules, gradients, layers and caches of PyTorch, right and wrong,
and wrong returned values. In this process, except for those that end it or that
need a worker: a worker imports PyTorch anew."""
import os
import signal

import pytest

torch = pytest.importorskip("torch", reason="the package torch is not installed")

import numpy as np

import qkvet
from qkvet import adapters, arrays
import torch_kernels

SDPA = torch.nn.functional.scaled_dot_product_attention
AGREES = "agrees_with_oracle"


def check(function, **words):
    return qkvet.check(function, **{"isolated": False, "cases": 150,
                                    "diagnose": 0, **words})


# ---- PyTorch's own ----------------------------------------------------------


def test_scaled_dot_product_attention_conforms():
    report = check(SDPA, adapter=adapters.torch_sdpa, cases=150, dtypes="f32",
                   flags="bias_or_causal positive_scale")
    # On the CPU, PyTorch 2.15 answers 0 for a query that is NaN, with a few
    # keys.
    q, k = torch.full((1, 1, 1, 2), torch.nan), torch.zeros(1, 1, 2, 2)
    lost = set() if SDPA(q, k, k).isnan().any() else {"nan_reaches_its_row"}
    assert {one.law for one in report.failures} <= lost, report.text
    assert report.checked > 100
    assert report.law("future_weights_are_zero").verdict == "passed"


@pytest.mark.filterwarnings("ignore")  # that it is not compiled
def test_flex_attention_conforms():
    from torch.nn.attention.flex_attention import flex_attention
    # PyTorch 2.6 takes only widths that are powers of two from 16 to 512.
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    widths, cases = ("min 1", 120) if version > (2, 6) else ("min 16 max 16", 240)
    report = check(flex_attention, adapter=adapters.flex_attention, dtypes="f32",
                   d=widths, dv=widths, cases=cases)
    assert report.ok, report.text
    assert report.law(AGREES).checked > 0


@pytest.mark.parametrize("wrong,law", [
    (lambda q, *others, **words: SDPA(q * 0.5, *others, **words), AGREES),
    (lambda q, k, v, is_causal=False, **words: SDPA(q, k, v, **words),
     "future_weights_are_zero")])
def test_a_call_of_it_that_is_wrong_is_found(wrong, law):
    report = check(wrong, adapter=adapters.torch_sdpa, dtypes="f32", cases=100,
                   laws=law, flags="bias_or_causal positive_scale")
    assert report.verdict == "failed", report.text
    assert report.failures[0].law == law


# ---- Modules, gradients, layers, caches -------------------------------------


def test_a_right_function_conforms_with_its_gradient():
    report = qkvet.check(torch_kernels.attention, cases=200)  # in workers
    assert report.ok, report.text
    assert report.law("backward_agrees_with_oracle").verdict == "passed"


@pytest.mark.parametrize("function,cause,laws", [
    (torch_kernels.MaskAfterSoftmax, "mask_after_softmax", None),
    (torch_kernels.sees_next, "one_ahead", None)])
def test_a_mask_that_is_wrong_is_named(function, cause, laws):
    report = check(function, diagnose=1, laws=laws)
    assert report.failures[0].cause == cause, report.text


def test_a_lost_key_is_found_at_the_smallest_length():
    report = check(torch_kernels.loses_key, laws=AGREES)
    assert report.verdict == "failed", report.text
    assert "Tq1,Tk17" in report.failures[0].case, report.text


def test_a_gradient_without_delta_is_found():
    report = check(torch_kernels.forgets_delta, cases=200)
    assert report.law(AGREES).verdict == "passed", report.text
    assert report.law("backward_agrees_with_oracle").verdict == "failed"


def test_a_scale_that_is_compiled_in_is_found():
    report = check(torch_kernels.per_shape, cases=300)
    assert report.verdict == "failed", report.text


def test_a_layer_conforms_with_its_gradient():
    report = check(torch_kernels.layer)
    assert report.ok, report.text
    assert report.law("layer_backward_agrees_with_oracle").verdict == "passed"


def test_a_layer_that_detaches_its_keys_is_found():
    report = check(torch_kernels.detaches_keys)
    assert report.law("layer_agrees_with_oracle").verdict == "passed", report.text
    assert "returned: d_w_k is None" in report.failures[0].actual, report.text


def test_a_cache_conforms():
    report = check(torch_kernels.Cache, cases=300)
    assert report.ok, report.text
    assert report.law("cache_decode_equals_prefill").verdict == "passed"


def test_a_fork_that_shares_values_is_found():
    report = check(torch_kernels.ForksByReference, cases=300)
    assert report.verdict == "failed", report.text
    assert report.law("cache_forks_are_independent").verdict == "failed"
    assert report.law("cache_reset_forgets").verdict == "passed", report.text


# ---- Tensors ----------------------------------------------------------------


@pytest.mark.parametrize("name,said", [
    ("gives_none", "o is None; expected torch ["),
    ("gives_double", "o is float64; expected torch ["),
    ("gives_bf16", "o is bfloat16; expected torch ["),
    ("gives_numpy", "o is of type numpy.ndarray; expected torch ["),
    ("gives_shape", "o has the shape ["),
    ("gives_meta", "o lies on meta; expected memory of the host"),
    ("gives_sparse", "o has the layout torch.sparse_coo; expected torch.strided"),
    ("gives_view", "o is a view of the input v"),
    ("writes_input", "wrote the input q"),
    ("raises", "ValueError: tile 3 of 2 (torch_kernels.py:")])
def test_what_is_no_output_is_a_clear_line(name, said):
    if name == "gives_bf16":
        pytest.importorskip("ml_dtypes")
    report = check(getattr(torch_kernels, name), cases=40, laws=AGREES)
    assert report.verdict == "failed", report.text
    assert said in report.failures[0].actual, report.text


def test_a_write_to_an_input_is_seen_by_the_worker():
    report = qkvet.check(torch_kernels.writes_input, cases=3, laws=AGREES,
                         diagnose=0)
    assert report.verdict == "failed", report.text
    assert "WRITE of q" in report.failures[0].actual, report.text
    assert report.checked == 3


def test_tensors_look_at_the_memory_of_the_call():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4).swapaxes(1, 2)
    given = arrays.framework("torch").give(array)
    assert given.data_ptr() == array.ctypes.data
    assert given.stride() == tuple(stride // 4 for stride in array.strides)
    lent = torch.from_dlpack(arrays.framework("dlpack").give(array))
    assert lent.data_ptr() == array.ctypes.data
    back = arrays.framework("torch").take(given.requires_grad_())
    assert back.ctypes.data == array.ctypes.data


def test_bf16_goes_both_ways_without_a_copy():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.arange(8).astype(ml_dtypes.bfloat16)
    for name in ("torch", "dlpack"):
        taker = arrays.framework(name)
        there = taker.give(array)
        if name == "dlpack":
            there = torch.from_dlpack(there)
        assert there.dtype == torch.bfloat16
        assert there.data_ptr() == array.ctypes.data
        back = taker.take(there)
        assert back.dtype == array.dtype
        assert back.ctypes.data == array.ctypes.data
    report = check(torch_kernels.by_dlpack, cases=60)
    assert report.ok, report.text


def test_copies_lie_as_the_arrays_do():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4).swapaxes(0, 2)[::2]
    copy = arrays.twin(array)
    np.testing.assert_array_equal(copy, array)
    assert copy.strides == array.strides
    assert not np.shares_memory(copy, array)


def test_one_call_is_close():
    q, k, v = torch.randn(3, 2, 4, 9, 16, generator=torch.manual_seed(1))
    assert qkvet.assert_close(SDPA(q, k, v), q, k, v).ok
    with pytest.raises(qkvet.LawFailed):
        qkvet.assert_close(SDPA(q, k, v, is_causal=True), q, k, v)


def test_an_interrupt_gives_what_was_judged_until_then():
    calls = []

    @qkvet.kernel(arrays="torch")
    def interrupted(q, k, v):
        calls.append(1)
        if len(calls) == 100:
            os.kill(os.getpid(), signal.SIGINT)
        return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v

    report = qkvet.check(interrupted, cases=5000)
    assert report.exit_code == 3, report.text
    assert report.checked > 10 and len(calls) < 1000
