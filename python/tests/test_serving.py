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
LISTED = ("scale default_scale lse grouped_heads value_width cross_lengths "
          "lengths paged values_in_keys key_lists")
# NumPy on the CPU, which keeps NaN at hidden keys.
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


# One latent head, and rows of 576 numbers, with values in the first 512.
MLA = {**F32, "cases": 60, "group": "max 8", "d": "min 576 max 576",
       "precision": {"preset": "generic"}}


def test_the_latent_cache_is_given_as_it_lies():
    for function, adapter, more in (
            (signatures.flash_mla_sparse_fwd, adapters.flash_mla, {}),
            (signatures.flash_mla_with_kvcache, adapters.flash_mla_decode, {}),
            (signatures.flash_mla_with_kvcache, adapters.flash_mla_decode,
             {"options": LISTED})):
        laws = ["agrees_with_oracle", "listed_order_changes_nothing"]
        report = qkvet.check(function, adapter=adapter, pin="H=2,Hkv=1", laws=laws,
                             **{**MLA, **more})
        # Sparse calls without lists are refused, which no declaration can
        # express.
        sparse = function is signatures.flash_mla_sparse_fwd
        assert report.verdict == ("incomplete" if sparse else "conforms"), report.text
        assert report.law("agrees_with_oracle").verdict == "passed", report.text
        assert report.checked > 20, report.text


def test_values_from_the_end_of_a_latent_row_are_found():
    report = qkvet.check(signatures.flash_mla_of_last_channels, diagnose=0,
                         laws="agrees_with_oracle", pin="H=2,Hkv=1",
                         adapter=adapters.flash_mla_decode, **MLA)
    assert report.verdict == "failed", report.text


def test_a_device_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setenv("QKVET_CUDA_DRIVER", "no_such_driver.so")
    report = qkvet.check(signatures.PagedDecode, cases=20, arrays="dlpack",
                         adapter=adapters.flashinfer_batch_decode)
    assert report.verdict == "nothing checked"
    assert any("no CUDA" in one.reason for one in report.results), report.text
