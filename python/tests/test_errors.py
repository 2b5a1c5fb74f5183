# SPDX-License-Identifier: Apache-2.0
"""Mistakes of the caller and errors of the callable: one line each."""
import pytest

import kernels
import qkvet


def two(q, k):
    return q


def wants_training(q, k, v, training):
    return kernels.attention(q, k, v)


def wants_causal(q, k, v, causal):
    return kernels.attention(q, k, v)


@qkvet.kernel(options="mask default_scale")
def wants_mask(q, k, v, mask):
    return kernels.attention(q, k, v)


@qkvet.kernel(options="scale cross_lengths")
def wants_scale(q, k, v, scale):
    return kernels.softmax_values(q @ k.swapaxes(-1, -2) * scale, v)


@qkvet.kernel(options="scale default_scale")
def takes_all(*arrays, **options):
    return kernels.full(*arrays, **options)[0]


number = 3


@pytest.mark.parametrize("isolated", [True, False])
@pytest.mark.parametrize("function,said", [
    (two, "two takes (q, k); expected (q, k, v)"),
    (wants_training, "no call has training: give it a default"),
    (wants_causal, "no call has causal: declare its option"),
    (wants_mask, "some calls have no mask: give it a default"),
    ("test_errors:number", "number is no callable, but of type int")])
def test_another_signature_is_one_line(function, said, isolated):
    if isinstance(function, str) and not isolated:
        function = number
    with pytest.raises(qkvet.WrongUse) as wrong:
        qkvet.check(function, cases=1, **({} if isinstance(function, str) else
                                          {"isolated": isolated}))
    text = str(wrong.value)
    assert "\n" not in text
    assert said in text or not isolated and "no callable" in text


@pytest.mark.parametrize("function", [wants_scale, takes_all])
def test_signatures_that_calls_fit_are_judged(function):
    assert qkvet.check(function, cases=40).ok


@pytest.mark.parametrize("isolated", [True, False])
@pytest.mark.parametrize("function,said", [
    (kernels.gives_none, "returned: o is None; expected numpy ["),
    (kernels.gives_double, "returned: o is float64; expected numpy ["),
    (kernels.gives_shape, "returned: o has the shape ["),
    (kernels.always_raises, "raised IndexError: tile 3 of 2 (kernels.py:")])
def test_an_error_of_every_call_is_one_failure_and_one_line(function, said,
                                                            isolated):
    report = qkvet.check(function, cases=200, isolated=isolated)
    assert report.verdict == "failed"
    assert len(report.failures) == 1, report.text
    assert said in report.text and report.text.count("\n") == 1, report.text
    assert report.failures[0].actual.startswith(said)
    with pytest.raises(qkvet.LawFailed, match="FAILED"):
        report.raise_on_failure()


def test_an_error_of_some_calls_has_a_whole_report():
    report = qkvet.check(kernels.raises, cases=100, diagnose=0)
    assert len(report.failures) > 1
    assert "raised IndexError: tile 3 of 2" in report.text
    assert "passed" in report.text
