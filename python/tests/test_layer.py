# SPDX-License-Identifier: Apache-2.0
"""Callables that are attention layers."""
import kernels
import qkvet


def test_a_right_layer_conforms():
    report = qkvet.check(kernels.layer, cases=300)
    assert report.ok, report.text
    assert report.law("every_bias_counts").verdict == "passed"
    assert report.law("layer_agrees_with_oracle").verdict == "passed"


def test_heads_that_are_merged_without_a_swap_are_found():
    report = qkvet.check(kernels.forgets_to_swap, cases=300)
    assert report.verdict == "failed", report.text
    assert report.failures[0].cause, report.text
