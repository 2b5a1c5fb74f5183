# SPDX-License-Identifier: Apache-2.0
"""Wrong returned values of callables, and damage to their process: each is a
verdict with its case, and the run goes on."""
import pytest

import kernels
import qkvet


@pytest.mark.parametrize("isolated", [True, False])
@pytest.mark.parametrize("function,said", [
    (kernels.gives_none, "o is None; expected numpy ["),
    (kernels.gives_double, "o is float64; expected numpy ["),
    (kernels.gives_shape, "o has the shape ["),
    (kernels.gives_input, "o is a view of the input v"),
    (kernels.gives_list, "o is of type builtins.list; expected numpy ["),
    (kernels.writes_input, "ValueError: output array is read-only (kernels.py:"),
    (kernels.raises, "IndexError: tile 3 of 2 (kernels.py:"),
    (kernels.leaves, "SystemExit: 7 (kernels.py:")])
def test_what_is_no_output_is_a_clear_line(function, said, isolated):
    report = qkvet.check(function, cases=60, laws="agrees_with_oracle",
                         isolated=isolated, diagnose=0)
    assert report.verdict == "failed", report.text
    assert said in report.failures[0].actual + report.text
    assert report.failures[0].case


@pytest.mark.parametrize("function,said", [
    (kernels.crashes, "SIGSEGV"), (kernels.exits, "exited with status 3"),
    (kernels.hangs, "no end after")])
def test_what_ends_the_process_is_a_verdict_with_its_case(function, said):
    report = qkvet.check(function, cases=60, laws=["agrees_with_oracle",
                                                   "weights_sum_to_one"],
                         diagnose=0)
    assert report.verdict == "died", report.text
    assert said in report.text
    # The smallest such case has 3 queries; a hang costs seconds and is not
    # shrunk.
    if function is not kernels.hangs:
        assert "Tq3" in report.failures[0].case, report.text
    assert len(report.results) == 2
