# SPDX-License-Identifier: Apache-2.0
"""Adapters of serving libraries, over NumPy functions with their signatures: the
libraries themselves need a device."""
import numpy as np
import pytest

import signatures
import qkvet
from qkvet import adapters

RIGHT = [
    (signatures.single_prefill_with_kv_cache,
     adapters.flashinfer_single_prefill),
    (signatures.single_decode_with_kv_cache, adapters.flashinfer_single_decode),
    (signatures.RaggedPrefill, adapters.flashinfer_batch_prefill),
    (signatures.PagedPrefill, adapters.flashinfer_batch_prefill_paged),
    (signatures.PagedDecode, adapters.flashinfer_batch_decode),
    (signatures.unified_attention, adapters.vllm_unified)]
VLLM = signatures.paged_attention_v1, adapters.vllm_paged_attention
# NumPy on the CPU, whose NaN at hidden keys stays.
F32 = {"arrays": "numpy", "device": "cpu", "dtypes": "f32",
       "precision": {"preset": "generic"}, "masked_nonfinite": "not_ignored"}


def half_scale(function):
    """The same with half the scale."""
    if isinstance(function, type):
        class Wrong(function):
            def member(self, q, k, v):
                return super().member(q * np.float32(0.5), k, v)
        return Wrong
    return lambda q, *others, **words: function(q * np.float32(0.5), *others,
                                                **words)


@pytest.mark.parametrize("function,adapter", [*RIGHT, VLLM])
def test_a_right_function_conforms(function, adapter):
    report = qkvet.check(function, adapter=adapter, cases=150, **F32)
    assert report.ok, report.text
    assert report.checked > 60
    assert report.law("agrees_with_oracle").verdict == "passed"


@pytest.mark.parametrize("function,adapter", RIGHT)
def test_the_same_with_half_the_scale_does_not(function, adapter):
    report = qkvet.check(half_scale(function), adapter=adapter, cases=60,
                         isolated=False, diagnose=0, **F32)
    assert report.verdict == "failed", report.text


def test_a_last_page_that_is_taken_for_a_full_one_is_found():
    report = qkvet.check(signatures.LosesLastPage, cases=60, diagnose=0,
                         laws="agrees_with_oracle",
                         adapter=adapters.flashinfer_batch_prefill_paged, **F32)
    assert report.verdict == "failed", report.text


def test_keys_that_are_read_as_values_lie_are_found():
    report = qkvet.check(signatures.paged_attention_of_rows, cases=60, diagnose=0,
                         laws="agrees_with_oracle",
                         adapter=adapters.vllm_paged_attention, **F32)
    assert report.verdict == "failed", report.text


def test_a_device_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setenv("QKVET_CUDA_DRIVER", "no_such_driver.so")
    report = qkvet.check(signatures.PagedDecode, cases=20, arrays="dlpack",
                         adapter=adapters.flashinfer_batch_decode)
    assert report.verdict == "nothing checked"
    assert any("no CUDA" in one.reason for one in report.results), report.text
