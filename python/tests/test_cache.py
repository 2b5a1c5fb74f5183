# SPDX-License-Identifier: Apache-2.0
"""Objects that are KV caches."""
import kernels
import qkvet


def test_a_right_cache_conforms():
    report = qkvet.check(kernels.Cache, cases=400)
    assert report.ok, report.text
    assert report.law("cache_decode_equals_prefill").verdict == "passed"


def test_a_reset_that_keeps_a_token_is_found():
    report = qkvet.check(kernels.KeepsOnReset, cases=300)
    assert report.verdict == "failed", report.text
    assert report.failures[0].cause, report.text
