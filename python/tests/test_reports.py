# SPDX-License-Identifier: Apache-2.0
"""Other parts of a report: JSON, files for CI, assumed conventions."""
import json
import time

import pytest

import kernels
import qkvet


@pytest.mark.parametrize("isolated", [True, False])
def test_a_report_is_json(isolated):
    report = qkvet.check(kernels.forgets_scale, cases=60, diagnose=0,
                         laws="agrees_with_oracle", isolated=isolated)
    read = json.loads(report.to_json())
    assert read["verdict"] == "failed" and read["exit_code"] == 1
    law, = read["results"]
    assert law["law"] == "agrees_with_oracle"
    assert law["failure"]["case"] == report.failures[0].case
    assert json.loads(qkvet.Report(0, "", []).to_json())["results"] == []


@pytest.mark.parametrize("isolated", [True, False])
def test_files_for_ci(tmp_path, isolated):
    names = {word: tmp_path / f"run.{word}" for word in ("junit", "sarif", "html")}
    report = qkvet.check(kernels.forgets_scale, cases=60, diagnose=0,
                         laws="agrees_with_oracle", isolated=isolated, **names)
    assert report.verdict == "failed"
    assert "<testsuite" in names["junit"].read_text()
    assert json.loads(names["sarif"].read_text())["runs"][0]["results"]
    assert "agrees_with_oracle" in names["html"].read_text()


def test_failures_of_a_baseline_are_accepted(tmp_path):
    record = tmp_path / "old.jsonl"
    words = {"cases": 100, "diagnose": 0}
    old = qkvet.check(kernels.forgets_scale, record=record, **words)
    assert old.verdict == "failed"
    assert qkvet.check(kernels.forgets_scale, baseline=record, **words).ok
    with pytest.raises(qkvet.WrongUse, match="baseline: only for callables"):
        qkvet.check(kernels.forgets_scale, baseline=record, isolated=False, **words)


def test_conventions_that_are_assumed_are_named():
    report = qkvet.check(kernels.lse_in_base_2, cases=100)
    assert report.ok
    assert report.assumed == {"lse_base": "base2", "empty_row": "mean"}
    assert json.loads(report.to_json())["assumed"] == report.assumed
    verdict = report.text[report.text.index("PASSED"):].split("exit 0")[0]
    assert "assumed lse_base = base2, empty_row = mean;" in " ".join(verdict.split())
    declared = qkvet.check(kernels.lse_in_base_2, cases=100, **report.assumed)
    assert declared.ok and declared.assumed == {}
    wrong = qkvet.check(kernels.lse_in_base_2, cases=100, lse_base="natural")
    assert wrong.verdict == "failed"


def test_the_declared_style_of_rotation_is_drawn():
    report = qkvet.check(kernels.rotates_halves, cases=200, verbose=True)
    assert report.ok, report.text
    assert "interleaved rotations (declared as refused)" in " ".join(
        report.text.split())


def test_a_replayed_case_has_results():
    case = "f32,B1,H1,Tq2,Tk1,d1,causal=br,seed=0"
    for isolated in (True, False):
        report = qkvet.replay(case, kernels.causal_at_the_end, isolated=isolated)
        assert report.raise_on_failure() is report
        assert report.law("agrees_with_oracle").verdict == "passed"


@pytest.mark.parametrize("function", [
    kernels.forgets_scale, kernels.always_raises, kernels.always_crashes,
    kernels.always_sleeps])
def test_fail_fast_waits_for_little(function):
    """A sleeping callable is ended after seconds; the timeout of a whole run is a
    minute and a half."""
    begun = time.monotonic()
    report = qkvet.check(function, fail_fast=True)
    assert report.verdict in ("failed", "died")
    assert time.monotonic() - begun < 60
