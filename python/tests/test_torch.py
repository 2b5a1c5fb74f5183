# SPDX-License-Identifier: Apache-2.0
"""Modules, gradients and compiled functions of PyTorch."""
import pytest

pytest.importorskip("torch", reason="the package torch is not installed")

import qkvet
import torch_kernels


def test_a_right_function_conforms_with_its_gradient():
    report = qkvet.check(torch_kernels.attention, cases=400)
    assert report.ok, report.text
    assert report.law("backward_agrees_with_oracle").verdict == "passed"


def test_a_module_that_masks_after_the_softmax_is_named():
    report = qkvet.check(torch_kernels.MaskAfterSoftmax, cases=300)
    assert report.failures[0].cause == "mask_after_softmax", report.text


def test_a_gradient_without_delta_is_found():
    report = qkvet.check(torch_kernels.forgets_delta, cases=400, diagnose=0)
    assert report.law("agrees_with_oracle").verdict == "passed", report.text
    assert report.law("backward_agrees_with_oracle").verdict == "failed"


def test_a_scale_that_is_compiled_in_is_found():
    report = qkvet.check(torch_kernels.per_shape, cases=400, diagnose=0)
    assert report.verdict == "failed", report.text
