# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while a callable is judged in this process."""
import os
import signal

import pytest

import kernels
import qkvet


def interrupting(at, times):
    """A callable that is interrupted in one of its calls, so often."""
    calls = []

    def attention(q, k, v):
        calls.append(q.shape)
        if len(calls) == at:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        return kernels.attention(q, k, v)

    return attention, calls


def test_what_was_judged_until_then_is_reported():
    attention, calls = interrupting(at=100, times=1)
    report = qkvet.check(attention, cases=5000)
    assert report.exit_code == 3, report.text
    assert "why         interrupted" in report.text
    assert report.checked > 10 and report.failures == []
    assert len(calls) < 1000


def test_a_failure_before_it_is_reported_and_shrunk():
    def wrong(q, k, v):
        return attention(q, k, v) * 2
    attention, _ = interrupting(at=100, times=1)
    report = qkvet.check(wrong, cases=5000, diagnose=0)
    assert report.verdict == "failed", report.text
    assert "Tq1,Tk1" in report.failures[0].case


def test_the_second_ends_the_call_which_is_no_failure():
    attention, _ = interrupting(at=100, times=2)
    report = qkvet.check(attention, cases=5000)
    assert report.exit_code == 3, report.text
    assert report.failures == []


def test_a_run_that_is_over_catches_nothing():
    assert qkvet.check(kernels.attention, cases=100, isolated=False).ok
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
