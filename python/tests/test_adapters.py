# SPDX-License-Identifier: Apache-2.0
"""Adapters over NumPy functions with the signatures of the libraries, which need
not be installed: an adapter moves and renames the same things for these."""
import numpy as np
import pytest

import signatures
import qkvet
from qkvet import adapters

RIGHT = [(signatures.scaled_dot_product_attention, adapters.torch_sdpa),
         (signatures.flash_attn_func, adapters.flash_attn),
         (signatures.flash_attn_varlen_func, adapters.flash_attn_varlen),
         (signatures.dot_product_attention, adapters.jax_dot_product_attention),
         (signatures.time_first, adapters.bthd)]
F32 = {"arrays": "numpy", "dtypes": "f32", "precision": {"preset": "generic"}}


@pytest.mark.parametrize("function,adapter", RIGHT)
def test_a_right_function_conforms(function, adapter):
    report = qkvet.check(function, adapter=adapter, cases=300, **F32)
    assert report.ok, report.text
    assert report.checked > 100


@pytest.mark.parametrize("function,adapter", RIGHT)
def test_the_same_with_half_the_scale_does_not(function, adapter):
    def wrong(q, *others, **words):
        return function(q * np.float32(0.5), *others, **words)

    report = qkvet.check(wrong, adapter=adapter, cases=60, isolated=False,
                         diagnose=0, **F32)
    assert report.verdict == "failed", report.text
