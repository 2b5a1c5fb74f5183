# SPDX-License-Identifier: Apache-2.0
"""QKVet checks whether an attention callable computes attention. If it does not,
the report has the smallest failing case and its likely cause.

    import qkvet
    report = qkvet.check(my_attention)
    report.raise_on_failure()

`kernel` declares the inputs of a callable, `adapters` has the signatures of known
libraries, `assert_close` judges one call by the same bound.
"""
from . import adapters, case, dlpack, golden, inspect, trace
from ._program import program
from .call import Reference, assert_close, reference
from .declare import Refused, WrongUse, cache, kernel, layer
from .report import Call, Failure, LawFailed, LawResult, Report
from .run import check, fuzz, replay

__all__ = ["Call", "Failure", "LawFailed", "LawResult", "Reference", "Refused",
           "Report",
           "WrongUse", "adapters", "assert_close", "cache", "case", "check", "dlpack",
           "fuzz", "golden", "inspect",
           "kernel", "laws", "layer", "program", "reference", "replay", "trace"]


def laws(function, **words):
    """Parametrises a test over the laws of a callable (pytest_plugin.py):

        @qkvet.laws(my_attention, dtypes="f32 f16")
        def test_attention(law):
            law.check()
    """
    from .pytest_plugin import laws as parametrise
    return parametrise(function, **words)
