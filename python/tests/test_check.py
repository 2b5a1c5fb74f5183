# SPDX-License-Identifier: Apache-2.0
"""Verdicts on callables, in a worker and in this process."""
import inspect
import json
import re

import numpy as np
import pytest

import kernels
import qkvet
from qkvet import _program

CASES = 200


@pytest.mark.parametrize("isolated", [True, False])
@pytest.mark.parametrize("function", [kernels.attention, kernels.full])
def test_right_attention_conforms(function, isolated):
    report = qkvet.check(function, cases=CASES, isolated=isolated)
    assert report.verdict == "conforms", report.text
    assert report.checked > CASES / 4
    assert report.failures == []
    assert report.raise_on_failure() is report
    assert report.law("weights_sum_to_one").verdict == "passed"


@pytest.mark.parametrize("isolated", [True, False])
def test_a_forgotten_scale_is_found_shrunk_and_named(isolated):
    report = qkvet.check(kernels.forgets_scale, cases=CASES, isolated=isolated)
    assert report.verdict == "failed"
    with pytest.raises(qkvet.LawFailed, match="scale"):
        report.raise_on_failure()
    first = report.failures[0]
    assert first.cause == "no_scale", report.text
    assert first.certainty == "sure"
    assert first.error_over_bound > 1


def test_a_row_that_sees_the_next_key_is_found():
    report = qkvet.check(kernels.sees_next, cases=CASES,
                         laws=["agrees_with_oracle", "future_weights_are_zero"])
    assert not report.ok
    assert report.failures[0].cause == "one_ahead", report.text
    assert any(one.law == "future_weights_are_zero" for one in report.failures)


def test_a_failing_call_is_at_hand_as_arrays():
    failure = qkvet.check(kernels.forgets_scale, cases=CASES, diagnose=0,
                          laws="agrees_with_oracle").failures[0]
    call = failure.call
    o = kernels.forgets_scale(call.q, call.k, call.v)
    np.testing.assert_array_equal(o, call.o)
    off = np.abs(call.o.astype(np.float64) - call.expected["o"])
    assert (off > call.bound["o"]).any()


def test_a_failing_call_is_made_again_wherever_the_module_lies(tmp_path,
                                                                monkeypatch):
    (tmp_path / "far_away.py").write_text(
        "from kernels import forgets_scale as other\n"
        "def wrong(q, k, v):\n    return other(q, k, v)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import far_away
    failure = qkvet.check(far_away.wrong, cases=60, diagnose=0,
                          laws="agrees_with_oracle").failures[0]
    assert failure.call.o.shape == failure.call.expected["o"].shape


def test_a_closure_runs_in_this_process():
    seen = []

    def closure(q, k, v):
        seen.append(q.shape)
        return kernels.attention(q, k, v)

    report = qkvet.check(closure, cases=50)
    assert report.ok, report.text
    assert len(seen) > 50
    with pytest.raises(qkvet.WrongUse, match="a worker cannot import it"):
        qkvet.check(closure, cases=50, isolated=True)


def test_one_head_of_keys_for_all_queries_and_values_narrower_than_keys():
    words = {"pin": "Hkv=1,d=24,dv=16", "cases": CASES}
    report = qkvet.check(kernels.latent, **words)
    assert report.ok, report.text
    assert report.law("agrees_with_oracle").checked > 0
    wrong = qkvet.check(kernels.latent_of_keys, laws="agrees_with_oracle",
                        diagnose=0, **words)
    assert "Hkv1" in wrong.failures[0].case or "H1," in wrong.failures[0].case
    assert "d24,dv16" in wrong.failures[0].case, wrong.text


def test_many_refused_calls_are_neither_failure_nor_pass():
    report = qkvet.check(kernels.refuses_long, cases=CASES, verbose=True)
    assert report.verdict == "incomplete", report.text
    assert "more than 5 keys" in report.text
    assert report.refused > report.checked / 4
    assert "declare what it refuses" in report.text
    assert not report.failures


def test_few_refused_calls_are_a_pass_and_are_counted():
    report = qkvet.check(kernels.refuses_a_few, cases=CASES)
    assert report.ok, report.text
    assert 0 < report.refused < report.checked / 4


@pytest.mark.parametrize("words", [{}, {"strict": True}])
def test_values_decide_no_refusal(words):
    report = qkvet.check(kernels.refuses_where_it_is_wrong, cases=CASES,
                         diagnose=0, **words)
    assert report.verdict == "failed", report.text
    assert report.law("refusals_depend_on_form").verdict == "failed"
    assert report.refused > report.checked


def test_scores_that_are_infinite_in_base_2_are_no_failure():
    report = qkvet.check(kernels.in_base_2, cases=CASES, laws="future_weights_are_zero")
    assert report.ok, report.text


def test_bf16_goes_in_and_out():
    pytest.importorskip("ml_dtypes")
    report = qkvet.check(kernels.bf16, cases=CASES)
    assert report.ok, report.text


@pytest.mark.parametrize("words,said", [
    ({"options": "caus"}, '"caus": allowed: causal_top_left'),
    ({"like": "torch"}, '"torch" is no convention'),
    ({"dtypes": "f33"}, '"f33": allowed: a storage type'),
    ({"colour": "red"}, "unknown field"),
    ({"paths": "Tk=-64"}, '"Tk=-64": allowed: Tq Tk d dv B H, each with ='),
    ({"paths": ["Tk=64"] * 17}, "more than 16 paths"),
    ({"widths": "64/0"}, '"64/0": a width is a positive number, or two'),
    ({"widths": "64/32"}, "widths[0] has dv = 32, and VALUE_WIDTH is not"),
    ({"h": "min 9 max 12 multiple 8"}, "h cannot keep the rule min 9"),
    ({"arrays": "tensorflow"}, "arrays = 'tensorflow'; allowed: numpy"),
    ({"precision": {"preset": "fast"}}, '"fast": allowed: generic cpu_f32'),
    ({"sizes": "huge"}, "huge"),
    ({"gradient": "numeric"}, "gradient = 'numeric'; allowed: autograd"),
])
@pytest.mark.parametrize("isolated", [True, False])
def test_an_unknown_word_is_one_line(words, said, isolated):
    with pytest.raises(qkvet.WrongUse) as wrong:
        qkvet.check(kernels.attention, cases=1, isolated=isolated, **words)
    assert said in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_the_target_of_fuzz_is_one():
    default = inspect.signature(qkvet.fuzz).parameters["target"].default
    _, text, _ = _program.run(["explain", "fuzz", "--json"])
    assert default in [json.loads(line)["name"] for line in text.splitlines()]


@pytest.mark.parametrize("target,said", [
    ("no_such_module:f", "No module named 'no_such_module'"),
    ("kernels:none", "kernels has no none"),
    ("kernels", "allowed: MODULE:NAME")])
def test_a_target_that_is_not_there_is_one_line(target, said):
    with pytest.raises(qkvet.WrongUse) as wrong:
        qkvet.check(target, cases=1)
    assert said in str(wrong.value)


@pytest.mark.parametrize("isolated", [True, False])
def test_a_mistake_at_a_border_is_found_where_it_is_declared(isolated):
    def verdict(**words):
        return qkvet.check(kernels.loses_rest_behind_odd_border, cases=600,
                           laws=["agrees_with_oracle"], isolated=isolated,
                           diagnose=0, **words).verdict
    assert verdict(hints=False) == "conforms"
    assert verdict(hints=False, paths="Tk=48 Tk=777") == "failed"


def test_a_mistake_at_a_number_of_the_file_is_found():
    report = qkvet.check(kernels.loses_rest_behind_odd_border, cases=600,
                         laws=["agrees_with_oracle"], diagnose=0, verbose=True)
    assert report.verdict == "failed"
    # Lines of the function only.
    lines = set(re.findall(r"from the source, line (\d+)", report.text))
    own, first = inspect.getsourcelines(kernels.loses_rest_behind_odd_border)
    assert "=777, from the source, line" in report.text
    assert all(first <= int(line) < first + len(own) for line in lines)


def test_laws_by_name_and_seed():
    one, again = (qkvet.check(kernels.forgets_scale, laws=["agrees_*"], cases=100,
                              seed=3, diagnose=0) for _ in range(2))
    assert {law.law for law in one.results} == {"agrees_with_oracle"}
    assert one.failures[0].case == again.failures[0].case
    with pytest.raises(qkvet.WrongUse, match="no_such_law"):
        qkvet.check(kernels.attention, laws="no_such_law")


def test_replay_shows_the_same_failure():
    failure = qkvet.check(kernels.forgets_scale, cases=CASES, diagnose=0,
                          laws="agrees_with_oracle").failures[0]
    for isolated in (True, False):
        again = qkvet.replay(failure.case, kernels.forgets_scale,
                             law=failure.law, isolated=isolated)
        assert again.verdict == "failed"
        assert failure.actual in again.text
        assert qkvet.replay(failure.case, kernels.attention, law=failure.law,
                            isolated=isolated).ok
