# SPDX-License-Identifier: Apache-2.0
import pytest

hypothesis = pytest.importorskip("hypothesis",
                                 reason="the package hypothesis is not installed")

import kernels
import qkvet
from qkvet import strategies

SETTINGS = hypothesis.settings(max_examples=30, deadline=None, database=None,
                               suppress_health_check=list(hypothesis.HealthCheck))


def replayed(function, case):
    return qkvet.replay(case, function, law="agrees_with_oracle", isolated=False)


def test_cases_are_cases():
    @SETTINGS
    @hypothesis.given(strategies.cases(causal=["top_left"]))
    def holds(case):
        replayed(kernels.full, case).raise_on_failure()

    holds()


def test_a_failing_case_is_shrunk():
    @SETTINGS
    @hypothesis.given(strategies.cases())
    def holds(case):
        assert replayed(kernels.forgets_scale, case).ok, case

    with pytest.raises(AssertionError, match=r"Tq1,Tk2"):
        holds()
