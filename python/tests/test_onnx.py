# SPDX-License-Identifier: Apache-2.0
"""The operator Attention of ONNX, computed by its own reference and by ONNX
Runtime."""
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import qkvet
from qkvet import adapters


def check(make_session, **words):
    return qkvet.check(make_session, adapter=adapters.onnx_attention,
                       **{"cases": 150, "diagnose": 0, **words})


def reference(model):
    from onnx.reference import ReferenceEvaluator
    return ReferenceEvaluator(model)


def runtime(model):
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="the package onnxruntime is not installed")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options,
                                        providers=["CPUExecutionProvider"])


class HalfScale:
    """A session that forgets half of each query."""

    def __init__(self, model):
        self.session = reference(model)

    def run(self, outputs, inputs):
        return self.session.run(outputs, {**inputs, "Q": inputs["Q"] / 2})


def test_the_reference_of_onnx_conforms():
    report = check(reference)
    assert report.ok, report.text
    assert report.law("weights_sum_to_one").verdict == "passed"


def test_a_session_that_is_wrong_does_not():
    assert check(HalfScale, cases=60).verdict == "failed"


def test_onnx_runtime_conforms():
    pytest.importorskip("onnxruntime",
                        reason="the package onnxruntime is not installed")
    report = check(runtime)
    assert report.ok, report.text
    assert report.checked > 60
