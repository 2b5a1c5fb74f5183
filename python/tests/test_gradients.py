# SPDX-License-Identifier: Apache-2.0
"""Gradients of attention, of a bias and of layers; stages of layers."""
import re

import pytest

import gradients
import qkvet

BACKWARD = "backward_agrees_with_oracle"
LAYER = "layer_backward_agrees_with_oracle"


def test_gradients_by_hand_conform():
    report = qkvet.check(gradients.attention, cases=500)
    assert report.ok, report.text
    assert report.law(BACKWARD).verdict == "passed"


def test_a_gradient_of_the_bias_with_the_wrong_sign_is_found():
    report = qkvet.check(gradients.forgets_sign, cases=250, diagnose=0)
    assert report.law("agrees_with_oracle").verdict == "passed", report.text
    assert report.verdict == "failed"
    assert any("bias" in one.case for one in report.failures), report.text


def test_gradients_of_sinks_conform():
    report = qkvet.check(gradients.with_sink, cases=500)
    assert report.ok, report.text
    assert report.law(BACKWARD).verdict == "passed"


def test_a_gradient_of_the_sinks_of_one_member_is_found():
    report = qkvet.check(gradients.forgets_members, cases=200, laws=BACKWARD,
                         diagnose=0)
    assert report.verdict == "failed", report.text
    assert all("sink" in one.case and "B2" in one.case
               for one in report.failures), report.text


def test_gradients_of_jax_conform():
    pytest.importorskip("jax", reason="the package jax is not installed")
    report = qkvet.check(gradients.of_jax, cases=12, laws=BACKWARD)
    assert report.ok, report.text
    assert report.law(BACKWARD).verdict == "passed"


def test_stages_of_a_layer_conform():
    report = qkvet.check(gradients.staged, cases=200)
    assert report.ok, report.text
    assert report.law("layer_agrees_with_oracle").verdict == "passed"


def test_stages_that_are_not_what_they_say_are_found():
    """y is right, so only the laws that read stages fail, and they name the wrong
    one."""
    report = qkvet.check(gradients.swaps_stages, cases=150, diagnose=0)
    assert report.verdict == "failed", report.text
    assert report.law("layer_agrees_with_oracle").verdict == "failed", report.text
    for one in report.failures:
        assert re.match(r"[qk]\[", one.fields["at"]), one.fields["report"]


def test_gradients_of_a_layer_conform():
    report = qkvet.check(gradients.layer, cases=200)
    assert report.ok, report.text
    assert report.law(LAYER).verdict == "passed"


def test_a_layer_without_the_gradient_of_its_keys_is_found():
    report = qkvet.check(gradients.forgets_keys, cases=200, diagnose=0)
    assert report.law("layer_agrees_with_oracle").verdict == "passed", report.text
    assert report.law(LAYER).verdict == "failed"


def test_gradients_of_a_layer_of_jax_conform():
    pytest.importorskip("jax", reason="the package jax is not installed")
    # Each shape is compiled anew, operator by operator: two are enough.
    for case in ("f32,B2,H2,T3,D8,backward,seed=3",
                 "f32,B1,H4,T5,D8,scale=0.25,backward,seed=4"):
        report = qkvet.replay(case, gradients.layer_of_jax, law=LAYER,
                              isolated=False)
        assert report.ok, report.text


@pytest.mark.parametrize("words,said", [
    ("vjp mask", "gradient: 'mask' behind vjp; allowed: bias, sink"),
    ("numeric", "gradient = 'numeric'; allowed: autograd, vjp, function")])
def test_an_unknown_gradient_is_one_line(words, said):
    with pytest.raises(qkvet.WrongUse, match=said):
        qkvet.check(gradients.attention, cases=1, isolated=False, gradient=words)
